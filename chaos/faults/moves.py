"""Moves: the few primitive changes that faults are made of, as plain data, each with its inverse.

A fault is a list of moves made by a pure function; one applier (here) carries them out on a lab. Because a move and
its inverse are data, they fit in the ledger, and another process can undo what this one did. Every move and every
inverse is idempotent.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

from chaos.base.errors import ChaosError, FaultError
from chaos.opensearch import administration
from chaos.target.protocol import Lab

_OPERATIONS: dict[str, Callable[..., None]] = {
    "nothing": lambda lab, **a: None,
    "toxic.add": lambda lab, **a: lab.add_toxic(**a),
    "toxic.remove": lambda lab, **a: lab.remove_toxic(**a),
    "proxy.disable": lambda lab, **a: lab.set_proxy(**a, enabled=False),
    "proxy.enable": lambda lab, **a: lab.set_proxy(**a, enabled=True),
    "neighbour.block": lambda lab, **a: lab.block_neighbour(**a),
    "neighbour.restore": lambda lab, **a: lab.restore_neighbour(**a),
    "node.kill": lambda lab, **a: lab.kill_node(**a),
    "node.stop": lambda lab, **a: lab.stop_node(**a),
    "node.start": lambda lab, **a: lab.start_node(**a),
    "node.pause": lambda lab, **a: lab.pause_node(**a),
    "node.resume": lambda lab, **a: lab.resume_node(**a),
    "node.wipe": lambda lab, **a: lab.wipe_node(**a),
    "node.version": lambda lab, **a: lab.set_version(**a),
    "zone.decommission": administration.decommission,
    "zone.recommission": administration.recommission,
    "zone.weights": administration.set_weights,
    "failover.away": administration.undo_failover,
    "index.create": administration.create_index,
    "index.delete": administration.delete_index,
}


Operation = Callable[..., None]
CLUSTER = "cluster"
"""Where a move happens that is asked of the cluster as a whole."""


def operation(name: str) -> Callable[[Operation], Operation]:
    """Decorates a function (lab, **arguments) that carries out moves of this name; idempotent, raises ChaosError."""

    def register(function: Operation) -> Operation:
        _OPERATIONS[name] = function
        return function

    return register


def _known(name: str) -> Operation:
    if name not in _OPERATIONS:
        importlib.import_module("chaos.faults.kinds").discover()  # they register the moves of their own
    if name not in _OPERATIONS:
        raise ValueError(f"unknown move {name}")
    return _OPERATIONS[name]


class Events(Protocol):
    """Where what happens is written: :class:`chaos.history.EventWriter`."""

    def write(self, kind: str, *, t: int | None = None, **fields: Any) -> int: ...


@dataclass(frozen=True)
class Move:
    """One change. ``operation`` is a key of the applier's table; ``arguments`` are JSON values."""

    operation: str
    arguments: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _known(self.operation)

    def apply(self, lab: Lab) -> None:
        """Carry it out. Raises ChaosError."""
        _known(self.operation)(lab, **self.arguments)

    def to_json(self) -> dict[str, Any]:
        return {"operation": self.operation, "arguments": self.arguments}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Move:
        """Raises FaultError for a move that this version does not know: it cannot be undone by it."""
        try:
            return cls(data["operation"], data["arguments"])
        except (ValueError, KeyError, TypeError) as error:
            raise FaultError(
                f"a ledger holds a move that this version cannot read ({error})",
                remedy="use the version of opensearch-chaos that wrote it",
            ) from None

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
    lab: Lab, moves: Sequence[Move], *, in_order: bool = False, stopped: Callable[[], bool] = lambda: False
) -> list[str]:
    """Moves on different hosts at once, those on one host in order; or all in order. Returns what failed.

    The first failure of a host, or of the order, ends its row. So does a stop, which is no failure.
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
                return f"{move}: {said(error)}"
        return None

    if not rows:
        return []
    with ThreadPoolExecutor(min(len(rows), 16)) as pool:
        return [failure for failure in pool.map(work, rows.values()) if failure]


def said(error: Exception) -> str:
    """An exception in a few words; of ours, its own."""
    return str(error) if isinstance(error, ChaosError) else f"{type(error).__name__}: {error}"


def toxic(host: str, proxy: str, name: str, kind: str, stream: str, attributes: dict[str, Any]) -> Reversible:
    return Reversible(
        Move(
            "toxic.add",
            {
                "host": host,
                "proxy": proxy,
                "toxic": name,
                "kind": kind,
                "stream": stream,
                "attributes": attributes,
            },
        ),
        Move("toxic.remove", {"host": host, "proxy": proxy, "toxic": name}),
    )


def refuse(host: str, proxy: str) -> Reversible:
    where = {"host": host, "proxy": proxy}
    return Reversible(Move("proxy.disable", where), Move("proxy.enable", where))


def block(host: str, peer: str) -> Reversible:
    where = {"host": host, "peer": peer}
    return Reversible(Move("neighbour.block", where), Move("neighbour.restore", where))


def on_node(operation: str, inverse: str | None, node: str) -> Reversible:
    return Reversible(Move(operation, {"node": node}), Move(inverse, {"node": node}) if inverse else None)
