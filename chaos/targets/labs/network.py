"""Network namespaces, the bridge that joins them, and neighbour entries; through pyroute2.

The bridge lives in a namespace of its own: in the root namespace a running Docker engine
(``bridge-nf-call-iptables=1``, FORWARD policy DROP) would drop the hosts' traffic without a word. Every neighbour
entry is permanent from the start, so there is no ARP, and cutting a directed pair is one netlink message: the
neighbour's hardware address becomes one that nobody has.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from pyroute2 import IPRoute, netns
from pyroute2.netlink.exceptions import NetlinkError

from chaos.base.errors import LabError, MissingPrerequisite
from chaos.base.netsock import Namespace, create_namespace
from chaos.base.paths import PREFIX
from chaos.targets.wiring import NETNS_FOLDER, Host, Wiring

PERMANENT = 0x80
"""NUD_PERMANENT, linux/neighbour.h."""
PREFIX_LENGTH = 24
SYSCTLS = {
    "ipv6/conf/all/disable_ipv6": "1",
    # Toxiproxy 2.12 dials its upstream inside its accept loop. With the kernel's 6 SYN retries one dial into a black
    # hole blocks that proxy for two minutes (seen: a healed zone's proxies stayed silent for more than 20 s).
    "ipv4/tcp_syn_retries": "1",
}
"""Per-namespace kernel settings, below /proc/sys/net."""


def namespaces(prefix: str = PREFIX) -> list[str]:
    """Names of the namespaces that begin with ``prefix``."""
    if not NETNS_FOLDER.is_dir():
        return []
    return sorted(entry.name for entry in NETNS_FOLDER.iterdir() if entry.name.startswith(prefix))


@contextmanager
def netlink(namespace: str | Namespace) -> Iterator[IPRoute]:
    # pyroute2's own netns= forks a child for each socket; a descriptor needs no fork
    space = Namespace(NETNS_FOLDER / namespace) if isinstance(namespace, str) else namespace
    try:
        sock = space.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, socket.NETLINK_ROUTE)
    except OSError as error:
        raise LabError(f"network of {namespace}: {error.strerror}") from error
    try:
        with IPRoute(fileno=sock.detach()) as route:
            yield route
    except NetlinkError as error:
        raise LabError(f"network of {namespace}: {error}") from error


def require_root() -> None:
    """Raises MissingPrerequisite when this user cannot make namespaces; asked before anything is started."""
    if os.geteuid() != 0:
        raise MissingPrerequisite("a local lab needs root, for network namespaces", remedy="run it as root (sudo)")


def build(wiring: Wiring) -> None:
    """Create every namespace, the bridge and the cables. Raises LabError; the caller sweeps what is half there."""
    require_root()
    try:
        for name in (wiring.bridge_namespace, *(host.namespace_name for host in wiring.hosts)):
            create_namespace(NETNS_FOLDER / name)
    except OSError as error:
        raise LabError(f"cannot create a network namespace: {error.strerror}") from error
    with netlink(wiring.bridge_namespace) as route:
        route.link("add", ifname="br", kind="bridge")
        bridge = route.link_lookup(ifname="br")[0]
        route.link("set", index=bridge, state="up")
        for host in wiring.hosts:
            port = f"h{host.index}"
            route.link(
                "add",
                ifname=port,
                kind="veth",
                peer={"ifname": "eth0", "address": host.mac, "net_ns_fd": host.namespace_name},
            )
            route.link("set", index=route.link_lookup(ifname=port)[0], master=bridge, state="up")
    for host in wiring.hosts:
        with host.namespace.entered():
            for name, value in SYSCTLS.items():
                with suppress(FileNotFoundError):  # a kernel without IPv6
                    Path("/proc/sys/net", name).write_text(value)
        with netlink(host.namespace_name) as route:
            card = route.link_lookup(ifname="eth0")[0]
            route.link("set", index=route.link_lookup(ifname="lo")[0], state="up")
            route.link("set", index=card, state="up")
            route.addr("add", index=card, address=host.bridge_address, prefixlen=PREFIX_LENGTH)
            for peer in wiring.hosts:
                if peer != host:
                    route.neigh("replace", dst=peer.bridge_address, lladdr=peer.mac, ifindex=card, state=PERMANENT)


def set_neighbour(host: Host, peer: Host, mac: str) -> None:
    """Make packets host → peer go to hardware address ``mac``. Idempotent."""
    redirect(host.namespace, peer.bridge_address, mac)


def neighbour(host: Host, peer: Host) -> str | None:
    """The hardware address to which packets host → peer go now."""
    return entry(host.namespace, peer.bridge_address)


def redirect(space: Namespace, address: str, mac: str) -> None:
    """Make packets from a namespace to an address of its network go to hardware address ``mac``. Idempotent."""
    with netlink(space) as route:
        card = route.link_lookup(ifname="eth0")[0]
        route.neigh("replace", dst=address, lladdr=mac, ifindex=card, state=PERMANENT)


def forget(space: Namespace, address: str) -> None:
    """Let a namespace ask anew where an address is. Idempotent."""
    with netlink(space) as route:
        card = route.link_lookup(ifname="eth0")[0]
        with suppress(NetlinkError):  # nobody had asked yet
            route.neigh("del", dst=address, ifindex=card)


def entry(space: Namespace, address: str) -> str | None:
    """The hardware address to which packets from a namespace to an address go now; None when nobody has asked."""
    with netlink(space) as route:
        for found in route.get_neighbours(dst=address):
            return str(found.get_attr("NDA_LLADDR"))
    return None


def processes_in(names: list[str]) -> dict[int, str]:
    """Every process that lives in one of these namespaces: pid → namespace name."""
    inodes = {}
    for name in names:
        try:
            inodes[Namespace(NETNS_FOLDER / name).inode] = name
        except FileNotFoundError:
            continue
    found = {}
    for pid in psutil.pids():
        try:
            inode = os.stat(f"/proc/{pid}/ns/net").st_ino
        except OSError:
            continue
        if inode in inodes and pid != os.getpid():
            found[pid] = inodes[inode]
    return found


def remove(name: str) -> None:
    """Take a namespace away; nothing to do when it is gone."""
    try:
        netns.remove(name)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EINVAL):
            raise LabError(f"cannot remove network namespace {name}: {error.strerror}") from error
        (NETNS_FOLDER / name).unlink(missing_ok=True)
