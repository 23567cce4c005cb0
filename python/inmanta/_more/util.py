"""Small functions and locks of the reference's, for code that was written with them at hand."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import nullcontext  # noqa: F401  # a name of the interface
from typing import TYPE_CHECKING, Any, Callable

from inmanta import _without

if TYPE_CHECKING:
    import concurrent.futures
    import datetime
    from collections.abc import Coroutine, Iterable, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from packaging.requirements import Requirement

CanonicalRequirement = Any
TaskMethod = Callable[[], Any]

_TRUE = {"y", "yes", "t", "true", "on", "1"}
_FALSE = {"n", "no", "f", "false", "off", "0"}


class CycleException(Exception):
    """Nodes of a graph that reach themselves; `nodes` from the end of the cycle to its start."""

    def __init__(self, node: str) -> None:
        super().__init__(node)
        self.nodes = [node]
        self.done = False

    def add(self, node: str) -> None:
        """Adds a node on the way back, until the cycle is complete."""
        if not self.done:
            self.done = node == self.nodes[0]
            self.nodes.append(node)


class StoppedException(Exception):
    """A task was given to something that has stopped."""


class FinallySet(asyncio.Event):
    """An event that is set when the block ends."""

    async def __aenter__(self) -> FinallySet:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.set()


class NamedSubLock:
    """The lock of one name."""

    def __init__(self, parent: NamedLock, name: str) -> None:
        self.parent = parent
        self.name = name

    async def __aenter__(self) -> NamedSubLock:
        await self.parent.acquire(self.name)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.parent.release(self.name)


@_without("global_exclusive_lock")
class NamedLock:
    """A lock for each name; those that nobody holds or waits for are forgotten."""

    def __init__(self) -> None:
        # The lock, and how many hold it or wait for it.
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    def get(self, name: str) -> NamedSubLock:
        return NamedSubLock(self, name)

    async def acquire(self, name: str) -> None:
        lock, users = self._locks.get(name, (asyncio.Lock(), 0))
        self._locks[name] = (lock, users + 1)
        await lock.acquire()

    async def release(self, name: str) -> None:
        lock, users = self._locks.pop(name)
        if users > 1:
            self._locks[name] = (lock, users - 1)
        lock.release()


def strtobool(val: str) -> bool:
    """The truth that a text stands for; ValueError for another text."""
    text = val.lower()
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise ValueError(f"invalid truth value {val!r}")


def hash_file_streaming(file_handle: Any) -> str:
    """The SHA-1 of an open file, lowercase hex."""
    return hashlib.file_digest(file_handle, "sha1").hexdigest()


def is_coroutine(function: object) -> bool:
    """Whether calling it gives a coroutine."""
    return asyncio.iscoroutinefunction(function) or hasattr(function, "__tornado_coroutine__")


def parse_timestamp(timestamp: str) -> datetime.datetime:
    """A time in the form of ISO 8601; one without zone is in UTC."""
    import datetime

    found = datetime.datetime.fromisoformat(timestamp)
    return found.replace(tzinfo=datetime.timezone.utc) if found.tzinfo is None else found


def parse_requirement(requirement: str) -> Requirement:
    """A requirement on a package, with the name in its normal form."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    made = Requirement(remove_comment_part_from_specifier(requirement))
    made.name = canonicalize_name(made.name)
    return made


def parse_requirements(requirements: Iterable[str]) -> list[Requirement]:
    return [parse_requirement(requirement) for requirement in requirements]


def parse_requirements_from_file(file_path: Path) -> list[Requirement]:
    """Those of the lines of a file that are requirements; comments and empty lines are none."""
    if not file_path.exists():
        raise RuntimeError(f"The provided path does not exist: {file_path}")
    lines = file_path.read_text(encoding="utf-8").splitlines()
    written = (remove_comment_part_from_specifier(line) for line in lines)
    return [parse_requirement(line) for line in written if line and not line.startswith("#")]


def remove_comment_part_from_specifier(to_clean: str) -> str:
    """A line of a file with requirements without what is behind `#`."""
    return to_clean.partition(" #")[0].strip()


def stable_depth_first(nodes: Sequence[str], edges: Mapping[str, Sequence[str]]) -> list[str]:
    """The nodes so that each comes behind those that its edges name; for the rest, in the order that is given.

    CycleException if there is no such order.
    """
    done: set[str] = set()
    waiting: set[str] = set()
    out: list[str] = []

    def visit(node: str) -> None:
        if node in done:
            return
        if node in waiting:
            raise CycleException(node)
        waiting.add(node)
        try:
            for before in edges.get(node, ()):
                visit(before)
        except CycleException as error:
            error.add(node)
            raise
        waiting.discard(node)
        done.add(node)
        out.append(node)

    for node in nodes:
        visit(node)
    return out


def ensure_event_loop() -> asyncio.AbstractEventLoop:
    """The event loop of this thread, which is made if there is none."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        pass
    try:
        return asyncio.get_event_loop_policy().get_event_loop()
    except RuntimeError:
        made = asyncio.new_event_loop()
        asyncio.set_event_loop(made)
        return made


def add_future(future: asyncio.Future[Any] | Coroutine[Any, Any, Any]) -> asyncio.Task[Any] | asyncio.Future[Any]:
    """Runs something asynchronous beside what runs now; what it raises is logged."""
    import logging

    task = asyncio.ensure_future(future)

    def on_end(ended: asyncio.Future[Any]) -> None:
        if not ended.cancelled() and ended.exception() is not None:
            logging.getLogger("inmanta.util").exception("a task failed", exc_info=ended.exception())

    task.add_done_callback(on_end)
    return task


async def join_threadpools(threadpools: list[concurrent.futures.ThreadPoolExecutor]) -> None:
    """Waits until the threads of these pools have ended."""
    for pool in threadpools:
        await asyncio.to_thread(pool.shutdown)
