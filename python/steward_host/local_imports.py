"""Imports that a function makes when it runs, such as

    @plugin
    def next_address(address: "string") -> "string":
        from ipaddress import ip_address

        return str(ip_address(address) + 1)

Such a name is the function's own, and stands for what the module has by it. The modules of the project are imported already; to
import one of the library changes nothing that a program can see.
"""

from __future__ import annotations

import ast
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_NOTHING = object()


def names_of(
    node: ast.FunctionDef | ast.Lambda, parts: list[ast.AST], module: Callable[[str], ModuleType | None]
) -> dict[str, object] | None:
    """The names that a function imports, and what they stand for; None: not all of them are known, or one may stand for
    something else, too. `parts`: of its body; `module`: a module by its name, if it is one that may be imported."""
    found: dict[str, object] = {}
    for part in parts:
        if not isinstance(part, (ast.Import, ast.ImportFrom)):
            continue
        for name, value in _imported(part, module):
            if value is _NOTHING or found.get(name, value) is not value:
                return None
            found[name] = value
    if not found:
        return found
    others = {name for part in (*ast.walk(node.args), *parts) for name in _set_by(part)}
    return None if not others.isdisjoint(found) else found


def _imported(statement: ast.Import | ast.ImportFrom, module: Callable[[str], ModuleType | None]) -> Iterator[tuple[str, object]]:
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            # `import os.path` sets `os`, `import os.path as path` the module itself.
            named = module(alias.name)
            package = module(alias.name.split(".")[0])
            yield alias.asname or alias.name.split(".")[0], (named if alias.asname else package) if named is not None else _NOTHING
        return
    of = module(statement.module) if statement.module is not None and statement.level == 0 else None
    for alias in statement.names:
        yield alias.asname or alias.name, _NOTHING if of is None else vars(of).get(alias.name, _NOTHING)


def _set_by(part: ast.AST) -> Iterator[str]:
    """The names that a part of a function gives a value, but by an import."""
    if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load):
        yield part.id
    elif isinstance(part, ast.arg):
        yield part.arg
    elif isinstance(part, (ast.Global, ast.Nonlocal)):
        yield from part.names
    elif isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
        if part.name is not None:
            yield part.name
    elif isinstance(part, ast.MatchMapping) and part.rest is not None:
        yield part.rest
