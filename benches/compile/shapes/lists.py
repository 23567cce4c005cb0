"""Functions that take and return lists and dicts."""

from inmanta.plugins import plugin


@plugin
def names(name: "string", count: "int") -> "string[]":
    return [f"{name}-{number}" for number in range(count)]


@plugin
def options(name: "string", number: "int") -> "dict":
    return {"name": name, "sizes": [number, number * 2], "more": {"odd": number % 2 == 1}}


@plugin
def first(texts: "string[]") -> "string":
    return sorted(texts)[0]


@plugin
def text(number: "int") -> "string":
    return f"10.{number // 250}.{number % 250}.1"


@plugin
def shortened(text: "string") -> "string":
    return text[-3:]
