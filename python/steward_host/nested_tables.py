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
_ARITHMETIC = (ast.Add, ast.Div, ast.FloorDiv, ast.Sub)
# Functions that look at a list or dict and give something else.
_READING = frozenset("all any bool float int len repr str".split())
# Methods of texts, which lists and dicts have not.
_OF_TEXTS = frozenset(
    "casefold encode endswith isdigit lower lstrip removeprefix removesuffix replace rsplit rstrip split splitlines startswith strip title"
    " upper zfill".split()
)
# Functions that give what is in a list or dict one by one, or in another list.
_PASSING = frozenset("list reversed sorted tuple".split())
# Functions that may be given another function by which they put what they go through in order.
_ORDERING = frozenset("max min sorted".split())


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
        # What the table is called.
        self._name = ""
        # The variables that are being followed.
        self._followed: set[tuple[int, str]] = set()

    def is_only_read(self, name: str, table: object) -> bool:
        """Whether a table is only read wherever its file names it."""
        self._followed.clear()
        self._name = name
        return all(
            self._is_safe(node, [table])
            for node in ast.walk(self._tree)
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
        )

    def is_value_only_read(self, nodes: list[ast.expr], value: object) -> bool:
        """The same of a value that some expressions have."""
        self._followed.clear()
        self._name = ""
        return all(self._is_safe(node, [value]) for node in nodes)

    def is_call_only_read(self, name: str, value: object) -> bool:
        """The same of what a function gives, which nobody does anything with but to call it."""
        named = [node for node in ast.walk(self._tree) if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)]
        calls: list[ast.expr] = []
        for node in named:
            call = self._parents[id(node)]
            if not isinstance(call, ast.Call) or call.func is not node:
                return False
            calls.append(call)
        return self.is_value_only_read(calls, value)

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
            return self._is_given_safely(parent, node, values, [one for value in values for one in _iterated(value)])
        if isinstance(parent, (ast.For, ast.comprehension)) and parent.iter is node:
            return self._follow(parent.target, [one for value in values for one in _iterated(value)])
        if isinstance(parent, ast.comprehension):
            # One of its conditions.
            return parent.target is not node
        if isinstance(parent, (ast.Assign, ast.AnnAssign)) and parent.value is node:
            return self._is_set_safely(parent, values)
        if isinstance(parent, ast.BoolOp) or isinstance(parent, ast.IfExp) and parent.test is not node:
            return self._is_safe(parent, values)
        if isinstance(parent, (ast.If, ast.IfExp, ast.While, ast.Assert)):
            return parent.test is node
        if self._is_returned(node):
            return True
        if isinstance(parent, (ast.Starred, ast.keyword, ast.Dict)):
            # In another list or dict.
            within = _iterated if isinstance(parent, ast.Starred) else _elements
            if isinstance(parent, ast.keyword) and parent.arg is None and _is_formatting(self._parents[id(parent)]):
                return True
            return not _is_value(parent, node) and all(self._is_constant(one) for value in values for one in within(value))
        if isinstance(parent, ast.UnaryOp):
            return isinstance(parent.op, ast.Not)
        if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mod):
            # Into a text.
            return parent.right is node and isinstance(parent.left, ast.Constant)
        if isinstance(parent, ast.BinOp):
            other = parent.left if parent.right is node else parent.right
            if isinstance(parent.op, ast.Mult):
                # Of a list it makes one with the same in it.
                return isinstance(other, ast.Constant) and self._is_safe(parent, values)
            # With a text or a number it is one.
            return isinstance(parent.op, _ARITHMETIC) and isinstance(other, (ast.JoinedStr, ast.Constant))
        return isinstance(parent, (ast.Compare, ast.FormattedValue))

    def _is_set_safely(self, statement: ast.Assign | ast.AnnAssign, values: list[Any], is_copy: bool = False) -> bool:
        """Whether the variables that get one of these values, or a copy of one, are only read."""
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return all(self._follow(target, values, is_copy) for target in targets)

    def _is_copy_safe(self, node: ast.expr, values: list[Any]) -> bool:
        """Whether what is in a new list or dict, with the same in it as one of these values, is only read."""
        if all(self._is_constant(one) for value in values for one in _elements(value)):
            return True
        parent = self._parents[id(node)]
        if isinstance(parent, ast.Subscript) and parent.value is node and not isinstance(parent.ctx, ast.Load):
            # What is put there, or taken away, is put into the copy; `+=` changes what is there.
            return not isinstance(self._parents[id(parent)], ast.AugAssign)
        if isinstance(parent, (ast.Assign, ast.AnnAssign)) and parent.value is node:
            return self._is_set_safely(parent, values, is_copy=True)
        if isinstance(parent, ast.Attribute) and parent.attr == "update":
            call = self._parents[id(parent)]
            return isinstance(call, ast.Call) and call.func is parent and isinstance(self._parents[id(call)], ast.Expr)
        return self._is_safe(node, values)

    def _is_set_once(self) -> bool:
        """Whether the table's name stands for the table wherever it is named."""
        return sum(isinstance(node, ast.Name) and node.id == self._name and isinstance(node.ctx, ast.Store) for node in ast.walk(self._tree)) == 1

    def _is_own_dict(self, node: ast.expr) -> bool:
        """Whether it is a variable that has nothing but dicts which its function makes."""
        function = self._function_of(node)
        if not isinstance(node, ast.Name) or not isinstance(function, ast.FunctionDef):
            return False
        made: set[int] = set()
        for part in ast.walk(function):
            if isinstance(part, (ast.Assign, ast.AnnAssign)) and _makes_dict(part.value):
                made.update(map(id, part.targets if isinstance(part, ast.Assign) else [part.target]))
        for part in ast.walk(function):
            if isinstance(part, ast.Name) and part.id == node.id and not isinstance(part.ctx, ast.Load) and id(part) not in made:
                return False
            if isinstance(part, ast.arg) and part.arg == node.id or isinstance(part, (ast.Global, ast.Nonlocal)) and node.id in part.names:
                return False
        return bool(made)

    def _is_returned(self, node: ast.expr) -> bool:
        """Whether a plugin returns it, alone or in a list or dict that it makes for that."""
        above: ast.AST = self._parents[id(node)]
        while isinstance(above, (ast.BoolOp, ast.Dict, ast.DictComp, ast.IfExp, ast.List, ast.ListComp, ast.Starred, ast.Tuple)):
            above = self._parents[id(above)]
        function = self._function_of(above) if isinstance(above, ast.Return) else None
        return isinstance(function, ast.FunctionDef) and self._is_only_plugin(function)

    def _is_asked_safely(self, attribute: ast.Attribute, values: list[Any]) -> bool:
        """The same of what a method of it gives."""
        call = self._parents[id(attribute)]
        if not isinstance(call, ast.Call) or call.func is not attribute or call.keywords:
            return False
        if attribute.attr in ("count", "index", "keys") or attribute.attr in _OF_TEXTS:
            return True
        if attribute.attr == "copy":
            return not call.args and self._is_copy_safe(call, values)
        if attribute.attr == "get" and call.args and not isinstance(call.args[0], ast.Starred):
            return self._is_safe(call, _at(values, call.args[0]))
        if attribute.attr == "values":
            return self._is_iterated_safely(call, [one for value in values for one in _elements(value)])
        if attribute.attr == "items":
            return self._is_iterated_safely(call, [one for value in values if isinstance(value, dict) for one in value.items()])
        return False

    def _is_given_safely(self, call: ast.Call, node: ast.expr, values: list[Any], elements: list[Any]) -> bool:
        """The same of what a function that Python has makes of it, or a method of a text or dict. `elements`: what one gets by going through it."""
        if call.args[:1] == [node] and self._is_copied(call) or _is_formatting(call):
            return True
        if _is_method(call, "join") and isinstance(call.func.value, ast.Constant):  # type: ignore[attr-defined]  # it is an attribute
            # Into a text.
            return True
        if _is_method(call, "get") and call.args[1:] == [node] and not call.keywords:
            # In the place of what is not in the table.
            of = call.func.value  # type: ignore[attr-defined]  # it is an attribute
            return isinstance(of, ast.Name) and of.id == self._name and self._is_set_once() and self._is_safe(call, values)
        if _is_method(call, "update") and call.args == [node] and not call.keywords:
            is_flat = all(self._is_constant(one) for value in values for one in _elements(value))
            return is_flat and self._is_own_dict(call.func.value)  # type: ignore[attr-defined]  # it is an attribute
        if isinstance(call.func, ast.Name) and call.func.id in _ORDERING and call.args == [node] and self._is_ordered_safely(call, elements):
            gives = self._is_iterated_safely if call.func.id == "sorted" else self._is_safe
            return gives(call, elements)
        if not isinstance(call.func, ast.Name) or call.keywords or call.args != [node]:
            return isinstance(call.func, ast.Name) and call.func.id == "isinstance" and call.args[:1] == [node]
        if call.func.id in _READING:
            return True
        if call.func.id == "dict":
            return all(isinstance(value, dict) for value in values) and self._is_copy_safe(call, values)
        if call.func.id == "enumerate":
            return self._is_iterated_safely(call, [(0, one) for one in elements])
        return call.func.id in _PASSING and self._is_iterated_safely(call, elements)

    def _is_ordered_safely(self, call: ast.Call, elements: list[Any]) -> bool:
        """Whether the function by which elements are put in order, which is written there, only reads them."""
        keys = [keyword.value for keyword in call.keywords if keyword.arg == "key"]
        others = [keyword for keyword in call.keywords if keyword.arg not in ("key", "reverse")]
        if len(keys) != 1 or others or not isinstance(keys[0], ast.Lambda):
            return False
        arguments = keys[0].args
        is_one = len(arguments.args) == 1 and not (arguments.posonlyargs or arguments.kwonlyargs or arguments.vararg or arguments.kwarg or arguments.defaults)
        if not is_one:
            return False
        name = arguments.args[0].arg
        parts = [*ast.walk(keys[0].body)]
        if any(isinstance(part, (ast.Lambda, ast.NamedExpr, ast.comprehension)) for part in parts):
            return False
        return all(self._is_safe(part, elements) for part in parts if isinstance(part, ast.Name) and part.id == name)

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
        return isinstance(parent, ast.Call) and self._is_given_safely(parent, node, [elements], elements)

    def _follow(self, target: ast.expr, values: list[Any], is_copy: bool = False) -> bool:
        """Whether a variable that gets one of these values is only read; `is_copy`: or a copy, of which only what is in it counts."""
        if all(map(self._is_constant, values)):
            return True
        is_read = self._is_copy_safe if is_copy else self._is_safe
        if isinstance(target, (ast.Tuple, ast.List)):
            if is_copy:
                return False
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
            else is_read(node, values)
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


def _makes_dict(value: ast.expr | None) -> bool:
    is_called = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "dict"
    return is_called or isinstance(value, (ast.Dict, ast.DictComp))


def _is_method(call: ast.Call, name: str) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == name


def _is_formatting(call: ast.AST) -> bool:
    """Whether it puts what it is given into a text that is written there."""
    return isinstance(call, ast.Call) and _is_method(call, "format") and isinstance(call.func.value, ast.Constant)  # type: ignore[attr-defined]


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
