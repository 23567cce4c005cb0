"""The resource classes of `std`, for modules that extend them or look at them. Steward's own handlers serve them."""

from __future__ import annotations

from inmanta.resources import ManagedResource, PurgeableResource


class Null(ManagedResource, PurgeableResource):
    """`std::testing::NullResource`."""

    fields = ("name", "agentname", "fail", "value", "int_value")


class AgentConfig(PurgeableResource):
    """`std::AgentConfig`, which does nothing: agents need no configuration."""

    fields = ("agentname", "uri", "autostart")

    @staticmethod
    def get_uri(exporter: object, model_object: object) -> str:
        return ""
