"""Actions of an asyncio loop that are run again and again."""

from __future__ import annotations

import asyncio
import logging

from inmanta import _without

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    Action = Callable[[], Coroutine[Any, Any, object]]


@_without("log")
class TaskSchedule:
    """When an action runs."""

    def get_initial_delay(self) -> float:
        """Seconds until the first run."""
        raise NotImplementedError

    def get_next_delay(self) -> float:
        """Seconds between the end of a run and the next."""
        raise NotImplementedError


class IntervalSchedule(TaskSchedule):
    """Every `interval` seconds, for the first time after `initial_delay`, or else after an interval."""

    def __init__(self, interval: float, initial_delay: float | None = None) -> None:
        self.interval = interval
        self.initial_delay = initial_delay

    def get_initial_delay(self) -> float:
        return self.interval if self.initial_delay is None else self.initial_delay

    def get_next_delay(self) -> float:
        return self.interval

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IntervalSchedule) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.interval, self.initial_delay))


class ScheduledTask:
    """An action and its schedule; what `Scheduler.remove` takes."""

    def __init__(self, action: Action, schedule: TaskSchedule) -> None:
        self.action = action
        self.schedule = schedule

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScheduledTask) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.action, self.schedule))


class Scheduler:
    """Runs actions by their schedules, on the loop that it is used on. An action that fails runs again all the same."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._tasks: dict[ScheduledTask, asyncio.Task[None]] = {}
        self._stopped = False

    def add_action(
        self,
        action: Action,
        schedule: TaskSchedule | int,
        cancel_on_stop: bool = True,
        quiet_mode: bool = False,
    ) -> ScheduledTask | None:
        """Starts to run an action; None if the scheduler was stopped, or runs it already by this schedule."""
        when = schedule if isinstance(schedule, TaskSchedule) else IntervalSchedule(float(schedule))
        task = ScheduledTask(action, when)
        if self._stopped or task in self._tasks:
            return None
        self._tasks[task] = asyncio.get_running_loop().create_task(self._run(task))
        return task

    async def _run(self, task: ScheduledTask) -> None:
        delay = task.schedule.get_initial_delay()
        while True:
            await asyncio.sleep(delay)
            try:
                await task.action()
            except Exception:
                logging.getLogger(__name__).exception("An action of %s failed", self.name)
            delay = task.schedule.get_next_delay()

    def remove(self, task: ScheduledTask) -> None:
        """Ends an action; nothing if it is none of these."""
        running = self._tasks.pop(task, None)
        if running is not None:
            running.cancel()

    async def stop(self) -> None:
        """Ends all actions, and takes no more."""
        self._stopped = True
        running = list(self._tasks.values())
        for task in list(self._tasks):
            self.remove(task)
        await asyncio.gather(*running, return_exceptions=True)
