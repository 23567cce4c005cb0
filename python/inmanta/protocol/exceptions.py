"""Errors of the API."""

from __future__ import annotations


class BaseHttpException(Exception):
    """An answer other than success."""

    def __init__(
        self, status_code: int = 500, message: str | None = None, details: dict[str, object] | None = None
    ) -> None:
        super().__init__(f"HTTP {status_code}: {message}")
        self.status_code = status_code
        self.log_message = message
        self.details = details

    def to_status(self) -> int:
        return self.status_code

    def to_body(self) -> dict[str, object]:
        """The body of the answer, as a dict."""
        body: dict[str, object] = {"message": self.log_message}
        if self.details:
            body["error_details"] = self.details
        return body


class _OfStatus(BaseHttpException):
    """An answer with the status of its class."""

    status = 500

    def __init__(self, message: str | None = None, details: dict[str, object] | None = None) -> None:
        super().__init__(self.status, message, details)


class BadRequest(_OfStatus):
    status = 400


class UnauthorizedException(_OfStatus):
    status = 401


class Forbidden(_OfStatus):
    status = 403


class NotFound(_OfStatus):
    status = 404


class Conflict(_OfStatus):
    status = 409


class ServerError(_OfStatus):
    status = 500


class ServiceUnavailable(_OfStatus):
    status = 503


class ShutdownInProgress(ServiceUnavailable):
    """The server is about to end."""


_CLASSES = (BadRequest, UnauthorizedException, Forbidden, NotFound, Conflict, ServerError, ShutdownInProgress)


def of_status(status: int, message: str) -> BaseHttpException:
    """The exception for an answer of this status."""
    for cls in _CLASSES:
        if cls.status == status:
            return cls(message)
    return BaseHttpException(status, message)


TYPE_CHECKING = False
if not TYPE_CHECKING:
    # What only the reference's module has says why it is not here.
    from inmanta import _rest_of

    __getattr__ = _rest_of(__name__)
