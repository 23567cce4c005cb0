"""Handlers: what a resource does on a machine.

A class under `@provider(resource type)` is made anew for each task; `CRUDHandler` is the base for most. Everything it
does with the outside it tells its `HandlerContext`: log lines, differences, changes, facts, the resulting state.
What modules import from here is in the files beside: `_styles` has the bases of handlers, `_tasks` what is called on
each, `_context` what a run tells, `_caching` the decorator `cache`.
Source: docs/reference/python.md § 3 to § 6; docs/reference/deployment.md § 5.5.
"""

from __future__ import annotations

from inmanta.agent._caching import cache
from inmanta.agent._context import HandlerContext
from inmanta.agent._exceptions import (
    HandlerNotAvailableException,
    InvalidOperation,
    ResourcePurged,
    SkipResource,
    SkipResourceForDependencies,
)
from inmanta.agent._loggers import LoggerABC, PythonLogger
from inmanta.agent._styles import CRUDHandler, CRUDHandlerGeneric, DiscoveryHandler, ResourceHandler
from inmanta.agent._tasks import HandlerAPI
from inmanta.agent.cache import AgentCache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, TypeVar

    from inmanta.resources import Resource

    C = TypeVar("C", bound=type)

__all__ = [
    "AgentCache",
    "CRUDHandler",
    "CRUDHandlerGeneric",
    "Commander",
    "DiscoveryHandler",
    "HandlerAPI",
    "HandlerContext",
    "HandlerNotAvailableException",
    "InvalidOperation",
    "LoggerABC",
    "PythonLogger",
    "ResourceHandler",
    "ResourcePurged",
    "SkipResource",
    "SkipResourceForDependencies",
    "cache",
    "provider",
]


# Traces and texts name the classes as modules import them.
for _made in [globals()[name] for name in __all__ if name in globals()]:
    if isinstance(_made, type) and _made.__module__.startswith("inmanta.agent._"):
        _made.__module__ = __name__


class provider:
    """`@provider("net::Port")` over a handler class. Of several classes for a type the last one counts.

    `name` is of older modules, and says nothing.
    """

    def __init__(self, resource_type: str, name: str | None = None) -> None:
        self._resource_type = resource_type

    def __call__(self, cls: C) -> C:
        Commander.add_provider(self._resource_type, cls)
        return cls


class Commander:
    """The registered handler classes, by resource type."""

    __command_functions: dict[str, type[HandlerAPI[Any]]] = {}

    @classmethod
    def add_provider(cls, resource: str, provider: type[HandlerAPI[Any]]) -> None:
        cls.__command_functions[resource] = provider

    @classmethod
    def get_handlers(cls) -> dict[str, type[HandlerAPI[Any]]]:
        return cls.__command_functions

    @classmethod
    def get_providers(cls) -> Iterator[tuple[str, type[HandlerAPI[Any]]]]:
        return iter(list(cls.__command_functions.items()))

    @classmethod
    def get_provider_class(cls, resource_type: str, name: str | None = None) -> type[HandlerAPI[Any]] | None:
        return cls.__command_functions.get(resource_type)

    @classmethod
    def get_provider(cls, agent: object, resource: Resource) -> HandlerAPI[Any]:
        """A new handler for a resource; an exception if its type has none."""
        resource_type = resource.id.entity_type
        found = cls.__command_functions.get(resource_type)
        if found is None and resource_type.startswith("std::"):
            from steward_std._handlers import PROVIDERS

            found = PROVIDERS.get(resource_type)
        if found is None:
            raise Exception(f"No resource handler registered for resource of type {resource_type}")
        return found(agent)

    @classmethod
    def reset(cls) -> None:
        cls.__command_functions = {}

    @classmethod
    def close(cls) -> None:
        """Kept for test tools."""


# Found here as well, since modules import them from here: name -> where it is.
_ELSEWHERE = {
    "AttributeStateChange": "inmanta.data.model",
    "Change": "inmanta.const",
    "DiscoveredResourceInput": "inmanta.data.model",
    "HandlerResourceState": "inmanta.const",
    "Id": "inmanta.resources",
    "ParameterSource": "inmanta.const",
    "PurgeableResource": "inmanta.resources",
    "Resource": "inmanta.resources",
    "ResourceIdStr": "inmanta.data.model",
    "ResourceState": "inmanta.const",
    "Result": "inmanta.protocol.common",
    "hash_file": "inmanta.util",
    "json_encode": "inmanta.protocol",
}
# The type variables of the bases, and what each is bound to.
_VARIABLES = {
    "TDiscovered": ("inmanta.data.model", "BaseModel"),
    "TDiscovery": ("inmanta.resources", "DiscoveryResource"),
    "TPurgeableResource": ("inmanta.resources", "PurgeableResource"),
    "TResource": ("inmanta.resources", "Resource"),
}
_MODULES = ("const", "data", "protocol", "resources", "tracing")


def __getattr__(name: str) -> object:
    import importlib

    if name in _ELSEWHERE:
        return getattr(importlib.import_module(_ELSEWHERE[name]), name)
    if name in _VARIABLES:
        from typing import TypeVar

        module, bound = _VARIABLES[name]
        made = globals()[name] = TypeVar(name, bound=getattr(importlib.import_module(module), bound))
        return made
    if name in _MODULES:
        return importlib.import_module(f"inmanta.{name}")
    if name == "LOGGER":
        import logging

        return logging.getLogger(__name__)
    from inmanta import _rest_of

    return _rest_of(__name__)(name)
