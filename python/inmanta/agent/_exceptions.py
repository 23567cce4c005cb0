"""What handlers raise to end a run otherwise than by success or failure."""

from __future__ import annotations


class SkipResource(Exception):
    """The resource cannot be handled now; a later run tries again."""


class SkipResourceForDependencies(SkipResource):
    """Skipped because of the state of a resource that this one requires."""


class ResourcePurged(Exception):
    """Raised by `read_resource`: the thing does not exist."""


class InvalidOperation(Exception):
    """A call of the handler's context that makes no sense at this point."""


class HandlerNotAvailableException(Exception):
    """There is no handler for a resource."""
