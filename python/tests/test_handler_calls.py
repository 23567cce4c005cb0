"""What a task calls on a handler, in which order and with which arguments, and what leaves its methods."""

from __future__ import annotations

import unittest

from tests.support import ACTION, Host, Modules

CALLED = """
    from inmanta.agent.handler import CRUDHandler, DiscoveryHandler, HandlerContext, ResourceHandler
    from inmanta.agent.handler import ResourcePurged, SkipResource, provider
    from inmanta.resources import DiscoveryResource, PurgeableResource, Resource, resource

    METHODS = (
        "__init__", "set_cache", "close", "deploy", "execute", "pre", "post", "check_facts", "facts", "available",
        "can_reload", "do_reload", "check_resource", "list_changes", "do_changes", "_diff", "calculate_diff",
        "read_resource", "create_resource", "update_resource", "delete_resource", "discover_resources",
    )
    called = []

    def shown(value):
        if isinstance(value, HandlerContext):
            return "ctx"
        if isinstance(value, (PurgeableResource, Resource)):
            return "current" if value.value == "found" else "desired"
        if isinstance(value, dict):
            return "{" + ", ".join(sorted(value)) + "}"
        return repr(value) if isinstance(value, bool) else type(value).__name__.lower()

    def noted(base):
        def overridden(name):
            def method(self, *args, **kwargs):
                by_name = [f"{key}={shown(value)}" for key, value in kwargs.items()]
                arguments = ", ".join([*map(shown, args), *by_name])
                called.append(f"{name}({arguments})")
                return getattr(super(made, self), name)(*args, **kwargs)
            return method
        made = type(base.__name__, (base,), {name: overridden(name) for name in METHODS if hasattr(base, name)})
        return made

    @resource("net::Row", agent="agent", id_attribute="name")
    class Row(PurgeableResource):
        fields = ("name", "value")

    @provider("net::Row")
    @noted
    class RowHandler(CRUDHandler):
        def read_resource(self, ctx, resource):
            if resource.value == "skip":
                raise SkipResource("later")
            if resource.value == "new":
                raise ResourcePurged()
            if resource.value != "same":
                resource.value = "found"
        def can_reload(self):
            return True

    @resource("net::Old", agent="agent", id_attribute="name")
    class Old(Resource):
        fields = ("name", "value")

    @provider("net::Old")
    @noted
    class OldHandler(ResourceHandler):
        def check_resource(self, ctx, resource):
            return resource.clone(value="found")
        def do_changes(self, ctx, resource, changes):
            pass

    @resource("net::Found", agent="agent", id_attribute="name")
    class Found(DiscoveryResource):
        fields = ("name", "value")

    @provider("net::Found")
    @noted
    class FoundHandler(DiscoveryHandler):
        def discover_resources(self, ctx, resource):
            return {}

    @resource("net::Calls", agent="agent", id_attribute="name")
    class Calls(Resource):
        fields = ("name", "value")

    @provider("net::Calls")
    class CallsHandler(ResourceHandler):
        def execute(self, ctx, resource, dry_run=False):
            ctx.info("called", calls=list(called))
            called.clear()
"""

START, END = ["__init__(agent)", "set_cache(agentcache)"], ["close()"]
DEPLOY = [*START, "deploy(ctx, desired, {})", "execute(ctx, desired)", "pre(ctx, desired)"]
DRY_RUN = [*START, "execute(ctx, desired, True)", "pre(ctx, desired)"]
POST = "post(ctx, desired)"
READ = ["calculate_diff(ctx, current, desired)", "_diff(current, desired)"]
LISTED = ["list_changes(ctx, desired)", "check_resource(ctx, desired)", "_diff(current, desired)"]
RELOAD = "can_reload()"

# Kind and value of a resource, task, calls: those that the reference makes.
TABLE: list[tuple[str, str, str, list[str]]] = [
    ("Row", "same", "deploy", [*DEPLOY, "read_resource(ctx, desired)", "calculate_diff(ctx, desired, desired)", "_diff(desired, desired)", POST, RELOAD, *END]),
    ("Row", "other", "deploy", [*DEPLOY, "read_resource(ctx, desired)", *READ, "update_resource(ctx, {value}, desired)", POST, RELOAD, *END]),
    ("Row", "new", "deploy", [*DEPLOY, "read_resource(ctx, desired)", "create_resource(ctx, desired)", POST, RELOAD, *END]),
    ("Row", "purge", "deploy", [*DEPLOY, "read_resource(ctx, desired)", *READ, "delete_resource(ctx, desired)", POST, RELOAD, *END]),
    ("Row", "skip", "deploy", [*DEPLOY, "read_resource(ctx, desired)", POST, RELOAD, *END]),
    ("Row", "new", "reload", [*DEPLOY, "read_resource(ctx, desired)", "create_resource(ctx, desired)", POST, RELOAD, "do_reload(ctx, desired)", *END]),
    ("Row", "other", "blocked", [*START, "deploy(ctx, desired, {net::Row[a,name=q]})", *END]),
    ("Row", "other", "dry run", [*DRY_RUN, "read_resource(ctx, desired)", *READ, POST, *END]),
    ("Row", "other", "facts", [*START, "check_facts(ctx, desired)", "pre(ctx, desired)", "facts(ctx, desired)", POST, *END]),
    ("Old", "other", "deploy", [*DEPLOY, *LISTED, "do_changes(ctx, desired, {value})", POST, RELOAD, *END]),
    ("Old", "other", "dry run", [*DRY_RUN, *LISTED, POST, *END]),
    ("Old", "other", "facts", [*START, "check_facts(ctx, desired)", "pre(ctx, desired)", "facts(ctx, desired)", POST, *END]),
    ("Found", "other", "deploy", [*DEPLOY, "discover_resources(ctx, desired)", POST, RELOAD, *END]),
    ("Found", "other", "dry run", [*START, "execute(ctx, desired, True)", *END]),
    ("Found", "other", "facts", [*START, "check_facts(ctx, desired)", *END]),
]


def exported(kind: str, value: str) -> dict:
    fields = {"name": "r", "value": value, "purged": value == "purge", "purge_on_delete": False, "send_event": True}
    return {**fields, "requires": [], "id": f"net::{kind}[a,name=r],v=4"}


class Calls(unittest.TestCase):
    """Modules override any of these methods, with parameters of their own names."""

    def test_each_task_makes_the_calls_of_the_reference(self) -> None:
        host = Host(self, "executor")
        host.load_executor(Modules(self).write("net", CALLED))
        for kind, value, task, expected in TABLE:
            with self.subTest(kind=kind, value=value, task=task):
                wanted = exported(kind, value)
                if task == "facts":
                    host.ask("facts", {"id": 5, "resource": wanted, "action_id": ACTION})
                else:
                    host.deploy(
                        wanted,
                        dry_run=task == "dry run",
                        dependency_changed=task == "reload",
                        requires={"net::Row[a,name=q]": "failed"} if task == "blocked" else {},
                    )
                outcome = host.deploy(exported("Calls", ""))
                (calls,) = (line["kwargs"]["calls"] for line in outcome["logs"] if line["msg"] == "called")
                self.assertEqual(calls, expected)


RAISING = """
    from inmanta.agent.handler import ResourceHandler, SkipResource, SkipResourceForDependencies, provider
    from inmanta.references import ReferenceMissingError
    from inmanta.resources import Resource, resource

    RAISED = {
        "skip": lambda: SkipResource("later"),
        "dependency": lambda: SkipResourceForDependencies("after another"),
        "reference": lambda: ReferenceMissingError("net::Gone", "no such class"),
        "error": lambda: ValueError("no way"),
    }

    @resource("net::Raising", agent="agent", id_attribute="name")
    class Raising(Resource):
        fields = ("name", "value")

    # The parameters have other names than those of the base class.
    @provider("net::Raising")
    class RaisingHandler(ResourceHandler):
        def reached(self, method, wanted):
            where, what = wanted.value.split()
            if where == method:
                raise RAISED[what]()
        def deploy(self, context, wanted, others):
            self.reached("deploy", wanted)
            super().deploy(context, wanted, others)
        def execute(self, context, wanted, only_look=False):
            self.reached("execute", wanted)
        def can_reload(self):
            return True
        def do_reload(self, context, wanted):
            self.reached("do_reload", wanted)
"""

# What leaves a handler, and the state and the level of the last line that follow from it, as in the reference.
LEFT = {
    "skip": ("skipped", "WARNING"),
    "dependency": ("skipped_for_dependency", "WARNING"),
    "reference": ("unavailable", "ERROR"),
    "error": ("failed", "ERROR"),
}


class Raising(unittest.TestCase):
    def setUp(self) -> None:
        self.host = Host(self, "executor")
        self.host.load_executor(Modules(self).write("net", RAISING))

    def test_what_leaves_a_method_decides_the_state(self) -> None:
        for method in ("deploy", "execute", "do_reload"):
            for what, expected in LEFT.items():
                with self.subTest(method=method, what=what):
                    outcome = self.host.deploy(exported("Raising", f"{method} {what}"), dependency_changed=True)
                    *_, last, _end = outcome["logs"]
                    self.assertEqual((outcome["status"], last["level"]), expected)
                    if last["level"] == "WARNING":
                        self.assertRegex(last["msg"], r"^Resource net::Raising\[a,name=r\],v=4 was skipped: .*(later|after)")

    def test_a_dry_run_gives_its_flag_by_position(self) -> None:
        outcome = self.host.deploy(exported("Raising", "nowhere nothing"), dry_run=True)
        self.assertEqual((outcome["status"], outcome["changes"]), ("dry", {}))

    def test_a_dry_run_that_an_exception_leaves_has_failed(self) -> None:
        for what in LEFT:
            outcome = self.host.deploy(exported("Raising", f"execute {what}"), dry_run=True)
            self.assertEqual(outcome["changes"]["handler"]["current"], "FAILED", what)
