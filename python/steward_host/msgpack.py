"""MessagePack, as far as the frames of `compiler/src/protocol/` need it, and fast.

`pack(value) -> bytes` and `unpack(buffer, position=0) -> (value, end)`. Shapes: None, bool, int, float, str,
list and dict; bytes come out of binary values and go in as `Blob`. The extension types are the caller's business:

- `ext_decoders[code](payload)` makes the value of an extension; a code without decoder is a `FormatError`;
- `ext_encoder(value)` is asked for every object of another type and answers `(code, payload)` or raises.

An integer beyond 64 bits travels as extension `EXT_BIGINT`, in both directions, without asking anybody.
Both sides work by table: one lookup on the tag byte, or on the exact type, a value.
"""

from __future__ import annotations

from struct import Struct, error as _StructError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    # From the position behind the tag: the value and the position behind it.
    Decoder = Callable[[bytes, int], tuple[Any, int]]
    SizedDecoder = Callable[[bytes, int, int], tuple[Any, int]]
    Reader = Callable[[bytes, int], tuple[Any, ...]]
    Put = Callable[[bytes], None]

EXT_BIGINT = 1
EXT_UNKNOWN = 2
EXT_INSTANCE = 3
EXT_OPAQUE = 4
# A dataclass of a module, on its way to become an instance of the entity it is paired with: a MessagePack array of
# the opaque id of the object, the full name of the entity, a map of the fields, whether it is a reference to one, and, if so,
# that it is nothing but its fields.
EXT_DATACLASS = 5
# A reference; the payload is an array that compiling.py knows.
EXT_REFERENCE = 6
# A text of a class of its own: an array of the opaque id of the object, and the text.
EXT_TEXT = 8

_U16 = Struct(">H").unpack_from
_U32 = Struct(">I").unpack_from
_U64 = Struct(">Q").unpack_from
_I8 = Struct(">b").unpack_from
_I16 = Struct(">h").unpack_from
_I32 = Struct(">i").unpack_from
_I64 = Struct(">q").unpack_from
_F32 = Struct(">f").unpack_from
_F64 = Struct(">d").unpack_from

_P_U8 = Struct(">BB").pack
_P_U16 = Struct(">BH").pack
_P_U32 = Struct(">BI").pack
_P_U64 = Struct(">BQ").pack
_P_I8 = Struct(">Bb").pack
_P_I16 = Struct(">Bh").pack
_P_I32 = Struct(">Bi").pack
_P_I64 = Struct(">Bq").pack
_P_F64 = Struct(">Bd").pack
_P_EXT8 = Struct(">BBb").pack
_P_EXT16 = Struct(">BHb").pack
_P_EXT32 = Struct(">BIb").pack
_P_FIXEXT = Struct(">Bb").pack


class Blob:
    """Bytes that are to travel as a binary value. Plain bytes are an object like any other: the model has none."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class FormatError(ValueError):
    """The bytes are no MessagePack of ours, or end too early."""


# --- reading ---------------------------------------------------------------------------------------------------------

def _decode_bigint(payload: bytes) -> int:
    text = payload.decode("ascii")
    if not text.lstrip("-").isdigit():
        raise FormatError("a big integer of other characters than digits")
    # Digits come in from outside; Python's limit on their number (4300) stays in force.
    return int(text)


ext_decoders: dict[int, Callable[[bytes], Any]] = {EXT_BIGINT: _decode_bigint}


def unpack(buffer: bytes, position: int = 0) -> tuple[Any, int]:
    """Reads one value of `buffer` at `position`; gives it and the position behind it.

    Raises FormatError for bytes that are no such value.
    """
    try:
        value, end = _TABLE[buffer[position]](buffer, position + 1)
    except (IndexError, TypeError, RecursionError, _StructError, UnicodeDecodeError) as error:
        raise FormatError(f"broken frame: {error}") from error
    if end > len(buffer):
        raise FormatError("broken frame: it ends inside of a value")
    return value, end


def _text(buffer: bytes, position: int, size: int) -> tuple[Any, int]:
    end = position + size
    return buffer[position:end].decode(), end


def _binary(buffer: bytes, position: int, size: int) -> tuple[Any, int]:
    end = position + size
    return buffer[position:end], end


def _array(buffer: bytes, position: int, size: int) -> tuple[Any, int]:
    items: list[Any] = []
    put = items.append
    table = _TABLE
    for _ in range(size):
        value, position = table[buffer[position]](buffer, position + 1)
        put(value)
    return items, position


def _map(buffer: bytes, position: int, size: int) -> tuple[Any, int]:
    items: dict[Any, Any] = {}
    table = _TABLE
    for _ in range(size):
        key, position = table[buffer[position]](buffer, position + 1)
        items[key], position = table[buffer[position]](buffer, position + 1)
    return items, position


def _extension(buffer: bytes, position: int, size: int) -> tuple[Any, int]:
    code = _I8(buffer, position)[0]
    position += 1
    end = position + size
    decoder = ext_decoders.get(code)
    if decoder is None:
        raise FormatError(f"unknown extension type {code}")
    if end > len(buffer):
        raise FormatError("broken frame: it ends inside of a value")
    return decoder(buffer[position:end]), end


def _constant(value: object) -> Decoder:
    return lambda buffer, position: (value, position)


def _fixed(read: Reader, size: int) -> Decoder:
    def decode(buffer: bytes, position: int) -> tuple[Any, int]:
        return read(buffer, position)[0], position + size
    return decode


def _sized(inner: SizedDecoder, size: int) -> Decoder:
    def decode(buffer: bytes, position: int) -> tuple[Any, int]:
        return inner(buffer, position, size)
    return decode


def _fixarray(size: int) -> Decoder:
    def decode(buffer: bytes, position: int) -> tuple[Any, int]:
        items: list[Any] = []
        put = items.append
        table = _TABLE
        for _ in range(size):
            value, position = table[buffer[position]](buffer, position + 1)
            put(value)
        return items, position
    return decode


def _fixmap(size: int) -> Decoder:
    def decode(buffer: bytes, position: int) -> tuple[Any, int]:
        items: dict[Any, Any] = {}
        table = _TABLE
        for _ in range(size):
            tag = buffer[position]
            if 0xA0 <= tag < 0xC0:
                # A short text, as nearly all keys are: without a call.
                start = position + 1
                position = start + tag - 0xA0
                key: Any = buffer[start:position].decode()
            else:
                key, position = table[tag](buffer, position + 1)
            items[key], position = table[buffer[position]](buffer, position + 1)
        return items, position
    return decode


def _lengthed(inner: SizedDecoder, read: Reader, width: int) -> Decoder:
    def decode(buffer: bytes, position: int) -> tuple[Any, int]:
        return inner(buffer, position + width, read(buffer, position)[0])
    return decode


def _u8(buffer: bytes, position: int) -> tuple[int]:
    return (buffer[position],)


def _fixtext(size: int) -> Decoder:
    def decode(buffer: bytes, position: int) -> tuple[Any, int]:
        end = position + size
        return buffer[position:end].decode(), end
    return decode


def _never(buffer: bytes, position: int) -> tuple[Any, int]:
    raise FormatError("tag 0xc1 is never used")


_TABLE: list[Decoder] = [_never] * 256
for _n in range(128):
    _TABLE[_n] = _constant(_n)
for _n in range(16):
    _TABLE[0x80 | _n] = _fixmap(_n)
    _TABLE[0x90 | _n] = _fixarray(_n)
for _n in range(32):
    _TABLE[0xA0 | _n] = _fixtext(_n)
    _TABLE[0xE0 | _n] = _constant(_n - 32)
_TABLE[0xC0] = _constant(None)
_TABLE[0xC2] = _constant(False)
_TABLE[0xC3] = _constant(True)
for _tag, _inner in ((0xC4, _binary), (0xC7, _extension), (0xD9, _text)):
    _TABLE[_tag] = _lengthed(_inner, _u8, 1)
for _tag, _inner in ((0xC5, _binary), (0xC8, _extension), (0xDA, _text), (0xDC, _array), (0xDE, _map)):
    _TABLE[_tag] = _lengthed(_inner, _U16, 2)
for _tag, _inner in ((0xC6, _binary), (0xC9, _extension), (0xDB, _text), (0xDD, _array), (0xDF, _map)):
    _TABLE[_tag] = _lengthed(_inner, _U32, 4)
for _tag, _read, _width in (
    (0xCA, _F32, 4), (0xCB, _F64, 8),
    (0xCC, _u8, 1), (0xCD, _U16, 2), (0xCE, _U32, 4), (0xCF, _U64, 8),
    (0xD0, _I8, 1), (0xD1, _I16, 2), (0xD2, _I32, 4), (0xD3, _I64, 8),
):
    _TABLE[_tag] = _fixed(_read, _width)
for _n in range(5):
    _TABLE[0xD4 + _n] = _sized(_extension, 1 << _n)


# --- writing ---------------------------------------------------------------------------------------------------------

def _refuse(value: object) -> tuple[int, bytes]:
    raise TypeError(f"an object of type {type(value).__name__} cannot travel")


ext_encoder: Callable[[Any], tuple[int, bytes]] = _refuse
# For texts of other classes than `str`; without it they are plain texts.
text_encoder: Callable[[Any], tuple[int, bytes]] | None = None


def pack(value: object) -> bytes:
    """The bytes of one value; TypeError for what has no form."""
    parts: list[bytes] = []
    encode = _ENCODERS.get(type(value), _other)
    encode(value, parts.append)
    return b"".join(parts)


def pack_behind(head: bytes, *values: object) -> bytes:
    """The bytes of some values, one after the other, behind what is packed already."""
    parts = [head]
    put = parts.append
    encoders = _ENCODERS
    for value in values:
        encoders.get(type(value), _other)(value, put)
    return b"".join(parts)


def pack_ext(code: int, payload: bytes) -> bytes:
    """The bytes of an extension value."""
    size = len(payload)
    if size in _FIXEXT:
        return _P_FIXEXT(_FIXEXT[size], code) + payload
    if size < 0x100:
        return _P_EXT8(0xC7, size, code) + payload
    if size < 0x10000:
        return _P_EXT16(0xC8, size, code) + payload
    return _P_EXT32(0xC9, size, code) + payload


_FIXEXT = {1: 0xD4, 2: 0xD5, 4: 0xD6, 8: 0xD7, 16: 0xD8}
_SMALL = [bytes((n,)) for n in range(256)]


def _none(value: None, put: Put) -> None:
    put(b"\xc0")


def _bool(value: bool, put: Put) -> None:
    put(b"\xc3" if value else b"\xc2")


def _int(value: int, put: Put) -> None:
    if 0 <= value < 128:
        put(_SMALL[value])
    elif value >= 0:
        if value < 0x100:
            put(_P_U8(0xCC, value))
        elif value < 0x10000:
            put(_P_U16(0xCD, value))
        elif value < 0x100000000:
            put(_P_U32(0xCE, value))
        elif value < 0x10000000000000000:
            put(_P_U64(0xCF, value))
        else:
            put(pack_ext(EXT_BIGINT, _digits(value)))
    elif value >= -32:
        put(_SMALL[256 + value])
    elif value >= -0x80:
        put(_P_I8(0xD0, value))
    elif value >= -0x8000:
        put(_P_I16(0xD1, value))
    elif value >= -0x80000000:
        put(_P_I32(0xD2, value))
    elif value >= -0x8000000000000000:
        put(_P_I64(0xD3, value))
    else:
        put(pack_ext(EXT_BIGINT, _digits(value)))


def _digits(value: int) -> bytes:
    # int.__str__ rather than str(): an enum or another subclass of int prints something else.
    return int.__str__(value).encode("ascii")


def _float(value: float, put: Put) -> None:
    put(_P_F64(0xCB, value))


def _str(value: str, put: Put) -> None:
    try:
        data = value.encode()
    except UnicodeEncodeError:
        # Lone surrogates, as undecodable bytes of file names leave them, have no place in UTF-8.
        data = value.encode("utf-8", "replace")
    size = len(data)
    if size < 32:
        put(_SMALL[0xA0 | size])
    elif size < 0x100:
        put(_P_U8(0xD9, size))
    elif size < 0x10000:
        put(_P_U16(0xDA, size))
    else:
        put(_P_U32(0xDB, size))
    put(data)


def _blob(value: Blob, put: Put) -> None:
    size = len(value.data)
    if size < 0x100:
        put(_P_U8(0xC4, size))
    elif size < 0x10000:
        put(_P_U16(0xC5, size))
    else:
        put(_P_U32(0xC6, size))
    put(value.data)


def _list(value: list[Any], put: Put) -> None:
    size = len(value)
    if size < 16:
        put(_SMALL[0x90 | size])
    elif size < 0x10000:
        put(_P_U16(0xDC, size))
    else:
        put(_P_U32(0xDD, size))
    encoders = _ENCODERS
    for item in value:
        encoders.get(type(item), _other)(item, put)


def _dict(value: dict[Any, Any], put: Put) -> None:
    size = len(value)
    if size < 16:
        put(_SMALL[0x80 | size])
    elif size < 0x10000:
        put(_P_U16(0xDE, size))
    else:
        put(_P_U32(0xDF, size))
    encoders = _ENCODERS
    keys = _KEYS
    for key, item in value.items():
        packed = keys.get(key) if type(key) is str else None
        if packed is not None:
            put(packed)
        else:
            _key(key, put)
        encoders.get(type(item), _other)(item, put)


# Keys are few and come again and again: names of fields and of attributes.
_KEYS: dict[str, bytes] = {}
_MAX_KEYS = 4096


def _key(key: object, put: Put) -> None:
    parts: list[bytes] = []
    if isinstance(key, str):
        key = str.__str__(key)
    _ENCODERS.get(type(key), _other)(key, parts.append)
    packed = b"".join(parts)
    if type(key) is str and len(_KEYS) < _MAX_KEYS and len(packed) < 64:
        _KEYS[key] = packed
    put(packed)


def _other(value: object, put: Put) -> None:
    kinds: tuple[tuple[type, Callable[[Any, Put], None]], ...] = (
        (str, _str), (int, _int), (float, _float), (list, _list), (dict, _dict)
    )
    for base, encode in kinds:
        if isinstance(value, base):
            if base is str and text_encoder is not None:
                put(pack_ext(*text_encoder(value)))
                return
            encode(base.__str__(value) if base is str else value, put)
            return
    put(pack_ext(*ext_encoder(value)))


_ENCODERS: dict[type, Callable[[Any, Put], None]] = {
    type(None): _none,
    bool: _bool,
    int: _int,
    float: _float,
    str: _str,
    Blob: _blob,
    list: _list,
    dict: _dict,
}
