"""Did compare-and-set keep OpenSearch's promise? Counted in violations; 0 is what users want.

The promise, from ConcurrentSeqNoVersioningIT: an acknowledged write with ``if_seq_no`` took place between invocation
and response, is never lost, and the document had exactly that version before. Everything else that came back
(conflicts too) may have taken place, may still take place later, or never. Reads promise less: they may be stale or
dirty, so they are counted by :mod:`chaos.checks.data.staleness` and do not belong to this history.

Cheap checks first, each violation counted:

* the seq_no of an acknowledged write is above the one that it replaced;
* acknowledged seq_no strictly increase for each key: one that was answered before another was sent is below it;
* one (seq_no, primary term) is one value, in writes, reads and on every copy in the end;
* one version is replaced by one acknowledged write at most.

A key that passes them is searched for a linearization (a key without one is one more violation) of its acknowledged
writes and what the primary holds in the end, with the indeterminate ones free to take effect or not. Since every
value is written once, an indeterminate write matters only when an acknowledged one stands on it; the others are left
out, and with them goes the rule that after an acknowledged seq_no s none with ``if_seq_no`` < s can take effect any
more: its value would have to come back, and values never do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chaos.base import text
from chaos.checks import coverage
from chaos.checks.check import Check, Rests, Scope
from chaos.checks.data.linearizability import Call, Linearizable, check, register
from chaos.checks.data.operations import CasOperation, by_key, final, planned
from chaos.checks.measure import Bound, Measure
from chaos.checks.record import Record
from chaos.checks.trial import Altered, Trial, first
from chaos.checks.words import Words

SHOWN = 50
"""Violations named in the evidence; the count is whole."""


def measure(record: Record) -> Measure:
    """Violations over all keys. Missing when some key was not read back, or not decided."""
    if planned(record, "cas") is None:
        return Measure.missing("count", "the load has no compare-and-set")
    violations: list[dict[str, Any]] = []
    undecided, unread, idle = [], [], []
    keys = by_key(record)
    for key, ops in keys.items():
        copies = ((record.readback or {}).get("cas") or {}).get(key) or []
        found = [{"key": key, "says": says} for says in cheap(ops, copies)]
        last = final(record, key)
        if last is None:
            unread.append(key)
        if not any(each.acknowledged for each in ops):
            idle.append(key)
        if ops and not found:
            verdict, says = linearizable(ops, None if last is None else int(last["value"]))
            if verdict is Linearizable.NO:
                found.append({"key": key, "says": says})
            elif verdict is Linearizable.UNKNOWN:
                undecided.append(key)
        violations += found
    writes = [each for ops in keys.values() for each in ops if each.f == "cas"]
    figures: dict[str, Any] = {
        "attempts": len(writes),
        "acknowledged": sum(each.acknowledged for each in writes),
        "conflicts": sum(each.status == 409 for each in writes),
        "indeterminate": sum(each.kind == "info" for each in writes),
        "keys": len(keys),
        "violating_keys": sorted({each["key"] for each in violations}),
        "undecided_keys": undecided,
        "violations": violations[:SHOWN],
    }
    says = (
        f"{text.plural(figures['acknowledged'], 'acknowledged compare-and-set', 'acknowledged compare-and-sets')} and "
        f"{text.count(figures['indeterminate'])} indeterminate on {text.plural(len(keys), 'key')}"
    )
    if violations:
        says = f"{violations[0]['key']}: {violations[0]['says']}; {says}"
    gaps = []
    if unread:
        gaps.append(f"{text.listed(unread)} not read back")
    if undecided:
        gaps.append(f"no verdict on {text.listed(undecided)} within the checker's limit")
    if idle:
        gaps.append(f"nothing was acknowledged on {text.listed(idle)}")
    gaps += coverage.of_data(record, coverage.CAS_READ, coverage.CAS_WRITE)
    says = "; ".join([says, *gaps])
    if not gaps:
        return Measure(float(len(violations)), "count", says, evidence=figures)
    if not violations:
        return Measure.missing("count", says, **figures)
    return Measure(float(len(violations)), "count", says, Bound.AT_LEAST, figures)


def cheap(ops: Sequence[CasOperation], copies: Sequence[dict[str, Any]] = ()) -> list[str]:
    """Violations on one key that need no search, in words. ``copies``: what each copy held in the end."""
    acknowledged = [each for each in ops if each.acknowledged]
    return [
        *_above_what_they_replaced(acknowledged),
        *_increasing(acknowledged),
        *_one_value_each(ops, copies),
        *_replaced_once(acknowledged),
    ]


def _above_what_they_replaced(acknowledged: Sequence[CasOperation]) -> list[str]:
    return [
        f"{each.says} was acknowledged over seq_no {each.expected[0]}"
        for each in acknowledged
        if each.version and each.expected and each.version[0] <= each.expected[0]
    ]


def _increasing(acknowledged: Sequence[CasOperation]) -> list[str]:
    """Against the highest seq_no that had been answered before each was sent: n log n, not all pairs."""
    answered = sorted((each for each in acknowledged if each.end is not None), key=lambda each: each.end or 0)
    found: list[str] = []
    highest: CasOperation | None = None
    place = 0
    for each in sorted(acknowledged, key=lambda each: each.begin):
        while place < len(answered) and (answered[place].end or 0) < each.begin:
            if highest is None or _seq_no(answered[place]) > _seq_no(highest):
                highest = answered[place]
            place += 1
        if highest is not None and _seq_no(each) <= _seq_no(highest):
            found.append(f"{each.says} was sent after {highest.says} had been acknowledged, and is not above it")
    return found


def _one_value_each(ops: Sequence[CasOperation], copies: Sequence[dict[str, Any]]) -> list[str]:
    seen: dict[tuple[int, int], set[int | None]] = {}
    for each in ops:
        if each.kind == "ok" and each.version is not None:
            seen.setdefault(each.version, set()).add(each.value)
    for copy in copies:
        seen.setdefault((int(copy["seq_no"]), int(copy["primary_term"])), set()).add(int(copy["value"]))
    return [
        f"seq_no {seq_no}, term {term} has {len(values)} values: {text.listed(sorted(map(str, values)))}"
        for (seq_no, term), values in sorted(seen.items())
        if len(values) > 1
    ]


def _replaced_once(acknowledged: Sequence[CasOperation]) -> list[str]:
    over: dict[tuple[int, int], list[CasOperation]] = {}
    for each in acknowledged:
        if each.expected is not None:
            over.setdefault(each.expected, []).append(each)
    return [
        f"{text.listed([each.says for each in group])} were all acknowledged over "
        f"seq_no {version[0]}, term {version[1]}"
        for version, group in sorted(over.items())
        if len(group) > 1
    ]


def linearizable(
    ops: Sequence[CasOperation], last: int | None, *, reads: bool = False, initial: int | None = 0
) -> tuple[Linearizable, str]:
    """The verdict on one key and, for a no, what could not be placed. ``last``: its value in the end, None: not read.

    ``reads`` takes the reads in as well: more than OpenSearch promises.
    """
    calls = calls_of(ops, last, reads=reads)
    order = check(calls, initial, register)
    if order.verdict is not Linearizable.NO:
        return order.verdict, ""
    placed = set(order.longest)
    left = [call for number, call in enumerate(calls) if number not in placed and call.end is not None]
    stuck = min(left, key=lambda call: call.end or 0)
    kind, first, second = stuck.operation
    what = f"the change {first} → {second}" if kind == "cas" else f"the value {first} that was read"
    return order.verdict, (
        f"no order of its operations explains {what}: at most {len(placed)} of {len(calls)} fit together"
    )


def calls_of(ops: Sequence[CasOperation], last: int | None, *, reads: bool = False) -> list[Call]:
    """The history of one key for the search: without what changed nothing or cannot matter, and with a last read."""
    sure = [each for each in ops if each.kind == "ok" and (each.f == "cas" or reads)]
    found = [
        Call(each.begin, each.end, ("cas", each.before, each.value) if each.f == "cas" else ("read", each.value, None))
        for each in sure
    ]
    if last is not None:
        over = max([each.end or each.begin for each in ops], default=0) + 1
        found.append(Call(over, over + 1, ("read", last, None)))
    by_value = {each.value: each for each in ops if each.f == "cas" and each.kind == "info"}
    wanted = [call.operation[1] for call in found]
    while wanted:
        each = by_value.pop(wanted.pop(), None)
        if each is not None:
            found.append(Call(each.begin, None, ("cas", each.before, each.value)))
            wanted.append(each.before)
    return found


def _seq_no(each: CasOperation) -> int:
    assert each.version is not None
    return each.version[0]


def the_loser_was_acknowledged_too(run: Altered) -> None:
    lost = first(run.cas, run.moment("dead", 5), kind="info")
    process = (lost["op"] - 1) // 2
    lost |= {"kind": "ok", "status": 200, "outcome": "ok", "seq_no": 100 + process // 2, "primary_term": 2}


def the_last_acknowledged_value_is_gone(run: Altered) -> None:
    """Every copy went back to the one before."""
    assert run.readback is not None
    writes = [line for line in run.cas if line["kind"] == "invoke" and line["f"] == "cas" and line["key"] == "c-0"]
    last = writes[-1]
    old = {"value": last["value"][0], "seq_no": last["if_seq_no"], "primary_term": last["if_primary_term"]}
    run.readback["cas"]["c-0"] = [{**copy, **old} for copy in run.readback["cas"]["c-0"]]


def one_version_has_another_value_on_a_copy(run: Altered) -> None:
    assert run.readback is not None
    run.readback["cas"]["c-1"][2]["value"] = 77_777


def a_seq_no_went_back(run: Altered) -> None:
    first(run.cas, run.moment("dead", 5), kind="ok", value=None)["seq_no"] = 3


CHECKS = (
    Check(
        "cas.violations",
        "count",
        lambda record, *_: measure(record),
        Words.of(
            missed="Compare-and-set broke its promise {times}",
            question="compare-and-set kept its promise",
            promise="Compare-and-set kept its promise",
            short="cas.violations",
        ),
        group="data",
        scope=Scope.RUN,
        rests=Rests.DATA,
        promise=True,
        needs=("cas",),
        meaning=(
            "Answers to compare-and-set (if_seq_no, if_primary_term) that no order of the operations explains: two "
            "writers were both told that they won, or a read went back."
        ),
        helps=("investigate", "explicit-ids", "three-managers", "manager-block"),
        order=100,
        trial=Trial(
            "0",
            None,
            (
                the_loser_was_acknowledged_too,
                the_last_acknowledged_value_is_gone,
                one_version_has_another_value_on_a_copy,
                a_seq_no_went_back,
            ),
        ),
    ),
)
