"""Makes the Python files of a project's modules importable."""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader, SourcelessFileLoader

from steward_host import parts, resolving

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from steward_host.messages import PythonFile, PythonModule

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
    """Finds exactly the listed files, by dotted name, and packages between them that have no file of their own.

    The package above all modules is Python's to find: its path grows with what is installed.
    """

    def __init__(self) -> None:
        self._files: dict[str, tuple[str, bool]] = {}
        self._packages: set[str] = set()

    def add(self, modules: list[PythonModule]) -> None:
        for module in modules:
            for file in module["files"]:
                self._files[file["module"]] = (file["path"], file["package"])
                parent = file["module"].rpartition(".")[0]
                while "." in parent:
                    self._packages.add(parent)
                    parent = parent.rpartition(".")[0]

    def paths(self) -> set[str]:
        return {path for path, _ in self._files.values()}

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        found = self._files.get(fullname)
        if found is not None:
            return _spec(fullname, *found)
        if fullname not in self._packages:
            return None
        # A directory without `__init__.py`.
        spec = ModuleSpec(fullname, None, is_package=True)
        spec.submodule_search_locations = []
        return spec


def _spec(fullname: str, file: str, package: bool) -> ModuleSpec:
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


class Portions(list[str]):
    """The path of `inmanta_plugins` where Python finds no such package: what is installed by the time that it is read."""

    def __iter__(self) -> Iterator[str]:
        from steward_host import locating

        return iter(locating.portions())

    def __len__(self) -> int:
        return len([*self])

    def __getitem__(self, index: Any) -> Any:
        return [*self][index]

    def __contains__(self, path: object) -> bool:
        return path in [*self]


class Fallback:
    """The last of all finders: modules of the older kind in the module path, our own `inmanta_plugins.std` where no published
    one is installed, and the package above them where nothing is installed."""

    def __init__(self, module_path: Callable[[], list[str]] = list) -> None:
        # Asked when it is needed for the first time: few modules import others that the model does not.
        self._module_path = module_path

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if fullname == ROOT:
            spec = ModuleSpec(fullname, None, is_package=True)
            spec.submodule_search_locations = Portions()
            return spec
        root, _, name = fullname.partition(".")
        if root != ROOT or not name or "." in name:
            return None
        if name == "std":
            return _spec(fullname, os.path.join(OWN_STD, "__init__.py"), True)
        carried = carried_package(name)
        if carried is not None:
            return _spec(fullname, os.path.join(carried, "__init__.py"), True)
        for directory in self._module_path():
            module = os.path.join(directory, name)
            if os.path.isfile(os.path.join(module, "module.yml")):
                return self._older(fullname, os.path.join(module, "plugins"))
        return None

    def _older(self, fullname: str, directory: str) -> ModuleSpec | None:
        file = os.path.join(directory, "__init__.py")
        return _spec(fullname, file, True) if os.path.isfile(file) else None


_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OWN_STD = os.path.join(_PACKAGE, "steward_std")


def carried_package(name: str) -> str | None:
    """The folder of the package of a module of ours that has Python code as others have it."""
    folder = os.path.join(_PACKAGE, "steward_modules", name, ROOT, name)
    return folder if os.path.isfile(os.path.join(folder, "__init__.py")) else None


def forget(root: str) -> None:
    """Forgets a Python module and all below it."""
    for name in [name for name in sys.modules if name == root or name.startswith(root + ".")]:
        del sys.modules[name]


def reset_states() -> None:
    """Calls the functions by which the imported modules forget what an earlier compile left in them."""
    for name, module in list(sys.modules.items()):
        if name == ROOT or name.startswith(ROOT + "."):
            for attribute, function in list(vars(module).items()):
                if attribute.startswith("inmanta_reset_state") and callable(function):
                    function()


def install_fallback(module_path: Callable[[], list[str]] = list) -> None:
    """Has modules found in these directories from now on, after all other finders."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, Fallback)]
    sys.meta_path.append(Fallback(module_path))


def install(modules: list[PythonModule], module_path: Callable[[], list[str]] = list) -> Finder:
    """Puts a finder for these modules in front of all others, in the place of an earlier one."""
    finder = Finder()
    finder.add(modules)
    if sys.pycache_prefix is None:
        # A checkout of a commit stays as the commit has it.
        sys.dont_write_bytecode = True
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, Finder)]
    sys.meta_path.insert(0, finder)
    parts.install()
    install_fallback(module_path)
    return finder


def as_installed(modules: list[PythonModule]) -> list[PythonModule]:
    """The same modules; the files of one that is installed as a package, not in place, are those of the package, if they are the same.

    What a package has besides is only there, and handlers read it beside their own files. What is in place may change meanwhile.
    """
    portions = [os.path.join(path, ROOT) for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")]
    return [_as_installed(module, portions) for module in modules]


def _as_installed(module: PythonModule, portions: list[str]) -> PythonModule:
    for portion in portions:
        root = os.path.join(portion, module["name"])
        if module["files"] and os.path.isdir(root):
            places = [_place(portion, file) for file in module["files"]]
            if all(_are_same(file["path"], place) for file, place in zip(module["files"], places)):
                moved = zip(module["files"], places)
                files: list[PythonFile] = [
                    {"module": file["module"], "path": place, "package": file["package"]} for file, place in moved
                ]
                return {"name": module["name"], "root": root, "files": files}
            break
    return module


def _place(portion: str, file: PythonFile) -> str:
    path = os.path.join(portion, *file["module"].split(".")[1:])
    extension = os.path.splitext(file["path"])[1]
    return (os.path.join(path, "__init__") if file["package"] else path) + extension


def _are_same(one: str, other: str) -> bool:
    try:
        with open(one, "rb") as first, open(other, "rb") as second:
            return first.read() == second.read()
    except OSError:
        return False


# A process may have read anything for the one that started it.
_STARTS = {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "subprocess.Popen"}


class files_read:
    """Notes the files below a directory that are read from now on, other than Python's own."""

    def __init__(self, directory: str) -> None:
        self._directory = os.path.join(directory, "")
        self._found: set[str] | None = set()
        # Whether nobody knows all that was read.
        self.is_partial = False
        sys.addaudithook(self._noted)

    def _noted(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._found is None:
            return
        self.is_partial |= event in _STARTS
        if event not in ("open", "os.listdir", "os.scandir") or not arguments:
            return
        path = arguments[0]
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if isinstance(path, str) and not path.endswith((".py", ".pyc")):
            path = resolving.by_name(os.path.abspath(path))
            if path.startswith(self._directory) and not os.path.isdir(path):
                self._found.add(path)

    def stop(self) -> set[str]:
        found, self._found = self._found, None
        return found or set()
