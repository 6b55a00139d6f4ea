"""A cluster whose connections are kept from one question to the next, for those who ask all the time.

A new connection costs its node, and this machine, a TLS handshake, and on a cluster that is not ours a question whose
it is: on two processors that took longer than the question itself. A connection on which something failed is not used
again, and for one that its server has closed meanwhile urllib3 makes another, so what is seen of a node is what a new
connection would show.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from urllib3.exceptions import ClosedPoolError

from chaos.definitions.topology import Topology
from chaos.opensearch.cluster import Cluster, Zoning
from chaos.opensearch.rest import NodeClient

UNAUTHORIZED = 401
A = TypeVar("A")


class ReusedClient(NodeClient):
    """The client of one node, for several questions; :meth:`end` closes it for good. Thread-safe."""

    def __init__(self, make: Callable[[], NodeClient]) -> None:
        self._make = make
        self._made: NodeClient | None = None
        self._lock = threading.Lock()

    def request(self, *args: Any, **options: Any) -> tuple[int, Any]:
        """As :meth:`NodeClient.request`. After an error, or where the password is another now, all is made anew."""
        return self._asked(lambda client: client.request(*args, **options))

    def fetch(self, *args: Any, **options: Any) -> tuple[int, bytes]:
        """As :meth:`NodeClient.fetch`; the same goes for it."""
        return self._asked(lambda client: client.fetch(*args, **options))

    def _asked(self, ask: Callable[[NodeClient], tuple[int, A]]) -> tuple[int, A]:
        used = self._current()
        try:
            answer = ask(used)
        except ClosedPoolError:  # another thread's question failed between our taking it and our asking
            used = self._current()
            return ask(used)
        except BaseException:
            self._drop(used)
            raise
        if answer[0] == UNAUTHORIZED:
            self._drop(used)
        return answer

    def _current(self) -> NodeClient:
        with self._lock:
            self._made = self._made or self._make()
            return self._made

    def _drop(self, used: NodeClient) -> None:
        with self._lock:
            if self._made is used:
                self._made = None
        used.close()

    def close(self) -> None:
        """Nothing: the next question goes on with the connection."""

    def end(self) -> None:
        """Close it; a question after that makes a new connection."""
        with self._lock:
            used, self._made = self._made, None
        if used is not None:
            used.close()


class Reused(Cluster):
    """The same cluster, whose clients are made once for each node and timeout. Thread-safe."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._clients: dict[tuple[str, float], ReusedClient] = {}
        self._lock = threading.Lock()

    @property
    def topology(self) -> Topology:
        return self._cluster.topology

    @property
    def zoning(self) -> Zoning:
        return self._cluster.zoning

    @property
    def viewers(self) -> tuple[str, ...]:
        return self._cluster.viewers

    def client(self, node: str, *, timeout: float = 5.0) -> NodeClient:
        with self._lock:
            if (node, timeout) not in self._clients:
                made = ReusedClient(lambda: self._cluster.client(node, timeout=timeout))
                self._clients[node, timeout] = made
            return self._clients[node, timeout]

    def end(self) -> None:
        """Close all connections. Idempotent."""
        with self._lock:
            for each in self._clients.values():
                each.end()
