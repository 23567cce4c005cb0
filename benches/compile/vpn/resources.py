"""What a connection needs on the routers, as resources, and how they get there."""

import logging
from collections.abc import Mapping

from inmanta.agent.handler import CRUDHandler, HandlerContext, ResourcePurged, provider
from inmanta.resources import PurgeableResource, resource

LOGGER = logging.getLogger(__name__)


class OnDevice(PurgeableResource):
    fields = ("name", "device", "comment")


@resource("vpn::RoutingInstance", id_attribute="name", agent="device")
class RoutingInstance(OnDevice):
    fields = ("route_target", "max_routes")


@resource("vpn::Interface", id_attribute="name", agent="device")
class Interface(OnDevice):
    fields = ("port", "vlan", "address", "mtu", "is_enabled")


@resource("vpn::Peer", id_attribute="name", agent="device")
class Peer(OnDevice):
    fields = ("neighbour", "as_number", "timers")


@resource("vpn::Shaper", id_attribute="name", agent="device")
class Shaper(OnDevice):
    fields = ("rate", "burst")


@resource("vpn::Filter", id_attribute="name", agent="device")
class Filter(OnDevice):
    fields = ("allowed",)


@resource("vpn::Tunnel", id_attribute="name", agent="device")
class Tunnel(OnDevice):
    fields = ("remote", "cipher")


@resource("vpn::Monitor", id_attribute="name", agent="device")
class Monitor(OnDevice):
    fields = ("targets", "interval")


class Router:
    """What a session on a router would be."""

    def __init__(self) -> None:
        self.parts: dict[str, Mapping[str, object]] = {}


@provider("vpn::RoutingInstance", name="cli")
@provider("vpn::Interface", name="cli")
@provider("vpn::Peer", name="cli")
@provider("vpn::Shaper", name="cli")
@provider("vpn::Filter", name="cli")
@provider("vpn::Tunnel", name="cli")
@provider("vpn::Monitor", name="cli")
class Handler(CRUDHandler):
    router = Router()

    def read_resource(self, ctx: HandlerContext, resource: OnDevice) -> None:
        known = self.router.parts.get(resource.name)
        if known is None:
            raise ResourcePurged()
        for name, value in known.items():
            setattr(resource, name, value)

    def create_resource(self, ctx: HandlerContext, resource: OnDevice) -> None:
        self.router.parts[resource.name] = {"comment": resource.comment}
        ctx.set_created()

    def update_resource(self, ctx: HandlerContext, changes: dict, resource: OnDevice) -> None:
        LOGGER.info("%s changes %s", resource.name, sorted(changes))
        self.create_resource(ctx, resource)

    def delete_resource(self, ctx: HandlerContext, resource: OnDevice) -> None:
        self.router.parts.pop(resource.name, None)
        ctx.set_purged()
