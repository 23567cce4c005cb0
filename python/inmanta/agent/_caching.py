"""`@cache`: results of handlers' methods that outlive a task. Source: docs/reference/python.md § 6."""

from __future__ import annotations

from inmanta.agent.cache import IDLE, WITHOUT_VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from inmanta.agent._tasks import HandlerAPI


# The flag of code with a parameter `*args`.
_TAKES_ANY = 0x04


def cache(
    func: Callable[..., Any] | None = None,
    ignore: Sequence[str] = (),
    timeout: float | None = None,
    for_version: bool | None = None,
    cache_none: bool = True,
    cacheNone: bool | None = None,
    call_on_delete: Callable[[Any], object] | None = None,
    evict_after_creation: float = 0.0,
    evict_after_last_access: float = 0.0,
) -> Any:
    """Keeps the results of a handler's method in the cache of the executor, by the method's name and arguments.

    `ignore` names arguments that do not count. Without a limit a result stays until 60 s after its last use;
    `evict_after_creation`, `evict_after_last_access` and the older `timeout` (from creation) are seconds.
    `call_on_delete(value)` runs once when the result is dropped.
    """
    if cacheNone is not None:
        cache_none = cacheNone
    ignored = frozenset(ignore)
    creation, idle = _retention(timeout, for_version, evict_after_creation, evict_after_last_access)

    def decorate(method: Any) -> Callable[..., Any]:
        import functools

        code = method.__code__
        names = code.co_varnames[1 : code.co_argcount]
        defaults = method.__defaults__ or ()
        by_default = dict(zip(names[len(names) - len(defaults) :], defaults)) if defaults else {}
        by_default.update(method.__kwdefaults__ or {})

        @functools.wraps(method)
        def cached(self: HandlerAPI[Any], *args: object, **kwargs: object) -> object:
            # What is beyond the named ones counts by its position, if the method takes any such.
            beyond = {f"*{index}": value for index, value in enumerate(args[len(names) :])}
            if beyond and not code.co_flags & _TAKES_ANY:
                raise TypeError(f"{method.__name__}() takes {len(names)} arguments but {len(args)} were given")
            bound = {**by_default, **dict(zip(names, args)), **beyond, **kwargs}

            def produce(**_: object) -> object:
                return method(self, *args, **kwargs)

            return self.cache.get_or_else(
                method.__name__,
                produce,
                idle,
                creation,
                cache_none,
                call_on_delete,
                ignored,
                **bound,
            )

        return cached

    return decorate if func is None else decorate(func)


def _retention(
    timeout: float | None, for_version: bool | None, evict_after_creation: float, evict_after_last_access: float
) -> tuple[float, float]:
    """Seconds from creation and from last use after which a result is stale; 0: no such limit."""
    if for_version is True:
        return 0.0, evict_after_last_access or IDLE
    if for_version is False:
        return evict_after_creation or timeout or WITHOUT_VERSION, 0.0
    if evict_after_creation or evict_after_last_access:
        if timeout is not None:
            import warnings

            text = "@cache: timeout is ignored beside evict_after_creation and evict_after_last_access"
            warnings.warn(text, stacklevel=3)
        return evict_after_creation, evict_after_last_access
    if timeout is not None:
        return timeout, 0.0
    return 0.0, IDLE
