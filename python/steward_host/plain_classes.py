"""Dataclasses and enumerations of a project that are nothing but their values, such as `@dataclass(frozen=True) class Range`.

A function that makes one, or reads one, still only computes (`purity`), and another object with the same values does as well as
the one that a function gave. So nothing of what such an object does by itself may be written by hand, but methods and properties
that only compute: how it is made, compared, shown and hashed is what `dataclasses` and `enum` make of its fields.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# What a class inherits from for nothing that its objects do.
_BASES = (object, enum.Enum, enum.IntEnum, enum.StrEnum, int, str)
# Methods that may be its own though their names begin with an underscore: its texts.
_TEXTS = ("__repr__", "__str__")
_FACTORIES = (dict, frozenset, list, set, tuple)


class PlainClasses:
    """What is known of the classes of some files."""

    def __init__(
        self,
        tree: Callable[[str], ast.Module | None],
        is_pure: Callable[[object], bool],
        is_constant: Callable[[object], bool],
        changed: Callable[[], set[str]],
        refused: Callable[[], None],
    ) -> None:
        """`tree`: of a file, None if it is none of the project's; `changed`: names that some code of the project sets; `refused`:
        is called when a class is not plain that was taken for it on the way."""
        self._tree = tree
        self._is_pure = is_pure
        self._is_constant = is_constant
        self._changed = changed
        self._refused = refused
        self._known: dict[type, bool] = {}

    def is_plain(self, cls: object) -> bool:
        """Whether all objects of a class are nothing but their values."""
        if not isinstance(cls, type):
            return False
        known = self._known.get(cls)
        if known is None:
            # Its own methods may name it.
            self._known[cls] = True
            try:
                known = self._look_at(cls)
            except (OSError, SyntaxError, ValueError, RecursionError):
                known = False
            self._known[cls] = known
            if not known:
                self._refused()
        return known

    def forget_plain(self) -> None:
        """Something that was taken for good is not: what was taken for plain because of it may not be."""
        self._known = {cls: known for cls, known in self._known.items() if not known}

    def _look_at(self, cls: type) -> bool:
        module = sys.modules.get(cls.__module__)
        file = getattr(module, "__file__", None)
        tree = None if file is None else self._tree(file)
        if tree is None or vars(module).get(cls.__name__) is not cls or cls.__name__ in self._changed():
            return False
        nodes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == cls.__name__]
        if len(nodes) != 1 or nodes[0].keywords:
            return False
        if not all(base in _BASES or self.is_plain(base) for base in cls.__bases__):
            return False
        decorators = nodes[0].decorator_list
        if isinstance(cls, enum.EnumMeta):
            members: list[Any] = list(cls.__members__.values())
            is_made_plainly = not decorators and all(self._is_constant(member.value) for member in members)
        else:
            is_made_plainly = len(decorators) == 1 and _is_dataclass(decorators[0], vars(module)) and self._has_plain_fields(cls)
        return is_made_plainly and all(self._is_plain_part(cls, part) for part in nodes[0].body)

    def _has_plain_fields(self, cls: Any) -> bool:
        return cls.__dataclass_params__.frozen and all(
            field._field_type.name == "_FIELD"
            and (field.default is dataclasses.MISSING or self._is_constant(field.default))
            and (field.default_factory is dataclasses.MISSING or field.default_factory in _FACTORIES)
            for field in cls.__dataclass_fields__.values()
        )

    def _is_plain_part(self, cls: type, part: ast.stmt) -> bool:
        """Whether a statement of a class adds a field, a member, or what only computes."""
        if isinstance(part, (ast.AnnAssign, ast.Assign)):
            targets = part.targets if isinstance(part, ast.Assign) else [part.target]
            return all(isinstance(target, ast.Name) and not target.id.startswith("_") for target in targets)
        if isinstance(part, ast.FunctionDef):
            found = vars(cls).get(part.name)
            if isinstance(found, property):
                found = found.fget if found.fset is None and found.fdel is None else None
            elif isinstance(found, (classmethod, staticmethod)):
                # It gets the class, which is plain as well.
                found = found.__func__
            return (part.name in _TEXTS or not part.name.startswith("_")) and part.name not in self._changed() and self._is_pure(found)
        is_text = isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)
        return is_text or isinstance(part, ast.Pass)


def _is_dataclass(decorator: ast.expr, known: dict[str, Any]) -> bool:
    """Whether it is the decorator that makes dataclasses, with nothing but constants."""
    named = decorator
    if isinstance(decorator, ast.Call):
        named = decorator.func
        if decorator.args or not all(isinstance(keyword.value, ast.Constant) for keyword in decorator.keywords):
            return False
    if isinstance(named, ast.Name):
        return known.get(named.id) is dataclasses.dataclass
    is_attribute = isinstance(named, ast.Attribute) and isinstance(named.value, ast.Name) and named.attr == "dataclass"
    return is_attribute and known.get(named.value.id) is dataclasses  # type: ignore[attr-defined]  # it is an attribute
