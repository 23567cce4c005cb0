"""The host of an export: ids and fields of resources, their objects, references, what getters uploaded."""

from __future__ import annotations

from inmanta import resources
from inmanta.ast import UnknownException
from inmanta.execute import proxy
from inmanta.execute.proxy import DynamicProxy
from inmanta.execute.util import Unknown
from steward_host import calls, msgpack
from steward_host.pipe import Closed
from steward_host.values import PLAIN, copied, exported
from steward_host.world import Types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from inmanta import export
    from steward_host.computing import Computing
    from steward_host.declared import Declared
    from steward_host.messages import Numbered, PostProcess, RenderFields, Rendering, Serialize, Unprocessed
    from steward_host.pipe import Pipe
    from steward_host.values import Values

    Fail = Callable[..., object]
    Getter = Callable[..., object]
    # The getters of some fields, None where there is none, and the name of what they compute together.
    Getters = tuple[list[Getter | None], str]
    # The number of a class, what of the id is asked for, and the fields.
    Asked = tuple[int, str, tuple[str, ...]]


class Exporting:
    """What a compile is asked by its export. `fail(id, error, field)` answers with an exception."""

    def __init__(self, pipe: Pipe, values: Values, declared: Declared, computing: Computing, fail: Fail) -> None:
        self._pipe = pipe
        self._values = values
        self._declared = declared
        self._computing = computing
        self._fail = fail
        self.exporter: export.Exporter | None = None
        self.served: dict[str, Callable[[Any], object]] = {
            "begin_export": self.begin_export,
            "render_fields": self.render_fields,
            "post_process": self.post_process,
            "serialize": self.serialize,
            "collect": self.collect,
        }

    def begin_export(self, request: Numbered) -> None:
        """Tells what modules have registered or changed since they were loaded."""
        from inmanta import export

        try:
            resources.validate()
            changed = self._declared.changed_resources()
            wants_all = export.has_dependency_managers() or bool(export.wanted_functions(self.exporter))
        except BaseException as error:
            self._fail(request["id"], error)
            return
        self._pipe.send("export_begun", {"id": request["id"], "resources": changed, "wants_all": wants_all})

    def render_fields(self, request: RenderFields) -> None:
        """Runs the getters of a resource class on an instance."""
        asked = (request["id"], request["class"], request["instance"], request["identify"], tuple(request["fields"]))
        self._render(asked, None)

    def render_all(self, requests: list[Rendering]) -> None:
        """The same for the resources of a frame, one after the other, up to one that fails."""
        getters: dict[Asked, Getters] = {}
        for request in requests:
            if not self._render(request, getters):
                return
        self._pipe.flush()

    def _render(self, request: Rendering, known: dict[Asked, Getters] | None) -> bool:
        """Answers with what a resource class computes for an instance; False: that has failed.

        `known`: the getters that resources of the same frame had; None: the request came by itself.
        """
        number, at, given, identify, fields = request
        field = None
        noted: str | None = None
        self._values.constructs = False
        try:
            entity, cls, options = self._declared.classes[at]
            instance = DynamicProxy.return_value(given if known is None else calls.value(given))
            identity: dict[str, str] | None = None
            id_value: list[object] = []
            values: list[object] = []
            if resources.creates():
                created = resources.Resource.create_from_model(self.exporter, entity, instance)
                identity = _identity(cls, created.id)
                values = [_or_unknown(getattr(created, field)) for field in fields]
            else:
                getters, name = self._getters((at, identify, fields), known)
                if name in self._computing.noted and known is not None:
                    noted = name
                    proxy.begin_reads()
                if identify == "whole":
                    identity = _identity(cls, resources.cls_id(cls, instance, entity, options))
                elif identify == "value":
                    field = options["name"]
                    id_value = [_of_id(cls.map_field(None, entity, field, instance))]
                with proxy.exportcontext:
                    for field, getter in zip(fields, getters):
                        values.append(self._field(cls, entity, field, instance, getter))
            packed = None
            if noted is not None:
                of, noted = noted, None
                reads = self._reads(of)
                packed = calls.noted(number, values, identity, id_value, reads)
                if packed is not None:
                    self._reported(of, reads)
            if packed is None and known is not None:
                packed = calls.rendered(number, values, identity, id_value)
            if packed is None:
                rendered: dict[str, object] = {"id": number, "values": values}
                if identity is not None:
                    rendered["identity"] = identity
                if id_value:
                    rendered["id_value"] = id_value[0]
                packed = msgpack.pack({"fields_rendered": rendered})
            if known is None:
                self._pipe.send_packed(packed)
            else:
                self._pipe.answer(packed)
            return True
        except Closed:
            raise
        except resources.IgnoreResourceException as error:
            if noted is None:
                self._pipe.send("ignored", {"id": number, "reason": str(error)})
            else:
                of, noted = noted, None
                reads = self._reads(of)
                self._pipe.answer(calls.ignored(number, reads))
                self._reported(of, reads)
            return True
        except BaseException as error:
            return bool(self._fail(number, error, field))
        finally:
            if noted is not None:
                proxy.end_reads()

    def _reads(self, noted: str) -> list[tuple[int, str]] | bool | None:
        """What the getters have read that ran since `begin_reads`; False: they do more than compute."""
        reads = proxy.end_reads()
        return reads if self._computing.noted[noted] else False

    def _reported(self, noted: str, reads: list[tuple[int, str]] | bool | None) -> None:
        if reads is False:
            self._computing.forget(noted)

    def _getters(self, asked: Asked, known: dict[Asked, Getters] | None) -> Getters:
        """The getters of a class, and by which name the compiler knows whether they only compute."""
        found = None if known is None else known.get(asked)
        if found is None:
            at, identify, fields = asked
            entity, cls, options = self._declared.classes[at]
            name = f"{cls.__module__}.{cls.__qualname__} of {entity}: {identify} {','.join(fields)}"
            all_fields = (*fields, options["name"]) if identify == "value" else fields
            getters = resources.getters(cls, all_fields)
            found = getters[: len(fields)], name
            if known is not None:
                known[asked] = found
                self._computing.judge(name, lambda purity: identify != "whole" and all(map(purity.is_pure_getter, getters)))
        return found

    def _field(
        self, cls: type[resources.Resource], entity: str, field: str, instance: object, getter: Getter | None
    ) -> object:
        try:
            if getter is None:
                value = cls.map_field(self.exporter, entity, field, instance, _COLLECTOR)
            else:
                value = getter(self.exporter, instance)
            return value if type(value) in PLAIN else exported(value)
        except UnknownException as error:
            return error.unknown if isinstance(error.unknown, Unknown) else Unknown()

    def post_process(self, request: PostProcess) -> None:
        """Makes the objects of resources and runs the dependency managers; answers what is stored of those that changed."""
        from inmanta import export

        number = request["id"]
        # A field may hold any object of Python's, but none that becomes an instance.
        self._values.constructs = False
        try:
            made = [self._resource(given) for given in request["resources"]]
            known = {resource.id: resource for resource in made}
            for resource in made:
                resource.resource_requires = {known[required] for required in resource.requires if required in known}
            functions = export.wanted_functions(self.exporter)
            managed = export.has_dependency_managers() or bool(functions)
            if managed:
                types = Types()
                with proxy.exportcontext:
                    export.manage_dependencies(types, known)
                export.check_managed(made, [given["id"] for given in request["resources"]], known)
                if self.exporter is not None:
                    self.exporter._resources = known
                    self.exporter.types = types
                    for name in functions:
                        self.exporter.run_export_plugin(name)
            changed = []
            for index, (resource, given) in enumerate(zip(made, request["resources"])):
                if managed:
                    resource.requires = export.required_ids(resource, known)
                attributes, requires = _stored(resource)
                is_same = msgpack.pack(attributes) == msgpack.pack(given["attributes"])
                if not is_same or requires != sorted(given["requires"]):
                    kept = None if is_same else attributes
                    changed.append({"resource": index, "requires": requires, "attributes": kept})
            self._pipe.send_packed(msgpack.pack({"post_processed": {"id": number, "resources": changed}}))
        except Closed:
            raise
        except BaseException as error:
            self._fail(number, error)

    def _resource(self, given: Unprocessed) -> resources.Resource:
        made_id = resources.Id.parse_id(given["id"], version=0)
        if given["class"] is None:
            cls = resources.class_of(made_id, given["attributes"])
        else:
            _, cls, _ = self._declared.classes[given["class"]]
        made = cls(made_id)
        # Not those of the request: what changes is compared with them.
        made.populate(copied(given["attributes"]))
        made.requires = {resources.Id.parse_id(required, version=0) for required in given["requires"]}
        made.model = DynamicProxy.return_value(given["instance"])
        return made

    def serialize(self, request: Serialize) -> None:
        """Gives the exported form of a reference, and those of all that its arguments need."""
        number = request["id"]
        try:
            from inmanta.references import Collector

            model, needed = Collector("").closure(self._values.objects[request["object"]])
            self._pipe.send("serialized", {"id": number, "reference": str(model.id), "models": needed})
        except Closed:
            raise
        except resources.IgnoreResourceException as error:
            self._pipe.send("ignored", {"id": number, "reason": str(error)})
        except BaseException as error:
            self._fail(number, error)

    def collect(self, request: Numbered) -> None:
        """Gives what the export found besides resources: unknown parameters and the contents of files."""
        from inmanta import export

        unknowns = [
            {"resource": str(u.get("resource", "")), "parameter": str(u["parameter"]), "source": str(u.get("source", "fact"))}
            for u in export.unknown_parameters
        ]
        kept = {} if self.exporter is None else self.exporter._file_store
        files = {digest: msgpack.Blob(content) for digest, content in kept.items()}
        collected: dict[str, object] = {"id": request["id"], "unknowns": unknowns, "files": files}
        try:
            if export.describe_services is not None:
                collected["service_definitions"] = export.describe_services()
        except Closed:
            raise
        except BaseException as error:
            self._fail(request["id"], error)
            return
        self._pipe.send("collected", collected)


# References are taken out by the compiler.
_COLLECTOR = resources.ReferenceCollector()


def _or_unknown(value: object) -> object:
    """A value as it is exported, an Unknown as such."""
    try:
        return exported(value)
    except UnknownException as error:
        return error.unknown if isinstance(error.unknown, Unknown) else Unknown()


def _of_id(value: object) -> object:
    """The value of an id attribute: what has no form in JSON still has a text."""
    try:
        return _or_unknown(value)
    except TypeError:
        return str(value)


def _identity(cls: type[resources.Resource], made: object) -> dict[str, str]:
    """The parts of an id that a class has made."""
    if not isinstance(made, resources.Id):
        raise resources.ResourceException(f"{cls.__name__}.object_to_id gave {made!r}, an Id was expected")
    return {
        "entity_type": made.entity_type,
        "agent": made.agent_name,
        "attribute": made.attribute,
        "value": made.attribute_value,
    }


def _stored(resource: resources.Resource) -> tuple[dict[str, Any], list[str]]:
    """What is stored of a resource, and the ids without version that it requires."""
    stored = dict(resource.serialize())
    own = stored.pop("id", None)
    if own is not None and resources.Id.parse_id(str(own), version=0) != resource.id.copy(version=0):
        raise resources.ResourceException(
            f"{type(resource).__name__}.serialize gave {resource.id} the id {own}: `object_to_id` makes ids"
        )
    requires = stored.pop("requires", resource.requires)
    stored.pop("version", None)
    ids = {resources.Id.parse_id(str(required), version=0).resource_str() for required in requires}
    return copied(stored), sorted(ids)
