"""Names and enumerations that server, agents and modules share. A member of a text enumeration equals its text."""

from __future__ import annotations

from enum import Enum

PLUGINS_PACKAGE = "inmanta_plugins"
MODULE_PKG_NAME_PREFIX = "inmanta-module-"
ENVIRON_FORCE_TTY = "FORCE_TTY"
NAME_RESOURCE_ACTION_LOGGER = "inmanta.resource_action"
AGENT_SCHEDULER_ID = "$__scheduler"
DATETIME_MIN_UTC_TEXT = "0001-01-01T00:00:00+00:00"
TIME_LOGFMT = "%Y-%m-%d %H:%M:%S%z"
TIME_ISOFMT = "%Y-%m-%dT%H:%M:%S.%f"
META_DATA_MESSAGE = "message"
UNKNOWN_STRING = "<<undefined>>"
RESOURCE_ATTRIBUTE_SEND_EVENTS = "send_event"
RESOURCE_ATTRIBUTE_RECEIVE_EVENTS = "receive_events"
RESOURCE_ATTRIBUTE_REFERENCES = "references"
RESOURCE_ATTRIBUTE_MUTATORS = "mutators"
RESOURCE_ATTRIBUTE_REPORT_ONLY = "report_only"
DEFAULT_INMANTA_VERSION_TEXT = "20.1.0"


class _Text(str, Enum):
    """Equal to its text, but shown with the name of its class, whatever the Python: as the reference's are."""

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __format__(self, format_spec: str) -> str:
        return format(str(self), format_spec)


class ResourceState(_Text):
    """State of a resource as users see it."""

    unavailable = "unavailable"
    skipped = "skipped"
    dry = "dry"
    deployed = "deployed"
    failed = "failed"
    deploying = "deploying"
    available = "available"
    # Of older releases: a deployment that a newer version cut off.
    cancelled = "cancelled"
    undefined = "undefined"
    skipped_for_undefined = "skipped_for_undefined"
    non_compliant = "non_compliant"


class HandlerResourceState(_Text):
    """What a handler can make of a resource."""

    skipped = "skipped"
    deployed = "deployed"
    failed = "failed"
    dry = "dry"
    skipped_for_dependency = "skipped_for_dependency"
    unavailable = "unavailable"
    non_compliant = "non_compliant"


class Change(_Text):
    """What a handler did to the real thing."""

    nochange = "nochange"
    created = "created"
    purged = "purged"
    updated = "updated"


class ResourceAction(_Text):
    store = "store"
    push = "push"
    pull = "pull"
    deploy = "deploy"
    dryrun = "dryrun"
    getfact = "getfact"
    other = "other"


class LogLevel(_Text):
    """Severity of a log line; `to_int` is Python's number for it."""

    CRITICAL = "CRITICAL"
    ERROR = "ERROR"
    WARNING = "WARNING"
    INFO = "INFO"
    DEBUG = "DEBUG"
    TRACE = "TRACE"

    @property
    def to_int(self) -> int:
        return LOG_LEVEL_AS_INTEGER[self]

    @classmethod
    def _missing_(cls, value: object) -> LogLevel | None:
        """The level of one of Python's numbers."""
        return INTEGER_TO_LOG_LEVEL.get(value) if isinstance(value, int) else None


LOG_LEVEL_TRACE = 3
LOG_LEVEL_AS_INTEGER = {
    LogLevel.CRITICAL: 50,
    LogLevel.ERROR: 40,
    LogLevel.WARNING: 30,
    LogLevel.INFO: 20,
    LogLevel.DEBUG: 10,
    LogLevel.TRACE: LOG_LEVEL_TRACE,
}
INTEGER_TO_LOG_LEVEL = {number: level for level, number in LOG_LEVEL_AS_INTEGER.items()}


class AgentTriggerMethod(_Text):
    push_incremental_deploy = "push_incremental_deploy"
    push_full_deploy = "push_full_deploy"

    @classmethod
    def get_agent_trigger_method(cls, is_full_deploy: bool) -> AgentTriggerMethod:
        return cls.push_full_deploy if is_full_deploy else cls.push_incremental_deploy


class AgentStatus(_Text):
    paused = "paused"
    up = "up"
    down = "down"


class AgentAction(_Text):
    pause = "pause"
    unpause = "unpause"
    keep_paused_on_resume = "keep_paused_on_resume"
    unpause_on_resume = "unpause_on_resume"


class ParameterSource(_Text):
    fact = "fact"
    plugin = "plugin"
    user = "user"
    report = "report"


class VersionState(_Text):
    success = "success"
    failed = "failed"
    deploying = "deploying"
    pending = "pending"


class DesiredStateVersionStatus(_Text):
    active = "active"
    candidate = "candidate"
    retired = "retired"
    skipped_candidate = "skipped_candidate"


class Compilestate(_Text):
    success = "success"
    failed = "failed"


class ClientType(_Text):
    api = "api"
    agent = "agent"
    compiler = "compiler"


TRANSIENT_STATES = [ResourceState.available, ResourceState.deploying]
UNDEPLOYABLE_STATES = [ResourceState.undefined, ResourceState.skipped_for_undefined]
DONE_STATES = [
    ResourceState.unavailable,
    ResourceState.skipped,
    ResourceState.deployed,
    ResourceState.failed,
    ResourceState.cancelled,
    ResourceState.non_compliant,
    *UNDEPLOYABLE_STATES,
]
NOT_DONE_STATES = [ResourceState.available, ResourceState.deploying]
UNDEPLOYABLE_NAMES = [state.value for state in UNDEPLOYABLE_STATES]
INITIAL_STATES = [ResourceState.available]


TYPE_CHECKING = False
if not TYPE_CHECKING:
    # What only the reference's module has says why it is not here.
    from inmanta import _rest_of

    __getattr__ = _rest_of(__name__)
