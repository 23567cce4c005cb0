"""Names that modules and the server share. Source: docs/reference/lsm.md § 3.8."""

from __future__ import annotations

import enum

# Variables of a compile: which instance it is for (several, separated by spaces, in a partial compile that exports), ...
ENV_INSTANCE_ID = "inmanta_instance_id"
# ... the version of it, ...
ENV_INSTANCE_VERSION = "inmanta_instance_version"
# ... whether it validates (`candidate`) or exports (`active`), ...
ENV_MODEL_STATE = "inmanta_model_state"
# ... whether it is for some instances only (`True`), ...
ENV_PARTIAL_COMPILE = "inmanta_lsm_partial_compile"
# ... and whether the model sees no instances at all (`true`), because only definitions are wanted.
ENV_NO_INSTANCES = "lsm_no_instances"

LSM_ENV_VARS = (ENV_INSTANCE_ID, ENV_INSTANCE_VERSION, ENV_MODEL_STATE, ENV_PARTIAL_COMPILE, ENV_NO_INSTANCES)


class TransferTrigger(str, enum.Enum):
    """What makes an instance follow a transfer."""

    AUTO = "auto"
    API_SET_STATE = "api_set_state"
    ON_UPDATE = "on_update"
    ON_DELETE = "on_delete"
    RESOURCE_BASED = "resource_based"
