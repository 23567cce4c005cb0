"""Orders. Source: docs/reference/lsm.md § 5.10."""

from __future__ import annotations

import enum
import uuid
from typing import Any, Union

from inmanta_lsm.model import PatchCallEdit, Record


class OrderState(str, enum.Enum):
    """How far an order is."""

    IN_PROGRESS = "in_progress"
    SUCCESS = "success"
    FAILED = "failed"
    PARTIAL = "partial"


class OrderItemState(str, enum.Enum):
    """How far an item of an order is."""

    ACKNOWLEDGED = "acknowledged"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"


class OrderItemAction(str, enum.Enum):
    """What an item does to its instance."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


class _Item(Record):
    instance_id: uuid.UUID
    service_entity: str
    config: dict[str, bool] | None = None


class CreateWritableServiceOrderItem(_Item):
    """Creates an instance."""

    action: OrderItemAction = OrderItemAction.CREATE
    attributes: dict[str, Any]


class UpdateWritableServiceOrderItem(_Item):
    """Changes an instance."""

    action: OrderItemAction = OrderItemAction.UPDATE
    edits: list[PatchCallEdit]


class DeleteWritableServiceOrderItem(_Item):
    """Deletes an instance."""

    action: OrderItemAction = OrderItemAction.DELETE


WritableServiceOrderItemTypes = Union[
    CreateWritableServiceOrderItem, UpdateWritableServiceOrderItem, DeleteWritableServiceOrderItem
]


class ServiceOrderItemStatus(Record):
    """What has become of an item."""

    state: OrderItemState
    failure_type: str | None = None
    reason: str | None = None
    direct_dependencies: dict[str, OrderItemState] | None = None
    validation_compile_id: uuid.UUID | None = None
    instance_state_label: str | None = None
    service_identity_attribute_value: str | None = None
    service_identity_display_name: str | None = None


class ServiceOrderItem(_Item):
    """One change of an order."""

    action: OrderItemAction
    attributes: dict[str, Any] | None = None
    edits: list[PatchCallEdit] | None = None
    status: ServiceOrderItemStatus | None = None


class ServiceOrderStatus(Record):
    """What has become of an order."""

    state: OrderState


class ServiceOrder(Record):
    """Changes to several instances."""

    id: uuid.UUID
    environment: uuid.UUID
    description: str | None = None
    created_at: Any = None
    completed_at: Any = None
    status: ServiceOrderStatus
    service_order_items: list[ServiceOrderItem] = []
