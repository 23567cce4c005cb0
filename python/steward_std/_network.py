"""Addresses and networks. Source: docs/reference/std.md § 5.4."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    Address = str
    Interface = str
    Network = str
    Netmask = str
else:
    Address, Interface, Network = "std::ipv_any_address", "std::ipv_any_interface", "std::ipv_any_network"
    Netmask = "std::ipv4_address"


def prefixlen(addr: Interface) -> int:
    import ipaddress

    return ipaddress.ip_interface(addr).network.prefixlen


def netmask(addr: Interface) -> Address:
    import ipaddress

    return str(ipaddress.ip_interface(addr).netmask)


def network_address(addr: Interface) -> Address:
    import ipaddress

    return str(ipaddress.ip_interface(addr).network.network_address)


def ip_address_from_interface(ip_interface: Interface) -> Address:
    import ipaddress

    return str(ipaddress.ip_interface(ip_interface).ip)


def prefixlength_to_netmask(prefixlen: int) -> Netmask:
    import ipaddress

    return str(ipaddress.ip_interface(f"255.255.255.255/{prefixlen}").netmask)


def ipindex(addr: Network, position: int, keep_prefix: bool = False) -> str:
    """An address of a network by its number, from the end if that is negative."""
    import ipaddress

    network = ipaddress.ip_network(addr)
    found = str(network[position])
    return f"{found}/{network.prefixlen}" if keep_prefix else found


def add_to_ip(addr: Address, n: int) -> Address:
    import ipaddress

    return str(ipaddress.ip_address(addr) + n)
