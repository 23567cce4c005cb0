"""Marks what modules may rely on."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")


def stable_api(api_element: T) -> T:
    """Gives its argument back: the mark is for readers."""
    return api_element
