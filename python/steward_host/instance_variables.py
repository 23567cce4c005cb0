"""The variables of the environment that say which service instance a compile is for.

Modules are imported once and serve many compiles, which differ in these. So each compile sets them anew; and a module that
reads one of them while it is imported, into a variable of its own, can serve that one compile only.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# `CHANGING_VARIABLES` of compiler/src/services.rs.
CHANGING = frozenset(("inmanta_instance_id", "inmanta_instance_version", "INMANTA_REMOVED_RESOURCE_SET_ID"))


class _Watched(os._Environ):  # type: ignore[type-arg]  # it has no public name, and `os.environ` is one
    """The variables, with a note whether somebody looked at one that changes."""

    was_read = False

    def __getitem__(self, name: str) -> str:
        if name in CHANGING:
            _Watched.was_read = True
        value: str = super().__getitem__(name)
        return value

    def __contains__(self, name: object) -> bool:
        if name in CHANGING:
            _Watched.was_read = True
        return super().__contains__(name)


class Watch:
    """While it is entered, reads of changing variables are noted in `was_read`."""

    def __init__(self) -> None:
        self.was_read = False
        self._before = type(os.environ)

    def __enter__(self) -> Watch:
        _Watched.was_read = False
        os.environ.__class__ = _Watched
        return self

    def __exit__(self, *_: object) -> None:
        os.environ.__class__ = self._before
        self.was_read = _Watched.was_read


def change(values: Mapping[str, str]) -> None:
    """Sets the changing variables as the next compile has them."""
    for name in CHANGING:
        os.environ.pop(name, None)
    os.environ.update(values)
