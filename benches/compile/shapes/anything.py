"""Plugins that do not say what they return: a dict, a list, and anything."""

from inmanta.plugins import plugin


@plugin
def parse(cidr: "string") -> "dict":
    address, length = cidr.split("/")
    return {"address": address, "length": int(length), "text": f"{address} of {length} bits", "parts": address.split(".")}


@plugin
def hosts(address: "string", n: "int") -> "list":
    start = address.rsplit(".", 1)[0]
    return [f"{start}.{last}" for last in range(1, n + 1)]


@plugin
def note(number: "int") -> "any":
    return f"network {number}" if number % 3 else None
