"""The report of a run: what its context holds, as JSON, within bounds and without secrets.

Source: docs/reference/deployment.md § 5.5, § 5.6 and § 5.8.
"""

from __future__ import annotations

import json
import time

from inmanta import resources
from inmanta.agent import _bounds
from inmanta.agent._bounds import clip
from inmanta.const import Change

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from inmanta import data
    from inmanta.agent.handler import HandlerContext
    from steward_host import hidden
    from steward_host.messages import Discovered, Fact, HandlerOutcome, LogLine


# A value that is nested deeper goes into a report as its text: who reads the report reads no more than 128 levels of JSON, and
# keeps half of that (`MAX_DEPTH` of `src/executor/bounds/values.rs`).
_MAX_DEPTH = 100
# Reports and resources are JSON inside of their messages: Python writes and reads that several times faster than MessagePack.
_decode = json.JSONDecoder().raw_decode
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")).encode


def report(context: HandlerContext, secrets: hidden.Hidden | None = None) -> HandlerOutcome:
    """The `HandlerOutcome` of a context, without the secrets of its resource."""
    # First what may have something to say in the log.
    facts, discovered = _facts(context), _discovered(context)
    changes = {
        text_of(name): {"current": _reportable(change.current), "desired": _reportable(change.desired)}
        for name, change in context.changes.items()
    }
    logs = _lines(context)
    if secrets is not None:
        secrets.learn((name, change["current"], change["desired"]) for name, change in changes.items())
        changes = {
            name: {side: secrets.side(name, value) for side, value in change.items()} for name, change in changes.items()
        }
        logs = [without_secrets(line, secrets) for line in logs]
    return {
        "status": getattr(context.resource_state, "value", "failed"),
        "change": _change(context.change),
        "changes": {name: _clipped(change) for name, change in changes.items()},
        "logs": logs,
        "facts": facts,
        "discovered": discovered,
    }


def _facts(context: HandlerContext) -> list[Fact]:
    # Of several values of one fact the last counts.
    if not context._facts:
        return []
    newest = list({text_of(fact["id"]): fact for fact in context.facts}.items())[: _bounds.FACTS]
    facts: list[Fact] = [
        {"name": name, "value": text_of(fact["value"]), "expires": bool(fact["expires"])} for name, fact in newest
    ]
    return [fact for fact in facts if _is_short(context, "fact", fact["name"], len(fact["value"]))]


def _discovered(context: HandlerContext) -> list[Discovered]:
    if not context._discovered:
        return []
    found: list[Discovered] = []
    for rid, values in list(context._discovered.items())[: _bounds.DISCOVERED]:
        values = _reportable(values)
        rid = text_of(rid)
        if type(values) is not dict:
            context.warning("The discovered resource %(name)s was not taken: its values are no dict, or nested too deep", name=rid)
        elif _is_short(context, "discovered resource", rid, len(json.dumps(values))):
            found.append({"resource_id": rid, "values": values})
    return found


def _is_short(context: HandlerContext, what: str, name: str, size: int) -> bool:
    """What would be wrong when it is cut is left out, and the log says so."""
    if size <= _bounds.VALUE:
        return True
    context.warning(
        "The %(what)s %(name)s was not taken: it has %(size)s characters, the limit is %(limit)s",
        what=what,
        name=name,
        size=size,
        limit=_bounds.VALUE,
    )
    return False


def unreadable(error: Exception, secrets: hidden.Hidden | None) -> HandlerOutcome:
    """The outcome of a run whose context no report can be made of."""
    message = f"The handler left a report that cannot be read (exception: {_bounds.text_of(error)})"
    line: LogLine = {
        "level": "ERROR",
        "msg": message if secrets is None else secrets.text(message),
        "kwargs": {},
        "timestamp_us": time.time_ns() // 1000,
    }
    return {"status": "failed", "change": "nochange", "changes": {}, "logs": [line], "facts": [], "discovered": []}


def text_of(value: object) -> str:
    """What stands for a value where only a text may be."""
    if isinstance(value, str):
        return value
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__}>"


def _change(change: object) -> str:
    # Modules also assign `ctx._change` directly.
    return change.value if isinstance(change, Change) else text_of(change)


def loggable(value: object) -> Any:
    """A value as JSON can hold it; text for anything else."""
    try:
        value = resources.to_json(value)
    except Exception:
        try:
            return str(value)
        except Exception:
            return f"<{type(value).__name__}>"
    return _within_64_bits(value)


def _within_64_bits(value: object) -> object:
    if type(value) is int and not -(1 << 63) <= value < 1 << 64:
        return str(value)
    if type(value) is list:
        return [_within_64_bits(item) for item in value]
    if type(value) is dict:
        return {key: _within_64_bits(item) for key, item in value.items()}
    return value


def _reportable(value: object) -> Any:
    """As `loggable`; a value that is nested too deep for a report becomes its text."""
    value = loggable(value)
    if type(value) in (list, dict) and _is_deep(value, _MAX_DEPTH):
        try:
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        except RecursionError:
            return f"<{type(value).__name__}>"
    return value


def _is_deep(value: object, left: int) -> bool:
    if type(value) is list:
        return not left or any(_is_deep(item, left - 1) for item in value)
    if type(value) is dict:
        return not left or any(_is_deep(item, left - 1) for item in value.values())
    return False


def read_json(text: str) -> Any:
    """The value of a text that begins with it and has no more."""
    return _decode(text)[0]


def as_json(report: Mapping[str, object]) -> str:
    """The text of a report. JSON has no number for infinity, nor for what is none: they are null."""
    try:
        return _encode(report)
    except ValueError:
        return _encode(_finite(report))


def _finite(value: object) -> object:
    if type(value) is list:
        return [_finite(item) for item in value]
    if type(value) is dict:
        return {key: _finite(item) for key, item in value.items()}
    return value if type(value) is not float or value - value == 0 else None


def _clipped(change: dict[str, Any]) -> dict[str, Any]:
    """A difference, each side cut to what is kept of it."""
    sides = {side: _text_if_long(value) for side, value in change.items()}
    current, desired = sides.get("current"), sides.get("desired")
    if type(current) is str and type(desired) is str and max(len(current), len(desired)) > _bounds.VALUE:
        sides["current"], sides["desired"] = _bounds.from_difference(current, desired)
    return {side: clip(value, _bounds.VALUE) if type(value) is str else value for side, value in sides.items()}


def _text_if_long(value: Any) -> Any:
    if type(value) in (list, dict):
        text = json.dumps(value)
        return value if len(text) <= _bounds.VALUE else text
    return value


def line_of(line: data.LogLine) -> LogLine:
    return {
        "level": line._level._value_,
        "msg": line._msg,
        "kwargs": {key: value if type(value) is str else _reportable(value) for key, value in line._kwargs.items()},
        "timestamp_us": line.timestamp_us,
    }


def without_secrets(line: LogLine, secrets: hidden.Hidden) -> LogLine:
    return {**line, "msg": secrets.text(line["msg"]), "kwargs": secrets.arguments(line["kwargs"])}


def _lines(context: HandlerContext) -> list[LogLine]:
    """What was logged, and a mark if that is not all."""
    lines = [line_of(line) for line in context.logs]
    mark = context._lines.mark()
    if mark:
        lines.insert(-1, {"level": "INFO", "msg": mark, "kwargs": {}, "timestamp_us": time.time_ns() // 1000})
    return lines
