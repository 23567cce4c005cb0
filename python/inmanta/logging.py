"""Formatting of log lines."""

from __future__ import annotations

import logging

from inmanta import _without

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@_without("get_header_length inmanta_plugin_pkg_regex")
class MultiLineFormatter(logging.Formatter):
    """Indents the further lines of a message by the width of what stands in front of the first."""

    def __init__(self, fmt: str | None = None, *, keep_logger_names: bool = False, **kwargs: Any) -> None:
        super().__init__(fmt, **kwargs)
        self.fmt = fmt or "%(message)s"

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        first, *more = text.split("\n")
        if not more:
            return text
        message = record.getMessage().split("\n", 1)[0]
        indent = " " * (len(first) - len(message) if first.endswith(message) else 0)
        return "\n".join([first, *(indent + line for line in more)])


class NoKwargsLogger:
    """Kept for annotations."""

if not TYPE_CHECKING:
    # What only the reference's module has says why it is not here.
    from inmanta import _rest_of

    __getattr__ = _rest_of(__name__)
