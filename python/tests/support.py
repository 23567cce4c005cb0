"""What the tests share: a host in a process of its own, a model that exists only as a dict, modules in temp files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

from inmanta.execute import runtime
from steward_host import msgpack

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ACTION = "6f4c2a39-2f3e-4f8d-9d1a-2b8f5a8d7a11"


class Ext:
    """An extension value as it travels."""

    def __init__(self, code: int, payload: bytes = b"") -> None:
        self.code = code
        self.payload = payload

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ext) and (self.code, self.payload) == (other.code, other.payload)

    def __hash__(self) -> int:
        return hash((self.code, self.payload))

    def __repr__(self) -> str:
        return f"Ext({self.code}, {self.payload!r})"


UNKNOWN = Ext(msgpack.EXT_UNKNOWN)


def instance(number: int, entity: str) -> Ext:
    return Ext(msgpack.EXT_INSTANCE, number.to_bytes(4, "big") + entity.encode())


def sent_back(value: object) -> object:
    """References and objects of Python as the compiler sends them back: by their numbers alone."""
    if isinstance(value, list):
        return [sent_back(item) for item in value]
    if isinstance(value, dict):
        return {key: sent_back(item) for key, item in value.items()}
    if isinstance(value, Ext) and value.code == msgpack.EXT_REFERENCE:
        return Ext(value.code, msgpack.pack(msgpack.unpack(value.payload)[0][:1]))
    if isinstance(value, Ext) and value.code == msgpack.EXT_OPAQUE:
        return Ext(value.code, value.payload[:4])
    if isinstance(value, Ext) and value.code == msgpack.EXT_TEXT:
        return Ext(msgpack.EXT_OPAQUE, msgpack.unpack(value.payload)[0][0].to_bytes(4, "big"))
    return value


def ext_codec() -> None:
    """Makes this process read and write extensions as `Ext`."""
    for code in (msgpack.EXT_UNKNOWN, msgpack.EXT_INSTANCE, msgpack.EXT_OPAQUE, msgpack.EXT_DATACLASS, msgpack.EXT_REFERENCE, msgpack.EXT_TEXT):
        msgpack.ext_decoders[code] = lambda payload, code=code: Ext(code, payload)
    msgpack.ext_encoder = lambda value: (value.code, value.payload)


class Modules:
    """Python modules in a temporary directory. `write("net", code)` is the package `inmanta_plugins.net`."""

    def __init__(self, case: unittest.TestCase) -> None:
        directory = tempfile.TemporaryDirectory()
        case.addCleanup(directory.cleanup)
        self.path = directory.name
        self.described: list[dict] = []

    def write(self, name: str, code: str) -> Modules:
        root = os.path.join(self.path, name)
        os.makedirs(root, exist_ok=True)
        file = os.path.join(root, "__init__.py")
        with open(file, "w", encoding="utf-8") as out:
            out.write(textwrap.dedent(code))
        files = [{"module": f"inmanta_plugins.{name}", "path": file, "package": True}]
        self.described.append({"name": name, "root": root, "files": files})
        return self


class Host:
    """A host process and the two ends of its pipes."""

    def __init__(
        self, case: unittest.TestCase, mode: str, *, package: str = PACKAGE, environment: dict[str, str] | None = None
    ) -> None:
        ext_codec()
        # A file, not a pipe: nobody reads while the host writes.
        self._stderr = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-u", os.path.join(package, "steward_host", "__main__.py"), mode],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=environment,
        )
        case.addCleanup(self.close)
        # Instance id -> attribute -> value, for the host's questions; a missing attribute does not exist.
        self.model: dict[int, dict[str, object]] = {}
        self.entities: dict[str, dict] = {}
        # Variables that calls can look up, the base types of typedefs, and where instances were made.
        self.variables: dict[str, object] = {}
        self.typedefs: dict[str, str] = {}
        self.places: dict[int, list[list[object]]] = {}
        self.logged: list[dict] = []
        # What handlers asked of the server.
        self.asked_api: list[dict] = []
        # The contents of the server's file store, in base64.
        self.server_files: dict[str, str] = {}
        self.printed: list[str] = []
        self.asked: list[tuple[int, str]] = []
        self.hello = self.read()[1]

    def send(self, name: str, fields: dict | None = None) -> None:
        if name in ("deploy", "facts") and isinstance(fields, dict):
            fields = json.dumps({"ahead": False, **fields})
        if name == "call" and isinstance(fields, dict):
            fields = [fields[field] for field in ("id", "plugin", "args", "kwargs", "file", "line", "namespace")]
        body = msgpack.pack(name if fields is None else {name: fields})
        self.process.stdin.write(len(body).to_bytes(4, "big") + body)
        self.process.stdin.flush()

    def read(self) -> tuple[str, dict | None]:
        size = int.from_bytes(self.process.stdout.read(4), "big")
        message = msgpack.unpack(self.process.stdout.read(size))[0]
        if isinstance(message, str):
            return message, None
        name, body = next(iter(message.items()))
        if name == "deployed":
            body = json.loads(body)
        # Behind these two it may say that it is the last one of its frame.
        return name, dict(zip(("id", "value", "is_last"), body)) if name == "result" else body

    def ask(self, name: str, fields: dict | None = None) -> tuple[str, dict | None]:
        """Sends a request and answers the host's own questions until its answer is there."""
        self.send(name, fields)
        while True:
            got, body = self.read()
            if got == "get":
                self.asked.append((body["instance"], body["attribute"]))
                self.send("attribute_value", {"outcome": self._outcome(body["instance"], body["attribute"])})
            elif got == "entity":
                self.send("entity_info", self.entities.get(body["name"], {"name": "", "attributes": [], "parents": []}))
            elif got == "entities":
                self.send("entity_names", {"names": [*self.entities, *self.typedefs]})
            elif got == "typedef":
                self.send("typedef_info", {"base": self.typedefs.get(body["name"]), "condition": None})
            elif got == "lookup":
                known = body["name"] in self.variables
                outcome = {"value": self.variables[body["name"]]} if known else {"no_attribute": "not found"}
                self.send("attribute_value", {"outcome": outcome})
            elif got == "locate":
                self.send("place", {"places": self.places.get(body["instance"], []), "given": []})
            elif got == "api":
                self.asked_api.append(body)
                answer = {"code": 200, "body": {"parameter": {"value": "known"}}}
                if body["method"] in ("get_file", "stat_file"):
                    content = self.server_files.get(body["arguments"]["id"])
                    known = {"code": 200, "body": {"content": content}}
                    answer = {"code": 404, "body": None} if content is None else known
                self.send("api_answer", answer)
            elif got == "printed":
                self.printed.append(body["line"])
            elif got == "log":
                self.logged.append(body)
            elif got == "logged":
                # The lines so far of a run that takes longer than a second, as any may on a busy machine; its end has them, too.
                continue
            else:
                return got, body

    def _outcome(self, number: int, attribute: str) -> object:
        attributes = self.model.get(number, {})
        if attribute not in attributes:
            return {"no_attribute": f"no attribute {attribute}"}
        value = attributes[attribute]
        return value() if callable(value) else {"value": value}

    def load(self, modules: Modules, **fields: object) -> dict:
        request = {"modules": modules.described, "project_dir": modules.path, "env": {}, "environment_id": None, **fields}
        name, body = self.ask("load_compile", request)
        assert name == "loaded", body
        return body

    def call(self, plugin: str, *args: object, **kwargs: object) -> tuple[str, object]:
        """(`result`, value), (`failed`, failure) or (`unset`, variables)."""
        request = {
            "id": 7,
            "plugin": plugin,
            "args": list(args),
            "kwargs": [list(item) for item in kwargs.items()],
            "file": "main.cf",
            "line": 3,
            "namespace": "__config__",
        }
        name, body = self.ask("call", request)
        assert body["id"] == 7
        return name, body[{"result": "value", "failed": "failure", "unset": "variables"}[name]]

    def map(self, class_index: int, value: object, *fields: str, identify: str = "no") -> tuple[str, dict]:
        request = {"id": 9, "class": class_index, "instance": value, "identify": identify, "fields": list(fields)}
        return self.ask("render_fields", request)

    def load_executor(self, modules: Modules, agent: str = "agent", **fields: object) -> dict:
        request = {"modules": modules.described, "environment_id": "e", "agent": agent, **fields}
        name, body = self.ask("load_executor", request)
        assert name == "handlers", name
        return body

    def deploy(self, resource: dict, **fields: object) -> dict:
        request = {
            "id": 5,
            "resource": resource,
            "requires": {},
            "dry_run": False,
            "reason": "a test",
            "action_id": ACTION,
            "dependency_changed": False,
            **fields,
        }
        name, body = self.ask("deploy", request)
        assert (name, body["id"]) == ("deployed", 5), (name, body)
        return body["outcome"]

    def stop(self) -> int:
        """Stops the host; its exit status."""
        name, _ = self.ask("stop")
        assert name == "bye", name
        return self.process.wait(timeout=10)

    def close(self) -> None:
        """Ends the host; what it wrote to standard error is then in `errors`."""
        if self._stderr.closed:
            return
        self.process.stdin.close()
        self.process.stdout.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._stderr.seek(0)
        self.errors = self._stderr.read().decode()
        self._stderr.close()


class FakeWorld(runtime.World):
    """A model in this process: (instance id, attribute) -> outcome."""

    def __init__(self, values: dict[int, dict[str, object]]) -> None:
        self.values = values

    def get(self, instance_id: int, attribute: str) -> tuple[str, object]:
        attributes = self.values.get(instance_id, {})
        if attribute not in attributes:
            return "no_attribute", f"no attribute {attribute}"
        value = attributes[attribute]
        return value if isinstance(value, tuple) else ("value", value)

    def entity(self, name: str) -> dict | None:
        return {"name": name, "attributes": [], "parents": []}


def use_world(case: unittest.TestCase, values: dict[int, dict[str, object]]) -> FakeWorld:
    """Puts a model in place for one test."""
    before = runtime.world
    runtime.reset()
    runtime.world = FakeWorld(values)

    def restore() -> None:
        runtime.world = before
        runtime.reset()

    case.addCleanup(restore)
    return runtime.world


class Compiling(unittest.TestCase):
    def host(self, *modules: tuple[str, str], **request: object) -> Host:
        written = Modules(self)
        for name, code in modules:
            written.write(name, code)
        host = Host(self, "compile")
        self.loaded = host.load(written, **request)
        self.path, self.modules = written.path, written
        return host
