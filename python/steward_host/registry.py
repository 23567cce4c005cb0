"""What the modules of a process have registered, kept from one load of a project to the next.

A module that stays imported does not register anything again, and a load starts from nothing.
"""

from __future__ import annotations

import sys

from inmanta import compiler, export, plugins, references, resources

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_plugins: dict[str, type[plugins.Plugin]] = {}
_resources: dict[str, Any] = {}
_references: dict[str, Any] = {}
_mutators: dict[str, Any] = {}
_providers: dict[str, Any] = {}
_managers: list[Any] = []
_finalizers: list[Any] = []


def forget() -> None:
    for kept in (_plugins, _resources, _references, _mutators, _providers, _managers, _finalizers):
        kept.clear()


def save() -> None:
    """Keeps what is registered now."""
    _plugins.update(plugins.PluginMeta.get_functions())
    _resources.update(resources.resource._resources)
    _references.update(references.reference.get_references())
    _mutators.update(references.mutator.get_mutators())
    handler = sys.modules.get("inmanta.agent.handler")
    if handler is not None:
        _providers.update(handler.Commander.get_handlers())
        handler.Commander.reset()
    _managers.extend(function for function in export._dependency_managers if function not in _managers)
    _finalizers.extend(function for function in compiler._finalizers if function not in _finalizers)


def restore(modules: set[str]) -> None:
    """Registers what was kept of these modules again, if its Python module is still the one that is imported."""
    for name, cls in _plugins.items():
        if name not in plugins.PluginMeta.get_functions() and _is_there(cls, modules):
            plugins.PluginMeta.add_function(cls)
    for name, found in _resources.items():
        if name not in resources.resource._resources and _is_there(found[0], modules):
            resources.resource.add_resource(name, *found)
    for registry, kept in ((references.reference, _references), (references.mutator, _mutators)):
        known = dict(registry.get_references())
        for name, cls in kept.items():
            if name not in known and _is_there(cls, modules):
                registry._known[name] = cls
    if _providers:
        from inmanta.agent.handler import Commander

        for name, cls in _providers.items():
            if name not in Commander.get_handlers() and _is_there(cls, modules):
                Commander.add_provider(name, cls)
    _before(export._dependency_managers, _managers, modules)
    _before(compiler._finalizers, _finalizers, modules)


def _before(registered: list[Any], kept: list[Any], modules: set[str]) -> None:
    earlier = [function for function in kept if function not in registered and _is_there(function, modules)]
    registered[:0] = earlier


def _is_there(made: Any, modules: set[str]) -> bool:
    """Whether a class or function is of one of these modules, and not of an import that was forgotten."""
    parts = made.__module__.split(".")
    module = sys.modules.get(made.__module__)
    if parts[0] != "inmanta_plugins" or len(parts) < 2 or parts[1] not in modules or module is None:
        return False
    # A plugin class has the name of its function.
    function = getattr(made, "__function__", None)
    code = getattr(function or made, "__globals__", None)
    return code is None or code is vars(module)
