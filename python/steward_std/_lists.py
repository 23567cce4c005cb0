"""Lists and dicts. Source: docs/reference/std.md § 5.2."""

# A list of the model says nothing of its elements.
# mypy: disable-error-code="type-arg"

from __future__ import annotations

import builtins
import itertools
import operator
from collections.abc import Mapping, Sequence

from inmanta.execute.util import Unknown
from inmanta.references import Reference

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Entity = Any
else:
    Entity = "std::Entity"


def count(item_list: Sequence[object | Reference]) -> int:
    """How many there are, Unknowns included."""
    return len(item_list)


def list_len(item_list: Sequence[object | Reference]) -> int:
    """How many there are; Unknown if one of them is."""
    found: Any = next((element for element in item_list if isinstance(element, Unknown)), None)
    return len(item_list) if found is None else found


def at(objects: Sequence[object | Reference], index: int) -> object | Reference:
    return objects[int(index)]


def item(objects: list, index: int) -> list:
    """The element of an index of each of the lists."""
    return [each[index] for each in objects]


def flatten(item_list: list) -> list:
    return [*itertools.chain.from_iterable(item_list)]


def unique(item_list: list) -> bool:
    """Whether no element is there twice."""
    seen = set()
    for element in item_list:
        if element in seen:
            return False
        seen.add(element)
    return True


def key_sort(items: list, key: object) -> list:
    """By an attribute, a dotted path, or by several of them."""
    keys: Any = key if isinstance(key, tuple) else (key,)
    return sorted(items, key=operator.attrgetter(*keys))


def sequence(i: int, start: int = 0) -> list:
    return [*range(start, start + int(i))]


def select(objects: list, attr: str) -> list:
    return [getattr(each, attr) for each in objects]


def filter(values: list, not_item: Entity) -> list:
    """All values but one instance."""
    return [*builtins.filter(lambda value: value != not_item, values)]


def dict_get(dct: dict, key: str) -> str:
    found: str = dct[key]
    return found


def contains(dct: dict, key: str) -> bool:
    return key in dct


def dict_keys(dct: Mapping[str, object]) -> list[str]:
    return [*dct.keys()]
