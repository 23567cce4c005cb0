"""What a diagnosis says. Source: docs/reference/lsm.md § 5.7."""

from __future__ import annotations

from typing import Any

from inmanta_lsm.model import Record


class Error(Record):
    """A mistake that a compile met."""

    type: str
    message: str
    category: str | None = None
    location: Any = None


class Rejection(Record):
    """A validation that failed."""

    instance_version: int
    model_version: int | None = None
    compile_id: str
    errors: list[Error] = []
    trace: str | None = None


class Failure(Record):
    """A deployment of a resource that failed."""

    instance_version: int
    model_version: int
    resource_id: str
    time: Any = None
    message: str | None = None


class FailureGroup(Record):
    """All failures of one resource."""

    resource_id: str
    failures: list[Failure] = []


class FullDiagnosis(Record):
    """Failed validations and failed deployments of an instance, the newest first."""

    rejections: list[Rejection] = []
    failures: list[FailureGroup] = []
