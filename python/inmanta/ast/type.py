"""The types of the modelling language, as values: what `validate` accepts and how they are written.

`parse` reads a type as the model writes it, `of_annotation` as a plugin does in Python.
"""

from __future__ import annotations

from inmanta import _without
from inmanta.ast._composed import (
    Dict,
    List,
    Literal,
    LiteralDict,
    LiteralList,
    NullableType,
    OrReferenceType,
    ReferenceType,
    TypedDict,
    TypedList,
    Union,
    create_union,
)
from inmanta.ast._primitives import Any, Bool, Float, Integer, Null, Number, Primitive, String, Type
from inmanta.execute.util import AnyType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from steward_host.messages import Annotation

__all__ = [
    "TYPES",
    "Any",
    "AnyType",
    "Bool",
    "ConstraintType",
    "Dict",
    "Float",
    "Integer",
    "List",
    "Literal",
    "LiteralDict",
    "LiteralList",
    "Null",
    "NullableType",
    "Number",
    "OrReferenceType",
    "Primitive",
    "ReferenceType",
    "String",
    "Type",
    "TypedDict",
    "TypedList",
    "Union",
    "create_union",
]


@_without(
    "constraint get_constraint get_double_defined_exception get_full_name get_namespace set_constraint"
)
class ConstraintType(Type):
    """A typedef: a base type and a condition, which only the compiler can evaluate."""

    def __init__(self, name: str, basetype: Type | None = None) -> None:
        self.name = name
        self.basetype = basetype

    def validate(self, value: object) -> bool:
        from inmanta.execute import proxy, runtime

        if isinstance(value, AnyType):
            return True
        return runtime.validate(self.name, proxy.DynamicProxy._plain(value))

    def type_string(self) -> str:
        return self.name

    type_string_internal = type_string

    def is_primitive(self) -> bool:
        return self.basetype is None or self.basetype.is_primitive()

    def is_attribute_type(self) -> bool:
        return True

    def issubtype(self, other: Type) -> bool:
        return self == other or (self.basetype is not None and self.basetype.issubtype(other))


TYPES: dict[str, Type] = {
    "string": String(),
    "float": Float(),
    "number": Number(),
    "int": Integer(),
    "bool": Bool(),
    "list": LiteralList(),
    "dict": LiteralDict(),
}


# Of plugins: alone, and not as part of another type, these take instances too.
_CONTAINERS: dict[str, Type] = {"list": List(), "dict": TypedDict(Any()), "numbers.Number": Number()}


def parse(text: str) -> Type:
    """The type of a text such as `string[]?`; names that are no primitives become typedefs."""
    found = _modified(text, "") or TYPES.get(text.strip())
    return found or ConstraintType(text.strip())


def _modified(text: str, namespace: str | None) -> Type | None:
    """The type of a text that is more than a name: of `T?`, `T[]`, `any`, `null`."""
    text = text.strip()

    def inner(name: str) -> Type:
        return parse(name) if namespace == "" else of_model(name, namespace)

    if text.endswith("?"):
        return NullableType(inner(text[:-1]))
    if text.endswith("[]"):
        return TypedList(inner(text[:-2]))
    if text in ("any", "expression"):
        return Any()
    return Null() if text == "null" else None


def of_model(text: str, namespace: str | None) -> Type:
    """The type that a plugin of a namespace means by a text of the model.

    The compiler has found each of them when it loaded the plugin; what it found by the name of an import is not found
    here, and counts as any.
    """
    from inmanta.execute import runtime

    text = text.strip()
    found = _modified(text, namespace) or TYPES.get(text)
    if found is not None:
        return found
    own = f"{namespace}::{text}" if namespace else text
    return runtime.model_type(text) or (runtime.model_type(own) if own != text else None) or Any()


def of_annotation(annotation: object, namespace: str | None = None) -> Type:
    """The type that an annotation of a plugin means: Python's, or a text of the model."""
    from steward_host import annotations

    return _described(annotations.describe(annotation), namespace)


def of_field(described: Annotation) -> Type:
    """The type that a field of a dataclass means, which is Python's in any case."""
    return _described(described, None)


def _described(described: Annotation, namespace: str | None) -> Type:
    if isinstance(described, str):
        return Null() if described == "null" else Any()
    ((kind, inner),) = described.items()
    if kind == "model":
        return _CONTAINERS.get(inner) or of_model(inner, namespace)
    if kind == "union":
        return create_union(_described(member, namespace) for member in inner)
    if kind == "list":
        return TypedList(_described(inner, namespace))
    if kind == "dict":
        return TypedDict(_described(inner, namespace))
    if kind == "reference":
        return ReferenceType(_described(inner, namespace))
    return OneOf(inner) if kind == "literal" else Any()


class OneOf(Type):
    """One of the values of a `typing.Literal`."""

    def __init__(self, values: list[object]) -> None:
        self.values = values

    def validate(self, value: object) -> bool:
        same = (isinstance(value, AnyType), *(type(value) is type(known) and value == known for known in self.values))
        return any(same) or self._refuse(value)

    def type_string_internal(self) -> str:
        return f"Literal[{', '.join(map(repr, self.values))}]"

if not TYPE_CHECKING:
    # What only the reference's module has says why it is not here.
    from inmanta import _rest_of

    __getattr__ = _rest_of(__name__)
