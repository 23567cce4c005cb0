"""Handlers: what a resource does on a machine.

A class under `@provider(resource type)` is made anew for each task; `CRUDHandler` is the base for most. Everything it
does with the outside it tells its `HandlerContext`: log lines, differences, changes, facts, the resulting state.
Source: Python surface, chapters 3 to 6; deployment reference 5.5.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import inmanta
from inmanta import const, data
from inmanta._generic import Subscripted, Subscripted2
from inmanta.agent.cache import IDLE, WITHOUT_VERSION, AgentCache
from inmanta.const import HandlerResourceState, ResourceState
from inmanta.data.model import AttributeStateChange
from inmanta.resources import Id, PurgeableResource, Resource

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
    from typing import Any, TypeVar
    from uuid import UUID

    from inmanta.protocol.endpoints import Client

    C = TypeVar("C", bound=type)
    T = TypeVar("T")
    R = TypeVar("R", bound=Resource)
    P = TypeVar("P", bound=PurgeableResource)
    Found = TypeVar("Found")
    Changes = dict[str, dict[str, Any]]
else:
    R = P = Found = None

__all__ = [
    "AgentCache",
    "CRUDHandler",
    "CRUDHandlerGeneric",
    "Commander",
    "DiscoveryHandler",
    "HandlerAPI",
    "HandlerContext",
    "HandlerNotAvailableException",
    "InvalidOperation",
    "LoggerABC",
    "PythonLogger",
    "ResourceHandler",
    "ResourcePurged",
    "SkipResource",
    "SkipResourceForDependencies",
    "cache",
    "provider",
]


class provider:
    """`@provider("net::Port")` over a handler class. Of several classes for a type the last one counts."""

    def __init__(self, resource_type: str, name: str | None = None) -> None:
        self._resource_type = resource_type
        self._name = name

    def __call__(self, cls: C) -> C:
        Commander.add_provider(self._resource_type, self._name, cls)
        return cls


class SkipResource(Exception):
    """The resource cannot be handled now; a later run tries again."""


class SkipResourceForDependencies(SkipResource):
    """Skipped because of the state of a resource that this one requires."""


class ResourcePurged(Exception):
    """Raised by `read_resource`: the thing does not exist."""


class InvalidOperation(Exception):
    """A call of the handler's context that makes no sense at this point."""


class HandlerNotAvailableException(Exception):
    """There is no handler for a resource."""


def cache(
    func: Callable[..., Any] | None = None,
    ignore: Sequence[str] = (),
    timeout: float | None = None,
    for_version: bool | None = None,
    cache_none: bool = True,
    cacheNone: bool | None = None,
    call_on_delete: Callable[[Any], object] | None = None,
    evict_after_creation: float = 0.0,
    evict_after_last_access: float = 0.0,
) -> Any:
    """Keeps the results of a handler's method in the cache of the executor, by the method's name and arguments.

    `ignore` names arguments that do not count. Without a limit a result stays until 60 s after its last use;
    `evict_after_creation`, `evict_after_last_access` and the older `timeout` (from creation) are seconds.
    `call_on_delete(value)` runs once when the result is dropped.
    """
    if cacheNone is not None:
        cache_none = cacheNone
    ignored = frozenset(ignore)
    creation, idle = _retention(timeout, for_version, evict_after_creation, evict_after_last_access)

    def decorate(method: Any) -> Callable[..., Any]:
        import functools

        code = method.__code__
        names = code.co_varnames[1 : code.co_argcount]
        defaults = method.__defaults__ or ()
        by_default = dict(zip(names[len(names) - len(defaults) :], defaults)) if defaults else {}
        by_default.update(method.__kwdefaults__ or {})

        @functools.wraps(method)
        def cached(self: HandlerAPI[Any], *args: object, **kwargs: object) -> object:
            if len(args) > len(names):
                raise TypeError(f"{method.__name__}() takes {len(names)} arguments but {len(args)} were given")
            bound = {**by_default, **dict(zip(names, args))}
            bound.update(kwargs)

            def produce(**arguments: object) -> object:
                return method(self, **arguments)

            return self.cache.get_or_else(
                method.__name__,
                produce,
                idle,
                creation,
                cache_none,
                call_on_delete,
                ignored,
                **bound,
            )

        return cached

    return decorate if func is None else decorate(func)


def _retention(
    timeout: float | None, for_version: bool | None, evict_after_creation: float, evict_after_last_access: float
) -> tuple[float, float]:
    """Seconds from creation and from last use after which a result is stale; 0: no such limit."""
    if for_version is True:
        return 0.0, evict_after_last_access or IDLE
    if for_version is False:
        return evict_after_creation or timeout or WITHOUT_VERSION, 0.0
    if evict_after_creation or evict_after_last_access:
        if timeout is not None:
            import warnings

            text = "@cache: timeout is ignored beside evict_after_creation and evict_after_last_access"
            warnings.warn(text, stacklevel=3)
        return evict_after_creation, evict_after_last_access
    if timeout is not None:
        return timeout, 0.0
    return 0.0, IDLE


class LoggerABC(ABC):
    """Logging with named arguments: `logger.info("read %(path)s", path=path)`."""

    def debug(self, msg: str, *args: object, exc_info: bool = False, **kwargs: object) -> None:
        self._log_msg(10, msg, *args, exc_info=exc_info, **kwargs)

    def info(self, msg: str, *args: object, exc_info: bool = False, **kwargs: object) -> None:
        self._log_msg(20, msg, *args, exc_info=exc_info, **kwargs)

    def warning(self, msg: str, *args: object, exc_info: bool = False, **kwargs: object) -> None:
        self._log_msg(30, msg, *args, exc_info=exc_info, **kwargs)

    def error(self, msg: str, *args: object, exc_info: bool = False, **kwargs: object) -> None:
        self._log_msg(40, msg, *args, exc_info=exc_info, **kwargs)

    def critical(self, msg: str, *args: object, exc_info: bool = False, **kwargs: object) -> None:
        self._log_msg(50, msg, *args, exc_info=exc_info, **kwargs)

    def exception(self, msg: str, *args: object, exc_info: bool = True, **kwargs: object) -> None:
        self._log_msg(40, msg, *args, exc_info=exc_info, **kwargs)

    @abstractmethod
    def _log_msg(self, level: int, msg: str, *args: object, exc_info: bool = False, **kwargs: object) -> None:
        """Writes one line."""


class PythonLogger(LoggerABC):
    """Writes to a logger of Python's own."""

    def __init__(self, logger: logging.Logger) -> None:
        self.logger = logger

    def _log_msg(self, level: int, msg: str, *args: object, exc_info: bool = False, **kwargs: object) -> None:
        # The logging package takes one mapping for named places.
        values = args if args else ((kwargs,) if kwargs else ())
        self.logger.log(level, msg, *values, exc_info=exc_info)




class HandlerContext(LoggerABC):
    """What one run of a handler finds out and does."""

    def __init__(
        self,
        resource: Resource,
        dry_run: bool = False,
        action_id: UUID | str | None = None,
        logger: logging.Logger | None = None,
    ) -> None:
        self._resource = resource
        self._dry_run = dry_run
        self._action_id: UUID | str | None = action_id
        self._logger = logger
        self._cache: dict[str, object] = {}
        self._purged = False
        self._updated = False
        self._created = False
        self._change = const.Change.nochange
        self._changes: dict[str, AttributeStateChange] = {}
        self._status: ResourceState | None = None
        self._resource_state: HandlerResourceState | None = None
        self._logs: list[data.LogLine] = []
        self._facts: list[dict[str, Any]] = []
        # Of a discovery: resource id -> values; they are kept when the run is over.
        self._discovered: dict[str, dict[str, Any]] = {}

    @property
    def action_id(self) -> UUID:
        known = self._action_id
        if known is None or isinstance(known, str):
            import uuid

            known = self._action_id = uuid.uuid4() if known is None else uuid.UUID(known)
        return known

    @property
    def logger(self) -> logging.Logger:
        if self._logger is None:
            import logging

            self._logger = logging.getLogger(__name__)
        return self._logger

    def set_logger(self, logger: logging.Logger) -> None:
        self._logger = logger

    def is_dry_run(self) -> bool:
        return self._dry_run

    # --- result ------------------------------------------------------------------------------------------------------

    @property
    def status(self) -> ResourceState | None:
        return self._status

    @property
    def resource_state(self) -> HandlerResourceState | None:
        return self._resource_state

    def set_status(self, status: ResourceState) -> None:
        """Sets the result; a state that a handler cannot give counts as failed, with a warning."""
        try:
            self.set_resource_state(HandlerResourceState(_word(status)))
        except ValueError:
            self.warning(
                "Called set_status with unsupported status %(status)s, the resource is marked failed",
                status=_word(status),
            )
            self.set_resource_state(HandlerResourceState.failed)

    def set_resource_state(self, new_state: HandlerResourceState) -> None:
        """Sets the result. InvalidOperation for `non_compliant` without any difference."""
        new_state = HandlerResourceState(_word(new_state))
        if new_state == HandlerResourceState.non_compliant and not self._changes:
            raise InvalidOperation("A resource without changes is not non_compliant: report them with add_change first")
        self._resource_state = new_state
        text = "skipped" if new_state == HandlerResourceState.skipped_for_dependency else new_state.value
        self._status = ResourceState(text)

    # --- facts and scratch values ------------------------------------------------------------------------------------

    def set_fact(self, fact_id: str, value: str, expires: bool = True) -> None:
        """Reports a fact of the resource, sent when the run is over."""
        fact = {
            "id": fact_id,
            "source": const.ParameterSource.fact.value,
            "value": value,
            "resource_id": self._resource.id.resource_str(),
            "expires": expires,
        }
        self._facts = [known for known in self._facts if known["id"] != fact_id]
        self._facts.append(fact)

    @property
    def facts(self) -> list[dict[str, Any]]:
        return self._facts

    def set(self, name: str, value: object) -> None:
        """Keeps a value for the rest of this run."""
        self._cache[name] = value

    def get(self, name: str) -> Any:
        return self._cache[name]

    def contains(self, key: str) -> bool:
        return key in self._cache

    # --- what was done -----------------------------------------------------------------------------------------------

    def _set_change(self, change: const.Change) -> None:
        if self._change is not const.Change.nochange:
            raise InvalidOperation(f"Unable to set {change} operation, {self._change} already set.")
        self._change = change

    def set_created(self) -> None:
        self._set_change(const.Change.created)
        self._created = True

    def set_updated(self) -> None:
        self._set_change(const.Change.updated)
        self._updated = True

    def set_purged(self) -> None:
        self._set_change(const.Change.purged)
        self._purged = True

    @property
    def changed(self) -> bool:
        return self._change is not const.Change.nochange

    @property
    def change(self) -> const.Change:
        return self._change

    # --- what differs ------------------------------------------------------------------------------------------------

    def add_change(self, name: str, desired: object, current: object = None) -> None:
        """Reports that an attribute differs."""
        self._changes[name] = AttributeStateChange(current=current, desired=desired)

    def add_changes(self, **kwargs: object) -> None:
        """Reports differences by their desired values."""
        for field, value in kwargs.items():
            self._changes[field] = AttributeStateChange(desired=value)

    def fields_updated(self, fields: str | Sequence[str]) -> None:
        """Reports that attributes differ, without values."""
        for field in (fields,) if isinstance(fields, str) else fields:
            self._changes.setdefault(field, AttributeStateChange())

    def update_changes(self, changes: Mapping[str, object]) -> None:
        """Reports differences given as `{"current": …, "desired": …}`, `(current, desired)` or AttributeStateChange.

        InvalidOperation for another shape.
        """
        for name, change in changes.items():
            if isinstance(change, dict):
                self._changes[name] = AttributeStateChange(current=change.get("current"), desired=change.get("desired"))
            elif isinstance(change, tuple):
                if len(change) != 2:
                    raise InvalidOperation(
                        f"Reported changes for {name} not valid. Tuple changes should contain 2 elements:"
                        " (current, desired)"
                    )
                self._changes[name] = AttributeStateChange(current=change[0], desired=change[1])
            elif isinstance(change, AttributeStateChange):
                self._changes[name] = change
            else:
                raise InvalidOperation(f"Reported changes for {name} not in a type that is recognized.")

    @property
    def changes(self) -> dict[str, AttributeStateChange]:
        return self._changes

    # --- log ---------------------------------------------------------------------------------------------------------

    @property
    def logs(self) -> list[data.LogLine]:
        return self._logs

    def _log_msg(self, level: int, msg: str, *args: object, exc_info: bool = False, **kwargs: object) -> None:
        if args:
            raise Exception("Args not supported")
        if exc_info:
            import traceback

            kwargs["traceback"] = traceback.format_exc()
        for key, value in kwargs.items():
            if type(value) is not str:
                kwargs[key] = _loggable(key, value)
        line = data.LogLine.log(level, msg, **kwargs)
        self._logs.append(line)
        logger = self.logger
        if logger.isEnabledFor(level):
            logger.log(level, "resource %s: %s", self._resource.id.resource_version_str(), line.msg)


def _loggable(key: str, value: object) -> object:
    """An argument of a log line as JSON; text if it has no such form (an exception under test)."""
    import json

    from inmanta.util import api_boundary_json_encoder

    try:
        return json.loads(json.dumps(value, default=api_boundary_json_encoder))
    except (TypeError, ValueError, RecursionError) as error:
        if inmanta.RUNNING_TESTS:
            raise Exception(f"Failed to serialize argument for log message {key}={value}") from error
        return str(value)


def _word(state: object) -> str:
    """The text of a state, which code gives as one or as a member of an enumeration."""
    return str(getattr(state, "value", state))


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

    def set_cache(self, cache: AgentCache) -> None:
        self._cache = cache

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
        if getattr(resource, "report_only", False):
            # Only looks, so the state of others does not matter and nothing is reloaded.
            self.execute(ctx, resource, dry_run=False)
        elif not self._blocked(ctx, requires):
            self.execute(ctx, resource, dry_run=False)
            if self.can_reload() and self._did_dependency_change(resource):
                ctx.info("Reloading because a dependency has changed")
                self.do_reload(ctx, resource)

    def _blocked(self, ctx: HandlerContext, requires: Mapping[str, ResourceState]) -> bool:
        states = {rid: _word(state) for rid, state in requires.items()}

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
        elif failed:
            ctx.info("Skipped because of failed dependencies: %(dependencies)s", dependencies=failed)
        else:
            return False
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
            _run_post(self, ctx, resource)

    def facts(self, ctx: HandlerContext, resource: R) -> dict[str, object]:
        """The facts of a resource, by name."""
        return {}

    def available(self, resource: R) -> bool:
        return True

    # --- the way to the server ---------------------------------------------------------------------------------------

    def run_sync(self, func: Callable[[], Awaitable[T]]) -> T:
        """Runs an async function on the agent's event loop and gives its result."""
        import asyncio

        async def call() -> T:
            return await func()

        return asyncio.run_coroutine_threadsafe(call(), self._agent.eventloop).result()

    def get_client(self) -> Client:
        if self._client is None:
            from inmanta.protocol import endpoints

            self._client = endpoints.SessionClient("agent", getattr(self._agent, "sessionid", None))
        return self._client

    def get_file(self, hash_id: str) -> bytes | None:
        """The content with this SHA-1 from the server's file store; None if there is none or it does not fit."""
        from inmanta.util import hash_file

        result = self.run_sync(lambda: self.get_client().get_file(hash_id))
        if result.code != 200 or result.result is None:
            return None
        import base64

        content = base64.b64decode(result.result["content"])
        return content if hash_file(content) == hash_id else None

    def stat_file(self, hash_id: str) -> bool:
        return self.run_sync(lambda: self.get_client().stat_file(hash_id)).code == 200

    def upload_file(self, hash_id: str, content: bytes) -> None:
        import base64

        encoded = base64.b64encode(content).decode("ascii")
        result = self.run_sync(lambda: self.get_client().upload_file(id=hash_id, content=encoded))
        if result.code not in (200, 409):
            raise Exception("Unable to upload file to the server.")


def _fail(ctx: HandlerContext, resource: Resource, error: BaseException) -> None:
    """Writes down why a run ended early, with the state that follows from it."""
    if isinstance(error, SkipResourceForDependencies):
        ctx.set_resource_state(HandlerResourceState.skipped_for_dependency)
        ctx.warning(
            "Resource %(resource_id)s was skipped: %(reason)s",
            resource_id=resource.id.resource_str(),
            reason=error.args,
        )
    elif isinstance(error, SkipResource):
        ctx.set_resource_state(HandlerResourceState.skipped)
        ctx.warning(
            "Resource %(resource_id)s was skipped: %(reason)s",
            resource_id=resource.id.resource_str(),
            reason=error.args,
        )
    else:
        ctx.set_resource_state(HandlerResourceState.failed)
        ctx.exception(
            "An error occurred during deployment of %(resource_id)s (exception: %(exception)s)",
            resource_id=resource.id.resource_str(),
            exception=f"{type(error).__name__}('{error}')",
        )


def _run_post(handler: HandlerAPI[R], ctx: HandlerContext, resource: R) -> None:
    try:
        handler.post(ctx, resource)
    except Exception as error:
        ctx.exception(
            "An error occurred after deployment of %(resource_id)s (exception: %(exception)s)",
            resource_id=resource.id.resource_str(),
            exception=f"{type(error).__name__}('{error}')",
        )


def _difference(current: Resource, desired: Resource) -> Changes:
    changes = {}
    for field in type(desired).fields:
        wanted = getattr(desired, field)
        is_now = getattr(current, field)
        # Null desired means that nobody cares.
        if wanted is not None and is_now != wanted:
            changes[field] = {"current": is_now, "desired": wanted}
    return changes


def _report_only(ctx: HandlerContext, resource: Resource) -> bool:
    """Whether only a report is wanted; then it is made from the differences found."""
    if not getattr(resource, "report_only", False):
        return False
    if ctx.changes:
        ctx.set_resource_state(HandlerResourceState.non_compliant)
        ctx.info(
            "Resource %(resource_id)s was marked as non-compliant.",
            resource_id=resource.id.resource_str(),
            changes={name: change.model_dump() for name, change in ctx.changes.items()},
        )
    else:
        ctx.set_resource_state(HandlerResourceState.deployed)
    return True


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
            if _report_only(ctx, resource):
                return
            if dry_run:
                ctx.set_resource_state(HandlerResourceState.dry)
            else:
                self.do_changes(ctx, resource, changes)
                ctx.set_resource_state(HandlerResourceState.deployed)
        except Exception as error:
            _fail(ctx, resource, error)
        finally:
            _run_post(self, ctx, resource)


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
        return _difference(current, desired)

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
            if _report_only(ctx, resource):
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
            _fail(ctx, resource, error)
        finally:
            _run_post(self, ctx, resource)


CRUDHandlerGeneric = CRUDHandler


class DiscoveryHandler(HandlerAPI[R], Subscripted2[R, Found]):
    """A handler that reports what exists: `discover_resources` gives resource id -> values."""

    @abstractmethod
    def discover_resources(self, ctx: HandlerContext, discovery_resource: R) -> Mapping[str, Found]:
        """What exists: resource id without version -> a model object (`model_dump`)."""

    def execute(self, ctx: HandlerContext, resource: R, dry_run: bool = False) -> None:
        if dry_run:
            ctx.set_resource_state(HandlerResourceState.dry)
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
                values[str(rid)] = value.model_dump()
            ctx._discovered.update(values)
            ctx.set_resource_state(HandlerResourceState.deployed)
        except Exception as error:
            _fail(ctx, resource, error)
        finally:
            _run_post(self, ctx, resource)


class Commander:
    """The registered handler classes, by resource type."""

    __command_functions: dict[str, type[HandlerAPI[Any]]] = {}

    @classmethod
    def add_provider(cls, resource: str, name: str | None, provider: type[HandlerAPI[Any]]) -> None:
        cls.__command_functions[resource] = provider

    @classmethod
    def get_handlers(cls) -> dict[str, type[HandlerAPI[Any]]]:
        return cls.__command_functions

    @classmethod
    def get_providers(cls) -> Iterator[tuple[str, type[HandlerAPI[Any]]]]:
        return iter(list(cls.__command_functions.items()))

    @classmethod
    def get_provider_class(cls, resource_type: str, name: str | None = None) -> type[HandlerAPI[Any]] | None:
        return cls.__command_functions.get(resource_type)

    @classmethod
    def get_provider(cls, agent: object, resource: Resource) -> HandlerAPI[Any]:
        """A new handler for a resource; an exception if its type has none."""
        resource_type = resource.id.entity_type
        found = cls.__command_functions.get(resource_type)
        if found is None:
            raise Exception(f"No resource handler registered for resource of type {resource_type}")
        return found(agent)

    @classmethod
    def reset(cls) -> None:
        cls.__command_functions = {}

    @classmethod
    def close(cls) -> None:
        """Kept for test tools."""


def __getattr__(name: str) -> object:
    if name in ("ParameterSource", "Change"):
        return getattr(const, name)
    if name == "Result":
        from inmanta.protocol.common import Result

        return Result
    raise AttributeError(name)
