"""Mistakes of syntax."""

from __future__ import annotations

from inmanta.ast import CompilerException


class ParserException(CompilerException):
    """Text that is no model."""


class InvalidNamespaceAccess(ParserException):
    """A name whose parts are joined by a dot instead of `::`."""
