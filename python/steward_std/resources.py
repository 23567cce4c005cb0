"""The resource classes of `std`, and a handler, for Python code: Steward's own handlers serve the resources that it deploys."""

from __future__ import annotations

import logging

from inmanta.agent.handler import CRUDHandler, HandlerContext, provider
from inmanta.resources import IgnoreResourceException, ManagedResource, PurgeableResource, resource
from steward_std import _handlers

LOGGER = logging.getLogger(__name__)

__all__ = [
    "AgentConfig",
    "CRUDHandler",
    "HandlerContext",
    "IgnoreResourceException",
    "LOGGER",
    "ManagedResource",
    "Null",
    "NullProvider",
    "PurgeableResource",
    "logging",
    "provider",
    "resource",
]


@resource("std::testing::NullResource", agent="agentname", id_attribute="name")
class Null(ManagedResource, PurgeableResource):
    """`std::testing::NullResource`."""

    fields = ("name", "agentname", "fail", "value", "int_value")


@resource("std::AgentConfig", agent="agent", id_attribute="agentname")
class AgentConfig(PurgeableResource):
    """`std::AgentConfig`, which is never exported: agents need no configuration."""

    fields = ("agentname", "uri", "autostart")

    @staticmethod
    def get_autostart(exporter: object, model_object: object) -> bool:
        raise IgnoreResourceException()


@provider("std::testing::NullResource", name="null")
class NullProvider(_handlers.Null):
    """It is there, unless it shall fail."""
