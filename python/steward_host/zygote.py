"""A process an agent: the first one imports the modules of some code, and the host of each agent is a fork of it.

The first process is the *zygote*. It runs no handler: it waits for `fork` and `reap`. Each fork has the modules as they
were right after their import, in memory that is shared until somebody writes to it. So a thousand agents with the same
code cost one import, none sees what another one's handlers left in a module, and a fork takes a millisecond. What a fork
would do once in its life is done before it is made (`warming`).

A fork speaks over a socket of its own. The executor makes it, keeps one end, and sends the other one along with the
message `fork`, together with the pipe for all that the host prints. Hence the zygote's own pipe must be a socket, too:
nothing else carries open files.

What has ended keeps its process id until its parent asks for its status. The executor ends hosts, with all that they
started, by that id; so the zygote asks only when the executor says so (`reap`). Then the id cannot be somebody else's.

Not everything lives on in a fork. Threads do not (`forks.what_forbids`), and a connection that the import of a module has
opened would be read by all forks at once. Where there are any of these, the executor is told, and each agent gets a
process that imports the modules itself.
"""

from __future__ import annotations

import gc
import os
import sys
import time

from steward_host import forks
from steward_host.boundary import Boundary
from steward_host.pipe import Closed, Pipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from _socket import socket as Socket

# A process that was killed is gone within milliseconds, unless it waits for a device.
REAP_SECONDS = 1.0

# What comes along with `fork`: a socket, a pipe for what is printed, and a file (see `boundary`).
_FILES_OF_FORK = 3


class Control(Pipe):
    """The pipe of a zygote: a socket, over which open files come along with messages."""

    def __init__(self, connection: Socket) -> None:
        self._socket = connection
        # Those that came and that nobody has taken yet.
        self.handed: list[int] = []
        super().__init__(connection.fileno(), connection.fileno())

    def _read(self, size: int = 65536) -> bytes:
        import _socket

        space = _socket.CMSG_SPACE(4 * _FILES_OF_FORK)
        while True:
            try:
                data, ancillary, _, _ = self._socket.recvmsg(size, space, _socket.MSG_CMSG_CLOEXEC)
                break
            except BlockingIOError:
                os.set_blocking(self.read_fd, True)
        for level, kind, numbers in ancillary:
            if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
                ends = range(4, len(numbers) + 1, 4)
                self.handed += [int.from_bytes(numbers[end - 4 : end], sys.byteorder) for end in ends]
        if not data:
            raise Closed
        return data

    def close(self) -> None:
        self._socket.close()


def control(pipe: Pipe) -> Pipe:
    """The same pipe, as one that takes open files, if it is a socket."""
    import stat

    if not stat.S_ISSOCK(os.fstat(pipe.read_fd).st_mode):
        return pipe
    # The package above it makes enumerations of all names.
    import _socket

    connection = _socket.socket(fileno=os.dup(pipe.read_fd))
    pipe.close()
    return Control(connection)


def prepare(had: set[tuple[str, str]]) -> str | None:
    """What forbids to fork this process after the modules were imported, as the rest of a sentence; None: nothing. `had`: the
    files that were open before that.

    What is there now is there for good, so collections of garbage need not look at it: that would write to its memory,
    and a fork would have a copy of it.
    """
    if reason := forks.what_forbids(had):
        return reason
    _take_ends_of_forks()
    # What nearly every task needs.
    import fcntl  # noqa: F401
    import json  # noqa: F401
    import termios  # noqa: F401

    gc.collect()
    gc.freeze()
    return None


# Those of this process's forks that may run.
_forks: set[int] = set()

# What a module has asked for when a process ends that it started; forks have it again.
_on_child: Any = None


def _take_ends_of_forks() -> None:
    """Has the ends of forks wait until they are asked for: a module may have the kernel forget them, or take them itself."""
    global _on_child
    import signal

    _on_child = signal.getsignal(signal.SIGCHLD)
    if _on_child is not None:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def fork(pipe: Pipe) -> tuple[Pipe, Boundary] | None:
    """Makes the host of an agent. In that host, its pipe; None in this process, which goes on."""
    if not isinstance(pipe, Control) or len(pipe.handed) != _FILES_OF_FORK:
        raise RuntimeError("`fork` came without a socket, a pipe and a file for the new host")
    (connection, errors, reads), pipe.handed = pipe.handed, []
    for stream in (sys.stdout, sys.stderr):
        # A module may have taken them away.
        if stream is not None:
            stream.flush()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        if _on_child is not None:
            import signal

            signal.signal(signal.SIGCHLD, _on_child)
        forks.end_with(parent)
        _forks.clear()
        pipe.close()
        os.dup2(errors, 1)
        os.dup2(errors, 2)
        own = Pipe(connection, connection)
        # Whatever module code makes of the two above, this one is the pipe.
        return own, Boundary(own, errors, reads)
    try:
        # Here as well: before we answer, the host leads a group of its own, with which it can be ended.
        os.setpgid(child, child)
    except OSError:
        # It has done so itself, and may have gone on, or ended.
        pass
    _forks.add(child)
    os.close(connection)
    os.close(errors)
    os.close(reads)
    pipe.send("forked", {"pid": child})
    return None


def end_all() -> None:
    """The executor is gone, so this process ends, with its forks and all that they and it have started in their groups: what a handler
    has started must not go on beside the handler that the next executor starts. Daemons have groups of their own."""
    sigkill = 9
    groups = list(_forks)
    if os.getpgrp() == os.getpid():
        groups.append(os.getpid())
    for group in groups:
        try:
            os.killpg(group, sigkill)
        except OSError:
            # It has ended.
            pass


def reap(pid: int) -> str | None:
    """How a fork that was ended did end, in words; its id may be given to others from now on. None: it is not gone."""
    until = time.monotonic() + REAP_SECONDS
    while True:
        try:
            ended, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            return None
        if ended:
            _forks.discard(pid)
            return forks.described(os.waitstatus_to_exitcode(status))
        if time.monotonic() > until:
            return None
        time.sleep(0.0005)
