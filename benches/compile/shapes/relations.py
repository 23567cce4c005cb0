"""A plugin that goes through a relation, for which its calls wait one by one."""

from inmanta.plugins import plugin


@plugin
def summary(router: "shape::Router") -> "string":
    interfaces = sorted(router.interfaces, key=lambda interface: interface.name)
    ports = ",".join(f"{interface.name}:{interface.vlan}" for interface in interfaces)
    return f"{router.name} {router.settings['mtu']} {'/'.join(router.settings['dns'])} {ports}"
