"""Where Python finds modules of the language: whatever installed them, it is the one who knows.

`python steward_host/__main__.py locate NAME...` writes the answer as one line of JSON; a process that has a compile run
is asked by a message. Files of packages are read by Steward itself, so nothing is imported here.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from typing import Any

ROOT = "inmanta_plugins"

# How the metadata of an installed module begin, the rest of whose name is its own.
DISTRIBUTION = "inmanta_module_"


def _finders() -> list[Any]:
    """All but our own, which find what Steward has told them."""
    return [finder for finder in sys.meta_path if type(finder).__module__ != "steward_host.loader"]


def _find(fullname: str, path: list[str] | None) -> ModuleSpec | None:
    for finder in _finders():
        find_spec = getattr(finder, "find_spec", None)
        spec: ModuleSpec | None = None if find_spec is None else find_spec(fullname, path)
        if spec is not None:
            return spec
    return None


def _path() -> list[str]:
    """The path of the package above all modules, with what only Python can make something of."""
    found: list[str] = []
    module = sys.modules.get(ROOT)
    known = getattr(module, "__path__", None)
    if known is not None and type(known).__module__ != "steward_host.loader":
        found += known
    for finder in _finders():
        spec = finder.find_spec(ROOT, None) if hasattr(finder, "find_spec") else None
        if spec is not None:
            found += spec.submodule_search_locations or ()
    return list(dict.fromkeys(found))


def portions() -> list[str]:
    """The directories whose subdirectories are modules."""
    return [path for path in _path() if os.path.isdir(path)]


def folder_of(name: str) -> str | None:
    """The directory of the package of a module. Whether it is one that counts, who asks can see."""
    spec = _find(f"{ROOT}.{name}", _path())
    if spec is None:
        return None
    if spec.origin is not None and spec.has_location:
        return os.path.dirname(os.path.abspath(spec.origin))
    return next(iter(spec.submodule_search_locations or ()), None)


def _distributions() -> set[str]:
    """The modules that seem to be installed, whatever makes them importable."""
    names = set()
    for directory in sys.path:
        try:
            entries = os.listdir(directory)
        except OSError:
            continue
        for entry in entries:
            stem, extension = os.path.splitext(entry.lower())
            if extension == ".egg-link":
                stem = stem.replace("-", "_")
            elif extension in (".dist-info", ".egg-info"):
                # Behind it stands the version.
                stem = stem.split("-")[0].replace(".", "_")
            else:
                continue
            if stem.startswith(DISTRIBUTION):
                names.add(stem[len(DISTRIBUTION) :])
    return names


def locate(names: list[str]) -> dict[str, Any]:
    """All that can be known ahead, so that one question is enough for most projects, and the modules of these names."""
    wanted = sorted({*names, *_distributions()})
    return {"path": portions(), "modules": {name: folder_of(name) for name in wanted if name.isidentifier()}}


def main(names: list[str]) -> int:
    import json

    # Files that add to the path may have written something before.
    print("\n" + json.dumps(locate(names)))
    return 0
