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

        names, by_default, takes_any, is_wrapped = _parameters(method)

        @functools.wraps(method)
        def cached(self: HandlerAPI[Any], *args: object, **kwargs: object) -> object:
            # What is beyond the named ones counts by its position, if the method takes any such.
            beyond = {f"*{index}": value for index, value in enumerate(args[len(names) :])}
            if beyond and not takes_any:
                raise TypeError(f"{method.__name__}() takes {len(names)} arguments but {len(args)} were given")
            bound = {**by_default, **dict(zip(names, args)), **beyond, **kwargs}

            def produce(**_: object) -> object:
                if is_wrapped and not beyond:
                    # Decorators look for arguments by their names, as the reference gives them.
                    return method(self, **dict(zip(names, args)), **kwargs)
                return method(self, *args, **kwargs)

            return self.cache._kept_or_made(
                method.__name__, produce, limits, ignored, cache_none, call_on_delete, bound
            )

        return cached

    return decorate if func is None else decorate(func)


def _parameters(method: Any) -> tuple[Sequence[str], dict[str, object], bool, bool]:
    """Of a method: the names that arguments without one have, the values of those that are not given, whether more are taken,
    and whether a decorator is between the method and its callers: then they are those of the method inside."""
    code = getattr(method, "__code__", None)
    if code is None or hasattr(method, "__wrapped__") or hasattr(method, "__signature__"):
        import inspect

        parameters = list(inspect.signature(method).parameters.values())[1:]
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return (
            [each.name for each in parameters if each.kind in kinds],
            {each.name: each.default for each in parameters if each.default is not inspect.Parameter.empty},
            any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters),
            True,
        )
    names = code.co_varnames[1 : code.co_argcount]
    defaults = method.__defaults__ or ()
    by_default = dict(zip(names[len(names) - len(defaults) :], defaults)) if defaults else {}
    by_default.update(method.__kwdefaults__ or {})
    return names, by_default, bool(code.co_flags & _TAKES_ANY), False
