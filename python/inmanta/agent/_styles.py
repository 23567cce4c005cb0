"""The bases that handlers are written on: in the older style, by four methods, for what exists.

Source: docs/reference/python.md § 5.
"""

from __future__ import annotations

from abc import abstractmethod

from inmanta._generic import Subscripted2
from inmanta.agent._context import HandlerContext
from inmanta.agent._exceptions import ResourcePurged
from inmanta.agent._tasks import HandlerAPI, fail, run_post
from inmanta.const import HandlerResourceState
from inmanta.resources import Id, PurgeableResource, Resource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, TypeVar

    R = TypeVar("R", bound=Resource)
    P = TypeVar("P", bound=PurgeableResource)
    Found = TypeVar("Found")
    Changes = dict[str, dict[str, Any]]
else:
    R = P = Found = None


class ResourceHandler(HandlerAPI[R]):
    """The older style: find out what is there, list the differences, make the changes."""

    def _diff(self, current: R, desired: R) -> Changes:
        return _difference(current, desired)

    def check_resource(self, ctx: HandlerContext, resource: R) -> R:
        """A copy of the resource with its actual state."""
        raise NotImplementedError

    def list_changes(self, ctx: HandlerContext, resource: R) -> Changes:
        """The attributes that differ, as attribute -> {current, desired}."""
        return self._diff(self.check_resource(ctx, resource), resource)

    def do_changes(self, ctx: HandlerContext, resource: R, changes: Changes) -> None:
        """Makes the changes; called without any as well."""
        raise NotImplementedError

    def execute(self, ctx: HandlerContext, resource: R, dry_run: bool = False) -> None:
        try:
            self.pre(ctx, resource)
            changes = self.list_changes(ctx, resource)
            ctx.update_changes(changes)
            if _report_only(ctx, resource, bool(changes)):
                return
            if dry_run:
                ctx.set_resource_state(HandlerResourceState.dry)
            else:
                self.do_changes(ctx, resource, changes)
                ctx.set_resource_state(HandlerResourceState.deployed)
        except Exception as error:
            fail(ctx, resource, error)
        finally:
            run_post(self, ctx, resource)


class CRUDHandler(ResourceHandler[P]):
    """A handler of four methods: read, create, delete and update.

    `read_resource` edits its argument, a copy of the desired state, until it says what is there, or raises
    ResourcePurged. The three others get the desired state.
    """

    def read_resource(self, ctx: HandlerContext, resource: P) -> None:
        """Turns `resource` into the actual state; ResourcePurged if there is nothing."""

    def create_resource(self, ctx: HandlerContext, resource: P) -> None:
        """Makes the thing. Calls `ctx.set_created()`."""

    def delete_resource(self, ctx: HandlerContext, resource: P) -> None:
        """Removes the thing. Calls `ctx.set_purged()`."""

    def update_resource(self, ctx: HandlerContext, changes: Changes, resource: P) -> None:
        """Changes the thing; `changes` is attribute -> {current, desired}. Calls `ctx.set_updated()`."""

    def calculate_diff(self, ctx: HandlerContext, current: P, desired: P) -> Changes:
        """The attributes that differ, as attribute -> {current, desired}. A desired null never differs."""
        return self._diff(current, desired)

    def execute(self, ctx: HandlerContext, resource: P, dry_run: bool = False) -> None:
        try:
            self.pre(ctx, resource)
            current = resource.clone(purged=False)
            changes: Changes = {}
            try:
                ctx.debug("Calling read_resource")
                self.read_resource(ctx, current)
                changes = self.calculate_diff(ctx, current, resource)
            except ResourcePurged:
                if not resource.purged:
                    changes = {"purged": {"current": True, "desired": False}}
            for field, change in changes.items():
                ctx.add_change(field, desired=change["desired"], current=change["current"])
            if _report_only(ctx, resource, bool(changes)):
                return
            if dry_run:
                ctx.set_resource_state(HandlerResourceState.dry)
                return
            if "purged" in changes:
                if not changes["purged"]["desired"]:
                    ctx.debug("Calling create_resource")
                    self.create_resource(ctx, resource)
                else:
                    ctx.debug("Calling delete_resource")
                    self.delete_resource(ctx, resource)
            elif not resource.purged and changes:
                ctx.debug("Calling update_resource", changes=changes)
                self.update_resource(ctx, dict(changes), resource)
            ctx.set_resource_state(HandlerResourceState.deployed)
        except Exception as error:
            fail(ctx, resource, error)
        finally:
            run_post(self, ctx, resource)


CRUDHandlerGeneric = CRUDHandler


class DiscoveryHandler(HandlerAPI[R], Subscripted2[R, Found]):
    """A handler that reports what exists: `discover_resources` gives resource id -> values."""

    def check_facts(self, ctx: HandlerContext, resource: R) -> dict[str, object]:
        """None: what it finds are resources, so nothing is asked, `pre` and `post` neither."""
        return {}

    @abstractmethod
    def discover_resources(self, ctx: HandlerContext, discovery_resource: R) -> Mapping[str, Found]:
        """What exists: resource id without version -> a model object (`model_dump`)."""

    def execute(self, ctx: HandlerContext, resource: R, dry_run: bool = False) -> None:
        if dry_run:
            return
        try:
            self.pre(ctx, resource)
            found = self.discover_resources(ctx, resource)
            values = {}
            for rid, value in found.items():
                if not hasattr(value, "model_dump"):
                    raise TypeError(f"discover_resources gave a {type(value).__name__} for {rid}, not a model object")
                if not Id.is_resource_id(str(rid)):
                    raise ValueError(f"discover_resources gave {rid}, which is no resource id")
                # An id with a version names the same resource.
                values[Id.parse_id(str(rid)).resource_str()] = _as_json(value.model_dump())
            ctx._discovered.update(values)
            ctx.set_resource_state(HandlerResourceState.deployed)
        except Exception as error:
            fail(ctx, resource, error)
        finally:
            run_post(self, ctx, resource)


def _as_json(values: dict[str, object]) -> dict[str, object]:
    """Values as a client of the API would send them; those that have no form in JSON are a TypeError."""
    import json

    from inmanta.util import api_boundary_json_encoder

    read: dict[str, object] = json.loads(json.dumps(values, default=api_boundary_json_encoder))
    return read


def _difference(current: Resource, desired: Resource) -> Changes:
    changes = {}
    for field in type(current).fields:
        wanted = getattr(desired, field)
        is_now = getattr(current, field)
        # Null desired means that nobody cares.
        if wanted is not None and is_now != wanted:
            changes[field] = {"current": is_now, "desired": wanted}
    return changes


def _report_only(ctx: HandlerContext, resource: Resource, differs: bool) -> bool:
    """Whether only a report is wanted; then it is made.

    What was calculated decides: methods add changes that they only want to be seen.
    """
    if not getattr(resource, "report_only", False):
        return False
    if differs:
        ctx.set_resource_state(HandlerResourceState.non_compliant)
        ctx.info(
            "Resource %(resource_id)s was marked as non-compliant.",
            resource_id=resource.id.resource_str(),
            changes={name: change.model_dump() for name, change in ctx.changes.items()},
        )
    else:
        ctx.set_resource_state(HandlerResourceState.deployed)
    return True
