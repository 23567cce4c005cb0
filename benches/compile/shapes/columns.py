"""Attributes by their names, as tables and templates of people ask for them, and texts of whole dicts."""

from inmanta.plugins import plugin
from inmanta.resources import PurgeableResource, resource

COLUMNS = ("size", "color")


@plugin
def row(row: "shape::Row", columns: "string[]", path: "string") -> "string":
    value = row
    for part in path.split("."):
        value = getattr(value, part)
    return ",".join(str(getattr(row, column)) for column in columns) + f" of {value}"


@plugin
def shown(meta: "dict") -> "string":
    return f"{meta}"


@resource("shape::Row", id_attribute="name", agent="agent")
class Row(PurgeableResource):
    fields = ("name", "agent", "summary", "label", "upper")
    map = {"label": lambda _, row: f"{row.name}/{row.size}", "upper": lambda _, row: row.name.upper()}

    @staticmethod
    def get_summary(exporter, row):
        return {column: getattr(row, column) for column in COLUMNS} | Row.limits(row)

    @staticmethod
    def limits(row):
        return dict(row.meta["limits"].items())
