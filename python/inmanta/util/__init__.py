"""Small things that modules use: JSON encoders, hashing, directories, retries."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import datetime
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any, TypeVar

    from inmanta.protocol.common import Result

    K = TypeVar("K")
    V = TypeVar("V")


class JSONSerializable:
    """An object that the encoders below can write: `json_serialization_step` gives a simpler equivalent."""

    def json_serialization_step(self) -> object:
        raise NotImplementedError


def hash_file(content: bytes) -> str:
    """The SHA-1 of a content, lowercase hex: its name in the file store."""
    import hashlib

    return hashlib.sha1(content).hexdigest()


def internal_json_encoder(o: object) -> object:
    """`default=` for `json.dumps`: UUIDs, enums, exceptions, models, dataclasses, proxies, and times, which are local if
    they have no zone. TypeError for the rest."""
    import datetime

    return _simplify(o if not isinstance(o, datetime.datetime) or o.tzinfo is not None else o.astimezone())


def api_boundary_json_encoder(o: object, tz_aware: bool = True) -> object:
    """As `internal_json_encoder`, but a time without zone is UTC; `tz_aware=False`: all are written so."""
    import datetime

    return datetime_iso_format(o, tz_aware=tz_aware) if isinstance(o, datetime.datetime) else _simplify(o)


def _simplify(o: object) -> object:
    import datetime
    import enum
    import uuid

    if isinstance(o, JSONSerializable):
        return o.json_serialization_step()
    if isinstance(o, uuid.UUID) or type(o).__module__.split(".")[0] in ("pydantic", "pydantic_core"):
        # Of pydantic, its own values are meant: addresses and secrets, whose text hides them.
        return str(o)
    if isinstance(o, datetime.datetime):
        return o.isoformat(timespec="microseconds")
    if hasattr(o, "to_dict"):
        return o.to_dict()
    if isinstance(o, enum.Enum):
        return o.name
    if isinstance(o, Exception):
        return str(o)
    if hasattr(o, "model_dump"):
        return o.model_dump(by_alias=True)
    if hasattr(o, "__dataclass_fields__") and not isinstance(o, type):
        import dataclasses

        return dataclasses.asdict(o)  # type: ignore[call-overload]  # its fields say that it is one
    raise TypeError(f"{o!r} is not JSON serializable")


def get_compiler_version() -> str:
    """The reference's, of the compiler that this one is like."""
    return "2025.1"


def ensure_directory_exist(directory: str, *subdirs: str) -> str:
    """Makes `directory/subdirs…` and gives its path."""
    path = os.path.join(directory, *subdirs)
    os.makedirs(path, exist_ok=True)
    return path


def datetime_iso_format(timestamp: datetime.datetime, *, tz_aware: bool = True) -> str:
    """A time as the API writes it: UTC with microseconds."""
    import datetime

    if timestamp.tzinfo is None:
        timestamp = timestamp.replace(tzinfo=datetime.timezone.utc)
    if not tz_aware:
        timestamp = timestamp.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    return timestamp.isoformat(timespec="microseconds")


def groupby(mylist: Iterable[V], f: Callable[[V], K]) -> Iterator[tuple[K, Iterator[V]]]:
    """Each key, by size, with the elements that have it."""
    import itertools

    by_key: Any = f
    return itertools.groupby(sorted(mylist, key=by_key), key=by_key)


def is_sub_dict(subdct: Mapping[str, object], dct: Mapping[str, object]) -> bool:
    """Whether all entries of the first are in the second."""
    return all(key in dct and dct[key] == value for key, value in subdct.items())


def get_free_tcp_port() -> str:
    """A port that nobody listens on now."""
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def is_call_ok(result: Result) -> bool:
    return result.code == 200


async def retry_limited(
    fun: Callable[..., object], timeout: float, interval: float = 0.1, *args: object, **kwargs: object
) -> None:
    """Calls `fun`, plain or async, until it gives something true; TimeoutError after `timeout` seconds."""
    import asyncio
    import time

    end = time.monotonic() + timeout
    while True:
        result = fun(*args, **kwargs)
        if hasattr(result, "__await__"):
            result = await result
        if result:
            return
        if time.monotonic() >= end:
            raise asyncio.TimeoutError(f"Bounded wait failed after {timeout} seconds")
        await asyncio.sleep(interval)


def __getattr__(name: str) -> object:
    # `asyncio` takes its time to load.
    if name in ("IntervalSchedule", "ScheduledTask", "Scheduler", "TaskSchedule"):
        from inmanta.util import scheduler

        return getattr(scheduler, name)
    from inmanta import _rest_of

    return _rest_of(__name__)(name)
