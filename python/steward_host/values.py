"""Values of the model on their way to Python and back: extension types, references, dataclasses, arguments of plugins."""

from __future__ import annotations

from inmanta import resources
from inmanta.ast import PluginTypeException, RuntimeException, UnknownException
from inmanta.execute import proxy, runtime
from inmanta.execute.proxy import DynamicProxy, ProxyContext
from inmanta.execute.util import Unknown
from steward_host import annotations as hints, calls, msgpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeGuard

    from inmanta._signature import Argument
    from inmanta.ast.type import Type
    from inmanta.references import Reference
    from steward_host.messages import Annotation

PLAIN = frozenset({str, int, float, bool, type(None)})
# `{"result": [`, of which two values follow: the number of the call, and what it has returned.
RESULT = b"\x81\xa6result\x92"
# The same of three: behind them, that it is the last one of its frame.
_LAST_RESULT = b"\x81\xa6result\x93"
_TRUE = b"\xc3"
# How many references may be in one another for the compiler to know the exported form of the outermost.
_MOST_NESTED = 20
# What of a class of references makes the exported form.
_EXPORTING = ("__getattribute__", "arguments", "serialize", "serialize_arguments")
_EXPORTED_PLAINLY: dict[type, bool] = {}


class Objects:
    """Python objects that the compiler holds on to without knowing what they are."""

    def __init__(self) -> None:
        self._by_id: dict[int, object] = {}
        self._ids: dict[int, int] = {}
        # The first of equal references.
        self._references: dict[object, int] = {}

    def keep(self, value: object) -> int:
        known = self._ids.get(id(value))
        if known is None:
            known = self._ids[id(value)] = len(self._by_id)
            self._by_id[known] = value
        return known

    def keep_reference(self, value: object) -> tuple[int, int]:
        """The number of a reference, and that of the first one that it equals: they may differ in what is hidden."""
        number = self.keep(value)
        try:
            return number, self._references.setdefault(value, number)
        except TypeError:
            # A class with an equality of its own and no hash.
            return number, number

    def __getitem__(self, number: int) -> Any:
        return self._by_id[number]


class Values:
    """What a compile knows of the values that it exchanges. Making one sets how frames hold values."""

    def __init__(self) -> None:
        self.objects = Objects()
        # Entities that have a dataclass in Python.
        self.paired: dict[str, Any] = {}
        # Plugins with parameters whose arguments come as dataclasses.
        self.dataclasses: dict[str, set[str]] = {}
        # References made by the compiler's own plugins, by its number, and the numbers by the object.
        self._native: dict[int, tuple[bytes, object]] = {}
        self._numbers: dict[int, int] = {}
        # Whether a dataclass becomes an instance: in results of plugins, not in fields of resources.
        self.constructs = False
        # Whether there was something in the last result that only Python knows.
        self.gave_objects = False
        # Whether the objects of a class are nothing but their values.
        self.is_plain: Callable[[type], bool] = lambda cls: False
        # Whether the reference that is being written is nothing but its arguments.
        self._writes_plain = False
        # Whether the references of a class are nothing but their arguments.
        self.is_plain_reference: Callable[[type], bool] = lambda cls: False
        # The dataclasses that are nothing but their values and that the call that runs got.
        self.lent: list[object] = []
        # What the fields of such held when they were seen first, by the objects' own numbers.
        self._first: dict[int, list[Any]] = {}
        # The types of the fields of such classes.
        self._checks: dict[type, list[tuple[str, Type]]] = {}
        msgpack.ext_decoders[msgpack.EXT_UNKNOWN] = lambda payload: Unknown()
        msgpack.ext_decoders[msgpack.EXT_INSTANCE] = _decode_instance
        msgpack.ext_decoders[msgpack.EXT_OPAQUE] = lambda payload: self.objects[int.from_bytes(payload, "big")]
        msgpack.ext_decoders[msgpack.EXT_DATACLASS] = self._decode_dataclass
        msgpack.ext_decoders[msgpack.EXT_REFERENCE] = self._decode_reference
        msgpack.ext_encoder = self._encode

    def _encode(self, value: Any) -> tuple[int, bytes]:
        if isinstance(value, DynamicProxy):
            value = value._get_instance()
        if isinstance(value, runtime.Instance):
            return msgpack.EXT_INSTANCE, value.id.to_bytes(4, "big") + value.entity_name.encode()
        if isinstance(value, Unknown):
            return msgpack.EXT_UNKNOWN, b""
        if _is_reference(value):
            return self._encode_reference(value)
        entity = hints.dataclass_entity(type(value)) if self.constructs else None
        if entity in self.paired:
            plain = self.plain_object(value)
            if plain is not None:
                return msgpack.EXT_DATACLASS, plain
            fields = {name: DynamicProxy._plain(getattr(value, name)) for name in hints.field_names(type(value))}
            return msgpack.EXT_DATACLASS, msgpack.pack([self.objects.keep(value), entity, fields, False])
        self.gave_objects = True
        return msgpack.EXT_OPAQUE, self.objects.keep(value).to_bytes(4, "big")

    def by_value(self, value: Any) -> bytes | None:
        """What a plugin gave that only computes, behind the letter of its kind: an Unknown, or an object or a reference that is
        nothing but what it was made of; None for any other."""
        if type(value) is Unknown:
            return b"u"
        if not _is_reference(value):
            return self.object_by_value(value)
        if id(value) not in self._numbers and not self._is_plain_reference(value):
            return None
        self._writes_plain = True
        try:
            _, payload = self._encode_reference(value)
        finally:
            self._writes_plain = False
        return b"r" + payload

    def object_by_value(self, value: Any) -> bytes | None:
        """The same of what any plugin gave, which may keep a reference and change it."""
        plain = None if _is_reference(value) else self.plain_object(value)
        return None if plain is None else b"d" + plain

    def _is_plain_reference(self, value: Reference[Any]) -> bool:
        """Whether a reference is nothing but its arguments, which are data and such references."""
        cls = type(value)
        if not self.is_plain_reference(cls) or self._given(value, 0) is None:
            return False
        of = value._model_type or value.get_reference_type()
        if of is None or hints.dataclass_entity(of) in self.paired:
            return False
        inner = [one for one in value.arguments.values() if _is_reference(one)]
        # The text of another reference says where it lies in memory.
        has_text = cls.__str__ is not object.__str__ or cls.__repr__ is not object.__repr__
        return not inner or not has_text and all(id(one) in self._numbers or self._is_plain_reference(one) for one in inner)

    def plain_object(self, value: Any) -> bytes | None:
        """A dataclass that is nothing but its values, which are data; None for any other object."""
        cls = type(value)
        entity = hints.dataclass_entity(cls)
        if entity not in self.paired or self.paired[entity] is not cls or not self.is_plain(cls):
            return None
        fields = {name: getattr(value, name) for name in hints.field_names(cls)}
        if not self._is_as_made(value) or not self._can_be_made_again(cls, fields):
            return None
        return msgpack.pack([self.objects.keep(value), entity, fields, False, True])

    def _can_be_made_again(self, cls: Any, fields: dict[str, Any]) -> bool:
        """Whether an instance with these fields becomes an object of the class (`_to_dataclass`). Python lets an object hold
        what its fields are not declared for, such as 1 for a float, and the model may take that."""
        from inmanta.ast.type import of_field

        checks = self._checks.get(cls)
        if checks is None:
            types = hints.fields(cls)
            declared = ((name, hints.of_field(types[name])[0]) for name in hints.field_names(cls))
            checks = self._checks[cls] = [(name, of_field(one)) for name, one in declared if one != "any"]
        try:
            for name, declared_type in checks:
                declared_type.validate(fields[name])
        except RuntimeException:
            return False
        return True

    def _is_as_made(self, value: Any) -> bool:
        """Whether the fields of a dataclass are data, and hold what they did when it was seen first: lists and dicts in them can
        be changed."""
        values = [getattr(value, name) for name in hints.field_names(type(value))]
        if all(type(one) in PLAIN for one in values):
            return calls.is_data(values)
        known = self._first.get(id(value))
        if known is None:
            from copy import deepcopy

            # It is kept, so no other object gets its number.
            self.objects.keep(value)
            known = self._first[id(value)] = deepcopy(values) if calls.is_data(values) else [None]
        return known == values

    def has_changed_lent(self) -> bool:
        """Whether a call has changed what a dataclass that it got holds; asked when the call is over."""
        lent, self.lent = self.lent, []
        return not all(map(self._is_as_made, lent))

    def _lend(self, made: Any, instance: runtime.Instance) -> object:
        """Notes that a call reads all fields of a dataclass that it gets, or more than that."""
        cls = type(made)
        is_plain = not _is_reference(made) and self.paired[instance.entity_name] is cls and self.is_plain(cls)
        if is_plain and self._is_as_made(made):
            self.lent.append(made)
            for name in hints.field_names(cls):
                proxy.note(instance, name)
        else:
            proxy.note_more()
        return made

    def packed(self, number: int, value: object) -> bytes:
        """The message with what a plugin returned: texts of classes of their own stay the objects that they are."""
        msgpack.text_encoder = self._encode_text
        self.gave_objects = False
        try:
            packed = msgpack.pack_behind(RESULT, number, value)
        finally:
            msgpack.text_encoder = None
        return _LAST_RESULT + packed[len(RESULT) :] + _TRUE if self.gave_objects else packed

    def _encode_text(self, value: str) -> tuple[int, bytes]:
        self.gave_objects = True
        return msgpack.EXT_TEXT, msgpack.pack([self.objects.keep(value), str.__str__(value)])

    def _encode_reference(self, value: Reference[Any]) -> tuple[int, bytes]:
        number = self._numbers.get(id(value))
        if number is not None:
            return msgpack.EXT_REFERENCE, msgpack.pack([number])
        given = self._given(value, 0)
        # The export asks for the form of any other.
        self.gave_objects = self.gave_objects or given is None
        # A class that does not call the constructor of its base lacks it, which a reference to a dataclass may.
        of = getattr(value, "_model_type", None) or value.get_reference_type()
        if of is None:
            raise RuntimeException(
                None,
                f"Could not determine the reference type of {value}, make sure the reference extends"
                " Reference[concrete_type] or override `get_reference_type`",
            )
        entity = hints.dataclass_entity(of)
        if entity in self.paired and self.constructs:
            self.gave_objects = True
            fields = {name: _attribute_of(value, name) for name in hints.field_names(of)}
            return msgpack.EXT_DATACLASS, msgpack.pack([self.objects.keep(value), entity, fields, True])
        of = value._model_type or of
        cls = type(value)
        number, equal = self.objects.keep_reference(value)
        parts = [
            number,
            value.type,
            f"{cls.__module__}.{cls.__qualname__}",
            hints.model_type(of),
            None if cls.__str__ is object.__str__ else str(value),
            None if cls.__repr__ is object.__repr__ else repr(value),
            equal,
            given,
            # Also those among its arguments are nothing but theirs.
            *([True] if self._writes_plain else []),
        ]
        return msgpack.EXT_REFERENCE, msgpack.pack(parts)

    def _given(self, value: Reference[Any], depth: int) -> dict[str, object] | None:
        """The arguments of a reference whose exported form is made of them alone; None if only Python can make it."""
        cls = type(value)
        if not _is_exported_plainly(cls):
            return None
        given = value.arguments
        return given if "type" not in given and all(self._may_be_given(one, depth) for one in given.values()) else None

    def _may_be_given(self, value: object, depth: int) -> bool:
        """Whether an argument is data that nobody changes, or a reference to such that is exported plainly, too."""
        if type(value) in PLAIN:
            return _has_json_form(value)
        if not _is_reference(value) or depth == _MOST_NESTED:
            return False
        if id(value) in self._numbers:
            return True
        of = getattr(value, "_model_type", None) or value.get_reference_type()
        return of in (str, int, float, bool) and self._given(value, depth + 1) is not None

    def _decode_reference(self, payload: bytes) -> object:
        (number, *rest), _ = msgpack.unpack(payload)
        if not rest:
            return self.objects[number]
        # A guess that comes to nothing gives its numbers back.
        known = self._native.get(number)
        if known is not None and known[0] == payload:
            return known[1]
        if known is not None:
            del self._numbers[id(known[1])]
        from inmanta.references import reference

        kind, arguments = rest
        made = reference.get_class(kind)(**arguments)
        self._native[number] = (payload, made)
        self._numbers[id(made)] = number
        return made

    def _decode_dataclass(self, payload: bytes) -> runtime.Instance:
        (kept, number, entity), _ = msgpack.unpack(payload)
        found = runtime.instance(number, entity)
        found.dataclass_self = self.objects[kept]
        return found

    def argument(self, value: object, parameter: Argument | None, plugin: str) -> object:
        """The value as the plugin gets it. Its type was checked by the compiler."""
        if type(value) is runtime.Instance and plugin not in self.dataclasses:
            # As below; its attributes were not looked at when it was checked.
            return proxy.of_argument(value, "<argument>" if parameter is None else parameter.name)
        if isinstance(value, Unknown):
            # Only a plugin that allows them is called with one.
            return value
        path = "<argument>" if parameter is None else parameter.name
        if parameter is not None and parameter.name in self.dataclasses.get(plugin, ()):
            whole = _Argument(value, parameter, plugin)
            if self._has_paired(value):
                return self._with_dataclasses(value, whole)
        return DynamicProxy.return_value(value, context=ProxyContext(path=path))

    def _has_paired(self, value: object) -> bool:
        """Whether an instance that is paired with a dataclass is in a value."""
        if isinstance(value, (list, dict)):
            return any(map(self._has_paired, value.values() if isinstance(value, dict) else value))
        return isinstance(value, runtime.Instance) and value.entity_name in self.paired

    def _with_dataclasses(self, value: object, argument: _Argument) -> object:
        """The value with objects for all such instances; lists and dicts are Python's own then."""
        if isinstance(value, list):
            return [self._with_dataclasses(item, argument) for item in value]
        if isinstance(value, dict):
            return {key: self._with_dataclasses(item, argument) for key, item in value.items()}
        if isinstance(value, runtime.Instance) and value.entity_name in self.paired:
            return self._to_dataclass(value, argument)
        return DynamicProxy.return_value(value)

    def _check_field(self, value: object, declared: Annotation, argument: _Argument) -> None:
        """An attribute may hold what the field of the class may not, whose type may be narrower."""
        from inmanta.ast.type import of_field

        try:
            of_field(declared).validate(value)
        except RuntimeException as error:
            raise argument.wrong(error.get_message()) from error

    def _to_dataclass(self, instance: runtime.Instance, argument: _Argument) -> object:
        """The object that an instance is paired with: the one it was made from, or a new one."""
        kept = instance.dataclass_self
        if kept is not None and (not _is_reference(kept) or _takes_reference(argument.parameter)):
            return self._lend(kept, instance)
        cls = self.paired[instance.entity_name]
        values = {}
        types = hints.fields(cls)
        # One that is not set yet comes before any that is wrong.
        read = [(name, instance.get_attribute(name).get_value()) for name in hints.field_names(cls)]
        for name, value in read:
            if _has_unknown(value):
                raise argument.wrong(
                    f"Encountered unknown in field '{name}'. Unknowns are not currently supported in dataclass"
                    " instances in the Python domain."
                )
            declared, _ = hints.of_field(types[name])
            if _is_reference(value):
                if "reference" not in str(declared):
                    raise argument.refused()
                if kept is not None:
                    # A field of what a reference stands for is of the attribute's type, which may be wider than the field's.
                    value._attribute_type = _attribute_type(instance, name)
            if declared != "any":
                self._check_field(value, declared, argument)
            value = DynamicProxy.return_value(value)
            values[name] = resources.to_json(value) if isinstance(value, DynamicProxy) else value
        made = cls(**values)
        if kept is None:
            instance.dataclass_self = made
        return self._lend(made, instance)


def _decode_instance(payload: bytes) -> runtime.Instance:
    return runtime.instance(int.from_bytes(payload[:4], "big"), payload[4:].decode())


def _attribute_type(instance: runtime.Instance, name: str) -> Type | None:
    attribute = instance.get_type().get_attribute(name)
    return None if attribute is None else attribute.type


def _takes_reference(parameter: Argument | None) -> bool:
    return parameter is not None and "reference" in str(hints.describe(parameter.annotation))


def _has_unknown(value: object) -> bool:
    """Whether a value of the model is unknown in part."""
    if isinstance(value, (list, dict)):
        return any(map(_has_unknown, value.values() if isinstance(value, dict) else value))
    return isinstance(value, Unknown)


class _Argument:
    """An argument that is about to be converted, for the errors about it."""

    def __init__(self, value: object, parameter: Argument, plugin: str) -> None:
        self.parameter = parameter
        self._text = f"Value {value!r} for argument {parameter.name} of plugin {plugin}"

    def refused(self) -> Exception:
        return PluginTypeException(
            None,
            f"{self._text} contains a reference. To allow references, use `| Reference[...]` in your type annotation.",
        )

    def wrong(self, reason: str) -> Exception:
        wanted = hints.describe(self.parameter.annotation)
        wanted = wanted.get("model", wanted) if isinstance(wanted, dict) else wanted
        return PluginTypeException(None, f"{self._text} has incompatible type. Expected type: {wanted}: {reason}")


# Of the text of an object no more is told.
_MOST = 10_000


def description(value: object, number: int) -> dict[str, object]:
    """The texts of an object, alone and inside of a list, the name of its class, and whether plugins get a proxy of it."""
    cls = type(value)
    # Python's own says the address, which is another one each time.
    unnamed = f"<{cls.__module__}.{cls.__qualname__} object at 0x7f{number * 16:010x}>"

    def shown(show: Callable[[object], str], *methods: object) -> str:
        if methods in ((object.__repr__,), (object.__str__, object.__repr__)):
            return unnamed
        try:
            text = show(value)
        except Exception:
            return unnamed
        return text if len(text) <= _MOST else text[:_MOST] + "…"

    is_behind_proxy = isinstance(DynamicProxy.return_value(value), DynamicProxy)
    return {
        "text": shown(str, cls.__str__, cls.__repr__),
        "repr": shown(repr, cls.__repr__),
        "class": cls.__name__,
        "is_behind_proxy": is_behind_proxy,
    }


def _is_reference(value: object) -> TypeGuard[Reference[Any]]:
    return getattr(type(value), "_is_inmanta_reference", False)


def _has_json_form(value: object) -> bool:
    """Whether JSON has a form for a value: not for half of a character, nor for what is infinite or no number."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return False
    return not isinstance(value, float) or value - value == 0


def _is_exported_plainly(cls: type[Reference[Any]]) -> bool:
    """Whether a class of references leaves the exported form to us, and is registered under a name that it may be found by."""
    known = _EXPORTED_PLAINLY.get(cls)
    if known is None:
        from inmanta.references import Reference, is_valid_name

        own = any(getattr(cls, name) is not getattr(Reference, name) for name in _EXPORTING)
        known = _EXPORTED_PLAINLY[cls] = not own and is_valid_name(cls.type)
    return known


def _attribute_of(value: Reference[Any], name: str) -> Reference[Any]:
    """The reference to one field of what a reference to a dataclass stands for."""
    from inmanta.references import AttributeReference

    made: Reference[Any] = AttributeReference(value, name)
    cls = value.get_reference_type()
    made._model_type = hints.plain(hints.fields(cls)[name])
    return made


def copied(value: Any) -> Any:
    """A copy of what is stored of a resource, of JSON types and Unknowns; TypeError for what has no such form."""
    if type(value) in PLAIN or isinstance(value, Unknown):
        return value
    if isinstance(value, (list, tuple)):
        return [copied(item) for item in value]
    if isinstance(value, dict):
        return {resources._key(key): copied(item) for key, item in value.items()}
    return copied(resources.simplified(value))


def exported(value: Any, is_in_tuple: bool = False) -> Any:
    """A field's value as it is exported: plain data, an instance left as it is, UnknownException for an Unknown.

    TypeError for what has no such form. As with the reference, keys of dicts are text, but inside of a tuple, which nobody looks
    into before it is written.
    """
    if type(value) in PLAIN:
        return value
    if isinstance(value, proxy.SequenceProxy):
        return [exported(item) for item in value]
    if isinstance(value, proxy.DictProxy):
        return {key: exported(item) for key, item in value.items()}
    if isinstance(value, Unknown):
        raise UnknownException(value)
    if isinstance(value, DynamicProxy):
        return value._get_instance()
    if isinstance(value, (list, tuple)):
        is_in_tuple = is_in_tuple or isinstance(value, tuple)
        return [exported(item, is_in_tuple) for item in value]
    if isinstance(value, dict):
        if not is_in_tuple:
            for key, item in value.items():
                if not isinstance(key, str):
                    raise TypeError(f"dict keys should be strings, got {key!r} of type {type(key)} with dict value {item!r}")
        return {resources._key(key): exported(item, is_in_tuple) for key, item in value.items()}
    if _is_reference(value):
        return value
    return exported(resources.simplified(value), True)
