"""References: values that only the executor computes, such as secrets. Source: docs/reference/language.md § 12.11.

In a model a reference stands for its value. At export each place of a resource that holds one becomes null, the
reference itself goes into the field `references`, and a `core::Replace` in `mutators` tells where its value belongs.
The executor runs the mutators before the handler sees the resource.
"""

from __future__ import annotations

from inmanta import _without
from inmanta._arguments import (
    Argument,
    GetArgument,
    JsonArgument,
    LiteralArgument,
    MutatedJsonArgument,
    MutatorModel,
    PythonTypeArgument,
    ReferenceArgument,
    ReferenceModel,
    ResourceArgument,
    SerializedReferenceLike,
    id_of,
    parse_destination,
    write,
)
from inmanta._generic import Subscripted, T
from inmanta.ast import CompilerException

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, ClassVar, Self, TypeVar
    from uuid import UUID

    from inmanta.agent.handler import LoggerABC
    from inmanta.resources import Resource

    C = TypeVar("C", bound=type)
    Step = Callable[[int | str], str]
    Take = Callable[["Reference[Any]", str], object]


class ReferenceCycleException(CompilerException):
    """A reference that needs itself."""

    def __init__(self, first: Reference[Any]) -> None:
        super().__init__("")
        self.references = [first]
        self.complete = False

    def add(self, element: Reference[Any]) -> None:
        if self.complete:
            return
        if element in self.references:
            self.complete = True
        self.references.append(element)

    def get_message(self) -> str:
        return "Reference cycle detected: %s" % " -> ".join(map(_named, self.references))


def _named(reference: Reference[Any]) -> str:
    # Without the address, which would be another one in every compile.
    cls = type(reference)
    return f"<{cls.__module__}.{cls.__qualname__} object>"


class ReferenceMissingError(TypeError):
    """The code of a reference type is not loaded."""


class MutatorMissingError(TypeError):
    """The code of a mutator type is not loaded."""


class ReferenceLike:
    """What references and mutators share: their public attributes are their constructor arguments."""

    type = ""

    def __init__(self) -> None:
        # The exported form, once it was made.
        self._model: Any = None
        # What the model takes a reference to be of.
        self._model_type: Any = None
        # Of a reference to a field of a dataclass: the type of the entity's attribute.
        self._attribute_type: Any = None

    @property
    def arguments(self) -> dict[str, object]:
        """The constructor arguments: all attributes without a leading underscore, in the order they were set."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def serialize(self) -> SerializedReferenceLike:
        """The exported form."""
        raise NotImplementedError

    def serialize_arguments(self) -> tuple[UUID, list[Argument]]:
        """The arguments in exported form, and the id that follows from type and arguments."""
        arguments = [argument_of(name, value) for name, value in self.arguments.items()]
        return id_of(self.type, arguments), arguments

    @classmethod
    def deserialize(cls, ref: SerializedReferenceLike, resource: Resource, logger: LoggerABC) -> Self:
        """The object of an exported form, in the executor: arguments that are references have their values."""
        return cls(**{argument.name: argument.get_arg_value(resource, logger) for argument in ref.args})

    def resolve_other(self, value: Any, logger: LoggerABC) -> Any:
        """The value itself, or what it resolves to if it is a reference."""
        return value.get(logger) if isinstance(value, Reference) else value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReferenceLike) and type(self) is type(other) and self.arguments == other.arguments

    def __hash__(self) -> int:
        return hash((type(self).__name__, *(str(value) for value in self.arguments.values())))


class Reference(ReferenceLike, Subscripted[T]):
    """Base of all reference types, `class Secret(Reference[str])`, under `@reference`.

    `__init__` calls `super().__init__()` and keeps its arguments as attributes of the same names. `resolve(logger)`
    computes the value, in the executor.
    """

    _is_inmanta_reference = True

    def __init__(self) -> None:
        super().__init__()
        self._reference_value: Any = None
        self._reference_value_cached = False
        self._serializing = False

    def resolve(self, logger: LoggerABC) -> T:
        """Computes the value."""
        raise NotImplementedError

    def get(self, logger: LoggerABC) -> T:
        """The value, computed at most once."""
        if self._reference_value_cached:
            logger.debug("Using cached value for reference %(reference)s", reference=repr(self))
        else:
            self._reference_value = self.resolve(logger)
            self._reference_value_cached = True
        value: T = self._reference_value
        return value

    def serialize(self) -> ReferenceModel:
        """The exported form, made once. ReferenceCycleException if it needs itself."""
        if self._model is None:
            if self._serializing:
                raise ReferenceCycleException(self)
            self._serializing = True
            try:
                number, arguments = self.serialize_arguments()
                self._model = ReferenceModel(id=number, type=_checked(self.type), args=arguments)
            except ReferenceCycleException as cycle:
                cycle.add(self)
                raise
            finally:
                self._serializing = False
        model: ReferenceModel = self._model
        return model

    @classmethod
    def get_reference_type(cls) -> Any:
        """T of Reference[T]; None if the class does not say."""
        for base in cls.__mro__:
            for candidate in base.__dict__.get("__orig_bases__", ()):
                origin = getattr(candidate, "__origin__", None)
                if isinstance(origin, type) and issubclass(origin, Reference):
                    return candidate.__args__[0]
        return None

    @classmethod
    def is_dataclass_reference(cls) -> bool:
        return hasattr(cls.get_reference_type(), "__dataclass_fields__")

    def __bool__(self) -> bool:
        raise NotImplementedError(f"{self!r} is a reference: only the executor knows its value, and so its truth")


class Mutator(ReferenceLike):
    """Base of what changes a resource before its handler sees it, under `@mutator`."""

    def serialize(self) -> MutatorModel:
        """The exported form, made once."""
        if self._model is None:
            _, arguments = self.serialize_arguments()
            self._model = MutatorModel(type=_checked(self.type), args=arguments)
        model: MutatorModel = self._model
        return model

    def run(self, logger: LoggerABC) -> None:
        raise NotImplementedError


def _import_std() -> None:
    """In a process that has a life of its own, references of std are of the classes that it can import, and may have."""
    import importlib

    from inmanta.plugins import Runtime

    if not Runtime.is_hosted and Runtime.ask is None:
        try:
            importlib.import_module("inmanta_plugins.std")
        except ImportError:
            # A published one wants packages that are not there.
            pass


class _Registry:
    """A decorator that registers classes by the name it is given."""

    # Classes by name; each registry has its own.
    _known: ClassVar[dict[str, Any]]
    _missing: ClassVar[type[Exception]]

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, cls: Any) -> Any:
        cls.type = self.name
        type(self)._known[self.name] = cls
        return cls

    @classmethod
    def get_class(cls, name: str) -> Any:
        """The class of this name; the registry's missing error without one."""
        if name not in cls._known and name.startswith("std::"):
            _import_std()
        if name not in cls._known and name.startswith("std::"):
            from inmanta import _std  # noqa: F401 (its types register themselves)
        found = cls._known.get(name)
        if found is None:
            raise cls._missing(f"{cls.__name__} {name} is not known")
        return found

    @classmethod
    def get_references(cls) -> Iterator[tuple[str, Any]]:
        return iter(list(cls._known.items()))

    get_mutators = get_references

    @classmethod
    def reset(cls) -> None:
        kept = ("inmanta.references", "inmanta._std")
        cls._known = {name: found for name, found in cls._known.items() if found.__module__ in kept}


@_without("add_reference")
class reference(_Registry):
    """`@reference("net::Secret")` over a subclass of Reference."""

    _known = {}
    _missing = ReferenceMissingError


@_without("add_mutator")
class mutator(_Registry):
    """`@mutator("net::Merge")` over a subclass of Mutator."""

    _known = {}
    _missing = MutatorMissingError


@reference("core::AttributeReference")
class AttributeReference(Reference[T]):
    """One attribute of a reference to a dataclass."""

    def __init__(self, reference: Reference[Any], attribute_name: str) -> None:
        super().__init__()
        # The order counts: it is that of the arguments in the exported form, from which the id follows.
        self.attribute_name = attribute_name
        self.reference = reference

    def resolve(self, logger: LoggerABC) -> T:
        value: T = getattr(self.resolve_other(self.reference, logger), self.attribute_name)
        return value


@mutator("core::Replace")
class ReplaceValue(Mutator):
    """Writes a resolved reference into a resource, at `destination`."""

    def __init__(self, resource: Resource, value: object, destination: str) -> None:
        super().__init__()
        self.resource = resource
        self.value = value
        self.destination = destination

    def run(self, logger: LoggerABC) -> None:
        write(self.resource, self.destination, self.resolve_other(self.value, logger))


def reset() -> None:
    """Forgets all types but the built-in ones."""
    reference.reset()
    mutator.reset()


def is_reference_of(instance: object, type_class: object) -> bool:
    """Whether a value is a reference to values of a type."""
    return isinstance(instance, Reference) and (type_class is None or instance.get_reference_type() == type_class)


def maybe_reference(value: object) -> bool:
    """Whether a value can say itself which reference it stands for."""
    return hasattr(value, "unwrap_reference")


def unwrap_reference(value: object) -> Reference[Any] | None:
    """The reference that a value is, or that an instance stands for which was made of one; None for another value."""
    if maybe_reference(value):
        stands_for: Reference[Any] | None = value.unwrap_reference()  # type: ignore[attr-defined]
        return stands_for
    found = getattr(value, "dataclass_self", None) if not isinstance(value, Reference) else value
    return found if isinstance(found, Reference) else None


# --- export ----------------------------------------------------------------------------------------------------------


class Collector:
    """Takes the references out of the fields of one resource."""

    def __init__(self, resource_id: str) -> None:
        self._resource_id = resource_id
        self._references: dict[str, dict[str, Any]] = {}
        self._mutators: dict[str, dict[str, Any]] = {}

    def __bool__(self) -> bool:
        return bool(self._references)

    def closure(self, found: Reference[Any]) -> tuple[ReferenceModel, list[dict[str, Any]]]:
        """The exported form of a reference, and those of itself and all that its arguments need."""
        return self._add(found), self.references()

    def field(self, name: str, value: object) -> object:
        """The value with null in place of references."""
        return _without_references(value, name, self._take, _destination_step)

    def _take(self, found: Reference[Any], path: str) -> None:
        model = self._add(found)
        arguments = [
            ResourceArgument(name="resource", id=self._resource_id),
            ReferenceArgument(name="value", id=model.id),
            LiteralArgument(name="destination", value=path),
        ]
        replace = MutatorModel(type="core::Replace", args=arguments)
        self._mutators[str(replace.get_id())] = replace.to_dict()

    def _add(self, found: Reference[Any]) -> ReferenceModel:
        model = found.serialize()
        if str(model.id) not in self._references:
            self._references[str(model.id)] = model.to_dict()
            for value in found.arguments.values():
                _without_references(value, "", lambda inner, path: self._add(inner), _destination_step)
        return model

    def references(self) -> list[dict[str, Any]]:
        return [self._references[key] for key in sorted(self._references)]

    def mutators(self) -> list[dict[str, Any]]:
        return [self._mutators[key] for key in sorted(self._mutators)]


def _without_references(value: object, path: str, take: Take, step: Step) -> object:
    if isinstance(value, Reference):
        take(value, path)
        return None
    if isinstance(value, (list, tuple)):
        return [_without_references(item, path + step(index), take, step) for index, item in enumerate(value)]
    if isinstance(value, dict):
        return {key: _without_references(item, path + step(key), take, step) for key, item in value.items()}
    return value


def _destination_step(key: int | str) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    return ".'" + key.replace("\\", "\\\\").replace("'", "\\'") + "'"


def argument_of(name: str, value: object) -> Argument:
    """The exported form of one constructor argument. TypeError for what has none."""
    from inmanta.execute.proxy import DynamicProxy

    from inmanta.resources import Resource

    value = DynamicProxy._plain(value)
    if isinstance(value, Reference):
        return ReferenceArgument(name=name, id=value.serialize().id)
    if value is None or isinstance(value, (str, int, float, bool)):
        return LiteralArgument(name=name, value=value)
    if isinstance(value, Resource):
        return ResourceArgument(name=name, id=value.id.resource_str())
    if isinstance(value, type) and value in (str, int, float, bool):
        return PythonTypeArgument(name=name, value=value.__name__)
    if isinstance(value, (list, dict, tuple)):
        inner: dict[str, ReferenceArgument] = {}

        def take(found: Reference[Any], path: str) -> None:
            inner[path] = ReferenceArgument(name=path, id=found.serialize().id)

        plain = _without_references(value, "$", take, _destination_step)
        if inner:
            return MutatedJsonArgument(name=name, value=plain, references=inner)
        return JsonArgument(name=name, value=plain)
    raise TypeError(f"Unable to serialize argument `{name}` of a reference, of type {type(value).__name__}")


def _checked(name: str) -> str:
    """The name that a class is registered under; ValueError for one that no other code could be found by."""
    if not is_valid_name(name):
        raise ValueError(f"{name!r} is no name for a reference or mutator: register it as `module::Name`")
    return name


def is_valid_name(name: str) -> bool:
    """Whether other code can find a class that is registered under this name."""
    import re

    return re.fullmatch(r"([a-z0-9_]+::)+[A-Z][A-Za-z0-9_-]*", name) is not None


# --- executor --------------------------------------------------------------------------------------------------------


def resolve(resource: Resource, logger: LoggerABC) -> None:
    """Runs the mutators of a resource in order."""
    for exported in resource.mutators:
        cls = mutator.get_class(exported["type"])
        cls.deserialize(MutatorModel(type=exported["type"], args=exported["args"]), resource, logger).run(logger)


def value_of(resource: Resource, id: object, logger: LoggerABC) -> Any:
    """The value of one of the references of a resource, by its id. KeyError if it has none."""
    made = resource._references.get(id)
    if made is None:
        if not resource._references_model:
            models = [ReferenceModel(**exported) for exported in resource.references]
            resource._references_model.update({model.id: model for model in models})
        model = resource._references_model.get(id)
        if model is None:
            raise KeyError(f"The reference with id {id} is not defined in resource {resource.id}")
        made = resource._references[id] = reference.get_class(model.type).deserialize(model, resource, logger)
    return made.get(logger)


def __getattr__(name: str) -> object:
    # Types for annotations: made when somebody asks, because `typing` takes its time.
    if name in ("PrimitiveTypes", "ArgumentTypes", "RefValue", "StrictJson"):
        import typing

        made: object = typing.Union[str, float, int, bool, None] if name == "PrimitiveTypes" else typing.Any
        globals()[name] = made
        return made
    if name in ("DataclassProtocol", "MaybeReference"):
        import typing

        return typing.Any
    from inmanta import _rest_of

    return _rest_of(__name__)(name)
