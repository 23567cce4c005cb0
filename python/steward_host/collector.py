"""Python's collector of cycles while the modules are imported.

An import makes many objects and next to no garbage, so to look for some in between is in vain, and takes a tenth of the start of
a host.
"""

from __future__ import annotations

import gc

_thresholds: tuple[int, int, int] | None = None


def pause() -> None:
    """No collection until `resume`, except for one that somebody asks for."""
    global _thresholds
    _thresholds = gc.get_threshold()
    gc.set_threshold(0)


def resume() -> None:
    """Collects as before, unless a module has set thresholds of its own meanwhile; what there is now is looked at no more."""
    global _thresholds
    gc.freeze()
    if _thresholds is not None and gc.get_threshold()[0] == 0:
        gc.set_threshold(*_thresholds)
    _thresholds = None
