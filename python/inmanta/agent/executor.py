"""What handlers get as their agent, as annotations name it."""

from __future__ import annotations

from abc import ABC, abstractmethod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop


class AgentInstance(ABC):
    """The agent of a handler, in its executor."""

    eventloop: AbstractEventLoop
    sessionid: object
    environment: object
    uri: str

    @abstractmethod
    def is_stopped(self) -> bool:
        """Whether it is about to end."""

if not TYPE_CHECKING:
    # What only the reference's module has says why it is not here.
    from inmanta import _rest_of

    __getattr__ = _rest_of(__name__)
