"""The records of the service catalog and the service inventory. Source: docs/reference/lsm.md § 1.7, § 3.1, § 5.3.

They are pydantic's, which whoever imports this has; the module `lsm` itself works on their plain form.
"""

from __future__ import annotations

import copy
import datetime
import enum
import uuid
from collections.abc import Sequence
from typing import Any

import pydantic

from inmanta._more.base_model import BaseModel
from inmanta.const import ResourceState
from inmanta_lsm.const import TransferTrigger


class Record(BaseModel):
    """The base of all others: fields that this version does not know are left out."""

    model_config = pydantic.ConfigDict(extra="ignore", populate_by_name=True)


class ModelState(str, enum.Enum):
    """How older lifecycles say what a state means to compiles."""

    inactive = "inactive"
    candidate = "candidate"
    designed = "designed"
    active = "active"


class EditOperation(str, enum.Enum):
    """What an edit does."""

    replace = "replace"  # type: ignore[assignment]  # texts have a method of this name
    remove = "remove"
    merge = "merge"


class AttributeOperation(str, enum.Enum):
    """What a transfer does to the attribute sets."""

    PROMOTE = "promote"
    ROLLBACK = "rollback"
    CLEAR_CANDIDATE = "clear candidate"
    CLEAR_ACTIVE = "clear active"
    CLEAR_ROLLBACK = "clear rollback"


class PatchCallEdit(Record):
    """One edit of an update."""

    edit_id: str
    operation: EditOperation
    target: str
    value: Any = None


class State(Record):
    """How instances that are in it are treated."""

    name: str
    label: str | None = None
    export_resources: bool = False
    validate_self: str | None = None
    validate_others: str | None = None
    purge_resources: bool = False
    deleted: bool = False
    values: dict[str, Any] = {}
    previous_attr_set_on_validate: str | None = None
    previous_attr_set_on_export: str | None = None
    annotations: dict[str, Any] = {}


class StateTransfer(Record):
    """A way from one state to another."""

    source: str
    target: str
    error: str | None = None
    auto: bool = False
    validate_: bool = pydantic.Field(default=False, alias="validate")
    api_set_state: bool = False
    on_update: bool = False
    on_delete: bool = False
    resource_based: bool = False
    config_name: str | None = None
    description: str = ""
    target_operation: AttributeOperation | None = None
    error_operation: AttributeOperation | None = None
    target_same_desired_state: bool = False
    error_same_desired_state: bool = False
    annotations: dict[str, Any] = {}


class Lifecycle(Record):
    """All that can happen to an instance."""

    name: str
    initial_state: str
    alternative_initial_states: list[str] = []
    states: list[State]
    transfers: list[StateTransfer]

    def get_state(self, name: str) -> State:
        """The state of this name, else a KeyError."""
        for state in self.states:
            if state.name == name:
                return state
        raise KeyError(f"the lifecycle {self.name} has no state {name}")

    def get_transfer(self, from_state: str, transfer_type: TransferTrigger) -> StateTransfer:
        """The first transfer out of a state that this triggers, else a KeyError."""
        for transfer in self.transfers:
            if transfer.source == from_state and getattr(transfer, TransferTrigger(transfer_type).value):
                return transfer
        raise KeyError(f"no transfer of the kind {TransferTrigger(transfer_type).value} leaves the state {from_state}")


class ServiceAttribute(Record):
    """A plain attribute."""

    name: str
    type: str
    description: str | None = None
    modifier: str = "rw"
    default_value: Any = None
    default_value_set: bool = False
    validation_type: str | None = None
    validation_parameters: dict[str, Any] | None = None
    attribute_annotations: dict[str, Any] = {}


class InterServiceRelation(Record):
    """A relation to another service."""

    name: str
    entity_type: str
    description: str | None = None
    modifier: str = "rw"
    lower_limit: int = 0
    upper_limit: int | None = None
    attribute_annotations: dict[str, Any] = {}


class _Fields(Record):
    """What services and embedded entities have in common."""

    name: str
    description: str | None = None
    attributes: list[ServiceAttribute] = []
    embedded_entities: list[EmbeddedServiceEntity] = []
    inter_service_relations: list[InterServiceRelation] = []
    key_attributes: list[str] | None = None
    entity_annotations: dict[str, Any] = {}

    def add_defaults(self, attributes: dict[str, Any]) -> dict[str, Any]:
        """A copy with values for what is missing, in embedded entities, too."""
        filled = copy.deepcopy(attributes)
        for attribute in self.attributes:
            if attribute.name not in filled and (attribute.default_value_set or attribute.type.endswith("?") or attribute.modifier == "r"):
                filled[attribute.name] = copy.deepcopy(attribute.default_value)
        for relation in self.inter_service_relations:
            _add_empty(filled, relation)
        for embedded in self.embedded_entities:
            value = filled.get(embedded.name)
            if isinstance(value, dict):
                filled[embedded.name] = embedded.add_defaults(value)
            elif isinstance(value, Sequence) and not isinstance(value, str):
                filled[embedded.name] = [embedded.add_defaults(item) for item in value]
            else:
                _add_empty(filled, embedded)
        return filled


def _add_empty(filled: dict[str, Any], relation: InterServiceRelation | EmbeddedServiceEntity) -> None:
    """A relation that may have no element has none where it is missing."""
    if relation.lower_limit == 0 and relation.name not in filled:
        filled[relation.name] = None if relation.upper_limit == 1 else []


class EmbeddedServiceEntity(_Fields):
    """A structured part of a service."""

    type: str | None = None
    modifier: str = "rw"
    lower_limit: int = 0
    upper_limit: int | None = None
    attribute_annotations: dict[str, Any] = {}


class ServiceEntity(_Fields):
    """One version of the definition of a service."""

    environment: uuid.UUID | None = None
    version: int = 0
    lifecycle: Lifecycle
    config: dict[str, bool] = {}
    service_identity: str | None = None
    service_identity_display_name: str | None = None
    strict_modifier_enforcement: bool = False
    owner: str | None = None
    relation_to_owner: str | None = None
    owned_entities: list[str] = []
    instance_summary: dict[str, Any] | None = None


class ServiceEntityVersions(Record):
    """All versions of the definition of a service."""

    versions: list[ServiceEntity]
    default_version: int


class ServiceInstance(Record):
    """One ordered service."""

    id: uuid.UUID
    environment: uuid.UUID
    service_entity: str
    service_entity_version: int = 0
    version: int
    desired_state_version: int = 1
    state: str
    config: dict[str, bool] = {}
    candidate_attributes: dict[str, Any] | None = None
    active_attributes: dict[str, Any] | None = None
    rollback_attributes: dict[str, Any] | None = None
    created_at: datetime.datetime | None = None
    last_updated: datetime.datetime | None = None
    callback: list[str] = []
    deleted: bool = False
    deployment_progress: Any = None
    service_identity_attribute_value: str | None = None
    referenced_by: list[uuid.UUID] | None = None
    transfer_context: str | None = None
    metadata: dict[str, str] = {}


class ServiceInstanceLog(Record):
    """A service instance as it was."""

    service_instance_id: uuid.UUID
    environment: uuid.UUID
    service_entity: str
    service_entity_version: int = 0
    version: int
    desired_state_version: int = 1
    timestamp: datetime.datetime | None = None
    state: str
    config: dict[str, bool] = {}
    candidate_attributes: dict[str, Any] | None = None
    active_attributes: dict[str, Any] | None = None
    rollback_attributes: dict[str, Any] | None = None
    created_at: datetime.datetime | None = None
    last_updated: datetime.datetime | None = None
    callback: list[str] = []
    deleted: bool = False
    service_identity_attribute_value: str | None = None
    transfer_context: str | None = None
    events: list[Any] = []

    def to_service_instance(self) -> ServiceInstance:
        """The instance that it was."""
        fields = self.model_dump()
        return ServiceInstance(id=fields.pop("service_instance_id"), **fields)


class Resource(Record):
    """A resource that counts for an instance, with the state that it is in."""

    resource_id: str
    resource_state: ResourceState
