"""Allocators that are plugins, called where an attribute is assigned. Source: docs/reference/lsm.md § 2.10.4."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from inmanta.plugins import plugin
from inmanta.util import dict_path

from . import _compile, _selection
from ._inventory import write
from ._model import plain

F = TypeVar("F", bound=Callable[..., Any])
# The arguments that come first.
_FIRST = 2


def allocator(function: F | None = None) -> Any:
    """Makes an allocator, and a plugin, of a function of an instance, the path of an attribute, and keyword arguments.

    It is called only when the attribute has no value and the instance is validated; what it returns is stored.
    """
    if function is None:
        return allocator
    return plugin(_allocating(function))


def _allocating(function: F) -> F:
    parameters = [*inspect.signature(function).parameters.values()]
    positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    named = [one for one in parameters if one.kind is one.KEYWORD_ONLY]
    if len(positional) != _FIRST or len(named) + _FIRST != len(parameters):
        raise TypeError(
            f"the allocator {function.__name__} needs two positional arguments, the service and the path of the attribute;"
            " all others are for keywords only"
        )

    @functools.wraps(function)
    def allocating(service: Any, attribute_path: str, **arguments: Any) -> Any:
        record, definition = _selection.record_of(service)
        kind = _selection.chosen_set(record, _selection.state_of(record, definition))
        if kind is None:
            return None
        try:
            found = dict_path.to_path(attribute_path).get_element(record[f"{kind}_attributes"])
        except LookupError:
            found = None
        if found is not None or record["id"] != _compile.validated():
            return found
        value = plain(function(service, attribute_path, **arguments))
        write(record, {attribute_path: value})
        return value

    # Plugins are asked for their own parameters, and these are those of the allocator.
    allocating.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]  # what `inspect` looks for
    return allocating  # type: ignore[return-value]
