"""The words of the language, for what writes models: generators ask here which names they may give."""

from __future__ import annotations

# The same as `keywords!` in `compiler/src/syntax/token.rs`. The name is the reference's.
keyworldlist = [
    "typedef",
    "as",
    "entity",
    "extends",
    "end",
    "in",
    "implementation",
    "for",
    "matching",
    "index",
    "implement",
    "using",
    "when",
    "and",
    "or",
    "not",
    "true",
    "false",
    "import",
    "is",
    "defined",
    "dict",
    "null",
    "undef",
    "parents",
    "if",
    "else",
    "elif",
]

# Each word with its kind of token.
reserved = {word: word.upper() for word in keyworldlist}


def t_ID(token: object) -> object:
    """[a-zA-Z_][a-zA-Z_0-9-]*"""
    # The docstring is the pattern of identifiers: it is what callers read.
    return token


TYPE_CHECKING = False
if not TYPE_CHECKING:
    # What only the reference's module has says why it is not here.
    from inmanta import _rest_of

    __getattr__ = _rest_of(__name__)
