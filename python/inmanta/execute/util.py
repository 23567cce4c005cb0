"""Special values of a model."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class Unknown:
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


class AnyType:
    """Equal to any value, for tests."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0
