"""Answers of the API."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any


class Result:
    """An answer: `code` is the HTTP status, `result` the body as a dict, or None.

    A v2 call has its payload under "data".
    """

    def __init__(self, code: int = 0, result: dict[str, Any] | None = None) -> None:
        self.code = code
        self._result = result

    @property
    def result(self) -> dict[str, Any] | None:
        return self._result

    def get_result(self) -> dict[str, Any] | None:
        return self._result

    def value(self) -> Any:
        """The payload of a call that succeeded; an exception for another."""
        if not 200 <= self.code < 300:
            from inmanta.protocol import exceptions

            message = (self._result or {}).get("message", "no explanation")
            raise exceptions.BaseHttpException(self.code, message)
        return (self._result or {}).get("data")

    def __await__(self) -> Generator[None, None, Result]:
        return self
        yield

    def __repr__(self) -> str:
        return f"Result(code={self.code})"
