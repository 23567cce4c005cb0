"""The cache of an executor: what handlers of one agent share between tasks. Source: docs/reference/python.md § 6."""

from __future__ import annotations

import time
from _thread import RLock, allocate_lock

from inmanta import _without

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any

    from inmanta.resources import Resource

# Seconds.
IDLE = 60.0
WITHOUT_VERSION = 5000.0


@_without("refresh")
class CacheItem:
    """A kept value and when it is stale. Times are monotonic seconds; None means no such limit."""

    __slots__ = ("key", "value", "call_on_delete", "expires", "idle", "last_access", "deleted")

    def __init__(
        self,
        key: str,
        value: object,
        now: float,
        creation: float,
        idle: float,
        call_on_delete: Callable[[Any], object] | None,
    ) -> None:
        self.key = key
        self.value = value
        self.call_on_delete = call_on_delete
        self.expires = now + creation if creation > 0 else None
        self.idle = idle if idle > 0 else None
        self.last_access = now
        self.deleted = False

    def stale(self, now: float) -> bool:
        if self.expires is not None and now > self.expires:
            return True
        return self.idle is not None and now > self.last_access + self.idle

    def delete(self) -> None:
        """Runs the delete hook, at most once; its exceptions are only logged."""
        if self.deleted:
            return
        self.deleted = True
        if callable(self.call_on_delete):
            try:
                self.call_on_delete(self.value)
            except Exception:
                import logging

                logging.getLogger(__name__).exception("The delete hook of cache entry %s failed", self.key)


@_without("touch_used_cache_items")
class AgentCache:
    """Values by key. `with cache:` spans a task: stale entries go before it, used ones are renewed after it.

    `clock` gives monotonic seconds.
    """

    def __init__(self, agent_instance: object = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._agent_instance = agent_instance
        self._clock = clock
        self._items: dict[str, CacheItem] = {}
        self._used: set[str] = set()
        self._lock = allocate_lock()
        # One lock for each key that is being made now, with the number of callers that hold on to it.
        self._making: dict[str, list[Any]] = {}
        self._tasks = 0

    def __len__(self) -> int:
        return len(self._items)

    def is_open(self, version: int) -> bool:
        return True

    def __enter__(self) -> AgentCache:
        if self._tasks == 0:
            self.clean_stale_entries()
        self._tasks += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._tasks -= 1
        if not self._used:
            return
        now = self._clock()
        with self._lock:
            for key in self._used:
                if key in self._items:
                    self._items[key].last_access = now
            self._used.clear()

    def clean_stale_entries(self) -> None:
        """Drops what is stale; never in the middle of a task."""
        if self._tasks or not self._items:
            return
        now = self._clock()
        with self._lock:
            stale = [item for item in self._items.values() if item.stale(now)]
            for item in stale:
                del self._items[item.key]
        for item in stale:
            item.delete()

    def close(self) -> None:
        """Drops everything, running all delete hooks."""
        with self._lock:
            items = list(self._items.values())
            self._items.clear()
            self._used.clear()
        for item in items:
            item.delete()

    @staticmethod
    def _key(key: str, resource: Resource | None) -> str:
        return args_key(key, {"resource": resource}, ())

    def find(self, key: str, resource: Resource | None = None) -> object:
        """The kept value; KeyError without one."""
        key = self._key(key, resource)
        with self._lock:
            value = self._items[key].value
            self._used.add(key)
        return value

    def cache_value(
        self,
        key: str,
        value: object,
        evict_after_last_access: float = IDLE,
        evict_after_creation: float = 0.0,
        resource: Resource | None = None,
        call_on_delete: Callable[[Any], object] | None = None,
    ) -> None:
        """Keeps a value, until so many seconds after its making or its last use; an exception if the key is taken."""
        key = self._key(key, resource)
        item = CacheItem(key, value, self._clock(), evict_after_creation, evict_after_last_access, call_on_delete)
        with self._lock:
            if key in self._items:
                raise Exception("Added same item twice")
            self._items[key] = item
            self._used.add(key)

    def get_or_else(
        self,
        key: str,
        function: Callable[..., object],
        for_version: bool | None = None,
        timeout: float | None = None,
        evict_after_last_access: float = IDLE,
        evict_after_creation: float = 0.0,
        ignore: Collection[str] = (),
        cache_none: bool = True,
        call_on_delete: Callable[[Any], object] | None = None,
        **kwargs: object,
    ) -> object:
        """The kept value for `key` and the arguments, else `function(**kwargs)`, which is then kept.

        The limits are those of `@cache`, except that without any a value stays until so long after its last use, so
        that `timeout` alone says nothing. Callers of one key wait for one producer. A producer that raises keeps
        nothing.
        """
        limits = retention(for_version, timeout, evict_after_creation, evict_after_last_access)
        return self._kept_or_made(key, function, limits, ignore, cache_none, call_on_delete, kwargs)

    def _kept_or_made(
        self,
        key: str,
        function: Callable[..., object],
        limits: tuple[float, float],
        ignore: Collection[str],
        cache_none: bool,
        call_on_delete: Callable[[Any], object] | None,
        kwargs: dict[str, object],
    ) -> object:
        """As `get_or_else`; the arguments may have the names of its options."""
        creation, idle = limits
        key = args_key(key, kwargs, ignore)
        try:
            return self.find(key)
        except KeyError:
            pass
        with self._lock:
            making = self._making.setdefault(key, [RLock(), 0])
            making[1] += 1
        try:
            with making[0]:
                try:
                    return self.find(key)
                except KeyError:
                    pass
                value = function(**kwargs)
                if value is not None or cache_none:
                    self.cache_value(key, value, idle, creation, None, call_on_delete)
                return value
        finally:
            with self._lock:
                making[1] -= 1
                if making[1] == 0:
                    self._making.pop(key, None)


def retention(
    for_version: bool | None, timeout: float | None, evict_after_creation: float, evict_after_last_access: float
) -> tuple[float, float]:
    """Seconds from creation and from last use after which a value is stale; 0: no such limit.

    A limit of zero or below counts as none given.
    """
    creation, idle = max(evict_after_creation, 0.0), max(evict_after_last_access, 0.0)
    from_creation = max(timeout or 0.0, 0.0)
    if for_version is True:
        return 0.0, idle or IDLE
    if for_version is False:
        return creation or from_creation or WITHOUT_VERSION, 0.0
    if creation or idle:
        return creation, idle
    return (from_creation, 0.0) if from_creation else (0.0, IDLE)


def args_key(name: str, kwargs: dict[str, object], ignore: Collection[str]) -> str:
    """The key of a call: name and arguments by text; a resource counts by its id without version, and no resource
    as none was given."""
    parts = [name]
    for argument in sorted(kwargs):
        if argument in ignore:
            continue
        value: Any = kwargs[argument]
        if argument == "resource" and value is None:
            continue
        if argument == "resource" and hasattr(value, "id"):
            parts.append(f"resource,{value.id.resource_str()!r}")
        else:
            parts.append(f"{argument},{value!r}")
    return "__".join(parts)

if not TYPE_CHECKING:
    # What only the reference's module has says why it is not here.
    from inmanta import _rest_of

    __getattr__ = _rest_of(__name__)
