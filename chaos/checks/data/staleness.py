"""Reads that showed too little (stale) or what never was (dirty).

*Stale*: a realtime get that was sent after a write had been acknowledged, and did not show it: of a document of the
probes of visibility one that finds nothing; of a compare-and-set key one whose seq_no is below an acknowledged one.
And a read of the load whose shards all answered, and that lacked documents which were there before the load.
*Dirty*: a get or search that showed what is on no copy in the end, and was never acknowledged (acknowledged and gone
is lost, and counted there): a document of a probe, or a value of a key that the last value does not descend from.

OpenSearch documents both for a primary or copy that has been cut off and does not know it yet, so an experiment
that cuts may have to call them a known weakness; counting them is what makes them visible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from chaos.base import text
from chaos.base.ids import probe_id
from chaos.checks import coverage
from chaos.checks.check import Check, Rests, Scope
from chaos.checks.data.operations import CasOperation, by_key, final, line_of_descent, planned
from chaos.checks.measure import Bound, Measure
from chaos.checks.record import Expected, Record, Span
from chaos.checks.trial import Altered, Mutation, Trial, first, read_back
from chaos.checks.words import Words, many, upper
from chaos.history.format import Outcome

SHOWN = 50


@dataclass(frozen=True)
class Read:
    """One read that was wrong. ``t`` in ns: when its answer was there."""

    t: int
    node: str | None
    what: str
    says: str


def stale(record: Record) -> tuple[list[Read], int]:
    """Stale reads by time, and how many realtime gets could have been."""
    found, gets = _stale(record)
    return found, len(gets)


Get = tuple[str, int, str | None]
"""A realtime get that could have been stale: its kind, when it was of use (ns), and the node that was asked."""


def _stale(record: Record) -> tuple[list[Read], list[Get]]:
    found: list[Read] = []
    gets: list[Get] = []
    for ops in by_key(record).values():
        wrong, looked = _behind(ops)
        found += wrong
        gets += [(coverage.CAS_READ, each.begin, each.node) for each in looked]
    written = [event for event in record.probes if event["kind"] == "written" and event["acknowledged"]]
    acknowledged = {event["n"]: event["t"] for event in written}
    for event in record.probes:
        after = acknowledged.get(event["n"])
        if event["kind"] != "get" or after is None or event["began"] < after or event["found"] is None:
            continue
        gets.append((coverage.PROBE_GET, int(after), event["node"]))
        if event["found"] is False:
            says = f"{probe_id(event['n'])} had been acknowledged, and {event['node']} did not find it"
            found.append(Read(int(event["t"]), event["node"], "get", says))
    for event in record.stale:
        says = f"arrival {event['k']} ({event['op']}) was answered in full and lacked documents that were there"
        found.append(Read(int(event["t"]), event.get("node"), str(event["op"]), says))
    return sorted(found, key=lambda each: each.t), gets


def _behind(ops: Sequence[CasOperation]) -> tuple[list[Read], list[CasOperation]]:
    """Reads of one key that are behind what had been acknowledged when they were sent, and all that could be."""
    answered = sorted((each for each in ops if each.acknowledged and each.end is not None), key=lambda o: o.end or 0)
    found: list[Read] = []
    looked: list[CasOperation] = []
    highest: CasOperation | None = None
    place = 0
    for each in sorted((op for op in ops if op.f == "read"), key=lambda op: op.begin):
        while place < len(answered) and (answered[place].end or 0) < each.begin:
            here = answered[place]
            if highest is None or (here.version or (0, 0)) > (highest.version or (0, 0)):
                highest = here
            place += 1
        if each.kind != "ok" or highest is None or highest.version is None:
            continue
        looked.append(each)
        behind = each.version is None or each.version[0] < highest.version[0]
        other = each.version is not None and each.version[0] == highest.version[0] and each.version != highest.version
        if behind or other:
            says = f"{each.key}: {each.says}, after {highest.says} had been acknowledged"
            found.append(Read(each.end or each.begin, each.node, "get", says))
    return found, looked


def dirty(record: Record) -> tuple[list[Read], int, list[str]]:
    """Dirty reads by time, how many reads could have been, and why some could not be judged."""
    found, looked, gaps = [], 0, []
    for key, ops in by_key(record).items():
        last = final(record, key)
        if last is None:
            gaps.append(f"{key} was not read back")
            continue
        good = line_of_descent(ops, int(last["value"])) | {0}
        good |= {each.value for each in ops if each.acknowledged and each.value is not None}
        for each in ops:
            if each.f == "read" and each.kind == "ok" and each.value is not None:
                looked += 1
                if each.value not in good:
                    says = f"{key}: {each.says}, which did not stay"
                    found.append(Read(each.end or each.begin, each.node, "get", says))
    wrong, number, unknown = _gone(record)
    return sorted(found + wrong, key=lambda each: each.t), looked + number, gaps + unknown


def _gone(record: Record) -> tuple[list[Read], int, list[str]]:
    """Documents of probes that somebody found, that nobody acknowledged, and that no copy has in the end."""
    if planned(record, "visibility") is None:
        return [], 0, []
    watched = (record.readback or {}).get("watched")
    if watched is None:
        return [], 0, ["the documents of the probes were not read back"]
    acknowledged = {event["n"] for event in record.probes if event["kind"] == "written" and event["acknowledged"]}
    absent, unknown = set(watched["absent"]), set(watched["unknown"])
    found, looked, open_ = [], 0, 0
    for event in record.probes:
        if event["kind"] != "seen" and not (event["kind"] == "get" and event["found"]):
            continue
        looked += 1
        id = probe_id(event["n"])
        if event["n"] in acknowledged:
            continue
        if id in absent:
            what = "search" if event["kind"] == "seen" else "get"
            says = f"{event['node']} showed {id}, which was never acknowledged and is on no copy in the end"
            found.append(Read(int(event["t"]), event["node"], what, says))
        elif id in unknown:
            open_ += 1
    gaps = [f"{text.plural(open_, 'document')} of the probes on shards without a live copy"] if open_ else []
    return found, looked, gaps


def stale_measure(record: Record) -> Measure:
    """Stale reads of the whole run. None counts only if every node that served answered enough gets."""
    found, gets = _stale(record)
    looked = len(gets)
    answered = sum(int((record.arrivals[name].outcome == Outcome.OK).sum()) for name in record.readers)
    evidence = {"realtime_gets": looked, "reads_of_the_load": answered, **_shown(record, found)}
    if not looked and not found:
        return Measure.missing("count", "no read came after an acknowledged write, so none could be stale", **evidence)
    says = f"{text.plural(len(found), 'stale read')} of {text.count(looked)} gets after an acknowledged write"
    if found:
        says = f"{says}; the first: {found[0].says}"
    useful = _by_place(record, gets) if record.spans else {}
    lacking = coverage.of_data(record, coverage.CAS_READ, coverage.PROBE_GET, *record.readers, useful=useful)
    lacking += coverage.unread_keys(record)
    return _known(found, says, lacking, evidence, coverage.least(record, useful))


def _by_place(record: Record, gets: Sequence[Get]) -> dict[str, Counter[coverage.Where]]:
    """The gets of each kind by phase and node."""
    found: dict[str, Counter[coverage.Where]] = {kind: Counter() for kind in (coverage.CAS_READ, coverage.PROBE_GET)}
    for kind, t, node in gets:
        if node is not None and (place := record.place(t)) is not None:
            found[kind][place, node] += 1
    return found


def _known(
    found: Sequence[Read], says: str, lacking: Sequence[str], evidence: dict[str, Any], least: str | None = None
) -> Measure:
    """Wrong reads that were seen stand, whoever was not asked; none seen proves nothing then."""
    if lacking and not found:
        return Measure.missing("count", "; ".join([*lacking, says]), **evidence)
    bound = Bound.AT_LEAST if lacking else Bound.EXACT
    says = "; ".join([says, *lacking, *([least] if least and not found else [])])
    return Measure(float(len(found)), "count", says, bound, evidence)


def dirty_measure(record: Record) -> Measure:
    """Dirty reads of the whole run."""
    found, looked, gaps = dirty(record)
    evidence = {"reads": looked, **_shown(record, found)}
    says = f"{text.plural(len(found), 'dirty read')} of {text.plural(looked, 'read')} that showed something"
    if found:
        says = f"{says}; the first: {found[0].says}"
    if not looked and not found:
        return Measure.missing("count", "; ".join(["no read showed anything", *gaps]), **evidence)
    gaps = gaps + coverage.of_data(record, coverage.CAS_READ, coverage.PROBE_GET, coverage.PROBE_SEARCH)
    return _known(found, says, gaps, evidence)


def _shown(record: Record, found: Sequence[Read]) -> dict[str, Any]:
    """Figures of wrong reads: by phase and node, and the first of them."""
    starts = np.array([span.start for span in record.spans], np.int64)
    phases: Counter[str] = Counter()
    for each in found:
        place = int(np.searchsorted(starts, each.t, side="right")) - 1
        inside = place >= 0 and record.spans[place].holds(each.t)
        phases[record.spans[place].name if inside else "outside the phases"] += 1
    return {
        "phases": dict(phases),
        "nodes": dict(Counter(str(each.node) for each in found)),
        "reads_shown": [
            {"at": record.since_start(each.t), "node": each.node, "what": each.what, "says": each.says}
            for each in found[:SHOWN]
        ],
    }


MEANS: dict[str, tuple[str, tuple[str, ...]]] = {
    "stale.reads": (
        "Reads that answered with less than had been acknowledged, or seen, before.",
        ("replication-type", "segment-pressure", "manager-block", "balancer-probe"),
    ),
    "dirty.reads": (
        "Reads of what was never acknowledged and was gone afterwards.",
        ("replication-type", "explicit-ids", "manager-block"),
    ),
}
"""Each with what it means, and what helps."""


def _check(
    metric: str,
    kept: str,
    missed: str,
    measure: Callable[[Record, Expected, Span | None], Measure],
    broken_by: tuple[Mutation, ...],
) -> Check:
    words = Words(
        lambda item, _: f"{many(item, 'read', 'reads')} {missed}", lambda _: kept, lambda _: upper(kept), metric
    )
    needs = ("cas", "visibility")
    return Check(
        metric,
        "count",
        measure,
        words,
        "data",
        Scope.RUN,
        Rests.DATA,
        needs,
        promise=True,
        meaning=MEANS[metric][0],
        helps=MEANS[metric][1],
        order=110,
        trial=Trial("0", None, broken_by),
    )


def a_get_did_not_find_what_was_acknowledged(run: Altered) -> None:
    first(run.probes, run.moment("dead", 5), kind="get")["found"] = False


def a_key_was_read_as_it_had_been(run: Altered) -> None:
    read = first([line for line in run.cas if "value" in line], run.moment("dead", 5), kind="ok")
    read |= {"value": 0, "seq_no": 0}


def a_whole_answer_lacked_documents(run: Altered) -> None:
    run.stale.append({"t": run.moment("dead", 5), "kind": "stale", "k": 4711, "op": "read", "node": "a-data"})


def a_value_was_read_that_did_not_stay(run: Altered) -> None:
    """The loser of a pair was shown, and is in nobody's line of descent."""
    lost = first(run.cas, run.moment("dead", 5), kind="info")
    value = (lost["op"] - 1) // 2 + 1
    read = first([line for line in run.cas if "value" in line], lost["t"] + 1, kind="ok")
    read |= {"value": value, "seq_no": read["seq_no"] + 1_000}


def a_document_was_found_that_never_was_acknowledged(run: Altered) -> None:
    written = first(run.probes, run.moment("dead", 5), kind="written")
    written |= {"acknowledged": False, "outcome": "timeout", "status": 0}
    read_back(run, watched={"count": 1, "absent": [f"v-{written['n']}"], "unknown": []})


CHECKS = (
    _check(
        "stale.reads",
        "reads showed what had been acknowledged before",
        "did not show a write that had been acknowledged before",
        lambda record, *_: stale_measure(record),
        (a_get_did_not_find_what_was_acknowledged, a_key_was_read_as_it_had_been, a_whole_answer_lacked_documents),
    ),
    _check(
        "dirty.reads",
        "reads showed nothing that was never acknowledged",
        "showed a write that was never done",
        lambda record, *_: dirty_measure(record),
        (a_value_was_read_that_did_not_stay, a_document_was_found_that_never_was_acknowledged),
    ),
)
