"""Dataclasses and enumerations of a project that are nothing but their values, such as `@dataclass(frozen=True) class Range`.

A function that makes one, or reads one, still only computes (`purity`); that holds of named tuples and of dataclasses that can be
changed, too, as long as the function does not give them to others. Of those that nobody can change, another object with the same values does as well as
the one that a function gave. So nothing of what such an object does by itself may be written by hand, but methods and properties
that only compute: how it is made, compared, shown and hashed is what `dataclasses` and `enum` make of its fields.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import sys
from types import FunctionType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

# What a class inherits from for nothing that its objects do.
_BASES = (object, enum.Enum, enum.Flag, enum.IntEnum, enum.IntFlag, enum.StrEnum, int, str)
# Methods that may be its own though their names begin with an underscore: its texts.
_TEXTS = ("__repr__", "__str__")
# What is known of a class: there is more to its objects than values; somebody may change these; nobody may.
_MORE, _CHANGEABLE, _PLAIN = range(3)
_FACTORIES = (dict, frozenset, list, set, tuple)


class PlainClasses:
    """What is known of the classes of some files."""

    def __init__(
        self,
        has_file: Callable[[str], bool],
        tree: Callable[[str], ast.Module | None],
        is_pure: Callable[[object], bool],
        is_pure_method: Callable[[FunctionType, str], bool],
        is_constant: Callable[[object], bool],
        changed: Callable[[], set[str]],
        refused: Callable[[], None],
    ) -> None:
        """`tree`: of a file, None if it is none of the project's; `changed`: names that some code of the project sets; `refused`:
        is called when a class is not plain that was taken for it on the way."""
        self._has_file = has_file
        self._tree = tree
        self._is_pure = is_pure
        self._is_pure_method = is_pure_method
        self._is_constant = is_constant
        self._changed = changed
        self._refused = refused
        self._known: dict[type, int] = {}

    def is_plain(self, cls: object) -> bool:
        """Whether all objects of a class are nothing but their values, for ever."""
        return self._kind_of(cls) == _PLAIN

    def is_transparent(self, cls: object) -> bool:
        """Whether all objects of a class are nothing but their values, which somebody may change: a function may use them for
        itself."""
        return self._kind_of(cls) != _MORE

    def fields_of(self, value: object) -> list[object] | None:
        """What an object is that nobody can change, if that is true of its fields; None: it can be changed, or is more."""
        cls: Any = type(value)
        if issubclass(cls, tuple):
            return list(value) if self.is_transparent(cls) else None  # type: ignore[call-overload]  # it has elements
        if not self.is_plain(cls):
            return None
        return [] if isinstance(cls, enum.EnumMeta) else [getattr(value, name) for name in cls.__dataclass_fields__]

    def _kind_of(self, cls: object) -> int:
        if not isinstance(cls, type) or not self._is_own(cls):
            return _MORE
        known = self._known.get(cls)
        if known is None:
            # Its own methods may name it.
            self._known[cls] = _PLAIN
            try:
                known = self._look_at(cls)
            except (OSError, SyntaxError, ValueError, RecursionError):
                known = _MORE
            self._known[cls] = known
            if known == _MORE:
                self._refused()
        return known

    def _is_own(self, cls: type) -> bool:
        """Whether it is one of the project's: of no other is anything taken for granted on the way."""
        file = getattr(sys.modules.get(cls.__module__), "__file__", None)
        return file is not None and self._has_file(file)

    def forget_plain(self) -> None:
        """Something that was taken for good is not: what was taken for plain because of it may not be."""
        self._known = {cls: known for cls, known in self._known.items() if known == _MORE}

    def _look_at(self, cls: type) -> int:
        module = sys.modules.get(cls.__module__)
        file = getattr(module, "__file__", None)
        tree = None if file is None else self._tree(file)
        is_known = tree is not None and vars(module).get(cls.__name__) is cls and cls.__name__ not in self._changed()
        # Some code may give it another way to be made.
        if tree is None or not is_known or any(name.startswith("__") for name in self._changed()):
            return _MORE
        if cls.__bases__ == (tuple,):
            return _CHANGEABLE if self._is_named_tuple(cls, tree, vars(module)) else _MORE
        nodes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == cls.__name__]
        if len(nodes) != 1 or nodes[0].keywords:
            return _MORE
        bases = [_PLAIN if base in _BASES else self._kind_of(base) for base in cls.__bases__]
        decorators = nodes[0].decorator_list
        kind = min(bases)
        if isinstance(cls, enum.EnumMeta):
            members: list[Any] = list(cls.__members__.values())
            is_made_plainly = not decorators and all(self._is_constant(member.value) for member in members)
        else:
            is_made_plainly = len(decorators) == 1 and _is_dataclass(decorators[0], vars(module)) and self._has_plain_fields(cls)
            kind = kind if is_made_plainly and vars(cls)["__dataclass_params__"].frozen else min(kind, _CHANGEABLE)
        if any(isinstance(part, ast.FunctionDef) and part.name == "__post_init__" for part in nodes[0].body):
            kind = min(kind, _CHANGEABLE)
        return kind if is_made_plainly and all(self._is_plain_part(cls, part) for part in nodes[0].body) else _MORE

    def _is_named_tuple(self, cls: Any, tree: ast.Module, known: dict[str, Any]) -> bool:
        """Whether it is `class Range(NamedTuple)` or `Range = namedtuple("Range", ...)`."""
        name = cls.__name__
        made = [node for node in tree.body if any(part == name for part in _set_by(node))]
        if len(made) != 1 or not all(map(self._is_constant, cls._field_defaults.values())):
            return False
        node = made[0]
        if isinstance(node, ast.ClassDef):
            is_plain = len(node.bases) == 1 and not node.keywords and not node.decorator_list and _is_of(node.bases[0], known, "typing", "NamedTuple")
            return is_plain and all(self._is_plain_part(cls, part) for part in node.body)
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            return False
        return _is_of(node.value.func, known, "collections", "namedtuple")

    def _has_plain_fields(self, cls: Any) -> bool:
        # Without a comparison of its own, an object shows where it is in memory.
        return cls.__dataclass_params__.eq and all(
            field._field_type.name == "_FIELD"
            and (field.default is dataclasses.MISSING or self._is_constant(field.default))
            and (field.default_factory is dataclasses.MISSING or field.default_factory in _FACTORIES)
            for field in cls.__dataclass_fields__.values()
        )

    def _is_plain_part(self, cls: type, part: ast.stmt) -> bool:
        """Whether a statement of a class adds a field, a member, or what only computes."""
        if isinstance(part, (ast.AnnAssign, ast.Assign)):
            targets = part.targets if isinstance(part, ast.Assign) else [part.target]
            names = [target.id for target in targets if isinstance(target, ast.Name) and not target.id.startswith("_")]
            # What is no field and no member is the same for all objects.
            is_shared = isinstance(part, ast.Assign) and not isinstance(cls, enum.EnumMeta)
            is_known = not is_shared or all(self._is_constant(vars(cls).get(name)) for name in names)
            return len(names) == len(targets) and is_known
        if isinstance(part, ast.FunctionDef):
            found = vars(cls).get(part.name)
            if part.name == "__post_init__":
                # It may set the attributes of an object that somebody may change anyway.
                own = [*part.args.posonlyargs, *part.args.args][:1]
                is_own = type(found) is FunctionType and bool(own) and "__dataclass_fields__" in vars(cls)
                return is_own and part.name not in self._changed() and self._is_pure_method(found, own[0].arg)  # type: ignore[arg-type]  # it is a function
            if isinstance(found, property):
                found = found.fget if found.fset is None and found.fdel is None else None
            elif isinstance(found, (classmethod, staticmethod)):
                # It gets the class, which is plain as well.
                found = found.__func__
            return (part.name in _TEXTS or not part.name.startswith("_")) and part.name not in self._changed() and self._is_pure(found)
        is_text = isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)
        return is_text or isinstance(part, ast.Pass)


def _set_by(statement: ast.stmt) -> Iterator[str]:
    """The names that a class or a statement with one target sets."""
    if isinstance(statement, ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
        yield statement.targets[0].id


def _is_of(named: ast.expr, known: dict[str, Any], module: str, name: str) -> bool:
    """Whether it names what a module of Python has by a name."""
    expected = getattr(sys.modules.get(module), name, None)
    if isinstance(named, ast.Name):
        return expected is not None and known.get(named.id) is expected
    is_attribute = isinstance(named, ast.Attribute) and isinstance(named.value, ast.Name) and named.attr == name
    return is_attribute and known.get(named.value.id) is sys.modules.get(module)  # type: ignore[attr-defined]  # it is an attribute


def _is_dataclass(decorator: ast.expr, known: dict[str, Any]) -> bool:
    """Whether it is the decorator that makes dataclasses, with nothing but constants."""
    named = decorator
    if isinstance(decorator, ast.Call):
        named = decorator.func
        if decorator.args or not all(isinstance(keyword.value, ast.Constant) for keyword in decorator.keywords):
            return False
    return _is_of(named, known, "dataclasses", "dataclass")
