"""The bytecode of all that hosts import, in one file.

A host imports some eighty modules before it can do anything, ours and Python's own. For each of them Python looks into folders,
and opens, checks and reads a file of bytecode, which takes as much processor time as running it. So what hosts imported is put
together in one file, which the next host reads at once.

The file is beside the bytecode (`STEWARD_PYCACHE`). Size and time of each source are compared, as Python does it, and modules are
taken from the file only as long as nobody has put a folder before ours and Python's own, so each import gives the module that it
would give without the file. Modules of others, of site-packages and of projects, are never in it.
"""

from __future__ import annotations

import marshal
import os
import sys
from _frozen_importlib_external import MAGIC_NUMBER, PathFinder, SourceFileLoader
from importlib.machinery import ModuleSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

    # Path of the source, whether it is a package, path of the bytecode, time of the source in seconds and its size, where its
    # bytecode is in the file and how long it is.
    Entry = tuple[str, bool, str, int, int, int, int]

# Of the modules of one user; hosts rarely import a hundred.
MAX_COUNT = 500
# What Python writes before the bytecode of a file: its version, flags, time and size of the source.
_HEADER = 16
# The length of the index, in bytes, in front of it.
_LENGTH = 8
# Times and sizes of sources are kept in so many bits, as Python keeps them.
_WORD = 0xFFFFFFFF

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PYTHON = os.path.dirname(os.__file__)
# Not the one of `os`: what imports look at is noted sometimes, and this is no look of theirs.
_stat = os.stat

_bundle: Bundle | None = None


class _Loader(SourceFileLoader):
    """Gives code that was read already."""

    def get_code(self, fullname: str) -> CodeType | None:
        code = None if _bundle is None else _bundle.code(fullname)
        return super().get_code(fullname) if code is None else code


class Bundle:
    """A finder of what is in the file, and of what was not."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = -1
        self._start = 0
        self._entries: dict[str, Entry] = {}
        # The folders that Python searches first, as long as nobody adds one: ours, and its own behind an archive that is not there.
        self._first = sys.path[: sys.path.index(_PYTHON) + 1] if _PYTHON in sys.path else []
        self._works = self._first[:1] == [_PACKAGE] and not any(map(os.path.exists, self._first[1:-1]))
        if self._works:
            self._read()

    def _read(self) -> None:
        try:
            self._file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            head = os.pread(self._file, _HEADER, 0)
            if head[:4] != MAGIC_NUMBER:
                return
            length = int.from_bytes(head[4 : 4 + _LENGTH], "little")
            package, python, entries = marshal.loads(os.pread(self._file, length, _HEADER))
        except (OSError, ValueError, EOFError, TypeError):
            # Without it imports take a little longer.
            return
        if (package, python) == (_PACKAGE, _PYTHON):
            self._start, self._entries = _HEADER + length, entries

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        entry = self._entries.get(fullname)
        if entry is None:
            return None
        file, is_package, cached, modified, size, _, _ = entry
        if sys.path[: len(self._first)] != self._first:
            return None
        try:
            now = _stat(file)
            is_same = (int(now.st_mtime) & _WORD, now.st_size & _WORD) == (modified, size)
        except OSError:
            is_same = False
        if not is_same:
            # So that what is found now takes its place.
            del self._entries[fullname]
            return None
        spec = ModuleSpec(fullname, _Loader(fullname, file), origin=file, is_package=is_package)
        spec.has_location = True
        spec.cached = cached
        if is_package:
            spec.submodule_search_locations = [file.rpartition("/")[0]]
        return spec

    def code(self, fullname: str) -> CodeType | None:
        entry = self._entries.get(fullname)
        if entry is None:
            return None
        try:
            code: CodeType = marshal.loads(self._bytes(entry))
            return code
        except (OSError, ValueError, EOFError, TypeError):
            # Somebody has cut the file, or closed all that is open.
            del self._entries[fullname]
            return None

    def _bytes(self, entry: Entry) -> bytes:
        return os.pread(self._file, entry[6], self._start + entry[5])

    def end(self) -> None:
        """From now on all modules are found as ever: somebody wants to see what is read."""
        self._first = [""]

    def keep(self) -> None:
        """Writes the file anew if a module was imported that is not in it."""
        if not self._works:
            return
        added: dict[str, tuple[Entry, bytes]] = {}
        for name, module in list(sys.modules.items()):
            if name not in self._entries and len(self._entries) + len(added) < MAX_COUNT:
                found = _bytecode(name, module)
                if found is not None:
                    added[name] = found
        if added:
            self._write(added)

    def _write(self, added: dict[str, tuple[Entry, bytes]]) -> None:
        try:
            known = {name: (entry, self._bytes(entry)) for name, entry in self._entries.items()}
        except OSError:
            return
        entries, parts, at = {}, [], 0
        for name, (entry, code) in {**known, **added}.items():
            if name in known and len(code) != entry[6]:
                # Somebody has cut the file.
                continue
            parts.append(code)
            entries[name] = (*entry[:5], at, len(code))
            at += len(code)
        index = marshal.dumps((_PACKAGE, _PYTHON, entries))
        head = MAGIC_NUMBER + len(index).to_bytes(_LENGTH, "little")
        # Hosts that read the file at this moment go on with the one that they have opened.
        temporary = f"{self._path}.{os.getpid()}"
        try:
            with open(temporary, "wb") as file:
                file.write(head.ljust(_HEADER, b"\0") + index + b"".join(parts))
            os.replace(temporary, self._path)
        except OSError:
            # A folder that nobody may write to.
            return


def _bytecode(name: str, module: Any) -> tuple[Entry, bytes] | None:
    """What the file is to have of a module, if it is one of ours or Python's own and its bytecode is there."""
    spec = getattr(module, "__spec__", None)
    if spec is None or spec.name != name or type(spec.loader) not in (SourceFileLoader, _Loader):
        return None
    file, cached = spec.origin, spec.cached
    if not isinstance(file, str) or not isinstance(cached, str):
        return None
    is_python = file.startswith(_PYTHON + os.sep) and "-packages" not in file
    if not is_python and not file.startswith(_PACKAGE + os.sep):
        return None
    try:
        with open(cached, "rb") as opened:
            data = opened.read()
    except OSError:
        return None
    # Flags: the bytecode is checked by the time of its source.
    if data[:4] != MAGIC_NUMBER or data[4:8] != bytes(4):
        return None
    modified, size = int.from_bytes(data[8:12], "little"), int.from_bytes(data[12:16], "little")
    is_package = spec.submodule_search_locations is not None
    return (file, is_package, cached, modified, size, 0, 0), data[_HEADER:]


def install(cache: str) -> None:
    """Has imports take bytecode from the file below the folder `cache`."""
    global _bundle
    tag = sys.implementation.cache_tag
    if tag is None or sys.flags.optimize:
        return
    import _imp

    # Pythons of one version may be in several places.
    place = _imp.source_hash(0, _PYTHON.encode("utf-8", "surrogateescape")).hex()
    _bundle = Bundle(os.path.join(cache, f"bundle-{tag}-{place}.pyc"))
    at = sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else len(sys.meta_path)
    sys.meta_path.insert(at, _bundle)


def end() -> None:
    """See `Bundle.end`."""
    if _bundle is not None:
        _bundle.end()


def keep() -> None:
    """See `Bundle.keep`."""
    if _bundle is not None:
        _bundle.keep()
