"""Values of the model as plugins see them.

`DynamicProxy.return_value` turns an internal value into what a plugin gets, `DynamicProxy.unwrap` turns it back.
All nested reading goes through `DynamicProxy._return_value`, which modules may replace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from inmanta.ast import OptionalValueException, RuntimeException, UnexpectedReference, UnknownException
from inmanta.execute.runtime import AttributeNotFound, Instance
from inmanta.execute.util import NoneValue, Unknown
from inmanta.util import JSONSerializable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, NoReturn, Self, SupportsIndex

    from inmanta.ast.entity import Entity

__all__ = [
    "AttributeNotFound",
    "CallProxy",
    "DictProxy",
    "DynamicProxy",
    "IteratorProxy",
    "JSONSerializable",
    "ProxyContext",
    "SequenceProxy",
    "UnexpectedReference",
    "exportcontext",
]


# What the plugin that runs has read, each an instance's number and an attribute, if somebody wants to know. None among them:
# something that an instance shows beside its attributes, which another model changes.
_reads: list[tuple[int, str] | None] | None = None
# In the place of the number of an instance: a file is read.
_FILE = 2**32 - 1

# What it has said for people meanwhile, each a level and a text, if that is kept until it has ended.
_logged: list[tuple[str, str]] | None = None

_PLAIN = frozenset({str, int, float, bool, type(None)})
_get = object.__getattribute__
_set = object.__setattr__
_new = object.__new__


if TYPE_CHECKING:
    _Mapping = Mapping[str, Any]
else:
    _Mapping = Mapping


def begin_reads(keeps_logged: bool = False) -> None:
    """From now on it is noted what of the model is read, and what is said is kept (`end_logged`)."""
    global _reads, _logged
    _reads = []
    _logged = [] if keeps_logged else None


def end_reads() -> list[tuple[int, str]] | None:
    """What was read since, each attribute once, in order; None: something else than attributes."""
    global _reads
    noted, _reads = _reads, None
    found = dict.fromkeys(noted or ())
    return None if None in found else list(found)  # type: ignore[arg-type]  # there is no None


def say(level: str, text: str) -> bool:
    """Keeps what is said for people; False: it has to be said at once, and again by another call."""
    if _logged is None:
        note_more()
        return False
    _logged.append((level, text))
    return True


def logged() -> list[tuple[str, str]]:
    """What was said since `begin_reads`, in order."""
    return _logged or []


def end_logged() -> list[tuple[str, str]]:
    """The same, and nothing more is kept."""
    global _logged
    kept, _logged = _logged, None
    return kept or []


def note(instance: Instance, attribute: str) -> None:
    """Notes that an attribute is read."""
    if _reads is not None:
        _reads.append((instance.id, attribute))


def note_file(path: str) -> None:
    """Notes that a file is read."""
    if _reads is not None:
        _reads.append((_FILE, path))


def is_file(read: tuple[int, str]) -> bool:
    """Whether what was noted is a file."""
    return read[0] == _FILE


def is_noting() -> bool:
    """Whether it is noted what is read."""
    return _reads is not None


def note_more() -> None:
    """Notes that something else than attributes is read."""
    if _reads is not None:
        _reads.append(None)


class ProxyContext:
    """How a value came to Python.

    `path` names it in messages, `validated` says whether its declared type was checked, and
    `allow_reference_values` whether its direct elements may be references (None: not said, so no).
    """

    __slots__ = ("_path", "_parent", "validated", "allow_reference_values")

    def __init__(self, *, path: str, validated: bool = True, allow_reference_values: bool | None = None) -> None:
        self._path = path
        self._parent: ProxyContext | None = None
        self.validated = validated
        self.allow_reference_values = allow_reference_values

    @property
    def path(self) -> str:
        """Put together when a message wants it: most values are read without one."""
        parts = []
        context: ProxyContext | None = self
        while context is not None:
            parts.append(context._path)
            context = context._parent
        return "".join(reversed(parts))

    def nested(self, *, relative_path: str) -> ProxyContext:
        """The context of an element: what was allowed for the direct elements is not for theirs."""
        return _below(self, relative_path, self.validated)

    def allow_references(self) -> ProxyContext:
        """The same, with references among the direct elements."""
        return ProxyContext(path=self.path, validated=self.validated, allow_reference_values=True)

    def should_allow_references(self) -> bool:
        if exportcontext.active:
            return True
        return self.validated if self.allow_reference_values is None else self.allow_reference_values


def _below(parent: ProxyContext, relative_path: str, validated: bool) -> ProxyContext:
    made = ProxyContext(path=relative_path, validated=validated)
    made._parent = parent
    return made


class _ExportContext:
    """`with exportcontext:` allows references everywhere, as the mapping of resources needs it."""

    active = 0

    def __enter__(self) -> None:
        self.active += 1

    def __exit__(self, *_: object) -> None:
        self.active -= 1


exportcontext = _ExportContext()


def _shown(value: object) -> str:
    """The text of a value of the model, whose null is `null` however deep it is."""
    if value is None:
        return "null"
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {_shown(item)}' for key, item in value.items())}}}"
    return repr(value)


def _is_plain(value: object) -> bool:
    """Whether it is a text, a number or the like, or made of such."""
    if type(value) is list:
        return all(map(_is_plain, value))
    if type(value) is dict:
        return all(map(_is_plain, value.values()))
    return type(value) in _PLAIN


_UNNAMED = ProxyContext(path="<value>", validated=False)


def _context_of(kept: Any) -> ProxyContext | None:
    """The context that a proxy was made with, which most proxies are never asked for.

    So an instance or list that is read has what its context is made of: that of the instance or list which it was read
    from, and the name or position there. An instance that is an argument has the name of the parameter.
    """
    if type(kept) is tuple:
        above = _context_of(kept[0]) or _UNNAMED
        part = kept[1]
        path = f"[{part}]" if type(part) is int else "." + part
        return _below(above, path, above.validated if kept[2] else False)
    if type(kept) is str:
        return ProxyContext(path=kept, validated=False)
    context: ProxyContext | None = kept
    return context


def of_argument(instance: Instance, path: str) -> DynamicProxy:
    """The proxy of an instance that is an argument: the attributes were not looked at when it was checked."""
    made = _new(DynamicProxy)
    _set(made, "__instance", instance)
    _set(made, "__context", path)
    return made


class DynamicProxy:
    """A read-only view of an instance. Attributes read like Python attributes.

    Reading raises UnsetException (not known yet: let it leave the plugin), OptionalValueException (optional, without
    value), UnknownException, or an AttributeError for a name that the entity does not have.
    """

    def __init__(self, instance: object, *, context: ProxyContext | None = None) -> None:
        _set(self, "__instance", instance)
        _set(self, "__context", context)

    @classmethod
    def unwrap(cls, item: object, *, dynamic_context: object = None) -> Any:
        """The internal value of anything a plugin returns, null as a NoneValue; an error for a dict with other keys than text."""
        return _with_nulls(cls._plain(item))

    @classmethod
    def _plain(cls, item: object) -> Any:
        """The same with None for null, which is how values travel."""
        if type(item) in _PLAIN:
            return item
        if isinstance(item, DynamicProxy):
            return item._get_instance()
        if isinstance(item, list):
            return [cls._plain(element) for element in item]
        if isinstance(item, dict):
            for key in item:
                if not isinstance(key, str):
                    got = f"got {key} of type {type(key)} with dict value {item[key]!r}"
                    raise RuntimeException(None, f"dict keys should be strings, {got}")
            return {key: cls._plain(element) for key, element in item.items()}
        return None if isinstance(item, NoneValue) else item

    @classmethod
    def return_value(cls, value: object, *, context: ProxyContext | None = None) -> Any:
        """What a plugin gets for an internal value; UnknownException for an Unknown."""
        if type(value) in _PLAIN:
            return value
        if isinstance(value, Instance):
            if context is not None and context.validated:
                # The attributes of an instance were not looked at when the argument was checked.
                context = ProxyContext(path=context.path, validated=False)
            return DynamicProxy(value, context=context)
        if isinstance(value, list):
            return SequenceProxy(value, context=context)
        if isinstance(value, dict):
            return DictProxy(value, context=context)
        if isinstance(value, DynamicProxy):
            return value
        if isinstance(value, NoneValue):
            return None
        if isinstance(value, Unknown):
            raise UnknownException(value)
        if isinstance(value, (str, tuple, int, float)) or _is_reference(value) or hasattr(value, "__dataclass_fields__"):
            return value
        # Objects that only Python knows.
        kind = SequenceProxy if hasattr(value, "__len__") else CallProxy if callable(value) else DynamicProxy
        return kind(value, context=context)  # type: ignore[arg-type]  # what it is, it does not say

    def _return_value(self, value: object, *, relative_path: str) -> Any:
        """The gate of all nested reading: refuses undeclared references, then `return_value`."""
        if type(value) in _PLAIN:
            return value
        context = self._get_context()
        if type(value) is Instance:
            # As below, without the questions that such a value answers with no.
            return DynamicProxy(value, context=_below(context or _UNNAMED, relative_path, False))
        if _is_reference(value) and not (
            context.should_allow_references() if context is not None else exportcontext.active
        ):
            path = (context or _UNNAMED).path + relative_path
            raise UnexpectedReference(
                reference=value,
                message="Encountered unexpected reference value during plugin execution. Plugins are only allowed to"
                " access reference values when declared explicitly. Either use a dataclass entity that supports"
                " references (e.g. `int | Reference[int]` attribute annotation), or explicitly allow references on"
                " attribute access with the `inmanta.plugins.allow_reference_values()` wrapper. Encountered at"
                f" {path} (= `{value!r}`).",
            )
        nested = (context or _UNNAMED).nested(relative_path=relative_path)
        return DynamicProxy.return_value(value, context=nested)

    def _get_instance(self) -> Any:
        return _get(self, "__instance")

    def _get_context(self) -> ProxyContext | None:
        return _context_of(_get(self, "__context"))

    def _allow_references(self) -> Self:
        """A copy whose direct elements may be references."""
        return type(self)(self._get_instance(), context=(self._get_context() or _UNNAMED).allow_references())

    def _type(self) -> Entity:
        note_more()
        entity: Entity = self._get_instance().get_type()
        return entity

    def is_unknown(self) -> bool:
        return isinstance(self._get_instance(), Unknown)

    def __getattr__(self, attribute: str) -> Any:
        instance = _get(self, "__instance")
        if type(instance) is Instance:
            values = instance._values
            if attribute in values:
                value = values[attribute]
                if _reads is not None:
                    _reads.append((instance.id, attribute))
            elif attribute[:2] == "__":
                # Python's own questions (copy, pickle, numpy) are none to the model.
                raise AttributeError(attribute)
            else:
                try:
                    value = instance.value(attribute) if _reads is None else _noted(instance, attribute)
                except AttributeNotFound as error:
                    # Nobody catches it as an error of the compiler, as the reference has it.
                    raise AttributeError(str(error)) from None
            # Most reads are one of these three, and the gate would let them pass.
            if type(self)._return_value is _gate:
                kind = type(value)
                if kind in _PLAIN:
                    return value
                if kind is Instance or kind is list:
                    made = _new(DynamicProxy if kind is Instance else SequenceProxy)
                    _set(made, "__instance", value)
                    _set(made, "__context", (_get(self, "__context"), attribute, kind is list))
                    return made
        elif attribute[:2] == "__":
            raise AttributeError(attribute)
        else:
            value = instance.get_attribute(attribute).get_value()
        return self._return_value(value, relative_path="." + attribute)

    def __setattr__(self, attribute: str, value: object) -> None:
        raise Exception("Readonly object")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DynamicProxy):
            return bool(self._get_instance() == other._get_instance())
        # The model's null is a NoneValue, and so another value than a None of Python's.
        return bool(_with_nulls(self._get_instance()) == other)

    def __hash__(self) -> int:
        note_more()
        return hash(self._get_instance())

    def __lt__(self, other: object) -> bool:
        others: Any = other._get_instance() if isinstance(other, DynamicProxy) else other
        return bool(self._get_instance() < others)

    def __repr__(self) -> str:
        instance = self._get_instance()
        if not _is_plain(instance):
            note_more()
        return f"@{_shown(instance)}"

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        # A copy has all that the instance is made of.
        note_more()
        return super().__reduce_ex__(protocol)


# What a module may put something else in the place of.
_gate = DynamicProxy._return_value


def _noted(instance: Instance, attribute: str) -> object:
    """The value of an attribute that is asked for; an exception may say more than that there is none, or none yet."""
    noted = _reads
    assert noted is not None
    noted.append(None)
    try:
        value = instance.value(attribute)
    except (AttributeNotFound, OptionalValueException):
        # What the first one says is made of the names of the entity and the attribute alone. Of the other one, code that
        # only computes sees nothing but that it is one (`catching` of the host).
        noted[-1] = (instance.id, attribute)
        raise
    noted[-1] = (instance.id, attribute)
    return value


class SequenceProxy(DynamicProxy, JSONSerializable):
    """A list of the model, read-only."""

    def __init__(self, sequence: Sequence[object], *, context: ProxyContext | None = None) -> None:
        DynamicProxy.__init__(self, sequence, context=context)

    def __getitem__(self, key: int | slice) -> Any:
        if isinstance(key, str):
            self.__getattr__(key)
        value = self._get_instance()[key]
        if isinstance(key, slice):
            return SequenceProxy(value, context=self._get_context())
        return self._return_value(value, relative_path=f"[{key}]")

    def __len__(self) -> int:
        return len(self._get_instance())

    def __iter__(self) -> Iterator[Any]:
        sequence = _get(self, "__instance")
        made = _new(IteratorProxy)
        _set(made, "__instance", sequence)
        _set(made, "__context", _get(self, "__context"))
        _set(made, "__elements", enumerate(sequence))
        return made

    def __getattr__(self, attribute: str) -> NoReturn:
        raise _no_attributes(_get(self, "__instance"))

    def json_serialization_step(self) -> list[Any]:
        return [*self]


class DictProxy(DynamicProxy, _Mapping, JSONSerializable):
    """A dict of the model, read-only."""

    def __init__(self, mydict: dict[str, object], *, context: ProxyContext | None = None) -> None:
        DynamicProxy.__init__(self, mydict, context=context)

    def __getitem__(self, key: str) -> Any:
        if not isinstance(key, str):
            self.__getattr__(key)
        return self._return_value(self._get_instance()[key], relative_path=f"[{key!r}]")

    def __len__(self) -> int:
        return len(self._get_instance())

    def __iter__(self) -> Iterator[str]:
        return iter(self._get_instance())

    def __getattr__(self, attribute: str) -> NoReturn:
        raise _no_attributes(_get(self, "__instance"))

    def json_serialization_step(self) -> dict[str, Any]:
        return dict(self)


class CallProxy(DynamicProxy):
    """A plugin as a value: calling it calls the plugin."""

    def __call__(self, *args: object, **kwargs: object) -> Any:
        return self._get_instance()(*args, **kwargs)

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._get_instance(), attribute)


class IteratorProxy(DynamicProxy):
    """Goes over a list; an exception for one element does not end the iteration."""

    def __init__(self, sequence: Sequence[object], *, context: ProxyContext | None = None) -> None:
        DynamicProxy.__init__(self, sequence, context=context)
        _set(self, "__elements", enumerate(sequence))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        position, value = next(_get(self, "__elements"))
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is Instance and type(self)._return_value is _gate:
            made = _new(DynamicProxy)
            _set(made, "__instance", value)
            _set(made, "__context", (_get(self, "__context"), position, False))
            return made
        return self._return_value(value, relative_path=f"[{position}]")

    def __getattr__(self, attribute: str) -> NoReturn:
        raise _no_attributes(_get(self, "__elements"))


def _no_attributes(value: object) -> AttributeError:
    """The reference asks what is behind a proxy as it asks an instance, also for the place of a key that is none."""
    return AttributeError(f"{type(value).__name__!r} object has no attribute 'get_attribute'")


def _with_nulls(value: object) -> object:
    if value is None:
        return NoneValue()
    if type(value) is list:
        return [_with_nulls(item) for item in value]
    if type(value) is dict:
        return {key: _with_nulls(item) for key, item in value.items()}
    return value


def _is_reference(value: object) -> bool:
    return getattr(type(value), "_is_inmanta_reference", False)


def __getattr__(name: str) -> object:
    # Modules find it here as well as in inmanta.ast.
    if name in ("UnsetException", "UnknownException", "OptionalValueException", "NotFoundException"):
        import inmanta.ast

        return getattr(inmanta.ast, name)
    from inmanta import _rest_of

    return _rest_of(__name__)(name)
