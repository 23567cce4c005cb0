"""A process a compile: the first one imports the modules, and each compile has a fork of it.

What a compile changes in a module (a cache, a class that it patches, a counter) is gone with its fork, so the next
compile begins with the modules as they were right after their import, without importing them again. The Rust side
explains when a host is used again: `compiler/src/python_host/session.rs`.

There is one fork at a time, and it has the pipe to itself. The first process reads messages until the modules are
loaded; then it forks, waits for the fork to end, and forks again. So the compiler need not know to whom it speaks, and
the fork of the next compile is there before it is wanted: it sits in its first `receive`.

How a fork ended decides what comes next, since that is all that the first process learns of it:

- `DONE`: its compile said `stop`, and all is well. The next fork is made.
- 0: the pipe was closed. Nobody wants another compile, so this process ends, too.
- anything else: it crashed, or somebody killed it. The compiler is told how ("ended"), and this process ends, because
  files and sockets that both have open may be in any state.

A fork takes along the thread that forks and no other one: a lock that another thread held stays locked for ever. So
`what_forbids` says so where the import of a module has started threads or processes, or has opened a connection or a database,
and such a host serves one compile only.
"""

from __future__ import annotations

import os
import sys

from steward_host.pipe import Closed, Pipe

# The status of a fork whose compile is done.
DONE = 77

# What forks must not share: both would read what is meant for one, and each believes to know what was sent so far.
_CONNECTIONS = ("socket:", "pipe:", "anon_inode:")

# A thread that was just started is counted when it first has the interpreter.
_FIRST_TURN = 0.02


def what_forbids(had: set[tuple[str, str]]) -> str | None:
    """What the import of modules has done that does not live on in a fork, as the rest of a sentence; None: nothing. `had`: the
    files that were open before it.

    Threads do not, so there must be none besides this one: neither one that `threading` has made, nor one that was started below
    it, which `threading` does not know. Threads of libraries that are no Python stay uncounted: numpy has some, and makes them
    anew in a fork. Nor do connections, processes and databases."""
    if not hasattr(os, "fork"):
        return "runs where no process can be forked"
    if _has_threads():
        return f"started {_threads()}"
    if _has_children():
        return "started a process"
    opened = sorted(filter(None, map(_not_to_share, open_files() - had)))
    return f"opened {', '.join(opened[:3])}" if opened else None


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _not_to_share(file: tuple[str, str]) -> str | None:
    """A file that forks must not share: a connection, or what is written at any place of it, as databases in files are, where
    each fork would have locks of its own, or none. What is read, or only grows, as logs do, is the same for each."""
    number, what = file
    if what.startswith(_CONNECTIONS):
        return what
    if what.startswith("/dev/"):
        return None
    import fcntl

    try:
        flags = fcntl.fcntl(int(number), fcntl.F_GETFL)
    except OSError:
        return None
    is_read = flags & os.O_ACCMODE == os.O_RDONLY
    return None if is_read or flags & os.O_APPEND else f"{what} for writing"


def _has_threads() -> bool:
    threading = sys.modules.get("threading")
    if threading is not None and threading.active_count() != 1:
        return True
    import _thread

    if _n_tasks() > 1:
        import time

        time.sleep(_FIRST_TURN)
    return _thread._count() != 0


def _threads() -> str:
    """The threads besides this one, by their names where Python knows them."""
    threading = sys.modules.get("threading")
    if threading is None:
        return "a thread"
    others = sorted(one.name for one in threading.enumerate() if one is not threading.main_thread())
    return f"the thread {', '.join(others[:3])}" if others else "a thread"


def open_files() -> set[tuple[str, str]]:
    """This process's open files: their numbers, and what they are. A number alone says little, since the next file that is
    opened gets the least that is free: so it is with the folder that is read here, which is no more when it is looked at."""
    found: set[tuple[str, str]] = set()
    try:
        numbers = os.listdir("/proc/self/fd")
    except OSError:
        return found
    for number in numbers:
        try:
            found.add((number, os.readlink(f"/proc/self/fd/{number}")))
        except OSError:
            continue
    return found


def _n_tasks() -> int:
    """How many threads the kernel knows of this process; 1 where it does not say."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return 1


def is_child(pipe: Pipe) -> bool:
    """Makes forks, one after the other. True in each; False, in the first process, when there are to be no more."""
    parent = os.getpid()
    shared = _Flags((1, 2, pipe.read_fd, pipe.write_fd))
    while True:
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            end_with(parent)
            pipe.adopt()
            return True
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        if code == DONE:
            shared.restore()
            continue
        if code != 0:
            try:
                pipe.send("ended", {"status": described(code)})
            except Closed:
                pass
        return False


class _Flags:
    """How files are used that all forks have in common (`F_SETFL`): one that does not block, or that makes packets of what is
    written, would lose output of the next compile, and what it answers."""

    def __init__(self, numbers: tuple[int, ...]) -> None:
        self._flags: dict[int, int] = {}
        self._set = None
        try:
            import fcntl
        except ImportError:
            # There are no such flags here.
            return
        self._set = lambda number, flags: fcntl.fcntl(number, fcntl.F_SETFL, flags)
        for number in numbers:
            try:
                self._flags[number] = fcntl.fcntl(number, fcntl.F_GETFL)
            except OSError:
                # A module has closed it.
                pass

    def restore(self) -> None:
        if self._set is not None:
            for number, flags in self._flags.items():
                self._set(number, flags)


def described(code: int) -> str:
    if code >= 0:
        return f"exit status: {code}"
    import signal

    try:
        return f"signal: {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"signal: {-code}"


def end_with(parent: int) -> None:
    """Ends this process when the one that it was forked from has: also while it hangs in code that is no Python."""
    from steward_host.parent import signal_when_parent_ends

    sigkill = 9
    if signal_when_parent_ends(sigkill) and os.getppid() != parent:
        os._exit(0)
