"""Places, namespaces and the exceptions of a compile."""

from __future__ import annotations

from inmanta import _without
from inmanta.warnings import InmantaWarning

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence
    from typing import Self

    from inmanta.execute.resolver import Variable


@_without("export")
class Location:
    """A line of a source file."""

    __slots__ = ("file", "lnr")

    def __init__(self, file: str, lnr: int) -> None:
        self.file = file
        self.lnr = lnr

    def get_file(self) -> str:
        return self.file

    def get_line(self) -> int:
        return self.lnr

    def merge(self, other: Location) -> Location:
        return self

    def __str__(self) -> str:
        return f"{self.file}:{self.lnr}"

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self})"

    def __eq__(self, other: object) -> bool:
        return other.__class__ is self.__class__ and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Hashable, ...]:
        return (self.file, self.lnr)


class Range(Location):
    """A stretch of a source file: lines and columns from 1, the end exclusive."""

    __slots__ = ("start_char", "end_lnr", "end_char")

    def __init__(self, file: str, start_lnr: int, start_char: int, end_lnr: int, end_char: int) -> None:
        super().__init__(file, start_lnr)
        self.start_char = start_char
        self.end_lnr = end_lnr
        self.end_char = end_char

    def __str__(self) -> str:
        return f"{self.file}:{self.lnr}:{self.start_char}"

    def _key(self) -> tuple[Hashable, ...]:
        return (self.file, self.lnr, self.start_char, self.end_lnr, self.end_char)


@_without("copy_location")
class Locatable:
    """Something that has a place in the source."""

    __slots__ = ("_location",)

    def __init__(self) -> None:
        self._location: Location | None = None

    def get_location(self) -> Location | None:
        return self._location

    def set_location(self, location: Location) -> None:
        self._location = location

    location = property(get_location, set_location)


class LocatableString(str):
    """A text of the source with its place; `value` is the plain text."""

    value: str
    location: Location | None
    lexpos: int
    namespace: object

    def __new__(
        cls, value: str, location: Location | None = None, lexpos: int = 0, namespace: object = None
    ) -> Self:
        self = super().__new__(cls, value)
        self.value = str(value)
        self.location = location
        self.lexpos = lexpos
        self.namespace = namespace
        return self

    @property
    def lnr(self) -> int:
        return self.location.lnr if self.location is not None else 0

    @property
    def elnr(self) -> int:
        return getattr(self.location, "end_lnr", self.lnr)

    @property
    def start(self) -> int:
        return getattr(self.location, "start_char", 0)

    @property
    def end(self) -> int:
        return getattr(self.location, "end_char", 0)

    def get_value(self) -> str:
        return self.value

    def get_location(self) -> Location | None:
        return self.location


@_without(
    "add_child children copy_location define_type defines_types get_child_or_create get_location get_namespace "
    "get_ns_from_string get_ns_or_create get_primitives get_scope get_type import_ns location lookup_namespace "
    "primitives scope set_location set_parent set_primitives"
)
class Namespace:
    """A namespace of the model; the root one has the name `__root__`."""

    def __init__(self, name: str, parent: Namespace | None = None) -> None:
        self.name = name
        self.parent = parent
        self.visible_namespaces: dict[str, object] = {}

    @classmethod
    def of(cls, full_name: str) -> Namespace:
        """The chain of namespaces of a full name, `net::ip`."""
        namespace = cls("__root__")
        for part in full_name.split("::"):
            if part and part != "__root__":
                namespace = cls(part, namespace)
        return namespace

    def get_name(self) -> str:
        return self.name

    def get_parent(self) -> Namespace | None:
        return self.parent

    def get_root(self) -> Namespace:
        return self if self.parent is None else self.parent.get_root()

    def get_full_name(self) -> str:
        if self.parent is None or self.parent.parent is None:
            return self.name
        return f"{self.parent.get_full_name()}::{self.name}"

    def get_child(self, name: str) -> Namespace:
        return Namespace(name, self)

    def lookup(self, name: str) -> Variable:
        """A variable of the model that is compiled. NotFoundException if there is none."""
        from inmanta.execute.resolver import Variable

        return Variable.of(f"{self.get_full_name()}::{name}")

    def to_path(self) -> list[str]:
        return [] if self.parent is None else [*self.parent.to_path(), self.name]

    def __repr__(self) -> str:
        return self.get_full_name()


@_without("attach_compile_info export importantance")
class CompilerException(Exception):
    """Any mistake in a model. `msg` is the text without place, `location` the place if it is known."""

    def __init__(self, msg: str = "", location: Location | None = None) -> None:
        super().__init__(msg)
        self.msg = msg
        self.location = location
        # The namespaces of a compile are gone when somebody reads its mistakes.
        self.root_ns: None = None

    def set_location(self, location: Location | None) -> None:
        if self.location is None:
            self.location = location

    def get_location(self) -> Location | None:
        return self.location

    def get_message(self) -> str:
        return self.msg

    def get_causes(self) -> Sequence[CompilerException]:
        return []

    def format(self) -> str:
        location = self.get_location()
        return self.get_message() if location is None else f"{self.get_message()} ({location})"

    def format_trace(self, indent: str = "", indent_level: int = 0) -> str:
        """The text with place, and below it, further to the right, those of its causes."""
        causes = [cause.format_trace(indent, indent_level + 1) for cause in self.get_causes()]
        lines = [indent * indent_level + line for line in self.format().split("\n")]
        return "\n".join([*lines, *(f"{indent * indent_level}caused by:\n{cause}" for cause in causes)])

    def __str__(self) -> str:
        return self.format()


class RuntimeException(CompilerException):
    """A mistake found while the model runs; `stmt` is the statement, or None."""

    def __init__(self, stmt: object | None, msg: str) -> None:
        super().__init__(msg)
        self.stmt: object | None = None
        if stmt is not None:
            self.set_statement(stmt)

    def set_statement(self, stmt: object, replace: bool = True) -> None:
        if self.stmt is None or replace:
            self.stmt = stmt
            get_location = getattr(stmt, "get_location", None)
            if get_location is not None:
                self.set_location(get_location())

    def format(self) -> str:
        """The text, and the statement where it was found, with its place."""
        if self.stmt is None or self.location is None:
            return super().format()
        return f"{self.get_message()} (reported in {self.stmt} ({self.location}))"


class TypeDeprecationWarning(InmantaWarning):
    """A type that is not to be used any more."""


class CompilerRuntimeWarning(InmantaWarning, RuntimeException):
    """A doubt about a model whose syntax is right."""

    def __init__(self, stmt: object | None, msg: str) -> None:
        InmantaWarning.__init__(self)
        RuntimeException.__init__(self, stmt, msg)


class CompilerDeprecationWarning(CompilerRuntimeWarning):
    """What a model is not to use any more."""


class VariableShadowWarning(CompilerRuntimeWarning):
    """A variable that hides another one of its name."""


class WrappingRuntimeException(RuntimeException):
    """A mistake that another one caused."""

    def __init__(self, stmt: object, msg: str, cause: BaseException | None = None) -> None:
        super().__init__(stmt, msg)
        self.__cause__ = cause

    def get_causes(self) -> Sequence[CompilerException]:
        return [self.__cause__] if isinstance(self.__cause__, CompilerException) else []


class TypingException(RuntimeException):
    """A value or a definition of a wrong type."""


class TypeNotFoundException(RuntimeException):
    """No type has this name."""

    def __init__(self, type: object, ns: Namespace | None = None) -> None:
        super().__init__(None, f"could not find type {type} in namespace {ns}")
        self.type = type
        self.ns = ns


class MissingImportException(TypeNotFoundException):
    """A type of a namespace that is not imported."""


class AmbiguousTypeException(TypeNotFoundException):
    """A name that several types have."""


class DirectExecuteException(TypingException):
    """A statement that cannot run where its value is needed at once."""


class DataClassException(TypingException):
    """A dataclass of Python that its entity cannot be paired with."""


class DataClassMismatchException(DataClassException):
    """A dataclass of Python and an entity of other attributes."""


class KeyException(RuntimeException):
    """A dictionary without the key."""


class NotFoundException(RuntimeException):
    """A variable or an attribute that does not exist; `name` says which."""

    def __init__(self, stmt: object | None, name: object, msg: str | None = None) -> None:
        super().__init__(stmt, f"could not find value {name}" if msg is None else msg)
        self.name = name


class DoubleSetException(RuntimeException):
    """A variable that got two different values: `variable` has the first one and its place.

    Where a compile has raised it, values that are no data (instances, references) are texts, as its message writes them.
    """

    def __init__(self, variable: object, stmt: object | None, newvalue: object, newlocation: Location | None) -> None:
        self.variable = variable
        self.newvalue = newvalue
        self.newlocation = newlocation
        first = (getattr(variable, "value", None), getattr(variable, "location", None))
        values = (first, (newvalue, newlocation))
        old, new = (f"{value}\n\t\tset at {place}\n" for value, place in values)
        super().__init__(stmt, f"value set twice:\n\told value: {old}\tnew value: {new}")


class DuplicateException(TypingException):
    """Something defined twice."""

    def __init__(self, stmt: object, other: object, msg: str) -> None:
        super().__init__(stmt, msg)
        self.other = other

    def format(self) -> str:
        """The text, and both places."""
        get_location = getattr(self.other, "get_location", None)
        if get_location is None or self.location is None:
            return super().format()
        return f"{self.get_message()} (original at ({self.location})) (duplicate at ({get_location()}))"


class IndexException(RuntimeException):
    """A lookup or a constructor that does not fit an index."""


class ModifiedAfterFreezeException(RuntimeException):
    """A list that got an element after somebody read it."""


@_without("add")
class CycleException(TypingException):
    """A type that contains itself."""


class AttributeException(WrappingRuntimeException):
    """An attribute of an instance could not be set or read."""

    def __init__(
        self,
        stmt: object,
        instance: object,
        attribute: object = None,
        cause: BaseException | None = None,
        msg: str | None = None,
    ) -> None:
        if msg is None:
            msg = f"Could not set attribute `{attribute}` on instance `{instance}`"
        super().__init__(stmt, msg)
        self.instance = instance
        self.attribute = attribute
        self.__cause__ = cause


class OptionalValueException(RuntimeException):
    """An optional attribute was read that has no value, and never will."""

    def __init__(self, instance: object, attribute: object, msg: str | None = None) -> None:
        if msg is None:
            msg = f"Optional variable accessed that has no value (attribute `{attribute}` of `{instance}`)"
        super().__init__(None, msg)
        self.instance = instance
        self.attribute = attribute


class ExternalException(RuntimeException):
    """An exception of Python code that is none of ours."""

    def __init__(self, stmt: object, msg: str, cause: BaseException | None) -> None:
        super().__init__(stmt, msg)
        self.__cause__ = cause

    def format_trace(self, indent: str = "", indent_level: int = 0) -> str:
        """The text with place, and what the Python code has raised."""
        import traceback

        cause = self.__cause__
        if cause is None:
            return super().format_trace(indent, indent_level)
        raised = "".join(traceback.format_exception_only(cause.__class__, cause))
        below = "\n".join(indent * (indent_level + 1) + line if line else line for line in raised.split("\n"))
        return f"{super().format_trace(indent, indent_level)}\n{indent * indent_level}caused by:\n{below}"


class ExplicitPluginException(ExternalException):
    """A PluginException on its way through the compiler."""


class MultiException(CompilerException):
    """Several mistakes at once."""

    def __init__(self, others: Sequence[CompilerException]) -> None:
        super().__init__("Reported %d errors" % len(others))
        self.others = list(others)

    def get_causes(self) -> Sequence[CompilerException]:
        return self.others

    def format_trace(self, indent: str = "", indent_level: int = 0) -> str:
        """How many there are, and below it each of them with its number."""
        margin = indent * indent_level
        lines = [margin + self.format()]
        for number, other in enumerate(self.get_causes()):
            lines += [f"{margin}error {number}:", other.format_trace(indent, indent_level + 1)]
        return "\n".join(lines)

    def __str__(self) -> str:
        return "\n\t".join([f"{self.format()}:", *map(str, self.others)])


class PluginException(Exception):
    """Base of the errors that a module raises on purpose; its text is what the user reads."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.message = message


class PluginTypeException(WrappingRuntimeException):
    """An argument or a result of a plugin that does not fit its annotation."""

    def __init__(self, stmt: object | None, msg: str, cause: BaseException | None = None) -> None:
        super().__init__(stmt, msg)
        self.__cause__ = cause


class InvalidTypeAnnotation(TypingException):
    """An annotation that is no type."""


class UnexpectedReference(RuntimeException):
    """A reference reached code that did not declare that it can handle one."""

    def __init__(self, reference: object = None, message: str = "", stmt: object | None = None) -> None:
        super().__init__(stmt, message)
        self.reference = reference
        self.message = message


class UnsetException(RuntimeException):
    """A variable was read that has no value yet. It must leave the plugin, which is then called again."""

    def __init__(self, msg: str, instance: object | None = None, attribute: object | None = None) -> None:
        super().__init__(None, msg)
        # The variable that has no value.
        self.instance = instance
        self.attribute = attribute

    def get_result_variable(self) -> object | None:
        return self.instance


class MultiUnsetException(RuntimeException):
    """Several variables without value; the plugin is called again when all have one."""

    def __init__(self, msg: str, result_variables: Sequence[object]) -> None:
        super().__init__(None, msg)
        self.result_variables = result_variables


class UnknownException(Exception):
    """An Unknown was touched; leaving a plugin, it makes the result that `unknown`."""

    def __init__(self, unknown: object) -> None:
        super().__init__()
        self.unknown = unknown

if not TYPE_CHECKING:
    # What only the reference's module has says why it is not here.
    from inmanta import _rest_of

    __getattr__ = _rest_of(__name__)
