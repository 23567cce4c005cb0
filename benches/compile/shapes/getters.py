"""Resources of whose five fields three are computed."""

from inmanta.resources import PurgeableResource, resource


@resource("shape::Port", id_attribute="name", agent="device")
class Port(PurgeableResource):
    fields = ("name", "device", "address", "label", "place")

    @staticmethod
    def get_address(exporter, port):
        return f"{port.device}/{port.number}"

    @staticmethod
    def get_label(exporter, port):
        return "-".join(sorted(tag.upper() for tag in port.tags)) + f"@{port.site.name}"

    @staticmethod
    def get_place(exporter, port):
        return {"site": port.site.name, "region": port.site.region, "number": port.number}
