"""Python hosts without the start of Python: forks of a process that has imported our package already.

Arguments: the directory of our package, and where the socket is to be. For each connection it reads a line with the id of
the process that stands in for the host (`warm.rs`); a fork takes that process's three standard streams and serves on them
as a host of its own does, and answers with its exit status. It ends when its standard input does, and takes the directory
of its socket with it.
"""

import gc
import os
import selectors
import signal
import socket
import sys

PACKAGE, ADDRESS = sys.argv[1:]
sys.path.insert(0, PACKAGE)
sys.dont_write_bytecode = True

from steward_host import __main__ as program  # noqa: E402

# What a host imports when it begins to serve.
from steward_host import annotations, calls, compiling, declared, exporting, failure, forks, host, loader, output  # noqa: E402, F401

# What most modules import, and what the loading of a module imports for it.
import ctypes  # noqa: E402, F401
import dataclasses  # noqa: E402, F401
import inspect  # noqa: E402, F401
import typing  # noqa: E402, F401

import inmanta.plugins  # noqa: E402, F401
import inmanta.references  # noqa: E402, F401
import inmanta.resources  # noqa: E402, F401


def serve(connection: socket.socket) -> None:
    """A host on the streams of the process that asks. Does not return."""
    status = 1
    try:
        peer = int(connection.makefile().readline())
        for stream, mode in (0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY):
            opened = os.open(f"/proc/{peer}/fd/{stream}", mode)
            os.dup2(opened, stream)
            os.close(opened)
        sys.argv = [program.__file__ or "", "compile"]
        status = program.main("compile")
        sys.stdout.flush()
        sys.stderr.flush()
        connection.sendall(bytes([status]))
    finally:
        os._exit(status)


def main() -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(ADDRESS)
    listener.listen()
    print("ready", flush=True)
    # Forks that have ended leave nothing behind.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.collect()
    gc.freeze()
    with selectors.DefaultSelector() as waits:
        waits.register(listener, selectors.EVENT_READ)
        waits.register(0, selectors.EVENT_READ)
        while not any(key.fileobj == 0 for key, _ in waits.select()):
            connection, _ = listener.accept()
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                waits.close()
                listener.close()
                serve(connection)
            connection.close()
    os.unlink(ADDRESS)
    os.rmdir(os.path.dirname(ADDRESS))


main()
