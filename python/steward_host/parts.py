"""Parts of packages of the standard library that modules use without importing them.

`import urllib` alone makes `urllib.parse` no attribute of `urllib`: somebody has to import it. In a process of the reference its
own imports have done so, and modules rely on it without knowing. Here such a part is imported when it is asked for.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

# The parts that the reference has imported before any module, but for those that come with their package.
PARTS = {
    "concurrent": frozenset({"futures"}),
    "email": frozenset(
        "base64mime charset encoders errors feedparser header iterators message parser quoprimime utils".split()
    ),
    "http": frozenset({"client", "cookiejar", "cookies"}),
    "importlib": frozenset({"abc", "machinery", "metadata", "readers", "resources", "util"}),
    "logging": frozenset({"config", "handlers"}),
    "urllib": frozenset({"error", "parse", "request", "response"}),
}
# Those that take no time to import.
_EMPTY = ("concurrent", "email", "importlib", "urllib")


class Later:
    """A finder that has packages give their parts as soon as they are imported."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if fullname not in PARTS:
            return None
        for finder in sys.meta_path:
            found = None if finder is self else finder.find_spec(fullname, path, target)  # type: ignore[arg-type]
            if found is not None:
                _attach(found)
                return found
        return None


def install() -> None:
    """From now on packages of the standard library give their parts to whoever asks for them."""
    for name in _EMPTY:
        _give(__import__(name))
    left = [name for name in PARTS if name not in _EMPTY]
    for name in left:
        if name in sys.modules:
            _give(sys.modules[name])
    if all(name in sys.modules for name in left) or any(isinstance(finder, Later) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, Later())


def _attach(spec: ModuleSpec) -> None:
    loader = spec.loader
    if loader is None or isinstance(loader, type):
        return
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        _give(module)

    setattr(loader, "exec_module", exec_module)


def _give(package: ModuleType) -> None:
    name = package.__name__
    parts = PARTS[name]

    def part(attribute: str) -> object:
        if attribute in parts:
            __import__(f"{name}.{attribute}")
            return sys.modules[f"{name}.{attribute}"]
        raise AttributeError(f"module {name!r} has no attribute {attribute!r}")

    vars(package).setdefault("__getattr__", part)
