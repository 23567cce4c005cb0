"""Which functions of modules only compute, as the compiler knows it from earlier compiles or as it is found out (`purity`)."""

from __future__ import annotations

from inmanta.execute import proxy
from steward_host import opened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from steward_host.purity import Purity


# Before the name of a plugin that only computes: whether it may go on where an attribute has no value yet (`catching`).
CATCHING = "catching "
# The handler that notes what all loggers say, if there is one.
listener: object = None


class Computing:
    """The verdicts of one compile."""

    def __init__(self) -> None:
        # None: nobody wants to know.
        self._known: dict[str, bool] | None = None
        self._files: set[str] = set()
        self._has_sources = True
        self._purity: Purity | None = None
        # What answers say what they have read (True), and of what is still to be reported that it does more than compute.
        self.noted: dict[str, bool] = {}
        # Which of them only hand on the references that they get.
        self._passing: dict[str, bool] = {}
        # Files of which something is kept that they have, in order; None: that can not be found out.
        self._kept: dict[str, list[tuple[int, str]] | None] = {}
        self._may_keep: bool | None = None

    def begin(self, known: dict[str, bool] | None) -> None:
        """`known`: the verdicts of earlier compiles; None: nobody wants to know."""
        self._known = known
        self.noted.clear()

    def look_at(self, files: set[str]) -> None:
        """The files of the project's modules, when they are known."""
        self._files = files
        # Modules may be published without sources. What is in such a file nobody can tell.
        self._has_sources = not any(file.endswith(".pyc") for file in files)
        self._purity = None
        self._passing.clear()
        self._kept.clear()
        self._may_keep = None

    def judge(self, name: str, find: Callable[[Purity], bool]) -> None:
        """Notes whether the answers to what has this name say what they have read."""
        if self._known is None:
            return
        is_pure = self._known.get(name)
        if is_pure is None:
            # Frames ask again, and it is reported once.
            self.noted[name] = self._known[name] = self._has_sources and find(self._judge())
        elif is_pure:
            self.noted[name] = True
        if self.noted.get(name):
            opened.hear()

    def is_plain(self, cls: type) -> bool:
        """Whether the objects of a class are nothing but their values; False, too, if nobody wants to know."""
        return self._known is not None and self._has_sources and self._judge().is_plain(cls)

    def is_plain_reference(self, cls: type) -> bool:
        """Whether the references of a class are nothing but their arguments."""
        return self._known is not None and self._has_sources and self._judge().is_plain_reference(cls)

    def passes_references(self, name: str, function: object) -> bool:
        """Whether a function that only computes does nothing with the references that it gets but hand them on."""
        known = self._passing.get(name)
        if known is None:
            known = self._passing[name] = self._has_sources and self._judge().passes_references(function)
        return known

    def kept_files(self, name: str, function: object) -> list[tuple[int, str]] | None:
        """The files of which others keep something that a function uses which only computes: they are read now, if they were not yet.
        None: they can not be read."""
        if name not in self._kept:
            self._kept[name] = self._read_to_keep(function)
        return self._kept[name]

    def _read_to_keep(self, function: object) -> list[tuple[int, str]] | None:
        if self._may_keep is None:
            self._may_keep = any(map(_may_keep, self._files))
        if not self._may_keep:
            return []
        found: list[tuple[int, str]] = []
        for keeper in self._judge().keepers_of(function):
            known = self._kept.get(f"{keeper.__module__}.{keeper.__qualname__}", ())
            if known == ():
                known = self._kept[f"{keeper.__module__}.{keeper.__qualname__}"] = _files_of(keeper)
            if known is None:
                return None
            found += (one for one in known if one not in found)
        return found

    def _judge(self) -> Purity:
        if self._purity is None:
            # Most compiles need it for nothing, and it takes some milliseconds.
            from steward_host.purity import Purity

            self._purity = Purity(self._files)
        return self._purity

    def catches(self, name: str, function: object) -> bool:
        """Whether a plugin that only computes may go on where an attribute of the model has no value yet."""
        known = self._known
        assert known is not None, "somebody wants to know what only computes"
        found = known.get(CATCHING + name)
        if found is None:
            found = known[CATCHING + name] = not self._has_sources or self._judge().catches(function)
        return found

    def forget(self, name: str) -> None:
        """That it does more than compute was reported."""
        self.noted.pop(name, None)


def _may_keep(file: str) -> bool:
    """Whether some function of a file may keep what it has read (`kept_values`): most files are not looked at any closer."""
    try:
        with open(file, "rb") as content:
            return any(line.split(maxsplit=1)[:1] == [b"global"] for line in content)
    except OSError:
        return True


def _files_of(keeper: Callable[[], object]) -> list[tuple[int, str]] | None:
    """The files that a function reads which keeps what it has read."""
    proxy.begin_reads()
    try:
        keeper()
        noted = proxy.end_reads()
    except Exception:
        # It says so to whoever calls it.
        noted = None
    finally:
        proxy.end_reads()
    # Where it reads none, it was called before, and nobody has noted what it read then.
    return noted if noted and all(map(proxy.is_file, noted)) else None


def has_hidden_name(value: object) -> bool:
    """Whether there is a word in an argument's texts that begins with an underscore. What instances hold does not count."""
    kind = type(value)
    if kind is str:
        text: str = value  # type: ignore[assignment]  # it is a text
        at = text.find("_")
        while at >= 0:
            if at == 0 or not (text[at - 1].isalnum() or text[at - 1] == "_"):
                return True
            at = text.find("_", at + 1)
        return False
    if kind is dict:
        return any(has_hidden_name(key) or has_hidden_name(item) for key, item in value.items())  # type: ignore[attr-defined]
    # In a frame, a list or a dict is alone in a tuple; an instance is a tuple of more.
    if kind is list or kind is tuple and len(value) == 1:  # type: ignore[arg-type]
        return any(map(has_hidden_name, value))  # type: ignore[call-overload]  # it has elements
    return False
