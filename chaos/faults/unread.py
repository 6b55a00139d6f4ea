"""Searches whose answers nobody reads, and what a node says of its heap meanwhile.

A node keeps an answer on its heap until its client has taken the last byte of it.
"""

from __future__ import annotations

import socket
import threading
from typing import Any

import urllib3

from chaos.faults.echoes import Http
from chaos.opensearch.rest import UNREADABLE
from chaos.targets.protocol import Lab

DOCUMENT_BYTES = 128 * 1024
DOCUMENTS = 64
"""Of the pressure's own index: 8 MiB in one answer, and next to nothing on disk, because it compresses well."""
ANSWERS_A_HEAP = 64
"""An answer is no more than this part of a heap: what it costs while it is made must find room beside the others."""
COPIES = 3
"""A node that makes an answer holds what it found and what it writes, and lets go of the first at some later time."""
ASK_AGAIN_SECONDS = 0.3
UNREAD_BYTES = 64 * 1024
"""Buffer of a connection on which nothing is read, so that the answer waits on the node's heap and not here."""
PARTS = ("jvm.timestamp", "jvm.mem", "jvm.gc", "breakers")
STATS = f"/_nodes/_local/stats/jvm,breaker?filter_path={','.join(f'nodes.*.{part}' for part in PARTS)}"


class Heap:
    """What a node says of its heap. ``used`` is a fraction of ``most``, bytes that it may have.

    ``measured`` is when, in milliseconds of the node's own clock: a node measures once a second and repeats itself.
    """

    def __init__(self, stats: dict[str, Any]) -> None:
        (node,) = stats["nodes"].values()
        memory = node["jvm"]["mem"]
        self.measured = int(node["jvm"]["timestamp"])
        self.most = int(memory["heap_max_in_bytes"])
        self.used = memory["heap_used_in_bytes"] / self.most
        self.tripped = sum(int(breaker["tripped"]) for breaker in node["breakers"].values())
        self.full_collections = int(node["jvm"]["gc"]["collectors"]["old"]["collection_count"])

    @classmethod
    def of(cls, lab: Lab, node: str, timeout: float = 5.0) -> Heap | None:
        """None when the node does not answer in time, which a full heap may cause."""
        client = lab.client(node, timeout=timeout)
        try:
            status, stats = client.request("GET", STATS)
            return cls(stats) if status == 200 else None
        except (urllib3.exceptions.HTTPError, *UNREADABLE):
            return None
        finally:
            client.close()


def fitting(heap: Heap, above: float) -> tuple[int, int]:
    """Documents in an answer, and how many answers may be made before the heap is measured again; at least one."""
    documents = max(1, min(DOCUMENTS, heap.most // ANSWERS_A_HEAP // DOCUMENT_BYTES))
    room = (above - heap.used) * heap.most
    return documents, max(1, int(room // (COPIES * documents * DOCUMENT_BYTES)))


class UnreadAnswers:
    """A worker: searches to each node whose answers it never reads, as many as it takes to hold the heap so full.

    No search is sent on a figure from before the last answer, and never more than fit between it and the aim: a heap
    that is filled faster than it is measured ends the node.
    """

    def __init__(self, nodes: tuple[str, ...], index: str, above: float) -> None:
        self._nodes, self._index, self._above = nodes, index, above
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        self.unread: dict[str, int] = dict.fromkeys(nodes, 0)
        self.refused: dict[str, int] = dict.fromkeys(nodes, 0)

    def start(self, lab: Lab) -> None:
        self._threads = [
            threading.Thread(target=self._fill, args=(lab, node), name=f"heap of {node}", daemon=True)
            for node in self._nodes
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _fill(self, lab: Lab, node: str) -> None:
        held: list[socket.socket] = []
        old: int | None = None  # when the figure was measured that may be from before the last answer
        try:
            while not self._over.is_set():
                heap = Heap.of(lab, node, 2.0)
                if heap is not None and old is None:
                    old = heap.measured
                if heap is None or heap.measured == old or heap.used >= self._above:
                    self._over.wait(ASK_AGAIN_SECONDS)
                    continue
                documents, answers = fitting(heap, self._above)
                for _ in range(answers):
                    if self._over.is_set():
                        break
                    sock = self._search(lab, node, documents)
                    if sock is None:
                        self.refused[node] += 1
                        break
                    held.append(sock)
                    self.unread[node] = len(held)
                old = None
        finally:
            for sock in held:
                sock.close()
            self.unread[node] = 0

    def _search(self, lab: Lab, node: str, documents: int) -> socket.socket | None:
        """A connection on which an answer waits; None when the node refused or broke it off."""
        try:
            sock = lab.connect(node, (lab.wiring[node].loopback, 9200), 5.0)
        except OSError:
            return None
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, UNREAD_BYTES)
            sock.sendall(Http(lab.access.headers()).request(f"/{self._index}/_search?size={documents}"))
            if sock.recv(12) == b"HTTP/1.1 200":  # a server sends the first line whole
                return sock
        except OSError:
            pass
        sock.close()
        return None
