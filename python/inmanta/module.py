"""The project and its modules, as far as Python code looks at them: names and directories."""

from __future__ import annotations

import enum
import os
from collections.abc import ItemsView, KeysView, ValuesView

from inmanta.ast import CompilerException, WrappingRuntimeException

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from inmanta.env import VirtualEnv
    from steward_host.messages import PythonFile, PythonModule

    _ByName = dict[str, "Module"]
else:
    _ByName = dict


class InvalidModuleException(CompilerException):
    """A directory that is no module."""


class ModuleMetadataFileNotFound(InvalidModuleException):
    """A directory of a project or module without the file that says what it is."""


class ProjectNotFoundException(CompilerException):
    """There is no project."""


class InvalidMetadata(CompilerException):
    """A project or module file that cannot be used."""


class ModuleNotFoundException(CompilerException):
    """A module that is imported and is nowhere."""


class ModuleLoadingException(WrappingRuntimeException):
    """A module that cannot be loaded."""


class InstallMode(str, enum.Enum):
    """Which versions of modules a project takes."""

    release = "release"
    prerelease = "prerelease"
    master = "master"


class ModuleGeneration(enum.Enum):
    """The older kind of modules, a folder with `module.yml`, and the newer one, a package."""

    V1 = 1
    V2 = 2


class ModuleRepoType(enum.Enum):
    git = "git"
    package = "package"


class ModuleMetadata:
    """What a module says about itself, in `module.yml`, `setup.cfg` or `pyproject.toml`."""

    def __init__(self, name: str, version: str = "0.0.0") -> None:
        self.name = name
        self.version = version

    @classmethod
    def of_directory(cls, path: str, name: str) -> ModuleMetadata:
        """Read where it is found first; a version that is given nowhere is 0.0.0."""
        for file, read in (("module.yml", _plain_yaml), ("setup.cfg", _setup_cfg), ("pyproject.toml", _pyproject)):
            file = os.path.join(path, file)
            if os.path.isfile(file):
                try:
                    said = read(file)
                except (OSError, ValueError) as error:
                    raise InvalidModuleException(f"{file} cannot be read: {error}") from error
                if said:
                    return cls(str(said.get("name", name)), str(said.get("version", "0.0.0")))
        return cls(name)


def _plain_yaml(file: str) -> dict[str, str]:
    """The texts at the top level of a YAML file, which is all that is asked of it here."""
    found = {}
    with open(file, encoding="utf-8") as lines:
        for line in lines:
            key, colon, value = line.partition(":")
            if colon and key.strip() == key and value.strip():
                found[key] = value.split(" #")[0].strip().strip("'\"")
    return found


def _setup_cfg(file: str) -> dict[str, str]:
    import configparser

    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read(file, encoding="utf-8")
    except configparser.Error as error:
        raise ValueError(error) from error
    return dict(parser["metadata"]) if parser.has_section("metadata") else {}


def _pyproject(file: str) -> dict[str, object]:
    import tomllib

    with open(file, "rb") as text:
        project: dict[str, object] = tomllib.load(text).get("project", {})
        return project


class ProjectPipConfig:
    """The `pip` section of a project."""

    def __init__(self, **kwargs: object) -> None:
        self.index_url = None
        self.extra_index_url: list[str] = []
        self.pre = None
        self.use_system_config = False
        self.__dict__.update(kwargs)

    def has_source(self) -> bool:
        """Whether packages can come from anywhere."""
        return bool(self.index_url) or bool(self.use_system_config)

    def model_dump(self, mode: str = "python") -> dict[str, object]:
        return dict(vars(self))


class ProjectMetadata:
    """What a project says about itself."""

    # As a pydantic model has them: the names that test tools look for.
    model_fields = ("name", "modulepath", "requires", "pip")

    def __init__(self, name: str = "", **kwargs: object) -> None:
        self.name = name
        self.description: str | None = None
        self.modulepath: list[str] = []
        self.requires: list[str] = []
        self.install_mode = InstallMode.release
        self.relation_precedence_policy: list[str] = []
        self.pip = ProjectPipConfig()
        self.__dict__.update(kwargs)

    @classmethod
    def of_directory(cls, path: str) -> ProjectMetadata:
        """What the file of a project says; a directory without one has its name and nothing else."""
        from inmanta import _project_file

        try:
            said = _project_file.read(path)
        except (OSError, ValueError) as error:
            raise InvalidMetadata(str(error)) from error
        if said is None:
            return cls(os.path.basename(path))
        if not isinstance(said.get("name"), str):
            raise InvalidMetadata(f"{os.path.join(path, _project_file.NAME)} has no name")
        for name in ("modulepath", "requires", "relation_precedence_policy"):
            given = said.get(name) or []
            said[name] = [given] if isinstance(given, str) else [str(item) for item in given]
        said["modulepath"] = [os.path.join(path, item) for item in said["modulepath"]]
        said["install_mode"] = InstallMode(said.get("install_mode") or "release")
        said["pip"] = ProjectPipConfig(**(said.get("pip") or {}))
        return cls(**said)

    def model_dump(self, mode: str = "python") -> dict[str, object]:
        """As a project file has it: what differs from a file without it, and what is always there."""
        always = ("name", "modulepath", "requires", "pip")
        plain = vars(ProjectMetadata())
        said = {name: value for name, value in vars(self).items() if name in always or value != plain.get(name)}
        return {**said, "pip": self.pip.model_dump(mode)}


class ModuleV2Source:
    """Where modules that are Python packages come from: what is installed beside this code. Steward does the installing."""

    def __init__(self, urls: list[str] | None = None) -> None:
        self.urls = urls or []

    @classmethod
    def path_for(cls, name: str) -> str | None:
        """The root of an installed module: that of its sources, or the folder of its package; None if there is none."""
        from steward_host import loader, locating

        package = locating.folder_of(name)
        if package is None and name == "std":
            package = loader.OWN_STD
        if package is None or not os.path.isfile(os.path.join(package, "__init__.py")):
            return None
        if os.path.isfile(os.path.join(package, "setup.cfg")):
            return package
        # Some ways of installing from sources lay links to their files.
        real = os.path.dirname(os.path.realpath(os.path.join(package, "__init__.py")))
        sources = os.path.dirname(os.path.dirname(real))
        is_source = Module.from_path(sources) is not None and os.path.isdir(os.path.join(sources, "model"))
        return sources if is_source else package

    def get_installed_module(self, project: Project | None, module_name: str) -> ModuleV2 | None:
        """The module of this name, if it is installed."""
        path = self.path_for(module_name)
        return None if path is None else ModuleV2(project, path, module_name)


class Module:
    """A module of the project."""

    def __init__(
        self, project: Project | None, path: str, name: str | None = None, files: list[PythonFile] | None = None
    ) -> None:
        self._project = project
        self._path = os.path.abspath(path)
        self._metadata: ModuleMetadata | None = None
        package = self.metadata.name.removeprefix("inmanta-module-").replace("-", "_") if name is None else name
        self.name = package
        self._files = files or []

    @property
    def path(self) -> str:
        return self._path

    @property
    def metadata(self) -> ModuleMetadata:
        """Read when it is first asked for: few modules ask, and it takes a file each."""
        if self._metadata is None:
            self._metadata = ModuleMetadata.of_directory(self._path, os.path.basename(self._path))
        return self._metadata

    @property
    def version(self) -> str:
        return self.metadata.version

    @classmethod
    def from_path(cls, path: str) -> Module | None:
        """The module in a directory; None if it holds none, or one of the other kind than that of the class."""
        for kind in (ModuleV1, ModuleV2):
            if any(os.path.isfile(os.path.join(path, file)) for file in kind.FILES):
                return kind(None, path) if issubclass(kind, cls) else None
        return None

    @property
    def model_dir(self) -> str:
        return os.path.join(self._path, "model")

    def get_plugin_dir(self) -> str | None:
        for candidate in (os.path.join(self._path, "inmanta_plugins", self.name), os.path.join(self._path, "plugins")):
            if os.path.isdir(candidate):
                return candidate
        return None

    def get_plugin_files(self) -> Iterator[tuple[str, str]]:
        """(path, dotted name) of every Python file."""
        if self._files:
            yield from ((file["path"], file["module"]) for file in self._files)
            return
        top = self.get_plugin_dir()
        for directory, _, files in os.walk(top or os.devnull):
            inner = [part for part in os.path.relpath(directory, top).split(os.sep) if part != "."]
            for file in files:
                if file.endswith(".py"):
                    parts = [*inner, file[:-3]] if file != "__init__.py" else inner
                    yield os.path.join(directory, file), ".".join(["inmanta_plugins", self.name, *parts])

    def unload(self) -> None:
        """Forgets the module's Python code, and what it has registered."""
        from inmanta.loader import unload_inmanta_plugins
        from inmanta.plugins import PluginMeta
        from steward_host import registry

        unload_inmanta_plugins(self.name)
        PluginMeta.clear(self.name)
        registry.forget(self.name)


class ModuleV1(Module):
    """A module with `module.yml`."""

    GENERATION = ModuleGeneration.V1
    FILES = ("module.yml",)


class ModuleV2(Module):
    """A module that is a Python package."""

    GENERATION = ModuleGeneration.V2
    FILES = ("setup.cfg", "pyproject.toml")

    def is_editable(self) -> bool:
        """Whether it runs from its sources."""
        return os.path.isfile(os.path.join(self._path, "pyproject.toml")) or os.path.isfile(
            os.path.join(self._path, "setup.cfg")
        )


class _Modules(_ByName):
    """The modules of a project by name. Those without Python code, which no request tells, are looked up when asked for."""

    def __init__(self, project: Project) -> None:
        super().__init__()
        self._project = project
        self._is_complete = False

    def known(self) -> list[str]:
        """The names of those that are here without looking any up."""
        return [*super().__iter__()]

    def _complete(self) -> None:
        if self._project.loaded and not self._is_complete:
            self._is_complete = True
            for name in self._project._module_names():
                self.get(name)

    def __missing__(self, name: str) -> Module:
        found = self._project._find_module(name) if name.isidentifier() else None
        if found is None:
            raise KeyError(name)
        self[name] = found
        return found

    def __contains__(self, name: object) -> bool:
        try:
            self[str(name)]
        except KeyError:
            return False
        return True

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default

    def __iter__(self) -> Iterator[str]:
        self._complete()
        return super().__iter__()

    def __len__(self) -> int:
        self._complete()
        return super().__len__()

    def keys(self) -> KeysView[str]:  # type: ignore[override]  # a view as that of a dict
        return KeysView(self)

    def values(self) -> ValuesView[Module]:  # type: ignore[override]
        return ValuesView(self)

    def items(self) -> ItemsView[str, Module]:  # type: ignore[override]
        return ItemsView(self)


class Project:
    """The project that is compiled. `modules` is name -> Module."""

    _project: Project | None = None

    def __init__(
        self,
        path: str,
        autostd: bool = True,
        main_file: str = "main.cf",
        venv_path: str | VirtualEnv | None = None,
        **kwargs: object,
    ) -> None:
        """`venv_path`: a virtual environment that this process uses from the first load on."""
        from inmanta import env, plugins

        self._path = os.path.abspath(path)
        # What a compile request names has been read by the compiler.
        if not plugins.Runtime.is_hosted:
            if not os.path.exists(path):
                raise ProjectNotFoundException(f"The directory {path} does not exist")
            if not os.path.exists(os.path.join(path, "project.yml")):
                raise ModuleMetadataFileNotFound(f"{path} has no project.yml")
        self.modules = _Modules(self)
        self._metadata: ProjectMetadata | None = None
        self.main_file = main_file
        self.virtualenv = env.VirtualEnv(venv_path) if isinstance(venv_path, str) else venv_path
        # Whether its modules are imported.
        self.loaded = False

    @classmethod
    def get(cls, main_file: str = "main.cf", strict_deps_check: bool | None = None) -> Project:
        """The current project; outside of a compile, that of the working directory, else ProjectNotFoundException."""
        if cls._project is None:
            from inmanta import _project_file

            found = _project_file.above(os.curdir)
            if found is None:
                raise ProjectNotFoundException("There is no project here, and nothing is compiled")
            cls._project = cls(found)
        return cls._project

    @classmethod
    def set(cls, project: Project, clean: bool = True) -> None:
        """Makes a project the current one. `clean`: the Python code of all modules, and their plugins, are forgotten."""
        cls._project = project
        if clean:
            from inmanta.loader import unload_inmanta_plugins
            from inmanta.plugins import PluginMeta
            from steward_host import registry

            unload_inmanta_plugins()
            PluginMeta.clear()
            registry.forget()

    def set_modules(self, modules: list[PythonModule]) -> None:
        """The modules of a compile request are those of the project."""
        self.modules.clear()
        for described in modules:
            root = described["root"]
            kind = ModuleV1 if os.path.isfile(os.path.join(root, "module.yml")) else ModuleV2
            self.modules[described["name"]] = kind(self, root, described["name"], described["files"])
        self.loaded = True

    @property
    def project_path(self) -> str:
        return self._path

    @property
    def path(self) -> str:
        return self._path

    @property
    def metadata(self) -> ProjectMetadata:
        """What `project.yml` says. Read when it is first asked for, which few modules do."""
        if self._metadata is None:
            self._metadata = ProjectMetadata.of_directory(self._path)
        return self._metadata

    @metadata.setter
    def metadata(self, metadata: ProjectMetadata) -> None:
        self._metadata = metadata

    @property
    def modulepath(self) -> list[str]:
        return self.metadata.modulepath

    @property
    def name(self) -> str:
        return self.metadata.name

    def get_modules(self) -> dict[str, Module]:
        return self.modules

    def _find_module(self, name: str) -> Module | None:
        """A module of the module path, or of the environment; of no other project than one that is compiled."""
        if not self.loaded:
            return None
        for directory in self.modulepath:
            path = os.path.join(directory, name)
            for kind in (ModuleV1, ModuleV2):
                if any(os.path.isfile(os.path.join(path, file)) for file in kind.FILES):
                    return kind(self, path, name)
        return ModuleV2Source().get_installed_module(self, name)

    def _module_names(self) -> Iterator[str]:
        """The names of those that no request tells: what is in the module path, and `std`."""
        yield "std"
        for directory in self.modulepath:
            if os.path.isdir(directory):
                yield from sorted(os.listdir(directory))

    def get_all_constraints(self) -> str:
        """The versions that the project asks of modules, as lines of a file of constraints for their packages."""
        lines = []
        for required in self.metadata.requires:
            text = "".join(required.split())
            end = next((index for index, character in enumerate(text) if character in "<>=!~"), len(text))
            if end < len(text):
                lines.append(f"inmanta-module-{text[:end].replace('_', '-')}{text[end:]}")
        return "\n".join(sorted(lines))

    def load(self, install: bool = False) -> None:
        """Imports the Python code of its modules; what is wrong with the project is raised.

        In a compile of Steward's there is nothing to do.
        """
        from inmanta import plugins

        if not plugins.Runtime.is_hosted:
            from steward_host.attached import Attached

            if self.virtualenv is not None:
                self.virtualenv.use_virtual_env()
            Attached(self).load()

    def install_modules(self, **kwargs: object) -> None:
        """Nothing to do: Steward installs modules before it compiles."""


def __getattr__(name: str) -> object:
    # Test tools want pydantic's errors for a place that is none; only they have it imported anyway.
    if name == "ModuleRepoInfo":
        import pydantic

        fields: dict[str, object] = {"url": (str, ...), "type": (ModuleRepoType, ModuleRepoType.git)}
        made = globals()[name] = pydantic.create_model(name, __doc__="One place of `repo` in a project file.", **fields)
        return made
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
