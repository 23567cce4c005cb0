"""Exported forms of references and mutators, and of their arguments. Source: docs/reference/language.md § 12.11.

Each has the attributes of its form, `model_dump` and `model_copy`, and an argument computes its value in the executor.
"""

from __future__ import annotations

from inmanta import _without
from inmanta._model_methods import ModelMethods

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self
    from uuid import UUID

    from inmanta.agent.handler import LoggerABC
    from inmanta.resources import Resource

_PYTHON_TYPES = {"str": str, "int": int, "float": float, "bool": bool}


class Model(ModelMethods):
    """Named values, compared by them."""

    _fields: tuple[str, ...] = ()

    def __init__(self, **values: Any) -> None:
        for name in self._fields:
            if name not in values:
                raise TypeError(f"{type(self).__name__} needs {name}")
        if unknown := values.keys() - {*self._fields}:
            raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(unknown))}")
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Any:
        # For annotations: every field is set.
        raise AttributeError(f"{type(self).__name__} has no attribute {name}")

    def to_dict(self) -> dict[str, Any]:
        """The form as JSON types."""
        return {name: _plain(getattr(self, name)) for name in self._fields}

    def model_dump(self, mode: str = "python") -> dict[str, Any]:
        """All fields by name; ids are texts if `mode` is `json`."""
        return self.to_dict() if mode == "json" else {name: _dumped(getattr(self, name)) for name in self._fields}

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(getattr(self, n) == getattr(other, n) for n in self._fields)

    __hash__ = None  # type: ignore[assignment]  # as everything that can change

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self._fields)})"


class Argument(Model):
    """An argument of a reference or a mutator; `type` says of which kind."""

    type = ""
    _fields: tuple[str, ...] = ("type", "name")

    def __init__(self, **values: Any) -> None:
        super().__init__(**{"type": self.type, **values})

    def get_arg_value(self, resource: Resource, logger: LoggerABC) -> Any:
        """What the constructor gets in the executor."""
        raise NotImplementedError


class LiteralArgument(Argument):
    """A text, number, truth value or null."""

    type = "literal"
    _fields = ("type", "name", "value")

    def get_arg_value(self, resource: Resource, logger: LoggerABC) -> Any:
        return self.value


class JsonArgument(LiteralArgument):
    """A list or dict without references."""

    type = "json"


class ReferenceArgument(Argument):
    """What a reference of the same resource resolves to."""

    type = "reference"
    _fields = ("type", "name", "id")

    def __init__(self, **values: Any) -> None:
        super().__init__(**{**values, "id": _uuid(values.get("id"))})

    def get_arg_value(self, resource: Resource, logger: LoggerABC) -> Any:
        return resource.get_reference_value(self.id, logger)


class MutatedJsonArgument(Argument):
    """A list or dict with null where its references belong: `references` has them by path, `$.'key'[0]`."""

    type = "mjson"
    _fields = ("type", "name", "value", "references")

    def __init__(self, **values: Any) -> None:
        given = values.get("references", {}).items()
        references = {path: argument(found) if isinstance(found, dict) else found for path, found in given}
        super().__init__(**{**values, "references": references})

    def get_arg_value(self, resource: Resource, logger: LoggerABC) -> Any:
        holder = {"$": self.value}
        for path, inner in self.references.items():
            # Forms of older versions begin without a root.
            write(holder, "$" + path if path.startswith(".") else path, inner.get_arg_value(resource, logger))
        return holder["$"]


class GetArgument(Argument):
    """A part of the resource; nothing makes it yet, and as with the reference it has no value."""

    type = "get"
    _fields = ("type", "name", "dict_path_expression")

    def get_arg_value(self, resource: Resource, logger: LoggerABC) -> Any:
        return None


class PythonTypeArgument(Argument):
    """One of the built-in types, by its name."""

    type = "python_type"
    _fields = ("type", "name", "value")

    def get_arg_value(self, resource: Resource, logger: LoggerABC) -> Any:
        return _PYTHON_TYPES[self.value]


class ResourceArgument(Argument):
    """The resource itself, by its id."""

    type = "resource"
    _fields = ("type", "name", "id")

    def get_arg_value(self, resource: Resource, logger: LoggerABC) -> Any:
        if self.id != resource.id.resource_str():
            raise Exception(f"An argument of {resource.id.resource_str()} names another resource, {self.id}")
        return resource


_KINDS: dict[str, type[Argument]] = {
    kind.type: kind
    for kind in (
        *(LiteralArgument, JsonArgument, ReferenceArgument, MutatedJsonArgument),
        *(GetArgument, PythonTypeArgument, ResourceArgument),
    )
}


def argument(exported: dict[str, Any]) -> Argument:
    """The argument of an exported form; TypeError for a kind that nobody knows."""
    kind = _KINDS.get(exported["type"])
    if kind is None:
        raise TypeError(f"Unknown kind of argument {exported['type']}")
    return kind(**exported)


class SerializedReferenceLike(Model):
    """Type and arguments of a reference or a mutator."""

    _fields: tuple[str, ...] = ("type", "args")

    def __init__(self, **values: Any) -> None:
        args = [argument(found) if isinstance(found, dict) else found for found in values.get("args", ())]
        super().__init__(**{**values, "args": args})


class ReferenceModel(SerializedReferenceLike):
    """The exported form of a reference: id, type and arguments."""

    _fields = ("id", "type", "args")

    def __init__(self, **values: Any) -> None:
        super().__init__(**{**values, "id": _uuid(values.get("id"))})


@_without("model_post_init")
class MutatorModel(SerializedReferenceLike):
    """The exported form of a mutator."""

    def get_id(self) -> UUID:
        """The id that follows from type and arguments."""
        return id_of(self.type, self.args)


def id_of(type_name: str, arguments: list[Argument]) -> UUID:
    """The id of a reference or a mutator: a UUID of version 3 over its canonical form."""
    import hashlib
    import json
    import uuid

    text = json.dumps({"type": type_name, "args": [argument.to_dict() for argument in arguments]}, sort_keys=True)
    digest = hashlib.md5(text.encode()).digest()
    return uuid.UUID(bytes=hashlib.md5(uuid.NAMESPACE_OID.bytes + digest).digest(), version=3)


def write(target: Any, destination: str, value: object) -> None:
    """Writes into a resource, list or dict at `field`, `field[0].'key'`."""
    *steps, last = parse_destination(destination)
    for step in steps:
        target = target[step]
    target[last] = value


def parse_destination(text: str) -> list[str | int]:
    """The steps of `field`, `field[0].'key'`: what a Replace writes to. ValueError for another text."""
    import re

    first = re.match(r"[^.\[]+", text)
    if first is None:
        raise ValueError(f"Invalid destination {text!r}")
    steps: list[str | int] = [first[0]]
    position = first.end()
    step = re.compile(r"\[(\d+)\]|\.'((?:[^'\\]|\\.)*)'|\.([^.\['\"]+)")
    while position < len(text):
        found = step.match(text, position)
        if found is None:
            raise ValueError(f"Invalid destination {text!r}")
        if found[1] is not None:
            steps.append(int(found[1]))
        elif found[2] is not None:
            steps.append(re.sub(r"\\(.)", r"\1", found[2]))
        else:
            steps.append(found[3])
        position = found.end()
    return steps


def _uuid(value: object) -> UUID:
    from uuid import UUID

    return value if isinstance(value, UUID) else UUID(str(value))


def _dumped(value: Any) -> Any:
    if isinstance(value, Model):
        return value.model_dump()
    if isinstance(value, list):
        return [_dumped(item) for item in value]
    if isinstance(value, dict):
        return {key: _dumped(item) for key, item in value.items()}
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, Model):
        return value.to_dict()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    from inmanta.resources import to_json

    return to_json(value)
