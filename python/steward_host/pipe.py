"""Frames over the two ends of a pipe: four bytes of length, big-endian, then one MessagePack value.

A value is one message in serde's externally tagged form: `{"call": {...}}`, or the bare name of a variant without
fields. Reading and writing block; `request` may be used by several threads at once. Module code may have said otherwise of the
files (`asyncio` does, and so do some programs that it starts, of files that they have in common with us): then they are told
again.
"""

from __future__ import annotations

import marshal
import os
from _thread import RLock
from struct import Struct

from . import msgpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .held import Held

MAX_FRAME_BYTES = 256 << 20
# First byte of a frame with calls (see `calls`).
CALLS = 0xC1
_LENGTH = Struct(">I").pack


class Closed(Exception):
    """The other side closed the pipe."""


class TooLarge(ValueError):
    """A message that no frame may hold."""


class Pipe:
    """The connection to Steward."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self.read_fd = read_fd
        self.write_fd = write_fd
        self._buffer = b""
        # No message of this process may be larger.
        self.most = MAX_FRAME_BYTES
        # Where this process may run, if it has a choice and Steward takes it away while the process waits.
        self._processors: set[int] | None = None
        # Whether this process may write: not a child that module code has forked.
        self._is_ours = True
        # Whether answers are held, and where they lie meanwhile; None: each is sent at once.
        self._has_unsent = False
        self._held: Held | None = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)
        # Messages that came while an answer was waited for: Steward may send calls ahead.
        self._pending: list[tuple[str, Any]] = []
        # One request and its answer at a time; a handler's threads may log while its main thread reads.
        self.lock = RLock()

    def receive(self) -> tuple[str, Any]:
        """The next message as `(name, fields)`; `fields` is None for a variant without fields.

        Raises Closed at the end of the stream, FormatError for what is no frame.
        """
        return self._pending.pop(0) if self._pending else self._receive()

    def _receive(self) -> tuple[str, Any]:
        buffer = self._buffer
        while len(buffer) < 4:
            buffer += self._read()
        end = int.from_bytes(buffer[:4], "big") + 4
        if end > MAX_FRAME_BYTES:
            raise msgpack.FormatError(f"a frame of {end - 4} bytes is too large")
        if len(buffer) < end:
            chunks = [buffer]
            missing = end - len(buffer)
            while missing > 0:
                chunk = self._read(max(missing, 65536))
                chunks.append(chunk)
                missing -= len(chunk)
            buffer = b"".join(chunks)
        rest = buffer[end:] if len(buffer) > end else b""
        if end > 4 and buffer[4] == CALLS:
            self._buffer = rest
            try:
                return "calls", marshal.loads(buffer[5:end])
            except (EOFError, ValueError, TypeError) as error:
                raise msgpack.FormatError(f"broken frame: {error}") from error
        message, position = msgpack.unpack(buffer, 4)
        if position != end:
            raise msgpack.FormatError("a frame holds more than one value")
        self._buffer = rest
        if type(message) is dict and len(message) == 1:
            return message.popitem()
        if type(message) is str:
            return message, None
        raise msgpack.FormatError("a frame that is no message")

    def adopt(self) -> None:
        """The pipe is this process's now, which was forked for it."""
        self._is_ours = True

    def close(self) -> None:
        """Closes both ends."""
        for number in {self.read_fd, self.write_fd}:
            os.close(number)

    def _forked(self) -> None:
        self._is_ours = False

    def hold(self, held: Held) -> None:
        """From now on answers wait here until Steward is waited for, or the calls of a frame are done."""
        self._held = held

    def take_turns(self) -> None:
        """From now on Steward wakes this process where it runs itself (`processor_affinity.rs` of the compiler)."""
        if hasattr(os, "sched_getaffinity"):
            processors = os.sched_getaffinity(0)
            self._processors = processors if len(processors) > 1 else None

    def has_buffered(self) -> bool:
        """Whether bytes were read that no message has used, so that waiting on the descriptor would be wrong."""
        return bool(self._buffer or self._pending)

    def send(self, name: str, fields: Mapping[str, object] | str | None = None) -> None:
        """Writes one message; Closed if nobody reads any more."""
        self.send_packed(msgpack.pack(name if fields is None else {name: fields}))

    def send_packed(self, body: bytes) -> None:
        """Writes a message that is packed already. TooLarge if it does not fit into a frame."""
        most = min(self.most, MAX_FRAME_BYTES)
        if len(body) > most:
            raise TooLarge(f"a message of {len(body)} bytes is too large, the limit is {most}")
        if not self._is_ours:
            # Module code has forked, and its child came back to us instead of ending: the pipe is its parent's.
            os._exit(1)
        data = _LENGTH(len(body)) + body
        with self.lock:
            self._write(data)

    def begin_answers(self) -> None:
        """A frame of calls has come."""
        if self._held is not None:
            self._held.begin()

    def end_answers(self) -> None:
        """There are no more frames: what was held is sent, and nothing is kept."""
        self.flush()
        self.begin_answers()

    def answer(self, body: bytes, is_last: bool = False) -> None:
        """As `send_packed`, of an answer that Steward has to be woken for only when it is waited for: see `held`.

        `is_last`: it is the one to the last call of a frame, so that those before it go with it.
        """
        size = len(body)
        if is_last or self._held is None or size > self.most or not self._is_ours:
            self.send_packed(body)
            return
        with self.lock:
            if self._held.put(body):
                self._has_unsent = True
            else:
                self._write(_LENGTH(size) + body)

    def flush(self) -> None:
        """Sends the answers that were held."""
        if self._has_unsent and self._is_ours:
            with self.lock:
                self._write(b"")

    def _write(self, data: bytes) -> None:
        """Writes answers that were held, and what comes behind them. The caller has the lock."""
        if self._has_unsent and self._held is not None:
            data = self._held.unsent() + data
            self._has_unsent = False
        try:
            sent = self._write_some(data)
            while sent < len(data):
                data = data[sent:]
                sent = self._write_some(data)
        except BrokenPipeError as error:
            raise Closed from error

    def _write_some(self, data: bytes) -> int:
        while True:
            try:
                return os.write(self.write_fd, data)
            except BlockingIOError:
                os.set_blocking(self.write_fd, True)

    def request(self, name: str, fields: Mapping[str, object], answer: str) -> Any:
        """Sends a message and gives the fields of its answer, which must have the name `answer`."""
        return self.ask(name, fields, (answer,))[1]

    def ask(self, name: str, fields: Mapping[str, object], answers: tuple[str, ...]) -> tuple[str, Any]:
        """Sends a message and gives its answer, which has one of these names."""
        with self.lock:
            self.send(name, fields)
            return self.wait_for(*answers)

    def wait_for(self, *answers: str) -> tuple[str, Any]:
        """The next message with one of these names; others that come before it wait."""
        with self.lock:
            while True:
                message = self._receive()
                if message[0] in answers:
                    return message
                self._pending.append(message)

    def _read(self, size: int = 65536) -> bytes:
        while True:
            try:
                chunk = os.read(self.read_fd, size)
                break
            except BlockingIOError:
                os.set_blocking(self.read_fd, True)
        if not chunk:
            raise Closed
        if self._processors is not None:
            # What module code starts may run anywhere.
            try:
                os.sched_setaffinity(0, self._processors)
            except OSError:
                # It was refused, as `SystemCallFilter=` of a unit may: Steward, which is held to the same, did not choose either.
                self._processors = None
        return chunk
