"""`python -m inmanta.app …`: hands its arguments to the `steward` program.

Modules start a compile of their own this way. STEWARD_PROGRAM names the program; else it is looked up on the path. The
program takes the modules of a project without an environment of its own from the Python that runs this, and runs them with it.
"""

from __future__ import annotations

import os
import shutil
import sys


def app() -> None:
    """Becomes the `steward` program; ends with status 127 if there is none."""
    program = os.environ.get("STEWARD_PROGRAM") or shutil.which("steward")
    if program is None:
        print("inmanta.app: the program `steward` is not on the path", file=sys.stderr)
        sys.exit(127)
    os.environ.setdefault("STEWARD_PYTHON", sys.executable)
    os.execv(program, [program, *sys.argv[1:]])


TYPE_CHECKING = False
if not TYPE_CHECKING:
    # What only the reference's module has says why it is not here.
    from inmanta import _rest_of

    __getattr__ = _rest_of(__name__)


if __name__ == "__main__":
    app()

