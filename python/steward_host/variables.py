"""Variables of the environment that plugins read, such as `os.environ.get("REGION", "eu")`.

What Steward keeps of calls is kept with the variables that the compile had, so a function that reads one by a name that is written there
still only computes (`purity`): unless it is one of those that change with the service instance for which a compile is, or some file
of the project may change the variables.
"""

from __future__ import annotations

import ast
import os

from steward_host import instance_variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

# What Steward does not go by: variables of a shell, and of a sandbox.
_OTHERS = frozenset("HOME OLDPWD SHLVL TMPDIR _".split())
# Ways to set variables, or to get hold of all of them.
_SETTING = frozenset("environb getenvb load_dotenv putenv setenv unsetenv".split())


def is_of_them(found: object) -> bool:
    """Whether it is all variables, or the function that reads one."""
    return found is os.environ or found is os.getenv


def read_by(parts: list[ast.AST], found: Callable[[ast.expr], object]) -> Iterator[int]:
    """Where a function reads one by a name that is written there. `found`: what a name, or one of a module, stands for."""
    for part in parts:
        if isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Load):
            if found(part.value) is os.environ and _is_lasting(part.slice):
                yield id(part.value)
        elif isinstance(part, ast.Compare) and len(part.ops) == 1 and isinstance(part.ops[0], (ast.In, ast.NotIn)):
            if found(part.comparators[0]) is os.environ and _is_lasting(part.left):
                yield id(part.comparators[0])
        elif isinstance(part, ast.Call) and part.args and _is_lasting(part.args[0]):
            if found(part.func) is os.getenv:
                yield id(part.func)
            elif isinstance(part.func, ast.Attribute) and part.func.attr == "get" and found(part.func.value) is os.environ:
                yield id(part.func.value)


def _is_lasting(name: ast.expr) -> bool:
    return isinstance(name, ast.Constant) and isinstance(name.value, str) and not _is_other(name.value)


def _is_other(name: str) -> bool:
    return name in instance_variables.CHANGING or name in _OTHERS or name.lower().endswith("_proxy") or name.startswith("STEWARD_")


def may_change(trees: Iterable[ast.Module]) -> bool:
    """Whether some file may change variables, as far as one can see."""
    return any(_is_changing(tree) for tree in trees)


def _is_changing(tree: ast.Module) -> bool:
    read: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            read.add(id(node.value))
        elif isinstance(node, ast.Attribute) and node.attr in ("copy", "get", "items", "keys", "values"):
            read.add(id(node.value))
        elif isinstance(node, ast.Compare):
            read.update(map(id, node.comparators))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
            read.update(map(id, node.args))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Attribute, ast.Name)):
            name = node.attr if isinstance(node, ast.Attribute) else node.id
            if name in _SETTING or name == "environ" and id(node) not in read:
                return True
        elif isinstance(node, ast.alias) and (node.name in _SETTING or node.name == "environ" and node.asname is not None):
            return True
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and (node.value == "environ" or node.value in _SETTING):
            return True
    return False
