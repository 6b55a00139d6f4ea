"""What a lab can do for faults, load and observation, whatever it is made of.

Faults speak to these methods and never to a concrete lab. A lab that lacks a capability says why, in words.
Moves and their inverses are idempotent: recovery applies an inverse without knowing whether the move came through.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from chaos.definitions import NodeSpec, Topology
from chaos.lab.limits import MemoryUse, ProcessorUse
from chaos.lab.wiring import Wiring
from chaos.netsock import Client
from chaos.places import ProcessIdentity

CAPABILITIES = {
    "links": "toxics on directed links",
    "drop": "packets of a directed pair vanish at layer 3",
    "process": "signal, kill, stop and start a node's process",
    "data": "empty a node's data folder",
    "cpu": "cap the processor time of one node, and count it",
    "memory": "limit the memory of one node, and count failures at the limit",
}


class Lab(Protocol):
    """A topology that runs somewhere."""

    id: str
    kind: str
    topology: Topology
    wiring: Wiring

    @classmethod
    def offers(cls, topology: Topology) -> dict[str, str | None]:
        """Each of CAPABILITIES with None, or why a lab of this kind and topology would lack it; starts nothing."""

    def lacks(self, capability: str) -> str | None:
        """None when the lab can do it; else the reason why it cannot."""

    def node(self, name: str) -> NodeSpec: ...

    def client(self, node: str, *, timeout: float = 5.0) -> Client:
        """HTTP to a node over a path of its own, that no fault touches."""

    def connect(self, host: str, address: tuple[str, int], timeout: float) -> socket.socket:
        """A TCP connection as that host's processes would open it."""

    # moves on links
    def add_toxic(
        self, host: str, proxy: str, toxic: str, kind: str, stream: str, attributes: dict[str, Any]
    ) -> None: ...

    def remove_toxic(self, host: str, proxy: str, toxic: str) -> None: ...

    def set_proxy(self, host: str, proxy: str, enabled: bool) -> None: ...

    def block_neighbour(self, host: str, peer: str) -> None: ...

    def restore_neighbour(self, host: str, peer: str) -> None: ...

    # moves on processes
    def kill_node(self, node: str) -> None: ...

    def stop_node(self, node: str) -> None: ...

    def start_node(self, node: str) -> None: ...

    def pause_node(self, node: str) -> None: ...

    def resume_node(self, node: str) -> None: ...

    def wipe_node(self, node: str) -> None: ...

    def process_state(self, node: str) -> str | None:
        """The kernel's letter for the node's process (``T`` when stopped), None when it is gone."""

    def data_is_empty(self, node: str) -> bool: ...

    def identity(self, node: str) -> ProcessIdentity | None:
        """The node's process as last started; it may be dead."""

    # limits of one node; ``resource`` is ``cpu`` or ``memory``
    def limits(self, node: str, resource: str) -> dict[str, str]:
        """What limits it now, in the lab's own words: for :meth:`restore_limits`."""

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

    def log(self, node: str) -> Path: ...
