"""Plain data that handlers and modules exchange with the server."""

from __future__ import annotations

from inmanta import _without
from inmanta._model_methods import ModelMethods

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from collections.abc import Sequence

# Aliases of text, for annotations.
ResourceIdStr = str
ResourceVersionIdStr = str


class _Record(ModelMethods):
    """Named fields, compared by value; `model_dump` gives them as a dict."""

    _fields: tuple[str, ...] = ()

    def __init_subclass__(cls) -> None:
        if "_fields" not in vars(cls):
            # Declared as those of a pydantic model.
            cls._fields = (*cls._fields, *vars(cls).get("__annotations__", ()))

    def __init__(self, **kwargs: object) -> None:
        for field in self._fields:
            setattr(self, field, kwargs.pop(field, getattr(type(self), field, None)))
        if kwargs:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(kwargs)}")

    def model_dump(self, by_alias: bool = False) -> builtins.dict[str, object]:
        return {field: getattr(self, field) for field in self._fields}

    dict = model_dump

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> object:
        """A field of a pydantic model can be one of these: the object, or the dict of its fields."""
        from pydantic_core import core_schema

        fields = core_schema.no_info_after_validator_function(lambda given: cls(**given), core_schema.dict_schema())
        written = core_schema.plain_serializer_function_ser_schema(lambda record: record.model_dump())
        return core_schema.union_schema([core_schema.is_instance_schema(cls), fields], serialization=written)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.model_dump() == other.model_dump()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{f}={getattr(self, f)!r}' for f in self._fields)})"

    def __str__(self) -> str:
        return " ".join(f"{field}={getattr(self, field)!r}" for field in self._fields)


@_without("check_serializable")
class AttributeStateChange(_Record):
    """What an attribute is and what it should be."""

    _fields = ("current", "desired")

    current: object
    desired: object

    def __init__(self, current: object = None, desired: object = None, **_: object) -> None:
        """A value that has no form in JSON becomes text; under test it is an exception. Other names are ignored."""
        super().__init__(current=_with_json(current), desired=_with_json(desired))


def _with_json(value: object) -> object:
    if value is None or type(value) in (str, int, float, bool):
        return value
    import inmanta
    from inmanta.protocol.common import json_encode

    try:
        json_encode(value)
    except TypeError as error:
        if inmanta.RUNNING_TESTS:
            raise Exception(f"Failed to serialize attribute {value}") from error
        return str(value)
    return value


@_without("to_dao")
class DiscoveredResourceInput(_Record):
    """A resource that a discovery found."""

    _fields = ("discovered_resource_id", "values", "discovery_resource_id", "managed_resource_uri")

    def __init__(self, **kwargs: object) -> None:
        """ValueError if what was found, or what has found it, has no resource id."""
        super().__init__(**kwargs)
        from inmanta.resources import Id

        for field in ("discovered_resource_id", "discovery_resource_id"):
            given = getattr(self, field)
            if not isinstance(given, str) or not Id.is_resource_id(given):
                raise ValueError(f"{field} of a discovered resource should be a resource id, got {given!r}")

    @property
    def discovery_resource_uri(self) -> str:
        """Where the API has the resource that discovered this one."""
        import urllib.parse

        return f"/api/v2/resource/{urllib.parse.quote(str(getattr(self, 'discovery_resource_id')), safe='')}"


class PipConfig(_Record):
    """The `pip` section of a project."""

    _fields = ("index_url", "extra_index_url", "pre", "use_system_config")
    index_url: str | None
    extra_index_url: Sequence[str]
    pre: bool | None
    use_system_config = False

    def __init__(self, *, extra_index_url: Sequence[str] | None = None, **kwargs: object) -> None:
        super().__init__(extra_index_url=[] if extra_index_url is None else extra_index_url, **kwargs)

    def has_source(self) -> bool:
        """Whether packages can come from anywhere."""
        return bool(self.index_url) or bool(self.use_system_config)

    def get_index_args(self) -> list[str]:
        """What pip is told about indexes on its command line."""
        found = [] if self.index_url is None else ["--index-url", self.index_url]
        for url in self.extra_index_url:
            found += ["--extra-index-url", url]
        return found or ([] if self.use_system_config else ["--no-index"])

    def get_environment_variables(self) -> builtins.dict[str, str]:
        """The variables that pip runs with."""
        import os

        variables = {**os.environ}
        if not self.use_system_config:
            for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_PRE", "PIP_NO_INDEX"):
                variables.pop(name, None)
            variables["PIP_CONFIG_FILE"] = os.devnull
        if self.pre is not None:
            variables["PIP_PRE"] = str(self.pre)
        return variables


def __getattr__(name: str) -> object:
    if name == "BaseModel":
        try:
            from inmanta._more.base_model import BaseModel
        except ImportError:
            return _Record
        found: type = BaseModel
        return found
    from inmanta import _rest_of

    return _rest_of(__name__)(name)
