"""Exceptions of module code, as frames carry them."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import traceback

    from steward_host.messages import Failure

# The directory of this package and of `inmanta`.
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def describe(error: BaseException, files: set[str], of_plugin: bool = False) -> Failure:
    """A `Failure`: the kind, the text, and the traceback from the first of `files` on.

    `of_plugin`: it left a plugin, where only the errors of a running model are the compiler's own.
    """
    from inmanta.ast import CompilerException, PluginException, RuntimeException

    name = type(error).__name__
    if isinstance(error, PluginException):
        kind, name = "plugin", f"{type(error).__module__}.{type(error).__qualname__}"
    elif isinstance(error, AttributeError):
        # A missing attribute of an instance is a compile exception too, but what leaves a plugin is Python's own.
        kind, name = "external", "AttributeError"
    elif isinstance(error, RuntimeException if of_plugin else CompilerException):
        kind = "compile"
    else:
        kind = "external"
    file, line = _place(error, files)
    return {
        "kind": kind,
        "type_name": name,
        "message": _message(error),
        "traceback": traceback_text(error, files),
        "file": file,
        "line": line,
    }


def _message(error: BaseException) -> str:
    try:
        text = getattr(error, "message", None) if _is_plugin(error) else None
        return _without_addresses(text if isinstance(text, str) else str(error))
    except Exception:
        return f"<{type(error).__name__} without text>"


def _without_addresses(text: str) -> str:
    """A default `repr` holds an address, which is another one in each process: messages are to be the same."""
    if " at 0x" not in text:
        return text
    # Slow to import, and rarely needed.
    import re

    return re.sub(r" at 0x[0-9a-f]+", "", text)


def _is_plugin(error: BaseException) -> bool:
    from inmanta.ast import PluginException

    return isinstance(error, PluginException)


def traceback_text(error: BaseException, files: set[str]) -> str:
    """The traceback as Python prints it, from the first of `files` on and without our own frames.

    With STEWARD_DEBUG in the environment it is whole.
    """
    import traceback

    try:
        described = traceback.TracebackException.from_exception(error)
        if "STEWARD_DEBUG" not in os.environ:
            _trim(described, files)
        return "".join(described.format())
    except Exception as broken:
        return f"{type(error).__name__}: no traceback ({type(broken).__name__})\n"


def _trim(described: traceback.TracebackException | None, files: set[str]) -> None:
    """Drops the frames that lead to module code and those inside of this package; of causes and contexts too."""
    while described is not None:
        frames = list(described.stack)
        first = next((index for index, frame in enumerate(frames) if frame.filename in files), 0)
        kept = [frame for frame in frames[first:] if not frame.filename.startswith(_OURS)]
        described.stack[:] = kept
        _trim(described.__cause__, files)
        described = described.__context__


def _place(error: BaseException, files: set[str]) -> tuple[str | None, int | None]:
    """The innermost place in module code; of a syntax error the place of the mistake."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return error.filename, error.lineno
    place: tuple[str | None, int | None] = None, None
    frame = error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename in files:
            place = frame.tb_frame.f_code.co_filename, frame.tb_lineno
        frame = frame.tb_next
    return place
