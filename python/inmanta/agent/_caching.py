"""`@cache`: results of handlers' methods that outlive a task. Source: docs/reference/python.md § 6."""

from __future__ import annotations

from inmanta.agent.cache import retention

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
    limits = retention(for_version, timeout, evict_after_creation, evict_after_last_access)
    if for_version is None and timeout is not None and (evict_after_creation > 0 or evict_after_last_access > 0):
        import warnings

        text = "@cache: timeout is ignored beside evict_after_creation and evict_after_last_access"
        warnings.warn(text, stacklevel=2)

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

            return self.cache._kept_or_made(
                method.__name__, produce, limits, ignored, cache_none, call_on_delete, bound
            )

        return cached

    return decorate if func is None else decorate(func)

