"""Classes of references that are nothing but their arguments, such as

    @reference("vault::Secret")
    class Secret(Reference[str]):
        def __init__(self, path: str | Reference[str]) -> None:
            super().__init__()
            self.path = path

        def resolve(self, logger):
            ...

and functions that make such references only to hand them on. A reference of such a class can be made again from its arguments,
so the compiler keeps what such a function gave (`purity`). What the class does to find the value (`resolve`) may be anything: it runs
when a resource is deployed. A function could run it too, so all that a function may do with a reference is to return it, alone or in
lists and dicts, and to give it to another reference.
"""

from __future__ import annotations

import ast
import sys
from types import FunctionType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

# What a class may have of its own, of all that its base has.
_OWN = frozenset(("__init__", "__repr__", "__str__", "resolve"))
# What no code of the project may set: it would be the class's.
_FIXED = frozenset(
    "__eq__ __getattribute__ __hash__ __init__ __repr__ __str__ arguments get_reference_type serialize serialize_arguments".split()
)
# What each class has, and what its decorator sets.
_GIVEN = frozenset(
    "__annotate__ __annotate_func__ __annotations__ __annotations_cache__ __classcell__ __dict__ __doc__ __firstlineno__ __module__"
    " __orig_bases__ __parameters__ __qualname__ __static_attributes__ __weakref__ type".split()
)


# Classes of which no value has a reference in it.
_SCALARS = ("bool", "bytes", "float", "int", "str")


class PlainReferences:
    """What is known of the classes of some files."""

    def __init__(
        self,
        tree: Callable[[str], ast.Module | None],
        is_pure: Callable[[object], bool],
        is_constant: Callable[[object], bool],
        changed: Callable[[], set[str]],
    ) -> None:
        """`tree`: of a file, None if it is none of the project's; `changed`: names that some code of the project sets."""
        self._tree = tree
        self._is_pure = is_pure
        self._is_constant = is_constant
        self._changed = changed
        self._known: dict[type, bool] = {}

    def is_plain(self, cls: object) -> bool:
        """Whether the references of a class are nothing but their arguments."""
        if not isinstance(cls, type) or "inmanta.references" not in sys.modules:
            return False
        known = self._known.get(cls)
        if known is None:
            # Its text could be made of another reference of its own.
            self._known[cls] = False
            try:
                known = self._look_at(cls)
            except (OSError, SyntaxError, ValueError, RecursionError):
                known = False
            self._known[cls] = known
        return known

    def _look_at(self, cls: Any) -> bool:
        from inmanta import references

        name: str = cls.__name__
        module = sys.modules.get(cls.__module__)
        file = getattr(module, "__file__", None)
        tree = None if file is None else self._tree(file)
        is_named = tree is not None and vars(module).get(name) is cls
        if tree is None or not is_named or not self._changed().isdisjoint((name, *_FIXED)):
            return False
        nodes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
        if len(nodes) != 1 or nodes[0].keywords or len(nodes[0].decorator_list) != 1:
            return False
        base = references.Reference
        if cls.__bases__ != (base,) or type(cls) is not type(base):
            return False
        if not _is_registration(nodes[0].decorator_list[0], vars(module)) or references.reference._known.get(cls.type) is not cls:
            return False
        if not all(self._is_plain_part(cls, base, part) for part in nodes[0].body):
            return False
        written = {part.name for part in nodes[0].body if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef))}
        for part in nodes[0].body:
            if isinstance(part, (ast.AnnAssign, ast.Assign)):
                written.update(node.id for node in ast.walk(part) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
        return not vars(cls).keys() - written - _GIVEN

    def _is_plain_part(self, cls: Any, base: type, part: ast.stmt) -> bool:
        """Whether a statement of a class changes nothing of what is made of its arguments."""
        if isinstance(part, (ast.AnnAssign, ast.Assign)):
            targets = part.targets if isinstance(part, ast.Assign) else [part.target]
            return all(isinstance(target, ast.Name) and not hasattr(base, target.id) for target in targets)
        if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if part.name not in _OWN:
                return not hasattr(base, part.name) and not part.name.startswith("__")
            if part.name == "resolve":
                return True
            function = vars(cls).get(part.name)
            if type(function) is not FunctionType or part.decorator_list or function.__code__.co_firstlineno != part.lineno:
                return False
            if isinstance(part, ast.FunctionDef) and part.name == "__init__":
                return self._keeps_arguments(cls, part, function)
            return self._is_pure(function)
        is_text = isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)
        return is_text or isinstance(part, ast.Pass)

    def _keeps_arguments(self, cls: Any, node: ast.FunctionDef, function: FunctionType) -> bool:
        """Whether a constructor sets an attribute for each argument, by its name, and does nothing else."""
        arguments = node.args
        if arguments.posonlyargs or arguments.vararg or arguments.kwarg or not arguments.args or "super" in function.__globals__:
            return False
        own, *names = [argument.arg for argument in (*arguments.args, *arguments.kwonlyargs)]
        defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        if not all(map(self._is_constant, defaults)) or any(hasattr(cls, name) or name.startswith("_") for name in names):
            return False
        inherited = vars(cls.__bases__[0]())
        kept: list[str] = []
        n_calls = 0
        for statement in node.body:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                continue
            if isinstance(statement, ast.Expr) and ast.unparse(statement) == "super().__init__()":
                n_calls += 1
                continue
            targets: list[ast.expr]
            if isinstance(statement, ast.Assign):
                targets, value = statement.targets, statement.value
            elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
                targets, value = [statement.target], statement.value
            else:
                return False
            target = targets[0]
            is_own = isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == own
            if len(targets) != 1 or not is_own:
                return False
            attribute: str = target.attr  # type: ignore[attr-defined]  # it is an attribute
            if attribute.startswith("_"):
                # No argument, and made again with the others.
                is_given = isinstance(value, ast.Name) and value.id in names
                if attribute in inherited or hasattr(cls, attribute) or not (is_given or isinstance(value, ast.Constant)):
                    return False
            elif isinstance(value, ast.Name) and value.id == attribute:
                kept.append(attribute)
            else:
                return False
        return n_calls == 1 and sorted(kept) == sorted(names)


def _is_registration(decorator: ast.expr, known: dict[str, Any]) -> bool:
    """Whether it is `@reference("name")`."""
    from inmanta import references

    if not isinstance(decorator, ast.Call) or decorator.keywords or len(decorator.args) != 1:
        return False
    named = decorator.func
    if isinstance(named, ast.Name):
        return known.get(named.id) is references.reference
    is_attribute = isinstance(named, ast.Attribute) and isinstance(named.value, ast.Name) and named.attr == "reference"
    return is_attribute and known.get(named.value.id) is references  # type: ignore[attr-defined]  # it is an attribute


class HandedOn:
    """What a function does with the references that it makes or is given."""

    def __init__(
        self, node: ast.FunctionDef | ast.Lambda, parts: list[ast.AST], makers: dict[str, bool], outside: Iterable[str]
    ) -> None:
        """`parts`: of the function's statements; `makers`: the names of what makes references, and whether it only hands on what
        it is given; `outside`: the names of its module that it uses."""
        self._parts = parts
        self._makers = makers
        arguments = node.args
        self.arguments = {
            argument.arg
            for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
            if argument is not None
        }
        named = {part.id for part in parts if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load)}
        set_names = {*self.arguments, *named, *outside}
        self._is_asked = "isinstance" not in set_names
        self._scalars = {*_SCALARS} - set_names
        # Arguments that nothing in the function gives another value.
        self._kept = self.arguments - named - {*_bound_by(parts)}
        # What a function within does with its variables is not looked at.
        is_simple = not any(isinstance(part, (ast.FunctionDef, ast.Lambda)) for part in parts)
        self._variables = {*self.arguments, *filter(None, map(_set_by, parts))} if is_simple else set()
        is_settled = False
        while not is_settled:
            self._allowed = {id(part) for part in self._handed_on()} if is_simple else set()
            wrong = {
                part.id
                for part in parts
                if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load) and id(part) not in self._allowed
            }
            is_settled = self._variables.isdisjoint(wrong)
            self._variables -= wrong

    def allows(self, name: ast.Name) -> bool:
        """Whether what makes a reference is called, and the reference is only handed on."""
        return id(name) in self._allowed

    def passes_arguments(self) -> bool:
        """Whether the same is true of all arguments."""
        return self.arguments <= self._variables

    def _handed_on(self) -> Iterator[ast.AST]:
        """The parts whose values are only handed on, if those of `_variables` are."""
        for part in self._parts:
            if isinstance(part, ast.Return) and part.value is not None:
                yield from self._within(part.value)
            elif isinstance(part, (ast.Assign, ast.AnnAssign)) and part.value is not None:
                target = part.targets[0] if isinstance(part, ast.Assign) else part.target
                if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
                    # Into a dict that is handed on.
                    yield target.value
                    target = target.value
                if isinstance(target, ast.Name) and target.id in self._variables and len(getattr(part, "targets", "1")) == 1:
                    yield from self._within(part.value)
            elif isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and isinstance(part.func.value, ast.Name):
                if part.func.attr == "append" and len(part.args) == 1 and not part.keywords:
                    yield part.func.value
                    if part.func.value.id in self._variables:
                        yield from self._within(part.args[0])
            elif isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "isinstance":
                if self._is_asked:
                    yield from part.args[:1]
            elif isinstance(part, ast.Compare):
                if all(isinstance(one, (ast.Is, ast.IsNot)) for one in part.ops) and all(map(_is_null, part.comparators)):
                    yield part.left
            elif isinstance(part, ast.BoolOp) and isinstance(part.op, ast.And):
                for at, value in enumerate(part.values):
                    yield from self._no_references(value, part.values[at + 1 :])
            elif isinstance(part, ast.If):
                yield from self._no_references(part.test, part.body)
            elif isinstance(part, ast.IfExp):
                yield from self._no_references(part.test, [part.body])

    def _no_references(self, test: ast.expr, parts: Iterable[ast.AST]) -> Iterator[ast.AST]:
        """Where an argument is used behind a test that it is a text or a number."""
        tests = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
        names = set(filter(None, map(self._scalar_of, tests)))
        for part in parts:
            for node in ast.walk(part) if names else ():
                if isinstance(node, ast.Name) and node.id in names:
                    yield node

    def _scalar_of(self, test: ast.expr) -> str | None:
        """The argument that is a text or a number if a test holds."""
        if not self._is_asked or not isinstance(test, ast.Call) or not isinstance(test.func, ast.Name) or test.func.id != "isinstance":
            return None
        if len(test.args) != 2 or not isinstance(test.args[0], ast.Name) or test.args[0].id not in self._kept:
            return None
        classes = test.args[1].elts if isinstance(test.args[1], ast.Tuple) else [test.args[1]]
        is_scalar = all(isinstance(one, ast.Name) and one.id in self._scalars for one in classes)
        return test.args[0].id if is_scalar else None

    def _within(self, node: ast.expr) -> Iterator[ast.AST]:
        yield node
        inner: Iterable[ast.expr] = ()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in self._makers:
            yield node.func
            if not self._makers[node.func.id]:
                return
            inner = (*node.args, *(keyword.value for keyword in node.keywords if keyword.arg is not None))
        elif isinstance(node, (ast.List, ast.Tuple)):
            inner = node.elts
        elif isinstance(node, ast.Dict):
            inner = node.values
        elif isinstance(node, ast.IfExp):
            inner = (node.body, node.orelse)
        elif isinstance(node, ast.ListComp):
            inner = (node.elt,)
        elif isinstance(node, ast.DictComp):
            inner = (node.value,)
        for part in inner:
            yield from self._within(part)


def _bound_by(parts: list[ast.AST]) -> Iterator[str]:
    """The names that are set by something else than a name."""
    for part in parts:
        if isinstance(part, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and part.name is not None:
            yield part.name
        elif isinstance(part, ast.MatchMapping) and part.rest is not None:
            yield part.rest


def _is_null(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _set_by(part: ast.AST) -> str | None:
    """The variable that a statement sets to one value."""
    if isinstance(part, ast.Assign) and len(part.targets) == 1:
        target = part.targets[0]
    elif isinstance(part, ast.AnnAssign):
        target = part.target
    else:
        return None
    return target.id if isinstance(target, ast.Name) else None
