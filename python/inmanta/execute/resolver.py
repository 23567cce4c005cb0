"""The names and types that a plugin with a context can look up, and the result that it may set itself.

Source: docs/reference/language.md § 10.8.
"""

from __future__ import annotations

from inmanta import _without
from inmanta.ast import NotFoundException, OptionalValueException, RuntimeException, UnsetException

TYPE_CHECKING = False
if TYPE_CHECKING:
    from inmanta.plugins import _Compiler
    from steward_host.world import Types

# In place of the number of an instance: the names of the call.
_CALL = 2**32 - 1


class _Names:
    """Stands for an instance whose attributes are the names of the running call."""

    id = _CALL


class Variable:
    """A variable of the model as the call sees it."""

    myself = _Names

    def __init__(self, name: str) -> None:
        self.attribute = name

    @classmethod
    def of(cls, name: str) -> Variable:
        """The variable of this full name; NotFoundException if there is none."""
        from inmanta.execute import runtime

        kind, text = runtime.world.lookup(name)
        if kind == "no_attribute":
            raise NotFoundException(None, name, text)
        return cls(name)

    def get_value(self) -> object:
        """The value; UnsetException, OptionalValueException or NotFoundException if there is none."""
        from inmanta.execute import runtime

        kind, value = runtime.world.lookup(self.attribute)
        if kind == "value":
            from inmanta.execute.util import NoneValue

            return NoneValue() if value is None else value
        if kind == "unset":
            raise UnsetException(f"variable `{self.attribute}` has no value yet", self)
        if kind == "optional_unset":
            raise OptionalValueException(self, self.attribute, value)
        raise NotFoundException(None, self.attribute, value)

    @property
    def value(self) -> object:
        """As the model has it, null as a NoneValue; None while there is no value."""
        try:
            return self.get_value()
        except (UnsetException, OptionalValueException):
            return None

    def is_ready(self) -> bool:
        try:
            self.get_value()
        except UnsetException:
            return False
        except OptionalValueException:
            pass
        return True


class Resolver:
    """Finds variables by the names under which the call sees them: `m::x`, `x`, `self`."""

    def lookup(self, name: str, root: object | None = None) -> Variable:
        """The variable; NotFoundException if there is none of this name."""
        return Variable.of(str(name))


@_without("add_possible add_running add_to_all allwaiters remove_from_all runqueue waitqueue")
class QueueScheduler:
    """Who runs the model: a plugin can ask it for the types."""

    def __init__(self) -> None:
        self._types: Types | None = None

    def get_types(self) -> Types:
        """Entities, typedefs and plugins by full name. Each is found by its name; typedefs are left out of the list of all."""
        if self._types is None:
            from steward_host.world import Types

            self._types = Types()
        return self._types

    types = property(get_types)

    def get_compiler(self) -> _Compiler:
        from inmanta.plugins import _Compiler

        return _Compiler()

    compiler = property(get_compiler)


class Result:
    """Where a plugin with `emits_statements` puts its result."""

    def __init__(self) -> None:
        self._set = False
        self._value: object = None

    def set_value(self, value: object, location: object | None = None, recur: bool = True) -> bool:
        """Sets the value; RuntimeException if there is another one."""
        if self._set and self._value != value:
            raise RuntimeException(None, f"value set twice:\n\told value: {self._value}\n\tnew value: {value}")
        self._set, self._value = True, value
        return True

    def is_ready(self) -> bool:
        return self._set

    def get_value(self) -> object:
        if not self._set:
            raise RuntimeException(None, "the plugin did not set its result: a result cannot be set after the call")
        return self._value
