"""Which instances take part in a compile, and with which attributes. Source: docs/reference/lsm.md § 2.6, § 3.3."""

from __future__ import annotations

import logging

from . import _compile, _definitions, _model
from ._compile import kept
from ._errors import LsmError
from ._inventory import global_cache
from ._tracking import with_flags

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Record = dict[str, Any]

logger = logging.getLogger("inmanta_plugins.lsm")


def instances(binding: Any, lowest: int | None, highest: int | None, flags: tuple[str, str] | None) -> list[Record]:
    """The instances of a binding's service that take part, each with the attributes that count."""
    if not _compile.sees_instances():
        return []
    name = _model.service_name(binding)
    partial = global_cache.selected()
    records = partial.get(name, []) if partial is not None else global_cache.get_all_instances(None, name)
    if _model.kind_of(binding) == "lsm::ServiceBindingVersion":
        lowest = highest = binding.version
    found = []
    for record in records:
        version = record["service_entity_version"]
        if (lowest is None or version >= lowest) and (highest is None or version <= highest):
            taking_part = instance(record, _model.definition_of(binding, version), flags)
            if taking_part is not None:
                found.append(taking_part)
    return found


def instance(record: Record, definition: Any, flags: tuple[str, str] | None) -> Record | None:
    """An instance with the attributes that count; None: it takes no part."""
    state = state_of(record, definition)
    kind = chosen_set(record, state)
    if kind is None:
        return None
    _allocate(record, definition, kind)
    attributes = record[f"{kind}_attributes"]
    if flags is not None:
        previous = previous_set(record, state)
        shape = _definitions.shape(definition)
        if not definition.strict_modifier_enforcement:
            raise LsmError(f"embedded entities of {record['service_entity']} are tracked only with strict modifiers")
        attributes = with_flags(shape, attributes, previous, *flags)
    return {**record, "attributes": _definitions.exposed(definition, attributes)}


def state_of(record: Record, definition: Any) -> Record:
    """The state that an instance is in."""
    states = _model.states(definition)
    state = states.get(record["state"])
    if state is None:
        raise LsmError(
            f"the {record['service_entity']} {record['id']} is in the state {record['state']!r}, which the lifecycle"
            f" {definition.lifecycle.name} has not: it has {', '.join(sorted(states))}"
        )
    return state


def chosen_set(record: Record, state: Record) -> str | None:
    """The name of the attribute set that counts; None: the instance takes no part."""
    if state["deleted"] or record["deleted"]:
        return None
    is_validated = record["id"] == _compile.validated()
    chosen: str | None
    if not _compile.is_validation():
        chosen = "active" if state["export_resources"] else None
    else:
        chosen = state["validate_self" if is_validated else "validate_others"]
    if chosen is None or record[f"{chosen}_attributes"] is not None:
        return chosen
    what = f"the {record['service_entity']} {record['id']} in the state {record['state']} has no {chosen} attributes"
    if is_validated:
        raise LsmError(f"{what}, with which it is to be validated: its lifecycle has to put them there before")
    logger.debug("%s: it takes no part", what)
    return None


def previous_set(record: Record, state: Record) -> Record | None:
    """What the attributes that count are compared with."""
    is_validated = record["id"] == _compile.validated()
    kind = state["previous_attr_set_on_validate" if is_validated else "previous_attr_set_on_export"]
    found: Record | None = None if kind is None else record[f"{kind}_attributes"]
    return found


def _allocate(record: Record, definition: Any, kind: str) -> None:
    """Has the allocators fill in what the validated instance lacks, once."""
    spec_name = definition.allocation_spec
    values = kept.values()
    if spec_name is None or record["id"] != _compile.validated() or ("allocated", record["id"]) in values:
        return
    from .allocation import spec

    spec(spec_name).run(record, kind)
    values["allocated", record["id"]] = True


def record_of(service: Any) -> tuple[Record, Any]:
    """The instance behind an entity of the model, and its definition."""
    binding = service.entity_binding
    name = _model.service_name(binding)
    record = global_cache.get_instance(None, name, service.instance_id)
    if record is None:
        raise LsmError(f"there is no {name} {service.instance_id} in the service inventory")
    return record, _model.definition_of(binding, record["service_entity_version"])
