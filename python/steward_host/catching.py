"""Functions of a project that may go on where an attribute of the model has no value yet, such as

    def owner(item):
        try:
            return item.owner.name
        except Exception:
            return None

Reading such an attribute raises an UnsetException, which most functions let through: the call is made again when there is a value. One that
catches it gives another result before that. It still only computes (`purity`) as long as nobody waits in its place: where an
attribute has no value yet, what is known of earlier calls is of no use, and the call has to be made.

Which functions these are is found out by names, over all files: a function that names one which catches may run it, and one that
names a class may run all its methods. Too many are no mistake.
"""

from __future__ import annotations

import ast
import builtins
import sys
from types import ModuleType

from steward_host import library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

# Functions by which code may reach an attribute whose name is not written there.
_BY_TEXT = frozenset(("attrgetter", "getattr", "methodcaller", "reduce"))
# Functions of Python that make a number of a text, and modules whose functions do nothing but look at texts.
_CONVERTING = frozenset("abs bin chr float hex int isinstance oct ord round".split())
# The same if no class of the project has methods that say what they do with its objects.
_OF_OBJECTS = frozenset("bool len repr str".split())
_OF_TEXTS = frozenset("base64 datetime decimal ipaddress re socket urllib.parse uuid".split())
_NOT_READING = (
    ast.Assert, ast.Assign, ast.Constant, ast.Dict, ast.Expr, ast.If, ast.IfExp, ast.List, ast.Name, ast.Pass, ast.Raise, ast.Return,
    ast.Tuple, ast.arguments, ast.boolop, ast.cmpop, ast.expr_context, ast.keyword, ast.operator, ast.unaryop,
)  # fmt: skip
_OPERATING = (ast.AugAssign, ast.BinOp, ast.BoolOp, ast.Compare, ast.FormattedValue, ast.JoinedStr, ast.Slice, ast.Subscript, ast.UnaryOp)
# Methods that Python calls for something else than an operator.
_NO_OPERATORS = frozenset("__enter__ __exit__ __init__ __post_init__".split())
# By these, a handler goes on.
_LEAVING = (ast.Break, ast.Continue, ast.Return, ast.Yield, ast.YieldFrom)
# A program that has these in a handler may see more of an exception than its class.
_SHOWING = frozenset(("exc_info", "format_exc", "print_exc", "traceback"))


class Catching:
    """What some files do with exceptions."""

    def __init__(self, trees: Iterable[ast.Module]) -> None:
        trees = [*trees]
        # Functions, and classes with all that stands in them, by name: the names that they use.
        used: dict[str, set[str]] = {}
        self._names: set[str] = set()
        has_operators = any(map(_is_operator, (node for tree in trees for node in ast.walk(tree))))
        self._kinds = {id(tree): _Kinds(tree, has_operators) for tree in trees}
        for tree in trees:
            kinds = self._kinds[id(tree)]
            for name, node in _definitions(tree):
                used.setdefault(name, set()).update(_names_in(node))
                if any(map(kinds.catches, ast.walk(node))):
                    self._names.add(name)
        # Whether some function reads what its own exceptions say.
        self._is_heard = any(kinds.hears(node) for tree, kinds in zip(trees, self._kinds.values()) for node in ast.walk(tree))
        methods = {method for tree in trees for method in _methods_by_other_ways(tree)}
        found = {*self._names}
        while found:
            found = {name for name, names in used.items() if name not in self._names and not names.isdisjoint(self._names)}
            self._names |= found
            # Plugins get objects from the model, too, and nobody names a method that Python calls by itself.
            if not methods.isdisjoint(self._names):
                self._names.update(used)

    def shows_text(self, tree: ast.Module, parts: list[ast.AST]) -> bool:
        """Whether some parts of a file may see more than the class of an exception that says that an attribute has no value: it
        says where the instance was made."""
        kinds = self._kinds[id(tree)]
        return any(kinds.shows_text(part, self._is_heard) for part in parts)

    def has(self, name: str) -> bool:
        """Whether a function by this name may go on where an attribute has no value yet."""
        return name in self._names


def _not_yet() -> tuple[type[BaseException], ...]:
    """What says that there is no value yet."""
    from inmanta.ast import MultiUnsetException, UnsetException

    return UnsetException, MultiUnsetException


def _not_at_all() -> tuple[type[BaseException], ...]:
    """The same, and what says that there will be none. That of an Unknown need not be among them: such calls are not kept."""
    from inmanta.ast import OptionalValueException

    return *_not_yet(), OptionalValueException


class _Kinds:
    """The classes of exceptions that a file's names stand for."""

    def __init__(self, tree: ast.Module, has_operators: bool) -> None:
        """`has_operators`: classes of the project say what operators do with their objects."""
        self._has_operators = has_operators
        # By name, what gives it a value, anywhere in the file.
        self._given: dict[str, list[ast.AST]] = {}
        for node in ast.walk(tree):
            for name in _given_by(node):
                self._given.setdefault(name, []).append(node)

    def catches(self, node: ast.AST) -> bool:
        """Whether a part of a function may catch what says that there is no value yet, or put another exception in its place."""
        if isinstance(node, ast.Try):
            # What is done in any case may return, or raise something else.
            if not all(map(_does_nothing, node.finalbody)) and any(map(self._reads, (*node.body, *node.handlers, *node.orelse))):
                return True
            return any(map(self._reads, node.body)) and not all(map(self._passes_on, node.handlers))
        if isinstance(node, (ast.TryStar, ast.AsyncWith)):
            return True
        if isinstance(node, ast.With):
            managers = (item.context_expr for item in node.items)
            return any(isinstance(one, ast.Call) and not self._lets_all_through(one) for one in managers)
        if isinstance(node, ast.FunctionDef) and node.name == "__exit__":
            returned = (part.value for part in ast.walk(node) if isinstance(part, ast.Return))
            return any(value is not None and not _is_constant(value, (None, False)) for value in returned)
        return False

    def shows_text(self, node: ast.AST, is_heard: bool) -> bool:
        """`is_heard`: some function reads what the project's own exceptions say."""
        if not isinstance(node, ast.Try) or not any(map(self._reads, node.body)):
            return False
        for handler in node.handlers:
            if self._lets_through(handler.type, _not_at_all) or not any(_is_shown(handler.name, part) for part in _within(handler)):
                continue
            raised = handler.body[-1].exc if isinstance(handler.body[-1], ast.Raise) else None
            if is_heard or raised is None or not self._is_own(raised.func if isinstance(raised, ast.Call) else raised) or _goes_on(handler):
                return True
        return False

    def hears(self, node: ast.AST) -> bool:
        """Whether it is a handler that may see what an exception of the project's says, and does not end with one."""
        if not isinstance(node, ast.ExceptHandler) or not any(_is_shown(node.name, part) for part in _within(node)):
            return False
        kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        is_own = any(kind is None or not self._lets_through(kind, _not_at_all) or self._is_own(kind) for kind in kinds)
        return is_own and (not isinstance(node.body[-1], ast.Raise) or _goes_on(node))

    def _is_own(self, kind: ast.expr) -> bool:
        """Whether it names PluginException, or a class of the project."""
        from inmanta.plugins import PluginException

        if not isinstance(kind, ast.Name):
            return not isinstance(kind, ast.Attribute)
        given = self._given.get(kind.id, [])
        found = self._imported_as(kind.id)
        is_foreign = found is None and not given
        return len(given) == 1 and (isinstance(given[0], ast.ClassDef) or found is PluginException) and not is_foreign

    def _passes_on(self, handler: ast.ExceptHandler) -> bool:
        """Whether a handler gets none of those exceptions, or raises them again."""
        is_raised = isinstance(handler.body[-1], ast.Raise) and handler.body[-1].exc is None
        return self._lets_through(handler.type) or is_raised and not _goes_on(handler)

    def _reads(self, node: ast.AST) -> bool:
        """Whether a part of a function may read an attribute of the model: all but what some functions of Python do with texts."""
        return any(map(self._may_read, ast.walk(node)))

    def _may_read(self, part: ast.AST) -> bool:
        if isinstance(part, ast.Attribute):
            return not isinstance(part.value, ast.Name) or self._module(part.value.id) is None
        if not isinstance(part, ast.Call):
            # Behind an iterator there may be any code, and classes of the project may say what operators do.
            return not isinstance(part, _NOT_READING) and not (isinstance(part, _OPERATING) and not self._has_operators)
        name = part.func.id if isinstance(part.func, ast.Name) else None
        if name is not None and name not in self._given:
            return name not in _CONVERTING and not (name in _OF_OBJECTS and not self._has_operators)
        found = None if name is None else self._imported_as(name)
        if isinstance(part.func, ast.Attribute) and isinstance(part.func.value, ast.Name):
            found = getattr(self._module(part.func.value.id), part.func.attr, None)
        return library.module_of(found) not in _OF_TEXTS

    def _lets_all_through(self, call: ast.Call) -> bool:
        """Whether what manages a context is none of those of the library that catch, of which there is one kind."""
        name = call.func.id if isinstance(call.func, ast.Name) else call.func.attr if isinstance(call.func, ast.Attribute) else None
        if name in ("ExitStack", None):
            return False
        given = self._given.get(name, []) if isinstance(call.func, ast.Name) else []
        is_renamed = any(isinstance(node, ast.ImportFrom) and node.module == "contextlib" and name not in _imported(node) for node in given)
        return not is_renamed and (name != "suppress" or all(self._lets_through(kind) for kind in call.args))

    def _lets_through(self, kind: ast.expr | None, waiting: Callable[[], tuple[type[BaseException], ...]] = _not_yet) -> bool:
        """Whether handlers of a kind of exception catch none of some others."""
        if isinstance(kind, ast.Tuple):
            return all(self._lets_through(one, waiting) for one in kind.elts)
        if isinstance(kind, ast.Attribute) and isinstance(kind.value, ast.Name):
            return _is_another(getattr(self._module(kind.value.id), kind.attr, None), waiting())
        if not isinstance(kind, ast.Name) or "*" in self._given:
            return False
        given = self._given.get(kind.id)
        if given is None:
            return _is_another(getattr(builtins, kind.id, None), waiting())
        if len(given) != 1:
            return False
        node = given[0]
        # One of its own is nothing but itself.
        is_own = isinstance(node, ast.ClassDef) and bool(node.bases) and not node.keywords
        return is_own or _is_another(self._imported_as(kind.id), waiting())

    def _imported_as(self, name: str) -> object:
        """What of another module a name stands for."""
        given = self._given.get(name, [])
        node = given[0] if len(given) == 1 else None
        if not isinstance(node, ast.ImportFrom) or node.level != 0 or node.module is None:
            return None
        called = next(alias.name for alias in node.names if (alias.asname or alias.name) == name)
        return getattr(sys.modules.get(node.module), called, None)

    def _module(self, name: str) -> ModuleType | None:
        given = self._given.get(name, [])
        if len(given) != 1 or not isinstance(given[0], ast.Import):
            return None
        called = next(alias for alias in given[0].names if (alias.asname or alias.name).split(".")[0] == name)
        return sys.modules.get(called.name if called.asname else name)


def _does_nothing(statement: ast.stmt) -> bool:
    """Whether a statement can neither end a function nor raise anything: it is empty, or gives names constants."""
    if isinstance(statement, ast.Assign):
        return isinstance(statement.value, ast.Constant) and all(isinstance(target, ast.Name) for target in statement.targets)
    return isinstance(statement, ast.Pass) or isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_another(kind: object, waiting: tuple[type[BaseException], ...]) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseException) and not any(issubclass(one, kind) for one in waiting)


def _is_constant(value: ast.expr, constants: tuple[object, ...]) -> bool:
    return isinstance(value, ast.Constant) and any(value.value is constant for constant in constants)


def _imported(node: ast.ImportFrom) -> set[str]:
    return {alias.name for alias in node.names if alias.asname is None}


def _within(handler: ast.ExceptHandler) -> Iterator[ast.AST]:
    """The parts of a handler, but what an exception is raised from: nobody sees that before the call has failed."""
    causes = {id(part.cause) for part in ast.walk(handler) if isinstance(part, ast.Raise)}
    return (part for part in ast.walk(handler) if id(part) not in causes)


def _goes_on(handler: ast.ExceptHandler) -> bool:
    """Whether a handler may end otherwise than with its last statement, or with another exception."""
    return any(isinstance(part, _LEAVING) for part in ast.walk(handler))


def _is_shown(name: str | None, part: ast.AST) -> bool:
    """Whether a part of a handler shows the exception that it has caught, which has a name."""
    if isinstance(part, ast.Name):
        return part.id == name or part.id in _SHOWING
    return isinstance(part, ast.Attribute) and part.attr in _SHOWING or isinstance(part, ast.keyword) and part.arg in _SHOWING


def _given_by(node: ast.AST) -> Iterator[str]:
    """The names that a part of a file gives a value."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        for alias in node.names:
            yield (alias.asname or alias.name).split(".")[0]
    elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
        if node.name is not None:
            yield node.name
    elif isinstance(node, ast.MatchMapping) and node.rest is not None:
        yield node.rest


def _definitions(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """All that a name may stand for that runs code: functions and classes, wherever they are, and what a statement outside of
    functions gives a name."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name, node
    for statement in tree.body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                yield node.id, statement
            elif isinstance(node, ast.alias) and node.asname is not None:
                yield node.asname, statement


def _names_in(node: ast.AST) -> Iterator[str]:
    """The names that some code uses, also as texts."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Attribute):
            yield part.attr
        elif isinstance(part, ast.alias):
            yield part.name
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield from part.value.split(".")


def _is_operator(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name.startswith("__") and node.name not in _NO_OPERATORS


def _names_by_text(part: ast.AST) -> bool:
    return (part.id if isinstance(part, ast.Name) else part.attr if isinstance(part, ast.Attribute) else None) in _BY_TEXT


def _methods_by_other_ways(tree: ast.Module) -> Iterator[str]:
    """Methods of dataclasses that Python calls by itself, and properties, whose names may come from anywhere if there is code that
    reads such attributes."""
    is_by_text = any(_names_by_text(part) for part in ast.walk(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.decorator_list:
            for part in node.body:
                if isinstance(part, ast.FunctionDef) and (part.name.startswith("__") or part.decorator_list and is_by_text):
                    yield part.name
