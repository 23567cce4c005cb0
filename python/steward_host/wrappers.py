"""Functions that decorators of a project make, such as

    def retry(times):
        def decorate(function):
            @functools.wraps(function)
            def wrapper(*args, **kwargs):
                for _ in range(times):
                    ...
                    return function(*args, **kwargs)
            return wrapper
        return decorate

Such a function has names of the functions around it, whose values it keeps. It still only computes (`purity`) if the rest of it does, and
if these values do, for ever: who made it is done when it is called, so only the function itself, and others beside it, could give one of
the names another value.

A decorator that gives back what it gets may have kept it somewhere, but the function itself is as it is written.
"""

from __future__ import annotations

import ast
import functools
from types import CodeType, FunctionType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
# By these, somebody may get hold of the values, or of the function that is called by another name.
_SHOWING = frozenset("__closure__ cell_contents __wrapped__".split())


def definition(tree: ast.Module, code: CodeType) -> ast.FunctionDef | None:
    """The text of a function within others; None: there are several in its line, or one around it may go on later."""
    found = None
    for outer in ast.walk(tree):
        if not isinstance(outer, _FUNCTIONS):
            continue
        for node in ast.walk(outer):
            if node is outer or not isinstance(node, ast.FunctionDef) or node.name != code.co_name:
                continue
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if first == code.co_firstlineno:
                if found not in (None, node) or isinstance(outer, ast.AsyncFunctionDef) or _goes_on(outer, node):
                    return None
                found = node
    return found


def _goes_on(outer: ast.AST, inner: ast.FunctionDef) -> bool:
    """Whether a function around another one is one that gives values one by one."""
    own = {id(part) for part in ast.walk(inner)}
    return any(isinstance(part, (ast.Await, ast.Yield, ast.YieldFrom)) and id(part) not in own for part in ast.walk(outer))


def values_of(function: FunctionType, tree: ast.Module, names_that_change: set[str]) -> dict[str, object] | None:
    """The values that a function has of those around it, by name; None: they may change."""
    names = function.__code__.co_freevars
    cells = function.__closure__ or ()
    if len(names) != len(cells) or not names_that_change.isdisjoint(_SHOWING):
        return None
    if any(isinstance(part, ast.Nonlocal) and not set(names).isdisjoint(part.names) for part in ast.walk(tree)):
        return None
    try:
        return {name: cell.cell_contents for name, cell in zip(names, cells)}
    except ValueError:
        # One of them has no value.
        return None


def names_of(function: FunctionType) -> set[str]:
    """What a function is called, and those that it has as values of those around it, and so on."""
    names: set[str] = set()
    pending: list[object] = [function]
    seen: set[int] = set()
    while pending:
        found = pending.pop()
        if not isinstance(found, FunctionType) or id(found) in seen:
            continue
        seen.add(id(found))
        names.add(found.__code__.co_name)
        for cell in found.__closure__ or ():
            try:
                pending.append(cell.cell_contents)
            except ValueError:
                continue
    return names


def is_harmless(decorator: ast.expr, found: object, files: Callable[[object], bool]) -> bool:
    """Whether a decorator leaves what a function does as it is: one of the project's, which stands in one of its files, if the
    function is still that of the text; or what copies the names of another function to it."""
    named = decorator.func if isinstance(decorator, ast.Call) else decorator
    if found is functools.wraps:
        is_one = isinstance(decorator, ast.Call) and len(decorator.args) == 1 and not decorator.keywords
        return is_one and not isinstance(decorator.args[0], ast.Starred)  # type: ignore[attr-defined]  # it is a call
    return isinstance(named, (ast.Name, ast.Attribute)) and type(found) is FunctionType and files(found.__code__.co_filename)


def named_functions(parts: list[ast.AST], known: dict[str, object]) -> set[int]:
    """Where the name of a function is read, by `function.__name__`."""
    return {
        id(part)
        for part in parts
        if isinstance(part, ast.Attribute)
        and part.attr in ("__name__", "__qualname__", "__module__")
        and isinstance(part.ctx, ast.Load)
        and isinstance(part.value, ast.Name)
        and type(known.get(part.value.id)) is FunctionType
    }
