"""Classes that are written with parameters, `Reference[str]`, without `typing`, which takes its time to load."""

from __future__ import annotations

from types import GenericAlias

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Generic, TypeVar

    T = TypeVar("T")
    U = TypeVar("U")

    class Subscripted(Generic[T]):
        """Takes one parameter."""

    class Subscripted2(Generic[T, U]):
        """Takes two."""

else:
    T = U = None

    class Subscription(GenericAlias):
        """A class with its parameters. As with `typing`, `|` takes texts and whatever can be called beside it."""

        def __or__(self, other):
            return _union(super().__or__(other), self, other)

        def __ror__(self, other):
            return _union(super().__ror__(other), other, self)

    def _union(found, left, right):
        """The union of two, if there is none yet."""
        if found is not NotImplemented:
            return found
        from typing import Union

        return Union[left, right]

    class Subscripted:
        """Takes parameters, which only type checkers and `get_reference_type` read."""

        def __class_getitem__(cls, parameters):
            return Subscription(cls, parameters)

    Subscripted2 = Subscripted
