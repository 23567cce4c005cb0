"""The loop of a host: reads a message, acts, answers."""

from __future__ import annotations

import os
import sys

from steward_host.pipe import Closed, Pipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from steward_host.held import Held

PROTOCOL = 5

# Seconds between two looks at the cache while there is nothing to do.
TICK = 1.0


def hello(reads_calls: bool = False, held: Held | None = None) -> dict[str, Any]:
    """The first message of a host: who it is, whether it takes frames of calls, and its file with answers that are held."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    answers = None if held is None else held.descriptor
    return {"protocol": PROTOCOL, "python": version, "pid": os.getpid(), "reads_calls": reads_calls, "answers": answers}


def serve(mode: str, pipe: Pipe) -> int:
    """Says hello and serves until `stop` or the end of the pipe; the exit status."""
    try:
        if mode == "compile":
            from steward_host import calls
            from steward_host.held import Held

            held = Held.made()
            pipe.send("hello", hello(calls.works(), held))
            return _compile(pipe, held)
        pipe.send("hello", hello())
        return _execute(pipe)
    except Closed:
        # Not the status of a fork that is done: whoever waits for it is to end, too.
        return 0


def _compile(pipe: Pipe, held: Held | None) -> int:
    from steward_host import forks
    from steward_host.compiling import Compiling
    from steward_host.output import Output

    output = Output(pipe)
    pipe.take_turns()
    compiling = Compiling(pipe, output, held=held)
    served = compiling.served
    receive = pipe.receive
    while True:
        name, fields = receive()
        if name == "stop":
            output.end()
            # Answers of this session are none of the next one's, whose calls have the same numbers.
            pipe.end_answers()
            pipe.send("bye")
            return forks.DONE if compiling.is_fork else 0
        serve_one = served.get(name)
        if serve_one is None:
            print(f"steward_host: unexpected message {name}", file=sys.stderr)
            return 2
        output.open = True
        serve_one(fields)
        output.open = False
        if compiling.forks and not compiling.is_fork:
            if not forks.is_child(pipe):
                return 1
            compiling.is_fork = True


# `SIGSTKFLT`, which Linux has never sent (src/executor/python/watchdog.rs).
_WHERE = 16


def _execute(pipe: Pipe) -> int:
    import faulthandler
    from select import select

    from steward_host import zygote
    from steward_host.executing import Executing

    # Before a handler is ended at its limit, it is asked where it is. That is printed by a signal handler of the interpreter's own,
    # which needs no lock of the interpreter, so it comes from native code and from a system call, too. Forks do the same.
    faulthandler.register(_WHERE, file=2, all_threads=False)
    pipe = control = zygote.control(pipe)
    executing = Executing(pipe)
    try:
        while True:
            while len(executing.cache) and not pipe.has_buffered() and not select([pipe.read_fd], [], [], TICK)[0]:
                executing.idle()
            name, fields = pipe.receive()
            if name == "deploy":
                executing.deploy(fields)
            elif name == "facts":
                executing.facts(fields)
            elif name == "load_executor":
                executing.load(fields)
            elif name == "fork":
                forked = zygote.fork(control)
                if forked is not None:
                    # From here on this is the host of one agent, with a pipe of its own.
                    pipe, boundary = forked
                    executing.become(pipe, boundary, fields["agent"])
            elif name == "reap":
                control.send("reaped", {"status": zygote.reap(fields["pid"])})
            elif name == "stop":
                executing.stop()
                pipe.send("bye")
                return 0
            else:
                print(f"steward_host: unexpected message {name}", file=sys.stderr)
                return 2
    except Closed:
        executing.stop()
        zygote.end_all()
        return 0
