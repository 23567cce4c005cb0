"""Plugins: Python functions that a model calls.

`@plugin` leaves the function as it is and registers a class for it, `function.__plugin__`. Steward makes one instance
of that class, converts the arguments of a call and goes through the class's `call` attribute, so that replacing `call`
changes what the model gets. Source: docs/reference/language.md § 10.
"""

from __future__ import annotations

import os

from inmanta import _without, const
from inmanta._signature import MISSING, Argument, Declared, signature
from inmanta.ast import (
    Location,
    MultiUnsetException,
    Namespace,
    PluginException,
    PluginTypeException,
    RuntimeException,
    UnexpectedReference,
    UnsetException,
)
from inmanta.execute.proxy import DynamicProxy, ProxyContext
from inmanta.execute.util import Unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any, TypeVar

    from inmanta.ast.type import Type
    from inmanta.execute.resolver import QueueScheduler, Resolver
    from inmanta.protocol.endpoints import Client, SyncClient
    from steward_host.messages import Inputs
    from steward_host.values import Values

    T = TypeVar("T")
    # HTTP status, and body.
    Answer = tuple[int, dict[str, Any] | None]
    # From a method and its arguments.
    Ask = Callable[[str, dict[str, Any]], Answer | None]
    # From HTTP method, path with its query, environment, body.
    PassOn = Callable[[str, str, str | None, dict[str, Any] | None], Answer]

__all__ = [
    "CheckedArgs",
    "Context",
    "ModelType",
    "Null",
    "Plugin",
    "PluginException",
    "PluginMeta",
    "PluginTypeException",
    "allow_reference_values",
    "deprecated",
    "plugin",
]


class ModelType:
    """`Annotated[Any, ModelType["net::Interface"]]`: the model's type of an argument or a result."""

    def __init__(self, model_type: str) -> None:
        self.model_type = model_type

    def __class_getitem__(cls, key: str) -> ModelType:
        return cls(key)

    def __repr__(self) -> str:
        return f"ModelType(model_type={self.model_type!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModelType) and self.model_type == other.model_type

    def __hash__(self) -> int:
        return hash(self.model_type)


def allow_reference_values(instance: T) -> T:
    """A copy of a proxy whose direct elements may be references; anything else comes back as it is."""
    return instance._allow_references() if isinstance(instance, DynamicProxy) else instance


class Owner:
    """The statement that calls a plugin: where it stands."""

    def __init__(self, namespace: str, location: Location) -> None:
        self._namespace = namespace
        self.location = location

    @property
    def namespace(self) -> Namespace:
        return Namespace.of(self._namespace)

    def get_location(self) -> Location:
        return self.location


class _Given(type):
    """Notes that somebody asked for what is of one compile only: modules that do so while they are imported can not serve
    another one."""

    was_asked = False
    _refs: dict[str, Any] = {}
    _inputs: Inputs = {}

    @property
    def refs(cls) -> dict[str, Any]:
        cls.was_asked = True
        return cls._refs

    @refs.setter
    def refs(cls, value: dict[str, Any]) -> None:
        cls._refs = value

    @property
    def inputs(cls) -> Inputs:
        """What the compile was given besides the project: environment, server, parameters, facts, services."""
        cls.was_asked = True
        return cls._inputs

    @inputs.setter
    def inputs(cls, value: Inputs) -> None:
        cls._inputs = value


class Runtime(metaclass=_Given):
    """What `Context` knows beyond its call; filled in by the host before the first call."""

    environment_id: str | None = None
    project_dir: str = "."
    # This process serves a compile of Steward's.
    is_hosted = False
    # Full name -> Plugin, for Context.get_compiler().
    plugins: dict[str, Plugin] = {}
    # How values of the model become arguments.
    values: Values | None = None
    # Of an executor: what is answered to a method of the API without a request to it; None: it is not known so.
    ask: Ask | None = None
    # Of an executor: what the server answers to a request to its API.
    pass_on: PassOn | None = None
    # Of an executor: the directory of the file store.
    files_dir: str | None = None


class _Compiler:
    """What `Context.get_compiler()` gives."""

    @property
    def refs(self) -> dict[str, Any]:
        return Runtime.refs

    def get_plugins(self) -> dict[str, Plugin]:
        """All plugins by full name, those of std included."""
        if Runtime.plugins:
            load_std()
        return Runtime.plugins


def load_std() -> None:
    """Adds those of std, which are no Python of a project without the published package and come when somebody asks."""
    import importlib

    importlib.import_module("inmanta_plugins.std")
    for name, cls in PluginMeta.get_functions().items():
        if name.startswith("std::") and name not in Runtime.plugins:
            Runtime.plugins[name] = cls(Namespace.of("std"))


class Context:
    """The call that a plugin serves; injected for the parameter annotated with this class."""

    __slots__ = ("resolver", "queue", "owner", "plugin", "result")
    __client: Client | None = None
    __sync_client: SyncClient | None = None

    def __init__(
        self, resolver: Resolver, queue: QueueScheduler, owner: Owner, plugin: Plugin, result: object = None
    ) -> None:
        self.resolver = resolver
        self.queue = queue
        self.owner = owner
        self.plugin = plugin
        self.result = result

    @property
    def compiler(self) -> _Compiler:
        return _Compiler()

    def get_compiler(self) -> _Compiler:
        return _Compiler()

    def get_resolver(self) -> Resolver:
        return self.resolver

    def get_queue_scheduler(self) -> QueueScheduler:
        return self.queue

    def get_type(self, typename: str) -> Type | Plugin:
        """The type of this full name: an Entity, a typedef or a plugin. TypeNotFoundException if there is none."""
        from inmanta.ast import TypeNotFoundException

        try:
            found: Type | Plugin = self.queue.get_types()[str(typename)]
            return found
        except KeyError:
            # As with the reference, a plain text has no place, which is an AttributeError.
            error = TypeNotFoundException(typename, self.owner.namespace)
            error.set_location(getattr(typename, "get_location")())
            raise error from None

    def get_environment_id(self) -> str:
        """The id of the environment that is compiled; the text "None" outside of one, as with the reference."""
        return str(Runtime.environment_id)

    def get_data_dir(self) -> str:
        """The directory `data/<namespace>` of the project, made if need be."""
        namespace = self.plugin.namespace.get_full_name() if self.plugin is not None else ""
        path = os.path.join(Runtime.project_dir, "data", namespace)
        os.makedirs(path, exist_ok=True)
        return path

    def get_client(self) -> Client:
        """The asynchronous API client of this compile."""
        if Context.__client is None:
            from inmanta.protocol import endpoints

            Context.__client = endpoints.Client("compiler")
        return Context.__client

    def get_sync_client(self) -> SyncClient:
        """The blocking API client of this compile."""
        if Context.__sync_client is None:
            from inmanta.protocol import endpoints

            Context.__sync_client = endpoints.SyncClient("compiler")
        return Context.__sync_client

    def run_sync(self, function: Callable[[], Awaitable[T]], timeout: int = 5) -> T:
        """Runs an async function to its end and gives its result; ConnectionRefusedError after `timeout` seconds."""
        import asyncio

        async def limited() -> T:
            return await asyncio.wait_for(function(), timeout)

        try:
            return asyncio.run(limited())
        except (asyncio.TimeoutError, TimeoutError) as error:
            raise ConnectionRefusedError from error


class CheckedArgs:
    """Converted arguments; `unknowns`: one of them is Unknown, so the call is skipped."""

    __slots__ = ("args", "kwargs", "unknowns")

    def __init__(self, args: list[Any], kwargs: dict[str, Any], unknowns: bool = False) -> None:
        self.args = args
        self.kwargs = kwargs
        self.unknowns = unknowns

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CheckedArgs) and all(getattr(self, n) == getattr(other, n) for n in self.__slots__)

    def __repr__(self) -> str:
        return f"CheckedArgs(args={self.args!r}, kwargs={self.kwargs!r}, unknowns={self.unknowns!r})"


class PluginMeta(type):
    """Collects the plugin classes as they are made."""

    __functions: dict[str, type[Plugin]] = {}
    # Whether some class may have other ways than `Plugin`: then each call looks.
    has_other_ways = False

    def __setattr__(cls, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if name in ("call_in_context", "check_args", "check_requirements"):
            PluginMeta.has_other_ways = True

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type[Plugin]:
        cls: Any = super().__new__(mcs, name, bases, namespace)
        if getattr(cls, "__function_name__", None):
            mcs.add_function(cls)
            PluginMeta.has_other_ways |= cls._has_other_ways()
        made: type[Plugin] = cls
        return made

    @classmethod
    def add_function(mcs, plugin_class: type[Plugin]) -> None:
        """Registers a plugin class under its full name; a later one replaces it."""
        mcs.__functions[plugin_class.__fq_plugin_name__] = plugin_class

    @classmethod
    def get_functions(mcs) -> dict[str, type[Plugin]]:
        """All plugin classes by full name, in order of registration."""
        return dict(mcs.__functions)

    @classmethod
    def clear(mcs, inmanta_module: str | None = None) -> None:
        """Forgets the plugins of one module, or all."""
        if inmanta_module is None:
            mcs.__functions = {}
        else:
            mcs.__functions = {
                name: cls for name, cls in mcs.__functions.items() if name.split("::", 1)[0] != inmanta_module
            }


class Null:
    """The type of null in annotations."""


@_without(
    "as_python_type_string comment copy_location corresponds_to deprecate_function emit_statement get_arg "
    "get_base_type get_double_defined_exception get_kwarg get_location get_namespace has_custom_to_python "
    "is_attribute_type is_entity issubtype issupertype normalize report_missing_arguments set_location "
    "supports_references to_python type_string_internal validate with_base_type"
)
class Plugin(metaclass=PluginMeta):
    """A plugin of the model. Every `@plugin` makes a subclass; there is one instance of it a compile."""

    __function_name__ = ""
    __fq_plugin_name__ = ""
    __function__: Callable[..., Any] | None = None
    opts: dict[str, Any] = {}
    call: Callable[..., Any]
    # The one that `@plugin` has made.
    _own_call: Callable[..., Any] | None = None
    deprecated = False
    replaced_by: str | None = None

    def __init__(self, namespace: Namespace | str | None = None) -> None:
        if namespace is None or isinstance(namespace, str):
            namespace = Namespace.of(namespace or self.__fq_plugin_name__.rsplit("::", 1)[0])
        self.ns = self.namespace = namespace
        self.new_statement = None
        self.location = None
        self._context = -1
        self.args: list[Argument] = []
        self.kwargs: dict[str, Argument] = {}
        self.var_args: Argument | None = None
        self.var_kwargs: Argument | None = None
        self.all_args: dict[str, Argument] = {}
        self.return_type = Declared(MISSING)
        function = type(self).__function__
        if function is not None:
            self._load_signature(function)

    def _load_signature(self, function: Callable[..., Any]) -> None:
        arguments, returned = signature(function)
        self.return_type = Declared(returned)
        self.return_type.namespace = self.namespace.get_full_name()
        for index, argument in enumerate(arguments):
            argument.namespace = self.return_type.namespace
            if argument.kind == "var_positional":
                self.var_args = argument
            elif argument.kind == "var_keyword":
                self.var_kwargs = argument
            elif argument.kind == "keyword_only":
                self.kwargs[argument.name] = argument
            elif is_context(argument.annotation):
                if self._context >= 0:
                    raise Exception(f"Only one parameter of {self.get_full_name()} may be a Context")
                self._context = index
            else:
                self.args.append(argument)
        self.all_args = {argument.name: argument for argument in (*self.args, *self.kwargs.values())}

    def get_full_name(self) -> str:
        return self.__fq_plugin_name__

    def type_string(self) -> str:
        return self.get_full_name()

    def is_accept_unknowns(self) -> bool:
        return bool(self.opts.get("allow_unknown", False))

    def get_signature(self, *, use_dsl_types: bool = False) -> str:
        """`name(a: 'string', b: 'int' = 0) -> 'any'`, as messages show it; `use_dsl_types`: with the types of the model."""

        def shown(argument: Argument, prefix: str = "") -> str:
            if use_dsl_types:
                return f"{prefix}{argument.name}: {argument.resolved_type.type_string_internal()}"
            text = f"{prefix}{argument.name}: {argument.annotation!r}"
            return f"{text} = {argument.default!s}" if argument.has_default else text

        parts = [shown(argument) for argument in self.args]
        if self.var_args is not None:
            parts.append(shown(self.var_args, "*"))
        elif self.kwargs:
            parts.append("*")
        parts += [shown(argument) for argument in self.kwargs.values()]
        if self.var_kwargs is not None:
            parts.append(shown(self.var_kwargs, "**"))
        expression = self.return_type.type_expression
        returns = f" -> {self.return_type.resolved_type if use_dsl_types else repr(expression)}"
        return f"{self.__function_name__}({', '.join(parts)}){'' if expression is None else returns}"

    def check_requirements(self) -> None:
        """An exception for the first of the declared commands that is not on the path."""
        import shutil

        for command in self.opts.get("bin") or ():
            if shutil.which(command) is None:
                raise Exception(f"{self.__function_name__} requires {command} to be available in $PATH")

    def check_args(self, args: list[Any], kwargs: dict[str, Any]) -> CheckedArgs:
        """Converts internal values into what the body gets.

        RuntimeException for a number or a name that does not fit, PluginTypeException for a value of another type.
        """
        name = self.get_full_name()
        if self.var_args is None and len(args) > len(self.args):
            raise RuntimeException(
                None, f"{name}() takes {len(self.args)} positional arguments but {len(args)} were given"
            )
        positional = [a for a in self.args[len(args) :] if not a.has_default and a.name not in kwargs]
        by_name = [a for a in self.kwargs.values() if not a.has_default and a.name not in kwargs]
        for kind, missing in (("positional", positional), ("keyword-only", by_name)):
            if missing:
                plural = "s" if len(missing) > 1 else ""
                listed = " and ".join(f"'{argument.name}'" for argument in missing)
                raise RuntimeException(None, f"{name}() missing {len(missing)} required {kind} argument{plural}: {listed}")
        converted = []
        for index, value in enumerate(args):
            argument = self.args[index] if index < len(self.args) else self.var_args
            assert argument is not None, "the number of arguments was checked"
            converted.append(self._to_python(value, argument))
        taken = {argument.name for argument in self.args[: len(args)]}
        named = {}
        for key, value in kwargs.items():
            found = self.all_args.get(key) or self.var_kwargs
            if found is None:
                raise RuntimeException(None, f"{name}() got an unexpected keyword argument: '{key}'")
            if key in taken:
                raise RuntimeException(None, f"{name}() got multiple values for argument '{key}'")
            named[key] = self._to_python(value, found)
        return CheckedArgs(converted, named, any(isinstance(value, Unknown) for value in (*args, *kwargs.values())))

    def _to_python(self, value: object, argument: Argument) -> object:
        """An internal value as the body gets it; an Unknown stays one."""
        if isinstance(value, Unknown):
            return value
        self._check(argument, value, f"Value {value!r} for argument {argument.name} of plugin")
        if Runtime.values is not None:
            return Runtime.values.argument(value, argument, self.get_full_name())
        return DynamicProxy.return_value(value, context=ProxyContext(path=argument.name))

    def _check(self, declared: Declared, value: object, what: str) -> None:
        """PluginTypeException for a value of another type than the declared one."""
        try:
            declared.validate(value)
        except (UnsetException, MultiUnsetException):
            raise
        except RuntimeException as error:
            text = f"{what} {self.get_full_name()}"
            if isinstance(error, UnexpectedReference) and isinstance(declared, Argument):
                wanted = "To allow references, use `| Reference[...]` in your type annotation."
                raise PluginTypeException(None, f"{text} contains a reference. {wanted}") from error
            expected = declared.resolved_type.type_string_internal()
            raise PluginTypeException(None, f"{text} has incompatible type. Expected type: {expected}") from error

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Calls the body with values that are plugin values already, as template filters do, and gives the internal result.

        A Context comes from the caller, if the body wants one. UnknownException for an Unknown that it does not allow,
        PluginTypeException for a result of another type than the declared one.
        """
        if self.deprecated:
            self._warn_deprecated()
        self.check_requirements()

        def given(value: object) -> object:
            if isinstance(value, Context) or (isinstance(value, Unknown) and self.is_accept_unknowns()):
                return value
            return DynamicProxy.return_value(value)

        values = [given(value) for value in args]
        return self._result(self.call(*values, **{name: given(value) for name, value in kwargs.items()}))

    def _result(self, returned: object) -> object:
        """The internal value of what the body returned, which has the declared type."""
        value: object = DynamicProxy._plain(returned)
        self._check(self.return_type, value, f"Return value {value} of plugin")
        return value

    def _warn_deprecated(self) -> None:
        import warnings

        from inmanta.warnings import PluginDeprecationWarning

        text = f"Plugin '{self.get_full_name()}' is deprecated."
        if self.replaced_by:
            text += f" It should be replaced by '{self.replaced_by}'."
        warnings.warn(PluginDeprecationWarning(text), stacklevel=3)

    def call_in_context(
        self, processed_args: CheckedArgs, resolver: object, queue: object, location: Location
    ) -> object:
        """Calls the body for a statement at `location` and gives the internal result. Exceptions of the body pass.

        `processed_args` are the body's own: converted, and with a Context at its place if the body wants one.
        PluginTypeException for a result of another type than the declared one.
        """
        if self.deprecated and not Runtime.is_hosted:
            self._warn_deprecated()
        self.check_requirements()
        return self._result(self.call(*processed_args.args, **processed_args.kwargs))

    @classmethod
    def _has_other_ways(cls) -> bool:
        """Whether calls go through methods that are others than this class had when it was made."""
        return (
            cls.call_in_context is not _call_in_context
            or cls.check_args is not _check_args
            or cls.check_requirements is not _check_requirements
        )

    def _is_replaced(self) -> bool:
        """Whether a module has put something else in the place of what a function is called by."""
        return type(self).call is not type(self)._own_call or self._has_other_ways()


# Modules may put others in their place; the calls of a model go past them as long as they are these.
_call_in_context = Plugin.call_in_context
_check_args = Plugin.check_args
_check_requirements = Plugin.check_requirements


def is_context(annotation: object) -> bool:
    """Whether an annotation asks for the Context."""
    return annotation is Context or (isinstance(annotation, type) and issubclass(annotation, Context))


def plugin(
    function: Callable[..., Any] | str | None = None,
    commands: list[str] | None = None,
    emits_statements: bool = False,
    allow_unknown: bool = False,
) -> Any:
    """Makes a function callable by the model, as `@plugin`, `@plugin("name")` or with arguments.

    `commands` must be on the path when it is called; `allow_unknown` lets Unknown arguments in. The function comes back
    unchanged. An exception if its module is not below `inmanta_plugins`.
    """

    def register(name: str | None, fnc: Any) -> Any:
        name = name or fnc.__name__
        module = fnc.__module__
        parts = module.split(".")
        if parts[0] != const.PLUGINS_PACKAGE or len(parts) < 2:
            raise Exception(
                f"All plugin modules should be loaded in the {const.PLUGINS_PACKAGE} package not in {module}"
            )

        def call(self: Plugin, *args: object, **kwargs: object) -> object:
            return fnc(*args, **kwargs)

        fnc.__plugin__ = PluginMeta(
            name,
            (Plugin,),
            {
                "__module__": module,
                "__function_name__": name,
                "__fq_plugin_name__": "::".join([*parts[1:], name]),
                "__function__": staticmethod(fnc),
                "opts": {
                    "bin": commands,
                    "emits_statements": emits_statements,
                    "allow_unknown": allow_unknown,
                },
                "call": call,
                "_own_call": call,
            },
        )
        return fnc

    if callable(function):
        return register(None, function)
    if function is not None and not isinstance(function, str):
        raise TypeError("@plugin takes a function or a name")
    return lambda fnc: register(function, fnc)


def deprecated(function: T | None = None, *, replaced_by: str | None = None, **kwargs: object) -> Any:
    """Marks a plugin as deprecated; stands above `@plugin`. `replaced_by` is told to the user."""

    def mark(fnc: Any) -> Any:
        if not hasattr(fnc, "__plugin__"):
            raise Exception(
                f"Can not deprecate '{fnc.__name__}': The '@deprecated' decorator should be used in combination with"
                " the '@plugin' decorator and should be placed at the top."
            )
        fnc.__plugin__.deprecated = True
        fnc.__plugin__.replaced_by = replaced_by
        return fnc

    return mark if function is None else mark(function)


def __getattr__(name: str) -> object:
    # The exceptions of a compile can be had from here as well.
    import inmanta
    import inmanta.ast

    if name == "PluginDeprecationWarning":
        from inmanta.warnings import PluginDeprecationWarning

        return PluginDeprecationWarning
    if name in vars(inmanta.ast):
        return getattr(inmanta.ast, name)
    return inmanta._rest_of(__name__)(name)
