"""What was proven on clusters that exist, and until when that counts: one row a cluster and promise.

A cluster changes after a run: nodes, versions, settings, data. So a promise that held is proven for a number of days,
and expired after them. One run decides here, as its own verdict does; how often a promise holds is what series and
scorecards of labs are for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from chaos.checks.reasons import Outcome
from chaos.checks.verdict import Counts
from chaos.statistics.facts import Facts, is_relaxed

VERSION = 1
KIND, PREFIX = "existing", "existing-"
"""Of ``lab.kind`` and ``lab.id`` in the plan of a run on a cluster that exists."""


class Standing(StrEnum):
    """Of a promise on a cluster, now. Worst first."""

    BROKEN = "broken"
    KNOWN = "broken, as known"
    """Within what its file says is known, or allows with its reason."""
    NEVER = "never proven"
    OPEN = "not proven since"
    """It was proven, and a later run neither held nor missed it, for a reason that the cluster may have a part in."""
    EXPIRED = "expired"
    PROVEN = "proven"


@dataclass(frozen=True)
class OnRecord:
    """A run as it is found. ``day``: the game day that it was of; ``owner``: who answers for that day."""

    run: Facts
    day: str | None = None
    owner: str | None = None

    @property
    def cluster(self) -> str | None:
        """The name in its target's file; None: it was on a lab."""
        lab = self.run.plan.get("lab") or {}
        return str(lab.get("id") or "").removeprefix(PREFIX) or None if lab.get("kind") == KIND else None

    @property
    def identity(self) -> str:
        """Tells clusters of one name apart; empty in runs that do not say it."""
        return str((self.run.plan.get("lab") or {}).get("cluster") or "")

    @property
    def began(self) -> datetime | None:
        try:
            found = datetime.fromisoformat(str(self.run.plan.get("started")))
        except ValueError:
            return None
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


class _Said(StrEnum):
    """What one run says of a promise."""

    HELD = "held"
    MISSED = "missed"
    MISSED_AS_KNOWN = "missed, as known"
    OPEN = "not proven"


@dataclass(frozen=True)
class Row:
    """A promise on a cluster. Times are in UTC; None: never. ``runs``: how many asked for it; ``last``: what the newest
    of them said, and why where it proved nothing."""

    cluster: str
    identity: str
    experiment: str
    promise: str
    wanted: str
    standing: Standing
    last_proven: datetime | None
    expires: datetime | None
    last_run: datetime
    last: str
    runs: int
    owner: str | None
    day: str | None

    def to_json(self) -> dict[str, Any]:
        times = {name: _iso(getattr(self, name)) for name in ("last_proven", "expires", "last_run")}
        return {**vars(self), **times}


@dataclass(frozen=True)
class Targets:
    """All rows, the worst first within their cluster; what else was on record, and why it gives none."""

    rows: tuple[Row, ...]
    left_out: tuple[tuple[str, str], ...]
    now: datetime
    valid: timedelta

    def of(self, standing: Standing) -> int:
        return sum(row.standing is standing for row in self.rows)

    @property
    def outcome(self) -> Outcome:
        """Weakness: a promise is broken beyond what is known or allowed. Inconclusive: one is not proven now, or there
        is none."""
        if self.of(Standing.BROKEN):
            return Outcome.WEAKNESS
        open_ = sum(self.of(each) for each in (Standing.NEVER, Standing.OPEN, Standing.EXPIRED))
        return Outcome.INCONCLUSIVE if open_ or not self.rows else Outcome.PASS

    @property
    def sentence(self) -> str:
        """The point, in a line."""
        if not self.rows:
            return "No run on a cluster that exists is on record here."
        clusters = len({(row.cluster, row.identity) for row in self.rows})
        counts = ", ".join(f"{count} {standing}" for standing in Standing if (count := self.of(standing)))
        return f"{len(self.rows)} promises on {clusters} cluster{'s' if clusters > 1 else ''}: {counts}."

    def to_json(self) -> dict[str, Any]:
        return {
            "format": VERSION,
            "kind": "scorecard-by-target",
            "outcome": self.outcome,
            "summary": self.sentence,
            "now": _iso(self.now),
            "valid_days": self.valid.days,
            "rows": [row.to_json() for row in self.rows],
            "left_out": [{"what": what, "why": why} for what, why in self.left_out],
        }


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def evaluate(
    found: Iterable[OnRecord], now: datetime, valid: timedelta, left_out: Iterable[tuple[str, str]] = ()
) -> Targets:
    """The rows of these runs. Pure. ``now``: aware; ``left_out``: what else gives none, beside runs on labs."""
    asked: dict[tuple[str, str, str, str, str], list[tuple[datetime, OnRecord, _Said, str]]] = {}
    out = [*left_out]
    for each in found:
        if (why := _unusable(each, now)) is not None:
            out.append((each.run.name, why))
            continue
        assert each.cluster is not None and each.began is not None
        experiment = str(each.run.experiment.get("name"))
        for promise, wanted, said, says in _promises(each.run):
            at = (each.cluster, each.identity, experiment, promise, wanted)
            asked.setdefault(at, []).append((each.began, each, said, says))
    rows = [_row(at, sorted(runs, key=lambda one: one[0]), now, valid) for at, runs in asked.items()]
    order = [*Standing]
    rows.sort(key=lambda row: (row.cluster, row.identity, order.index(row.standing), row.experiment, row.promise))
    return Targets(tuple(rows), tuple(out), now, valid)


def _unusable(each: OnRecord, now: datetime) -> str | None:
    if each.cluster is None:
        return "it was on a lab"
    if each.began is None:
        return "its plan does not say when it began"
    if each.began > now:
        return f"it began at {_iso(each.began)}, which is yet to come"
    return None if each.run.by_id else "it has no expectation that was judged"


def _promises(run: Facts) -> Iterator[tuple[str, str, _Said, str]]:
    """Each promise of a run: its words, what was wanted, what the run says, and why where it proves nothing."""
    for item in run.by_id.values():
        if item["verdict"] == "fail" or is_relaxed(item):  # it stands, whatever else the run proves, as a lost write
            known = item["counts_as"] in (Counts.KNOWN_WEAKNESS, Counts.RELAXED)
            said = _Said.MISSED_AS_KNOWN if known else _Said.MISSED
        elif item["verdict"] == "pass" and run.excluded is None:
            said = _Said.HELD
        else:
            said = _Said.OPEN
        why = (run.excluded if said is _Said.OPEN else None) or str(item["says"])
        yield str(item["title"]), str(item["target"]), said, why if said is not _Said.HELD else ""


def _row(
    at: tuple[str, str, str, str, str],
    runs: Sequence[tuple[datetime, OnRecord, _Said, str]],
    now: datetime,
    valid: timedelta,
) -> Row:
    cluster, identity, experiment, promise, wanted = at
    proven = max((began for began, _, said, _ in runs if said is _Said.HELD), default=None)
    expires = None if proven is None else proven + valid
    began, newest, said, why = runs[-1]
    owned = next((each for _, each, _, _ in reversed(runs) if each.owner is not None), newest)
    return Row(
        cluster,
        identity,
        experiment,
        promise,
        wanted,
        _standing([(each.run, said) for _, each, said, _ in runs], expires, now),
        proven,
        expires,
        began,
        f"{said}: {why}" if why else str(said),
        len(runs),
        owned.owner,
        owned.day,
    )


def _standing(runs: Sequence[tuple[Facts, _Said]], expires: datetime | None, now: datetime) -> Standing:
    """By the newest run that decides. One that proves nothing is passed over where its instruments alone failed."""
    for run, said in reversed(runs):
        if said is _Said.MISSED:
            return Standing.BROKEN
        if said is _Said.MISSED_AS_KNOWN:
            return Standing.KNOWN
        if said is _Said.HELD:
            assert expires is not None
            return Standing.PROVEN if now <= expires else Standing.EXPIRED
        if run.hides or run.excluded is None:
            return Standing.OPEN if expires is not None else Standing.NEVER
    return Standing.NEVER
