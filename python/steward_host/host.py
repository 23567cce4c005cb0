"""The loop of a host: reads a message, acts, answers."""

from __future__ import annotations

import os
import sys

from steward_host.pipe import Closed, Pipe

PROTOCOL = 1

# Seconds between two looks at the cache while there is nothing to do.
TICK = 1.0


def serve(mode: str, pipe: Pipe) -> int:
    """Says hello and serves until `stop` or the end of the pipe; the exit status."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    try:
        pipe.send("hello", {"protocol": PROTOCOL, "python": version, "pid": os.getpid()})
        return _compile(pipe) if mode == "compile" else _execute(pipe)
    except Closed:
        return 0


def _compile(pipe: Pipe) -> int:
    from steward_host.compiling import Compiling

    compiling = Compiling(pipe)
    served = {
        "call": compiling.call,
        "map": compiling.map,
        "load_compile": compiling.load,
        "depend": compiling.depend,
        "collect": compiling.collect,
        "serialize": compiling.serialize,
        "finalize": compiling.finalize,
    }
    receive = pipe.receive
    while True:
        name, fields = receive()
        if name == "stop":
            pipe.send("bye")
            return 0
        serve_one = served.get(name)
        if serve_one is None:
            print(f"steward_host: unexpected message {name}", file=sys.stderr)
            return 2
        compiling.open = name != "load_compile"
        serve_one(fields)
        compiling.open = False


def _execute(pipe: Pipe) -> int:
    from select import select

    from steward_host.executing import Executing

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
            elif name == "stop":
                executing.stop()
                pipe.send("bye")
                return 0
            else:
                print(f"steward_host: unexpected message {name}", file=sys.stderr)
                return 2
    except Closed:
        executing.stop()
        return 0
