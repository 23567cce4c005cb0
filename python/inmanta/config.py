"""Options. An environment variable `INMANTA_<SECTION>_<NAME>` wins over a value that was set."""

from __future__ import annotations

import os

from inmanta import _without

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any
    from uuid import UUID

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


def is_int(value: str | int) -> int:
    """int"""
    return int(value)


def is_int_opt(value: str | int | None) -> int | None:
    """optional int"""
    return None if value is None else int(value)


def is_float(value: str | float) -> float:
    """float"""
    return float(value)


def is_time(value: str | int) -> int:
    """seconds"""
    return int(value)


def is_lower_bounded_int(lower_bound: int) -> Callable[[str | int], int]:
    """A validator of integers that are not lower."""

    def inner(value: str | int) -> int:
        if int(value) < lower_bound:
            raise ValueError(f"Value can not be lower than {lower_bound}")
        return int(value)

    inner.__doc__ = f"int >= {lower_bound}"
    return inner


def is_str(value: object) -> str:
    """str"""
    return str(value)


def is_str_opt(value: object) -> str | None:
    """optional str"""
    return None if value is None else str(value)


def is_uuid_opt(value: str | UUID | None) -> UUID | None:
    """optional uuid"""
    import uuid

    return uuid.UUID(value) if isinstance(value, str) else value


def is_list(value: str | list[str]) -> list[str]:
    """texts between commas"""
    if isinstance(value, list):
        return value
    return [part.strip() for part in value.split(",")] if value else []


def is_map(map_in: str | Mapping[str, str] | None) -> Mapping[str, str]:
    """`key=value` between commas; what is no such pair is left out"""
    if map_in is not None and not isinstance(map_in, str):
        return map_in
    pairs = (part.partition("=") for part in (map_in or "").split(","))
    found = ((key.strip(), text.strip()) for key, _, text in pairs)
    return {key: text for key, text in found if key and text}


def _variable(section: str, name: str) -> str:
    return f"INMANTA_{section}_{name}".replace("-", "_").upper()


def _read_project() -> dict[str, dict[str, str]]:
    """What the file `.inmanta` says in the directory of the project, which is the working directory outside of a compile."""
    from inmanta.plugins import Runtime

    path = os.path.join(Runtime.project_dir or os.getcwd(), ".inmanta")
    if not os.path.isfile(path):
        return {}
    from configparser import ConfigParser

    parser = ConfigParser(interpolation=None)
    parser.read(path, encoding="utf-8")
    return {section: {_normal(name): value for name, value in parser[section].items()} for section in parser}


# Modules that define options, by section and name; no name: all of the section.
_HOMES = {
    ("config", "environment"): "inmanta.agent.config",
    ("client_rest_transport", ""): "inmanta._more.config",
    ("cmdline_rest_transport", ""): "inmanta._more.config",
    ("compiler_rest_transport", ""): "inmanta._more.config",
}


@_without(
    "config_as_dict get_active_configuration_as_dict get_config_options get_for_option get_instance get_raw_value "
    "load_config_from_dict register_option validate_option_request"
)
class Config:
    """All options of this process, by section and name; `-` and `_` in a name are the same."""

    _values: dict[str, dict[str, object]] = {}
    # By section and name.
    _options: dict[tuple[str, str], Option] = {}
    # Those of the project's file `.inmanta`, by section and name; None: nobody has asked yet.
    _of_project: dict[str, dict[str, str]] | None = None

    @classmethod
    def load_config(cls, *args: object, **kwargs: object) -> None:
        """Reads `.inmanta` of the project again. No other file: a host is given what it needs in its environment."""
        cls._of_project = None

    @classmethod
    def _reset(cls) -> None:
        cls._values = {}
        cls._of_project = None

    @classmethod
    def _lookup(cls, section: str, name: str) -> object | None:
        value: object = os.environ.get(_variable(section, name))
        if value is None:
            value = cls._values.get(section, {}).get(_normal(name))
        if value is None and (section, _normal(name)) == ("config", "environment"):
            # A server says it to each compile and to each agent, so that it goes before what is in the project's file.
            from inmanta.plugins import Runtime

            value = Runtime.environment_id
        if value is None:
            if cls._of_project is None:
                cls._of_project = _read_project()
            value = cls._of_project.get(section, {}).get(_normal(name))
        return value

    @classmethod
    def get(cls, section: str | None = None, name: str | None = None, default_value: object = None) -> object:
        """The value of an option, else its own default; the given one counts where no such option is defined."""
        if section is None or name is None:
            return cls._values
        found = cls._lookup(section, name)
        option = cls._option(section, _normal(name))
        if option is None:
            return default_value if found is None else found
        value: object = option.validate(option.get_default_value() if found is None else found)
        return value

    @classmethod
    def _option(cls, section: str, name: str) -> Option | None:
        """The option that is defined. Some are in each compile of the reference, whose modules nobody has imported here."""
        option = cls._options.get((section, name))
        home = None if option is not None else _HOMES.get((section, name)) or _HOMES.get((section, ""))
        if home is None:
            return option
        __import__(home)
        return cls._options.get((section, name))

    @classmethod
    def is_set(cls, section: str, name: str) -> bool:
        return cls._lookup(section, name) is not None

    @classmethod
    def getboolean(cls, section: str, name: str, default_value: object = None) -> bool:
        return is_bool(cls.get(section, name, default_value))

    @classmethod
    def set(cls, section: str, name: str, value: object) -> None:
        cls._values.setdefault(section, {})[_normal(name)] = value


@_without("get_default_desc get_type parse")
class Option:
    """An option with default and validator, which the default passes too; `default` may be a function."""

    def __init__(
        self,
        section: str,
        name: str,
        default: object,
        documentation: str = "",
        validator: Callable[[Any], Any] = is_str,
        predecessor_option: Option | None = None,
    ) -> None:
        self.section = section
        self.name = _normal(name)
        self.default = default
        self.documentation = documentation
        self.validator = validator
        self.predecessor_option = predecessor_option
        Config._options[section, self.name] = self

    def get_full_name(self) -> str:
        return f"{self.section}.{self.name}"

    def get_environment_variable(self) -> str:
        return _variable(self.section, self.name)

    def get_raw(self) -> object | None:
        """The value as it was set, maybe by the option's old name; None if it was not."""
        found = Config._lookup(self.section, self.name)
        if found is None and self.predecessor_option is not None:
            found = self.predecessor_option.get_raw()
            if found is not None:
                import warnings

                old = self.predecessor_option.name
                warnings.warn(f"Config option {old} is deprecated. Use {self.name} instead.", DeprecationWarning)
        return found

    def get(self) -> Any:
        found = self.get_raw()
        return self.validate(self.get_default_value() if found is None else found)

    def validate(self, value: object) -> Any:
        return self.validator(value)

    def set(self, value: object) -> None:
        Config.set(self.section, self.name, value)

    def get_default_value(self) -> object:
        return self.default() if callable(self.default) else self.default


def option_as_default(opt: Option) -> Callable[[], Any]:
    """The value of another option, for the default of one."""

    def default() -> Any:
        return opt.get()

    default.__doc__ = f"the value of {opt.get_full_name()}"
    return default


state_dir = Option("config", "state_dir", "/var/lib/inmanta", "The directory where the server keeps its state")

if not TYPE_CHECKING:
    # What only the reference's module has says why it is not here.
    from inmanta import _rest_of

    __getattr__ = _rest_of(__name__)
