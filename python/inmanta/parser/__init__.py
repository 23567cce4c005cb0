"""Mistakes of syntax."""

from __future__ import annotations

from inmanta import _without
from inmanta.ast import CompilerException


class ParserException(CompilerException):
    """Text that is no model."""


@_without("suggest_replacement")
class InvalidNamespaceAccess(ParserException):
    """A name whose parts are joined by a dot instead of `::`."""


TYPE_CHECKING = False
if not TYPE_CHECKING:
    # What only the reference's module has says why it is not here.
    from inmanta import _rest_of

    __getattr__ = _rest_of(__name__)
