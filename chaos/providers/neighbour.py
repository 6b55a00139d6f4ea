"""Packets that vanish at layer 3: the neighbour's hardware address becomes one that nobody has."""

from __future__ import annotations

from collections.abc import Iterable

from chaos.faults.fault import Grade, Link
from chaos.faults.kinds.network import NetworkDrop
from chaos.faults.moves import Move, Reversible, operation
from chaos.faults.offers import Aim, Means, Provider
from chaos.targets.protocol import Neighbours

PROVIDER = Provider(
    "neighbour", "neighbour entries that lead nowhere, in the hosts' own network namespaces", grade=Grade.PATH
)


@operation("neighbour.block")
def _block(lab: Neighbours, host: str, peer: str) -> None:
    lab.block_neighbour(host, peer)


@operation("neighbour.restore")
def _restore(lab: Neighbours, host: str, peer: str) -> None:
    lab.restore_neighbour(host, peer)


def blocked(links: Iterable[Link]) -> list[Reversible]:
    """The moves that let the packets of directed links vanish, in a fixed order."""
    return [
        Reversible(Move("neighbour.block", where), Move("neighbour.restore", where))
        for where in ({"host": a, "peer": b} for a, b in sorted(links))
    ]


@PROVIDER.carries_out(
    NetworkDrop,
    mechanism="packets vanish at layer 3 (neighbour entry to a hardware address that nobody has)",
    undoing="the neighbour entries come back; connections go on",
    needs=("drop",),
)
def drop(fault: NetworkDrop, aim: Aim) -> Means:
    return Means(tuple(blocked(aim.links)))
