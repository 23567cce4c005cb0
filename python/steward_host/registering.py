"""Functions of a project that only run while its modules are imported: decorators that keep what they get in a table, such as

    RENDERERS = {}

    def renders(vendor):
        def keep(function):
            RENDERERS[vendor] = function
            return function
        return keep

    @renders("cisco")
    def render_cisco(device): ...

What such a function does with a table is over when a plugin runs, so nobody changes the table then (`tables`). That is so if all that
names the function are decorators outside of other functions, and if it gives back what it was given, so that nothing of it is left.
"""

from __future__ import annotations

import ast

from steward_host import library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_LATER = (*_FUNCTIONS, ast.Await, ast.GeneratorExp, ast.Yield, ast.YieldFrom)


def parts_of(tree: ast.Module, others: Iterable[ast.Module]) -> set[int]:
    """All parts of such functions of a file."""
    candidates = [node for node in tree.body if isinstance(node, ast.FunctionDef) and _gives_back(node)]
    if not candidates:
        return set()
    trees = [tree, *others]
    found: set[int] = set()
    for node in candidates:
        twice = sum(isinstance(other, (*_FUNCTIONS, ast.ClassDef)) and getattr(other, "name", "") == node.name for other in ast.walk(tree))
        if twice == 1 and all(_only_decorates(one, node.name) for one in trees):
            found.update(map(id, ast.walk(node)))
    return found


def _gives_back(node: ast.FunctionDef) -> bool:
    """Whether a function gives back its only argument, or a function within that does."""
    if node.decorator_list or not node.body or not isinstance(node.body[-1], ast.Return):
        return False
    inner = [part for part in ast.walk(node) if isinstance(part, _LATER) and part is not node]
    if not inner:
        return _returns_argument(node)
    only = inner[0]
    if len(inner) != 1 or not isinstance(only, ast.FunctionDef) or only.decorator_list or only not in node.body:
        return False
    returned = [part for part in ast.walk(node) if isinstance(part, ast.Return) and not any(part is one for one in ast.walk(only))]
    named = [part for part in ast.walk(node) if isinstance(part, ast.Name) and part.id == only.name]
    is_given = len(returned) == 1 and len(named) == 1 and returned[0].value is named[0] and returned[0] is node.body[-1]
    return is_given and _returns_argument(only)


def _returns_argument(node: ast.FunctionDef) -> bool:
    arguments = node.args
    if len(arguments.args) != 1 or arguments.posonlyargs or arguments.kwonlyargs or arguments.vararg or arguments.kwarg or arguments.defaults:
        return False
    name = arguments.args[0].arg
    parts = [part for statement in node.body for part in ast.walk(statement)]
    is_set = any(isinstance(part, ast.Name) and part.id == name and not isinstance(part.ctx, ast.Load) for part in parts)
    is_set = is_set or any(isinstance(part, (ast.Global, ast.Nonlocal, ast.Import, ast.ImportFrom)) for part in parts)
    returned = [part.value for part in parts if isinstance(part, ast.Return)]
    is_last = bool(node.body) and isinstance(node.body[-1], ast.Return)
    return not is_set and is_last and all(isinstance(value, ast.Name) and value.id == name for value in returned)


def _only_decorates(tree: ast.Module, name: str) -> bool:
    """Whether all that a file does with a name is to decorate what is not within functions."""
    decorating = {id(_named(decorator)) for decorator in _decorators_outside(tree.body)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == name or isinstance(node, ast.Attribute) and node.attr == name:
            if id(node) not in decorating:
                return False
        elif isinstance(node, ast.alias) and (name in (node.asname, node.name) and node.asname not in (None, name) or node.name == "*"):
            return False
        elif isinstance(node, ast.Attribute) and node.attr == "__dict__":
            return False
        elif isinstance(node, ast.Call) and name in library.asked_by_text(node):
            return False
        elif isinstance(node, ast.arg) and node.arg == name:
            return False
    return True


def _named(decorator: ast.expr) -> ast.expr:
    return decorator.func if isinstance(decorator, ast.Call) else decorator


def _decorators_outside(statements: list[ast.stmt]) -> Iterator[ast.expr]:
    for statement in statements:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from statement.decorator_list
        elif isinstance(statement, ast.ClassDef):
            yield from statement.decorator_list
            yield from _decorators_outside(statement.body)
