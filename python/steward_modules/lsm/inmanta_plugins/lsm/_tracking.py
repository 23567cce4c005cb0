"""Embedded entities that came or went between two attribute sets. Source: docs/reference/lsm.md § 1.4.5."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    Record = dict[str, Any]
    # An embedded relation: its name, whether it holds a list, the key attributes, what is embedded below.
    Embedded = tuple[str, bool, tuple[str, ...], "Shape"]
    Shape = list[Embedded]


def with_flags(
    shape: Shape, current: Mapping[str, Any], previous: Mapping[str, Any] | None, removed: str, added: str
) -> Record:
    """The current set, with elements of the previous one that it has not, and two flags for each embedded element."""
    made = dict(current)
    for name, is_list, keys, below in shape:
        new = _elements(current.get(name), keys)
        old = new if previous is None else _elements(previous.get(name), keys)
        elements = []
        for key in dict.fromkeys((*old, *new)):
            flags = {removed: key not in new, added: key not in old}
            if key in new:
                before = old.get(key) if previous is not None else new[key]
                # What is below a new element is as new as itself.
                element = with_flags(below, new[key], before if before is not None else {}, removed, added)
            else:
                element = with_flags(below, _without(below, old[key]), old[key], removed, added)
            elements.append({**element, **flags})
        if is_list:
            made[name] = elements
        else:
            # One that was replaced has another key: the one that there is now counts.
            made[name] = elements[-1] if elements else None
    return made


def _without(shape: Shape, element: Mapping[str, Any]) -> Record:
    """An element without what is embedded in it."""
    names = {name for name, *_ in shape}
    return {name: value for name, value in element.items() if name not in names}


def _elements(value: Any, keys: Iterable[str]) -> dict[tuple[str, ...], Record]:
    """Elements by the values of their key; a single one without a key has a constant one."""
    elements = value if isinstance(value, list) else [] if value is None else [value]
    return {tuple(repr(element.get(key)) for key in keys): element for element in elements}
