"""Doors to a lab: ports of this machine, behind which bytes go to a node, a proxy, a Toxiproxy, and back.

So a lab can be taken for a cluster that somebody else set up: by addresses alone.
"""

from __future__ import annotations

import itertools
import re
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from chaos.base.netsock import Endpoint
from chaos.targets.labs.base import BaseLab
from chaos.targets.wiring import HTTP, TRANSPORT


class Gate:
    """Holds the requests that begin with ``begins``, whole, until they are let go; those who sent them may be dead."""

    def __init__(self) -> None:
        self.begins: bytes | None = None
        self.held: list[bytes] = []
        self.free = threading.Event()

    def through(self, source: socket.socket, data: bytes) -> bytes:
        """What is sent on of what came from there, once it may pass."""
        if self.begins is None or self.free.is_set() or not data.startswith(self.begins):
            return data
        while not self._whole(data):
            data += source.recv(65536)
        self.held.append(data)
        self.free.wait()
        return data

    @staticmethod
    def _whole(data: bytes) -> bool:
        head, _, body = data.partition(b"\r\n\r\n")
        found = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
        return bool(head) and b"\r\n\r\n" in data and len(body) >= int(found[1] if found else 0)


def _pipe(source: socket.socket, target: socket.socket, gate: Gate | None = None) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data if gate is None else gate.through(source, data))
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


def _both(here: socket.socket, there: socket.socket, through: set[socket.socket], gate: Gate) -> None:
    """Bytes both ways until one side ends; then neither is kept: a run opens thousands of connections."""
    back = threading.Thread(target=_pipe, args=(there, here), daemon=True)
    back.start()
    _pipe(here, there, gate)
    back.join()
    for each in (here, there):
        through.discard(each)
        each.close()


def _serve(
    listener: socket.socket, to: Sequence[Endpoint], open_: threading.Event, through: set[socket.socket], gate: Gate
) -> None:
    turns = itertools.count()
    while True:
        try:
            here, _ = listener.accept()
        except OSError:
            return
        if not open_.is_set():
            here.close()
            continue
        here.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        first = next(turns)
        there = None
        for turn in range(len(to)):
            with suppress(OSError):
                there = to[(first + turn) % len(to)].connect(5.0)
                break
        if there is None:
            here.close()
            continue
        there.settimeout(None)
        through |= {here, there}
        threading.Thread(target=_both, args=(here, there, through, gate), daemon=True).start()


class Doors:
    """Opened one by one, closed together."""

    def __init__(self, lab: BaseLab) -> None:
        self.lab = lab
        self._listeners: list[socket.socket] = []
        self._through: set[socket.socket] = set()
        self._open = threading.Event()
        self._open.set()
        self.gate = Gate()

    def door(self, *to: Endpoint, scheme: str | None = None) -> str:
        """The URL of a door to the first of these that can be reached, beginning with another one each time."""
        listener = socket.create_server(("127.0.0.1", 0))
        self._listeners.append(listener)
        given = (listener, to, self._open, self._through, self.gate)
        threading.Thread(target=_serve, args=given, daemon=True).start()
        return f"{scheme or self.lab.access.scheme}://127.0.0.1:{listener.getsockname()[1]}"

    def nodes(self) -> dict[str, str]:
        """Node → the URL of the node itself."""
        return {node.name: self.door(self.lab.administration(node.name)) for node in self.lab.topology.nodes}

    def _seen_by(self, zone: str) -> dict[str, Endpoint]:
        """Data node → where the clients of a zone reach it, behind their Toxiproxy."""
        return {
            node.name: self.lab.endpoint(f"client-{zone}", (self.lab.wiring[node.name].loopback, HTTP))
            for node in self.lab.topology.data_nodes
        }

    def balancers(self) -> dict[str, str]:
        """Zone → a load balancer of its clients, which takes in turn the data nodes of zones that are weighted in."""
        used = [
            node.name for node in self.lab.topology.data_nodes if (self.lab.topology.weights or {}).get(node.zone, 1)
        ]
        return {zone: self.door(*(self._seen_by(zone)[name] for name in used)) for zone in self.lab.topology.zones}

    def toxiproxies(self, called: dict[str, str]) -> list[dict[str, Any]]:
        """All Toxiproxies as the file of a target names them. ``called``: the lab's zone → what the file calls it."""
        made, data = [], {node.name for node in self.lab.topology.data_nodes}
        for host in self.lab.wiring.hosts:
            client = host.kind == "client"
            proxies = {}
            for peer in self.lab.wiring.nodes:
                if peer == host or (client and peer.name not in data):
                    continue
                at = self.lab.endpoint(host.name, (peer.loopback, HTTP if client else TRANSPORT))
                opener = f"clients of zone {called[host.zone]}" if client else host.name
                passage = {"from": opener, "to": peer.name, "url": self.door(at)}
                proxies[self.lab.wiring.toxified(host.name, peer.name)[0].proxy] = passage
            api = self.door(self.lab.toxiproxy(host.name).endpoint, scheme="http")
            made.append({"api": api, "proxies": proxies})
        return made

    def cut(self) -> None:
        """Nobody comes through any more, and who was is out."""
        self._open.clear()
        for each in list(self._through):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        self._open.set()

    def close(self) -> None:
        self.gate.free.set()
        for listener in self._listeners:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()


@contextmanager
def doors(lab: BaseLab) -> Iterator[Doors]:
    """For as long as the block lasts."""
    made = Doors(lab)
    try:
        yield made
    finally:
        made.close()
