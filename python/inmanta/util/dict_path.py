"""Paths into nested dicts and lists: `interfaces[name=eth0].mtu`.

A path is sections joined by dots. `key` enters a dict; `relation[k=v][k2=v2]` picks from the list under `relation` the
one item with these values. In a wild path `*` stands for any key or value. `.` alone is the null path, the container
itself. In text the characters ``\\ [ ] . * =`` of a key or value are escaped by a backslash (a dot inside of brackets
needs none), and ``\\0`` as a value means null.

Errors: KeyError for a miss or for several hits, ContainerStructureException where a dict or a list was expected,
InvalidPathException for a text that is no path. Each of the former two is a LookupError.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, MutableSequence, MutableSet, Sequence, Set

from inmanta import _without

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self, TypeVar

    Path = TypeVar("Path", bound="WildDictPath")

_SPECIAL = "\\[].*="
_NO_WILDCARD = "The Wildcard ('*') can not be used in DictPath's"


class InvalidPathException(Exception):
    """A text that is no path."""


class ContainerStructureException(LookupError):
    """A dict or a list was expected here."""


# --- keys and values -------------------------------------------------------------------------------------------------


class DictPathValue:
    """A key or a value of a section."""

    @property
    def value(self) -> str | None:
        """What it stands for."""
        raise NotImplementedError

    def escape(self) -> str:
        """As it is written in a path."""
        raise NotImplementedError

    def matches(self, value: object) -> bool:
        """Whether a value found in a container is meant."""
        raise NotImplementedError

    @classmethod
    def create(cls, text: str) -> DictPathValue:
        """Reads one out of a path, escapes included."""
        if text == "*":
            return WildCardValue()
        if text == "\\0":
            return NullValue()
        return NormalValue(_unescaped(text))

    @classmethod
    def from_object(cls, value: object) -> DictPathValue:
        return NullValue() if value is None else NormalValue(str(value))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.escape() == other.escape()

    def __hash__(self) -> int:
        return hash(self.escape())


class NormalValue(DictPathValue):
    """A text; it also means the number that it writes."""

    def __init__(self, value: str) -> None:
        self._value = value

    @property
    def value(self) -> str:
        return self._value

    def escape(self) -> str:
        return "".join("\\" + character if character in _SPECIAL else character for character in self._value)

    def matches(self, value: object) -> bool:
        if value is None:
            return False
        if isinstance(value, (int, float)):
            try:
                if float(self._value) == value:
                    return True
            except (ValueError, OverflowError):
                pass
        return str(value) == self._value


class NullValue(DictPathValue):
    """Null, written `\\0`."""

    NULL_VALUE_CHARACTER = "\\0"

    @property
    def value(self) -> None:
        return None

    def escape(self) -> str:
        return "\\0"

    def matches(self, value: object) -> bool:
        return value is None


@_without("WILDCARD_CHARACTER")
class WildCardValue(DictPathValue):
    """Anything, written `*`."""

    @property
    def value(self) -> str:
        raise Exception("A WildCardValue doesn't have an actual data value.")

    def escape(self) -> str:
        return "*"

    def matches(self, value: object) -> bool:
        return True


def _unescaped(text: str) -> str:
    made = []
    characters = iter(text)
    for character in characters:
        made.append(next(characters, "\\") if character == "\\" else character)
    return "".join(made)


# --- wild paths ------------------------------------------------------------------------------------------------------


@_without(
    "PATTERN_ESCAPED_SPECIAL_CHARACTER PATTERN_SPECIAL_CHARACTER REGEX_ESCAPED_SPECIAL_CHARACTER "
    "REGEX_NORMAL_CHARACTER REGEX_SPECIAL_CHARACTER SPECIAL_CHARACTERS WILDCARD parse"
)
class WildDictPath:
    """A path that may hold wildcards, and so may mean several elements."""

    def get_elements(self, container: object) -> list[object]:
        """All elements that are meant; none if there is none."""
        raise NotImplementedError

    def resolve_wild_cards(self, container: object) -> list[DictPath]:
        """A path without wildcards for each element that is meant."""
        raise NotImplementedError

    def _resolved(self, container: object) -> list[tuple[DictPath, object]]:
        """The paths without wildcards, each with the element that it was made for."""
        paths = self.resolve_wild_cards(container)
        return [(path, element) for path in paths for element in path.get_elements(container)[:1]]

    def get_path_sections(self) -> Sequence[WildDictPath]:
        """The sections of the path."""
        return [self]

    def to_str(self) -> str:
        raise NotImplementedError

    def __str__(self) -> str:
        return self.to_str()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.to_str()!r})"

    def __add__(self, other: WildDictPath) -> WildComposedPath:
        if not isinstance(other, WildDictPath):
            return NotImplemented
        return WildComposedPath(path=[*self.get_path_sections(), *other.get_path_sections()])


@_without("IN_DICT_PATTERN")
class WildInDict(WildDictPath):
    """The value under a key of a dict."""

    def __init__(self, key: str) -> None:
        if not isinstance(key, str):
            raise TypeError(f"expected a key of type str, got {type(key).__name__}")
        self.key: NormalValue | WildCardValue = WildCardValue() if key == "*" else NormalValue(key)

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The section that a text is; None if it is none of this kind."""
        return _made(lambda: cls(_parse_key(text)))

    def get_elements(self, container: object) -> list[object]:
        mapping = _mapping(container)
        if isinstance(self.key, WildCardValue):
            return list(mapping.values())
        return [mapping[self.key.value]] if self.key.value in mapping else []

    def resolve_wild_cards(self, container: object) -> list[DictPath]:
        mapping = _mapping(container)
        if isinstance(self.key, WildCardValue):
            return [InDict(key) for key in mapping]
        return [InDict(self.key.value)] if self.key.value in mapping else []

    def to_str(self) -> str:
        return self.key.escape()


@_without(
    "KEYED_LIST_PATTERN KEY_VALUE_PAIR KEY_VALUE_PAIRS_PATTERN REGEX_KEY_ATTRIBUTE REGEX_KEY_VALUE REGEX_RELATION"
)
class WildKeyedList(WildDictPath):
    """Items of the list under a key of a dict, picked by values of theirs."""

    def __init__(
        self, relation: str, key_value_pairs: str | Sequence[tuple[str, str]], key_value: str | None = None
    ) -> None:
        pairs: list[tuple[str, str | None]] = (
            [(key_value_pairs, key_value)] if isinstance(key_value_pairs, str) else [*key_value_pairs]
        )
        if not pairs:
            raise ValueError("A keyed list path requires at least one key-value pair.")
        if relation == "*":
            raise InvalidPathException(f"Invalid relation name: {relation}")
        if len({key for key, _ in pairs}) < len(pairs):
            raise InvalidPathException("No duplicate keys allowed in keyed list path")
        self.relation = NormalValue(relation)
        self.key_value_pairs = [
            (WildCardValue() if key == "*" else NormalValue(key), _pair_value(value)) for key, value in pairs
        ]

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The section that a text is; None if it is none of this kind."""
        return _made(lambda: cls(*_parse_keyed(text)))

    def get_key_value_pairs(self) -> list[tuple[str, str]]:
        """Keys and values as they are written."""
        return [(key.escape(), value.escape()) for key, value in self.key_value_pairs]

    def get_elements(self, container: object) -> list[object]:
        return [*self._matching(self._items(container, make=False))]

    def resolve_wild_cards(self, container: object) -> list[DictPath]:
        _not_none(container)
        self._without_wild_keys()
        return [self._path_of(item) for item in self._matching(self._items(container, make=False))]

    def _resolved(self, container: object) -> list[tuple[DictPath, object]]:
        # Items that are alike in these keys have the same path, so that each of their paths leads to all of them.
        self._without_wild_keys()
        items = self._items(container, make=False)
        return [(path, item) for path in map(self._path_of, self._matching(items)) for item in path._matching(items)]

    def _without_wild_keys(self) -> None:
        """No single path says `any key`."""
        if any(isinstance(key, WildCardValue) for key, _ in self.key_value_pairs):
            raise NotImplementedError(
                "Can not call resolve_wild_cards on this path because it uses wild cards (`*`) for some of its keys:"
                f" `{self}`."
            )

    def _path_of(self, item: Mapping[Any, Any]) -> KeyedList:
        pairs = [(key.value, str(item[key.value])) for key, _ in self.key_value_pairs]
        return KeyedList(self.relation.value, pairs)

    def to_str(self) -> str:
        pairs = "".join(f"[{key.escape()}={value.escape()}]" for key, value in self.key_value_pairs)
        return self.relation.escape() + pairs

    def _items(self, container: object, make: bool) -> Sequence[object] | Set[object]:
        _not_none(container)
        if not isinstance(container, Mapping):
            raise ContainerStructureException(f"{container} is not a Dict")
        if self.relation.value not in container:
            made: list[object] = []
            if make:
                _mutable(container)[self.relation.value] = made
            return made
        items: object = container[self.relation.value]
        if not isinstance(items, (Sequence, Set)) or isinstance(items, (str, bytes)):
            raise ContainerStructureException(f"{items} is not a List or Set")
        return items

    def _matching(self, items: Iterable[object]) -> list[Mapping[Any, Any]]:
        return [item for item in items if isinstance(item, Mapping) and self._matches(item)]

    def _matches(self, item: Mapping[Any, Any]) -> bool:
        for key, value in self.key_value_pairs:
            if isinstance(key, WildCardValue):
                if not any(value.matches(found) for found in item.values()):
                    return False
            elif key.value not in item or not value.matches(item[key.value]):
                return False
        return True

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, WildKeyedList)
            and self.relation == other.relation
            and set(self.key_value_pairs) == set(other.key_value_pairs)
        )

    def __hash__(self) -> int:
        return hash((self.relation, frozenset(self.key_value_pairs)))


class WildNullPath(WildDictPath):
    """The container itself."""

    def get_elements(self, container: object) -> list[object]:
        return [_mapping(container, at_start=False)]

    def resolve_wild_cards(self, container: object) -> list[DictPath]:
        _mapping(container, at_start=False)
        return [NullPath()]

    def get_path_sections(self) -> Sequence[WildDictPath]:
        return []

    def to_str(self) -> str:
        return "."

    @classmethod
    def parse(cls, text: str) -> Self | None:
        return cls() if text == "." else None


@_without("COMPOSED_DICT_PATH_PATTERN KEYED_LIST_FILTER do_parse element_types split_on_dots")
class WildComposedPath(WildDictPath):
    """Several sections, one after the other."""

    _parts: tuple[type[WildInDict], type[WildKeyedList]] = (WildInDict, WildKeyedList)

    def __init__(self, path_str: str | None = None, path: Sequence[WildDictPath] | None = None) -> None:
        # A path keeps the spelling that it was read from.
        self._text = path_str
        if path is None:
            if path_str is None:
                raise ValueError("Either path or path_str should be set")
            path = [_parse_section(text, self._parts) for text in _split(path_str) if text]
            if not path:
                raise InvalidPathException(f"{path_str!r} has no section")
        self.expanded_path: list[Any] = [section for part in path for section in part.get_path_sections()]

    @classmethod
    def parse(cls, text: str) -> Self | None:
        return cls(path_str=text)

    def get_elements(self, container: object) -> list[object]:
        _not_none(container)
        found = [container]
        for section in self.expanded_path:
            found = [element for outer in found for element in section.get_elements(_there(outer))]
        return found

    def resolve_wild_cards(self, container: object) -> list[DictPath]:
        _not_none(container)
        if not self.expanded_path:
            return [ComposedPath(path=[])]
        *outer_sections, last = self.expanded_path
        found: list[tuple[list[DictPath], object]] = [([], container)]
        for section in outer_sections:
            longer: list[tuple[list[DictPath], object]] = []
            for path, outer in found:
                longer += [([*path, resolved], element) for resolved, element in section._resolved(outer)]
            found = longer
        return [
            ComposedPath(path=[*path, resolved]) for path, outer in found for resolved in last.resolve_wild_cards(outer)
        ]

    def get_path_sections(self) -> Sequence[WildDictPath]:
        return list(self.expanded_path)

    def to_str(self) -> str:
        return self._text if self._text is not None else ".".join(section.to_str() for section in self.expanded_path)

    un_parse = to_str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WildComposedPath) and self.to_str() == other.to_str()

    def __hash__(self) -> int:
        return hash(self.to_str())


# --- paths to one element --------------------------------------------------------------------------------------------


class DictPath(WildDictPath):
    """A path without wildcards: it means one element."""

    def get_element(self, container: object, construct: bool = False) -> object:
        """The element; with `construct`, dicts and list items on the way are made where they are missing."""
        if construct:
            return self._construct(container)
        _not_none(container)
        try:
            found = self._find(container)
        except ContainerStructureException:
            found = []
        return self._only(found, container)

    def _only(self, found: list[object], container: object) -> object:
        if len(found) != 1:
            raise KeyError(f"Found no or multiple items matching {self} in {container}: {found}")
        return found[0]

    def get_elements(self, container: object) -> list[object]:
        try:
            return [self.get_element(container)]
        except LookupError:
            return []

    def set_element(self, container: object, value: object, construct: bool = True) -> None:
        """Puts a value at this place; with `construct`, what is missing on the way is made."""
        raise NotImplementedError

    def remove(self, container: object) -> None:
        """Removes the element, if it is there."""
        raise NotImplementedError

    def get_key(self) -> str:
        """The key in the innermost dict."""
        raise NotImplementedError(f"Method get_key() not supported on a {type(self).__name__}")

    def _find(self, container: object) -> list[object]:
        raise NotImplementedError

    def _construct(self, container: object) -> object:
        raise NotImplementedError

    def __add__(self, other: WildDictPath) -> WildComposedPath:
        # A path without wildcards and one that may have some: `WildDictPath` does not allow it, so neither do we.
        if not isinstance(other, DictPath):
            return NotImplemented
        return ComposedPath(path=[*self.get_path_sections(), *other.get_path_sections()])


class InDict(DictPath, WildInDict):
    """The value under a key of a dict."""

    def __init__(self, key: str) -> None:
        if key == "*":
            raise ValueError(_NO_WILDCARD)
        WildInDict.__init__(self, key)

    def _find(self, container: object) -> list[object]:
        return WildInDict.get_elements(self, container)

    def _construct(self, container: object) -> object:
        mapping = _mapping(container, at_start=False)
        if self.key.value not in mapping:
            _mutable(container)[self.key.value] = {}
        return mapping[self.key.value]

    def set_element(self, container: object, value: object, construct: bool = True) -> None:
        _mutable(container)[self.key.value] = value

    def remove(self, container: object) -> None:
        _mutable(container).pop(self.key.value, None)

    def get_key(self) -> str:
        assert self.key.value is not None, "the constructor takes no wildcards"
        return self.key.value


class KeyedList(DictPath, WildKeyedList):
    """The item of the list under a key of a dict that has these values."""

    def __init__(
        self, relation: str, key_value_pairs: str | Sequence[tuple[str, str]], key_value: str | None = None
    ) -> None:
        WildKeyedList.__init__(self, relation, key_value_pairs, key_value)
        if any(isinstance(part, WildCardValue) for pair in self.key_value_pairs for part in pair):
            raise ValueError(_NO_WILDCARD)

    def _find(self, container: object) -> list[object]:
        return WildKeyedList.get_elements(self, container)

    def _construct(self, container: object) -> object:
        _dict(container)
        items = self._items(container, make=True)
        found = self._matching(items)
        if len(found) > 1:
            raise KeyError(f"Found no or multiple items matching {self} in {container}: {found}")
        if not found:
            found = [{key.value: value.value for key, value in self.key_value_pairs}]
            _append(items, found[0])
        return found[0]

    def set_element(self, container: object, value: object, construct: bool = True) -> None:
        _dict(container)
        items = self._items(container, make=True)
        found = self._matching(items)
        # Of several items none is meant, so that a further one is added.
        if len(found) == 1 and isinstance(items, MutableSequence):
            items[next(index for index, item in enumerate(items) if item is found[0])] = value
            return
        if len(found) == 1:
            _remove(items, found[0])
        _append(items, value)

    def remove(self, container: object) -> None:
        _dict(container)
        items = self._items(container, make=False)
        for item in self._matching(items):
            if isinstance(items, MutableSequence):
                del items[next(index for index, known in enumerate(items) if known is item)]
            else:
                _remove(items, item)

    def get_key(self) -> str:
        return self.relation.value


class NullPath(DictPath, WildNullPath):
    """The container itself."""

    def get_element(self, container: object, construct: bool = False) -> object:
        return _mapping(container, at_start=False)

    def set_element(self, container: object, value: object, construct: bool = True) -> None:
        if not isinstance(container, MutableMapping):
            raise ContainerStructureException(f"Argument container is not a MutableMapping: {container}")
        if not isinstance(value, Mapping):
            raise ContainerStructureException(f"Argument value is not a Mapping: {container}")
        container.update(value)

    def remove(self, container: object) -> None:
        raise NotImplementedError("Method remove() is not supported on a NullPath")


class ComposedPath(DictPath, WildComposedPath):
    """Several sections, one after the other."""

    _parts = (InDict, KeyedList)

    def _find(self, container: object) -> list[object]:
        found = [container]
        for section in self.expanded_path:
            found = [element for outer in found for element in section._find(_there(outer))]
        return found

    def _construct(self, container: object) -> object:
        _not_none(container)
        for section in self.expanded_path:
            container = section.get_element(container, construct=True)
        return container

    def _parent(self, container: object, construct: bool) -> object:
        for section in self.expanded_path[:-1]:
            if construct:
                container = section.get_element(container, construct=True)
            else:
                # Unlike a question for an element, a change tells a wrong structure from a miss.
                container = section._only(section._find(_there(container)), container)
        return container

    def set_element(self, container: object, value: object, construct: bool = True) -> None:
        self.expanded_path[-1].set_element(self._parent(container, construct), value, construct)

    def remove(self, container: object) -> None:
        try:
            parent = self._parent(container, construct=False)
        except KeyError:
            return
        self.expanded_path[-1].remove(parent)


def to_path(inp: str) -> DictPath:
    """The path that a text writes. InvalidPathException if it writes none, or has a wildcard."""
    return _to_path(inp, NullPath, ComposedPath)


def to_wild_path(inp: str) -> WildDictPath:
    """The path that a text writes, wildcards allowed. InvalidPathException if it writes none."""
    return _to_path(inp, WildNullPath, WildComposedPath)


def _to_path(text: str, null: Callable[[], Path], composed: Callable[..., Path]) -> Path:
    if text == ".":
        return null()
    if not text:
        raise InvalidPathException(f"Could not parse path {text}")
    # One leading dot means nothing.
    return composed(path_str=text[1:] if text.startswith(".") else text)


# --- reading ---------------------------------------------------------------------------------------------------------


def _split(text: str) -> list[str]:
    """The sections of a path, empty ones too: dots count outside of brackets, where they are not escaped."""
    sections = [""]
    depth = 0
    characters = iter(text)
    for character in characters:
        if character == "\\":
            escaped = next(characters, "")
            # One at the end escapes nothing.
            sections[-1] += character + escaped if escaped else ""
            continue
        depth += (character == "[") - (character == "]")
        if character == "." and depth <= 0:
            sections.append("")
        else:
            sections[-1] += character
    return sections


def _parse_section(text: str, kinds: tuple[type[WildInDict], type[WildKeyedList]]) -> WildDictPath:
    in_dict, keyed_list = kinds
    try:
        bracket = _unescaped_index(text, "[")
        if bracket < 0:
            return in_dict(_parse_key(text))
        return keyed_list(*_parse_keyed(text))
    except ValueError as error:
        raise InvalidPathException(str(error)) from None


def _made(make: Callable[[], Path]) -> Path | None:
    try:
        return make()
    except InvalidPathException:
        return None


def _parse_keyed(text: str) -> tuple[str, list[tuple[str, str]]]:
    bracket = _unescaped_index(text, "[")
    pairs = []
    position = bracket
    if bracket <= 0:
        raise InvalidPathException(f"Could not parse path segment {text}")
    while position < len(text):
        end = _unescaped_index(text, "]", position)
        equals = _unescaped_index(text, "=", position)
        if text[position] != "[" or end < 0 or not position < equals < end:
            raise InvalidPathException(f"Could not parse path segment {text}")
        key, value = text[position + 1 : equals], text[equals + 1 : end]
        if not key or not _is_clean(key, dots=False) or not (value == "\\0" or _is_clean(value, dots=True)):
            raise InvalidPathException(f"Could not parse path segment {text}")
        pairs.append((key if key == "*" else _unescaped(key), value if value in ("\\0", "*") else _plain(value)))
        position = end + 1
    return _parse_key(text[:bracket]), pairs


class _Literal(str):
    """A value that is meant as it stands, although it looks like `*` or `\\0`."""


def _plain(text: str) -> str:
    return _Literal(_unescaped(text))


def _pair_value(value: str | None) -> DictPathValue:
    if isinstance(value, _Literal):
        return NormalValue(str(value))
    if value is None:
        raise ValueError("null is written \\0 in a keyed list path")
    return WildCardValue() if value == "*" else NullValue() if value == "\\0" else NormalValue(value)


def _parse_key(text: str) -> str:
    if text != "*" and not _is_clean(text, dots=False):
        raise InvalidPathException(f"Could not parse path segment {text}")
    return _unescaped(text)


def _is_clean(text: str, dots: bool) -> bool:
    """Whether all special characters are escaped, and nothing else is. A star alone is a wildcard."""
    if text == "*":
        return True
    characters = iter(text)
    for character in characters:
        if character == "\\":
            following = next(characters, "\\")
            if following not in _SPECIAL:
                return False
        elif character in _SPECIAL and not (dots and character == "."):
            return False
    return True


def _unescaped_index(text: str, wanted: str, start: int = 0) -> int:
    position = start
    while position < len(text):
        if text[position] == "\\":
            position += 2
            continue
        if text[position] == wanted:
            return position
        position += 1
    return -1


# --- containers ------------------------------------------------------------------------------------------------------


def _not_none(container: object) -> None:
    if container is None:
        raise IndexError("Can not get anything from None")


def _there(container: object) -> object:
    if container is None:
        raise ContainerStructureException("None is not a Mapping")
    return container


def _mapping(container: object, at_start: bool = True) -> Mapping[Any, Any]:
    if at_start:
        _not_none(container)
    if not isinstance(container, Mapping):
        raise ContainerStructureException(f"{container} is not a Mapping")
    return container


def _mutable(container: object) -> MutableMapping[Any, Any]:
    if not isinstance(container, MutableMapping):
        raise ContainerStructureException(f"{container} is not a MutableMapping")
    return container


def _dict(container: object) -> None:
    if not isinstance(container, Mapping):
        raise ContainerStructureException(f"{container} is not a Dict")


def _append(items: object, value: object) -> None:
    if isinstance(items, MutableSequence):
        items.append(value)
    elif isinstance(items, MutableSet):
        items.add(value)
    else:
        raise ContainerStructureException(f"{items} cannot be changed")


def _remove(items: object, value: object) -> None:
    if not isinstance(items, (MutableSequence, MutableSet)):
        raise ContainerStructureException(f"{items} cannot be changed")
    items.remove(value)

if not TYPE_CHECKING:
    # What only the reference's module has says why it is not here.
    from inmanta import _rest_of

    __getattr__ = _rest_of(__name__)
