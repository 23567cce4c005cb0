"""Steward's Python surface for modules of the Inmanta language.

Modules are written against the import name `inmanta`; this package gives them the names they use: plugins, resources,
handlers, references and what these need. It runs inside a host process (`steward_host`) that Steward starts; the
modelling language itself is not in here.

Where to start: `plugins` for what a model may call, `resources` for how an entity becomes a resource, `agent.handler`
for what a resource does on a machine.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from typing import Any, TypeVar

    _Class = TypeVar("_Class")

# Of the reference that this package is like.
__version__ = "20.1.0"

# Set by test tools: log arguments that are no JSON then raise instead of being turned into text.
RUNNING_TESTS = False


class _Rest:
    """Finds, last of all, modules that only the reference has (`_absent`). The list of them is loaded when one is asked for."""

    @staticmethod
    def find_spec(fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if not fullname.startswith("inmanta."):
            return None
        from inmanta._absent import spec

        return spec(fullname)


def _rest_of(module: str) -> Callable[[str], object]:
    """The `__getattr__` of a module of this package: its submodules, and names that it has no definition of (`_absent`).

    What was found is kept. Submodules come first and without the table, because Python asks a package for an attribute of
    this name before it imports a submodule.
    """

    def rest(name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        import os

        known = sys.modules[module]
        for directory in getattr(known, "__path__", ()):
            path = os.path.join(directory, name)
            if os.path.isfile(path + ".py") or os.path.isfile(os.path.join(path, "__init__.py")):
                # Not by `importlib`, whose own import takes longer than all the rest of this.
                __import__(f"{module}.{name}")
                return sys.modules[f"{module}.{name}"]
        from inmanta._absent import name_of

        made = name_of(module, name)
        setattr(known, name, made)
        return made

    return rest


class _Member:
    """A member of one of our classes that only the reference's has: reading it raises; it can be replaced."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type) -> Any:
        from inmanta._absent import refusal

        # Of the class that lists it, which a module may have extended.
        named = next((cls for cls in owner.__mro__ if vars(cls).get(self.name) is self), owner)
        raise refusal(f"{named.__module__}.{named.__qualname__}.{self.name}")


def _without(names: str) -> Callable[[_Class], _Class]:
    """Decorates a class with the members that only the reference's has; the text names them, between spaces."""

    def decorate(cls: _Class) -> _Class:
        for name in names.split():
            # What the class has come to define itself counts.
            if name not in cls.__dict__:
                setattr(cls, name, _Member(name))
        return cls

    return decorate


if not any(getattr(finder, "__qualname__", "") == "_Rest" for finder in sys.meta_path):
    sys.meta_path.append(_Rest)
if not TYPE_CHECKING:
    __getattr__ = _rest_of(__name__)


def _find_std() -> None:
    """`inmanta_plugins.std` can be imported before the first compile, also where no published one is installed."""
    from steward_host import loader

    loader.install_fallback()


_find_std()
