"""Which plugins and getters only compute: what they return follows from their arguments and from what they read of the model.

The compiler keeps what such a function returned, with what it read for that, and does not call it again for the same
(`compiler/src/python_host/memo.rs`). So this must never take a function for pure that is not; the other way round costs time only.
Python can not be understood in general. What is understood here is the plain code that most plugins are made of: all statements
and expressions that touch nothing but what the function itself has made, and names of other modules and files whose meaning is
known. Anything else, and anything that is not mentioned here, makes a function impure: other imports, mutable values of a module
(but tables that nobody changes, see `tables`), `global`, files, clocks, chance, printing, logging (but see `quiet_loggers`),
references (but see `plain_references`), attributes
that begin with an underscore (also where the name is a text, see `spoken_names`).

What a value is, is not known: `x.name` may read an attribute of the model (which is noted when it happens, see `Reads` in
`inmanta.execute.proxy`), a property of an address or a method of a text. But all values that such code can have are arguments,
constants, and what pure functions gave, so nothing that it does with them can be seen outside. What would show how an instance
is numbered (its text, its hash) is noticed when it happens, too.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import operator
import pathlib
import sys
from enum import EnumMeta
from types import CodeType, FunctionType, MethodType, ModuleType

from inmanta.execute.util import Unknown
from steward_host import cached_functions, catching, context_managers, dispatch_tables, library, kept_values, local_imports, nested_tables, own_caches, own_objects, printing, quiet_loggers, reading, seeded, spoken_names, tables, variables, wrappers
from steward_host.computing import has_hidden_name
from steward_host.nested_tables import NestedTables
from steward_host.own_objects import OwnObjects
from steward_host.plain_classes import PlainClasses
from steward_host.plain_references import HandedOn, PlainReferences
from steward_host.spoken_names import SpokenNames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

_BUILTINS = frozenset(
    "abs all any ascii bin bool bytes callable chr complex dict divmod enumerate filter float format frozenset getattr hasattr hex int isinstance"
    " iter len list map max min next oct ord pow range repr reversed round set slice sorted str sum tuple zip".split()
)
# Those that read an attribute whose name is a text.
_BY_NAME = ("getattr", "hasattr")
# Of these, a value may be asked whether it is of a class.
_CLASSES_OF = frozenset(("collections", "inmanta", "ipaddress", "netaddr", "numbers"))
_STATEMENTS = (
    ast.AnnAssign, ast.Assert, ast.Assign, ast.AugAssign, ast.Break, ast.Continue, ast.Delete, ast.ExceptHandler, ast.Expr,
    ast.For, ast.If, ast.Import, ast.ImportFrom, ast.Match, ast.Nonlocal, ast.Pass, ast.Raise, ast.Return, ast.Try, ast.While, ast.With,
)  # fmt: skip
_EXPRESSIONS = (
    ast.BinOp, ast.BoolOp, ast.Call, ast.Compare, ast.Constant, ast.Dict, ast.DictComp, ast.FormattedValue, ast.GeneratorExp,
    ast.IfExp, ast.JoinedStr, ast.Lambda, ast.List, ast.ListComp, ast.NamedExpr, ast.Set, ast.SetComp, ast.Slice, ast.Starred,
    ast.Tuple, ast.UnaryOp, ast.Yield, ast.YieldFrom,
)  # fmt: skip
_PARTS = (
    ast.alias, ast.arg, ast.arguments, ast.boolop, ast.cmpop, ast.comprehension, ast.expr_context, ast.keyword, ast.match_case, ast.operator,
    ast.pattern, ast.unaryop, ast.withitem,
)  # fmt: skip
# Functions by which one gets all variables of a function.
_OF_LOCALS = ("locals", "vars", "eval", "exec", "dir")
# Attributes by which a function or a plugin gets other code: where some file sets one, nothing is known of any function.
_REPLACING = frozenset(("call", "call_in_context", "__code__", "__defaults__", "__function__", "__kwdefaults__"))
# Instructions that read a name of the module, or of Python itself.
_GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME")
# What named tuples have, and nothing else by this name.
_OF_NAMED_TUPLES = frozenset(("_asdict", "_fields", "_replace"))
_PLAIN = (str, int, float, bool, bytes, type(None))
# What a class has whose body says nothing.
_OF_PLAIN_CLASS = frozenset(("__module__", "__doc__", "__firstlineno__", "__static_attributes__", "__weakref__", "__qualname__"))
# More classes whose objects nobody can change.
_UNCHANGING = (
    ("re", "Pattern"), ("uuid", "UUID"), ("ipaddress", "IPv4Address"), ("ipaddress", "IPv6Address"), ("ipaddress", "IPv4Interface"),
    ("ipaddress", "IPv6Interface"), ("ipaddress", "IPv4Network"), ("ipaddress", "IPv6Network"), ("string", "Template"),
)  # fmt: skip
# The same of modules that have to be as they were (`Library.has_module`).
_UNCHANGING_OF = {"datetime": ("date", "datetime", "time", "timedelta", "timezone"), "decimal": ("Decimal",)}
_NOTHING = object()


class Purity:
    """What is known of the functions of some files; `files`: all of the project's modules, whose code may change one another's."""

    def __init__(self, files: Iterable[str]) -> None:
        self._files = set(files)
        self._trees: dict[str, ast.Module | None] = {}
        self._known: dict[FunctionType, bool] = {}
        # Functions that read attributes by names that they are given.
        self._by_argument: set[FunctionType] = set()
        # Functions that give references, and whether they only hand on what they are given.
        self._makers: dict[FunctionType, bool] = {}
        # Functions that read files when they are called.
        self._readers: set[FunctionType] = set()
        # Of functions that have what others read and keep: these, which take no arguments.
        self._keepers: dict[FunctionType, set[FunctionType]] = {}
        self._lazy: dict[tuple[FunctionType, str], bool] = {}
        # Functions that are being looked at, and those of them that others took for pure meanwhile.
        self._open: set[FunctionType] = set()
        self._assumed: set[FunctionType] = set()
        self._changed: set[str] | None = None
        self._shown: dict[bool, bool] = {}
        self._are_variables_lasting: bool | None = None
        self._written: set[str] | None = None
        self._may_change_loggers: bool | None = None
        self._of_library: library.Library | None = None
        self._of_exceptions: catching.Catching | None = None
        self._tables = tables.Tables(self._tree)
        own_tree = lambda file: self._tree(file) if file in self._files else None  # noqa: E731
        self._classes = PlainClasses(
            self._files.__contains__,
            own_tree,
            self._is_pure_for_all,
            self._is_pure_method,
            self._is_unchanging,
            self._names_that_change,
            self._forget,
        )
        self._objects = OwnObjects(
            self._files.__contains__,
            own_tree,
            self._is_pure_for_all,
            self._is_pure_method,
            self._is_unchanging_of_class,
            self._names_that_change,
            self._forget,
        )
        # Methods whose class is looked at for what they ask of it.
        self._asking: set[tuple[type, FunctionType]] = set()
        # Methods of such classes, and what they call the object.
        self._methods: dict[FunctionType, str] = {}
        self._references = PlainReferences(own_tree, self._is_pure_for_all, _is_constant, self._names_that_change)

    def is_pure(self, function: object) -> bool:
        """Whether a function only computes, if no word in the texts that it is given begins with an underscore."""
        function = context_managers.function_of(function)
        if type(function) is not FunctionType:
            return False
        return self._is_pure(function)

    def _is_pure_for_all(self, function: object) -> bool:
        """Whether a function only computes, whoever calls it with whatever and does whatever with what it gives."""
        function = context_managers.function_of(function)
        is_known = self.is_pure(function) and function not in self._by_argument and function not in self._makers
        return is_known and function not in self._methods and function not in self._readers

    def _is_reader(self, found: object) -> bool:
        """Whether it is a function that any other one may call, but for reading files."""
        function = context_managers.function_of(found)
        is_known = self.is_pure(function) and function in self._readers
        return is_known and function not in self._by_argument and function not in self._makers and function not in self._methods

    def _is_pure_method(self, method: FunctionType, own: str) -> bool:
        """The same of a method that may set attributes of its object, which it calls `own`."""
        self._methods[method] = own
        is_known = self._is_pure(method) and method not in self._readers
        return is_known and method not in self._by_argument and method not in self._makers

    def is_plain(self, cls: object) -> bool:
        """Whether the objects of a class are nothing but their values."""
        return self._classes.is_plain(cls)

    def is_plain_reference(self, cls: object) -> bool:
        """Whether the references of a class are nothing but their arguments."""
        return self._references.is_plain(cls)

    def passes_references(self, function: object) -> bool:
        """Whether a function that only computes does nothing with the references among its arguments but hand them on."""
        if type(function) is not FunctionType or not self._is_pure(function):
            return False
        node = self._definition(function.__code__)
        return node is not None and self._handed_on(function, node, _parts_of(node)).passes_arguments()

    def catches(self, function: object) -> bool:
        """Whether a function may go on where an attribute of the model has no value yet, or one that it calls."""
        return not isinstance(function, FunctionType) or any(map(self._catching().has, wrappers.names_of(function)))

    def leaves_argument(self, function: object, index: int) -> bool:
        """Whether a function does nothing with one of its arguments: that by which plugins see more than the model."""
        code = getattr(function, "__code__", None)
        node = self._definition(code) if isinstance(code, CodeType) else None
        if not isinstance(node, ast.FunctionDef) or code is None or index >= code.co_argcount or code.co_varnames[index] in code.co_cellvars:
            return False
        name = code.co_varnames[index]
        is_named = any(isinstance(part, ast.Name) and part.id in (name, *_OF_LOCALS) for part in ast.walk(node))
        return not is_named

    def keepers_of(self, function: object) -> list[FunctionType]:
        """Functions that keep what they read from files, and are to be called before it is noted what this one reads."""
        found = self._keepers.get(function, set()) if isinstance(function, FunctionType) and self._is_pure(function) else set()
        return sorted(found, key=lambda one: (one.__code__.co_filename, one.__code__.co_firstlineno))

    def _catching(self) -> catching.Catching:
        if self._of_exceptions is None:
            self._of_exceptions = catching.Catching(filter(None, map(self._tree, self._files)))
        return self._of_exceptions

    def is_pure_getter(self, getter: object) -> bool:
        """The same for a getter of a resource class, which must not look at the exporter, nor at the class that it is of."""
        n_ignored = 1
        function = getter
        if isinstance(getter, MethodType):
            function = getter.__func__
            n_ignored = 2
        if type(function) is not FunctionType or not (self._is_pure_for_all(function) or self._is_reader(function)):
            return False
        if function in self._keepers:
            # What is kept is noted with calls only.
            return False
        node = self._definition(function.__code__)
        if node is None:
            return False
        ignored = function.__code__.co_varnames[: min(n_ignored, function.__code__.co_argcount)]
        parts = [part for statement in _body(node) for part in ast.walk(statement)]
        asked: set[int] = set()
        if isinstance(getter, MethodType) and ignored:
            helpers = [part for part in parts if isinstance(part, ast.Attribute) and self._may_ask_class(getter.__self__, part.attr)]
            asked = {id(part.value) for part in helpers if isinstance(part.value, ast.Name) and part.value.id == ignored[0]}
        return not any(isinstance(part, ast.Name) and part.id in ignored and id(part) not in asked for part in parts)

    def _may_ask_class(self, cls: object, name: str) -> bool:
        return self._has_helper(cls, name) or self._has_constant(cls, name)

    def _is_pure(self, function: FunctionType) -> bool:
        known = self._known.get(function)
        if known is None:
            # A function that calls itself is pure if the rest of it is.
            self._known[function] = True
            self._open.add(function)
            try:
                known = self._look_at(function)
            except (OSError, SyntaxError, ValueError, RecursionError):
                known = False
            self._open.discard(function)
            # Who took it for pure did not know that it gives references, or reads files.
            known = known and not ((function in self._makers or function in self._readers) and function in self._assumed)
            self._known[function] = known
            if not known:
                self._forget()
        elif function in self._open:
            self._assumed.add(function)
        return known

    def _forget(self) -> None:
        """Something is not what it was taken for: what was taken for pure or plain because of it may not be."""
        self._known = {kept: value for kept, value in self._known.items() if not value}
        self._classes.forget_plain()
        self._objects.forget()

    def _look_at(self, function: FunctionType) -> bool:
        if not _REPLACING.isdisjoint(self._names_that_change()):
            return False
        defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        own = self._methods.get(function)
        # A method that calls one above it has its class.
        is_closed = function.__closure__ is None or own is not None and function.__code__.co_freevars == ("__class__",)
        around = {} if is_closed else self._values_around(function)
        if around is None or not all(map(self._is_unchanging, defaults)):
            return False
        node = self._definition(function.__code__)
        decorators = [] if isinstance(node, ast.Lambda) else [] if node is None else node.decorator_list
        if node is None or not all(self._is_harmless(function, decorator) for decorator in decorators):
            return False
        names = set(_globals_of(function.__code__))
        parts = _parts_of(node)
        tree = self._tree(function.__code__.co_filename)
        if tree is None or self._catching().shows_text(tree, parts) or not context_managers.ends_in_time(node, parts, function.__globals__):
            return False
        known = {name: function.__globals__[name] for name in names if name in function.__globals__}
        imported = local_imports.names_of(node, parts, self._module)
        if imported is None or not names.isdisjoint(imported) or not all(map(self._may_import, imported, imported.values())):
            return False
        known.update(imported)
        if not known.keys().isdisjoint(around):
            return False
        known.update(around)
        spoken = SpokenNames(node, parts, known)
        if any(spoken.of(text) == spoken_names.OF_ARGUMENTS for _, _, text in spoken.reads):
            # Others that it calls may call it with anything, so they have to know.
            self._by_argument.add(function)
        kinds = _Kinds(node, parts, known)
        above = {id(part) for part in own_objects.calls_of_bases(parts)} if own is not None else set()
        may_ask = {"type"} if kinds.are_asked else set()
        if "print" not in known and printing.are_own(parts, known, own, self._names_of_texts):
            may_ask.add("print")
        if all(id(part) in above for part in parts if isinstance(part, ast.Name) and part.id == "super") and "super" not in known:
            may_ask.add("super")
        if "open" in names and "open" not in known and own is None and reading.are_read(parts) and self._shows_content(of_paths=False):
            may_ask.add("open")
            self._readers.add(function)
        if self._reads_by_others(parts, known):
            self._readers.add(function)
        lazy = {name for part in parts if isinstance(part, ast.Global) for name in part.names}
        if not all(self._is_lazy(function, name) for name in lazy):
            return False
        if not all(self._is_known(function, name) or name in may_ask or name in lazy for name in names):
            return False
        if not self._is_kept_well(function, node, parts, known, lazy):
            return False
        if function in self._readers and any(self._is_own_cache(function, name) for name in names if type(known.get(name)) is dict):
            return False
        handed_on = None
        asked_for = set(_classes_asked_for(parts, known))
        named = (known.get(part.id) for part in parts if isinstance(part, ast.Name) and id(part) not in asked_for)
        if any(map(self._makes_references, named)):
            handed_on = self._handed_on(function, node, parts)
            self._makers[function] = handed_on.passes_arguments()
        own_attributes = {*_texts_of_elements(node, parts, known), *wrappers.named_functions(parts, known)}
        if own is not None:
            own_attributes.update(own_objects.attributes_of(own, node, parts))
        own_attributes.update(id(part) for part in parts if isinstance(part, ast.Global))
        own_attributes.update(self._hidden_helpers(node, parts, known))
        known_attributes = own_attributes | kinds.named | above | {*_names_of_classes(parts)}
        return all(_is_allowed(part, known_attributes) for part in parts) and self._is_used_well(function, node, parts, known, spoken, handed_on)

    def _is_lazy(self, function: FunctionType, name: str) -> bool:
        """Whether a name of the module has a value that this function makes and keeps, and that is only read."""
        key = (function, name)
        if key not in self._lazy:
            self._lazy[key] = self._finds_lazy(function, name)
        return self._lazy[key]

    def _finds_lazy(self, function: FunctionType, name: str) -> bool:
        file = function.__code__.co_filename
        tree, node = self._tree(file), self._definition(function.__code__)
        others = [*self._other_trees(file)]
        nested = self._tables.nested(file, others, self._is_unchanging)
        if tree is None or not isinstance(node, ast.FunctionDef) or nested is None or function.__closure__ or function in self._methods:
            return False
        asked = any(self._tables.are_asked(name, other) for other in others)
        value = None if asked else kept_values.lazy_value(name, node, tree)
        if value is None or not kept_values.are_data(value.made_in, function.__globals__, lambda one: self._definition(one.__code__), name):
            return False
        loads = (part for part in ast.walk(tree) if isinstance(part, ast.Name) and part.id == name and isinstance(part.ctx, ast.Load))
        read: list[ast.expr] = [part for part in loads if id(part) not in value.own]
        inner = {id(part) for part in ast.walk(node)}
        if not all(id(part) in inner for part in read):
            return False
        if value.is_returned and not self._tables.is_only_plugin(tree, others, node):
            is_given = not read and not any(self._tables.are_asked(node.name, other) for other in (tree, *others))
            return is_given and (
                nested.is_call_only_read(node.name, kept_values.Anything())
                or kept_values.takes_nothing(node)
                and self._is_made_value_only_read(function, name, nested)
            )
        return nested.is_value_only_read(read, kept_values.Anything())

    def _is_made_value_only_read(self, function: FunctionType, name: str, nested: NestedTables) -> bool:
        """The same of the value that it has, if that follows from the code alone."""
        # It only computes but for this, if it does.
        self._lazy[function, name] = True
        try:
            if not self._look_at(function) or function in self._readers:
                return False
            value = function()
        except Exception:
            return False
        finally:
            del self._lazy[function, name]
        is_known = nested_tables.is_nested(value, self._is_unchanging)
        return is_known and nested.is_call_only_read(function.__code__.co_name, value)

    def _is_kept_well(
        self, function: FunctionType, node: ast.FunctionDef | ast.Lambda, parts: list[ast.AST], known: dict[str, object], lazy: set[str]
    ) -> bool:
        """Notes which functions keep what this one has of files; False: what it keeps itself would not be noted the next time."""
        keepers: set[FunctionType] = set()
        for part in parts:
            found = _found(part, known) if isinstance(part, (ast.Attribute, ast.Name)) else _NOTHING
            if isinstance(found, FunctionType):
                keepers |= self._keepers.get(found, set())
        if function in self._readers and lazy:
            if not isinstance(node, ast.FunctionDef) or not kept_values.takes_nothing(node) or len(lazy) > 1:
                return False
            keepers.add(function)
        if keepers:
            self._keepers[function] = keepers
        return True

    def _keeps_data(self, found: object) -> bool:
        """Whether it is a function that only computes, whose results Python keeps, and are only read."""
        function = cached_functions.wrapped_by(found)
        if function is None or "__wrapped__" in self._names_that_change() or function.__closure__:
            return False
        file = function.__code__.co_filename
        tree, node = self._tree(file) if file in self._files else None, self._definition(function.__code__)
        if tree is None or not isinstance(node, ast.FunctionDef) or len(node.decorator_list) != 1 or node not in tree.body:
            return False
        others = [*self._other_trees(file)]
        nested = self._tables.nested(file, others, self._is_unchanging)
        if nested is None or not cached_functions.is_keeping(node.decorator_list[0], function.__globals__):
            return False
        if not kept_values.takes_texts(node) or not kept_values.returns_data(node) or any(self._tables.are_asked(node.name, one) for one in (tree, *others)):
            return False
        if not kept_values.are_data(node.body, function.__globals__, lambda one: self._definition(one.__code__)):
            return False
        return self._is_pure_for_all(function) and nested.is_call_only_read(node.name, kept_values.Anything())

    def _values_around(self, function: FunctionType) -> dict[str, object] | None:
        """What a function within others has of them, if nobody changes it, and it only computes."""
        tree = self._tree(function.__code__.co_filename) if function.__code__.co_filename in self._files else None
        around = None if tree is None else wrappers.values_of(function, tree, self._names_that_change())
        # Whether what is around a lambda goes on is not looked at.
        is_named = function.__code__.co_name != "<lambda>" and function not in self._methods
        is_known = around is not None and is_named and all(map(self._is_settled, around.values()))
        return around if is_known else None

    def _shows_content(self, of_paths: bool) -> bool:
        """Whether of a file that is read, or of a path, nobody sees more than the content."""
        known = self._shown.get(of_paths)
        if known is None:
            trees = filter(None, map(self._tree, self._files))
            known = self._shown[of_paths] = not reading.may_show_more(trees, of_paths)
        return known

    def _has_lasting_variables(self) -> bool:
        """Whether no file of the project may change variables of the environment."""
        if self._are_variables_lasting is None:
            self._are_variables_lasting = not variables.may_change(filter(None, map(self._tree, self._files)))
        return self._are_variables_lasting

    def _reads_by_others(self, parts: list[ast.AST], known: dict[str, object]) -> bool:
        """Whether a function may read files by another one that does, or by a path."""
        for part in parts:
            found = _found(part, known) if isinstance(part, (ast.Attribute, ast.Name)) else _NOTHING
            if reading.is_path(found) or found in (pathlib.Path, pathlib.PosixPath) or type(found) is FunctionType and self._is_reader(found):
                return True
        return False

    def _handed_on(self, function: FunctionType, node: ast.FunctionDef | ast.Lambda, parts: list[ast.AST]) -> HandedOn:
        found: dict[str, Any] = {name: function.__globals__.get(name) for name in _globals_of(function.__code__)}
        makers = {name: self._makers.get(maker, True) for name, maker in found.items() if self._makes_references(maker)}
        return HandedOn(node, parts, makers, [name for name in found if name in function.__globals__])

    def _makes_references(self, found: object) -> bool:
        """Whether calls of it give what has to be handed on: references that are nothing but their arguments, or an Unknown."""
        if type(found) is FunctionType:
            return self._is_pure(found) and found in self._makers and found not in self._by_argument
        return found is Unknown or self.is_plain_reference(found)

    def _is_known(self, function: FunctionType, name: str) -> bool:
        """Whether a name outside of the function stands for something that only computes, for ever."""
        if name not in function.__globals__:
            return name in _BUILTINS or _is_exception(getattr(_builtins(), name, None))
        found = function.__globals__[name]
        if name in self._names_that_change():
            return False
        if isinstance(found, ModuleType):
            return found.__name__ in library.MEMBERS or self._is_own_module(found)
        if type(found) in tables.KINDS:
            file = function.__code__.co_filename
            if self._is_own_cache(function, name):
                return True
            if dispatch_tables.is_dispatch(found, self._is_unchanging, self._is_plain_function):
                node = self._definition(function.__code__)
                is_called = node is not None and dispatch_tables.are_only_called(name, _parts_of(node))
                return is_called and not self._tables.is_changed(name, file, self._other_trees(file))
            if tables.is_flat(found, self._is_unchanging):
                return not self._tables.is_changed(name, file, self._other_trees(file))
            is_known = nested_tables.is_nested(found, self._is_unchanging)
            return is_known and not self._tables.is_changed_within(name, found, file, self._other_trees(file), self._is_unchanging)
        if reading.is_path(found):
            return self._shows_content(of_paths=True)
        if variables.is_of_them(found):
            return self._has_lasting_variables()
        is_used_well = self._is_reader(found) or _is_for_annotations(found) or _is_asked_for(found) or self._is_own_class(found) or self._is_quiet(found) or self._is_noted(found)
        return self._is_settled(found) or is_used_well or self._makes_references(found)

    def _module(self, name: str) -> ModuleType | None:
        """A module that a function may import when it runs: of the library, or of the project's, which are all there."""
        module = sys.modules.get(name)
        if module is None and name in library.MEMBERS:
            with contextlib.suppress(ImportError):
                module = importlib.import_module(name)
        is_known = module is not None and (module.__name__ in library.MEMBERS or self._is_own_module(module))
        return module if is_known else None

    def _may_import(self, name: str, found: object) -> bool:
        """Whether what a function imports under a name when it runs only computes."""
        if isinstance(found, ModuleType):
            return found.__name__ in library.MEMBERS or self._is_own_module(found)
        if variables.is_of_them(found):
            return self._has_lasting_variables()
        called = getattr(found, "__name__", name)
        if not self._names_that_change().isdisjoint((name, called)) or type(found) in tables.KINDS or self._makes_references(found):
            return False
        is_known = self._is_settled(found) or self._is_reader(found) or _is_asked_for(found)
        return is_known or _is_for_annotations(found) or self._is_own_class(found)

    def _is_plain_function(self, found: object) -> bool:
        return self._is_pure_for_all(found) and not vars(found)

    def _is_own_cache(self, function: FunctionType, name: str) -> bool:
        """Whether a dict is where a plugin, which no code calls, keeps what it gave."""
        file = function.__code__.co_filename
        tree, node = self._tree(file), self._definition(function.__code__)
        if type(function.__globals__[name]) is not dict or tree is None or not isinstance(node, ast.FunctionDef):
            return False
        others = [*self._other_trees(file)]
        return self._tables.is_only_plugin(tree, others, node) and own_caches.is_own_cache(name, node, tree, others)

    def _is_settled(self, found: object) -> bool:
        """Whether a value of a module, which is no table, only computes and never changes."""
        is_known = self._is_exception(found) or self._library().has(found) or self._is_pure_for_all(found)
        return is_known or self._is_unchanging(found) or self._classes.is_transparent(found) or self._keeps_scalars(found) or self._keeps_data(found)

    def _keeps_scalars(self, found: object) -> bool:
        """Whether it is a function that only computes, and whose results Python keeps."""
        function = cached_functions.wrapped_by(found)
        if function is None or "__wrapped__" in self._names_that_change():
            return False
        node = self._definition(function.__code__)
        if not isinstance(node, ast.FunctionDef) or len(node.decorator_list) != 1:
            return False
        known, trees = function.__globals__, filter(None, map(self._tree, self._files))
        is_kept = cached_functions.is_keeping(node.decorator_list[0], known)
        return is_kept and cached_functions.gives_scalars(node, known, trees) and self._is_pure_for_all(function)

    def _is_unchanging(self, value: object) -> bool:
        """Whether it is a value that nobody can change; also an object of the project's."""
        if _is_constant(value):
            return True
        if type(value) in (tuple, frozenset):
            return all(map(self._is_unchanging, value))  # type: ignore[call-overload]  # it has elements
        for module, names in _UNCHANGING_OF.items():
            if any(type(value) is cls for cls in _classes_of(module, names)):
                return self._library().has_module(module)
        fields = self._classes.fields_of(value)
        return fields is not None and all(map(self._is_unchanging, fields))

    def _is_exception(self, found: object) -> bool:
        """Also one of the project's own that adds nothing but its name, or methods that only compute."""
        if _is_exception(found):
            return True
        if not isinstance(found, type) or not issubclass(found, Exception):
            return False
        module = sys.modules.get(found.__module__)
        is_own = module is not None and self._is_own_module(module)
        if not is_own or not all(map(self._is_exception_base, found.__bases__)):
            return False
        return set(vars(found)) <= _OF_PLAIN_CLASS or self._objects.is_exception(found)

    def _is_caught(self, kind: ast.expr, known: dict[str, object]) -> bool:
        """Whether it names a class of exceptions. What follows if the model has no value yet is known besides (`catching`)."""
        if isinstance(kind, ast.Name) and kind.id not in known:
            return _is_exception(getattr(_builtins(), kind.id, None))
        found = _found(kind, known)
        return isinstance(found, type) and issubclass(found, Exception) and (self._is_settled(found) or _is_asked_for(found))

    def _is_exception_base(self, base: type) -> bool:
        return base is Exception or self._is_exception(base)

    def _is_own_module(self, module: ModuleType) -> bool:
        return getattr(module, "__file__", None) in self._files

    def _is_quiet(self, found: object) -> bool:
        if not quiet_loggers.is_quiet(found) or "level" in self._names_that_change():
            return False
        return not self._loggers_may_change()

    def _is_noted(self, found: object) -> bool:
        """Whether what a logger says is noted when it says it: such a call is made again in the next compile."""
        if not quiet_loggers.is_heard(found) or not self._names_that_change().isdisjoint(quiet_loggers.SET):
            return False
        return not self._loggers_may_change()

    def _loggers_may_change(self) -> bool:
        if self._may_change_loggers is None:
            self._may_change_loggers = quiet_loggers.may_change(filter(None, map(self._tree, self._files)))
        return self._may_change_loggers

    def _is_own_class(self, found: object) -> bool:
        module = sys.modules.get(found.__module__) if isinstance(found, type) else None
        return module is not None and self._is_own_module(module)

    def _has_helper(self, cls: object, name: str) -> bool:
        """Whether a class of the project's has a function by this name that only computes and gets nothing but its arguments."""
        if not isinstance(cls, type) or not self._is_own_class(cls) or name in self._names_that_change():
            return False
        found = next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)
        if isinstance(found, classmethod):
            is_known = self._classes.is_transparent(cls) or self._asks_class_for_helpers(cls, found.__func__)
            return is_known and self._is_pure_for_all(found.__func__)
        function = found.__func__ if isinstance(found, staticmethod) else found
        return getattr(cls, name, None) is function and self._is_pure_for_all(function)

    def _hidden_helpers(self, node: ast.FunctionDef | ast.Lambda, parts: list[ast.AST], known: dict[str, object]) -> Iterator[int]:
        """Where a function calls one of the functions of a class whose names begin with an underscore: of one of the project's, or of
        the class that the function is of, for which all such functions are looked at besides."""
        own = None
        if isinstance(node, ast.FunctionDef) and any(isinstance(one, ast.Name) and one.id == "classmethod" for one in node.decorator_list):
            own = next((argument.arg for argument in (*node.args.posonlyargs, *node.args.args)), None)
        of_class = set() if own is None else {*own_objects.attributes_of(own, node, parts)}
        for part in parts:
            called = part.func if isinstance(part, ast.Call) else None
            if isinstance(called, ast.Attribute) and called.attr.startswith("_") and not called.attr.startswith("__"):
                if id(called) in of_class or self._has_helper(_found(called.value, known), called.attr):
                    yield id(called)

    def _asks_class_for_helpers(self, cls: type, function: object) -> bool:
        """Whether all that a method does with the class that it is of is to ask it for such functions and values."""
        if type(function) is not FunctionType or (cls, function) in self._asking or not function.__code__.co_argcount:
            return False
        node = self._definition(function.__code__)
        if node is None:
            return False
        own = function.__code__.co_varnames[0]
        parts = _parts_of(node)
        # Two that ask for one another are not known.
        self._asking.add((cls, function))
        try:
            asked = {id(part.value) for part in parts if isinstance(part, ast.Attribute) and self._may_ask_class(cls, part.attr)}
        finally:
            self._asking.discard((cls, function))
        return all(id(part) in asked for part in parts if isinstance(part, ast.Name) and part.id == own)

    def _has_constant(self, cls: Any, name: str) -> bool:
        """The same of a value that nobody changes."""
        from inmanta import resources

        if not self._is_own_class(cls) or type(cls) not in (type, resources.ResourceMeta) or name in self._names_that_change():
            return False
        found = next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)
        return (_is_constant(found) or self._is_table_of_class(name, found)) and getattr(cls, name, None) is found

    def _is_unchanging_of_class(self, name: str, value: object) -> bool:
        """Whether what a class has by a name is a value that nobody changes."""
        return self._is_unchanging(value) or self._is_table_of_class(name, value)

    def _is_table_of_class(self, name: str, value: object) -> bool:
        if type(value) not in tables.KINDS or not tables.is_flat(value, self._is_unchanging):
            return False
        return not tables.may_change_attribute(name, [*filter(None, map(self._tree, self._files))])

    def _may_ask(self, module: ModuleType, name: str) -> bool:
        """Whether what a module has by this name only computes."""
        if module.__name__ in library.MEMBERS:
            return name in library.MEMBERS[module.__name__].split() and self._library().has_module(module.__name__, name)
        if name not in vars(module) or name in self._names_that_change():
            return False
        found = vars(module)[name]
        return self._is_settled(found) or self._is_reader(found)

    def _library(self) -> library.Library:
        if self._of_library is None:
            self._of_library = library.Library(filter(None, map(self._tree, self._files)))
        return self._of_library

    def _other_trees(self, file: str) -> Iterator[ast.Module]:
        for path in self._files:
            tree = self._tree(path) if path != file else None
            if tree is not None:
                yield tree

    def _is_used_well(
        self,
        function: FunctionType,
        node: ast.FunctionDef | ast.Lambda,
        parts: list[ast.AST],
        known: dict[str, object],
        spoken: SpokenNames,
        handed_on: HandedOn | None,
    ) -> bool:
        """Whether modules are asked only for what is known of them, and functions and classes for nothing: they may carry more."""
        by_name = {
            id(function)
            for function, of, text in spoken.reads
            if spoken.of(text) != spoken_names.UNKNOWN and (_found(of, known) is _NOTHING or _is_constant(_found(of, known)))
        }
        by_name.update(id(part.func) for part in parts if isinstance(part, ast.Call) and _is_attribute_getter(part, known))
        asked = {id(part.value) for part in parts if isinstance(part, ast.Attribute)}
        given = {*_classes_given_to_yaml(parts, known)}
        asked_for = set(_classes_asked_for(parts, known))
        called = {id(part.func) for part in parts if isinstance(part, ast.Call)}
        read = {*variables.read_by(parts, lambda node: _found(node, known))}
        of_functions = wrappers.named_functions(parts, known)
        is_plugin = function.__closure__ is None and isinstance(node, ast.FunctionDef) and self._is_called_by_models(function, node)
        with_seeds = seeded.made_by(node, parts, lambda part: _found(part, known), is_plugin)
        for part in parts:
            if isinstance(part, (ast.Attribute, ast.Name)) and seeded.is_chance(_found(part, known)) and id(part) not in with_seeds:
                return False
            if isinstance(part, (ast.Attribute, ast.Name)) and variables.is_of_them(_found(part, known)):
                if id(part) not in read or not self._has_lasting_variables():
                    return False
                continue
            if isinstance(part, ast.Attribute) and id(part.value) in read:
                # Its `get`.
                continue
            if isinstance(part, (ast.Attribute, ast.Name)) and library.is_class_of_yaml(_found(part, known)) and id(part) not in given:
                return False
            if isinstance(part, ast.ExceptHandler):
                if not all(self._is_caught(kind, known) for kind in _kinds_of(part)):
                    return False
            elif isinstance(part, ast.Name):
                found = known.get(part.id)
                if (part.id in _BY_NAME or found is operator.attrgetter) and id(part) not in by_name:
                    return False
                if isinstance(found, ModuleType):
                    if id(part) not in asked:
                        # A module as a value.
                        return False
                elif _is_for_annotations(found):
                    return False
                elif quiet_loggers.is_logger(found):
                    if id(part) not in asked:
                        return False
                elif handed_on is not None and self._makes_references(found):
                    if not handed_on.allows(part) and id(part) not in asked_for:
                        return False
                elif isinstance(found, type) and not self._is_settled(found):
                    may_be_asked = (_is_asked_for(found) or self._objects.has(found)) and id(part) in asked_for
                    is_made = id(part) in called and self._objects.has(found)
                    if not may_be_asked and not is_made and not (self._is_own_class(found) and id(part) in asked):
                        return False
            elif isinstance(part, ast.Attribute):
                of = _found(part.value, known)
                if id(part) in of_functions:
                    continue
                if of is operator and part.attr == "attrgetter" and id(part) not in by_name:
                    return False
                if isinstance(of, ModuleType):
                    if not self._may_ask(of, part.attr):
                        return False
                    if isinstance(getattr(of, part.attr, None), ModuleType) and id(part) not in asked:
                        return False
                elif isinstance(of, EnumMeta) and part.attr in of.__members__:
                    if not self.is_plain(of):
                        return False
                elif quiet_loggers.is_logger(of):
                    is_noted = part.attr in quiet_loggers.NOTED and self._is_noted(of)
                    if id(part) not in called or not is_noted and (part.attr != "debug" or not self._is_quiet(of)):
                        return False
                elif self._has_helper(of, part.attr) or self._has_constant(of, part.attr):
                    continue
                elif isinstance(of, type) and self._library().has(of):
                    if self._library().changes(of, part.attr):
                        return False
                elif of is not _NOTHING and isinstance(part.value, ast.Name):
                    if reading.is_path(of):
                        continue
                    if not self._is_unchanging(of) and type(of) not in tables.KINDS:
                        return False
                elif of is not _NOTHING and not self._is_unchanging(of) and not library.has(of):
                    return False
        return True

    def _is_called_by_models(self, function: FunctionType, node: ast.FunctionDef) -> bool:
        """Whether a function is a plugin that no code calls."""
        tree = self._tree(function.__code__.co_filename)
        return tree is not None and self._tables.is_only_plugin(tree, [*self._other_trees(function.__code__.co_filename)], node)

    def _is_harmless(self, function: FunctionType, decorator: ast.expr) -> bool:
        """Whether a decorator gives the function back as it is, as `@plugin` does, and what makes methods of functions."""
        from inmanta import plugins

        named = decorator.func if isinstance(decorator, ast.Call) else decorator
        if context_managers.is_making(decorator, function.__globals__) or _is_of_abc(decorator, function.__globals__):
            return True
        is_of_class = "." in function.__code__.co_qualname.rpartition("<locals>.")[2]
        if not is_of_class and wrappers.is_harmless(decorator, _found(named, function.__globals__), self._files.__contains__):
            return True
        if isinstance(named, ast.Name):
            if named.id in ("staticmethod", "classmethod", "property"):
                return named.id not in function.__globals__
            is_kept = cached_functions.is_keeping(decorator, function.__globals__)
            return is_kept or function.__globals__.get(named.id) is plugins.plugin
        if isinstance(named, ast.Attribute) and isinstance(named.value, ast.Name):
            is_kept = cached_functions.is_keeping(decorator, function.__globals__)
            return is_kept or function.__globals__.get(named.value.id) is plugins and named.attr == "plugin"
        return False

    def _definition(self, code: CodeType) -> ast.FunctionDef | ast.Lambda | None:
        """The text of a function of one of the files, outside of any other one, or of a lambda."""
        tree = self._tree(code.co_filename) if code.co_filename in self._files else None
        if tree is None:
            return None
        if code.co_name == "<lambda>":
            lambdas = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno]
            if len(lambdas) > 1:
                lambdas = [node for node in lambdas if _is_body(node.body, code)]
            return lambdas[0] if len(lambdas) == 1 else None
        found = None
        for node in _functions(tree.body):
            if node.name == code.co_name:
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                found = node if first == code.co_firstlineno else found
        if found is None and "<locals>" in code.co_qualname:
            return wrappers.definition(tree, code)
        return found

    def _tree(self, path: str) -> ast.Module | None:
        if path not in self._trees:
            with open(path, "rb") as file:
                self._trees[path] = ast.parse(file.read())
        return self._trees[path]

    def _names_of_texts(self) -> set[str]:
        """Attributes that hold a text that is written, wherever a file sets one of this name."""
        if self._written is None:
            self._written = printing.attributes(filter(None, map(self._tree, self._files)))
        return self._written

    def _names_that_change(self) -> set[str]:
        """The names of modules that some function may give another value: those that are `global` anywhere, that are set or
        deleted as attributes of anything, or that a file sets more than once."""
        if self._changed is None:
            self._changed = set()
            for path in self._files:
                tree = self._tree(path)
                self._changed.update(_changed_in(tree) if tree is not None else ())
        return self._changed


def _functions(statements: list[ast.stmt]) -> Iterator[ast.FunctionDef]:
    """Those of a module and of its classes."""
    for statement in statements:
        if isinstance(statement, ast.FunctionDef):
            yield statement
        elif isinstance(statement, ast.ClassDef):
            yield from _functions(statement.body)


def _is_body(body: ast.expr, code: CodeType) -> bool:
    """Whether an instruction of a lambda stands for all of an expression, as the last one does for its body."""
    return (body.lineno, body.end_lineno, body.col_offset, body.end_col_offset) in code.co_positions()


def _parts_of(node: ast.FunctionDef | ast.Lambda) -> list[ast.AST]:
    return [part for statement in _body(node) for part in _walk(statement)]


def _body(node: ast.FunctionDef | ast.Lambda) -> list[ast.AST]:
    return [node.body] if isinstance(node, ast.Lambda) else [*node.body]


def _changed_in(tree: ast.Module) -> Iterator[str]:
    set_once: dict[str, bool] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield from node.names
        elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            yield node.attr
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("setattr", "delattr"):
            written = node.args[1] if len(node.args) > 1 else None
            if isinstance(written, ast.Constant) and isinstance(written.value, str):
                yield written.value
    for statement in tree.body:
        # `import os` and `import os.path` set the same name to the same package.
        for name, is_package in _set_by(statement):
            if name in set_once and not (is_package and set_once[name]):
                yield name
            set_once[name] = is_package and set_once.get(name, True)


def _set_by(statement: ast.stmt) -> Iterator[tuple[str, bool]]:
    """The names of its module that a statement outside of all functions sets, and whether each gets the package that has this name."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield statement.name, False
    elif isinstance(statement, (ast.Import, ast.ImportFrom)):
        for alias in statement.names:
            yield (alias.asname or alias.name).split(".")[0], isinstance(statement, ast.Import) and alias.asname is None
    else:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                yield node.id, False


def _globals_of(code: CodeType) -> Iterator[str]:
    """The names outside of a function that its code reads, or that of functions and comprehensions within it."""
    import dis

    for instruction in dis.get_instructions(code):
        if instruction.opname in _GLOBALS:
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals_of(constant)


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """All parts of a statement but annotations, which are evaluated for functions within only, and then do what their names do."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns"):
            continue
        for part in value if isinstance(value, list) else (value,):
            if isinstance(part, ast.AST):
                yield from _walk(part)


def _is_allowed(node: ast.AST, attributes: set[int]) -> bool:
    """Whether a part of a function touches nothing but what is the function's own; `attributes`: those that are its own, too."""
    if isinstance(node, (ast.Assign, ast.For, ast.AugAssign, ast.AnnAssign, ast.comprehension)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return all(_is_own(target, attributes) for target in targets) and not getattr(node, "is_async", 0)
    if isinstance(node, ast.Attribute):
        is_read = isinstance(node.ctx, ast.Load) and (not node.attr.startswith("_") or node.attr in _OF_NAMED_TUPLES)
        return is_read or id(node) in attributes
    if isinstance(node, ast.Subscript):
        return isinstance(node.ctx, ast.Load) or _is_own(node, attributes)
    if isinstance(node, ast.FunctionDef):
        return not node.decorator_list
    if isinstance(node, ast.Delete):
        return all(_is_own(target, attributes) for target in node.targets)
    if isinstance(node, ast.withitem):
        return node.optional_vars is None or _is_own(node.optional_vars, attributes)
    return isinstance(node, (ast.Name, *_STATEMENTS, *_EXPRESSIONS, *_PARTS)) or isinstance(node, ast.Global) and id(node) in attributes


def _is_attribute_getter(call: ast.Call, known: dict[str, object]) -> bool:
    """Whether it makes a function that reads attributes which could stand behind a dot."""
    return _found(call.func, known) is operator.attrgetter and all(
        isinstance(name, ast.Constant) and not has_hidden_name(name.value) for name in call.args
    )


def _kinds_of(handler: ast.ExceptHandler) -> list[ast.expr]:
    if isinstance(handler.type, ast.Tuple):
        return [*handler.type.elts]
    return [] if handler.type is None else [handler.type]


def _classes_asked_for(parts: list[ast.AST], known: dict[str, object]) -> Iterator[int]:
    """The names that stand where a value, or an exception, is asked whether it is of a class."""
    for part in parts:
        if isinstance(part, ast.MatchClass):
            yield id(part.cls)
        elif isinstance(part, ast.ExceptHandler):
            yield from map(id, _kinds_of(part))
        elif isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "isinstance":
            for argument in part.args[1:]:
                for node in argument.elts if isinstance(argument, ast.Tuple) else [argument]:
                    yield id(node)
        elif isinstance(part, ast.Call) and _found(part.func, known) is contextlib.suppress:
            yield from map(id, part.args)


def _found(node: ast.AST, known: dict[str, object]) -> object:
    """What a name, or a name of a module, stands for."""
    if isinstance(node, ast.Name):
        return known.get(node.id, _NOTHING)
    if isinstance(node, ast.Attribute):
        module = _found(node.value, known)
        return getattr(module, node.attr, _NOTHING) if isinstance(module, ModuleType) else _NOTHING
    return _NOTHING


def _is_asked_for(found: object) -> bool:
    """Whether it is a class of which a value may be asked whether it is one; what else is done with it, `_is_used_well` sees."""
    return isinstance(found, type) and found.__module__.split(".")[0] in _CLASSES_OF


class _Kinds:
    """Where a function asks what class a value is of, for its name or whether it is another one."""

    def __init__(self, node: ast.FunctionDef | ast.Lambda, parts: list[ast.AST], known: dict[str, object]) -> None:
        names = [part for part in parts if isinstance(part, ast.Name) and part.id == "type"]
        arguments = (part.arg for part in (*ast.walk(node.args), *parts) if isinstance(part, ast.arg))
        is_own = "type" in known or "type" in arguments or not all(isinstance(name.ctx, ast.Load) for name in names)
        calls = {id(part) for part in parts if isinstance(part, ast.Call) and not is_own and _is_kind(part)}
        asked: set[int] = set()
        # The attributes that give the name.
        self.named: set[int] = set()
        for part in parts:
            if isinstance(part, ast.Attribute) and part.attr == "__name__" and isinstance(part.value, ast.Call):
                if id(part.value) in calls and isinstance(part.ctx, ast.Load):
                    self.named.add(id(part))
                    asked.add(id(part.value.func))
            elif isinstance(part, ast.Compare):
                compared = (part.left, *part.comparators)
                asked.update(id(one.func) for one in compared if isinstance(one, ast.Call) and id(one) in calls)
        # Whether it is Python's own `type` that is called, and nothing else is done with what it gives.
        self.are_asked = not is_own and all(id(name) in asked for name in names)


def _classes_given_to_yaml(parts: list[ast.AST], known: dict[str, object]) -> Iterator[int]:
    """Where a function of `yaml` gets a class by which it reads or writes: the class has tables of its own."""
    for part in parts:
        if isinstance(part, ast.Call) and library.module_of(_found(part.func, known)) == "yaml":
            yield from map(id, part.args[1:2])
            yield from (id(keyword.value) for keyword in part.keywords if keyword.arg in ("Dumper", "Loader"))


def _names_of_classes(parts: list[ast.AST]) -> Iterator[int]:
    """Where the name of a value's class is read by `value.__class__.__name__`: both attributes."""
    for part in parts:
        if isinstance(part, ast.Attribute) and part.attr == "__name__" and isinstance(part.ctx, ast.Load):
            if isinstance(part.value, ast.Attribute) and part.value.attr == "__class__":
                yield id(part)
                yield id(part.value)


def _is_kind(call: ast.Call) -> bool:
    is_type = isinstance(call.func, ast.Name) and call.func.id == "type"
    return is_type and len(call.args) == 1 and not call.keywords and not isinstance(call.args[0], ast.Starred)


def _texts_of_elements(node: ast.FunctionDef | ast.Lambda, parts: list[ast.AST], known: dict[str, object]) -> Iterator[int]:
    """Where a function sets the text of an element of XML that it has made."""
    arguments = {part.arg for part in (*ast.walk(node.args), *parts) if isinstance(part, ast.arg)}
    made: dict[str, bool] = {}
    set_plainly: set[int] = set()
    for part in parts:
        if isinstance(part, ast.Assign) and len(part.targets) == 1 and isinstance(part.targets[0], ast.Name):
            name = part.targets[0]
            set_plainly.add(id(name))
            made[name.id] = made.get(name.id, True) and _is_element(part.value, known)
    for part in parts:
        if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load) and id(part) not in set_plainly:
            made[part.id] = False
        elif isinstance(part, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and part.name:
            made[part.name] = False
    for part in parts:
        if not isinstance(part, ast.Assign):
            continue
        texts = [target for target in part.targets if isinstance(target, ast.Attribute) and target.attr in ("text", "tail")]
        elements = (text.value for text in texts)
        is_own = all(
            _is_element(one, known) or isinstance(one, ast.Name) and made.get(one.id, False) and one.id not in arguments
            for one in elements
        )
        if is_own:
            yield from map(id, texts)


def _is_element(made: ast.expr, known: dict[str, object]) -> bool:
    """Whether it makes an element of XML."""
    elements = sys.modules.get("xml.etree.ElementTree")
    found = _found(made.func, known) if isinstance(made, ast.Call) else _NOTHING
    return elements is not None and (found is elements.Element or found is elements.SubElement)


def _is_own(target: ast.expr, attributes: set[int]) -> bool:
    """Whether what is set is the function's: a variable, or an element of what one holds. What comes from outside is constant."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return all(_is_own(one, attributes) for one in target.elts)
    if isinstance(target, ast.Starred):
        return _is_own(target.value, attributes)
    while isinstance(target, ast.Subscript):
        # What is in a list or dict that is the function's, too. Of a table of the module this is seen (`tables`).
        target = target.value
        while isinstance(target, ast.Call) and isinstance(target.func, ast.Attribute) and target.func.attr in ("get", "setdefault"):
            # Also what is put there if there is nothing: it is seen as well if it comes out of a table.
            target = target.func.value
    return isinstance(target, ast.Name) or id(target) in attributes


def _is_constant(value: object) -> bool:
    """Whether it is a value that nobody can change."""
    if type(value) in (tuple, frozenset):
        return all(map(_is_constant, value))  # type: ignore[call-overload]  # it has elements
    return type(value) in _PLAIN or any(type(value) is getattr(sys.modules.get(module), name, None) for module, name in _UNCHANGING)


def _classes_of(module: str, names: Iterable[str]) -> Iterator[object]:
    """Classes of a module of Python, if it is imported."""
    loaded = sys.modules.get(module)
    return (getattr(loaded, name) for name in names if loaded is not None)


def _is_for_annotations(found: object) -> bool:
    """Whether it is something like `Dict` or `Any`, which functions within have in their annotations."""
    typing = sys.modules.get("typing")
    return typing is not None and (found is typing.Any or type(found).__module__ == "typing" and not isinstance(found, (type, FunctionType)))


def _is_of_abc(decorator: ast.expr, known: dict[str, object]) -> bool:
    """Whether it is the decorator of methods that other classes must have."""
    abc = sys.modules.get("abc")
    return abc is not None and _found(decorator, known) is abc.abstractmethod


def _is_exception(value: object) -> bool:
    from inmanta import plugins, resources

    is_ours = value is plugins.PluginException or value is resources.IgnoreResourceException
    is_known = is_ours or getattr(value, "__module__", None) == "builtins"
    return is_known and isinstance(value, type) and issubclass(value, Exception)


def _builtins() -> Any:
    import builtins

    return builtins
