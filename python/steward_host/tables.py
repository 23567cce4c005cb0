"""Dicts, lists and sets of a module that nobody changes, such as `PORTS = {"http": 80}`.

Of such a table, a function that reads it still only computes (`purity`). Its elements have to be constants, so that nobody can
change them either (of others see `nested_tables`); and it has to be used in no other way than those below, in which it is read
and nobody gets hold of it: not in its own file, and not at all in others.
"""

from __future__ import annotations

import ast
from functools import partial

from steward_host import library, registering
from steward_host.nested_tables import NestedTables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

KINDS = (dict, list, set)
# Methods that give something else than the table, and leave it as it is.
_METHODS = frozenset("copy count difference get index intersection items keys union values".split())
# Functions that go through their only argument: of two lists, `max` gives one back.
_FUNCTIONS = frozenset("all any dict enumerate frozenset len list max min set sorted sum tuple".split())
# Operators that make something new of two values.
_OPERATORS = (ast.Add, ast.BitAnd, ast.BitOr, ast.BitXor, ast.Mult, ast.Sub)
# By these, code may get hold of names that are not written there.
_BY_OTHER_NAMES = frozenset("eval exec globals locals vars".split())

# By these, it may get hold of attributes whose names are texts.
_BY_TEXT = frozenset("__dict__ attrgetter methodcaller reduce".split())


def is_flat(table: object, is_constant: Callable[[object], bool]) -> bool:
    """Whether all elements are constants."""
    values = [*table.keys(), *table.values()] if isinstance(table, dict) else table
    return all(map(is_constant, values))  # type: ignore[call-overload]  # it is a list or a set


class Tables:
    """What some files do with the names of their tables."""

    def __init__(self, tree: Callable[[str], ast.Module | None]) -> None:
        self._tree = tree
        # By file, the names that are used in a way that is not known.
        self._used: dict[str, set[str]] = {}
        # The names that are asked of other modules.
        self._asked: dict[int, set[str]] = {}
        # By file, where what is in its tables goes.
        self._nested: dict[str, NestedTables] = {}

    def is_changed(self, name: str, file: str, others: Iterable[ast.Module]) -> bool:
        """Whether somebody may change the table of this name of a file, as far as one can see."""
        used = self._used.get(file)
        others = [*others]
        if used is None:
            tree = self._tree(file)
            trees = [*others] if tree is None else [tree, *others]
            before = set() if tree is None else registering.parts_of(tree, others)
            used = self._used[file] = set() if tree is None else set(_used_otherwise(tree, _is_of_texts(trees), before))
        known = (name, "*")
        return not used.isdisjoint(known) or any(not self._asks(tree).isdisjoint(known) for tree in others)

    def is_changed_within(
        self, name: str, table: object, file: str, others: Iterable[ast.Module], is_constant: Callable[[object], bool]
    ) -> bool:
        """The same of a table with lists and dicts in it."""
        tree = self._tree(file)
        others = [*others]
        if tree is None or any(not self._asks(other).isdisjoint((name, "*")) for other in others):
            return True
        nested = self._nested.get(file)
        if nested is None:
            is_only_plugin = partial(self.is_only_plugin, tree, others)
            nested = self._nested[file] = NestedTables(tree, is_constant, is_only_plugin)
        return _is_named_otherwise(tree, name) or not nested.is_only_read(name, table)

    def nested(self, file: str, others: Iterable[ast.Module], is_constant: Callable[[object], bool]) -> NestedTables | None:
        """Where lists and dicts go in a file; None: some file may get hold of them by other ways."""
        tree = self._tree(file)
        others = [*others]
        if tree is None or any("*" in self._asks(one) for one in (tree, *others)) or any(map(_imports_all, ast.walk(tree))):
            return None
        nested = self._nested.get(file)
        if nested is None:
            nested = self._nested[file] = NestedTables(tree, is_constant, partial(self.is_only_plugin, tree, others))
        return nested

    def are_asked(self, name: str, tree: ast.Module) -> bool:
        """Whether a file asks something for this name."""
        return not self._asks(tree).isdisjoint((name, "*"))

    def is_only_plugin(self, tree: ast.Module, others: list[ast.Module], function: ast.FunctionDef) -> bool:
        """Whether a function is a plugin, and no code of the project names it."""
        if not any(map(_is_plugin, function.decorator_list)) or not any(map(_imports_plugin, tree.body)):
            return False
        return not _is_read(tree, function.name) and all(self._asks(other).isdisjoint((function.name, "*")) for other in (tree, *others))

    def _asks(self, tree: ast.Module) -> set[str]:
        known = self._asked.get(id(tree))
        if known is None:
            known = self._asked[id(tree)] = set(_asked_of_others(tree))
        return known


def may_change_attribute(name: str, trees: Iterable[ast.Module]) -> bool:
    """Whether some file may change a table that a class has by a name, as far as one can see: it is read as other tables are."""
    for tree in trees:
        harmless: set[int] = set()
        by_written_name: set[int] = set()
        for node in ast.walk(tree):
            harmless.update(map(id, _read_by(node)))
            if isinstance(node, ast.Call) and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
                by_written_name.add(id(node.func))
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id == "getattr" and id(node) not in by_written_name:
                return True
            if isinstance(node, ast.Attribute):
                if node.attr == name and id(node) not in harmless or node.attr in _BY_TEXT:
                    return True
            elif isinstance(node, ast.Name):
                is_read = not isinstance(node.ctx, ast.Load) or id(node) in harmless
                if node.id == name and not is_read or node.id in _BY_OTHER_NAMES or node.id in _BY_TEXT:
                    return True
            elif isinstance(node, ast.Constant) and node.value == name or isinstance(node, ast.MatchClass) and name in node.kwd_attrs:
                return True
    return False


def _asked_of_others(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.name
        elif isinstance(node, ast.Name) and node.id in _BY_OTHER_NAMES:
            yield "*"


def _is_plugin(decorator: ast.expr) -> bool:
    named = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(named, ast.Name) and named.id == "plugin"


def _imports_plugin(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.ImportFrom) or statement.module != "inmanta.plugins":
        return False
    return any(alias.name == "plugin" and alias.asname is None for alias in statement.names)


def _is_read(node: ast.AST, name: str) -> bool:
    """Whether a name of the module is read in a part of a file: functions may have variables by this name."""
    if isinstance(node, ast.Name):
        return node.id == name
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        return any(_is_read(child, name) for child in ast.iter_child_nodes(node))
    is_own = any(isinstance(part, ast.arg) and part.arg == name for part in ast.iter_child_nodes(node.args))
    # Defaults and decorators are none of its.
    body = [node.body] if isinstance(node, ast.Lambda) else node.body
    within = {id(part) for part in body}
    around = [child for child in ast.iter_child_nodes(node) if not is_own or id(child) not in within]
    return any(_is_read(child, name) for child in around)


def _imports_all(node: ast.AST) -> bool:
    return isinstance(node, ast.alias) and node.name == "*"


def _is_named_otherwise(tree: ast.Module, name: str) -> bool:
    """Whether a file may get hold of a value by something else than its name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in _BY_OTHER_NAMES or isinstance(node, ast.Attribute) and node.attr == name:
            return True
        if isinstance(node, ast.alias) and node.name == "*":
            return True
    return False


def _is_of_texts(trees: list[ast.Module]) -> bool:
    """Whether `translate` is what texts have, as far as one can see: the project has nothing else by this name."""
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == "translate":
            return False
        named = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None
        if named == "translate" and not isinstance(node.ctx, ast.Load):  # type: ignore[attr-defined]  # it is one of them
            return False
        if isinstance(node, ast.alias) and "translate" in (node.name, node.asname):
            return False
    return True


def _used_otherwise(tree: ast.Module, translates: bool, before: set[int]) -> Iterator[str]:
    """The names whose values a file uses in another way than to read what is in them. `before`: parts that run while it is
    imported only."""
    harmless: set[int] = set()
    copied, written = library.names_of(tree, "copy", "json")
    for node in ast.walk(tree):
        harmless.update(map(id, _read_by(node)))
        if isinstance(node, ast.Call) and len(node.args) == 1:
            is_read = translates and isinstance(node.func, ast.Attribute) and node.func.attr == "translate"
            is_plain = all(keyword.arg not in (None, "cls", "default") for keyword in node.keywords)
            is_written = is_plain and library.called_of(node, written) == "dumps"
            if is_read or is_written or library.called_of(node, copied) in ("copy", "deepcopy"):
                harmless.add(id(node.args[0]))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in _BY_OTHER_NAMES:
            yield "*"
        elif id(node) in before:
            continue
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in harmless:
            yield node.id
        elif isinstance(node, ast.Attribute):
            # The module may ask itself.
            yield node.attr
        elif isinstance(node, ast.alias) and node.name == "*":
            yield "*"


def _read_by(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of an expression of which only what is in them counts."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        yield node.value
    elif isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute):
            if node.func.attr in _METHODS:
                yield node.func.value
            if node.func.attr == "join" and isinstance(node.func.value, ast.Constant):
                yield from node.args
        elif isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS and len(node.args) == 1:
            yield node.args[0]
        elif isinstance(node.func, ast.Name) and node.func.id == "zip":
            yield from node.args
    elif isinstance(node, ast.Compare):
        yield from node.comparators
    elif isinstance(node, (ast.For, ast.comprehension)):
        yield node.iter
    elif isinstance(node, (ast.FormattedValue, ast.Starred)):
        yield node.value
    elif isinstance(node, ast.BinOp) and isinstance(node.op, _OPERATORS):
        yield from (node.left, node.right)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand
    elif isinstance(node, ast.Dict):
        yield from (value for key, value in zip(node.keys, node.values) if key is None)
    elif isinstance(node, ast.keyword) and node.arg is None:
        yield node.value
