"""Names of types, for annotations. They are made when somebody asks, because `typing` takes its time to load."""

from __future__ import annotations

# Aliases of text, so that calling one works too.
ResourceIdStr = str
ResourceVersionIdStr = str
ResourceType = str


TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def __getattr__(name: str) -> object:
    import typing

    known: dict[str, Callable[[], object]] = {
        "PrimitiveTypes": lambda: typing.Union[str, float, int, bool, None],
        "SimpleTypes": lambda: typing.Union[str, float, int, bool, None],
        "StrictJson": lambda: typing.Any,
        "JsonType": lambda: dict[str, typing.Any],
        "ReturnTypes": lambda: typing.Any,
        "ArgumentTypes": lambda: typing.Any,
        "DataclassProtocol": lambda: typing.Any,
        "Apireturn": lambda: typing.Any,
    }
    if name not in known:
        raise AttributeError(name)
    made = globals()[name] = known[name]()
    return made
