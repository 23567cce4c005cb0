"""The project and its modules, as far as Python code looks at them: names and directories."""

from __future__ import annotations

import os


class InvalidModuleException(Exception):
    """A directory that is no module."""


class ProjectNotFoundException(Exception):
    """There is no project."""


class InvalidMetadata(Exception):
    """A project or module file that cannot be used."""


class InstallMode:
    release = "release"
    prerelease = "prerelease"
    master = "master"


class ModuleMetadata:
    """What a module says about itself."""

    def __init__(self, name: str, version: str = "0.0.0") -> None:
        self.name = name
        self.version = version


class ProjectPipConfig:
    """The `pip` section of a project."""

    def __init__(self, **kwargs: object) -> None:
        self.index_url = None
        self.extra_index_url: list[str] = []
        self.pre = None
        self.use_system_config = False
        self.__dict__.update(kwargs)


class ProjectMetadata:
    """What a project says about itself."""

    def __init__(self, name: str = "", **kwargs: object) -> None:
        self.name = name
        self.modulepath: list[str] = []
        self.requires: list[str] = []
        self.pip = ProjectPipConfig()
        self.__dict__.update(kwargs)


class ModuleV2Source:
    """Kept for old callers: Steward installs modules outside of Python."""

    def __init__(self, urls: list[str] | None = None) -> None:
        self.urls = urls or []


class Module:
    """A module of the project."""

    def __init__(
        self, project: Project | None, path: str, name: str | None = None, files: list[dict] | None = None
    ) -> None:
        self._project = project
        self._path = os.path.abspath(path)
        self.name = name if name is not None else os.path.basename(self._path)
        self._files = files or []
        self.metadata = ModuleMetadata(self.name)

    @property
    def path(self) -> str:
        return self._path

    @property
    def version(self) -> str:
        return self.metadata.version

    @classmethod
    def from_path(cls, path: str) -> Module | None:
        """The module in a directory; None if it holds none."""
        if os.path.isfile(os.path.join(path, "module.yml")):
            return ModuleV1(None, path)
        if os.path.isfile(os.path.join(path, "setup.cfg")):
            return ModuleV2(None, path)
        return None

    def get_plugin_dir(self) -> str | None:
        for candidate in (os.path.join(self._path, "inmanta_plugins", self.name), os.path.join(self._path, "plugins")):
            if os.path.isdir(candidate):
                return candidate
        return None

    def get_plugin_files(self):
        """(path, dotted name) of every Python file."""
        return ((file["path"], file["module"]) for file in self._files)

    def unload(self) -> None:
        """Forgets the module's Python code."""
        from inmanta.loader import unload_inmanta_plugins

        unload_inmanta_plugins(self.name)


class ModuleV1(Module):
    """A module with `module.yml`."""


class ModuleV2(Module):
    """A module that is a Python package."""

    def is_editable(self) -> bool:
        return True


class Project:
    """The project that is compiled. `modules` is name -> Module."""

    _project: Project | None = None

    def __init__(self, path: str, autostd: bool = True, main_file: str = "main.cf", **kwargs: object) -> None:
        self._path = os.path.abspath(path)
        self.modules: dict[str, Module] = {}
        self.metadata = ProjectMetadata(os.path.basename(self._path))
        self.main_file = main_file

    @classmethod
    def get(cls, main_file: str = "main.cf", strict_deps_check: bool | None = None) -> Project:
        """The current project; ProjectNotFoundException outside of a compile."""
        if cls._project is None:
            raise ProjectNotFoundException("There is no project outside of a compile")
        return cls._project

    @classmethod
    def set(cls, project: Project, clean: bool = True) -> None:
        cls._project = project

    @classmethod
    def of_request(cls, project_dir: str, modules: list[dict]) -> Project:
        """The project of a compile request."""
        project = cls(project_dir)
        for described in modules:
            root = described["root"]
            kind = ModuleV1 if os.path.isfile(os.path.join(root, "module.yml")) else ModuleV2
            project.modules[described["name"]] = kind(project, root, described["name"], described["files"])
        return project

    @property
    def project_path(self) -> str:
        return self._path

    @property
    def path(self) -> str:
        return self._path

    @property
    def name(self) -> str:
        return self.metadata.name

    def get_all_constraints(self) -> list[str]:
        return []

    def load(self, install: bool = False) -> None:
        """Nothing to do: Steward has loaded it."""

    def install_modules(self, **kwargs: object) -> None:
        """Nothing to do: Steward installs modules before it compiles."""
