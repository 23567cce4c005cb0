"""What module code prints, logs and warns of, on its way to the report of the compile.

`print` goes to Steward as lines while a request is open, as the output of the model does; other output of this process
and of its children is standard error, which Steward keeps. Log records and warnings of level WARNING and above become
warnings of the compile; others are standard error, too.
"""

from __future__ import annotations

import os
import sys

from inmanta.execute import proxy
from steward_host.pipe import Pipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from io import RawIOBase
    from typing import TextIO

# See process.rs.
END_MARK = b"\0end of the session\0\n"

# A longer line is sent in pieces.
MAX_LINE = 1 << 16


class Output:
    """Stands in for `sys.stdout`, and takes the log records and warnings of module code."""

    encoding = "utf-8"
    errors = "replace"
    newlines = None
    closed = False

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._line = ""
        self._waiting: list[str] = []
        # Whether Steward waits for the answer to a request, so that it reads what comes before.
        self.open = False
        sys.stdout = self
        import warnings

        warnings.showwarning = self._warned

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        *lines, self._line = (self._line + text).split("\n")
        if len(self._line) > MAX_LINE:
            lines.append(self._line)
            self._line = ""
        for line in lines:
            self._waiting.append(line)
        if self.open:
            self._send_lines()
        return len(text)

    def _send_lines(self) -> None:
        waiting, self._waiting = self._waiting, []
        for line in waiting:
            self._pipe.send("printed", {"line": line})

    @property
    def has_text(self) -> bool:
        """Whether lines wait to be sent."""
        return bool(self._line or self._waiting)

    def before_answer(self) -> None:
        """Called before the answer to a request: what is still here belongs to it."""
        if self._line:
            self._waiting.append(self._line)
            self._line = ""
        if self._waiting:
            self._send_lines()

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Nothing to do: a line is sent when it is complete."""

    def isatty(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def fileno(self) -> int:
        # For children that write to it.
        return 1

    @property
    def buffer(self) -> RawIOBase:
        """Bytes go to the descriptor, as those of children do."""
        return open(1, "wb", buffering=0, closefd=False)

    def log(self, level: str, text: str) -> None:
        if self.open and level in ("WARNING", "ERROR", "CRITICAL"):
            self._pipe.send("log", {"level": level, "message": text})
        else:
            print(text, file=sys.stderr)

    def _warned(
        self,
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        # It comes once from each place, so this call must be made again.
        proxy.note_more()
        if file is not None:
            print(f"{filename}:{lineno}: {category.__name__}: {message}", file=file)
        else:
            self.log("WARNING", f"{category.__name__}: {message} ({os.path.basename(filename)}:{lineno})")

    def end(self) -> None:
        """The compile is done: marks in standard error where its part ends."""
        self.before_answer()
        self.mark()

    def mark(self) -> None:
        """Marks in standard error that all before this point was written."""
        sys.stderr.flush()
        os.write(2, END_MARK)
