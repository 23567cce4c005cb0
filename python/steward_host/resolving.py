"""The project's folder by the name that it has in every compile, also for code that resolves links.

On a server the folder of a project is a link to the files of the commit in hand, and a process that has imported the modules may
serve one commit after the other. What `Path(__file__).resolve()` found when a module was imported, as it stands in many of them,
would be a folder with the files of an earlier commit. So resolving ends at the project's folder, which is no link where
models are compiled by hand.
"""

from __future__ import annotations

import os
import posixpath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_resolve = posixpath.realpath
# That of `dependencies` would note what is looked at here.
_readlink = os.readlink
# The project's folder, once there is one, and the folder that its link leads into, without links.
_directory: str | None = None
_parents: dict[str, str] = {}


def end_at(directory: str) -> None:
    """Has paths resolved to the project's folder and no further, from now on."""
    global _directory
    _directory = os.path.abspath(directory)
    parent = os.path.dirname(_target(_directory))
    _parents[parent] = _resolve(parent)
    if posixpath.realpath is not realpath:
        posixpath.realpath = realpath


def realpath(filename: Any, **named: Any) -> Any:
    return by_name(_resolve(filename, **named))


realpath.__module__, realpath.__doc__ = _resolve.__module__, _resolve.__doc__


def by_name(path: Any) -> Any:
    """A path without links, with the name of the project's folder if it is below that."""
    if _directory is None:
        return path
    if isinstance(path, bytes):
        return os.fsencode(by_name(os.fsdecode(path)))
    parent, name = os.path.split(_target(_directory))
    real = os.path.join(_parents.get(parent, parent), name)
    if path == real or path.startswith(real + "/"):
        return _directory + path[len(real) :]
    return path


def _target(directory: str) -> str:
    """Where the link leads; the folder itself if it is none."""
    try:
        return os.path.join(os.path.dirname(directory), _readlink(directory))
    except OSError:
        return directory
