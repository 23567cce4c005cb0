"""Answers to calls that are sent together, when all calls of a frame are done.

To send each one by itself would wake Steward each time, which takes longer than most plugins do. But of a host that dies
in a call, Steward wants to know which one that was; so the answers lie in memory that it can read, too, from when they are
there (`compiler/src/python_host/held_answers.rs`). That memory holds frames, one behind the other, and zeros behind the last
one; it begins anew with each frame of calls.
"""

from __future__ import annotations

from struct import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    import mmap

# What Steward sends at most in one frame of calls is half of it.
BYTES = 64 << 10
# Where the length of the next frame will be.
_END = bytes(4)
_MOST = BYTES - len(_END)
_LENGTH = Struct(">I").pack


class Held:
    """The memory."""

    def __init__(self, memory: mmap.mmap, descriptor: int) -> None:
        self.descriptor = descriptor
        self._memory = memory
        self._at = 0
        # What lies before this was sent.
        self._sent = 0

    @classmethod
    def made(cls) -> Held | None:
        """None where the system has no such memory, or does not give it, as in a sandbox."""
        try:
            import mmap
            import os

            descriptor = os.memfd_create("steward answers")
            os.ftruncate(descriptor, BYTES)
            return cls(mmap.mmap(descriptor, BYTES), descriptor)
        except (ImportError, AttributeError, OSError):
            return None

    def begin(self) -> None:
        """Forgets all: they were sent."""
        self._memory[:4] = _END
        self._at = self._sent = 0

    def put(self, body: bytes) -> bool:
        """Adds an answer; False if there is no room for it."""
        at = self._at
        start = at + 4
        size = len(body)
        end = start + size
        if end > _MOST:
            return False
        memory = self._memory
        # Its length comes last: before that, there is no frame.
        memory[start : end + 4] = body + _END
        memory[at:start] = _LENGTH(size)
        self._at = end
        return True

    def unsent(self) -> bytes:
        """The frames that were added since this was asked before; they stay where they are."""
        sent, self._sent = self._sent, self._at
        return self._memory[sent : self._at]
