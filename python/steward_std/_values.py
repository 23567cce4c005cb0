"""Values, instances and conditions. Source: docs/reference/std.md § 5.3."""

# A reference may stand for anything.
# mypy: disable-error-code="type-arg"

from __future__ import annotations

from inmanta.ast import OptionalValueException, RuntimeException
from inmanta.execute.util import Unknown
from inmanta.plugins import Context, allow_reference_values
from inmanta.references import Reference

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Entity = Any
    System = Any
else:
    Entity, System = "std::Entity", "std::OS"


def printf(message: object | Reference) -> object:
    print(message)
    return None


def assert_function(expression: bool, message: str = "") -> object:
    """AssertionError for what is not true."""
    if not expression:
        raise AssertionError(f"Assertion error: {message}")
    return None


def equals(arg1: object, arg2: object, desc: str | None = None) -> object:
    """AssertionError for two values that differ."""
    if arg1 != arg2:
        raise AssertionError(f"{arg1} != {arg2}" if desc is None else f"{arg1} != {arg2}: {desc}")
    return None


def inlineif(conditional: bool, a: object, b: object) -> object:
    return a if conditional else b


def invert(value: bool) -> bool:
    return not value


def isset(value: object) -> bool:
    return value is not None


def is_unknown(value: object | Reference) -> bool:
    return isinstance(value, Unknown)


def attr(obj: object, attr: str) -> object | Reference:
    found: object = getattr(allow_reference_values(obj), attr)
    return found


def getattribute(
    entity: Entity, attribute_name: str, default_value: object | Reference = None, no_unknown: bool = True
) -> object | Reference:
    """An attribute by its name; the default if the entity has none of this name."""
    try:
        value = getattr(allow_reference_values(entity), attribute_name)
    except (AttributeError, KeyError):
        return default_value
    return default_value if no_unknown and isinstance(value, Unknown) else value


def is_instance(ctx: Context, obj: object, cls: str) -> bool:
    """Whether an instance is one of an entity, by that one's full name."""
    wanted: Any = ctx.get_type(cls)
    instance = getattr(obj, "_get_instance")()
    try:
        wanted.validate(instance)
    except RuntimeException:
        return False
    return True


def familyof(member: System, family: str) -> bool:
    """Whether an operating system is of a family. The last of a chain is none: it has no family itself."""
    if member.name == family:
        return True
    try:
        while (above := member.family) is not None:
            if member.name == family:
                return True
            member = above
    except OptionalValueException:
        pass
    return False


def objid(value: object) -> str:
    """Something to tell instances apart by, for a person."""
    instance = getattr(value, "_get_instance")()
    return str((instance, str(id(instance)), instance.__class__))


def type_of(obj: object) -> object:
    """Fails for every value, as the published package's: it asks for what no value has."""
    return getattr(obj, "value").type()


def timestamp(dummy: object = None) -> int:
    import time

    return int(time.time())
