"""What a target can do for faults, load and observation, whatever it is made of.

:class:`Target` is what each has: nodes that are spoken to. The other protocols here are what only some have, each by
the capability that it belongs to; a provider asks for those that it works by, and a target that lacks one says why, in
words. A :class:`Lab` has them all. What changes something and what takes it back are idempotent: recovery applies an
inverse without knowing whether the move came through.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from chaos.base.access import Access
from chaos.base.netsock import Endpoint
from chaos.base.paths import ProcessIdentity
from chaos.definitions import NodeSpec, Topology, hooks
from chaos.definitions.hooks import Hook
from chaos.opensearch.cluster import Zoning
from chaos.opensearch.rest import NodeClient
from chaos.targets.limits import MemoryUse, ProcessorUse
from chaos.targets.wiring import Wiring

CAPABILITIES = {
    "links": "toxics on directed links",
    "closes": "the end of a connection as a process of a host sees it",
    "bursts": "bytes at will over a link, from beside a node",
    "drop": "packets of a directed pair vanish at layer 3",
    "process": "signal, kill, stop and start a node's process",
    "data": "empty a node's data folder",
    "cpu": "cap the processor time of one node, and count it",
    "memory": "limit the memory of one node, and count failures at the limit",
    "disks": "a disk of its own for each node, that can be full, stalled, read-only, broken or cut off from power",
    "hosts": "a program of ours on the hosts of nodes that others own, reached by ssh",
    "fis": "AWS FIS in the account of the instances on which the nodes are",
    "domain": "Amazon OpenSearch Service itself, for a domain of its own",
    "pods": "the API server of the Kubernetes whose pods the nodes are",
    "helpers": "a helper pod on the machine of each node's pod, with the program for faults on hosts",
    "http": "a layer through which HTTP requests pass, with something to do to each",
    "throttle": "limit how fast a node's disk takes writes",
}
HOOK = "hook:"
"""Before a kind of fault: that the cluster's owners have a program for it."""
CAPABILITIES |= {f"{HOOK}{kind}": f"a program of the cluster's owners for {kind}" for kind in hooks.KINDS}
NO_OWNERS: dict[str, str | None] = {
    **{f"{HOOK}{kind}": "hooks are programs of a cluster's owners, and a lab is ours" for kind in hooks.KINDS},
    "hosts": "the hosts of a lab are ours, and no ssh leads to them",
    "fis": "the nodes of a lab are no instances of EC2",
    "domain": "a lab is no domain of Amazon OpenSearch Service",
    "pods": "the nodes of a lab are no pods",
    "helpers": "the nodes of a lab are no pods",
}
"""Of labs: each of these capabilities, with why it is not there."""


@dataclass(frozen=True)
class DiskAnswer:
    """What became of one measurement on a disk: ``seconds`` when it came through, ``errno`` when it was refused.

    ``blocked``: no answer within the deadline. ``device_bytes``: what the whole disk wrote meanwhile, whoever asked.
    """

    seconds: float | None = None
    errno: int | None = None
    blocked: bool = False
    device_bytes: int = 0
    text: str = ""

    def __str__(self) -> str:
        if self.blocked:
            return "no answer"
        if self.errno is not None:
            return f"refused: {os.strerror(self.errno)}"
        return f"done in {(self.seconds or 0.0) * 1000:.1f} ms"


class Disks(Protocol):
    """Each node's own small file system, which holds its data and not its logs. Needs the capability ``disks``.

    ``whose`` is ``node`` (what the node's own processes submit) or ``others`` (what the kernel submits for them).
    """

    def freeze(self, node: str) -> None:
        """No write comes through any more, reads do. Ends by itself when this process dies."""

    def thaw(self, node: str) -> None: ...

    def throttle(self, node: str, whose: str, rate: int) -> None:
        """At most ``rate`` bytes per second; what limit was there before is written down first."""

    def unthrottle(self, node: str, whose: str) -> None:
        """The limit that was there before, which is mostly none."""

    def usage(self, node: str) -> tuple[int, int]:
        """Bytes in all, and bytes that can still be written."""

    def fill(self, node: str, share: float | None) -> None:
        """A filler, until this share of the disk is used; None: until nothing can be allocated."""

    def empty(self, node: str) -> None:
        """Take the filler away."""

    # what the kernel tells of a disk for the asking, without a measurement
    def filled(self, node: str) -> int:
        """Bytes that the filler occupies; 0 without one."""

    def throttled(self, node: str, whose: str) -> int | None:
        """Bytes per second that limit writes now; None without a limit, or where nothing can be limited."""

    def is_read_only(self, node: str) -> bool: ...

    def still_waits(self, node: str) -> bool:
        """Whether a measurement that got no answer in time still waits in the kernel."""

    def make_read_only(self, node: str) -> None: ...

    def fail(self, node: str) -> None:
        """Every read and write is an I/O error from now on; what was written before is safe."""

    def cut_power(self, node: str) -> None:
        """Kill the node, lose what was not fsynced, and have the disk back with the rest."""

    def restore(self, node: str) -> None:
        """Kill the node, repair and mount its disk, where that takes no writes. Does not start the node."""

    def probe(
        self,
        node: str,
        do: str,
        *,
        timeout: float,
        size: int = 4096,
        count: int = 1,
        sync: bool = True,
        whose: str | None = None,
        token: str = "",
    ) -> DiskAnswer:
        """Measure in a process of its own. ``do``: ``write`` in place, ``sync``, ``grow``, ``read``, or ``mark``.

        ``mark`` leaves a file of two lines with ``token``, the second one not fsynced; ``read`` with a token reads it.
        Raises Lacking where nothing can be measured on the disk of this node.
        """

    def tidy(self, node: str) -> None:
        """Take probe files away, as far as the disk lets us."""

    def problems(self) -> list[str]:
        """Every disk that is not as it was when the lab had just come up."""


class Target(Protocol):
    """A cluster whose nodes are known by name."""

    id: str
    kind: ClassVar[str]
    topology: Topology
    wiring: Wiring
    relayed: bool
    """Whether :meth:`connect` leads through a relay: it succeeds before anybody was reached, and a refusal or a reset
    comes out of it as a close."""
    asks: bool
    """Whether nodes are asked by REST what they get from each other: no process of ours can be beside them, so
    :meth:`connect` leads from clients to nodes alone."""

    @property
    def zoning(self) -> Zoning:
        """What the cluster calls the zones."""

    def lacks(self, capability: str) -> str | None:
        """None when it can be done here; else the reason why it cannot."""

    def node(self, name: str) -> NodeSpec: ...

    @property
    def viewers(self) -> tuple[str, ...]:
        """Who can be asked how the cluster is (:class:`chaos.opensearch.cluster.Cluster`)."""

    def client(self, node: str, *, timeout: float = 5.0) -> NodeClient:
        """HTTP to a node over a path of its own, that no fault touches."""

    def administration(self, node: str) -> Endpoint:
        """Where the REST API of a node is reached, over that path."""

    @property
    def access(self) -> Access:
        """How the REST API of its nodes is spoken to."""

    def connect(self, host: str, address: tuple[str, int], timeout: float) -> socket.socket:
        """A connection as that host's processes would open it, with TLS where the cluster is secured.

        ``timeout`` holds for the connect and once more for TLS. Raises OSError.
        """


class Toxiproxies(Protocol):
    """Toxiproxies on the path of every connection between hosts: ``links``."""

    def add_toxic(
        self, host: str, proxy: str, toxic: str, kind: str, stream: str, attributes: dict[str, Any]
    ) -> None: ...

    def remove_toxic(self, host: str, proxy: str, toxic: str) -> bool | None: ...

    def set_proxy(self, host: str, proxy: str, enabled: bool) -> bool | None: ...

    def proxies(self, host: str) -> dict[str, Any]:
        """Name → proxy of a host with its toxics, as its Toxiproxy says: a hint, and no proof of anything."""


class Neighbours(Protocol):
    """Entries of the hosts' own tables of neighbours: ``drop``."""

    def block_neighbour(self, host: str, peer: str) -> None: ...

    def restore_neighbour(self, host: str, peer: str) -> None: ...


class Processes(Protocol):
    """The nodes' processes: ``process`` and ``data``."""

    def kill_node(self, node: str) -> None: ...

    def stop_node(self, node: str) -> None: ...

    def start_node(self, node: str) -> None: ...

    def pause_node(self, node: str) -> None: ...

    def resume_node(self, node: str) -> None: ...

    def wipe_node(self, node: str) -> None: ...

    def process_state(self, node: str) -> str | None:
        """The kernel's letter for the node's process (``T`` when stopped), None when it is gone. On a cluster that
        exists ``?`` where nobody can be asked, and ``!`` where its host gave no answer."""

    def data_is_empty(self, node: str) -> bool: ...

    def version(self, node: str) -> str:
        """The version of OpenSearch that a node runs, or will when it is started."""

    def set_version(self, node: str, version: str) -> None:
        """What a node will run when it is started next; it must not run now."""

    def identity(self, node: str) -> ProcessIdentity | None:
        """The node's process as last started; it may be dead."""


class Groups(Protocol):
    """Limits of one node: ``cpu`` and ``memory``, which are the values of ``resource``."""

    def limits(self, node: str, resource: str) -> dict[str, str]:
        """What limits it now, in the target's own words: for :meth:`restore_limits`.

        Raises Lacking where nobody can be asked that of this node, as of a host of others that the file does not name.
        """

    def restore_limits(self, node: str, resource: str, values: Mapping[str, str]) -> None:
        """Put back what :meth:`limits` said; nothing said means no limit."""

    def limit_processors(self, node: str, processors: float) -> None: ...

    def squeeze_memory(self, node: str, headroom: int) -> None:
        """Leave the node what it has and may still touch, and ``headroom`` bytes for file pages; nothing is killed."""

    def exhaust_memory(self, node: str) -> None:
        """Have the kernel kill the node's process for want of memory; returns when it is gone."""

    def processor_use(self, node: str) -> ProcessorUse: ...

    def memory_use(self, node: str) -> MemoryUse: ...

    def read_files(self, node: str, size: int) -> int:
        """Read ``size`` bytes of files twice beside the node, in its limits; major faults of the second time."""


class Hooks(Protocol):
    """Programs of the cluster's owners: ``hook:`` and a kind of fault."""

    id: str
    folder: Path
    wiring: Wiring
    run: str
    """The run that is under way on it, by its folder's name; empty where none is."""

    def hook(self, kind: str) -> Hook:
        """Raises LabError where there is none for this kind."""

    @property
    def hooks_folder(self) -> Path:
        """Where the programs are started."""


class WithDisks(Protocol):
    """A disk of its own for each node: ``disks`` and ``throttle``."""

    @property
    def disks(self) -> Disks: ...


class HttpRequests(Protocol):
    """What passes to one host as HTTP requests: rules for them, and the record of them
    (:mod:`chaos.targets.http_addon`)."""

    record: Path

    def add(self, rule: Mapping[str, Any]) -> None:
        """From now on requests meet this rule; idempotent."""

    def remove(self, id: str) -> bool:
        """They do not any more, and those that it holds end; whether it was there."""

    def rules(self) -> list[dict[str, Any]]:
        """Those in force."""


class WithHttpLayers(Protocol):
    """A layer through which HTTP requests to a host pass: ``http``."""

    def http_layer(self, host: str) -> HttpRequests:
        """Of a host in ``wiring.layered``."""


class Lab(Target, Toxiproxies, Neighbours, Processes, Groups, WithDisks, WithHttpLayers, Protocol):
    """A topology that runs somewhere, and that is ours."""

    @classmethod
    def offers(cls, topology: Topology) -> dict[str, str | None]:
        """Each of CAPABILITIES with None, or why a lab of this kind and topology would lack it; starts nothing."""

    def log(self, node: str) -> Path: ...
