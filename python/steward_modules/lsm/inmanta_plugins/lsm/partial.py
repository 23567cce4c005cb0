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
            below = [record for record in global_cache.get_all_instances(self.env, name) if _owner_id(record, service) in ids]
            if below:
                self._add(name, below, selected)


def _owner_id(record: Record, service: str) -> object:
    """The id of the instance that owns an instance, if it is one of that service."""
    owner = ownership(record)
    return attribute(record, owner[1]) if owner is not None and owner[0] == service else None


def ownership(record: Record) -> Owner | None:
    """The owner of an instance, by its own version of the service: as the compile was told, the catalog or the model says it."""
    service, version = record["service_entity"], int(record.get("service_entity_version") or 0)
    values, key = kept.values(), ("owner", service, version)
    if key not in values:
        values[key] = _ownership(service, version)
    found: Owner | None = values[key]
    return found


def _ownership(service: str, version: int) -> Owner | None:
    services = _compile.inputs()
    if services is not None:
        other = (services.get("owners_of_versions") or {}).get(service) or {}
        owner = other[str(version)] if str(version) in other else services["owners"].get(service)
        return None if owner is None else (owner["owner"], owner["relation"])
    definition = _definition(service, version)
    if definition is not None:
        return _owner_in(definition)
    versions = _owners_in_model().get(service, {})
    # A model may have left out the version that an instance is of; then it is like those that there are.
    return versions[version] if version in versions else next(filter(None, versions.values()), None)


def owned_services(service: str) -> list[str]:
    """The services of which instances of some version are owned by those of this one."""
    services = _compile.inputs()
    if services is not None:
        all_owners = {name: [owner] for name, owner in services["owners"].items()}
        for name, versions in (services.get("owners_of_versions") or {}).items():
            all_owners.setdefault(name, []).extend(filter(None, versions.values()))
        return [name for name, owners in all_owners.items() if any(owner["owner"] == service for owner in owners)]
    definition = _definition(service)
    if definition is not None:
        return list(definition.get("owned_entities") or ())
    found = _owners_in_model().items()
    return [name for name, versions in found if any(owner is not None and owner[0] == service for owner in versions.values())]


def _definition(service: str, version: int | None = None) -> Record | None:
    """What the catalog says of a version; of the default one, if it does not know that."""
    client, environment = global_cache.get_client(), _compile.environment()
    if version is not None and hasattr(client, "lsm_service_catalog_get_entity_version"):
        result = client.lsm_service_catalog_get_entity_version(environment, service, version)
        if result.code == 200:
            found: Record = result.result["data"]
            return found
    result = client.lsm_service_catalog_get_entity(environment, service)
    return result.result["data"] if result.code == 200 else None


def _owner_in(definition: Record) -> Owner | None:
    return (definition["owner"], definition["relation_to_owner"]) if definition.get("owner") else None


def _owners_in_model() -> dict[str, dict[int, Owner | None]]:
    """The owner of each version of each service, as far as the model has bindings by now."""
    from ._model import kind_of, owner_of, service_names

    found: dict[str, dict[int, Owner | None]] = {}
    for instance in runtime.world.instances("lsm::DefinitionBinding"):
        binding = DynamicProxy.return_value(instance)
        version = binding.version if kind_of(binding) == "lsm::ServiceBindingVersion" else 0
        for name in service_names(binding):
            found.setdefault(name, {})[int(version)] = owner_of(binding)
    return found


def root_of(record: Record) -> Record:
    """The instance at the top of the tree that an instance belongs to. Its id is the name of the tree's resource set."""
    seen = [record["id"]]
    while (owner := ownership(record)) is not None:
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
