"""Loggers of a project's modules, such as `LOGGER = logging.getLogger(__name__)`.

What a plugin logs for debugging is written nowhere in a compile, so a function that calls `LOGGER.debug` still only computes
(`purity`). That holds as long as nobody makes a logger write more, or somewhere else.
"""

from __future__ import annotations

import ast
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

# By these a module may make loggers write more, or somewhere else.
_CHANGING = frozenset("addFilter addHandler basicConfig dictConfig fileConfig setLevel setLoggerClass".split())


def is_logger(found: object) -> bool:
    logging = sys.modules.get("logging")
    return logging is not None and type(found) is logging.Logger


def is_quiet(found: Any) -> bool:
    """Whether what a logger is told for debugging is written nowhere, as things are."""
    return is_logger(found) and vars(found).keys().isdisjoint(("debug", "isEnabledFor")) and not found.isEnabledFor(10)


def may_change(trees: Iterable[ast.Module]) -> bool:
    """Whether one of some files may change loggers."""
    return any(not _CHANGING.isdisjoint(_names_asked(tree)) for tree in trees)


def _names_asked(tree: ast.Module) -> set[str]:
    """The names that a file asks of anything, or imports."""
    asked = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return asked | {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
