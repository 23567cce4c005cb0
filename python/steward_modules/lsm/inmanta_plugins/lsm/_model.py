"""Bindings and lifecycles, read from the model."""

from __future__ import annotations

from inmanta.ast import MultiUnsetException, OptionalValueException, UnsetException
from inmanta.execute.proxy import DictProxy, DynamicProxy, SequenceProxy

from ._compile import kept
from ._errors import LsmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Record = dict[str, Any]

# What an older `model_state` stands for: exported, the set of its own validation, the set of the validation of others.
# One of the first two is part of the desired state as soon as it has an active set. Source: docs/reference/lsm.md § 3.2.2.
_MODEL_STATES: dict[str, tuple[bool, str | None, str | None]] = {
    "inactive": (False, None, None),
    "candidate": (True, "candidate", "active"),
    "designed": (True, "candidate", "candidate"),
    "active": (True, "active", "active"),
}
_STATE = (
    "name",
    "label",
    "export_resources",
    "validate_self",
    "validate_others",
    "purge_resources",
    "deleted",
    "values",
    "previous_attr_set_on_validate",
    "previous_attr_set_on_export",
)
_TRANSFER = (
    "auto",
    "validate",
    "api_set_state",
    "on_update",
    "on_delete",
    "resource_based",
    "config_name",
    "description",
    "target_operation",
    "error_operation",
    "target_same_desired_state",
    "error_same_desired_state",
)


def plain(value: Any) -> Any:
    """A value of the model as Python's own."""
    if isinstance(value, (DictProxy, dict)):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (SequenceProxy, list)):
        return [plain(item) for item in value]
    return value


def optional(proxy: Any, relation: str) -> Any:
    """What a relation leads to; None if it leads nowhere."""
    try:
        return getattr(proxy, relation)
    except OptionalValueException:
        return None


def notes_of(proxy: Any) -> Record:
    """The attribute `__annotations`; proxies keep names that begin like this for Python."""
    found: Record = plain(proxy._get_instance().get_attribute("__annotations").get_value())
    return found


def _once(what: str, proxy: Any, find: Callable[[Any], Any]) -> Any:
    """What is found of an instance of the model, for the rest of the compile: what can be read of the model does not change.

    The plugins are called for each service, of which there are many, and ask for the same few bindings.
    """
    values, key = kept.values(), (what, proxy._get_instance().id)
    if key not in values:
        values[key] = find(proxy)
    return values[key]


def kind_of(binding: Any) -> str:
    """`lsm::ServiceBinding` for all with versions, `lsm::ServiceBindingVersion`, or `lsm::ServiceEntityBinding` for all others."""
    kind: str = _once("kind", binding, _kind_of)
    return kind


def _kind_of(binding: Any) -> str:
    entity = binding._type()
    names = {entity.get_full_name(), *entity.get_all_parent_names()}
    for name in ("lsm::ServiceBinding", "lsm::ServiceBindingVersion", "lsm::ServiceEntityBinding"):
        if name in names:
            return name
    raise LsmError(f"{entity.get_full_name()} is no binding of a service")


def service_names(binding: Any) -> list[str]:
    """The name of the service of a binding; none for a version that belongs to no binding."""
    if kind_of(binding) == "lsm::ServiceBindingVersion":
        binding = optional(binding, "service_binding")
    return [] if binding is None else [binding.service_entity_name.replace("{service_entity}", _short_name(binding))]


def _short_name(binding: Any) -> str:
    entity: str = getattr(binding, "service_entity", "")
    return entity.rsplit("::", 1)[-1]


def service_name(binding: Any) -> str:
    """The name of the service of a binding."""
    name: str = _once("service name", binding, _service_name)
    return name


def _service_name(binding: Any) -> str:
    found = service_names(binding)
    if not found:
        raise LsmError(f"the version of the definition of {binding.service_entity} is in no lsm::ServiceBinding")
    return found[0]


def definition_of(binding: Any, version: int) -> Any:
    """The binding of one version of a definition."""
    if kind_of(binding) != "lsm::ServiceBinding":
        return binding
    versions = {found.version: found for found in binding.versions}
    if version not in versions:
        known = ", ".join(map(str, sorted(versions)))
        raise LsmError(f"the service {service_name(binding)} has no version {version}; it has {known}")
    return versions[version]


def owner_of(binding: Any) -> tuple[str, str] | None:
    """The name of the owning service, and the relation to it."""
    found: tuple[str, str] | None = _once("owner", binding, _owner_of)
    return found


def _owner_of(binding: Any) -> tuple[str, str] | None:
    relation = binding.relation_to_owner
    # Whether there is an owner, without one, is known late in a compile. So that is looked at for definitions only.
    owner = None if relation is None else optional(binding, "owner")
    if relation is not None and owner is None:
        raise half_an_owner(binding)
    return None if owner is None else (service_name(owner), relation)


def half_an_owner(binding: Any) -> LsmError:
    """The error of a binding that has one of `owner` and `relation_to_owner`."""
    return LsmError(f"the binding of {binding.service_entity} has only one of `owner` and `relation_to_owner`")


def states(definition: Any) -> dict[str, Record]:
    """The states of a definition's lifecycle by name, in the form of the catalog."""
    found: dict[str, Record] = _once("states", definition, _states)
    return found


def _states(definition: Any) -> dict[str, Record]:
    return {state["name"]: state for state in lifecycle(definition.lifecycle)["states"]}


def lifecycle(machine: DynamicProxy) -> Record:
    """A lifecycle in the form of the catalog. Source: docs/reference/lsm.md § 3.1.1."""
    values, key = kept.values(), ("lifecycle", machine._get_instance().id)
    if key not in values:
        values[key] = _lifecycle(machine)
    found: Record = values[key]
    return found


def _lifecycle(machine: Any) -> Record:
    known: dict[int, Record] = {}

    def name_of(state: Any) -> str:
        number = state._get_instance().id
        if number not in known:
            known[number] = _state(state)
        name: str = known[number]["name"]
        return name

    initial = name_of(machine.initial_state)
    alternatives = [name_of(state) for state in machine.alternative_initial_states]
    transfers = []
    # It is known late which transfers have no error edge. All of them are waited for at once, or the plugin would be called again
    # for each.
    unset: list[object] = []
    for transfer in machine.transfers:
        try:
            error = optional(transfer, "error")
        except UnsetException as exception:
            unset.append(exception.get_result_variable())
            continue
        made: Record = {"source": name_of(transfer.source), "target": name_of(transfer.target)}
        made["error"] = None if error is None else name_of(error)
        made.update((name, getattr(transfer, name)) for name in _TRANSFER)
        made["annotations"] = notes_of(transfer)
        transfers.append(made)
    if unset:
        raise MultiUnsetException(f"the lifecycle {machine.name} waits for its error edges", unset)
    return {
        "name": machine.name,
        "initial_state": initial,
        "alternative_initial_states": alternatives,
        "states": list(known.values()),
        "transfers": transfers,
    }


def _state(state: Any) -> Record:
    made = {name: plain(getattr(state, name)) for name in _STATE}
    made["annotations"] = notes_of(state)
    stands_for = state.model_state
    if stands_for is not None:
        if stands_for not in _MODEL_STATES:
            raise LsmError(f"the state {made['name']} has the model_state {stands_for!r}; it is one of {', '.join(_MODEL_STATES)}")
        others = ("export_resources", "validate_self", "validate_others")
        given = [name for name in others if made[name] is not None]
        if given:
            raise LsmError(f"the state {made['name']} has a model_state, which stands for {', '.join(given)}, too: give one of them")
        made.update(zip(others, _MODEL_STATES[stands_for]))
    elif made["export_resources"] is None:
        raise LsmError(f"the state {made['name']} needs export_resources: whether its instances are part of the desired state")
    return made
