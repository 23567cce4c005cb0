"""The Python environment that module code runs in."""

from __future__ import annotations

import sys

from inmanta import _without


class PackageNotFound(Exception):
    """A package that cannot be installed."""


@_without(
    "VENV_VERSION async_install_for_config can_activate download_distributions get_env_path_for_python_path "
    "get_protected_inmanta_packages get_python_path_for_env_path get_site_dir_for_env_path init_env "
    "install_for_config install_from_index install_from_list install_from_source is_venv_version_up_to_date "
    "update_venv_version validate_path write_inmanta_managed_files_in_venv write_venv_version_file"
)
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


@_without("are_installed exists get_module_file is_using_virtual_env notify_change use_virtual_env")
class VirtualEnv(PythonEnvironment):
    """A virtual environment; Steward makes them outside of Python."""


process_env = PythonEnvironment()


TYPE_CHECKING = False
if not TYPE_CHECKING:
    # What only the reference's module has says why it is not here.
    from inmanta import _rest_of

    __getattr__ = _rest_of(__name__)
