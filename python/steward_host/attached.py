"""A compile that this process has run: Steward runs the model, and this process is the Python host of it.

`inmanta.compiler.do_compile` and `inmanta.module.Project.load` start one. Plugins and getters run here, with the modules that
are imported here; when the model is complete it stays with Steward, and proxies go on asking for what they read, until
another compile begins.
"""

from __future__ import annotations

import os
import sys
import tempfile

from inmanta import ast
from steward_host import host
from steward_host.compiling import Compiling
from steward_host.pipe import Closed, Pipe
from steward_host.said import Said

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from inmanta.export import Exporter
    from inmanta.module import Project

# The compile whose model proxies ask about.
_current: Attached | None = None


class Attached:
    """One compile of a project. `load` imports its modules, `run` goes on to the complete model."""

    def __init__(self, project: Project, facts: dict[str, dict[str, Any]] | None = None) -> None:
        global _current
        if _current is not None:
            _current.close()
        import json
        import socket
        import subprocess

        self.project = project
        self.facts = facts or {}
        ours, theirs = socket.socketpair()
        # What `std::print` prints, to be said in its turn.
        self._stdout = tempfile.TemporaryFile()
        inputs = json.dumps({"facts": {rid: {n: str(v) for n, v in of.items()} for rid, of in self.facts.items()}})
        command = [_program(), "attached", "--project", project.project_path, "--environment", sys.prefix, "--inputs", inputs]
        with theirs:
            self._process = subprocess.Popen(command, stdin=theirs.fileno(), stdout=self._stdout)
        self._socket = ours
        self._pipe = Pipe(ours.fileno(), ours.fileno())
        with _streams():
            self._said = Said(self._pipe)
            self._stand_in = sys.stdout
        self._compiling = Compiling(self._pipe, self._said, project)
        # The model is complete, and Steward waits; the number of its question.
        self._shown: dict[str, Any] | None = None
        _current = self
        self._pipe.send("hello", host.hello())

    @property
    def is_complete(self) -> bool:
        """Whether the model was run."""
        return self._shown is not None

    def load(self) -> None:
        """Imports the modules; what is wrong with the project is raised."""
        self._serve("load_compile")

    def run(self) -> None:
        """Runs the model to its end; what is wrong with it is raised."""
        if self._shown is None:
            self._serve("show")

    def export(self, exporter: Exporter) -> dict[str, Any]:
        """The resources and unknown parameters of the model, with this exporter for the getters."""
        self.run()
        self._compiling.export_with(exporter)
        self._answer(True)
        self._serve("show")
        assert self._shown is not None, "it was shown again"
        exported: dict[str, Any] = self._shown["export"]
        return exported

    def close(self) -> None:
        """Lets go of the model."""
        global _current
        if _current is self:
            _current = None
        self._socket.close()
        self._process.wait()
        self._stdout.close()

    def _answer(self, value: object) -> None:
        assert self._shown is not None, "there is a question"
        self._pipe.send("result", {"id": self._shown["id"], "value": value})
        self._shown = None

    def _serve(self, until: str) -> None:
        """Answers Steward until a message of this name is served, or the model is complete."""
        try:
            with _streams():
                sys.stdout = self._stand_in
                while True:
                    name, fields = self._pipe.receive()
                    if name == "show":
                        self._shown = fields
                        break
                    if name == "finished":
                        raise self._error(fields["diagnostics"])
                    if name == "stop":
                        self._said.before_answer()
                        self._pipe.send("bye")
                        continue
                    self._said.open = True
                    self._compiling.served[name](fields)
                    self._said.open = False
                    if name == until:
                        break
        except (Closed, OSError) as error:
            self.close()
            raise ast.CompilerException(f"Steward ended before the compile did: {error}") from error
        except BaseException:
            self._repeat_output()
            self.close()
            raise
        self._repeat_output()

    def _repeat_output(self) -> None:
        self._stdout.seek(0)
        sys.stdout.write(self._stdout.read().decode("utf-8", "replace"))
        self._stdout.seek(0)
        self._stdout.truncate()

    def _error(self, diagnostics: list[dict[str, Any]]) -> Exception:
        errors = [_exception(found) for found in diagnostics if found["severity"] == "error"]
        if not errors:
            return ast.CompilerException("the compile ended without a model")
        if len(errors) > 1:
            return ast.MultiException(errors)
        raised = self._compiling.raised
        if isinstance(errors[0], ast.ExternalException) and raised is not None:
            errors[0].__cause__ = raised
        return errors[0]


def current(project: Project) -> Attached | None:
    """The compile of this project that was begun last, unless another one was begun since."""
    return _current if _current is not None and _current.project is project else None


def _exception(found: dict[str, Any]) -> ast.CompilerException:
    """A diagnostic of the compile contract as the exception that it stands for."""
    from inmanta import module, parser

    kinds = (getattr(place, found["kind"], None) for place in (ast, parser, module))
    cls: object = next((kind for kind in kinds if kind is not None), None)
    if not (isinstance(cls, type) and issubclass(cls, ast.CompilerException)):
        cls = ast.RuntimeException
    # The classes have constructors of their own, for those who raise them.
    made: ast.CompilerException = cls.__new__(cls)
    if isinstance(made, ast.RuntimeException):
        ast.RuntimeException.__init__(made, None, found["message"])
    else:
        ast.CompilerException.__init__(made, found["message"])
    if found["file"] is not None and found["line"] is not None:
        made.set_location(_place(found))
    causes = [_exception(cause) for cause in found.get("causes", ())]
    if causes:
        made.__cause__ = causes[0]
    return made


def _place(found: dict[str, Any]) -> ast.Location:
    numbers = [found[name] for name in ("line", "column", "end_line", "end_column")]
    if None in numbers:
        return ast.Location(found["file"], found["line"])
    return ast.Range(found["file"], *numbers)


def _program() -> str:
    from inmanta import _program

    program = _program.find()
    if program is None:
        raise ast.CompilerException("a compile is run by the program `steward`, which is not on the path")
    return program


class _streams:
    """Leaves standard output, and what shows warnings, as they were."""

    def __enter__(self) -> None:
        import warnings

        self._kept = sys.stdout, warnings.showwarning

    def __exit__(self, *_: object) -> None:
        import warnings

        sys.stdout, warnings.showwarning = self._kept
