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

    class Subscripted:
        """Takes parameters, which only type checkers and `get_reference_type` read."""

        def __class_getitem__(cls, parameters):
            return GenericAlias(cls, parameters)

    Subscripted2 = Subscripted
