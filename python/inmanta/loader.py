"""Loaded module code."""

from __future__ import annotations

from inmanta import _without
from inmanta.const import PLUGINS_PACKAGE


def unload_inmanta_plugins(inmanta_module: str | None = None) -> None:
    """Forgets the imported Python modules of one module, or of all."""
    from steward_host import loader

    loader.forget(PLUGINS_PACKAGE if inmanta_module is None else f"{PLUGINS_PACKAGE}.{inmanta_module}")


@_without("get_file_content get_file_hashes get_module_version get_module_version_info get_object_source")
class CodeManager:
    """Kept for old callers: Steward distributes code itself."""

    def register_code(self, *args: object, **kwargs: object) -> None:
        pass


@_without("MODULE_FINDER find_spec get_module_finder")
class PluginModuleFinder:
    """Finds the Python code of modules of the older kind, in the directories that it is told."""

    @classmethod
    def reset(cls) -> None:
        """Finds none from now on."""
        from steward_host import loader

        loader.install_fallback()

    @classmethod
    def configure_module_finder(cls, modulepaths: list[str], **kwargs: object) -> None:
        """Finds modules below these directories from now on."""
        from steward_host import loader

        loader.install_fallback(lambda: modulepaths)


TYPE_CHECKING = False
if not TYPE_CHECKING:
    # What only the reference's module has says why it is not here.
    from inmanta import _rest_of

    __getattr__ = _rest_of(__name__)
