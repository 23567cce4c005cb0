"""Options that modules read."""

from __future__ import annotations

from inmanta.config import state_dir

__all__ = ["state_dir"]
