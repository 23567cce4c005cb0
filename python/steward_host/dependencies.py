"""What the import of the modules depended on, so that Steward can keep what they declare and start no Python next time.

That is sound only if all that the import looked at can be looked at again without Python, and if the import did nothing that
anybody could notice. Python tells an audit hook of nearly all that code does outside of its process: files that are opened are
noted, so are folders that are listed; reading them again is Steward's part, by their stamps. Whether a file is there Python
tells nobody, so the functions of `os` that look are replaced meanwhile. Whatever else may have a result that nobody can check
(processes, sockets, devices), or leaves something behind (files, threads), makes that nothing is kept.

What no hook sees, chance and the clock, shows itself when Python is started after all: it then says something else than what
was kept, and the compile begins again without that.
"""

from __future__ import annotations

import _thread
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from steward_host.messages import Depends

# What happens inside of the process only, or is a look at a file that another event tells of.
_HARMLESS = {
    # What a thread does is told, too; one that goes on is found by its number.
    "_thread.start_joinable_thread",
    "_thread.start_new_thread",
    "array.__new__",
    "builtins.id",
    "code.__new__",
    "compile",
    "ctypes.addressof",
    "exec",
    "function.__new__",
    "gc.get_objects",
    "gc.get_referents",
    "gc.get_referrers",
    "glob.glob",
    "glob.glob/2",
    "import",
    "marshal.dumps",
    "marshal.load",
    "marshal.loads",
    "object.__delattr__",
    "object.__getattr__",
    "object.__setattr__",
    "os.chdir",
    "os.fwalk",
    "os.putenv",
    "os.unsetenv",
    "os.walk",
    "pathlib.Path.glob",
    "pathlib.Path.rglob",
    "pickle.find_class",
    "sys._current_exceptions",
    "sys._current_frames",
    "sys._getframe",
    "sys._getframemodulename",
    "sys.addaudithook",
    "sys.set_asyncgen_hooks_finalizer",
    "sys.set_asyncgen_hooks_firstiter",
    "time.sleep",
}

# Events of Python's own writing of bytecode, with how many of their arguments are paths.
_BYTECODE = {"os.mkdir": 1, "os.rename": 2, "os.remove": 1, "os.chmod": 1}

# Opened files whose content is no file's: it is another one each time, or another one for each process.
_NO_FILES = ("/proc/", "/sys/", "/dev/")
_CONSTANT = ("/dev/null",)

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

# Functions of `os` that say whether there is a file, or what it is.
_LOOKS = ("stat", "lstat", "access", "readlink")

# Sets of functions that `shutil` and others compare those of `os` with when they are imported.
_SUPPORTS = ("supports_dir_fd", "supports_effective_ids", "supports_fd", "supports_follow_symlinks")

_PYTHON = os.path.dirname(os.__file__)
# Our own package, in a folder that is named after what is in it.
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PACKAGES = ("site-packages", "dist-packages")


class Dependencies:
    """Notes from `begin` to `end`; `found` gives what was noted."""

    def __init__(self) -> None:
        self._is_noting = False
        # Opened or listed.
        self._read: set[str] = set()
        # Of these only was asked what they are.
        self._looked_at: set[str] = set()
        # Why nothing may be kept.
        self.reason: str | None = None
        self._n_threads = 0
        self._looks: dict[str, tuple[Any, Any]] = {}

    def begin(self) -> None:
        self._n_threads = _thread._count()
        self._is_noting = True
        for name in _LOOKS:
            self._replace(name)
        # There is no way to take it away again.
        sys.addaudithook(self._on_event)

    def end(self) -> None:
        self._is_noting = False
        if _thread._count() > self._n_threads:
            self._give_up("a thread")
        for name, (original, noting) in self._looks.items():
            if getattr(os, name) is noting:
                setattr(os, name, original)
            for supports in _SUPPORTS:
                getattr(os, supports).discard(noting)

    def _replace(self, name: str) -> None:
        original: Callable[..., Any] = getattr(os, name)

        def noting(path: Any, *arguments: Any, **named: Any) -> Any:
            if self._is_noting:
                if named.get("dir_fd") is None:
                    self._note(path, self._looked_at)
                else:
                    self._give_up(f"os.{name} below a descriptor")
            return original(path, *arguments, **named)

        noting.__name__ = noting.__qualname__ = name
        noting.__module__, noting.__doc__ = original.__module__, original.__doc__
        self._looks[name] = (original, noting)
        setattr(os, name, noting)
        for supports in _SUPPORTS:
            functions = getattr(os, supports)
            if original in functions:
                functions.add(noting)

    def _give_up(self, reason: str) -> None:
        if self.reason is None:
            self.reason = reason

    def _note(self, path: Any, paths: set[str]) -> None:
        if isinstance(path, int):
            # What is open already was opened before, and told of then.
            return
        try:
            paths.add(_absolute(path))
        except (TypeError, ValueError, OSError):
            self._give_up("a path that is none")

    def _on_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._is_noting or event in _HARMLESS:
            return
        if event == "open":
            self._on_open(*arguments)
        elif event in ("os.listdir", "os.scandir"):
            self._note(arguments[0] if arguments[0] is not None else ".", self._read)
        elif event.startswith("cpython."):
            return
        elif event in _BYTECODE and all(map(_is_bytecode, arguments[: _BYTECODE[event]])):
            return
        elif event == "ctypes.dlopen" and arguments[0] is None:
            # Its import opens the program itself.
            return
        else:
            self._give_up(event)

    def _on_open(self, path: Any, mode: object, flags: int) -> None:
        if isinstance(path, int) or _is_bytecode(path):
            return
        if flags & _WRITES:
            self._give_up("open for writing")
            return
        self._note(path, self._read)

    def found(self, modules: set[str]) -> Depends | None:
        """What the import depended on besides the modules' own files, which Steward reads; None if that is not all."""
        read = set(self._read)
        # Where modules were looked for, found or not.
        read.update(map(_absolute, sys.path_importer_cache))
        for directory in sys.path:
            read.add(_absolute(directory))
            read.update(_path_files(directory))
        for module in [*sys.modules.values()]:
            file = getattr(module, "__file__", None)
            if isinstance(file, str):
                read.add(_absolute(file))
        depends: Depends = {"read": self._checked(read - modules), "looked_at": self._checked(self._looked_at - read)}
        return None if self.reason is not None else depends

    def _checked(self, paths: set[str]) -> list[str]:
        checked = sorted(path for path in paths if not _is_known(path))
        for path in checked:
            if path.startswith(_NO_FILES) and path not in _CONSTANT:
                self._give_up("a file of the system")
            if not path.isprintable():
                self._give_up("a path that is no text")
        return checked


def is_harmless(event: str) -> bool:
    """Whether nothing comes of an event that could be seen outside of the process, nor another time in it."""
    return event in _HARMLESS or event.startswith("cpython.")


def path_to_read(path: Any, mode: object, flags: int) -> str | None:
    """The path of a file that is opened to be read; nothing if its content is always the same; None if it is no such file."""
    if isinstance(path, int) or flags & _WRITES:
        return None
    try:
        opened = _absolute(path)
    except (TypeError, ValueError, OSError):
        return None
    if opened in _CONSTANT or _is_bytecode(opened) or _is_known(opened):
        return ""
    return opened if opened.isprintable() and not opened.startswith(_NO_FILES) else None


def _absolute(path: Any) -> str:
    return os.path.join(os.getcwd(), os.fsdecode(path))


def _is_bytecode(path: Any) -> bool:
    """Whether a path is below the folder in which Python keeps bytecode, which it makes anew from the source when it must."""
    if isinstance(path, int) or sys.pycache_prefix is None:
        return False
    return _absolute(path).startswith(os.path.join(sys.pycache_prefix, ""))


def _is_known(path: str) -> bool:
    """Whether a path is one of Python's own library, which is another one only with another interpreter, or one of ours."""
    if path == _OWN or path.startswith(_OWN + "/"):
        return True
    if not path.startswith(_PYTHON + "/"):
        return False
    return not any(f"/{name}" in path[len(_PYTHON) :] for name in _PACKAGES)


def _path_files(directory: str) -> list[str]:
    """The files in a folder of packages that Python reads at its start: they add to the path, and run what they like."""
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    return [os.path.join(_absolute(directory), name) for name in names if name.endswith((".pth", ".egg-link"))]
