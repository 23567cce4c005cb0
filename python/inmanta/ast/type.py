"""The types of the modelling language, as values: what `validate` accepts and how they are written."""

from __future__ import annotations

from inmanta.ast import RuntimeException
from inmanta.execute.util import AnyType, NoneValue, Unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any as Dynamic, NoReturn

__all__ = ["AnyType"]


class Type:
    """Base of all types."""

    def validate(self, value: object) -> bool:
        """True, or a RuntimeException that says what is wrong. Unknown always passes."""
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

    def is_entity(self) -> bool:
        return False

    def get_base_type(self) -> Type:
        return self

    def with_base_type(self, base_type: Type) -> Type:
        return base_type

    def normalize(self) -> None:
        pass

    def get_location(self) -> None:
        return None

    def supports_references(self) -> bool:
        return False

    def _refuse(self, value: object) -> bool:
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

    def type_string(self) -> str:
        return "any"

    type_string_internal = type_string


class Null(Type):
    """Null only."""

    def validate(self, value: object) -> bool:
        return value is None or isinstance(value, (NoneValue, Unknown)) or self._refuse(value)

    def type_string(self) -> str:
        return "null"

    type_string_internal = type_string


class Primitive(Type):
    """Base of the primitive types."""

    name = ""

    def is_primitive(self) -> bool:
        return True

    def type_string(self) -> str:
        return self.name

    type_string_internal = type_string

    def supports_references(self) -> bool:
        return True


class Number(Primitive):
    name = "number"

    def validate(self, value: object) -> bool:
        if isinstance(value, Unknown):
            return True
        return isinstance(value, (int, float)) and not isinstance(value, bool) or self._refuse(value)

    def cast(self, value: Dynamic) -> int | float:
        if isinstance(value, (bool, int)):
            return int(value)
        if isinstance(value, float):
            return value
        try:
            return int(value)
        except (TypeError, ValueError):
            pass
        try:
            return float(value)
        except (TypeError, ValueError):
            self._no_cast(value)


class Integer(Number):
    name = "int"

    def validate(self, value: object) -> bool:
        if isinstance(value, Unknown):
            return True
        return isinstance(value, int) and not isinstance(value, bool) or self._refuse(value)

    def cast(self, value: Dynamic) -> int:
        try:
            return int(value)
        except (TypeError, ValueError):
            self._no_cast(value)


class Float(Number):
    name = "float"

    def validate(self, value: object) -> bool:
        if isinstance(value, Unknown):
            return True
        return isinstance(value, (int, float)) and not isinstance(value, bool) or self._refuse(value)

    def cast(self, value: Dynamic) -> float:
        try:
            return float(value)
        except (TypeError, ValueError):
            self._no_cast(value)


class Bool(Primitive):
    name = "bool"

    def validate(self, value: object) -> bool:
        return isinstance(value, (bool, Unknown)) or self._refuse(value)

    def cast(self, value: object) -> bool:
        return False if isinstance(value, NoneValue) else bool(value)


class String(Primitive):
    name = "string"

    def validate(self, value: object) -> bool:
        return isinstance(value, (str, Unknown)) or self._refuse(value)

    def cast(self, value: object) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value)


class List(Type):
    """Any list."""

    def validate(self, value: object) -> bool:
        return isinstance(value, (list, Unknown)) or self._refuse(value)

    def type_string(self) -> str | None:
        return "list"

    def type_string_internal(self) -> str:
        return "list"

    def get_base_type(self) -> Type:
        return self


class TypedList(List):
    """A list whose elements all have one type."""

    def __init__(self, element_type: Type) -> None:
        self.element_type = element_type

    def validate(self, value: object) -> bool:
        if isinstance(value, Unknown):
            return True
        if not isinstance(value, list):
            return List().validate(value)
        return all([self.element_type.validate(element) for element in value])

    def type_string(self) -> str | None:
        inner = self.element_type.type_string()
        return None if inner is None else f"{inner}[]"

    def type_string_internal(self) -> str:
        return f"{self.element_type.type_string_internal()}[]"

    def get_base_type(self) -> Type:
        return self.element_type

    def with_base_type(self, base_type: Type) -> Type:
        return TypedList(base_type)

    def is_primitive(self) -> bool:
        return self.element_type.is_primitive()


class LiteralList(TypedList):
    """A list of anything but instances."""

    def __init__(self) -> None:
        super().__init__(Literal())

    def type_string(self) -> str:
        return "list"


class Dict(Type):
    """Any dict with text keys."""

    def validate(self, value: object) -> bool:
        if isinstance(value, Unknown):
            return True
        return isinstance(value, dict) and all(isinstance(key, str) for key in value) or self._refuse(value)

    def type_string(self) -> str | None:
        return "dict"

    def type_string_internal(self) -> str:
        return "Dict"


class TypedDict(Dict):
    """A dict whose values all have one type."""

    def __init__(self, element_type: Type) -> None:
        self.element_type = element_type

    def validate(self, value: object) -> bool:
        if isinstance(value, Unknown):
            return True
        if not isinstance(value, dict) or not Dict().validate(value):
            return Dict().validate(value)
        return all([self.element_type.validate(element) for element in value.values()])

    def type_string(self) -> str | None:
        return None

    def type_string_internal(self) -> str:
        return f"dict[string, {self.element_type.type_string_internal()}]"


class LiteralDict(TypedDict):
    """A dict of anything but instances."""

    def __init__(self) -> None:
        super().__init__(Literal())

    def type_string(self) -> str:
        return "dict"


class NullableType(Type):
    """Null or a value of the inner type."""

    def __init__(self, element_type: Type) -> None:
        self.element_type = element_type

    def validate(self, value: object) -> bool:
        return value is None or isinstance(value, NoneValue) or self.element_type.validate(value)

    def cast(self, value: object) -> object:
        return value if value is None or isinstance(value, NoneValue) else self.element_type.cast(value)

    def type_string(self) -> str | None:
        inner = self.element_type.type_string()
        return None if inner is None else f"{inner}?"

    def type_string_internal(self) -> str:
        return f"{self.element_type.type_string_internal()}?"

    def is_primitive(self) -> bool:
        return self.element_type.is_primitive()

    def get_base_type(self) -> Type:
        return self.element_type.get_base_type()

    def with_base_type(self, base_type: Type) -> Type:
        return NullableType(self.element_type.with_base_type(base_type))


class Union(Type):
    """A value of one of several types."""

    def __init__(self, types: list[Type]) -> None:
        self.types = list(types)

    def validate(self, value: object) -> bool:
        for member in self.types:
            try:
                if member.validate(value):
                    return True
            except RuntimeException:
                continue
        return self._refuse(value)

    def type_string_internal(self) -> str:
        return f"Union[{','.join(member.type_string_internal() for member in self.types)}]"


class Literal(Union):
    """Any value without instances in it."""

    def __init__(self) -> None:
        self.types = [Null(), Number(), Bool(), String()]

    def validate(self, value: object) -> bool:
        if isinstance(value, Unknown):
            return True
        if isinstance(value, list):
            return all([self.validate(element) for element in value])
        if isinstance(value, dict):
            return all([self.validate(element) for element in value.values()])
        return super().validate(value)

    def type_string_internal(self) -> str:
        return "Literal"


class ConstraintType(Type):
    """A typedef: a base type and a condition, which only the compiler can evaluate."""

    def __init__(self, name: str, basetype: Type | None = None) -> None:
        self.name = name
        self.basetype = basetype

    def validate(self, value: object) -> bool:
        from inmanta.execute import proxy, runtime

        return runtime.validate(self.name, proxy.DynamicProxy.unwrap(value))

    def type_string(self) -> str:
        return self.name

    type_string_internal = type_string

    def is_primitive(self) -> bool:
        return self.basetype is None or self.basetype.is_primitive()

    def get_base_type(self) -> Type:
        return self


class ReferenceType(Type):
    """A reference to a value of the element type."""

    def __init__(self, element_type: Type) -> None:
        self.element_type = element_type

    def validate(self, value: object) -> bool:
        return getattr(type(value), "_is_inmanta_reference", False) or self._refuse(value)

    def is_primitive(self) -> bool:
        return self.element_type.is_primitive()

    def type_string_internal(self) -> str:
        return f"Reference[{self.element_type.type_string_internal()}]"


TYPES: dict[str, Type] = {
    "string": String(),
    "float": Float(),
    "number": Number(),
    "int": Integer(),
    "bool": Bool(),
    "list": LiteralList(),
    "dict": LiteralDict(),
}


def parse(text: str) -> Type:
    """The type of a text such as `string[]?`; names that are no primitives become typedefs."""
    text = text.strip()
    if text.endswith("?"):
        return NullableType(parse(text[:-1]))
    if text.endswith("[]"):
        return TypedList(parse(text[:-2]))
    if text in ("any", "expression"):
        return Any()
    if text == "null":
        return Null()
    return TYPES.get(text) or ConstraintType(text)
