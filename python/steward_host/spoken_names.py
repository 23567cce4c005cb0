"""Attributes whose names a function has as texts, as in `getattr(item, name)`.

`item.name` only computes, but for names that begin with an underscore, behind which a value shows more than what it is
(`purity`). Of a name that is a text the same is known if it comes, as it is, from texts that are known: from constants, from a table
of the module, or from the arguments of a plugin, which the host looks at before a call (`has_hidden_name`). On its way it may
be taken out of a list or a dict, or be a part of a text between two signs that are no letters:

    for part in path.split("."):        path: an argument
        value = getattr(value, part)

A variable counts for what all statements of the function give it. A list that could be changed, or that somebody else could get
hold of, is not known, since other texts may come into it.
"""

from __future__ import annotations

import ast

from steward_host.computing import has_hidden_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# What is known of the texts in a value: nothing; all of them if those in the arguments are; all of them.
UNKNOWN, OF_ARGUMENTS, KNOWN = range(3)

_BY_NAME = ("getattr", "hasattr")
# Functions whose result has the texts of their arguments as they are.
_PASSING = frozenset("enumerate list reversed set sorted tuple zip".split())
# Functions that read a list, and what they give has none of its texts for sure.
_READING = frozenset(("len", "str", "repr"))
# Methods that give the texts of a list or a dict as they are.
_METHODS = frozenset(("items", "keys", "values"))


class SpokenNames:
    """What is known of the texts that a function's variables hold."""

    def __init__(self, node: ast.FunctionDef | ast.Lambda, parts: list[ast.AST], known: dict[str, object]) -> None:
        """`parts`: of the function's statements; `known`: what the names outside of it stand for, which nobody changes."""
        self._parts = parts
        self._outside = known
        # What statements give variables, and whether it is an element of that which they are given.
        self._given: dict[str, list[tuple[ast.expr | int, bool]]] = {}
        self._note_arguments(node.args, OF_ARGUMENTS)
        for part in parts:
            self._note(part)
        # What is read by a text: the name `getattr`, of what, and the text.
        self.reads = [*self._find_reads()]
        texts = {text.id for _, _, text in self.reads if isinstance(text, ast.Name)}
        self._known = {name: KNOWN if self._may_be_known(name, texts) else UNKNOWN for name in self._given}
        # Variables are given one another: what one of them is not, others are not.
        is_settled = not self.reads
        while not is_settled:
            is_settled = True
            for name, given in self._given.items():
                what = min((one if isinstance(one, int) else self.of(one) for one, _ in given), default=KNOWN)
                if what < self._known[name]:
                    self._known[name] = what
                    is_settled = False

    def _find_reads(self) -> Iterator[tuple[ast.Name, ast.expr, ast.expr]]:
        for part in self._parts:
            if not isinstance(part, ast.Call) or part.keywords:
                continue
            if isinstance(part.func, ast.Name) and part.func.id in _BY_NAME and len(part.args) > 1:
                yield part.func, part.args[0], part.args[1]
            elif self._is_reduction(part):
                function, names, first = part.args
                if isinstance(function, ast.Name) and function.id == "getattr":
                    yield function, first, names

    def _is_reduction(self, call: ast.Call) -> bool:
        """Whether it is `reduce(function, texts, first)`."""
        import functools

        named = call.func
        if isinstance(named, ast.Attribute) and isinstance(named.value, ast.Name):
            is_reduce = named.attr == "reduce" and self._outside.get(named.value.id) is functools
        else:
            is_reduce = isinstance(named, ast.Name) and self._outside.get(named.id) is functools.reduce
        return is_reduce and len(call.args) == 3

    def of(self, text: ast.expr) -> int:
        """What is known of all texts in the value of an expression."""
        if isinstance(text, ast.Constant):
            return KNOWN if not isinstance(text.value, str) or not has_hidden_name(text.value) else UNKNOWN
        if isinstance(text, (ast.Tuple, ast.List, ast.Set)):
            return min(map(self._of_element, text.elts), default=KNOWN)
        if isinstance(text, ast.Dict):
            return min(map(self._of_element, (*text.keys, *text.values)), default=KNOWN)
        if isinstance(text, ast.Name):
            return _of_value(self._outside.get(text.id)) if text.id not in self._given else self._known[text.id]
        if isinstance(text, ast.IfExp):
            return min(self.of(text.body), self.of(text.orelse))
        if isinstance(text, ast.Subscript):
            return self.of(text.value) if self._is_parts(text.value) or _is_word(text.slice) else UNKNOWN
        if isinstance(text, ast.Call) and not text.keywords:
            return self._of_call(text)
        return UNKNOWN

    def _of_element(self, element: ast.expr | None) -> int:
        """The same for what stands in a list, which must not be a list itself: it could be changed there."""
        return UNKNOWN if element is None or _is_list(element) else self.of(element)

    def _of_call(self, call: ast.Call) -> int:
        if self._passes(call):
            return min(map(self.of, call.args), default=KNOWN)
        if _is_split(call):
            return self.of(call.func.value)  # type: ignore[attr-defined]  # it is a method
        if isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS and not call.args:
            return self.of(call.func.value)
        return UNKNOWN

    def _may_be_known(self, name: str, texts: set[str]) -> bool:
        """Whether nobody can add a text to what a variable holds."""
        if name not in texts:
            return self._is_only_read(name)
        # Of a variable that holds texts only, any use is harmless.
        return not any(
            isinstance(one, ast.expr) and not is_element and (_is_list(one) or self._passes(one) or _is_split(one))
            for one, is_element in self._given[name]
        )

    def _is_parts(self, node: ast.expr) -> bool:
        """Whether it is the list of a text's parts for sure."""
        if not isinstance(node, ast.Name):
            return _is_split(node)
        given = self._given.get(node.id, ())
        return bool(given) and all(isinstance(one, ast.expr) and not is_element and _is_split(one) for one, is_element in given)

    def _passes(self, call: ast.expr) -> bool:
        """Whether it is a function that gives the texts of its arguments as they are."""
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.keywords:
            return False
        name = call.func.id
        return name in _PASSING and name not in self._given and name not in self._outside

    def _note_arguments(self, arguments: ast.arguments, what: int) -> None:
        """Notes what is given to the arguments of a function."""
        positional = [*arguments.posonlyargs, *arguments.args]
        for argument in (*positional, *arguments.kwonlyargs, *filter(None, [arguments.vararg])):
            self._give_name(argument.arg, what)
        if arguments.kwarg is not None:
            self._give_name(arguments.kwarg.arg, UNKNOWN)
        defaults = arguments.defaults
        for argument, default in zip(positional[len(positional) - len(defaults) :], defaults):
            self._give_name(argument.arg, default)
        for argument, named_default in zip(arguments.kwonlyargs, arguments.kw_defaults):
            if named_default is not None:
                self._give_name(argument.arg, named_default)

    def _note(self, part: ast.AST) -> None:
        """Notes what a statement gives variables."""
        if isinstance(part, ast.Assign):
            for target in part.targets:
                self._give(target, part.value)
        elif isinstance(part, (ast.For, ast.comprehension)):
            self._give(part.target, part.iter, is_element=True)
        elif isinstance(part, (ast.AnnAssign, ast.NamedExpr)):
            if part.value is not None:
                self._give(part.target, part.value)
        elif isinstance(part, ast.AugAssign):
            self._give(part.target, UNKNOWN)
        elif isinstance(part, ast.withitem):
            if part.optional_vars is not None:
                self._give(part.optional_vars, UNKNOWN)
        elif isinstance(part, ast.ExceptHandler):
            self._give_name(part.name, UNKNOWN)
        elif isinstance(part, (ast.MatchAs, ast.MatchStar)):
            self._give_name(part.name, UNKNOWN)
        elif isinstance(part, ast.MatchMapping):
            self._give_name(part.rest, UNKNOWN)
        elif isinstance(part, (ast.FunctionDef, ast.Lambda)):
            self._note_arguments(part.args, UNKNOWN)
            self._give_name(getattr(part, "name", None), UNKNOWN)

    def _give(self, target: ast.expr, value: ast.expr | int, is_element: bool = False) -> None:
        # Of what is in a list, the same is known as of the list.
        is_element = is_element or not isinstance(target, ast.Name)
        for node in _changed_by(target):
            self._give_name(node.id, value if isinstance(node.ctx, ast.Store) else UNKNOWN, is_element)

    def _give_name(self, name: str | None, value: ast.expr | int, is_element: bool = False) -> None:
        if name is not None:
            self._given.setdefault(name, []).append((value, is_element))

    def _is_only_read(self, name: str) -> bool:
        """Whether a variable, which may hold a list, is used for nothing but to read what is in it."""
        harmless: set[int] = set()
        for part in self._parts:
            harmless.update(map(id, _read_by(part)))
        return all(
            id(part) in harmless
            for part in self._parts
            if isinstance(part, ast.Name) and part.id == name and isinstance(part.ctx, ast.Load)
        )


def _changed_by(target: ast.expr) -> Iterator[ast.Name]:
    """The variables that get another value, or an element, where something is assigned: not what says which element."""
    if isinstance(target, ast.Name):
        yield target
    elif isinstance(target, (ast.Subscript, ast.Attribute, ast.Starred)):
        yield from _changed_by(target.value)
    elif isinstance(target, (ast.Tuple, ast.List)):
        for one in target.elts:
            yield from _changed_by(one)
    else:
        yield from (node for node in ast.walk(target) if isinstance(node, ast.Name))


def _of_value(value: object) -> int:
    """What is known of the texts in a value that nobody changes."""
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return min(map(_of_value, value), default=KNOWN)
    return UNKNOWN if not isinstance(value, (str, int, float)) or has_hidden_name(value) else KNOWN


def _is_list(node: ast.expr) -> bool:
    """Whether it makes a list, or another value that can be changed."""
    return isinstance(node, (ast.List, ast.Set, ast.Dict, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp))


def _is_word(index: ast.expr) -> bool:
    """Whether it is the key of a dict: a text has no such index."""
    return isinstance(index, ast.Constant) and isinstance(index.value, str)


def _is_split(node: ast.expr) -> bool:
    """Whether it is a text's parts between signs that are no letters."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "split" or node.keywords:
        return False
    if not node.args:
        return True
    sign = node.args[0]
    return (
        len(node.args) == 1
        and isinstance(sign, ast.Constant)
        and isinstance(sign.value, str)
        and sign.value != ""
        and not any(letter.isalnum() or letter == "_" for letter in sign.value)
    )


def _read_by(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of an expression of which only what is in them counts."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        yield node.value
    elif isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and (node.func.attr in _METHODS or _is_split(node)):
            yield node.func.value
        elif isinstance(node.func, ast.Name) and node.func.id in (_PASSING | _READING):
            yield from node.args
        elif len(node.args) == 3 and (isinstance(node.func, ast.Name) and node.func.id == "reduce"):
            yield node.args[1]
    elif isinstance(node, ast.Compare):
        yield from (node.left, *node.comparators)
    elif isinstance(node, (ast.For, ast.comprehension)):
        yield node.iter
    elif isinstance(node, ast.FormattedValue):
        yield node.value
    elif isinstance(node, (ast.If, ast.IfExp, ast.While)):
        yield node.test
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
