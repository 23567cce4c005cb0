"""The pipe to Steward on a machine that refuses what only speed depends on."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import unittest

from tests.support import PACKAGE

# The number of `sched_setaffinity` on the architectures that Steward runs on.
NUMBERS = {"x86_64": 203, "aarch64": 122}

# Has the kernel refuse that call with EPERM, as `SystemCallFilter=~@resources` of a unit of systemd does, and receives a message.
HELD = """
import ctypes, os, struct, sys

def held(number):
    def step(code, yes, no, value):
        return struct.pack("=HBBI", code, yes, no, value)
    steps = step(0x20, 0, 0, 0) + step(0x15, 0, 1, number) + step(0x06, 0, 0, 0x00050001) + step(0x06, 0, 0, 0x7FFF0000)
    program = ctypes.create_string_buffer(steps)
    filter = ctypes.create_string_buffer(struct.pack("@HP", 4, ctypes.addressof(program)))
    libc = ctypes.CDLL(None)
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, filter, 0, 0) == 0

held(int(sys.argv[1]))
try:
    os.sched_setaffinity(0, os.sched_getaffinity(0))
except PermissionError:
    print("refused")

from steward_host import msgpack
from steward_host.pipe import Pipe

there, here = os.pipe()
pipe = Pipe(there, 1)
pipe.take_turns()
body = msgpack.pack({"greet": {"name": "ada"}})
os.write(here, len(body).to_bytes(4, "big") + body)
print(pipe.receive())
"""


@unittest.skipUnless(sys.platform == "linux" and platform.machine() in NUMBERS, "calls of Linux")
class Refused(unittest.TestCase):
    @unittest.skipIf(os.cpu_count() == 1, "there is no choice of processors")
    def test_messages_are_read_where_the_choice_of_processors_is_refused(self) -> None:
        number = str(NUMBERS[platform.machine()])
        ended = subprocess.run([sys.executable, "-c", HELD, number], cwd=PACKAGE, capture_output=True, text=True)
        self.assertEqual(ended.stderr, "")
        self.assertEqual(ended.stdout.split("\n")[:2], ["refused", "('greet', {'name': 'ada'})"])


if __name__ == "__main__":
    unittest.main()
