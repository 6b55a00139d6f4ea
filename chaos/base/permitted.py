"""To whose processes others may do something, and while which phase: for those that watch processes."""

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
    """Nodes whose processes others may end or pause, and when. One thread allows, others ask."""

    def __init__(self) -> None:
        self._permits: tuple[_Permit, ...] = ()

    def allow(self, phase: str, nodes: Collection[str]) -> None:
        """From now on, until :meth:`allow_no_more`: the phase waits for that."""
        self._permits = (*self._permits, _Permit(phase, frozenset(nodes), time.monotonic_ns()))

    def allow_no_more(self) -> None:
        """What is done from now on is unasked again; idempotent."""
        now = time.monotonic_ns()
        self._permits = tuple(replace(each, until=now) if each.until is None else each for each in self._permits)

    def phase(self, node: str, at: int) -> str | None:
        """The phase that lets others do that to this node at that moment (monotonic ns)."""
        for each in self._permits:
            if node in each.nodes and each.since <= at and (each.until is None or at <= each.until):
                return each.phase
        return None
