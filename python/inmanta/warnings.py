"""Warnings that modules issue or filter."""

from __future__ import annotations


class InmantaWarning(Warning):
    """Base of our warnings."""


class PluginDeprecationWarning(InmantaWarning):
    """A plugin is deprecated."""
