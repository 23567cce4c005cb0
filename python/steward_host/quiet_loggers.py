"""Loggers of a project's modules, such as `LOGGER = logging.getLogger(__name__)`.

What a plugin logs for debugging is written nowhere in a compile, so a function that calls `LOGGER.debug` still only computes
(`purity`). That holds as long as nobody makes a logger write more, or somewhere else. What it logs for people, as `LOGGER.warning`
does, is noted when it happens, and is kept with what the function gave: it is said again instead of another call.
"""

from __future__ import annotations

import ast
import sys

from steward_host import computing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

# Methods whose messages people read.
NOTED = frozenset("critical error info warning".split())
# What makes a logger another one, where a file sets it.
SET = frozenset("disabled filters handlers level manager parent propagate".split())
# By these a module may make loggers write more, or somewhere else.
_CHANGING = frozenset(
    "addFilter addHandler basicConfig captureWarnings dictConfig fileConfig removeHandler setLevel setLogRecordFactory"
    " setLoggerClass".split()
)


def is_logger(found: object) -> bool:
    logging = sys.modules.get("logging")
    return logging is not None and type(found) is logging.Logger


def is_quiet(found: Any) -> bool:
    """Whether what a logger is told for debugging is written nowhere, as things are."""
    return is_logger(found) and vars(found).keys().isdisjoint(("debug", "isEnabledFor")) and not found.isEnabledFor(10)


def is_heard(found: Any) -> bool:
    """Whether all that a logger says for people goes to the handler that notes it, and nowhere else."""
    listener = computing.listener
    own = (*NOTED, "isEnabledFor", "handle", "callHandlers")
    if not is_logger(found) or listener is None or not vars(found).keys().isdisjoint(own):
        return False
    above: Any = found
    while above is not None:
        handlers = [] if above.parent is not None else [listener]
        if above.handlers != handlers or above.filters or above.disabled or not above.propagate:
            return False
        above = above.parent
    return True


def may_change(trees: Iterable[ast.Module]) -> bool:
    """Whether one of some files may change loggers."""
    return any(not _CHANGING.isdisjoint(_names_asked(tree)) for tree in trees)


def _names_asked(tree: ast.Module) -> set[str]:
    """The names that a file asks of anything, or imports."""
    asked = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    if "disable" in asked and "logging.disable" in ast.unparse(tree):
        asked.add("setLevel")
    return asked | {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
