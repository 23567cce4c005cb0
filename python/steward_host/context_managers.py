"""Functions that are context managers, such as

    @contextmanager
    def section(lines, name):
        lines.append(f"<{name}>")
        try:
            yield lines
        finally:
            lines.append(f"</{name}>")

`contextmanager` puts a function of its own in their place, which does nothing but make an object of what they give. What such an object does
at its end happens where the `with` ends. In any other generator it happens when Python finds that nobody goes on with it, which is no
function of the arguments.
"""

from __future__ import annotations

import ast
import contextlib
from types import FunctionType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_OUTER = contextlib.contextmanager(lambda: iter(())).__code__
_FUNCTIONS = (ast.FunctionDef, ast.Lambda)


def function_of(found: object) -> object:
    """The function in whose place `contextmanager` has put its own; anything else as it is."""
    if type(found) is FunctionType and found.__code__ is _OUTER:
        return getattr(found, "__wrapped__", None)
    return found


def is_making(decorator: ast.expr, known: dict[str, Any]) -> bool:
    """Whether it is `contextmanager`."""
    if isinstance(decorator, ast.Name):
        return known.get(decorator.id) is contextlib.contextmanager
    is_attribute = isinstance(decorator, ast.Attribute) and isinstance(decorator.value, ast.Name) and decorator.attr == "contextmanager"
    return is_attribute and known.get(decorator.value.id) is contextlib  # type: ignore[attr-defined]  # it is an attribute


def ends_in_time(node: ast.FunctionDef | ast.Lambda, parts: list[ast.AST], known: dict[str, Any]) -> bool:
    """Whether nothing in a function, whose parts these are, is done only when Python finds that a generator is of no more use."""
    is_manager = isinstance(node, ast.FunctionDef) and any(is_making(decorator, known) for decorator in node.decorator_list)
    if is_manager and not any(isinstance(part, _FUNCTIONS) for part in parts):
        return True
    # That a generator ends is no Exception: handlers that name one do not get it.
    waiting = [
        part
        for part in parts
        if isinstance(part, ast.With)
        or isinstance(part, ast.Try) and (part.finalbody or any(handler.type is None for handler in part.handlers))
    ]
    return not any(isinstance(part, (ast.Yield, ast.YieldFrom)) for one in waiting for part in ast.walk(one))
