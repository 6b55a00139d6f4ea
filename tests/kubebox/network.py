"""The network of a box: a namespace for each machine, a switch in the control plane's, one port of this machine."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from pathlib import Path

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from chaos.base.errors import InvalidInput, LabError
from chaos.base.netsock import Namespace, create_namespace
from chaos.targets.labs import network
from chaos.targets.wiring import NETNS_FOLDER
from kubebox.plan import CONTROL, HOST, MACHINES, MACHINES_OF_ZONES, PORT, Layout, overlapping


def routes() -> Iterator[str]:
    """Where this machine's routes lead, as ``10.0.0.0/8``."""
    with IPRoute() as route:
        for each in route.get_routes(family=socket.AF_INET):
            if (to := each.get_attr("RTA_DST")) is not None:
                yield f"{to}/{each['dst_len']}"


def refuse_taken() -> None:
    """Raises InvalidInput where another box is up, or this machine reaches something at the box's addresses."""
    with IPRoute() as route:
        if route.link_lookup(ifname=PORT):
            raise InvalidInput(
                f"another box is up: this machine has a network port {PORT}",
                remedy="take it away: python tests/kubebox --name NAME down",
            )
    if taken := overlapping(routes()):
        raise InvalidInput(f"this machine has routes into the box's addresses: {', '.join(taken)}")


def build(layout: Layout) -> None:
    """Make namespaces, switch, cables and routes. Raises LabError; the caller takes away what is half there."""
    try:
        for name in layout.namespaces:
            create_namespace(NETNS_FOLDER / name)
    except OSError as error:
        raise LabError(f"cannot create a network namespace: {error.strerror}") from error
    control = layout.namespace("control")
    with network.netlink(control) as route:
        route.link("set", index=route.link_lookup(ifname="lo")[0], state="up")
        route.link("add", ifname="switch", kind="bridge")
        switch = route.link_lookup(ifname="switch")[0]
        route.link("set", index=switch, state="up")
        route.addr("add", index=switch, address=str(CONTROL), prefixlen=MACHINES.prefixlen)
        for machine in MACHINES_OF_ZONES:
            peer = {"ifname": "eth0", "net_ns_fd": layout.namespace(machine.zone)}
            route.link("add", ifname=machine.name, kind="veth", peer=peer)
            route.link("set", index=route.link_lookup(ifname=machine.name)[0], master=switch, state="up")
    _host(layout, control)
    for machine in MACHINES_OF_ZONES:
        _machine(layout, machine.zone, str(machine.address))


def _machine(layout: Layout, zone: str, address: str) -> None:
    name = layout.namespace(zone)
    with Namespace(NETNS_FOLDER / name).entered():
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")  # to its pods
    with network.netlink(name) as route:
        card = route.link_lookup(ifname="eth0")[0]
        route.link("set", index=route.link_lookup(ifname="lo")[0], state="up")
        route.link("set", index=card, state="up")
        route.addr("add", index=card, address=address, prefixlen=MACHINES.prefixlen)
        route.route("add", dst="default", gateway=str(CONTROL))
        _to_pods(route, without=zone)


def _host(layout: Layout, control: str) -> None:
    """This machine's port, by which it reaches the API server and pods. Its alias says whose box it is of."""
    with IPRoute() as here:
        here.link("add", ifname=PORT, kind="veth", peer={"ifname": "host", "net_ns_fd": control})
        port = here.link_lookup(ifname=PORT)[0]
        here.link("set", index=port, state="up", ifalias=layout.prefix)
        here.addr("add", index=port, address=str(HOST), prefixlen=MACHINES.prefixlen)
        _to_pods(here)
    with network.netlink(control) as route:
        switch = route.link_lookup(ifname="switch")[0]
        route.link("set", index=route.link_lookup(ifname="host")[0], master=switch, state="up")
        _to_pods(route)


def _to_pods(route: IPRoute, without: str = "") -> None:
    for machine in MACHINES_OF_ZONES:
        if machine.zone != without:
            route.route("add", dst=str(machine.pods), gateway=str(machine.address))


def remove(layout: Layout) -> None:
    """Take all namespaces away; with the control plane's goes this machine's port. Its processes are dead by then."""
    for name in network.namespaces(layout.prefix):
        network.remove(name)
    with IPRoute() as route:
        _remove_port(route, layout)


def _remove_port(route: IPRoute, layout: Layout) -> None:
    """That of another box stays."""
    for port in route.link_lookup(ifname=PORT):
        try:
            if any(each.get_attr("IFLA_IFALIAS") == layout.prefix for each in route.get_links(port)):
                route.link("del", index=port)
        except NetlinkError as error:
            if error.code != errno.ENODEV:  # it went with its other end
                raise
