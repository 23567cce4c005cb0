"""Clients of the REST API."""

from __future__ import annotations

from inmanta.protocol.common import Result, json_encode
from inmanta.protocol.endpoints import Client, SessionClient, SyncClient, TypedClient

__all__ = ["Client", "Result", "SessionClient", "SyncClient", "TypedClient", "json_encode"]
