"""What the modules of a process have registered, kept from one load of a project to the next.

A module that stays imported does not register anything again, while a load of a project starts with what its own modules
register. Finalizers and dependency managers are not kept here: they stay registered for the life of the process.
"""

from __future__ import annotations

import sys

from inmanta import compiler, plugins, references, resources

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_plugins: dict[str, type[plugins.Plugin]] = {}
_resources: dict[str, Any] = {}
_references: dict[str, Any] = {}
_mutators: dict[str, Any] = {}
_providers: dict[str, Any] = {}
_finalizers: list[Callable[[], object]] = []


def forget(module: str | None = None) -> None:
    """Forgets what was kept, of one module or of all."""
    for kept in (_plugins, _resources, _references, _mutators, _providers):
        for name in [name for name, made in kept.items() if module is None or _module_of(made) == module]:
            del kept[name]


def take() -> None:
    """Keeps what is registered now, and empties the registries."""
    _plugins.update(plugins.PluginMeta.get_functions())
    plugins.PluginMeta.clear()
    _resources.update(resources.resource._resources)
    resources.resource.reset()
    _references.update(references.reference.get_references())
    _mutators.update(references.mutator.get_mutators())
    references.reset()
    handler = sys.modules.get("inmanta.agent.handler")
    if handler is not None:
        _providers.update(handler.Commander.get_handlers())
        handler.Commander.reset()


def restore(modules: set[str]) -> None:
    """Registers what was kept of these modules again; what they have registered since counts."""
    for name, cls in _plugins.items():
        if name not in plugins.PluginMeta.get_functions() and _module_of(cls) in modules:
            plugins.PluginMeta.add_function(cls)
    for name, found in _resources.items():
        if name not in resources.resource._resources and _module_of(found) in modules:
            resources.resource.add_resource(name, *found)
    for registry, kept in ((references.reference, _references), (references.mutator, _mutators)):
        known = dict(registry.get_references())
        for name, cls in kept.items():
            if name not in known and _module_of(cls) in modules:
                registry._known[name] = cls
    if _providers:
        from inmanta.agent.handler import Commander

        for name, cls in _providers.items():
            if name not in Commander.get_handlers() and _module_of(cls) in modules:
                Commander.add_provider(name, cls)


def begin_finalizers() -> None:
    """A compile that this process has run begins: its end calls all finalizers again that the process ever registered."""
    later = [function for function in compiler._finalizers if function not in _finalizers]
    compiler._finalizers[:] = [*_finalizers, *later]


def keep_finalizers() -> None:
    """The modules of a compile are imported, so its finalizers are registered."""
    _finalizers[:] = compiler._finalizers


def _module_of(made: Any) -> str | None:
    """The module of the language that has made something."""
    # A resource class lies there with its options.
    parts = (made[0] if isinstance(made, tuple) else made).__module__.split(".")
    return parts[1] if parts[0] == "inmanta_plugins" and len(parts) > 1 else None
