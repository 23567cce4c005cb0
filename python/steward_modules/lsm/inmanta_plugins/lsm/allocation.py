"""Allocation: values for read-only attributes, from a pool or an inventory. Source: docs/reference/lsm.md § 2.10.

A spec has a name, which a binding gives as its `allocation_spec`. It runs when an instance is validated: what its allocators
find goes to the attributes of the instance, and is stored in the service inventory.
"""

from __future__ import annotations

import abc
import random
import uuid
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from inmanta.util import dict_path

from . import _compile
from ._errors import LsmError
from ._inventory import global_cache, write
from .allocation_v2.framework import AllocatorV2, ContextV2, ContextV2Wrapper

T = TypeVar("T")
Record = dict[str, Any]

__all__ = [
    "AllocationContext",
    "AllocationSpec",
    "AllocationSpecV2",
    "Allocator",
    "AllocatorV2",
    "AllocatorWrapper",
    "AnyUniqueInt",
    "ContextV2",
    "ContextV2Wrapper",
    "ExternalAllocator",
    "ExternalAttributeAllocator",
    "ExternalServiceIdAllocator",
    "LSM_Allocator",
]

_specs: dict[str, _Spec] = {}


def has_spec(name: str) -> bool:
    """Whether a module has defined one of this name."""
    return name in _specs


def spec(name: str) -> _Spec:
    """The spec of this name."""
    if name not in _specs:
        known = ", ".join(sorted(_specs)) or "none"
        raise LsmError(f"there is no allocation spec {name}: there is {known}; a module of the model has to define it")
    return _specs[name]


class _Spec(abc.ABC):
    """Allocators with a name."""

    def __init__(self, name: str) -> None:
        self.name = name
        _specs[name] = self

    @abc.abstractmethod
    def run(self, record: Record, kind: str) -> None:
        """Allocates what an instance lacks in a set, and stores it; the record has it then."""


# --- the first kind --------------------------------------------------------------------------------------------------


class AllocationContext:
    """For which service allocators run."""

    def __init__(self, env: str, service_entity_name: str) -> None:
        self.env = env
        self.service_entity_name = service_entity_name

    def get_all_instances(self) -> list[Record]:
        """The instances of the service, whatever takes part in the compile."""
        return global_cache.get_all_instances(self.env, self.service_entity_name)


class Allocator(abc.ABC):
    """Finds values for some attributes of a service."""

    @abc.abstractmethod
    def get_attributes(self) -> list[str]:
        """The names of the attributes."""

    def needs_allocation(self, ctx: AllocationContext, instance: Record) -> bool:
        """Whether it has to run for an instance: it has to if one of the attributes has no value."""
        return any(instance["attributes"].get(name) is None for name in self.get_attributes())

    @abc.abstractmethod
    def allocate_for(self, ctx: AllocationContext, instance: Record) -> Mapping[str, Any]:
        """The values, by the names of the attributes."""

    def pre_allocate(self) -> None:
        """Called before a run."""

    def post_allocate(self) -> None:
        """Called after it, also after one that failed."""


class ExternalAllocator(Allocator):
    """One that asks another inventory. It has to find what is an instance's already, for it may run again."""


class ExternalAttributeAllocator(ExternalAllocator, Generic[T]):
    """Finds one attribute by the value of another one."""

    def __init__(self, attribute: str, id_attribute: str) -> None:
        self.attribute, self.id_attribute = attribute, id_attribute

    def get_attributes(self) -> list[str]:
        return [self.attribute]

    def allocate_for(self, ctx: AllocationContext, instance: Record) -> Mapping[str, Any]:
        return {self.attribute: self.allocate_for_attribute(instance["attributes"].get(self.id_attribute))}

    @abc.abstractmethod
    def allocate_for_attribute(self, id_attribute_value: Any) -> T:
        """The value for this value of the other attribute."""


class ExternalServiceIdAllocator(ExternalAllocator, Generic[T]):
    """Finds one attribute by the id of the instance."""

    def __init__(self, attribute: str) -> None:
        self.attribute = attribute

    def get_attributes(self) -> list[str]:
        return [self.attribute]

    def allocate_for(self, ctx: AllocationContext, instance: Record) -> Mapping[str, Any]:
        return {self.attribute: self.allocate_for_id(uuid.UUID(instance["id"]))}

    @abc.abstractmethod
    def allocate_for_id(self, serviceid: uuid.UUID) -> T:
        """The value for this instance."""


class AnyUniqueInt:
    """Any number of a range that is free, the ends of the range included."""

    def __init__(self, lower: int, upper: int) -> None:
        self.lower, self.upper = lower, upper

    @staticmethod
    def draw(seed: str) -> int:
        """Any number of 63 bits, which of the free ones is taken."""
        return random.Random(seed).getrandbits(63)

    def select(self, used: set[Any], seed: str) -> int:
        """A free number; the same one for the same seed, so that a compile can be done again."""
        inside = sorted(value for value in used if isinstance(value, int) and self.lower <= value <= self.upper)
        n_free = self.upper - self.lower + 1 - len(inside)
        if n_free <= 0:
            raise LsmError(f"no number between {self.lower} and {self.upper} is free")
        found = self.lower + self.draw(seed) % n_free
        for value in inside:
            found += value <= found
        return found


class LSM_Allocator(Allocator):  # noqa: N801  # modules know it by this name
    """Finds one attribute in a pool that nobody but the service's own instances takes from."""

    def __init__(self, attribute: str, strategy: AnyUniqueInt) -> None:
        self.attribute, self.strategy = attribute, strategy

    def get_attributes(self) -> list[str]:
        return [self.attribute]

    def allocate_for(self, ctx: AllocationContext, instance: Record) -> Mapping[str, Any]:
        path, seed, strategy = str(dict_path.InDict(self.attribute)), f"{instance['id']} {self.attribute}", self.strategy
        if type(strategy) is AnyUniqueInt:
            bounds = (strategy.lower, strategy.upper)
            found = global_cache.free_number(ctx.service_entity_name, path, bounds, strategy.draw(seed))
            if found:
                return {self.attribute: found[0]}
        # A strategy of a module's own wants to see what is used; so does the message that nothing is free.
        used = set(global_cache.used_values(ctx.service_entity_name, path))
        return {self.attribute: strategy.select(used, seed)}


class AllocatorWrapper(Allocator):
    """Several allocators, in order. What the first ones found is stored even if a later one fails."""

    def __init__(self, *allocators: Allocator) -> None:
        self.allocators = allocators

    def get_attributes(self) -> list[str]:
        return [name for allocator in self.allocators for name in allocator.get_attributes()]

    def needs_allocation(self, ctx: AllocationContext, instance: Record) -> bool:
        return any(allocator.needs_allocation(ctx, instance) for allocator in self.allocators)

    def allocate_for(self, ctx: AllocationContext, instance: Record) -> Mapping[str, Any]:
        found: dict[str, Any] = {}
        try:
            for allocator in self.allocators:
                if allocator.needs_allocation(ctx, instance):
                    values = allocator.allocate_for(ctx, instance)
                    found.update(values)
                    instance["attributes"].update(values)
        except Exception as error:
            raise _Interrupted(found, error) from error
        return found

    def pre_allocate(self) -> None:
        for allocator in self.allocators:
            allocator.pre_allocate()

    def post_allocate(self) -> None:
        for allocator in self.allocators:
            allocator.post_allocate()


class _Interrupted(Exception):
    """An allocator failed, and others had found something before."""

    def __init__(self, found: Record, cause: Exception) -> None:
        super().__init__(str(cause))
        self.found, self.cause = found, cause


class AllocationSpec(_Spec):
    """Allocators of the first kind."""

    def __init__(self, name: str, *allocators: Allocator) -> None:
        super().__init__(name)
        self.allocators = allocators

    def run(self, record: Record, kind: str) -> None:
        context = AllocationContext(_compile.environment(), record["service_entity"])
        instance = {**record, "attributes": dict(record[f"{kind}_attributes"])}
        found: Record = {}
        for allocator in self.allocators:
            allocator.pre_allocate()
        try:
            for allocator in self.allocators:
                if allocator.needs_allocation(context, instance):
                    values = allocator.allocate_for(context, instance)
                    found.update(values)
                    instance["attributes"].update(values)
        except _Interrupted as interrupted:
            _store(record, {**found, **interrupted.found})
            raise interrupted.cause from None
        finally:
            for allocator in self.allocators:
                allocator.post_allocate()
        _store(record, found)


def _store(record: Record, found: Record) -> None:
    write(record, {str(dict_path.InDict(name)): value for name, value in found.items()}, top_level=True)


# --- the second kind -------------------------------------------------------------------------------------------------


class AllocationSpecV2(_Spec):
    """Allocators of the second kind, which may fill in embedded entities."""

    def __init__(self, name: str, *allocators: AllocatorV2) -> None:
        super().__init__(name)
        self.allocators = allocators

    def run(self, record: Record, kind: str) -> None:
        context = ContextV2.of(record, kind)
        try:
            for allocator in self.allocators:
                if allocator.needs_allocation(context):
                    allocator.allocate(context)
        finally:
            # An allocator that failed does not undo what others have found.
            is_flat = all(isinstance(allocator, ContextV2Wrapper) for allocator in self.allocators)
            write(record, context.edits, top_level=is_flat)
