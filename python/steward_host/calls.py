"""Frames with calls of plugins (`compiler/src/protocol/calls.rs`): reading them, and the values in them.

Behind the tag comes what `marshal` reads: a list of calls, each `(number, plugin, args, kwargs, file, line, namespace)`.
"""

from __future__ import annotations

import marshal

from inmanta.execute import runtime
from steward_host import msgpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# First byte of a result that is a text: no MessagePack begins with it.
TEXT = b"\xc1"

# What a list of all kinds of values looks like that Steward writes.
_SAMPLE = (
    b"[\x01\0\0\0(\x0d\0\0\0\xda\x01nr\0\0\0\0NTFi\xfe\xff\xff\xffl\xfd\xff\xff\xff\x01\0\0\0\x04\0g\0\0\0\0\0\0\xf8?"
    b"z\x01au\x02\0\0\0\xc3\xa9s\x02\0\0\0\x04\x05[\x01\0\0\0z\x01b{z\x01ki\x01\0\0\0" b"0"
)
_MEANT = [("n", "n", None, True, False, -2, -(1 + (4 << 30)), 1.5, "a", "\u00e9", b"\x04\x05", ["b"], {"k": 1})]

loads = marshal.loads


def works() -> bool:
    """Whether this Python reads the format as it is written: it is that of its own files, and no promise."""
    try:
        return bool(loads(_SAMPLE) == _MEANT)
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
        if number in _instances:
            found = _instances[number]
        else:
            found = _instances[number] = Instance(number, given[1])
        if size > 2:
            # Variables are assigned once: what is known stays true.
            known = found._values
            for name, item in zip(given[2], given[3]):
                known[name] = item
            if size > 4:
                for name, item in zip(given[4], given[5]):
                    known[name] = value(item)
        return found
    if kind is bytes:
        return msgpack.ext_decoders[given[0]](given[1:])
    return given


Instance = runtime.Instance
# The handles that there are.
_instances = runtime._instances
