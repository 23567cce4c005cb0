"""Where what one run prints ends, and what the next one prints begins.

What handlers and the programs that they start print goes into a pipe, which the executor reads. It has to know whose it is. As
long as each task comes when the executor has read the answer to the one before, that is simple: the executor reads what is in
the pipe before it sends the next task. But waking each other for each task costs more than a quick run does, so the executor
sends tasks ahead, and the host goes from one to the next by itself. Then both look the same from the other end of the pipe,
and so the host says of each run whether anything was printed during it. If so, and only then, it waits before the next run
until the executor has read it (`go_on`). Most handlers print nothing.

Whether anything was printed is not known from Python's streams: programs that handlers have started write to the same pipe.
But it was, if something is in the pipe now; and if nothing is, then it was only if the executor has read something
meanwhile. It says so in a file that both have open, by another number *before* it reads. A number that has changed is a yes,
also if what was read was printed earlier: then the host waits once more than it has to.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from steward_host.pipe import Pipe

_NUMBER = bytes(8)


class Boundary:
    """The end of one run and the begin of the next."""

    def __init__(self, pipe: Pipe, output: int | None = None, reads: int | None = None) -> None:
        """`output`: a descriptor of the pipe that is printed into; `reads`: the file with the number. Without them anything may
        have been printed at any time, and no task may be sent ahead."""
        self._pipe = pipe
        self._output = output
        self._reads = reads
        self._was_printed = False
        self._last: bytes | None = None
        self._n_waiting: Callable[[int], bytes] | None = _counter()

    def begin(self, is_ahead: bool) -> None:
        """A run begins. `is_ahead`: its task was sent before the answer to the one before had been read."""
        if not is_ahead:
            # Whatever was printed since then is nobody's, and the executor has read it, or reads it as such.
            self._last = self._number()
        elif self._was_printed:
            self._pipe.wait_for("go_on")
            self._last = self._number()

    def end(self) -> bool:
        """The run is over. Whether anything may have been printed since it began."""
        self._was_printed = self._is_waiting() or self._last is None or self._number() != self._last
        return self._was_printed

    def _is_waiting(self) -> bool:
        if self._output is None or self._n_waiting is None:
            return True
        try:
            return any(self._n_waiting(self._output))
        except OSError:
            # Module code has closed it, or put something else in its place.
            return True

    def _number(self) -> bytes | None:
        if self._reads is None:
            return None
        try:
            return os.pread(self._reads, len(_NUMBER), 0)
        except OSError:
            return None


def _counter() -> Callable[[int], bytes] | None:
    """Gives how many bytes wait in a pipe, as a C integer; None: this Python was built without."""
    try:
        from fcntl import ioctl
        from termios import FIONREAD
    except ImportError:
        return None
    return lambda descriptor: ioctl(descriptor, FIONREAD, b"\0\0\0\0")
