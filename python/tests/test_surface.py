"""The cache, proxies outside of a host, options, paths, clients, and that importing stays cheap."""

from __future__ import annotations

import copy
import importlib.util
import json
import os
import pickle
import re
import subprocess
import sys
import threading
import time
import unittest
from http.server import BaseHTTPRequestHandler, HTTPServer
from unittest import mock

import inmanta
from inmanta import app, const, data
from inmanta.agent.cache import AgentCache
from inmanta.agent.handler import CRUDHandler, cache
from inmanta.ast import type as types
from inmanta.ast import MultiUnsetException, OptionalValueException, UnknownException, UnsetException
from inmanta.config import Config, Option
from inmanta.data import model
from inmanta.execute import runtime
from inmanta.execute.proxy import DictProxy, DynamicProxy
from inmanta.execute.util import NoneValue, Unknown
from inmanta.plugins import Runtime
from inmanta.resources import Id
from inmanta.util import api_boundary_json_encoder, dict_path, get_compiler_version, hash_file, internal_json_encoder
from tests.support import PACKAGE, use_world


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class TheCommandOfAuthors(unittest.TestCase):
    """`inmanta …`, which authors type, is `steward …`."""

    def test_what_both_have_is_handed_over(self) -> None:
        for given, expected in [
            ("compile", "compile"),
            ("-vvv --log-file x compile --project p", "compile --project p"),
            ("-X compile -f main.cf -vvv --no-cache -e 1234 --extended-errors", "compile"),
            ("compile -f ./main.cf --message-format=json", "compile --message-format json"),
            ("project install", "project install"),
            ("deploy --dry-run", "deploy --dry-run"),
            ("export -j out.json", "export -j out.json"),
            ("export -j out.json --partial", "export -j out.json --partial"),
            ("export -P -X -j=out.json", "export --partial -j out.json"),
            (
                "export -e 12 -d --server_address h --server_port=1 --no-ssl --token t --delete-resource-set -f -f main.cf",
                "export -e 12 -d --server-address h --server-port 1 --token t --delete-resource-set -f",
            ),
            ("--help", "--help"),
            ("help", "--help"),
            ("export", "export"),
        ]:
            self.assertEqual(app._arguments(given.split()), expected.split(), given)

    def test_what_only_the_reference_has_says_so_and_what_does_it_here(self) -> None:
        for given, instead in [
            ("module create x", "pip install -e"),
            ("modules build", "python -m build"),
            ("project init -n x", "project.yml and main.cf"),
            ("project freeze", "steward.lock"),
            ("server", "steward serve"),
            ("compile -f other.cf", "main.cf"),
            ("compile --server_address h", "inmanta export"),
            ("export -g", "steward compile --help"),
            ("compile --export-compile-data", "steward compile --help"),
            ("--nope compile", "not part of Steward"),
        ]:
            with self.assertRaisesRegex(SystemExit, "is not part of Steward") as refused:
                app._arguments(given.split())
            self.assertIn(instead, str(refused.exception), given)


class Named:
    """Something with an id, as a resource has one."""

    def __init__(self, version: int) -> None:
        self.id = Id("net::Row", "a", "name", "r", version)


class Records(unittest.TestCase):
    """Plain data, as modules and their tests make and read it."""

    def test_a_level_is_found_by_its_number(self) -> None:
        self.assertIs(const.LogLevel(10), const.LogLevel.DEBUG)
        self.assertIs(const.LogLevel("INFO"), const.LogLevel.INFO)
        for nothing in (11, "info", None):
            with self.assertRaises(ValueError):
                const.LogLevel(nothing)

    def test_the_level_of_a_line_is_a_plain_text(self) -> None:
        self.assertIs(type(data.LogLine.log(const.LogLevel.INFO, "a")._data["level"]), str)

    def test_a_difference_has_nothing_but_its_two_values(self) -> None:
        given = model.AttributeStateChange(current=1, desired=2, other=3)
        self.assertEqual(given.model_dump(), {"current": 1, "desired": 2})

    def test_what_is_found_has_a_resource_id(self) -> None:
        rid = "net::Row[a,name=r]"
        found = model.DiscoveredResourceInput(discovered_resource_id=rid, values={}, discovery_resource_id=rid)
        self.assertEqual(found.discovered_resource_id, rid)
        for first, second in (("r", rid), (rid, "r"), (None, rid)):
            with self.assertRaisesRegex(ValueError, "should be a resource id"):
                model.DiscoveredResourceInput(discovered_resource_id=first, values={}, discovery_resource_id=second)

    def test_the_indexes_of_pip_are_a_list_of_its_own(self) -> None:
        model.PipConfig().extra_index_url.append("x")
        self.assertEqual(model.PipConfig().extra_index_url, [])
        self.assertEqual(model.PipConfig(extra_index_url=["u"], index_url="i").extra_index_url, ["u"])

    def test_classes_of_handlers_are_named_as_they_are_imported(self) -> None:
        from inmanta.agent import handler

        modules = {name: getattr(handler, name).__module__ for name in handler.__all__ if name not in ("AgentCache", "cache")}
        self.assertEqual(set(modules.values()), {"inmanta.agent.handler"}, modules)


class Cached(unittest.TestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.cache = AgentCache(clock=self.clock)
        self.made: list[object] = []
        self.deleted: list[object] = []

    def handler(self, *args: object, **options: object):
        test = self

        class Handler(CRUDHandler):
            def read_resource(self, ctx, resource): ...
            def create_resource(self, ctx, resource): ...
            def update_resource(self, ctx, changes, resource): ...
            def delete_resource(self, ctx, resource): ...

            @cache(*args, **options)
            def get(self, ctx, name, resource=None, *, more=0):
                test.made.append(name)
                return None if name == "none" else name

            @cache
            def bare(self, name):
                test.made.append(name)
                return name

        made = Handler(None)
        made.set_cache(self.cache)
        return made

    def task(self, seconds: float, *calls) -> None:
        """A task that starts so many seconds after the last."""
        self.clock.now += seconds
        with self.cache:
            for call in calls:
                call()

    #: sdk 24
    def test_24_arguments_make_the_key(self) -> None:
        handler = self.handler(ignore=["ctx"])
        for _ in range(2):
            handler.bare("a")
            handler.get(object(), "b", resource=Named(1))
            handler.get(object(), "b", Named(2), more=0)
        self.assertEqual(self.made, ["a", "b"])
        handler.get(None, "b", more=1)
        handler.bare("c")
        self.assertEqual(self.made, ["a", "b", "b", "c"])

    #: sdk 25
    def test_25_the_delete_hook_runs_once(self) -> None:
        handler = self.handler(call_on_delete=self.deleted.append, timeout=5)
        self.task(0, lambda: handler.get(None, "a"))
        self.task(6)
        self.assertEqual(self.deleted, ["a"])
        self.task(0, lambda: handler.get(None, "b"))
        self.cache.close()
        self.cache.close()
        self.assertEqual(self.deleted, ["a", "b"])

    #: sdk 25
    def test_25_a_delete_hook_that_fails_harms_nobody(self) -> None:
        def fail(value: object) -> None:
            raise ValueError(value)

        handler = self.handler(call_on_delete=fail, timeout=5)
        self.task(0, lambda: handler.get(None, "a"))
        with self.assertLogs("inmanta.agent.cache", "ERROR"):
            self.task(6)
        self.assertEqual(len(self.cache), 0)

    #: sdk 26
    def test_26_use_keeps_an_entry(self) -> None:
        handler = self.handler()
        for _ in range(4):
            self.task(40, lambda: handler.get(None, "a"))
        self.assertEqual(self.made, ["a"])
        self.task(61, lambda: handler.get(None, "a"))
        self.assertEqual(self.made, ["a", "a"])

    #: sdk 26
    def test_26_an_entry_is_renewed_by_a_later_method_of_the_same_class_only_if_used(self) -> None:
        handler = self.handler()
        self.task(0, lambda: handler.get(None, "a"), lambda: handler.get(None, "b"))
        self.task(40, lambda: handler.get(None, "a"))
        self.task(40, lambda: handler.get(None, "a"), lambda: handler.get(None, "b"))
        self.assertEqual(self.made, ["a", "b", "b"])

    #: sdk 27
    def test_27_time_from_creation_counts_however_much_it_is_used(self) -> None:
        handler = self.handler(for_version=False, timeout=2)
        for _ in range(4):
            self.task(1, lambda: handler.get(None, "a"))
        self.assertEqual(self.made, ["a", "a"])

    #: sdk 27
    def test_27_other_limits(self) -> None:
        for options, stays, goes in (
            ({"for_version": True, "timeout": 1}, 59, 61),
            ({"for_version": False}, 4999, 5001),
            ({"evict_after_creation": 9}, 8, 10),
            ({"evict_after_last_access": 9}, 8, 10),
            ({"timeout": 90}, 89, 91),
        ):
            handler = self.handler(**options)
            self.made.clear()
            self.cache.close()
            self.task(0, lambda: handler.get(None, "a"))
            start = self.clock.now
            self.task(stays)
            self.assertEqual(len(self.cache), 1, options)
            self.clock.now = start
            self.task(goes)
            self.assertEqual(len(self.cache), 0, options)

    def limits(self, kept) -> tuple[float | None, float | None]:
        """After how many seconds without use, and from its making, the one entry that `kept` makes is stale."""
        self.cache.close()
        kept()
        (item,) = self.cache._items.values()
        return item.idle, None if item.expires is None else item.expires - self.clock.now

    #: sdk 27
    def test_27_limits_that_are_none_leave_the_default(self) -> None:
        # Options, and the limits that the reference derives from them.
        for options, expected in (
            ({"timeout": 0}, (60, None)),
            ({"timeout": -1}, (60, None)),
            ({"timeout": 0, "for_version": False}, (None, 5000)),
            ({"timeout": -1, "for_version": False}, (None, 5000)),
            ({"evict_after_creation": -1, "timeout": 7, "for_version": False}, (None, 7)),
            ({"evict_after_creation": -1}, (60, None)),
            ({"evict_after_last_access": -1, "timeout": 7}, (None, 7)),
            ({"evict_after_last_access": -1, "for_version": True}, (60, None)),
            ({"evict_after_last_access": 5, "for_version": True}, (5, None)),
            ({"evict_after_last_access": 5, "evict_after_creation": 9}, (5, 9)),
        ):
            with self.subTest(**options):
                handler = self.handler(**options)
                self.assertEqual(self.limits(lambda: handler.get(None, "a")), expected)

    def test_get_or_else_takes_the_options_of_the_reference(self) -> None:
        def make(*args: object, **options: object):
            return lambda: self.cache.get_or_else("k", lambda **_: 5, *args, **options)

        for args, options, expected in (
            ((), {}, (60, None)),
            ((), {"timeout": 7}, (60, None)),
            ((), {"timeout": 7, "evict_after_last_access": 0}, (None, 7)),
            ((), {"timeout": 0, "evict_after_last_access": 0}, (60, None)),
            ((), {"timeout": 7, "for_version": False}, (None, 7)),
            ((), {"for_version": True}, (60, None)),
            ((), {"evict_after_creation": 9}, (60, 9)),
            ((True, 100), {}, (60, None)),
            ((False, 100), {}, (None, 100)),
            ((None, None, 5, 9, {"a"}, True, None), {"a": 1}, (5, 9)),
        ):
            with self.subTest(args=args, options=options):
                self.assertEqual(self.limits(make(*args, **options)), expected)

    def test_a_resource_makes_one_key_however_it_is_given(self) -> None:
        self.cache.cache_value("k", 1, resource=Named(1))
        self.assertEqual(self.cache.get_or_else("k", lambda resource: 2, resource=Named(2)), 1)
        self.assertEqual(self.cache.get_or_else("n", lambda resource: 3, resource=Named(1)), 3)
        self.assertEqual(self.cache.find("n", Named(2)), 3)
        self.cache.cache_value("o", 4)
        self.assertEqual(self.cache.get_or_else("o", lambda resource: 5, resource=None), 4)

    def test_a_method_may_call_its_parameters_as_options_are_called(self) -> None:
        class Handler(CRUDHandler):
            @cache
            def connect(self, key, timeout, function=None):
                return key, timeout, function

        handler = Handler(None)
        handler.cache = self.cache
        self.assertEqual([handler.connect("a", timeout=5), handler.connect("a", 5)], [("a", 5, None)] * 2)
        self.assertEqual(len(self.cache), 1)

    #: sdk 28
    def test_28_none_is_kept_unless_told_otherwise(self) -> None:
        for options, times in (({}, 1), ({"cache_none": False}, 2), ({"cacheNone": False}, 2)):
            handler = self.handler(**options)
            self.made.clear()
            self.cache.close()
            handler.get(None, "none")
            handler.get(None, "none")
            self.assertEqual(len(self.made), times, options)

    def test_callers_of_one_key_wait_for_one_producer(self) -> None:
        started = []

        def slow() -> object:
            started.append(1)
            time.sleep(0.05)
            return object()

        values = []
        threads = [threading.Thread(target=lambda: values.append(self.cache.get_or_else("k", slow))) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((len(started), len(set(map(id, values)))), (1, 1))

    def test_a_producer_that_raises_keeps_nothing(self) -> None:
        def fail() -> None:
            raise ValueError

        for _ in range(2):
            with self.assertRaises(ValueError):
                self.cache.get_or_else("k", fail)
        self.assertEqual(self.cache.get_or_else("k", lambda: 5), 5)

    def test_the_direct_interface(self) -> None:
        self.cache.cache_value("k", 1, resource=Named(1))
        self.assertEqual(self.cache.find("k", Named(2)), 1)
        with self.assertRaises(KeyError):
            self.cache.find("k")
        with self.assertRaisesRegex(Exception, "same item twice"):
            self.cache.cache_value("k", 1, resource=Named(1))


class Proxies(unittest.TestCase):
    def setUp(self) -> None:
        self.world = use_world(self, {})
        self.one = runtime.instance(1, "net::Port")
        self.proxy = DynamicProxy.return_value(self.one)

    def test_reading_raises_what_the_variable_is(self) -> None:
        for outcome, error in (
            (("unset", None), UnsetException),
            (("optional_unset", "no"), OptionalValueException),
            (Unknown(), UnknownException),
        ):
            self.world.values[1] = {"x": outcome}
            with self.assertRaises(error) as raised:
                self.proxy.x
            self.one._values.clear()
            self.one._absent = None
            if error is UnsetException:
                self.assertEqual(raised.exception.get_result_variable().myself, self.one)
        MultiUnsetException("wait", []).result_variables = [1]

    def test_that_there_is_no_value_is_asked_for_once(self) -> None:
        self.world.values[1] = {"x": ("optional_unset", "no")}
        for _ in range(2):
            with self.assertRaisesRegex(OptionalValueException, "no"):
                self.proxy.x
            self.world.values[1] = {}

    def test_instances_are_compared_by_identity_and_have_no_order(self) -> None:
        other = DynamicProxy.return_value(runtime.instance(2, "net::Port"))
        self.assertEqual(self.proxy, DynamicProxy.return_value(runtime.instance(1, "net::Port")))
        self.assertEqual(len({self.proxy, other, DynamicProxy.return_value(self.one)}), 2)
        self.assertEqual((self.proxy == self.one, self.one == self.proxy, self.proxy == other, self.proxy == 1), (True, True, False, False))
        self.assertIs(DynamicProxy.unwrap([self.proxy])[0], self.one)
        for compare in (lambda: self.proxy < other, lambda: sorted([other, self.proxy])):
            with self.assertRaisesRegex(TypeError, "'<' not supported between instances of 'Instance' and 'Instance'"):
                compare()

    def test_there_is_no_copy_of_an_instance(self) -> None:
        self.assertEqual(copy.copy(self.proxy), self.proxy)
        for value in (self.proxy, self.one, DynamicProxy.return_value([self.one])):
            for copied in (copy.deepcopy, pickle.dumps):
                self.assertRaises(AttributeError, copied, value)

    def test_lists_and_dicts_can_be_copied(self) -> None:
        values = DynamicProxy.return_value({"l": [1, None]})
        for copied in (copy.copy(values), copy.deepcopy(values), pickle.loads(pickle.dumps(values))):
            self.assertEqual((type(copied), copied, copied["l"][1]), (DictProxy, values, None))
        self.assertEqual(pickle.loads(pickle.dumps(values["l"])), values["l"])

    def test_null_in_a_list_or_dict_is_none_of_pythons(self) -> None:
        values = DynamicProxy.return_value({"a": None, "b": [1, None]})
        self.assertEqual(values == {"a": None, "b": [1, None]}, False)
        self.assertEqual(values, {"a": NoneValue(), "b": [1, NoneValue()]})
        self.assertEqual((values["b"] == [1, None], [1, None] == values["b"]), (False, False))
        self.assertEqual((values["a"], None in values["b"], values == DynamicProxy.return_value(values._get_instance())), (None, True, True))
        self.assertEqual(DynamicProxy.return_value([[1], self.one]), [[1], self.proxy])

    def test_lists_and_dicts_have_no_methods_of_pythons(self) -> None:
        values, keys = DynamicProxy.return_value([1, "a"]), DynamicProxy.return_value({"a": 1})
        for use in (lambda: values.index(1), lambda: values.count(1), lambda: values["a"]):
            with self.assertRaisesRegex(AttributeError, "^'list' object has no attribute 'get_attribute'$"):
                use()
        for use in (lambda: 1 in keys, lambda: keys[1], lambda: keys.get(None), lambda: keys.pop("a")):
            with self.assertRaisesRegex(AttributeError, "^'dict' object has no attribute 'get_attribute'$"):
                use()
        self.assertEqual(("a" in keys, "b" in keys, 1 in values, [*reversed(values)]), (True, False, True, ["a", 1]))
        self.assertRaisesRegex(TypeError, "unhashable type: 'list'", hash, values)

    def test_lists_and_dicts(self) -> None:
        values = DynamicProxy.return_value([1, [2], {"a": self.one}, NoneValue(), Unknown()])
        self.assertEqual((len(values), values[0], values[1], values[1:2], values[3]), (5, 1, [2], [[2]], None))
        self.assertEqual(values[2]["a"], self.proxy)
        self.assertEqual((dict(values[2]), values[2].get("b", 0), "a" in values[2]), ({"a": self.proxy}, 0, True))
        self.assertEqual(values[2], {"a": self.proxy})
        with self.assertRaises(UnknownException):
            values[4]
        seen = []
        iterator = iter(values)
        while len(seen) < 5:
            try:
                seen.append(next(iterator))
            except UnknownException:
                seen.append("unknown")
        self.assertEqual((seen[0], seen[4]), (1, "unknown"))
        with self.assertRaises(StopIteration):
            next(iterator)
        self.assertEqual(json.dumps(values[:2], default=internal_json_encoder), "[1, [2]]")

    def test_entities_know_their_parents(self) -> None:
        parents = {"net::C": ["net::B", "net::A", "std::Entity"], "net::B": ["net::A", "std::Entity"]}
        parents["net::A"] = ["std::Entity"]
        plain = {"type_name": "int", "relation": False, "multi": False, "optional": False}

        def entity(name: str) -> dict:
            own = {"net::A": ["a"], "net::B": ["b", "a"], "net::C": ["c", "b", "a"]}.get(name, [])
            attributes = [{"name": attribute, **plain} for attribute in own]
            return {"name": name, "attributes": attributes, "parents": parents.get(name, [])}

        self.world.entity = entity
        found = runtime.entity("net::C")
        self.assertEqual([str(parent) for parent in found.parent_entities], ["net::B"])
        self.assertEqual(len(found.get_all_parent_entities()), 3)
        self.assertEqual((list(found.attributes), found.get_all_attribute_names()), (["c"], ["c", "b", "a"]))
        self.assertTrue(found.is_subclass(runtime.entity("net::A")))

    def test_special_values(self) -> None:
        self.assertEqual((NoneValue(), str(NoneValue()), hash(NoneValue())), (NoneValue(), "null", hash(None)))
        self.assertEqual((list(Unknown("s")), Unknown("s").source), ([], "s"))


class OlderNames(unittest.TestCase):
    """What the newest reference has no more, but older modules use."""

    #: api inmanta.ast.type: Type.is_primitive
    #: api inmanta.util: get_compiler_version
    def test_are_kept(self) -> None:
        self.assertTrue(types.String().is_primitive())
        self.assertTrue(types.TypedList(types.Integer()).is_primitive())
        self.assertFalse(types.Any().is_primitive())
        self.assertRegex(get_compiler_version(), r"^\d+\.\d+")
        self.assertEqual((inmanta.__version__, hasattr(inmanta, "COMPILER_VERSION")), ("20.1.0", False))


class Options(unittest.TestCase):
    def setUp(self) -> None:
        self.addCleanup(Config._reset)

    #: sdk 42
    def test_42_the_environment_wins(self) -> None:
        Config.set("my-section", "my-name", "set")
        self.assertEqual(Config.get("my-section", "my_name"), "set")
        os.environ["INMANTA_MY_SECTION_MY_NAME"] = "true"
        self.addCleanup(os.environ.pop, "INMANTA_MY_SECTION_MY_NAME")
        self.assertEqual(Config.get("my-section", "my_name"), "true")
        self.assertIs(Config.getboolean("my-section", "my-name"), True)
        self.assertEqual(Option("my-section", "my-name", 1, "", str.upper).get(), "TRUE")
        self.assertEqual(Option("my-section", "other", lambda: 5, "", int).get(), 5)
        self.assertEqual(Config.get("my-section", "nothing", "default"), "default")

    def test_what_is_defined_has_its_own_default_and_its_own_type(self) -> None:
        section = "compiler_rest_transport"
        self.assertEqual((Config.get(section, "port"), Config.get(section, "port", "9")), (8888, 8888))
        self.assertEqual((Config.get(section, "request_timeout"), Config.get(section, "nothing", 1)), (120, 1))
        self.assertIsNone(Config.get("config", "environment", "default"))
        with mock.patch.object(Runtime, "environment_id", "00000000-0000-0000-0000-000000000007"):
            self.assertEqual(Config.get("config", "environment").int, 7)
        Config.set(section, "port", "80")
        Config.set("config", "environment", "6f4c2a39-2f3e-4f8d-9d1a-2b8f5a8d7a11")
        self.assertEqual((Config.get(section, "port"), Config.get("config", "environment").version), (80, 4))
        Option("my-section", "defined", "5", "", int)
        self.assertEqual(Config.get("my-section", "defined"), 5)


@unittest.skipUnless(importlib.util.find_spec("pydantic"), "pydantic is not installed")
class Validation(unittest.TestCase):
    """Answers taken from the reference."""

    def outcome(self, name: str, value: object, parameters: dict | None = None) -> str:
        from inmanta.validation_type import validate_type

        try:
            validate_type(name, value, parameters)
        except Exception as error:
            return type(error).__name__
        return "fits"

    def test_values_of_types(self) -> None:
        self.assertEqual([self.outcome("pydantic.NonNegativeInt", value) for value in ("1", -1)], ["fits", "ValidationError"])
        self.assertEqual(self.outcome("pydantic.StrictStr", 1), "ValidationError")
        self.assertEqual(self.outcome("pydantic.constr", "ba", {"regex": "a"}), "ValidationError")
        self.assertEqual(self.outcome("pydantic.Base64Str", "aGVsbG8="), "fits")

    def test_names_that_are_no_types(self) -> None:
        self.assertEqual(self.outcome("os.path", 1), "ValueError")
        self.assertEqual(self.outcome("pydantic.types.StrictInt", 1), "AttributeError")
        self.assertEqual(self.outcome("ipaddress.ip_address", "10.0.0.1"), "TypeError")
        self.assertEqual(self.outcome("pydantic.conint", 1, {"regex": "1"}), "TypeError")
        self.assertEqual(self.outcome("pydantic.StrictInt", 1, {"gt": 0}), "ValueError")


class Constants(unittest.TestCase):
    #: sdk 40
    def test_40_there_is_no_autostart_agent_map(self) -> None:
        self.assertFalse(hasattr(data, "AUTOSTART_AGENT_MAP"))

    def test_members_are_their_text(self) -> None:
        self.assertEqual(const.ResourceState.deployed, "deployed")
        self.assertEqual("".join([const.Change.created, const.Change.purged]), "createdpurged")
        self.assertEqual(const.LogLevel.TRACE.to_int, 3)


class Paths(unittest.TestCase):
    """Answers taken from the reference."""

    def setUp(self) -> None:
        self.data = {"a": {"b": 2}, "l": [{"k": "v", "n": [{"i": 1}]}, {"k": "w"}, {"k": None}, {"k": 2.0}]}

    def test_elements(self) -> None:
        for path, expected in (
            ("a.b", 2),
            (".a.b", 2),
            ("l[k=w]", {"k": "w"}),
            ("l[k=v].n[i=1]", {"i": 1}),
            ("l[k=\\0]", {"k": None}),
            ("l[k=2]", {"k": 2.0}),
            (".", self.data),
        ):
            self.assertEqual(dict_path.to_path(path).get_element(self.data), expected, path)
        for path in ("x", "a.b.c", "l[k=x]", "l[k=v][z=1]", "a[k=v]"):
            with self.assertRaises(KeyError):
                dict_path.to_path(path).get_element(self.data)
            self.assertEqual(dict_path.to_path(path).get_elements(self.data), [])

    def test_construction_and_removal(self) -> None:
        made: dict = {}
        dict_path.to_path("q.r[s=t].u").set_element(made, 5)
        self.assertEqual(made, {"q": {"r": [{"s": "t", "u": 5}]}})
        with self.assertRaises(KeyError):
            dict_path.to_path("x.y").set_element(made, 5, construct=False)
        dict_path.to_path("q.r[s=t]").remove(made)
        dict_path.to_path("q.nothing.x").remove(made)
        self.assertEqual(made, {"q": {"r": []}})
        with self.assertRaises(dict_path.ContainerStructureException):
            dict_path.to_path("q.r.x").set_element(made, 1)
        self.assertEqual(dict_path.to_path("l[k=v]").get_element(made, construct=True), {"k": "v"})

    def test_wild_paths(self) -> None:
        wild = dict_path.to_wild_path("l[k=*].k")
        self.assertEqual(wild.get_elements(self.data), ["v", "w", None, 2.0])
        resolved = [str(path) for path in dict_path.to_wild_path("l[k=*].n[i=*]").resolve_wild_cards(self.data)]
        self.assertEqual(resolved, ["l[k=v].n[i=1]"])
        self.assertEqual(dict_path.to_wild_path("x.*").get_elements(self.data), [])

    def test_writing(self) -> None:
        keyed = dict_path.KeyedList("r", [("k", "v.w"), ("a]", "*x")])
        self.assertEqual(str(dict_path.InDict("a.b") + keyed), r"a\.b.r[k=v\.w][a\]=\*x]")
        self.assertEqual(str(dict_path.to_path(str(keyed)).get_path_sections()[0]), str(keyed))
        self.assertEqual(str(dict_path.KeyedList("r", "k", "v")), "r[k=v]")
        self.assertEqual(str(dict_path.NullPath() + dict_path.InDict("a")), "a")
        for wrong in ("", "a[", "a]", "a=b", "a[k]", "a[=v]", "a\\x", "a[k=v][k=w]", "*", "a[k=*]", "[a=b]", "a[k=v]b"):
            with self.assertRaises(dict_path.InvalidPathException):
                dict_path.to_path(wrong)


class Encoders(unittest.TestCase):
    def test_forms(self) -> None:
        import datetime
        import uuid

        value = [uuid.UUID(int=2), datetime.datetime(2026, 1, 2, 3)]
        got = json.loads(json.dumps([value, {"l": const.ResourceState.dry}], default=api_boundary_json_encoder))
        self.assertEqual(got, [[str(value[0]), "2026-01-02T03:00:00.000000+00:00"], {"l": "dry"}])
        with self.assertRaises(TypeError):
            json.dumps(object(), default=api_boundary_json_encoder)
        self.assertEqual(hash_file(b"hello"), "aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d")


class Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps({"path": self.path, "tid": self.headers.get("X-Inmanta-tid")}).encode()
        self.send_response(404 if "missing" in self.path else 200)
        if "_docs" in self.path:
            body = f"<p>{self.path}</p>".encode()
            self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


class Clients(unittest.TestCase):
    def setUp(self) -> None:
        self.addCleanup(Config._reset)

    def serve(self) -> None:
        server = HTTPServer(("127.0.0.1", 0), Answer)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        Config.set("agent_rest_transport", "host", "127.0.0.1")
        Config.set("agent_rest_transport", "port", server.server_port)

    #: sdk 43
    def test_43_a_client_without_server_says_so(self) -> None:
        from inmanta.protocol import SyncClient

        with self.assertRaisesRegex(ConnectionRefusedError, "no server is configured"):
            SyncClient("agent").get_file("x")

    #: sdk 43
    def test_43_calls_without_and_within_a_loop(self) -> None:
        import asyncio

        from inmanta.protocol import Client, SyncClient

        self.serve()
        result = SyncClient("agent").get_param(tid="t", id="a b", resource_id="r[a,b=c]")
        path = "/api/v1/parameter/a%20b?resource_id=r%5Ba%2Cb%3Dc%5D"
        self.assertEqual((result.code, result.result), (200, {"path": path, "tid": "t"}))
        self.assertEqual(SyncClient("agent").get_file("missing").code, 404)
        self.assertEqual(SyncClient("agent").upload_file(id="x", content="y").result, {"content": "y"})
        self.assertEqual(asyncio.run(Client("agent").get_file("h")).result["path"], "/api/v1/file/h")
        with self.assertRaises(AttributeError):
            SyncClient("agent").no_such_method()

    def test_arguments_may_be_given_in_the_order_of_the_reference(self) -> None:
        from inmanta.protocol import SyncClient

        self.serve()
        client = SyncClient("agent")
        self.assertEqual(client.environment_list(True).result, {"path": "/api/v2/environment?details=True", "tid": None})
        found = client.get_reports("t", None, None, 5).result
        self.assertEqual(found, {"path": "/api/v1/compilereport?limit=5", "tid": "t"})
        self.assertEqual(client.project_create("p").result, {"name": "p"})
        path = "/lsm/v1/service_inventory/link/i?current_version=3"
        self.assertEqual(client.lsm_services_get("t", "link", "i", 3).result, {"path": path, "tid": "t"})
        definitions: list[object] = []
        body = {"service_entity_definitions": definitions, "default_version": 1}
        self.assertEqual(client.lsm_service_catalog_update_entity_versions("t", "link", definitions, 1).result, body)
        for message, call in (
            ("takes 1 positional arguments but 2", lambda: client.environment_list(True, True)),
            ("multiple values for the argument id", lambda: client.get_file("x", id="y")),
            ("needs the argument id", lambda: client.get_param("t")),
        ):
            with self.assertRaisesRegex(TypeError, message):
                call()

    def test_a_page_for_people_is_its_text(self) -> None:
        from inmanta.protocol import SyncClient

        self.serve()
        found = SyncClient("agent").lsm_services_openapi_docs(environment="e")
        self.assertEqual(found.result, "<p>/lsm/v1/service_catalog_docs?environment=e</p>")
        self.assertEqual(found.value(), found.result)

    def test_each_call_that_the_reference_names_and_the_server_answers_is_one_that_clients_know(self) -> None:
        from inmanta.protocol._methods import ABSENT, METHODS

        def of(path: str) -> str:
            """A path with nothing said of what its arguments are called."""
            return re.sub(r"<[^>]*>|{[^}]*}|(?<=/actions/environment/)[a-z]+", "*", path).rstrip("/")

        docs = os.path.join(os.path.dirname(PACKAGE), "docs")
        with open(os.path.join(docs, "api.md")) as file:
            served = {(verb, of(path)) for verb, path in re.findall(r"^\| ([A-Z]+) \| `([^`]+)`", file.read(), re.M)}
        with open(os.path.join(docs, "reference", "rest.md")) as file:
            named = re.findall(r"^- `([A-Z]+) (/[^`]+)` \(`(\w+)`", file.read(), re.M)
        # What a server tells its agents is called by nobody else.
        calls = {name: (verb, of(path)) for verb, path, name in named if name != "trigger"}
        expected = {name: call for name, call in calls.items() if call in served}
        self.assertGreater(len(expected), 100)
        known = {name: (verb, of(path)) for name, (verb, path, _) in METHODS.items()}
        self.assertEqual({name: known.get(name) for name in expected}, expected)
        # All others of the reference's clients say why they are not here.
        with open(os.path.join(docs, "reference", "rest.md")) as file:
            _, _, absent = file.read().partition("## 7. Calls of the reference that are not here")
        lines = [line for line in absent.splitlines() if line.startswith("| `") and "from a server to its agents" not in line]
        self.assertEqual({name for line in lines for name in re.findall(r"`(\w+)`", line.split("|")[1])}, set(ABSENT))
        # Nor is there one that it does not answer.
        self.assertEqual({name for name in known if known[name] not in served}, set())


class Imports(unittest.TestCase):
    def test_every_module_can_be_imported(self) -> None:
        for directory, _, files in os.walk(os.path.join(PACKAGE, "inmanta")):
            for file in files:
                if file.endswith(".py"):
                    name = os.path.relpath(os.path.join(directory, file), PACKAGE)[:-3].replace(os.sep, ".")
                    __import__(name.removesuffix(".__init__"))

    def test_starting_up_imports_nothing_heavy(self) -> None:
        code = f"import sys; sys.path.insert(0, {PACKAGE!r}); before = set(sys.modules)\n"
        code += "from steward_host import host, pipe, compiling\nimport inmanta.plugins, inmanta.resources\n"
        code += "print(*sorted(set(sys.modules) - before))"
        done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, check=True, text=True)
        heavy = {"asyncio", "inspect", "typing", "dataclasses", "json", "logging", "re", "socket", "ssl", "urllib.request"}
        self.assertEqual(heavy & set(done.stdout.split()), set())


if __name__ == "__main__":
    unittest.main()
