"""A load balancer's mind: which nodes are healthy, and which one is next. Pure; the probing is elsewhere.

It behaves as common ones do (HAProxy ``rise``/``fall``, AWS target groups): the first result decides, later
it takes several equal results in a row to change its mind, and when nothing is healthy everything is tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from chaos.load.turns import mixed, order


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


class _Round:
    """The round of one operation: its number, whom it is among, who comes yet, and who has had this turn."""

    __slots__ = ("among", "had", "left", "number", "seed")

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.number = 0
        self.among: tuple[int, ...] = ()
        self.left: list[int] = []
        self.had: list[int] = []


class Balancer:
    """Rounds over the healthy ones of ``nodes`` (numbers): each node once a round, in an order drawn for each round.

    Every operation has turns of its own, and every ``seed`` (one for each balancer) other orders, so that no two things
    that alternate fall into step: with plain counters all reads went to one node and all writes to another.
    """

    def __init__(self, nodes: Sequence[int], *, up: int = 2, down: int = 2, seed: int = 0) -> None:
        self._nodes = tuple(nodes)
        self._health = {node: Health(up, down) for node in self._nodes}
        self._seed = seed
        self._rounds: dict[int, _Round] = {}
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
        """The node for the next request of operation ``op``.

        A round that is under way goes on when nodes come or go: without those that are out, and with those that are
        new where the round's order has them. Else a node that flaps could stay in step with the ends of rounds.
        """
        turn = self._rounds.get(op)
        if turn is None:
            turn = self._rounds[op] = _Round(mixed(self._seed, op))
        if turn.among is not self._in_use:
            turn.among = self._in_use
            turn.left = [n for n in order(turn.among, turn.seed, turn.number) if n not in turn.had]
        if not turn.left:
            turn.number += 1
            turn.left, turn.had = order(turn.among, turn.seed, turn.number), []
        node = turn.left.pop(0)
        turn.had.append(node)
        return node
