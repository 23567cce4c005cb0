"""The handler of `lsm::LifecycleTransfer`."""

from __future__ import annotations

from inmanta.agent.handler import HandlerContext, ResourceHandler, provider
from inmanta.resources import Resource


@provider("lsm::LifecycleTransfer", name="local")
class LifecycleTransferHandler(ResourceHandler[Resource]):
    """Fails, for there is nobody to tell."""

    def execute(self, ctx: HandlerContext, resource: Resource, dry_run: bool = False) -> None:
        raise NotImplementedError(
            "not part of Steward yet: the lifecycle manager, which moves a service instance on when its resources are deployed"
        )
