"""Attributes and relations of entities."""

from __future__ import annotations

from inmanta import _without
from inmanta.ast import type as types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from inmanta.ast.entity import Entity
    from steward_host.messages import AttributeInfo


@_without(
    "SUPPORTS_REFERENCES copy_location final get_location get_new_result_variable has_relation_precedence_rules "
    "location set_location type_internal"
)
class Attribute:
    """A plain attribute: `name` and `type`."""

    def __init__(self, entity: Entity, info: AttributeInfo) -> None:
        self.entity = entity
        self.name: str = info["name"]
        self._type_name: str = info["type_name"]
        self._multi: bool = info["multi"]
        self._optional: bool = info["optional"]
        # What only our own modules read.
        self._has_default: bool = info.get("has_default", False)
        self._default: object = info.get("default")
        self._annotations: list[Any] = info.get("annotations") or []

    @property
    def type(self) -> types.Type:
        return types.parse(self._type_name)

    def get_type(self) -> types.Type:
        return self.type

    def get_name(self) -> str:
        return self.name

    def get_entity(self) -> Entity:
        return self.entity

    def is_optional(self) -> bool:
        return self._optional

    def is_multi(self) -> bool:
        return self._multi

    def validate(self, value: object) -> None:
        self.type.validate(value)

    def __repr__(self) -> str:
        return f"{self.entity}.{self.name}"


@_without("add_freeze_dependent set_multiplicity")
class RelationAttribute(Attribute):
    """A relation: `type` is the related entity, `low` and `high` how many of them (high None: any number)."""

    def __init__(self, entity: Entity, info: AttributeInfo) -> None:
        super().__init__(entity, info)
        self.low: int = info["low"]
        self.high: int | None = info["high"]
        self._inverse: str | None = info["inverse"]

    def is_optional(self) -> bool:
        return self.low == 0

    @property
    def end(self) -> RelationAttribute | None:
        """The other end of the relation; None if it has one end only."""
        found = None if self._inverse is None else self.type.get_attribute(self._inverse)
        return found if isinstance(found, RelationAttribute) else None

    @property
    def type(self) -> Entity:
        from inmanta.execute import runtime

        found = runtime.entity(self._type_name)
        assert found is not None, "a relation has an entity at its end"
        return found

if not TYPE_CHECKING:
    # What only the reference's module has says why it is not here.
    from inmanta import _rest_of

    __getattr__ = _rest_of(__name__)
