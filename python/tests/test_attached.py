"""A process that has a compile run, and programs that do not do it."""

from __future__ import annotations

import os
import tempfile
import types
import unittest
from unittest import mock

from inmanta import ast
from steward_host.attached import Attached


class Programs(unittest.TestCase):
    def test_a_program_of_another_version_is_named_with_its_version(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            program = os.path.join(directory, "steward")
            with open(program, "w") as file:
                # What a program that knows no `attached`, or no such inputs, does.
                file.write('#!/bin/sh\nif [ "$1" = --version ]; then echo steward 0.0.1; else exit 2; fi\n')
            os.chmod(program, 0o755)
            project = types.SimpleNamespace(project_path=directory)
            with mock.patch.dict(os.environ, {"STEWARD_PROGRAM": program}):
                with self.assertRaises(ast.CompilerException) as raised:
                    Attached(project).load()
        text = str(raised.exception)
        self.assertIn(f"The program {program} (steward 0.0.1) may be of another version than the package ", text)
        self.assertIn("STEWARD_PROGRAM", text)
