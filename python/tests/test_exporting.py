"""The host of a compile, over real pipes: getters, dependency managers, forms of resources, finalizers."""

from __future__ import annotations

import os
import tempfile
import unittest

from inmanta.util import hash_file
from steward_host import msgpack
from tests.support import Compiling, UNKNOWN, instance


BASE = {"send_event": False, "receive_events": True, "references": [], "mutators": [], "report_only": False}


class Mapping(Compiling):
    def setUp(self) -> None:
        self.net = self.host(
            (
                "net",
                """
                import datetime, enum, uuid
                from inmanta.resources import resource, Resource, IgnoreResourceException
                from inmanta.references import Reference, reference
                from inmanta.execute.util import Unknown

                class Level(enum.Enum):
                    low = 1

                @reference("net::Secret")
                class Secret(Reference[str]):
                    def __init__(self, key):
                        super().__init__()
                        self.key = key
                        self._hidden = "hidden"
                    def serialize_arguments(self):
                        self.key = self.key.upper()
                        return super().serialize_arguments()

                @resource("net::Port", agent="agent", id_attribute="name")
                class Port(Resource):
                    fields = ("name", "simple", "nested", "upload", "ignored", "broken", "unknown", "partly", "secret", "text", "marked")
                    map = {"simple": lambda exporter, o: o.name + "!", "nested": lambda exporter, o: "never"}
                    @staticmethod
                    def get_nested(exporter, o):
                        return {"t": (1, {2: None}), "u": uuid.UUID(int=1), "l": Level.low, "o": o.list, "d": datetime.datetime(2026, 1, 2)}
                    @staticmethod
                    def get_upload(exporter, o):
                        return [exporter.upload_file("hello"), exporter.upload_file("aaf4c61d", b"hello"), len(exporter._file_store)]
                    @staticmethod
                    def get_marked(exporter, o):
                        return exporter.upload_file(o.text)
                    @staticmethod
                    def get_ignored(exporter, o):
                        raise IgnoreResourceException("not today")
                    @staticmethod
                    def get_broken(exporter, o):
                        return 1 / 0
                    @staticmethod
                    def get_unknown(exporter, o):
                        return o.unknown
                    @staticmethod
                    def get_partly(exporter, o):
                        return [1, Unknown()]
                    @staticmethod
                    def get_secret(exporter, o):
                        return {"plain": 1, "it's": [Secret("a"), Secret("a")]}
                """,
            )
        )
        self.port = instance(4, "net::Port")
        self.net.model[4] = {"name": "eth0", "agent": "a", "list": [1, {"x": None}], "unknown": UNKNOWN, "text": "t"}

    #: sdk 3
    def test_03_a_getter_wins_over_the_map_and_the_map_over_the_attribute(self) -> None:
        name, body = self.net.map(0, self.port, "text", "simple", "nested")
        self.assertEqual(name, "fields_rendered")
        self.assertEqual(body["values"][:2], ["t", "eth0!"])
        nested = body["values"][2]
        self.assertEqual((nested["t"], nested["l"], nested["o"]), ([1, {"2": None}], "low", [1, {"x": None}]))
        self.assertEqual(nested["u"], "00000000-0000-0000-0000-000000000001")
        self.assertEqual(nested["d"], "2026-01-02T00:00:00.000000+00:00")

    #: sdk 7
    def test_07_an_unknown_anywhere_makes_the_field_unknown(self) -> None:
        _, body = self.net.map(0, self.port, "unknown", "partly", "name")
        self.assertEqual(body["values"], [UNKNOWN, UNKNOWN, "eth0"])

    #: sdk 10
    def test_10_the_same_content_is_kept_once(self) -> None:
        _, body = self.net.map(0, self.port, "upload")
        digest = "aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d"
        self.assertEqual(body["values"], [[digest, digest, 1]])

    def test_what_std_file_gives_is_uploaded_as_the_content_of_the_file(self) -> None:
        folder = os.path.join(self.modules.described[0]["root"], "files")
        os.mkdir(folder)
        path = os.path.join(folder, "ä b.txt")
        with open(path, "wb") as file:
            file.write(b"hello")
        self.net.model[4]["text"] = f"imp-module-source:file://{path}"
        _, body = self.net.map(0, self.port, "marked")
        self.assertEqual(body["values"], ["aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d"])

    def test_a_text_that_only_looks_like_a_marker_is_uploaded_as_it_is(self) -> None:
        root = self.modules.described[0]["root"]
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        elsewhere = os.path.join(folder.name, "secret")
        with open(elsewhere, "w", encoding="utf-8") as file:
            file.write("of somebody else")
        paths = ("/nowhere/at/all", elsewhere, os.path.join(root, "files", "nothing"), f"{root}/files/..{'/..' * 30}{elsewhere}")
        for number, path in enumerate(paths, 5):
            marker = f"imp-module-source:file://{path}"
            self.net.model[number] = {**self.net.model[4], "text": marker}
            _, body = self.net.map(0, instance(number, "net::Port"), "marked")
            self.assertEqual(body["values"], [hash_file(marker.encode())], path)

    def test_an_ignored_resource(self) -> None:
        self.assertEqual(self.net.map(0, self.port, "name", "ignored"), ("ignored", {"id": 9, "reason": "not today"}))

    def test_a_getter_that_fails_names_its_field(self) -> None:
        name, body = self.net.map(0, self.port, "name", "broken")
        self.assertEqual((name, body["field"], body["failure"]["type_name"]), ("failed", "broken", "ZeroDivisionError"))

    def test_a_getter_that_waits(self) -> None:
        self.net.model[4]["name"] = lambda: "unset"
        self.assertEqual(self.net.map(0, self.port, "simple"), ("unset", {"id": 9, "variables": [[4, "name"]]}))

    #: sdk 31
    def test_31_references_are_serialized_by_their_overrides(self) -> None:
        _, body = self.net.map(0, self.port, "secret", "name")
        first, second = body["values"][0]["it's"]
        number, equal = (msgpack.unpack(reference.payload)[0] for reference in (first, second))
        self.assertEqual((number[1:], body["values"][1]), (equal[1:], "eth0"))
        number = number[0]
        name, body = self.net.ask("serialize", {"id": 3, "object": number})
        self.assertEqual(name, "serialized")
        (model,) = body["models"]
        self.assertEqual(model["id"], body["reference"])
        self.assertEqual((model["type"], model["args"]), ("net::Secret", [{"type": "literal", "name": "key", "value": "A"}]))


class Dependencies(Compiling):
    CODE = """
        from inmanta.resources import resource, Resource, Id
        from inmanta.export import dependency_manager, unknown_parameters
        from inmanta.ast import UnknownException
        from inmanta.execute.util import Unknown

        @resource("net::Port", agent="agent", id_attribute="name")
        class Port(Resource):
            fields = ("name", "peer")
            @staticmethod
            def get_peer(exporter, o):
                unknown_parameters.append({"resource": "net::Port[a,name=x]", "parameter": "p", "source": "fact"})
                unknown_parameters.append({"parameter": "region", "source": "user"})
                return exporter.upload_file("hello")

        @dependency_manager
        def early(types, resources):
            raise UnknownException(Unknown())

        @dependency_manager
        def peers(types, resources):
            assert "net::Port" in types and "net::Nothing" not in types
            by_name = {resource.name: resource for resource in resources.values()}
            for resource in resources.values():
                how, _, peer = (resource.peer or "").partition(" ")
                if how == "resource":
                    resource.requires.add(by_name[peer])
                elif how == "id":
                    resource.requires.add(Id("net::Port", "a", "name", peer))
                elif how == "text":
                    resource.requires.add(f"net::Port[a,name={peer}],v=3")
                elif how == "number":
                    resource.requires.add(5)
                elif how == "model":
                    resource.requires.add(by_name[resource.model.peer])

        assert isinstance(peers, dependency_manager) and not callable(peers)
    """

    def setUp(self) -> None:
        self.net = self.host(("net", self.CODE))
        self.net.entities["net::Port"] = {"name": "net::Port", "attributes": [], "parents": []}
        self.net.model[5] = {"peer": "z"}

    def assemble(self, **peers: str) -> tuple[str, dict]:
        given = [
            {
                "class": 0,
                "id": f"net::Port[a,name={name}]",
                "instance": instance(5, "net::Port"),
                "attributes": {**BASE, "name": name, "peer": peer},
                "requires": ["net::Port[a,name=z]"] if name == "a" else [],
            }
            for name, peer in peers.items()
        ]
        return self.net.ask("post_process", {"id": 2, "resources": given})

    #: sdk 9
    def test_09_a_manager_may_add_an_id_a_resource_and_a_text(self) -> None:
        self.assertTrue(self.net.ask("begin_export", {"id": 1})[1]["wants_all"])
        name, body = self.assemble(a="resource b", b="id c", c="text z", d="model", z="", y="")
        self.assertEqual(name, "post_processed")
        a, b, c, z = (f"net::Port[a,name={name}]" for name in "abcz")
        changed = [(0, [b, z]), (1, [c]), (2, [z]), (3, [z])]
        wanted = [{"resource": at, "requires": ids, "attributes": None} for at, ids in changed]
        self.assertEqual(body["resources"], wanted)

    #: sdk 9
    def test_09_anything_else_is_an_error(self) -> None:
        name, body = self.assemble(a="number", z="")
        self.assertEqual((name, body["failure"]["kind"]), ("failed", "compile"))
        self.assertIn("of type int", body["failure"]["message"])
        name, body = self.assemble(b="id nowhere")
        self.assertEqual((name, body["failure"]["type_name"]), ("failed", "ResourceNotFoundExcpetion"))

    #: sdk 39
    def test_39_unknown_parameters_and_files_are_collected(self) -> None:
        port = instance(6, "net::Port")
        digest = "aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d"
        self.assertEqual(self.net.map(0, port, "peer")[1]["values"], [digest])
        name, body = self.net.ask("collect", {"id": 3})
        self.assertEqual((name, body["files"]), ("collected", {digest: b"hello"}))
        of_no_resource = {"resource": "", "parameter": "region", "source": "user"}
        fact = {"resource": "net::Port[a,name=x]", "parameter": "p", "source": "fact"}
        self.assertEqual(body["unknowns"], [fact, of_no_resource])


class Forms(Compiling):
    """Classes with ids and forms of their own."""

    CODE = """
        from inmanta.ast import UnknownException
        from inmanta.execute.util import Unknown
        from inmanta.resources import resource, Id, IgnoreResourceException, Resource

        @resource("net::Port", agent="agent", id_attribute="name")
        class Port(Resource):
            fields = ("name",)
            @classmethod
            def object_to_id(cls, o, entity, attribute, agent):
                if o.name == "ignored":
                    raise IgnoreResourceException("not today")
                if o.name == "unknown":
                    raise UnknownException(Unknown())
                return 5 if o.name == "number" else Id(entity + "2", agent, attribute, o.name * 2)

        @resource("net::Link", agent="agent", id_attribute="name")
        class Link(Resource):
            fields = ("name", "ends")
            def serialize(self):
                made = super().serialize()
                if self.name == "other":
                    made["id"] = "net::Link[a,name=else]"
                return {**made, "n_ends": len(self.ends), "when": (2, 1), "version": 3, "ends": None}

        @resource("net::Plain", agent="agent", id_attribute="name")
        class Plain(Resource):
            fields = ("name",)
    """

    def setUp(self) -> None:
        self.net = self.host(("net", self.CODE))
        self.port = instance(5, "net::Port")

    def test_which_classes_have_their_own(self) -> None:
        own = {info["entity"]: (info["identify"], info["assembles"]) for info in self.loaded["resources"]}
        self.assertEqual(own, {"net::Port": ("whole", False), "net::Link": ("no", True), "net::Plain": ("no", False)})

    def test_an_id_is_made_before_the_fields(self) -> None:
        self.net.model[5] = {"name": "x"}
        name, body = self.net.map(0, self.port, "name", identify="whole")
        made = {"entity_type": "net::Port2", "agent": "agent", "attribute": "name", "value": "xx"}
        self.assertEqual((name, body["identity"], body["values"]), ("fields_rendered", made, ["x"]))

    def test_an_id_that_is_none(self) -> None:
        for number, given in enumerate(("ignored", "unknown", "number"), start=6):
            self.net.model[number] = {"name": given}
        ignored, unknown, odd = (instance(number, "net::Port") for number in (6, 7, 8))
        self.assertEqual(self.net.map(0, ignored, identify="whole")[0], "ignored")
        self.assertEqual(self.net.map(0, unknown, identify="whole"), ("result", {"id": 9, "value": UNKNOWN}))
        name, body = self.net.map(0, odd, identify="whole")
        self.assertEqual((name, body["failure"]["message"]), ("failed", "Port.object_to_id gave 5, an Id was expected"))

    def link(self, name: str) -> tuple[str, dict]:
        given = {
            "class": 1,
            "id": f"net::Link[a,name={name}]",
            "instance": instance(6, "net::Link"),
            "attributes": {**BASE, "name": name, "ends": ["x", "y"]},
            "requires": [],
        }
        return self.net.ask("post_process", {"id": 2, "resources": [given]})

    def test_a_class_serializes_as_it_likes(self) -> None:
        name, body = self.link("l")
        (changed,) = body["resources"]
        wanted = {**BASE, "name": "l", "ends": None, "n_ends": 2, "when": [2, 1]}
        self.assertEqual((name, changed["requires"], changed["attributes"]), ("post_processed", [], wanted))

    def test_but_not_under_another_id(self) -> None:
        name, body = self.link("other")
        self.assertEqual((name, body["failure"]["type_name"]), ("failed", "ResourceException"))
        self.assertIn("the id net::Link[a,name=else]", body["failure"]["message"])


class Refused(Compiling):
    """What the reference cannot write as JSON."""

    CODE = """
        import datetime
        from inmanta.resources import resource, Resource

        @resource("net::Port", agent="agent", id_attribute="when")
        class Port(Resource):
            fields = ("value", "when")
            @staticmethod
            def get_value(exporter, o):
                return eval(o.what)
            @staticmethod
            def get_when(exporter, o):
                return datetime.date(2020, 1, 2)
    """

    def test_sets_dates_and_keys_that_are_no_text_are_no_values_of_fields(self) -> None:
        net = self.host(("net", self.CODE))
        keys = "dict keys should be strings, got "
        cases = {
            "{1}": "{1} is not JSON serializable",
            "[frozenset()]": "frozenset() is not JSON serializable",
            "datetime.date(2020, 1, 2)": "datetime.date(2020, 1, 2) is not JSON serializable",
            "{'a': datetime.time(1)}": "datetime.time(1, 0) is not JSON serializable",
            "{1: 2}": keys + "1 of type <class 'int'> with dict value 2",
            "[{'a': {None: 2}}]": keys + "None of type <class 'NoneType'> with dict value 2",
        }
        for number, (what, message) in enumerate(cases.items(), start=4):
            net.model[number] = {"what": what}
            name, body = net.map(0, instance(number, "net::Port"), "value")
            self.assertEqual((name, body["field"], body["failure"]["type_name"]), ("failed", "value", "TypeError"))
            self.assertEqual(body["failure"]["message"], message)

    def test_an_id_has_the_text_of_what_it_is_made_of(self) -> None:
        net = self.host(("net", self.CODE))
        name, body = net.map(0, instance(4, "net::Port"), identify="value")
        self.assertEqual((name, body["id_value"]), ("fields_rendered", "2020-01-02"))


class Late(Compiling):
    """What modules register or replace while the model runs."""

    CODE = """
        from inmanta import export, resources
        from inmanta.compiler import finalizer
        from inmanta.config import Option
        from inmanta.plugins import plugin
        from inmanta.resources import resource, Id, Resource, ResourceException

        @resource("net::Port", agent="agent", id_attribute="name")
        class Port(Resource):
            fields = ("name",)

        @plugin
        def late(what: "string") -> "any":
            if what == "manager":
                export.dependency_manager(lambda types, resources: None)
            elif what == "getter":
                Resource.get_send_event = staticmethod(lambda exporter, o: True)
            elif what == "class":
                @resource("net::Link", agent="agent", id_attribute="name")
                class Link(Port):
                    fields = ("ends",)
            elif what == "property":
                Port.name = property(lambda self: 77, lambda self, value: None)
            elif what == "validate":
                def validate(cls):
                    raise ResourceException("no, " + cls.__name__)
                Port.validate = classmethod(validate)
            elif what == "create":
                def create(cls, exporter, entity, o):
                    made = Port(Id("net::Made", "a", "name", o.name))
                    made.populate({"name": "made of " + o.name})
                    return made
                Resource.create_from_model = classmethod(create)
            elif what == "option":
                return Option("net", "speed", "slow").get()
            elif what == "function":
                @export.export("told", "net::Port")
                def told(exporter, types):
                    names = [port.name for port in types["net::Port"]]
                    print("told", names, sorted(str(found) for found in exporter._resources))

        @finalizer
        def done():
            finalizer(lambda: print("more is done"))
    """

    def setUp(self) -> None:
        self.net = self.host(("net", self.CODE))
        self.net.entities["net::Port"] = {"name": "net::Port", "attributes": [], "parents": []}
        self.port = instance(5, "net::Port")
        self.net.model[5] = {"name": "x"}

    def begun(self, what: str) -> dict:
        self.assertEqual(self.net.call("net::late", what), ("result", None))
        name, body = self.net.ask("begin_export", {"id": 3})
        return body if name == "export_begun" else body["failure"]

    def test_nothing(self) -> None:
        self.assertEqual(self.begun("nothing"), {"id": 3, "resources": None, "wants_all": False})

    def test_a_manager(self) -> None:
        self.assertEqual(self.begun("manager"), {"id": 3, "resources": None, "wants_all": True})

    def test_a_getter_of_a_base(self) -> None:
        (port,) = self.begun("getter")["resources"]
        self.assertEqual([field["name"] for field in port["fields"] if field["getter"]], ["send_event"])
        self.assertEqual(self.net.map(0, self.port, "send_event")[1]["values"], [True])

    def test_a_class(self) -> None:
        self.assertEqual([cls["entity"] for cls in self.begun("class")["resources"]], ["net::Port", "net::Link"])

    def test_a_property(self) -> None:
        (port,) = self.begun("property")["resources"]
        self.assertTrue(port["assembles"])
        attributes = {**BASE, "name": "x"}
        given = {"class": 0, "id": "net::Port[a,name=x]", "instance": self.port, "attributes": attributes, "requires": []}
        _, body = self.net.ask("post_process", {"id": 2, "resources": [given]})
        self.assertEqual(body["resources"][0]["attributes"]["name"], 77)

    def test_a_class_that_is_not_valid(self) -> None:
        self.assertEqual(self.begun("validate")["message"], "no, Port")

    def test_another_way_to_make_resources(self) -> None:
        (port,) = self.begun("create")["resources"]
        self.assertEqual((port["identify"], {field["getter"] for field in port["fields"]}), ("whole", {True}))
        _, body = self.net.map(0, self.port, "name", "send_event", identify="whole")
        self.assertEqual((body["identity"]["entity_type"], body["values"]), ("net::Made", ["made of x", False]))

    def test_options_of_the_project(self) -> None:
        with open(os.path.join(self.path, ".inmanta"), "w", encoding="utf-8") as file:
            file.write("[net]\nspeed = 50%\n[config]\nexport = told\n")
        self.assertEqual(self.net.call("net::late", "option"), ("result", "50%"))
        self.assertTrue(self.begun("function")["wants_all"])

    def test_finalizers(self) -> None:
        self.assertEqual(self.net.ask("finalize", {"id": 1})[0], "result")
        self.net.close()
        self.assertIn("more is done", self.net.printed)


class Finalizers(Compiling):
    #: sdk 38
    def test_38_all_finalizers_run_and_every_error_is_told(self) -> None:
        host = self.host(
            (
                "net",
                """
                from inmanta.compiler import finalizer
                @finalizer
                def one():
                    print("one ran")
                    raise ValueError("first")
                @finalizer
                def two():
                    print("two ran")
                    raise ValueError("second")
                assert one is None
                """,
            )
        )
        name, body = host.ask("finalize", {"id": 1})
        self.assertEqual((name, body["failure"]["message"]), ("failed", "first"))
        name, body = host.ask("finalize", {"id": 2})
        self.assertEqual((name, body["failure"]["message"]), ("failed", "second"))
        self.assertEqual(host.ask("finalize", {"id": 3})[0], "result")
        host.close()
        self.assertIn("two ran", host.printed)

    def test_without_finalizers_there_is_nothing_to_do(self) -> None:
        host = self.host(("net", ""))
        self.assertEqual(host.ask("finalize", {"id": 1}), ("result", {"id": 1, "value": None}))


if __name__ == "__main__":
    unittest.main()
