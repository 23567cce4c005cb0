"""The reference types of the module `std`, which is built into Steward and so has no Python code of its own.

Source: docs/reference/std.md § 5.7. Registered when a resource holds such a reference and the published module is
not installed.
"""

from __future__ import annotations

import os

from inmanta.references import Reference, reference

TYPE_CHECKING = False
if TYPE_CHECKING:
    from inmanta.agent.handler import LoggerABC


@reference("std::Environment")
class EnvironmentReference(Reference[str]):
    """An environment variable of the executor; a LookupError if it is not set."""

    def __init__(self, name: str | Reference[str]) -> None:
        super().__init__()
        self.name = name

    def resolve(self, logger: LoggerABC) -> str:
        name = self.resolve_other(self.name, logger)
        value = os.environ.get(name)
        if value is None:
            raise LookupError(f"Environment variable {name} is not set")
        return value


@reference("std::IntReference")
class IntReference(Reference[int]):
    """A value as a whole number."""

    def __init__(self, value: object | Reference[object]) -> None:
        super().__init__()
        self.value = value

    def resolve(self, logger: LoggerABC) -> int:
        return int(self.resolve_other(self.value, logger))


@reference("std::FactReference")
class FactReference(Reference[str]):
    """A fact of another resource, from the server; a LookupError if it is not known."""

    def __init__(
        self,
        environment: str,
        resource_id: str,
        fact_name: str,
        mocked_facts: dict[str, dict[str, str]] | None = None,
    ) -> None:
        super().__init__()
        self.environment = environment
        self.resource_id = resource_id
        self.fact_name = fact_name
        self.mocked_facts = mocked_facts

    def __str__(self) -> str:
        return f"FactReference[resource_id={self.resource_id},fact_name={self.fact_name}]"

    def resolve(self, logger: LoggerABC) -> str:
        mocked = (self.mocked_facts or {}).get(self.resource_id, {})
        if self.fact_name in mocked:
            return mocked[self.fact_name]
        from inmanta.protocol import SyncClient

        result = SyncClient("agent").get_param(
            tid=self.environment, id=self.fact_name, resource_id=self.resource_id
        )
        if result.code != 200:
            raise LookupError(f"Fact {self.fact_name} of {self.resource_id} is not known (HTTP {result.code})")
        value: str = (result.result or {})["parameter"]["value"]
        return value
