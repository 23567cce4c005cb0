"""The definitions of services, made of entities of the model. Source: docs/reference/lsm.md § 1.2 to § 1.6, § 2.12."""

from __future__ import annotations

import logging

from inmanta.execute import runtime
from inmanta.execute.proxy import DynamicProxy

from . import _lifecycles, _model, _types
from ._compile import kept
from ._errors import LsmError

logger = logging.getLogger("inmanta_plugins.lsm")

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ._tracking import Shape

    Record = dict[str, Any]
    Info = dict[str, Any]

# What the entities of this module declare is no part of a service's interface.
_OWN = frozenset(
    (
        "instance_id",
        "entity_binding",
        "resources",
        "owned_resources",
        "purge_resources",
        "parent",
        "requires",
        "provides",
    )
)
# They stand beside the attribute that they say something about.
_HELPERS = ("__modifier", "__annotations", "__description")
# With it, an embedded entity says which of its indexes tells its elements apart.
_NAMED_KEY = "__lsm_key_attributes"
# Which relations and attributes clients may set is told from what they may change.
_IDENTITY_TYPES = ("string", "int")


def bindings() -> list[Any]:
    """The bindings of the model that are a service each."""
    found = [*runtime.world.instances("lsm::ServiceEntityBinding"), *runtime.world.instances("lsm::ServiceBinding")]
    return [DynamicProxy.return_value(instance) for instance in found]


def described(binding: Any, all_bindings: Sequence[Any]) -> Record:
    """All versions of the definition of a service, as the catalog takes them."""
    name = _model.service_name(binding)
    if sum(_model.service_name(other) == name for other in all_bindings) > 1:
        raise LsmError(f"the model has several bindings of the service {name}: their names tell services apart")
    is_versioned = _model.kind_of(binding) == "lsm::ServiceBinding"
    versions = sorted(binding.versions, key=lambda one: int(one.version)) if is_versioned else [binding]
    records = [Definition(name, one, one.version if is_versioned else 0).record() for one in versions]
    numbers = [record["version"] for record in records]
    if len({*numbers}) < len(numbers):
        raise LsmError(f"the service {name} has two versions with one number")
    default = binding.default_version if is_versioned else 0
    if default not in numbers:
        raise LsmError(f"the default version {default} of the service {name} is none of its versions")
    owned = [_model.service_name(other) for other in all_bindings if name in _owners(other)]
    for record in records:
        record["owned_entities"] = owned
    return {"name": name, "default_version": default, "is_versioned": is_versioned, "versions": records}


def _owners(binding: Any) -> set[str]:
    definitions = binding.versions if _model.kind_of(binding) == "lsm::ServiceBinding" else [binding]
    owners = [_model.owner_of(definition) for definition in definitions]
    return {owner[0] for owner in owners if owner is not None}


def entity_info(name: str) -> Info:
    """What the compiler says of an entity now: annotations of relations come with time."""
    info: Info | None = runtime.world.entity(name)  # type: ignore[assignment]
    if info is None:
        raise LsmError(f"{name} is no entity of this model")
    return info


def kept_info(name: str) -> Info:
    """The same, as it was when it was first asked for."""
    values, key = kept.values(), ("entity", name)
    if key not in values:
        values[key] = entity_info(name)
    found: Info = values[key]
    return found


def inherited_documentation(info: Info) -> dict[str, str]:
    """What the entities that an entity extends say of attributes; of several the most derived one counts."""
    found: dict[str, str] = {}
    # Whatever extends an entity has more parents than that. The first of equals is to come last, since the last one counts.
    for parent in sorted(map(kept_info, reversed(info["parents"])), key=lambda one: len(one["parents"])):
        found.update(_types.documentation(parent["comment"])[1])
    return found


def is_ever_given(entity: str, attribute: str) -> bool:
    """Whether any constructor of an entity names an attribute."""
    values, key = kept.values(), ("given", entity, attribute)
    if key not in values:
        values[key] = any(one["given"] for one in kept_info(entity)["attributes"] if one["name"] == attribute)
    found: bool = values[key]
    return found


def exposed(definition: Any, attributes: Record) -> Record:
    """The attributes that the entity has, with those that may be null and are missing."""
    names, nullable = _exposed_names(definition.service_entity)
    found = {name: value for name, value in attributes.items() if name in names}
    for name in nullable:
        found.setdefault(name, None)
    return found


def _exposed_names(entity: str) -> tuple[set[str], list[str]]:
    """The names of all attributes of an entity, and those of plain ones that may be null and are given no value."""
    values, key = kept.values(), ("exposed", entity)
    if key not in values:
        info = kept_info(entity)
        optional = (one for one in info["attributes"] if one["optional"] and not one["relation"] and not one["has_default"])
        nullable = [one["name"] for one in optional if is_exposed(info, one["name"])]
        values[key] = {one["name"] for one in info["attributes"]}, nullable
    found: tuple[set[str], list[str]] = values[key]
    return found


def is_exposed(info: Info, name: str) -> bool:
    """Whether a plain attribute is part of the interface."""
    if name.startswith("_") or name in _OWN:
        return False
    names = {one["name"] for one in info["attributes"]}
    return not any(name.endswith(helper) and name.removesuffix(helper) in names for helper in _HELPERS)


def is_embedded(info: Info) -> bool:
    return info["name"] == "lsm::EmbeddedEntity" or "lsm::EmbeddedEntity" in info["parents"]


def shape(definition: Any) -> Shape:
    """What is embedded in a service, for the comparison of attribute sets."""
    values, key = kept.values(), ("shape", definition.service_entity)
    if key not in values:
        values[key] = _shape(kept_info(definition.service_entity), [])
    found: Shape = values[key]
    return found


def _shape(info: Info, above: list[str]) -> Shape:
    made: Shape = []
    for one in info["attributes"]:
        if one["relation"] and not one["name"].startswith("_") and one["name"] not in _OWN:
            target = kept_info(one["type_name"])
            if is_embedded(target) and target["name"] not in above:
                keys = tuple(key_candidates(target, one["inverse"])[0])
                made.append((one["name"], one["high"] != 1, keys, _shape(target, [*above, target["name"]])))
    return made


def key_candidates(info: Info, back: str | None) -> tuple[list[str], list[list[str]]]:
    """The key attributes of an embedded entity (none: there is no index, or there are several), and all that it could have."""
    by_name = {one["name"]: one for one in info["attributes"]}
    found: list[list[str]] = []
    for index in info["indices"]:
        plain = [name for name in index if not by_name[name]["relation"]]
        others = [name for name in index if by_name[name]["relation"] and name != back]
        if plain and not others and all(is_exposed(info, name) for name in plain):
            # An index has its attributes by name; a key has them in the order of their declaration.
            found.append([name for name in by_name if name in plain])
    named = named_key(info)
    if named is not None:
        return (next((key for key in found if set(key) == set(named)), []), found)
    return (found[0] if len(found) == 1 else [], found)


def named_key(info: Info) -> list[str] | None:
    """The key attributes that an embedded entity names itself, whether there is an index of them or not."""
    found: list[str] | None = next((one["default"] for one in info["attributes"] if one["name"] == _NAMED_KEY), None)
    return found


class Definition:
    """One version of a definition, in the making."""

    def __init__(self, service: str, binding: Any, version: int) -> None:
        self.service, self.binding, self.version = service, binding, version
        self.strict = bool(binding.strict_modifier_enforcement)
        self.problems: list[str] = []

    def record(self) -> Record:
        """The definition in the form of docs/reference/lsm.md § 1.2; LsmError with all that is wrong with it."""
        binding = self.binding
        info = entity_info(binding.service_entity)
        if "lsm::ServiceEntity" not in info["parents"]:
            raise LsmError(f"{info['name']}, the entity of the service {self.service}, does not extend lsm::ServiceEntity")
        lifecycle = _model.lifecycle(binding.lifecycle)
        self.problems += _lifecycles.problems(lifecycle)
        fields = self.fields(info, None, "", [info["name"]])
        owner = _model.owner_of(binding)
        record: Record = {
            "name": self.service,
            "version": self.version,
            **fields,
            "lifecycle": lifecycle,
            "config": {one["config_name"]: True for one in lifecycle["transfers"] if one["config_name"] is not None},
            "service_identity": binding.service_identity,
            "service_identity_display_name": binding.service_identity_display_name,
            "key_attributes": key_candidates(info, None)[0] or None,
            "strict_modifier_enforcement": self.strict,
            "owner": None if owner is None else owner[0],
            "relation_to_owner": None if owner is None else owner[1],
        }
        self._check_identity(record)
        self._check_owner(record)
        self._check_allocation()
        if self.problems:
            what = f"the definition of the service {self.service}"
            if self.version:
                what += f" (version {self.version})"
            raise LsmError(f"{what} is not right:" + "".join(f"\n- {problem}" for problem in self.problems))
        return record

    def fields(self, info: Info, back: str | None, place: str, above: list[str]) -> Record:
        """What services and embedded entities have in common. `place`: the path to here, for messages."""
        description, of_attributes = _types.documentation(info["comment"])
        inherited = inherited_documentation(info)
        attributes, embedded, relations = [], [], []
        by_name = {one["name"]: one for one in info["attributes"]}
        self._check_helpers(by_name, place)
        for one in info["attributes"]:
            name = one["name"]
            if name.startswith("_") or name in _OWN:
                continue
            text = of_attributes.get(name)
            if text is None:
                helper = by_name.get(f"{name}__description", {}).get("default")
                text = inherited.get(name) if helper is None else helper
            if not one["relation"]:
                if is_exposed(info, name):
                    attributes.append(self._attribute(one, by_name, text))
            elif name != back:
                target = entity_info(one["type_name"])
                notes = Notes(one["annotations"])
                if is_embedded(target):
                    embedded.append(self._embedded(one, target, notes, text, place, above))
                elif notes.is_service:
                    relations.append(self._relation(one, target, notes, text))
                elif notes.has_modifier:
                    self._doubt(
                        f"{place}.{name}".lstrip("."),
                        f"the relation has a modifier, but {target['name']} extends no lsm::EmbeddedEntity and it is no"
                        " lsm::__service__ relation: clients do not see it",
                    )
        annotations = by_name.get("__annotations", {}).get("default")
        return {
            "description": description,
            "attributes": attributes,
            "embedded_entities": embedded,
            "inter_service_relations": relations,
            "entity_annotations": annotations or {},
        }

    def _attribute(self, one: Info, by_name: dict[str, Info], text: str | None) -> Record:
        name = one["name"]

        def helper(suffix: str, default: Any) -> Any:
            found = by_name.get(name + suffix, {}).get("default")
            return default if found is None else found

        return {
            "name": name,
            **_types.described(one["type_name"]),
            "description": text,
            "modifier": helper("__modifier", "rw"),
            "default_value": one["default"],
            "default_value_set": one["has_default"],
            "attribute_annotations": helper("__annotations", {}),
        }

    def _relation(self, one: Info, target: Info, notes: Notes, text: str | None) -> Record:
        services = _services_of(target["name"])
        if not services:
            self.problems.append(f"{one['name']} leads to {target['name']}, which is the entity of no service")
        elif len(services) > 1:
            known = ", ".join(services)
            self.problems.append(
                f"{one['name']} leads to {target['name']}, which entities of several services extend ({known}): a relation leads to one"
            )
        return {
            "name": one["name"],
            "entity_type": services[0] if services else "",
            "description": text,
            "modifier": notes.modifier,
            "lower_limit": one["low"],
            "upper_limit": one["high"],
            "attribute_annotations": notes.annotations,
        }

    def _embedded(
        self, one: Info, target: Info, notes: Notes, text: str | None, place: str, above: list[str]
    ) -> Record:
        name, path = one["name"], f"{place}.{one['name']}".lstrip(".")
        if target["name"] in above:
            raise LsmError(f"{path} of the service {self.service}: {target['name']} is embedded in itself")
        self._check_back(one, target, path)
        keys, candidates = key_candidates(target, one["inverse"])
        fields = self.fields(target, one["inverse"], path, [*above, target["name"]])
        record = {
            "name": name,
            "type": target["name"],
            "modifier": notes.modifier,
            "lower_limit": one["low"],
            "upper_limit": one["high"],
            "key_attributes": keys or None,
            "attribute_annotations": notes.annotations,
            **fields,
        }
        if text is not None:
            record["description"] = text
        if self.strict:
            self._check_keys(record, named_key(target), candidates, path)
            if notes.modifier == "r":
                self._check_read_only(record, path)
        return record

    # --- rules -------------------------------------------------------------------------------------------------------

    def _doubt(self, path: str, text: str) -> None:
        """Something that may be a mistake: a warning of the compile."""
        logger.warning("the service %s, %s: %s", self.service, path, text)

    def _check_helpers(self, by_name: dict[str, Info], place: str) -> None:
        for name in by_name:
            of = next((name.removesuffix(helper) for helper in _HELPERS if name.endswith(helper)), None)
            if of and of not in by_name:
                self._doubt(
                    f"{place}.{name}".lstrip("."),
                    f"there is no attribute {of} that it says something about, so it is an attribute of its own",
                )

    def _check_allocation(self) -> None:
        name = self.binding.allocation_spec
        if name is None:
            return
        from .allocation import has_spec

        if not has_spec(name):
            self._doubt("allocation_spec", f"no module defines an allocation spec {name}, so no instance can be validated")

    def _check_back(self, one: Info, target: Info, path: str) -> None:
        if one["inverse"] is None:
            return
        if not one["inverse"].startswith("_"):
            self.problems.append(
                f"{path}: the relation back from {target['name']} is named {one['inverse']}, and must begin with an underscore"
            )
        back = next(other for other in target["attributes"] if other["name"] == one["inverse"])
        if back["high"] != 1:
            self.problems.append(f"{path}: the relation {one['inverse']} back from {target['name']} must have at most one end")

    def _check_keys(self, record: Record, named: list[str] | None, candidates: list[list[str]], path: str) -> None:
        if not record["key_attributes"]:
            known = " and ".join(", ".join(key) for key in candidates)
            if candidates and named is not None and (len(candidates) > 1 or record["upper_limit"] != 1):
                self.problems.append(
                    f"{path}: {_NAMED_KEY} of {record['type']} names {', '.join(named) or 'no attribute'}:"
                    f" there is no index of that, but of {known}"
                )
            elif len(candidates) > 1:
                self.problems.append(
                    f"{path}: {record['type']} has several indexes that could tell its elements apart ({known}):"
                    f" name the attributes of one in `string[]? {_NAMED_KEY} = [...]`"
                )
            elif record["upper_limit"] != 1:
                self.problems.append(
                    f"{path}: {record['type']} needs an index that tells its elements apart: of attributes of its own"
                    " without a leading underscore, and of no relation but the one back"
                )
            return
        # Below a relation that only compiles write, they write the keys, too.
        allowed = ("rw", "r") if record["modifier"] == "r" else ("rw",)
        for attribute in record["attributes"]:
            if attribute["name"] in record["key_attributes"] and attribute["modifier"] not in allowed:
                self.problems.append(
                    f"{path}.{attribute['name']} has the modifier {attribute['modifier']}, but a key attribute must be rw:"
                    " it tells elements apart, so it never changes"
                )

    def _check_read_only(self, record: Record, path: str) -> None:
        for attribute in record["attributes"]:
            if attribute["modifier"] != "r":
                self.problems.append(
                    f"{path}.{attribute['name']} has the modifier {attribute['modifier']}, but must be r: it is below a relation that is r"
                )
        for embedded in (*record["embedded_entities"], *record["inter_service_relations"]):
            below = f"{path}.{embedded['name']}"
            if embedded["modifier"] != "r":
                self.problems.append(
                    f"{below} has the modifier {embedded['modifier']}, but must be r: it is below a relation that is r"
                )
            if "attributes" in embedded and embedded["modifier"] != "r":
                self._check_read_only(embedded, below)

    def _check_identity(self, record: Record) -> None:
        name = record["service_identity"]
        if name is None:
            return
        found = next((one for one in record["attributes"] if one["name"] == name), None)
        if found is None:
            self.problems.append(f"the service identity {name} is no attribute of {self.binding.service_entity}")
        elif found["modifier"] != "rw" or found["type"] not in _IDENTITY_TYPES:
            self.problems.append(
                f"the service identity {name} is a {found['type']} with the modifier {found['modifier']}:"
                " it must be a string or an int, not null, with the modifier rw"
            )

    def _check_owner(self, record: Record) -> None:
        name = record["relation_to_owner"]
        if name is None:
            if _model.optional(self.binding, "owner") is not None:
                raise _model.half_an_owner(self.binding)
            return
        found = next((one for one in record["inter_service_relations"] if one["name"] == name), None)
        if found is None or found["upper_limit"] != 1 or found["entity_type"] != record["owner"]:
            self.problems.append(
                f"relation_to_owner is {name}, which is no inter-service relation to one {record['owner']}, the owner"
            )


def _definitions_of(binding: Any) -> list[Any]:
    return list(binding.versions) if _model.kind_of(binding) == "lsm::ServiceBinding" else [binding]


def _services_of(entity: str) -> list[str]:
    """The service that has this entity; otherwise those with an entity that extends it, as the entities of all versions of a
    service may extend one that is the entity of none. Source: docs/reference/lsm.md § 1.5."""
    found = [(_model.service_name(one), [of.service_entity for of in _definitions_of(one)]) for one in bindings()]
    for name, entities in found:
        if entity in entities:
            return [name]
    return [name for name, entities in found if any(entity in kept_info(of)["parents"] for of in entities)]


class Notes:
    """What stands in a relation in the place of `--`."""

    def __init__(self, values: list[Any]) -> None:
        self.is_service = False
        self.modifier = "rw"
        self.has_modifier = False
        self.annotations: Record = {}
        for value in values:
            proxy = DynamicProxy.return_value(value)
            kind = proxy._type().get_full_name() if type(proxy) is DynamicProxy else ""
            if kind == "lsm::InterServiceRelation":
                self.is_service = True
            elif kind == "lsm::RelationModifier":
                self.modifier, self.has_modifier = proxy.modifier, True
            elif kind == "lsm::RelationAnnotations":
                self.annotations = _model.plain(proxy.annotations)
