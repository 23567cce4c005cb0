"""The host of a compile: loads the modules, calls plugins and maps resources.

One request is open at a time. While it is, reading an attribute of an instance asks Steward (`get`) and waits.
"""

from __future__ import annotations

import gc
import os
import sys

from inmanta import plugins, resources
from inmanta.ast import (
    Location,
    MultiUnsetException,
    PluginTypeException,
    RuntimeException,
    UnknownException,
    UnsetException,
)
from inmanta.execute import proxy, runtime
from inmanta.execute.proxy import DynamicProxy, ProxyContext
from inmanta.execute.util import NoneValue, Unknown
from steward_host import annotations as hints, failure, forks, loader, msgpack
from steward_host.pipe import Closed, Pipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from inmanta import export
    from inmanta.ast.entity import Entity
    from inmanta.references import Reference
    from steward_host.messages import (
        Again,
        Annotation,
        Call,
        Depend,
        DependResource,
        EntityInfo,
        LoadCompile,
        Map,
        Numbered,
        PythonModule,
        Serialize,
    )
    from steward_host.said import Said

# Stands for an instance where a variable is given by its number (protocol.rs).
_NUMBERED = (1 << 32) - 2
_PLAIN = frozenset({str, int, float, bool, type(None)})
# `{"result": [`, of which two values follow.
_RESULT = b"\x81\xa6result\x92"

# The only folder that a confined host may write to.
SCRATCH = os.environ.get("STEWARD_SCRATCH")


class Objects:
    """Python objects that the compiler holds on to without knowing what they are."""

    def __init__(self) -> None:
        self._by_id: dict[int, object] = {}
        self._ids: dict[int, int] = {}
        # Equal references are one object.
        self._references: dict[object, int] = {}

    def keep(self, value: object) -> int:
        known = self._ids.get(id(value))
        if known is None:
            known = self._ids[id(value)] = len(self._by_id)
            self._by_id[known] = value
        return known

    def keep_reference(self, value: object) -> int:
        try:
            number = self._references.setdefault(value, len(self._by_id))
        except TypeError:
            # A class with an equality of its own and no hash.
            return self.keep(value)
        self._by_id.setdefault(number, value)
        return number

    def __getitem__(self, number: int) -> Any:
        return self._by_id[number]


if TYPE_CHECKING:
    _Types = dict[str, Entity]
else:
    _Types = dict


class World(runtime.World):
    """Answers the questions of proxies over the pipe."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe

    def get(self, instance_id: int, attribute: str) -> tuple[str, Any]:
        outcome = self._pipe.request("get", {"instance": instance_id, "attribute": attribute}, "got")["outcome"]
        return (outcome, None) if type(outcome) is str else outcome.popitem()

    def lookup(self, name: str) -> tuple[str, Any]:
        outcome = self._pipe.request("lookup", {"name": name}, "got")["outcome"]
        return (outcome, None) if type(outcome) is str else outcome.popitem()

    def entity(self, name: str) -> EntityInfo | None:
        info: EntityInfo = self._pipe.request("entity", {"name": name}, "entity_info")
        return info if info["name"] == name else None

    def instances(self, name: str) -> list[runtime.Instance]:
        found: list[runtime.Instance] = self._pipe.request("instances", {"entity": name}, "instance_list")["instances"]
        return found

    def native(self, plugin: str, args: list[object], kwargs: list[list[object]]) -> tuple[str, Any]:
        request = {"plugin": plugin, "args": args, "kwargs": kwargs}
        outcome = self._pipe.request("native", request, "got")["outcome"]
        return (outcome, None) if type(outcome) is str else outcome.popitem()

    def typedef(self, name: str) -> str | None:
        base: str | None = self._pipe.request("typedef", {"name": name}, "typedef_info")["base"]
        return base

    def validate(self, typedef: str, value: object) -> tuple[str, Any]:
        outcome = self._pipe.request("validate", {"typedef": typedef, "value": value}, "got")["outcome"]
        return (outcome, None) if type(outcome) is str else outcome.popitem()

    def place(self, instance_id: int) -> tuple[str | None, int]:
        answer = self._pipe.request("where", {"instance": instance_id}, "place")
        return answer["file"], answer["line"]


class Types(_Types):
    """The entities of the model by full name, looked up when they are asked for."""

    def __missing__(self, name: str) -> Entity:
        found = runtime.entity(name)
        if found is None:
            raise KeyError(name)
        self[name] = found
        return found

    def __contains__(self, name: object) -> bool:
        try:
            self[str(name)]
        except KeyError:
            return False
        return True

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default


class Compiling:
    """State of one compile."""

    def __init__(self, pipe: Pipe, said: Said) -> None:
        self._pipe = pipe
        self._said = said
        # Whether each compile has a fork of this process, and whether this is one.
        self.forks = False
        self.is_fork = False
        self._files: set[str] = set()
        self._plugins: dict[str, plugins.Plugin] = {}
        # Plugins with parameters whose arguments come as dataclasses.
        self._dataclasses: dict[str, set[str]] = {}
        self._classes: list[tuple[str, type[resources.Resource], dict[str, str]]] = []
        self._exporter: export.Exporter | None = None
        self._objects = Objects()
        self._warnings: list[str] = []
        # Entities that have a dataclass in Python.
        self._paired: dict[str, Any] = {}
        # References made by the compiler's own plugins, by its number, and the numbers by the object.
        self._native: dict[int, object] = {}
        self._numbers: dict[int, int] = {}
        # Whether a dataclass becomes an instance: in results of plugins, not in fields of resources.
        self._constructs = False
        runtime.world = World(pipe)
        msgpack.ext_decoders[msgpack.EXT_UNKNOWN] = lambda payload: Unknown()
        msgpack.ext_decoders[msgpack.EXT_INSTANCE] = _decode_instance
        msgpack.ext_decoders[msgpack.EXT_KNOWN_INSTANCE] = _decode_known_instance
        msgpack.ext_decoders[msgpack.EXT_OPAQUE] = lambda payload: self._objects[int.from_bytes(payload, "big")]
        msgpack.ext_decoders[msgpack.EXT_DATACLASS] = self._decode_dataclass
        msgpack.ext_decoders[msgpack.EXT_REFERENCE] = self._decode_reference
        msgpack.ext_encoder = self._encode

    def _encode(self, value: Any) -> tuple[int, bytes]:
        if isinstance(value, DynamicProxy):
            value = value._get_instance()
        if isinstance(value, runtime.Instance):
            return msgpack.EXT_INSTANCE, value.id.to_bytes(4, "big") + value.entity_name.encode()
        if isinstance(value, Unknown):
            return msgpack.EXT_UNKNOWN, b""
        if _is_reference(value):
            return self._encode_reference(value)
        entity = hints.dataclass_entity(type(value)) if self._constructs else None
        if entity in self._paired:
            fields = {name: DynamicProxy.unwrap(getattr(value, name)) for name in value.__dataclass_fields__}
            return msgpack.EXT_DATACLASS, msgpack.pack([self._objects.keep(value), entity, fields, False])
        return msgpack.EXT_OPAQUE, self._objects.keep(value).to_bytes(4, "big")

    def _encode_reference(self, value: Reference[Any]) -> tuple[int, bytes]:
        number = self._numbers.get(id(value))
        if number is not None:
            return msgpack.EXT_REFERENCE, msgpack.pack([number])
        of = value._model_type or value.get_reference_type()
        if of is None:
            raise RuntimeException(
                None,
                f"Could not determine the reference type of {value}, make sure the reference extends"
                " Reference[concrete_type] or override `get_reference_type`",
            )
        entity = hints.dataclass_entity(of)
        if entity in self._paired and self._constructs:
            fields = {name: _attribute_of(value, name) for name in of.__dataclass_fields__}
            return msgpack.EXT_DATACLASS, msgpack.pack([self._objects.keep(value), entity, fields, True])
        described = hints.describe(of)
        cls = type(value)
        parts = [
            self._objects.keep_reference(value),
            value.type,
            f"{cls.__module__}.{cls.__qualname__}",
            described["model"] if isinstance(described, dict) and "model" in described else "any",
            None if cls.__str__ is object.__str__ else str(value),
            None if cls.__repr__ is object.__repr__ else repr(value),
        ]
        return msgpack.EXT_REFERENCE, msgpack.pack(parts)

    def _decode_reference(self, payload: bytes) -> object:
        (number, *rest), _ = msgpack.unpack(payload)
        if not rest:
            return self._objects[number]
        made = self._native.get(number)
        if made is None:
            from inmanta.references import reference

            kind, arguments = rest
            made = self._native[number] = reference.get_class(kind)(**arguments)
            self._numbers[id(made)] = number
        return made

    def _decode_dataclass(self, payload: bytes) -> runtime.Instance:
        (kept, number, entity), _ = msgpack.unpack(payload)
        found = runtime.instance(number, entity)
        found.dataclass_self = self._objects[kept]
        return found

    # --- requests ----------------------------------------------------------------------------------------------------

    def load(self, request: LoadCompile) -> None:
        """Imports all modules in order and describes what they register."""
        from inmanta import compiler, export, references
        from inmanta.module import Project
        from inmanta.plugins import PluginMeta

        os.environ.clear()
        if SCRATCH:
            os.environ.update(HOME=SCRATCH, TMPDIR=SCRATCH)
        os.environ.update(request["env"])
        plugins.Runtime.environment_id = request["environment_id"]
        plugins.Runtime.project_dir = request["project_dir"]
        plugins.Runtime.inputs = request.get("inputs") or {}
        # What tests of modules inject is what a compile is given.
        plugins.Runtime.refs = {"facts": plugins.Runtime.inputs.get("facts") or {}}
        self._plugins.clear()
        self._warnings.clear()
        PluginMeta.clear()
        resources.resource.reset()
        references.reset()
        export.reset()
        compiler.reset()
        runtime.reset()
        self._exporter = export.Exporter()
        Project.set(Project.of_request(request["project_dir"], request["modules"]))
        finder = loader.install(request["modules"])
        self._files = finder.paths()
        read = _files_read(request["project_dir"]) if request.get("keep") else None
        for module in request["modules"]:
            for file in module["files"]:
                try:
                    __import__(file["module"])
                except (Exception, SystemExit) as error:
                    self._pipe.send(
                        "load_failed",
                        {
                            "module": module["name"],
                            "python_module": file["module"],
                            "failure": failure.describe(error, self._files),
                        },
                    )
                    return
        self._attach_logging()
        try:
            dataclasses = self._describe_dataclasses(request["modules"])
            names = {module["name"] for module in request["modules"]}
            described = []
            for name, cls in PluginMeta.get_functions().items():
                if name.split("::", 1)[0] in names:
                    described.append(self._plugin(name, cls))
                else:
                    # Of an installed module that a listed one imports: no part of the model, but of Python's world.
                    self._plugins[name] = cls()
        except Exception as error:
            self._pipe.send(
                "load_failed", {"module": "", "python_module": "", "failure": failure.describe(error, self._files)}
            )
            return
        # What was imported stays; the collector need not look at it again.
        gc.freeze()
        plugins.Runtime.plugins = self._plugins
        self.forks = read is not None and forks.can_fork()
        self._said.before_answer()
        self._pipe.send(
            "loaded",
            {
                "plugins": described,
                "resources": self._resources(names),
                "has_finalizers": compiler.has_finalizers(),
                "has_dependency_managers": export.has_dependency_managers(),
                "warnings": self._warnings,
                "dataclasses": dataclasses,
                "forks": self.forks,
                "read": sorted(read.stop()) if read is not None else [],
            },
        )

    def again(self, request: Again) -> None:
        """Another compile with the modules that were imported for an earlier one. No answer."""
        plugins.Runtime.inputs = request["inputs"]
        plugins.Runtime.refs = {"facts": request["inputs"].get("facts") or {}}

    def call(self, request: Call) -> None:
        """Calls a plugin through the `call` attribute of its class."""
        number = request[0]
        try:
            self._constructs = True
            result = self._call(request)
            if type(result) not in _PLAIN:
                result = DynamicProxy.unwrap(result)
            if self._said.has_text:
                self._said.before_answer()
            self._pipe.send_packed(msgpack.pack_behind(_RESULT, number, result))
        except Closed:
            raise
        except BaseException as error:
            self._fail(number, error)

    def _call(self, request: Call) -> object:
        _, name, args, kwargs, file, line, namespace = request
        plugin = self._plugins[name]
        if plugin.opts["commands"]:
            plugin.check_requirements()
        for index, value in enumerate(args):
            if type(value) not in _PLAIN:
                parameter = plugin.args[index] if index < len(plugin.args) else plugin.var_args
                args[index] = self._argument(value, parameter, name)
        if plugin._context >= 0:
            owner = plugins.Owner(namespace, Location(file, line))
            from inmanta.execute.resolver import Resolver, Result

            outcome = Result()
            args.insert(plugin._context, plugins.Context(Resolver(), None, owner, plugin, outcome))
        named = {}
        for key, value in kwargs:
            if type(value) not in _PLAIN:
                value = self._argument(value, plugin.kwargs.get(key) or _by_name(plugin, key), name)
            named[key] = value
        result = plugin.call(*args, **named)
        if plugin.opts["emits_statements"]:
            if plugin._context < 0:
                raise RuntimeException(None, f"plugin {name} emits statements, so it needs a Context to set its result")
            return [result, outcome.get_value()]
        return result

    def _argument(self, value: object, parameter: plugins.Argument | None, plugin: str) -> object:
        """The value as the plugin gets it. Its type was checked by the compiler."""
        if isinstance(value, Unknown):
            # Only a plugin that allows them is called with one.
            return value
        path = "<argument>" if parameter is None else parameter.name
        if parameter is not None and parameter.name in self._dataclasses.get(plugin, ()):
            whole = _Argument(value, parameter, plugin)
            if isinstance(value, runtime.Instance) and value.entity_name in self._paired:
                return self._to_dataclass(value, whole)
            if isinstance(value, list):
                paired = [isinstance(v, runtime.Instance) and v.entity_name in self._paired for v in value]
                if any(paired):
                    return [
                        self._to_dataclass(v, whole) if convert else DynamicProxy.return_value(v)
                        for v, convert in zip(value, paired)
                    ]
        return DynamicProxy.return_value(value, context=ProxyContext(path=path))

    def _to_dataclass(self, instance: runtime.Instance, argument: _Argument) -> object:
        """The object that an instance is paired with: the one it was made from, or a new one."""
        kept = instance.dataclass_self
        if kept is not None and (not _is_reference(kept) or _takes_reference(argument.parameter)):
            return kept
        cls = self._paired[instance.entity_name]
        values = {}
        for name, field in cls.__dataclass_fields__.items():
            value = instance.get_attribute(name).get_value()
            if isinstance(value, Unknown):
                raise argument.wrong(
                    f"Encountered unknown in field '{name}'. Unknowns are not currently supported in dataclass"
                    " instances in the Python domain."
                )
            declared = hints.describe(hints.evaluated(field.type, cls))
            if _is_reference(value) and "reference" not in str(declared):
                raise argument.refused()
            value = DynamicProxy.return_value(value)
            values[name] = resources.to_json(value) if isinstance(value, DynamicProxy) else value
        made = cls(**values)
        if kept is None:
            instance.dataclass_self = made
        return made

    def map(self, request: Map) -> None:
        """Runs the getters of a resource class on an instance."""
        number = request["id"]
        field = None
        self._constructs = False
        try:
            entity, cls, _ = self._classes[request["class"]]
            instance = DynamicProxy.return_value(request["instance"])
            values = []
            with proxy.exportcontext:
                for field in request["fields"]:
                    values.append(self._field(cls, entity, field, instance))
            self._pipe.send_packed(msgpack.pack({"mapped": {"id": number, "values": values}}))
        except Closed:
            raise
        except resources.IgnoreResourceException as error:
            self._pipe.send("ignored", {"id": number, "reason": str(error)})
            return
        except BaseException as error:
            self._fail(number, error, field)

    def _field(self, cls: type[resources.Resource], entity: str, field: str, instance: object) -> object:
        try:
            return exported(cls.map_field(self._exporter, entity, field, instance))
        except UnknownException as error:
            return error.unknown if isinstance(error.unknown, Unknown) else Unknown()

    def depend(self, request: Depend) -> None:
        """Runs the dependency managers; answers the requirements of the resources that have others now."""
        from inmanta import export

        number = request["id"]
        try:
            made = [self._resource(described) for described in request["resources"]]
            known = {resource.id: resource for resource in made}
            before = [set(resource.requires) for resource in made]
            with proxy.exportcontext:
                export.manage_dependencies(Types(), known)
            changed = []
            for index, (resource, old) in enumerate(zip(made, before)):
                now = export.required_ids(resource, known)
                if now != old:
                    changed.append([index, sorted(required.resource_str() for required in now)])
        except BaseException as error:
            self._fail(number, error)
            return
        self._pipe.send("depended", {"id": number, "requires": changed})

    def _resource(self, described: DependResource) -> resources.Resource:
        _, cls, _ = self._classes[described["class"]]
        made = cls(resources.Id.parse_id(described["id"], version=0))
        made.populate({**described["attributes"], "requires": described["requires"]}, force_fields=True)
        made.model = DynamicProxy.return_value(described["instance"])
        return made

    def serialize(self, request: Serialize) -> None:
        """Gives the exported form of a reference, and those of all that its arguments need."""
        number = request["id"]
        try:
            from inmanta.references import Collector

            model, needed = Collector("").closure(self._objects[request["object"]])
            self._pipe.send("serialized", {"id": number, "reference": str(model.id), "models": needed})
        except Closed:
            raise
        except BaseException as error:
            self._fail(number, error)

    def collect(self, request: Numbered) -> None:
        """Gives what the export found besides resources: unknown parameters and the contents of files."""
        from inmanta import export

        unknowns = [
            {"resource": str(u["resource"]), "parameter": str(u["parameter"]), "source": str(u.get("source", "fact"))}
            for u in export.unknown_parameters
        ]
        kept = {} if self._exporter is None else self._exporter._file_store
        files = {digest: msgpack.Blob(content) for digest, content in kept.items()}
        self._pipe.send("collected", {"id": request["id"], "unknowns": unknowns, "files": files})

    def finalize(self, request: Numbered) -> None:
        """Runs the finalizers in order, up to the first error, which is the answer; the next request goes on."""
        from inmanta import compiler

        try:
            compiler.finalize()
        except BaseException as error:
            self._fail(request["id"], error)
            return
        self._pipe.send_packed(msgpack.pack_behind(_RESULT, request["id"], None))

    # --- answers -----------------------------------------------------------------------------------------------------

    def _fail(self, number: int, error: BaseException, field: str | None = None) -> None:
        self._said.before_answer()
        if isinstance(error, UnknownException):
            unknown = error.unknown if isinstance(error.unknown, Unknown) else Unknown()
            self._pipe.send_packed(msgpack.pack_behind(_RESULT, number, unknown))
        elif isinstance(error, (UnsetException, MultiUnsetException)) and (variables := _variables(error)):
            self._pipe.send("unset", {"id": number, "variables": variables})
        elif isinstance(error, (KeyboardInterrupt, GeneratorExit)):
            raise error
        else:
            described = failure.describe(error, self._files)
            self._pipe.send("failed", {"id": number, "failure": described, "field": field})

    # --- descriptions ------------------------------------------------------------------------------------------------

    def _plugin(self, name: str, cls: type[plugins.Plugin]) -> dict[str, Any]:
        plugin = cls()
        self._plugins[name] = plugin
        parameters = []
        dataclasses = set()
        everything = [*plugin.args, plugin.var_args, *plugin.kwargs.values(), plugin.var_kwargs]
        for argument in everything:
            if argument is None:
                continue
            if self._converts(argument.annotation):
                dataclasses.add(argument.name)
            parameters.append(
                {
                    "name": argument.name,
                    "kind": argument.kind,
                    "annotation": self._annotation(name, argument.name, argument.annotation),
                    "has_default": argument.has_default,
                }
            )
        if dataclasses:
            self._dataclasses[name] = dataclasses
        function = cls.__dict__["__function__"].__func__
        while hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        code = getattr(function, "__code__", None)
        returns = self._annotation(name, "return", plugin.return_type)
        return {
            "name": name,
            "file": code.co_filename if code is not None else "",
            "line": code.co_firstlineno if code is not None else 0,
            "parameters": parameters,
            "returns": "any" if returns == "missing" else returns,
            "allow_unknown": plugin.is_accept_unknowns(),
            "takes_context": plugin._context >= 0,
            "emits_statements": bool(cls.opts.get("emits_statements", False)),
            "commands": list(cls.opts.get("commands") or ()),
            "deprecated": (cls.replaced_by or "") if cls.deprecated else None,
            "docstring": function.__doc__,
        }

    def _describe_dataclasses(self, modules: list[PythonModule]) -> list[dict[str, Any]]:
        """The frozen dataclasses of the modules, which are paired with the entities of the same full names."""
        self._paired.clear()
        described = []
        for file in (file for module in modules for file in module["files"]):
            python_module = sys.modules[file["module"]]
            for cls in list(vars(python_module).values()):
                if not isinstance(cls, type) or cls.__module__ != file["module"]:
                    continue
                entity = "::".join([*file["module"].split(".")[1:], cls.__name__])
                described.append(self._describe_class(entity, cls, file["path"]))
        return described

    def _describe_class(self, entity: str, cls: Any, path: str) -> dict[str, Any]:
        """What the compiler compares with an entity of the same name that is a dataclass."""
        described: dict[str, Any] = {"entity": entity, "fields": [], "file": path, "line": getattr(cls, "__firstlineno__", 0)}
        if not hasattr(cls, "__dataclass_fields__"):
            return {**described, "problem": "a dataclass"}
        if not cls.__dataclass_params__.frozen:
            return {**described, "problem": "frozen"}
        self._paired[entity] = cls
        described["fields"] = [
            {"name": field.name, "annotation": hints.describe(hints.evaluated(field.type, cls))}
            for field in cls.__dataclass_fields__.values()
            if field._field_type.name == "_FIELD"
        ]
        return described

    def _converts(self, annotation: object) -> bool:
        """Whether arguments of this annotation come as dataclasses; ModelType[..] asks for the instance."""
        if isinstance(annotation, str):
            return any(name.rsplit("::", 1)[-1] in annotation for name in self._paired)
        if hasattr(annotation, "__metadata__"):
            return False
        if hints.dataclass_entity(annotation) is not None:
            return True
        return any(self._converts(inner) for inner in getattr(annotation, "__args__", ()) or ())

    def _annotation(self, plugin: str, argument: str, annotation: object) -> Annotation:
        described = hints.describe(annotation)
        if hints.is_cast(annotation):
            self._warnings.append(
                f"Python type {annotation} was implicitly cast to 'Any' because no matching type was found in the"
                " Inmanta DSL. Please refer to the documentation for an overview of supported types at the plugin"
                " boundary."
            )
        if isinstance(described, dict) and str(described.get("bad", "")).startswith("expected"):
            return {"bad": f"Bad annotation in plugin {plugin} for {argument}, {described['bad']}"}
        return described

    def _resources(self, modules: set[str]) -> list[dict[str, Any]]:
        self._classes = []
        described = []
        for entity, (cls, options) in list(resources.resource._resources.items()):
            if not _belongs(cls.__module__, modules):
                continue
            self._classes.append((entity, cls, options))
            module = sys.modules.get(cls.__module__)
            described.append(
                {
                    "entity": entity,
                    "id_attribute": options["name"],
                    "agent": options["agent"],
                    "python_class": f"{cls.__module__}.{cls.__qualname__}",
                    "fields": [{"name": field, "getter": _has_getter(cls, field)} for field in cls.fields],
                    "id_getter": _has_getter(cls, options["name"]),
                    "file": getattr(module, "__file__", None) or "",
                    "line": getattr(cls, "__firstlineno__", 0),
                }
            )
        return described

    def _attach_logging(self) -> None:
        """Sends what modules log to Steward while a request is open; to stderr otherwise."""
        if "logging" not in sys.modules:
            return
        import logging

        said = self._said

        class Handler(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                said.log(record.levelname, self.format(record))

        root = logging.getLogger()
        root.handlers[:] = [Handler()]
        root.setLevel(logging.INFO)


class _files_read:
    """Notes the files below a directory that are read from now on, other than Python's own."""

    def __init__(self, directory: str) -> None:
        self._directory = os.path.join(directory, "")
        self._found: set[str] | None = set()
        sys.addaudithook(self._noted)

    def _noted(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._found is None or event not in ("open", "os.listdir", "os.scandir") or not arguments:
            return
        path = arguments[0]
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if isinstance(path, str) and not path.endswith((".py", ".pyc")):
            path = os.path.abspath(path)
            if path.startswith(self._directory) and not os.path.isdir(path):
                self._found.add(path)

    def stop(self) -> set[str]:
        found, self._found = self._found, None
        return found or set()


def _decode_instance(payload: bytes) -> runtime.Instance:
    return runtime.instance(int.from_bytes(payload[:4], "big"), payload[4:].decode())


def _decode_known_instance(payload: bytes) -> runtime.Instance:
    (number, entity, known), _ = msgpack.unpack(payload)
    found = runtime.instance(number, entity)
    # Variables are assigned once: what is known stays true.
    found._values.update(known)
    return found


def _variables(error: UnsetException | MultiUnsetException) -> list[list[object]]:
    found: list[Any]
    if isinstance(error, MultiUnsetException):
        found = [*error.result_variables]
    else:
        found = [error.get_result_variable()]
    numbers: list[list[object]] = [[_NUMBERED, str(v.number)] for v in found if isinstance(v, runtime.CompilerVariable)]
    return numbers + [[v.myself.id, v.attribute] for v in found if hasattr(v, "myself")]


def _belongs(python_module: str, modules: set[str]) -> bool:
    """Whether code is that of one of these modules, or of none at all."""
    parts = python_module.split(".")
    return parts[0] != loader.ROOT or (len(parts) > 1 and parts[1] in modules)


def _by_name(plugin: plugins.Plugin, name: str) -> plugins.Argument | None:
    for argument in plugin.args:
        if argument.name == name:
            return argument
    return plugin.var_kwargs


def _takes_reference(parameter: plugins.Argument | None) -> bool:
    return parameter is not None and "reference" in str(hints.describe(parameter.annotation))


class _Argument:
    """An argument that is about to be converted, for the errors about it."""

    def __init__(self, value: object, parameter: plugins.Argument, plugin: str) -> None:
        self.parameter = parameter
        self._text = f"Value {value} for argument {parameter.name} of plugin {plugin}"

    def refused(self) -> Exception:
        return PluginTypeException(
            None,
            f"{self._text} contains a reference. To allow references, use `| Reference[...]` in your type annotation.",
        )

    def wrong(self, reason: str) -> Exception:
        wanted = hints.describe(self.parameter.annotation)
        wanted = wanted.get("model", wanted) if isinstance(wanted, dict) else wanted
        return PluginTypeException(None, f"{self._text} has incompatible type. Expected type: {wanted}: {reason}")


def _is_reference(value: object) -> bool:
    return getattr(type(value), "_is_inmanta_reference", False)


def _attribute_of(value: Reference[Any], name: str) -> Reference[Any]:
    """The reference to one field of what a reference to a dataclass stands for."""
    from inmanta.references import AttributeReference

    made: Reference[Any] = AttributeReference(value, name)
    cls = value.get_reference_type()
    made._model_type = hints.plain(hints.evaluated(cls.__dataclass_fields__[name].type, cls))
    return made


def _has_getter(cls: type[resources.Resource], field: str) -> bool:
    """Whether a class computes a field itself, other than by the getters of our own base classes."""
    for base in cls.__mro__:
        if "get_" + field in base.__dict__:
            return base.__module__ != "inmanta.resources"
    return field in cls.map


def exported(value: Any) -> Any:
    """A field's value as it is exported: plain data, an instance left as it is, UnknownException for an Unknown."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, proxy.SequenceProxy):
        return [exported(item) for item in value]
    if isinstance(value, proxy.DictProxy):
        return {key: exported(item) for key, item in value.items()}
    if isinstance(value, Unknown):
        raise UnknownException(value)
    if isinstance(value, DynamicProxy):
        return value._get_instance()
    if isinstance(value, (list, tuple)):
        return [exported(item) for item in value]
    if isinstance(value, dict):
        return {resources._key(key): exported(item) for key, item in value.items()}
    if isinstance(value, NoneValue):
        return None
    if _is_reference(value):
        return value
    if isinstance(value, (str, int, float)) and not hasattr(value, "name"):
        return value
    from inmanta.util import internal_json_encoder

    return exported(internal_json_encoder(value))
