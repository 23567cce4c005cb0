"""Which functions of modules only compute, as the compiler knows it from earlier compiles or as it is found out (`purity`)."""

from __future__ import annotations

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
        self._purity: Purity | None = None
        # What answers say what they have read (True), and of what is still to be reported that it does more than compute.
        self.noted: dict[str, bool] = {}
        # Which of them only hand on the references that they get.
        self._passing: dict[str, bool] = {}

    def begin(self, known: dict[str, bool] | None) -> None:
        """`known`: the verdicts of earlier compiles; None: nobody wants to know."""
        self._known = known
        self.noted.clear()

    def look_at(self, files: set[str]) -> None:
        """The files of the project's modules, when they are known."""
        self._files = files
        self._purity = None
        self._passing.clear()

    def judge(self, name: str, find: Callable[[Purity], bool]) -> None:
        """Notes whether the answers to what has this name say what they have read."""
        if self._known is None:
            return
        is_pure = self._known.get(name)
        if is_pure is None:
            # Frames ask again, and it is reported once.
            self.noted[name] = self._known[name] = find(self._judge())
        elif is_pure:
            self.noted[name] = True
        if self.noted.get(name):
            opened.hear()

    def is_plain(self, cls: type) -> bool:
        """Whether the objects of a class are nothing but their values; False, too, if nobody wants to know."""
        return self._known is not None and self._judge().is_plain(cls)

    def is_plain_reference(self, cls: type) -> bool:
        """Whether the references of a class are nothing but their arguments."""
        return self._known is not None and self._judge().is_plain_reference(cls)

    def passes_references(self, name: str, function: object) -> bool:
        """Whether a function that only computes does nothing with the references that it gets but hand them on."""
        known = self._passing.get(name)
        if known is None:
            known = self._passing[name] = self._judge().passes_references(function)
        return known

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
            found = known[CATCHING + name] = self._judge().catches(function)
        return found

    def forget(self, name: str) -> None:
        """That it does more than compute was reported."""
        self.noted.pop(name, None)


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
