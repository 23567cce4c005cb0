"""The host of a compile, over real pipes: calls of plugins."""

from __future__ import annotations

import os
import unittest

from steward_host import msgpack
from tests.support import Compiling, Ext, UNKNOWN, instance, sent_back


PLUGINS = """
    import logging
    from inmanta.plugins import plugin, Context, PluginException, allow_reference_values
    from inmanta.ast import CompilerException, RuntimeException, MultiUnsetException, UnsetException
    from inmanta.execute.util import Unknown
    from inmanta.execute.proxy import DynamicProxy
    from inmanta.references import Reference, reference

    @plugin
    def add(a: "int", b: "int" = 2, *more: "int", c: "int" = 0) -> "int":
        return a + b + sum(more) + c

    @plugin
    def same(value: "any") -> "any":
        return value

    @plugin
    def odd() -> "any":
        return {"tuple": (1, 2), "bytes": b"x", "set": {1}, "fine": [1]}

    @plugin
    def shown(value: "any") -> "any":
        return {key: str(value[key]) for key in value}

    @plugin
    def text_of(value: "any") -> "string":
        return str(value)

    @plugin
    def kinds(value: "any") -> "list":
        return [type(value).__name__, *([type(v).__name__ for v in value] if isinstance(value, (list, tuple)) or hasattr(value, "__iter__") else [])]

    @plugin
    def name_of(o: "net::Port") -> "string":
        return o.name

    @plugin
    def both(a: "any", b: "any") -> "any":
        variables = []
        for proxy in (a, b):
            try:
                proxy.name
            except UnsetException as error:
                variables.append(error.get_result_variable())
        if variables:
            raise MultiUnsetException("wait", variables)
        return a.name + b.name

    @plugin
    def default(o: "net::Port") -> "any":
        return [hasattr(o, "nothing"), getattr(o, "nothing", "dflt")]

    @plugin
    def caught(o: "net::Port") -> "string":
        try:
            return o.nothing
        except CompilerException:
            return "an error of the compiler"
        except AttributeError:
            return "an error of Python"

    class Mine(PluginException):
        def __init__(self):
            super().__init__("my message")

    @plugin
    def fail(how: "string") -> "any":
        if how == "plugin":
            raise Mine()
        if how == "compile":
            raise RuntimeException(None, "not so")
        if how == "of no model":
            from inmanta.ast import CompilerException
            raise CompilerException("not so")
        if how == "exit":
            raise SystemExit(3)
        if how == "interrupt":
            raise KeyboardInterrupt()
        if how == "end":
            raise GeneratorExit()
        if how == "keys":
            return {1: 2}
        return {}["nothing"]

    @plugin
    def context(ctx: Context, x: "any" = None) -> "list":
        import os
        return [
            ctx.get_environment_id(), os.path.basename(ctx.get_data_dir()), ctx.owner.namespace.get_full_name(),
            str(ctx.owner.location), sorted(ctx.get_compiler().get_plugins())[0],
            ctx.get_type("net::Port").get_full_name(), x,
        ]

    @plugin
    def soon(ctx: Context) -> "any":
        async def later():
            return "done"
        return ctx.run_sync(later)

    @plugin
    def late(ctx: Context) -> "any":
        import asyncio
        return ctx.run_sync(lambda: asyncio.sleep(5), timeout=0.01)

    @plugin
    def unknown() -> "any":
        return Unknown(source="x")

    @plugin(allow_unknown=True)
    def takes_unknown(value: "any") -> "bool":
        return isinstance(value, Unknown)

    @plugin
    def fields(o: "net::Port") -> "list":
        entity = o._type()
        return [str(entity), entity.get_all_attribute_names(), str(entity.get_attribute("ports").type), entity.get_all_parent_names()]

    @plugin
    def write(o: "net::Port") -> "any":
        o.name = "x"

    @plugin
    def loud() -> "any":
        import sys, os
        print("x" * 300000)
        sys.stdout.write("more")
        os.write(1, b"raw")
        os.system("echo from a child")
        return sys.stdin.read()

    @plugin
    def log() -> "any":
        logging.getLogger("mine").warning("look %s", "here")

    @plugin
    def threaded(o: "net::Port") -> "any":
        import threading
        names = []
        threads = [threading.Thread(target=lambda: names.append(o.name)) for _ in range(8)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        return len(names)

    @reference("net::Secret")
    class Secret(Reference[str]):
        def __init__(self, key: "str | Reference[str]") -> None:
            super().__init__()
            self.key = key
        def resolve(self, logger):
            return "s3cr3t"

    @plugin
    def secret(key: "string") -> "any":
        return Secret(key)

    @plugin
    def secret_of(key: "any") -> "any":
        return Secret(key)

    @reference("net::Own")
    class Own(Secret):
        def serialize(self):
            return super().serialize()

    @plugin
    def own_secret(key: "string") -> "any":
        return Own(key)

    @plugin
    def secrets() -> "any":
        return [Secret("a"), [Secret("b")]]

    @plugin
    def plain(value: "string") -> "any":
        return str(value)

    @plugin
    def takes_reference(value: str | Reference[str]) -> "any":
        return isinstance(value, Reference)

    @plugin
    def truth(value: str | Reference[str]) -> "any":
        return bool(value)

    @plugin
    def first(values: "any") -> "any":
        return values[0].key

    @plugin
    def same(value: str | Reference[str]) -> "any":
        return value

    @plugin
    def of_attribute(port: "net::Port") -> "any":
        return port.secret.key

    @plugin
    def allowed(port: "net::Port") -> "any":
        return allow_reference_values(port).secret.key

    @plugin
    def deep(port: "net::Port") -> "any":
        return allow_reference_values(port).other.secret.key

    @plugin
    def patched(o: "net::Port") -> "any":
        original = DynamicProxy._return_value
        DynamicProxy._return_value = lambda self, value, *, relative_path: ("patched", relative_path)
        try:
            inside = o.name
        finally:
            DynamicProxy._return_value = original
        return [list(inside), o.name]

    @plugin
    def through(ctx: Context, name: "string") -> "any":
        found = ctx.get_compiler().get_plugins()[name]
        return found(3) if name == "net::add" else found("x")

    @plugin
    def in_context(ctx: Context) -> "any":
        import inmanta.ast
        from inmanta.plugins import CheckedArgs
        found = ctx.get_compiler().get_plugins()["net::context"]
        args = ["x"]
        args.insert(found._context, ctx)
        checked = CheckedArgs(args=args, kwargs={}, unknowns=False)
        return found.call_in_context(checked, ctx.resolver, ctx.queue, inmanta.ast.Range("f", 0, 0, 0, 0))[-1]

    @plugin
    def replaced() -> "any":
        return "original"

    replaced.__plugin__.call = lambda self, *args, **kwargs: "replaced"
"""


class Calls(Compiling):
    def setUp(self) -> None:
        self.net = self.host(("net", PLUGINS), environment_id="6f4c2a39-2f3e-4f8d-9d1a-2b8f5a8d7a11")

    def check(self, expected: object, plugin: str, *args: object, **kwargs: object) -> None:
        self.assertEqual(self.net.call(f"net::{plugin}", *args, **kwargs), ("result", expected))

    def failure(self, plugin: str, *args: object) -> dict:
        name, failure = self.net.call(f"net::{plugin}", *args)
        self.assertEqual(name, "failed")
        return failure

    def test_arguments_of_all_kinds(self) -> None:
        self.check(3, "add", 1)
        self.check(10, "add", 1, 2, 3, c=4)
        self.check(6, "add", a=1, b=5)

    def test_values_survive_the_way_there_and_back(self) -> None:
        for value in (None, True, 1, 2**70, 1.5, "ä", [1, [2, {}]], {"a": {"b": [None]}}, instance(3, "net::Port")):
            self.check(value, "same", value)

    def test_lists_dicts_and_instances_arrive_as_proxies(self) -> None:
        self.check(["SequenceProxy", "int", "DictProxy", "DynamicProxy"], "kinds", [1, {}, instance(1, "net::Port")])
        self.check(["NoneType"], "kinds", None)

    def test_objects_that_the_model_does_not_know_come_back_as_they_went(self) -> None:
        _, value = self.net.call("net::odd")
        self.assertEqual((value["fine"], {type(value[key]) for key in ("tuple", "bytes", "set")}), ([1], {Ext}))
        self.check({"tuple": "(1, 2)", "bytes": "@b'x'", "set": "@{1}", "fine": "@[1]"}, "shown", sent_back(value))

    def test_a_tuple_of_python_is_no_instance(self) -> None:
        _, value = self.net.call("net::odd")
        tuple_of_python = sent_back(value)["tuple"]
        self.check("(1, 2)", "text_of", tuple_of_python)
        self.assertEqual(self.net.call("net::text_of", value=tuple_of_python), ("result", "(1, 2)"))

    def test_attributes_are_fetched_once(self) -> None:
        self.net.model[3] = {"name": "eth0"}
        self.check("eth0", "name_of", instance(3, "net::Port"))
        self.check("eth0", "name_of", instance(3, "net::Port"))
        self.assertEqual(self.net.asked, [(3, "name")])

    def test_calls_may_be_sent_ahead(self) -> None:
        self.net.model[3] = {"name": "eth0"}
        described = {"plugin": "net::name_of", "kwargs": [], "file": "f", "line": 1, "namespace": "n"}
        for number in (1, 2):
            self.net.send("call", {"id": number, "args": [instance(3, "net::Port")], **described})
        self.assertEqual(self.net.read(), ("get", {"instance": 3, "attribute": "name"}))
        self.net.send("attribute_value", {"outcome": {"value": "eth0"}})
        answers = [self.net.read() for _ in range(2)]
        self.assertEqual(answers, [("result", {"id": number, "value": "eth0"}) for number in (1, 2)])

    def test_an_unset_attribute_leaves_as_unset(self) -> None:
        self.net.model[3] = {"name": lambda: "unset"}
        self.assertEqual(self.net.call("net::name_of", instance(3, "net::Port")), ("unset", [[3, "name"]]))
        self.net.model[3] = {"name": "eth0"}
        self.check("eth0", "name_of", instance(3, "net::Port"))

    def test_an_optional_without_value_is_a_compile_error(self) -> None:
        self.net.model[3] = {"name": lambda: {"optional_unset": "no name"}}
        failure = self.failure("name_of", instance(3, "net::Port"))
        self.assertEqual((failure["kind"], failure["type_name"]), ("compile", "OptionalValueException"))

    def test_an_attribute_that_does_not_exist(self) -> None:
        self.check([False, "dflt"], "default", instance(3, "net::Port"))
        self.check("an error of Python", "caught", instance(3, "net::Port"))
        self.assertEqual(self.failure("name_of", instance(3, "net::Port"))["message"], "no attribute name")

    def test_an_unknown_attribute_makes_the_result_unknown(self) -> None:
        self.net.model[3] = {"name": UNKNOWN}
        self.check(UNKNOWN, "name_of", instance(3, "net::Port"))
        self.check(UNKNOWN, "unknown")
        self.check(True, "takes_unknown", UNKNOWN)

    def test_exceptions_have_their_kind(self) -> None:
        plugin = self.failure("fail", "plugin")
        self.assertEqual((plugin["kind"], plugin["type_name"], plugin["message"]), ("plugin", "inmanta_plugins.net.Mine", "my message"))
        self.assertEqual(self.failure("fail", "compile")["kind"], "compile")
        external = self.failure("fail", "external")
        self.assertEqual((external["kind"], external["type_name"]), ("external", "KeyError"))
        self.assertTrue(external["file"].endswith("net/__init__.py"))
        self.assertIn("in fail", external["traceback"])
        self.assertNotIn("steward_host", external["traceback"])
        mine = self.failure("fail", "of no model")
        self.assertEqual((mine["kind"], mine["type_name"]), ("external", "CompilerException"))
        for how, name in (("exit", "SystemExit"), ("interrupt", "KeyboardInterrupt"), ("end", "GeneratorExit")):
            failure = self.failure("fail", how)
            self.assertEqual((failure["kind"], failure["type_name"]), ("external", name))
        self.check(3, "add", 1)

    def test_only_text_is_a_key_of_a_dict(self) -> None:
        self.assertIn("dict keys should be strings", self.failure("fail", "keys")["message"])

    def test_a_context_knows_its_call(self) -> None:
        self.net.entities["net::Port"] = {"name": "net::Port", "attributes": [], "parents": []}
        environment = "6f4c2a39-2f3e-4f8d-9d1a-2b8f5a8d7a11"
        expected = [environment, "net", "__config__", "./main.cf:3", "net::add", "net::Port", 8]
        self.check(expected, "context", 8)
        self.assertTrue(os.path.isdir(os.path.join(self.path, "data", "net")))

    def test_run_sync_gives_the_result_or_a_refused_connection(self) -> None:
        self.check("done", "soon")
        self.assertEqual(self.failure("late")["type_name"], "ConnectionRefusedError")

    def test_entities_can_be_looked_at(self) -> None:
        plain = {"relation": False, "multi": False, "optional": False, "low": 0, "high": None, "inverse": None}
        self.net.entities["net::Port"] = {
            "name": "net::Port",
            "attributes": [
                {"name": "name", "type_name": "string?", **plain},
                {"name": "ports", "type_name": "net::Port", **plain, "relation": True, "multi": True},
            ],
            "parents": ["std::Entity"],
        }
        self.net.entities["std::Entity"] = {"name": "std::Entity", "attributes": [], "parents": []}
        self.check(["net::Port", ["name", "ports"], "net::Port", ["std::Entity"]], "fields", instance(3, "net::Port"))

    def test_instances_are_read_only(self) -> None:
        self.assertEqual(self.failure("write", instance(3, "net::Port"))["message"], "Readonly object")

    def test_threads_of_a_plugin_may_read_attributes(self) -> None:
        self.net.model[3] = {"name": "eth0"}
        self.check(8, "threaded", instance(3, "net::Port"))

    def test_what_is_printed_stays_off_the_pipe(self) -> None:
        self.check("", "loud")
        self.check(3, "add", 1)
        self.net.close()
        self.assertIn("from a child", self.net.errors)

    def test_log_records_reach_us(self) -> None:
        self.check(None, "log")
        self.assertEqual(self.net.logged, [{"level": "WARNING", "message": "look here"}])

    #: sdk 32
    def test_32_the_truth_of_a_reference_is_not_known(self) -> None:
        _, secret = self.net.call("net::secret", "k")
        self.assertEqual(secret.code, msgpack.EXT_REFERENCE)
        _, kind, cls, of, text, shown, _, _ = msgpack.unpack(secret.payload)[0]
        self.assertEqual((kind, cls, of), ("net::Secret", "inmanta_plugins.net.Secret", "string"))
        self.assertEqual((text, shown), (None, None))
        self.check(True, "takes_reference", sent_back(secret))
        self.assertEqual(self.failure("truth", sent_back(secret))["type_name"], "NotImplementedError")

    def test_equal_references_are_known_as_such(self) -> None:
        made = (self.net.call("net::secret", key)[1] for key in ("k", "k", "l"))
        numbers = [msgpack.unpack(reference.payload)[0] for reference in made]
        self.assertEqual([(parts[0], parts[6]) for parts in numbers], [(0, 0), (1, 0), (2, 2)])

    def test_arguments_of_a_reference_go_along_if_its_exported_form_is_made_of_them(self) -> None:
        _, secret = self.net.call("net::secret", "k")
        self.assertEqual(msgpack.unpack(secret.payload)[0][7], {"key": "k"})
        native = Ext(msgpack.EXT_REFERENCE, msgpack.pack([3, "std::Environment", {"name": "HOME"}]))
        for given in ([1], float("nan"), float("inf")):
            _, secret = self.net.call("net::secret_of", given)
            self.assertIsNone(msgpack.unpack(secret.payload)[0][7])
        _, outer = self.net.call("net::secret_of", native)
        self.assertEqual(list(msgpack.unpack(outer.payload)[0][7]), ["key"])
        _, own = self.net.call("net::own_secret", "k")
        self.assertIsNone(msgpack.unpack(own.payload)[0][7])

    def test_references_of_std_come_with_their_arguments_and_go_back_by_number(self) -> None:
        native = Ext(msgpack.EXT_REFERENCE, msgpack.pack([3, "std::Environment", {"name": "HOME"}]))
        self.check(True, "takes_reference", native)
        _, back = self.net.call("net::same", native)
        self.assertEqual(msgpack.unpack(back.payload)[0], [3])

    #: sdk 33
    def test_33_reference_values_of_instances_are_allowed_directly_only(self) -> None:
        _, values = self.net.call("net::secrets")
        # The compiler has checked the elements of an argument.
        self.check("a", "first", sent_back(values))
        self.net.model[3] = {"secret": sent_back(values[0]), "other": instance(4, "net::Port")}
        self.net.model[4] = {"secret": sent_back(values[0])}
        failure = self.failure("of_attribute", instance(3, "net::Port"))
        self.assertEqual(failure["type_name"], "UnexpectedReference")
        self.assertIn("Encountered at port.secret", failure["message"])
        self.check("a", "allowed", instance(3, "net::Port"))
        self.assertEqual(self.failure("deep", instance(3, "net::Port"))["type_name"], "UnexpectedReference")

    #: sdk 34
    def test_34_the_gate_of_nested_values_can_be_patched(self) -> None:
        self.net.model[3] = {"name": "eth0"}
        self.check([["patched", ".name"], "eth0"], "patched", instance(3, "net::Port"))

    #: sdk 35
    def test_35_several_unset_variables_are_waited_for_at_once(self) -> None:
        one, two = instance(1, "net::Port"), instance(2, "net::Port")
        self.net.model = {1: {"name": lambda: "unset"}, 2: {"name": lambda: "unset"}}
        self.assertEqual(self.net.call("net::both", one, two), ("unset", [[1, "name"], [2, "name"]]))
        self.net.model = {1: {"name": "a"}, 2: {"name": "b"}}
        self.check("ab", "both", one, two)

    #: sdk 36
    def test_36_replacing_call_changes_what_the_model_gets(self) -> None:
        self.check("replaced", "replaced")

    #: sdk 37
    def test_37_plugins_can_be_called_by_name_with_and_without_context(self) -> None:
        self.net.entities["net::Port"] = {"name": "net::Port", "attributes": [], "parents": []}
        self.check(5, "through", "net::add")
        # Who calls one by name gives the Context, too.
        name, body = self.net.call("net::through", "net::context")
        self.assertEqual((name, body["type_name"]), ("failed", "AttributeError"))
        self.check("x", "in_context")


class Dataclasses(Compiling):
    def setUp(self) -> None:
        self.net = self.host(
            (
                "net",
                """
                import dataclasses
                from typing import Annotated
                from inmanta.plugins import ModelType, plugin
                from inmanta.references import Reference

                @dataclasses.dataclass(frozen=True)
                class Address:
                    ip: str
                    ports: "list[int]"
                    name: str | None = None

                @dataclasses.dataclass
                class Changeable:
                    x: int

                @dataclasses.dataclass(frozen=True)
                class Marked:
                    at: "Annotated[str, ModelType['std::date']]"
                    key: bytes
                    many: "list[str | Reference[str]]"

                def Made() -> None:
                    pass

                MADE = []

                @plugin
                def make(ip: str) -> Address:
                    MADE.append(Address(ip, [1]))
                    return MADE[-1]

                @plugin
                def is_made(address: Address) -> bool:
                    return address is MADE[-1]

                @plugin
                def text(address: Address) -> str:
                    return f"{type(address).__name__} {address.ip} {address.ports[0]} {address.name}"
                """,
            )
        )

    def test_frozen_ones_are_described(self) -> None:
        described, changeable, _, made = self.loaded["dataclasses"]
        self.assertEqual((made["entity"], made["problem"]), ("net::Made", "a dataclass"))
        self.assertEqual((described["entity"], described.get("problem")), ("net::Address", None))
        self.assertEqual((changeable["entity"], changeable["problem"]), ("net::Changeable", "frozen"))
        self.assertEqual(
            [(field["name"], field["annotation"]) for field in described["fields"]],
            [
                ("ip", {"model": "string"}),
                ("ports", {"list": {"model": "int"}}),
                ("name", {"union": [{"model": "string"}, "null"]}),
            ],
        )
        self.assertEqual(self.loaded["plugins"][0]["returns"], {"model": "net::Address"})

    def test_types_of_fields_are_those_of_python(self) -> None:
        fields = {field["name"]: field for field in self.loaded["dataclasses"][2]["fields"]}
        self.assertEqual(fields["at"]["annotation"], {"model": "string"})
        self.assertEqual(fields["many"]["annotation"], {"list": {"union": [{"model": "string"}, {"reference": {"model": "string"}}]}})
        self.assertEqual(fields["key"]["annotation"], "any")
        (warning,) = fields["key"]["warnings"]
        self.assertIn("Python type <class 'bytes'> was implicitly cast to 'Any'", warning)

    def test_what_is_unknown_in_part_is_refused(self) -> None:
        self.net.model[3] = {"ip": "::1", "ports": [4, Ext(msgpack.EXT_UNKNOWN, b"")], "name": None}
        kind, error = self.net.call("net::text", instance(3, "net::Address"))
        self.assertEqual((kind, error["type_name"]), ("failed", "PluginTypeException"))
        self.assertIn("Encountered unknown in field 'ports'", error["message"])

    def test_what_a_field_may_not_hold_is_refused(self) -> None:
        self.net.model[3] = {"ip": "::1", "ports": ["a"], "name": None}
        kind, error = self.net.call("net::text", instance(3, "net::Address"))
        self.assertEqual((kind, error["type_name"]), ("failed", "PluginTypeException"))
        self.assertIn("Invalid value 'a', expected int", error["message"])

    def test_one_that_is_returned_travels_with_its_fields(self) -> None:
        _, value = self.net.call("net::make", "::1")
        self.assertEqual(value.code, msgpack.EXT_DATACLASS)
        _, entity, fields, of_reference = msgpack.unpack(value.payload)[0]
        self.assertEqual((entity, fields), ("net::Address", {"ip": "::1", "ports": [1], "name": None}))
        self.assertFalse(of_reference)

    def test_it_comes_back_as_the_object_that_it_was(self) -> None:
        _, value = self.net.call("net::make", "::1")
        number = msgpack.unpack(value.payload)[0][0]
        paired = Ext(msgpack.EXT_DATACLASS, msgpack.pack([number, 9, "net::Address"]))
        self.assertEqual(self.net.call("net::is_made", paired), ("result", True))

    def test_an_instance_arrives_as_one(self) -> None:
        self.net.model[3] = {"ip": "::1", "ports": [4], "name": None}
        self.assertEqual(self.net.call("net::text", instance(3, "net::Address")), ("result", "Address ::1 4 None"))
        self.net.model[4] = {"ip": "::1", "ports": lambda: "unset"}
        self.assertEqual(self.net.call("net::text", instance(4, "net::Address")), ("unset", [[4, "ports"]]))


if __name__ == "__main__":
    unittest.main()
