"""What the files of modules say about them, and requirements on modules."""

from __future__ import annotations

import configparser
import dataclasses
import os

from inmanta import _without
from inmanta.module import InvalidMetadata, InvalidModuleException, ModuleMetadata, ModuleV2, ModuleV2Source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, Any

    from packaging.requirements import Requirement
    from packaging.version import Version

# How packages of modules are updated that another one's version was frozen for.
INSTALL_OPTS = ["release", "prerelease", "master"]


@_without("is_pep440_version is_pep440_version_v1 requires_to_list rewrite_version to_list to_v2")
class ModuleV1Metadata(ModuleMetadata):
    """Of a module with `module.yml`."""

    requires: list[str]
    compiler_version: str | None

    @classmethod
    def parse(cls, source: str | IO[str]) -> ModuleV1Metadata:
        """From the text of the file, which says its texts at the top level. InvalidMetadata if it lacks one."""
        import yaml

        try:
            fields = yaml.safe_load(source)
        except yaml.YAMLError as error:
            raise InvalidMetadata(str(error)) from error
        if not isinstance(fields, dict):
            raise InvalidMetadata("The metadata file of the module is no mapping")
        return cls.of({**fields, "version": str(fields.get("version", ""))}, "module.yml", strict=True)

    @classmethod
    def of(cls, fields: dict[str, Any], file: str, strict: bool = False) -> ModuleV1Metadata:
        if strict:
            _check(fields, file)
        requires = fields.get("requires") or []
        fields["requires"] = [requires] if isinstance(requires, str) else list(requires)
        fields.setdefault("compiler_version", None)
        return cls(**fields)

    def get_full_version(self) -> Version:
        from packaging.version import Version

        return Version(self.version)


@_without("is_base_version is_pep440_version is_valid_version_tag rewrite_version split_version to_config validate_name_field")
class ModuleV2Metadata(ModuleMetadata):
    """Of a module with `setup.cfg`."""

    install_requires: list[str]
    version_tag: str
    four_digit_version: bool

    @classmethod
    def parse(cls, source: str | IO[str]) -> ModuleV2Metadata:
        """From the text of the file. InvalidMetadata if it lacks a name, a version or a licence."""
        parser = configparser.ConfigParser(interpolation=None)
        try:
            parser.read_string(source if isinstance(source, str) else source.read())
        except configparser.Error as error:
            raise InvalidMetadata(str(error)) from error
        if not parser.has_section("metadata"):
            raise InvalidMetadata("Metadata file doesn't have a metadata section.")
        return cls.of(parser, strict=True)

    @classmethod
    def of(cls, parser: configparser.ConfigParser, strict: bool = False) -> ModuleV2Metadata:
        fields: dict[str, Any] = dict(parser["metadata"])
        if strict:
            _check(fields, ModuleV2.MODULE_FILE)
            ModuleV2Source.get_inmanta_module_name(fields["name"])
        fields["install_requires"] = [
            line.strip() for line in parser.get("options", "install_requires", fallback="").splitlines() if line.strip()
        ]
        fields["version_tag"] = parser.get("egg_info", "tag_build", fallback="")
        for name in ("freeze_recursive", "deprecated", "four_digit_version"):
            if name in fields:
                fields[name] = parser.getboolean("metadata", name)
        fields.setdefault("four_digit_version", False)
        return cls(**fields)

    def get_full_version(self) -> Version:
        from packaging.version import Version

        return Version(self.version + "." + self.version_tag.lstrip(".") if self.version_tag else self.version)


def _check(fields: dict[str, Any], file: str) -> None:
    for name in ("name", "version", "license"):
        if not fields.get(name):
            raise InvalidMetadata(f"{file}: {name}: Field required")
    from packaging.version import InvalidVersion, Version

    try:
        Version(fields["version"])
    except InvalidVersion:
        raise InvalidMetadata(f"{file}: version: Version {fields['version']} is not PEP440 compliant") from None


# Of the module std that ours is like.
_STD_VERSION = "8.7.5"


def of_directory(path: str, name: str) -> ModuleMetadata:
    """What the file of a module in a directory says, as far as it does: nobody compiles by it, so nothing in it is refused."""
    readers = {"module.yml": _of_yaml, ModuleV2.MODULE_FILE: _of_setup_cfg, ModuleV2.PYPROJECT_FILE: _of_pyproject}
    for file, read in readers.items():
        file = os.path.join(path, file)
        if os.path.isfile(file):
            try:
                found = read(file, name)
            except (OSError, ValueError, configparser.Error) as error:
                raise InvalidModuleException(f"{file} cannot be read: {error}") from error
            if found is not None:
                return found
    if os.path.basename(path) == "steward_std":
        return ModuleMetadata("inmanta-module-std", _STD_VERSION)
    return ModuleMetadata(name)


def _of_yaml(file: str, name: str) -> ModuleMetadata | None:
    """The texts at the top level, which is all that is asked of the file here: no package for YAML may be installed."""
    fields: dict[str, Any] = {}
    with open(file, encoding="utf-8") as lines:
        for line in lines:
            key, colon, value = line.partition(":")
            if colon and key.strip() == key and value.strip():
                fields[key] = value.split(" #")[0].strip().strip("'\"")
    if not fields:
        return None
    # A list is read by those who want it from the file itself.
    if fields.get("requires", "").startswith("["):
        fields["requires"] = [item.strip().strip("'\"") for item in fields["requires"].strip("[]").split(",") if item.strip()]
    if "deprecated" in fields:
        fields["deprecated"] = fields["deprecated"].lower() == "true"
    return ModuleV1Metadata.of({"name": name, **fields}, file)


def _of_setup_cfg(file: str, name: str) -> ModuleMetadata | None:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(file, encoding="utf-8")
    if not parser.has_section("metadata"):
        return None
    parser["metadata"].setdefault("name", name)
    return ModuleV2Metadata.of(parser)


def _of_pyproject(file: str, name: str) -> ModuleMetadata | None:
    import tomllib

    with open(file, "rb") as text:
        project: dict[str, Any] = tomllib.load(text).get("project", {})
    if not project:
        return None
    license = project.get("license", "")
    fields: dict[str, Any] = {key: project[key] for key in ("version", "description") if key in project}
    fields["license"] = license if isinstance(license, str) else license.get("text", "")
    requires = list(project.get("dependencies", ()))
    return ModuleV2Metadata(
        project.get("name", name), install_requires=requires, version_tag="", four_digit_version=False, **fields
    )


class InmantaModuleRequirement:
    """A requirement on a module by its name in models: `fs>=1.0`."""

    def __init__(self, requirement: Requirement) -> None:
        self._requirement = requirement

    @classmethod
    def parse(cls, spec: str) -> InmantaModuleRequirement:
        """ValueError for the name of a package; packaging's error for what is no requirement."""
        from packaging.requirements import Requirement

        if spec.startswith(ModuleV2.PKG_NAME_PREFIX):
            advice = "Use the Inmanta module name instead of the Python package name"
            raise ValueError(f"Invalid Inmanta module requirement: {advice}")
        if "-" in spec:
            raise ValueError("Invalid Inmanta module requirement: Inmanta module names use '_', not '-'.")
        return cls(Requirement(spec))

    @property
    def name(self) -> str:
        return str(self._requirement.name).replace("-", "_")

    project_name = key = name

    @property
    def specifier(self) -> object:
        return self._requirement.specifier

    def get_python_package_requirement(self) -> Requirement:
        """The requirement on the package of the module."""
        from packaging.requirements import Requirement

        return Requirement(f"{ModuleV2Source.get_package_name_for(self.name)}{self._requirement.specifier}")

    def __contains__(self, version: str) -> bool:
        return version in self._requirement.specifier

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InmantaModuleRequirement) and self._requirement == other._requirement

    def __hash__(self) -> int:
        return hash(self._requirement)

    def __str__(self) -> str:
        return f"{self.name}{self._requirement.specifier}"


@dataclasses.dataclass
class RelationPrecedenceRule:
    """One line of `relation_precedence_policy`: the first relation is complete before the second."""

    first_type: str
    first_relation_name: str
    then_type: str
    then_relation_name: str

    @classmethod
    def from_string(cls, rule: str) -> RelationPrecedenceRule:
        first, separator, then = rule.partition(" before ")
        parts = [*first.strip().rpartition("."), *then.strip().rpartition(".")]
        if not separator or not all(parts):
            raise InvalidMetadata(f"Invalid relation precedence rule: {rule}")
        return cls(parts[0], parts[2], parts[3], parts[5])
