"""Models of what the REST API takes and gives: the reference's fields, with their types and defaults.

Those that handlers use in every run are plain records in inmanta.data.model; these need pydantic.
"""

from __future__ import annotations

import datetime
import enum
import urllib.parse
import uuid
from collections.abc import Mapping
from typing import Annotated, Any, Union

import pydantic
from pydantic import Field

from inmanta import _without, const
from inmanta._more.base_model import BaseModel
from inmanta._more.const import NotificationSeverity
from inmanta._more.types import ArgumentTypes, SimpleTypes
from inmanta.data.model import AttributeStateChange, PipConfig, ResourceIdStr, ResourceVersionIdStr
from inmanta.deploy.state import Blocked, Compliance, HandlerResult
from inmanta.types import ResourceType

AgentName = str
InmantaModuleName = str
InmantaModuleVersion = str
LoadOnAgents = set[str]
EnvSettingType = Union[bool, int, float, str, dict[str, Union[str, int, bool]]]

# What pip does without a configuration: that of the system.
LEGACY_PIP_DEFAULT = PipConfig(use_system_config=True)


class AuthMethod(str, enum.Enum):
    """How users log in."""

    database = "database"
    oidc = "oidc"


class PromoteTriggerMethod(enum.StrEnum):
    """What is deployed when a version is promoted."""

    push_incremental_deploy = "push_incremental_deploy"
    push_full_deploy = "push_full_deploy"
    no_push = "no_push"


class ProtectedBy(str, enum.Enum):
    """What keeps a setting from being changed."""

    project_yml = "project.yml"


class ReleasedResourceState(enum.StrEnum):
    """The state of a resource of the version in force."""

    unavailable = "unavailable"
    skipped = "skipped"
    dry = "dry"
    deployed = "deployed"
    failed = "failed"
    deploying = "deploying"
    available = "available"
    cancelled = "cancelled"
    undefined = "undefined"
    skipped_for_undefined = "skipped_for_undefined"
    orphaned = "orphaned"
    non_compliant = "non_compliant"


class ReportedStatus(enum.StrEnum):
    """How well a part of the server is."""

    OK = "OK"
    Warning = "Warning"
    Error = "Error"


class ResourceDiffStatus(str, enum.Enum):
    """How a resource differs between two versions."""

    added = "added"
    modified = "modified"
    deleted = "deleted"
    unmodified = "unmodified"
    agent_down = "agent_down"
    undefined = "undefined"
    skipped_for_undefined = "skipped_for_undefined"


class ExtensionStatus(BaseModel):
    """An extension of the server."""

    name: str
    version: str
    package: str


class SliceStatus(BaseModel):
    """The state of one part of the server."""

    name: str
    status: Mapping[str, ArgumentTypes | Mapping[str, ArgumentTypes]]
    reported_status: ReportedStatus
    message: str | None = None


class FeatureStatus(BaseModel):
    """Whether a feature is on."""

    slice: str
    name: str
    value: object | None = None


class StatusResponse(BaseModel):
    """What the server says of itself."""

    product: str
    edition: str
    version: str
    license: str | dict[str, SimpleTypes]
    extensions: list[ExtensionStatus]
    slices: list[SliceStatus]
    features: list[FeatureStatus]
    status: ReportedStatus
    python_version: str
    postgresql_version: str | None


class CompileData(BaseModel):
    """What a compile said in a form for programs."""

    errors: list[object]


class CompileRunBase(BaseModel):
    """What all records of compiles have."""

    id: uuid.UUID
    remote_id: uuid.UUID | None = None
    environment: uuid.UUID
    requested: datetime.datetime | None = None
    started: datetime.datetime | None = None
    do_export: bool
    force_update: bool
    metadata: dict[str, Any]
    mergeable_environment_variables: dict[str, str]
    requested_environment_variables: dict[str, str]
    environment_variables: dict[str, str]
    partial: bool
    removed_resource_sets: list[str]
    exporter_plugin: str | None = None
    notify_failed_compile: bool | None = None
    failed_compile_message: str | None = None
    links: dict[str, list[str]] = {}

    @pydantic.field_validator("environment_variables", mode="before")
    @classmethod
    def validate_environment_variables(cls, value: object, info: pydantic.ValidationInfo) -> object:
        """Null stands for the two other sets together, those that are mergeable first."""
        if value is not None:
            return value
        return {
            **info.data.get("mergeable_environment_variables", {}),
            **info.data.get("requested_environment_variables", {}),
        }


class CompileRun(CompileRunBase):
    """A compile."""

    compile_data: CompileData | None = None


class CompileReport(CompileRunBase):
    """A compile that has ended, or will."""

    completed: datetime.datetime | None = None
    success: bool | None = None
    version: int | None = None


class CompileRunReport(BaseModel):
    """One stage of a compile."""

    id: uuid.UUID
    started: datetime.datetime
    completed: datetime.datetime | None = None
    command: str
    name: str
    errstream: str
    outstream: str
    returncode: int | None = None


class CompileDetails(CompileReport):
    """A compile with its stages."""

    compile_data: CompileData | None = None
    reports: list[CompileRunReport] | None = None


class Environment(BaseModel):
    """An environment of the server."""

    id: uuid.UUID
    name: str
    project_id: uuid.UUID
    repo_url: str
    repo_branch: str
    settings: dict[str, EnvSettingType]
    halted: bool
    is_marked_for_deletion: bool = False
    description: str | None = None
    icon: str | None = None


class Project(BaseModel):
    """A project of the server: it holds environments."""

    id: uuid.UUID
    name: str
    environments: list[Environment]


class EnvironmentSetting(BaseModel):
    """What a setting of an environment is."""

    name: str
    type: str
    default: EnvSettingType
    doc: str
    recompile: bool
    update_model: bool
    agent_restart: bool
    allowed_values: list[EnvSettingType] | None = None
    section: str | None = None


class EnvironmentSettingDefinitionAPI(EnvironmentSetting):
    """A setting, and whether it is protected."""

    protected: bool = False
    protected_by: ProtectedBy | None = None


class EnvironmentSettingDetails(BaseModel):
    """The value of a setting."""

    value: EnvSettingType
    protected: bool = False
    protected_by: ProtectedBy | None = None


class EnvironmentSettingsReponse(BaseModel):
    """The settings of an environment."""

    settings: dict[str, EnvSettingType]
    definition: dict[str, EnvironmentSettingDefinitionAPI]


class ModelMetadata(BaseModel):
    """What is said about a version."""

    inmanta_compile_state: const.Compilestate = Field(const.Compilestate.success, alias="inmanta:compile:state")
    message: str
    type: str
    extra_data: dict[str, Any] | None = None


class ResourceMinimal(BaseModel):
    """A resource, of which at least the id is known."""

    id: ResourceVersionIdStr

    model_config = pydantic.ConfigDict(extra="allow")

    @pydantic.field_validator("id")
    @classmethod
    def id_is_resource_version_id(cls, value: str) -> str:
        from inmanta.resources import Id

        if not Id.is_resource_version_id(value):
            raise ValueError(f"id {value} is not of type ResourceVersionIdStr")
        return value


@_without("from_postgres_record")
class Resource(BaseModel):
    """A resource of a version."""

    environment: uuid.UUID
    resource_id: ResourceIdStr
    resource_type: ResourceType
    resource_id_value: str
    agent: str
    attributes: dict[str, Any]
    is_undefined: bool
    resource_set: str | None = None


class ResourceAction(BaseModel):
    """One thing that was done with resources."""

    environment: uuid.UUID
    version: int
    resource_version_ids: list[ResourceVersionIdStr]
    action_id: uuid.UUID
    action: const.ResourceAction
    started: datetime.datetime
    finished: datetime.datetime | None = None
    messages: list[dict[str, Any]] | None = None
    status: const.ResourceState | None = None
    changes: dict[str, Any] | None = None
    change: const.Change | None = None
    send_event: bool | None = None


@_without("create_from_db_result")
class ComposedResourceSummary(BaseModel):
    """How many resources are in which state."""

    total_count: int
    compliance: dict[Compliance, int]
    last_handler_run: dict[HandlerResult, int]
    blocked: dict[Blocked, int]
    is_deploying: dict[bool, int]


@_without("create_from_db_result")
class ResourceDeploySummary(BaseModel):
    """How many resources have which state."""

    total: int
    by_state: dict[str, int]


class LogLine(BaseModel):
    """A line of the log of an action."""

    level: const.LogLevel
    msg: str
    args: list[ArgumentTypes | None] = []
    kwargs: dict[str, Any] = {}
    timestamp: datetime.datetime

    model_config = pydantic.ConfigDict(use_enum_values=False)

    @pydantic.field_validator("level", mode="before")
    @classmethod
    def validate_log_level(cls, value: object) -> object:
        """A level can be given by its name or by its number."""
        if isinstance(value, const.LogLevel):
            return value
        numbers = const.INTEGER_TO_LOG_LEVEL
        if isinstance(value, int) and value in numbers:
            return numbers[value]
        if isinstance(value, str) and value in const.LogLevel.__members__:
            return const.LogLevel[value]
        *levels, last = (f"{level.value!r} | {number}" for number, level in numbers.items())
        raise ValueError(f"Input should be {', '.join(levels)} or {last}")


class ResourceIdDetails(BaseModel):
    """The parts of a resource id."""

    resource_type: ResourceType
    agent: str
    attribute: str
    resource_id_value: str


class VersionedResource(BaseModel):
    """A resource of one version."""

    resource_id: ResourceIdStr
    resource_version_id: ResourceVersionIdStr
    id_details: ResourceIdDetails
    requires: list[ResourceVersionIdStr]

    @property
    def all_fields(self) -> dict[str, Any]:
        """The fields, and the parts of the id beside them."""
        return {**self.model_dump(), **self.id_details.model_dump()}


class LatestReleasedResource(VersionedResource):
    """A resource of the version in force."""

    status: ReleasedResourceState


class ResourceDetails(BaseModel):
    """A resource with its attributes."""

    resource_id: ResourceIdStr
    resource_type: ResourceType
    agent: str
    id_attribute: str
    id_attribute_value: str
    attributes: dict[str, Any]


class VersionedResourceDetails(ResourceDetails):
    """A resource of one version with its attributes."""

    resource_version_id: ResourceVersionIdStr
    version: int


class ReleasedResourceDetails(ResourceDetails):
    """A resource of the version in force with its attributes."""

    last_deploy: datetime.datetime | None = None
    first_generated_time: datetime.datetime
    status: ReleasedResourceState
    requires_status: dict[ResourceIdStr, ReleasedResourceState]


class ResourceHistory(BaseModel):
    """How a resource was in an earlier version."""

    resource_id: ResourceIdStr
    date: datetime.datetime
    attributes: dict[str, Any]
    attribute_hash: str
    requires: list[ResourceIdStr]


class ResourceLog(LogLine):
    """A line of the log of a resource."""

    action_id: uuid.UUID
    action: const.ResourceAction


class AttributeDiff(BaseModel):
    """How an attribute differs between two versions."""

    from_value: object | None = None
    to_value: object | None = None
    from_value_compare: str
    to_value_compare: str


class ResourceDiff(BaseModel):
    """How a resource differs between two versions."""

    resource_id: ResourceIdStr
    attributes: dict[str, AttributeDiff]
    status: ResourceDiffStatus


class ResourceComplianceDiff(BaseModel):
    """How a resource differs from what is desired."""

    report_only: bool
    compliance: Compliance
    last_handler_run: HandlerResult
    last_handler_run_at: datetime.datetime | None
    attribute_diff: dict[str, AttributeStateChange] | None


class Parameter(BaseModel):
    """A parameter of an environment."""

    id: uuid.UUID
    name: str
    value: str
    environment: uuid.UUID
    source: str
    updated: datetime.datetime | None = None
    metadata: dict[str, Any] | None = None


class Fact(Parameter):
    """A fact of a resource."""

    resource_id: ResourceIdStr
    expires: bool = True


class Agent(BaseModel):
    """An agent."""

    environment: uuid.UUID
    name: str
    paused: bool
    process_id: uuid.UUID | None = None
    process_name: str | None = None
    unpause_on_resume: bool | None = None
    status: const.AgentStatus


class AgentProcess(BaseModel):
    """A process with agents."""

    sid: uuid.UUID
    hostname: str
    environment: uuid.UUID
    first_seen: datetime.datetime | None = None
    expired: datetime.datetime | None = None
    state: dict[str, dict[str, list[str]] | dict[str, str] | dict[str, float] | str] | None = None


class DesiredStateLabel(BaseModel):
    """Why there is a version."""

    name: str
    message: str


class DesiredStateVersion(BaseModel):
    """A version of the desired state."""

    version: int
    date: datetime.datetime
    total: int
    labels: list[DesiredStateLabel]
    status: const.DesiredStateVersionStatus
    released: bool


class DryRunIdentity(BaseModel):
    """Which dry run."""

    id: uuid.UUID
    model: int


class DryRun(DryRunIdentity):
    """A dry run."""

    environment: uuid.UUID
    date: datetime.datetime | None = None
    total: int = 0
    todo: int = 0
    resource_filter: dict[str, object] | None = None
    context: dict[str, object] | None = None


class DryRunReport(BaseModel):
    """What a dry run found."""

    summary: DryRun
    diff: list[ResourceDiff]


class Notification(BaseModel):
    """A notification of an environment."""

    id: uuid.UUID
    environment: uuid.UUID
    created: datetime.datetime
    title: str
    message: str
    severity: NotificationSeverity
    uri: str | None = None
    compile_id: uuid.UUID | None = None
    read: bool
    cleared: bool


class Source(BaseModel):
    """A source file of a module."""

    hash: str
    is_byte_code: bool
    module_name: str
    requirements: list[str]


class EnvironmentMetricsResult(BaseModel):
    """Metrics of an environment over time."""

    start: datetime.datetime
    end: datetime.datetime
    timestamps: list[datetime.datetime]
    metrics: dict[str, list[float | dict[str, float] | None]]


class RoleAssignment(BaseModel):
    """A role in an environment."""

    environment: uuid.UUID
    role: str


class RoleAssignmentsPerEnvironment(BaseModel):
    """The roles of a user by environment."""

    assignments: dict[uuid.UUID, list[str]]

    @pydantic.field_serializer("assignments")
    def serialize_assignments(self, assignments: dict[uuid.UUID, list[str]], _info: object) -> dict[str, list[str]]:
        return {str(environment): given for environment, given in assignments.items()}


class User(BaseModel):
    """A user."""

    username: str
    auth_method: AuthMethod
    is_admin: bool


class UserWithRoles(User):
    """A user with roles by environment."""

    roles: dict[uuid.UUID, list[str]]

    @pydantic.field_serializer("roles")
    def serialize_roles(self, roles: dict[uuid.UUID, list[str]], _info: object) -> dict[str, list[str]]:
        return {str(environment): given for environment, given in roles.items()}


class Token(BaseModel):
    """A token for the API."""

    jti: uuid.UUID
    created_by: str | None = None
    client_types: list[const.ClientType] = []
    environment: uuid.UUID | None = None
    issued_at: datetime.datetime
    expires_at: datetime.datetime | None = None
    revoked_at: datetime.datetime | None = None
    last_used: datetime.datetime | None = None


class CurrentUser(BaseModel):
    """Who asks."""

    username: str


class LoginReturn(BaseModel):
    """What a login gives."""

    token: str
    user: User
    expires_in: int | None = None


class DiscoveredResourceABC(BaseModel):
    """A resource that was discovered."""

    discovered_resource_id: ResourceIdStr
    values: dict[str, object]
    managed_resource_uri: str | None = None
    discovery_resource_id: ResourceIdStr

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def discovery_resource_uri(self) -> str:
        """Where the API has the resource that discovered this one."""
        return f"/api/v2/resource/{urllib.parse.quote(self.discovery_resource_id, safe='')}"


class DiscoveredResourceOutput(DiscoveredResourceABC):
    """A discovered resource as the API shows it."""

    resource_type: ResourceType
    agent: str
    resource_id_value: str


class Discrepancy(BaseModel):
    """Where the scheduler and the database differ."""

    rid: ResourceIdStr | None
    field: str | None
    expected: str
    actual: str


class SchedulerStatusReport(BaseModel):
    """What the scheduler says of itself."""

    scheduler_state: Mapping[ResourceIdStr, object]
    db_state: Mapping[ResourceIdStr, object]
    resource_states: Mapping[ResourceIdStr, const.ResourceState]
    discrepancies: list[Discrepancy] | dict[ResourceIdStr, list[Discrepancy]]


class DataBaseReport(BaseModel):
    """The state of the database connection."""

    connected: bool
    database: str
    host: str
    max_pool: int
    free_pool: int
    open_connections: int
    free_connections: int
    pool_exhaustion_time: float


class ModuleFileMetadata(BaseModel):
    """A file of a module."""

    path: str
    hash_value: str

    model_config = pydantic.ConfigDict(frozen=True)

    def sort_key(self) -> tuple[str, str]:
        return self.path, self.hash_value

    def is_python_source(self) -> bool:
        return self.path.endswith((".py", ".pyc"))


class ModuleSourceMetadata(ModuleFileMetadata):
    """A Python file of a module."""

    @property
    def name(self) -> str:
        """The dotted name of the Python module."""
        parts = self.path.rpartition(".")[0].split("/")
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def is_byte_code(self) -> bool:
        return self.path.endswith(".pyc")

    def get_inmanta_module_name(self) -> str:
        return self.name.split(".")[1]


class ModuleSource(BaseModel):
    """A Python file of a module with its content."""

    metadata: ModuleSourceMetadata
    source: bytes

    model_config = pydantic.ConfigDict(frozen=True)

    def get_inmanta_module_name(self) -> str:
        return self.metadata.get_inmanta_module_name()

    def get_fq_module_name(self) -> str:
        return self.metadata.name


class ExecutorModuleSource(ModuleSource):
    """A Python file for an executor."""

    load_module: bool

    def sort_key(self) -> tuple[tuple[str, str], bool]:
        return self.metadata.sort_key(), self.load_module


class InmantaModule(BaseModel):
    """A version of a module that handlers need."""

    name: InmantaModuleName
    version: InmantaModuleVersion
    files_in_module: list[ModuleFileMetadata] | None
    requirements: list[str] | None
    load_module_on_agents: list[AgentName]
    editable_install: bool

    @pydantic.model_validator(mode="after")
    def files_match_install_mode(self) -> InmantaModule:
        """An editable module travels as files; another one is installed from an index, and has none."""
        if self.editable_install and not self.files_in_module:
            raise ValueError(f"module {self.name} is installed as editable: its files are needed")
        if not self.editable_install and self.files_in_module is not None:
            raise ValueError(f"module {self.name} is installed from an index: it can not have files")
        return self


def _check_resource_id(value: str) -> str:
    from inmanta.resources import Id

    if not Id.is_resource_id(value):
        raise ValueError(f"invalid resource id: {value}")
    return value


# The text of a resource id, which a model checks.
ResourceId = Annotated[ResourceIdStr, pydantic.AfterValidator(_check_resource_id)]


def hyphenize(field: str) -> str:
    """The name of a field as files have it."""
    return field.replace("_", "-")
