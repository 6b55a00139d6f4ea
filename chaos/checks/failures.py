"""Why requests failed, by operation and phase: the words of :mod:`chaos.history.failures`, counted.

The load driver writes one word beside each arrival that was not ok. Where a record of an earlier version has none,
there is no table; an arrival without a word stands with its outcome. An answer that was whole and came too late did not
fail, and is counted beside. A phase has the arrivals that count for it everywhere else (``NAME.good``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from chaos.base import text
from chaos.checks.measure import Measure, Verdict
from chaos.checks.record import OUTCOMES, Record, Span
from chaos.checks.section import Row, Section
from chaos.history.failures import WORDS, Failure
from chaos.history.format import Outcome

LATE = "too_late"
"""Not a failure: answered in full, later than its objective."""
LATE_WORDS = "answered in full, too late"
MOST = 4
"""Reasons that a sentence names."""
IMPLIED = {
    Outcome.TIMEOUT: Failure.TIMEOUT,
    Outcome.RESET: Failure.CONNECTION_RESET,
    Outcome.GARBLED: Failure.GARBLED,
    Outcome.WRONG: Failure.WRONG,
    Outcome.DROPPED: Failure.DRIVER,
}
"""What an outcome alone says, where no word stands beside it."""
NO_OUTCOME = "no_outcome"
NO_OUTCOME_WORDS = "no outcome was recorded"
_LABELS = {each.label: WORDS[each] for each in Failure} | {LATE: LATE_WORDS, NO_OUTCOME: NO_OUTCOME_WORDS}


_BY_NUMBER = {int(each): each for each in Failure}


def words(label: str) -> str:
    """A reason of the table for people."""
    return _LABELS.get(label, label)


def recorded(record: Record) -> bool:
    """Whether the record has words at all."""
    return any(failure for _, _, _, failure in record.failures)


def label(outcome: int, failure: int) -> str:
    """The name of a reason, by the outcome where none was written down."""
    if not failure and outcome == Outcome.UNKNOWN:
        return NO_OUTCOME
    known = _BY_NUMBER.get(failure, Failure.OTHER)  # a later version may know more
    return (known or IMPLIED.get(Outcome(outcome), Failure.NONE)).label


def of_phase(record: Record, op: str, span: Span) -> dict[str, int]:
    """Reason → arrivals of one operation and phase, the most frequent first; those that were late last."""
    found: Counter[str] = Counter()
    for (name, phase, outcome, failure), number in record.failures.items():
        if name == op and phase == span.index:
            found[label(outcome, failure)] += number
    rows = dict(sorted(found.items(), key=lambda row: (-row[1], row[0])))
    late = int(record.in_phase(op, span).counts[OUTCOMES["ok"], 0])
    return rows | ({LATE: late} if late else {})


def table(record: Record) -> dict[str, dict[str, dict[str, int]]] | None:
    """Operation → phase → reason → arrivals; None where nothing failed, or where the record has no words."""
    if not recorded(record):
        return None
    return {
        op.name: {span.name: of_phase(record, op.name, span) for span in record.spans}
        for op in (*record.operations, *record.closed)
    }


def explained(record: Record, measure: Measure, verdict: Verdict, op: str, span: Span) -> Measure:
    """What was measured of an operation, with why its requests failed where a target was missed."""
    if verdict is not Verdict.FAIL or not recorded(record) or not (found := of_phase(record, op, span)):
        return measure
    shown = [f"{text.count(number)} {words(name)}" for name, number in list(found.items())[:MOST]]
    rest = sum(list(found.values())[MOST:])
    if rest:
        shown.append(f"{text.count(rest)} others")
    says = f"{measure.says}; not good were: {text.listed(shown)}"
    return replace(measure, says=says, evidence={**measure.evidence, "failures": found})


def section(record: Record, tables: Mapping[str, Any]) -> Section | None:
    """Why requests failed, a row for each reason of an operation, a column for each phase."""
    rows = tables.get("failures") or {}
    phases = [span.name for span in record.spans]
    found = []
    for op, by_phase in rows.items():
        total: Counter[str] = Counter()
        for each in by_phase.values():
            total.update(each)
        for name, _ in sorted(total.items(), key=lambda row: (row[0] == LATE, -row[1], row[0])):
            numbers = (text.count(by_phase.get(phase, {}).get(name, 0)) for phase in phases)
            found.append(Row(words(name), (op, *numbers)))
    if not found:
        return None
    return Section(
        id="failures",
        title="Why requests failed",
        short="Failures",
        says="What OpenSearch, or the connection, said of each request that was not answered in full, by phase.",
        head=("Reason", "Operation", *(f"{phase}#" for phase in phases)),
        rows=tuple(found),
        small=(
            "Of a bulk it is the reason of its first failed document, of a request that was sent several times that of "
            "the last."
        ),
    )
