"""The host of an executor: one resource at a time through its handler. Source: docs/reference/deployment.md § 5.5.

No exception of module code ends the host; it ends when Steward says `stop` or closes the pipe.
"""

from __future__ import annotations

import sys
import time
from functools import cached_property

from inmanta import resources
from inmanta.agent import _bounds
from inmanta.agent._bounds import clip, clip_middle
from inmanta.agent._tasks import _reason
from inmanta.agent.cache import AgentCache
from inmanta.agent.executor import AgentInstance
from inmanta.agent.handler import Commander, HandlerContext, SkipResource, SkipResourceForDependencies
from inmanta.const import HandlerResourceState, ResourceState
from steward_host import chance, failure, forks, hidden, loader, warming, zygote
from steward_host.boundary import Boundary
from steward_host.pipe import Pipe, TooLarge
from steward_host.reports import as_json, line_of, loggable, read_json, report, text_of, unreadable, without_secrets
from steward_host.telling import Telling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from typing import Any
    from uuid import UUID

    from inmanta.agent.handler import HandlerAPI
    from inmanta.plugins import Answer
    from steward_host.messages import Facts, HandlerOutcome, LoadExecutor, LogLine, Task


# The methods of the API that the loop of an environment answers by itself (`src/deploy/ask.rs`). Other calls go to the API as
# requests, but for what came with the task. Files are asked for that are not here.
ASKED = frozenset(
    {
        "discovered_resource_create",
        "discovered_resource_create_batch",
        "get_facts",
        "get_file",
        "get_param",
        "list_params",
        "set_param",
        "set_parameters",
        "stat_file",
    }
)


# As `src/executor/bounds.rs` has it: no report of a run, and no question, is larger.
MAX_REPLY_BYTES = 16 << 20


class EventLoop:
    """An asyncio loop on a thread of its own, started when somebody needs it."""

    def __init__(self) -> None:
        self._loop: AbstractEventLoop | None = None

    def get(self) -> AbstractEventLoop:
        if self._loop is None:
            import asyncio
            import threading

            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name="event loop", daemon=True).start()
        return self._loop


class Agent(AgentInstance):
    """What handlers get as their agent."""

    uri = "local:"

    def __init__(self, name: str, environment: str) -> None:
        self.name = name
        self._environment = environment
        self.sessionid = None
        self.process = self
        # Whether a dependency of the running resource changed since its last success.
        self.dependency_changed = False
        self._event_loop = EventLoop()

    @cached_property
    def environment(self) -> UUID | str:  # type: ignore[override]  # nobody sets it
        """Its id, as a UUID: modules ask it for `hex`, and compare it with others."""
        import uuid

        try:
            return uuid.UUID(self._environment)
        except ValueError:
            return self._environment

    @property
    def _env_id(self) -> UUID | str:
        return self.environment

    @property
    def eventloop(self) -> AbstractEventLoop:  # type: ignore[override]  # nobody sets it
        return self._event_loop.get()

    def is_stopped(self) -> bool:
        return False


class Executing:
    """State of one executor: an agent, its handlers' code and their cache."""

    def __init__(self, pipe: Pipe, is_followed: bool = True) -> None:
        """`is_followed`: what a run logs is told while it goes on, if it takes long; that takes a thread."""
        self._pipe = pipe
        pipe.most = MAX_REPLY_BYTES
        # The real one comes with `load`.
        self._agent = Agent("", "")
        self._environment = ""
        self._files: set[str] = set()
        self._is_warm = False
        # The task that Steward waits for, so that it answers questions.
        self._running: Run | None = None
        self._telling = Telling(pipe, is_followed)
        self._boundary = Boundary(pipe)
        self.cache = AgentCache()

    def load(self, request: LoadExecutor) -> None:
        """Imports all modules. One that fails does not stop the others; its resource types stay without handler."""
        self._environment = request["environment_id"]
        self._agent = Agent(request["agent"], self._environment)
        had = forks.open_files()
        if not self._is_warm:
            self._is_warm = True
            warming.warm_up()
        from inmanta import plugins

        hidden.follow_printed()
        plugins.Runtime.environment_id = request["environment_id"]
        plugins.Runtime.files_dir = request.get("files")
        plugins.Runtime.ask = self._ask
        plugins.Runtime.pass_on = self._pass_on
        # Those of an earlier version may have been other files.
        loader.reset_states()
        loader.forget(loader.ROOT)
        finder = loader.install(loader.as_installed(request["modules"]))
        self._files = finder.paths()
        chance.follow()
        broken = []
        for module in request["modules"]:
            files = [file["module"] for file in module["files"]]
            for file in files or [f"{loader.ROOT}.{module['name']}"]:
                try:
                    __import__(file)
                    if not files:
                        import pkgutil

                        # It is installed. All of it is imported, as the reference does.
                        package = sys.modules[file]
                        for found in pkgutil.walk_packages(package.__path__, f"{file}."):
                            __import__(found.name)
                except BaseException as error:
                    # Also what is meant to end a program or a task: it is the module that has it raised.
                    broken.append(
                        {
                            "module": module["name"],
                            "message": f"{file}: {type(error).__name__}: {clip(text_of(error))}{_needs(error)}",
                            "traceback": clip_middle(failure.traceback_text(error, self._files)),
                        }
                    )
                    break
        _attach_logging()
        types = [name for name in Commander.get_handlers() if resources.resource.get_class(name)[0] is not None]
        hidden.look_at([resources.resource.get_class(name)[0] for name in types])
        self._pipe.send("handlers", {"types": types, "broken": broken, "no_forks": zygote.prepare(had)})

    def become(self, pipe: Pipe, boundary: Boundary, agent: str) -> None:
        """From now on this is the host of an agent, forked from the process that imported its modules."""
        self._pipe = pipe
        self._boundary = boundary
        pipe.most = MAX_REPLY_BYTES
        self._telling = Telling(pipe, is_followed=True)
        self._agent = Agent(agent, self._environment)

    def deploy(self, text: str) -> None:
        """Runs one resource through its handler and reports what came of it; `text`: a `Task`, as JSON."""
        request: Task = read_json(text)
        self._answer(request, Run(self._agent, self.cache, self._files, request))

    def facts(self, text: str) -> None:
        """Asks a handler for the facts of a resource; they are in the outcome, as those of a deployment are. `text`: a `Facts`, as
        JSON."""
        request: Facts = read_json(text)
        task: Task = {
            "id": request["id"],
            "resource": request["resource"],
            "action_id": request["action_id"],
            "requires": {},
            "dry_run": False,
            "reason": "its facts were asked for",
            "dependency_changed": False,
            "ahead": request["ahead"],
        }
        self._answer(task, Run(self._agent, self.cache, self._files, task, facts=True))

    def _answer(self, request: Task, run: Run) -> None:
        self._boundary.begin(request["ahead"])
        self._running = run
        self._telling.begin(run)
        began = time.perf_counter_ns()
        outcome = run.outcome()
        self._telling.end()
        # Waits for a question that a thread of the handler has open: from now on nobody would answer one.
        with self._pipe.lock:
            self._running = None
        answer: dict[str, object] = {
            "id": request["id"],
            "outcome": outcome,
            "micros": (time.perf_counter_ns() - began) // 1000,
            "finished_us": time.time_ns() // 1000,
            "printed": self._boundary.end(),
        }
        try:
            self._pipe.send("deployed", as_json(answer))
        except TooLarge as error:
            # What was done stays done; only its description is too long.
            last: LogLine = {
                "level": "ERROR",
                "msg": f"The report of this run was dropped: {error}",
                "kwargs": {},
                "timestamp_us": time.time_ns() // 1000,
            }
            shortened: HandlerOutcome = {**outcome, "status": "failed", "changes": {}, "logs": [last], "facts": [], "discovered": []}
            self._pipe.send("deployed", as_json({**answer, "outcome": shortened}))

    def _ask(self, method: str, arguments: dict[str, Any]) -> Answer | None:
        """The answer to a method of the API that needs no request to it, if it is one; None: there is none, or nobody to ask."""
        run = self._running
        if method == "resource_did_dependency_change" and run is not None and run.is_deployment_of(arguments.get("rvid")):
            # It came with the task. Source: docs/reference/deployment.md § 4.5.
            return 200, {"data": run.dependency_changed}
        return self._call(method, arguments) if method in ASKED else None

    def _pass_on(self, verb: str, path: str, environment: str | None, body: dict[str, Any] | None) -> Answer:
        """What the API answers to a request, which gets there without HTTP."""
        request = {"verb": verb, "path": path, "environment": environment, "body": body}
        message = "A handler can ask the server only while a task of its agent runs"
        return self._call("request", request) or (503, {"message": message})

    def _call(self, method: str, arguments: dict[str, Any]) -> Answer | None:
        """Asks the server, by the way that tasks come; None: it does not listen, since no task runs."""
        with self._pipe.lock:
            if self._running is None:
                return None
            answer = self._pipe.request("api", {"method": method, "arguments": loggable(arguments)}, "api_answer")
        return answer["code"], answer["body"]

    def idle(self) -> None:
        """Called about once a second while there is nothing to do."""
        self.cache.clean_stale_entries()

    def stop(self) -> None:
        self.cache.close()


class Run:
    """One task: a deployment or a dry run of one resource, or the question for its facts."""

    def __init__(
        self, agent: Agent, cache: AgentCache, files: set[str], request: Task, facts: bool = False
    ) -> None:
        self._facts = facts
        self._agent = agent
        self._cache = cache
        self._files = files
        self._request = request
        # All its fields, `requires` and `id`, as the compile exported them.
        self._exported = request["resource"]
        self._dry_run: bool = request["dry_run"]
        self.number: int = request["id"]
        self._context: HandlerContext | None = None
        # How many lines there were before its references were resolved; None: they are.
        self._n_before: int | None = 1
        self.dependency_changed: bool = request["dependency_changed"]
        # As the handler gets it; its values may be secret.
        self._resource: resources.Resource | None = None

    def is_deployment_of(self, resource_version_id: object) -> bool:
        """Whether it deploys this resource, in this version."""
        is_deployment = not self._facts and not self._dry_run
        return is_deployment and str(resource_version_id) == self._exported.get("id")

    def logged(self, n_known: int) -> tuple[list[LogLine], int, str]:
        """Lines that were logged behind the first `n_known`, how many there were ever, and the mark for those that were cut. Called
        by another thread while the handler runs."""
        context = self._context
        if context is None:
            return [], n_known, ""
        kept, n_added = list(context.logs), context._lines.n_added
        if self._n_before is not None:
            # What is secret is not known yet.
            kept, n_added = kept[: self._n_before], min(n_added, self._n_before)
        new = kept[-(n_added - n_known) :] if n_added > n_known else []
        lines, secrets = [line_of(line) for line in new], hidden.Printed.secrets
        if secrets is not None:
            lines = [without_secrets(line, secrets) for line in lines]
        return lines, n_added, context._lines.mark()

    def outcome(self) -> HandlerOutcome:
        """A `HandlerOutcome`. Never raises for what module code does."""
        started = time.monotonic()
        hidden.Printed.secrets = None
        resource_id = self._exported.get("id")
        unread: Any = _Named(resource_id)
        context = self._context = HandlerContext(
            unread, dry_run=self._dry_run, action_id=self._request["action_id"]
        )
        context.debug(
            "Start run because %(reason)s (deploy_id: %(deploy_id)s)",
            reason=self._request["reason"],
            deploy_id=self._request["action_id"],
        )
        try:
            with self._cache:
                self._run(context)
        except BaseException as error:
            # What gets here is a mistake in `post` or a hook that wants to leave: SystemExit and its like.
            self._unexpected(context, error)
        if context.resource_state is None:
            context.set_resource_state(HandlerResourceState.dry if self._dry_run else HandlerResourceState.deployed)
        elif context.resource_state is HandlerResourceState.dry and not self._facts and not self._dry_run:
            # Such as of a `deploy` that calls `execute` with dry_run. As a result it would be neither good nor bad.
            context.set_resource_state(HandlerResourceState.unavailable)
            context.error("%(resource_id)s was not deployed: its handler says `dry`, as in a dry run", resource_id=resource_id)
        secrets = None if self._resource is None else hidden.of(self._resource)
        try:
            context.debug(
                "End run in %(duration).3f s",
                deploy_id=self._request["action_id"],
                duration=time.monotonic() - started,
            )
            return report(context, secrets)
        except Exception as error:
            # The handler left things in its context that are not what they should be.
            return unreadable(error, secrets)

    def _run(self, context: HandlerContext) -> None:
        try:
            resource = resources.Resource.deserialize(self._exported)
        except Exception as error:
            self._unavailable(context, "Resource Deserialization Failed", "Unable to deserialize", error)
            return
        context._resource = self._resource = resource
        try:
            handler = Commander.get_provider(self._agent, resource)
            handler.set_cache(self._cache)
        except Exception as error:
            self._unavailable(context, "Unable to find a handler", "Unable to find a handler for", error)
            return
        try:
            if self._resolved(context, resource):
                self._handle(context, resource, handler)
        finally:
            try:
                handler.close()
            except Exception as error:
                context.exception(
                    "The handler of %(resource_id)s could not be closed (exception: %(exception)s)",
                    resource_id=str(resource.id),
                    exception=_bounds.text_of(error),
                )

    def _resolved(self, context: HandlerContext, resource: resources.Resource) -> bool:
        try:
            resource.resolve_all_references(context)
        except Exception as error:
            self._left(context, error)
            return False
        finally:
            secrets = hidden.Printed.secrets = hidden.of(resource)
            if secrets is not None:
                secrets.learn(())
        self._n_before = None
        return True

    def _handle(self, context: HandlerContext, resource: resources.Resource, handler: HandlerAPI[Any]) -> None:
        """What is called here is given by position: modules call the parameters of their methods as they like."""
        try:
            if self._facts:
                returned = handler.check_facts(context, resource)
                # Of two values for a fact the one that the handler has set counts.
                named = {fact["id"] for fact in context.facts}
                for name, value in returned.items():
                    if name not in named:
                        context.set_fact(name, text_of(value))
            elif self._dry_run:
                handler.execute(context, resource, True)
                if context.resource_state is HandlerResourceState.failed:
                    self._mark(context, _failure(context))
            else:
                self._agent.dependency_changed = self._request["dependency_changed"]
                requires = {rid: _state(state) for rid, state in self._request["requires"].items()}
                handler.deploy(context, resource, requires)
        except BaseException as error:
            if self._facts or self._dry_run:
                # The methods of the bases take in what says "not now"; past them it is a mistake of the handler.
                self._unexpected(context, error)
            else:
                self._left(context, error)

    def _left(self, context: HandlerContext, error: BaseException) -> None:
        """Writes down what an exception means that left a reference, or a method that a handler has overridden."""
        if isinstance(error, SkipResourceForDependencies):
            self._skipped(context, HandlerResourceState.skipped_for_dependency, error)
        elif isinstance(error, SkipResource):
            self._skipped(context, HandlerResourceState.skipped, error)
        elif isinstance(error, Exception) and _is_missing_code(error):
            self._unavailable(context, "Unable to resolve references", "Unable to resolve the references of", error)
        else:
            self._unexpected(context, error)

    def _skipped(self, context: HandlerContext, state: HandlerResourceState, error: SkipResource) -> None:
        context.set_resource_state(state)
        context.warning(
            "Resource %(resource_id)s was skipped: %(reason)s",
            resource_id=str(self._exported.get("id")),
            reason=_reason(error),
        )

    def _unavailable(self, context: HandlerContext, pseudo: str, text: str, error: Exception) -> None:
        state = HandlerResourceState.dry if self._dry_run else HandlerResourceState.unavailable
        context.set_resource_state(state)
        context.exception(
            text + " %(resource_id)s (exception: %(exception)s)",
            resource_id=str(self._exported.get("id")),
            exception=_bounds.text_of(error),
        )
        if self._dry_run:
            self._mark(context, pseudo)

    def _unexpected(self, context: HandlerContext, error: BaseException) -> None:
        context.set_resource_state(HandlerResourceState.failed)
        doing = "while the facts were collected of" if self._facts else "during deployment of"
        context.exception(
            f"An error occurred {doing} %(resource_id)s (exception: %(exception)s)",
            resource_id=str(self._exported.get("id")),
            exception=_bounds.text_of(error),
        )
        if self._dry_run:
            self._mark(context, _failure(context))

    def _mark(self, context: HandlerContext, pseudo: str) -> None:
        """In a dry run a problem shows as a change of the pseudo attribute `handler`."""
        context.add_change("handler", current="FAILED", desired=pseudo)


def _is_missing_code(error: Exception) -> bool:
    from inmanta.references import MutatorMissingError, ReferenceMissingError

    return isinstance(error, (MutatorMissingError, ReferenceMissingError))


def _failure(context: HandlerContext) -> str:
    """That a handler failed, with the exception that its log names last."""
    for line in reversed(context.logs):
        if "exception" in line._kwargs:
            return f"Handler failed: {line._kwargs['exception']}"
    return "Handler failed"


class _Named:
    """Stands for the resource in log lines until there is one."""

    def __init__(self, text: object) -> None:
        self.id = self
        self._text = str(text)

    def resource_version_str(self) -> str:
        return self._text

    def resource_str(self) -> str:
        return self._text.rsplit(",v=", 1)[0]


def _needs(error: BaseException) -> str:
    """What a mistake in syntax most often comes from, on another machine than the one that compiled with the code."""
    if not isinstance(error, SyntaxError):
        return ""
    version = ".".join(map(str, sys.version_info[:2]))
    return f" (this is Python {version}, and the code may need a newer one)"


_STATES = {state.value: state for state in ResourceState}


def _state(state: str) -> Any:
    """The member of an enumeration that stands for a state, if there is one."""
    return _STATES.get(state, state)


def _attach_logging() -> None:
    import logging

    # What a handler logs is in the report of its run; it need not be told twice.
    logging.getLogger("inmanta.agent.handler").setLevel(logging.CRITICAL + 1)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s %(message)s")
