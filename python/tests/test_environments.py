"""The environment of a project in a process that goes into it, as test tools do it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

PROGRAM = """
import os, sys
from inmanta import env

folder, sources = sys.argv[1:]
outer = env.process_env.python_path
env.VirtualEnv(folder).use_virtual_env()
assert env.process_env.env_path == folder, env.process_env.env_path
assert env.process_env.python_path == os.path.join(folder, "bin", "python") != outer
# What pip does for a module that is installed in place.
version = f"python{sys.version_info.major}.{sys.version_info.minor}"
with open(os.path.join(folder, "lib", version, "site-packages", "late.pth"), "w") as file:
    file.write(sources + "\\n")
try:
    import made_later
    raise AssertionError("nobody has looked yet")
except ModuleNotFoundError:
    pass
env.process_env.notify_change()
import made_later
assert made_later.VALUE == 5
"""


class Environments(unittest.TestCase):
    def test_a_process_that_goes_into_one_says_so_and_sees_what_is_installed_there(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            sources = os.path.join(directory, "sources")
            os.mkdir(sources)
            with open(os.path.join(sources, "made_later.py"), "w") as file:
                file.write("VALUE = 5\n")
            arguments = [sys.executable, "-c", PROGRAM, os.path.join(directory, "env"), sources]
            environment = {"PYTHONPATH": PACKAGE, "PATH": os.environ["PATH"]}
            done = subprocess.run(arguments, env=environment, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
