"""Tables of a module with lists and dicts in them, such as `NAMES = {"cisco": {"ge": "GigabitEthernet"}}`.

What is in such a table could be changed by whoever gets hold of it, so it is followed through a file where it goes: into the
variables of a function, and out of these again. As the table is known, so is what stands where:

    for vendor, names in NAMES.items():     vendor: a text, names: one of the inner dicts
        if names["ge"] == name:             a text, with which anything may be done

Nobody changes the table if it is only read on all these ways, and if no list or dict of it goes anywhere else.
"""

from __future__ import annotations

import ast

from steward_host import library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

_CONTAINERS = (dict, list, set, tuple)
# Lists and dicts in each other, and values in all, at most.
_MOST_NESTED = 6
_MOST_VALUES = 10_000
# Functions that look at a list or dict and give something else.
_READING = frozenset("all any bool len repr str".split())
# Functions that give what is in a list or dict one by one, or in another list.
_PASSING = frozenset("list reversed sorted tuple".split())


def is_nested(table: object, is_constant: Callable[[object], bool]) -> bool:
    """Whether it is made of lists, dicts and constants."""
    n_values = 0
    pending = [(table, 0)]
    while pending:
        value, depth = pending.pop()
        n_values += 1
        if is_constant(value):
            continue
        if type(value) not in _CONTAINERS or depth == _MOST_NESTED or n_values > _MOST_VALUES:
            return False
        pending.extend((one, depth + 1) for one in _elements(value))
        if isinstance(value, dict) and not all(map(is_constant, value)):
            return False
    return True


class NestedTables:
    """Where what is in the tables of a file goes."""

    def __init__(
        self, tree: ast.Module, is_constant: Callable[[object], bool], is_only_plugin: Callable[[ast.FunctionDef], bool]
    ) -> None:
        """`is_only_plugin`: whether a function is called by models only, which copy what it returns."""
        self._tree = tree
        self._is_constant = is_constant
        self._is_only_plugin = is_only_plugin
        self._parents = {id(child): node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        self._copied, self._written = library.names_of(tree, "copy", "json")
        # The variables that are being followed.
        self._followed: set[tuple[int, str]] = set()

    def is_only_read(self, name: str, table: object) -> bool:
        """Whether a table is only read wherever its file names it."""
        self._followed.clear()
        return all(
            self._is_safe(node, [table])
            for node in ast.walk(self._tree)
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
        )

    def _is_safe(self, node: ast.expr, values: list[Any]) -> bool:
        """Whether an expression that may have these values is only read."""
        if all(map(self._is_constant, values)):
            return True
        parent = self._parents[id(node)]
        if isinstance(parent, ast.Subscript):
            if parent.value is not node or not isinstance(parent.ctx, ast.Load):
                return False
            return self._is_safe(parent, values if isinstance(parent.slice, ast.Slice) else _at(values, parent.slice))
        if isinstance(parent, ast.Attribute):
            return self._is_asked_safely(parent, values)
        if isinstance(parent, ast.Call):
            return self._is_given_safely(parent, node, [one for value in values for one in _iterated(value)])
        if isinstance(parent, (ast.For, ast.comprehension)) and parent.iter is node:
            return self._follow(parent.target, [one for value in values for one in _iterated(value)])
        if isinstance(parent, (ast.Assign, ast.AnnAssign)) and parent.value is node:
            targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
            return all(self._follow(target, values) for target in targets)
        if isinstance(parent, ast.BoolOp) or isinstance(parent, ast.IfExp) and parent.test is not node:
            return self._is_safe(parent, values)
        if isinstance(parent, (ast.If, ast.IfExp, ast.While, ast.Assert)):
            return parent.test is node
        if self._is_returned(node):
            return True
        if isinstance(parent, (ast.Starred, ast.keyword, ast.Dict)):
            # In another list or dict.
            within = _iterated if isinstance(parent, ast.Starred) else _elements
            return not _is_value(parent, node) and all(self._is_constant(one) for value in values for one in within(value))
        if isinstance(parent, ast.UnaryOp):
            return isinstance(parent.op, ast.Not)
        return isinstance(parent, (ast.Compare, ast.FormattedValue))

    def _is_returned(self, node: ast.expr) -> bool:
        """Whether a plugin returns it, alone or in a list or dict that it makes for that."""
        above: ast.AST = self._parents[id(node)]
        while isinstance(above, (ast.BoolOp, ast.Dict, ast.IfExp, ast.List, ast.Starred, ast.Tuple)):
            above = self._parents[id(above)]
        function = self._function_of(above) if isinstance(above, ast.Return) else None
        return isinstance(function, ast.FunctionDef) and self._is_only_plugin(function)

    def _is_asked_safely(self, attribute: ast.Attribute, values: list[Any]) -> bool:
        """The same of what a method of it gives."""
        call = self._parents[id(attribute)]
        if not isinstance(call, ast.Call) or call.func is not attribute or call.keywords:
            return False
        if attribute.attr in ("count", "index", "keys"):
            return True
        if attribute.attr == "get" and call.args and not isinstance(call.args[0], ast.Starred):
            return self._is_safe(call, _at(values, call.args[0]))
        if attribute.attr == "values":
            return self._is_iterated_safely(call, [one for value in values for one in _elements(value)])
        if attribute.attr == "items":
            return self._is_iterated_safely(call, [one for value in values if isinstance(value, dict) for one in value.items()])
        return False

    def _is_given_safely(self, call: ast.Call, node: ast.expr, elements: list[Any]) -> bool:
        """The same of what a function that Python has makes of it. `elements`: what one gets by going through it."""
        if call.args[:1] == [node] and self._is_copied(call):
            return True
        if not isinstance(call.func, ast.Name) or call.keywords or call.args != [node]:
            return isinstance(call.func, ast.Name) and call.func.id == "isinstance" and call.args[:1] == [node]
        if call.func.id in _READING:
            return True
        if call.func.id == "enumerate":
            return self._is_iterated_safely(call, [(0, one) for one in elements])
        return call.func.id in _PASSING and self._is_iterated_safely(call, elements)

    def _is_copied(self, call: ast.Call) -> bool:
        """Whether a function makes something else of all that is in it, however deep."""
        if library.called_of(call, self._copied) == "deepcopy":
            return len(call.args) == 1 and not call.keywords
        is_plain = not any(keyword.arg in (None, "cls", "default") for keyword in call.keywords)
        return library.called_of(call, self._written) == "dumps" and is_plain

    def _is_iterated_safely(self, node: ast.expr, elements: list[Any]) -> bool:
        """Whether an expression in which these values are is only gone through, and they are only read."""
        if all(map(self._is_constant, elements)):
            return True
        parent = self._parents[id(node)]
        if isinstance(parent, (ast.For, ast.comprehension)) and parent.iter is node:
            return self._follow(parent.target, elements)
        return isinstance(parent, ast.Call) and self._is_given_safely(parent, node, elements)

    def _follow(self, target: ast.expr, values: list[Any]) -> bool:
        """Whether a variable that gets one of these values is only read."""
        if all(map(self._is_constant, values)):
            return True
        if isinstance(target, (ast.Tuple, ast.List)):
            kept = [[*_iterated(value)] for value in values]
            if any(isinstance(one, ast.Starred) for one in target.elts) or any(len(one) != len(target.elts) for one in kept):
                return False
            return all(self._follow(one, [value[at] for value in kept]) for at, one in enumerate(target.elts))
        function = self._function_of(target)
        if not isinstance(target, ast.Name) or function is None or (id(function), target.id) in self._followed:
            return False
        self._followed.add((id(function), target.id))
        is_safe = all(
            target.id not in node.names
            if isinstance(node, (ast.Global, ast.Nonlocal))
            else self._is_safe(node, values)
            if isinstance(node, ast.Name) and node.id == target.id and isinstance(node.ctx, ast.Load)
            else not isinstance(node, ast.AugAssign) or not isinstance(node.target, ast.Name) or node.target.id != target.id
            for node in ast.walk(function)
        )
        self._followed.discard((id(function), target.id))
        return is_safe

    def _function_of(self, node: ast.AST) -> ast.AST | None:
        """The outermost function that it stands in."""
        found = None
        above: ast.AST | None = node
        while above is not None:
            if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                found = above
            above = self._parents.get(id(above))
        return found


def _is_value(parent: ast.AST, node: ast.expr) -> bool:
    """Whether it is put into a dict, or given to a function, as it is."""
    if isinstance(parent, ast.Dict):
        return not any(key is None and value is node for key, value in zip(parent.keys, parent.values))
    return isinstance(parent, ast.keyword) and parent.arg is not None


def _elements(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, _CONTAINERS) else ()


def _iterated(value: Any) -> Iterator[Any]:
    """What one gets by going through a value."""
    return iter(value) if isinstance(value, (*_CONTAINERS, str)) else iter(())


def _at(values: list[Any], index: ast.expr) -> list[Any]:
    """What may stand at an index of one of some values."""
    found: list[Any] = []
    for value in values:
        if not isinstance(index, ast.Constant):
            found.extend(_elements(value))
        elif isinstance(value, dict):
            found.extend([value[index.value]] if index.value in value else [])
        elif isinstance(value, (list, tuple)) and isinstance(index.value, int) and index.value < len(value):
            found.append(value[index.value])
    return found
