"""Addresses and networks. Source: reference of the std module, 5.4."""

from __future__ import annotations

import ipaddress
from typing import Annotated

from inmanta.plugins import ModelType

_Address = Annotated[str, ModelType["std::ipv_any_address"]]
_Interface = Annotated[str, ModelType["std::ipv_any_interface"]]
_Network = Annotated[str, ModelType["std::ipv_any_network"]]
_Netmask = Annotated[str, ModelType["std::ipv4_address"]]


def prefixlen(addr: _Interface) -> int:
    return ipaddress.ip_interface(addr).network.prefixlen


def netmask(addr: _Interface) -> _Address:
    return str(ipaddress.ip_interface(addr).netmask)


def network_address(addr: _Interface) -> _Address:
    return str(ipaddress.ip_interface(addr).network.network_address)


def ip_address_from_interface(ip_interface: _Interface) -> _Address:
    return str(ipaddress.ip_interface(ip_interface).ip)


def prefixlength_to_netmask(prefixlen: int) -> _Netmask:
    return str(ipaddress.ip_interface(f"255.255.255.255/{prefixlen}").netmask)


def ipindex(addr: _Network, position: int, keep_prefix: bool = False) -> str:
    """An address of a network by its number, from the end if that is negative."""
    network = ipaddress.ip_network(addr)
    found = str(network[position])
    return f"{found}/{network.prefixlen}" if keep_prefix else found


def add_to_ip(addr: _Address, n: int) -> _Address:
    return str(ipaddress.ip_address(addr) + n)
