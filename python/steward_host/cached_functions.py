"""Functions of a project whose results Python keeps, such as

    @functools.lru_cache(maxsize=None)
    def netmask(network: str) -> str:
        return str(ipaddress.ip_network(network).netmask)

A function that calls one still only computes (`purity`) if the kept one does, and if nobody can change what is kept: what it returns
has to be a text or a number wherever it returns, as far as one can see from its text. Its arguments have to be meant as texts, since
the numbers 1 and 1.0 and the truth value True are the same to what keeps them. Of instances it is noted that their hash is asked for.
"""

from __future__ import annotations

import ast
import functools
import sys
from types import FunctionType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

# Functions of Python whose results nobody can change.
_FUNCTIONS = frozenset("bool chr float format hex int len oct ord repr str".split())
# The same of methods of texts, if the project has none by this name.
_METHODS = frozenset(
    "capitalize casefold decode encode endswith format hexdigest isdigit join lower lstrip removeprefix removesuffix replace rstrip"
    " startswith strip title upper zfill".split()
)
_CLASSES = {"ipaddress": ("ip_address", "ip_interface", "ip_network"), "re": ("compile",), "uuid": ("UUID", "uuid3", "uuid5")}


def wrapped_by(found: object) -> FunctionType | None:
    """The function whose results are kept; None: it is something else."""
    wrapped = getattr(found, "__wrapped__", None) if type(found) is functools._lru_cache_wrapper else None
    return wrapped if type(wrapped) is FunctionType else None


def is_keeping(decorator: ast.expr, known: dict[str, Any]) -> bool:
    """Whether it is the decorator that keeps results."""
    named = decorator.func if isinstance(decorator, ast.Call) else decorator
    given = [*decorator.args, *(keyword.value for keyword in decorator.keywords)] if isinstance(decorator, ast.Call) else []
    if not all(isinstance(value, ast.Constant) for value in given):
        return False
    if isinstance(named, ast.Name):
        return known.get(named.id) in (functools.lru_cache, functools.cache)
    is_attribute = isinstance(named, ast.Attribute) and isinstance(named.value, ast.Name) and named.attr in ("cache", "lru_cache")
    return is_attribute and known.get(named.value.id) is functools  # type: ignore[attr-defined]  # it is an attribute


def gives_scalars(node: ast.FunctionDef, known: dict[str, Any], trees: Iterable[ast.Module]) -> bool:
    """Whether all that a function returns is a text or a number, and all of its arguments are meant as texts."""
    arguments = node.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    if arguments.vararg is not None or arguments.kwarg is not None or not all(map(_is_text, named)):
        return False
    parts = [part for statement in node.body for part in ast.walk(statement)]
    if any(isinstance(part, (ast.FunctionDef, ast.Lambda, ast.Yield, ast.YieldFrom)) for part in parts):
        return False
    own = {part.name for tree in trees for part in ast.walk(tree) if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef))}
    own.update(part.id for part in parts if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load))
    own.update(argument.arg for argument in named)
    return all(part.value is None or _is_scalar(part.value, known, own) for part in parts if isinstance(part, ast.Return))


def _is_text(argument: ast.arg) -> bool:
    annotation = argument.annotation
    name = annotation.id if isinstance(annotation, ast.Name) else annotation.value if isinstance(annotation, ast.Constant) else None
    return name in ("str", "string")


def _is_scalar(value: ast.expr, known: dict[str, Any], own: set[str]) -> bool:
    """Whether nobody can change the value of an expression; `own`: names that stand for something of the project's."""
    if isinstance(value, (ast.JoinedStr, ast.Compare)) or isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.Not):
        return True
    if isinstance(value, ast.Constant):
        return True
    inner: Iterable[ast.expr]
    if isinstance(value, (ast.BoolOp, ast.Tuple)):
        inner = value.values if isinstance(value, ast.BoolOp) else value.elts
        return all(_is_scalar(one, known, own) for one in inner)
    if isinstance(value, ast.IfExp):
        return _is_scalar(value.body, known, own) and _is_scalar(value.orelse, known, own)
    if isinstance(value, ast.BinOp):
        is_text = isinstance(value.op, ast.Mod) and isinstance(value.left, ast.Constant)
        return is_text or _is_scalar(value.left, known, own) and _is_scalar(value.right, known, own)
    if not isinstance(value, ast.Call):
        return False
    if isinstance(value.func, ast.Name):
        name = value.func.id
        return name not in own and (name in _FUNCTIONS and name not in known or _is_of_classes(known.get(name)))
    if not isinstance(value.func, ast.Attribute):
        return False
    of, name = value.func.value, value.func.attr
    module = known.get(of.id) if isinstance(of, ast.Name) and of.id not in own else None
    if module is not None:
        return _is_of_classes(getattr(module, name, None))
    return name in _METHODS and name not in own


def _is_of_classes(found: object) -> bool:
    """Whether it is a function of Python's library that makes what nobody can change."""
    return found is not None and any(
        getattr(sys.modules.get(module), name, None) is found for module, names in _CLASSES.items() for name in names
    )
