"""Signs of a zone's health: what was asked of it, how it went, and for how long that has gone badly.

Six kinds, because no single one can be trusted: ``probe`` (a node's own HTTP, nothing else involved), ``peer`` (a node
asked for through nodes of the other zones), ``member`` (whether the cluster counts the node), ``read`` (a canary
document read from the copy of a node), ``write`` (canary writes that need the zone) and ``threads`` (write threads of a
node that are busy and complete nothing). A kind has one or more paths in a zone.

No canary index lies in one zone alone: it would turn the cluster red as soon as that zone is lost. Each has a copy in
two neighbouring zones of a ring, so that a zone is in two of them; writes to both are late when writes wait for it,
while with three zones the third canary, which does without the zone, gets on.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Kind = Literal["probe", "peer", "member", "read", "write", "threads"]
KINDS: tuple[Kind, ...] = ("probe", "peer", "member", "read", "write", "threads")
OF_MEMBERS: tuple[Kind, ...] = ("peer", "read", "threads")
"""Kinds that ask for what a node does in the cluster."""
ALL_PATHS: frozenset[Kind] = frozenset({"write"})
"""Kinds of which every path of a zone must be bad: each path touches another zone too."""
OWN: frozenset[Kind] = frozenset({"probe", "read", "threads"})
"""Kinds that no other zone has a part in."""
OF_ASKING: frozenset[Kind] = frozenset({"probe", "read"})
"""Kinds that alone mean that a zone cannot be asked, and not that the cluster cannot work with it."""
CALM = 0.1
"""Of the recent signs of a zone's own, the part that may be bad while it is calm."""

MOSTLY = 0.8
"""Of the answers since some moment, the part that must be bad for all of that time to count as bad."""
FEWEST = 3
"""One late answer is a garbage collection, two may be; fewer than this prove nothing."""
KEPT_SECONDS = 120.0


@dataclass(frozen=True)
class Sign:
    """One question and its answer. ``at`` is when it was asked, by a monotonic clock, in seconds."""

    zone: str
    kind: Kind
    path: str
    at: float
    ok: bool
    says: str


class Record:
    """The signs of one path, oldest first; those of the last two minutes."""

    def __init__(self) -> None:
        self._signs: deque[Sign] = deque()

    def add(self, sign: Sign) -> None:
        self._signs.append(sign)
        while sign.at - self._signs[0].at > KEPT_SECONDS:
            self._signs.popleft()

    @property
    def last(self) -> Sign | None:
        return self._signs[-1] if self._signs else None

    def since(self, at: float) -> list[Sign]:
        """The signs asked for at or after a moment."""
        return [sign for sign in self._signs if sign.at >= at]

    def bad_for(self, now: float) -> float:
        """Seconds for which mostly bad answers have come, up to ``now``; 0 when the last was good.

        The longest end of the record that begins with a bad answer and holds at least :data:`FEWEST` of them and at
        least :data:`MOSTLY` bad ones.
        """
        return self._longest(now, bad=True)

    def good_for(self, now: float) -> float:
        """Seconds for which every answer has been good, up to ``now``; 0 when the last was not, or there is none."""
        return self._longest(now, bad=False)

    def _longest(self, now: float, *, bad: bool) -> float:
        least = MOSTLY if bad else 1.0
        since: float | None = None
        count = hits = 0
        for sign in reversed(self._signs):
            hit = sign.ok is not bad
            count, hits = count + 1, hits + hit
            if count == 1 and not hit:
                return 0.0
            if hits < least * count and not bad:
                break
            if hit and hits >= least * count and count >= FEWEST:
                since = sign.at
        return now - since if since is not None else 0.0


@dataclass(frozen=True)
class Evidence:
    """One kind of evidence against a zone: every path of that kind that is bad, and for how long the longest was."""

    kind: Kind
    seconds: float
    paths: tuple[str, ...]
    says: str


class Signs:
    """Every sign of every zone; any thread may add."""

    def __init__(self) -> None:
        self._records: dict[tuple[str, Kind, str], Record] = {}
        self._lock = threading.Lock()

    def add(self, signs: Iterable[Sign]) -> None:
        with self._lock:
            for sign in signs:
                self._records.setdefault((sign.zone, sign.kind, sign.path), Record()).add(sign)

    def forget(self, path: str, kind: Kind) -> None:
        """A path that is no longer asked; its past must neither accuse nor acquit."""
        with self._lock:
            for key in [key for key in self._records if key[1:] == (kind, path)]:
                del self._records[key]

    def bad_for(self, zone: str, kind: Kind, path: str, now: float) -> float:
        """Seconds for which one path has been bad; 0 where nothing is known of it."""
        with self._lock:
            record = self._records.get((zone, kind, path))
            return record.bad_for(now) if record is not None else 0.0

    def against(self, zone: str, now: float, sustained: float, *, one: bool = False) -> list[Evidence]:
        """The kinds of evidence that have spoken against a zone for at least ``sustained`` seconds, on most paths.

        ``one``: one path of a kind that needs no other zone is enough, so that one node among many is found.
        """
        found = []
        with self._lock:
            for kind in KINDS:
                paths = {path: record for (z, k, path), record in self._records.items() if (z, k) == (zone, kind)}
                bad = {p: seconds for p, record in paths.items() if (seconds := record.bad_for(now)) >= sustained > 0}
                enough = len(bad) == len(paths) if kind in ALL_PATHS else one or 2 * len(bad) > len(paths)
                if bad and enough:
                    worst = max(bad, key=lambda path: bad[path])
                    last = paths[worst].last
                    found.append(Evidence(kind, bad[worst], tuple(sorted(bad)), last.says if last else ""))
        return found

    def calm(self, zone: str, now: float, seconds: float) -> bool:
        """Whether next to nothing of a zone's own has gone badly for so long: a storm does not stop at one zone."""
        with self._lock:
            records = [record for (z, kind, _), record in self._records.items() if z == zone and kind in OWN]
            recent = [sign.ok for record in records for sign in record.since(now - seconds)]
        return recent.count(False) <= CALM * len(recent)

    def healthy_for(self, zone: str, now: float, kinds: Iterable[Kind]) -> float:
        """Seconds for which every path of these kinds has been good; 0 where one kind has never been asked."""
        wanted = tuple(kinds)
        with self._lock:
            asked = {kind: [r for (z, k, _), r in self._records.items() if (z, k) == (zone, kind)] for kind in wanted}
            if any(not records for records in asked.values()):
                return 0.0
            return min(record.good_for(now) for records in asked.values() for record in records)
