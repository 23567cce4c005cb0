"""References of a class of the module, some of them to another reference."""

from inmanta.plugins import plugin
from inmanta.references import Reference, reference
from inmanta.resources import PurgeableResource, resource


@reference("shape::Vault")
class Vault(Reference[str]):
    def __init__(self, path: str | Reference[str], key: str) -> None:
        super().__init__()
        self.path = path
        self.key = key

    def resolve(self, logger) -> str:
        return f"{self.resolve_other(self.path, logger)}#{self.key}"


@plugin
def vault(path: str | Reference[str], key: str) -> Reference[str]:
    return Vault(path, key)


@resource("shape::Secret", id_attribute="name", agent="agent")
class Secret(PurgeableResource):
    fields = ("name", "agent", "value", "number")
