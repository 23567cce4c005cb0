"""Options. An environment variable `INMANTA_<SECTION>_<NAME>` wins over a value that was set."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_TRUE = {"true", "1", "yes", "on"}
_FALSE = {"false", "0", "no", "off"}


def _normal(name: str) -> str:
    return name.replace("_", "-").lower()


def is_bool(value: object) -> bool:
    """The truth that a text stands for; ValueError for another text."""
    if isinstance(value, bool):
        return value
    text = str(value).lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(f"Not a boolean: {value}")


class Config:
    """All options of this process, by section and name; `-` and `_` in a name are the same."""

    _values: dict[str, dict[str, object]] = {}

    @classmethod
    def load_config(cls, *args: object, **kwargs: object) -> None:
        """Nothing is read: Steward gives a host what it needs in its environment."""

    @classmethod
    def _reset(cls) -> None:
        cls._values = {}

    @classmethod
    def _lookup(cls, section: str, name: str) -> object | None:
        variable = f"INMANTA_{section}_{name}".replace("-", "_").upper()
        value = os.environ.get(variable)
        return value if value is not None else cls._values.get(section, {}).get(_normal(name))

    @classmethod
    def get(cls, section: str | None = None, name: str | None = None, default_value: object = None) -> object:
        """The value of an option, else the given default."""
        if section is None or name is None:
            return cls._values
        found = cls._lookup(section, name)
        return default_value if found is None else found

    @classmethod
    def is_set(cls, section: str, name: str) -> bool:
        return cls._lookup(section, name) is not None

    @classmethod
    def getboolean(cls, section: str, name: str, default_value: object = None) -> bool:
        return is_bool(cls.get(section, name, default_value))

    @classmethod
    def set(cls, section: str, name: str, value: object) -> None:
        cls._values.setdefault(section, {})[_normal(name)] = value


class Option:
    """An option with default and validator; `default` may be a function."""

    def __init__(
        self,
        section: str,
        name: str,
        default: object,
        documentation: str = "",
        validator: Callable[[object], object] = lambda value: value,
        predecessor_option: Option | None = None,
    ) -> None:
        self.section = section
        self.name = _normal(name)
        self.default = default
        self.documentation = documentation
        self.validator = validator
        self.predecessor_option = predecessor_option

    def get(self) -> object:
        found = Config._lookup(self.section, self.name)
        if found is None:
            found = self.default() if callable(self.default) else self.default
        return None if found is None else self.validator(found)

    def set(self, value: object) -> None:
        Config.set(self.section, self.name, value)

    def get_default_value(self) -> object:
        return self.default() if callable(self.default) else self.default


state_dir = Option("config", "state_dir", "/var/lib/inmanta", "The directory where the server keeps its state")
