"""Finalizers: functions that run when a compile is over."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_finalizers: list[Callable[[], object]] = []


def finalizer(function: Callable[[], object]) -> None:
    """Registers a function without arguments for the end of the compile, successful or not."""
    _finalizers.append(function)


def has_finalizers() -> bool:
    return bool(_finalizers)


def reset() -> None:
    _finalizers.clear()


def finalize() -> None:
    """Runs the finalizers in order. An exception leaves those behind it for another call."""
    while _finalizers:
        _finalizers.pop(0)()


def do_compile(refs: dict[str, object] | None = None) -> tuple[dict[str, object], object]:
    """Not available: Steward compiles outside of Python."""
    raise NotImplementedError("Steward compiles outside of Python: use `steward compile`")


class ProjectLoader:
    """Kept for test tools."""

    @classmethod
    def load(cls, project: object) -> None:
        raise NotImplementedError("Steward loads projects outside of Python: use `steward compile`")
