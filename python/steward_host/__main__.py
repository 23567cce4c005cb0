"""The Python host: `python3 -I -u steward_host/__main__.py compile`, or `… executor`; `… locate` is told in `locating`.

Standard input and output carry frames (see `pipe`). They are moved away first, so that whatever module code prints
goes to standard error. The host ends when its parent does.
"""

import os
import sys


def take_pipes() -> tuple[int, int]:
    """Moves the two frame descriptors away from 0 and 1; then 0 is empty and 1 is standard error."""
    incoming, outgoing = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    return incoming, outgoing


def die_with_parent(parent: int) -> None:
    """Ends this process when its parent has ended, even in the middle of module code.

    Linux signals the death of the parent's *thread*, so the signal alone is no proof: the handler looks.
    """
    try:
        # The module `signal` makes enumerations of all names, which takes longer than the rest of this function.
        import _signal  # type: ignore[import-not-found]

        from steward_host.parent import signal_when_parent_ends

        def check(number: int, frame: object) -> None:
            if os.getppid() != parent:
                # It may come before the end of the pipe is read: a process with hosts takes along what they have started.
                zygote = sys.modules.get("steward_host.zygote")
                if zygote is not None:
                    zygote.end_all()
                os._exit(0)

        _signal.signal(_signal.SIGUSR2, check)
        can_signal = signal_when_parent_ends(_signal.SIGUSR2)
    except (ImportError, OSError, AttributeError, ValueError):
        can_signal = False
    if not can_signal:
        # Not on this platform: the end of the pipe remains.
        return
    if os.getppid() != parent:
        os._exit(0)


def main(mode: str) -> int:
    parent = os.getppid()
    # Where compiled Python may be kept; nothing is ever written beside a project's sources.
    cache = os.environ.get("STEWARD_PYCACHE")
    if cache:
        sys.pycache_prefix = cache
    elif cache == "":
        sys.dont_write_bytecode = True
    incoming, outgoing = take_pipes()
    die_with_parent(parent)
    if mode != "compile":
        return serve(mode, incoming, outgoing)
    from steward_host import bundle, collector

    collector.pause()
    if cache:
        bundle.install(cache)
    status = serve(mode, incoming, outgoing)
    if status == 0:
        bundle.keep()
    return status


def serve(mode: str, incoming: int, outgoing: int) -> int:
    from steward_host import host
    from steward_host.pipe import Pipe

    return host.serve(mode, Pipe(incoming, outgoing))


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if sys.argv[1:2] == ["locate"]:
        from steward_host import locating

        sys.exit(locating.main(sys.argv[2:]))
    if sys.argv[1:] not in (["compile"], ["executor"]):
        sys.exit("usage: steward_host compile|executor|locate")
    try:
        status = main(sys.argv[1])
    except KeyboardInterrupt:
        # The user ends the program that started us.
        status = 130
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of module code must not keep the host alive.
    os._exit(status)
