"""Notes which files a plugin opens that only computes but for reading them (`reading`).

Python tells an audit hook of each file that is opened, so the path is noted as attributes of the model are, and Steward goes by the
content of the file. Whatever else the hook hears of while it is noted what a call reads (a file that is written, a folder that is
listed, a process) makes that the call is made each time.
"""

from __future__ import annotations

import sys

from inmanta.execute import proxy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_is_heard = False


def hear() -> None:
    """From now on files that are opened while it is noted what a call reads are noted, too."""
    global _is_heard
    if not _is_heard:
        _is_heard = True
        # The hook hears of what it does itself, too, so it imports nothing.
        from steward_host import dependencies

        sys.addaudithook(_hook(dependencies))


def _hook(dependencies: Any) -> Callable[[str, tuple[Any, ...]], None]:
    def on_event(event: str, arguments: tuple[Any, ...]) -> None:
        if proxy.is_noting():
            _note(dependencies, event, arguments)

    return on_event


def _note(dependencies: Any, event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open":
        path = dependencies.path_to_read(*arguments)
        if path is None:
            proxy.note_more()
        elif path and not _is_of_module(path):
            proxy.note_file(path)
    elif event in ("os.listdir", "os.scandir") and arguments[0] in sys.path_importer_cache:
        # Where modules are looked for. Functions that list folders themselves are none that only compute.
        pass
    elif not dependencies.is_harmless(event):
        proxy.note_more()


def _is_of_module(path: str) -> bool:
    """Whether a file is that of a module, which is opened when it is imported: what the modules are, is known besides."""
    if not path.endswith((".py", ".pyc", ".so")):
        return False
    specs = (getattr(module, "__spec__", None) for module in [*sys.modules.values()])
    return any(path in (spec.origin, spec.cached) for spec in specs if spec is not None)
