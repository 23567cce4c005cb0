"""Runs commands of the reference's command line, one after the other, in one process, since each start of it takes a second.

Arguments: the port of a server on this machine, and a JSON list of commands, each a list of arguments. Printed: a JSON list with an
object for each, with its exit code, its output, and the error that ended it.
"""

import json
import sys

from click.testing import CliRunner

from inmanta.config import Config
from inmanta.main import cmd


def main() -> None:
    port, commands = sys.argv[1], json.loads(sys.argv[2])
    Config.load_config()
    runner = CliRunner(env={"COLUMNS": "300"})
    done = []
    for command in commands:
        result = runner.invoke(cmd, ["--host", "127.0.0.1", "--port", port, *command])
        error = "" if result.exception is None else str(result.exception)
        done.append({"code": result.exit_code, "output": result.output, "error": error})
    print(json.dumps(done))


main()
