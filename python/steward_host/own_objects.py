"""Classes of a project whose objects a function makes for itself, such as

    class Document:
        def __init__(self, name):
            self.name = name
            self._lines = []

        def add(self, line):
            self._lines.append(line)

Such an object may change as it likes: no function gets one but that which has made it, since the model and the tables of modules have
none of these. So a function that makes one still only computes (`purity`) if the methods of the class do, and if what they set is
nothing but attributes of the object itself. What the class has of its own, all its objects share: that must never change.
"""

from __future__ import annotations

import abc
import ast
import sys
import typing
from types import FunctionType

from steward_host import context_managers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Methods with underscores that a class may have: the others change how attributes are read and set, or how objects are made.
_SPECIAL = frozenset(
    "__add__ __bool__ __call__ __contains__ __enter__ __eq__ __exit__ __ge__ __getitem__ __gt__ __init__ __iter__ __le__ __len__ __lt__ __repr__"
    " __setitem__ __str__".split()
)


class OwnObjects:
    """What is known of the classes of some files."""

    def __init__(
        self,
        has_file: Callable[[str], bool],
        tree: Callable[[str], ast.Module | None],
        is_pure: Callable[[object], bool],
        is_pure_method: Callable[[FunctionType, str], bool],
        is_unchanging: Callable[[str, object], bool],
        changed: Callable[[], set[str]],
        refused: Callable[[], None],
    ) -> None:
        """`tree`: of a file, None if it is none of the project's; `is_unchanging`: of what a class has by a name; `is_pure_method`: the same as `is_pure` of a method and the name
        that it gives its object; `changed`, `refused`: as in `PlainClasses`."""
        self._has_file = has_file
        self._tree = tree
        self._is_pure = is_pure
        self._is_pure_method = is_pure_method
        self._is_unchanging = is_unchanging
        self._changed = changed
        self._refused = refused
        self._known: dict[type, bool] = {}

    def has(self, cls: object) -> bool:
        """Whether a function that makes an object of a class may still only compute."""
        file = getattr(sys.modules.get(cls.__module__), "__file__", None) if isinstance(cls, type) else None
        if not isinstance(cls, type) or file is None or not self._has_file(file):
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

    def is_exception(self, cls: type) -> bool:
        """Whether the exceptions of a class, whose bases are looked at besides, are such objects."""
        return self._has_simple_parts(cls)

    def forget(self) -> None:
        """As `PlainClasses.forget_plain`."""
        self._known = {cls: known for cls, known in self._known.items() if not known}

    def _look_at(self, cls: type) -> bool:
        are_known = all(base in (object, abc.ABC, typing.Generic) or self.has(base) for base in cls.__bases__)
        return are_known and self._has_simple_parts(cls)

    def _has_simple_parts(self, cls: type) -> bool:
        module = sys.modules.get(cls.__module__)
        file = getattr(module, "__file__", None)
        tree = None if file is None else self._tree(file)
        if tree is None or vars(module).get(cls.__name__) is not cls or type(cls) not in (type, abc.ABCMeta):
            return False
        if cls.__name__ in self._changed() or any(name.startswith("__") for name in self._changed()):
            return False
        nodes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == cls.__name__]
        if len(nodes) != 1 or nodes[0].keywords or nodes[0].decorator_list:
            return False
        return all(self._is_simple_part(cls, part) for part in nodes[0].body)

    def _is_simple_part(self, cls: type, part: ast.stmt) -> bool:
        if isinstance(part, (ast.AnnAssign, ast.Assign)):
            targets = part.targets if isinstance(part, ast.Assign) else [part.target]
            names = [target.id for target in targets if isinstance(target, ast.Name) and not target.id.startswith("__")]
            if isinstance(part, ast.Assign) and _is_slots(part):
                return True
            # One without a value is no more than an annotation.
            return len(names) == len(targets) and all(self._is_unchanging(name, vars(cls).get(name)) for name in names)
        if isinstance(part, ast.FunctionDef):
            if part.name.startswith("__") and part.name not in _SPECIAL or part.name in self._changed():
                return False
            return self._is_simple_method(vars(cls).get(part.name), part)
        is_text = isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)
        return is_text or isinstance(part, ast.Pass)

    def _is_simple_method(self, found: object, node: ast.FunctionDef) -> bool:
        if isinstance(found, (classmethod, staticmethod)):
            return self._is_pure(found.__func__)
        if isinstance(found, property):
            found = found.fget if found.fset is None and found.fdel is None else None
        found = context_managers.function_of(found)
        own = [*node.args.posonlyargs, *node.args.args][:1]
        is_own = type(found) is FunctionType and found.__code__.co_name == node.name and bool(own)
        return is_own and self._is_pure_method(found, own[0].arg)  # type: ignore[arg-type]  # it is a function


def _is_slots(part: ast.Assign) -> bool:
    """Whether it names the attributes that objects have, and nothing else: not `__dict__`, nor `__class__`."""
    target = part.targets[0]
    if len(part.targets) != 1 or not isinstance(target, ast.Name) or target.id != "__slots__":
        return False
    names = part.value.elts if isinstance(part.value, (ast.List, ast.Tuple)) else [part.value]
    texts = [name.value for name in names if isinstance(name, ast.Constant) and isinstance(name.value, str)]
    return len(texts) == len(names) and not any(text.startswith("__") for text in texts)


def attributes_of(own: str, node: ast.FunctionDef | ast.Lambda, parts: list[ast.AST]) -> Iterator[int]:
    """The attributes that a method reads or sets of its object, which has the name `own` in it."""
    arguments = [part.arg for part in (*ast.walk(node.args), *parts) if isinstance(part, ast.arg)]
    if arguments.count(own) != 1:
        return
    for part in parts:
        if isinstance(part, ast.Name) and part.id == own and not isinstance(part.ctx, ast.Load):
            return
        if isinstance(part, (ast.ExceptHandler, ast.FunctionDef, ast.MatchAs, ast.MatchStar)) and part.name == own:
            return
        if isinstance(part, ast.MatchMapping) and part.rest == own:
            return
    for part in parts:
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == own:
            if not isinstance(part.ctx, ast.Del) and not part.attr.startswith("__"):
                yield id(part)


def calls_of_bases(parts: list[ast.AST]) -> Iterator[ast.AST]:
    """Where a method calls one of the classes above its own, as `super().__init__(name)` does: the attributes, and the names
    `super` in them."""
    called = {id(part.func) for part in parts if isinstance(part, ast.Call)}
    for part in parts:
        if not isinstance(part, ast.Attribute) or id(part) not in called or not isinstance(part.value, ast.Call):
            continue
        above = part.value
        is_super = isinstance(above.func, ast.Name) and above.func.id == "super" and not above.args and not above.keywords
        if is_super and (part.attr == "__init__" or not part.attr.startswith("_")):
            yield part
            yield above.func
