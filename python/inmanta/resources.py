"""Resources: how an entity of the model becomes something that can be deployed.

A class under `@resource(entity, agent=…, id_attribute=…)` lists `fields`. The compiler reads them from each instance
(`map_field`); the executor makes the same object again from the exported form (`Resource.deserialize`).
Source: docs/reference/language.md § 12.1 to § 12.3.
"""

from __future__ import annotations

from inmanta import _without, const
from inmanta._id import Id as Id
from inmanta.ast import AttributeException, CompilerException, NotFoundException
from inmanta.execute import proxy
from inmanta.execute.util import NoneValue, Unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, KeysView
    from typing import Any, Self

    from inmanta.agent.handler import LoggerABC
    from inmanta.export import Exporter
    from inmanta._arguments import ReferenceModel
    from inmanta.references import Reference

_FORBIDDEN = frozenset(
    {"id", "version", "model", "requires", "unknowns", "set_version", "clone", "is_type", "serialize"}
)


class ResourceException(CompilerException):
    """A resource class or a resource that cannot be exported."""


class ResourceNotFoundExcpetion(Exception):
    """There is no such resource. (The spelling is the name that modules use.)"""


@_without("to_action")
class HostNotFoundException(Exception):
    """A host of a resource that does not exist."""


class IgnoreResourceException(Exception):
    """Raised by a getter: this instance is not a resource."""


class resource:
    """`@resource("net::Port", agent="host.name", id_attribute="path")` over a subclass of Resource.

    `agent` is a dotted path from the instance to the name of its agent; a later class for the same entity replaces
    an earlier one.
    """

    # entity -> (class, {"agent": …, "name": id attribute})
    _resources: dict[str, tuple[type[Resource], dict[str, str]]] = {}

    def __init__(self, name: str, id_attribute: str, agent: str) -> None:
        if not isinstance(name, str):
            raise ResourceException(f"The name of a resource should be a string, got {name!r}")
        if not isinstance(agent, str):
            raise ResourceException(f"The agent parameter has to be a string, got {agent} of type {type(agent)}")
        self._name = name
        self._options = {"agent": agent, "name": id_attribute}

    def __call__(self, cls: type) -> type:
        if not (isinstance(cls, type) and issubclass(cls, Resource)):
            raise ResourceException(f"@resource({self._name!r}) stands over {cls!r}, which is no subclass of Resource")
        resource.add_resource(self._name, cls, self._options)
        return cls

    @classmethod
    def add_resource(cls, name: str, resource_class: type[Resource], options: dict[str, str]) -> None:
        cls._resources[name] = (resource_class, options)

    @classmethod
    def get_entity_resources(cls) -> KeysView[str]:
        """The names of all entities with a resource class."""
        return cls._resources.keys()

    @classmethod
    def get_class(cls, name: str) -> tuple[type[Resource] | None, dict[str, str] | None]:
        """Class and options of an entity; (None, None) without."""
        return cls._resources.get(name, (None, None))

    @classmethod
    def get_resources(cls) -> Iterator[tuple[str, type[Resource]]]:
        return ((name, found[0]) for name, found in list(cls._resources.items()))

    @classmethod
    def validate(cls) -> None:
        """ResourceException for the first class with a forbidden field name."""
        for _, resource_class in cls.get_resources():
            resource_class.validate()

    @classmethod
    def reset(cls) -> None:
        cls._resources = {}


class ResourceMeta(type):
    """Joins the `fields` of a class with those of its bases: parents first, each name once."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> ResourceMeta:
        own = namespace.get("fields", ())
        if not isinstance(own, (tuple, list)):
            raise Exception(f"fields attribute of {name} should be a tuple or list")
        for field in own:
            if not isinstance(field, str):
                raise ResourceException(f"The fields of {name} should be names, got {field!r}")
        fields: dict[str, None] = {}
        for base in bases:
            fields.update(dict.fromkeys(getattr(base, "fields", ())))
        fields.update(dict.fromkeys(own))
        namespace["fields"] = tuple(fields)
        cls = super().__new__(mcs, name, bases, namespace)
        return cls


class Resource(metaclass=ResourceMeta):
    """Base of all resource classes. A field is an attribute of the object; see `fields` of the class for the names."""

    fields: tuple[str, ...] = ("send_event", "receive_events", "references", "mutators", "report_only")
    map: dict[str, Callable[[Exporter | None, Any], object]] = {}
    _defaults: dict[str, object] = {"send_event": False, "receive_events": True, "references": (), "mutators": (), "report_only": False}

    id: Id
    requires: set[Id]
    model: Any = None
    send_event: bool
    receive_events: bool
    references: list[dict[str, Any]]
    mutators: list[dict[str, Any]]
    report_only: bool

    @staticmethod
    def get_send_event(exporter: Exporter | None, obj: Any) -> bool:
        return _read(obj, "send_event", False)

    @staticmethod
    def get_receive_events(exporter: Exporter | None, obj: Any) -> bool:
        return _read(obj, "receive_events", True)

    @staticmethod
    def get_report_only(exporter: Exporter | None, obj: Any) -> bool:
        return _read(obj, "report_only", False)

    @staticmethod
    def get_references(exporter: Exporter | None, obj: Any) -> list[dict[str, Any]]:
        return []

    @staticmethod
    def get_mutators(exporter: Exporter | None, obj: Any) -> list[dict[str, Any]]:
        return []

    if TYPE_CHECKING:
        resource_requires: set[Resource]
        # Names of the attributes that were ever set to an Unknown.
        unknowns: set[str]
        # By id; clones share them, so that one task resolves a reference once.
        _references_model: dict[object, ReferenceModel]
        _references: dict[object, Reference[Any]]
        _resolved: bool

    def __init__(self, _id: Id) -> None:
        # As setting them one by one, in a third of the time: handlers make two of each resource that they get.
        values = self.__dict__
        values.update(dict.fromkeys(type(self).fields))
        values["id"] = _id
        values["requires"] = set()
        values["resource_requires"] = set()
        values["unknowns"] = set()
        values["model"] = None
        values["_references_model"] = {}
        values["_references"] = {}
        values["_resolved"] = False

    # --- in the compiler ---------------------------------------------------------------------------------------------

    @classmethod
    def validate(cls) -> None:
        for field in cls.fields:
            if field.startswith("_"):
                raise ResourceException(f"Resource field names can not start with _, got {field} in {cls.__name__}")
            if field in _FORBIDDEN:
                raise ResourceException(f"Resource {cls.__name__} has a field with the reserved name {field}")

    @classmethod
    def map_field(
        cls,
        exporter: Exporter | None,
        entity_name: str,
        field_name: str,
        model_object: Any,
        reference_collector: object = None,
    ) -> Any:
        """The value of one field: from `get_<field>`, else from `map`, else from the attribute of the instance.

        References are collected from the result; `reference_collector` is for classes that hand on what they get.
        """
        getter = getattr(cls, "get_" + field_name, None)
        if getter is not None:
            return getter(exporter, model_object)
        if field_name in cls.map:
            return cls.map[field_name](exporter, model_object)
        return getattr(model_object, field_name)

    @classmethod
    def object_to_id(cls, model_object: Any, entity_name: str, attribute_name: str, agent_attribute: str) -> Id:
        """The id of the resource of an instance. AttributeException if its agent cannot be named."""
        agent_value = model_object
        walked = ""
        for step in agent_attribute.split("."):
            try:
                agent_value = getattr(agent_value, step)
            except (AttributeError, NotFoundException) as error:
                raise AttributeException(
                    None,
                    model_object,
                    step,
                    error,
                    f"Unable to get the name of agent {model_object} belongs to. In path {agent_attribute},"
                    f" '{step}' does not exist",
                ) from error
            walked += step + "."
        if not isinstance(agent_value, str):
            raise ResourceException(
                f"The agent attribute should lead to a string, got `{agent_value}` for {entity_name}.{walked[:-1]}"
            )
        value = cls.map_field(None, entity_name, attribute_name, model_object)
        return Id(entity_name, agent_value, attribute_name, str(value))

    @classmethod
    def create_from_model(cls, exporter: Exporter | None, entity_name: str, model_object: Any) -> Resource:
        """The resource of an instance, with all its fields."""
        resource_class, options = resource.get_class(entity_name)
        if resource_class is None or options is None:
            raise TypeError(f"No resource class registered for entity {entity_name}")
        with proxy.exportcontext:
            made = resource_class(cls_id(resource_class, model_object, entity_name, options))
            values = {}
            collector = ReferenceCollector()
            for field in resource_class.fields:
                values[field] = resource_class.map_field(exporter, entity_name, field, model_object, collector)
            made.populate(values)
        made.model = model_object
        return made

    @classmethod
    def convert_requires(cls, resources: dict[Resource, Resource], ignored_resources: set[Resource]) -> None:
        """Kept for old callers: Steward joins the requirements itself."""

    # --- as data -----------------------------------------------------------------------------------------------------

    def populate(self, fields: dict[str, Any], force_fields: bool = False) -> None:
        """Takes the fields out of an exported map; an exception for a missing one that has no default."""
        try:
            values = {field: fields[field] for field in type(self).fields}
        except KeyError:
            values = self._with_defaults(fields, force_fields)
        self._set(values)
        for required in fields.get("requires", ()):
            self.requires.add(required if isinstance(required, Id) else Id.parse_id(required))

    def _with_defaults(self, fields: dict[str, Any], force_fields: bool) -> dict[str, Any]:
        defaults = self._defaults
        values = {}
        for field in type(self).fields:
            if field in fields:
                values[field] = fields[field]
            elif field in defaults:
                value = defaults[field]
                values[field] = list(value) if isinstance(value, tuple) else value
            elif not force_fields:
                raise Exception(f"Resource with id {fields.get('id')} does not have field {field}")
        return values

    def _set(self, values: dict[str, Any]) -> None:
        if type(self).__setattr__ is _SET and Unknown not in map(type, values.values()):
            # What setting them one by one would do.
            self.__dict__.update(values)
        else:
            for name, value in values.items():
                setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Unknown):
            self.unknowns.add(name)
        self.__dict__[name] = value

    @classmethod
    def deserialize(cls, obj_map: dict[str, Any], force_fields: bool = False) -> Resource:
        """The resource of an exported map, of the class registered for the type in its id."""
        resource_id = Id.parse_id(obj_map["id"])
        resource_class, _ = resource.get_class(resource_id.entity_type)
        if resource_class is None:
            raise TypeError(f"No resource class registered for entity {resource_id.entity_type}")
        made = resource_class(resource_id)
        made.populate(obj_map, force_fields)
        return made

    def serialize(self) -> dict[str, Any]:
        """A map of the fields as they are, `requires` as sorted ids, and `id`."""
        made = {field: getattr(self, field) for field in type(self).fields}
        made["requires"] = sorted(str(required) for required in self.requires)
        made["id"] = self.id.resource_version_str()
        return made

    def clone(self, **kwargs: object) -> Self:
        """A copy with some fields replaced. As with the reference, the values of the others are shared, not copied."""
        kind = type(self)
        copy: Self
        if _is_plain(kind):
            # The same, without reading the texts of ids.
            copy = kind.__new__(kind)
            values = copy.__dict__
            own = self.__dict__
            for field in kind.fields:
                values[field] = own[field]
            values["id"] = own["id"]
            values["requires"] = set(own["requires"])
            values["resource_requires"] = set()
            values["unknowns"] = set(own["unknowns"])
            values["model"] = None
        else:
            copy = Resource.deserialize(self.serialize())  # type: ignore[assignment]  # of the class that is registered
            values = copy.__dict__
        values["_references_model"] = self._references_model
        values["_references"] = self._references
        values["_resolved"] = self._resolved
        for name, value in kwargs.items():
            setattr(copy, name, value)
        return copy

    def is_type(self, type_name: str) -> bool:
        """Whether the instance that the resource was made of is of this entity itself, by its full name."""
        entity = self.id.entity_type if self.model is None else self.model._type().get_full_name()
        return entity == type_name

    def set_version(self, version: int) -> None:
        """Gives a version to a resource whose id has none yet."""
        self.id.set_version(version)

    # --- in the executor ---------------------------------------------------------------------------------------------

    def resolve_all_references(self, logger: LoggerABC) -> None:
        """Runs the mutators in order: each writes a resolved reference into its field."""
        if self._resolved or not self.mutators:
            self._resolved = True
            return
        from inmanta import references

        references.resolve(self, logger)
        self._resolved = True

    def get_reference_value(self, id: object, logger: LoggerABC) -> object:
        """The resolved value of one of this resource's references, by id."""
        from inmanta import references

        return references.value_of(self, id, logger)

    # --- like a dict -------------------------------------------------------------------------------------------------

    def __getitem__(self, key: str) -> object:
        if key not in type(self).fields:
            raise KeyError(key)
        return getattr(self, key)

    def __setitem__(self, key: str, value: object) -> None:
        if key not in type(self).fields:
            raise KeyError(key)
        setattr(self, key, value)

    def __delitem__(self, key: str) -> None:
        raise Exception("A resource has all its fields: none can be deleted")

    def clear(self) -> None:
        raise Exception("A resource has all its fields: none can be deleted")

    def __contains__(self, key: object) -> bool:
        return key in type(self).fields

    def get(self, key: str, default: object = None) -> object:
        return getattr(self, key) if key in type(self).fields else default

    def items(self) -> Iterator[tuple[str, object]]:
        return ((field, getattr(self, field)) for field in type(self).fields)

    def __str__(self) -> str:
        return str(self.id)

    __repr__ = __str__


class PurgeableResource(Resource):
    """A resource that can be asked to be absent."""

    fields: tuple[str, ...] = ("purged", "purge_on_delete")

    purged: bool
    purge_on_delete: bool


class ManagedResource(Resource):
    """A resource that a model can choose not to manage: then it is not exported."""

    fields: tuple[str, ...] = ("managed",)

    managed: bool

    @staticmethod
    def get_managed(exporter: Exporter | None, obj: Any) -> bool:
        if not obj.managed:
            raise IgnoreResourceException()
        return bool(obj.managed)


class DiscoveryResource(Resource):
    """A resource whose handler reports what exists."""

    fields: tuple[str, ...] = ()


# What makes the object of a resource and the form that is stored, unless a module has ways of its own.
_SET = Resource.__setattr__
_FORM = ("__init__", "__setattr__", "populate", "serialize")
_OWN_FORM = [vars(Resource)[name] for name in _FORM]
_OBJECT_TO_ID = vars(Resource)["object_to_id"].__func__
_MAP_FIELD = vars(Resource)["map_field"].__func__
_CREATE = vars(Resource)["create_from_model"].__func__
_VALIDATE = vars(Resource)["validate"].__func__
_VALIDATE_ALL = vars(resource)["validate"].__func__
# Getters of our own base classes, which the compiler stands in for.
_GETTERS = {
    name: getattr(base, name)
    for base in (Resource, PurgeableResource, ManagedResource)
    for name in vars(base)
    if name.startswith("get_") and isinstance(vars(base)[name], staticmethod)
}


def is_plain(cls: type[Resource]) -> bool:
    """Whether objects of a class are made, read and stored as those of Resource are."""
    return all(getattr(cls, name) is own for name, own in zip(_FORM, _OWN_FORM)) and not any(
        isinstance(getattr(cls, field, None), property) for field in cls.fields
    )


def creates() -> bool:
    """Whether a module has put a function of its own in the place of `Resource.create_from_model`."""
    return getattr(Resource.create_from_model, "__func__", None) is not _CREATE


def identifies(cls: type[Resource]) -> bool:
    """Whether a class makes the ids of its resources itself."""
    return getattr(cls.object_to_id, "__func__", None) is not _OBJECT_TO_ID or creates()


def getters(cls: type[Resource], fields: tuple[str, ...]) -> list[Callable[..., object] | None]:
    """What `map_field` would call for each of these fields; None: it has to be asked."""
    if getattr(cls.map_field, "__func__", None) is not _MAP_FIELD:
        return [None] * len(fields)
    return [getattr(cls, "get_" + field, None) or cls.map.get(field) for field in fields]


def has_getter(cls: type[Resource], field: str) -> bool:
    """Whether a class computes a field itself, other than by the getters of our own base classes."""
    if getattr(cls.map_field, "__func__", None) is not _MAP_FIELD or creates():
        return True
    getter = getattr(cls, "get_" + field, None)
    if getter is not None:
        return getter is not _GETTERS.get("get_" + field)
    return field in cls.map


def validate() -> None:
    """What modules have to say about resource classes: the compiler knows the rules of our own."""
    if has_own_validation():
        resource.validate()


def has_own_validation() -> bool:
    """Whether a module has something to say about resource classes."""
    return getattr(resource.validate, "__func__", None) is not _VALIDATE_ALL or any(
        getattr(cls.validate, "__func__", None) is not _VALIDATE for _, cls in resource.get_resources()
    )


# Of classes whose objects were cloned. Handlers clone each resource that they get.
_plain: dict[type[Resource], bool] = {}


def _is_plain(cls: type[Resource]) -> bool:
    found = _plain.get(cls)
    if found is None:
        found = _plain[cls] = is_plain(cls)
    return found


@_without("add_reference collect_reference get_mutators_sorted get_references_sorted")
class ReferenceCollector:
    """What `map_field` gets as `reference_collector`. The compiler takes references out of what is returned."""

    def collect_references(self, value: Any, path: str) -> Any:
        """The value itself."""
        return value


def class_of(resource_id: Id, attributes: Iterable[str]) -> type[Resource]:
    """The class of an id's type; one with these fields is registered if there is none: Python does not know all types."""
    cls, _ = resource.get_class(resource_id.entity_type)
    if cls is None:
        cls = type("Resource", (Resource,), {"fields": tuple(attributes)})
        resource.add_resource(resource_id.entity_type, cls, {"agent": "", "name": resource_id.attribute})
    return cls


def own_id(entity: proxy.DynamicProxy) -> str | None:
    """As `to_id`, but None, too, if the id follows from the attributes alone, so that the compiler knows it."""
    found = entity._type()
    for name in (found.get_full_name(), *found.get_all_parent_names()):
        cls, options = resource.get_class(name)
        if cls is not None and options is not None:
            computed = identifies(cls) or has_getter(cls, options["name"])
            return cls_id(cls, entity, name, options).resource_str() if computed else None
    return None


def to_id(entity: proxy.DynamicProxy) -> str | None:
    """The id, without version, of the resource that a proxy becomes; None if it is not one.

    The entity itself or its nearest ancestor with a resource class decides. UnknownException if the id is unknown.
    """
    found = entity._type()
    for name in (found.get_full_name(), *found.get_all_parent_names()):
        resource_class, options = resource.get_class(name)
        if resource_class is not None and options is not None:
            return cls_id(resource_class, entity, name, options).resource_str()
    return None


def cls_id(resource_class: type[Resource], model_object: Any, entity_name: str, options: dict[str, str]) -> Id:
    return resource_class.object_to_id(model_object, entity_name, options["name"], options["agent"])


_PLAIN = frozenset({str, int, float, bool, type(None)})


def to_json(value: Any) -> Any:
    """A copy of a value made of JSON types; TypeError for what has no such form.

    More is taken here than by the encoders of `inmanta.util`, and in fields of resources: sets, in an order that is the same in
    every run, and dates.
    """
    if type(value) in _PLAIN:
        return value
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    if isinstance(value, dict):
        return {_key(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return to_json(sorted(value, key=lambda item: (type(item).__name__, str(item))))
    import datetime

    if isinstance(value, (datetime.date, datetime.time)) and not isinstance(value, datetime.datetime):
        return value.isoformat()
    return to_json(simplified(value))


def simplified(value: Any) -> Any:
    """A value that is none of JSON's own types, one step nearer to them; TypeError if there is none."""
    if isinstance(value, str):
        # Members of enumerations among them: what counts is the text, not the name.
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, NoneValue):
        return None
    if isinstance(value, Unknown):
        return const.UNKNOWN_STRING
    from inmanta.util import internal_json_encoder

    return internal_json_encoder(value)


def _key(key: object) -> str:
    if isinstance(key, str):
        return key
    if key is None:
        return "null"
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key)


def _read(obj: object, name: str, default: bool) -> bool:
    try:
        # Whatever the model has there: an Unknown stays one.
        value: bool = getattr(obj, name)
        return value
    except (AttributeError, NotFoundException):
        return default

if not TYPE_CHECKING:
    # What only the reference's module has says why it is not here.
    from inmanta import _rest_of

    __getattr__ = _rest_of(__name__)
