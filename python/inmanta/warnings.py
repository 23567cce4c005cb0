"""Warnings that modules issue or filter."""

from __future__ import annotations


class InmantaWarning(Warning):
    """Base of our warnings."""


class PluginDeprecationWarning(InmantaWarning):
    """A plugin is deprecated."""


TYPE_CHECKING = False
if not TYPE_CHECKING:
    # What only the reference's module has says why it is not here.
    from inmanta import _rest_of

    __getattr__ = _rest_of(__name__)
