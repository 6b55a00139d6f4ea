"""Checks on the data itself: compare-and-set, visibility, stale and dirty reads; copies are in :mod:`..writes`.

Every check is pure and reads the record alone. :func:`tables` are the figures that are shown whether expected or not,
:func:`gaps` the operations that never once succeeded, so that whatever holds for them holds for nothing.
"""

from __future__ import annotations

from typing import Any

from chaos.base import text
from chaos.checks import writes, wrong
from chaos.checks.data import cas, operations, staleness, visibility
from chaos.checks.data.operations import planned
from chaos.checks.evidence import Gap
from chaos.checks.measure import Measure
from chaos.checks.record import Record

SILENT = 10.0
"""Seconds of the phases in which none was begun, after which compare-and-set or probes were not recorded: at least 20
of them, at fewer a second."""


def violations(record: Record) -> list[str]:
    """Broken promises that no expectation has to ask for, in words: nobody wants documents that should not be there."""
    expected = {expectation.metric for expectation in record.expectations}
    found = writes.unexpected(record)
    return [found.says] if found.value and "documents.unexpected" not in expected else []


def gaps(record: Record) -> tuple[Gap, ...]:
    """Operations of the plan that never succeeded, or of which a stretch is missing: nothing was shown about them."""
    found = []
    stale: dict[int, int] = {}
    for event in record.driver:
        if event.get("kind") == "driver.stop":
            process = int(event.get("process", 0))
            stale[process] = max(stale.get(process, 0), int(event.get("stale") or 0))
    counted = sum(stale.values())
    if len(record.stale) < counted:
        found.append(f"only {len(record.stale)} of {text.plural(counted, 'stale read')} of the load are recorded")
    if planned(record, "cas") is not None:
        done = operations.of(record)
        if not any(each.acknowledged for each in done):
            found.append("no compare-and-set was ever acknowledged, so nothing was shown about them")
        if not any(each.f == "read" and each.value is not None for each in done):
            found.append("no key of compare-and-set was ever read, so nothing was shown about such reads")
    if planned(record, "visibility") is not None:
        kinds = {event["kind"] for event in record.probes}
        if not any(event["kind"] == "written" and event["acknowledged"] for event in record.probes):
            found.append("no document of the probes of visibility was ever acknowledged")
        elif "seen" not in kinds:
            found.append("no document of the probes of visibility was ever found by a search")
    return (*(Gap(says, None) for says in found), *_stretches(record))


def _stretches(record: Record) -> list[Gap]:
    """Compare-and-set and probes keep their rate whatever the cluster does: a stretch without any was not recorded."""
    found = []
    kinds = (
        ("cas", "compare-and-set", [line for line in record.cas if line["kind"] == "invoke"]),
        ("visibility", "probe of visibility", [line for line in record.probes if line["kind"] == "write"]),
    )
    for name, what, begun in kinds:
        rate = float((planned(record, name) or {}).get("rate") or 0)
        if not begun or rate <= 0:
            continue
        gap = record.longest_gap(begun)
        if gap > max(SILENT, 20 / rate):
            found.append(Gap(f"no {what} is recorded for {text.seconds(gap)} of the phases", None))
    return found


def tables(record: Record) -> dict[str, Any]:
    """``tables.data`` of findings.json; what the load did not have is left out."""
    found = {"copies": _json(writes.measure(record)) | {"beyond": _json(writes.unexpected(record))}}
    reads = False
    if planned(record, "cas") is not None:
        found["compare_and_set"] = _json(cas.measure(record))
        reads = True
    if planned(record, "visibility") is not None:
        seen = visibility.of(visibility.of_primaries(record), "p99")
        found["visibility"] = _json(seen) | {"quantile": "p99"} | visibility.table(record)
        reads = True
    if reads or record.stale:
        stale, dirty = staleness.stale_measure(record), staleness.dirty_measure(record)
        both = f"{stale.text} stale, {dirty.text} dirty" if reads else f"{text.count(len(record.stale))} stale"
        found["staleness"] = _json(stale) | {"text": both, "stale": _json(stale), "dirty": _json(dirty)}
    if answers := wrong.table(record):
        found["wrong_answers"] = answers
    return found


def _json(measure: Measure) -> dict[str, Any]:
    return {
        **measure.evidence,
        "value": measure.value,
        "text": measure.text,
        "bound": measure.bound.value,
        "says": measure.says,
    }
