"""Files that plugins read when they are called, such as

    @plugin
    def site(name: "string") -> "dict":
        with open(os.path.join(os.path.dirname(__file__), "sites.json")) as file:
            return json.load(file)[name]

Such a plugin still only computes (`purity`): what it gives follows from its arguments, from what it reads of the model, and from the
file, which is noted when it is opened (`opened`). Here is which forms of opening a file are understood. A function that keeps what it has read (see `cached_functions`,
`own_caches`) reads no file the second time, so it is none of those; nor is a method, which may run when nothing is noted.
"""

from __future__ import annotations

import ast
import pathlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MODES = ("r", "rb", "rt", "br", "tr")
_NAMED = frozenset(("buffering", "encoding", "errors", "newline"))
# What an open file shows that is another one each time, and what a path shows of more than the content of a file, or does to it.
_MORE_OF_FILES = frozenset("detach fileno raw".split())
_MORE_OF_PATHS = frozenset(
    "absolute chmod copy_into cwd exists expanduser from_uri glob hardlink_to is_block_device is_char_device is_dir is_fifo is_file"
    " is_junction is_mount is_socket is_symlink iterdir lchmod link_to lstat mkdir move_into readlink rename resolve rglob rmdir"
    " samefile stat symlink_to touch unlink walk write_bytes write_text".split()
)
# Methods of paths whose names much else has, too: with so many arguments, at most, they may be those of a path.
_SHARED = {"copy": (1, 9), "group": (0, 0), "home": (0, 0), "info": (0, 0), "move": (1, 1), "open": (0, 9), "owner": (0, 0), "replace": (1, 1)}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def are_read(parts: list[ast.AST]) -> bool:
    """Whether `open` is only called, and for nothing but to read."""
    calls = {id(part.func) for part in parts if isinstance(part, ast.Call) and _is_reading(part, 1)}
    return all(id(part) in calls for part in parts if isinstance(part, ast.Name) and part.id == "open")


def _is_reading(call: ast.Call, n_before: int) -> bool:
    """Whether it opens a file to read it; `n_before`: arguments before the mode."""
    mode = call.args[n_before] if len(call.args) > n_before else None
    for keyword in call.keywords:
        if keyword.arg == "mode" and mode is None:
            mode = keyword.value
        elif keyword.arg not in _NAMED:
            return False
    is_known = not any(isinstance(one, ast.Starred) for one in call.args) and n_before <= len(call.args) <= n_before + 1
    return is_known and (mode is None or isinstance(mode, ast.Constant) and mode.value in _MODES)


def is_path(value: object) -> bool:
    """Whether it is a path by which files may be read."""
    return type(value) is pathlib.PosixPath


def may_show_more(trees: Iterable[ast.Module], of_paths: bool) -> bool:
    """Whether some function of the files may ask an open file, or a path, for more than its content."""
    more = _MORE_OF_FILES | _MORE_OF_PATHS if of_paths else _MORE_OF_FILES
    return any(not more.isdisjoint(_asked(tree)) for tree in trees)


def _asked(tree: ast.Module) -> Iterator[str]:
    from steward_host import library

    functions = (node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS))
    parts = [part for function in functions for part in ast.walk(function)]
    of_others = {id(attribute) for part in parts for attribute in _no_methods_of_paths(part)}
    for part in parts:
        if isinstance(part, ast.Attribute):
            yield part.attr
            if part.attr in _SHARED and id(part) not in of_others:
                yield "stat"
        elif isinstance(part, ast.Call):
            for name in library.asked_by_text(part):
                # Any of them, if the name is not written there.
                yield "stat" if name == "*" or name in _SHARED else name
        elif isinstance(part, ast.MatchClass):
            yield from part.kwd_attrs


def _no_methods_of_paths(part: ast.AST) -> Iterator[ast.expr]:
    """The attributes in a part of a function that are none of those methods of a path, or open it to read it."""
    if isinstance(part, ast.Call):
        if isinstance(part.func, ast.Attribute) and part.func.attr in _SHARED:
            least, most = _SHARED[part.func.attr]
            is_starred = any(isinstance(one, ast.Starred) for one in part.args) or any(one.arg is None for one in part.keywords)
            is_other = not is_starred and not least <= len(part.args) + len(part.keywords) <= most
            if is_other or part.func.attr == "open" and _is_reading(part, 0):
                yield part.func
    elif isinstance(part, (ast.Attribute, ast.FormattedValue, ast.Subscript)):
        yield part.value
    elif isinstance(part, ast.Compare):
        yield from (part.left, *part.comparators)
