"""That a process ends when its parent does."""

from __future__ import annotations

import subprocess
import sys
import time
import unittest

from tests.support import PACKAGE, Host

# A parent whose child sleeps in the kernel, with no pipe that would tell it of its parent's end. It prints its child.
PARENT = """
import os, sys, time
from steward_host import parent
child = os.fork()
if child == 0:
    assert parent.signal_when_parent_ends(9)
    print(os.getpid(), "ctypes" in sys.modules, flush=True)
time.sleep(60)
"""


def is_running(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8") as stat:
            return ") Z " not in stat.read()
    except OSError:
        return False


@unittest.skipUnless(sys.platform == "linux", "a signal of Linux")
class Parent(unittest.TestCase):
    def test_a_process_that_asked_for_it_ends_with_a_parent_that_is_killed(self) -> None:
        parent = subprocess.Popen([sys.executable, "-c", PARENT], cwd=PACKAGE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(parent.wait)
        self.addCleanup(parent.kill)
        assert parent.stdout is not None
        with parent.stdout as told:
            child, has_ctypes = told.readline().split()
        self.assertEqual(has_ctypes, "False", "the slow package was imported")
        self.assertTrue(is_running(int(child)))
        parent.kill()
        end = time.monotonic() + 10
        while is_running(int(child)):
            self.assertLess(time.monotonic(), end, "the child outlives its parent")
            time.sleep(0.01)

    def test_a_host_waits_for_the_signal_from_its_start_on(self) -> None:
        host = Host(self, "compile")
        with open(f"/proc/{host.process.pid}/status", encoding="utf-8") as status:
            caught = next(line for line in status if line.startswith("SigCgt:")).split()[1]
        sigusr2 = 12
        self.assertTrue(int(caught, 16) & (1 << (sigusr2 - 1)))
        self.assertEqual(host.stop(), 0)
