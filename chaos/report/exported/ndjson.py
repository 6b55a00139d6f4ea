"""Runs as documents: lines for ``POST _bulk``, each an action with the document's id, then the document.

Ids follow from the run's name, so loading a run a second time replaces its documents and adds none.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from chaos.report.exported.catalogue import INDEX
from chaos.report.exported.source import Run

Document = dict[str, Any]


def lines(runs: Iterable[Run]) -> Iterator[str]:
    """The lines of all runs, each with its end."""
    for run in runs:
        numbers: Counter[str] = Counter()
        for document in documents(run):
            kind = document["kind"]
            action = {"index": {"_index": INDEX, "_id": f"{run.name}:{kind}:{numbers[kind]}"}}
            numbers[kind] += 1
            yield f"{_line(action)}\n{_line(document)}\n"


def documents(run: Run) -> Iterator[Document]:
    """The documents of a run. What is not known has no field."""
    common = {"run": run.name, "experiment": run.experiment}
    for kind, rows in (
        ("run", _run(run)),
        ("phase", _phases(run)),
        ("fault", _faults(run)),
        ("verdict", _verdicts(run)),
        ("annotation", _annotations(run)),
        ("sli", _slis(run)),
        ("second", _seconds(run)),
        ("failure", _failures(run)),
    ):
        for row in rows:
            document = {"@timestamp": row.pop("@timestamp"), **common, "kind": kind, **row}
            yield {name: value for name, value in document.items() if value is not None}


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _date(at: int | None) -> str | None:
    """ms since 1970 as OpenSearch's ``strict_date_optional_time``."""
    if at is None:
        return None
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _run(run: Run) -> Iterator[Document]:
    found = run.findings
    yield {
        "@timestamp": _date(run.begin),
        "end": _date(run.end),
        "seconds": (run.end - run.begin) / 1000,
        "outcome": found.outcome.value,
        "exit_code": int(found.exit_code),
        "clean": found.clean,
        "headline": found.headline,
        "topology": run.topology,
        "target": run.target,
        "opensearch": run.opensearch,
        "seed": run.record.plan.get("seed"),
    }


def _phases(run: Run) -> Iterator[Document]:
    for span in run.record.spans:
        ended = span.reason is not None
        yield {
            "@timestamp": _date(run.at(span.start)),
            "phase": span.name,
            "end": _date(run.at(span.end)) if ended else None,
            "seconds": span.seconds if ended else None,
            "reason": span.reason,
        }


def _faults(run: Run) -> Iterator[Document]:
    for fault in run.findings.faults:
        yield {
            "@timestamp": _date(run.after(fault["command"])) or _date(run.begin),
            "phase": fault["phase"],
            "fault": fault["fault"],
            "fault_kind": fault["kind"],
            "provider": fault["provider"],
            "targets": [str(each) for each in fault["targets"]],
            "in_effect": _date(run.after(fault["in_effect"])),
            "undo": _date(run.after(fault["undo"])),
            "gone": _date(run.after(fault["gone"])),
            "proven": fault["proven"],
            "text": fault["says"],
        }


def _verdicts(run: Run) -> Iterator[Document]:
    for each in run.findings.findings:
        yield {
            "@timestamp": _date(run.verdict_at(each.phase)),
            "phase": each.phase,
            "finding": each.id,
            "metric": each.metric,
            "operation": each.op,
            "wanted": each.target,
            "verdict": each.verdict.value,
            "counts_as": each.counts_as.value,
            "measured": each.measure.value,
            "unit": each.measure.unit,
            "text": each.says,
        }


def _annotations(run: Run) -> Iterator[Document]:
    for each in run.annotations():
        yield {"@timestamp": _date(each.at), "phase": each.phase, "annotation": each.kind, "text": each.text}


def _slis(run: Run) -> Iterator[Document]:
    for at, phase, name, value in run.slis():
        yield {"@timestamp": _date(at), "phase": phase, "sli": name, "value": value}


def _seconds(run: Run) -> Iterator[Document]:
    for each in run.seconds:
        median, worst = each.latency
        yield {
            "@timestamp": _date(each.at),
            "phase": each.phase,
            "operation": each.operation,
            "scheduled": each.scheduled,
            "good": each.good,
            "late": each.late,
            "availability": each.availability,
            "latency_p50": median,
            "latency_p99": worst,
        }


def _failures(run: Run) -> Iterator[Document]:
    for each in run.failed:
        yield {
            "@timestamp": _date(each.at),
            "phase": each.phase,
            "operation": each.operation,
            "reason": each.reason,
            "count": each.count,
        }
