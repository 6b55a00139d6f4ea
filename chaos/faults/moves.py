"""Moves: the few primitive changes that faults are made of, as plain data, each with its inverse.

A fault is a list of moves made by a pure function; one applier (here) carries them out on a lab. Because a move and
its inverse are data, they fit in the ledger, and another process can undo what this one did. Every move and every
inverse is idempotent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from chaos.base.errors import ChaosError, FaultError, InvalidInput, Unanswered
from chaos.base.logs import LOG
from chaos.opensearch import administration, reindexing, remote_store, rollover, snapshots
from chaos.targets.protocol import Lab

_OPERATIONS: dict[str, Callable[..., bool | None]] = {
    "nothing": lambda lab, **a: None,
    "zone.decommission": administration.decommission,
    "zone.recommission": administration.recommission,
    "zone.weights": administration.set_weights,
    "zone.weights.restore": administration.restore_weights,
    "votes.exclude": administration.exclude_votes,
    "votes.include": administration.include_votes,
    "failover.away": administration.undo_failover,
    "failover.restore": administration.restore_failover,
    "index.create": administration.create_index,
    "index.delete": administration.delete_index,
    "index.close": administration.close_index,
    "index.open": administration.open_index,
    "cluster.reroute": administration.reroute,
    "index.convert": reindexing.convert,
    "index.forget": reindexing.forget,
    "remote_store.restore": remote_store.restore,
    "rolled.create": rollover.create,
    "rolled.delete": rollover.delete,
    "snapshot.drop": snapshots.drop,
    "snapshot.forget": snapshots.forget,
    "snapshot.restore": snapshots.restore,
    "snapshot.take": snapshots.take,
}


Operation = Callable[..., bool | None]
"""(target, **arguments) carries a move out. Of what takes one back: True where it saw the move's effect and undid it,
False where nothing of it was there; None where it does not say."""
Late = Callable[..., float | None]
"""(target, **arguments) → after how many seconds, from when it was written down, a move whose sender is dead can no
longer be carried out; 0: it never can once its inverse was applied; None: no bound is known."""
Fence = Callable[..., None]
"""(target, **arguments) keeps who made a move from making it again. It is asked for by who takes it back instead."""
CLUSTER = "cluster"
"""Where a move happens that is asked of the cluster as a whole."""


Setting = tuple[str, str]
"""(``cluster`` or ``index``, full name): one of the cluster, or of the load's index; or (``zones``, ``votes``)."""
Sets = Callable[..., Mapping[Setting, Any]]
VOTES: Setting = ("zones", "votes")
"""The names of the nodes without a vote, in order; None: all have theirs."""
_SETS: dict[str, Sets] = {
    "votes.exclude": lambda nodes: {VOTES: ", ".join(sorted(nodes))},
    "votes.include": lambda nodes: {VOTES: None},
}


def never(lab: Lab, **arguments: Any) -> float:
    """Of moves that are not sent to anybody, or that whoever takes them refuses once they were taken back."""
    return 0.0


SIGNED_SECONDS = 900.0
"""AWS takes a request within 5 minutes of the time that its signature names (IAM User Guide, elements of a request
signature). Three times that: two clocks may be off."""


def signed(lab: Lab, **arguments: Any) -> float:
    """Of moves that are sent to AWS: their signature is too old afterwards."""
    return SIGNED_SECONDS


_LATE: dict[str, Late] = {"nothing": never}
_FENCES: dict[str, Fence] = {}
_LAST: set[str] = set()
_OWN: set[str] = set()


def operation(
    name: str,
    *,
    sets: Sets | None = None,
    late: Late | None = None,
    fence: Fence | None = None,
    last: bool = False,
    own: bool = False,
) -> Callable[[Operation], Operation]:
    """Decorates a function (lab, **arguments) that carries out moves of this name; idempotent, raises ChaosError.

    It raises Unanswered where it sent what it was to send and does not know what became of it.

    ``sets``: (**arguments) → the settings that such a move changes, with the value that each then has (None: none).
    What no move has set is somebody else's doing, and ends a run.
    ``late``: see :data:`Late`; without it no bound is known. ``fence``: see :data:`Fence`. ``last``: it forgets what
    was written down, or takes away what others are undone by, so it waits until nothing else is left. ``own``: it goes
    by the run's name, or by a mark drawn for one fault, so it can take away nothing that another run has made, nor who
    has the cluster by now.
    """

    def register(function: Operation) -> Operation:
        other = _OPERATIONS.get(name)
        if other is not None and other.__module__ != function.__module__:
            raise InvalidInput(
                f"{function.__module__} brings a move '{name}', which is one of {other.__module__}",
                remedy="give it a name of its own: a ledger finds what undoes a move by its name",
            )
        _OPERATIONS[name] = function
        if sets is not None:
            _SETS[name] = sets
        if late is not None:
            _LATE[name] = late
        if fence is not None:
            _FENCES[name] = fence
        if last:
            _LAST.add(name)
        if own:
            _OWN.add(name)
        return function

    return register


def known(name: str) -> Operation:
    """What carries moves of this name out. Raises FaultError where nobody here can."""
    if name not in _OPERATIONS:
        raise FaultError(
            f"nobody here can make the move {name}", remedy="use the version, and the providers, that wrote it down"
        )
    return _OPERATIONS[name]


@dataclass(frozen=True)
class Move:
    """One change. ``operation`` names what carries it out, ``arguments`` are JSON values.

    A move can be read wherever a ledger is; it is carried out where the provider of its operation is.
    """

    operation: str
    arguments: dict[str, Any] = field(default_factory=dict)

    def apply(self, lab: Lab) -> bool | None:
        """Carry it out; what it says of what was there (:data:`Operation`). Raises ChaosError."""
        began = time.monotonic()
        try:
            seen = known(self.operation)(lab, **self.arguments)
        except Exception as error:
            LOG.warning("%s: failed after %.3f s: %s", self, time.monotonic() - began, said(error))
            raise
        LOG.debug("%s: %.3f s", self, time.monotonic() - began)
        return seen

    def to_json(self) -> dict[str, Any]:
        return {"operation": self.operation, "arguments": self.arguments}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Move:
        """Raises FaultError for what is no move."""
        try:
            return cls(data["operation"], data["arguments"])
        except (KeyError, TypeError) as error:
            raise FaultError(
                f"a ledger holds a move that this version cannot read ({error})",
                remedy="use the version of opensearch-chaos that wrote it",
            ) from None

    @property
    def sets(self) -> Mapping[Setting, Any]:
        """The settings that it changes, with the value that each then has."""
        return _SETS[self.operation](**self.arguments) if self.operation in _SETS else {}

    def late(self, lab: Lab) -> float | None:
        """As :data:`Late`. In a lab all ways are ours, and nothing on them holds what a dead process has sent."""
        if not lab.asks:
            return 0.0
        return _LATE[self.operation](lab, **self.arguments) if self.operation in _LATE else None

    def fence(self, lab: Lab) -> None:
        """As :data:`Fence`. Raises ChaosError."""
        if self.operation in _FENCES:
            _FENCES[self.operation](lab, **self.arguments)

    @property
    def last(self) -> bool:
        """Whether it forgets what was written down, or takes away what others are undone by."""
        return self.operation in _LAST

    @property
    def own(self) -> bool:
        """Whether it can take away nothing but what its run has made."""
        return self.operation in _OWN

    @property
    def where(self) -> str:
        """The host that it happens on; moves on different hosts do not touch each other."""
        return str(self.arguments.get("host") or self.arguments.get("node") or CLUSTER)

    def __str__(self) -> str:
        said = {k: v for k, v in self.arguments.items() if v not in ({}, None)}
        return f"{self.operation} " + " ".join(f"{key}={value}" for key, value in said.items())


@dataclass(frozen=True)
class Reversible:
    """A move with what takes it back; ``inverse`` is None only where nothing can (an emptied data folder)."""

    move: Move
    inverse: Move | None


def apply_moves(
    lab: Lab,
    moves: Sequence[Move],
    *,
    in_order: bool = False,
    stopped: Callable[[], bool] = lambda: False,
    unanswered: Callable[[Move], None] = lambda move: None,
) -> list[str]:
    """Moves on different hosts at once, those on one host in order; or all in order. Returns what failed.

    The first failure of a host, or of the order, ends its row. So does a stop, which is no failure. ``unanswered`` is
    told of each move that was tried and of which nobody said what became of it.
    """
    rows: dict[str, list[Move]] = {}
    for move in moves:
        rows.setdefault("" if in_order else move.where, []).append(move)

    def work(mine: list[Move]) -> str | None:
        for move in mine:
            if stopped():
                return None
            try:
                move.apply(lab)
            except Exception as error:  # what was made by now has to be undone, whatever it is
                if is_open(error):
                    unanswered(move)
                return f"{move}: {said(error)}"
        return None

    if not rows:
        return []
    with ThreadPoolExecutor(min(len(rows), 16)) as pool:
        return [failure for failure in pool.map(work, rows.values()) if failure]


def is_open(error: Exception) -> bool:
    """Whether a move that ended so may still be carried out. What is no error of ours says nothing of that."""
    return isinstance(error, Unanswered) or not isinstance(error, ChaosError)


def said(error: Exception) -> str:
    """An exception in a few words; of ours, its own."""
    return str(error) if isinstance(error, ChaosError) else f"{type(error).__name__}: {error}"


def on_node(operation: str, inverse: str | None, node: str) -> Reversible:
    return Reversible(Move(operation, {"node": node}), Move(inverse, {"node": node}) if inverse else None)
