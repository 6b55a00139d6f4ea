"""A series: R runs of one experiment, judged together. The run is the unit, and R is fixed in advance.

The verdict on an expectation over R runs that count (docs/statistics.md):

* A **share or an amount of seconds** (good, outage, latency) is judged by its mean over runs, with Student's t:
  PASS when the one-sided 95 % bound meets the target, FAIL when the opposite bound misses it, else INCONCLUSIVE.
  The same value in all runs has no spread to judge by: then by ranks, as the next.
* A **time until something is over** (regained, recovered, until, the steps of the ladder), and whatever is censored
  in a run, is judged without a distribution, by ranks. R runs bound the q-quantile from above, q = 0.05^(1/R): PASS
  when all R meet the target, FAIL when so many miss it that this same quantile misses it with 95 %.
* A **count** (lost writes, moved shards) must hold in every run. One run that misses it is a weakness, also one that
  is left out otherwise: what was lost is lost. So with what every run promises of its data without a line.

A weakness is known up to the bound of its note: one run that counts and is worse makes it a weakness of the series. So
does a count that is worse in a run that is left out otherwise.

Fewer than five runs that count conclude nothing, but an expectation that was missed in every one of them is a
weakness, as it is in a single run. Nothing passes over a run that ended in an error, was aborted or proved
nothing, over one that was planned and not made, nor over a value that is missing. A doubtful value (one that
hangs on the machine) counts against a pass and never towards a failure.

A weakness of a single run is told, and is none of the series by itself (but for counts): the bounds decide.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from chaos.base import text
from chaos.base.errors import Exit
from chaos.base.intervals import (
    FEWEST,
    LEVEL,
    Interval,
    Range,
    bounded_quantile,
    lower_rank,
    median,
    ranked,
    t_interval,
)
from chaos.checks import shown as verdicts
from chaos.checks.measure import Bound, Measure, Verdict, judge
from chaos.checks.reasons import Outcome
from chaos.checks.shown import CLEAR, Shown, by_counts
from chaos.checks.verdict import OF_A_NOTE, Counts, exit_code, worst
from chaos.statistics import facts as reading
from chaos.statistics.facts import Facts, Known, Target

VERSION = 1
SIGNED = ("number", "ratio")
"""Units of a team's own numbers, which may be anything."""


@dataclass(frozen=True)
class Figures:
    """A metric over runs. ``interval``: of the mean, with five exact values and more; ``quantile``: the one that the
    largest value bounds from above with 95 %."""

    unit: str
    values: tuple[Known, ...]
    median: Range
    least: Range
    most: Range
    interval: Interval | None
    quantile: float | None

    @property
    def exact(self) -> bool:
        return all(value.range.is_exact for value in self.values)

    def to_json(self) -> dict[str, Any]:
        return {
            "unit": self.unit,
            "runs": len(self.values),
            "median": shown(self.median, self.unit),
            "min": shown(self.least, self.unit),
            "max": shown(self.most, self.unit),
            "interval": None
            if self.interval is None
            else {"low": self.interval.low, "high": self.interval.high, "level": self.interval.level},
            "bounded_quantile": self.quantile,
            "values": [value.text for value in self.values],
        }


def figures(values: Sequence[Known], metric: str) -> Figures | None:
    """What there is to say of a metric over runs, targets aside; None without a value."""
    if not values:
        return None
    ranges = [value.range for value in values]
    exact = all(each.is_exact for each in ranges)
    unit = values[0].unit
    mean = exact and not reading.is_recovery(metric) and unit != "count"
    interval = t_interval([each.low for each in ranges]) if mean else None
    if interval is not None:
        interval = within_unit(interval, unit, whole=not OVER_ONE.fullmatch(metric.partition("@")[0]))
    return Figures(
        unit=unit,
        values=tuple(values),
        median=median(ranges),
        least=ranked(ranges, 1),
        most=ranked(ranges, len(ranges)),
        interval=interval,
        quantile=bounded_quantile(len(ranges)),
    )


OVER_ONE = re.compile(r"costs\.elected|manager\.processor")
"""Shares of one processor: a process may use several."""


def within_unit(interval: Interval, unit: str, *, whole: bool = True) -> Interval:
    """No share of a whole is above 1, nothing but a team's own number is below 0.

    Cutting the impossible off takes nothing from the coverage.
    """
    if unit in SIGNED:
        return interval
    top = 1.0 if unit == "share" and whole else float("inf")
    return Interval(max(0.0, interval.low), min(top, interval.high), interval.level)


def percent(share: float) -> str:
    """A level or a quantile for people: ``95 %``."""
    return f"{share * 100:.0f} %"


def shown(value: Range, unit: str) -> str:
    """A range for people: ``3.4 s``, ``≥ 62 s``, ``99.1 % to 100 %``."""
    low = Measure(value.low, unit, "").text
    if value.is_exact:
        return low
    if value.high == float("inf"):
        return f"≥ {low}"
    return f"{low} to {Measure(value.high, unit, '').text}"


@dataclass(frozen=True)
class SeriesFinding:
    """One expectation over the series."""

    target: Target
    title: str
    wanted: str
    figures: Figures | None
    verdict: Verdict
    counts_as: Counts
    says: str
    missed: tuple[str, ...]
    """The runs that missed it by themselves."""
    doubtful: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.target.id,
            "title": self.title,
            "target": self.wanted,
            "verdict": self.verdict.value,
            "counts_as": self.counts_as.value,
            "says": self.says,
            "known_weakness": self.target.known_weakness,
            "missed_in": list(self.missed),
            "doubtful_in": list(self.doubtful),
            "figures": None if self.figures is None else self.figures.to_json(),
        }


@dataclass(frozen=True)
class Series:
    """The judged series. ``planned``: R as it was fixed before the first run; None when nobody fixed it."""

    runs: tuple[Facts, ...]
    planned: int | None
    findings: tuple[SeriesFinding, ...]
    metrics: dict[str, Figures]
    outcome: Outcome
    clean: bool | None
    reasons: tuple[str, ...] = field(default_factory=tuple)
    weaknesses: int = 0
    """How many reasons make a weakness of it."""

    @property
    def counted(self) -> tuple[Facts, ...]:
        return tuple(run for run in self.runs if run.excluded is None)

    @property
    def exit_code(self) -> Exit:
        return exit_code(self.outcome, self.clean)

    @property
    def called(self) -> Shown:
        """What the verdict is called: its outcome, or a pass with known weaknesses, or improved."""
        counts = [finding.counts_as.value for finding in self.findings]
        gone = sum(count is Counts.UNEXPECTED_PASS for count in (finding.counts_as for finding in self.findings))
        return by_counts(self.outcome.value, counts, notes_alone=gone > 0 and gone == self.weaknesses)

    @property
    def sentence(self) -> str:
        """The series in one line."""
        made, counted = len(self.runs), len(self.counted)
        known = [finding for finding in self.findings if finding.counts_as is Counts.KNOWN_WEAKNESS]
        words = {
            Shown.PASS: "Every expectation is met with 95 % confidence",
            Shown.KNOWN: f"Every expectation is met with 95 % confidence but {len(known)}, missed as known",
            Shown.IMPROVED: f"A known weakness is gone: {CLEAR}",
            Shown.WEAKNESS: "The cluster does not keep what is expected of it",
            Shown.INCONCLUSIVE: "Too little is known for a verdict",
            Shown.ABORTED: "The series was stopped before its end",
            Shown.ERROR: "A run of the series failed by itself",
        }[self.called]
        of = f" of {self.planned} planned" if self.planned is not None and self.planned != made else ""
        by_themselves = verdicts.counted(verdicts.of({**run.findings, "outcome": run.outcome}) for run in self.runs)
        return f"{words}. {text.plural(made, 'run')}{of}, {counted} of them count; by themselves: {by_themselves}."

    def to_json(self) -> dict[str, Any]:
        first = self.runs[0] if self.runs else None
        return {
            "format": VERSION,
            "outcome": self.outcome.value,
            "clean": self.clean,
            "exit_code": int(self.exit_code),
            "summary": self.sentence,
            "reasons": list(self.reasons),
            "experiment": first.experiment.get("name") if first else None,
            "hash": first.plan.get("hash") if first else None,
            "planned_runs": self.planned,
            "counted_runs": len(self.counted),
            "level": LEVEL,
            "runs": [
                {
                    "run": run.name,
                    "seed": run.plan.get("seed"),
                    "outcome": run.outcome,
                    "clean": run.clean,
                    "counts": run.excluded is None,
                    "why_not": run.excluded,
                }
                for run in self.runs
            ],
            "findings": [finding.to_json() for finding in self.findings],
            "metrics": {name: each.to_json() for name, each in self.metrics.items()},
        }


def evaluate(runs: Sequence[Facts], planned: int | None = None) -> Series:
    """Judge the runs of a series together. Pure. All must be of one experiment (:mod:`chaos.statistics.store`)."""
    counted = [run for run in runs if run.excluded is None]
    gaps = [f"run {run.name} gives no numbers: {run.excluded}" for run in runs if run.hides]
    if planned is not None and len(runs) < planned:
        gaps.append(f"only {len(runs)} of {planned} runs were made")
    listed = (*reading.targets(runs[0].plan), *reading.promises(runs)) if runs else ()
    groups: dict[int, list[SeriesFinding]] = {}
    for target in listed:
        groups.setdefault(target.group, []).append(_finding(target, runs, counted, gaps))
    findings = tuple(finding for group in groups.values() for finding in _counted(group, runs))
    reasons: list[tuple[Outcome, str]] = [
        (Outcome(run.outcome), f"run {run.name} ended as {run.outcome}: {run.excluded}")
        for run in runs
        if run.outcome in (Outcome.ERROR, Outcome.ABORTED)
    ]
    weak = (Counts.WEAKNESS, Counts.UNEXPECTED_PASS)
    reasons += [(Outcome.WEAKNESS, f"{f.title}: {f.says}") for f in findings if f.counts_as in weak]
    reasons += [(Outcome.WEAKNESS, f"run {run.name}: {says}") for run in runs for says in run.ended]
    reasons += [(Outcome.INCONCLUSIVE, gap) for gap in gaps]
    if len(counted) < FEWEST:  # else a run whose instruments failed is one less, and no more than that
        reasons += [
            (Outcome.INCONCLUSIVE, f"run {run.name} gives no numbers: {run.excluded}")
            for run in runs
            if run.excluded is not None and not run.hides
        ]
    reasons += [(Outcome.INCONCLUSIVE, f"{f.title}: {f.says}") for f in findings if f.counts_as is Counts.INCONCLUSIVE]
    if not findings:
        reasons.append((Outcome.INCONCLUSIVE, "nothing is expected, so nothing was tested"))
    names = list(dict.fromkeys(name for run in counted for name in run.metrics))
    over = {
        name: found
        for name in names
        if (found := figures([run.metrics[name] for run in counted if name in run.metrics], name)) is not None
    }
    cleans = [run.clean for run in runs]
    clean = False if False in cleans else None if None in cleans or not runs else True
    outcome = worst([outcome for outcome, _ in reasons])
    order = list(Outcome)
    told = [says for _, says in sorted(reasons, key=lambda item: order.index(item[0]))]
    weaknesses = sum(each is Outcome.WEAKNESS for each, _ in reasons)
    return Series(tuple(runs), planned, findings, over, outcome, clean, tuple(told), weaknesses)


def _finding(target: Target, runs: Sequence[Facts], counted: Sequence[Facts], gaps: Sequence[str]) -> SeriesFinding:
    items = [(run, run.by_id.get(target.id)) for run in counted]
    sure: list[tuple[Facts, Verdict, Known]] = []
    doubt: list[tuple[Facts, Verdict, Known]] = []
    missing = []
    for run, item in items:
        value = None if item is None else reading.value_of(item)
        if item is None or value is None:
            unseen = item is not None and item.get("may_be_worse") and item.get("because")
            missing.append(f"{run.name} ({unseen})" if unseen else run.name)
            continue
        raw = reading.raw_verdict(item, target.comparison, target.value)
        (doubt if reading.is_doubtful(item) else sure).append((run, raw, value))
    any_item = next((run.by_id[target.id] for run in runs if target.id in run.by_id), None)
    unit = next((value.unit for _, _, value in sure + doubt), None) or (reading.unit_of(any_item) if any_item else "")
    doubts = [reading.doubtful(value, target.metric) for _, _, value in doubt]
    over = figures([*(value for _, _, value in sure), *doubts], target.metric)
    stands = [run.name for run in runs if (run.by_id.get(target.id) or {}).get("verdict") == "fail"]
    censored = any(value.bound is not Bound.EXACT for _, _, value in sure + doubt)
    holes = [*gaps, *([f"no value in {text.listed(missing)}"] if missing else [])]
    if unit == "count":
        verdict, says = _every_run(sure, doubt, stands, len(runs))
    elif reading.is_recovery(target.metric) or censored:
        verdict, says = _by_ranks(sure, doubt)
    else:
        verdict, says = _by_mean(sure, doubt, target)
    if verdict is not Verdict.FAIL and sure and all(raw is Verdict.FAIL for _, raw, _ in sure):
        verdict, says = Verdict.FAIL, f"missed in {_all_of(len(sure))} ({says})"
    if verdict is Verdict.PASS and holes:
        verdict, says = Verdict.INCONCLUSIVE, f"{says}; does not count, because {holes[0]}"
    if verdict is not Verdict.FAIL and stands:
        says += f"; missed in {text.plural(len(stands), 'run')} by itself"
    return SeriesFinding(
        target=target,
        title=str(any_item["title"]) if any_item else target.id,
        wanted=str(any_item["target"]) if any_item else f"{target.comparison} {target.value:g}",
        figures=over,
        verdict=verdict,
        counts_as=Counts.PASS,
        says=says,
        missed=tuple(stands),
        doubtful=tuple(run.name for run, _, _ in doubt),
    )


def _all_of(runs: int) -> str:
    return "the only run that counts" if runs == 1 else f"all {runs} runs that count"


def _too_few(sure: Sequence[Any]) -> str:
    return f"{text.plural(len(sure), 'run')} with a value that counts, and {FEWEST} are the fewest that conclude"


Judged = Sequence[tuple[Facts, Verdict, Known]]


def _every_run(sure: Judged, doubt: Judged, stands: Sequence[str], runs: int) -> tuple[Verdict, str]:
    """A count: one miss in any run, counted or left out, is a weakness."""
    missed = list(dict.fromkeys([*stands, *(run.name for run, raw, _ in sure if raw is Verdict.FAIL)]))
    if missed:
        return Verdict.FAIL, f"missed in {len(missed)} of {text.plural(runs, 'run')}"
    if len(sure) < FEWEST:
        return Verdict.INCONCLUSIVE, _too_few(sure)
    if doubt or any(raw is not Verdict.PASS for _, raw, _ in sure):
        return Verdict.INCONCLUSIVE, "not decided in every run"
    most = 1 - bounded_quantile(len(sure))
    return Verdict.PASS, f"kept in all {len(sure)} runs: with 95 % confidence at most {percent(most)} of runs miss it"


def _by_ranks(sure: Judged, doubt: Judged) -> tuple[Verdict, str]:
    """A time until something is over, or whatever is censored: comparisons of ranks, hence of how many runs miss."""
    if len(sure) < FEWEST:
        return Verdict.INCONCLUSIVE, _too_few(sure)
    runs = len(sure) + len(doubt)
    q = bounded_quantile(runs)
    met = sum(raw is Verdict.PASS for _, raw, _ in sure)
    missed = sum(raw is Verdict.FAIL for _, raw, _ in sure)
    bounded = f"{runs} runs bound the {percent(q)} quantile"
    rank = lower_rank(runs, q)
    if met == runs:
        return Verdict.PASS, f"met in all {runs} runs, and {bounded}"
    if rank and missed >= runs - rank + 1:
        return Verdict.FAIL, f"missed in {missed} of {runs} runs, so the {percent(q)} quantile misses it too"
    open_ = f", {text.plural(runs - met - missed, 'run')} undecided" if met + missed < runs else ""
    return (
        Verdict.INCONCLUSIVE,
        f"met in {met} and missed in {missed} of {runs} runs{open_}; {bounded}, which takes all of them to pass",
    )


def _by_mean(sure: Judged, doubt: Judged, target: Target) -> tuple[Verdict, str]:
    """The mean over runs, with and without the doubtful values: a verdict only where both say the same."""
    if len(sure) < FEWEST:
        return Verdict.INCONCLUSIVE, _too_few(sure)
    hard = [value.low for _, _, value in sure]
    if min(hard) == max(hard):
        verdict, says = _by_ranks(sure, doubt)
        return verdict, f"{_text(hard[0], sure[0][2].unit)} in every run, so ranks: {says}"
    worse = hard + [value.low for _, raw, value in doubt if raw is Verdict.FAIL]
    better = hard + [value.low for _, raw, value in doubt if raw is Verdict.PASS]
    unit = sure[0][2].unit
    upwards = target.comparison in (">=", ">")
    wanted = [_one_sided(values) for values in (hard, worse)]
    opposite = [_one_sided(values) for values in (hard, better)]
    met = [(each.low if upwards else each.high) for each in wanted]
    missed = [(each.high if upwards else each.low) for each in opposite]

    def holds(bound: float) -> bool:
        return judge(Measure(bound, unit, ""), target.comparison, target.value) is Verdict.PASS

    near = min(met) if upwards else max(met)
    far = max(missed) if upwards else min(missed)
    side, other = ("at least", "at most") if upwards else ("at most", "at least")
    doubtful = f"; {text.plural(len(doubt), 'value')} hang on the machine" if doubt else ""
    if all(map(holds, met)) and not any(raw is Verdict.PASS for _, raw, _ in doubt):
        return Verdict.PASS, f"the mean is {side} {_text(near, unit)} (95 %, {len(sure)} runs){doubtful}"
    if not any(map(holds, missed)):
        return Verdict.FAIL, f"the mean is {other} {_text(far, unit)} (95 %, {len(sure)} runs){doubtful}"
    low, high = sorted((near, far))
    between = f"the mean is between {_text(low, unit)} and {_text(high, unit)}"
    return Verdict.INCONCLUSIVE, f"{between} (95 % each side, {len(sure)} runs){doubtful}"


def _one_sided(values: Sequence[float]) -> Interval:
    """Both one-sided 95 % bounds of the mean: the two-sided interval with 90 %."""
    found = t_interval(values, 2 * LEVEL - 1)
    assert found is not None  # five values at least, and not all the same
    return found


def _text(value: float, unit: str) -> str:
    least = float("-inf") if unit in SIGNED else 0.0
    return Measure(max(least, min(value, 1.0) if unit == "share" else value), unit, "").text


def _within(target: Target, runs: Sequence[Facts]) -> Verdict:
    """Whether every run that counts is within the bound of a known weakness, and of a count that is missed also each
    that is left out; PASS where there is no bound."""
    if target.bound is None:
        return Verdict.PASS
    found = []
    for run in runs:
        item = run.by_id.get(target.id)
        if item is None or reading.is_doubtful(item):
            continue
        if run.excluded is not None and (item["verdict"] != "fail" or reading.unit_of(item) != "count"):
            continue
        value = reading.value_of(item)
        if value is not None:
            found.append(judge(Measure(value.low, value.unit, "", value.bound), *target.bound))
    return (
        Verdict.FAIL
        if Verdict.FAIL in found
        else Verdict.INCONCLUSIVE
        if Verdict.INCONCLUSIVE in found
        else Verdict.PASS
    )


def _relaxed(target: Target, runs: Sequence[Facts]) -> bool:
    """Whether a run broke what every run promises, within what its line allows; one that is left out too, as with a
    count that is missed."""
    items = (run.by_id.get(target.id) for run in runs)
    return any(item is not None and reading.is_relaxed(item) for item in items)


def _counted(group: list[SeriesFinding], runs: Sequence[Facts]) -> list[SeriesFinding]:
    """As in a single run: a known weakness is over only when every phase of its expectation passes."""
    all_pass = all(finding.verdict is Verdict.PASS for finding in group)
    done = []
    for finding in group:
        noted = finding.target.known_weakness is not None
        counts, says = Counts.PASS, finding.says
        if finding.verdict is Verdict.INCONCLUSIVE:
            counts = Counts.INCONCLUSIVE
        elif finding.verdict is Verdict.FAIL:
            counts = OF_A_NOTE[_within(finding.target, runs)] if noted else Counts.WEAKNESS
            if noted and counts is not Counts.KNOWN_WEAKNESS:
                says += f"; not within what is known ({finding.target.known_weakness})"
        elif _relaxed(finding.target, runs):
            counts, says = Counts.RELAXED, f"{says}; allowed, because {finding.target.because}"
        elif noted and all_pass:
            counts = Counts.UNEXPECTED_PASS
            says += f"; expected to fail ({finding.target.known_weakness}): remove the note"
        done.append(replace(finding, counts_as=counts, says=says))
    return done
