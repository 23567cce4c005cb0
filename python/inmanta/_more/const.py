"""Constants that are no plain values; those that are, `_absent_names` has."""

from __future__ import annotations

import datetime
import enum

from inmanta.const import DONE_STATES, INTEGER_TO_LOG_LEVEL, UNDEPLOYABLE_STATES, ResourceAction, ResourceState

DATETIME_MIN_UTC = datetime.datetime.min.replace(tzinfo=datetime.timezone.utc)
INTEGER_AS_LOG_LEVEL = INTEGER_TO_LOG_LEVEL
# The actions that change the state of a resource, the states that they may give it, and those that nothing follows.
STATE_UPDATE = [ResourceAction.deploy]
TERMINAL_STATES = UNDEPLOYABLE_STATES
VALID_STATES_ON_STATE_UPDATE = [
    *(state for state in DONE_STATES if state not in UNDEPLOYABLE_STATES),
    ResourceState.deploying,
]


class NotificationSeverity(str, enum.Enum):
    """How grave a notification is."""

    message = "message"
    info = "info"
    success = "success"
    warning = "warning"
    error = "error"
