"""Options of an executor."""

from __future__ import annotations

from inmanta.config import Option, is_uuid_opt, state_dir

__all__ = ["environment", "state_dir"]

environment = Option("config", "environment", None, "The environment of this agent", is_uuid_opt)


TYPE_CHECKING = False
if not TYPE_CHECKING:
    # What only the reference's module has says why it is not here.
    from inmanta import _rest_of

    __getattr__ = _rest_of(__name__)
