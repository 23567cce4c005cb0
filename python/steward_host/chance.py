"""Chance in forks is what it is in a process that has imported the modules itself.

CPython seeds the generator behind `random.random()` anew in each fork, and no other one. In a process of its own, each import of
a module would instead give:

- the same numbers from what the module has seeded: `random.seed(42)` makes a compile reproducible, so it must hold in each
  fork, too;
- other numbers from what it has not: with `CHOICES = random.Random()` two agents must not choose the same password.

So it is noted which generators were seeded, and a fork takes the state of the common one along or seeds the others anew. What a
module draws from extension modules (numpy) is theirs: it is copied.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any


def follow() -> None:
    """From now on it is noted, as soon as `random` is imported."""
    known = sys.modules.get("random")
    if known is not None:
        _follow(known)
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder:
    """Finds `random` where all others do, once."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname != "random":
            return None
        sys.meta_path.remove(self)
        for finder in list(sys.meta_path):
            spec = finder.find_spec(fullname, path, target)
            if spec is not None and spec.loader is not None:
                following: Any = _Loader(spec.loader)
                spec.loader = following
                return spec
        return None


class _Loader:
    """Loads a module as another loader does, and has it followed."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        _follow(module)


def _follow(random: Any) -> None:
    if not hasattr(os, "register_at_fork") or hasattr(random.Random.seed, "__wrapped__"):
        return
    import weakref
    from functools import wraps

    own_seed, own_setstate, common = random.Random.seed, random.Random.setstate, random._inst
    # The generators that the operating system has seeded.
    unseeded = weakref.WeakSet([common])
    kept = None

    @wraps(own_seed)
    def seed(self: Any, a: Any = None, version: int = 2) -> None:
        own_seed(self, a, version)
        (unseeded.add if a is None else unseeded.discard)(self)

    @wraps(own_setstate)
    def setstate(self: Any, state: Any) -> None:
        own_setstate(self, state)
        unseeded.discard(self)

    def before() -> None:
        nonlocal kept
        kept = None if common in unseeded else common.getstate()

    def after_in_child() -> None:
        if kept is not None:
            own_setstate(common, kept)
        for one in unseeded:
            own_seed(one)

    random.Random.seed, random.Random.setstate = seed, setstate
    random.seed, random.setstate = common.seed, common.setstate
    # Behind that of `random` itself.
    os.register_at_fork(before=before, after_in_child=after_in_child)
