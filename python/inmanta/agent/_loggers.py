"""Loggers whose lines have named arguments."""

from __future__ import annotations

from abc import ABC, abstractmethod

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging


class LoggerABC(ABC):
    """Logging with named arguments: `logger.info("read %(path)s", path=path)`."""

    def debug(self, msg: str, *args: object, exc_info: bool = False, **kwargs: object) -> None:
        self._log_msg(10, msg, *args, exc_info=exc_info, **kwargs)

    def info(self, msg: str, *args: object, exc_info: bool = False, **kwargs: object) -> None:
        self._log_msg(20, msg, *args, exc_info=exc_info, **kwargs)

    def warning(self, msg: str, *args: object, exc_info: bool = False, **kwargs: object) -> None:
        self._log_msg(30, msg, *args, exc_info=exc_info, **kwargs)

    def error(self, msg: str, *args: object, exc_info: bool = False, **kwargs: object) -> None:
        self._log_msg(40, msg, *args, exc_info=exc_info, **kwargs)

    def critical(self, msg: str, *args: object, exc_info: bool = False, **kwargs: object) -> None:
        self._log_msg(50, msg, *args, exc_info=exc_info, **kwargs)

    def exception(self, msg: str, *args: object, exc_info: bool = True, **kwargs: object) -> None:
        self._log_msg(40, msg, *args, exc_info=exc_info, **kwargs)

    @abstractmethod
    def _log_msg(self, level: int, msg: str, *args: object, exc_info: bool = False, **kwargs: object) -> None:
        """Writes one line."""


class PythonLogger(LoggerABC):
    """Writes to a logger of Python's own."""

    def __init__(self, logger: logging.Logger) -> None:
        self.logger = logger

    def _log_msg(self, level: int, msg: str, *args: object, exc_info: bool = False, **kwargs: object) -> None:
        if args:
            raise Exception("Args not supported")
        # The logging package takes one mapping for named places.
        self.logger.log(level, msg, *((kwargs,) if kwargs else ()), exc_info=exc_info)
