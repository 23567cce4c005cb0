"""Handlers: the context in this process, runs through a host over real pipes."""

from __future__ import annotations

import base64
import hashlib
import logging
import json
import os
import re
import sys
import tempfile
import time
import unittest

import inmanta
from inmanta import const
from inmanta.agent.handler import (
    CRUDHandler,
    HandlerContext,
    InvalidOperation,
    PythonLogger,
    ResourceHandler,
    ResourcePurged,
    SkipResource,
    provider,
)
from inmanta.agent.handler import Commander
from inmanta.data.model import AttributeStateChange
from inmanta.protocol.common import Result
from inmanta.resources import Id, PurgeableResource
from steward_host import pipe
from steward_host.executing import Executing
from steward_host.reports import as_json, report, unreadable
from tests.support import ACTION, Host, Modules


class Row(PurgeableResource):
    fields = ("name", "value", "other")


def row(**fields: object) -> Row:
    made = Row(Id("net::Row", "a", "name", "r", 2))
    values = {"name": "r", "value": 1, "other": None, "purged": False, "purge_on_delete": False}
    made.populate({**values, **fields})
    return made


class Handler(CRUDHandler[Row]):
    """Reads `found` (None: purged), and writes down what is called."""

    def __init__(self, found: dict | None = None, fail: Exception | None = None) -> None:
        super().__init__(None)
        self.found = found
        self.fail = fail
        self.calls: list[object] = []

    def pre(self, ctx, resource) -> None:
        self.calls.append("pre")

    def post(self, ctx, resource) -> None:
        self.calls.append("post")

    def read_resource(self, ctx, resource) -> None:
        if self.fail is not None:
            raise self.fail
        if self.found is None:
            raise ResourcePurged()
        for name, value in self.found.items():
            setattr(resource, name, value)

    def create_resource(self, ctx, resource) -> None:
        self.calls.append(("create", resource))
        ctx.set_created()

    def update_resource(self, ctx, changes, resource) -> None:
        self.calls.append(("update", changes))
        ctx.set_updated()

    def delete_resource(self, ctx, resource) -> None:
        self.calls.append(("delete", resource))
        ctx.set_purged()


def run(handler: Handler, resource: Row, dry_run: bool = False) -> HandlerContext:
    context = HandlerContext(resource, dry_run=dry_run)
    handler.execute(context, resource, dry_run)
    return context


class Context(unittest.TestCase):
    def setUp(self) -> None:
        self.ctx = HandlerContext(row())

    #: sdk 14
    def test_14_changes_are_current_and_desired(self) -> None:
        self.ctx.add_change("a", desired=2, current=1)
        self.ctx.add_changes(b=3)
        self.ctx.update_changes({"c": {"current": 4, "desired": 5}, "d": (6, 7), "e": AttributeStateChange(8, 9)})
        self.ctx.fields_updated(("f",))
        changes = {name: (change.current, change.desired) for name, change in self.ctx.changes.items()}
        expected = {"a": (1, 2), "b": (None, 3), "c": (4, 5), "d": (6, 7), "e": (8, 9), "f": (None, None)}
        self.assertEqual(changes, expected)
        for wrong in ((1, 2, 3), 5, [1, 2]):
            with self.assertRaises(InvalidOperation):
                self.ctx.update_changes({"x": wrong})

    #: sdk 15
    def test_15_only_one_change_can_be_set(self) -> None:
        self.ctx.set_created()
        for again in (self.ctx.set_updated, self.ctx.set_created, self.ctx.set_purged):
            with self.assertRaises(InvalidOperation):
                again()
        self.assertEqual((self.ctx.changed, self.ctx.change), (True, const.Change.created))

    #: sdk 22
    def test_22_log_arguments_are_json_or_text(self) -> None:
        self.ctx.info("see %(thing)s of %(n)d", thing=object, n=3, data={"a": (1, 2)})
        line = self.ctx.logs[0]
        self.assertEqual((line.level, line.kwargs["data"], line.msg[-5:]), (const.LogLevel.INFO, {"a": [1, 2]}, " of 3"))
        self.assertIsInstance(line.kwargs["thing"], str)
        self.assertEqual(line._data["level"], "INFO")
        with self.assertRaisesRegex(Exception, "Args not supported"):
            self.ctx.info("%s", "positional")
        inmanta.RUNNING_TESTS = True
        self.addCleanup(setattr, inmanta, "RUNNING_TESTS", False)
        with self.assertRaisesRegex(Exception, "Failed to serialize argument"):
            self.ctx.info("see %(thing)s", thing=object)

    def test_percent_signs(self) -> None:
        self.ctx.info("50% done")
        self.ctx.info("50%% of %(what)s", what="all")
        self.assertEqual([line.msg for line in self.ctx.logs], ["50% done", "50% of all"])
        with self.assertRaises(KeyError):
            self.ctx.info("%(gone)s", here=1)

    def test_an_exception_is_logged_with_its_traceback(self) -> None:
        with self.assertLogs("inmanta.agent.handler", "ERROR") as logged:
            try:
                raise ValueError("here")
            except ValueError:
                self.ctx.exception("it broke")
        self.assertIn("ValueError: here", self.ctx.logs[0].kwargs["traceback"])
        self.assertIn("resource net::Row[a,name=r],v=2: it broke", logged.output[0])

    #: sdk 23
    def test_23_non_compliant_needs_a_difference(self) -> None:
        with self.assertRaises(InvalidOperation):
            self.ctx.set_resource_state(const.HandlerResourceState.non_compliant)
        self.ctx.add_change("a", 1)
        self.ctx.set_resource_state(const.HandlerResourceState.non_compliant)
        self.assertEqual(self.ctx.status, "non_compliant")

    def test_a_status_that_no_handler_gives_is_failed(self) -> None:
        with self.assertLogs("inmanta.agent.handler", "WARNING"):
            self.ctx.set_status(const.ResourceState.available)
        self.assertEqual((self.ctx.status, self.ctx.resource_state), ("available", "failed"))
        self.assertEqual(self.ctx.logs[0].level, "WARNING")

    def test_facts_and_scratch_values(self) -> None:
        self.ctx.set_fact("size", "1")
        self.ctx.set_fact("size", "2", expires=False)
        self.assertEqual([(fact["id"], fact["value"]) for fact in self.ctx.facts], [("size", "1"), ("size", "2")])
        # The last one is sent.
        self.assertEqual(report(self.ctx)["facts"], [{"name": "size", "value": "2", "expires": False}])
        self.ctx.set("k", 1)
        self.assertEqual((self.ctx.get("k"), self.ctx.contains("k"), self.ctx.contains("x")), (1, True, False))

    def test_a_python_logger_takes_named_arguments(self) -> None:
        import logging

        with self.assertLogs("mine", "INFO") as logged:
            PythonLogger(logging.getLogger("mine")).info("hello %(who)s", who="you")
        self.assertEqual(logged.output, ["INFO:mine:hello you"])


class Crud(unittest.TestCase):
    def setUp(self) -> None:
        import logging

        logging.getLogger("inmanta.agent.handler").setLevel(logging.CRITICAL)
        self.addCleanup(logging.getLogger("inmanta.agent.handler").setLevel, logging.NOTSET)

    def test_create_update_and_nothing(self) -> None:
        handler = Handler(found=None)
        context = run(handler, row())
        self.assertEqual([call if isinstance(call, str) else call[0] for call in handler.calls], ["pre", "create", "post"])
        self.assertEqual((context.status, context.change, list(context.changes)), ("deployed", "created", ["purged"]))
        handler = Handler(found={"value": 2})
        context = run(handler, row())
        self.assertEqual(handler.calls[1], ("update", {"value": {"current": 2, "desired": 1}}))
        self.assertEqual((context.status, context.change), ("deployed", "updated"))
        handler = Handler(found={})
        context = run(handler, row())
        self.assertEqual((handler.calls, context.status, context.change), (["pre", "post"], "deployed", "nochange"))

    #: sdk 16
    def test_16_purged_and_not_there_is_deployed(self) -> None:
        handler = Handler(found=None)
        context = run(handler, row(purged=True))
        self.assertEqual((handler.calls, context.status, context.change), (["pre", "post"], "deployed", "nochange"))

    #: sdk 17
    def test_17_delete_gets_the_desired_object(self) -> None:
        handler = Handler(found={"value": 9})
        desired = row(purged=True)
        context = run(handler, desired)
        self.assertIs(handler.calls[1][1], desired)
        self.assertEqual((handler.calls[1][0], context.change, set(context.changes)), ("delete", "purged", {"purged", "value"}))

    #: sdk 18
    def test_18_what_counts_as_a_difference(self) -> None:
        handler = Handler(found={"other": 5, "value": True})
        self.assertEqual(run(handler, row()).changes, {})
        handler = Handler(found={"value": [2, 1]})
        self.assertEqual(list(run(handler, row(value=[1, 2])).changes), ["value"])

    #: sdk 19
    def test_19_post_runs_in_every_case(self) -> None:
        for fail, status in ((SkipResource("later"), "skipped"), (ValueError("x"), "failed")):
            handler = Handler(fail=fail)
            context = run(handler, row())
            self.assertEqual((handler.calls, context.status), (["pre", "post"], status))
        handler = Handler(found={"value": 2})
        context = run(handler, row(), dry_run=True)
        self.assertEqual((handler.calls, context.status, list(context.changes)), (["pre", "post"], "dry", ["value"]))

        class BadPost(Handler):
            def post(self, ctx, resource) -> None:
                raise ValueError("after")

        context = run(BadPost(found={}), row())
        self.assertEqual((context.status, context.logs[-1].level), ("deployed", "ERROR"))

    def test_report_only_reports(self) -> None:
        handler = Handler(found={"value": 2})
        context = run(handler, row(report_only=True))
        self.assertEqual((handler.calls, context.resource_state), (["pre", "post"], "non_compliant"))
        self.assertEqual(run(Handler(found={}), row(report_only=True)).resource_state, "deployed")

    def test_report_only_goes_by_the_differences_that_were_calculated(self) -> None:
        class Noting(Handler):
            def pre(self, ctx, resource) -> None:
                ctx.add_change("value", desired=1, current=2)

        self.assertEqual(run(Noting(found={}), row(report_only=True)).resource_state, "deployed")

        class Listing(Noting):
            execute = ResourceHandler.execute

            def list_changes(self, ctx, resource):
                return self.found

        self.assertEqual(run(Listing(found={}), row(report_only=True)).resource_state, "deployed")
        self.assertEqual(run(Listing(found={"value": (2, 1)}), row(report_only=True)).resource_state, "non_compliant")

    def test_what_was_read_may_have_fewer_fields(self) -> None:
        class Read:
            fields = ("value",)
            value = 2

        class Older(Handler):
            execute = ResourceHandler.execute

            def check_resource(self, ctx, resource):
                return Read()

            def do_changes(self, ctx, resource, changes) -> None:
                self.calls.append(changes)

        handler = Older(found={})
        context = run(handler, row())
        self.assertEqual(context.resource_state, "deployed", [line.msg for line in context.logs])
        self.assertEqual(list(context.changes), ["value"])

    def test_the_state_of_dependencies_decides(self) -> None:
        for state, expected, level in (
            ("deployed", "deployed", None),
            ("failed", "skipped_for_dependency", "INFO"),
            ("skipped", "skipped_for_dependency", "INFO"),
            ("available", "skipped_for_dependency", "INFO"),
            ("undefined", "skipped_for_dependency", "WARNING"),
            ("dry", "skipped_for_dependency", "WARNING"),
        ):
            context = HandlerContext(row())
            Handler(found={}).deploy(context, row(), {"net::Row[a,name=q]": const.ResourceState(state)})
            self.assertEqual(context.resource_state, expected, state)
            if level is not None:
                self.assertEqual(context.logs[-1].level, level, state)

    #: sdk 21
    def test_21_the_last_provider_of_a_type_counts_and_providers_stack(self) -> None:
        self.addCleanup(Commander.reset)

        @provider("net::One")
        @provider("net::Two")
        class First(Handler):
            pass

        @provider("net::Two")
        class Second(Handler):
            pass

        self.assertIs(Commander.get_provider_class("net::One"), First)
        self.assertIs(Commander.get_provider_class("net::Two"), Second)


HANDLERS = """
    import concurrent.futures
    import os, sys
    from inmanta.resources import resource, PurgeableResource, DiscoveryResource, Resource
    from inmanta.agent.handler import *
    from inmanta.agent.handler import provider
    from inmanta import const

    @resource("net::Row", agent="agent", id_attribute="name")
    class Row(PurgeableResource):
        fields = ("name", "value")

    connections = []

    class Opaque(Exception):
        def __getattribute__(self, name): raise RuntimeError("nothing to see")

    class Connection:
        def __init__(self, name): self.name = name
        def close(self): connections.append("closed " + self.name)

    @provider("net::Row")
    class RowHandler(CRUDHandler[Row]):
        @cache(ignore=["ctx"], call_on_delete=lambda connection: connection.close())
        def connect(self, ctx, name):
            connections.append("opened " + name)
            return Connection(name)

        def read_resource(self, ctx, resource):
            value = resource.value
            if value == "exit":
                sys.exit(3)
            if value == "raise":
                raise ValueError("no way")
            if value == "interrupt":
                raise KeyboardInterrupt()
            if value == "opaque":
                raise Opaque()
            if value == "loud":
                print("x" * 200000)
                os.system("echo child; echo child >&2")
                sys.stdin.read()
            if value == "attribute":
                ctx.info("before: %(before)s", before=hasattr(self, "kept"))
                self.kept = True
            if value == "environment":
                from inmanta.config import Config
                is_known = self._agent.environment == Config.get("config", "environment")
                ctx.info("%(environment)s %(known)s", environment=self._agent.environment.hex, known=is_known)
            if value == "cache":
                self.connect(ctx, "c")
            if value == "connections":
                ctx.info("seen", connections=list(connections))
            if value == "sync":
                async def soon():
                    return "soon"
                ctx.set_fact("sync", self.run_sync(soon))
                several = {"list": [soon(), soon()], "thread": concurrent.futures.Future()}
                self._ioloop.call_soon_threadsafe(several["thread"].set_result, "done")
                ctx.set_fact("several", self.run_sync(lambda: several))
            if value == "fork":
                if os.fork() == 0:
                    raise ValueError("in the child")
                os.wait()
            if value == "nonsense":
                ctx.logs.append("no line")
            if value == "odd":
                ctx.add_change("odd", desired=object, current={1: 2**70, "nan": float("nan")})
            if value == "twice":
                ctx.set_created()
                ctx.set_updated()
            if value == "update":
                resource.value = "old"
            if value == "file":
                ctx.set_fact("got", str(self.get_client().endpoint_name))
                self.get_file("abc")

        def create_resource(self, ctx, resource): ctx.set_created()
        def update_resource(self, ctx, changes, resource): ctx.set_updated()
        def delete_resource(self, ctx, resource): ctx.set_purged()
        def facts(self, ctx, resource):
            ctx.set_fact("set", "1")
            if resource.value == "both":
                return {"set": "returned", "returned": 2}
            if resource.value == "raise":
                raise ValueError("no facts")
            return {"returned": 2}
        def can_reload(self): return True
        def post(self, ctx, resource):
            if resource.value == "dry":
                ctx.set_status(const.ResourceState.dry)
        def do_reload(self, ctx, resource):
            ctx.info("reloaded")
            if resource.value == "update":
                raise ValueError("reload broke")
        def close(self): print("handler closed")

    @resource("net::Lonely", agent="agent", id_attribute="name")
    class Lonely(Resource):
        fields = ("name",)

    @resource("net::Old", agent="agent", id_attribute="name")
    class Old(Resource):
        fields = ("name", "value")

    @provider("net::Old")
    class OldHandler(ResourceHandler):
        def check_resource(self, ctx, resource):
            return resource.clone(value="was")
        def do_changes(self, ctx, resource, changes):
            ctx.info("doing", changes=changes)
            ctx.set_updated()

    @resource("net::Discovery", agent="agent", id_attribute="name")
    class Discovery(DiscoveryResource):
        fields = ("name", "what")

    class Found:
        def __init__(self, value=1): self.value = value
        def model_dump(self, **kwargs): return {"a": self.value}

    @provider("net::Discovery")
    class DiscoveryRow(DiscoveryHandler[Discovery, Found]):
        def discover_resources(self, ctx, resource):
            found = {"nothing": {}, "good": {"net::Row[a,name=x]": Found()}, "bad": {"net::Row[a,name=x]": {}}}
            found["versioned"] = {"net::Row[a,name=x],v=3": Found()}
            found["no id"] = {"net::Row": Found()}
            found["bytes"] = {"net::Row[a,name=x]": Found(b"x")}
            return found[resource.what]
        def execute(self, ctx, resource, dry_run=False):
            super().execute(ctx, resource, dry_run)
            assert (ctx.resource_state is None) == dry_run, "a dry run says nothing"
"""


def exported(value: object = 1, kind: str = "Row", **fields: object) -> dict:
    made = {"name": "r", "value": value, "purged": False, "purge_on_delete": False, "send_event": True, "requires": []}
    return {**made, "id": f"net::{kind}[a,name=r],v=4", **fields}


class Runs(unittest.TestCase):
    def setUp(self) -> None:
        self.host = Host(self, "executor")
        self.handlers = self.host.load_executor(Modules(self).write("net", HANDLERS))

    def test_handlers_are_listed_and_broken_modules_do_not_stop_the_others(self) -> None:
        self.assertEqual(self.handlers, {"types": ["net::Row", "net::Old", "net::Discovery"], "broken": [], "no_forks": None})
        host = Host(self, "executor")
        modules = Modules(self).write("bad", "raise SystemExit(1)").write("net", HANDLERS)
        handlers = host.load_executor(modules)
        self.assertIn("net::Row", handlers["types"])
        (broken,) = handlers["broken"]
        self.assertEqual((broken["module"], broken["message"]), ("bad", "inmanta_plugins.bad: SystemExit: 1"))
        self.assertIn("bad/__init__.py", broken["traceback"])

    def test_code_that_is_no_syntax_to_this_python_is_told_which_one_it_is(self) -> None:
        (broken,) = Host(self, "executor").load_executor(Modules(self).write("new", "deferred x = 1"))["broken"]
        version = ".".join(map(str, sys.version_info[:2]))
        self.assertIn("inmanta_plugins.new: SyntaxError: invalid syntax", broken["message"])
        self.assertIn(f" (this is Python {version}, and the code may need a newer one)", broken["message"])

    def test_a_run_is_framed_by_its_first_and_last_line(self) -> None:
        outcome = self.host.deploy(exported("update"))
        self.assertTrue(outcome["logs"][0]["msg"].startswith("Start run because a test"))
        end = outcome["logs"][-1]
        self.assertTrue(end["msg"].startswith("End run"))
        # A number, and not the text of one.
        self.assertIsInstance(end["kwargs"]["duration"], float)
        self.assertEqual(end["kwargs"]["deploy_id"], outcome["logs"][0]["kwargs"]["deploy_id"])
        self.assertEqual((outcome["status"], outcome["change"]), ("deployed", "updated"))
        self.assertEqual(outcome["changes"], {"value": {"current": "old", "desired": "update"}})
        times = [line["timestamp_us"] for line in outcome["logs"]]
        self.assertEqual(times, sorted(times))
        self.assertGreater(times[0], 1_600_000_000_000_000)

    def test_no_exception_ends_the_host(self) -> None:
        for value, name in (("raise", "ValueError"), ("exit", "SystemExit"), ("interrupt", "KeyboardInterrupt")):
            outcome = self.host.deploy(exported(value))
            self.assertEqual(outcome["status"], "failed", value)
            errors = [line for line in outcome["logs"] if line["level"] == "ERROR"]
            self.assertIn(name, errors[0]["msg"])
            self.assertIn("read_resource", errors[0]["kwargs"]["traceback"])
        # One that cannot be looked at raises another one, which has the first in its chain.
        outcome = self.host.deploy(exported("opaque"))
        self.assertEqual(outcome["status"], "failed")
        errors = [line["msg"] for line in outcome["logs"] if line["level"] == "ERROR"]
        self.assertTrue(any("nothing to see" in error for error in errors), errors)
        self.assertEqual(self.host.deploy(exported(1))["status"], "deployed")

    def test_a_child_of_a_handler_does_not_answer_in_its_place(self) -> None:
        self.assertEqual(self.host.deploy(exported("fork"))["status"], "deployed")
        self.assertEqual(self.host.deploy(exported(1))["status"], "deployed")

    #: sdk 15
    def test_15_setting_two_changes_fails_the_run(self) -> None:
        outcome = self.host.deploy(exported("twice"))
        self.assertEqual((outcome["status"], outcome["change"]), ("failed", "created"))

    #: sdk 20
    def test_20_a_handler_lives_for_one_task(self) -> None:
        for _ in range(2):
            outcome = self.host.deploy(exported("attribute"))
            self.assertIn("before: False", [line["msg"] for line in outcome["logs"]])

    #: sdk 44
    def test_44_output_of_a_handler_does_not_disturb_the_run(self) -> None:
        self.assertEqual(self.host.deploy(exported("loud"))["status"], "deployed")
        self.assertEqual(self.host.deploy(exported(1))["status"], "deployed")

    def test_the_environment_of_an_agent_is_a_uuid(self) -> None:
        other = Host(self, "executor")
        environment = "6f4c2a39-2f3e-4f8d-9d1a-2b8f5a8d7a11"
        other.load_executor(Modules(self).write("net", HANDLERS), environment_id=environment)
        outcome = other.deploy(exported("environment"))
        self.assertIn(f"{environment.replace('-', '')} True", [line["msg"] for line in outcome["logs"]])

    def connections(self) -> list[str]:
        outcome = self.host.deploy(exported("connections"))
        return next(line["kwargs"]["connections"] for line in outcome["logs"] if line["msg"] == "seen")

    #: sdk 25
    def test_25_the_delete_hook_runs_once_at_the_end(self) -> None:
        self.host.deploy(exported("cache"))
        self.host.deploy(exported("cache"))
        self.assertEqual(self.connections(), ["opened c"])
        self.assertEqual(self.host.stop(), 0)

    #: sdk 29
    def test_29_two_executors_share_no_cache(self) -> None:
        other = Host(self, "executor")
        other.load_executor(Modules(self).write("net", HANDLERS), agent="other")
        self.host.deploy(exported("cache"))
        other.deploy(exported("cache"))
        self.assertEqual(self.connections(), ["opened c"])

    def test_a_log_that_a_handler_has_spoilt_fails_its_run_and_not_the_host(self) -> None:
        outcome = self.host.deploy(exported("nonsense"))
        self.assertEqual(outcome["status"], "failed")
        self.assertIn("left a report that cannot be read", outcome["logs"][-1]["msg"])
        self.assertEqual(self.host.deploy(exported("sync"))["status"], "deployed")

    def test_run_sync_works_from_a_handler(self) -> None:
        outcome = self.host.deploy(exported("sync"))
        facts = {fact["name"]: fact["value"] for fact in outcome["facts"]}
        self.assertEqual(facts, {"sync": "soon", "several": "{'list': ['soon', 'soon'], 'thread': 'done'}"}, outcome)

    #: sdk 43
    def test_43_a_client_without_server_asks_over_the_pipe(self) -> None:
        outcome = self.host.deploy(exported("file"))
        self.assertEqual(outcome["status"], "deployed", "the server has no such file")
        self.assertEqual(self.host.asked_api, [{"method": "get_file", "arguments": {"id": "abc"}}])

    def test_facts_that_are_set_and_returned_are_told(self) -> None:
        request = {"id": 5, "resource": exported(1), "action_id": "6f4c2a39-2f3e-4f8d-9d1a-2b8f5a8d7a11"}
        _, body = self.host.ask("facts", request)
        facts = {fact["name"]: fact["value"] for fact in body["outcome"]["facts"]}
        self.assertEqual((facts, body["outcome"]["status"]), ({"set": "1", "returned": "2"}, "deployed"))
        # What is set counts before what is returned.
        _, body = self.host.ask("facts", {**request, "resource": exported("both")})
        self.assertEqual({fact["name"]: fact["value"] for fact in body["outcome"]["facts"]}, facts)
        _, body = self.host.ask("facts", {**request, "resource": exported("raise")})
        self.assertEqual((body["outcome"]["status"], len(body["outcome"]["facts"])), ("failed", 1))
        error = [line["msg"] for line in body["outcome"]["logs"] if line["level"] == "ERROR"][0]
        self.assertIn("An error occurred while the facts were collected of", error)

    def test_a_deployment_that_says_dry_did_not_happen(self) -> None:
        outcome = self.host.deploy(exported("dry"))
        self.assertEqual((outcome["status"], outcome["logs"][-2]["level"]), ("unavailable", "ERROR"))
        self.assertIn("its handler says `dry`", outcome["logs"][-2]["msg"])
        self.assertEqual(self.host.deploy(exported("dry"), dry_run=True)["status"], "dry")

    def test_changes_are_made_json(self) -> None:
        outcome = self.host.deploy(exported("odd"))
        change = outcome["changes"]["odd"]
        self.assertEqual(change["current"]["1"], str(2**70))
        self.assertIsInstance(change["desired"], str)

    def test_reload_follows_a_changed_dependency(self) -> None:
        def messages(**fields: object) -> tuple[str, list[str]]:
            outcome = self.host.deploy(**fields)
            return outcome["status"], [line["msg"] for line in outcome["logs"]]

        self.assertNotIn("reloaded", messages(resource=exported(1))[1])
        self.assertIn("reloaded", messages(resource=exported(1), dependency_changed=True)[1])
        self.assertEqual(messages(resource=exported("update"), dependency_changed=True)[0], "failed")
        reported = messages(
            resource=exported(1, report_only=True),
            dependency_changed=True,
            requires={"net::Row[a,name=q]": "failed"},
        )
        self.assertEqual(reported[0], "deployed")
        self.assertIn("reloaded", reported[1])

    def test_dependencies_that_failed_skip_the_run(self) -> None:
        outcome = self.host.deploy(exported(1), requires={"net::Row[a,name=q]": "failed"})
        self.assertEqual(outcome["status"], "skipped_for_dependency")

    def test_a_dry_run_changes_nothing(self) -> None:
        outcome = self.host.deploy(exported("update"), dry_run=True)
        self.assertEqual((outcome["status"], outcome["change"]), ("dry", "nochange"))
        self.assertEqual(outcome["changes"], {"value": {"current": "old", "desired": "update"}})
        outcome = self.host.deploy(exported("raise"), dry_run=True)
        self.assertEqual(outcome["changes"]["handler"]["current"], "FAILED")
        self.assertRegex(outcome["changes"]["handler"]["desired"], r"^Handler failed: \w+\(.+\)$")

    def test_what_cannot_be_handled_is_unavailable(self) -> None:
        self.assertEqual(self.host.deploy(exported(kind="Lonely"))["status"], "unavailable")
        self.assertEqual(self.host.deploy(exported(kind="Nobody"))["status"], "unavailable")
        self.assertEqual(self.host.deploy({"id": "nonsense"})["status"], "unavailable")
        outcome = self.host.deploy(exported(kind="Lonely"), dry_run=True)
        self.assertEqual(outcome["changes"]["handler"]["desired"], "Unable to find a handler")
        outcome = self.host.deploy({"id": "net::Row[a,name=r],v=4"}, dry_run=True)
        self.assertEqual(outcome["changes"]["handler"]["desired"], "Resource Deserialization Failed")

    #: sdk 30
    def test_30_a_missing_reference_class_is_unavailable(self) -> None:
        replace = [
            {"type": "resource", "name": "resource", "id": "net::Row[a,name=r]"},
            {"type": "reference", "name": "value", "id": "efae775f-2fbc-3e6f-96bf-112f413cfb6e"},
            {"type": "literal", "name": "destination", "value": "value"},
        ]
        reference = {"id": "efae775f-2fbc-3e6f-96bf-112f413cfb6e", "type": "gone::Away", "args": []}
        fields = {"references": [reference], "mutators": [{"type": "core::Replace", "args": replace}]}
        self.assertEqual(self.host.deploy(exported(None, **fields))["status"], "unavailable")

    def test_the_older_style_of_handler(self) -> None:
        outcome = self.host.deploy(exported("is", kind="Old"))
        self.assertEqual((outcome["status"], outcome["change"]), ("deployed", "updated"))
        self.assertEqual(outcome["changes"], {"value": {"current": "was", "desired": "is"}})

    #: sdk 41
    def test_41_discovery(self) -> None:
        good, bad = ("nothing", "good", "versioned"), ("bad", "no id", "bytes")
        for what, status in [(what, "deployed") for what in good] + [(what, "failed") for what in bad]:
            outcome = self.host.deploy(exported(kind="Discovery", what=what))
            self.assertEqual(outcome["status"], status, what)
            if what in ("good", "versioned"):
                self.assertEqual(outcome["discovered"], [{"resource_id": "net::Row[a,name=x]", "values": {"a": 1}}])
        self.assertEqual(self.host.deploy(exported(kind="Discovery", what="bad"), dry_run=True)["status"], "dry")

    def test_handlers_are_closed_after_each_task(self) -> None:
        self.host.deploy(exported("raise"))
        self.host.deploy(exported(1))
        self.host.close()
        self.assertEqual(self.host.errors.count("handler closed"), 2)


ASKING = """
import threading, time
from inmanta.agent.handler import ResourceHandler, provider
from inmanta.protocol import SyncClient
from inmanta.resources import Resource, resource

late = []

def ask():
    found = SyncClient("agent").get_param(tid="e", id="p", resource_id="")
    return found.result["parameter"]["value"] if found.code == 200 else f"{found.code}: {found.result['message']}"

@resource("net::Asking", agent="a", id_attribute="name")
class Asking(Resource):
    fields = ("name",)

@provider("net::Asking")
class AskingHandler(ResourceHandler[Asking]):
    def execute(self, ctx, resource, dry_run=False):
        for thread in late:
            thread.join()
            ctx.set_fact("late", thread.found)
        ctx.set_fact("now", ask())

        def later():
            time.sleep(0.3)
            thread.found = ask()

        thread = threading.Thread(target=later)
        late.append(thread)
        thread.start()
"""


class Asking(unittest.TestCase):
    def test_the_server_is_asked_while_a_task_runs_and_not_later(self) -> None:
        host = Host(self, "executor")
        host.load_executor(Modules(self).write("net", ASKING))
        fields = {"name": "x", "send_event": False, "receive_events": True, "references": [], "mutators": []}
        resource = {**fields, "report_only": False, "requires": [], "id": "net::Asking[a,name=x],v=1"}

        def told() -> dict[str, str]:
            return {fact["name"]: fact["value"] for fact in host.deploy(resource)["facts"]}

        self.assertEqual(told(), {"now": "known"})
        time.sleep(0.6)
        late = "503: A handler can ask the server only while a task of its agent runs"
        self.assertEqual(told(), {"now": "known", "late": late})
        wanted = {"method": "get_param", "arguments": {"tid": "e", "id": "p", "resource_id": ""}}
        self.assertEqual(host.asked_api, [wanted, wanted])


CALLING = """
import uuid
from inmanta.agent.handler import ResourceHandler, provider
from inmanta.protocol import SyncClient
from inmanta.resources import Resource, resource

E = "e"
OTHER = "net::Calling[a,name=y],v=1"

# Name of a call, what makes it with a client and the resource's id with version.
CALLS = {
    "own": lambda client, rvid: client.resource_did_dependency_change(tid=E, rvid=rvid),
    "other": lambda client, rvid: client.resource_did_dependency_change(E, OTHER),
    "by position": lambda client, rvid: client.set_parameters(E, [{"id": "p", "value": "v", "source": "user"}]),
    "too many": lambda client, rvid: client.get_facts(E, "net::Calling[a,name=y]", "more"),
    "setting": lambda client, rvid: client.get_setting(tid=E, id="deploy_interval"),
    "environment": lambda client, rvid: client.get_environment(id=E),
    "notify": lambda client, rvid: client.notify_change(id=E, metadata={"type": "t", "of": uuid.UUID(int=2)}),
    "events": lambda client, rvid: client.get_resource_events(E, rvid),
    "version": lambda client, rvid: client.get_version(tid=E, id=1, limit=5),
    "list": lambda client, rvid: client.resource_list(E, filter={"agent": ["x", "y"]}),
    "absent": lambda client, rvid: client.list_roles(),
    "no method": lambda client, rvid: client.make_coffee(),
}

def told(call):
    try:
        answer = call()
        return f"{answer.code} {answer.result}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"

@resource("net::Calling", agent="a", id_attribute="name")
class Calling(Resource):
    fields = ("name",)

@provider("net::Calling")
class CallingHandler(ResourceHandler[Calling]):
    def execute(self, ctx, resource, dry_run=False):
        rvid = resource.id.resource_version_str()
        for name, call in CALLS.items():
            ctx.set_fact(name, told(lambda: self.run_sync(lambda: call(self.get_client(), rvid))))
    def facts(self, ctx, resource):
        self.execute(ctx, resource)
        return {}
"""


class Calling(unittest.TestCase):
    """Handlers call methods of the API without an address of the server."""

    def setUp(self) -> None:
        self.host = Host(self, "executor")
        self.host.load_executor(Modules(self).write("net", CALLING))
        fields = {"name": "x", "send_event": False, "receive_events": True, "references": [], "mutators": []}
        self.resource = {**fields, "report_only": False, "requires": [], "id": "net::Calling[a,name=x],v=1"}

    def told(self, **fields: object) -> dict[str, str]:
        outcome = self.host.deploy(self.resource, **fields)
        return {fact["name"]: fact["value"] for fact in outcome["facts"]}

    def requests(self) -> list[tuple[str, str, object, object]]:
        asked = [one["arguments"] for one in self.host.asked_api if one["method"] == "request"]
        return [(one["verb"], one["path"], one["environment"], one["body"]) for one in asked]

    def test_whether_a_dependency_changed_came_with_the_task(self) -> None:
        def path(name: str) -> str:
            return f"/api/v2/resource/net%3A%3ACalling%5Ba%2Cname%3D{name}%5D%2Cv%3D1/did_dependency_change"

        for changed in (False, True):
            self.assertEqual(self.told(dependency_changed=changed)["own"], "200 {'data': %s}" % changed)
        asked = [request[1] for request in self.requests()]
        self.assertEqual((asked.count(path("x")), asked.count(path("y"))), (0, 2))
        # The server says what a question means that does not come from a deployment.
        self.told(dry_run=True)
        self.host.ask("facts", {"id": 5, "resource": self.resource, "action_id": ACTION})
        asked = [request[1] for request in self.requests()]
        self.assertEqual((asked.count(path("x")), asked.count(path("y"))), (2, 4))

    def test_calls_are_requests_to_the_api(self) -> None:
        told = self.told()
        rvid = "net%3A%3ACalling%5Ba%2Cname%3Dx%5D%2Cv%3D1"
        expected = [
            ("GET", "/api/v1/environment_settings/deploy_interval", "e", None),
            ("GET", "/api/v1/environment/e", None, None),
            ("POST", "/api/v1/notify/e", None, {"metadata": {"type": "t", "of": "00000000-0000-0000-0000-000000000002"}}),
            ("GET", f"/api/v2/resource/{rvid}/events", "e", None),
            ("GET", "/api/v1/version/1?limit=5", "e", None),
            ("GET", "/api/v2/resource?filter.agent=x&filter.agent=y", "e", None),
        ]
        self.assertEqual(self.requests()[1:], expected)
        for name in ("setting", "environment", "notify", "events", "version", "list"):
            self.assertEqual(told[name], "200 {'parameter': {'value': 'known'}}", name)
        # Those that the loop of the environment answers travel by their names.
        arguments = {"tid": "e", "parameters": [{"id": "p", "value": "v", "source": "user"}]}
        self.assertIn({"method": "set_parameters", "arguments": arguments}, self.host.asked_api)

    def test_calls_that_cannot_be_made_say_why(self) -> None:
        told = self.told()
        self.assertEqual(told["too many"], "TypeError: get_facts() takes 2 positional arguments but 3 were given")
        self.assertRegex(told["absent"], "^404 .*list_roles: it has tokens, and neither users nor roles")
        self.assertRegex(told["no method"], "^AttributeError: .*make_coffee")


FILES = """
from inmanta.agent.handler import CRUDHandler, ResourcePurged, provider
from inmanta.protocol import SyncClient
from inmanta.resources import PurgeableResource, resource
from inmanta.util import hash_file

@resource("net::Copy", agent="a", id_attribute="name")
class Copy(PurgeableResource):
    fields = ("name", "digest")

@provider("net::Copy")
class CopyHandler(CRUDHandler[Copy]):
    def read_resource(self, ctx, resource):
        raise ResourcePurged()
    def create_resource(self, ctx, resource):
        content = self.get_file(resource.digest)
        ctx.set_fact("content", "none" if content is None else content.decode())
        ctx.set_fact("there", str(self.stat_file(resource.digest)))
        other = hash_file(b"of the handler")
        self.upload_file(other, b"of the handler")
        ctx.set_fact("uploaded", self.get_file(other).decode())
        ctx.set_fact("client", str(SyncClient("agent").get_file(resource.digest).code))
        ctx.set_fact("outside", str(SyncClient("agent").get_file("../" * 13 + "x").code))
        ctx.set_created()
    def update_resource(self, ctx, changes, resource): ...
    def delete_resource(self, ctx, resource): ...
"""


class Files(unittest.TestCase):
    #: sdk 10, 43
    #: api inmanta.agent.handler: HandlerAPI.get_file, HandlerAPI.stat_file, HandlerAPI.upload_file
    def test_a_handler_reads_and_adds_contents_without_a_server(self) -> None:
        digest = hashlib.sha1(b"content").hexdigest()
        with tempfile.TemporaryDirectory() as directory:
            os.makedirs(os.path.join(directory, digest[:2]))
            path = os.path.join(directory, digest[:2], digest)
            for written, wanted in (
                (b"content", {"content": "content", "there": "True", "client": "200"}),
                (b"changed by somebody", {"content": "none", "there": "False", "client": "404"}),
            ):
                with open(path, "wb") as file:
                    file.write(written)
                host = Host(self, "executor")
                host.load_executor(Modules(self).write("net", FILES), files=directory)
                values = {"name": "c", "digest": digest, "purged": False, "purge_on_delete": False, "requires": []}
                outcome = host.deploy({"id": "net::Copy[a,name=c],v=1", "send_event": False, **values})
                self.assertEqual(outcome["status"], "deployed", outcome)
                facts = {fact["name"]: fact["value"] for fact in outcome["facts"]}
                self.assertEqual(facts, {**wanted, "uploaded": "of the handler", "outside": "404"})

    def test_a_content_that_is_not_here_is_asked_of_the_server(self) -> None:
        digest = hashlib.sha1(b"content").hexdigest()
        with tempfile.TemporaryDirectory() as directory:
            host = Host(self, "executor")
            host.server_files[digest] = base64.b64encode(b"content").decode()
            host.load_executor(Modules(self).write("net", FILES), files=directory)
            values = {"name": "c", "digest": digest, "purged": False, "purge_on_delete": False, "requires": []}
            outcome = host.deploy({"id": "net::Copy[a,name=c],v=1", "send_event": False, **values})
            self.assertEqual(outcome["status"], "deployed", outcome)
            facts = {fact["name"]: fact["value"] for fact in outcome["facts"]}
            wanted = {"content": "content", "there": "True", "client": "200", "uploaded": "of the handler", "outside": "404"}
            self.assertEqual(facts, wanted)
            # What is no SHA-1 is not asked for.
            self.assertEqual({call["arguments"]["id"] for call in host.asked_api}, {digest})

    def test_only_a_missing_content_is_none(self) -> None:
        digest = hashlib.sha1(b"content").hexdigest()
        handler = Handler()
        for answer, wanted in (
            (Result(200, {"content": "Y29udGVudA=="}), b"content"),
            (Result(404, {"message": "no file"}), None),
        ):
            handler.run_sync = lambda call, answer=answer: answer
            self.assertEqual(handler.get_file(digest), wanted)
        for answer, message in (
            (Result(200, {"content": "b3RoZXI="}), "is damaged"),
            (Result(500, {"message": "the disk"}), "answers 500 .*the disk"),
        ):
            handler.run_sync = lambda call, answer=answer: answer
            with self.assertRaisesRegex(Exception, message):
                handler.get_file(digest)


class Reports(unittest.TestCase):
    def test_one_that_fits_no_frame_is_dropped(self) -> None:
        incoming, outgoing = os.pipe()
        self.addCleanup(os.close, incoming)
        self.addCleanup(os.close, outgoing)
        executing = Executing(pipe.Pipe(incoming, outgoing))
        self.addCleanup(setattr, pipe, "MAX_FRAME_BYTES", pipe.MAX_FRAME_BYTES)
        pipe.MAX_FRAME_BYTES = 1000
        request = {"id": 3, "resource": {"id": "nonsense"}, "requires": {}, "dry_run": False, "action_id": ACTION}
        with self.assertLogs("inmanta.agent.handler", "ERROR"):
            executing.deploy(json.dumps({**request, "reason": "x" * 2000, "dependency_changed": False, "ahead": False}))
        name, text = pipe.Pipe(incoming, outgoing).receive()
        body = json.loads(text)
        outcome = body["outcome"]
        (line,) = outcome["logs"]
        self.assertEqual((name, body["id"], outcome["status"]), ("deployed", 3, "failed"))
        self.assertIn("too large", line["msg"])

    def test_it_is_json_that_steward_reads_whatever_a_handler_says(self) -> None:
        """Rust reads 128 levels of JSON, no NaN, and UTF-8 alone."""
        deep: object = "inside"
        for _ in range(300):
            deep = [deep]
        context = HandlerContext(row(), logger=_silent())
        context.add_change("deep", desired=deep, current={"level": deep})
        context.add_change("odd", desired=float("nan"), current=[float("inf"), {"surrogate \udc80": "\udc80"}, 2**70])
        context.info("%(deep)s", deep=deep)
        context._discovered.update({"net::Row[a,name=deep]": {"deep": deep}, "net::Row[a,name=flat]": {"odd": float("-inf")}})
        text = as_json(report(context)).encode("utf-8", "replace").decode()
        told = json.loads(text, parse_constant=self.fail)
        depth = deepest = 0
        for character in re.sub(r'"(?:[^"\\]|\\.)*"', "", text):
            depth += (character in "[{") - (character in "]}")
            deepest = max(depth, deepest)
        self.assertLess(deepest, 128)
        self.assertEqual(told["changes"]["deep"]["desired"], "[" * 300 + '"inside"' + "]" * 300)
        odd = {"current": [None, {"surrogate ?": "?"}, str(2**70)], "desired": None}
        self.assertEqual(told["changes"]["odd"], odd)
        self.assertEqual([found["resource_id"] for found in told["discovered"]], ["net::Row[a,name=flat]"])
        self.assertIn("net::Row[a,name=deep] was not taken", told["logs"][-1]["msg"])


    def test_much_that_is_said_is_cut_where_it_is_said(self) -> None:
        context = HandlerContext(row(), logger=_silent())
        for n in range(20_000):
            context.debug("debug %(n)s", n=n)
        for n in range(20_000):
            context.info("info %(n)s", n=n)
        try:
            raise ValueError("x" * (50 << 20))
        except ValueError as error:
            context.exception("broken: %(error)s", error=str(error))
        context.error("last")
        context.add_change("value", current="a" * (1 << 20), desired=list(range(100_000)))
        context.set_fact("long", "v" * (1 << 20))
        context.set_fact("short", "v")
        outcome = report(context)
        lines = [line["msg"] for line in outcome["logs"]]
        self.assertLessEqual(len(lines), 1000)
        self.assertEqual(lines[0], "info 0")
        self.assertEqual(sum(line.startswith("debug") for line in lines), 0)
        self.assertIn("last", lines)
        self.assertTrue(any("more lines were cut; the limit is 1000 lines and 1 MiB a run" in line for line in lines))
        broken = next(line for line in outcome["logs"] if line["msg"].startswith("broken"))
        self.assertLess(len(broken["msg"]), 16 << 10)
        self.assertIn("characters were cut", broken["kwargs"]["traceback"])
        self.assertLess(len(str(broken)), 32 << 10)
        change = outcome["changes"]["value"]
        self.assertTrue(len(change["current"]) <= 64 << 10 and len(change["desired"]) <= 64 << 10)
        self.assertEqual([fact["name"] for fact in outcome["facts"]], ["short"])
        self.assertTrue(any(line.startswith("The fact long was not taken") for line in lines))

    def test_long_values_are_kept_from_where_they_differ(self) -> None:
        same = "".join(f"line {n}\n" for n in range(50_000))
        keys = {f"key{n:05}": n for n in range(20_000)}
        context = HandlerContext(row(), logger=_silent())
        context.add_change("content", current=f"{same}old\n{same}", desired=f"{same}new\n{same}")
        context.add_change("data", current={**keys, "key19990": 1}, desired={**keys, "key19990": 2})
        context.add_change("grown", current=same, desired=same + "new\n")
        context.add_change("first", current="old" + same, desired="new" + same)
        changes = report(context)["changes"]
        for name, old, new in (
            ("content", "line 49999\nold\nline 0\n", "line 49999\nnew\nline 0\n"),
            ("data", '"key19990": 1,', '"key19990": 2,'),
            ("grown", "line 49999\n", "line 49999\nnew\n"),
        ):
            current, desired = changes[name]["current"], changes[name]["desired"]
            self.assertRegex(current[:80], r"\A… \(\d+ characters before this are the same\)\n")
            self.assertTrue(old in current and new in desired, name)
            self.assertLessEqual(max(len(current), len(desired)), 64 << 10)
        self.assertTrue(changes["first"]["current"].startswith("oldline 0\n"))


def _silent() -> logging.Logger:
    logger = logging.Logger("silent")
    logger.disabled = True
    return logger


class Quickstart(unittest.TestCase):
    """The handler that newcomers read does what it says."""

    def test_a_registration_comes_and_goes(self) -> None:
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        file = os.path.join(root, "fixtures", "quickstart", "libs", "web", "inmanta_plugins", "web", "__init__.py")
        modules = Modules(self)
        files = [{"module": "inmanta_plugins.web", "path": file, "package": True}]
        modules.described = [{"name": "web", "root": os.path.dirname(file), "files": files}]
        host = Host(self, "executor")
        self.assertEqual(host.load_executor(modules)["types"], ["web::Registration"])
        entry = {
            "id": "web::Registration[front,domain=a.example],v=1",
            "registry": os.path.join(modules.path, "registry.json"),
            "domain": "a.example",
            "title": "A",
            "servers": ["www1"],
            "purged": False,
            "purge_on_delete": False,
        }

        def change(**fields: object) -> tuple[str, str]:
            outcome = host.deploy({**entry, **fields})
            return outcome["status"], outcome["change"]

        self.assertEqual(change(), ("deployed", "created"))
        self.assertEqual(change(), ("deployed", "nochange"))
        self.assertEqual(change(title="B"), ("deployed", "updated"))
        self.assertEqual(change(title="B"), ("deployed", "nochange"))
        self.assertEqual(change(purged=True), ("deployed", "purged"))
        self.assertEqual(change(purged=True), ("deployed", "nochange"))
        with open(entry["registry"], "w", encoding="utf-8") as registry:
            registry.write("oops")
        self.assertEqual(change(), ("failed", "nochange"))


class Odd:
    """What nothing can be made of."""

    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


class OddReports(unittest.TestCase):
    """What handlers leave in their context that is not what it should be."""

    def test_what_is_no_text_becomes_one(self) -> None:
        context = HandlerContext(row())
        for name in (3, [1], Odd()):
            context.set_fact(name, name)  # type: ignore[arg-type]
        context.update_changes({3: (1, 2)})  # type: ignore[dict-item]
        context._discovered = {4: {}}
        context._change = Odd()
        told = report(context)
        self.assertEqual([fact["name"] for fact in told["facts"]], ["3", "[1]", "<Odd>"])
        self.assertEqual([fact["value"] for fact in told["facts"]], ["3", "[1]", "<Odd>"])
        self.assertEqual(list(told["changes"]), ["3"])
        self.assertEqual(told["discovered"], [{"resource_id": "4", "values": {}}])
        self.assertEqual(told["change"], "<Odd>")

    def test_the_message_of_a_log_line_is_a_text(self) -> None:
        context = HandlerContext(row())
        for message in ({"a": 1}, [1], 5, None, b"x"):
            with self.assertRaises(TypeError):
                context.info(message)  # type: ignore[arg-type]
        self.assertEqual(report(context)["logs"], [])

    def test_a_report_that_cannot_be_read_fails_the_run(self) -> None:
        told = unreadable(ValueError("odd"), None)
        self.assertEqual((told["status"], told["change"]), ("failed", "nochange"))
        self.assertIn("cannot be read (exception: ValueError('odd'))", told["logs"][0]["msg"])


if __name__ == "__main__":
    unittest.main()
