"""Services, outside of a compile: paths into attributes, embedded entities that came or went, lifecycles, records."""

from __future__ import annotations

import copy
import importlib.util
import unittest
import uuid
from typing import Any

import inmanta  # noqa: F401  # makes our modules importable
from inmanta.execute import runtime
from inmanta.plugins import Runtime
from inmanta.protocol.common import Result
from inmanta.util import dict_path
from inmanta_plugins.lsm import partial
from inmanta_plugins.lsm._compile import kept
from inmanta_plugins.lsm._inventory import CacheManager
from inmanta_plugins.lsm._lifecycles import problems
from inmanta_plugins.lsm._tracking import with_flags
from inmanta_plugins.lsm.allocation import AllocationContext, AnyUniqueInt, LSM_Allocator
from inmanta_plugins.lsm.allocation_v2.framework import Attributes

DATA = {
    "name": "x",
    "if": [{"n": "e0", "mtu": 1500, "u": [{"v": 10}, {"v": 20}]}, {"n": "e1", "mtu": None, "u": []}],
    "m": {"a.b": 1, "c": 2},
}


class Inventory:
    """The server's side of a compile that was given one of two instances."""

    def __init__(self, can_tell_values: bool) -> None:
        self.can_tell_values = can_tell_values
        self.asked: list[str] = []

    def services(self, question: dict[str, Any]) -> tuple[Any, str | None]:
        self.asked += question
        if "free_number" in question:
            self.free_number = question["free_number"]
            return ([8] if self.can_tell_values else []), None
        if "values" not in question:
            return {"link": [record("a", 7), record("b", 1)]}, None
        without = question["values"]["without"]
        return ([1], None) if self.can_tell_values and without == ["a"] else ({}, "it can not be told")


def record(name: str, vlan: int) -> dict[str, Any]:
    sets = {"candidate_attributes": {"vlan": vlan}, "active_attributes": None, "rollback_attributes": {"vlan": None}}
    return {"id": name, "deleted": False, **sets}


class Values(unittest.TestCase):
    def test_values_that_are_taken_are_those_of_the_compile_and_those_of_the_server(self) -> None:
        before = runtime.world, Runtime.inputs
        self.addCleanup(lambda: (setattr(runtime, "world", before[0]), setattr(Runtime, "inputs", before[1])))
        for can_tell_values, asked in ((True, ["values"]), (False, ["values", "service"])):
            inventory = Inventory(can_tell_values)
            runtime.world = inventory  # type: ignore[assignment]
            Runtime.inputs = {"services": {"has_more": True, "instances": {}}}
            # What the compile was given, and has changed since.
            kept.values()["by id"] = {"a": {**record("a", 5), "service_entity": "link"}}
            self.assertEqual(sorted(CacheManager().used_values("link", "vlan"), key=str), [1, 5])
            self.assertEqual(inventory.asked, asked, "all instances are read only if there is no other way")

    def test_a_number_of_a_pool_is_asked_for_where_there_are_other_instances_than_those_at_hand(self) -> None:
        before = runtime.world, Runtime.inputs
        self.addCleanup(lambda: (setattr(runtime, "world", before[0]), setattr(Runtime, "inputs", before[1])))
        allocator = LSM_Allocator("vlan", AnyUniqueInt(5, 9))
        context, instance = AllocationContext("", "link"), {"id": "a", "attributes": {}}
        inventory = Inventory(True)
        runtime.world = inventory  # type: ignore[assignment]
        Runtime.inputs = {"services": {"has_more": True, "instances": "{}"}}
        # What the compile was given, and has changed since.
        kept.values()["by id"] = {"a": {**record("a", 5), "service_entity": "link"}}
        self.assertEqual(allocator.allocate_for(context, instance), {"vlan": 8})
        asked = {"service": "link", "path": "vlan", "without": ["a"], "taken": [5], "lower": 5, "upper": 9}
        self.assertEqual({**inventory.free_number, **asked}, inventory.free_number)
        self.assertEqual(inventory.asked, ["free_number"], "no values are read")
        # A compile of all knows what is used.
        Runtime.inputs = {"services": {"has_more": False, "instances": '{"link": []}'}}
        self.assertIn(allocator.allocate_for(context, instance)["vlan"], range(5, 10))
        self.assertEqual(inventory.asked, ["free_number"])


class Catalog:
    """A client of a server elsewhere: ports of version 1 belong to a switch, those of version 0 to nobody."""

    def __init__(self, knows_versions: bool) -> None:
        if knows_versions:
            self.lsm_service_catalog_get_entity_version = lambda tid, name, version: self._answer(name, version)

    def lsm_service_catalog_get_entity(self, tid: object, name: str) -> Any:
        return self._answer(name, 1)

    def lsm_services_list(self, tid: object, service_entity: str, **options: object) -> Any:
        return Result(200, {"data": [one for one in PORTS.values() if one["service_entity"] == service_entity], "links": {}})

    def lsm_services_get_by_id(self, tid: object, service_id: object) -> Any:
        found = PORTS.get(str(service_id))
        return Result(200, {"data": found}) if found else Result(404, {})

    def _answer(self, name: str, version: int) -> Any:
        if name == "switch":
            return Result(200, {"data": {"owner": None, "owned_entities": ["port"]}})
        owner = {"owner": "switch", "relation_to_owner": "switch"} if version == 1 else {"owner": None}
        return Result(200, {"data": {**owner, "owned_entities": []}})


def _port(name: str, version: int) -> dict[str, Any]:
    attributes = {"candidate_attributes": {"switch": SWITCH}, "active_attributes": None, "rollback_attributes": None}
    service = {"service_entity": "port", "service_entity_version": version}
    return {"id": name, "deleted": False, **service, **attributes}


SWITCH, OLD, NEW = (str(uuid.UUID(int=number)) for number in range(3))
PORTS = {
    SWITCH: {**_port(SWITCH, 0), "service_entity": "switch", "candidate_attributes": {}},
    OLD: _port(OLD, 0),
    NEW: _port(NEW, 1),
}


class Trees(unittest.TestCase):
    def selected(self, requested: str) -> dict[str, list[str]]:
        found = partial.DefaultSelector(None, [requested]).select_all()
        return {service: [one["id"] for one in records] for service, records in found.items()}

    def test_an_instance_belongs_to_the_owner_that_its_own_version_has(self) -> None:
        before = Runtime.inputs, partial.global_cache._client
        self.addCleanup(lambda: (setattr(Runtime, "inputs", before[0]), setattr(partial.global_cache, "_client", before[1])))
        instances = {"switch": [PORTS[SWITCH]], "port": [PORTS[OLD], PORTS[NEW]]}
        owners = {"owners": {"port": {"owner": "switch", "relation": "switch"}}, "owners_of_versions": {"port": {"0": None}}}
        reverse = {"owners": {}, "owners_of_versions": {"port": {"1": {"owner": "switch", "relation": "switch"}}}}
        for services in ({"instances": instances, **owners}, {"instances": instances, **reverse}, None):
            Runtime.inputs = {} if services is None else {"services": services}
            if services is None:
                partial.global_cache._client = Catalog(True)  # type: ignore[assignment]
            partial.global_cache.reset()
            tree = {"switch": [SWITCH], "port": [NEW]}
            self.assertEqual(self.selected(OLD), {"port": [OLD]}, services)
            self.assertEqual(self.selected(NEW), tree, services)
            self.assertEqual(self.selected(SWITCH), tree, services)
        # A client that knows of no versions has the owner of the default one for all.
        partial.global_cache._client = Catalog(False)  # type: ignore[assignment]
        partial.global_cache.reset()
        self.assertEqual(self.selected(OLD), {"switch": [SWITCH], "port": [OLD, NEW]})


class Paths(unittest.TestCase):
    def setUp(self) -> None:
        self.data = copy.deepcopy(DATA)

    #: lsm 106, 107
    def test_elements_are_found_by_keys_numbers_and_null(self) -> None:
        for path, expected in (
            ("name", "x"),
            (".name", "x"),
            (".", DATA),
            (r"m.a\.b", 1),
            ("if[n=e0].mtu", 1500),
            ("if[mtu=1500.0].n", "e0"),
            (r"if[mtu=\0].n", "e1"),
            ("if[n=e0].u[v=20]", {"v": 20}),
            ("if[n=e0][mtu=1500].n", "e0"),
        ):
            self.assertEqual(dict_path.to_path(path).get_element(self.data), expected, path)
        self.assertEqual(dict_path.to_path("l[ip=10.0.0.1].n").get_element({"l": [{"ip": "10.0.0.1", "n": 5}]}), 5)
        self.assertEqual(dict_path.to_path("l[k=].n").get_element({"l": [{"k": "", "n": 5}]}), 5)
        for wrong in ("if[n=*]", "if[n=e0][n=e1]", "if[=e0]", "[n=e0]", ""):
            with self.assertRaises(dict_path.InvalidPathException, msg=wrong):
                dict_path.to_path(wrong)

    #: lsm 108
    def test_none_or_several_elements_are_an_error_and_wild_paths_give_lists(self) -> None:
        for path, data in (("if[n=e9]", self.data), ("l[k=1]", {"l": [{"k": 1}, {"k": 1}]})):
            with self.assertRaises(LookupError):
                dict_path.to_path(path).get_element(data)
            self.assertEqual(dict_path.to_path(path).get_elements(data), [])
        self.assertEqual(dict_path.to_wild_path("if[n=*].u[v=*].v").get_elements(self.data), [10, 20])
        self.assertEqual(dict_path.to_wild_path("m.*").get_elements(self.data), [1, 2])

    #: lsm 109
    def test_what_leads_to_a_value_is_made(self) -> None:
        dict_path.to_path("if[n=e9].mtu").set_element(self.data, 9000)
        dict_path.to_path("q.r").set_element(self.data, 1)
        self.assertEqual((self.data["if"][2], self.data["q"]), ({"n": "e9", "mtu": 9000}, {"r": 1}))

    #: lsm 110
    def test_removal_may_be_done_again(self) -> None:
        for _ in range(2):
            dict_path.to_path("if[n=e1]").remove(self.data)
            self.assertEqual([found["n"] for found in self.data["if"]], ["e0"])
        with self.assertRaises(Exception):
            dict_path.to_path(".").remove(self.data)
        dict_path.to_path(".").set_element(self.data, {"new": 1})
        self.assertEqual((self.data["new"], self.data["name"]), (1, "x"))

    #: lsm 111
    def test_a_path_is_written_as_it_is_read_and_wildcards_have_their_values(self) -> None:
        for path in ("a.b", r"m.a\.b", r"if[mtu=\0].n", "if[n=e0][mtu=1500].u[v=20]", "."):
            self.assertEqual(dict_path.to_path(dict_path.to_path(path).to_str()).to_str(), dict_path.to_path(path).to_str())
        resolved = dict_path.to_wild_path("if[n=*].u[v=*].v").resolve_wild_cards(self.data)
        self.assertEqual([path.to_str() for path in resolved], ["if[n=e0].u[v=10].v", "if[n=e0].u[v=20].v"])
        resolved = dict_path.to_wild_path("m.*").resolve_wild_cards(self.data)
        self.assertEqual([path.to_str() for path in resolved], [r"m.a\.b", "m.c"])


class Tracking(unittest.TestCase):
    SHAPE = [("sites", True, ("name",), [("peers", True, ("address",), [])]), ("main", False, (), [])]

    def flags(self, current: dict, previous: dict | None) -> dict:
        return with_flags(self.SHAPE, current, previous, "gone", "new")

    def test_elements_below_what_came_or_went_do_so_too(self) -> None:
        current = {"sites": [{"name": "a", "peers": [{"address": "1"}]}, {"name": "b", "peers": [{"address": "2"}]}], "main": None}
        previous = {"sites": [{"name": "a", "peers": [{"address": "3"}]}, {"name": "c", "peers": [{"address": "4"}]}], "main": {"x": 1}}
        found = self.flags(current, previous)
        told = {site["name"]: (site["gone"], site["new"]) for site in found["sites"]}
        self.assertEqual(told, {"a": (False, False), "b": (False, True), "c": (True, False)})
        peers = {peer["address"]: (peer["gone"], peer["new"]) for site in found["sites"] for peer in site["peers"]}
        self.assertEqual(peers, {"1": (False, True), "2": (False, True), "3": (True, False), "4": (True, False)})
        self.assertEqual(found["main"], {"x": 1, "gone": True, "new": False})

    def test_without_a_previous_set_nothing_came_or_went(self) -> None:
        found = self.flags({"sites": [{"name": "a", "peers": []}], "main": {"x": 1}}, None)
        self.assertEqual(found["sites"], [{"name": "a", "peers": [], "gone": False, "new": False}])
        self.assertEqual(found["main"], {"x": 1, "gone": False, "new": False})


class Numbers(unittest.TestCase):
    def test_all_numbers_of_a_range_are_given_before_there_is_none(self) -> None:
        pool, used = AnyUniqueInt(5, 9), set()
        for seed in "abcde":
            found = pool.select(used, seed)
            self.assertTrue(5 <= found <= 9 and found not in used)
            used.add(found)
        with self.assertRaisesRegex(Exception, "no number between 5 and 9 is free"):
            pool.select(used, "f")
        self.assertEqual(pool.select(set(), "a"), pool.select(set(), "a"))

    def test_attributes_are_found_by_name_or_path(self) -> None:
        found = Attributes(DATA)
        self.assertEqual((found.get("name"), found.get("if[n=e0].mtu"), found.get("if[n=e7].mtu"), found["m"]), ("x", 1500, None, DATA["m"]))


class Lifecycles(unittest.TestCase):
    def test_a_state_has_one_way_to_go_for_each_trigger(self) -> None:
        state = {"name": "a", "export_resources": False, "purge_resources": False, "deleted": False}
        transfer = dict.fromkeys(("auto", "api_set_state", "on_update", "on_delete", "resource_based", "validate"), False)
        transfer |= dict.fromkeys(("target_same_desired_state", "error_same_desired_state"), False)
        transfer |= {"source": "a", "target": "a", "error": None, "config_name": None, "on_delete": True}
        found = problems({"name": "l", "states": [state, state], "transfers": [transfer, transfer]})
        self.assertEqual(found, ["lifecycle l: 2 states are named a", "lifecycle l: 2 transfers on_delete leave a: one at most can"])


@unittest.skipUnless(importlib.util.find_spec("pydantic"), "pydantic is not installed")
class Records(unittest.TestCase):
    def test_defaults_are_added_on_every_level(self) -> None:
        from inmanta_lsm.model import ServiceEntity

        attributes = [
            {"name": "site", "type": "string"},
            {"name": "mbps", "type": "int", "default_value": 100, "default_value_set": True},
            {"name": "vlan", "type": "int?"},
        ]
        part = {"name": "parts", "attributes": attributes, "embedded_entities": [{"name": "one", "upper_limit": 1}]}
        lifecycle = {"name": "l", "initial_state": "a", "states": [{"name": "a"}], "transfers": []}
        entity = ServiceEntity(
            name="uplink", attributes=attributes, embedded_entities=[part, {"name": "more"}], lifecycle=lifecycle
        )
        filled = entity.add_defaults({"site": "a", "parts": [{"site": "b", "vlan": 7}]})
        parts = [{"site": "b", "vlan": 7, "mbps": 100, "one": None}]
        self.assertEqual(filled, {"site": "a", "mbps": 100, "vlan": None, "parts": parts, "more": []})

    def test_states_and_transfers_are_found_by_name_and_trigger(self) -> None:
        from inmanta_lsm.const import TransferTrigger
        from inmanta_lsm.model import Lifecycle

        transfer = {"source": "a", "target": "b", "on_update": True, "validate": True}
        lifecycle = Lifecycle(name="l", initial_state="a", states=[{"name": "a"}, {"name": "b"}], transfers=[transfer])
        self.assertEqual(lifecycle.get_state("b").name, "b")
        found = lifecycle.get_transfer(from_state="a", transfer_type=TransferTrigger.ON_UPDATE)
        self.assertTrue(found.validate_ and found.target == "b")
        with self.assertRaises(KeyError):
            lifecycle.get_transfer(from_state="a", transfer_type=TransferTrigger.AUTO)
        with self.assertRaises(KeyError):
            lifecycle.get_state("c")


if __name__ == "__main__":
    unittest.main()
