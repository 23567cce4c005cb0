"""The service inventory and the service catalog, as a compile reaches them.

Everything goes by the methods of one client, which tests of modules replace. Its own answers are what was given to the
compile; what it writes is part of what the compile leaves (`services` of docs/reference/lsm.md § 2.13).
"""

from __future__ import annotations

import copy
import uuid

from inmanta.execute import runtime
from inmanta.protocol.common import Result
from inmanta.util import dict_path

from . import _compile
from ._compile import kept
from ._errors import LsmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from .partial import SelectorAPI

    Record = dict[str, Any]

# Numbers that a question can hold.
_SMALLEST, _LARGEST = -(1 << 63), (1 << 63) - 1
SETS = ("candidate_attributes", "active_attributes", "rollback_attributes")


class InventoryClient:
    """The methods that the module `lsm` calls, answered from the inputs of the compile."""

    def lsm_services_list(self, tid: object, service_entity: str, include_deleted: bool = False) -> Result:
        services = self._given()
        if _compile.has_more():
            services, failure = runtime.world.services({"service": service_entity})
            if failure is not None:
                return Result(500, {"message": failure})
        found = (self._record(given, service_entity) for given in services.get(service_entity, ()))
        return Result(200, {"data": [record for record in found if include_deleted or not record["deleted"]]})

    def used_values(self, service_entity: str, path: str, without: Iterable[str]) -> list[object] | None:
        """The values that a wild path finds in instances that the compile was not given; None: nobody can say."""
        question = {"values": {"service": service_entity, "path": path, "without": sorted(without)}}
        found, failure = runtime.world.services(question)
        return list(found) if failure is None else None

    def free_number(
        self, service_entity: str, path: str, without: Iterable[str], taken: Iterable[int], bounds: tuple[int, int], draw: int
    ) -> list[int] | None:
        """A free number, or an empty list; None: nobody can say. `without` and `taken` are instances of the compile's own, and
        the numbers of these."""
        lower, upper = bounds
        asked = {"service": service_entity, "path": path, "without": sorted(without), "taken": sorted(taken)}
        question = {"free_number": {**asked, "lower": lower, "upper": upper, "draw": draw}}
        found, failure = runtime.world.services(question)
        return list(found) if failure is None else None

    def lsm_services_get_by_id(self, tid: object, service_id: object) -> Result:
        for name, instances in self._given().items():
            for given in instances:
                if given["id"] == str(service_id):
                    return Result(200, {"data": self._record(given, name)})
        if _compile.has_more():
            found, failure = runtime.world.services({"instance": str(service_id)})
            if failure is not None:
                return Result(500, {"message": failure})
            for name, instances in found.items():
                return Result(200, {"data": self._record(instances[0], name)})
        return Result(404, {"message": f"there is no service instance {service_id}"})

    def lsm_services_update_attributes(
        self, tid: object, service_entity: str, service_id: object, current_version: int, attributes: Mapping[str, object]
    ) -> Result:
        edits = [{"target": str(dict_path.InDict(name)), "value": value} for name, value in attributes.items()]
        return self._write(service_entity, service_id, current_version, edits)

    def lsm_services_update_attributes_v2(
        self,
        tid: object,
        service_entity: str,
        service_id: object,
        current_version: int,
        patch_id: str,
        edit: Iterable[Any],
        comment: str | None = None,
    ) -> Result:
        edits = [{"target": one.target, "value": one.value} for one in edit]
        return self._write(service_entity, service_id, current_version, edits)

    def lsm_service_catalog_get_entity(self, tid: object, service_entity: str) -> Result:
        return Result(404, {"message": "the definitions are those of the model"})

    def lsm_service_catalog_get_entity_version(self, tid: object, service_entity: str, version: int) -> Result:
        return self.lsm_service_catalog_get_entity(tid, service_entity)

    # The definitions of a model are part of every export, so nothing is left to do.

    def lsm_service_catalog_create_entity(self, tid: object, service_entity_definition: object) -> Result:
        return Result(200, {})

    def lsm_service_catalog_update_entity(
        self, tid: object, service_entity: str, service_entity_definition: object, **flags: object
    ) -> Result:
        return Result(200, {})

    def lsm_service_catalog_update_entity_versions(
        self, tid: object, service_entity: str, service_entity_definitions: list[object], default_version: int
    ) -> Result:
        return Result(200, {})

    def _given(self) -> Mapping[str, list[Record]]:
        services = _compile.inputs()
        return {} if services is None else services["instances"]

    def _record(self, given: Record, service_entity: str) -> Record:
        return {**given, "service_entity": service_entity, "environment": _compile.environment()}

    def _write(self, service_entity: str, service_id: object, version: int, edits: list[Record]) -> Result:
        write = {
            "service_entity": service_entity,
            "instance": str(service_id),
            "current_version": version,
            "set": "candidate" if _compile.is_validation() else "active",
            "edits": edits,
        }
        runtime.world.write_service({"attributes": write})
        return Result(200, {})


class CacheManager:
    """What the inventory held when the compile began. One for all plugins: `inmanta_plugins.lsm.global_cache`."""

    def __init__(self) -> None:
        self._client = InventoryClient()
        self._selector: type[SelectorAPI] | None = None

    def get_client(self) -> Any:
        """Who is asked."""
        return self._client

    def set_selector_factory(self, selector: type[SelectorAPI]) -> None:
        """Has a class choose the instances of partial compiles."""
        self._selector = selector

    def get_all_instances(
        self, env: object = None, service_entity_name: str | None = None, include_terminated: bool = False, force: bool = False
    ) -> list[Record]:
        """The instances of a service."""
        if service_entity_name is None:
            raise LsmError("get_all_instances needs the name of a service")
        values, key = kept.values(), ("instances", service_entity_name)
        if force or key not in values:
            result = self._client.lsm_services_list(
                tid=_environment(env), service_entity=service_entity_name, include_deleted=True
            )
            all_of = [] if result.code == 404 else _data(result, f"the instances of {service_entity_name}")
            by_id = values.setdefault("by id", {})
            # What the compile knows already it may have changed: an instance has one record.
            values[key] = all_of if force else [by_id.get(record["id"]) or record for record in all_of]
            by_id.update((record["id"], record) for record in values[key])
        found: list[Record] = values[key]
        return [record for record in found if include_terminated or not record["deleted"]]

    def used_values(self, service_entity_name: str, path: str) -> list[object]:
        """All values but null that a wild path finds in any set of the instances of a service.

        A compile of some instances has those at hand, and may have changed them; of all others it gets the values only.
        """
        wild = dict_path.to_wild_path(path)
        known = self._at_hand(service_entity_name)
        ask = getattr(self._client, "used_values", None)
        if known is not None and ask is not None:
            others = ask(service_entity_name, path, (record["id"] for record in known))
            if others is not None:
                return [*others, *_values(known, wild)]
        return _values(self.get_all_instances(None, service_entity_name), wild)

    def free_number(self, service_entity_name: str, path: str, bounds: tuple[int, int], draw: int) -> list[int] | None:
        """A number between these that no instance of a service has at a path, or an empty list: the one at the place `draw`
        among those that are free, counted from the lowest and, at the end, from the lowest again.

        None: it is known from `used_values` only, which costs time for each instance there is.
        """
        known = self._at_hand(service_entity_name)
        ask = getattr(self._client, "free_number", None)
        if known is None or ask is None or not all(_SMALLEST <= number <= _LARGEST for number in bounds):
            return None
        values = _values(known, dict_path.to_wild_path(path))
        taken = {int(value) for value in values if isinstance(value, int) and _SMALLEST <= value <= _LARGEST}
        found: list[int] | None = ask(service_entity_name, path, (record["id"] for record in known), taken, bounds, draw)
        return found

    def _at_hand(self, service_entity_name: str) -> list[Record] | None:
        """The instances of a service that a compile of some instances has; None: it has them all."""
        values = kept.values()
        if not _compile.has_more() or ("instances", service_entity_name) in values:
            return None
        by_id: dict[str, Record | None] = values.setdefault("by id", {})
        return [record for record in by_id.values() if record and record["service_entity"] == service_entity_name]

    def get_instance(
        self,
        env: object = None,
        service_entity: str | None = None,
        instance_id: object = None,
        include_terminated: bool = False,
        force: bool = False,
        service_entity_name: str | None = None,
    ) -> Record | None:
        """One instance, or None; without the name of a service (under either argument), of whatever service."""
        service_entity = service_entity or service_entity_name
        values = kept.values()
        is_one_by_one = _compile.has_more() and not force
        if service_entity is not None and not is_one_by_one and (force or ("instances", service_entity) not in values):
            self.get_all_instances(env, service_entity, force=force)
        by_id = values.setdefault("by id", {})
        wanted = str(instance_id)
        if wanted not in by_id:
            result = self._client.lsm_services_get_by_id(tid=_environment(env), service_id=uuid.UUID(wanted))
            by_id[wanted] = None if result.code == 404 else _data(result, f"the instance {wanted}")
        found: Record | None = by_id[wanted]
        if found is None or (found["deleted"] and not include_terminated):
            return None
        return found if service_entity in (None, found["service_entity"]) else None

    def selected(self) -> dict[str, list[Record]] | None:
        """The instances of a partial compile, by service; None: the compile is one of all."""
        requested = _compile.requested()
        if requested is None:
            return None
        values = kept.values()
        if "selected" not in values:
            from .partial import DefaultSelector

            selector = (self._selector or DefaultSelector)(_compile.environment(), requested)
            values["selected"] = selector.select_all()
        found: dict[str, list[Record]] = values["selected"]
        return found

    def group(self) -> dict[str, list[Record]] | None:
        """The instances that the requested ones belong with, by service, if the compile was given just those."""
        services = _compile.inputs()
        if services is None or not _compile.has_more():
            return None
        return {
            name: [self._known(self._client.lsm_services_get_by_id(_environment(None), given["id"])) for given in instances]
            for name, instances in services["instances"].items()
        }

    def _known(self, result: Any) -> Record:
        by_id: dict[str, Record] = kept.values().setdefault("by id", {})
        record: Record = _data(result, "an instance")
        return by_id.setdefault(record["id"], record)

    def reset(self) -> None:
        """Forgets what is known of instances."""
        kept.forget()


def _values(records: Iterable[Record], wild: dict_path.WildDictPath) -> list[object]:
    sets = (record[kind] for record in records if not record["deleted"] for kind in SETS if record[kind] is not None)
    return [value for attributes in sets for value in wild.get_elements(attributes) if value is not None]


def _environment(given: object) -> object:
    """A UUID where it is one, as the methods of the API want it."""
    text = str(given or _compile.environment())
    try:
        return uuid.UUID(text)
    except ValueError:
        return text


def _data(result: Any, what: str) -> Any:
    if result.code != 200:
        reason = (result.result or {}).get("message", "no reason given")
        raise LsmError(f"cannot get {what}: HTTP {result.code}: {reason}")
    return result.result["data"]


global_cache = CacheManager()


class Edit:
    """An edit, where the records of `inmanta_lsm.model` cannot be had, for lack of pydantic."""

    def __init__(self, edit_id: str, operation: str, target: str, value: object) -> None:
        self.edit_id, self.operation, self.target, self.value = edit_id, operation, target, value


def _edit(number: int, target: str, value: object) -> Any:
    try:
        from inmanta_lsm.model import PatchCallEdit
    except ImportError:
        return Edit(str(number), "replace", target, value)
    return PatchCallEdit(edit_id=str(number), operation="replace", target=target, value=value)


def write(record: Record, edits: Mapping[str, object], top_level: bool = False) -> None:
    """Stores values at paths of an instance's attributes, and has the rest of the compile see them.

    `top_level`: the paths are names of attributes, and the entity may be one without strict modifiers.
    """
    if not edits:
        return
    client, name, version = global_cache.get_client(), record["service_entity"], record["version"]
    tid, instance = _environment(None), uuid.UUID(record["id"])
    if top_level:
        result = client.lsm_services_update_attributes(tid, name, instance, version, dict(edits))
    else:
        patch = str(uuid.uuid5(instance, f"{version} {sorted(edits)}"))
        made = [_edit(number, target, value) for number, (target, value) in enumerate(edits.items())]
        result = client.lsm_services_update_attributes_v2(tid, name, instance, version, patch, made)
    if result.code != 200:
        reason = (result.result or {}).get("message", "no reason given")
        raise LsmError(f"cannot store {', '.join(edits)} of the {name} {record['id']}: HTTP {result.code}: {reason}")
    kind = "candidate_attributes" if _compile.is_validation() else "active_attributes"
    # The answers of a client are not ours to change.
    attributes = copy.deepcopy(record[kind] if record[kind] is not None else record["active_attributes"] or {})
    for target, value in edits.items():
        dict_path.to_path(target).set_element(attributes, value)
    record[kind] = attributes
