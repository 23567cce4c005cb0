"""A process a compile: the first one imports the modules, and each compile has a fork of it.

What a compile changes in a module is gone with its fork. There is one fork at a time, and it has the pipe to itself: the
next one is made when it has ended, ahead of need.
"""

from __future__ import annotations

import os
import sys

from steward_host.pipe import Closed, Pipe

# The status of a fork whose compile is done.
DONE = 77


def can_fork() -> bool:
    """Whether all that was imported lives on in a fork: threads do not."""
    threading = sys.modules.get("threading")
    return hasattr(os, "fork") and (threading is None or threading.active_count() == 1)


def is_child(pipe: Pipe) -> bool:
    """Makes forks, one after the other, and gives True in each; False when there are to be no more."""
    parent = os.getpid()
    while True:
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            _end_with(parent)
            pipe.adopt()
            return True
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        if code == DONE:
            continue
        if code != 0:
            try:
                pipe.send("ended", {"status": _described(code)})
            except Closed:
                pass
        return False


def _described(code: int) -> str:
    if code >= 0:
        return f"exit status: {code}"
    import signal

    try:
        return f"signal: {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"signal: {-code}"


def _end_with(parent: int) -> None:
    """Ends this process when the one that it was forked from has: also while it hangs in code that is no Python."""
    from steward_host.parent import signal_when_parent_ends

    sigkill = 9
    if signal_when_parent_ends(sigkill) and os.getppid() != parent:
        os._exit(0)
