"""Types for annotations of plugins."""

from __future__ import annotations

from inmanta.validation_type import regex_string

__all__ = ["regex_string"]
