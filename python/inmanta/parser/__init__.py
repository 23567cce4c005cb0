"""Mistakes of syntax."""

from __future__ import annotations

from inmanta import _without
from inmanta.ast import CompilerException, Location
from inmanta.warnings import InmantaWarning


class ParserException(CompilerException):
    """Text that is no model; `value` is the word at which that was seen, None at the end of the text."""

    def __init__(self, location: Location | None, value: object, msg: str | None = None) -> None:
        super().__init__(f"Syntax error at token {value}" if msg is None else f"Syntax error: {msg}", location)
        self.value = value


class ParserWarning(InmantaWarning, ParserException):
    """A doubt about the text of a model, at its place."""

    def __init__(self, location: Location | None, value: object, msg: str) -> None:
        InmantaWarning.__init__(self)
        ParserException.__init__(self, location, value, msg)
        # It is no error.
        self.msg = msg


class SyntaxDeprecationWarning(ParserWarning):
    """Syntax that is not to be used any more."""


@_without("suggest_replacement")
class InvalidNamespaceAccess(ParserException):
    """A name whose parts are joined by a dot instead of `::`."""


TYPE_CHECKING = False
if not TYPE_CHECKING:
    # What only the reference's module has says why it is not here.
    from inmanta import _rest_of

    __getattr__ = _rest_of(__name__)
