"""Availability in the field's other forms, beside the share of good requests and the outage-equivalent seconds.

* *Request*: A = good / SCHEDULED (checks/good.py), here by the zone that coordinated the request.
* *Time slices*: A(w, theta) = share of the slices of w seconds in which at least theta of the arrivals were good. A
  slice in which nothing was scheduled is none of them. It counts a partial outage as a whole one.
* *User-uptime* (T. Hauer et al., "Meaningful Availability", NSDI 2020): each user is up from a good event to its
  next event and down from a bad one, but at most for the cut-off, the 99th percentile of the times between a user's
  events: after that the user is not active, neither up nor down. A = sum of up / sum of (up + down) over all users.
* *Windowed*: for a window of w seconds the smallest user-uptime of all windows of that length, one beginning at
  each slice (the same paper, where the curve over w is drawn; its knee tells how long the worst outage was). A window
  in which no user was active has served nobody: 0, unless listed arrivals ask for nothing in it. The minimum over n * w
  is never below the minimum over w.

**Who is a user here.** The load has no accounts: a user is a client host, which sits in one zone and sends its share
of the arrivals, whatever they ask for. Such users are few, uniform, never give up and are always active, so user-uptime
comes out close to request availability; it differs where an outage's arrivals are fewer or more than its time. An
arrival of which nobody recorded a client (no outcome) counts as a bad event of every user.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from chaos.base import text
from chaos.checks.arrivals import ranked
from chaos.checks.check import Check, Scope
from chaos.checks.good import FEWEST, needed
from chaos.checks.measure import Measure
from chaos.checks.prospect import Prospect
from chaos.checks.record import (
    OUTCOMES,
    SECOND,
    Arrivals,
    Bools,
    Expected,
    Floats,
    Ints,
    Record,
    Span,
    per_window,
    windows,
)
from chaos.checks.regained import of_later_phase
from chaos.checks.trial import (
    Altered,
    Trial,
    answers_were_garbled,
    clients_of_one_zone_were_refused,
    five_seconds_without_an_answer,
    late_answers,
    rejected_for_ten_seconds,
    shards_failed_under_status_200,
)
from chaos.checks.words import Words
from chaos.history.format import Outcome

THETA = 0.95
"""A slice with at least this share of its arrivals good was up: one late answer of twenty does not take it down."""
PER_SLICE = 20
"""Arrivals that a slice must hold by the rate; at less than 20/s slices are wider than a second."""
FEWEST_SLICES = 10
CUT_OFF_QUANTILE = 0.99
CHUNK = 1_000_000
"""Arrivals of which user-uptime looks at about so many at a time."""
WINDOWS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
"""Window lengths (s) of the table; those that are longer than the phases together are left out."""
WORST = 10
"""Seconds of the window that the metric ``<op>.worst_10s`` looks at."""
NO_ZONE = "none"


# -- by zone -------------------------------------------------------------------------------------


def zones(record: Record) -> tuple[str, ...]:
    """Names of the zones that can coordinate a request, with ``none`` last."""
    return (*record.zones, NO_ZONE)


def tally(record: Record, op: str) -> Ints:
    """How many arrivals by zone, phase (the last row: none), outcome and goodness (not good, good).

    The zone is that of the node that coordinated it, the one it was sent to; an arrival that was never sent belongs to
    its client's zone, one without either to ``none``.
    """
    names = zones(record)
    place = {zone: number for number, zone in enumerate(names)}
    nowhere = len(names) - 1
    of_node = [place.get(record.zone_of.get(node, NO_ZONE), nowhere) for node in record.nodes]
    of_client = [place.get(client.removeprefix("client-"), nowhere) for client in record.clients]
    by_node = np.array([*of_node, nowhere], np.int64)  # -1 picks the one at the end
    by_client = np.array([*of_client, nowhere], np.int64)
    shape = (len(names), len(record.spans) + 1, len(OUTCOMES), 2)
    found = np.zeros(math.prod(shape), np.int64)
    for piece in record.arrivals[op].pieces():
        node = piece.node
        where = np.where(node >= 0, by_node[node], by_client[piece.client])
        phase = np.where(piece.phase >= 0, piece.phase, len(record.spans))
        at = np.ravel_multi_index((where, phase, piece.outcome, piece.good.astype(np.int64)), shape)
        found += np.bincount(at, minlength=len(found))
    return found.reshape(shape)


def by_zone(record: Record, counts: Ints) -> dict[str, dict[str, dict[str, float | int | None]]]:
    """zone → phase → good, scheduled, share; zones and phases without an arrival are left out. ``counts``: a tally."""
    found: dict[str, dict[str, dict[str, float | int | None]]] = {}
    for zone, rows in zip(zones(record), counts.sum(axis=2), strict=True):
        for span in record.spans:
            if scheduled := int(rows[span.index].sum()):
                found.setdefault(zone, {})[span.name] = _share(int(rows[span.index, 1]), scheduled)
    return found


def _share(good: int, scheduled: int) -> dict[str, float | int | None]:
    return {"good": good, "scheduled": scheduled, "share": good / scheduled if scheduled else None}


# -- time slices ---------------------------------------------------------------------------------


def slice_seconds(record: Record, op: str) -> float:
    """The length of one slice: 1 s, or more so that it holds 20 arrivals."""
    rate = next(item.rate for item in record.operations if item.name == op)
    return slice_width(rate)


def slice_width(rate: float) -> float:
    """Seconds of one slice at ``rate`` arrivals per second."""
    return float(max(1, math.ceil(PER_SLICE / rate))) if rate > 0 else 1.0


def slices_up(arrivals: Arrivals, frames: list[tuple[int, int]], theta: float = THETA) -> Bools:
    """Which of the frames were up."""
    scheduled, bad = per_window(arrivals, frames, clip=True)
    good = scheduled - bad
    return (scheduled > 0) & (good >= theta * scheduled - 1e-9)


def slices_needed(comparison: str, target: float) -> int:
    """Slices without which their share is not compared with the target."""
    return max(FEWEST_SLICES, needed(comparison, target) if comparison in (">=", ">") and target > 0.99 else 0)


def measure_slices(record: Record, op: str, span: Span, comparison: str = "<", target: float = 1.0) -> Measure:
    """The share of a phase's slices that were up; no value with too few slices to decide on the target."""
    width = slice_seconds(record, op)
    frames = windows(span.start, span.end, width) if span.seconds else []
    up = slices_up(record.in_phase(op, span), frames)[~record.quiet(op, frames)] if frames else np.zeros(0)
    if len(up) < (least := slices_needed(comparison, target)):
        return Measure.missing("share", f"only {len(up)} slices in the phase, {least} are needed for this target")
    says = f"{int(up.sum())} of {len(up)} slices of {text.seconds(width)} with {text.percent(THETA)} good or more"
    return Measure(float(up.mean()), "share", says, evidence={"good": int(up.sum()), "total": len(up), "theta": THETA})


# -- user-uptime ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Uptime:
    """Up and down seconds of all users in consecutive slices of ``width`` seconds."""

    up: Floats
    down: Floats
    width: float
    users: int
    quiet: Bools | None = None
    """Slices in which listed arrivals ask for nothing; None: it is asked all the time."""

    @property
    def share(self) -> float | None:
        """User-uptime over everything; None when nobody was ever active."""
        active = float(self.up.sum() + self.down.sum())
        return float(self.up.sum()) / active if active > 0 else None

    def minimum(self, window: int) -> float | None:
        """The smallest user-uptime of ``window`` slices in a row; None when there are fewer, or all are quiet."""
        if not 0 < window <= len(self.up):
            return None
        up, down = (np.concatenate([[0.0], np.cumsum(part)]) for part in (self.up, self.down))
        served, lost = up[window:] - up[:-window], down[window:] - down[:-window]
        active = served + lost
        share = np.divide(served, active, out=np.zeros(len(active)), where=active > 1e-9)
        if self.quiet is not None:
            asked = np.concatenate([[0], np.cumsum(~self.quiet)])
            share = share[asked[window:] > asked[:-window]]
        return float(np.clip(share.min(), 0.0, 1.0)) if len(share) else None


Events = tuple[Ints, Bools]
"""One user's events in order: their times (ns), and which of them were good."""
Chunk = tuple[Ints, list[Events]]
"""The edges of some slices in a row (ns), and each user's events in them, after the last one before them."""


def uptime(record: Record, op: str, start: int, end: int, *, phase: bool = False) -> Uptime:
    """User-uptime of [start, end) in ns; in chunks of time, so that it takes little memory however long that is.
    ``phase``: what counts for a later phase is no failure of this one."""
    part = record.arrivals[op].between(start, end)
    if phase:
        part = part.with_good(part.good | of_later_phase(record, part))
    width = slice_seconds(record, op)
    seen = np.zeros(len(record.clients) + 1, np.int64)  # the first are those without a client
    for piece in part.pieces():
        seen += np.bincount(piece.client + 1, minlength=len(seen))
    users = np.flatnonzero(seen[1:]).tolist()
    edges = _edges(start, end, width)
    step = max(1, int(CHUNK / max(1, len(part)) * (len(edges) - 1)))
    found = _uptime(lambda: _chunks(part, edges, users, step), edges, width, len(users) or 1)
    return replace(found, quiet=record.quiet(op, list(itertools.pairwise(edges.tolist()))))


def _chunks(part: Arrivals, edges: Ints, users: list[int], step: int) -> Iterator[Chunk]:
    """Arrivals without a client are events of every user; without any known client all are one user's."""
    last: list[Events] = [(np.empty(0, np.int64), np.empty(0, np.bool_))] * (len(users) or 1)
    for first in range(0, len(edges) - 1, step):
        some = edges[first : first + step + 1]
        near = part.between(int(some[0]), int(some[-1]))
        t, good, client = near.intended, near.good, near.client
        masks = [(client == user) | (client < 0) for user in users] or [np.ones(len(t), bool)]
        events = [
            (np.concatenate([before, t[mask]]), np.concatenate([was, good[mask]]))
            for (before, was), mask in zip(last, masks, strict=True)
        ]
        last = [(times[-1:], goods[-1:]) for times, goods in events]
        yield some, events


def of_users(users: list[Events], start: int, end: int, width: float) -> Uptime:
    """Pure: each user's events to seconds up and down."""
    edges = _edges(start, end, width)
    return _uptime(lambda: iter([(edges, users)]), edges, width, len(users))


def _edges(start: int, end: int, width: float) -> Ints:
    """The edges of the slices; a rest that is shorter than a slice joins the last."""
    number = max(1, int((end - start) // (width * SECOND)))
    edges = start + np.arange(number + 1) * int(width * SECOND)
    edges[-1] = end
    return edges


def _uptime(chunks: Callable[[], Iterator[Chunk]], edges: Ints, width: float, users: int) -> Uptime:
    """``chunks`` gives the same chunks each time; they follow each other and cover ``edges``."""

    def gaps() -> Iterator[Floats]:
        return (np.diff(t).astype(np.float64) for _, events in chunks() for t, _ in events)

    number = sum(len(some) for some in gaps())
    whole = float(edges[-1] - edges[0])
    cut_off = ranked(gaps, [max(1, math.ceil(CUT_OFF_QUANTILE * number - 1e-9))])[0] if number else whole
    up, down = np.zeros(len(edges) - 1), np.zeros(len(edges) - 1)
    at = 0
    for some, events in chunks():
        slices = slice(at, at := at + len(some) - 1)
        for t, good in events:
            if not len(t):
                continue
            active = np.minimum(np.diff(np.append(t, some[-1])), cut_off)
            knots = np.empty(2 * len(t), np.float64)
            knots[0::2], knots[1::2] = t - some[0], t - some[0] + active  # beside the origin floats are exact enough
            for sums, which in ((up, good), (down, ~good)):
                summed = np.concatenate([[0.0], np.cumsum(np.where(which, active, 0.0))])
                levels = np.empty(2 * len(t), np.float64)
                levels[0::2], levels[1::2] = summed[:-1], summed[1:]
                sums[slices] += np.diff(np.interp(some - some[0], knots, levels)) / SECOND
    return Uptime(up, down, width, users)


def measure_uptime(record: Record, op: str, span: Span) -> Measure:
    """User-uptime of one phase."""
    arrivals = len(record.in_phase(op, span))
    if arrivals < FEWEST:
        return Measure.missing("share", f"only {arrivals} arrivals in the phase, {FEWEST} are needed")
    found = uptime(record, op, span.start, span.end, phase=True)
    if found.share is None:
        return Measure.missing("share", "no user was active in this phase")
    says = f"time up of the time active, over {text.plural(found.users, 'client host')} as users"
    return Measure(found.share, "share", says, evidence={"users": found.users})


def measure_worst(record: Record, op: str, span: Span) -> Measure:
    """The worst ten seconds in a row of one phase, by user-uptime."""
    found = uptime(record, op, span.start, span.end, phase=True)
    window = math.ceil(WORST / found.width)
    worst = found.minimum(window)
    if worst is None or len(record.in_phase(op, span)) < FEWEST:
        return Measure.missing("share", f"the phase is shorter than {WORST} s, or has fewer than {FEWEST} arrivals")
    return Measure(worst, "share", f"the lowest user-uptime of any {text.seconds(window * found.width)} in a row")


# -- the table -----------------------------------------------------------------------------------


def table(record: Record, op: str, counts: Ints) -> dict[str, Any]:
    """The figures of one operation over all phases together. ``counts``: its :func:`tally`."""
    bad, kept = (int(number) for number in counts[:, :-1].sum(axis=(0, 1, 2)))
    width = slice_seconds(record, op)
    up = [
        slices_up(record.in_phase(op, span), frames)[~record.quiet(op, frames)]
        for span in record.spans
        if (frames := windows(span.start, span.end, width))
    ]
    good, total = int(sum(each.sum() for each in up)), sum(len(each) for each in up)
    row: dict[str, Any] = {
        "request": _share(kept, bad + kept),
        "slices": {
            "theta": THETA,
            "seconds": width,
            "good": good,
            "total": total,
            "share": good / total if total else None,
        },
        "user_uptime": {"share": None, "users": 0, "says": "no phase has begun"},
        "minimum": [],
        "zones": by_zone(record, counts),
    }
    if record.spans:
        found = uptime(record, op, record.spans[0].start, record.spans[-1].end)
        row["user_uptime"] = {
            "share": found.share,
            "users": found.users,
            "says": "a user is a client host; such users are uniform, so that this is close to request availability",
        }
        lengths = [n for seconds in WINDOWS if (n := math.ceil(seconds / width)) <= len(found.up)]
        row["minimum"] = [
            {"window": n * width, "availability": found.minimum(n)}
            for n in dict.fromkeys([*lengths, *([len(found.up)] if len(found.up) else [])])
        ]
    return row


def _slices(record: Record, wanted: Expected, span: Span) -> Measure:
    return measure_slices(record, str(wanted.op), span, wanted.comparison, wanted.value)


def _foresee_slices(prospect: Prospect) -> Iterator[str]:
    per_second = 1 / slice_width(prospect.window_rate)
    return prospect.needs(slices_needed(prospect.comparison, prospect.value), per_second, "slices")


def _foresee_uptime(prospect: Prospect) -> Iterator[str]:
    return prospect.needs(FEWEST)


def _foresee_worst(prospect: Prospect) -> Iterator[str]:
    yield from prospect.needs(FEWEST)
    if prospect.length.most < WORST:
        lasts = text.seconds(prospect.length.most)
        yield f"{prospect.what} will be inconclusive: the phase lasts {lasts}, and {WORST} s are needed"


MEANS: dict[str, tuple[str, tuple[str, ...]]] = {
    "slices": (
        (
            "The share of slices of time (1 s) in which enough arrivals were good. It says for how long it was bad, "
            "not how bad it was."
        ),
        ("failure-detection", "zone-failover", "client-retries", "headroom"),
    ),
    "uptime": (
        (
            "The share of time that users had: up after a good answer, down after a bad one until the next (Hauer "
            "et al., NSDI 2020). Busy users count no more than others."
        ),
        ("failure-detection", "zone-failover", "client-retries", "headroom"),
    ),
    "worst_10s": (
        "The availability of the worst window of 10 s, whatever the rest of the run was.",
        ("failure-detection", "zone-failover", "client-retries", "headroom"),
    ),
}
"""Each with what it means, and what helps."""


def _check(
    metric: str,
    said: str,
    measure: Callable[[Record, Expected, Span], Measure],
    foresee: Callable[[Prospect], Iterator[str]],
) -> Check:
    words = Words.of(
        missed=f"{said[0].upper()}{said[1:]}{{inside}} came to {{measured}}; wanted was {{want}}",
        question="{op}s held for long enough{inside}",
        promise=f"{said[0].upper()}{said[1:]}{{inside}}: {{want}}",
        short=metric,
    )
    return Check(
        metric,
        "percent",
        measure,
        words,
        group="users",
        scope=Scope.OPERATION,
        late=True,
        foresee=foresee,
        meaning=MEANS[metric][0],
        helps=MEANS[metric][1],
        order=50,
        trial=TRIALS[metric],
    )


def a_tenth_late_for_six_seconds(run: Altered, op: str = "write") -> None:
    run.hit(op, "dead", 20, 26, share=0.1, outcome=Outcome.OK, seconds=0.15)


TRIALS = {
    "slices": Trial(">= 90%", "dead", (five_seconds_without_an_answer, a_tenth_late_for_six_seconds)),
    "uptime": Trial(
        ">= 98%",
        "dead",
        (
            late_answers,
            shards_failed_under_status_200,
            answers_were_garbled,
            clients_of_one_zone_were_refused,
        ),
    ),
    "worst_10s": Trial(">= 90%", "dead", (five_seconds_without_an_answer, rejected_for_ten_seconds)),
}


CHECKS = (
    _check("slices", "the time in which most {op}s were good", _slices, _foresee_slices),
    _check(
        "uptime",
        "the time in which users could work with {op}s",
        lambda record, wanted, span: measure_uptime(record, str(wanted.op), span),
        _foresee_uptime,
    ),
    _check(
        "worst_10s",
        "good {op}s in the worst ten seconds",
        lambda record, wanted, span: measure_worst(record, str(wanted.op), span),
        _foresee_worst,
    ),
)
