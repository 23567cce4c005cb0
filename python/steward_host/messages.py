"""The messages of `compiler/src/protocol/` as types, for annotations only: nothing imports this file at run time.

`tests/test_schema.py` holds the host against the Rust types; here are their names for readers and for mypy.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict, Union


class PythonFile(TypedDict):
    module: str
    path: str
    package: bool


class PythonModule(TypedDict):
    name: str
    root: str
    files: list[PythonFile]


class Inputs(TypedDict, total=False):
    """What a compile was given besides the project."""

    environment: dict[str, str]
    server: dict[str, Any]
    parameters: dict[str, Any]
    facts: dict[str, dict[str, Any]]
    services: Any


class LoadCompile(TypedDict):
    modules: list[PythonModule]
    project_dir: str
    env: dict[str, str]
    environment_id: str | None
    inputs: Inputs
    keep: NotRequired[bool]
    trace: NotRequired[bool]
    computing: NotRequired[dict[str, bool] | None]


class Depends(TypedDict):
    """Absolute paths: what was read (files) or listed (folders), and what was only asked for."""

    read: list[str]
    looked_at: list[str]


class Rerun(TypedDict):
    inputs: Inputs
    env: dict[str, str]
    computing: NotRequired[dict[str, bool] | None]


class LoadExecutor(TypedDict):
    modules: list[PythonModule]
    environment_id: str
    agent: str
    files: str | None


class Fork(TypedDict):
    """Three descriptors come along: the socket of the new host, its standard error, and a file: see `boundary`."""

    agent: str


class Reap(TypedDict):
    pid: int


# An array: id, plugin, arguments, named arguments, file, line, namespace.
Call = tuple[int, str, list[Any], list[tuple[str, Any]], str, int, str]
# A resource whose fields are computed: number, class, instance, what of the id is asked for, names of the fields.
Rendering = tuple[int, int, Any, str, tuple[str, ...]]

# `class` is no name in Python.
RenderFields = TypedDict("RenderFields", {"class": int, "id": int, "instance": Any, "identify": str, "fields": list[str]})
Unprocessed = TypedDict(
    "Unprocessed",
    {"class": int | None, "id": str, "attributes": dict[str, Any], "requires": list[str], "instance": Any},
)


class PostProcess(TypedDict):
    id: int
    resources: list[Unprocessed]


class Numbered(TypedDict):
    """A request without further fields."""

    id: int


class Serialize(TypedDict):
    id: int
    object: int


class Facts(TypedDict):
    id: int
    # All its fields, `requires` and `id`.
    resource: dict[str, Any]
    action_id: str
    ahead: bool


class Task(TypedDict):
    """`Deploy`."""

    id: int
    # All its fields, `requires` and `id`.
    resource: dict[str, Any]
    requires: dict[str, str]
    dry_run: bool
    reason: str
    action_id: str
    dependency_changed: bool
    ahead: bool


class AttributeInfo(TypedDict):
    name: str
    type_name: str
    relation: bool
    multi: bool
    optional: bool
    low: int
    high: int | None
    inverse: str | None
    has_default: bool
    default: Any
    annotations: list[Any]
    given: bool


class ConditionInfo(TypedDict):
    patterns: list[str]
    values: list[Any] | None
    bounds: list[tuple[str, Any]]
    validators: list[tuple[str, Any]]
    either: list[Any]


class EntityInfo(TypedDict):
    name: str
    attributes: list[AttributeInfo]
    parents: list[str]
    indices: list[list[str]]
    place: tuple[str, int, int, int, int] | None
    comment: str | None


# A variant without fields is its name.
Annotation = Union[str, dict[str, Any]]


class Failure(TypedDict):
    kind: str
    type_name: str
    message: str
    traceback: str
    file: str | None
    line: int | None


class LogLine(TypedDict):
    level: str
    msg: str
    kwargs: dict[str, Any]
    timestamp_us: int


class Fact(TypedDict):
    name: str
    value: str
    expires: bool


class Discovered(TypedDict):
    resource_id: str
    values: dict[str, Any]


class HandlerOutcome(TypedDict):
    status: str
    change: str
    changes: dict[str, dict[str, Any]]
    logs: list[LogLine]
    facts: list[Fact]
    discovered: list[Discovered]
