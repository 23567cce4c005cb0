"""Texts and JSON. Source: docs/reference/std.md § 5.1."""

# A list of the model says nothing of its elements.
# mypy: disable-error-code="type-arg"

from __future__ import annotations


def unique_file(prefix: str, seed: str, suffix: str, length: int = 20) -> str:
    """A name that is always the same for a seed."""
    import hashlib

    return prefix + hashlib.md5(seed.encode(), usedforsecurity=False).hexdigest() + suffix


def replace(string: str, old: str, new: str) -> str:
    return string.replace(old, new)


def upper(string: str) -> str:
    return string.upper()


def lower(string: str) -> str:
    return string.lower()


def capitalize(string: str) -> str:
    return string.capitalize()


def limit(string: str, length: int) -> str:
    """The first characters; of a negative length, all but the last ones."""
    return string[:length]


def length(value: str) -> int:
    return len(value)


def split(string_list: str, delim: str) -> list:
    return string_list.split(delim)


def hostname(fqdn: str) -> str:
    return fqdn.partition(".")[0]


def format(__string: str, *args: object, **kwargs: object) -> str:
    return __string.format(*args, **kwargs)


def is_base64_encoded(s: str) -> bool:
    import base64

    try:
        base64.b64decode(s.encode(), validate=True)
    except Exception:
        return False
    return True


def json_loads(s: str) -> object:
    import json

    return json.loads(s)


def json_dumps(obj: object) -> str:
    import json

    from inmanta.util import internal_json_encoder

    return json.dumps(obj, default=internal_json_encoder)
