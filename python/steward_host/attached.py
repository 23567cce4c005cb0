"""A compile that this process has run: Steward runs the model, and this process is the Python host of it.

`inmanta.compiler.do_compile` and `inmanta.module.Project.load` start one. Plugins and getters run here, with the modules that
are imported here; when the model is complete it stays with Steward, and proxies go on asking for what they read, until
another compile begins.
"""

from __future__ import annotations

import math
import os
import sys

from inmanta import ast
from steward_host import calls, host, loader, locating
from steward_host.compiling import Compiling
from steward_host.pipe import Closed, Pipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from inmanta.export import Exporter
    from inmanta.module import Project

# The compile whose model proxies ask about.
_current: Attached | None = None


class AttachedPipe(Pipe):
    """The connection of a process that has the compile run: what the model prints comes with the messages, each line before
    the message that follows it, and goes where this process prints."""

    def _receive(self) -> tuple[str, Any]:
        while True:
            name, fields = super()._receive()
            if name != "printed":
                return name, fields
            sys.stdout.write(fields["line"] + "\n")


class Passthrough:
    """Stands where a host of Steward has its `output.Output`: what modules print in this process is printed already."""

    open = False
    has_text = False

    def before_answer(self) -> None:
        """No lines wait to be sent."""

    def mark(self) -> None:
        """Standard error is not Steward's."""


class Attached:
    """One compile of a project. `load` imports its modules, `run` goes on to the complete model."""

    def __init__(self, project: Project, facts: dict[str, dict[str, Any]] | None = None) -> None:
        global _current
        if _current is not None:
            _current.close()
        import importlib
        import json
        import socket
        import subprocess

        self.project = project
        self.facts = facts or {}
        ours, theirs = socket.socketpair()
        # `getfact` finds facts by the text of a resource id: what is given for an id itself is nobody's fact, as in the
        # reference. References to facts carry both.
        given = {rid: {name: _plain(value) for name, value in of.items()} for rid, of in self.facts.items()}
        found = {rid: of for rid, of in given.items() if isinstance(rid, str)}
        mocked = {str(rid): of for rid, of in given.items()}
        inputs = json.dumps({"facts": found, "mocked_facts": mocked})
        self._program = _program()
        command = [self._program, "attached", "--project", project.project_path, "--environment", sys.prefix, "--inputs", inputs]
        with theirs:
            self._process = subprocess.Popen(command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL)
        self._socket = ours
        self._pipe = AttachedPipe(ours.fileno(), ours.fileno())
        self._compiling = Compiling(self._pipe, Passthrough(), project)
        # Modules may have been installed, or written, since this process looked last.
        importlib.invalidate_caches()
        # Whether Steward has sent anything yet.
        self._is_answered = False
        # The warnings that were issued.
        self._warned: list[dict[str, Any]] = []
        # The model is complete, and Steward waits; the number of its question.
        self._shown: dict[str, Any] | None = None
        _current = self
        try:
            self._pipe.send("hello", host.hello(calls.works()))
        except (Closed, OSError) as error:
            raise self._ended(error) from error

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
            self._serve("inspect")

    def export(self, exporter: Exporter) -> dict[str, Any]:
        """The resources and unknown parameters of the model, with this exporter for the getters."""
        self.run()
        self._compiling.export_with(exporter)
        self._answer(True)
        self._serve("inspect")
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

    def _answer(self, value: object) -> None:
        assert self._shown is not None, "there is a question"
        self._pipe.send("result", {"id": self._shown["id"], "value": value})
        self._shown = None

    def _serve(self, until: str) -> None:
        """Answers Steward until a message of this name is served, or the model is complete."""
        try:
            while True:
                name, fields = self._pipe.receive()
                self._is_answered = True
                if name == "inspect":
                    self._shown = fields
                    self._warn(fields["warnings"])
                    break
                if name == "finished":
                    self._warn([found for found in fields["diagnostics"] if found["severity"] == "warning"])
                    raise self._error(fields["diagnostics"])
                if name == "stop":
                    self._pipe.send("bye")
                    continue
                if name == "locate":
                    self._pipe.send("located", _located(fields["name"]))
                    continue
                self._compiling.served[name](fields)
                if name == until:
                    break
        except (Closed, OSError) as error:
            raise self._ended(error) from error
        except BaseException:
            self.close()
            raise

    def _ended(self, error: Exception) -> ast.CompilerException:
        """Steward is gone. One that never sent anything is of another version, mostly."""
        self.close()
        what = f"Steward ended before the compile did: {error}".rstrip(": ")
        return ast.CompilerException(what if self._is_answered else what + _versions(self._program))

    def _warn(self, found: list[dict[str, Any]]) -> None:
        """Issues the warnings of the compile that were not issued yet, as the reference does: tests expect and filter them."""
        import warnings

        from steward_host.raised import Raised

        for warning in found:
            if warning not in self._warned:
                self._warned.append(warning)
                warnings.warn(Raised(self.project.project_path).warning(warning), stacklevel=2)

    def _error(self, diagnostics: list[dict[str, Any]]) -> Exception:
        from steward_host.raised import Raised

        raising = Raised(self.project.project_path)
        errors = [raising.exception(found) for found in diagnostics if found["severity"] == "error"]
        if not errors:
            return ast.CompilerException("the compile ended without a model")
        if len(errors) > 1:
            return ast.MultiException(errors)
        if errors[0].get_message() == "division by zero":
            # The one error of a model that is none of the compiler's.
            return ZeroDivisionError(errors[0].get_message())
        raised = self._compiling.raised
        if isinstance(errors[0], ast.ExternalException) and raised is not None:
            errors[0].__cause__ = raised
        return errors[0]


def _located(name: str) -> dict[str, Any]:
    """Where modules are, of those that are not installed ours beside this package: what is imported here is what counts."""
    found = locating.locate([name])
    # A distribution may have the name of one of ours and no contents.
    for known, folder in found["modules"].items():
        if folder is None:
            found["modules"][known] = loader.carried_package(known)
    return found


def _plain(value: object) -> object:
    """A mocked fact as JSON can say it: any plain value as it is, everything else by its text."""
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)


def current(project: Project) -> Attached | None:
    """The compile of this project that was begun last, unless another one was begun since."""
    return _current if _current is not None and _current.project is project else None


def _versions(program: str) -> str:
    """That a program which says nothing may not fit this package: what each of them is."""
    import subprocess

    try:
        ran = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10)
        version = ran.stdout.strip() or "no version"
    except (OSError, subprocess.SubprocessError) as error:
        version = str(error)
    package = os.path.dirname(os.path.abspath(ast.__path__[0]))
    return (
        f". The program {program} ({version}) may be of another version than the package {package}: install the package that"
        " the program writes (`steward python-package`), or name another program with STEWARD_PROGRAM."
    )


def _program() -> str:
    from inmanta import _program

    program = _program.find()
    if program is None:
        raise ast.CompilerException("a compile is run by the program `steward`, which is not on the path")
    return program

