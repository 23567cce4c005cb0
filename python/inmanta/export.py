"""What modules use of the export: dependency managers, export plug-ins, unknown parameters, uploaded files."""

from __future__ import annotations

from inmanta import _without
from inmanta.ast import CompilerException
from inmanta.execute.proxy import DynamicProxy
from inmanta.util import hash_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, TypeVar

    from inmanta.ast.entity import Entity
    from inmanta.config import Option
    from inmanta.protocol.endpoints import SyncClient
    from inmanta.resources import Id, Resource

    F = TypeVar("F", bound=Callable[..., object])
    Manager = Callable[[dict[str, Entity], dict[Id, Resource]], None]

# Facts that were asked for and not known: {"resource": id, "parameter": name, "source": "fact"}.
unknown_parameters: list[dict[str, Any]] = []
# Gives the definitions of services in the model, if a module of it knows services.
describe_services: Callable[[], list[dict[str, Any]] | None] | None = None

# What `std::file` gives in a model begins so. There it is a text like any other, so nobody sees by its class what it stands for.
_FILE_MARKER = "imp-module-source:file://"

ModelDict = dict
ResourceDict = dict
ProxiedType = DynamicProxy

_dependency_managers: list[Manager] = []
_export_functions: dict[str, tuple[tuple[str, ...], Callable[..., object]]] = {}


@_without("add_to_cycle")
class DependencyCycleException(Exception):
    """Resources that require each other in a circle."""

    def __init__(self, start: Id) -> None:
        super().__init__(start)
        self.start = start
        self.cycle = [start]

    def __str__(self) -> str:
        return f"Cycle in dependencies: {self.cycle}"


def reset() -> None:
    """Forgets what an earlier compile registered and found."""
    unknown_parameters.clear()
    _dependency_managers.clear()
    _export_functions.clear()
    global describe_services
    describe_services = None


class dependency_manager:
    """Registers `function(types, resources)`, which may add to the `requires` of resources. What is decorated so cannot be
    called any more."""

    def __init__(self, function: Manager) -> None:
        _dependency_managers.append(function)


def has_dependency_managers() -> bool:
    return bool(_dependency_managers)


def manage_dependencies(types: dict[str, Entity], resources: dict[Id, Resource]) -> None:
    """Calls all dependency managers in order; one that touches an Unknown is left at that point."""
    from inmanta.ast import UnknownException

    for function in _dependency_managers:
        try:
            function(types, resources)
        except UnknownException:
            import logging

            logging.getLogger(__name__).debug("The dependency manager %s met an unknown value", function)


def check_managed(made: list[Resource], ids: list[str], known: dict[Id, Resource]) -> None:
    """CompilerException if dependency managers have added, taken away or renamed resources: those are the model's."""
    what = "A dependency manager changes fields and requirements: resources come from the model"
    added = [str(found) for found in known if found.resource_str() not in ids]
    if added:
        raise CompilerException(f"A dependency manager added the resource {added[0]}. {what}")
    if len(known) < len(ids):
        gone = next(resource for resource in made if resource.id not in known)
        raise CompilerException(f"A dependency manager took the resource {gone.id} away. {what}")
    for resource, own in zip(made, ids):
        if resource.id.resource_str() != own:
            raise CompilerException(f"A dependency manager renamed the resource {own} to {resource.id}. {what}")


def wanted_functions(exporter: Exporter | None) -> list[str]:
    """The export functions that run in this export: the one it was asked for, else those of the option `config.export`."""
    if not _export_functions and not _is_configured():
        return []
    if exporter is not None and exporter.export_plugin is not None:
        return [exporter.export_plugin]
    return [name for name in cfg_export().get() if name]


def _is_configured() -> bool:
    import os
    import sys

    if "inmanta.config" not in sys.modules and "INMANTA_CONFIG_EXPORT" not in os.environ:
        from inmanta.plugins import Runtime

        # It takes longer to import options than to see that there are none.
        if not os.path.exists(os.path.join(Runtime.project_dir, ".inmanta")):
            return False
    from inmanta.config import Config

    return Config.is_set("config", "export")


def cfg_export() -> Option:
    """The option `config.export`: names of export functions, with commas between them."""
    from inmanta.config import Option, is_list

    return Option("config", "export", "", "The export functions that run at the end of an export", is_list)


def _content_of_marker(marker: str) -> str | bytes:
    """The content of the file that a marker stands for. Where there is no such file among those of the modules and of the project, which
    are all that `std::file` gives, it is a text that only looks so: it may come from somebody who may not read other files."""
    path = marker.removeprefix(_FILE_MARKER)
    try:
        if not _is_given(path):
            return marker
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return marker


def _is_given(path: str) -> bool:
    """Whether it is below the folder `files` of a module or of the project."""
    import os

    from inmanta.module import Project

    project = Project.get()
    roots = [project.path, *(module.path for module in project.modules.values())]
    return os.path.normpath(path) == path and any(path.startswith(os.path.join(root, "files", "")) for root in roots)


def required_ids(resource: Resource, resources: dict[Id, Resource]) -> set[Id]:
    """The requirements of a resource as ids: managers also add resources and texts.

    CompilerException for anything else, ResourceNotFoundExcpetion for a resource that is not exported.
    """
    from inmanta.resources import Id, Resource, ResourceNotFoundExcpetion

    found = set()
    requires: Iterable[object] = resource.requires
    for required in requires:
        if isinstance(required, Resource):
            required = required.id
        elif isinstance(required, str):
            required = Id.parse_id(required, version=0)
        elif not isinstance(required, Id):
            raise CompilerException(
                f"A dependency manager added {required!r} of type {type(required).__name__} to the requirements of"
                f" {resource.id}: an id, a resource or the text of an id was expected"
            )
        plain = required.copy(version=0)
        if plain not in resources:
            raise ResourceNotFoundExcpetion(f"{resource.id} requires {plain}, which is not exported")
        found.add(plain)
    return found


class export:
    """`@export("name", "net::Port")` over a function that runs at the end of an export when it is asked for."""

    def __init__(self, name: str, *args: str) -> None:
        self.name = name
        self.types = args

    def __call__(self, function: F) -> F:
        _export_functions[self.name] = (self.types, function)
        return function


class _CodeManager:
    """Kept for old callers: Steward distributes code itself."""

    def register_code(self, *args: object, **kwargs: object) -> None:
        pass


code_manager = _CodeManager()


@_without("add add_dependency_manager clear commit_resources get_version register_code resources_to_list")
class Exporter:
    """What getters get as `exporter`."""

    def __init__(self, options: object = None) -> None:
        self.options = options
        self._file_store: dict[str, bytes] = {}
        self._resources: dict[Id, Resource] = {}
        # The resource set of each resource that is in one, by the text of its id; test tools read it.
        self._resource_sets: dict[str, str] = {}
        # All entities of the model, while export functions run.
        self.types: dict[str, Entity] | None = None
        # The export function that was asked for, in place of those of the configuration.
        self.export_plugin: str | None = None

    def upload_file(self, content: str | bytes | None = None, *older: str | bytes) -> str:
        """Keeps a content for the server's file store and gives its SHA-1; the same content is kept once.

        Modules of the older generation call it with the SHA-1 before the content.
        """
        if older:
            (content,) = older
        if content is None:
            raise Exception("There is no content to upload")
        if isinstance(content, str) and content.startswith(_FILE_MARKER):
            content = _content_of_marker(content)
        data = content.encode("utf-8") if isinstance(content, str) else content
        digest = hash_file(data)
        self._file_store[digest] = data
        return digest

    def get_environment_id(self) -> str:
        """The id of the environment that is compiled; the text "None" outside of one, as with the reference."""
        from inmanta.plugins import Runtime

        return str(Runtime.environment_id)

    @property
    def client(self) -> SyncClient:
        """The blocking API client of this compile."""
        from inmanta.protocol import endpoints

        return endpoints.SyncClient("compiler")

    def run_export_plugin(self, name: str) -> None:
        """Calls an export function with the exporter and, if it named types, their instances as `types`."""
        from inmanta.execute import proxy, runtime

        if name not in _export_functions:
            raise Exception(f"Export function {name} does not exist.")
        types, function = _export_functions[name]
        with proxy.exportcontext:
            if types:
                found = {of: [DynamicProxy.return_value(one) for one in runtime.world.instances(of)] for of in types}
                function(self, types=found)
            else:
                function(self)

    def add_resource(self, resource: Resource) -> None:
        raise CompilerException("Resources come from the model: Steward cannot add one by hand")

    def run(
        self,
        types: object,
        scopes: object,
        metadata: dict[str, str] | None = None,
        no_commit: bool = False,
        include_status: bool = False,
        export_plugin: str | None = None,
        **options: object,
    ) -> tuple[Any, ...]:
        """The resources of the model that `do_compile` gave, by id, behind the version 0; with their states if wanted.

        Nothing is sent to a server: `no_commit` has to be true.
        """
        from inmanta.const import ResourceState
        from inmanta.module import Project
        from inmanta.resources import resource
        from steward_host.attached import current

        attached = current(Project.get())
        if attached is None:
            raise CompilerException("there is no model to export: `inmanta.compiler.do_compile` makes one")
        if not no_commit:
            raise CompilerException("Steward stores what it compiles itself: export with `no_commit`")
        self.export_plugin = export_plugin
        made = {}
        states = {}
        self._resource_sets = {}
        exports = attached.export(self)["resources"]
        # One class after the other, as they were registered; the compiler has them by instance.
        places = {name: at for at, name in enumerate(resource.get_entity_resources())}
        exports = sorted(exports, key=lambda exported: places.get(exported["entity_type"], len(places)))
        models = _models({exported["entity_type"] for exported in exports})
        for exported in exports:
            made_one = _resource(exported)
            made_one.model = models.get(exported["id"])
            made[made_one.id] = made_one
            if exported["resource_set"] is not None:
                self._resource_sets[exported["id"]] = exported["resource_set"]
            states[exported["id"]] = ResourceState.undefined if exported["undefined"] else ResourceState.available
        if not made:
            import logging

            logging.getLogger(__name__).warning("The model has no resources: an empty deployment")
        return (0, made, states) if include_status else (0, made)


def _models(types: set[str]) -> dict[str, DynamicProxy]:
    """The instances of these entities by the ids of their resources: of one entity and of its ancestors, it may have several."""
    from inmanta.execute import proxy, runtime
    from inmanta.resources import cls_id, resource

    found = {}
    with proxy.exportcontext:
        for name in sorted(types):
            cls, options = resource.get_class(name)
            if cls is None or options is None:
                continue
            for instance in runtime.world.instances(name):
                model = DynamicProxy.return_value(instance)
                try:
                    found[cls_id(cls, model, name, options).resource_str()] = model
                except Exception:
                    # One without a resource: its getters may say so in any way.
                    continue
    return found


def _resource(exported: dict[str, Any]) -> Resource:
    """The object of a resource as the compiler exports it; the class of a type that has none in Python is a plain one."""
    import json

    from inmanta import resources

    attributes = json.loads(exported["attributes"])
    made_id = resources.Id.parse_id(exported["id"], version=0)
    made = resources.class_of(made_id, attributes)(made_id)
    made.populate({**attributes, "requires": exported["requires"]}, force_fields=True)
    return made


def __getattr__(name: str) -> object:
    if name == "cfg_env":
        from inmanta.config import Option, is_uuid_opt

        text = "The environment of this model"
        made = globals()["cfg_env"] = Option("config", "environment", None, text, is_uuid_opt)
        return made
    if name in ("Id", "IgnoreResourceException", "Resource", "resource"):
        from inmanta import resources

        return getattr(resources, name)
    if name == "UnknownException":
        from inmanta.ast import UnknownException

        return UnknownException
    if name == "Entity":
        from inmanta.ast.entity import Entity

        return Entity
    from inmanta import _rest_of

    return _rest_of(__name__)(name)
