"""Allocators that may fill in embedded entities. Source: docs/reference/lsm.md § 2.10.2, § 2.10.3."""

from __future__ import annotations

import abc
import copy
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from inmanta.util import dict_path

from .._compile import environment
from .._errors import LsmError

Record = dict[str, Any]


class Attributes(dict[str, Any]):
    """The attributes at one level. `get` takes paths, too."""

    def get(self, path: Any, default: Any = None) -> Any:
        """The value at a path, or the default."""
        if isinstance(path, str) and path in self:
            return self[path]
        try:
            found = path if isinstance(path, dict_path.DictPath) else dict_path.to_path(str(path))
            return found.get_element(self)
        except (LookupError, dict_path.InvalidPathException):
            return default


class ContextV2:
    """One level of an instance: the whole service, or an embedded entity inside of a `ForEach`."""

    def __init__(
        self, record: Record, attributes: Record, edits: dict[str, Any], path: str = "", parent: ContextV2 | None = None
    ) -> None:
        self._record, self._attributes, self._path = record, attributes, path
        # What was set so far, by the path from the top.
        self.edits = edits
        self.parent = parent
        # For allocators of this level, to tell one another something.
        self.scratch: dict[str, Any] = {}

    @classmethod
    def of(cls, record: Record, kind: str) -> ContextV2:
        """The top level of an instance."""
        return cls(record, copy.deepcopy(record[f"{kind}_attributes"]), {})

    @property
    def environment(self) -> str:
        """The id of the environment."""
        return environment()

    @property
    def instance_id(self) -> uuid.UUID:
        """The id of the instance."""
        return uuid.UUID(self._record["id"])

    @property
    def record(self) -> Record:
        """The instance as the inventory has it."""
        return self._record

    def get_instance(self) -> Attributes:
        """The attributes at this level, as they are by now."""
        return Attributes(self._attributes)

    def set_value(self, path: Any, value: Any) -> None:
        """Sets the value at a path, which begins at this level."""
        found = path if isinstance(path, dict_path.DictPath) else dict_path.to_path(str(path))
        found.set_element(self._attributes, value)
        self.edits[f"{self._path}{found.to_str()}".removeprefix(".")] = value

    def below(self, relation: str, keys: Sequence[str], element: Record) -> ContextV2:
        """The level of an element of a list."""
        values = [(key, None if element.get(key) is None else str(element[key])) for key in keys]
        selectors = "".join(f"[{_escaped(key)}={_value(value)}]" for key, value in values)
        return ContextV2(self._record, element, self.edits, f"{self._path}{_escaped(relation)}{selectors}.", self)


def _escaped(text: str) -> str:
    return "".join(f"\\{sign}" if sign in "\\[].*=" else sign for sign in text)


def _value(text: str | None) -> str:
    return "\\0" if text is None else _escaped(text)


class AllocatorV2(abc.ABC):
    """Finds values at one level. It keeps nothing between calls."""

    @abc.abstractmethod
    def needs_allocation(self, context: ContextV2) -> bool:
        """Whether it has to run."""

    @abc.abstractmethod
    def allocate(self, context: ContextV2) -> None:
        """Finds values, and sets them in the context."""


class ForEach(AllocatorV2):
    """Runs allocators for each element of a list of embedded entities.

    `item`: what an element is called; `identified_by`: the attribute, or attributes, that tell elements apart.
    """

    def __init__(
        self, item: str, in_list: str, identified_by: str | Sequence[str], apply: Sequence[AllocatorV2]
    ) -> None:
        self.item, self.in_list = item, in_list
        self.keys = [identified_by] if isinstance(identified_by, str) else list(identified_by)
        self.apply = list(apply)

    def _levels(self, context: ContextV2) -> list[ContextV2]:
        elements = context.get_instance().get(self.in_list)
        if elements is None:
            return []
        if not isinstance(elements, list):
            raise LsmError(f"ForEach over {self.in_list}: this is no list")
        for element in elements:
            missing = [key for key in self.keys if key not in element]
            if missing:
                raise LsmError(f"ForEach over {self.in_list}: an element has no {', '.join(missing)}, by which it is identified")
        return [context.below(self.in_list, self.keys, element) for element in elements]

    def needs_allocation(self, context: ContextV2) -> bool:
        return any(allocator.needs_allocation(level) for level in self._levels(context) for allocator in self.apply)

    def allocate(self, context: ContextV2) -> None:
        for level in self._levels(context):
            for allocator in self.apply:
                if allocator.needs_allocation(level):
                    allocator.allocate(level)


class SetSensitiveForEach(ForEach):
    """The same; it runs also when other elements are there than are active."""

    def needs_allocation(self, context: ContextV2) -> bool:
        active = (context.record["active_attributes"] or {}).get(self.in_list) or []
        here = context.get_instance().get(self.in_list) or []
        return self._identities(active) != self._identities(here) or super().needs_allocation(context)

    def _identities(self, elements: Sequence[Record]) -> set[tuple[str, ...]]:
        return {tuple(repr(element.get(key)) for key in self.keys) for element in elements}


class ContextV2Wrapper(AllocatorV2):
    """For entities without strict modifiers: what allocators set is collected in one attribute, a dict from paths to values.

    `lsm::context_v2_unwrapper` puts the values at their places.
    """

    def __init__(self, fallback_attribute: str, *allocators: AllocatorV2, track_deletes: bool = False) -> None:
        self.fallback_attribute, self.allocators, self.track_deletes = fallback_attribute, allocators, track_deletes

    def _inner(self, context: ContextV2) -> tuple[ContextV2, Record]:
        """The attributes with collected values at their places, and those values."""
        attributes = copy.deepcopy(dict(context.get_instance()))
        collected = dict(attributes.pop(self.fallback_attribute, None) or {})
        if self.track_deletes:
            collected = {path: value for path, value in collected.items() if _is_there(attributes, path)}
        _put(attributes, collected)
        return ContextV2(context.record, attributes, {}), collected

    def needs_allocation(self, context: ContextV2) -> bool:
        inner, collected = self._inner(context)
        is_stale = collected != (context.get_instance().get(self.fallback_attribute) or {})
        return is_stale or any(allocator.needs_allocation(inner) for allocator in self.allocators)

    def allocate(self, context: ContextV2) -> None:
        inner, collected = self._inner(context)
        try:
            for allocator in self.allocators:
                if allocator.needs_allocation(inner):
                    allocator.allocate(inner)
        finally:
            context.set_value(dict_path.InDict(self.fallback_attribute), {**collected, **inner.edits})


def unwrapped(instance: Mapping[str, Any], fallback_attribute: str, track_deletes: bool) -> Record:
    """An instance of `lsm::all` with collected values at their places."""
    attributes = copy.deepcopy(dict(instance["attributes"]))
    # The attribute itself is one of those that the model unrolls, and stays.
    collected = attributes.get(fallback_attribute) or {}
    if track_deletes:
        collected = {path: value for path, value in collected.items() if _is_there(attributes, path)}
    _put(attributes, collected)
    return {**instance, "attributes": attributes}


def _put(attributes: Record, values: Mapping[str, Any]) -> None:
    for path, value in values.items():
        dict_path.to_path(path).set_element(attributes, value)


def _is_there(attributes: Record, path: str) -> bool:
    """Whether the element that a path leads into exists."""
    sections: Sequence[Any] = dict_path.to_path(path).get_path_sections()
    at: Any = attributes
    try:
        for section in sections[:-1]:
            at = section.get_element(at)
    except LookupError:
        return False
    return True
