"""Names of types, for annotations. They are made when somebody asks, because `typing` takes its time to load."""

from __future__ import annotations

# Aliases of text, so that calling one works too.
ResourceIdStr = str
ResourceVersionIdStr = str
ResourceType = str


TYPE_CHECKING = False
if not TYPE_CHECKING:
    # The others are in `_more/types.py`.
    from inmanta import _rest_of

    __getattr__ = _rest_of(__name__)
