"""What pydantic's models have by inheritance, for our plain ones: in the reference these classes are such models."""

from __future__ import annotations

from inmanta import _without

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self


@_without(
    "construct from_orm model_computed_fields model_config model_construct model_extra model_fields model_fields_set "
    "model_json_schema model_parametrized_name model_post_init model_rebuild model_validate_strings parse_file parse_raw "
    "schema schema_json update_forward_refs validate"
)
class ModelMethods:
    """Copies, dicts and JSON of an object whose class has `model_dump`, and objects made from them."""

    if TYPE_CHECKING:

        def __init__(self, **values: Any) -> None: ...

        def model_dump(self) -> dict[str, Any]: ...

    def model_copy(self, *, update: Any = None, deep: bool = False) -> Self:
        """A copy with some fields replaced."""
        import copy

        made = (copy.deepcopy if deep else copy.copy)(self)
        made.__dict__.update(update or {})
        return made

    def copy(self, *, update: Any = None, deep: bool = False) -> Self:
        return self.model_copy(update=update, deep=deep)

    def model_dump_json(self, *, indent: int | None = None, **_: object) -> str:
        import json

        from inmanta.util import internal_json_encoder

        separators = (",", ":") if indent is None else None
        return json.dumps(self.model_dump(), default=internal_json_encoder, indent=indent, separators=separators)

    def json(self, **_: object) -> str:
        return self.model_dump_json()

    @classmethod
    def model_validate(cls, obj: Any, **_: object) -> Self:
        """The object itself, or one with the fields of a dict."""
        return obj if isinstance(obj, cls) else cls(**obj)

    @classmethod
    def parse_obj(cls, obj: Any) -> Self:
        return cls.model_validate(obj)

    @classmethod
    def model_validate_json(cls, json_data: str | bytes, **_: object) -> Self:
        import json

        return cls.model_validate(json.loads(json_data))
