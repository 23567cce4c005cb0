"""Runs resources through a handler that does nothing, before the modules are imported and any host is forked.

Python does much of its work when a function runs for the first times: it looks names up and keeps where they were, compiles
regular expressions, and writes instructions again as faster ones. In a process that is forked for each agent this would be
done once an agent, and each page of memory that it writes to would be copied once an agent. Done before the forks it is
done once, and the pages stay shared: a host with one resource needs a sixth less time.

No code of a module runs here, and nothing stays: neither the class, nor its handler, nor a thread.
"""

from __future__ import annotations

import json
import os

from steward_host.pipe import Pipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from inmanta.agent.handler import HandlerContext
    from steward_host.messages import Task

# Python makes instructions faster ones when a function has run about eight times.
RUNS = 12
TYPE = "steward::Warming"


def warm_up() -> list[str]:
    """Deploys a resource of our own a few times, as tasks come and reports go; what changed each time."""
    from inmanta import resources
    from inmanta.agent.handler import Commander, CRUDHandler
    from steward_host import hidden
    from steward_host.executing import Executing

    class Warming(resources.PurgeableResource):
        fields = ("name", "value")
        name: str
        value: str

    class WarmingHandler(CRUDHandler[Warming]):
        def read_resource(self, ctx: HandlerContext, resource: Warming) -> None:
            # Every third one is changed.
            resource.value = "found" if resource.name.endswith("0") else resource.value

        def update_resource(self, ctx: HandlerContext, changes: dict[str, Any], resource: Warming) -> None:
            ctx.set_updated()

    resources.resource(TYPE, agent="name", id_attribute="name")(Warming)
    Commander.add_provider(TYPE, WarmingHandler)
    # Frames are written into a pipe and read at its other end, by the same process.
    read, write = os.pipe()
    pipe = Pipe(read, write)
    try:
        executing = Executing(pipe, is_followed=False)
        changes = []
        for number in range(RUNS):
            pipe.send("deploy", json.dumps(_task(number)))
            name, fields = pipe.receive()
            executing.deploy(fields)
            name, fields = pipe.receive()
            changes.append(json.loads(fields)["outcome"]["change"])
        executing.stop()
        return changes
    finally:
        pipe.close()
        Commander.get_handlers().pop(TYPE, None)
        resources.resource._resources.pop(TYPE, None)
        hidden.forget(Warming)


def _task(number: int) -> Task:
    name = f"warming{number % 3}"
    resource = {
        "id": f"{TYPE}[{name},name={name}],v=1",
        "name": name,
        "value": "desired",
        "purged": False,
        "purge_on_delete": False,
        "report_only": False,
        "receive_events": True,
        "send_event": True,
        "references": [],
        "mutators": [],
        "requires": [f"{TYPE}[{name},name=other],v=1"],
    }
    return {
        "id": number,
        "resource": resource,
        "action_id": "00000000-0000-4000-8000-000000000000",
        "requires": {f"{TYPE}[{name},name=other],v=1": "deployed"},
        "dry_run": False,
        "reason": "code is warmed up",
        "dependency_changed": False,
        "ahead": False,
    }
