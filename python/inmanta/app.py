"""The command `inmanta` of an environment, and `python -m inmanta.app …`: hands its arguments to the `steward` program.

Modules start a compile of their own this way, and authors type it. What the program calls by another name is translated. The
program takes the modules of a project without an environment of its own from the Python that runs this, and runs them with it.
"""

from __future__ import annotations

import os
import sys

from inmanta import _program

# Options that come before the command and change nothing here: how much is logged, and where to.
_SILENT = ("-v", "-vv", "-vvv", "-vvvv", "--timed-logs", "--keep-logger-names", "-X")
_SILENT_WITH_VALUE = ("--log-file", "--log-file-level", "--logging-config", "-c", "--config", "--config-dir")
# The commands that both have. `export -j FILE` is a compile that writes its resources.
_KNOWN = ("compile", "project", "export", "check", "fmt", "up", "serve", "lsp", "python-package")


def _arguments(given: list[str]) -> list[str]:
    """What the program is called with; raises SystemExit for what only the reference has."""
    given = list(given)
    while given and given[0].startswith("-") and given[0] not in ("--help", "-h", "--version", "-V"):
        option = given.pop(0)
        if option in _SILENT_WITH_VALUE and given:
            given.pop(0)
        elif option not in _SILENT and option.split("=")[0] not in _SILENT_WITH_VALUE:
            sys.exit(f"inmanta: the option {option} is not part of Steward")
    if not given or given[0].startswith("-"):
        return given
    command = given[0]
    if command not in _KNOWN:
        sys.exit(f"inmanta: the command `{command}` is not part of Steward: `steward --help` says what there is")
    if command == "export":
        return _export(given[1:])
    return given


def _export(given: list[str]) -> list[str]:
    """`inmanta export -j FILE` writes the resources; without a file they would go to a server of the reference."""
    translated, rest = ["compile"], list(given)
    while rest:
        option = rest.pop(0)
        option, _, value = option.partition("=")
        if option == "-j" and rest:
            translated += ["--export-json", rest.pop(0)]
        elif option == "-j" or option not in ("-P", "--partial"):
            sys.exit(f"inmanta: `export {option}` is not part of Steward: `export -j FILE` writes the resources of a model")
        else:
            translated.append("--partial")
    if "--export-json" not in translated:
        sys.exit("inmanta: Steward exports to no other server: `inmanta export -j FILE`, or `steward up`")
    return translated


def app() -> None:
    """Becomes the `steward` program; ends with status 127 if there is none."""
    translated = _arguments(sys.argv[1:])
    program = _program.find()
    if program is None:
        print("inmanta.app: the program `steward` is not on the path", file=sys.stderr)
        sys.exit(127)
    os.environ.setdefault("STEWARD_PYTHON", sys.executable)
    os.execv(program, [program, *translated])


TYPE_CHECKING = False
if not TYPE_CHECKING:
    # What only the reference's module has says why it is not here.
    from inmanta import _rest_of

    __getattr__ = _rest_of(__name__)


if __name__ == "__main__":
    app()

