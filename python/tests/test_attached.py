"""A process that has a compile run, and programs that do not do it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
import types
import unittest
from unittest import mock

from inmanta import ast
from steward_host.attached import Attached, reported_together
from tests.support import PACKAGE


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


# A program that is asked for a compile: it has the modules imported, and sends what it is given.
PROGRAM = """#!{python} -I
import json, sys
sys.path.insert(0, {package!r})
from steward_host.pipe import Closed, Pipe
pipe = Pipe(0, 0)
pipe.receive()
project = sys.argv[sys.argv.index("--project") + 1]
modules = {modules!r}
pipe.send("load_compile", dict(modules=modules, project_dir=project, env={{}}, environment_id=None, inputs={{}}))
pipe.receive()
pipe.send("stop")
pipe.receive()
for name, fields in json.loads({messages!r}):
    pipe.send(name, fields)
try:
    pipe.receive()
except Closed:
    pass
"""
# What runs the compile, and says where something was raised.
RUN = """
import logging, os, sys, warnings
from inmanta import compiler, module
from inmanta.resources import resource

def tell(what, function):
    try:
        function()
    except Exception as error:
        text = str(error).replace(sys.argv[1], "DIR")
        print(what, type(error).__name__, text, *filter(None, [type(error.__cause__).__name__ if error.__cause__ else ""]), sep=" | ")
    else:
        print(what, "done")

logging.basicConfig(stream=sys.stdout, format="%(name)s %(levelname)s %(message)s")
warnings.simplefilter("ignore")
project = module.Project(sys.argv[1])
tell("load", lambda: compiler.ProjectLoader.load(project))
"""


def diagnostic(kind: str, message: str, line: int | None = None, causes: list = [], severity: str = "error") -> dict:
    place = {"file": "main.cf" if line else None, "line": line, "column": 1, "end_line": line, "end_column": 2}
    return {"kind": kind, "message": message, "severity": severity, "notes": [], "causes": causes, **place}


MISSING = diagnostic(
    "ModuleLoadingException",
    "Failed to load module nothere",
    1,
    [diagnostic("ModuleNotFoundException", "Could not find module nothere")],
)


class Compiles(unittest.TestCase):
    """A compile whose Steward is a script of the test."""

    def ran(self, *messages: tuple[str, dict], code: str = "", run: str = "", model: str = "import nothere\n") -> list[str]:
        """The lines that a process prints which has the compile run. `code`: of a module of the model."""
        with tempfile.TemporaryDirectory() as made:
            directory = os.path.realpath(made)
            modules = []
            for name, text in (("project.yml", "name: p\n"), ("main.cf", model), ("own.py", code)):
                with open(os.path.join(directory, name), "w") as file:
                    file.write(text)
            if code:
                files = [{"module": "inmanta_plugins.own", "path": os.path.join(directory, "own.py"), "package": True}]
                modules.append({"name": "own", "root": directory, "files": files})
            program = os.path.join(directory, "steward")
            with open(program, "w") as file:
                given = {"python": sys.executable, "package": PACKAGE, "modules": modules, "messages": json.dumps(messages)}
                file.write(PROGRAM.format(**given))
            os.chmod(program, 0o755)
            done = subprocess.run(
                [sys.executable, "-c", RUN + textwrap.dedent(run), directory],
                env={**os.environ, "STEWARD_PROGRAM": program, "PYTHONPATH": PACKAGE, "PYTHONDONTWRITEBYTECODE": "1"},
                capture_output=True,
                text=True,
                timeout=60,
            )
        self.assertEqual(done.stderr, "")
        return done.stdout.splitlines()

    def test_a_module_that_is_nowhere_is_reported_when_the_project_is_loaded(self) -> None:
        others = [MISSING, diagnostic("TypeNotFoundException", "could not find type A in namespace b", 1), MISSING]
        run = 'print(project.loaded)\ntell("modules", project.get_modules)'
        lines = self.ran(("finished", {"diagnostics": others}), run=run)
        text = "ModuleLoadingException | Failed to load module nothere (reported in import nothere (DIR/main.cf:1))"
        expected = f"{text} | ModuleNotFoundException"
        self.assertEqual(lines, [f"load | {expected}", "False", f"modules | {expected}"])

    def test_a_file_of_a_module_that_is_nowhere_makes_the_module_invalid(self) -> None:
        cause = diagnostic("ModuleNotFoundException", "could not locate module with name: a::b")
        failed = diagnostic("ModuleLoadingException", "Failed to load module a::b", 1, [cause])
        self.assertIn("| InvalidModuleException", self.ran(("finished", {"diagnostics": [failed]}))[0])

    def test_broken_code_of_a_module_is_reported_when_the_project_is_loaded(self) -> None:
        message = "Unable to load all plug-ins for module own:\n\tValueError while loading plugin module inmanta_plugins.own: no"
        failed = diagnostic("CompilerException", message, 1)
        lines = self.ran(("finished", {"diagnostics": [failed]}), code="raise ValueError('no')")
        self.assertEqual(lines[0], "load | CompilerException | Unable to load all plug-ins for module own:")
        self.assertTrue(lines[1].endswith(": no (DIR/main.cf:1)"), lines)

    def test_what_is_wrong_with_the_model_is_reported_when_it_runs(self) -> None:
        failed = diagnostic("NotFoundException", "variable y not found", 1)
        printed = ("printed", {"line": "a line of the model"})
        run = 'print("loaded")\ntell("run", compiler.do_compile)'
        lines = self.ran(printed, ("finished", {"diagnostics": [failed]}), run=run, model="x = y\n")
        text = "variable y not found (reported in x = y (DIR/main.cf:1))"
        self.assertEqual(lines, ["load done", "loaded", "a line of the model", f"run | NotFoundException | {text}"])

    def test_resources_that_require_each_other_have_an_exception_of_the_export(self) -> None:
        failed = diagnostic("DependencyCycleException", "Cycle in dependencies: [a::R[x,name=b], a::R[x,name=c]]")
        lines = self.ran(("finished", {"diagnostics": [failed]}), run='tell("run", compiler.do_compile)')
        text = "Cycle in dependencies: [a::R[x,name=b], a::R[x,name=c]]"
        self.assertEqual(lines[1], f"run | DependencyCycleException | {text}")

    def test_what_the_reference_logs_is_logged_and_is_no_warning(self) -> None:
        flattened = (
            "after flattening, the resource a::R[x,name=b] requires nothing, although the model has it require"
            " a::N (instantiated at ./main.cf:1): there may be a mistake in `provides`"
        )
        messages = [flattened, "Environment variable X doesn't exist, returning unknown"]
        messages.append("resource a::R (instantiated at ./main.cf:1) is part of ResourceSet s but will not be exported")
        found = [diagnostic("InmantaWarning", message, severity="warning") for message in messages]
        run = 'warnings.simplefilter("error")\ntell("run", compiler.do_compile)'
        lines = self.ran(("inspect", {"id": 1, "warnings": found, "export": None}), run=run)
        self.assertRegex(lines[1], r"^inmanta.resources WARNING Resource a::R\[x,name=b\] requires a::N \(instantiated at /\S+main.cf:1\) ")
        self.assertTrue(lines[2].startswith("inmanta_plugins.std WARNING Environment variable X "))
        self.assertTrue(lines[3].startswith("inmanta.export WARNING Resource a::R (instantiated at /"))
        self.assertEqual(lines[4], "run done")

    def test_the_resource_classes_of_std_are_there_when_a_project_is_loaded(self) -> None:
        run = """
        from inmanta.agent.handler import Commander
        for name in sorted(resource.get_entity_resources()):
            print(resource.get_class(name)[0].__module__, resource.get_class(name)[1])
        print(sorted(Commander.get_handlers()))
        """
        lines = self.ran(("inspect", {"id": 1, "warnings": [], "export": None}), run=run)
        known = [{"agent": "agent", "name": "agentname"}, {"agent": "agentname", "name": "name"}]
        self.assertEqual(lines[1:3], [f"inmanta_plugins.std.resources {options}" for options in known])
        self.assertEqual(lines[3], "['std::testing::NullResource']")


class Together(unittest.TestCase):
    def test_only_errors_at_the_end_of_a_model_are_reported_together(self) -> None:
        twice = diagnostic("DuplicateException", "Two import statements have the same name")
        unset = [diagnostic("UnsetException", f"The object {of} is not complete: attribute n is not set") for of in "ab"]
        without = diagnostic("RuntimeException", "Unable to select implementation for entity A")
        self.assertEqual(reported_together([twice, *unset]), [twice])
        self.assertEqual(reported_together([unset[0], twice, unset[1], without]), [*unset, without])
        self.assertEqual(reported_together([]), [])

    def test_errors_that_are_reported_together_are_reported_with_numbers(self) -> None:
        error = ast.MultiException([ast.CompilerException("one"), ast.CompilerException("two")])
        self.assertEqual(str(error), "Reported 2 errors:\n\tone\n\ttwo")
        trace = "Reported 2 errors\nerror 0:\n  one\nerror 1:\n  two"
        self.assertEqual(error.format_trace(indent="  "), trace)
