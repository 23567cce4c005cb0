"""Answers to calls that are sent together, when all calls of a frame are done.

To send each one by itself would wake Steward each time, which takes longer than most plugins do. But of a host that dies
in a call, Steward wants to know which one that was; so the answers lie in memory that it can read, too, from when they are
there (`compiler/src/python_host/held_answers.rs`). That memory holds frames, one behind the other, and zeros behind the last
one; it begins anew with each frame of calls.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import mmap

# What Steward sends at most in one frame of calls is half of it.
BYTES = 64 << 10
# Where the length of the next frame will be.
_END = bytes(4)


class Held:
    """The memory."""

    def __init__(self, memory: mmap.mmap, descriptor: int) -> None:
        self.descriptor = descriptor
        self._memory = memory
        self._at = 0

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
        self._at = 0

    def put(self, frame: bytes) -> bool:
        """Adds an answer; False if there is no room for it."""
        at = self._at
        end = at + len(frame)
        if end > BYTES - 4:
            return False
        memory = self._memory
        # Its length comes last: before that, there is no frame.
        memory[at + 4 : end + 4] = frame[4:] + _END
        memory[at : at + 4] = frame[:4]
        self._at = end
        return True
