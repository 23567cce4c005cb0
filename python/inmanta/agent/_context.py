"""What one run of a handler tells: log lines, differences, changes, facts, the resulting state."""

from __future__ import annotations

import sys
import time

import inmanta
from inmanta import const, data
from inmanta.agent import _bounds
from inmanta.agent._exceptions import InvalidOperation
from inmanta.agent._loggers import LoggerABC
from inmanta.const import HandlerResourceState, ResourceState
from inmanta.data.model import AttributeStateChange

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging
    from collections.abc import Mapping, Sequence
    from typing import Any
    from uuid import UUID

    from inmanta.resources import Resource


class HandlerContext(LoggerABC):
    """What one run of a handler finds out and does."""

    def __init__(
        self,
        resource: Resource,
        dry_run: bool = False,
        action_id: UUID | str | None = None,
        logger: logging.Logger | None = None,
    ) -> None:
        self._resource = resource
        self._dry_run = dry_run
        self._action_id: UUID | str | None = action_id
        self._logger = logger
        self._cache: dict[str, object] = {}
        self._purged = False
        self._updated = False
        self._created = False
        self._change = const.Change.nochange
        self._changes: dict[str, AttributeStateChange] = {}
        self._status: ResourceState | None = None
        self._resource_state: HandlerResourceState | None = None
        self._logs: list[data.LogLine] = []
        self._lines = _bounds.Lines(self._logs)
        self._facts: list[dict[str, Any]] = []
        # Of a discovery: resource id -> values; they are kept when the run is over.
        self._discovered: dict[str, dict[str, Any]] = {}

    @property
    def action_id(self) -> UUID:
        known = self._action_id
        if known is None or isinstance(known, str):
            import uuid

            known = self._action_id = uuid.uuid4() if known is None else uuid.UUID(known)
        return known

    @property
    def logger(self) -> logging.Logger:
        if self._logger is None:
            self._logger = _default_logger()
        return self._logger

    def set_logger(self, logger: logging.Logger) -> None:
        self._logger = logger

    def is_dry_run(self) -> bool:
        return self._dry_run

    # --- result ------------------------------------------------------------------------------------------------------

    @property
    def status(self) -> ResourceState | None:
        return self._status

    @property
    def resource_state(self) -> HandlerResourceState | None:
        return self._resource_state

    def set_status(self, status: ResourceState) -> None:
        """Sets the result; a state that a handler cannot give counts as failed, with a warning."""
        self._status = status
        try:
            self._resource_state = HandlerResourceState(word_of(status))
        except ValueError:
            self._resource_state = HandlerResourceState.failed
            self.warning(
                "Called set_status with unsupported status %(status)s, the resource is marked failed",
                status=word_of(status),
            )

    def set_resource_state(self, new_state: HandlerResourceState) -> None:
        """Sets the result. InvalidOperation for `non_compliant` without any difference."""
        states = _STATES.get(new_state)
        if states is None:
            # Of another enumeration; ValueError for what is none.
            states = _STATES[HandlerResourceState(word_of(new_state))]
        if states[0] is HandlerResourceState.non_compliant and not self._changes:
            raise InvalidOperation("A resource without changes is not non_compliant: report them with add_change first")
        self._resource_state, self._status = states

    # --- facts and scratch values ------------------------------------------------------------------------------------

    def set_fact(self, fact_id: str, value: str, expires: bool = True) -> None:
        """Reports a fact of the resource, sent when the run is over."""
        fact = {
            "id": fact_id,
            "source": const.ParameterSource.fact.value,
            "value": value,
            "resource_id": self._resource.id.resource_str(),
            "expires": expires,
        }
        self._facts.append(fact)

    @property
    def facts(self) -> list[dict[str, Any]]:
        return self._facts

    def set(self, name: str, value: object) -> None:
        """Keeps a value for the rest of this run."""
        self._cache[name] = value

    def get(self, name: str) -> Any:
        return self._cache[name]

    def contains(self, key: str) -> bool:
        return key in self._cache

    # --- what was done -----------------------------------------------------------------------------------------------

    def _set_change(self, change: const.Change) -> None:
        if self._change is not const.Change.nochange:
            raise InvalidOperation(f"Unable to set {change} operation, {self._change} already set.")
        self._change = change

    def set_created(self) -> None:
        self._set_change(const.Change.created)
        self._created = True

    def set_updated(self) -> None:
        self._set_change(const.Change.updated)
        self._updated = True

    def set_purged(self) -> None:
        self._set_change(const.Change.purged)
        self._purged = True

    @property
    def changed(self) -> bool:
        # As the three methods above say, whatever code has made of `_change`.
        return self._created or self._updated or self._purged

    @property
    def change(self) -> const.Change:
        return self._change

    # --- what differs ------------------------------------------------------------------------------------------------

    def add_change(self, name: str, desired: object, current: object = None) -> None:
        """Reports that an attribute differs."""
        self._changes[name] = AttributeStateChange(current=current, desired=desired)

    def add_changes(self, **kwargs: object) -> None:
        """Reports differences by their desired values."""
        for field, value in kwargs.items():
            self._changes[field] = AttributeStateChange(desired=value)

    def fields_updated(self, fields: str | Sequence[str]) -> None:
        """Reports that attributes differ, without values."""
        for field in (fields,) if isinstance(fields, str) else fields:
            self._changes.setdefault(field, AttributeStateChange())

    def update_changes(self, changes: Mapping[str, object]) -> None:
        """Reports differences given as `{"current": …, "desired": …}`, `(current, desired)` or AttributeStateChange.

        InvalidOperation for another shape.
        """
        for name, change in changes.items():
            if isinstance(change, dict):
                self._changes[name] = AttributeStateChange(current=change.get("current"), desired=change.get("desired"))
            elif isinstance(change, tuple):
                if len(change) != 2:
                    raise InvalidOperation(
                        f"Reported changes for {name} not valid. Tuple changes should contain 2 elements:"
                        " (current, desired)"
                    )
                self._changes[name] = AttributeStateChange(current=change[0], desired=change[1])
            elif isinstance(change, AttributeStateChange):
                self._changes[name] = change
            else:
                raise InvalidOperation(f"Reported changes for {name} not in a type that is recognized.")

    @property
    def changes(self) -> dict[str, AttributeStateChange]:
        return self._changes

    # --- log ---------------------------------------------------------------------------------------------------------

    @property
    def logs(self) -> list[data.LogLine]:
        return self._logs

    def _log_msg(self, level: int, msg: str, *args: object, exc_info: bool = False, **kwargs: object) -> None:
        if args:
            raise Exception("Args not supported")
        if not isinstance(msg, str):
            # A dict would pass as a line without a place to fill, and the report of the run could not be read.
            raise TypeError(f"the message of a log line is a text, not a {type(msg).__name__}")
        if exc_info:
            error = sys.exc_info()[1]
            # As `traceback.format_exc` says it without an exception.
            kwargs["traceback"] = "NoneType: None\n" if error is None else _bounds.traceback_of(error)
        if kwargs:
            kwargs = _bounds.clipped(kwargs)
            for key, value in kwargs.items():
                if type(value) is not str:
                    kwargs[key] = _loggable(key, value)
        text = msg if "%" in msg else _bounds.clip(msg, _bounds.LINE)
        if "timestamp" in kwargs:
            line = data.LogLine.log(level, text, **kwargs)
        else:
            line = data.LogLine(const.INTEGER_TO_LOG_LEVEL[level], data._filled(text, kwargs), kwargs, time.time_ns() // 1000)
        if len(line._msg) > _bounds.LINE:
            line._msg = _bounds.clip(line._msg, _bounds.LINE)
        self._lines.add(line)
        logger = self.logger
        if logger.isEnabledFor(level):
            logger.log(level, "resource %s: %s", self._resource.id.resource_version_str(), line.msg)


# What a handler can say -> that, and what its users see. Found by the text as well, since the members are equal to it.
_STATES = {
    state: (state, ResourceState("skipped" if state == "skipped_for_dependency" else state.value))
    for state in HandlerResourceState
}

_logger: logging.Logger | None = None


def _default_logger() -> logging.Logger:
    """Where lines go that a run logs, besides its report."""
    global _logger
    if _logger is None:
        import logging

        _logger = logging.getLogger("inmanta.agent.handler")
    return _logger


def _loggable(key: str, value: object) -> object:
    """An argument of a log line as JSON; text if it has no such form (an exception under test)."""
    if value is None or type(value) in (bool, float) or type(value) is int and abs(value) < 1 << 63:
        return value
    import json

    from inmanta.util import api_boundary_json_encoder

    try:
        text = json.dumps(value, default=api_boundary_json_encoder)
        return json.loads(text) if len(text) <= _bounds.LINE else _bounds.clip(text)
    except (TypeError, ValueError, RecursionError) as error:
        if inmanta.RUNNING_TESTS:
            raise Exception(f"Failed to serialize argument for log message {key}={value}") from error
        return _bounds.clip(str(value))


def word_of(state: object) -> str:
    """The text of a state, which code gives as one or as a member of an enumeration."""
    return str(getattr(state, "value", state))
