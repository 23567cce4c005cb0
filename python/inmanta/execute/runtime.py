"""Instances of the model, as handles: their attributes live in the compiler and are fetched when read."""

from __future__ import annotations

from inmanta import _without
from inmanta.ast import Location, NotFoundException, OptionalValueException, UnsetException

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from inmanta.ast.entity import Entity
    from inmanta.ast.type import Type
    from steward_host.messages import ConditionInfo, EntityInfo


class AttributeNotFound(NotFoundException, AttributeError):  # type: ignore[misc]  # `name` is any object in one base
    """The entity has no such attribute. Being an AttributeError too, `hasattr` and `getattr` with a default work."""

    def __init__(self, name: str, message: str) -> None:
        NotFoundException.__init__(self, None, name, message)


class World:
    """Where attributes and entities come from; `steward_host` puts the real one in place of this one.

    `get(instance_id, attribute)` gives `(kind, value)`: `("value", v)`, or one of `("unset", None)`,
    `("optional_unset", text)` and `("no_attribute", text)`. `lookup(name)` does so for a name at the running call.
    `entity(name)` gives the fields of `entity_info`, or None, `typedef(name)` what a typedef is made of, or None; `instances(name)` the handles of its instances, and
    `place(instance_id)` file and line of a constructor.
    """

    def get(self, instance_id: int, attribute: str) -> tuple[str, Any]:
        raise RuntimeError("no model: instances exist only while Steward compiles one")

    def lookup(self, name: str) -> tuple[str, Any]:
        raise RuntimeError("no model: names exist only while Steward compiles one")

    def entity(self, name: str) -> EntityInfo | None:
        raise RuntimeError("no model: entities exist only while Steward compiles one")

    def entities(self) -> list[str]:
        raise RuntimeError("no model: entities exist only while Steward compiles one")

    def instances(self, name: str) -> list[Instance]:
        raise RuntimeError("no model: instances exist only while Steward compiles one")

    def native(
        self, plugin: str, args: list[object], kwargs: list[list[object]], identity: str | None
    ) -> tuple[str, Any]:
        raise RuntimeError(f"{plugin} exists only while Steward compiles a model")

    def typedef(self, name: str) -> str | None:
        raise RuntimeError("no model: types exist only while Steward compiles one")

    def condition(self, name: str) -> tuple[str | None, ConditionInfo | None]:
        """What a typedef is made of, and its own condition if that has a known form."""
        raise RuntimeError("no model: types exist only while Steward compiles one")

    def services(self, question: dict[str, Any]) -> tuple[Any, str | None]:
        """Service instances that the inputs of the compile leave out, by service; or why they cannot be had."""
        raise RuntimeError("no model: services exist only while Steward compiles one")

    def write_service(self, write: dict[str, Any]) -> None:
        """Adds to what the compile leaves for the service inventory."""
        raise RuntimeError("no model: the service inventory is written only while Steward compiles one")

    def validate(self, typedef: str, value: object) -> tuple[str, Any]:
        raise RuntimeError("no model: types exist only while Steward compiles one")

    def places(self, instance_id: int) -> list[tuple[str, int]]:
        raise RuntimeError("no model: instances exist only while Steward compiles one")

    def given(self, instance_id: int) -> list[str]:
        """The attributes that the constructors of an instance name."""
        raise RuntimeError("no model: instances exist only while Steward compiles one")

    def path(self, file: str) -> str:
        return file


world = World()
_instances: dict[int, Instance] = {}
_entities: dict[str, Entity] = {}


def reset() -> None:
    """Forgets all instances and entities, before another model."""
    _instances.clear()
    _entities.clear()


def instance(instance_id: int, entity_name: str) -> Instance:
    """The one handle of an instance; handles are compared by identity."""
    known = _instances.get(instance_id)
    if known is None:
        known = _instances[instance_id] = Instance(instance_id, entity_name)
    return known


def entity(name: str) -> Entity | None:
    """The entity of this full name, or None."""
    known = _entities.get(name)
    if known is None:
        info = world.entity(name)
        if info is None:
            return None
        from inmanta.ast.entity import Entity

        known = _entities[name] = Entity(info)
    return known


def model_type(name: str) -> Entity | Type | None:
    """The entity or typedef of this full name, or None."""
    found: Entity | Type | None = entity(name)
    if found is None:
        base = world.typedef(name)
        if base is not None:
            from inmanta.ast import type as types

            found = types.ConstraintType(name, types.parse(base))
    return found


def validate(typedef: str, value: object) -> bool:
    """True if the value is one of the typedef, else a RuntimeException."""
    return bool(_outcome(typedef, *world.validate(typedef, value)))


def native(plugin: str, args: list[object], kwargs: list[list[object]], identity: str | None = None) -> object:
    """What a plugin of the compiler itself gives, with internal values; its error as an exception.

    `identity`: the id of the resource that the first argument becomes, if the compiler does not know it.
    """
    return _outcome(plugin, *world.native(plugin, args, kwargs, identity))


def _outcome(name: str, kind: str, value: Any) -> object:
    from inmanta import ast

    if kind == "value":
        return value
    if kind == "waits":
        raise ast.MultiUnsetException(f"{name} waits for values", [CompilerVariable(number) for number in value])
    if kind == "raised":
        raised = getattr(ast, value["type_name"], None)
        message = value["message"]
        if isinstance(raised, type) and issubclass(raised, ast.RuntimeException):
            error = ast.RuntimeException(None, message)
            error.__class__ = raised
            raise error
        raise ast.PluginException(message) if value["is_plugin"] else _python_exception(value["type_name"], message)
    raise AttributeNotFound(name, str(value))


def _python_exception(name: str, message: str) -> Exception:
    """An exception of Python's by its name; of a class that is not there, one with this name."""
    import builtins

    known = getattr(builtins, name, None)
    if not isinstance(known, type) or not issubclass(known, Exception):
        module, _, short = name.rpartition(".")
        known = type(short, (Exception,), {"__module__": module or "builtins"})
    made: Exception = known(message)
    return made


class CompilerVariable:
    """A variable that only the compiler knows, by its number."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


@_without(
    "can_get freeze fulfill get_dataflow_node get_progression_promise get_promise hasValue is_multi listener "
    "location provider pure_gradual receive_result receive_result_flatten set_dataflow_node set_type set_value "
    "type waiters waitfor"
)
class ResultVariable:
    """One attribute of one instance."""

    __slots__ = ("myself", "attribute")

    def __init__(self, myself: Instance, attribute: str) -> None:
        self.myself = myself
        self.attribute = attribute

    def get_value(self) -> object:
        """The value; UnsetException, OptionalValueException or AttributeNotFound if there is none."""
        return self.myself.value(self.attribute)

    @property
    def value(self) -> object:
        """As the model has it, null as a NoneValue; None for a relation that has no value, and will have none."""
        from inmanta.execute.util import NoneValue

        try:
            value = self.get_value()
        except OptionalValueException:
            return None
        return NoneValue() if value is None else value

    def is_ready(self) -> bool:
        try:
            self.get_value()
        except UnsetException:
            return False
        except OptionalValueException:
            pass
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ResultVariable) and self.myself is other.myself and self.attribute == other.attribute

    def __hash__(self) -> int:
        return hash((self.myself.id, self.attribute))


@_without(
    "add_implementation block dataflow_graph direct_lookup emit final for_namespace get_dataflow_node "
    "get_root_resolver implementations instance_node locations lookup namespace resolver "
    "set_attribute set_location sid unwrap_reference verify_done"
)
class Instance:
    """An instance of the model. `id` is the compiler's number of it."""

    __slots__ = ("id", "entity_name", "_values", "_absent", "_open", "dataclass_self")

    def __init__(self, instance_id: int, entity_name: str, known: dict[str, object] | None = None) -> None:
        self.id = instance_id
        self.entity_name = entity_name
        # A variable of the model is assigned once, so what was read stays true.
        self._values: dict[str, object] = {} if known is None else known
        # So does that an optional one has no value: name and message.
        self._absent: dict[str, str] | None = None
        # Relations that are not complete while the present call lasts.
        self._open: tuple[str, ...] | None = None
        # The Python object that it was made from, or that a plugin got for it.
        self.dataclass_self: object = None

    def value(self, name: str) -> object:
        values = self._values
        if name in values:
            return values[name]
        if name == "self":
            return self
        if self._absent is not None and name in self._absent:
            raise OptionalValueException(self, name, self._absent[name])
        is_open = self._open is not None and name in self._open
        kind, value = ("unset", "") if is_open else world.get(self.id, name)
        if kind == "value":
            values[name] = value
            return value
        if kind == "unset":
            raise UnsetException(f"attribute `{name}` of {self!r} has no value yet", ResultVariable(self, name))
        if kind == "optional_unset":
            if self._absent is None:
                self._absent = {}
            self._absent[name] = value
            raise OptionalValueException(self, name, value)
        raise AttributeNotFound(name, value)

    def get_attribute(self, name: str) -> ResultVariable:
        return ResultVariable(self, name)

    @property
    def slots(self) -> dict[str, ResultVariable]:
        """Its attributes and relations by name, and itself as `self`."""
        return {name: ResultVariable(self, name) for name in (*self.get_type().get_all_attribute_names(), "self")}

    def __deepcopy__(self, memo: dict[int, object]) -> NoReturn:
        # There is one handle of each instance, and in the reference an error of this kind.
        raise AttributeError(f"{self!r} cannot be copied")

    def __reduce__(self) -> NoReturn:
        raise AttributeError(f"{self!r} cannot be pickled")

    def get_type(self) -> Entity:
        found = entity(self.entity_name)
        assert found is not None, "an instance has an entity"
        return found

    type = property(get_type)

    @property
    def location(self) -> Location | None:
        """The constructor that gave it, the last one of several."""
        return next(reversed(self.get_locations()), None)

    def get_location(self) -> Location | None:
        return self.location

    def get_locations(self) -> list[Location]:
        """The constructors that gave it: several, if it has an index."""
        return [Location(file, line) for file, line in world.places(self.id)]

    def __repr__(self) -> str:
        # Where the reference has an address, twelve hexadecimal digits.
        return f"{self.entity_name} {self.id:012x}"

    def __str__(self) -> str:
        return f"{self.entity_name} (instantiated at {','.join(map(str, self.get_locations()))})"

if not TYPE_CHECKING:
    # What only the reference's module has says why it is not here.
    from inmanta import _rest_of

    __getattr__ = _rest_of(__name__)
