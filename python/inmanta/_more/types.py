"""Types of the interface, for annotations and pydantic models."""

from __future__ import annotations

import datetime
import typing
import uuid
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence

from inmanta.types import ResourceIdStr, ResourceVersionIdStr

if typing.TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic import BaseModel as DateTimeNormalizerModel
else:
    try:
        from inmanta._more.base_model import BaseModel, DateTimeNormalizerModel, StrictNonIntBool, api_boundary_datetime_normalizer
    except ImportError:
        # Without pydantic there are no models, only the plain records of inmanta.data.model.
        from inmanta.data.model import _Record as BaseModel

R = typing.TypeVar("R")
T = typing.TypeVar("T")

PrimitiveTypes = typing.Union[uuid.UUID, bool, int, float, datetime.datetime, str, None]
SimpleTypes = typing.Union[BaseModel, uuid.UUID, bool, int, float, datetime.datetime, str, None]
StrMapping = typing.Union[Mapping[str, T], Mapping[ResourceIdStr, T], Mapping[ResourceVersionIdStr, T]]
# What is in a mapping may be such a mapping again, which an alias of today's oldest Python cannot say.
SinglePageTypes = typing.Union[SimpleTypes, Mapping[str, typing.Any]]
PageableTypes = Sequence[SimpleTypes]
ArgumentTypes = typing.Union[SinglePageTypes, PageableTypes]
ReturnTypes = typing.Union[SinglePageTypes, PageableTypes]
JsonType = dict[str, typing.Any]
# It contains itself, too.
StrictJson = typing.Union[dict[str, typing.Any], list[typing.Any], str, int, float, bool, None]
Warnings = typing.Optional[list[str]]
ReturnTupple = tuple[int, typing.Optional[JsonType]]
Apireturn = typing.Union[int, ReturnTupple, ReturnTypes]
MethodReturn = Apireturn
MethodType = Callable[..., typing.Any]
AsyncioCoroutine = Coroutine[object, None, R]
AsyncioGenerator = Generator[object, None, R]
HandlerType = Callable[..., Coroutine[object, None, typing.Any]]
ResourceSets = dict[typing.Optional[str], list[R]]
FailedPythonModules = dict[str, Exception]
FailedInmantaModules = dict[str, dict[str, Exception]]
# What a dataclass is depends on who asks; any object may be one.
DataclassProtocol = object
