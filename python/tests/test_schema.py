"""What the host says and understands, held against the Rust types of `compiler/src/protocol/`."""

from __future__ import annotations

import os
import re
import unittest

from inmanta.plugins import PluginMeta
from steward_host import attached, boundary, compiling, exporting, host, msgpack, pipe
from tests.support import ACTION, PACKAGE, Host, Modules, instance

SCHEMA = os.path.join(os.path.dirname(PACKAGE), "compiler", "src", "protocol")


def blocks(text: str, kind: str) -> dict[str, str]:
    """Name -> body of every `pub struct` or `pub enum`."""
    found = re.finditer(r"^pub " + kind + r" (\w+) \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL)
    return {match[1]: match[2] for match in found}


def without_comments(text: str) -> str:
    return re.sub(r"^\s*///.*\n", "", text, flags=re.MULTILINE)


def fields(body: str) -> dict[str, bool]:
    """Field -> whether a message must hold it."""
    found = re.finditer(r"((?:#\[[^\]]*\]\s*)*)(?:pub )?(\w+): ([^\n]+),", body)
    return {match[2]: "default" not in match[1] and not match[3].startswith("Option<") for match in found}


def variants(body: str) -> dict[str, dict[str, bool]]:
    """Name in frames -> fields, of every variant of an enum."""
    made = {}
    for match in re.finditer(r"^    (\w+)(?: \{([^{}]*)\}|\([^)]*\))?,", without_comments(body), re.MULTILINE):
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", match[1]).lower()
        body = match[2] or ""
        if body and "\n" not in body:
            body = re.sub(r", (?=\w+: )", ",\n", body.strip()) + ","
        made[name] = fields(body)
    return made


@unittest.skipUnless(os.path.exists(SCHEMA), "the compiler's sources are not here")
class Schema(unittest.TestCase):
    def setUp(self) -> None:
        text = ""
        for name in sorted(os.listdir(SCHEMA)):
            with open(os.path.join(SCHEMA, name), encoding="utf-8") as file:
                text += file.read()
        self.text = text
        self.structs = {name: fields(without_comments(body)) for name, body in blocks(text, "struct").items()}
        self.enums = {name: variants(body) for name, body in blocks(text, "enum").items()}

    def constant(self, name: str) -> str:
        return re.search(rf"^pub const {name}: \w+ = (.+);", self.text, re.MULTILINE)[1]

    def check(self, message: dict, required: dict[str, bool]) -> None:
        missing = {name for name, must in required.items() if must} - message.keys()
        self.assertEqual(missing, set(), message)

    def check_answer(self, answer: tuple[str, dict]) -> dict:
        name, body = answer
        self.check(body, self.enums["FromHost"][name])
        return body

    def test_constants(self) -> None:
        self.assertEqual(self.constant("VERSION"), str(host.PROTOCOL))
        self.assertEqual(eval(self.constant("MAX_FRAME_BYTES")), pipe.MAX_FRAME_BYTES)
        for name in ("EXT_BIGINT", "EXT_UNKNOWN", "EXT_INSTANCE", "EXT_OPAQUE", "EXT_DATACLASS", "EXT_REFERENCE", "EXT_TEXT"):
            self.assertEqual(self.constant(name), str(getattr(msgpack, name)))

    def test_our_std_has_every_plugin_of_the_compiler(self) -> None:
        import glob

        import steward_std  # noqa: F401  # registers them

        natives = set()
        for path in glob.glob(os.path.join(os.path.dirname(SCHEMA), "stdlib", "*.rs")):
            with open(path, encoding="utf-8") as file:
                natives.update(re.findall(r"native!\(\s*\"(\w+)\",", file.read()))
        natives.discard("name")  # Of the macro's description.
        self.assertGreater(len(natives), 60)
        self.addCleanup(PluginMeta.clear, "std")
        names = {name.removeprefix("std::") for name in PluginMeta.get_functions() if name.startswith("std::")}
        self.assertEqual(names, natives)

    def test_every_request_is_understood(self) -> None:
        source = ""
        for part in (host, boundary, compiling, exporting, attached):
            with open(part.__file__, encoding="utf-8") as file:
                source += file.read()
        # Answers to the host's own questions are no requests.
        for name in self.enums["ToHost"].keys() - {"attribute_value", "entity_info", "instance_list", "place", "typedef_info", "api_answer", "entity_names", "service_list"}:
            self.assertIn(f'"{name}"', source)

    def test_types_for_annotations(self) -> None:
        """Every type of `messages.py` has the fields of the struct or the message of its name."""
        from steward_host import messages

        requests = {"".join(map(str.title, name.split("_"))): body for name, body in self.enums["ToHost"].items()}
        wanted = {**requests, **self.structs, "Task": self.structs["Deploy"]}
        typed = {name: set(found.__annotations__) for name, found in vars(messages).items() if hasattr(found, "__total__")}
        for name in typed.keys() - {"TypedDict", "Inputs", "Numbered"}:
            self.assertEqual(typed[name], set(wanted[name]), name)
        self.assertGreater(len(typed), 15)

    def test_answers_of_a_compile(self) -> None:
        code = """
            from inmanta.plugins import plugin
            from inmanta.resources import resource, Resource
            @plugin
            def f(a: "int", *b: "any") -> "any":
                return 1 / a
            @plugin
            def g(a: list[str] | None, b: dict[str, int]) -> "any":
                return a.name
            @resource("net::Port", agent="agent", id_attribute="name")
            class Port(Resource):
                fields = ("name",)
        """
        compile_host = Host(self, "compile")
        self.check(compile_host.hello, self.enums["FromHost"]["hello"])
        loaded = compile_host.load(Modules(self).write("net", code))
        self.check(loaded, self.enums["FromHost"]["loaded"])
        for plugin in loaded["plugins"]:
            self.check(plugin, self.structs["PluginInfo"])
            for parameter in plugin["parameters"]:
                self.check(parameter, self.structs["Parameter"])
                self.assertIn(parameter["kind"], self.enums["ParameterKind"])
                self.check_annotation(parameter["annotation"])
        (described,) = loaded["resources"]
        self.check(described, self.structs["ResourceClassInfo"])
        self.check(described["fields"][0], self.structs["FieldInfo"])
        call = {"id": 1, "plugin": "net::f", "kwargs": [], "file": "f", "line": 1, "namespace": "n"}
        self.check_answer(compile_host.ask("call", {**call, "args": [1]}))
        failed = self.check_answer(compile_host.ask("call", {**call, "args": [0]}))
        self.check(failed["failure"], self.structs["Failure"])
        self.assertIn(failed["failure"]["kind"], self.enums["FailureKind"])
        compile_host.model[1] = {"name": lambda: "unset"}
        port = instance(1, "net::Port")
        self.check_answer(compile_host.ask("call", {**call, "plugin": "net::g", "args": [port, {}]}))
        compile_host.model[1] = {"name": "x"}
        self.check_answer(compile_host.map(0, port, "name"))
        self.check_answer(compile_host.ask("finalize", {"id": 1}))

    def check_annotation(self, annotation: object) -> None:
        name = annotation if isinstance(annotation, str) else next(iter(annotation))
        self.assertIn(name, self.enums["Annotation"])

    def test_answers_of_an_executor(self) -> None:
        executor = Host(self, "executor")
        modules = Modules(self).write("bad", "1/0")
        handlers = executor.load_executor(modules)
        self.check(handlers, self.enums["FromHost"]["handlers"])
        self.check(handlers["broken"][0], self.structs["BrokenModule"])
        request = {"id": 5, "resource": {"id": "x"}, "requires": {}, "dry_run": False, "reason": "r", "action_id": ACTION}
        name, body = executor.ask("deploy", {**request, "dependency_changed": False})
        self.assertEqual(name, "deployed")
        self.check(body, self.structs["Deployed"])
        self.check(body["outcome"], self.structs["HandlerOutcome"])
        for line in body["outcome"]["logs"]:
            self.check(line, self.structs["LogLine"])


if __name__ == "__main__":
    unittest.main()
