"""Ids of resources. Source: docs/reference/language.md § 12.3."""

from __future__ import annotations

from inmanta import _without

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re

    from inmanta.resources import Resource


@_without("is_resource_version_id_obj set_version_in_id")
class Id:
    """`type[agent,attribute=value]`, with `,v=N` behind it for a version above 0. Compared by that text."""

    __slots__ = ("_entity_type", "_agent_name", "_attribute", "_attribute_value", "_version", "_text")

    def __init__(
        self, entity_type: str, agent_name: str, attribute: str, attribute_value: str, version: int = 0
    ) -> None:
        if "," in agent_name:
            raise ValueError(f"Invalid agent name '{agent_name}': cannot contain ','.")
        for character in (",", "="):
            if character in attribute:
                raise ValueError(f"Invalid attribute name '{attribute}': cannot contain '{character}'.")
        attribute_value = str(attribute_value)
        if "]" in attribute_value:
            raise ValueError(f"Invalid attribute value '{attribute_value}': cannot contain ']'.")
        self._entity_type = entity_type
        self._agent_name = agent_name
        self._attribute = attribute
        self._attribute_value = attribute_value
        self._version = version
        self._text = f"{entity_type}[{agent_name},{attribute}={attribute_value}]"


    @property
    def entity_type(self) -> str:
        return self._entity_type

    @property
    def agent_name(self) -> str:
        return self._agent_name

    @property
    def attribute(self) -> str:
        return self._attribute

    @property
    def attribute_value(self) -> str:
        return self._attribute_value

    def get_entity_type(self) -> str:
        return self._entity_type

    def get_agent_name(self) -> str:
        return self._agent_name

    def get_attribute(self) -> str:
        return self._attribute

    def get_attribute_value(self) -> str:
        return self._attribute_value

    def get_version(self) -> int:
        return self._version

    def set_version(self, version: int) -> None:
        """Gives a version to an id that has none yet."""
        if self._version > 0 and version != self._version:
            raise AttributeError("can't set attribute version")
        self._version = version

    @property
    def version(self) -> int:
        return self._version

    @version.setter
    def version(self, version: int) -> None:
        self.set_version(version)

    def copy(self, *, version: int) -> Id:
        return Id(self._entity_type, self._agent_name, self._attribute, self._attribute_value, version)

    def resource_str(self) -> str:
        return self._text

    def resource_version_str(self) -> str:
        return f"{self._text},v={self._version}"

    def to_dict(self) -> dict[str, str | int]:
        return {
            "entity_type": self._entity_type,
            "agent_name": self._agent_name,
            "attribute": self._attribute,
            "attribute_value": self._attribute_value,
            "version": self._version,
        }

    def get_inmanta_module(self) -> str:
        return self._entity_type.split("::", 1)[0]

    def get_instance(self) -> Resource | None:
        """A resource of this id without any field; None if no class is registered for its entity."""
        from inmanta.resources import resource

        resource_class, _ = resource.get_class(self._entity_type)
        return None if resource_class is None else resource_class(self)

    @classmethod
    def parse_id(cls, resource_id: str, version: int | None = None) -> Id:
        """Reads an id, with or without version; `version` overrides. ValueError for other text."""
        found = _pattern().fullmatch(resource_id)
        if found is None:
            raise ValueError(f"Invalid id for resource {resource_id}")
        entity_type, agent, attribute, value, stated = found.groups()
        return cls(entity_type, agent, attribute, value, version if version is not None else int(stated or 0))

    @classmethod
    def parse_resource_version_id(cls, resource_id: str) -> Id:
        """As `parse_id`, but the version must be there."""
        found = cls.parse_id(resource_id)
        if not cls.is_resource_version_id(resource_id):
            raise ValueError(f"Invalid resource version id {resource_id}")
        return found

    @classmethod
    def is_resource_id(cls, value: str) -> bool:
        """Whether a text is an id, with a version or without."""
        return _pattern().fullmatch(value) is not None

    @classmethod
    def is_resource_version_id(cls, value: str) -> bool:
        """Whether a text is an id with version."""
        found = _pattern().fullmatch(value)
        return found is not None and found[5] is not None

    def __str__(self) -> str:
        return self.resource_version_str() if self._version > 0 else self._text

    def __repr__(self) -> str:
        return str(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Id) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


# Where modules import it from.
Id.__module__ = "inmanta.resources"

_compiled: re.Pattern[str] | None = None


def _pattern() -> re.Pattern[str]:
    global _compiled
    if _compiled is None:
        # Slow to import, and rarely needed in a compile.
        import re

        _compiled = re.compile(
            r"([\w-]+(?:::[\w-]+)*::[\w-]+)\[([^,]+),([^=]+)=([^\]]+)\](?:,v=([0-9]+))?"
        )
    return _compiled
