"""Packages and paths that tests of modules name."""

from __future__ import annotations

import dataclasses
import typing

from inmanta import _without
from inmanta._more.util import parse_requirement, strtobool  # noqa: F401  # names of the interface

req_list = typing.TypeVar("req_list")


@dataclasses.dataclass(frozen=True)
class LocalPackagePath:
    """A package in a directory, to be installed from there."""

    path: str
    editable: bool = False


@_without("are_installed get_dependency_tree get_dist_in_working_set rebuild_working_set")
class PythonWorkingSet:
    """The packages of this process."""

    @classmethod
    def get_packages_in_working_set(cls, inmanta_modules_only: bool = False) -> dict[str, typing.Any]:
        """The version of each, by name; on demand only those that are modules."""
        from importlib.metadata import distributions

        from packaging.utils import canonicalize_name
        from packaging.version import Version

        found = {canonicalize_name(one.metadata["Name"]): Version(one.version) for one in distributions()}
        return {name: version for name, version in found.items() if not inmanta_modules_only or name.startswith("inmanta-module-")}
