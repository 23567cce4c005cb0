"""Answers of the API."""

from __future__ import annotations

from inmanta import _without
from inmanta.util import internal_json_encoder as custom_json_encoder  # noqa: F401  # test tools have it from here

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
    from typing import Any

    Answered = Coroutine[Any, Any, "Result"]
    Record = dict[str, Any]
else:
    Record = dict


class Payload(Record):
    """An object of the API; its fields are attributes, too, as those of the reference's models are."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def _typed(value: object) -> Any:
    if isinstance(value, dict):
        return Payload({name: _typed(item) for name, item in value.items()})
    return [_typed(item) for item in value] if isinstance(value, list) else value


@_without("available callback method_properties pageable set_result wait")
class Result:
    """An answer: `code` is the HTTP status, `result` the body as a dict, or None; of a page for people its text.

    A v2 call has its payload under "data".
    """

    def __init__(
        self,
        code: int = 0,
        result: dict[str, Any] | str | None = None,
        follow: Callable[[str], Result] | None = None,
    ) -> None:
        self.code = code
        self._result: Any = result
        # Gets what a link of the answer leads to.
        self._follow = follow

    @property
    def result(self) -> dict[str, Any] | None:
        # The few calls for a page are none of those that code looks into.
        found: dict[str, Any] | None = self._result
        return found

    def get_result(self) -> dict[str, Any] | None:
        return self.result

    def value(self) -> Any:
        """The payload of a call that succeeded; an exception for another."""
        if not 200 <= self.code < 300:
            from inmanta.protocol import exceptions

            message = (self._result or {}).get("message", "no explanation")
            raise exceptions.of_status(self.code, message)
        return self._result if isinstance(self._result, str) else _typed((self._result or {}).get("data"))

    def _next_page(self) -> Result | None:
        link = (self._result or {}).get("links", {}).get("next")
        return self._follow(link) if link and self._follow is not None else None

    def all_sync(self, *, timeout: int = 120, ioloop: object = None) -> Iterator[Any]:
        """The elements of a list, those of all further pages included."""
        page: Result | None = self
        while page is not None:
            yield from page.value()
            page = page._next_page()

    async def all(self) -> AsyncIterator[Any]:
        """As `all_sync`, in async code."""
        import asyncio

        page: Result | None = self
        while page is not None:
            for element in page.value():
                yield element
            page = await asyncio.get_running_loop().run_in_executor(None, page._next_page)

    def __await__(self) -> Generator[None, None, Result]:
        return self
        yield

    def __repr__(self) -> str:
        return f"Result(code={self.code})"


@_without("create")
class ClientCall:
    """A call of an async client: its `Result` when it is awaited.

    Whatever takes a coroutine takes it, too.
    """

    def __init__(self, call: Answered) -> None:
        self._call = call

    def send(self, value: Any) -> Any:
        return self._call.send(value)

    def throw(self, *error: Any) -> Any:
        return self._call.throw(*error)

    def close(self) -> None:
        self._call.close()

    def __await__(self) -> Generator[Any, Any, Result]:
        return self._call.__await__()

    async def value(self) -> Any:
        """The payload; an exception for a call that did not succeed."""
        return (await self._call).value()

    async def all(self) -> AsyncIterator[Any]:
        """The elements of a list, page after page."""
        async for element in (await self._call).all():
            yield element

    def sync(self, *, timeout: int = 120, ioloop: object = None) -> Result:
        """The answer, in code that is not async."""
        import asyncio

        return asyncio.run(asyncio.wait_for(self._call, timeout))

    def all_sync(self, *, timeout: int = 120, ioloop: object = None) -> Iterator[Any]:
        """As `all`, in code that is not async."""
        return self.sync(timeout=timeout).all_sync()


def json_encode(value: object) -> str:
    """JSON as the API writes it."""
    import json

    from inmanta.util import api_boundary_json_encoder

    return json.dumps(value, default=api_boundary_json_encoder).replace("</", "<\\/")

if not TYPE_CHECKING:
    # What only the reference's module has says why it is not here.
    from inmanta import _rest_of

    __getattr__ = _rest_of(__name__)
