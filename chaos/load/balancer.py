"""A load balancer's mind: which nodes are healthy, and which one is next. Pure; the probing is elsewhere.

It behaves as common ones do (HAProxy ``rise``/``fall``, AWS target groups): the first result decides, later
it takes several equal results in a row to change its mind, and when nothing is healthy everything is tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass
class Health:
    """One node's health: ``up`` successes or ``down`` failures in a row turn it. None before the first."""

    up: int = 2
    down: int = 2
    healthy: bool | None = None
    _against: int = 0

    def observe(self, ok: bool) -> bool:
        """Take in one probe's result. True when the node became healthy or unhealthy by it."""
        if self.healthy is None:
            self.healthy = ok
            return True
        if ok == self.healthy:
            self._against = 0
            return False
        self._against += 1
        if self._against < (self.up if ok else self.down):
            return False
        self.healthy = ok
        self._against = 0
        return True


class Balancer:
    """Round-robin over the healthy ones of ``nodes`` (numbers), counted for each operation by itself.

    One common counter would send all reads to one node and all writes to another where the two alternate.
    """

    def __init__(self, nodes: Sequence[int], *, up: int = 2, down: int = 2) -> None:
        self._nodes = tuple(nodes)
        self._health = {node: Health(up, down) for node in self._nodes}
        self._turn: dict[int, int] = {}
        self._in_use = self._nodes
        self._steered: frozenset[int] | None = None

    @property
    def in_use(self) -> tuple[int, ...]:
        """The nodes that requests go to now."""
        return self._in_use

    def healthy(self, node: int) -> bool | None:
        return self._health[node].healthy

    def observe(self, node: int, ok: bool) -> bool:
        """Take in one probe's result. True when the node was taken in or out by it."""
        changed = self._health[node].observe(ok)
        if changed:
            self._choose()
        return changed

    def steer(self, nodes: Iterable[int] | None) -> None:
        """Use only these, as a failover controller says; None: nobody says anything, so health alone decides.

        Where none of them is healthy they are tried all the same: the controller sees more than one probe does.
        """
        self._steered = None if nodes is None else frozenset(nodes)
        self._choose()

    def _choose(self) -> None:
        healthy = tuple(n for n in self._nodes if self._health[n].healthy)
        if self._steered:
            steered = tuple(n for n in self._nodes if n in self._steered)
            self._in_use = tuple(n for n in steered if n in healthy) or steered or healthy or self._nodes
        else:
            self._in_use = healthy or self._nodes

    def choose(self, op: int) -> int:
        """The node for the next request of operation ``op``."""
        turn = self._turn.get(op, op)
        self._turn[op] = turn + 1
        return self._in_use[turn % len(self._in_use)]
