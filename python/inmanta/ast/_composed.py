"""Types made of others: lists, dicts, nullable types, unions, references.

Null of the model is None in this process, also inside of lists and dicts, so None is a value of nullable types and of
nothing else.
"""

from __future__ import annotations

from inmanta.ast import RuntimeException, TypingException
from inmanta.ast._primitives import Any, Bool, Null, Number, String, Type
from inmanta.execute.util import AnyType, NoneValue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class List(Type):
    """Any list."""

    def validate(self, value: object) -> bool:
        return isinstance(value, (list, AnyType)) or self._refuse(value)

    def type_string(self) -> str | None:
        return "list"

    def type_string_internal(self) -> str:
        return "list"

    def issubtype(self, other: Type) -> bool:
        return isinstance(other, (Any, List))


class TypedList(List):
    """A list whose elements all have one type."""

    def __init__(self, element_type: Type) -> None:
        self.element_type = element_type

    def validate(self, value: object) -> bool:
        if not isinstance(value, list):
            return List.validate(self, value)
        return all([self.element_type.validate(element) for element in value])

    def type_string(self) -> str | None:
        inner = self.element_type.type_string()
        return None if inner is None else f"{_in_brackets(inner)}[]"

    def type_string_internal(self) -> str:
        return f"{_in_brackets(self.element_type.type_string_internal())}[]"

    def get_base_type(self) -> Type:
        return self.element_type

    def with_base_type(self, base_type: Type) -> Type:
        return TypedList(base_type)

    def is_primitive(self) -> bool:
        return self.element_type.is_primitive()

    def is_attribute_type(self) -> bool:
        return self.element_type.is_attribute_type()

    def issubtype(self, other: Type) -> bool:
        if isinstance(other, TypedList):
            return self.element_type.issubtype(other.element_type)
        return other.issupertype(self)


class LiteralList(TypedList):
    """A list of anything but instances."""

    def __init__(self) -> None:
        super().__init__(Literal())

    def type_string(self) -> str:
        return "list"

    def get_base_type(self) -> Type:
        return self

    def with_base_type(self, base_type: Type) -> Type:
        return self


class Dict(Type):
    """Any dict."""

    def validate(self, value: object) -> bool:
        return isinstance(value, (dict, AnyType)) or self._refuse(value)

    def type_string(self) -> str | None:
        return "dict"

    def type_string_internal(self) -> str:
        return "Dict"

    def issubtype(self, other: Type) -> bool:
        return isinstance(other, (Any, Dict))


class TypedDict(Dict):
    """A dict whose values all have one type."""

    def __init__(self, element_type: Type) -> None:
        self.element_type = element_type

    def validate(self, value: object) -> bool:
        if not isinstance(value, dict):
            return Dict.validate(self, value)
        return all([self.element_type.validate(element) for element in value.values()])

    def type_string_internal(self) -> str:
        return f"dict[string, {self.element_type.type_string_internal()}]"

    def issubtype(self, other: Type) -> bool:
        if isinstance(other, TypedDict):
            return self.element_type.issubtype(other.element_type)
        return other.issupertype(self)


class LiteralDict(TypedDict):
    """A dict of anything but instances."""

    def __init__(self) -> None:
        super().__init__(Literal())

    def is_attribute_type(self) -> bool:
        return True


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
        return None if inner is None else f"{_in_brackets(inner)}?"

    def type_string_internal(self) -> str:
        return f"{_in_brackets(self.element_type.type_string_internal())}?"

    def is_primitive(self) -> bool:
        return self.element_type.is_primitive()

    def is_attribute_type(self) -> bool:
        return self.element_type.is_attribute_type()

    def get_base_type(self) -> Type:
        return self.element_type.get_base_type()

    def with_base_type(self, base_type: Type) -> Type:
        return NullableType(self.element_type.with_base_type(base_type))

    def supports_references(self) -> bool:
        return self.element_type.supports_references()

    def issubtype(self, other: Type) -> bool:
        if isinstance(other, NullableType) and self.element_type.issubtype(other.element_type):
            return True
        return other.issupertype(self)

    def issupertype(self, other: Type) -> bool:
        return isinstance(other, Null) or other.issubtype(self.element_type)


class Union(Type):
    """A value of one of several types."""

    def __init__(self, types: Iterable[Type]) -> None:
        self.types = list(types)

    def validate(self, value: object) -> bool:
        for member in self.types:
            try:
                if member.validate(value):
                    return True
            except RuntimeException as error:
                if is_waiting(error):
                    raise
        return self._refuse(value)

    def type_string_internal(self) -> str:
        return f"Union[{','.join(member.type_string_internal() for member in self.types)}]"

    def is_attribute_type(self) -> bool:
        return all(member.is_attribute_type() for member in self.types)

    def supports_references(self) -> bool:
        return any(member.supports_references() for member in self.types)

    def issubtype(self, other: Type) -> bool:
        return self == other or all(member.issubtype(other) for member in self.types)

    def issupertype(self, other: Type) -> bool:
        return any(other.issubtype(member) for member in self.types)


class Literal(Union):
    """Any value without instances in it."""

    def __init__(self) -> None:
        super().__init__([Null(), Number(), Bool(), String()])

    def validate(self, value: object) -> bool:
        if isinstance(value, list):
            return all([self.validate(element) for element in value])
        if isinstance(value, dict):
            return all([self.validate(element) for element in value.values()])
        return is_reference(value) or super().validate(value)

    def type_string_internal(self) -> str:
        return "Literal"

    def is_attribute_type(self) -> bool:
        return True

    def issubtype(self, other: Type) -> bool:
        return Type.issubtype(self, other)

    def issupertype(self, other: Type) -> bool:
        return other.is_attribute_type()


class ReferenceType(Type):
    """A reference to a value of the element type."""

    def __init__(self, element_type: Type) -> None:
        self.element_type = element_type

    def validate(self, value: object) -> bool:
        if not is_reference(value):
            return self._refuse(value)
        if not referenced(value).issubtype(self.element_type):
            raise TypingException(None, f"Invalid value: {value} is not a subtype of {self.type_string_internal()}")
        return True

    def is_primitive(self) -> bool:
        return self.element_type.is_primitive()

    def is_attribute_type(self) -> bool:
        return self.element_type.is_attribute_type()

    def get_base_type(self) -> Type:
        return self.element_type

    def supports_references(self) -> bool:
        return True

    def type_string_internal(self) -> str:
        return f"Reference[{self.element_type.type_string_internal()}]"


class OrReferenceType(Type):
    """`T | Reference[T]`."""

    def __init__(self, element_type: Type) -> None:
        self.element_type = element_type
        self.reference_type = ReferenceType(element_type)

    def validate(self, value: object) -> bool:
        return (self.reference_type if is_reference(value) else self.element_type).validate(value)

    def is_attribute_type(self) -> bool:
        return self.element_type.is_attribute_type()

    def get_base_type(self) -> Type:
        return self.element_type

    def supports_references(self) -> bool:
        return True

    def type_string(self) -> str | None:
        return self.element_type.type_string()

    def type_string_internal(self) -> str:
        return f"{self.reference_type.type_string_internal()} | {self.element_type.type_string_internal()}"

    def issupertype(self, other: Type) -> bool:
        if isinstance(other, (ReferenceType, OrReferenceType)):
            return other.element_type.issubtype(self.element_type)
        return other.issubtype(self.element_type)


def create_union(types: Iterable[Type]) -> Type:
    """The simplest type that takes what these take: null is outermost, unions do not nest, `T | Reference[T]` is one."""
    waiting = list(types)
    plain: list[Type] = []
    referenced_types: list[Type] = []
    is_nullable = False
    while waiting:
        member = waiting.pop(0)
        if type(member) is Union:
            waiting += member.types
        elif isinstance(member, NullableType):
            is_nullable = True
            waiting.append(member.element_type)
        elif isinstance(member, Null):
            is_nullable = True
        elif isinstance(member, ReferenceType):
            referenced_types.append(member.element_type)
        elif member not in plain:
            plain.append(member)
    members = [OrReferenceType(member) if member in referenced_types else member for member in plain]
    members += [ReferenceType(element) for element in referenced_types if element not in plain]
    made = members[0] if len(members) == 1 else Union(members) if members else Null()
    return NullableType(made) if is_nullable and members else made


def is_reference(value: object) -> bool:
    return getattr(type(value), "_is_inmanta_reference", False)


def referenced(value: object) -> Type:
    """The type of what a reference stands for; Any where its class does not say."""
    from inmanta.ast.type import of_annotation

    attribute = getattr(value, "_attribute_type", None)
    if isinstance(attribute, Type):
        return attribute
    of = getattr(value, "_model_type", None)
    if of is None:
        of = getattr(value, "get_reference_type")()
    return Any() if of is None else of_annotation(of)


def is_waiting(error: RuntimeException) -> bool:
    """Whether an exception only says that a value is not there yet, so that it has to pass."""
    from inmanta.ast import MultiUnsetException, UnsetException

    return isinstance(error, (UnsetException, MultiUnsetException))


def _in_brackets(text: str) -> str:
    return f"({text})" if " " in text else text
