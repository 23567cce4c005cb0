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
    from collections.abc import Callable
    from typing import Any

    from inmanta.export import Exporter
    from inmanta.module import Project

# How errors begin that are looked for when nothing of the model is left to run.
_OF_THE_END = ("Unable to select implementation for entity ", "No match in index on type ", "Finalizer failed: ")

# The compile whose model proxies ask about.
_current: Attached | None = None


class AttachedPipe(Pipe):
    """The connection of a process that has the compile run: what the model prints comes with the messages, each line before
    the message that follows it, and goes where this process prints."""

    # A message that was looked at and not received yet.
    _next: tuple[str, Any] | None = None

    def peek(self) -> tuple[str, Any]:
        """The message that comes next, `printed` among them. It is there for `receive`, too."""
        if self._pending:
            return self._pending[0]
        if self._next is None:
            self._next = super()._receive()
        return self._next

    def _receive(self) -> tuple[str, Any]:
        while True:
            name, fields = self._next or super()._receive()
            self._next = None
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
        # Messages that may come at any time.
        self._beside: dict[str, Callable[[Any], object]] = {
            "locate": lambda fields: self._pipe.send("located", _located(fields["name"])),
            "stop": lambda _: self._pipe.send("bye"),
        }
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
        """Imports the modules. What is wrong with them, or with a file of the model, is raised here, all else by `run`."""
        self._serve("load_compile")
        name, fields = self._after_loading()
        if name == "finished" and self._of_loading(fields["diagnostics"]):
            self._serve("inspect")

    def _after_loading(self) -> tuple[str, Any]:
        """What Steward sends when it has seen what was loaded, which is for `run` to receive."""
        try:
            while self._pipe.peek()[0] in self._beside:
                name, fields = self._pipe.receive()
                self._beside[name](fields)
            return self._pipe.peek()
        except (Closed, OSError) as error:
            raise self._ended(error) from error

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
                if name in self._beside:
                    self._beside[name](fields)
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
        from steward_host.records import log

        raising = Raised(self.project.project_path)
        for warning in found:
            if warning in self._warned:
                continue
            self._warned.append(warning)
            if not log(raising.absolute(warning["message"])):
                warnings.warn(raising.warning(warning), stacklevel=2)

    def _of_loading(self, diagnostics: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Those of the errors that end the loading of the modules."""
        errors = [found for found in diagnostics if found["severity"] == "error"]
        if self._compiling.is_broken:
            return errors
        return [found for found in errors if found["kind"] == "ModuleLoadingException"]

    def _error(self, diagnostics: list[dict[str, Any]]) -> Exception:
        from steward_host.raised import Raised

        raising = Raised(self.project.project_path)
        found_ones = self._of_loading(diagnostics) or [found for found in diagnostics if found["severity"] == "error"]
        errors = [raising.exception(found) for found in reported_together(found_ones)]
        if not errors:
            return ast.CompilerException("the compile ended without a model")
        if len(errors) > 1:
            return ast.MultiException(errors)
        if found_ones[0]["kind"] == "DependencyCycleException":
            return _cycle(errors[0].get_message())
        if errors[0].get_message() == "division by zero":
            # The one error of a model that is none of the compiler's.
            return ZeroDivisionError(errors[0].get_message())
        raised = self._compiling.raised
        if isinstance(errors[0], ast.ExternalException) and raised is not None:
            errors[0].__cause__ = raised
        return errors[0]


def reported_together(errors: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of the errors that the reference reports: the first one, and with one that is found when the model has run to its
    end all others that are found there."""
    if not errors or not _is_of_the_end(errors[0]):
        return errors[:1]
    return [found for found in errors if _is_of_the_end(found)]


def _is_of_the_end(found: dict[str, Any]) -> bool:
    message: str = found["message"]
    return message.startswith(_OF_THE_END) or found["kind"] == "UnsetException" and " is not complete: " in message


def _cycle(message: str) -> Exception:
    """The exception of resources that require each other, whose ids are at the end of the message."""
    from inmanta.export import DependencyCycleException
    from inmanta.resources import Id

    ids = message.partition("[")[2].removesuffix("]").split("], ")
    cycle = [Id.parse_id(text.removesuffix("]") + "]") for text in ids]
    made = DependencyCycleException(cycle[0])
    made.cycle[:] = cycle
    return made


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

