"""The command `inmanta` of an environment, and `python -m inmanta.app …`: hands its arguments to the `steward` program.

Modules start a compile of their own this way, and authors type it. What the program calls by another name is translated. The
program takes the modules of a project without an environment of its own from the Python that runs this, and runs them with it.
"""

from __future__ import annotations

import os
import sys

from inmanta import _program

# Options that change nothing here: how much is logged and where to, what is kept, what is checked anyway. They stand before the
# command or behind it.
_SILENT = (
    *("-v", "-vv", "-vvv", "-vvvv", "--verbose", "--timed-logs", "--keep-logger-names", "-X", "--extended-errors"),
    *("--no-cache", "--strict-deps-check", "--no-strict-deps-check", "--experimental-data-trace", "--no-ssl"),
)
_SILENT_WITH_VALUE = ("--log-file", "--log-file-level", "--logging-config", "-c", "--config", "--config-dir")
# What the program calls by another name.
_RENAMED = {"--server_address": "--server-address", "--server_port": "--server-port"}
# The options of an export and of a compile that come with a value.
_WITH_VALUE = (
    *("-j", "-e", "--server_address", "--server_port", "--token", "--ssl-ca-cert", "--metadata", "--export-plugin"),
    *("--delete-resource-set", "--username", "--password"),
)
# Where a compile would ask a server.
_SERVER = ("--server_address", "--server_port", "--username", "--password", "--ssl", "--ssl-ca-cert")
# What only the reference has, and what does it here.
_INSTEAD = {
    "server": "`steward serve` runs a server",
    "scheduler": "`steward serve` runs what deploys, too",
    "module": "a module is a Python package: pip installs it (`pip install -e .`), and `python -m build` builds it",
    "project init": "a project is a folder with the files project.yml and main.cf",
    "project freeze": "`steward project install` writes all versions into steward.lock",
    "project download": "`steward project install` installs what a project asks for",
    "policy-engine": "`steward serve` decides by itself who may do what",
    "list-commands": "`steward --help` says what there is",
}


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
    command, *rest = given
    if command == "help":
        return ["--help"]
    command = "module" if command == "modules" else command
    for words in (command, " ".join([command, *rest[:1]])):
        if words in _INSTEAD:
            sys.exit(f"inmanta: the command `{words}` is not part of Steward: {_INSTEAD[words]}")
    if command in ("compile", "export"):
        return [command, *_options(command, rest)]
    return [command, *rest]


def _options(command: str, given: list[str]) -> list[str]:
    """The options of a compile or an export, as the program has them."""
    translated: list[str] = []
    rest = list(given)
    while rest:
        option, has_value, value = rest.pop(0).partition("=")
        if option in _SILENT:
            continue
        if not has_value and option in ("-f", *_WITH_VALUE) and rest:
            has_value, value = "=", rest.pop(0)
        if option == "-f":
            if os.path.normpath(value) != "main.cf":
                sys.exit(f"inmanta: `{command} -f {value}` is not part of Steward: the model of a project is in its main.cf")
        elif command == "compile" and option == "-e":
            # A compile belongs to no environment here.
            continue
        elif command == "compile" and option in _SERVER:
            sys.exit(f"inmanta: `compile {option}` is not part of Steward: a compile asks no server, `inmanta export` does")
        elif option == "-g" or option.startswith(("--export-compile-data", "--experimental-dataflow")):
            sys.exit(f"inmanta: `{command} {option}` is not part of Steward: `steward compile --help` says what can be written")
        else:
            translated.append({**_RENAMED, "-P": "--partial"}.get(option, option))
            translated += [value] if has_value else []
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

