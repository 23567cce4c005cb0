"""What this compile is for, and what is kept for its length only. Source: docs/reference/lsm.md § 3.8."""

from __future__ import annotations

import json
import os

from inmanta.config import Config
from inmanta.plugins import Runtime
from inmanta_lsm import const

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def inputs() -> dict[str, Any] | None:
    """The services that were given to the compile; None: it has none."""
    found: dict[str, Any] | None = Runtime.inputs.get("services")
    if found is not None and isinstance(found.get("instances"), str):
        # There may be many instances: they come as JSON, which is read here when somebody wants them.
        found["instances"] = json.loads(found["instances"])
    return found


def has_more() -> bool:
    """Whether there are instances besides those that were given, which have to be asked for."""
    services = inputs()
    return services is not None and bool(services.get("has_more"))


def environment() -> str:
    """The id of the environment."""
    return str(Config.get("config", "environment", None) or Runtime.environment_id)


def is_validation() -> bool:
    """Whether an instance is validated; else the compile is for the desired state."""
    return os.environ.get(const.ENV_MODEL_STATE) == "candidate"


def sees_instances() -> bool:
    return os.environ.get(const.ENV_NO_INSTANCES, "").lower() != "true"


def named_instances() -> list[str]:
    """The instances that the compile is for."""
    return os.environ.get(const.ENV_INSTANCE_ID, "").split()


def validated() -> str | None:
    """The instance that is validated."""
    return next(iter(named_instances()), None) if is_validation() else None


def requested() -> list[str] | None:
    """The instances that a partial compile is for; None: it is for all."""
    is_partial = os.environ.get(const.ENV_PARTIAL_COMPILE, "").lower() == "true"
    return named_instances() if is_partial and named_instances() else None


class Kept:
    """Values that are true for the length of one compile."""

    def __init__(self) -> None:
        self._values: dict[object, Any] = {}
        # A process may run several compiles, and a test changes instances between them. Each has inputs of its own.
        self._of: object = None

    def values(self) -> dict[object, Any]:
        """The values of this compile."""
        if self._of is not Runtime.inputs:
            self._of = Runtime.inputs
            self._values = {}
        return self._values

    def forget(self) -> None:
        self._values = {}


kept = Kept()
