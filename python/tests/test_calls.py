"""Frames with calls: the format that Steward writes, and the values in it."""

import marshal
import unittest

from inmanta.execute import runtime
from steward_host import calls


class CallsTest(unittest.TestCase):
    def setUp(self) -> None:
        runtime.reset()

    def test_this_python_reads_what_steward_writes(self) -> None:
        self.assertTrue(calls.works())

    def test_values_that_python_has_are_themselves(self) -> None:
        for given in (None, True, 1, 2.5, "a", [1, "b"], {"k": [None]}):
            self.assertIs(calls.value(given), given)

    def test_an_instance_is_one_handle_that_keeps_what_is_known_of_it(self) -> None:
        plain = calls.value((7, "m::Host"))
        told = calls.value((7, "m::Host", ("name",), ("h",)))
        more = calls.value((7, "m::Host", (), (), ("site", "peers"), ((8, "m::Site"), ([(7, "m::Host"), (9, "m::Host")],))))
        self.assertIs(plain, told)
        self.assertIs(plain, more)
        self.assertEqual(plain._values["name"], "h")
        self.assertEqual(plain._values["site"].id, 8)
        self.assertIs(plain._values["peers"][0], plain)
        self.assertEqual(plain._values["peers"][1].id, 9)

    def test_containers_with_instances_are_gone_through(self) -> None:
        found = calls.value(({"a": (1, "m::Host"), "b": ([(2, "m::Host")],), "c": [3]},))
        self.assertEqual((found["a"].id, found["b"][0].id, found["c"]), (1, 2, [3]))

    def test_what_an_older_format_can_not_say_is_no_surprise(self) -> None:
        # What a Python whose `marshal` differs would find: no answer, and MessagePack is used.
        real, calls.loads = calls.loads, lambda data: marshal.loads(b"N")
        try:
            self.assertFalse(calls.works())
        finally:
            calls.loads = real


if __name__ == "__main__":
    unittest.main()
