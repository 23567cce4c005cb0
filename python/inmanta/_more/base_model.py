"""The base of the models of the interface. It needs pydantic, which whoever uses a model has."""

from __future__ import annotations

import datetime
from typing import Annotated, Any

import pydantic
from pydantic import Strict

StrictNonIntBool = Annotated[bool, Strict()]


class DateTimeNormalizerModel(pydantic.BaseModel):
    """A model whose times have a zone: one without is in UTC."""

    @pydantic.field_validator("*", mode="after")
    @classmethod
    def validator_timezone_aware_timestamps(cls, value: Any) -> Any:
        return api_boundary_datetime_normalizer(value) if isinstance(value, datetime.datetime) else value


class BaseModel(DateTimeNormalizerModel):
    """The base of all others."""


def api_boundary_datetime_normalizer(value: datetime.datetime) -> datetime.datetime:
    """The time with a zone: UTC if it has none."""
    return value.replace(tzinfo=datetime.timezone.utc) if value.tzinfo is None else value
