"""A dataclass that one function makes and another one reads."""

import dataclasses

from inmanta.plugins import plugin


@dataclasses.dataclass(frozen=True)
class Range:
    name: str
    first: int
    last: int


@plugin
def range_of(name: str, number: int) -> Range:
    return Range(name=name, first=number * 10, last=number * 10 + 9)


@plugin
def size(given: Range) -> int:
    return given.last - given.first + 1
