"""Handlers of the resources of `std`, for processes that deploy a model themselves, as tests of modules do.

Steward's own deployments have handlers of their own for them.
"""

from __future__ import annotations

from inmanta.agent.handler import CRUDHandler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from inmanta.agent.handler import HandlerAPI, HandlerContext

    _Handler = CRUDHandler[Any]
else:
    _Handler = CRUDHandler


class Null(_Handler):
    """`std::testing::NullResource`: it is there, unless it is told to fail."""

    def read_resource(self, ctx: HandlerContext, resource: Any) -> None:
        if resource.fail:
            raise Exception("This resource is set to fail")
        resource.purged = False
        ctx.debug("Observed value: %(value)s", value=resource.value)
        ctx.debug("Observed int value: %(value)s", value=resource.int_value)

    def create_resource(self, ctx: HandlerContext, resource: Any) -> None:
        ctx.set_created()

    def update_resource(self, ctx: HandlerContext, changes: dict[str, dict[str, Any]], resource: Any) -> None:
        ctx.set_updated()

    def delete_resource(self, ctx: HandlerContext, resource: Any) -> None:
        ctx.set_purged()


class AgentConfig(Null):
    """`std::AgentConfig`: agents need no configuration."""

    def read_resource(self, ctx: HandlerContext, resource: Any) -> None:
        ctx.info("Agents need no configuration")


PROVIDERS: dict[str, type[HandlerAPI[Any]]] = {"std::testing::NullResource": Null, "std::AgentConfig": AgentConfig}
