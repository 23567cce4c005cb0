"""Which `steward` program compiles for a process that imports this package."""

from __future__ import annotations

import os


def find() -> str | None:
    """STEWARD_PROGRAM, else the one on the path, else the one that wrote this package into its environment."""
    import shutil

    named = os.environ.get("STEWARD_PROGRAM") or shutil.which("steward")
    if named:
        return named
    try:
        # Only in a distribution (`steward python-package`, `steward project install`).
        with open(os.path.join(os.path.dirname(__file__), "_program.txt"), encoding="utf-8") as file:
            maker = file.read().strip()
    except OSError:
        return None
    return maker if os.access(maker, os.X_OK) else None
