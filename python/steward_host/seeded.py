"""Chance that is none: numbers that follow from a seed, such as

    @plugin
    def password(name: "string") -> "string":
        chance = random.Random(f"vpn-{name}")
        return "".join(chance.choice(LETTERS) for _ in range(16))

A function that makes such an object for itself still only computes (`purity`), if it is certain that there is a seed: without one, or with
None, Python takes one that is another each time. That is seen by the text: a seed has to be a text or a number, or an argument of a plugin
that is one by its type.
"""

from __future__ import annotations

import ast
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# Methods that give what follows, and change nothing else: `shuffle` changes a list, which is seen as for other functions.
_METHODS = frozenset(
    "betavariate choice choices expovariate gauss getrandbits normalvariate randbytes randint random randrange sample shuffle triangular"
    " uniform".split()
)
# Types of arguments of plugins, in models and in Python.
_TYPES = frozenset(("int", "str", "string"))


def is_chance(found: object) -> bool:
    """Whether it is the class of such objects."""
    random = sys.modules.get("random")
    return random is not None and found is random.Random


def made_by(
    node: ast.FunctionDef | ast.Lambda, parts: list[ast.AST], found: Callable[[ast.AST], object], is_plugin: bool
) -> set[int]:
    """Where a function names the class to make an object that has a seed, and of which nothing but what follows is asked.
    `found`: what a name stands for; `is_plugin`: models check the types of the arguments."""
    calls = [part for part in parts if isinstance(part, ast.Call) and is_chance(found(part.func))]
    if not calls:
        return set()
    above = {id(child): part for part in parts for child in ast.iter_child_nodes(part)}
    texts = _typed(node, parts) if is_plugin else set()
    return {id(call.func) for call in calls if _has_seed(call, texts, found) and _is_used_well(call, parts, above, node)}


def _typed(node: ast.FunctionDef | ast.Lambda, parts: list[ast.AST]) -> set[str]:
    """The arguments that are texts or numbers."""
    arguments = node.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    typed = {
        argument.arg
        for argument in named
        if isinstance(argument.annotation, ast.Name) and argument.annotation.id in _TYPES
        or isinstance(argument.annotation, ast.Constant) and argument.annotation.value in _TYPES
    }
    # A default is not looked at by models: without an argument None would be the seed.
    in_order = [*arguments.posonlyargs, *arguments.args]
    defaults = [*zip(reversed(in_order), reversed(arguments.defaults)), *zip(arguments.kwonlyargs, arguments.kw_defaults)]
    typed -= {argument.arg for argument, default in defaults if default is not None and not _is_seed(default, set(), lambda _: None)}
    inner = {part.arg for part in parts if isinstance(part, ast.arg)}
    return typed - inner - {part.id for part in parts if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load)}


def _has_seed(call: ast.Call, texts: set[str], found: Callable[[ast.AST], object]) -> bool:
    return len(call.args) == 1 and not call.keywords and _is_seed(call.args[0], texts, found)


def _is_seed(node: ast.expr, texts: set[str], found: Callable[[ast.AST], object]) -> bool:
    """Whether an expression is certainly a text or a number."""
    if isinstance(node, ast.JoinedStr):
        return True
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (str, bytes, int, float))
    if isinstance(node, ast.Name):
        return node.id in texts
    if isinstance(node, ast.BinOp):
        # Of two texts, or of a text and what is put into it.
        is_text = isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
        is_sum = isinstance(node.op, (ast.Add, ast.Mult, ast.Sub)) and _is_seed(node.left, texts, found) and _is_seed(node.right, texts, found)
        return is_text or is_sum
    is_named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("int", "len", "str")
    # Unless the module has another one by this name.
    return is_named and not callable(found(node.func))  # type: ignore[attr-defined]  # it is a call


def _is_used_well(call: ast.Call, parts: list[ast.AST], above: dict[int, ast.AST], node: ast.FunctionDef | ast.Lambda) -> bool:
    around = above.get(id(call))
    if isinstance(around, ast.Attribute):
        return _is_asked(around, above)
    targets = around.targets if isinstance(around, ast.Assign) else [around.target] if isinstance(around, ast.AnnAssign) else []
    if len(targets) != 1 or not isinstance(targets[0], ast.Name):
        return False
    name = targets[0].id
    if any(isinstance(part, ast.arg) and part.arg == name for part in (*ast.walk(node.args), *parts)):
        return False
    for part in parts:
        if isinstance(part, (ast.Global, ast.Nonlocal)) and name in part.names:
            return False
        if not isinstance(part, ast.Name) or part.id != name or part is targets[0]:
            continue
        user = above.get(id(part))
        if not isinstance(part.ctx, ast.Load) or not isinstance(user, ast.Attribute) or not _is_asked(user, above):
            return False
    return True


def _is_asked(attribute: ast.Attribute, above: dict[int, ast.AST]) -> bool:
    call = above.get(id(attribute))
    return attribute.attr in _METHODS and isinstance(call, ast.Call) and call.func is attribute
