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

# A parent whose child hands out hosts, of which one has started a program. It prints that program, and has no pipe either.
PARENT_OF_ZYGOTE = """
import os, subprocess, time
from steward_host import zygote
from steward_host.__main__ import die_with_parent
parent = os.getpid()
if os.fork() == 0:
    die_with_parent(parent)
    host = os.fork()
    if host == 0:
        os.setpgid(0, 0)
        zygote.forks.end_with(os.getppid())
        print(subprocess.Popen(["sleep", "60"]).pid, flush=True)
    else:
        zygote._forks.add(host)
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
        with parent.stdout as output:
            child, has_ctypes = output.readline().split()
        self.assertEqual(has_ctypes, "False", "the slow package was imported")
        self.assertTrue(is_running(int(child)))
        parent.kill()
        end = time.monotonic() + 10
        while is_running(int(child)):
            self.assertLess(time.monotonic(), end, "the child outlives its parent")
            time.sleep(0.01)

    def test_what_hosts_have_started_ends_with_an_executor_whose_end_is_known_by_the_signal_only(self) -> None:
        parent = subprocess.Popen([sys.executable, "-c", PARENT_OF_ZYGOTE], cwd=PACKAGE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(parent.wait)
        self.addCleanup(parent.kill)
        assert parent.stdout is not None
        with parent.stdout as output:
            program = int(output.readline())
        self.assertTrue(is_running(program))
        parent.kill()
        end = time.monotonic() + 10
        while is_running(program):
            self.assertLess(time.monotonic(), end, "the program outlives the executor")
            time.sleep(0.01)

    def test_a_host_waits_for_the_signal_from_its_start_on(self) -> None:
        host = Host(self, "compile")
        with open(f"/proc/{host.process.pid}/status", encoding="utf-8") as status:
            caught = next(line for line in status if line.startswith("SigCgt:")).split()[1]
        sigusr2 = 12
        self.assertTrue(int(caught, 16) & (1 << (sigusr2 - 1)))
        self.assertEqual(host.stop(), 0)
