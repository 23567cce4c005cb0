"""Options of transports and logs, and functions around options."""

from __future__ import annotations

import configparser

from inmanta.config import Option, is_bool, is_int, is_str, is_str_opt, is_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class LenientConfigParser(configparser.ConfigParser):
    """A parser for which `-` and `_` in the name of an option are the same."""

    def optionxform(self, optionstr: str) -> str:
        return normalize_name(super().optionxform(optionstr))


class TransportConfig:
    """The options of a client: where the server is, and how to reach it."""

    def __init__(self, name: str) -> None:
        self.prefix = f"{name}_rest_transport"
        self.host = Option(self.prefix, "host", "localhost", "Where the server is", is_str)
        self.port = Option(self.prefix, "port", 8888, "Its port", is_int)
        self.ssl = Option(self.prefix, "ssl", False, "Whether to connect with TLS", is_bool)
        self.ssl_ca_cert_file = Option(self.prefix, "ssl-ca-cert-file", None, "The authority of its certificate", is_str_opt)
        self.token = Option(self.prefix, "token", None, "What to authenticate with", is_str_opt)
        self.request_timeout = Option(self.prefix, "request-timeout", 120, "Seconds for a request", is_int)
        self.max_clients = Option(self.prefix, "max-clients", None, "How many requests at once", _is_int_or_none)


def _is_int_or_none(value: str | int | None) -> int | None:
    return None if value is None else int(value)


compiler_transport = TransportConfig("compiler")
TransportConfig("client")
cmdline_rest_transport = TransportConfig("cmdline")
component_log_configs = {
    name: Option("logging", name, None, f"The file that says what the {name} logs", is_str_opt)
    for name in ("server", "scheduler", "compiler")
}
scheduler_log_config = component_log_configs["scheduler"]


def get_default_nodename() -> str:
    """The name of this host."""
    import socket

    return socket.gethostname()


nodename = Option("config", "node-name", get_default_nodename, "The name of this host", is_str)


def normalize_name(name: str) -> str:
    """The name of an option in its one form."""
    return name.replace("_", "-")


def is_time_or_cron(value: str | int) -> int | str:
    """seconds, or a cron expression"""
    try:
        return is_time(value)
    except ValueError:
        # Between five and seven fields: minutes to days of the week, with seconds before and years behind.
        if isinstance(value, str) and len(value.split()) in (5, 6, 7):
            return value
        raise ValueError(f"Not an int or cron expression: {value}") from None


def config_map_to_str(inp: Mapping[str, str]) -> str:
    """The pairs as `is_map` reads them."""
    return ",".join(f"{key}={text}" for key, text in inp.items())
