"""The Python side of the module `std`, as `inmanta_plugins.std`, for projects without the published package.

The plugins are Steward's own: a call goes to the compiler that waits for us. They exist in a compile only; references
work in an executor too. What needs jinja2 (`JinjaDynamicProxy`) is in the published package alone.
"""

from __future__ import annotations

from inmanta._std import EnvironmentReference, FactReference, IntReference

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["EnvironmentReference", "FactReference", "IntReference"]

# The functions of Python that have another name than their plugin.
_RENAMED = {
    "assert_function": "assert",
    "getattribute": "getattr",
    "list_len": "len",
    "printf": "print",
}

# Those that name the resource that their first argument becomes.
_OF_RESOURCES = frozenset(("getfact", "create_fact_reference"))

_PLUGINS = frozenset(
    (
        *("add_to_ip", "at", "attr", "capitalize", "contains", "count", "create_environment_reference"),
        *("create_fact_reference", "create_int_reference", "dict_get", "dict_keys", "environment", "environment_name"),
        *("environment_server", "equals", "familyof", "file", "filter", "flatten", "format", "generate_password"),
        *("get_env", "get_env_int", "getfact", "hostname", "inlineif", "invert", "ip_address_from_interface"),
        *("ipindex", "is_base64_encoded", "is_instance", "is_unknown", "isset", "item", "json_dumps", "json_loads"),
        *("key_sort", "length", "limit", "list_files", "lower", "netmask", "network_address", "objid", "password"),
        *("prefixlen", "prefixlength_to_netmask", "replace", "select", "sequence", "server_ca", "server_port"),
        *("server_ssl", "server_token", "source", "split", "template", "timestamp", "unique", "unique_file", "upper"),
        "validate_type",
    )
)


def __getattr__(name: str) -> Callable[..., object]:
    plugin = _RENAMED.get(name, name)
    if name not in _RENAMED and name not in _PLUGINS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def call(*args: object, **kwargs: object) -> object:
        from inmanta.execute import runtime
        from inmanta.execute.proxy import DynamicProxy
        from inmanta.execute.util import Unknown
        from inmanta.plugins import Context

        values = [value for value in args if not isinstance(value, Context)]
        identity = None
        if plugin in _OF_RESOURCES:
            from inmanta.resources import own_id

            resource = values[0] if values else kwargs.get("resource")
            identity = own_id(resource) if isinstance(resource, DynamicProxy) else None
        given = [DynamicProxy.unwrap(value) for value in values]
        named = [[key, DynamicProxy.unwrap(value)] for key, value in kwargs.items()]
        value = runtime.native(f"std::{plugin}", given, named, identity)
        return value if isinstance(value, Unknown) else DynamicProxy.return_value(value)

    call.__name__ = call.__qualname__ = name
    globals()[name] = call
    return call
