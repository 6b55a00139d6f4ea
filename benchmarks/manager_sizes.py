"""What cluster managers need for monitoring calls: what was measured, beside what is published, and what follows of it.

    python benchmarks/manager_sizes.py          # writes docs/cluster-managers.md, and the picture that it shows

Measured is ``reports/results/admin-cost-*.json`` (``python benchmarks/admin_cost.py … --record``), and what
``python benchmarks/results.py record sides`` has kept of ``experiments/managers``. Of each call and
each part of the cluster that pays for it, cost = fixed + slope x routing entries, by least squares over all rounds,
with Student's t intervals of 95 %; where labs of different numbers of data nodes were measured there is a term for them
too. The table for clusters that no lab can be is that line, followed far beyond what was measured: it is marked as
inferred, and says how far. Intervals are of the line, so they hold where the line does.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asked
import numpy as np
import numpy.typing as npt
from rates_picture import Panel, picture

from chaos.base.intervals import LEVEL, t_quantile

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "reports" / "results"
PAGE = ROOT / "docs" / "cluster-managers.md"
PICTURE = ROOT / "docs" / "cluster-managers-rates.svg"
EXPERIMENTS = ROOT / "experiments" / "managers"
THOUSAND = 1000.0
ALIKE = "\nAll labs measured had as many data nodes, so what each further node costs is **not** in these lines.\n"
NOTHING = "Not recorded yet.\n"

PUBLISHED_RATES = ((3000, 14, 7), (6000, 20, 10), (9000, 28, 12))
"""Claim ad-7: calls in 5 minutes, highest processor use of the manager in %, without and with the check of the term."""
PUBLISHED_CALLS = ("state", "cat-indices", "cat-shards", "cat-allocation")
PUBLISHED_PROCESSORS, PUBLISHED_NODES, PUBLISHED_ENTRIES = 8, 5, 25_000
PUBLISHED_STATES = ((25_000, 50), (500_000, 250))
"""Claims ad-7 and ad-3: routing entries, and MB of the state; of the second, 10,000 indices and 1,000 nodes."""
PUBLISHED_FILTERS = {
    "cluster-stats": ("cluster-stats-filtered", 15.0, 0.65),
    "nodes-stats": ("nodes-stats-filtered", 13.74, 1.69),
    "health-shards": ("health", 0.56, 0.15),
}
"""Claim ad-10: a call, the same with filters, and s before and after, of 1,000 data nodes and 500,000 shards."""
BROKEN = ("monitored-manager-paused", "monitored-manager-slow")
"""Experiments in which the elected manager is broken while it is asked."""
CHECKED, FORWARDED = "mapping", "index-settings"
"""Two answers of the same size: the first is answered by the node that is asked, the second by the manager."""
CLUSTERS = ((20, 10_000), (200, 100_000), (1_000, 500_000))
"""Data nodes and routing entries: as many a node as the published cluster of 1,000 nodes has (claim ad-1)."""
MIXES = {
    "the published four": PUBLISHED_CALLS,
    "`index-settings`": (FORWARDED,),
    "`health`": ("health",),
    "`cluster-stats`": ("cluster-stats",),
}
RATE = 10.0
"""Calls in a second, 3,000 in five minutes."""


@dataclass(frozen=True)
class Fit:
    """A line by least squares. ``inverse``: (X'X)^-1; ``variance``: of what is left over; ``freedom``: its degrees."""

    terms: tuple[float, ...]
    inverse: npt.NDArray[np.float64]
    variance: float
    freedom: int

    def at(self, *place: float) -> tuple[float, float]:
        """The line at a place (without its leading 1), and how far its interval reaches to both sides."""
        x = np.array([1.0, *place])
        return float(x @ self.terms), self._reach(x)

    def term(self, number: int) -> tuple[float, float]:
        """One term: 0 is what is fixed."""
        x = np.zeros(len(self.terms))
        x[number] = 1.0
        return self.terms[number], self._reach(x)

    def _reach(self, x: npt.NDArray[np.float64]) -> float:
        return t_quantile((1 + LEVEL) / 2, self.freedom) * math.sqrt(
            max(0.0, self.variance * float(x @ self.inverse @ x))
        )


def fitted(places: Sequence[Sequence[float]], values: Sequence[float]) -> Fit | None:
    """The line through values at places; None where there are too few, or the places do not tell its terms apart."""
    if not places:
        return None
    x = np.array([[1.0, *place] for place in places])
    freedom = len(values) - x.shape[1]
    if freedom < 1 or np.linalg.matrix_rank(x) < x.shape[1]:
        return None
    inverse = np.linalg.inv(x.T @ x)
    terms = inverse @ x.T @ np.array(values)
    left = np.array(values) - x @ terms
    return Fit(tuple(float(each) for each in terms), inverse, float(left @ left) / freedom, freedom)


def ratio(top: tuple[float, float], below: tuple[float, float]) -> tuple[float, float, float] | None:
    """top / below with its interval by Fieller's theorem (Journal of the Royal Statistical Society B 16, 1954), both
    independent, each a value and the reach of its interval. None where ``below`` may be 0: the ratio may be anything.
    """
    (a, u), (b, v) = top, below
    if abs(b) <= v:
        return None
    under = b * b - v * v
    reach = math.sqrt(a * a * v * v + u * u * b * b - u * u * v * v) / under
    return a / b, a * b / under - reach, a * b / under + reach


# -- what was measured -------------------------------------------------------------------------------


def recorded(folder: Path = RESULTS) -> list[dict[str, Any]]:
    return [json.loads(file.read_text()) for file in sorted(folder.glob("admin-cost-*.json"))]


def rows(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What was measured of calls, each with the data nodes of its lab; calls that failed are no measurement."""
    return [
        {**row, "data_nodes": record["data_nodes"]}
        for record in records
        for row in record.get("calls", ())
        if not row["failed"]
    ]


def line(measured: Sequence[Mapping[str, Any]], call: str, part: str) -> tuple[Fit, bool] | None:
    """The cost of a call to a part of the cluster, by thousands of entries, and by data nodes where they differ; and
    whether they do."""
    own = [row for row in measured if row["call"] == call]
    several = len({row["data_nodes"] for row in own}) > 1
    places = [(row["entries"] / THOUSAND, *((row["data_nodes"],) if several else ())) for row in own]
    fit = fitted(places, [row[part] for row in own])
    return None if fit is None else (fit, several)


def rates(records: Sequence[Mapping[str, Any]]) -> dict[str, Fit]:
    """The elected manager's use of one processor (%) by thousands of calls in five minutes, by call."""
    every = [row for record in records for row in record.get("rates", ()) if not row["bad"]]
    found = {}
    for call in dict.fromkeys(row["call"] for row in every):
        own = [row for row in every if row["call"] == call]
        fit = fitted([(row["rate"] * 0.3,) for row in own], [row["manager"] * 100 for row in own])
        if fit is not None:
            found[call] = fit
    return found


def median(values: Sequence[float]) -> float:
    return float(np.median(np.array(values)))


# -- the page ----------------------------------------------------------------------------------------


def spread(value: tuple[float, float], digits: int = 2) -> str:
    middle, reach = value
    return f"{middle:.{digits}f} ± {reach:.{digits}f}"


def grid(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(each) + " |" for each in lines) + "\n"


def costs_table(measured: Sequence[Mapping[str, Any]]) -> str:
    if not measured:
        return NOTHING
    body = []
    for call in dict.fromkeys(row["call"] for row in measured):
        own = [row for row in measured if row["call"] == call]
        cells = []
        for part in ("manager", "asked", "data"):
            found = line(measured, call, part)
            cells += ["", ""] if found is None else [spread(found[0].term(0)), spread(found[0].term(1), 3)]
        most = max(row["entries"] for row in own)
        walls = [row["wall"] for row in own if row["entries"] == most]
        body.append([f"`{call}`", *cells, f"{median(walls):.1f}"])
    head = [
        "call",
        "manager, fixed",
        "per 1,000 entries",
        "node that is asked, fixed",
        "per 1,000",
        "data nodes, fixed",
    ]
    return grid([*head, "per 1,000", "ms until the answer, most entries"], body)


def bytes_table(measured: Sequence[Mapping[str, Any]]) -> str:
    if not measured:
        return NOTHING
    body = []
    for call in dict.fromkeys(row["call"] for row in measured):
        own = [row for row in measured if row["call"] == call]
        entries = fitted([(row["entries"],) for row in own], [row["bytes"] for row in own])
        copies = fitted([(row["shards"],) for row in own], [row["bytes"] for row in own])
        cells = [text_of(entries, 1), text_of(copies, 0)]
        body.append([f"`{call}`", f"{max(row['bytes'] for row in own):,}", *cells])
    return grid(["call", "bytes at most", "bytes a routing entry", "bytes a copy that exists"], body)


def filters_table(measured: Sequence[Mapping[str, Any]]) -> str:
    """Median ms until the answer at the most entries, whole and with filters, beside the published seconds."""
    if not measured:
        return NOTHING
    most = max(row["entries"] for row in measured)
    body = []
    for call, (filtered, before, after) in PUBLISHED_FILTERS.items():
        walls = [
            [row["wall"] for row in measured if row["call"] == each and row["entries"] == most]
            for each in (call, filtered)
        ]
        if all(walls):
            whole, part = (median(each) for each in walls)
            names = f"`{call}`, `{filtered}`"
            body.append([names, f"{before:g} → {after:g} s", f"{before / after:.1f}", f"{whole:.1f} → {part:.1f} ms"])
            body[-1].append(f"{whole / part:.1f}" if part else "")
    return grid(["call, with filters", "published", "times", f"measured, {most:,} entries", "times"], body)


def states(measured: Sequence[Mapping[str, Any]]) -> str:
    """The state's size by its line, beside the published ones."""
    own = [row for row in measured if row["call"] == "state"]
    fit = fitted([(row["entries"],) for row in own], [row["bytes"] / 1e6 for row in own])
    if fit is None:
        return NOTHING
    most = max(row["entries"] for row in own)
    body = [
        [f"{entries:,}", f"{size} MB", f"{spread(fit.at(float(entries)), 1)} MB", f"{entries / most:.1f} x"]
        for entries, size in PUBLISHED_STATES
    ]
    return grid(["routing entries", "published", "by the line, as JSON", "of what was measured"], body)


def text_of(fit: Fit | None, digits: int) -> str:
    return "" if fit is None else spread(fit.term(1), digits)


def published_slopes() -> tuple[tuple[float, float], tuple[float, float]]:
    """(at no calls, slope) of the published table without and with the check, in points of eight processors. Its three
    points are highest values, so they have no interval."""
    calls = [(calls / THOUSAND,) for calls, _, _ in PUBLISHED_RATES]
    without = fitted(calls, [float(before) for _, before, _ in PUBLISHED_RATES])
    checked = fitted(calls, [float(after) for _, _, after in PUBLISHED_RATES])
    assert without is not None and checked is not None
    return (without.terms[0], without.terms[1]), (checked.terms[0], checked.terms[1])


def rates_table(found: Mapping[str, Fit]) -> str:
    without, checked = published_slopes()
    body = [
        [f"published, {how} the check, of 8 processors", f"{fixed:.1f}", f"{slope:.2f}"]
        for how, (fixed, slope) in (("without", without), ("with", checked))
    ]
    body += [
        [f"measured, `{call}`, of one processor", spread(fit.term(0)), spread(fit.term(1))]
        for call, fit in found.items()
    ]
    table = grid(["manager's processor use (%)", "at no calls", "per 1,000 calls in 5 minutes"], body)
    published = f"Published slopes: with the check {checked[1] / without[1]:.2f} of those without. "
    return table + "\n" + published + measured_ratio(found)


def rates_picture(records: Sequence[Mapping[str, Any]]) -> str:
    """The published table as bars, and beside it, once they are recorded, the rates that were measured here: means of
    all rounds, with their intervals."""
    names = [f"{calls:,}" for calls, _, _ in PUBLISHED_RATES]
    published = Panel(
        f"Published: highest use of {PUBLISHED_PROCESSORS} processors",
        "calls in 5 minutes",
        names,
        {
            "without the check": [float(before) for _, before, _ in PUBLISHED_RATES],
            "with the check": [float(after) for _, _, after in PUBLISHED_RATES],
        },
        {},
    )
    every = [row for record in records for row in record.get("rates", ()) if not row["bad"]]
    bars: dict[str, list[float]] = {}
    reach: dict[str, list[float]] = {}
    for call, name in ((FORWARDED, "without the check"), (CHECKED, "with the check")):
        for calls, _, _ in PUBLISHED_RATES:
            own = [row["manager"] * 100 for row in every if row["call"] == call and row["rate"] == calls / 300]
            if (mean := fitted([()] * len(own), own)) is not None:
                bars.setdefault(name, []).append(mean.term(0)[0])
                reach.setdefault(name, []).append(mean.term(0)[1])
    if len(bars) < 2 or any(len(each) < len(names) for each in bars.values()):
        return picture([published])
    below = f"calls in 5 minutes: {FORWARDED} (without), {CHECKED} (with)"
    return picture([published, Panel("Measured here: mean use of one processor", below, names, bars, reach)])


def measured_ratio(found: Mapping[str, Fit]) -> str:
    if CHECKED not in found or FORWARDED not in found:
        return "Measured: not recorded yet.\n"
    measured = ratio(found[CHECKED].term(1), found[FORWARDED].term(1))
    if measured is None:
        return "Measured: no ratio can be said, the slope without the check may be 0.\n"
    value, low, high = measured
    calls = f"`{CHECKED}` (with the check) {value:.2f} of `{FORWARDED}` (without), {low:.2f} to {high:.2f}"
    return f"Measured: {calls}. Claimed is a half or less.\n"


def predicted(
    measured: Sequence[Mapping[str, Any]], calls: Sequence[str], data_nodes: int, entries: int
) -> tuple[float, float] | None:
    """ms of the manager for one of these calls, each as often, and how far its interval reaches; None where one was not
    measured. The reaches are added, as if all lines erred to one side."""
    at = []
    for call in calls:
        found = line(measured, call, "manager")
        if found is None:
            return None
        fit, several = found
        at.append(fit.at(entries / THOUSAND, *((data_nodes,) if several else ())))
    return sum(value for value, _ in at) / len(at), sum(reach for _, reach in at) / len(at)


def model(measured: Sequence[Mapping[str, Any]]) -> str:
    """What a manager needs, by the lines of the calls of the published table and of those that always go to it."""
    if not measured:
        return NOTHING
    most = max((row["entries"] for row in measured), default=0)
    nodes = max((row["data_nodes"] for row in measured), default=0)
    body = []
    for data_nodes, entries in ((PUBLISHED_NODES, PUBLISHED_ENTRIES), *CLUSTERS):
        for words, calls in MIXES.items():
            found = predicted(measured, calls, data_nodes, entries)
            if found is not None:
                need = (found[0] * RATE / 1000, found[1] * RATE / 1000)
                far = f"{entries / most:.1f} x entries, {data_nodes / nodes:.1f} x nodes"
                body.append([f"{data_nodes:,} / {entries:,}", words, spread(found, 1), spread(need), far])
    head = [
        "data nodes / entries",
        "calls",
        "manager's ms a call",
        f"processors at {RATE:g} calls/s",
        "of what was measured",
    ]
    several = len({row["data_nodes"] for row in measured}) > 1
    return grid(head, body) + ("" if several else ALIKE)


def published_check(measured: Sequence[Mapping[str, Any]]) -> str:
    """The published table as a check of the model: ms of a manager's processor for a call, by its slopes."""
    scale = PUBLISHED_PROCESSORS / 100 * 300  # points of all processors in 5 minutes, for 1,000 calls: s, so ms for one
    without, checked = (slope * scale for _, slope in published_slopes())
    found = predicted(measured, PUBLISHED_CALLS, PUBLISHED_NODES, PUBLISHED_ENTRIES)
    if found is None:
        return "The calls of the published table are not all recorded.\n"
    where = "inside" if abs(found[0] - checked) <= found[1] else "outside"
    return f"""The published table says {without:.0f} ms of a manager's processors for a call without the check, and
{checked:.0f} ms with it, at {PUBLISHED_ENTRIES:,} shards and {PUBLISHED_NODES} data nodes. The lines say
{spread(found, 0)} ms for the same four calls, with the check: the published figure lies {where} that interval. It is of
other machines, whose state had 50 MB, and of highest values.
"""


def protections(records: Sequence[Mapping[str, Any]]) -> str:
    """What pages, cancellation and a node that only coordinates came to; the newest record."""
    found = next((record for record in reversed(records) if "pages" in record), None)
    if found is None:
        return "Not recorded yet: `python benchmarks/admin_protections.py --record`.\n"
    lines = [_pages(found["pages"])]
    if (left := found.get("leaving")) is not None:
        lines.append(_leaving(left))
    for name, each in (found.get("timeout") or {}).items():
        words = f"{name} `cancel_after_time_interval=2s`"
        lines.append(
            f"`_cat/shards` {words}, the elected manager paused: after {each['seconds']:g} s `{each['answer'][:120]}`."
        )
    lines += [_breaker(found[kind], found) for kind in ("coordinating", "data") if kind in found]
    return "\n".join(f"* {each}" for each in lines) + "\n"


def _pages(found: Mapping[str, Any]) -> str:
    wrong = found["wrong_indices"] + found["wrong_shards"]
    word = "each of them stood on exactly one page" if not wrong else f"{wrong} times one was missing or there twice"
    passing = f"{found.get('created', 0)} indices came and {found.get('deleted', 0)} went"
    walks = f"All pages of `_list/indices` and `_list/shards`, {found['walks']} times"
    return f"{walks}, while {passing}; of {found['lasting']} indices that stayed: {word}."


def _leaving(found: Mapping[str, Any]) -> str:
    gone, ran = found["seconds_until_gone"], found["tasks_while_it_waited"]
    end = (
        f"its tasks were gone after {gone:g} s"
        if gone is not None
        else f"its tasks ran on for {found['looked_for']:g} s"
    )
    return f"A client that asked for `_cat/shards` left, a data node paused: {end} ({ran} ran before)."


def _breaker(found: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    def counts(name: str) -> str:
        return ", ".join(f"{status} {number:,} times" for status, number in sorted(found[name].items()))

    tripped = ", ".join(f"{node} {times}" for node, times in found["tripped"].items()) or "none"
    limit = f", breakers at {found['limit']} of the heap" if "limit" in found else ""
    asked = f"{record['clients']} clients at {found['asked']}, {record['entries']:,} entries{limit}"
    beside = f"Another node answered for health {counts('health')}, for a search {counts('search')}."
    if "own_health" in found:
        own = f"The same node answered for health {counts('own_health')}, for a search {counts('own_search')}. "
        beside = own + beside
    return f"{asked}: answered {counts('calls')}. Breakers tripped: {tripped}. {beside}"


def matrix(folder: Path = RESULTS) -> str:
    """The newest recorded run of each experiment that breaks the elected manager under monitoring calls."""
    body = []
    for name in BROKEN:
        runs = [json.loads(file.read_text()) for file in sorted((folder / name).glob("*.json"))]
        ended = [run for run in runs if "ended" in run]
        last = max(ended, key=lambda run: str(run["began"])) if ended else {}
        cells = [str(last.get(key, "")) for key in ("outcome", "summary", "commit")]
        body.append([f"`{name}`", *(cells if ended else ["not recorded yet", "", ""])])
    return grid(["experiment", "outcome", "what it said", "commit"], body)


def head_of(record: Mapping[str, Any]) -> str:
    lab = f"{record['topology']} ({record['nodes']} nodes, {record['data_nodes']} with data)"
    machine = f"{record['processors']} processors, load {record['load']:.1f}"
    return f"{lab}, OpenSearch {record['opensearch']}, {record['date']}, commit {record['commit']}, {machine}"


def page(records: Sequence[Mapping[str, Any]]) -> str:
    measured = rows(records)
    heads = [head_of(record) for record in records]
    recorded_at = "\n".join(f"* {head}" for head in heads) or "* nothing yet"
    sides = asked.tables(EXPERIMENTS)
    return f"""# Cluster managers and monitoring calls

Made by `python benchmarks/manager_sizes.py` from `reports/results/admin-cost-*.json`. Recorded there:

{recorded_at}

```bash
python benchmarks/admin_cost.py --entries 0,2000,5000,10000,25000 --rounds 5 --record   # some 20 minutes
python benchmarks/admin_cost.py --topology managers-many --entries 0,2000,5000 --record   # some 8 minutes
python benchmarks/admin_cost.py rates --rounds 5 --seconds 20 --calls mapping,index-settings --record  # 15 minutes
python benchmarks/admin_protections.py --record                                          # some 4 minutes
python benchmarks/results.py record each --again experiments/managers/monitored-manager-paused.yaml  # -slow: 3 minutes
python benchmarks/results.py record sides                 # experiments/managers among all others, each side five times
python benchmarks/manager_sizes.py
```

± is half of a 95 % interval. Times are ms of processor time for one call, by each process's own clock, less what it
uses while nobody asks. All nodes share one machine's processors and run with one compiler only (`profile: fast`), so a
processor of a real manager does more: compare calls, not clusters. A routing entry is a copy of a shard, here most of
them of replicas that have no place, so that 1,000 cost three copies that exist.

## What a call costs
{costs_table(measured)}
`state` and `mapping` are answered by the node that is asked, once the manager has said that its term is the newest;
`index-settings`, `health` and `pending` always by the manager; tables (`cat-…`, `list-…`) are made of several requests.

## What an answer weighs
Published: 4 KB of statistics a shard (claim ad-8).

{bytes_table(measured)}
Entries and copies grow together here, so of each call one of the last two columns says something: the first of calls
that list entries, the second of statistics.

The state's size, inferred by the line of `state`. Mappings of real indices add to it; here each 1,000 entries bring
16 KB of padding, and one index where published clusters have many.

{states(measured)}
## Filters: claimed and measured
Nodes add up their own shards in 3.8.0 with and without filters, which cannot be switched off, so the published figures,
which have both, are of more than filters. Of health, `level=shards` is what is left out.

{filters_table(measured)}
## Rates: claimed and measured
The published table has 3,000, 6,000 and 9,000 calls in five minutes (claim ad-7).

![What the elected cluster manager uses at these rates, with the check of the term and without it]({PICTURE.name})

{rates_table(rates(records))}
## Do monitoring calls take the cluster down?
The elected manager is paused, or gets a tenth of a processor, while it is asked ten or twenty times a second.

{matrix()}
## What protects the cluster
{protections(records)}
## Experiments with sides
Five runs a side. Claims are those of [claims](claims.md); what is expected, and why, is in each file's description.

{sides["advices"]}

Median, with least and most, of the runs that count; the shift from the first side with its interval; **bold** decides.

{sides["figures"]}

## Beyond a lab: inferred
**Inferred, not measured**: the lines above, followed to clusters of other sizes, at {RATE:g} calls a second, with the
check of the term. What grows otherwise than by a straight line (heap, collections, network) is not in it, and a manager
that publishes states does that too.

{model(measured)}
{published_check(measured)}"""


def main() -> None:
    PAGE.write_text(page(recorded()))
    PICTURE.write_text(rates_picture(recorded()))
    print(f"wrote {PAGE.relative_to(ROOT)} and {PICTURE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
