"""Names of the reference's package that Steward does not have: they can be imported, and say why they are not here when used.

A test file often imports more than it uses, or names a class of the reference's server in an annotation only. So every
public name of the reference can be imported. Three ways lead here, and none of them costs anything before it is taken:

- a module that we do not have at all is found by the last entry of `sys.meta_path` (`inmanta/__init__.py`), and made by `spec`;
- a module that we have asks for a name that it lacks through its `__getattr__`, which `inmanta._rest_of` makes;
- a class that we have lists the members that it lacks with `inmanta._without`.

`_absent_names.py` is the table of all such names, generated from the reference's by introspection (`fixtures/surface`). What
is plain data is real, with the reference's values: constants, enums, exceptions, options, loggers, type variables. So are
the names that `_more/` defines: real ones which few processes ask for. The rest refuses to be used, with `NotPartOfSteward`.
"""

from __future__ import annotations

from abc import ABCMeta

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

# Modules with names that are real but seldom asked for -> the file below `_more` that has them.
MORE = {
    "inmanta.config": "config",
    "inmanta.const": "const",
    "inmanta.data.model": "data_model",
    "inmanta.env": "env",
    "inmanta.module": "module",
    "inmanta.resources": "resources",
    "inmanta.types": "types",
    "inmanta.util": "util",
}

_SERVER = "it is a part of the reference's server: Steward's is `steward serve`, with the same REST API (inmanta.protocol has clients)"
_DATABASE = "it works on the database of the reference's server: Steward has a database of its own, and its REST API shows what is in it"
_DEPLOY = "Steward deploys with an engine of its own, which is no Python code"
_PROTOCOL = "it is the inside of the reference's protocol: inmanta.protocol.endpoints has the clients of the REST API"
_COMPILER = "Steward compiles with a compiler of its own: there are no syntax trees, schedulers or variables of it in Python"
_PACKAGES = "Steward installs, resolves and builds packages itself (`steward project install`)"
_COMMANDS = "the commands are those of the program `steward`"
_LOGGING = "Steward sets up its logs itself"
_VENDORED = "it is a copy of somebody else's package that the reference carries: install that package and import it from there"

# Why the names of a module, and of all below it, are not here; the longest prefix counts.
REASONS = {
    "inmanta": "nothing of Steward works this way",
    "inmanta.agent": _DEPLOY,
    "inmanta.app": _COMMANDS,
    "inmanta.ast": _COMPILER,
    "inmanta.command": _COMMANDS,
    "inmanta.compiler": _COMPILER,
    "inmanta.config": _COMMANDS,
    "inmanta.data": _DATABASE,
    "inmanta.db": _DATABASE,
    "inmanta.deploy": _DEPLOY,
    "inmanta.env": _PACKAGES,
    "inmanta.execute": _COMPILER,
    "inmanta.export": "Steward's compiler exports the model itself",
    "inmanta.file_parser": _PACKAGES,
    "inmanta.graphql": _SERVER,
    "inmanta.loader": "Steward's hosts load the code of modules themselves",
    "inmanta.logging": _LOGGING,
    "inmanta.main": _COMMANDS,
    "inmanta.model": _COMPILER,
    "inmanta.module": _PACKAGES,
    "inmanta.moduletool": _PACKAGES,
    "inmanta.parser": _COMPILER,
    "inmanta.plugins": _COMPILER,
    "inmanta.profile_mem": _COMMANDS,
    "inmanta.protocol": _PROTOCOL,
    "inmanta.references": _COMPILER,
    "inmanta.reporter": _SERVER,
    "inmanta.resources": _COMPILER,
    "inmanta.server": _SERVER,
    "inmanta.signals": _COMMANDS,
    "inmanta.tornado": _SERVER,
    "inmanta.tracing": _LOGGING,
    "inmanta.user_setup": _COMMANDS,
    "inmanta.util": _SERVER,
    "inmanta.vendor": _VENDORED,
    "inmanta.warnings": _LOGGING,
}


class NotPartOfSteward(AttributeError, NotImplementedError):
    """A name of the reference's package was used that Steward does not have. The text says which, and why.

    It is an AttributeError, so that `hasattr` says no, and `getattr` gives its default.
    """


def reason(module: str) -> str:
    """Why names of a module are not here."""
    prefix = module
    while prefix and prefix not in REASONS:
        prefix = prefix.rpartition(".")[0]
    return REASONS[prefix or "inmanta"]


def refusal(name: str, because: str | None = None) -> NotPartOfSteward:
    """The error for the use of a name, `inmanta.module.Name` or `inmanta.module.Class.member`."""
    return NotPartOfSteward(f"{name} is not part of Steward, because {because or reason(name)}")


class Absent:
    """A function or a value that is not here: whatever is done with it raises, other than naming it."""

    def __init__(self, name: str, is_function: bool) -> None:
        self.__name__ = self.__qualname__ = name.rpartition(".")[2]
        self.__module__ = name.rpartition(".")[0]
        self._is_function = is_function

    def _refuse(self, *_: object, **__: object) -> Any:
        raise refusal(f"{self.__module__}.{self.__name__}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._refuse()

    def __bool__(self) -> bool:
        return True if self._is_function else bool(self._refuse())

    def __or__(self, other: object) -> Any:
        # In an annotation: `Name | None`.
        import typing

        return typing.Any

    __ror__ = __or__
    __call__ = __getitem__ = __iter__ = __len__ = __contains__ = __enter__ = __exit__ = __aenter__ = __await__ = _refuse

    def __repr__(self) -> str:
        return f"<{self.__module__}.{self.__name__}, not part of Steward>"


class AbsentClass(ABCMeta):
    """The class of classes that are not here. They can be subclassed, and named in annotations; nothing is an instance."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **_: object) -> AbsentClass:
        return super().__new__(mcs, name, bases, namespace)

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **_: object) -> None:
        super().__init__(name, bases, namespace)

    def _named(cls) -> str:
        """The class of the reference that this one is, or is a subclass of."""
        named = next(base for base in cls.__mro__ if "_is_absent" in vars(base))
        return f"{named.__module__}.{named.__qualname__}"

    def __call__(cls, *_: object, **__: object) -> Any:
        raise refusal(cls._named())

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        raise refusal(f"{cls._named()}.{name}", reason(cls._named()))

    def __getitem__(cls, _: object) -> AbsentClass:
        return cls


def _is_instance_schema(cls: type, source: object, handler: object) -> object:
    """A field of a pydantic model may be annotated with a class that is not here."""
    from pydantic_core import core_schema

    return core_schema.is_instance_schema(cls)


def _absent_class(module: str, name: str) -> type:
    members = {
        "__module__": module,
        "__qualname__": name,
        "__doc__": f"Not part of Steward, because {reason(module)}.",
        "_is_absent": True,
        "__get_pydantic_core_schema__": classmethod(_is_instance_schema),
    }
    return AbsentClass(name, (), members)


def _class_named(path: str) -> type | None:
    """The class at a dotted path, if it is a real one that others can extend."""
    import importlib

    module, _, name = path.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        return None
    return found if isinstance(found, type) and not isinstance(found, AbsentClass) else None


def _exception(module: str, name: str, bases: str) -> type:
    """An exception is real, with its text as the only argument: somebody may catch it, and a test may raise it."""
    real = [found for path in bases.split() if (found := _class_named(path)) is not None and issubclass(found, BaseException)]
    return type(name, tuple(real) or (Exception,), {"__module__": module})


def _enum(module: str, name: str, entry: tuple[str, list[tuple[str, object]]]) -> type:
    import enum

    bases, members = entry
    names = bases.split()
    kind: Any = next((found for path in names if (found := _class_named(path)) and issubclass(found, enum.Enum)), enum.Enum)
    mixed = next((found for path in names if (found := _class_named(path)) and not issubclass(found, enum.Enum)), None)
    made: type = kind(name, members, module=module, type=mixed) if mixed else kind(name, members, module=module)
    return made


def _option(entry: tuple[str, str, object, str]) -> object:
    from inmanta import config

    section, name, default, validator = entry
    return config.Option(section, name, default, "", getattr(config, validator, config.is_str))


def _alias(path: str) -> object:
    """The name that another module defines. Types of `typing` that nobody evaluates are Any."""
    import importlib

    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def _made(module: str, name: str, kind: str, entry: Any) -> object:
    """A name of the table as an object."""
    if kind == "alias":
        return _alias(entry)
    if kind == "module":
        import importlib

        return importlib.import_module(entry)
    if kind == "constant":
        return entry
    if kind == "exception":
        return _exception(module, name, entry)
    if kind == "enum":
        return _enum(module, name, entry)
    if kind == "option":
        return _option(entry)
    if kind == "logger":
        import logging

        return logging.getLogger(entry)
    if kind == "typevar":
        import typing

        return typing.TypeVar(name)
    if kind == "type":
        import typing

        return typing.Any
    if kind == "class":
        return _absent_class(module, name)
    return Absent(f"{module}.{name}", kind == "function")


def name_of(module: str, name: str) -> object:
    """A public name of the reference's module that ours does not define. AttributeError if the reference has none either."""
    import importlib

    if not name.startswith("_"):
        if module in MORE:
            more = importlib.import_module(f"inmanta._more.{MORE[module]}")
            if name in vars(more):
                return vars(more)[name]
        from inmanta._absent_names import NAMES

        found = NAMES.get(module, {}).get(name)
        if found is not None:
            return _made(module, name, *found)
    raise AttributeError(f"module {module!r} has no attribute {name!r}")


class _Loader:
    """Makes a module that has nothing but names of the table."""

    @staticmethod
    def create_module(spec: ModuleSpec) -> None:
        return None

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        from inmanta import _rest_of
        from inmanta._absent_names import NAMES

        name = module.__name__
        module.__doc__ = f"Of the reference's package; not part of Steward, because {reason(name)}."
        module.__dict__["__all__"] = sorted(NAMES[name])
        module.__dict__["__getattr__"] = _rest_of(name)


def spec(fullname: str) -> ModuleSpec | None:
    """How to import a module of the reference that we do not have; None if the reference has none of this name."""
    from importlib.machinery import ModuleSpec

    from inmanta._absent_names import NAMES

    if fullname not in NAMES:
        return None
    is_package = any(name.startswith(fullname + ".") for name in NAMES)
    return ModuleSpec(fullname, _Loader, is_package=is_package)  # type: ignore[arg-type]  # it has what a loader must have
