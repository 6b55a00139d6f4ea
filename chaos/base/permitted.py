"""Which nodes' processes external actors may end or pause, and in which phase: for instruments that watch processes."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class _Permit:
    """``until`` None: still. Times: monotonic ns."""

    phase: str
    nodes: frozenset[str]
    since: int
    until: int | None = None


class Permitted:
    """The permissions of one run. One thread grants them, others ask."""

    def __init__(self) -> None:
        self._permits: tuple[_Permit, ...] = ()

    def allow(self, phase: str, nodes: Collection[str]) -> None:
        """The phase permits it for these nodes, until :meth:`allow_no_more`."""
        self._permits = (*self._permits, _Permit(phase, frozenset(nodes), time.monotonic_ns()))

    def allow_no_more(self) -> None:
        """End every permission. Idempotent."""
        now = time.monotonic_ns()
        self._permits = tuple(replace(each, until=now) if each.until is None else each for each in self._permits)

    def phase(self, node: str, at: int) -> str | None:
        """The phase that permitted it for this node at that moment (monotonic ns); None: no phase did."""
        for each in self._permits:
            if node in each.nodes and each.since <= at and (each.until is None or at <= each.until):
                return each.phase
        return None
