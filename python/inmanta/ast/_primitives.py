"""Types of single values: text, numbers, booleans, null. What `validate` takes is what the model's own check takes."""

from __future__ import annotations

from inmanta import _without
from inmanta.ast import RuntimeException, UnexpectedReference
from inmanta.execute.util import AnyType, NoneValue, Unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any as Dynamic, NoReturn

    from inmanta.ast import Location


@_without(
    "as_python_type_string copy_location corresponds_to has_custom_to_python location set_location to_python"
)
class Type:
    """Base of all types."""

    def validate(self, value: object) -> bool:
        """True, or a RuntimeException that says what is wrong. Unknown passes, except where only null does."""
        return True

    def cast(self, value: Dynamic) -> object:
        self._no_cast(value)

    def _no_cast(self, value: object) -> NoReturn:
        raise RuntimeException(None, f"Failed to cast '{value}' to {self}")

    def type_string(self) -> str | None:
        """How the model writes this type; None if it cannot."""
        return None

    def type_string_internal(self) -> str:
        return type(self).__name__

    def is_primitive(self) -> bool:
        return False

    def is_attribute_type(self) -> bool:
        """Whether an attribute of the model can have this type."""
        return False

    def is_entity(self) -> bool:
        return False

    def get_base_type(self) -> Type:
        """The type without `[]`, `?` and `Reference`."""
        return self

    def with_base_type(self, base_type: Type) -> Type:
        return base_type

    def issubtype(self, other: Type) -> bool:
        """Whether each value of this type is one of the other; False where that is not plain to see."""
        return self == other or other.issupertype(self)

    def issupertype(self, other: Type) -> bool:
        """What `issubtype` asks the other type."""
        return False

    def normalize(self) -> None:
        pass

    def get_location(self) -> Location | None:
        return None

    def supports_references(self) -> bool:
        """Whether a reference is a value of this type."""
        return False

    def _refuse(self, value: object) -> bool:
        if getattr(type(value), "_is_inmanta_reference", False):
            raise UnexpectedReference(reference=value, message=f"References are no values of type `{self}`")
        expected = self.type_string() or self.type_string_internal()
        raise RuntimeException(None, f"Invalid value '{value}', expected {expected}")

    def __str__(self) -> str:
        return self.type_string() or self.type_string_internal()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(str(self))


class Any(Type):
    """Every value."""

    def issupertype(self, other: Type) -> bool:
        return True

    def type_string_internal(self) -> str:
        return "any"


class Null(Type):
    """Null only."""

    def validate(self, value: object) -> bool:
        return value is None or isinstance(value, NoneValue) or self._refuse(value)

    def type_string(self) -> str:
        return "null"

    type_string_internal = type_string


class Primitive(Type):
    """Base of the primitive types."""

    name = ""

    def is_primitive(self) -> bool:
        return True

    def is_attribute_type(self) -> bool:
        return True

    def type_string(self) -> str:
        return self.name

    type_string_internal = type_string

    def cast(self, value: Dynamic) -> object:
        """The value as one of this type; an Unknown stays one. RuntimeException if it cannot be."""
        if isinstance(value, Unknown):
            return value
        try:
            return self._cast(value)
        except (TypeError, ValueError):
            self._no_cast(value)

    def _cast(self, value: Dynamic) -> object:
        raise TypeError("this type has no cast")


class Number(Primitive):
    """Integers, floats, and the booleans, which Python counts among the numbers."""

    name = "number"

    def validate(self, value: object) -> bool:
        return isinstance(value, (int, float, complex, AnyType)) or self._refuse(value)

    def _cast(self, value: Dynamic) -> int | float:
        return int(value) if isinstance(value, int) else float(value)

    def issubtype(self, other: Type) -> bool:
        return Float().issubtype(other) and Integer().issubtype(other)

    def issupertype(self, other: Type) -> bool:
        return isinstance(other, (Float, Integer))


class Integer(Primitive):
    name = "int"

    def validate(self, value: object) -> bool:
        return isinstance(value, (int, AnyType)) or self._refuse(value)

    def _cast(self, value: Dynamic) -> int:
        return int(value)


class Float(Primitive):
    name = "float"

    def validate(self, value: object) -> bool:
        return isinstance(value, (float, AnyType)) or self._refuse(value)

    def _cast(self, value: Dynamic) -> float:
        return float(value)


class Bool(Primitive):
    name = "bool"

    def validate(self, value: object) -> bool:
        return isinstance(value, (bool, AnyType)) or self._refuse(value)

    def _cast(self, value: object) -> bool:
        return False if isinstance(value, NoneValue) else bool(value)


class String(Primitive):
    name = "string"

    def validate(self, value: object) -> bool:
        return isinstance(value, (str, AnyType)) or self._refuse(value)

    def _cast(self, value: object) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value)
