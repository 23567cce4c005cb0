"""Resource classes, ids and references, in this process."""

from __future__ import annotations

import os
import subprocess
import sys
import unittest

from inmanta import references, resources
from inmanta.agent.handler import LoggerABC
from inmanta.ast import AttributeException, UnknownException
from inmanta.execute import runtime
from inmanta.execute.proxy import DynamicProxy
from inmanta.execute.util import Unknown
from inmanta.resources import Id, PurgeableResource, Resource, ResourceException, resource
from tests.support import PACKAGE, use_world


class Silent(LoggerABC):
    def _log_msg(self, level, msg, *args, exc_info=False, **kwargs) -> None:
        pass


class Registered(unittest.TestCase):
    def setUp(self) -> None:
        resource.reset()
        self.addCleanup(resource.reset)

    def port(self, **fields: object) -> Resource:
        @resource("net::Port", agent="host.name", id_attribute="name")
        class Port(PurgeableResource):
            fields = ("name", "speeds")

        values = {"name": "eth0", "speeds": [1, 2], "purged": False, "purge_on_delete": False, "send_event": True}
        values |= {"id": "net::Port[a,name=eth0],v=3", "requires": ["net::Port[a,name=eth1],v=3"], **fields}
        return Resource.deserialize(values)


class Fields(unittest.TestCase):
    #: sdk 1
    def test_01_fields_of_all_bases_merge_in_first_seen_order(self) -> None:
        class A(Resource):
            fields = ("a", "b")

        class B(A):
            fields = ("b", "c")

        class C(B):
            fields = ("a", "d")

        base = Resource.fields
        self.assertEqual(C.fields, (*base, "a", "b", "c", "d"))
        with self.assertRaisesRegex(Exception, "tuple or list"):

            class D(Resource):
                fields = "name"

    #: sdk 2
    def test_02_reserved_and_private_names_are_refused(self) -> None:
        for name in ("requires", "_x", "id", "version", "serialize"):
            made = type("Made", (Resource,), {"fields": (name,)})
            with self.assertRaises(ResourceException):
                made.validate()


class Ids(unittest.TestCase):
    #: sdk 5
    def test_05_agent_and_value_that_cannot_be_read_back_are_refused(self) -> None:
        for parts in (("a,b", "name", "x"), ("a", "name", "x]"), ("a", "na=me", "x")):
            with self.assertRaises(ValueError):
                Id("net::Port", *parts)

    #: sdk 6
    def test_06_an_id_is_what_its_text_says(self) -> None:
        plain = Id("net::sub-x::Port", "a.b", "name", "eth[0,=")
        versioned = plain.copy(version=4)
        for made in (plain, versioned):
            self.assertEqual(Id.parse_id(str(made)), made)
        self.assertEqual(str(plain), "net::sub-x::Port[a.b,name=eth[0,=]")
        self.assertEqual(str(versioned), "net::sub-x::Port[a.b,name=eth[0,=],v=4")
        self.assertNotEqual(plain, versioned)
        self.assertNotEqual(versioned, plain.copy(version=5))
        self.assertEqual(len({plain, Id.parse_id(str(plain)), versioned}), 2)
        self.assertEqual(Id.parse_id(str(versioned), version=9).version, 9)
        self.assertTrue(Id.is_resource_id(str(plain)) and Id.is_resource_version_id(str(versioned)))
        self.assertTrue(Id.is_resource_id(str(versioned)))
        self.assertFalse(Id.is_resource_version_id(str(plain)))
        self.assertEqual(plain.get_inmanta_module(), "net")
        for wrong in ("", "Port[a,b=c]", "net::Port[a,b]", "net::Port[a,b=]", "net::Port[a,b=c],v=", "net::Port[a,b=c] "):
            with self.assertRaises(ValueError):
                Id.parse_id(wrong)


class FromTheModel(Registered):
    #: sdk 4
    def test_04_the_agent_path_follows_single_relations(self) -> None:
        world = use_world(self, {})
        port, rack, host = (runtime.instance(n, f"net::{e}") for n, e in ((1, "Port"), (2, "Rack"), (3, "Host")))
        world.values.update({1: {"rack": rack, "racks": [rack], "name": 7, "odd": 5}, 2: {"host": host}, 3: {"name": "h"}})
        proxy = DynamicProxy.return_value(port)
        self.port()
        made = Resource.object_to_id(proxy, "net::Port", "name", "rack.host.name")
        self.assertEqual(str(made), "net::Port[h,name=7]")
        for path, step in (("rack.hast.name", "hast"), ("racks.host.name", "host")):
            message = f"^Unable to get the name of agent .*net::Port.* belongs to. In path {path}, '{step}' does not exist"
            with self.assertRaisesRegex(AttributeException, message):
                Resource.object_to_id(proxy, "net::Port", "name", path)
        for path in ("odd", "racks"):
            with self.assertRaisesRegex(ResourceException, "should lead to a string"):
                Resource.object_to_id(proxy, "net::Port", "name", path)

    #: sdk 7
    def test_07_an_unknown_in_the_id_is_told(self) -> None:
        use_world(self, {1: {"name": Unknown(), "agent": "a"}})
        self.port()
        with self.assertRaises(UnknownException):
            Resource.object_to_id(DynamicProxy.return_value(runtime.instance(1, "net::Port")), "net::Port", "name", "agent")

    def test_to_id_names_the_nearest_registered_ancestor(self) -> None:
        world = use_world(self, {1: {"name": "eth0", "host": {"name": "h"}}, 2: {"name": "h"}})
        world.values[1]["host"] = runtime.instance(2, "std::Host")
        world.entity = lambda name: {"name": name, "attributes": [], "parents": ["net::Port", "std::Entity"]}
        proxy = DynamicProxy.return_value(runtime.instance(1, "net::Special"))
        self.assertIsNone(resources.to_id(proxy))
        self.port()
        self.assertEqual(resources.to_id(proxy), "net::Port[h,name=eth0]")

    def test_a_getter_of_the_base_tolerates_a_missing_attribute(self) -> None:
        use_world(self, {})
        proxy = DynamicProxy.return_value(runtime.instance(1, "net::Port"))
        got = [Resource.map_field(None, "net::Port", f, proxy) for f in ("send_event", "receive_events", "report_only")]
        self.assertEqual(got, [False, True, False])


class AsData(Registered):
    #: sdk 12
    def test_12_a_resource_survives_the_way_through_json(self) -> None:
        made = self.port()
        again = Resource.deserialize(made.serialize())
        for field in type(made).fields:
            self.assertEqual(getattr(again, field), getattr(made, field), field)
        self.assertEqual((again.id, again.requires), (made.id, made.requires))
        self.assertIs(made.receive_events, True)
        self.assertEqual((made.references, made.mutators, made.report_only), ([], [], False))
        self.assertEqual(dict(made.items())["name"], "eth0")
        self.assertIn("speeds", made)
        self.assertEqual((made["name"], made.get("nothing", 5)), ("eth0", 5))

    #: sdk 12
    def test_12_a_missing_field_is_an_error_and_a_strange_one_is_not(self) -> None:
        self.assertFalse(hasattr(self.port(strange=1), "strange"))
        fields = self.port().serialize()
        del fields["speeds"]
        with self.assertRaisesRegex(Exception, "does not have field speeds"):
            Resource.deserialize(fields)

    #: sdk 13
    def test_13_a_clone_has_fields_of_its_own_and_shares_their_values(self) -> None:
        made = self.port()
        copy = made.clone(purged=True)
        copy.speeds = [*copy.speeds, 3]
        self.assertEqual((made.purged, made.speeds, copy.purged, copy.speeds), (False, [1, 2], True, [1, 2, 3]))
        self.assertIs(made.clone().speeds, made.speeds)
        self.assertEqual(copy.requires, made.requires)

    #: sdk 11
    def test_11_the_serialized_form_does_not_depend_on_hashes(self) -> None:
        code = """if True:
            import json
            from inmanta.resources import Id, Resource, resource, to_json
            @resource("net::Port", agent="a", id_attribute="name")
            class Port(Resource):
                fields = ("name", "tags")
            made = Port(Id("net::Port", "a", "name", "x"))
            made.populate({"name": "x", "tags": {f"t{n}" for n in range(20)}})
            made.requires = {Id("net::Port", "a", "name", f"y{n}") for n in range(20)}
            print(json.dumps(to_json(made.serialize())))
        """
        seen = set()
        for seed in ("1", "2", "3"):
            environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": PACKAGE}
            seen.add(subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True).stdout)
        self.assertEqual(len(seen), 1)


@references.reference("core::test::Environment")
class EnvironmentReference(references.Reference[str]):
    resolved = 0

    def __init__(self, name: str | references.Reference[str]) -> None:
        super().__init__()
        self.name = name

    def resolve(self, logger: LoggerABC) -> str:
        type(self).resolved += 1
        return "value of " + str(self.resolve_other(self.name, logger))


class References(Registered):
    def test_the_id_of_a_reference_follows_from_type_and_arguments(self) -> None:
        class Environment(references.Reference[str]):
            type = "std::Environment"

            def __init__(self, name: str) -> None:
                super().__init__()
                self.name = name

        self.assertEqual(str(Environment("FOO").serialize().id), "efae775f-2fbc-3e6f-96bf-112f413cfb6e")
        self.assertEqual(Environment("A"), Environment("A"))
        self.assertNotEqual(Environment("A"), Environment("B"))
        self.assertIs(Environment.get_reference_type(), str)

    def test_a_cycle_is_told(self) -> None:
        one = EnvironmentReference("x")
        one.name = one
        with self.assertRaises(references.ReferenceCycleException):
            one.serialize()

    def exported(self, value: object) -> dict:
        collector = references.Collector("net::Port[a,name=eth0]")
        plain = collector.field("speeds", value)
        return {"speeds": plain, "references": collector.references(), "mutators": collector.mutators()}

    #: sdk 30
    def test_30_a_reference_is_resolved_once_for_all_its_places(self) -> None:
        inner = EnvironmentReference("inner")
        outer = EnvironmentReference(inner)
        made = self.port(**self.exported({"a.b": [outer, 1], "c'\\": outer, "d": inner}))
        self.assertEqual(made.speeds, {"a.b": [None, 1], "c'\\": None, "d": None})
        self.assertEqual(len(made.references), 2)
        EnvironmentReference.resolved = 0
        made.resolve_all_references(Silent())
        resolved = "value of value of inner"
        self.assertEqual(made.speeds, {"a.b": [resolved, 1], "c'\\": resolved, "d": "value of inner"})
        copy = made.clone()
        copy.resolve_all_references(Silent())
        self.assertEqual(copy.get_reference_value(inner.serialize().id, Silent()), "value of inner")
        self.assertEqual(EnvironmentReference.resolved, 2)

    def test_the_references_of_std_are_built_in(self) -> None:
        os.environ["STEWARD_TEST_NUMBER"] = "12"
        self.addCleanup(os.environ.pop, "STEWARD_TEST_NUMBER")
        environment = {"id": "a459d418-008c-30ab-8ff9-193b8a940b9f", "type": "std::Environment", "args": []}
        environment["args"] = [{"type": "literal", "name": "name", "value": "STEWARD_TEST_NUMBER"}]
        number = {"id": "aedd3e74-58e3-3615-ad69-164deb545847", "type": "std::IntReference", "args": []}
        number["args"] = [{"type": "reference", "name": "value", "id": "a459d418-008c-30ab-8ff9-193b8a940b9f"}]
        arguments = [
            {"type": "resource", "name": "resource", "id": "net::Port[a,name=eth0]"},
            {"type": "reference", "name": "value", "id": "aedd3e74-58e3-3615-ad69-164deb545847"},
            {"type": "literal", "name": "destination", "value": "speeds"},
        ]
        replace = {"type": "core::Replace", "args": arguments}
        made = self.port(references=[environment, number], mutators=[replace])
        made.resolve_all_references(Silent())
        self.assertEqual(made.speeds, 12)

    #: sdk 30
    def test_30_a_missing_class_is_told(self) -> None:
        exported = self.exported([EnvironmentReference("x")])
        exported["references"][0]["type"] = "gone::Away"
        with self.assertRaises(references.ReferenceMissingError):
            self.port(**exported).resolve_all_references(Silent())

    def test_arguments_of_all_kinds_come_back(self) -> None:
        @references.reference("core::test::Everything")
        class Everything(references.Reference[str]):
            def __init__(self, literal, listed, mixed, kind) -> None:
                super().__init__()
                self.literal, self.listed, self.mixed, self.kind = literal, listed, mixed, kind

            def resolve(self, logger):
                mixed = self.resolve_other(self.mixed["a"][1], logger)
                return [self.literal, self.listed, self.mixed["a"][0], mixed, self.kind]

        made = self.port(**self.exported(Everything(None, [1, {"x": 2}], {"a": [5, EnvironmentReference("k")]}, int)))
        made.resolve_all_references(Silent())
        self.assertEqual(made.speeds, [None, [1, {"x": 2}], 5, "value of k", int])


if __name__ == "__main__":
    unittest.main()
