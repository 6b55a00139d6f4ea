"""What an observation comes to, from its lines alone: how the cluster was, what happened, how busy it was. Pure.

Nothing is judged: nobody said what was wanted. But what was not seen is said, and where too little was seen nothing is
concluded.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

LAG_P99, UNSENT = 0.050, 0.001
"""What a load driver must keep for its figures to count, as in runs (:mod:`chaos.checks.validity`)."""
ENOUGH = 0.95
"""Share of the seconds that must have an answer; below it nothing is concluded."""
NO_BEGIN = {"seconds": 0.0, "period": 1.0, "wall": 0.0}
LEADERLESS, SILENT = "no leader", "no answer"
RATED = ("searches", "indexed", "search_rejected", "write_rejected")


@dataclass(frozen=True)
class Happening:
    """Something that changed, at so many seconds."""

    t: float
    says: str
    kind: str
    """``status``, ``leader``, ``left``, ``joined``, ``moving``, ``rejected`` or ``silent``."""

    def to_json(self) -> dict[str, Any]:
        return {"t": self.t, "says": self.says, "kind": self.kind}


def lines_of(file: Path) -> list[dict[str, Any]]:
    """The lines of an observation; the last one may be cut off by a kill and is left out then."""
    found = []
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            break
    return found


def summary(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """All that the page shows. Times in seconds since the observation began; rates per second, of all nodes."""
    begin: Mapping[str, Any] = next(
        (line for line in lines if line["kind"] == "begin"), {"seconds": 0.0, "period": 1.0, "wall": 0.0}
    )
    end = next((line for line in lines if line["kind"] == "end"), None)
    samples = [line for line in lines if line["kind"] == "sample" and "another" not in line]
    lasted = float(end["t"]) if end is not None else float(samples[-1]["t"]) if samples else 0.0
    period = float(begin["period"])
    answered = sum(bool(sample["ok"]) for sample in samples)
    expected = max(1, round(lasted / period))
    states = list(_states(samples, lasted))
    spans = [(state, a, b) for state, a, b in states if b > a]
    seconds: dict[str, float] = {}
    for state, a, b in spans:
        seconds[state] = round(seconds.get(state, 0.0) + b - a, 3)
    rates = list(_rates(lines))
    happenings = sorted([*_changes(samples), *_rejections(rates)], key=lambda each: each.t)
    share = min(1.0, answered / expected)
    reason = "killed" if end is None else str(end["reason"])
    enough = share >= ENOUGH and bool(samples)
    return {
        "wall": begin["wall"],
        "asked_seconds": begin["seconds"],
        "lasted": round(lasted, 1),
        "reason": reason,
        "says": str(end.get("says", "")) if end is not None else "its process ended before its time",
        "samples": len(samples),
        "answered": answered,
        "share": round(share, 4),
        "enough": enough,
        "seconds": seconds,
        "spans": [{"state": state, "from": round(a, 1), "to": round(b, 1)} for state, a, b in spans],
        "happenings": [each.to_json() for each in happenings],
        "rates": rates,
        "headline": _headline(seconds, happenings, lasted, enough, share),
    }


def reads(arrivals: pd.DataFrame, good_within: float) -> dict[str, Any]:
    """What became of searches that were sent meanwhile (``History.arrivals``). ``good_within`` in seconds, counted from
    when each was due. ``doubt``: why they do not count, None where they do.
    """
    scheduled = len(arrivals)
    outcomes = {str(name): int(count) for name, count in arrivals["outcome"].value_counts().items() if count}
    answered = arrivals[arrivals["end"] > 0]
    good = int(((answered["outcome"] == "ok") & (answered["latency_ms"] <= good_within * 1000)).sum())
    lag = (answered["start"] - answered["intended"]).quantile(0.99) / 1e9 if len(answered) else 0.0
    unsent = outcomes.get("dropped", 0) + outcomes.get("unknown", 0)
    doubt = None
    if not scheduled:
        doubt = "none was sent"
    elif lag > LAG_P99:
        doubt = f"they were sent up to {lag:.2f} s late by this machine (99th percentile)"
    elif unsent > UNSENT * scheduled:
        doubt = f"of {unsent} of them nobody knows what became"
    quantiles = answered["latency_ms"].quantile([0.5, 0.99]).round(1).tolist() if len(answered) else [None, None]
    return {
        "scheduled": scheduled,
        "good": good,
        "good_within": good_within,
        "share": round(good / scheduled, 6) if scheduled else None,
        "outcomes": outcomes,
        "p50_ms": quantiles[0],
        "p99_ms": quantiles[1],
        "doubt": doubt,
    }


def state_of(sample: Mapping[str, Any]) -> str:
    """green, yellow, red; or that nobody led, or nothing was answered."""
    if not sample["ok"]:
        return SILENT
    return str(sample["status"]) if sample.get("leader") else LEADERLESS


def _states(samples: Sequence[Mapping[str, Any]], lasted: float) -> Iterator[tuple[str, float, float]]:
    """Spans of one state. What a sample says holds until the next one."""
    if not samples:
        yield SILENT, 0.0, lasted
        return
    begins = [(state_of(sample), float(sample["asked"])) for sample in samples]
    state, since = begins[0][0], 0.0
    for now, at in begins[1:]:
        if now != state:
            yield state, since, at
            state, since = now, at
    yield state, since, max(lasted, since)


def _changes(samples: Sequence[Mapping[str, Any]]) -> Iterator[Happening]:
    members: set[str] | None = None
    leader: str | None = None
    state: str | None = None
    moving = False
    for sample in samples:
        t, now = float(sample["asked"]), state_of(sample)
        if state is not None and now != state:
            says = str(sample.get("says", "no reason"))
            kind = "silent" if now == SILENT else "status"
            yield Happening(t, f"no answer: {says}" if now == SILENT else f"{now}, after {state}", kind)
        state = now
        if not sample["ok"]:
            continue
        if (named := sample.get("members")) is not None:
            if members is not None:
                yield from (Happening(t, f"{name} left", "left") for name in sorted(members - set(named)))
                yield from (Happening(t, f"{name} joined", "joined") for name in sorted(set(named) - members))
            members = set(named)
        if sample.get("leader") and sample["leader"] != leader:
            if leader is not None:
                yield Happening(t, f"{sample['leader']} became cluster manager, after {leader}", "leader")
            leader = str(sample["leader"])
        busy = bool(sample["relocating"])
        if busy != moving:
            yield Happening(t, f"{sample['relocating']} shards move" if busy else "no shard moves any more", "moving")
        moving = busy


def _rates(lines: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Between two totals: rates, and the mean time of a search and of an indexing, in milliseconds.

    A node that started anew, or did not answer one of the two times, is left out of them.
    """
    totals = [line for line in lines if line["kind"] == "totals" and line["nodes"]]
    for first, second in itertools.pairwise(totals):
        seconds = float(second["t"]) - float(first["t"])
        grown: dict[str, int] = {}
        both = [name for name in second["nodes"] if name in first["nodes"]]
        for name in both:
            a, b = first["nodes"][name], second["nodes"][name]
            found = {key: b[key] - a[key] for key in b if key in a and key not in ("cpu", "heap")}
            if any(value < 0 for value in found.values()):
                continue
            for key, value in found.items():
                grown[key] = grown.get(key, 0) + value
        if seconds <= 0 or not grown:
            continue
        last = second["nodes"].values()
        yield {
            "from": round(float(first["t"]), 1),
            "to": round(float(second["t"]), 1),
            **{key: round(grown[key] / seconds, 2) for key in RATED if key in grown},
            "search_ms": _mean(grown, "search_ms", "searches"),
            "index_ms": _mean(grown, "index_ms", "indexed"),
            "cpu": max((each["cpu"] for each in last if "cpu" in each), default=None),
            "heap": max((each["heap"] for each in last if "heap" in each), default=None),
        }


def _mean(grown: Mapping[str, int], time: str, count: str) -> float | None:
    return round(grown[time] / grown[count], 2) if grown.get(count) and time in grown else None


def _rejections(rates: Iterable[Mapping[str, Any]]) -> Iterator[Happening]:
    for key, what in (("search_rejected", "searches"), ("write_rejected", "writes")):
        for rate in rates:
            if rate.get(key):
                count = round(rate[key] * (rate["to"] - rate["from"]))
                yield Happening(rate["from"], f"{count} {what} of the nodes' thread pools were rejected", "rejected")


def _headline(
    seconds: Mapping[str, float], happenings: Sequence[Happening], lasted: float, enough: bool, share: float
) -> str:
    if not enough:
        return f"Too little was seen to say how it was: {share:.0%} of the seconds have an answer"
    bad = [f"{state} for {spent:.0f} s" for state, spent in seconds.items() if state != "green"]
    how = f"Green for all {lasted:.0f} s" if not bad else f"Not always green: {', '.join(bad)}"
    counted = {
        "left": sum(each.kind == "left" for each in happenings),
        "leader": sum(each.kind == "leader" for each in happenings),
    }
    often = "once" if counted["left"] == 1 else f"{counted['left']} times"
    more = [
        f"a node left {often}" if counted["left"] else "",
        f"{counted['leader']} new cluster manager{'s' if counted['leader'] != 1 else ''}" if counted["leader"] else "",
        "requests were rejected" if any(each.kind == "rejected" for each in happenings) else "",
    ]
    said = [each for each in more if each]
    return "; ".join([how, *said]) if said else f"{how}; nobody left"
