"""Clients of the REST API."""

from __future__ import annotations

from inmanta.protocol.common import Result, json_encode
from inmanta.protocol.endpoints import Client, SessionClient, SyncClient, TypedClient

__all__ = ["Client", "Result", "SessionClient", "SyncClient", "TypedClient", "json_encode"]


TYPE_CHECKING = False
if not TYPE_CHECKING:
    # What only the reference's module has says why it is not here.
    from inmanta import _rest_of

    __getattr__ = _rest_of(__name__)
