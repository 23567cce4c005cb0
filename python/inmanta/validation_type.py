"""Validation by the types of `pydantic`, `datetime`, `ipaddress` and `uuid`; needs pydantic for any of them."""

from __future__ import annotations

import re
from types import FunctionType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_ROOTS = ("pydantic.", "datetime.", "ipaddress.", "uuid.")


class Regex:
    """`Annotated[str, Regex(r"[a-z]+")]`: a text that matches from its start."""

    def __init__(self, pattern: str | re.Pattern[str]) -> None:
        self.pattern = re.compile(pattern)

    def validate(self, value: str) -> str:
        """The value; ValueError if it does not match."""
        if self.pattern.match(value) is None:
            raise ValueError(f"value is not valid with regex {self.pattern.pattern}")
        return value

    __call__ = validate

    def __repr__(self) -> str:
        return f"Regex(pattern={self.pattern.pattern!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Regex) and self.pattern == other.pattern

    def __hash__(self) -> int:
        return hash(self.pattern)

    def __get_pydantic_core_schema__(self, source: object, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(self.validate, handler(source))


def regex_string(regex: str | re.Pattern[str]) -> Any:
    """A type for texts that match a pattern from its start."""
    from typing import Annotated

    return Annotated[str, Regex(regex)]


def validate_type(fq_type_name: str, value: object, validation_parameters: Mapping[str, Any] | None = None) -> None:
    """Validates a value by a type such as `pydantic.conint`, leniently.

    ValueError for a type of another package or parameters that it does not take, pydantic's ValidationError for a value
    that does not fit, ImportError without pydantic.
    """
    if not fq_type_name.startswith(_ROOTS):
        raise ValueError(f"Unknown type: {fq_type_name}")
    import importlib

    import pydantic

    module, _, name = fq_type_name.partition(".")
    found = getattr(importlib.import_module(module), name)
    parameters = dict(validation_parameters or {})
    if isinstance(found, FunctionType):
        # One that makes types, with these parameters.
        regex = parameters.pop("regex", None) if fq_type_name == "pydantic.constr" else None
        found = found(**parameters)
        if regex is not None:
            from typing import Annotated

            found = Annotated[found, Regex(regex)]
    elif parameters:
        raise ValueError(f"{fq_type_name} takes no validation parameters")
    pydantic.TypeAdapter(found).validate_python(value)

if not TYPE_CHECKING:
    # What only the reference's module has says why it is not here.
    from inmanta import _rest_of

    __getattr__ = _rest_of(__name__)
