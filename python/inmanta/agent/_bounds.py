"""How much of what a handler says is kept, cut where it is said. `src/executor/bounds.rs` has the same numbers."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from inmanta import data

# Characters of one log line, its arguments included.
LINE = 16 << 10
# Of an argument.
ARGUMENT = 8 << 10
# Of the text of an exception and of its traceback: the line holds the first of them twice.
TEXT = 4 << 10
TRACE = 6 << 10
# Log lines of one run, and all their characters together.
RUN_LINES = 1000
RUN = 1 << 20
# Characters of the current or the desired value of an attribute.
VALUE = 64 << 10
# Of what is the same on both sides of a difference, kept before it where its values are cut.
SAME = 200
# Facts of one run, and resources that one run may find.
FACTS = 2000
DISCOVERED = 20_000
# Of traces the beginning of the chain and its end tell most.
_MESSAGE_IN_TRACE = 1 << 10
_CHAIN = 8


def clip(text: str, limit: int = TEXT) -> str:
    """The beginning of a text, with a mark where it was cut."""
    if len(text) <= limit:
        return text
    kept = max(limit - 80, 0)
    return f"{text[:kept]}… ({len(text) - kept} characters were cut, the limit is {limit})"


def from_difference(current: str, desired: str) -> tuple[str, str]:
    """Of two long texts that begin alike what begins shortly before they differ: else both would be cut before that."""
    low, high = 0, min(len(current), len(desired))
    while low < high:
        middle = (low + high + 1) // 2
        if current[low:middle] == desired[low:middle]:
            low = middle
        else:
            high = middle - 1
    begin = max(low - SAME, 0)
    begin = current.find("\n", begin, low) + 1 or begin
    # What is certainly kept, here and by the executor.
    if begin < VALUE // 8:
        return current, desired
    mark = f"… ({begin} characters before this are the same)\n"
    return mark + current[begin:], mark + desired[begin:]


def clip_middle(text: str, limit: int = TRACE) -> str:
    """Beginning and end of a text, with a mark in between."""
    if len(text) <= limit:
        return text
    part = max(limit - 80, 0) // 2
    return f"{text[:part]}\n… ({len(text) - 2 * part} characters were cut, the limit is {limit}) …\n{text[-part:]}"


def text_of(error: BaseException) -> str:
    """`Name('text')` of an exception, whatever its text is."""
    try:
        text = str(error)
    except Exception:
        text = "<no text>"
    return f"{type(error).__name__}('{clip(text)}')"


def traceback_of(error: BaseException) -> str:
    """The traceback as Python prints it, without the long texts of exceptions."""
    import traceback

    try:
        described = traceback.TracebackException.from_exception(error)
        shorten(described)
        return clip_middle("".join(described.format()))
    except Exception as broken:
        # Its class, or that of one that it came from, has methods that raise others.
        return f"{type(error).__name__}: no traceback ({type(broken).__name__})\n"


def shorten(described: object, left: int = _CHAIN) -> None:
    """Cuts the texts of a TracebackException and of its causes, before anybody puts them together."""
    while described is not None:
        text = getattr(described, "_str", None)
        if isinstance(text, str):
            setattr(described, "_str", clip(text, _MESSAGE_IN_TRACE))
        stack = getattr(described, "stack", None)
        if stack is not None and len(stack) > 200:
            del stack[100:-100]
        for name in ("__notes__",):
            if getattr(described, name, None):
                setattr(described, name, None)
        for part in getattr(described, "exceptions", None) or ():
            shorten(part, left - 1)
        if left <= 1:
            for name in ("__cause__", "__context__", "exceptions"):
                if getattr(described, name, None):
                    setattr(described, name, None)
            return
        left -= 1
        cause = getattr(described, "__cause__", None)
        if cause is not None:
            shorten(cause, left)
        described = getattr(described, "__context__", None)


def _size(line: data.LogLine) -> int:
    size = 80 + len(line._msg)
    for value in line._kwargs.values():
        size += len(value) if type(value) is str else len(str(value))
    return size


class Lines:
    """The log lines of a run: the first ones; of too many, debugging goes first and errors last."""

    def __init__(self, kept: list[data.LogLine]) -> None:
        self._kept = kept
        self._sizes: list[int] = []
        self._left = RUN
        self._n_cut = 0
        # How many were ever taken.
        self.n_added = 0
        # How many of each level.
        self._levels: dict[int, int] = {}

    def add(self, line: data.LogLine) -> None:
        if len(self._sizes) != len(self._kept):
            # Somebody has changed the list.
            self._sizes = [_size(kept) for kept in self._kept]
            self._left = RUN - sum(self._sizes)
            self._levels = {}
            for kept in self._kept:
                self._levels[kept._level.to_int] = self._levels.get(kept._level.to_int, 0) + 1
        size = _size(line)
        rank = line._level.to_int
        while self._left < size or len(self._kept) >= RUN_LINES - 1:
            index = self._least(rank)
            if index is None:
                self._n_cut += 1
                return
            self._drop(index)
        self._kept.append(line)
        self.n_added += 1
        self._sizes.append(size)
        self._left -= size
        self._levels[rank] = self._levels.get(rank, 0) + 1

    def _least(self, rank: int) -> int | None:
        """The line that makes room for one of this rank: a less important one, or the last of the errors."""
        if not self._levels:
            return None
        least = min(self._levels)
        if least >= rank and not (least == rank and rank >= 40):
            return None
        return max(index for index, line in enumerate(self._kept) if line._level.to_int == least)

    def _drop(self, index: int) -> None:
        level = self._kept.pop(index)._level.to_int
        self._levels[level] -= 1
        if not self._levels[level]:
            del self._levels[level]
        self._left += self._sizes.pop(index)
        self._n_cut += 1

    @property
    def n_cut(self) -> int:
        return self._n_cut

    def mark(self) -> str:
        """Says how many lines are missing; empty if none is."""
        if not self._n_cut:
            return ""
        return f"… {self._n_cut} more lines were cut; the limit is {RUN_LINES} lines and {RUN >> 20} MiB a run"


def clipped(arguments: dict[str, object]) -> dict[str, object]:
    """The arguments of a line; long texts are cut before they are put together."""
    for key, value in arguments.items():
        if len(key) > 200 or type(value) is str and len(value) > ARGUMENT:
            break
    else:
        if len(arguments) <= 100:
            return arguments
    return {
        clip(key, 200): clip(value, ARGUMENT) if type(value) is str else value for key, value in list(arguments.items())[:100]
    }
