"""What a function prints into a text of its own, as in

    out = io.StringIO()
    print("interface", name, file=out)

which nobody sees but the function (`purity`). Without a file, or with a None in its place, it goes to the output of the compile.
"""

from __future__ import annotations

import ast
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

# By these, attributes may be set whose names are not written there.
_BY_TEXT = frozenset("__dict__ __setattr__ setattr vars".split())


def are_own(parts: list[ast.AST], known: dict[str, Any], own: str | None, attributes: Callable[[], set[str]]) -> bool:
    """Whether all that a function does with `print` is that; `known`: what the names outside of it stand for; `own`: what a method
    calls its object, which nobody gives it; `attributes`: names of attributes that hold nothing but such texts."""
    names = [part for part in parts if isinstance(part, ast.Name) and part.id == "print"]
    if not names:
        return False
    made: dict[str, bool] = {}
    plainly: set[int] = set()
    for part in parts:
        target, value = None, None
        if isinstance(part, ast.Assign) and len(part.targets) == 1:
            target, value = part.targets[0], part.value
        elif isinstance(part, ast.withitem):
            target, value = part.optional_vars, part.context_expr
        if isinstance(target, ast.Name) and value is not None:
            plainly.add(id(target))
            made[target.id] = made.get(target.id, True) and _is_text(value, known)
    for part in parts:
        if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load) and id(part) not in plainly:
            made[part.id] = False
        elif isinstance(part, (ast.ExceptHandler, ast.FunctionDef, ast.MatchAs, ast.MatchStar)) and part.name:
            made[part.name] = False
        elif isinstance(part, ast.arg):
            made[part.arg] = False

    def is_own(call: ast.Call) -> bool:
        files = [keyword.value for keyword in call.keywords if keyword.arg == "file"]
        if any(keyword.arg is None for keyword in call.keywords) or len(files) != 1:
            return False
        file = files[0]
        if isinstance(file, ast.Attribute):
            return isinstance(file.value, ast.Name) and file.value.id == own and file.attr in attributes()
        return isinstance(file, ast.Name) and made.get(file.id, False)

    calls = {id(part.func) for part in parts if isinstance(part, ast.Call) and is_own(part)}
    return all(id(name) in calls for name in names)


def attributes(trees: Iterable[ast.Module]) -> set[str]:
    """The names of attributes that all of some files set to nothing but such texts."""
    made: dict[str, bool] = {}
    for tree in trees:
        known = _known_in(tree)
        plainly: set[int] = set()
        for node in ast.walk(tree):
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    if isinstance(target, ast.Attribute):
                        plainly.add(id(target))
                        made[target.attr] = made.get(target.attr, True) and _is_text(node.value, known)
            elif isinstance(node, ast.ClassDef):
                # What a class has by this name, a field or a method, is something else.
                for name in _names_of_class(node):
                    made[name] = False
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load) and id(node) not in plainly:
                made[node.attr] = False
            if (node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None) in _BY_TEXT:
                return set()
    return {name for name, is_text in made.items() if is_text}


def _names_of_class(node: ast.ClassDef) -> Iterable[str]:
    for part in node.body:
        if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield part.name
        else:
            yield from (one.id for one in ast.walk(part) if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load))


def _known_in(tree: ast.Module) -> dict[str, Any]:
    """The names that a file imports once."""
    known: dict[str, Any] = {}
    for node in tree.body:
        if isinstance(node, ast.Import):
            known.update({alias.asname or alias.name: sys.modules.get(alias.name) for alias in node.names})
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            module = sys.modules.get(node.module)
            known.update({alias.asname or alias.name: getattr(module, alias.name, None) for alias in node.names})
    others = {
        name.id if isinstance(name, ast.Name) else name.arg
        for name in ast.walk(tree)
        if isinstance(name, ast.arg) or isinstance(name, ast.Name) and not isinstance(name.ctx, ast.Load)
    }
    return {name: found for name, found in known.items() if name not in others}


def _is_text(made: ast.expr, known: dict[str, Any]) -> bool:
    """Whether an expression makes a text that can be written."""
    io = sys.modules.get("io")
    if io is None or not isinstance(made, ast.Call):
        return False
    if isinstance(made.func, ast.Name):
        return known.get(made.func.id) is io.StringIO
    is_attribute = isinstance(made.func, ast.Attribute) and isinstance(made.func.value, ast.Name) and made.func.attr == "StringIO"
    return is_attribute and known.get(made.func.value.id) is io  # type: ignore[attr-defined]  # it is an attribute
