"""Every node is asked the same, again and again, by a thread of its own: for instruments that read counters."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import urllib3

from chaos.opensearch.cluster import Cluster
from chaos.opensearch.rest import UNREADABLE
from chaos.opensearch.reused import Reused

LEAST_SECONDS = 0.1
"""Between two rounds, however long a round took."""


class Polling:
    """Asks all nodes, or those that are named, at once, every ``period`` seconds, from :meth:`start` to :meth:`stop`;
    none for more than ``timeout`` seconds. Between two rounds :meth:`soon` asks for one.

    ``answered``: told of a node and of its answer, where the status is 200; several at once. What it raises for an
    answer that it cannot read (:data:`chaos.opensearch.rest.UNREADABLE`) counts as no answer. Nothing is told of a node
    that does not answer; where counters are read, its next answer reaches back over the gap.
    """

    def __init__(
        self,
        lab: Cluster,
        path: str,
        answered: Callable[[str, Any], None],
        *,
        name: str,
        period: float,
        timeout: float,
        nodes: Collection[str] | None = None,
    ) -> None:
        self._lab, self._path, self._answered = Reused(lab), path, answered
        self._name, self._period, self._timeout = name, period, timeout
        self._nodes = [node.name for node in lab.topology.nodes if nodes is None or node.name in nodes]
        self._over, self._wake = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def soon(self) -> None:
        """The next round begins at once, or right after the one that is under way. Returns at once."""
        self._wake.set()

    def stop(self, *, once_more: bool = False) -> bool:
        """End; whether it was under way. ``once_more``: ask all a last time, for what came after the last round."""
        if self._over.is_set() or self._thread.ident is None:
            return False
        self._over.set()
        self._wake.set()
        self._thread.join()
        if once_more:
            with ThreadPoolExecutor(len(self._nodes), self._name) as pool:
                self._round(pool)
        self._lab.end()
        return True

    def _run(self) -> None:
        with ThreadPoolExecutor(len(self._nodes), self._name) as pool:
            while not self._over.is_set():
                began = time.monotonic()
                self._wake.clear()
                self._round(pool)
                if not self._over.is_set():
                    self._wake.wait(max(LEAST_SECONDS, self._period - (time.monotonic() - began)))

    def _round(self, pool: ThreadPoolExecutor) -> None:
        list(pool.map(self._ask, self._nodes))

    def _ask(self, node: str) -> None:
        client = self._lab.client(node, timeout=self._timeout)
        try:
            status, body = client.request("GET", self._path)
            if status == 200:
                self._answered(node, body)
        except (urllib3.exceptions.HTTPError, *UNREADABLE):
            return
        finally:
            client.close()
