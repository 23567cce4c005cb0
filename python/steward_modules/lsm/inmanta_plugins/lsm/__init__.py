"""The plugins of the module `lsm`. Source: docs/reference/lsm.md § 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from inmanta import export
from inmanta.execute import runtime
from inmanta.plugins import plugin
from inmanta.resources import Resource, resource
from inmanta.util import dict_path

from . import _compile, _definitions, _model, _selection, partial
from ._errors import LsmError
from ._inventory import global_cache, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    ServiceBase = Any
    ServiceEntity = Any
    Binding = Any
    Lifecycle = Any
else:
    ServiceBase, ServiceEntity = "lsm::ServiceBase", "lsm::ServiceEntity"
    Binding, Lifecycle = "lsm::Binding", "lsm::LifecycleStateMachine"

__all__ = ["LsmError", "do_export_service_entities", "global_cache"]

Record = dict[str, Any]


# --- what models unroll ----------------------------------------------------------------------------------------------


@plugin("all")  # type: ignore[untyped-decorator]  # it takes a name, or a function
def all_instances(
    binding: Binding,
    min_version: int | None = None,
    max_version: int | None = None,
    include_purged_embedded_entities: bool = False,
    removed_attribute: str = "_removed",
    added_attribute: str = "_added",
) -> Sequence[Mapping[str, object]]:
    """The instances of a service that take part in this compile, each with the `attributes` that count."""
    flags = (removed_attribute, added_attribute) if include_purged_embedded_entities else None
    return _selection.instances(binding, min_version, max_version, flags)


@plugin
def has_current_state(service: ServiceEntity, state: str) -> bool:
    """Whether the instance behind a service is in a state."""
    record, _ = _selection.record_of(service)
    return bool(record["state"] == state)


@plugin
def get_service_binding_version(binding: Binding, version: int) -> Binding:
    """One version of the definition of a service."""
    if _model.kind_of(binding) != "lsm::ServiceBinding":
        raise LsmError(f"the service {_model.service_name(binding)} has no versions: its binding is no lsm::ServiceBinding")
    return _model.definition_of(binding, version)


@plugin
def update_read_only_attribute(service: ServiceEntity, path: str, value: object) -> object:
    """Stores a value in a read-only attribute of an instance, and gives it back."""
    record, definition = _selection.record_of(service)
    kind = _selection.chosen_set(record, _selection.state_of(record, definition))
    plain = _model.plain(value)
    is_another = _compile.is_validation() and record["id"] != _compile.validated()
    if kind is not None and not is_another and _stored(record, kind, path) != (plain,):
        write(record, {path: plain})
    return plain


def _stored(record: Record, kind: str, path: str) -> tuple[object, ...]:
    """The value at a path of an instance's attributes, as the only one of a tuple; an empty tuple if there is none."""
    attributes = record[f"{kind}_attributes"]
    try:
        return () if attributes is None else (dict_path.to_path(path).get_element(attributes),)
    except LookupError:
        return ()


@plugin
def set_suggested_values(name: str, values: list[object]) -> None:
    """Has user interfaces suggest values, under the name of a parameter of the environment."""
    runtime.world.write_service({"suggested_values": {"name": name, "values": _model.plain(values)}})


@plugin("format")  # type: ignore[untyped-decorator]
def format_text(fmt: str, args: list[object], kwargs: Mapping[str, object]) -> str:
    """A text with `{}` replaced by arguments, in order or by name."""
    return fmt.format(*_model.plain(args), **_model.plain(kwargs))


@plugin
def context_v2_unwrapper(
    assignments: list[object], fallback_attribute: str, track_deletes: bool = False
) -> Sequence[Mapping[str, object]]:
    """Instances of `lsm::all`, with the values that `ContextV2Wrapper` has collected in an attribute at their places."""
    from .allocation_v2.framework import unwrapped

    return [unwrapped(_model.plain(one), fallback_attribute, track_deletes) for one in assignments]


@plugin
def render_dot(lifecycle: Lifecycle) -> None:
    """Draws a lifecycle, into `fsm.svg` or, without Graphviz, `fsm.dot`."""
    from ._drawing import draw

    draw(_model.lifecycle(lifecycle))


# --- what the implementations of the module's entities ask --------------------------------------------------------------


@plugin
def purge_of_service(service: ServiceEntity) -> bool:
    """Whether the resources of a service are to be removed: as it was constructed, else as its state says."""
    given = _given_purge(service)
    if given is not None:
        return given
    record, definition = _selection.record_of(service)
    return bool(_selection.state_of(record, definition)["purge_resources"])


@plugin
def purge_of_part(part: ServiceBase, parent: ServiceBase) -> bool:
    """Whether the resources of a part are to be removed: as it was constructed, else as what it is a part of."""
    given = _given_purge(part)
    return bool(parent.purge_resources) if given is None else given


def _given_purge(service: Any) -> bool | None:
    """What the constructor says, which may have to be waited for."""
    instance = service._get_instance()
    if not _definitions.is_ever_given(instance.entity_name, "purge_resources"):
        return None
    is_given = "purge_resources" in runtime.world.given(instance.id)
    return bool(service.purge_resources) if is_given else None


@plugin
def is_exported(service: ServiceEntity) -> bool:
    """Whether the instance is part of a desired state that this compile is for."""
    if _compile.is_validation():
        return False
    record, definition = _selection.record_of(service)
    return _selection.chosen_set(record, _selection.state_of(record, definition)) is not None


@plugin
def facts_of_export(service: ServiceEntity) -> dict[str, str | int]:
    """What the export of an instance says of it. Its type has no `object`, so calls for many instances travel together."""
    record, definition = _selection.record_of(service)
    return {
        "service_entity": record["service_entity"],
        "next_version": record["desired_state_version"],
        "resource_set": _root(record, definition),
    }


def _root(record: Record, definition: Any) -> str:
    """The id of the instance at the top of the tree of owners."""
    seen = [record["id"]]
    while (owner := _model.owner_of(definition)) is not None:
        record = partial.owner_record(record, owner)
        if record["id"] in seen:
            raise LsmError(f"the service instances {', '.join(seen)} own one another in a circle")
        seen.append(record["id"])
        definition = _model.definition_of(definition.owner, record["service_entity_version"])
    return str(record["id"])


# --- what exports ------------------------------------------------------------------------------------------------------


@resource("lsm::LifecycleTransfer", agent="agent", id_attribute="instance_id")
class LifecycleTransfer(Resource):
    """Tells the lifecycle manager how the deployment of an instance ended."""

    fields = ("instance_id", "service_entity", "next_version")


def describe_services() -> list[Record] | None:
    """The definitions of all services in the model. None: nobody wants them, since this is a compile of some instances only; the
    catalog has the definitions of its commit already, and to describe a thousand services takes seconds."""
    services = _compile.inputs()
    if services is not None and services.get("requested") is not None:
        return None
    bindings = _definitions.bindings()
    return [_definitions.described(binding, bindings) for binding in bindings]


export.describe_services = describe_services


def do_export_service_entities(exporter: object, types: Mapping[str, Sequence[Any]], strict: bool) -> None:
    """Brings the definitions of these bindings, by the names of their entities, into the catalog.

    `strict`: a change that would need instances to be rewritten is refused.
    """
    from inmanta_lsm.model import ServiceEntity as Entity

    found = {binding._get_instance().id: binding for bindings in types.values() for binding in bindings}
    bindings = list(found.values())
    client, environment = global_cache.get_client(), _compile.environment()
    for binding in bindings:
        described = _definitions.described(binding, bindings)
        name = described["name"]
        entities = [Entity(environment=environment, **version) for version in described["versions"]]
        if described["is_versioned"]:
            result = client.lsm_service_catalog_update_entity_versions(
                environment, name, entities, described["default_version"]
            )
        elif client.lsm_service_catalog_get_entity(environment, name).code == 404:
            result = client.lsm_service_catalog_create_entity(environment, entities[0])
        else:
            flags = {"strict": True} if strict else {}
            result = client.lsm_service_catalog_update_entity(environment, name, entities[0], **flags)
        if result.code != 200:
            reason = (result.result or {}).get("message", "no reason given")
            raise LsmError(f"the definition of the service {name} is refused: HTTP {result.code}: {reason}")


_BINDINGS = ("lsm::ServiceEntityBinding", "lsm::ServiceBinding")


@export.export("service_entities_exporter", *_BINDINGS)
def service_entities_exporter(exporter: Any, types: Mapping[str, Sequence[Any]]) -> None:
    """Brings all definitions into the catalog."""
    do_export_service_entities(exporter, types, False)


@export.export("service_entities_exporter_strict", *_BINDINGS)
def service_entities_exporter_strict(exporter: Any, types: Mapping[str, Sequence[Any]]) -> None:
    """The same; a change that would need instances to be rewritten is refused."""
    do_export_service_entities(exporter, types, True)
