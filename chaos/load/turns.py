"""Whose turn it is: rounds in which everyone comes once, in an order that is drawn for each round.

A plain counter falls into step with whatever alternates beside it: where one thing draws twice from one counter over
two nodes, its first draw always gets the one node and its second always the other. Orders that are drawn from a seed,
what the turns are for and the number of the round have nothing to be in step with, and stay fair: over n rounds
everyone comes n times. All functions are pure; the same seed gives the same turns on any machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_ALL = 0xFFFFFFFFFFFFFFFF


def mixed(*numbers: int) -> int:
    """64 well mixed bits of some numbers."""
    bits = 0
    for number in numbers:
        bits = stirred(bits, number)
    return bits


def stirred(bits: int, number: int) -> int:
    """``bits`` with one more number mixed in: SplitMix64's finalizer."""
    bits = (bits + number + 0x9E3779B97F4A7C15) & _ALL
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & _ALL
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & _ALL
    return bits ^ (bits >> 31)


def order(members: Iterable[int], *of: int) -> list[int]:
    """``members`` in the order that belongs to ``of``: a seed and whatever tells this order from others."""
    base = mixed(*of)
    return sorted(members, key=lambda member: stirred(base, member))


def at(number: int, members: Sequence[int], *of: int) -> int:
    """Who has turn ``number`` (from 0) of rounds over ``members``, which are never others."""
    turn, place = divmod(number, len(members))
    return order(members, *of, turn)[place]


def client_of(k: int, op: int, zones: int, seed: int) -> int:
    """The client zone (its number) of arrival ``k`` of operation ``op``: a draw, because a round would tie operations
    that alternate to zones. Spelled out, since every arrival pays for it."""
    bits = (k + 1) * 0x9E3779B97F4A7C15 + (seed + op) * 0xBF58476D1CE4E5B9
    bits &= _ALL
    bits ^= bits >> 29
    return ((bits * 0x94D049BB133111EB & _ALL) >> 32) % zones
