"""Log lines of resource actions.

There is deliberately no AUTOSTART_AGENT_MAP in here: modules ask for it to find out which kind of server they talk to.
"""

from __future__ import annotations

from inmanta import _without, const

TYPE_CHECKING = False
if TYPE_CHECKING:
    import datetime
    import logging


_BOOLEANS = {"1": True, "yes": True, "true": True, "on": True, "0": False, "no": False, "false": False, "off": False}


def convert_boolean(value: bool | str) -> bool:
    """A truth value, also from its text in configuration files. ValueError for other texts."""
    if isinstance(value, bool):
        return value
    try:
        return _BOOLEANS[value.lower()]
    except KeyError:
        raise ValueError(f"Not a boolean: {value}") from None


def _filled(msg: str, kwargs: dict[str, object]) -> str:
    """The text of a line: a missing argument is a KeyError, but a lone percent sign without arguments is itself."""
    if "%" not in msg:
        return msg
    try:
        return msg % kwargs
    except (KeyError, TypeError, ValueError):
        if kwargs:
            raise
        return msg


@_without("write_to_logger_for_resource")
class LogLine:
    """One line of a resource action's log. `_data` holds level, msg, args, kwargs and timestamp."""

    def __init__(self, level: const.LogLevel, msg: str, kwargs: dict[str, object], timestamp_us: int) -> None:
        self._level = level
        self._msg = msg
        self._kwargs = kwargs
        self.timestamp_us = timestamp_us

    @classmethod
    def log(cls, level: const.LogLevel | int | str, msg: str, timestamp: object = None, **kwargs: object) -> LogLine:
        """A line whose `%(name)s` places are filled from the keyword arguments."""
        import time

        if isinstance(level, int):
            level = const.INTEGER_TO_LOG_LEVEL[level]
        elif type(level) is not const.LogLevel:
            level = const.LogLevel(level)
        microseconds = time.time_ns() // 1000
        if hasattr(timestamp, "timestamp"):
            microseconds = int(timestamp.timestamp() * 1_000_000)
        elif timestamp is not None:
            # A handler's argument that only has the name.
            kwargs["timestamp"] = timestamp
        return cls(level, _filled(msg, kwargs), kwargs, microseconds)

    @property
    def _data(self) -> dict[str, object]:
        import datetime

        timestamp = datetime.datetime.fromtimestamp(self.timestamp_us / 1_000_000, datetime.timezone.utc)
        return {"level": self._level.value, "msg": self._msg, "args": [], "kwargs": self._kwargs, "timestamp": timestamp}

    timestamp = property(lambda self: self._data["timestamp"])
    level = property(lambda self: self._level)
    log_level = property(lambda self: self._level)
    msg = property(lambda self: self._msg)
    args = property(lambda self: [])
    kwargs = property(lambda self: self._kwargs)

    def to_dict(self) -> dict[str, object]:
        return self._data

    def write_to_logger(self, logger: logging.Logger) -> None:
        logger.log(self._level.to_int, "%s", self._msg)

if not TYPE_CHECKING:
    # What only the reference's module has says why it is not here.
    from inmanta import _rest_of

    __getattr__ = _rest_of(__name__)
