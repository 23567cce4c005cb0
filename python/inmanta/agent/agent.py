"""The older place of `AgentInstance`."""

from __future__ import annotations

from inmanta.agent.executor import AgentInstance

__all__ = ["AgentInstance"]
