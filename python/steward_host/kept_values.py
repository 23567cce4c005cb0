"""Lists and dicts that functions of a project make once and keep, such as

    _sites = None

    def sites():
        global _sites
        if _sites is None:
            with open(SITES) as file:
                _sites = yaml.safe_load(file)
        return _sites

    @functools.lru_cache
    def ports(vendor: str) -> dict:
        return {port: f"{vendor}-{port}" for port in range(48)}

A function that has such a value still only computes (`purity`), whether or not it was the first to ask for it: what is kept is made of
nothing that differs from one call to the next, and all that have it only read it (`nested_tables`), however deep. What is in it has to be
data, which does not change by being read: neither an iterator, which can be gone through once, nor an object with methods of its own.

Who reads a file for that does so once only, so later calls do not show it. Hence a function without arguments that keeps what it reads is
called before it is noted what a plugin reads that has its value, and the files are noted for each call (`Computing.kept_files`).
"""

from __future__ import annotations

import ast
import collections
import sys
from types import FunctionType

from steward_host import library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
# Functions of Python that give data if they are given data.
_GIVING = frozenset(
    "abs all any bool dict float frozenset int isinstance len list max min open range repr round set sorted str sum tuple".split()
)
# Those that go through an iterator, so that nothing of it is left.
_EXHAUSTING = frozenset("all any dict frozenset len list max min set sorted sum tuple".split())
_ITERATING = frozenset("enumerate filter map reversed zip".split())
# The same of methods of texts, lists, dicts, sets and open files.
_METHODS = frozenset(
    "add append capitalize casefold copy count decode encode endswith extend format get group groups index insert isdigit items join keys lower"
    " lstrip partition read read_bytes read_text readlines removeprefix removesuffix replace rpartition rsplit rstrip setdefault sort split"
    " splitlines startswith strip title update upper values zfill".split()
)
# The same of the library.
_OF_LIBRARY = {
    "ipaddress": "ip_address ip_interface ip_network",
    "json": "load loads",
    "os.path": "abspath basename dirname join",
    "posixpath": "abspath basename dirname join",
    "pathlib": "Path PosixPath",
    "re": "findall fullmatch match search split sub",
    "tomllib": "load loads",
    "yaml": "safe_load",
}
# Expressions whose values are data if all in them are.
_MAKING = (ast.Dict, ast.DictComp, ast.JoinedStr, ast.List, ast.ListComp, ast.Set, ast.SetComp, ast.Tuple)


class Anything(dict):  # type: ignore[type-arg]  # all of them
    """Some data, of which nothing is known: in it may be more of the same."""

    def values(self) -> list[Anything]:  # type: ignore[override]  # as it is gone through
        return [self]

    def items(self) -> list[tuple[str, Anything]]:  # type: ignore[override]
        return [("", self)]

    def __iter__(self) -> Iterator[Anything]:
        return iter([self])

    def __contains__(self, key: object) -> bool:
        return True

    def __getitem__(self, key: object) -> Anything:
        return self


class LazyValue:
    """Where a function makes the value of a name of its module, unless it has one."""

    def __init__(self, made_in: list[ast.stmt], own: set[int], is_returned: bool) -> None:
        # The statements that make it.
        self.made_in = made_in
        # The parts of the function that look whether it has one, give it the value, and return it.
        self.own = own
        # Whether the function returns the value in the end, and does nothing else with it.
        self.is_returned = is_returned


def lazy_value(name: str, node: ast.FunctionDef, tree: ast.Module) -> LazyValue | None:
    """How a function makes the value of a name of its module; None: it does so in another way, or another one does so, too."""
    stores = [part for part in ast.walk(tree) if isinstance(part, ast.Name) and part.id == name and not isinstance(part.ctx, ast.Load)]
    within = {id(part) for part in ast.walk(node)}
    if len(stores) != 2 or sum(id(store) in within for store in stores) != 1 or not any(map(_is_nothing, tree.body, [name] * len(tree.body))):
        return None
    declared = [part for part in ast.walk(tree) if isinstance(part, (ast.Global, ast.Nonlocal)) and name in part.names]
    if len(declared) != 1 or declared[0] not in node.body:
        return None
    if any(_is_called(part, name) for part in ast.walk(tree)):
        return None
    body = [statement for statement in node.body if not _is_text(statement) and not isinstance(statement, ast.Global)]
    if len(body) < 2 or not isinstance(body[0], ast.If) or body[0].orelse:
        return None
    test, inner = body[0].test, body[0].body
    own = {id(part) for part in ast.walk(test)}
    if _is_missing(test, name):
        made_in, rest = inner, body[1:]
    elif _is_there(test, name) and len(inner) == 1 and _is_name_returned(inner[0], name):
        own.update(id(part) for part in ast.walk(inner[0]))
        at = next((at for at, statement in enumerate(body[1:], 1) if _last(statement, name) is not None), None)
        if at is None:
            return None
        made_in, rest = body[1 : at + 1], body[at + 1 :]
    else:
        return None
    stored = _last(made_in[-1], name)
    parts = [part for statement in made_in for part in ast.walk(statement)]
    if stored is None or any(isinstance(part, (ast.Return, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom, ast.Try)) for part in parts):
        return None
    loaded = {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}
    ids = {id(part) for part in parts}
    arguments = {part.arg for part in ast.walk(node.args) if isinstance(part, ast.arg)}
    others = {
        part.id
        for part in ast.walk(node)
        if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load) and id(part) not in ids
    }
    if name in loaded or not loaded.isdisjoint(arguments | others):
        return None
    own.update(map(id, ast.walk(stored)))
    is_returned = len(rest) == 1 and _is_name_returned(rest[0], name)
    if is_returned:
        own.update(map(id, ast.walk(rest[0])))
    return LazyValue(made_in, own, is_returned)


def takes_nothing(node: ast.FunctionDef) -> bool:
    return not [part for part in ast.walk(node.args) if isinstance(part, ast.arg)]


def takes_texts(node: ast.FunctionDef) -> bool:
    """Whether all arguments of a function are meant as texts: the numbers 1 and 1.0 and the truth value True are the same to what keeps
    results."""
    arguments = node.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    if arguments.vararg is not None or arguments.kwarg is not None:
        return False
    return all(
        isinstance(one.annotation, ast.Name) and one.annotation.id == "str"
        or isinstance(one.annotation, ast.Constant) and one.annotation.value in ("str", "string")
        for one in named
    )


def are_data(
    statements: list[ast.stmt], known: dict[str, object], definition: Callable[[FunctionType], ast.AST | None], name: str = ""
) -> bool:
    """Whether all that some statements of a function make is data. `name`: what they give a value, of all that is in its module."""
    return _Data(known, definition, name).are_data(statements)


class _Data:
    def __init__(self, known: dict[str, object], definition: Callable[[FunctionType], ast.AST | None], name: str) -> None:
        self._name = name
        self._known = known
        self._definition = definition
        self._open: set[FunctionType] = set()

    def are_data(self, statements: list[ast.stmt]) -> bool:
        written = [part for statement in statements for part in ast.walk(statement)]
        hints = {id(part) for one in written if isinstance(one, ast.AnnAssign) for part in ast.walk(one.annotation)}
        parts = [part for part in written if id(part) not in hints]
        if any(isinstance(part, (*_FUNCTIONS, ast.ClassDef, ast.Yield, ast.YieldFrom, ast.Await, ast.Starred)) for part in parts):
            return False
        above = {id(child): part for part in parts for child in ast.iter_child_nodes(part)}
        called = {id(part.func) for part in parts if isinstance(part, ast.Call)}
        own = {part.id for part in parts if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load)}
        for part in parts:
            if isinstance(part, ast.GeneratorExp) and not _is_exhausted(part, above):
                return False
            if isinstance(part, ast.Call) and not self._gives_data(part, above, own):
                return False
            if isinstance(part, ast.Attribute) and id(part) not in called and not isinstance(part.ctx, ast.Load):
                return False
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load) and part.id not in own and id(part) not in called:
                # A function, or a list or dict of the module, would be in what is kept.
                if not self._is_plain(self._known.get(part.id), above.get(id(part))):
                    return False
        return True

    def _is_plain(self, found: object, around: ast.AST | None) -> bool:
        if found is None or type(found) in (str, int, float, bool, bytes):
            return True
        return isinstance(around, (ast.Attribute, ast.BinOp, ast.Call)) and not isinstance(found, (dict, list, set, FunctionType))

    def _gives_data(self, call: ast.Call, above: dict[int, ast.AST], own: set[str]) -> bool:
        func = call.func
        if isinstance(func, ast.Name):
            if func.id in own:
                return False
            if func.id not in self._known:
                return func.id in _GIVING or func.id in _ITERATING and _is_exhausted(call, above)
            found = self._known[func.id]
        elif isinstance(func, ast.Attribute):
            module = self._module(func.value)
            if module is None:
                return func.attr in _METHODS
            found = getattr(module, func.attr, None)
        else:
            return False
        if _is_of_library(found):
            return True
        if _is_of_collections(found):
            return found is not collections.defaultdict or _is_for_itself(call, above, self._name)
        return type(found) is FunctionType and library.module_of(found) is None and self._is_data_of(found)

    def _module(self, node: ast.expr) -> object:
        if isinstance(node, ast.Name):
            found = self._known.get(node.id)
            return found if type(found) is type(sys) else None
        module = self._module(node.value) if isinstance(node, ast.Attribute) else None
        inner = getattr(module, node.attr, None) if module is not None and isinstance(node, ast.Attribute) else None
        return inner if type(inner) is type(sys) else None

    def _is_data_of(self, function: FunctionType) -> bool:
        """The same of another function of the project."""
        node = self._definition(function)
        if function in self._open or not isinstance(node, ast.FunctionDef) or node.decorator_list:
            return False
        self._open.add(function)
        outer, self._known = self._known, function.__globals__
        try:
            # What it is given is data, too.
            return self.are_data(node.body)
        finally:
            self._known = outer
            self._open.discard(function)


def _is_of_library(found: object) -> bool:
    return found is not None and any(
        getattr(sys.modules.get(module), name, None) is found for module, names in _OF_LIBRARY.items() for name in names.split()
    )


def _is_of_collections(found: object) -> bool:
    return any(found is kind for kind in (collections.Counter, collections.OrderedDict, collections.defaultdict))


def _is_for_itself(call: ast.Call, above: dict[int, ast.AST], kept: str) -> bool:
    """Whether a dict that gets what it is asked for if it has it not is in a variable of which only what is in it goes on."""
    around = above.get(id(call))
    target = around.targets[0] if isinstance(around, ast.Assign) else around.target if isinstance(around, ast.AnnAssign) else None
    if not isinstance(target, ast.Name) or target.id == kept or not (isinstance(around, ast.AnnAssign) or len(around.targets) == 1):  # type: ignore[union-attr]
        return False
    kinds = ("dict", "float", "int", "list", "set", "str")
    if call.keywords or len(call.args) != 1 or not isinstance(call.args[0], ast.Name) or call.args[0].id not in kinds:
        return False
    for part in [part for part in above.values() if isinstance(part, ast.AST)]:
        for child in ast.iter_child_nodes(part):
            if not isinstance(child, ast.Name) or child.id != target.id or not isinstance(child.ctx, ast.Load):
                continue
            is_copied = isinstance(part, ast.Call) and part.args == [child] and isinstance(part.func, ast.Name) and part.func.id in ("dict", "len", "sorted")
            is_asked = isinstance(part, ast.Subscript) and part.value is child or isinstance(part, ast.Attribute) and part.attr != "copy"
            if not is_copied and not is_asked and not isinstance(part, ast.Compare):
                return False
    return True


def _is_exhausted(node: ast.AST, above: dict[int, ast.AST]) -> bool:
    """Whether an iterator is gone through where it is made."""
    around = above.get(id(node))
    if isinstance(around, (ast.For, ast.comprehension)):
        return around.iter is node
    if not isinstance(around, ast.Call) or node not in around.args:
        return False
    func = around.func
    is_joined = isinstance(func, ast.Attribute) and func.attr in ("join", "extend", "update")
    return is_joined or isinstance(func, ast.Name) and (func.id in _EXHAUSTING or func.id in _ITERATING and _is_exhausted(around, above))


def returns_data(node: ast.FunctionDef) -> bool:
    """Whether a function returns something in the end."""
    returned = [part.value for part in ast.walk(node) if isinstance(part, ast.Return)]
    return bool(returned) and isinstance(node.body[-1], ast.Return)


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_nothing(statement: ast.stmt, name: str) -> bool:
    """Whether a statement of a module gives a name None."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target] if isinstance(statement, ast.AnnAssign) else []
    is_name = len(targets) == 1 and isinstance(targets[0], ast.Name) and targets[0].id == name
    value = statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign)) else None
    return is_name and isinstance(value, ast.Constant) and value.value is None


def _is_called(part: ast.AST, name: str) -> bool:
    """Whether something else has this name."""
    if isinstance(part, ast.Attribute):
        return part.attr == name
    if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
        return part.name == name
    if isinstance(part, ast.alias):
        return name in (part.name, part.asname) or part.name == "*"
    return isinstance(part, ast.arg) and part.arg == name or isinstance(part, ast.Constant) and part.value == name


def _is_name(node: ast.AST | None, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _is_missing(test: ast.expr, name: str) -> bool:
    if isinstance(test, ast.UnaryOp):
        return isinstance(test.op, ast.Not) and _is_name(test.operand, name)
    return _compares(test, name, ast.Is)


def _is_there(test: ast.expr, name: str) -> bool:
    return _is_name(test, name) or _compares(test, name, ast.IsNot)


def _compares(test: ast.expr, name: str, kind: type[ast.cmpop]) -> bool:
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or type(test.ops[0]) is not kind:
        return False
    other = test.comparators[0]
    return _is_name(test.left, name) and isinstance(other, ast.Constant) and other.value is None


def _is_name_returned(statement: ast.stmt, name: str) -> bool:
    return isinstance(statement, ast.Return) and _is_name(statement.value, name)


def _last(statement: ast.stmt, name: str) -> ast.Name | None:
    """Where a statement gives a name its value as the last that it does."""
    if isinstance(statement, ast.With):
        return _last(statement.body[-1], name)
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target] if isinstance(statement, ast.AnnAssign) else []
    is_one = len(targets) == 1 and isinstance(targets[0], ast.Name) and targets[0].id == name
    return targets[0] if is_one else None  # type: ignore[return-value]  # it is a name
