"""Definitions of services, made of what the compiler says of entities."""

from __future__ import annotations

import unittest
from types import SimpleNamespace
from typing import Any

import inmanta  # noqa: F401  # makes our modules importable
from inmanta.execute import runtime
from inmanta.plugins import Runtime
from inmanta_plugins.lsm._definitions import Definition, entity_info
from inmanta_plugins.lsm.allocation_v2.framework import unwrapped
from tests.support import FakeWorld, use_world

SERVICE = "lsm::ServiceEntity"
EMBEDDED = "lsm::EmbeddedEntity"
# The numbers of instances of the model that stand for `lsm::__service__` and `lsm::__r__`.
IS_SERVICE, IS_READ_ONLY = 901, 902


def attribute(name: str, type_name: str = "string", **more: object) -> dict[str, Any]:
    return {
        "name": name,
        "type_name": type_name,
        "relation": False,
        "inverse": None,
        "low": 1,
        "high": 1,
        "has_default": "default" in more,
        "default": None,
        "optional": False,
        "annotations": [],
        "given": True,
        **more,
    }


def relation(name: str, to: str, back: str | None, high: int | None, *annotations: int) -> dict[str, Any]:
    kinds = {IS_SERVICE: "lsm::InterServiceRelation", IS_READ_ONLY: "lsm::RelationModifier"}
    notes = [runtime.instance(number, kinds[number]) for number in annotations]
    return attribute(name, to, relation=True, inverse=back, low=0, high=high, annotations=notes)


class Definitions(unittest.TestCase):
    def setUp(self) -> None:
        self.world: FakeWorld = use_world(self, {IS_READ_ONLY: {"modifier": "r"}})
        self.entities: dict[str, dict[str, Any]] = {}
        self.bound: dict[str, list[runtime.Instance]] = {}
        self.world.entity = lambda name: self.entities.get(name)  # type: ignore[method-assign]
        self.world.instances = lambda name: self.bound.get(name, [])  # type: ignore[method-assign]
        # What is known for the length of a compile is known by its inputs.
        before, Runtime.inputs = Runtime.inputs, {}
        self.addCleanup(setattr, Runtime, "inputs", before)
        kinds = ("InterServiceRelation", "RelationModifier", "ServiceBinding", "ServiceBindingVersion", "ServiceEntityBinding")
        for name in (SERVICE, EMBEDDED, *(f"lsm::{kind}" for kind in kinds)):
            self.entity(name, [])

    def entity(
        self, name: str, parents: list[str], *attributes: dict[str, Any], comment: str | None = None, index: list[str] | None = None
    ) -> None:
        inherited = [one for parent in parents for one in self.entities[parent]["attributes"]]
        fields = {one["name"]: one for one in (*inherited, *attributes)}
        above = list(dict.fromkeys(up for parent in parents for up in (parent, *self.entities[parent]["parents"])))
        self.entities[name] = {
            "name": name,
            "attributes": list(fields.values()),
            "parents": above,
            "indices": [] if index is None else [index],
            "place": None,
            "comment": comment,
        }

    def bind(self, number: int, service: str, *entities: str) -> None:
        """A service with a version for each of these entities."""
        versions = [runtime.instance(number + 1 + nth, "lsm::ServiceBindingVersion") for nth in range(len(entities))]
        for version, entity in zip(versions, entities):
            self.world.values[version.id] = {"service_entity": entity}
        self.world.values[number] = {"service_entity_name": service, "versions": versions}
        self.bound.setdefault("lsm::ServiceBinding", []).append(runtime.instance(number, "lsm::ServiceBinding"))

    def fields(self, entity: str) -> tuple[dict[str, Any], list[str]]:
        """What an entity gives its service, and what is wrong with it."""
        definition = Definition("service", SimpleNamespace(strict_modifier_enforcement=True), 0)
        return definition.fields(entity_info(entity), None, "", [entity]), definition.problems

    def test_a_relation_to_what_all_versions_of_a_service_extend_leads_to_that_service(self) -> None:
        self.entity("m::Base", [SERVICE])
        self.entity("m::V0", ["m::Base"])
        self.entity("m::V1", ["m::Base"])
        self.entity("m::Child", [SERVICE], relation("t", "m::Base", None, 1, IS_SERVICE))
        self.bind(10, "t", "m::V0", "m::V1")
        self.bind(20, "child", "m::Child")
        found, problems = self.fields("m::Child")
        self.assertEqual(problems, [])
        self.assertEqual([one["entity_type"] for one in found["inter_service_relations"]], ["t"])
        # The entity of a service is that service, whoever extends it.
        self.entity("m::Other", ["m::V0"])
        self.entity("m::Child", [SERVICE], relation("t", "m::V0", None, 1, IS_SERVICE))
        self.bind(30, "other", "m::Other")
        Runtime.inputs = {}
        found, problems = self.fields("m::Child")
        self.assertEqual(([one["entity_type"] for one in found["inter_service_relations"]], problems), (["t"], []))

    def test_a_relation_to_what_several_services_extend_leads_to_none_of_them(self) -> None:
        self.entity("m::Base", [SERVICE])
        self.entity("m::Unused", [SERVICE])
        self.entity("m::A", ["m::Base"])
        self.entity("m::B", ["m::Base"])
        relations = relation("t", "m::Base", None, 1, IS_SERVICE), relation("u", "m::Unused", None, 1, IS_SERVICE)
        self.entity("m::Child", [SERVICE], *relations)
        self.bind(10, "a", "m::A")
        self.bind(20, "b", "m::B")
        _, problems = self.fields("m::Child")
        self.assertEqual(
            problems,
            [
                "t leads to m::Base, which entities of several services extend (a, b): a relation leads to one",
                "u leads to m::Unused, which is the entity of no service",
            ],
        )

    def parts(self, modifier: str, *annotations: int, named: list[str] | None = None) -> tuple[dict[str, Any], list[str]]:
        """A service with a list of parts, of which the key has this modifier."""
        body = [attribute("k"), attribute("k__modifier", default=modifier), relation("_s", "m::Service", "parts", 1)]
        if named is not None:
            body.append(attribute("__lsm_key_attributes", "string[]?", default=named))
        self.entity("m::Part", [EMBEDDED], *body, index=["_s", "k"])
        self.entity("m::Service", [SERVICE], relation("parts", "m::Part", "_s", None, *annotations))
        return self.fields("m::Service")

    #: lsm 9, 10
    def test_the_keys_of_a_list_that_only_compiles_write_are_written_by_them_too(self) -> None:
        found, problems = self.parts("r", IS_READ_ONLY)
        self.assertEqual((found["embedded_entities"][0]["key_attributes"], problems), (["k"], []))
        for modifier, annotations in (("r", ()), ("rw+", ())):
            _, problems = self.parts(modifier, *annotations)
            self.assertEqual(len(problems), 1)
            self.assertIn(f"parts.k has the modifier {modifier}, but a key attribute must be rw", problems[0])
        _, problems = self.parts("rw", IS_READ_ONLY)
        self.assertEqual(problems, ["parts.k has the modifier rw, but must be r: it is below a relation that is r"])

    #: lsm 8
    def test_key_attributes_that_are_no_index_are_named(self) -> None:
        _, problems = self.parts("rw", named=["zz"])
        self.assertEqual(
            problems, ["parts: __lsm_key_attributes of m::Part names zz: there is no index of that, but of k"]
        )
        self.assertEqual(self.parts("rw", named=["k"])[1], [])

    def test_an_attribute_is_described_where_it_is_declared_or_closer(self) -> None:
        attributes = [attribute(name) for name in ("name", "size", "old", "bare")]
        self.entity("m::Base", [SERVICE], *attributes, comment="B.\n:attr name: of the base\n:attr size: in m\n:attr old: new way")
        self.entity("m::Left", ["m::Base"], comment=":attr size: in km")
        self.entity("m::Right", ["m::Base"])
        self.entity(
            "m::Service", ["m::Right", "m::Left"], attribute("old__description", default="by a helper"), comment="S.\n:attr name: own"
        )
        found, _ = self.fields("m::Right")
        told = {one["name"]: one["description"] for one in found["attributes"]}
        self.assertEqual(told, {"name": "of the base", "size": "in m", "old": "new way", "bare": None})
        found, _ = self.fields("m::Service")
        told = {one["name"]: one["description"] for one in found["attributes"]}
        self.assertEqual(told, {"name": "own", "size": "in km", "old": "by a helper", "bare": None})
        # What the base says of itself is of the base.
        self.assertEqual(found["description"], "S.")
        self.assertIsNone(self.fields("m::Right")[0]["description"])


class Unwrapping(unittest.TestCase):
    def test_collected_values_are_put_back_and_stay_where_they_were_collected(self) -> None:
        collected = {"parts[n=a].v": 1, "parts[n=gone].v": 2}
        instance = {"id": "i", "attributes": {"parts": [{"n": "a", "v": None}], "alloc": collected}}
        found = unwrapped(instance, "alloc", True)
        self.assertEqual(found["attributes"], {"parts": [{"n": "a", "v": 1}], "alloc": collected})
        self.assertEqual(found["id"], "i")
        for empty in ({"alloc": None}, {}):
            self.assertEqual(unwrapped({"attributes": empty}, "alloc", False)["attributes"], empty)


if __name__ == "__main__":
    unittest.main()
