"""Annotations of plugins, as the compiler wants them. Source: language reference 10.2.

`describe` gives an `Annotation` of protocol.rs: text is a type of the model; Python's own types become their
counterparts; a class that has none is "any".
"""

from __future__ import annotations

import sys

from inmanta._signature import MISSING
from inmanta.plugins import ModelType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from steward_host.messages import Annotation

_SIMPLE = {str: "string", int: "int", float: "float", bool: "bool"}
_ARRAYS = {"list", "Sequence", "MutableSequence", "Collection", "Iterable"}
_MAPS = {"dict", "Mapping", "MutableMapping"}


def describe(annotation: Any) -> Annotation:
    """The annotation in the form of protocol.rs: a bare name, or a map of one entry."""
    if annotation is MISSING:
        return "missing"
    if isinstance(annotation, str):
        return {"model": annotation.strip()}
    if annotation is None or annotation is type(None):
        return "null"
    if annotation is object:
        return "any"
    simple = _SIMPLE.get(annotation) if isinstance(annotation, type) else None
    if simple is not None:
        return {"model": simple}
    if isinstance(annotation, type) and annotation.__module__ == "numbers" and annotation.__name__ == "Number":
        return {"model": "number"}
    if isinstance(annotation, ModelType):
        return {"model": annotation.model_type}
    typing = sys.modules.get("typing")
    if typing is not None and annotation is typing.Any:
        return "any"
    if hasattr(annotation, "__metadata__"):
        return _annotated(annotation)
    if type(annotation).__name__ == "TypeAliasType":
        return describe(annotation.__value__)
    if hasattr(annotation, "__supertype__"):
        return describe(annotation.__supertype__)
    origin = getattr(annotation, "__origin__", None)
    arguments = getattr(annotation, "__args__", ())
    if _is_union(annotation, origin):
        return {"union": [describe(member) for member in arguments]}
    if typing is not None and origin is typing.Literal:
        return {"literal": list(arguments)}
    if _is_reference(origin if origin is not None else annotation):
        return {"reference": _referenced(origin, annotation, arguments)}
    return _container(annotation, origin, arguments)


def _annotated(annotation: Any) -> Annotation:
    for item in annotation.__metadata__:
        if isinstance(item, ModelType):
            return {"model": item.model_type}
    return describe(annotation.__origin__)


def _is_union(annotation: object, origin: object) -> bool:
    typing = sys.modules.get("typing")
    return type(annotation).__name__ == "UnionType" or (typing is not None and origin is typing.Union)


def _is_reference(candidate: object) -> bool:
    return getattr(candidate, "_is_inmanta_reference", False)


def _referenced(origin: object, annotation: Any, arguments: tuple[Any, ...]) -> Annotation:
    """What a reference stands for: T of Reference[T], or of the class that a subclass was made from."""
    if arguments:
        return describe(arguments[0])
    found = getattr(annotation, "get_reference_type")() if isinstance(annotation, type) else None
    return "any" if found is None else describe(found)


def _container(annotation: object, origin: object, arguments: tuple[Any, ...]) -> Annotation:
    outer = origin if origin is not None else annotation
    name = getattr(outer, "__name__", None)
    if outer is set:
        return {"bad": f"invalid type {annotation}, set is not supported on the plugin boundary"}
    if getattr(outer, "__module__", None) in ("builtins", "typing", "collections.abc"):
        if name in _ARRAYS:
            return {"list": describe(arguments[0])} if _is_subscripted(arguments) else {"model": "list"}
        if name in _MAPS:
            return _map(annotation, arguments)
    entity = dataclass_entity(annotation)
    if entity is not None:
        return {"model": entity}
    if isinstance(annotation, type) or origin is not None or type(annotation).__name__ == "TypeVar":
        return "any"
    return {"bad": f"expected str or python type but got {type(annotation).__name__} ({annotation})"}


def _map(annotation: object, arguments: tuple[Any, ...]) -> Annotation:
    if not _is_subscripted(arguments):
        return {"model": "dict"}
    if arguments[0] is not str:
        got = f"the keys of any dict should be 'str', got {arguments[0]} instead"
        return {"bad": f"invalid type {annotation}, {got}"}
    return {"dict": describe(arguments[1]) if len(arguments) > 1 else "any"}


def is_cast(annotation: object) -> bool:
    """Whether an annotation is a class without counterpart in the model, so that it means "any"."""
    if isinstance(annotation, str) or annotation is object or describe(annotation) != "any":
        return False
    typing = sys.modules.get("typing")
    return not hasattr(annotation, "__metadata__") and (typing is None or annotation is not typing.Any)


def _is_subscripted(arguments: tuple[Any, ...]) -> bool:
    # `typing.List` without brackets has a type variable as argument on old Pythons.
    return bool(arguments) and type(arguments[0]).__name__ != "TypeVar"


def evaluated(annotation: object, cls: type) -> object:
    """The type that a field of a dataclass is annotated with: a text is Python there, not a type of the model."""
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, vars(sys.modules[cls.__module__]))
    except Exception:
        return annotation


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
