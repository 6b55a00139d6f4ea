"""Runaway queries: searches of an index of the fault's own, so many at a time for as long as the fault holds, or a new
one at a fixed interval until so many run.

Each loops for each document and so takes seconds of a processor; it ends by itself, since documents and rounds are
bounded. They are known by the name of their index, which stands in the tasks that a node shows.
"""

from __future__ import annotations

import threading
import time
from collections import Counter

import urllib3

from chaos.faults.evidence import Look, Probe
from chaos.opensearch.cluster import Cluster
from chaos.opensearch.rest import UNREADABLE
from chaos.targets.protocol import Lab

DOCUMENTS = 20_000
"""Of the index, in one shard."""
SCRIPT = "long x = 0; for (int i = 0; i < params.rounds; ++i) { x += (i * 31 + x) % 7; } return x != params.never;"
TASKS = "/_tasks?nodes=_local&detailed=true&actions=indices:data/read/search"
"""Of whole searches, on the node that was asked; those of shards are their children and end with them."""
ANSWER_SECONDS, TASK_SECONDS, JOIN_SECONDS = 120.0, 3.0, 60.0


def query(rounds: int) -> dict[str, object]:
    """A body for ``_search``."""
    script = {"lang": "painless", "source": SCRIPT, "params": {"rounds": rounds, "never": -1}}
    return {"size": 0, "query": {"bool": {"filter": {"script": {"script": script}}}}}


def running(cluster: Cluster, node: str, index: str) -> list[str] | None:
    """The ids of the tasks of searches of an index, as the node that coordinates them tells; None without an answer."""
    client = cluster.client(node, timeout=TASK_SECONDS)
    try:
        status, answer = client.request("GET", TASKS)
        if status != 200:
            return None
        return [
            str(task)
            for each in answer["nodes"].values()
            for task, said in each["tasks"].items()
            if f"indices[{index}]" in str(said.get("description"))
        ]
    except (urllib3.exceptions.HTTPError, *UNREADABLE):
        return None
    finally:
        client.close()


def cancel(cluster: Cluster, index: str) -> int | None:
    """Ask each node to cancel its searches of an index. How many there were; None where a node did not tell."""
    told, found = True, 0
    for node in [each.name for each in cluster.topology.nodes]:
        tasks = running(cluster, node, index)
        told = told and tasks is not None
        for task in tasks or ():
            found += 1
            client = cluster.client(node, timeout=TASK_SECONDS)
            try:
                client.request("POST", f"/_tasks/{task}/_cancel")
            except (urllib3.exceptions.HTTPError, *UNREADABLE):
                told = False
            finally:
                client.close()
    return found if told or found else None


class Runaway:
    """A worker: ``queries`` searches at a time at most, to the nodes in turn.

    ``every``: seconds between the starts of two of them. None: all start at once, and each is sent again when it was
    answered.
    """

    def __init__(
        self, nodes: tuple[str, ...], index: str, queries: int, rounds: int, every: float | None = None
    ) -> None:
        self.nodes, self.index, self.queries, self.every = nodes, index, queries, every
        self._body = query(rounds)
        self._next = 0.0
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._lab: Lab | None = None
        self.answers: Counter[str] = Counter()
        """Status, or the name of an error, → how often."""

    def start(self, lab: Lab) -> None:
        self._lab = lab
        self._threads = [
            threading.Thread(
                target=self._send, args=(lab, self.nodes[n % len(self.nodes)]), name=f"runaway {n}", daemon=True
            )
            for n in range(self.queries)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> Look | None:
        """End it: what is under way is cancelled, again until no search is waited for, or for a minute."""
        self._over.set()
        deadline = time.monotonic() + JOIN_SECONDS
        while any(thread.is_alive() for thread in self._threads) and time.monotonic() < deadline:
            if self._lab is not None:
                cancel(self._lab, self.index)
            for thread in self._threads:
                thread.join(0.3)
        with self._lock:
            sent = sum(self.answers.values())
            said = ", ".join(f"{number} with {status}" for status, number in self.answers.most_common())
        probe = Probe("searches that were answered", "any", said or "none", True)
        return Look(True, f"runaway queries: {sent} answered", [probe])

    def _turn(self) -> float:
        """Seconds until the next search may be sent, which is the caller's."""
        if self.every is None:
            return 0.0
        now = time.monotonic()
        with self._lock:
            start = max(now, self._next)
            self._next = start + self.every
        return start - now

    def _send(self, lab: Lab, node: str) -> None:
        client = lab.client(node, timeout=ANSWER_SECONDS)
        try:
            while not self._over.wait(self._turn()):
                try:
                    status, _ = client.request("POST", f"/{self.index}/_search?request_cache=false", body=self._body)
                    said = str(status)
                except (urllib3.exceptions.HTTPError, *UNREADABLE) as error:
                    said = type(error).__name__
                with self._lock:
                    self.answers[said] += 1
                if said != "200":
                    self._over.wait(0.2)
        finally:
            client.close()
