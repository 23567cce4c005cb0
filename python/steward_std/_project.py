"""What only the compiler knows: files and templates, the environment, facts, references, validators. A call asks it.

Source: docs/reference/std.md § 5.5 to § 7. The context of a call is an argument like any other to Python; the compiler
goes by the call that it waits for.
"""

# A list of the model says nothing of its elements.
# mypy: disable-error-code="type-arg"

from __future__ import annotations

import os

from inmanta._std import EnvironmentReference, FactReference, IntReference
from inmanta.execute import runtime
from inmanta.execute.proxy import DynamicProxy
from inmanta.execute.util import Unknown
from inmanta.plugins import Context
from inmanta.references import Reference

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Resource = object
else:
    Resource = "std::Resource"


def _asked(plugin: str, *values: object, of: object = None, named: dict[str, object] = {}) -> Any:
    """What a plugin of the compiler gives; lists and dicts are Python's own. `of`: a resource whose class may make its id."""
    given = [DynamicProxy._plain(value) for value in values]
    keywords = [[name, DynamicProxy._plain(value)] for name, value in named.items()]
    found = runtime.native(f"std::{plugin}", given, keywords, _identity(of))
    return found if isinstance(found, (Unknown, list, dict)) else DynamicProxy.return_value(found)


def _identity(resource: object) -> str | None:
    """The id of a resource whose class makes its own."""
    from inmanta.resources import own_id

    return own_id(resource) if isinstance(resource, DynamicProxy) else None


def template(ctx: Context, path: str, **kwargs: object) -> str:
    """A template, with these variables, or with all that the call of the model sees."""
    found: str = _asked("template", path, named=kwargs)
    return found


def source(ctx: Context, path: str) -> str:
    """The text of a file."""
    found: str = _asked("source", path)
    return found


class FileMarker(str):
    """A text that stands for the contents of a file, as handlers of files know it."""

    filename: str


def file(ctx: Context, path: str) -> str:
    """What stands for the contents of a file."""
    made = FileMarker(_asked("file", path))
    made.filename = made.removeprefix("imp-module-source:file://")
    return made


def list_files(ctx: Context, path: str) -> list:
    """The names of the files in a directory."""
    found: list = _asked("list_files", path)
    return found


def generate_password(context: Context, pw_id: str, length: int = 20) -> str:
    """A password that is made once and kept."""
    found: str = _asked("generate_password", pw_id, length)
    return found


def password(context: Context, pw_id: str) -> str:
    """A password that was made before."""
    found: str = _asked("password", pw_id)
    return found


def get_env(name: str, default_value: str | None = None) -> str:
    """A variable of the environment; Unknown, with a warning, if there is none."""
    found = os.environ.get(name, default_value)
    return _missing(name) if found is None else found


def get_env_int(name: str, default_value: int | None = None) -> int:
    found = os.environ.get(name, default_value)
    return _missing(name) if found is None else int(found)


def _missing(name: str) -> Any:
    import logging

    logging.getLogger(__name__).warning("Environment variable %s doesn't exist, returning unknown", name)
    return Unknown(source=name)


def environment() -> str:
    """The id of the environment."""
    found: str = _asked("environment")
    return found


def environment_name(ctx: Context) -> str:
    found: str = _asked("environment_name")
    return found


def environment_server(ctx: Context) -> str:
    found: str = _asked("environment_server")
    return found


def server_ca() -> str:
    found: str = _asked("server_ca")
    return found


def server_ssl() -> bool:
    found: bool = _asked("server_ssl")
    return found


def server_port() -> int:
    found: int = _asked("server_port")
    return found


def server_token(context: Context, client_types: list[str] = ["agent"]) -> str:
    found: str = _asked("server_token", client_types)
    return found


def getfact(context: Context, resource: object, fact_name: str, default_value: object = None) -> object:
    """A fact of a resource; Unknown while it is not known and there is no default."""
    return _asked("getfact", resource, fact_name, default_value, of=resource)


def create_fact_reference(
    context: Context, resource: Resource, fact_name: str
) -> FactReference:
    found: FactReference = _asked("create_fact_reference", resource, fact_name, of=resource)
    return found


def create_environment_reference(name: str | Reference[str]) -> Reference[str]:
    found: EnvironmentReference = _asked("create_environment_reference", name)
    return found


def create_int_reference(value: object | Reference) -> Reference[int]:
    found: IntReference = _asked("create_int_reference", value)
    return found


def validate_type(fq_type_name: str, value: object, validation_parameters: dict | None = None) -> bool:
    """Whether a value passes one of the validators that typedefs of std name."""
    found: bool = _asked("validate_type", fq_type_name, value, validation_parameters)
    return found
