"""The project and its modules, as far as Python code looks at them: names and directories."""

from __future__ import annotations

import enum
import os
import sys
from collections.abc import ItemsView, KeysView, ValuesView

from inmanta import _without
from inmanta._model_methods import ModelMethods
from inmanta.ast import CompilerException, WrappingRuntimeException
from inmanta.warnings import InmantaWarning

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from inmanta._more.module import RelationPrecedenceRule
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
    """A module that an import names and that cannot be loaded; the cause says why."""

    def __init__(self, name: str, stmt: object, cause: BaseException | None, msg: str | None = None) -> None:
        super().__init__(stmt, f"Failed to load module {name}" if msg is None else msg, cause)
        self.name = name


class ModuleDeprecationWarning(InmantaWarning):
    """A module that is not to be used any more."""


class ProjectConfigurationWarning(InmantaWarning):
    """A key of a project's file that means nothing."""


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


@_without("get_full_version is_pep440_version parse rewrite_version")
class ModuleMetadata(ModelMethods):
    """What a module says about itself, in `module.yml` or `setup.cfg`. A text that is given nowhere is empty."""

    def __init__(self, name: str, version: str = "0.0.0", license: str = "", **said: object) -> None:
        self.name = name
        self.version = version
        self.license = license
        self.description: str | None = None
        self.deprecated: bool | None = None
        self.freeze_recursive = False
        self.freeze_operator = "~="
        self.__dict__.update(said)

    @classmethod
    def of_directory(cls, path: str, name: str) -> ModuleMetadata:
        """Read where it is found first; a version that is given nowhere is 0.0.0."""
        from inmanta._more.module import of_directory

        return of_directory(path, name)


@_without("get_environment_variables get_index_args")
class ProjectPipConfig(ModelMethods):
    """The `pip` section of a project."""

    def __init__(self, **kwargs: object) -> None:
        self.index_url: str | None = None
        self.extra_index_url: list[str] = []
        self.pre = None
        self.use_system_config = False
        self.__dict__.update(kwargs)

    def has_source(self) -> bool:
        """Whether packages can come from anywhere."""
        return bool(self.index_url) or bool(self.use_system_config)

    def model_dump(self, mode: str = "python") -> dict[str, object]:
        return dict(vars(self))


@_without("modulepath_to_list parse requires_to_list to_list validate_repo_field")
class ProjectMetadata(ModelMethods):
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
            fields = _project_file.read(path)
        except (OSError, ValueError) as error:
            raise InvalidMetadata(str(error)) from error
        if fields is None:
            return cls(os.path.basename(path))
        if not isinstance(fields.get("name"), str):
            raise InvalidMetadata(f"{os.path.join(path, _project_file.NAME)} has no name")
        for name in ("modulepath", "requires", "relation_precedence_policy"):
            given = fields.get(name) or []
            fields[name] = [given] if isinstance(given, str) else [str(item) for item in given]
        fields["modulepath"] = [os.path.join(path, item) for item in fields["modulepath"]]
        fields["install_mode"] = InstallMode(fields.get("install_mode") or "release")
        fields["pip"] = ProjectPipConfig(**(fields.get("pip") or {}))
        return cls(**fields)

    def get_relation_precedence_rules(self) -> list[RelationPrecedenceRule]:
        from inmanta._more.module import RelationPrecedenceRule

        return [RelationPrecedenceRule.from_string(rule) for rule in self.relation_precedence_policy]

    def get_index_urls(self) -> list[str]:
        """The index of `pip`, and those beside it."""
        urls = [self.pip.index_url, *self.pip.extra_index_url]
        return [url for url in urls if url]

    def model_dump(self, mode: str = "python") -> dict[str, object]:
        """As a project file has it: what differs from a file without it, and what is always there."""
        always = ("name", "modulepath", "requires", "pip")
        plain = vars(ProjectMetadata())
        fields = {name: value for name, value in vars(self).items() if name in always or value != plain.get(name)}
        return {**fields, "pip": self.pip.model_dump(mode)}


@_without(
    "get_module log_post_install_information log_pre_install_information log_snapshot_difference_v2_modules "
    "take_v2_modules_snapshot"
)
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

    @classmethod
    def from_path(cls, project: Project | None, module_name: str, path: str) -> ModuleV2:
        """The module of this name whose sources are in a directory."""
        if not os.path.exists(path):
            raise InvalidModuleException(f"Directory {path} doesn't exist")
        if not any(os.path.isfile(os.path.join(path, file)) for file in ModuleV2.FILES):
            raise ModuleMetadataFileNotFound(f"Metadata file {os.path.join(path, ModuleV2.MODULE_FILE)} does not exist")
        return ModuleV2(project, path)

    @classmethod
    def get_installed_version(cls, module_name: str) -> object | None:
        """The version of an installed module; None if it is not installed."""
        from importlib.metadata import PackageNotFoundError, version

        from packaging.version import Version

        try:
            found: object = Version(version(cls.get_package_name_for(module_name)))
        except PackageNotFoundError:
            return None
        return found

    @classmethod
    def get_package_name_for(cls, module_name: str) -> str:
        return ModuleV2.PKG_NAME_PREFIX + module_name.replace("_", "-")

    @classmethod
    def get_inmanta_module_name(cls, python_package_name: str) -> str:
        if not python_package_name.startswith(ModuleV2.PKG_NAME_PREFIX):
            raise ValueError(f"Invalid python package name: should start with {ModuleV2.PKG_NAME_PREFIX}")
        return python_package_name.removeprefix(ModuleV2.PKG_NAME_PREFIX).replace("-", "_")

    @classmethod
    def get_namespace_package_name(cls, module_name: str) -> str:
        return f"inmanta_plugins.{module_name}"

    def get_installed_module(self, project: Project | None, module_name: str) -> ModuleV2 | None:
        """The module of this name, if it is installed."""
        path = self.path_for(module_name)
        return None if path is None else ModuleV2(project, path, module_name)


@_without(
    "add_module_requirement_persistent ensure_versioned get_all_python_requirements_as_list get_all_submodules "
    "get_ast get_code_for_transport get_freeze get_imports get_metadata_file_schema_type get_metadata_from_source "
    "get_module_requirements get_module_v2_requirements get_name_from_metadata "
    "get_strict_python_requirements_as_list get_version has_module_requirement load_plugins rewrite_version"
)
class Module:
    """A module of the project."""

    MODEL_DIR = "model"
    # Those of which one says that a directory is a module of this kind.
    FILES: tuple[str, ...] = ()

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

    @property
    def freeze_recursive(self) -> bool:
        return self.metadata.freeze_recursive

    @property
    def freeze_operator(self) -> str:
        return self.metadata.freeze_operator

    def requires(self) -> list[str]:
        """The requirements of its file, as they are written there."""
        fields = vars(self.metadata)
        return [str(item) for item in fields.get("install_requires") or fields.get("requires") or ()]

    def get_metadata_file_path(self) -> str:
        return os.path.join(self._path, self.FILES[0])

    @classmethod
    def get_module_dir(cls, module_subdirectory: str) -> str:
        """The directory of the module that a directory is part of. InvalidModuleException if there is none."""
        return cls.get_first_directory_containing_file(module_subdirectory, cls.FILES[0])

    @classmethod
    def get_first_directory_containing_file(cls, cwd: str, filename: str) -> str:
        """The nearest directory from this one upwards that has such a file."""
        directory = os.path.abspath(cwd)
        while not os.path.exists(os.path.join(directory, filename)):
            above = os.path.dirname(directory)
            if above == directory:
                raise FileNotFoundError(f"No file with name {filename} exists in any of the parent directories")
            directory = above
        return directory

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


@_without(
    "add_module_requirement_to_requires_and_write compiler_version get_all_requires get_suitable_version_for "
    "has_module_requirement_in_requires push remove_module_requirement_from_requires_and_write status update "
    "versions"
)
class ModuleV1(Module):
    """A module with `module.yml`."""

    GENERATION = ModuleGeneration.V1
    MODULE_FILE = "module.yml"
    FILES = (MODULE_FILE,)


class ModuleV2(Module):
    """A module that is a Python package."""

    GENERATION = ModuleGeneration.V2
    MODULE_FILE = "setup.cfg"
    PYPROJECT_FILE = "pyproject.toml"
    PKG_NAME_PREFIX = "inmanta-module-"
    FILES = (MODULE_FILE, PYPROJECT_FILE)

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


@_without(
    "add_module_requirement_persistent add_module_requirement_to_requires_and_write collect_imported_requirements "
    "collect_requirements get_all_dependencies_and_constraints get_all_python_requirements_as_list get_ast "
    "get_complete_ast get_first_directory_containing_file get_freeze get_imports get_metadata_file_schema_type "
    "get_metadata_from_source get_module_requirements get_module_v2_requirements get_name_from_metadata "
    "get_product_constraints get_root_namespace get_strict_python_requirements_as_list has_module_requirement "
    "has_module_requirement_in_requires invalidate_state load_module load_module_recursive load_plugins "
    "log_installed_modules module_v2_source_configured remove_module_requirement_from_requires_and_write "
    "use_virtual_env"
)
class Project:
    """The project that is compiled. `modules` is name -> Module."""

    PROJECT_FILE = "project.yml"

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

    @property
    def freeze_recursive(self) -> bool:
        return bool(getattr(self.metadata, "freeze_recursive", False))

    @property
    def freeze_operator(self) -> str:
        return str(getattr(self.metadata, "freeze_operator", "~="))

    @property
    def downloadpath(self) -> str | None:
        found = getattr(self.metadata, "downloadpath", None)
        return None if found is None else os.path.join(self._path, str(found))

    @property
    def install_mode(self) -> InstallMode:
        return self.metadata.install_mode

    def get_relation_precedence_policy(self) -> list[object]:
        """The rules of the project file, one object each."""
        return list(self.metadata.get_relation_precedence_rules())

    def requires(self) -> list[str]:
        return self.metadata.requires

    def get_metadata_file_path(self) -> str:
        return os.path.join(self._path, self.PROJECT_FILE)

    @classmethod
    def get_project_dir(cls, cur_dir: str) -> str:
        """The nearest directory from this one upwards with a project file."""
        from inmanta import _project_file

        found = _project_file.above(cur_dir)
        if found is None:
            raise ProjectNotFoundException("Unable to find an inmanta project")
        return found

    @classmethod
    def from_path(cls, path: str) -> Project | None:
        """The project in a directory; None if it holds none."""
        return cls(path) if os.path.isfile(os.path.join(path, cls.PROJECT_FILE)) else None

    def is_using_virtual_env(self) -> bool:
        return sys.prefix != sys.base_prefix

    def sorted_modules(self) -> list[Module]:
        return [self.modules[name] for name in sorted(self.modules)]

    def get_module(self, full_module_name: str, **kwargs: object) -> Module:
        """The module of a name in the language, `net::ip` for one: ModuleNotFoundException if there is none."""
        found: Module | None = self.modules.get(full_module_name.split("::")[0])
        if found is None:
            raise ModuleNotFoundException(f"Could not find module {full_module_name}")
        return found

    def get_modules(self) -> dict[str, Module]:
        """The modules by name, of a project that is loaded now if it was not before."""
        if not self.loaded:
            self.load()
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
        """Imports the Python code of its modules. What is wrong with the project's files or its modules is raised:
        ModuleLoadingException for a module that cannot be found, ParserException, CompilerException for Python code.

        In a compile of Steward's there is nothing to do.
        """
        from inmanta import plugins

        if not plugins.Runtime.is_hosted:
            from steward_host.attached import Attached

            if self.virtualenv is not None:
                self.virtualenv.use_virtual_env()
            try:
                Attached(self).load()
            except ModuleLoadingException:
                self.loaded = False
                raise

    def install_modules(self, **kwargs: object) -> None:
        """Nothing to do: Steward installs modules before it compiles."""


def __getattr__(name: str) -> object:
    # Test tools want pydantic's errors for a place that is none; only they have it imported anyway.
    if name == "ModuleRepoInfo":
        import pydantic

        fields: dict[str, object] = {"url": (str, ...), "type": (ModuleRepoType, ModuleRepoType.git)}
        made = globals()[name] = pydantic.create_model(name, __doc__="One place of `repo` in a project file.", **fields)
        return made
    from inmanta import _rest_of

    return _rest_of(__name__)(name)
