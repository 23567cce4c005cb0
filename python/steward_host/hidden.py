"""Secrets in the report of a run: what must not leave the process of its handler. Source: docs/reference/deployment.md § 5.8.

Secret are the values of attributes that a reference fills, since only the target knows them, and of attributes whose
names say so. Both sides of their differences are hidden, wherever the report has them by name. The texts themselves are
hidden as well wherever they occur: handlers put them into messages, and exceptions quote them.
"""

from __future__ import annotations

from inmanta._arguments import parse_destination

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, TextIO

    from inmanta.resources import Resource


# What stands for a secret; `HIDDEN` of src/executor/handler/mod.rs.
HIDDEN = "(hidden)"

# A shorter text is hidden only where it is a value of its own: as a part of other texts it would hide half of the log.
_MIN_TEXT = 4
# What handlers cut before they log it has a part of a secret that is longer than this; so its parts are hidden, too.
_LONG_TEXT = 512
_PART = 64
# `MAX_DEPTH` of src/executor/bounds/values.rs: nothing deeper is kept.
_MAX_DEPTH = 64

# As src/cli/plan/hidden.rs has them.
_WORDS = frozenset(
    {"password", "passwd", "passphrase", "secret", "secrets", "token", "credential", "credentials", "apikey"}
)
_PAIRS = frozenset(
    {
        ("private", "key"),
        ("api", "key"),
        ("access", "key"),
        ("auth", "key"),
        ("ssh", "key"),
        ("shared", "key"),
        ("encryption", "key"),
        ("snmp", "community"),
        ("proxy", "authorization"),
        ("set", "cookie"),
    }
)
# The whole name, such as that of a header: `authorization_mode` holds no secret.
_NAMES = frozenset({"authorization", "cookie", "psk"})

# The secret fields of each class of resources, by their names.
_secret_fields: dict[type, frozenset[str]] = {}


def of(resource: Resource) -> Hidden | None:
    """What the report of a run of this resource has to hide; None if it has no secrets."""
    names = _secret_names(type(resource))
    filled = _filled(resource) if resource.mutators else frozenset()
    if not names and not filled:
        return None
    return Hidden(resource, names | filled, filled)


def look_at(kinds: Iterable[type[Resource] | None]) -> None:
    """Finds the secret fields of these classes, before hosts are forked that would each do so."""
    for kind in kinds:
        try:
            if kind is not None:
                _secret_names(kind)
        except Exception:
            # Something is wrong with the fields of this class, as its first resource will tell.
            continue


def forget(kind: type) -> None:
    _secret_fields.pop(kind, None)


def _secret_names(kind: type[Resource]) -> frozenset[str]:
    names = _secret_fields.get(kind)
    if names is None:
        names = _secret_fields[kind] = frozenset(filter(is_secret, kind.fields))
    return names


def is_secret(name: str) -> bool:
    """Whether the name of an attribute says that it holds a secret: `password`, `db_password`, `dbPassword`, `api-key`."""
    import re

    words = [word.lower() for word in re.findall(r"[A-Z]*[^\WA-Z_]+|[A-Z]+", name)]
    if len(words) == 1 and words[0] in _NAMES:
        return True
    return not _WORDS.isdisjoint(words) or not _PAIRS.isdisjoint(zip(words, words[1:]))


def _filled(resource: Resource) -> frozenset[str]:
    """The attributes that mutators fill: each has the path of what it fills among its arguments."""
    names = set()
    for destination in _destinations(resource.mutators):
        try:
            names.add(str(parse_destination(destination)[0]))
        except ValueError:
            # No mutator can fill it.
            continue
    return frozenset(names)


def _destinations(mutators: object) -> Iterator[str]:
    # A version may come from anywhere, and the report of a run that has failed over its mutators is made all the same.
    for mutator in mutators if isinstance(mutators, list) else ():
        arguments = mutator.get("args") if isinstance(mutator, dict) else None
        for argument in arguments if isinstance(arguments, list) else ():
            if isinstance(argument, dict) and argument.get("name") == "destination":
                yield str(argument.get("value"))


class Hidden:
    """What a report hides."""

    def __init__(self, resource: Resource, names: frozenset[str], filled: frozenset[str]) -> None:
        self._names = names
        self._values = set(_resolved(resource, filled))
        # The id is known to everybody, and a report without it could not be read.
        self._known = resource.id.resource_str()
        self._pattern: re.Pattern[str] | None = None

    def learn(self, changes: Iterable[tuple[str, object, object]]) -> None:
        """Takes in what the handler has found where a secret belongs: the old one is secret as well."""
        for name, current, desired in changes:
            if name in self._names:
                self._values.update(_texts(current))
                self._values.update(_texts(desired))
        self._pattern = _pattern(text for text in self._values if text not in self._known)

    def side(self, name: str, value: object) -> object:
        """One side of the difference of an attribute."""
        return _instead(value) if name in self._names else self.value(value)

    def value(self, value: object, depth: int = 0) -> Any:
        """A value without secrets: neither as texts, nor below the name of a secret attribute."""
        if type(value) is str:
            return self.text(value)
        if depth == _MAX_DEPTH:
            return HIDDEN
        if type(value) is list:
            return [self.value(item, depth + 1) for item in value]
        if type(value) is dict:
            return {self.text(key): self._entry(key, item, depth + 1) for key, item in value.items()}
        return value

    def arguments(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a log line."""
        return {key: self._entry(key, value, 1) for key, value in arguments.items()}

    def _entry(self, key: object, value: object, depth: int) -> object:
        if key not in self._names:
            return self.value(value, depth)
        if type(value) is dict and value.keys() == {"current", "desired"}:
            return {side: _instead(inner) for side, inner in value.items()}
        return _instead(value)

    def text(self, text: Any) -> Any:
        """A text without the secret ones."""
        if type(text) is not str:
            return text
        if text in self._values and text != self._known:
            return HIDDEN
        return text if self._pattern is None else self._pattern.sub(HIDDEN, text)


class Printed:
    """A stream of text, without the secrets of the run that goes on: what handlers print is in the log of their run.

    What their children print does not come by here.
    """

    # One host has one run at a time, and all its streams hide the same.
    secrets: Hidden | None = None

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        if Printed.secrets is None:
            return self._stream.write(text)
        self._stream.write(Printed.secrets.text(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def follow_printed() -> None:
    """From now on what is printed goes through `Printed`."""
    import sys

    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, Printed):
            setattr(sys, name, Printed(stream))


def _instead(value: object) -> object:
    """What stands for a secret value; that nothing is there is none."""
    return value if value is None or value == "" else HIDDEN


def _resolved(resource: Resource, filled: Iterable[str]) -> Iterator[str]:
    """The texts that references have given: in the attributes that they fill, and on the way there."""
    for reference in resource._references.values():
        if reference._reference_value_cached:
            yield from _texts(reference._reference_value)
    for name in filled:
        if name in type(resource).fields:
            yield from _texts(getattr(resource, name))


def _texts(value: object, depth: int = 0) -> Iterator[str]:
    """The texts that a value consists of."""
    if isinstance(value, str):
        if value:
            yield str(value)
    elif depth < _MAX_DEPTH and isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from _texts(item, depth + 1)
    elif depth < _MAX_DEPTH and isinstance(value, dict):
        for item in value.values():
            yield from _texts(item, depth + 1)


def _pattern(texts: Iterable[str]) -> re.Pattern[str] | None:
    """Finds the texts in others, the longest first, in the forms that Python and JSON write them in."""
    import json
    import re

    forms = set()
    for text in texts:
        for part in _parts(text):
            ways: tuple[Callable[[str], str], ...] = (str, repr, json.dumps)
            for way in ways:
                form = way(part) if way is str else way(part)[1:-1]
                if len(part) >= _MIN_TEXT:
                    forms.add(form)
    if not forms:
        return None
    longest_first = sorted(forms, key=lambda form: (-len(form), form))
    return re.compile(f"(?:{'|'.join(map(re.escape, longest_first))})+")


def _parts(text: str) -> Iterator[str]:
    """The text and the pieces of it that stand alone in logs: its lines, and what is left when a long one is cut."""
    yield text
    lines = [line.strip() for line in text.splitlines()]
    if len(lines) > 1:
        yield from lines
    for line in lines:
        if len(line) > _LONG_TEXT:
            for start in range(0, len(line), _PART):
                yield line[start : start + _PART]
