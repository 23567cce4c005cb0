"""Annotations of plugins, as the compiler wants them. Source: docs/reference/language.md § 10.2.

`describe` gives an `Annotation` of the protocol: text is a type of the model; Python's own types become their
counterparts; a class that has none is "any".
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence, Set

from inmanta._signature import MISSING
from inmanta.plugins import ModelType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from steward_host.messages import Annotation

# `numbers.Number`: the model's `number`, which is deprecated only where it is written so.
NUMBER = "numbers.Number"
_SIMPLE = {str: "string", int: "int", float: "float", bool: "bool"}


def describe(annotation: Any, casts: list[object] | None = None) -> Annotation:
    """The annotation in the form of the protocol: a bare name, or a map of one entry.

    `casts` gets the classes in it without counterpart in the model, which mean "any".
    """
    if annotation is MISSING:
        return "missing"
    if isinstance(annotation, str):
        return {"model": annotation.strip()}
    typing = sys.modules.get("typing")
    if typing is not None and annotation is typing.Union:
        return {"bad": f"Union type must be subscripted, got {annotation}"}
    if not _is_type(annotation):
        return {"bad": f"expected str or python type but got {type(annotation).__name__} ({annotation})"}
    return _described(annotation, [] if casts is None else casts)


def _is_type(annotation: object) -> bool:
    """Whether an annotation is one of Python's types, which a text, a type variable and a NewType are not."""
    if annotation is None or isinstance(annotation, type) or type(annotation).__name__ in ("TypeAliasType", "UnionType"):
        return True
    return getattr(annotation, "__origin__", None) is not None


def _described(annotation: Any, casts: list[object]) -> Annotation:
    """A type of Python, also as a part of another, where a text is no type of the model."""
    if annotation is None or annotation is type(None):
        return "null"
    if type(annotation).__name__ == "TypeAliasType":
        return _described(annotation.__value__, casts)
    typing = sys.modules.get("typing")
    if annotation is object or (typing is not None and annotation is typing.Any):
        return "any"
    if hasattr(annotation, "__metadata__"):
        return _annotated(annotation, casts)
    origin = getattr(annotation, "__origin__", None)
    arguments = getattr(annotation, "__args__", ())
    if _is_union(annotation, origin):
        return {"union": [_described(member, casts) for member in arguments]}
    if typing is not None and origin is typing.Literal:
        return {"literal": list(arguments)}
    if _is_reference(origin if origin is not None else annotation):
        return {"reference": _referenced(annotation, arguments, casts)}
    if isinstance(annotation, type) and origin is None:
        return _class(annotation, casts)
    found = _container(annotation, origin, arguments, casts) if isinstance(origin, type) else None
    return _cast(annotation, casts) if found is None else found


def _cast(annotation: object, casts: list[object]) -> Annotation:
    casts.append(annotation)
    return "any"


def _class(annotation: type, casts: list[object]) -> Annotation:
    simple = _SIMPLE.get(annotation)
    if simple is not None:
        return {"model": simple}
    if annotation in (list, Sequence):
        return {"model": "list"}
    if annotation in (dict, Mapping):
        return {"dict": "any"}
    if annotation.__module__ == "numbers" and annotation.__name__ == "Number":
        return {"model": NUMBER}
    if hasattr(annotation, "__dataclass_fields__"):
        entity = dataclass_entity(annotation)
        if entity is None:
            return {"bad": f"invalid type {annotation}, this dataclass has no associated inmanta entity"}
        return {"model": entity}
    return _cast(annotation, casts)


def _annotated(annotation: Any, casts: list[object]) -> Annotation:
    for item in reversed(annotation.__metadata__):
        if isinstance(item, ModelType):
            return {"model": item.model_type}
    return _described(annotation.__origin__, casts)


def _is_union(annotation: object, origin: object) -> bool:
    typing = sys.modules.get("typing")
    return type(annotation).__name__ == "UnionType" or (typing is not None and origin is typing.Union)


def _is_reference(candidate: object) -> bool:
    return getattr(candidate, "_is_inmanta_reference", False)


def _referenced(annotation: Any, arguments: tuple[Any, ...], casts: list[object]) -> Annotation:
    """What a reference stands for: T of Reference[T], or of the class that a subclass was made from."""
    if arguments:
        return _described(arguments[0], casts)
    found = getattr(annotation, "get_reference_type")() if isinstance(annotation, type) else None
    return "any" if found is None else _described(found, casts)


def _container(
    annotation: object, origin: type, arguments: tuple[Any, ...], casts: list[object]
) -> Annotation | None:
    if origin in (list, Sequence):
        return {"list": _described(arguments[0], casts)} if arguments else {"model": "list"}
    if origin in (dict, Mapping):
        return _map(annotation, arguments, casts)
    if origin is tuple:
        return None
    for kind, wrong in _UNFIT.items():
        if issubclass(origin, kind):
            return {"bad": f"invalid type {annotation}, {wrong}"}
    return None


_UNFIT: dict[type, str] = {
    Mapping: "dictionary types should be Mapping or dict",
    Sequence: "list types should be Sequence or list",
    Set: "set is not supported on the plugin boundary",
}


def _map(annotation: object, arguments: tuple[Any, ...], casts: list[object]) -> Annotation:
    if not arguments:
        return {"dict": "any"}
    if not isinstance(arguments[0], type) or not issubclass(arguments[0], str):
        got = f"the keys of any dict should be 'str', got {arguments[0]} instead"
        return {"bad": f"invalid type {annotation}, {got}"}
    return {"dict": _described(arguments[1], casts) if len(arguments) > 1 else "any"}


def model_type(annotation: object) -> str:
    """The text of the model for an annotation; any for what is more than a name."""
    described = describe(annotation)
    found = described.get("model") if isinstance(described, dict) else None
    return "number" if found == NUMBER else found if isinstance(found, str) else "any"


def _evaluated(annotation: object, cls: type) -> object:
    """The type that a field of a dataclass is annotated with: a text is Python there, not a type of the model."""
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, vars(sys.modules[cls.__module__]))
    except Exception:
        return annotation


def of_field(annotation: object) -> tuple[Annotation, list[object]]:
    """What `describe` says, of a field of a dataclass, and the types in it without counterpart in the model."""
    casts: list[object] = []
    return _described(annotation, casts), casts


_fields: dict[type, dict[str, Any]] = {}
_field_names: dict[type, tuple[str, ...]] = {}


def fields(cls: type) -> dict[str, Any]:
    """The types of a dataclass's fields by name, as Python has them: no texts, and nothing of what `Annotated` adds."""
    known = _fields.get(cls)
    if known is None:
        import typing

        try:
            known = typing.get_type_hints(cls)
        except Exception:
            # A name in a text that the module does not have.
            known = {name: _evaluated(field.type, cls) for name, field in getattr(cls, "__dataclass_fields__").items()}
        _fields[cls] = known
    return known


def field_names(cls: Any) -> tuple[str, ...]:
    """The fields of a dataclass, without what it declares for the class itself (`ClassVar`)."""
    known = _field_names.get(cls)
    if known is None:
        declared = cls.__dataclass_fields__.items()
        known = _field_names[cls] = tuple(name for name, field in declared if field._field_type.name == "_FIELD")
    return known


def plain(annotation: object) -> object:
    """T of the annotation `T | Reference[T]`."""
    members = getattr(annotation, "__args__", ())
    if not _is_union(annotation, getattr(annotation, "__origin__", None)):
        return annotation
    values = [member for member in members if not _is_reference(getattr(member, "__origin__", member))]
    return values[0] if values else annotation


def dataclass_entity(annotation: object) -> str | None:
    """The entity that a dataclass of a module is paired with, by its name; None for any other class."""
    if not isinstance(annotation, type) or not hasattr(annotation, "__dataclass_fields__"):
        return None
    parts = annotation.__module__.split(".")
    if parts[0] != "inmanta_plugins" or len(parts) < 2:
        return None
    return "::".join([*parts[1:], annotation.__name__])
