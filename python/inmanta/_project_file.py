"""What `project.yml` says. Read by PyYAML where there is one; without it, by the part of YAML that such files are written in.

That part: texts at the top, lists of texts (`- a`, or `[a, b]`), and one level of names under a name.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAME = "project.yml"


def read(directory: str) -> dict[str, Any] | None:
    """The entries of a project's file; None if there is no such file. ValueError for one that cannot be read."""
    file = os.path.join(directory, NAME)
    if not os.path.isfile(file):
        return None
    with open(file, encoding="utf-8") as lines:
        text = lines.read()
    try:
        import yaml  # type: ignore[import-untyped, unused-ignore]  # modules bring it, if they need it
    except ImportError:
        return plain(text)
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"{file} cannot be read: {error}") from error
    return found if isinstance(found, dict) else {}


def above(directory: str) -> str | None:
    """The nearest directory with such a file, this one or one that it is in."""
    directory = os.path.abspath(directory)
    while not os.path.isfile(os.path.join(directory, NAME)):
        parent = os.path.dirname(directory)
        if parent == directory:
            return None
        directory = parent
    return directory


def plain(text: str) -> dict[str, Any]:
    """The entries of a text of the simple kind."""
    found: dict[str, Any] = {}
    # The innermost name whose value comes on the next lines: where it is kept, and by what name.
    under: tuple[dict[str, Any], str] | None = None
    for line in text.splitlines():
        bare = line.strip()
        if not bare or bare.startswith(("#", "---")):
            continue
        if bare.startswith("- ") and under is not None:
            place, name = under
            if not isinstance(place[name], list):
                place[name] = []
            place[name].append(_value(bare[2:]))
            continue
        key, colon, value = bare.partition(":")
        if not colon:
            continue
        place = found
        if line[0] == " " and found:
            outer = [*found][-1]
            if not isinstance(found[outer], dict):
                found[outer] = {}
            place = found[outer]
        place[_unquoted(key)] = _value(value)
        under = (place, _unquoted(key))
    return found


def _value(text: str) -> Any:
    text = text.strip()
    if not text.startswith(("'", '"')):
        text = text.split(" #")[0].strip()
    if text.startswith("[") and text.endswith("]"):
        return [_value(part) for part in text[1:-1].split(",") if part.strip()]
    words: dict[str, Any] = {"": None, "~": None, "null": None, "true": True, "false": False}
    return words[text.lower()] if text.lower() in words else _unquoted(text)


def _unquoted(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text
