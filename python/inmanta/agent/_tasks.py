"""What is called on every handler in a task, and the way of handlers to the server.

Source: docs/reference/python.md § 4 and § 5; docs/reference/deployment.md § 5.5.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

from inmanta._generic import Subscripted
from inmanta.agent import _bounds
from inmanta.agent._context import HandlerContext, word_of
from inmanta.agent._exceptions import SkipResource, SkipResourceForDependencies
from inmanta.agent.cache import AgentCache
from inmanta.const import HandlerResourceState, ResourceState
from inmanta.resources import Resource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Awaitable, Callable, Mapping
    from typing import Any, TypeVar

    from inmanta.protocol.endpoints import Client

    T = TypeVar("T")
    R = TypeVar("R", bound=Resource)
else:
    R = None


class HandlerAPI(Subscripted[R], ABC):
    """What Steward calls on a handler. A handler lives for one task; only the cache outlives it."""

    def __init__(self, agent: Any, io: object = None) -> None:
        self._agent = agent
        self._io = io
        self._client: Client | None = None
        self._cache: AgentCache | None = None

    @property
    def cache(self) -> AgentCache:
        if self._cache is None:
            self._cache = AgentCache()
        return self._cache

    @cache.setter
    def cache(self, cache: AgentCache) -> None:
        self._cache = cache

    def set_cache(self, cache: AgentCache) -> None:
        # By its name: a class may have something else there.
        self.cache = cache

    def close(self) -> None:
        """Called after each task, whatever its end."""

    def pre(self, ctx: HandlerContext, resource: R) -> None:
        """Called before anything else is done with the resource."""

    def post(self, ctx: HandlerContext, resource: R) -> None:
        """Called after everything else, also after a failure."""

    def can_reload(self) -> bool:
        """Whether `do_reload` is to be called when a dependency has changed."""
        return False

    def do_reload(self, ctx: HandlerContext, resource: R) -> None:
        """Reloads the thing after a change of a dependency."""

    @abstractmethod
    def execute(self, ctx: HandlerContext, resource: R, dry_run: bool = False) -> None:
        """Brings the thing to its desired state, or in a dry run only finds the differences."""

    def deploy(self, ctx: HandlerContext, resource: R, requires: Mapping[str, ResourceState]) -> None:
        """Runs `execute` if the states of the dependencies allow it, then `do_reload` if one has changed."""
        # What is only looked at does not care about the state of others.
        if getattr(resource, "report_only", False) or not self._blocked(ctx, requires):
            self.execute(ctx, resource)
            if self.can_reload() and self._did_dependency_change(resource):
                ctx.info("Reloading because a dependency has changed")
                self.do_reload(ctx, resource)

    def _blocked(self, ctx: HandlerContext, requires: Mapping[str, ResourceState]) -> bool:
        states = {rid: word_of(state) for rid, state in requires.items()}
        if all(state == "deployed" for state in states.values()):
            return False

        def among(*wanted: str) -> list[str]:
            return sorted(rid for rid, state in states.items() if state in wanted)

        unexpected = among("dry", "undefined", "skipped_for_undefined")
        outdated = among("available", "deploying")
        failed = sorted(rid for rid, state in states.items() if state != "deployed")
        if unexpected:
            ctx.warning(
                "Skipped because of the state of its dependencies: %(states)s",
                states={rid: states[rid] for rid in unexpected},
            )
        elif outdated:
            ctx.info("Skipped because a dependency has a newer desired state: %(dependencies)s", dependencies=outdated)
        else:
            ctx.info("Skipped because of failed dependencies: %(dependencies)s", dependencies=failed)
        ctx.set_resource_state(HandlerResourceState.skipped_for_dependency)
        return True

    def _did_dependency_change(self, resource: R) -> bool:
        return bool(getattr(self._agent, "dependency_changed", False))

    def check_facts(self, ctx: HandlerContext, resource: R) -> dict[str, object]:
        """The facts of a resource, with `pre` and `post` around the question."""
        try:
            self.pre(ctx, resource)
            return self.facts(ctx, resource) or {}
        finally:
            run_post(self, ctx, resource, "getting facts about")

    def facts(self, ctx: HandlerContext, resource: R) -> dict[str, object]:
        """The facts of a resource, by name."""
        return {}

    def available(self, resource: R) -> bool:
        return True

    # --- the way to the server ---------------------------------------------------------------------------------------

    @cached_property
    def _ioloop(self) -> AbstractEventLoop:
        """The name that the loop has in the reference; handlers use it, and some set it."""
        loop: AbstractEventLoop = self._agent.eventloop
        return loop

    def run_sync(self, func: Callable[[], Awaitable[T]]) -> T:
        """Runs an async function on the agent's event loop and gives its result.

        As in the reference, what the function gives may also be a future of a thread, or a list or a dict of such.
        """
        import asyncio

        async def call() -> T:
            result: T = await _awaitable(func())
            return result

        return asyncio.run_coroutine_threadsafe(call(), self._agent.eventloop).result()

    def get_client(self) -> Client:
        if self._client is None:
            from inmanta.protocol import endpoints

            self._client = endpoints.SessionClient("agent", getattr(self._agent, "sessionid", None))
        return self._client

    def get_file(self, hash_id: str) -> bytes | None:
        """The content with this SHA-1 from the server's file store, None if it has none; else an exception."""
        from inmanta.util import hash_file

        result = self.run_sync(lambda: self.get_client().get_file(hash_id))
        if result.code == 404:
            return None
        if result.code != 200 or not result.result:
            raise Exception(f"The file {hash_id} could not be read: the server answers {result.code} {result.result}")
        import base64

        content = base64.b64decode(result.result["content"])
        found = hash_file(content)
        if found != hash_id:
            raise Exception(f"The file {hash_id} is damaged: its content has the hash {found}")
        return content

    def stat_file(self, hash_id: str) -> bool:
        return self.run_sync(lambda: self.get_client().stat_file(hash_id)).code == 200

    def upload_file(self, hash_id: str, content: bytes) -> None:
        import base64

        encoded = base64.b64encode(content).decode("ascii")
        result = self.run_sync(lambda: self.get_client().upload_file(id=hash_id, content=encoded))
        if result.code not in (200, 409):
            raise Exception("Unable to upload file to the server.")


def _awaitable(given: Any) -> Awaitable[Any]:
    """What can be awaited, of what a function for `run_sync` gives."""
    import asyncio
    from concurrent.futures import Future

    if isinstance(given, Future):
        return asyncio.wrap_future(given)
    if isinstance(given, dict):
        return _of_names(given)
    if isinstance(given, list):
        return asyncio.gather(*map(_awaitable, given))
    awaitable: Awaitable[Any] = given
    return awaitable


async def _of_names(given: dict[Any, Any]) -> dict[Any, Any]:
    return dict(zip(given, await _awaitable(list(given.values()))))


def fail(ctx: HandlerContext, resource: Resource, error: BaseException) -> None:
    """Writes down why a run ended early, with the state that follows from it."""
    if isinstance(error, SkipResourceForDependencies):
        ctx.set_resource_state(HandlerResourceState.skipped_for_dependency)
        ctx.warning(
            "Resource %(resource_id)s was skipped: %(reason)s",
            resource_id=resource.id.resource_str(),
            reason=_reason(error),
        )
    elif isinstance(error, SkipResource):
        ctx.set_resource_state(HandlerResourceState.skipped)
        ctx.warning(
            "Resource %(resource_id)s was skipped: %(reason)s",
            resource_id=resource.id.resource_str(),
            reason=_reason(error),
        )
    else:
        ctx.set_resource_state(HandlerResourceState.failed)
        ctx.exception(
            "An error occurred during deployment of %(resource_id)s (exception: %(exception)s)",
            resource_id=resource.id.resource_str(),
            exception=_bounds.text_of(error),
        )


def run_post(handler: HandlerAPI[R], ctx: HandlerContext, resource: R, after: str = "deployment of") -> None:
    try:
        handler.post(ctx, resource)
    except Exception as error:
        ctx.exception(
            f"An error occurred after {after} %(resource_id)s (exception: %(exception)s)",
            resource_id=resource.id.resource_str(),
            exception=_bounds.text_of(error),
        )


def _reason(error: BaseException) -> tuple[object, ...]:
    return tuple(_bounds.clip(part) if isinstance(part, str) else part for part in error.args)
