"""Errors of the API."""

from __future__ import annotations


class BaseHttpException(Exception):
    """An answer other than success."""

    def __init__(self, status_code: int = 500, message: str | None = None, details: dict[str, object] | None = None) -> None:
        super().__init__(f"HTTP {status_code}: {message}")
        self.status_code = status_code
        self.log_message = message
        self.details = details


class NotFound(BaseHttpException):
    def __init__(self, message: str | None = None, details: dict[str, object] | None = None) -> None:
        super().__init__(404, message, details)
