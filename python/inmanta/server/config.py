"""Options that modules read."""

from __future__ import annotations

from inmanta.config import Option

state_dir = Option("config", "state_dir", "/var/lib/inmanta", "The directory where the server keeps its state")
