"""Availability in the field's other forms, beside the share of good requests and the outage-equivalent seconds.

* *Request*: A = good / SCHEDULED (checks/good.py), here by the zone that coordinated the request.
* *Time slices*: A(w, theta) = share of the slices of w seconds in which at least theta of the arrivals were good. A
  slice in which nothing was scheduled is none of them. It counts a partial outage as a whole one.
* *User-uptime* (T. Hauer et al., "Meaningful Availability", NSDI 2020): each user is up from a good event to its
  next event and down from a bad one, but at most for the cut-off, the 99th percentile of the times between a user's
  events: after that the user is not active, neither up nor down. A = sum of up / sum of (up + down) over all users.
* *Windowed*: for a window of w seconds the smallest user-uptime of all windows of that length, one beginning at
  each slice (the same paper, where the curve over w is drawn; its knee tells how long the worst outage was). A window
  in which no user was active has served nobody: 0. The minimum over n * w is never below the minimum over w.

**Who is a user here.** The load has no accounts: a user is a client host, which sits in one zone and sends its share
of the arrivals, whatever they ask for. Such users are few, uniform, never give up and are always active, so user-uptime
comes out close to request availability; it differs where an outage's arrivals are fewer or more than its time. An
arrival of which nobody recorded a client (no outcome) counts as a bad event of every user.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from chaos.checks import text
from chaos.checks.good import FEWEST, needed
from chaos.checks.measure import Measure
from chaos.checks.record import SECOND, Arrivals, Bools, Floats, Ints, Record, Span, per_window, windows

THETA = 0.95
"""A slice with at least this share of its arrivals good was up: one late answer of twenty does not take it down."""
PER_SLICE = 20
"""Arrivals that a slice must hold by the rate; at less than 20/s slices are wider than a second."""
FEWEST_SLICES = 10
CUT_OFF_QUANTILE = 0.99
WINDOWS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
"""Window lengths (s) of the table; those that are longer than the phases together are left out."""
WORST = 10
"""Seconds of the window that the metric ``<op>.worst_10s`` looks at."""
NO_ZONE = "none"


# -- by zone -------------------------------------------------------------------------------------


def zones(record: Record, op: str) -> tuple[tuple[str, ...], Ints]:
    """Names of zones with ``none`` last, and for every arrival the position of the one that coordinated it.

    That is the zone of the node that it was sent to; an arrival that was never sent belongs to its client's zone,
    one without either to ``none``.
    """
    names = (*record.zones, NO_ZONE)
    place = {zone: number for number, zone in enumerate(names)}
    nowhere = len(names) - 1
    of_node = [place.get(record.zone_of.get(node, NO_ZONE), nowhere) for node in record.nodes]
    of_client = [place.get(client.removeprefix("client-"), nowhere) for client in record.clients]
    by_node = np.array([*of_node, nowhere], np.int64)  # -1 picks the one at the end
    by_client = np.array([*of_client, nowhere], np.int64)
    part = record.arrivals[op]
    return names, np.where(part.node >= 0, by_node[part.node], by_client[part.client])


def by_zone(record: Record, op: str) -> dict[str, dict[str, dict[str, float | int | None]]]:
    """zone → phase → good, scheduled, share; zones and phases without an arrival are left out."""
    names, where = zones(record, op)
    part = record.arrivals[op]
    found: dict[str, dict[str, dict[str, float | int | None]]] = {}
    for number, zone in enumerate(names):
        for span in record.spans:
            here = (where == number) & (part.phase == span.index)
            if scheduled := int(here.sum()):
                found.setdefault(zone, {})[span.name] = _share(int(part.good[here].sum()), scheduled)
    return found


def _share(good: int, scheduled: int) -> dict[str, float | int | None]:
    return {"good": good, "scheduled": scheduled, "share": good / scheduled if scheduled else None}


# -- time slices ---------------------------------------------------------------------------------


def slice_seconds(record: Record, op: str) -> float:
    """The length of one slice: 1 s, or more so that it holds 20 arrivals."""
    rate = next(item.rate for item in record.operations if item.name == op)
    return float(max(1, math.ceil(PER_SLICE / rate))) if rate > 0 else 1.0


def slices_up(arrivals: Arrivals, frames: list[tuple[int, int]], theta: float = THETA) -> Bools:
    """Which of the frames were up."""
    scheduled, bad = per_window(arrivals, frames, clip=True)
    good = scheduled - bad
    return (scheduled > 0) & (good >= theta * scheduled - 1e-9)


def measure_slices(record: Record, op: str, span: Span, comparison: str = "<", target: float = 1.0) -> Measure:
    """The share of a phase's slices that were up; no value with too few slices to decide on the target."""
    width = slice_seconds(record, op)
    up = slices_up(record.in_phase(op, span), windows(span.start, span.end, width)) if span.seconds else np.zeros(0)
    least = max(FEWEST_SLICES, needed(comparison, target) if comparison in (">=", ">") and target > 0.99 else 0)
    if len(up) < least:
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

    @property
    def share(self) -> float | None:
        """User-uptime over everything; None when nobody was ever active."""
        active = float(self.up.sum() + self.down.sum())
        return float(self.up.sum()) / active if active > 0 else None

    def minimum(self, window: int) -> float | None:
        """The smallest user-uptime of ``window`` slices in a row; None when there are fewer."""
        if not 0 < window <= len(self.up):
            return None
        up, down = (np.concatenate([[0.0], np.cumsum(part)]) for part in (self.up, self.down))
        served, lost = up[window:] - up[:-window], down[window:] - down[:-window]
        active = served + lost
        share = np.divide(served, active, out=np.zeros(len(active)), where=active > 1e-9)
        return float(np.clip(share.min(), 0.0, 1.0))


def uptime(record: Record, op: str, start: int, end: int) -> Uptime:
    """User-uptime of [start, end) in ns."""
    part = record.arrivals[op]
    inside = (part.intended >= start) & (part.intended < end)
    t, good, client = part.intended[inside], part.good[inside], part.client[inside]
    users = [code for code in range(len(record.clients)) if (client == code).any()]
    groups = [(client == code) | (client < 0) for code in users] or [np.ones(len(t), bool)]
    return of_users([(t[mask], good[mask]) for mask in groups], start, end, slice_seconds(record, op))


def of_users(users: list[tuple[Ints, Bools]], start: int, end: int, width: float) -> Uptime:
    """Pure: each user's events (times in ns in order, which of them were good) to seconds up and down."""
    number = max(1, int((end - start) // (width * SECOND)))
    edges = start + np.arange(number + 1) * int(width * SECOND)
    edges[-1] = end  # a rest that is shorter than a slice joins the last
    gaps = [np.diff(t) for t, _ in users if len(t) > 1]
    every = np.concatenate(gaps) if gaps else np.empty(0, np.int64)
    cut_off = float(np.quantile(every, CUT_OFF_QUANTILE, method="inverted_cdf")) if len(every) else float(end - start)
    up, down = np.zeros(number), np.zeros(number)
    for t, good in users:
        if not len(t):
            continue
        active = np.minimum(np.diff(np.append(t, end)), cut_off)
        knots = np.empty(2 * len(t), np.float64)
        knots[0::2], knots[1::2] = t - start, t - start + active  # beside the origin floats are exact enough
        for sums, which in ((up, good), (down, ~good)):
            summed = np.concatenate([[0.0], np.cumsum(np.where(which, active, 0.0))])
            levels = np.empty(2 * len(t), np.float64)
            levels[0::2], levels[1::2] = summed[:-1], summed[1:]
            sums += np.diff(np.interp(edges - start, knots, levels)) / SECOND
    return Uptime(up, down, width, len(users))


def measure_uptime(record: Record, op: str, span: Span) -> Measure:
    """User-uptime of one phase."""
    arrivals = len(record.in_phase(op, span))
    if arrivals < FEWEST:
        return Measure.missing("share", f"only {arrivals} arrivals in the phase, {FEWEST} are needed")
    found = uptime(record, op, span.start, span.end)
    if found.share is None:
        return Measure.missing("share", "no user was active in this phase")
    says = f"time up of the time active, over {text.plural(found.users, 'client host')} as users"
    return Measure(found.share, "share", says, evidence={"users": found.users})


def measure_worst(record: Record, op: str, span: Span) -> Measure:
    """The worst ten seconds in a row of one phase, by user-uptime."""
    found = uptime(record, op, span.start, span.end)
    window = math.ceil(WORST / found.width)
    worst = found.minimum(window)
    if worst is None or len(record.in_phase(op, span)) < FEWEST:
        return Measure.missing("share", f"the phase is shorter than {WORST} s, or has fewer than {FEWEST} arrivals")
    return Measure(worst, "share", f"the lowest user-uptime of any {text.seconds(window * found.width)} in a row")


# -- the table -----------------------------------------------------------------------------------


def table(record: Record, op: str) -> dict[str, Any]:
    """The figures of one operation over all phases together."""
    part = record.arrivals[op]
    judged = part.phase >= 0
    width = slice_seconds(record, op)
    up = [
        slices_up(record.in_phase(op, span), frames)
        for span in record.spans
        if (frames := windows(span.start, span.end, width))
    ]
    good, total = int(sum(each.sum() for each in up)), sum(len(each) for each in up)
    row: dict[str, Any] = {
        "request": _share(int(part.good[judged].sum()), int(judged.sum())),
        "slices": {
            "theta": THETA,
            "seconds": width,
            "good": good,
            "total": total,
            "share": good / total if total else None,
        },
        "user_uptime": {"share": None, "users": 0, "says": "no phase has begun"},
        "minimum": [],
        "zones": by_zone(record, op),
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
