"""Frames with calls of plugins (`compiler/src/protocol/calls.rs`): reading them, and the values in them; and the answers.

Behind the tag comes what `marshal` reads: a list of calls, each `(number, plugin, args, kwargs, file, line, namespace, open)`,
where `open` is None, or a dict whose values are relations that the plugin is going to read and that are not complete, each
`(instance, name)` or, in a guess, `(instance, name, value)`; or of
resources whose fields are computed, each `(number, class, instance, identify, fields)`. Answers are told in
`compiler/src/protocol/answers.rs`.
"""

from __future__ import annotations

import marshal
from struct import Struct

from inmanta.execute import runtime
from steward_host import msgpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# First bytes of answers in forms of their own: no message in MessagePack begins with them.
_TEXT = b"\xc1"
_VALUE = b"\xc0"
_RENDERED = b"\xc2"
_COMPUTED = b"\xc3"

# What a list of all kinds of values looks like that Steward writes.
_SAMPLE = (
    b"[\x01\0\0\0(\x0d\0\0\0\xda\x01nr\0\0\0\0NTFi\xfe\xff\xff\xffl\xfd\xff\xff\xff\x01\0\0\0\x04\0g\0\0\0\0\0\0\xf8?"
    b"z\x01au\x02\0\0\0\xc3\xa9s\x02\0\0\0\x04\x05[\x01\0\0\0z\x01b{z\x01ki\x01\0\0\0" b"0"
)
_MEANT = [("n", "n", None, True, False, -2, -(1 + (4 << 30)), 1.5, "a", "\u00e9", b"\x04\x05", ["b"], {"k": 1})]

# The same of an answer.
_ANSWER = (["n", None, True, 7, 1 << 40, 1.5, "\u00e9", {"k": -1}], (), ("n",))
_WRITTEN = (
    b"(\3\0\0\0[\x08\0\0\0u\1\0\0\0nNTi\7\0\0\0l\3\0\0\0\0\0\0\0\0\x04g\0\0\0\0\0\0\xf8?"
    b"u\2\0\0\0\xc3\xa9{u\1\0\0\0ki\xff\xff\xff\xff" b"0(\0\0\0\0(\1\0\0\0u\1\0\0\0n"
)

loads = marshal.loads
_dumps = marshal.dumps
# In it, each value is written by itself: the forms that refer to others came later.
_FORMAT = 2
_head = Struct(">cQ").pack
_PLAIN = frozenset({str, int, float, bool, type(None)})


def works() -> bool:
    """Whether this Python reads and writes the format as we do: it is that of its own files, and no promise."""
    try:
        return bool(loads(_SAMPLE) == _MEANT) and _dumps(_ANSWER, _FORMAT) == _WRITTEN
    except (EOFError, ValueError, TypeError):
        return False


def value(given: Any) -> Any:
    """The internal value that something in a frame stands for."""
    kind = type(given)
    if kind is tuple:
        size = len(given)
        if size == 1:
            inner = given[0]
            if type(inner) is dict:
                return {key: value(item) for key, item in inner.items()}
            return [value(item) for item in inner]
        number = given[0]
        if size == 2 and number in _instances:
            # Most are known already, with all that is read of them.
            return _instances[number]
        found = _instances.get(number)
        if found is None:
            found = _instances[number] = Instance(number, given[1], given[2] if size > 2 else None)
        elif size > 2:
            # Variables are assigned once: what is known stays true.
            found._values.update(given[2])
        if size > 3:
            known = found._values
            for name, item in given[3].items():
                known[name] = value(item)
        return found
    if kind is bytes:
        return msgpack.ext_decoders[given[0]](given[1:])
    return given


def has_reference(given: Any) -> bool:
    """Whether an argument in a frame is a reference, or a list or dict that holds one. What instances hold does not count."""
    kind = type(given)
    if kind is bytes:
        return bool(given[0] == msgpack.EXT_REFERENCE)
    if kind is tuple and len(given) == 1:
        inner = given[0]
        return any(map(has_reference, inner.values() if type(inner) is dict else inner))
    return False


def of_number(number: int) -> Instance:
    """The handle of an instance that came before."""
    return _instances[number]


def text_result(number: int, text: str) -> bytes | None:
    """The answer to a call whose result is a text; None if only MessagePack can say what is wrong with it."""
    try:
        return _head(_TEXT, number) + text.encode()
    except UnicodeEncodeError:
        return None


def result(number: int, value: object) -> bytes | None:
    """The answer to a call whose result is data in lists and dicts; None if there is more to it."""
    return _packed(_head(_VALUE, number), value) if _is_data(value) else None


def computed(
    number: int,
    value: Any,
    reads: list[tuple[int, str]] | bool | None,
    as_object: Callable[[object], bytes | None],
    logged: list[tuple[str, str]] | None = None,
) -> bytes | None:
    """The answer to a call of which is said what it has read (False: it does more than compute); None as above.

    `logged`: what it has logged for people, which is said when the answer is taken. `as_object`: how an object that is nothing but its values is written, behind the letter of its kind; None for any other.
    """
    head = _head(_COMPUTED, number)
    if type(value) not in _PLAIN:
        value = _with_numbers(value, as_object)
    if value is _MORE or _packed(head, value) is None:
        return None
    # The numbers of instances may look like half of a character.
    if not logged:
        return head + _dumps((value, reads), _FORMAT)
    texts = [text for pair in logged for text in pair]
    return head + _dumps((value, reads, texts), _FORMAT) if _is_whole(texts) else None


def _with_numbers(value: Any, as_object: Callable[[object], bytes | None]) -> Any:
    """Data as it is, with bytes for instances (the digits of their numbers) and for objects and references that are nothing but
    their values; `_MORE` if there is more to it."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is Instance:
        return str(value.id).encode()
    if kind is list:
        items = [_with_numbers(item, as_object) for item in value]
        return _MORE if _MORE in items else items
    if kind is dict:
        if not all(type(key) is str for key in value):
            return _MORE
        entries = {key: _with_numbers(item, as_object) for key, item in value.items()}
        return _MORE if _MORE in entries.values() else entries
    written = as_object(value)
    return _MORE if written is None else written


def rendered(number: int, values: list[object], identity: dict[str, str] | None, id_value: list[object]) -> bytes | None:
    """The answer with the fields of a resource; None if there is more to them than data."""
    return _packed(_head(_RENDERED, number), (values, _parts(identity), tuple(id_value)))


def noted(
    number: int,
    values: list[Any],
    identity: dict[str, str] | None,
    id_value: list[Any],
    reads: list[tuple[int, str]] | bool | None,
) -> bytes | None:
    """The same with what the getters have read (False: they do more than compute)."""
    head = _head(_RENDERED, number)
    given = (values, _parts(identity), tuple(id_value))
    if not _is_data(values) or not _is_data(id_value) or _packed(head, given) is None:
        return None
    # The numbers of instances may look like half of a character.
    return head + _dumps((*given, reads), _FORMAT)


def ignored(number: int, reads: list[tuple[int, str]] | bool | None) -> bytes:
    """The answer for a resource that its class leaves out, with what the getters have read for that."""
    return _head(_RENDERED, number) + _dumps((None, (), (), reads), _FORMAT)


def _parts(identity: dict[str, str] | None) -> tuple[str, ...]:
    return () if identity is None else tuple(identity[key] for key in ("entity_type", "agent", "attribute", "value"))


def _packed(head: bytes, value: Any) -> bytes | None:
    try:
        written = _dumps(value, _FORMAT)
    except ValueError:
        # An instance, an Unknown, an object; or nested too deeply.
        return None
    # Half of a character in two parts begins so, which is no text anywhere else; and so do some letters, and numbers have it.
    return None if b"\xed" in written and not _is_whole(value) else head + written


def _is_whole(value: Any) -> bool:
    """Whether no text in it has half of a character in two parts."""
    kind = type(value)
    if kind is str:
        return value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)
    if kind is dict:
        return all(_is_whole(key) and _is_whole(item) for key, item in value.items())
    return kind not in (list, tuple) or all(map(_is_whole, value))


def is_data(value: object) -> bool:
    """Whether it is made of what both sides have, and of whole characters."""
    return _is_data(value) and _is_whole(value)


def _is_data(value: object) -> bool:
    """Whether it is made of what both sides have: `marshal` writes more than that."""
    kind = type(value)
    if kind is list:
        for item in value:  # type: ignore[attr-defined]  # it is a list
            if type(item) not in _PLAIN and not _is_data(item):
                return False
        return True
    if kind is dict:
        for key, item in value.items():  # type: ignore[attr-defined]  # it is a dict
            if type(key) is not str or type(item) not in _PLAIN and not _is_data(item):
                return False
        return True
    return kind in _PLAIN


_MORE = object()
Instance = runtime.Instance
# The handles that there are.
_instances = runtime._instances
