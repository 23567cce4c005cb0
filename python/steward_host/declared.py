"""What the modules of a compile declare: plugins, dataclasses, resources, as the compiler is told of them."""

from __future__ import annotations

import sys

from inmanta import plugins, resources
from inmanta.ast import Namespace
from steward_host import annotations as hints, loader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from steward_host.messages import Annotation, PythonModule
    from steward_host.values import Values


# Of what `def` makes.
_FUNCTION = type(lambda: None)


def _warning_of(cast: object) -> str:
    """The warning of a type in whose place the compiler takes "any"."""
    return (
        f"Python type {cast} was implicitly cast to 'Any' because no matching type was found in the Inmanta DSL."
        " Please refer to the documentation for an overview of supported types at the plugin boundary."
    )


def made(name: str, cls: type[plugins.Plugin]) -> plugins.Plugin:
    """The one instance of a plugin's class, in the namespace that its full name says."""
    return cls(Namespace.of(name.rsplit("::", 1)[0]))


class Declared:
    """The declarations of one load."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self.plugins: dict[str, plugins.Plugin] = {}
        self.classes: list[tuple[str, type[resources.Resource], dict[str, str]]] = []
        # As the compiler was told of the classes.
        self.described: list[dict[str, Any]] = []
        self._names: set[str] = set()
        self.warnings: list[str] = []

    def plugin(self, name: str, cls: type[plugins.Plugin]) -> dict[str, Any]:
        plugin = self.plugins[name] = made(name, cls)
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
            self._values.dataclasses[name] = dataclasses
        function: Any = cls.__function__
        while hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        code = getattr(function, "__code__", None)
        returns = self._annotation(name, "return value", plugin.return_type.annotation)
        return {
            "name": name,
            "file": code.co_filename if code is not None else "",
            "line": code.co_firstlineno + 1 if code is not None else 0,
            "parameters": parameters,
            "returns": "any" if returns == "missing" else returns,
            "allow_unknown": plugin.is_accept_unknowns(),
            "takes_context": plugin._context >= 0,
            "emits_statements": bool(cls.opts.get("emits_statements", False)),
            "commands": list(cls.opts.get("bin") or ()),
            "deprecated": (cls.replaced_by or "") if cls.deprecated else None,
            "docstring": function.__doc__,
        }

    def replaced_std(self) -> list[dict[str, Any]]:
        """The compiler's own plugins in whose place modules have put something of theirs: calls of them come here."""
        if plugins.Plugin._has_other_ways():
            plugins.load_std()
        of_std = [name for name, plugin in self.plugins.items() if name.startswith("std::") and plugin._is_replaced()]
        return [self.plugin(name, type(self.plugins[name])) for name in of_std]

    def describe_dataclasses(self, modules: list[PythonModule]) -> list[dict[str, Any]]:
        """The frozen dataclasses of the modules, which are paired with the entities of the same full names."""
        self._values.paired.clear()
        described = []
        for file in (file for module in modules for file in module["files"]):
            python_module = sys.modules[file["module"]]
            for cls in list(vars(python_module).values()):
                # Names of entities begin with a capital letter. A function may stand where a class should.
                is_candidate = isinstance(cls, (type, _FUNCTION)) and cls.__name__[:1].isupper()
                if not is_candidate or cls.__module__ != file["module"]:
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
        self._values.paired[entity] = cls
        types = hints.fields(cls)
        described["fields"] = [self._describe_field(name, types[name]) for name in hints.field_names(cls)]
        return described

    def _describe_field(self, name: str, annotation: object) -> dict[str, Any]:
        described, casts = hints.of_field(annotation)
        return {"name": name, "annotation": described, "warnings": [_warning_of(cast) for cast in casts]}

    def _converts(self, annotation: object) -> bool:
        """Whether arguments of this annotation come as dataclasses; ModelType[..] asks for the instance."""
        if isinstance(annotation, str):
            return any(name.rsplit("::", 1)[-1] in annotation for name in self._values.paired)
        if hasattr(annotation, "__metadata__"):
            return False
        if hints.dataclass_entity(annotation) is not None:
            return True
        return any(self._converts(inner) for inner in getattr(annotation, "__args__", ()) or ())

    def _annotation(self, plugin: str, argument: str, annotation: object) -> Annotation:
        casts: list[object] = []
        described = hints.describe(annotation, casts)
        self.warnings.extend(map(_warning_of, casts))
        if isinstance(described, dict) and str(described.get("bad", "")).startswith("expected"):
            return {"bad": f"Bad annotation in plugin {plugin} for {argument}, {described['bad']}"}
        return described

    def changed_resources(self) -> list[dict[str, Any]] | None:
        """The resource classes, if they are others than the compiler was told."""
        known = self.described
        now = self.describe_resources(self._names)
        return None if now == known else now

    def describe_resources(self, modules: set[str]) -> list[dict[str, Any]]:
        self._names = modules
        self.classes = []
        described = self.described = []
        for entity, (cls, options) in list(resources.resource._resources.items()):
            if not _belongs(cls.__module__, modules):
                continue
            self.classes.append((entity, cls, options))
            module = sys.modules.get(cls.__module__)
            described.append(
                {
                    "entity": entity,
                    "id_attribute": options["name"],
                    "agent": options["agent"],
                    "python_class": f"{cls.__module__}.{cls.__qualname__}",
                    "fields": [{"name": field, "getter": resources.has_getter(cls, field)} for field in cls.fields],
                    "identify": _identify(cls, options["name"]),
                    "assembles": not resources.is_plain(cls),
                    "file": getattr(module, "__file__", None) or "",
                    "line": getattr(cls, "__firstlineno__", 0),
                }
            )
        return described


def _belongs(python_module: str, modules: set[str]) -> bool:
    """Whether code is that of one of these modules, or of none at all."""
    parts = python_module.split(".")
    return parts[0] != loader.ROOT or (len(parts) > 1 and parts[1] in modules)


def _identify(cls: type[resources.Resource], id_attribute: str) -> str:
    if resources.identifies(cls):
        return "whole"
    return "value" if resources.has_getter(cls, id_attribute) else "no"
