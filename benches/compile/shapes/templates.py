"""A filter of a template."""

from inmanta.plugins import plugin


@plugin
def quoted(text: "string") -> "string":
    return f'"{text}"'
