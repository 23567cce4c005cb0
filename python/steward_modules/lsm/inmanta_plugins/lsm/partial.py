"""Which instances a partial compile is about. Source: docs/reference/lsm.md § 4.5, § 4.6."""

from __future__ import annotations

import abc

from inmanta.execute import runtime
from inmanta.execute.proxy import DynamicProxy

from . import _compile
from ._compile import kept
from ._errors import LsmError
from ._inventory import SETS, global_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Record = dict[str, Any]

# The name of the owning service, and the relation to the owning instance.
Owner = tuple[str, str]


def attribute(instance: Record, name: str) -> Any:
    """The value in the first of the three sets that has something in it."""
    for kind in SETS:
        if instance[kind]:
            return instance[kind].get(name)
    return None


class SelectorAPI(abc.ABC):
    """Chooses the instances of a partial compile."""

    def __init__(self, env: object, requested_instances: list[str]) -> None:
        self.env = env
        self.requested_instances = requested_instances

    @abc.abstractmethod
    def select_all(self) -> dict[str, list[Record]]:
        """The instances by the names of their services; of services that are not named there are none."""


class AbstractSelector(SelectorAPI):
    """A selector with helpers."""

    def _get_attribute(self, instance: Record, name: str) -> Any:
        """The value of an attribute, in the set that is the newest."""
        return attribute(instance, name)

    def _get_instance(self, instance_id: object) -> Record:
        """An instance of whatever service, also one that has ended."""
        found = global_cache.get_instance(self.env, None, instance_id, include_terminated=True)
        if found is None:
            raise LsmError(f"there is no service instance {instance_id}")
        return found


class DefaultSelector(AbstractSelector):
    """The trees of owners that the requested instances belong to, each as a whole."""

    def select_all(self) -> dict[str, list[Record]]:
        group = global_cache.group()
        if group is not None:
            # Whoever asked for the compile has found them, without a look at all the others.
            return group
        selected: dict[str, list[Record]] = {}
        roots: dict[str, Record] = {}
        for requested in self.requested_instances:
            root = root_of(self._get_instance(requested))
            roots[root["id"]] = root
        services = {root["service_entity"] for root in roots.values()}
        for service in services:
            level = [root for root in roots.values() if root["service_entity"] == service]
            self._add(service, level, selected)
        return selected

    def _add(self, service: str, level: list[Record], selected: dict[str, list[Record]]) -> None:
        """Adds instances of a service, and all that they own."""
        selected.setdefault(service, []).extend(level)
        ids = {record["id"] for record in level}
        for name in owned_services(service):
            _, relation = ownership(name) or ("", "")
            below = [record for record in global_cache.get_all_instances(self.env, name) if attribute(record, relation) in ids]
            if below:
                self._add(name, below, selected)


def ownership(service: str) -> Owner | None:
    """The owner of the instances of a service: as the compile was told, as the catalog has it, as the model says it."""
    values, key = kept.values(), ("owner", service)
    if key not in values:
        values[key] = _ownership(service)
    found: Owner | None = values[key]
    return found


def _ownership(service: str) -> Owner | None:
    services = _compile.inputs()
    if services is not None:
        owner = services["owners"].get(service)
        return None if owner is None else (owner["owner"], owner["relation"])
    definition = _definition(service)
    if definition is not None:
        return (definition["owner"], definition["relation_to_owner"]) if definition.get("owner") else None
    return _owners_in_model().get(service)


def owned_services(service: str) -> list[str]:
    """The services whose instances are owned by those of this one."""
    services = _compile.inputs()
    if services is not None:
        return [name for name, owner in services["owners"].items() if owner["owner"] == service]
    definition = _definition(service)
    if definition is not None:
        return list(definition.get("owned_entities") or ())
    return [name for name, (owner, _) in _owners_in_model().items() if owner == service]


def _definition(service: str) -> Record | None:
    """What the catalog says."""
    result = global_cache.get_client().lsm_service_catalog_get_entity(_compile.environment(), service)
    return result.result["data"] if result.code == 200 else None


def _owners_in_model() -> dict[str, Owner]:
    """The owner of each service, as far as the model has bindings by now."""
    from ._model import owner_of, service_names

    found: dict[str, Owner] = {}
    for instance in runtime.world.instances("lsm::DefinitionBinding"):
        binding = DynamicProxy.return_value(instance)
        owner = owner_of(binding)
        if owner is not None:
            found.update((name, owner) for name in service_names(binding))
    return found


def root_of(record: Record) -> Record:
    """The instance at the top of the tree that an instance belongs to. Its id is the name of the tree's resource set."""
    seen = [record["id"]]
    while (owner := ownership(record["service_entity"])) is not None:
        record = owner_record(record, owner)
        if record["id"] in seen:
            raise LsmError(f"the service instances {', '.join(seen)} own one another in a circle")
        seen.append(record["id"])
    return record


def owner_record(record: Record, owner: Owner) -> Record:
    """The instance that owns an instance."""
    _, relation = owner
    wanted = attribute(record, relation)
    found = None if wanted is None else global_cache.get_instance(None, None, wanted, include_terminated=True)
    if found is None:
        what = "no id" if wanted is None else f"the id {wanted}, which no instance has"
        raise LsmError(f"the {record['service_entity']} {record['id']} has in {relation}, which leads to its owner, {what}")
    return found
