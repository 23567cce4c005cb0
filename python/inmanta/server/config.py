"""Options that modules read."""

from __future__ import annotations

from inmanta.config import state_dir

__all__ = ["state_dir"]


TYPE_CHECKING = False
if not TYPE_CHECKING:
    # What only the reference's module has says why it is not here.
    from inmanta import _rest_of

    __getattr__ = _rest_of(__name__)
