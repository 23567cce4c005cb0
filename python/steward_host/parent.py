"""Asks the kernel for a signal when the parent of this process has ended."""

from __future__ import annotations

# From Linux's <sys/prctl.h>.
_PR_SET_PDEATHSIG = 1


def signal_when_parent_ends(number: int) -> bool:
    """Has the kernel send signal `number` to this process when its parent ends; False: this platform can not.

    `prctl` is not in Python's library. The package `ctypes` calls it, but importing that package takes 4 ms, a fifth of the
    start of a host. Hence the C module below it is used, which takes 0.4 ms. It is a private one of CPython, so the package
    is the way out where it is not as expected.
    """
    try:
        import _ctypes

        handle = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]  # this program itself
        prctl = _ctypes.dlsym(handle, "prctl")
        return bool(_ctypes.call_function(prctl, (_PR_SET_PDEATHSIG, number, 0, 0, 0)) == 0)
    except (ImportError, AttributeError, OSError, TypeError):
        return _by_package(number)


def _by_package(number: int) -> bool:
    try:
        import ctypes

        return bool(ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0) == 0)
    except (ImportError, AttributeError, OSError):
        return False
