"""The Python environment that module code runs in."""

from __future__ import annotations

import os
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

    def notify_change(self) -> None:
        """Something was installed into this environment, or taken out of it, which this process shall see."""
        import importlib
        import site

        from inmanta import _virtual_env

        packages = _virtual_env.packages_of(self.env_path)
        if os.path.isdir(packages):
            site.addsitedir(packages)
        importlib.invalidate_caches()


@_without("are_installed get_module_file")
class VirtualEnv(PythonEnvironment):
    """A virtual environment of a project; what is installed beside the running Python is there, too."""

    env_path: str

    def __init__(self, env_path: str) -> None:
        env_path = os.path.abspath(env_path)
        super().__init__(env_path=env_path, python_path=os.path.join(env_path, "bin", "python"))

    def exists(self) -> bool:
        """Whether it was made."""
        return os.path.isfile(os.path.join(self.env_path, "pyvenv.cfg"))

    def init_env(self) -> None:
        """Makes it, if it is not there."""
        from inmanta import _virtual_env

        if not self.exists():
            _virtual_env.make(self.env_path)

    def use_virtual_env(self) -> None:
        """Makes it, if it is not there; from now on this process has what is installed in it."""
        from inmanta import _virtual_env

        self.init_env()
        _virtual_env.use(self.env_path)
        # Whoever installs something for this process asks it where.
        process_env.env_path, process_env.python_path = self.env_path, self.python_path

    def is_using_virtual_env(self) -> bool:
        """Whether this process has what is installed in it."""
        return sys.prefix == self.env_path


process_env = PythonEnvironment()


TYPE_CHECKING = False
if not TYPE_CHECKING:
    # What only the reference's module has says why it is not here.
    from inmanta import _rest_of

    __getattr__ = _rest_of(__name__)
