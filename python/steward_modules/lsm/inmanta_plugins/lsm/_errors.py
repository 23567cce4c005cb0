"""What goes wrong in this module."""

from __future__ import annotations

from inmanta.plugins import PluginException


class LsmError(PluginException):
    """Something about services is not as it must be."""
