"""Which indices are red, which lack a copy, and which are blocked: all of the cluster's, not the load's alone.

A load meets its own index only. An index that was made meanwhile where allocation is off, one whose only copy was on a
node that stopped, one that the flood stage made read-only: none of that is in the users' requests. So each state of the
cluster that the sampler sees, once a second, is looked through: it costs the cluster no question more. On a cluster
that is not ours those indices count that were there when the load began (:mod:`chaos.observe.counted`).

A line of ``history/index_health.jsonl``, ``t`` in CLOCK_MONOTONIC ns, kind ``seen``: ``red`` (index to its primaries
that no node has), ``yellow`` (index to its other copies that are missing), ``blocked`` (index to the words of the
blocks by which it takes no writes or no reads; ``*`` is the whole cluster), each with :data:`MOST` names at most, and
``more``: how many names were left out. ``old``: how many blocks stand as in the first line; of these the same
:data:`MOST` are named each time, and all others come first. No line: no node that has a cluster manager answered.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from chaos.base import text
from chaos.checks.check import Check
from chaos.checks.instrument import Begins, ClusterViews, Context, Ends, Event, Instrument, Observer, Trial
from chaos.checks.measure import Bound, Measure, Verdict, judge
from chaos.checks.record import SECOND, Expected, Record, Span
from chaos.checks.section import Curve, Row, Section
from chaos.checks.words import Words
from chaos.definitions import Experiment
from chaos.history.writer import EventWriter
from chaos.opensearch.views import STANDING, View

FILE = "index_health.jsonl"
SEEN = "seen"
RED, YELLOW, BLOCKED = "red", "yellow", "blocked"
ALL = "*"
MOST = 20
"""Names of a kind in a line."""
HOLDS_SECONDS = 2.5
"""For how long what was seen is taken for so: the sampler asks once a second, and waits 1.5 s for an answer."""
BYTES = 200
COVERED = 0.5
"""The share of a phase that must be known."""
SEEN_HOW = (
    "It is seen once a second. Without an elected cluster manager nothing is known, and only a bound passes that "
    "would be met either way."
)


# -- observing ---------------------------------------------------------------------------------------


def lacking(seen: View) -> tuple[Counter[str], Counter[str]]:
    """Index to how many primaries no node has, and to how many other copies are missing. An index that has just been
    made is not red before it could be, as OpenSearch has it."""
    red, yellow = Counter[str](), Counter[str]()
    for copy in seen.copies:
        if copy.state not in STANDING:
            (red if copy.primary and not copy.fresh else yellow)[copy.index] += 1
    return red, yellow


def blocked(seen: View) -> dict[str, list[str]]:
    """Index to the words of its blocks of reads or writes; of those indices that the view counts."""
    counted = {None, *(copy.index for copy in seen.copies)}
    found: dict[str, list[str]] = {}
    for block in (each for each in seen.blocks if each.index in counted):
        found.setdefault(block.index or ALL, []).append(block.says)
    return {index: sorted(says) for index, says in sorted(found.items())}


def line(seen: View, first: Mapping[str, list[str]]) -> dict[str, Any]:
    """What is written down of a state. ``first``: the blocks of the first one."""
    red, yellow = lacking(seen)
    blocks = blocked(seen)
    old = {index for index, says in blocks.items() if first.get(index) == says}
    named = [index for index in itertools.islice(sorted(first), MOST) if index in old]
    order = [*sorted(set(blocks) - old), *named]
    every: dict[str, Mapping[str, Any]] = {RED: red, YELLOW: yellow, BLOCKED: blocks}
    kept = {kind: dict(itertools.islice(sorted(every[kind].items()), MOST)) for kind in (RED, YELLOW)}
    kept[BLOCKED] = {index: blocks[index] for index in order[:MOST]}
    more = sum(len(found) - len(kept[kind]) for kind, found in every.items())
    return {**kept, **({"more": more} if more else {}), **({"old": len(old)} if old else {})}


class IndexHealth(Observer):
    """Writes down what each state of the cluster says of its indices, in the thread that sees it."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._events: EventWriter | None = None
        self._first: dict[str, list[str]] | None = None

    def start(self) -> None:
        views = self._context.provided(ClusterViews)
        if views is not None:
            self._events = EventWriter(self._context.folder / "history" / FILE, self._context.broken)
            views.tell(self._seen)

    def stop(self, *, patient: bool = True) -> None:
        events, self._events = self._events, None
        if events is not None:
            events.close()

    def _seen(self, seen: View) -> None:
        events = self._events
        if events is not None:
            counted = self._context.counted(seen)
            if self._first is None:
                self._first = blocked(counted)
            with suppress(OSError, ValueError):  # the run has been told (``broken``); or it was closed just now
                events.write(SEEN, **line(counted, self._first))


# -- judging -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stretch:
    """From when to when (monotonic ns) what was seen is taken for so: index to what it lacks, of each kind. ``cut``:
    blocks may be missing that are not as they were in the first line."""

    start: int
    end: int
    found: Mapping[str, Mapping[str, Any]]
    cut: bool

    def seconds(self, span: Span) -> float:
        return max(0, min(self.end, span.end) - max(self.start, span.start)) / SECOND


def stretches(record: Record) -> Iterator[Stretch]:
    """One for each line that is whole; a record may have been cut anywhere."""
    lines = [each for each in record.lines(FILE) if each.get("kind") == SEEN and isinstance(each.get("t"), int)]
    for each, then in itertools.zip_longest(lines, lines[1:]):
        found = {kind: each.get(kind) for kind in (RED, YELLOW, BLOCKED)}
        if all(isinstance(some, Mapping) for some in found.values()):
            start = int(each["t"])
            end = start + int(HOLDS_SECONDS * SECOND)
            cut = bool(each.get("more")) and "old" not in each and len(found[BLOCKED] or ()) >= MOST
            yield Stretch(start, end if then is None else min(end, int(then["t"])), found, cut)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Totals:
    """Of a phase, in seconds: ``red``; ``yellow``, in which some copy was missing, a primary too; ``blocked``;
    ``unknown``; and ``unsure``, in which blocks were left out of the line, maybe new ones. ``indices``: kind to index
    to seconds; ``why``: index to the words of its blocks."""

    red: float
    yellow: float
    blocked: float
    unknown: float
    unsure: float
    indices: Mapping[str, Mapping[str, float]]
    why: Mapping[str, list[str]]

    def of(self, kind: str) -> float:
        return {RED: self.red, YELLOW: self.yellow, BLOCKED: self.blocked}[kind]


def before(record: Record) -> Mapping[str, Any]:
    """The blocks that were there before the first phase: somebody's decision, which no fault of the run has made."""
    began = record.spans[0].start if record.spans else 0
    last = None
    for each in stretches(record):
        if each.start >= began:
            break
        last = each
    return {} if last is None else last.found[BLOCKED]


def totals(record: Record, span: Span) -> Totals | None:
    """None where no sample was taken in this phase."""
    known, unsure, sums = 0.0, 0.0, Counter[str]()
    indices: dict[str, Counter[str]] = {kind: Counter() for kind in (RED, YELLOW, BLOCKED)}
    why: dict[str, list[str]] = {}
    old = before(record)
    for each in stretches(record):
        seconds = each.seconds(span)
        if seconds <= 0:
            continue
        known += seconds
        blocks = {index: says for index, says in each.found[BLOCKED].items() if old.get(index) != says}
        if each.cut:  # the names of then and of before are both cut, so which are new cannot be told
            blocks, unsure = {}, unsure + seconds
        missing = {**each.found[YELLOW], **each.found[RED]}
        for kind, found in ((RED, each.found[RED]), (YELLOW, missing), (BLOCKED, blocks)):
            sums[kind] += seconds if found else 0.0  # type: ignore[assignment]
            for index in found:
                indices[kind][index] += seconds  # type: ignore[assignment]
        why |= {index: list(says) for index, says in blocks.items()}
    if not known:
        return None
    unknown = max(0.0, span.seconds - known)
    return Totals(sums[RED], sums[YELLOW], sums[BLOCKED], unknown, unsure, indices, why)


def measure(record: Record, expected: Expected, span: Span, kind: str) -> Measure:
    """Seconds of a phase. What is unknown may have been either: a target is met only where it is met both ways."""
    found = totals(record, span)
    unsure = found.unsure if found is not None and kind == BLOCKED else 0.0
    if unsure > (1 - COVERED) * span.seconds:
        return Measure.missing(
            "seconds", f"more than {MOST} indices were blocked, and the record does not name them all"
        )
    if found is None or found.unknown > (1 - COVERED) * span.seconds:
        return Measure.missing(
            "seconds", "too little of this phase did a node with a cluster manager say how the indices are"
        )
    low, unknown = found.of(kind), found.unknown + unsure
    unknown = unknown if unknown > 1 / 1000 else 0.0
    says = names(found, kind) or _NOTHING[kind]
    evidence = {"unknown_seconds": round(unknown, 3), "indices": _rounded(found.indices[kind])}
    if old := sorted(before(record)) if kind == BLOCKED else []:
        says += f"; {text.listed(old)} had been blocked before the first phase, and does not count"
    if not unknown:
        return Measure(low, "seconds", says, evidence=evidence)
    says += f"; of {text.seconds(unknown)} no node with a cluster manager said how they are"
    both = [judge(Measure(each, "seconds", ""), expected.comparison, expected.value) for each in (low, low + unknown)]
    bound = Bound.EXACT if both == [Verdict.PASS, Verdict.PASS] else Bound.AT_LEAST
    return Measure(low, "seconds", says, bound, evidence)


_NOTHING = {RED: "no index was seen red", YELLOW: "no copy was seen missing", BLOCKED: "no index was seen blocked"}


def names(found: Totals, kind: str) -> str:
    """Which indices, for how long, those with the longest first."""
    longest = sorted(found.indices[kind].items(), key=lambda each: (-each[1], each[0]))
    said = [
        f"{'the whole cluster' if index == ALL else index} {text.seconds(seconds)}"
        + (f" ({'; '.join(found.why[index])})" if kind == BLOCKED and index in found.why else "")
        for index, seconds in longest
    ]
    more = f" and {len(said) - 5} more" if len(said) > 5 else ""
    return ", ".join(said[:5]) + more


def _rounded(found: Mapping[str, float]) -> dict[str, float]:
    return {index: round(seconds, 3) for index, seconds in sorted(found.items())}


def table(record: Record) -> dict[str, Any]:
    """Phase to seconds of each kind, with the indices; empty where no sample was taken."""
    rows = {span.name: totals(record, span) for span in record.spans}
    return {
        phase: {
            **{kind: round(found.of(kind), 3) for kind in (RED, YELLOW, BLOCKED)},
            "unknown": round(found.unknown, 3),
            "indices": {kind: _rounded(found.indices[kind]) for kind in (RED, YELLOW, BLOCKED)},
            "says": "; ".join(f"{kind}: {said}" for kind in (RED, BLOCKED) if (said := names(found, kind))),
        }
        for phase, found in rows.items()
        if found is not None
    }


def section(record: Record, tables: Mapping[str, Any]) -> Section | None:
    found = tables.get("index_health")
    if not found:
        return None
    begin, end = record.spans[0].start, record.spans[-1].end
    return Section(
        id="index-health",
        title="Indices that were red, lacked a copy, or were blocked",
        short="Health of all indices",
        says="Of each phase, for how long any index of the cluster was, the load's or another.",
        head=("Phase", "Red#", "Lacked a copy#", "Blocked#", "Not known#", "Which"),
        rows=tuple(_row(phase, row) for phase, row in found.items()),
        curves=(Curve("Indices that are red", "", _red(record, begin, end)),),
        lasted=(end - begin) / SECOND,
        edges=tuple((span.name, (span.start - begin) / SECOND) for span in record.spans),
        small="By the state of the cluster, as its leader has it, once a second: what was shorter may be missing. An "
        "index that was blocked before the first phase is left out.",
    )


def _row(phase: str, row: Mapping[str, Any]) -> Row:
    seconds = [text.seconds(row[key]) if row[key] else "-" for key in (RED, YELLOW, BLOCKED, "unknown")]
    return Row(phase, (*seconds, row["says"] or "-"))


def _red(record: Record, begin: int, end: int) -> tuple[tuple[float, float, float], ...]:
    """From when to when so many indices were red, in seconds of the phases."""
    every = (each for each in stretches(record) if each.end > begin and each.start < end)
    return tuple(
        ((max(each.start, begin) - begin) / SECOND, (min(each.end, end) - begin) / SECOND, float(len(each.found[RED])))
        for each in every
    )


def _check(metric: str, kind: str, order: int, words: Words, meaning: str, helps: tuple[str, ...]) -> Check:
    return Check(
        metric,
        "duration",
        lambda record, expected, span: measure(record, expected, span, kind),
        words,
        group="recovery",
        meaning=f"{meaning} {SEEN_HOW}",
        helps=helps,
        order=order,
    )


CHECKS = (
    _check(
        "cluster.red",
        RED,
        170,
        Words.of(
            missed="An index had a primary that no node had for {measured}{inside}; wanted was {want}",
            question="every index had its primaries{inside}",
            promise="Time in which any index is red{inside}: {want}",
            short="time in which an index was red",
        ),
        "For how long any index of the cluster lacked a primary: nothing is read from that shard, and nothing written "
        "to it. An index that the load does not use counts too.",
        ("explain-allocation", "replicas", "look-at-the-log"),
    ),
    _check(
        "cluster.yellow",
        YELLOW,
        171,
        Words.of(
            missed="A copy was missing for {measured}{inside}; wanted was {want}",
            question="every index had all its copies{inside}",
            promise="Time in which any copy is missing{inside}: {want}",
            short="time in which a copy was missing",
        ),
        "For how long any index of the cluster lacked a copy: yellow, or red. The next loss may be of the last copy.",
        ("explain-allocation", "replicas"),
    ),
    _check(
        "index.blocked",
        BLOCKED,
        172,
        Words.of(
            missed="An index was blocked for {measured}{inside}; wanted was {want}",
            question="no index was blocked{inside}",
            promise="Time in which any index is blocked{inside}: {want}",
            short="time in which an index was blocked",
        ),
        "For how long any index took no writes or no reads, because of a block: a full disk's, a closed index's, an "
        "operator's. Blocks from before the first phase are left out.",
        ("take-the-block-away",),
    ),
)


# -- what the checks are tried by --------------------------------------------------------------------


def _lines(**found: Any) -> Any:
    def lines(start: int, end: int) -> list[Event]:
        nothing: dict[str, Any] = {RED: {}, YELLOW: {}, BLOCKED: {}}
        return [
            {"t": at, "kind": SEEN, **nothing, **(found if start + 5 * SECOND <= at < start + 15 * SECOND else {})}
            for at in range(start, end, SECOND)
        ]

    return lines


def _room(experiment: Experiment) -> float:
    return float(BYTES)


def redacted(said: Event) -> Event:
    """Names of indices that are not the load's may be somebody's secret: only how many there were is kept."""
    return {
        key: {f"index {number}": value for number, value in enumerate(each.values(), 1)} if key in _NOTHING else each
        for key, each in said.items()
    }


INSTRUMENT = Instrument(
    name="index health",
    says="which indices of the cluster are red, lack a copy, or are blocked, the load's or another",
    observe=IndexHealth,
    begins=Begins.INDEX,
    ends=Ends.LOAD,
    order=76,
    room=_room,
    file=FILE,
    checks=CHECKS,
    trials=(
        Trial("cluster.red", "<= 2s", _lines(), _lines(red={"other": 1})),
        Trial("cluster.yellow", "<= 2s", _lines(), _lines(yellow={"other": 1})),
        Trial("index.blocked", "<= 2s", _lines(), _lines(blocked={"other": ["index read-only (api)"]})),
    ),
    tables={"index_health": table},
    section=section,
    redact=redacted,
)
