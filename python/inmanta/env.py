"""The Python environment that module code runs in."""

from __future__ import annotations

import sys


class PackageNotFound(Exception):
    """A package that cannot be installed."""


class PythonEnvironment:
    """An interpreter and where its packages are."""

    def __init__(self, *, env_path: str | None = None, python_path: str | None = None) -> None:
        self.env_path = env_path or sys.prefix
        self.python_path = python_path or sys.executable

    @classmethod
    def get_installed_packages(cls, only_editable: bool = False) -> dict[str, str]:
        """Name -> version of every installed distribution."""
        import importlib.metadata

        return {found.metadata["Name"].lower(): found.version for found in importlib.metadata.distributions()}


class VirtualEnv(PythonEnvironment):
    """A virtual environment; Steward makes them outside of Python."""


process_env = PythonEnvironment()


TYPE_CHECKING = False
if not TYPE_CHECKING:
    # What only the reference's module has says why it is not here.
    from inmanta import _rest_of

    __getattr__ = _rest_of(__name__)
