"""Special values of a model."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class AnyType:
    """Base of values that every type takes."""

    __slots__ = ()


class Unknown(AnyType):
    """A value that only becomes known later, such as a fact; `source` is what is waited for."""

    __slots__ = ("source",)

    def __init__(self, source: object = None) -> None:
        self.source = source

    def __iter__(self) -> Iterator[object]:
        return iter(())

    def __repr__(self) -> str:
        return "<Unknown>"


class NoneValue:
    """The model's null. Every one equals every other."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NoneValue)

    def __hash__(self) -> int:
        return hash(None)

    def __str__(self) -> str:
        return "null"

    __repr__ = __str__

if not TYPE_CHECKING:
    # What only the reference's module has says why it is not here.
    from inmanta import _rest_of

    __getattr__ = _rest_of(__name__)
