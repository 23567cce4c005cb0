"""Conditions of types."""

import re

from inmanta.plugins import plugin

HOST = re.compile(r"[a-z][a-z0-9.-]*")


@plugin
def is_host(text: "string") -> "bool":
    return HOST.fullmatch(text) is not None


@plugin
def is_port(number: "int") -> "bool":
    return 0 < number < 65536
