"""The model of a compile, as proxies ask about it over the pipe."""

from __future__ import annotations

from collections.abc import ItemsView, KeysView, ValuesView

from inmanta.ast import MultiUnsetException, UnsetException
from inmanta.execute import runtime
from steward_host import calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from inmanta.ast.entity import Entity
    from steward_host.messages import ConditionInfo, EntityInfo
    from steward_host.pipe import Pipe

    from inmanta.ast.type import Type
    from inmanta.plugins import Plugin

    _Types = dict[str, Entity]
else:
    _Types = dict

# Stands for an instance where a variable is given by its number (compiler/src/protocol/messages.rs).
_NUMBERED = (1 << 32) - 2


class World(runtime.World):
    """Answers the questions of proxies over the pipe."""

    def __init__(self, pipe: Pipe, directory: str | None = None) -> None:
        self._pipe = pipe
        # Where the places of the model are below, for a process that is not in the project's directory.
        self._directory = directory

    def get(self, instance_id: int, attribute: str) -> tuple[str, Any]:
        name, fields = self._pipe.ask("get", {"instance": instance_id, "attribute": attribute}, ("attribute_value", "calls"))
        if name == "calls":
            # The instance, and what is known of it now: this attribute, and more that is likely to be read. Behind it come
            # instances that are likely to be asked for next.
            instance = calls.value(fields[0])
            for following in fields[1:]:
                calls.value(following)
            return "value", instance._values[attribute]
        outcome = fields["outcome"]
        if type(outcome) is str:
            return outcome, None
        kind, value = outcome.popitem()
        if kind == "optional_unset" and self._directory is not None:
            value = value.replace("(instantiated at ./", f"(instantiated at {self._directory}/")
        return kind, value

    def lookup(self, name: str) -> tuple[str, Any]:
        outcome = self._pipe.request("lookup", {"name": name}, "attribute_value")["outcome"]
        return (outcome, None) if type(outcome) is str else outcome.popitem()

    def entity(self, name: str) -> EntityInfo | None:
        info: EntityInfo = self._pipe.request("entity", {"name": name}, "entity_info")
        return info if info["name"] == name else None

    def entities(self) -> list[str]:
        found: list[str] = self._pipe.request("entities", {}, "entity_names")["names"]
        return found

    def instances(self, name: str) -> list[runtime.Instance]:
        found: list[runtime.Instance] = self._pipe.request("instances", {"entity": name}, "instance_list")["instances"]
        return found

    def native(
        self, plugin: str, args: list[object], kwargs: list[list[object]], identity: str | None
    ) -> tuple[str, Any]:
        request = {"plugin": plugin, "args": args, "kwargs": kwargs, "identity": identity}
        outcome = self._pipe.request("native", request, "attribute_value")["outcome"]
        return (outcome, None) if type(outcome) is str else outcome.popitem()

    def typedef(self, name: str) -> str | None:
        base: str | None = self._pipe.request("typedef", {"name": name}, "typedef_info")["base"]
        return base

    def condition(self, name: str) -> tuple[str | None, ConditionInfo | None]:
        info = self._pipe.request("typedef", {"name": name}, "typedef_info")
        return info["base"], info["condition"]

    def services(self, question: dict[str, Any]) -> tuple[Any, str | None]:
        # Few compiles need it.
        import json

        answer = self._pipe.request("services", {"question": question}, "service_list")
        failure: str | None = answer["failure"]
        return ({}, failure) if failure is not None else (json.loads(answer["services"]), None)

    def write_service(self, write: dict[str, Any]) -> None:
        self._pipe.send("write_service", {"write": write})

    def validate(self, typedef: str, value: object) -> tuple[str, Any]:
        outcome = self._pipe.request("validate", {"typedef": typedef, "value": value}, "attribute_value")["outcome"]
        return (outcome, None) if type(outcome) is str else outcome.popitem()

    def places(self, instance_id: int) -> list[tuple[str, int]]:
        answer = self._pipe.request("locate", {"instance": instance_id}, "place")
        return [(self.path(file), line) for file, line in answer["places"]]

    def given(self, instance_id: int) -> list[str]:
        found: list[str] = self._pipe.request("locate", {"instance": instance_id}, "place")["given"]
        return found

    def path(self, file: str) -> str:
        """A file that the compiler names, which it does from the project on: as messages cite it, `./main.cf`."""
        return file if file.startswith("/") else f"{self._directory or '.'}/{file.removeprefix('./')}"


class Types(_Types):
    """The types of the model by full name, looked up when they are asked for: entities, typedefs and plugins."""

    def __init__(self) -> None:
        super().__init__()
        self._is_complete = False

    def _complete(self) -> None:
        if self._is_complete:
            return
        self._is_complete = True
        for name in [*runtime.world.entities(), *self._plugins()]:
            self.get(name)

    def __missing__(self, name: str) -> Any:
        found: Entity | Type | Plugin | None = runtime.model_type(name) or self._plugins().get(name)
        if found is None:
            raise KeyError(name)
        self[name] = found  # type: ignore[assignment]  # more than entities
        return found

    @staticmethod
    def _plugins() -> dict[str, Plugin]:
        from inmanta.plugins import _Compiler

        return _Compiler().get_plugins()

    def __contains__(self, name: object) -> bool:
        try:
            self[str(name)]
        except KeyError:
            return False
        return True

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default

    def __iter__(self) -> Iterator[str]:
        self._complete()
        return super().__iter__()

    def __len__(self) -> int:
        self._complete()
        return super().__len__()

    def keys(self) -> KeysView[str]:  # type: ignore[override]  # a view as that of a dict
        return KeysView(self)

    def values(self) -> ValuesView[Entity]:  # type: ignore[override]
        return ValuesView(self)

    def items(self) -> ItemsView[str, Entity]:  # type: ignore[override]
        return ItemsView(self)


def variables(error: UnsetException | MultiUnsetException) -> list[list[object]]:
    """The variables that an exception waits for, as frames name them."""
    found: list[Any]
    if isinstance(error, MultiUnsetException):
        found = [*error.result_variables]
    else:
        found = [error.get_result_variable()]
    numbers: list[list[object]] = [[_NUMBERED, str(v.number)] for v in found if isinstance(v, runtime.CompilerVariable)]
    return numbers + [[v.myself.id, v.attribute] for v in found if hasattr(v, "myself")]
