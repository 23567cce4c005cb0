"""Ready-made allocators, `lsm::allocators`. Source: docs/reference/lsm.md § 2.7."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inmanta.plugins import plugin
from inmanta.util import dict_path

from . import _model, _selection
from ._compile import kept
from ._errors import LsmError
from ._inventory import global_cache
from .allocation_helpers import allocator

TYPE_CHECKING = False
if TYPE_CHECKING:
    ServiceEntity = Any
    Binding = Any
else:
    ServiceEntity, Binding = "lsm::ServiceEntity", "lsm::Binding"


@allocator
def get_first_free_integer(
    service: ServiceEntity, attribute_path: str, *, range_start: int, range_end: int, used_values: list[object]
) -> int | None:
    """The smallest number of a range, its ends included, that is not used, nor given in this compile for the same attribute."""
    record, _ = _selection.record_of(service)
    given = kept.values().setdefault(("given", record["service_entity"], _attribute(attribute_path)), set())
    used = {value for value in used_values if isinstance(value, int)} | given
    for number in range(range_start, range_end + 1):
        if number not in used:
            given.add(number)
            return number
    raise LsmError(f"no number between {range_start} and {range_end} is free for {attribute_path}")


def _attribute(path: str) -> tuple[str, ...]:
    """The attribute that a path leads to, whatever elements it picks on its way."""
    sections: Sequence[Any] = dict_path.to_path(path).get_path_sections()
    return tuple(section.get_key() for section in sections)


@plugin
def get_used_values(binding: Binding, wild_path: str) -> list[object]:
    """All values that a path finds in any set of any instance of a service."""
    return global_cache.used_values(_model.service_name(binding), wild_path)
