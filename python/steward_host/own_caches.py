"""Dicts of a module in which one function keeps what it gave, such as

    _MASKS: dict[str, str] = {}

    @plugin
    def netmask(network: "string") -> "string":
        if network not in _MASKS:
            _MASKS[network] = str(ipaddress.ip_network(network).netmask)
        return _MASKS[network]

Such a function still only computes (`purity`) if the rest of it does: whether there was an entry cannot be seen by what it returns. So
nobody else may name the dict, which is empty at first, all arguments are in the key, meant as texts (as in `cached_functions`), and the
function has one of the forms below, in which it returns the entry and does nothing else with it. It has to be a plugin that no code calls: what
plugins return is copied, and others could change it.
"""

from __future__ import annotations

import ast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def is_own_cache(name: str, node: ast.FunctionDef, tree: ast.Module, others: Iterable[ast.Module]) -> bool:
    """Whether a dict by this name of a file is that of a function, which is a plugin that no code calls."""
    own = {id(part) for part in ast.walk(node)}
    is_made = False
    for part in ast.walk(tree):
        if isinstance(part, ast.Name) and part.id in (name, *_BY_OTHER_NAMES) and id(part) not in own:
            if part.id != name or isinstance(part.ctx, ast.Load) or is_made:
                return False
            is_made = True
        elif isinstance(part, ast.Attribute) and part.attr == name or isinstance(part, ast.alias) and part.name in ("*", name):
            return False
        elif isinstance(part, ast.Constant) and part.value == name:
            return False
    if any(_names(other, name) for other in others) or not any(map(_makes_empty, tree.body, [name] * len(tree.body))):
        return False
    arguments = _texts(node)
    return arguments is not None and _is_of_form(node, name, arguments)


_BY_OTHER_NAMES = ("eval", "exec", "globals", "locals", "vars")


def _names(tree: ast.Module, name: str) -> bool:
    return any(
        isinstance(part, ast.Attribute) and part.attr == name
        or isinstance(part, ast.alias) and part.name == name
        or isinstance(part, ast.Constant) and part.value == name
        for part in ast.walk(tree)
    )


def _makes_empty(statement: ast.stmt, name: str) -> bool:
    target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
    value = statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign)) else None
    return isinstance(target, ast.Name) and target.id == name and isinstance(value, ast.Dict) and not value.keys


def _texts(node: ast.FunctionDef) -> set[str] | None:
    """The arguments, if all of them are meant as texts."""
    arguments = node.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    if arguments.vararg is not None or arguments.kwarg is not None or not named:
        return None
    for argument in named:
        annotation = argument.annotation
        text = annotation.id if isinstance(annotation, ast.Name) else annotation.value if isinstance(annotation, ast.Constant) else None
        if text not in ("str", "string"):
            return None
    return {argument.arg for argument in named}


def _is_of_form(node: ast.FunctionDef, name: str, arguments: set[str]) -> bool:
    body = [statement for statement in node.body if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))]
    parts = [part for statement in body for part in ast.walk(statement)]
    if any(isinstance(part, (ast.FunctionDef, ast.Lambda, ast.Yield, ast.YieldFrom, ast.Global, ast.Nonlocal)) for part in parts):
        return False
    if any(part.id in arguments for part in parts if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load)):
        return False
    cache = _Cache(name, arguments, parts)
    if len(body) == 2 and isinstance(body[0], ast.If) and not body[0].orelse:
        # `if key not in CACHE: CACHE[key] = …`, and the entry is returned.
        is_missing = cache.is_test(body[0].test, ast.NotIn) and cache.stores(body[0].body) and cache.is_entry(_returned(body[1]))
        return is_missing and cache.is_used(3)
    if len(body) > 2 and isinstance(body[0], ast.If) and not body[0].orelse and len(body[0].body) == 1:
        # `if key in CACHE: return CACHE[key]`, then the entry is made and returned.
        is_there = cache.is_test(body[0].test, ast.In) and cache.is_entry(_returned(body[0].body[0]))
        stored, given = body[1:-1], _returned(body[-1])
        if not is_there or not cache.stores(stored):
            return False
        value = stored[-1].value  # type: ignore[attr-defined]  # it is an assignment
        return cache.is_entry(given) and cache.is_used(4) or _is_same_name(given, value) and cache.is_used(3)
    if len(body) == 3 and isinstance(body[0], ast.Assign) and isinstance(body[1], ast.If) and not body[1].orelse:
        # `found = CACHE.get(key)`, `if found is None: found = CACHE[key] = …`, and it is returned.
        target, given = body[0].targets[0], _returned(body[2])
        is_read = len(body[0].targets) == 1 and cache.is_get(body[0].value) and _is_same_name(given, target)
        return is_read and _is_null(body[1].test, target) and cache.sets(body[1].body, target) and cache.is_used(2)
    return False


class _Cache:
    """How a function uses the dict."""

    def __init__(self, name: str, arguments: set[str], parts: list[ast.AST]) -> None:
        self._name = name
        self._arguments = arguments
        self._uses = sum(isinstance(part, ast.Name) and part.id == name for part in parts)
        self._key: str | None = None

    def is_used(self, n_times: int) -> bool:
        """Whether it is used so often, and all arguments are in the key."""
        return self._uses == n_times and self._key is not None

    def is_test(self, test: ast.expr, kind: type[ast.cmpop]) -> bool:
        is_one = isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) is kind
        return is_one and self._is_key(test.left) and self._is_dict(test.comparators[0])  # type: ignore[attr-defined]  # it is a comparison

    def is_entry(self, node: ast.expr | None) -> bool:
        return isinstance(node, ast.Subscript) and self._is_dict(node.value) and self._is_key(node.slice)

    def is_get(self, node: ast.expr) -> bool:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or len(node.args) != 1 or node.keywords:
            return False
        return node.func.attr == "get" and self._is_dict(node.func.value) and self._is_key(node.args[0])

    def stores(self, body: list[ast.stmt]) -> bool:
        """Whether the last of some statements makes the entry; none of them leaves."""
        last = body[-1]
        is_stored = isinstance(last, ast.Assign) and len(last.targets) == 1 and self.is_entry(last.targets[0])
        return is_stored and not _leaves(body)

    def sets(self, body: list[ast.stmt], target: ast.expr) -> bool:
        """The same, and a variable has its value then."""
        last = body[-1]
        if not isinstance(last, ast.Assign) or _leaves(body):
            return False
        if len(last.targets) == 2:
            entries = [self.is_entry(one) for one in last.targets]
            return sorted(entries) == [False, True] and any(_is_same_name(one, target) for one in last.targets)
        return len(last.targets) == 1 and self.is_entry(last.targets[0]) and _is_same_name(last.value, target)

    def _is_dict(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id == self._name

    def _is_key(self, node: ast.expr) -> bool:
        """Whether it is the key, of which all arguments are parts."""
        named = node.elts if isinstance(node, ast.Tuple) else [node]
        if {one.id for one in named if isinstance(one, ast.Name)} != self._arguments or not all(isinstance(one, ast.Name) for one in named):
            return False
        written = ast.dump(node).replace("Store()", "Load()")
        self._key = self._key or written
        return self._key == written


def _leaves(body: list[ast.stmt]) -> bool:
    return any(isinstance(part, ast.Return) for statement in body for part in ast.walk(statement))


def _returned(statement: ast.stmt) -> ast.expr | None:
    return statement.value if isinstance(statement, ast.Return) else None


def _is_same_name(node: ast.expr | None, other: ast.expr) -> bool:
    return isinstance(node, ast.Name) and isinstance(other, ast.Name) and node.id == other.id


def _is_null(test: ast.expr, target: ast.expr) -> bool:
    is_one = isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Is)
    return is_one and _is_same_name(test.left, target) and ast.dump(test.comparators[0]) == ast.dump(ast.Constant(None))  # type: ignore[attr-defined]  # it is a comparison
