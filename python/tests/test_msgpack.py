"""The codec: what goes in comes out, and the bytes are those of MessagePack."""

from __future__ import annotations

import math
import random
import unittest

from steward_host import msgpack
from tests.support import Ext, ext_codec


class Codec(unittest.TestCase):
    def setUp(self) -> None:
        ext_codec()

    def round_trip(self, value: object) -> object:
        data = msgpack.pack(value)
        got, end = msgpack.unpack(data)
        self.assertEqual(end, len(data))
        return got

    def test_every_width_of_integer(self) -> None:
        edges = [0, 1, 31, 32, 33, 127, 128, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63]
        for number in edges + [2**64 - 1, 2**64, 10**40]:
            for value in (number, -number, -number - 1):
                self.assertEqual(self.round_trip(value), value)

    def test_known_bytes(self) -> None:
        for value, expected in (
            (None, "c0"),
            (True, "c3"),
            (7, "07"),
            (-1, "ff"),
            (-33, "d0df"),
            (300, "cd012c"),
            (-40000, "d2ffff63c0"),
            (1.5, "cb3ff8000000000000"),
            ("é", "a2c3a9"),
            ([1, "a"], "9201a161"),
            ({"a": None}, "81a161c0"),
            (msgpack.Blob(b"xy"), "c4027879"),
            (2**64, "c71401" + b"18446744073709551616".hex()),
            (Ext(2), "c70002"),
            (Ext(4, b"\0\0\0\1"), "d60400000001"),
        ):
            self.assertEqual(msgpack.pack(value).hex(), expected, value)

    def test_texts_and_containers_of_every_length_class(self) -> None:
        for size in (0, 1, 15, 16, 31, 32, 255, 256, 65535, 65536):
            self.assertEqual(self.round_trip("x" * size), "x" * size)
            self.assertEqual(self.round_trip(msgpack.Blob(b"x" * size)), b"x" * size)
            self.assertEqual(self.round_trip([0] * size), [0] * size)
            self.assertEqual(self.round_trip(Ext(3, b"i" * size)), Ext(3, b"i" * size))
        for size in (0, 15, 16, 70000):
            self.assertEqual(self.round_trip(dict.fromkeys(map(str, range(size)))), dict.fromkeys(map(str, range(size))))

    def test_floats(self) -> None:
        for value in (0.0, -0.0, 1e300, math.inf, -math.inf):
            self.assertEqual(self.round_trip(value), value)
        self.assertTrue(math.isnan(self.round_trip(math.nan)))
        self.assertIsInstance(self.round_trip(1.0), float)

    def test_a_text_that_is_no_utf_8_still_travels(self) -> None:
        self.assertEqual(self.round_trip("a\udcffb"), "a?b")

    def test_subclasses_travel_as_their_base(self) -> None:
        from inmanta.const import ResourceState

        class Number(int):
            def __str__(self) -> str:
                return "a number"

        self.assertEqual(self.round_trip(ResourceState.deployed), "deployed")
        self.assertEqual(self.round_trip(Number(2**70)), 2**70)

    def test_random_values(self) -> None:
        rng = random.Random(20260)

        def value(depth: int) -> object:
            kind = rng.randrange(11 if depth else 8)
            if kind == 0:
                return None
            if kind == 1:
                return rng.random() < 0.5
            if kind in (2, 3):
                return rng.randrange(-(1 << rng.randrange(1, 90)), 1 << rng.randrange(1, 90))
            if kind == 4:
                return rng.uniform(-1e6, 1e6)
            if kind in (5, 6):
                return "".join(chr(rng.choice((97, 233, 0x4E2D, 0x1F600))) for _ in range(rng.randrange(40)))
            if kind == 7:
                return Ext(rng.choice((2, 3, 4)), rng.randbytes(rng.randrange(40)))
            if kind == 8:
                return {str(rng.random()): value(depth - 1) for _ in range(rng.randrange(20))}
            return [value(depth - 1) for _ in range(rng.randrange(20))]

        for _ in range(400):
            made = value(3)
            self.assertEqual(self.round_trip(made), made)

    def test_truncated_or_foreign_bytes_are_an_error_and_no_crash(self) -> None:
        whole = msgpack.pack({"a": [1, 2**70, "text" * 20, 1.5, Ext(3, b"abcdef")]})
        for end in range(len(whole)):
            with self.assertRaises(msgpack.FormatError):
                msgpack.unpack(whole[:end])
        rng = random.Random(4)
        for _ in range(3000):
            try:
                msgpack.unpack(rng.randbytes(rng.randrange(1, 30)))
            except msgpack.FormatError:
                pass
        with self.assertRaises(msgpack.FormatError):
            msgpack.unpack(b"\xc1")
        with self.assertRaises(msgpack.FormatError):
            msgpack.unpack(b"\x91" * 100_000)

    def test_an_object_without_form_is_refused(self) -> None:
        msgpack.ext_encoder = msgpack._refuse
        for value in (object(), (1, 2), b"x", {1}):
            with self.assertRaises(TypeError):
                msgpack.pack([value])


if __name__ == "__main__":
    unittest.main()
