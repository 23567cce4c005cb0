"""The states of resources and agents."""

from __future__ import annotations

import enum


class AgentStatus(enum.StrEnum):
    """Whether an agent runs."""

    STARTED = "started"
    STOPPING = "stopping"
    STOPPED = "stopped"


class Blocked(enum.StrEnum):
    """Whether a resource can be deployed."""

    BLOCKED = "blocked"
    NOT_BLOCKED = "not_blocked"
    TEMPORARILY_BLOCKED = "temporarily_blocked"


class Compliance(enum.StrEnum):
    """Whether a resource is as it is desired."""

    COMPLIANT = "compliant"
    HAS_UPDATE = "has_update"
    NON_COMPLIANT = "non_compliant"
    UNDEFINED = "undefined"


class HandlerResult(enum.StrEnum):
    """How the last run of a handler ended."""

    NEW = "new"
    SUCCESSFUL = "successful"
    FAILED = "failed"
    SKIPPED = "skipped"


TYPE_CHECKING = False
if not TYPE_CHECKING:
    # What only the reference's module has says why it is not here.
    from inmanta import _rest_of

    __getattr__ = _rest_of(__name__)
