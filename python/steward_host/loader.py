"""Makes the Python files of a project's modules importable, and forgets the modules of an earlier project."""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader, SourcelessFileLoader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from steward_host.messages import PythonModule

ROOT = "inmanta_plugins"


class Source(SourceFileLoader):
    """Keeps compiled code by the content of its source.

    Python goes by time and size, but a file of another commit may have both of these in common with the one before.
    """

    def path_stats(self, path: str) -> dict[str, int]:
        import _imp

        content = self.get_data(path)
        return {"mtime": int.from_bytes(_imp.source_hash(0, content)[:4], "big"), "size": len(content)}


class Finder:
    """Finds exactly the listed files, by dotted name, and the namespace package above them."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[str, bool]] = {}
        self._packages: set[str] = set()

    def add(self, modules: list[PythonModule]) -> None:
        for module in modules:
            for file in module["files"]:
                self._files[file["module"]] = (file["path"], file["package"])
                parent = file["module"]
                while "." in parent:
                    parent = parent.rpartition(".")[0]
                    self._packages.add(parent)

    def paths(self) -> set[str]:
        return {path for path, _ in self._files.values()}

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        found = self._files.get(fullname)
        if found is None:
            if fullname in self._packages:
                # A directory without `__init__.py`, or the root of all.
                spec = ModuleSpec(fullname, None, is_package=True)
                spec.submodule_search_locations = _installed() if fullname == ROOT else []
                return spec
            return None
        file, package = found
        loader = (SourcelessFileLoader if file.endswith(".pyc") else Source)(fullname, file)
        spec = ModuleSpec(fullname, loader, origin=file, is_package=package)
        spec.has_location = True
        if package:
            spec.submodule_search_locations = [file.rpartition("/")[0]]
        return spec


class Imports:
    """Notes which module of the language imports which, in whatever way, while it is entered."""

    def __init__(self) -> None:
        # (importing, imported), in order.
        self.found: dict[tuple[str, str], None] = {}

    def __enter__(self) -> Imports:
        import builtins
        import importlib

        self._import, self._import_module = builtins.__import__, importlib.import_module
        builtins.__import__ = self._statement
        importlib.import_module = self._function
        return self

    def __exit__(self, *_: object) -> None:
        import builtins
        import importlib

        builtins.__import__, importlib.import_module = self._import, self._import_module

    def _statement(
        self,
        name: str,
        globals: Any = None,
        locals: Any = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        if level or name.startswith(ROOT):
            absolute = name
            if level and globals:
                package = (globals.get("__package__") or "").split(".")
                base = package[: len(package) - level + 1]
                absolute = ".".join([*base, name] if name else base)
            for target in (f"{absolute}.{part}" for part in fromlist or ("",)):
                self._note(target, 2)
        return self._import(name, globals, locals, fromlist or (), level)

    def _function(self, name: str, package: str | None = None) -> Any:
        made = self._import_module(name, package)
        self._note(made.__name__, 2)
        return made

    def _note(self, target: str, depth: int) -> None:
        parts = target.split(".")
        if parts[0] != ROOT or len(parts) < 2 or not parts[1]:
            return
        # A library may do the importing.
        frame = sys._getframe(depth)
        while frame is not None:
            importing = str(frame.f_globals.get("__name__")).split(".")
            if importing[0] == ROOT and len(importing) > 1:
                if importing[1] != parts[1]:
                    self.found[importing[1], parts[1]] = None
                return
            frame = frame.f_back  # type: ignore[assignment]


class BuiltinStd:
    """Finds our own `inmanta_plugins.std` where no published one is installed; the last of all finders."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if fullname != ROOT + ".std":
            return None
        directory = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "steward_std")
        file = os.path.join(directory, "__init__.py")
        spec = ModuleSpec(fullname, SourceFileLoader(fullname, file), origin=file, is_package=True)
        spec.has_location = True
        spec.submodule_search_locations = [directory]
        return spec


def _installed() -> list[str]:
    """Where modules that are no part of the project may be installed: one may import another for its code."""
    return [path for path in (os.path.join(entry, ROOT) for entry in sys.path) if os.path.isdir(path)]


def install(modules: list[PythonModule], keep: bool = False) -> Finder:
    """Puts a finder for these modules in front; modules imported by an earlier one are forgotten.

    `keep`: only those that came from another file.
    """
    finder = Finder()
    finder.add(modules)
    paths = finder.paths()
    for name, module in list(sys.modules.items()):
        if name == ROOT or name.startswith(ROOT + "."):
            for attribute, function in list(vars(module).items()):
                if attribute.startswith("inmanta_reset_state") and callable(function):
                    function()
            if not keep or (file := getattr(module, "__file__", None)) is not None and file not in paths:
                del sys.modules[name]
    if sys.pycache_prefix is None:
        # A checkout of a commit stays as the commit has it.
        sys.dont_write_bytecode = True
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, (Finder, BuiltinStd))]
    sys.meta_path.insert(0, finder)
    # `find_spec` of a namespace package that has no directories at all would not get to the end of the list.
    sys.meta_path.append(BuiltinStd())
    return finder


class files_read:
    """Notes the files below a directory that are read from now on, other than Python's own."""

    def __init__(self, directory: str) -> None:
        self._directory = os.path.join(directory, "")
        self._found: set[str] | None = set()
        sys.addaudithook(self._noted)

    def _noted(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._found is None or event not in ("open", "os.listdir", "os.scandir") or not arguments:
            return
        path = arguments[0]
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if isinstance(path, str) and not path.endswith((".py", ".pyc")):
            path = os.path.abspath(path)
            if path.startswith(self._directory) and not os.path.isdir(path):
                self._found.add(path)

    def stop(self) -> set[str]:
        found, self._found = self._found, None
        return found or set()
