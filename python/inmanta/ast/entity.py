"""Entities of the model, as far as Python code asks about them."""

from __future__ import annotations

from inmanta import _without
from inmanta.ast import Namespace, Range, RuntimeException
from inmanta.ast.attribute import Attribute, RelationAttribute
from inmanta.ast.type import Type
from inmanta.execute.util import AnyType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from inmanta.ast import Location
    from inmanta.execute.runtime import Instance
    from steward_host.messages import EntityInfo


@_without(
    "add_attribute add_default_value add_implement add_implementation add_index add_instance add_to_index "
    "final from_python get_all_attributes get_all_child_entities get_all_parent_entities_sorted get_default "
    "get_default_values get_double_defined_exception get_implements get_instance get_paired_dataclass "
    "get_sub_constructor lookup_index pair_dataclass pair_dataclass_stage1 set_attributes"
)
class Entity(Type):
    """One entity. Made from the compiler's `entity_info`; compared by full name."""

    def __init__(self, info: EntityInfo) -> None:
        self.full_name: str = info["name"]
        self._parents: list[str] = list(info["parents"])
        self._indices: list[list[str]] = list(info.get("indices") or ())
        # Its documentation.
        self.comment: str | None = info.get("comment")
        self._place = info.get("place")
        self._attributes: dict[str, Attribute] = {}
        for attribute in info["attributes"]:
            kind = RelationAttribute if attribute["relation"] else Attribute
            self._attributes[attribute["name"]] = kind(self, attribute)

    @property
    def attributes(self) -> dict[str, Attribute]:
        """The attributes and relations that this entity itself declares, by name."""
        inherited = {name for parent in self._ancestors() for name in parent._attributes}
        return {name: attribute for name, attribute in self._attributes.items() if name not in inherited}

    @property
    def name(self) -> str:
        return self.full_name.rsplit("::", 1)[-1]

    @property
    def namespace(self) -> Namespace:
        return Namespace.of(self.full_name.rsplit("::", 1)[0])

    def get_location(self) -> Location | None:
        """The place of its name in its definition."""
        from inmanta.execute import runtime

        if self._place is None:
            return None
        file, *numbers = self._place
        return Range(runtime.world.path(file), *numbers)

    location = property(get_location)

    def get_full_name(self) -> str:
        return self.full_name

    def get_name(self) -> str:
        return self.name

    def get_namespace(self) -> Namespace:
        return self.namespace

    def get_attribute(self, name: str) -> Attribute | None:
        """The attribute or relation of this name, inherited ones included; None if there is none."""
        return self._all().get(name)

    def _all(self) -> dict[str, Attribute]:
        everything = dict(self._attributes)
        for parent in self._ancestors():
            for name, attribute in parent._attributes.items():
                # What is inherited is the ancestor's.
                if name not in everything or everything[name]._type_name == attribute._type_name:
                    everything[name] = attribute
        return everything

    def get_attributes(self) -> dict[str, Attribute]:
        return self.attributes

    def has_attribute(self, attribute: str) -> bool:
        return attribute in self._all()

    def get_all_attribute_names(self) -> list[str]:
        return list(self._all())

    @property
    def parent_entities(self) -> list[Entity]:
        """The entities that this one extends directly."""
        ancestors = self._ancestors()
        inherited = {name for ancestor in ancestors for name in ancestor._parents}
        return [ancestor for ancestor in ancestors if ancestor.full_name not in inherited]

    def _ancestors(self) -> list[Entity]:
        """All ancestors, the nearest first."""
        from inmanta.execute import runtime

        found = (runtime.entity(name) for name in self._parents)
        return [entity for entity in found if entity is not None]

    def get_all_parent_names(self) -> list[str]:
        return list(self._parents)

    def get_all_parent_entities(self) -> set[Entity]:
        return set(self._ancestors())

    def is_parent(self, entity: Entity) -> bool:
        return entity.full_name in self._parents

    def is_subclass(self, cls: Entity) -> bool:
        return cls.full_name in self._parents

    def get_all_instances(self) -> list[Instance]:
        """All instances so far, those of entities that extend this one among them, in the order of their making."""
        from inmanta.execute import runtime

        return runtime.world.instances(self.full_name)

    def get_indices(self) -> list[list[str]]:
        """The attributes of each index, inherited ones included."""
        return [list(index) for index in self._indices]

    def normalize(self) -> None:
        """Nothing to do: an entity is complete before Python sees it."""

    def is_entity(self) -> bool:
        return True

    def validate(self, value: object) -> bool:
        """True for an instance, or for a dataclass or a reference that becomes one where a plugin's result is taken."""
        entity = _entity_of(value)
        if isinstance(value, AnyType) or (entity is not None and entity.issubtype(self)):
            return True
        raise RuntimeException(None, f"Invalid class type for {value}, should be {self.full_name}")

    def issubtype(self, other: Type) -> bool:
        return super().issubtype(other) or (isinstance(other, Entity) and self.is_subclass(other))

    def type_string(self) -> str:
        return self.full_name

    type_string_internal = type_string

    def __str__(self) -> str:
        return self.full_name

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entity) and self.full_name == other.full_name

    def __hash__(self) -> int:
        return hash(self.full_name)


def _entity_of(value: object) -> Entity | None:
    from inmanta.ast._composed import is_reference, referenced
    from inmanta.execute import runtime
    from steward_host import annotations

    if isinstance(value, runtime.Instance):
        return value.get_type()
    if is_reference(value):
        found = referenced(value)
        return found if isinstance(found, Entity) else None
    name = annotations.dataclass_entity(type(value))
    return None if name is None else runtime.entity(name)

if not TYPE_CHECKING:
    # What only the reference's module has says why it is not here.
    from inmanta import _rest_of

    __getattr__ = _rest_of(__name__)
