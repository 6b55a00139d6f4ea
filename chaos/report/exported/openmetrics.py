"""Runs as OpenMetrics text (version 1.0.0) with time stamps, for ``promtool tsdb create-blocks-from openmetrics``.

Every sample has the label ``run`` and its time. A family stands once, with the samples of all runs; the samples of one
series follow each other in the order of their times, of which there is one a millisecond at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from chaos.report.exported.catalogue import METRICS, Metric
from chaos.report.exported.source import PERCENTILES, Run, Second

Sample = tuple[Mapping[str, str], int, float]
"""Labels beside ``run``, ms since 1970, value."""
STEP = 1000
"""Milliseconds between two samples of what lasts."""
CHARACTERS = 200
"""Of a label's value: Prometheus keeps labels in memory."""


def lines(runs: Sequence[Run]) -> Iterator[str]:
    """The text of some runs, line by line, each with its end."""
    for metric in METRICS:
        yield f"# TYPE {metric.family} gauge\n"
        if metric.unit:
            yield f"# UNIT {metric.family} {metric.unit}\n"
        yield f"# HELP {metric.family} {_escaped(metric.meaning)}\n"
        for run in runs:
            yield from _series(metric, run)
    yield "# EOF\n"


def _series(metric: Metric, run: Run) -> Iterator[str]:
    """A family's samples of one run, a series after the other."""
    series: dict[tuple[str, ...], dict[int, float]] = {}
    for labels, at, value in SAMPLES[metric.name](run):
        key = tuple(labels.get(name, "") for name in metric.labels)
        series.setdefault(key, {}).setdefault(at, value)
    for key, samples in series.items():
        given = zip(("run", *metric.labels), (run.name, *key), strict=True)
        shown = ",".join(f'{name}="{_escaped(value[:CHARACTERS])}"' for name, value in given if value)
        for at in sorted(samples):
            yield f"{metric.family}{{{shown}}} {samples[at]:.12g} {at / 1000:.3f}\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _lasting(labels: Mapping[str, str], start: int, end: int) -> Iterator[Sample]:
    """1 at each second of [start, end), at least once."""
    for at in range(start, max(end, start + 1), STEP):
        yield labels, at, 1.0


def _run_info(run: Run) -> Iterator[Sample]:
    known = {"topology": run.topology, "target": run.target, "opensearch": run.opensearch}
    labels = {"experiment": run.experiment, **{name: value for name, value in known.items() if value}}
    return _lasting(labels, run.begin, run.end)


def _of_seconds(value: Callable[[Second], float]) -> Callable[[Run], Iterator[Sample]]:
    return lambda run: (({"operation": each.operation}, each.at, value(each)) for each in run.seconds)


def _failed(run: Run) -> Iterator[Sample]:
    reasons: dict[str, set[str]] = {}
    counts = {}
    for each in run.failed:
        reasons.setdefault(each.operation, set()).add(each.reason)
        counts[each.operation, each.reason, each.at] = each.count
    for second in run.seconds:
        for reason in sorted(reasons.get(second.operation, ())):
            labels = {"operation": second.operation, "reason": reason}
            yield labels, second.at, counts.get((second.operation, reason, second.at), 0)


def _latency(run: Run) -> Iterator[Sample]:
    for each in run.seconds:
        for percent, value in zip(PERCENTILES, each.latency, strict=True):
            if value is not None:
                yield {"operation": each.operation, "percentile": str(percent)}, each.at, value


def _slis(run: Run) -> Iterator[Sample]:
    return (({"sli": name}, at, value) for at, _, name, value in run.slis())


def _phases(run: Run) -> Iterator[Sample]:
    for span in run.record.spans:
        yield from _lasting({"phase": span.name}, run.at(span.start), run.at(span.end))


def _faults(begins: str, *ends: str) -> Callable[[Run], Iterator[Sample]]:
    """Each fault from one moment of it to the first of others that is known; to the run's end where none is."""

    def samples(run: Run) -> Iterator[Sample]:
        for fault in run.findings.faults:
            moments = [run.after(fault[name]) for name in (begins, *ends)]  # type: ignore[literal-required]
            start, end = moments[0], next((each for each in moments[1:] if each is not None), run.end)
            if start is not None:
                labels = {"fault": str(fault["fault"]), "fault_kind": str(fault["kind"])}
                yield from _lasting(labels, start, end)

    return samples


def _annotations(run: Run) -> Iterator[Sample]:
    return (({"annotation": each.kind, "text": each.text}, each.at, 1.0) for each in run.annotations())


def _verdicts(run: Run) -> Iterator[Sample]:
    for each in run.findings.findings:
        labels = {
            "finding": each.id,
            "metric": each.metric,
            "operation": each.op or "",
            "phase": each.phase or "",
            "verdict": each.verdict.value,
            "counts_as": each.counts_as.value,
        }
        yield labels, run.verdict_at(each.phase), 1.0


def _measured(run: Run) -> Iterator[Sample]:
    for each in run.findings.findings:
        if each.measure.value is not None:
            labels = {"finding": each.id, "unit": each.measure.unit}
            yield labels, run.verdict_at(each.phase), each.measure.value


def _outcome(run: Run) -> Iterable[Sample]:
    return [({"outcome": run.findings.outcome.value}, run.end, 1.0)]


SAMPLES: dict[str, Callable[[Run], Iterable[Sample]]] = {
    "run_info": _run_info,
    "requests_scheduled": _of_seconds(lambda each: each.scheduled),
    "requests_good": _of_seconds(lambda each: each.good),
    "requests_late": _of_seconds(lambda each: each.late),
    "requests_failed": _failed,
    "availability_ratio": _of_seconds(lambda each: each.availability),
    "latency_seconds": _latency,
    "sli": _slis,
    "phase": _phases,
    "fault_commanded": _faults("command", "undo"),
    "fault_in_effect": _faults("in_effect", "gone", "undo"),
    "annotation": _annotations,
    "verdict": _verdicts,
    "measured": _measured,
    "outcome": _outcome,
    "exit_code": lambda run: [({}, run.end, float(run.findings.exit_code))],
}
"""What gives the samples of each metric of the catalogue."""
