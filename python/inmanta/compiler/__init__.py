"""Compiles that Python code starts, and finalizers: functions that run when a compile is over.

Steward runs the model; this process is the Python host of the compile (`steward_host.attached`). Source: docs/reference/python.md § 2.4, § 7.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from inmanta.ast import Namespace
    from inmanta.ast.entity import Entity
    from inmanta.module import Project

_finalizers: list[Callable[[], object]] = []
# How many of them this compile has run.
_n_run = 0


class Finalizers:
    """The functions that run at the end of a compile, as a class with nothing but class methods."""

    @classmethod
    def add_function(cls, fnc: Callable[[], object]) -> None:
        """Registers a function."""
        _finalizers.append(fnc)

    @classmethod
    def call_finalizers(cls, should_log: bool = False) -> None:
        """Runs all of them in order; they stay registered. What went wrong is raised when all have run, or only logged."""
        from inmanta.ast import CompilerException, MultiException

        errors: list[CompilerException] = []
        for function in [*_finalizers]:
            try:
                function()
            except Exception as error:
                errors.append(CompilerException(f"Finalizer failed: {error}"))
        if should_log:
            import logging

            for failed in errors:
                logging.getLogger(__name__).error(failed.get_message())
        elif errors:
            raise errors[0] if len(errors) == 1 else MultiException(errors)

    @classmethod
    def reset_finalizers(cls) -> None:
        """Forgets them."""
        reset()


def finalizer(fnc: Callable[[], object]) -> None:
    """Registers a function without arguments for the end of the compile, successful or not."""
    _finalizers.append(fnc)


def has_finalizers() -> bool:
    return bool(_finalizers)


def reset() -> None:
    global _n_run
    _finalizers.clear()
    _n_run = 0


def finalize() -> None:
    """Runs the finalizers in order; they stay registered. After an exception, another call goes on behind it."""
    global _n_run
    while _n_run < len(_finalizers):
        _n_run += 1
        _finalizers[_n_run - 1]()
    _n_run = 0


def do_compile(refs: Mapping[str, Any] | None = None) -> tuple[dict[str, Entity], Namespace]:
    """Compiles the current project (`Project.get()`): its entities by full name, and the root of its namespaces.

    `refs["facts"]`, resource id -> name -> value, is what `std::getfact` gives. What is wrong with the model is raised.
    Instances can be read until another compile begins.
    """
    from inmanta import plugins
    from inmanta.ast import CompilerException, Namespace
    from inmanta.module import Project
    from steward_host.attached import Attached, current
    from steward_host.world import Types

    if plugins.Runtime.is_hosted:
        raise CompilerException("a compile cannot start another one in its own process")
    project = Project.get()
    facts = dict((refs or {}).get("facts") or {})
    attached = current(project)
    if attached is None or attached.is_complete or attached.facts != facts:
        attached = Attached(project, facts)
    attached.run()
    return Types(), Namespace("__root__")


class ProjectLoader:
    """Loads one project after the other into one process, as test tools do.

    Python modules stay imported, so that classes keep their identity, except for those of dynamic modules; each load calls
    their functions `inmanta_reset_state…`.
    """

    _dynamic_modules: set[str] = set()

    @classmethod
    def load(cls, project: Project) -> None:
        """Makes a project the current one and loads it: with what its own modules registered, whenever they were imported."""
        from inmanta.module import Project
        from steward_host import loader, registry

        cls._unload_dynamic_modules()
        registry.take()
        loader.reset_states()
        Project.set(project, clean=False)
        project.load()

    @classmethod
    def reset(cls) -> None:
        """Forgets what earlier loads registered, and which modules are dynamic."""
        from steward_host import registry

        cls._dynamic_modules = set()
        registry.forget()

    @classmethod
    def register_dynamic_module(cls, module_name: str) -> None:
        """Has a module imported anew with each load."""
        cls._dynamic_modules.add(module_name)

    @classmethod
    def clear_dynamic_modules(cls) -> None:
        cls._unload_dynamic_modules()
        cls._dynamic_modules = set()

    @classmethod
    def _unload_dynamic_modules(cls) -> None:
        from inmanta.module import Project, ProjectNotFoundException

        try:
            project = Project.get()
        except ProjectNotFoundException:
            return
        for name in cls._dynamic_modules & project.modules.keys():
            project.modules[name].unload()

if not TYPE_CHECKING:
    # What only the reference's module has says why it is not here.
    from inmanta import _rest_of

    __getattr__ = _rest_of(__name__)
