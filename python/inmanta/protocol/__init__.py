"""Clients of the REST API."""

from __future__ import annotations

from inmanta.protocol.common import Result
from inmanta.protocol.endpoints import Client, SessionClient, SyncClient, TypedClient

__all__ = ["Client", "Result", "SessionClient", "SyncClient", "TypedClient", "json_encode"]


def json_encode(value: object) -> str:
    """JSON as the API writes it."""
    import json

    from inmanta.util import api_boundary_json_encoder

    return json.dumps(value, default=api_boundary_json_encoder).replace("</", "<\\/")
