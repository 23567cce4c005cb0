"""Dicts of a module from which functions are taken to be called, such as

    RENDERERS = {"cisco": render_cisco, "juniper": render_juniper}

    def render(device):
        return RENDERERS[device.vendor](device)

If nobody changes the dict (`tables`) and all its functions only compute, so does such a call. A function may carry more than what it
computes, so nothing else may be done with one.
"""

from __future__ import annotations

import ast
from types import FunctionType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# Functions of which a dict shows its keys.
_OF_KEYS = frozenset("all any frozenset len list max min set sorted sum tuple".split())


def is_dispatch(table: object, is_constant: Callable[[object], bool], is_pure: Callable[[object], bool]) -> bool:
    """Whether it is a dict of functions that only compute."""
    if type(table) is not dict or not table:
        return False
    functions = table.values()
    return all(map(is_constant, table)) and all(type(one) is FunctionType and is_pure(one) for one in functions)


def are_only_called(name: str, parts: list[ast.AST]) -> bool:
    """Whether all that a function, whose parts these are, does with the values of such a dict is to call them."""
    above = {id(child): part for part in parts for child in ast.iter_child_nodes(part)}
    variables: set[str] = set()
    for part in parts:
        if not isinstance(part, ast.Name) or part.id != name:
            continue
        around = above.get(id(part))
        if isinstance(around, ast.Compare) and part is not around.left and all(isinstance(one, (ast.In, ast.NotIn)) for one in around.ops):
            continue
        if isinstance(around, ast.Call) and isinstance(around.func, ast.Name) and around.func.id in _OF_KEYS and around.args == [part]:
            if not around.keywords:
                continue
        taken = _taken(part, above)
        if taken is None:
            return False
        user = above.get(id(taken))
        if isinstance(user, ast.Call) and user.func is taken:
            continue
        target = user.targets[0] if isinstance(user, ast.Assign) and len(user.targets) == 1 else None
        if not isinstance(target, ast.Name):
            return False
        variables.add(target.id)
    return all(_is_only_called(variable, parts, above, name) for variable in variables)


def _taken(table: ast.Name, above: dict[int, ast.AST]) -> ast.AST | None:
    """The expression that takes a value out of a dict: by its key, or by `get` without another value."""
    around = above.get(id(table))
    if isinstance(around, ast.Subscript) and around.value is table and isinstance(around.ctx, ast.Load):
        return around
    call = above.get(id(around))
    if isinstance(around, ast.Attribute) and around.attr == "get" and isinstance(call, ast.Call) and call.func is around:
        return call if len(call.args) == 1 and not call.keywords else None
    return None


def _is_only_called(variable: str, parts: list[ast.AST], above: dict[int, ast.AST], name: str) -> bool:
    """Whether a variable holds values of the dict, or what is as harmless, and is used for nothing else."""
    for part in parts:
        if isinstance(part, (ast.arg, ast.FunctionDef)) and variable in (getattr(part, "arg", None), getattr(part, "name", None)):
            return False
        if not isinstance(part, ast.Name) or part.id != variable:
            continue
        user = above.get(id(part))
        if not isinstance(part.ctx, ast.Load):
            if not isinstance(user, ast.Assign) or len(user.targets) != 1:
                return False
        elif isinstance(user, ast.Call) and user.func is part:
            continue
        elif isinstance(user, ast.Compare):
            if user.left is not part or not all(isinstance(one, ast.Constant) for one in user.comparators):
                return False
        elif not isinstance(user, (ast.If, ast.UnaryOp)):
            return False
    return True
