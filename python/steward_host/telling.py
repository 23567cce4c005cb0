"""Tells what handlers log while they run, for runs that take long: one that never ends has no report to tell it in.

A thread looks once a second at the run that goes on. What a run of less than a second logs is in its report alone, so short
runs pay nothing for it. The thread ends when there was nothing to do for some time, and is started again by a later run.
"""

from __future__ import annotations

import time
from _thread import allocate_lock, start_new_thread

from steward_host.pipe import Closed, Pipe, TooLarge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from steward_host.executing import Run

# Seconds between two looks.
PAUSE = 1.0
# So many looks without a run, and the thread ends.
IDLE = 10


class Telling:
    """What was told of the run that goes on."""

    def __init__(self, pipe: Pipe, is_followed: bool) -> None:
        self._pipe = pipe
        self._is_followed = is_followed
        # Held while `_run` changes, and while the thread decides to end.
        self._lock = allocate_lock()
        self._has_thread = False
        self._run: Run | None = None
        # The run that was there at the last look, and how many of its lines were told.
        self._seen: Run | None = None
        self._n_told = 0

    def begin(self, run: Run) -> None:
        with self._lock:
            self._run = run
            if self._has_thread or not self._is_followed:
                return
            self._has_thread = True
        try:
            start_new_thread(self._follow, ())
        except RuntimeError:
            # No thread is to be had: the report has the lines.
            self._has_thread = False

    def end(self) -> None:
        """Nothing is told of the run any more; waits for what is being told just now."""
        with self._lock:
            self._run = self._seen = None

    def _follow(self) -> None:
        n_idle = 0
        while True:
            time.sleep(PAUSE)
            with self._lock:
                run = self._run
                n_idle = n_idle + 1 if run is None else 0
                if n_idle >= IDLE:
                    self._has_thread = False
                    return
                if run is None or run is not self._seen:
                    self._seen, self._n_told = run, 0
                    continue
                try:
                    self._tell(run)
                except (Closed, TooLarge, OSError):
                    # Who reads is gone, or there is more than anybody reads: the report, if there is one, says so.
                    self._has_thread = False
                    return
                except Exception:
                    # Its handler changes the lines while they are read; the next look has them.
                    continue

    def _tell(self, run: Run) -> None:
        lines, n_added, mark = run.logged(self._n_told)
        self._n_told = n_added
        if lines:
            self._pipe.send("logged", {"id": run.number, "lines": lines, "mark": mark})
