"""Functions of the model."""

import ipaddress
import re

from inmanta.plugins import plugin


@plugin
def slug(text: "string") -> "string":
    """A text as the routers take it for a name."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


@plugin
def route_target(customer: "vpn::Customer", number: "int") -> "string":
    """What marks the routes of a connection."""
    return f"target:{customer.as_number}:{number}"


@plugin
def summary(connection: "vpn::Connection") -> "string":
    """One line about a connection, for people."""
    ends = [f"{endpoint.device.name}/{endpoint.port}" for endpoint in connection.endpoints]
    kind = "encrypted" if connection.is_encrypted else "plain"
    return f"{connection.customer.name}: {' <-> '.join(sorted(ends))}, {kind}"


@plugin
def interface_name(endpoint: "vpn::Endpoint") -> "string":
    """The name of the customer's unit of a port, which differs by vendor."""
    if endpoint.device.vendor == "acme":
        return f"{endpoint.port}.{endpoint.vlan}"
    return f"{endpoint.port}:{endpoint.vlan}"


@plugin
def networks(addresses: "std::ipv4_address[]") -> "string":
    """The networks of some addresses, as a list for a prompt."""
    found = {str(ipaddress.ip_network(f"{address}/30", strict=False)) for address in addresses}
    return ", ".join(sorted(found))
