"""From a history to findings: every expectation judged, and one outcome for the run.

The worst of these wins: error (ours), aborted (a guard), weakness (the cluster's), inconclusive (not
proven, not valid, too little data), pass. Clean or dirty is a separate answer. Missing data is never a
pass: a run whose events stop without ``run.end`` is an error, and an experiment that expects nothing proves
nothing.

What may stand when something was not proven: a finding that was over before the gap opened stands as it is, and so does
one that hangs on what comes after its phase, if enough of that came before the gap (:attr:`.check.Check.known_by`); a
pass or a failure measured under an unproven fault is inconclusive. Instruments that were not good enough spoil what
depends on time, and nothing else (:class:`.evidence.Spoils`). Lost acknowledged writes stand whatever the fault was:
the cluster had said yes. So does whatever else of data is more than may be; what a command of the run says, and what
its load cost, is about no data. The one exception is an external actor who may have lost them himself: then only what
was seen before he changed anything stands (:mod:`.dated`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from chaos.base import text
from chaos.base.errors import SEVERITY, Exit
from chaos.checks import (
    availability,
    beside,
    cancelled,
    catalogue,
    coverage,
    data,
    dated,
    deciding,
    defaults,
    during,
    enough,
    evidence,
    failures,
    forgiving,
    gravity,
    instruments,
    leaving,
    made,
    noticed,
    others,
    projection,
    refused,
    returned,
    rules,
    sealed,
    semantics,
    steady,
    strangers,
    summary,
    swaps,
    validity,
    within,
)
from chaos.checks.check import Rests, Scope
from chaos.checks.measure import Bound, Measure, Verdict, judge
from chaos.checks.models import FaultItem, FindingItem, FindingsFile, RulesItem, ValidityItem
from chaos.checks.reasons import Cause, Outcome, Reason, ordered
from chaos.checks.record import SECOND, Expected, HistoryLike, Record, Span
from chaos.history import events
from chaos.history.reader import History

FINDINGS_VERSION = 1
STAGES = ("before", "effect", "held", "gone")
UNTIL_RESTS_ON_TIME = "until_rests_on_time"
"""The key of plan.json by which gaps that spoil data alone do not spoil what a phase waited for. Runs without it are
judged as they were."""
ABORT_GOAL_SECONDS = 5.0
"""From a stop being asked for until every fault has been taken back."""


class Counts(StrEnum):
    """What a finding does to the run's outcome."""

    PASS = "pass"
    WEAKNESS = "weakness"
    INCONCLUSIVE = "inconclusive"
    KNOWN_WEAKNESS = "known_weakness"
    RELAXED = "relaxed"
    """What every run promises is broken, within what the file allows with its reason: no pass, and no weakness."""
    UNEXPECTED_PASS = "unexpected_pass"


EXIT = {
    Outcome.PASS: Exit.PASS,
    Outcome.WEAKNESS: Exit.WEAKNESS,
    Outcome.INCONCLUSIVE: Exit.INCONCLUSIVE,
    Outcome.ABORTED: Exit.ABORTED,
    Outcome.ERROR: Exit.ERROR,
}


@dataclass(frozen=True)
class Known:
    """What a finding is held against beside its target. ``bound``: how bad a known weakness may be, as text.

    ``within``: whether it is no worse than that; PASS where there is no bound. ``broken``: it breaks what every run
    promises of its data, whatever the line allows.
    """

    bound: str | None = None
    within: Verdict = Verdict.PASS
    broken: bool = False


@dataclass(frozen=True)
class Finding:
    """One expectation in one phase, judged."""

    id: str
    title: str
    metric: str
    op: str | None
    phase: str | None
    target: str
    measure: Measure
    verdict: Verdict
    counts_as: Counts
    known_weakness: str | None
    says: str
    because: str | None = None
    """Why what was measured does not count; ``says`` has it too, after what was measured."""
    default: bool = False
    """No line of the definition asks for it: every run is held to it (:mod:`.defaults`)."""
    relaxed: str | None = None
    """Why a line allows more than every run promises; None where it allows no more."""
    known: Known = Known()
    may_be_worse: bool = False
    """Something was not seen, of which the truth may be worse than what was measured."""

    def to_json(self) -> FindingItem:
        item: FindingItem = {
            "id": self.id,
            "title": self.title,
            "metric": self.metric,
            "op": self.op,
            "phase": self.phase,
            "target": self.target,
            "measured": self.measure.value,
            "measured_text": self.measure.text,
            "bound": self.measure.bound.value,
            "unit": self.measure.unit,
            "verdict": self.verdict.value,
            "counts_as": self.counts_as.value,
            "known_weakness": self.known_weakness,
            "says": self.says,
            "because": self.because,
            "evidence": self.measure.evidence,
        }
        if self.known.bound is not None:
            item["known_bound"] = self.known.bound
        if self.default:
            item["default"] = True
        if self.relaxed is not None:
            item["relaxed"] = self.relaxed
        if self.may_be_worse:
            item["may_be_worse"] = True
        return item


@dataclass(frozen=True)
class Findings:
    """All that the checks say about a run. ``clean`` None: nobody recorded whether clean-up succeeded."""

    outcome: Outcome
    headline: str
    """What decides, or what users saw of a run that passed; ``summary`` begins with it."""
    summary: str
    clean: bool | None
    reasons: tuple[Reason, ...]
    findings: tuple[Finding, ...]
    tables: dict[str, Any]
    validity: ValidityItem
    faults: list[FaultItem]
    run: dict[str, Any] = field(default_factory=dict)
    abort: dict[str, Any] | None = None
    """How long an abort took until nothing was in effect; None when nothing was aborted, or nobody could say."""
    rules: RulesItem = field(default_factory=RulesItem)

    @property
    def exit_code(self) -> Exit:
        return exit_code(self.outcome, self.clean)

    def to_json(self) -> FindingsFile:
        return {
            "format": FINDINGS_VERSION,
            "outcome": self.outcome.value,
            "headline": self.headline,
            "summary": self.summary,
            "clean": self.clean,
            "exit_code": int(self.exit_code),
            "reasons": [reason.to_json() for reason in self.reasons],
            "findings": [finding.to_json() for finding in self.findings],
            "tables": self.tables,
            "validity": self.validity,
            "faults": self.faults,
            "run": self.run,
            "abort": self.abort,
            "rules": self.rules,
        }


def worst(outcomes: list[Outcome]) -> Outcome:
    """The worst of some outcomes; of none, pass."""
    order = list(Outcome)
    return min(outcomes, key=order.index, default=Outcome.PASS)


def exit_code(outcome: Outcome | str, clean: bool | None) -> Exit:
    """The command's exit code of one run. Dirty wins; an unknown clean-up is no pass."""
    codes = [EXIT[Outcome(outcome)]]
    if clean is False:
        codes.append(Exit.DIRTY)
    elif clean is None:
        codes.append(Exit.INCONCLUSIVE)
    return min(codes, key=SEVERITY.index)


def evaluate(history: HistoryLike) -> Findings:
    """Judge a run. Pure: the same history gives the same findings, on any machine.

    By the rules of its plan. Of a run of older rules the findings say what the newest rules would add.
    """
    record = Record(history)
    findings = _evaluate(record)
    return replace(findings, rules=rules.compared(record, findings, _evaluate))


def _evaluate(record: Record) -> Findings:
    faults = evidence.faults(record)
    conditions = validity.conditions(record)
    gathered: dict[Cause, tuple[evidence.Gap, ...]] = {
        Cause.PROCESS: (),
        Cause.DISK: (),
        Cause.SETTINGS: (*others.gaps(record), *cancelled.gaps(record)),
        Cause.FAULT: tuple(gap for fault in faults for gap in fault.gaps),
        Cause.STEP: (*during.gaps(record), *beside.gaps(record), *evidence.step_gaps(record)),
        Cause.NEVER_GOOD: evidence.vacuous_operations(record),
        Cause.NEVER_SHOWN: data.gaps(record),
        Cause.TOO_LITTLE: enough.gaps(record),
        Cause.PUSHED: leaving.gaps(record),
        Cause.INSTRUMENT: tuple(validity.gaps(conditions)),
    }
    for instrument in reversed(instruments.every()):  # what each saw stands before what is concluded from elsewhere
        for cause, found in instrument.gaps.items():
            gathered[cause] = (*found(record), *gathered.get(cause, ()))
    gaps = [*(gap for some in gathered.values() for gap in some), *strangers.gaps(record)]
    findings, broken = _findings(record, gaps)
    excused = any(gap.excuses("documents.unexpected") for gap in gaps)
    reasons = [
        *sealed.reasons(record),
        *_run_reasons(record),
        *(Reason(Outcome.ERROR, Cause.CHECK_BROKEN, says) for says in broken),
        *(
            Reason(Outcome.WEAKNESS, instrument.weakness, says)
            for instrument in instruments.every()
            if instrument.weaknesses is not None
            for says in instrument.weaknesses(record, _missed(findings))
        ),
        *(  # by rules 2 a finding of its own
            Reason(Outcome.WEAKNESS, Cause.DOCUMENTS, f"Documents that should not be there: {says}")
            for says in (data.violations(record) if not excused and record.rules < defaults.RULES else ())
        ),
        *(Reason(Outcome.INCONCLUSIVE, Cause.SETTINGS, says) for says in strangers.reasons(record)),
    ]
    for cause, some in gathered.items():
        reasons += [Reason(Outcome.INCONCLUSIVE, cause, gap.says) for gap in some if _concerns(gap, findings)]
    reasons += [each for finding in findings if (each := _reason(finding)) is not None]
    if all(finding.default for finding in findings):
        nothing = str(record.plan.get("judged_by") or "the experiment expects nothing, so nothing was tested")
        reasons.append(Reason(Outcome.INCONCLUSIVE, Cause.NOTHING_EXPECTED, nothing))
    if record.readback is None and _end_of(record) == "finished":
        nobody = "There is no read-back, so nobody knows what the cluster held"
        reasons.append(Reason(Outcome.INCONCLUSIVE, Cause.NO_READBACK, nobody))
    outcome = worst([reason.outcome for reason in reasons])
    tables = _tables(record)
    shown = [_fault_json(record, fault) for fault in faults]
    in_order = ordered(reasons, _gravity)
    headline, more = summary.told(
        outcome.value,
        tables,
        [reason.to_json() for reason in in_order],
        [finding.to_json() for finding in findings],
        shown,
    )
    return Findings(
        outcome=outcome,
        headline=headline,
        summary=f"{headline} {more}".strip(),
        clean=_clean(record),
        reasons=in_order,
        findings=tuple(findings),
        tables=tables,
        validity={
            "valid": all(condition.ok for condition in conditions),
            "checks": [condition.to_json() for condition in conditions],
            "windows_seconds": validity.widths(record),
            "client_errors": validity.client_errors(record),
        },
        faults=shown,
        run=_run_json(record),
        abort=_abort_json(record),
    )


def judge_folder(run_folder: Path) -> FindingsFile:
    """Judge a run's folder and write its ``findings.json``. Returns what was written.

    Raises :class:`chaos.base.errors.HistoryError` when the folder is no run's folder.
    """
    history = History.open(run_folder)
    return made.write(run_folder, evaluate(history).to_json(), history.seal)


def _missed(findings: list[Finding]) -> list[str | None]:
    """The phases in which something was missed."""
    return [finding.phase for finding in findings if finding.counts_as is Counts.WEAKNESS]


# -- the run -------------------------------------------------------------------------------------


def _run_reasons(record: Record) -> list[Reason]:
    reasons = []
    end = _end(record)
    if end is None and (nowhere := sealed.no_end(record)) is not None:
        reasons += nowhere
    elif end is None:
        where = record.spans[-1].name if record.spans else None
        place = f"in the phase {where}" if where else "before the first phase"
        reasons.append(Reason(Outcome.ERROR, Cause.RUNNER_DIED, f"The runner died {place}; the history ends there"))
    elif end.reason == "error":
        reasons.append(Reason(Outcome.ERROR, Cause.RUNNER_DIED, "The runner ended with an error"))
    for error in record.seen(events.Error):
        reasons.insert(0, Reason(Outcome.ERROR, Cause.ERROR, str(error.says or "an error without a message")))
    reasons += [Reason(Outcome.ERROR, Cause.REFUSED, says) for says in refused.reasons(record)]
    for guard in record.seen(events.GuardTripped):
        says = f"The guard {guard.guard} tripped: {guard.says}"
        reasons.append(Reason(Outcome.ABORTED, Cause.GUARD, says))
    for abort in record.seen(events.Abort):
        reasons.append(Reason(Outcome.ABORTED, Cause.ABORTED, str(abort.says or "aborted")))
    if end is not None and end.reason == "aborted":
        reasons.append(Reason(Outcome.ABORTED, Cause.ABORTED, "The run was aborted"))
    return reasons


def _end_of(record: Record) -> str | None:
    """How the run ended, as the runner says; None when it never did."""
    end = _end(record)
    return None if end is None else str(end.reason)


def _end(record: Record) -> events.RunEnd | None:
    return next(iter(record.seen(events.RunEnd)), None)


def _clean(record: Record) -> bool | None:
    if record.clean is None:
        return None
    return record.clean.get("clean") is True


# -- the findings --------------------------------------------------------------------------------


def _reason(finding: Finding) -> Reason | None:
    """A finding as a reason, where it is one."""
    if finding.counts_as in (Counts.PASS, Counts.KNOWN_WEAKNESS, Counts.RELAXED):
        return None
    if finding.metric == defaults.PROCESS:
        return None  # the end itself is a reason already (:mod:`.ends`)
    on_data = catalogue.rests_on(finding.metric, Rests.DATA)
    cause = Cause.DATA if on_data else Cause.USERS if finding.op else Cause.FINDING
    if finding.counts_as is Counts.UNEXPECTED_PASS:
        cause = Cause.NOTE
    outcome = Outcome.INCONCLUSIVE if finding.counts_as is Counts.INCONCLUSIVE else Outcome.WEAKNESS
    return Reason(outcome, cause, f"{finding.title}: {finding.says}", finding.id)


def _gravity(reason: Reason) -> int:
    """The place of a reason about data among its like."""
    return gravity.rank(gravity.metric_of(reason.finding) if reason.finding else "documents.unexpected")


def _measure(record: Record, expectation: Expected, span: Span | None) -> Measure:
    """``span`` None: of the whole run."""
    check = catalogue.of(expectation.metric)
    if check is None or (check.scope is Scope.RUN) is not (span is None):
        return Measure.missing("count", f"this version does not know the metric {expectation.metric}")
    if check.scope is Scope.OPERATION and expectation.op not in record.arrivals:
        return Measure.missing("count", f"the load has no {expectation.op}s")
    return check.measure(record, expectation, span)  # type: ignore[arg-type]


def _findings(record: Record, gaps: list[evidence.Gap]) -> tuple[list[Finding], list[str]]:
    """All findings, and what went wrong inside a check (our own error, never the cluster's)."""
    findings: list[Finding] = []
    broken: list[str] = []
    used: dict[str, int] = {}

    def unique(name: str) -> str:
        used[name] = used.get(name, 0) + 1
        return name if used[name] == 1 else f"{name}#{used[name]}"

    doubt = forgiving.Doubt(record)
    hopeful = validity.hopeful(record)
    for expectation in (*record.expectations, *defaults.expectations(record)):
        group = []
        for phase in expectation.phases or (None,):
            try:
                judged = _judged(record, doubt, hopeful, expectation, phase, gaps)
            except Exception as error:  # a broken check must not lose the others' findings
                broken.append(f"the check of {expectation.text} failed: {type(error).__name__}: {error}")
                judged = Judged.nothing(broken[-1])
            name = expectation.metric + (f"@{phase}" if phase else "")
            group.append(
                Finding(
                    id=unique(name),
                    title=expectation.text + (f" in {phase}" if phase else ""),
                    metric=expectation.metric,
                    op=expectation.op,
                    phase=phase,
                    target=expectation.text.removeprefix(expectation.metric).strip(),
                    measure=judged.measure,
                    verdict=judged.verdict,
                    counts_as=Counts.PASS,
                    known_weakness=expectation.known_weakness,
                    says=judged.says,
                    because=judged.because,
                    default=expectation.default,
                    relaxed=expectation.because,
                    known=_known(record, expectation, judged.measure),
                    may_be_worse=judged.may_be_worse,
                )
            )
        findings += _counted(group)
    findings += _promised(record)
    findings += [replace(item, id=unique(item.id)) for item in _conditions_met(record, gaps)]
    return findings, broken


@dataclass(frozen=True)
class Judged:
    """A measure, what it says about a target, and why it does not count where it does not. ``may_be_worse``: as in
    :class:`Finding`."""

    measure: Measure
    verdict: Verdict
    because: str | None = None
    may_be_worse: bool = False

    @property
    def says(self) -> str:
        if self.because is None or self.because == self.measure.says:
            return self.measure.says
        return f"{self.measure.says}; does not count, because {self.because}"

    @classmethod
    def nothing(cls, why: str) -> Judged:
        """Nothing was measured."""
        return cls(Measure.missing("count", why), Verdict.INCONCLUSIVE, why)

    def spoiled(self, because: str, *, may_be_worse: bool = False) -> Judged:
        return Judged(self.measure, Verdict.INCONCLUSIVE, because, may_be_worse)

    def undermined(self, span: Span | None, gaps: list[evidence.Gap]) -> Judged:
        """After the gaps in the evidence have been held against it. ``span`` None: it is of the whole run."""
        if self.verdict is not Verdict.INCONCLUSIVE:
            for gap in gaps:
                if span is None or gap.since is None or span.end > gap.since:
                    return self.spoiled(gap.says)
        return self


def _known(record: Record, expectation: Expected, measure: Measure) -> Known:
    """What a value is beside its target: within the bound of a known weakness, or against what every run promises."""
    broken = defaults.misses(record, expectation.metric, measure)
    if expectation.known_bound is None:
        return Known(broken=broken)
    comparison, value, shown = expectation.known_bound
    return Known(shown, judge(measure, comparison, value), broken)


def _promised(record: Record) -> list[Finding]:
    """The findings of what instruments promise; none where it was not observed."""
    promises = [each.promise for each in instruments.every() if each.promise is not None]
    found = ((promise.metric, promise.measure(record)) for promise in promises)
    return [item for metric, seen in found if seen is not None for item in _kept(metric, *seen)]


def _kept(metric: str, measure: Measure, verdict: Verdict) -> list[Finding]:
    finding = Finding(
        id=metric,
        title=f"{metric} = 0",
        metric=metric,
        op=None,
        phase=None,
        target="= 0",
        measure=measure,
        verdict=verdict,
        counts_as=Counts.PASS,
        known_weakness=None,
        says=measure.says,
        default=True,
    )
    return _counted([finding])


def _judged(
    record: Record,
    doubt: forgiving.Doubt,
    hopeful: Record | None,
    expectation: Expected,
    phase: str | None,
    gaps: list[evidence.Gap],
) -> Judged:
    mine = [gap for gap in gaps if _spoils(gap, expectation.metric, default=expectation.default)]

    def judged(measure: Measure) -> Judged:
        return Judged(measure, judge(measure, expectation.comparison, expectation.value))

    if phase is None:
        # Of the whole run. Too much that is wrong with data stands whatever was proven about the fault, unless somebody
        # else may have done it.
        found = judged(_measure(record, expectation, None))
        on_data = catalogue.rests_on(expectation.metric, Rests.DATA)
        if not on_data or not _too_much(expectation, found):
            return found.undermined(None, mine)
        against = [gap for gap in mine if gap.excuses(expectation.metric)]
        if (known := dated.earlier(record, expectation.metric, against)) is not None:
            seen = judged(_measure(known[0], expectation, None))
            if seen.verdict is Verdict.FAIL:
                return replace(seen, measure=dated.stands(record, seen.measure, known[1]))
        return found.undermined(None, against)
    span = record.span(phase)
    if span is None:
        return Judged.nothing(f"the phase {phase} never ran")
    if not span.complete:
        how = f"ended as {span.reason}" if span.reason else "has no end: the runner died in it"
        return Judged.nothing(f"the phase {phase} {how}")
    found = judged(_measure(record, expectation, span))
    if found.verdict is Verdict.INCONCLUSIVE:
        return found
    check = catalogue.of(expectation.metric)
    if check is not None and check.scope is Scope.OPERATION and check.group == "users":
        explained = failures.explained(record, found.measure, found.verdict, str(expectation.op), span)
        found = replace(found, measure=explained)
    late = check is not None and check.late

    def same(other: Measure) -> bool:
        within = _known(record, expectation, found.measure).within
        return judged(other).verdict is found.verdict and _known(record, expectation, other).within is within

    def spoiled(because: str) -> Judged:
        """It would be better; but nothing is known of a node that was not asked."""
        unasked = coverage.of_phase(record, expectation.op, expectation.metric, span)
        return found.spoiled(because, may_be_worse=unasked is not None)

    hangs = None
    if late:
        hangs = doubt.decides(lambda other: _measure(other, expectation, span), same, span)
    elif check is not None and check.doubt is not None:
        hangs = check.doubt(record, span, same)
    if hangs is not None:
        return spoiled(f"it would be {hangs[0].text} {hangs[1]}")
    if (as_asked := strangers.without(record)) is not None and late and found.verdict is Verdict.FAIL:
        other = _measure(as_asked, expectation, span)
        if judged(other).verdict is not Verdict.FAIL:
            return spoiled(f"it would be {other.text} without answers that were wrong, and {strangers.says(record)}")
    if hopeful is not None and late:
        other = _measure(hopeful, expectation, span)
        if not same(other):
            without = "if the arrivals were good that the driver dropped or recorded no outcome of"
            return spoiled(f"it would be {other.text} {without}")
    if catalogue.rests_on(expectation.metric, Rests.COPIES) and (pushed := leaving.pushed(record, span)):
        return found.spoiled(pushed)
    unasked = coverage.of_phase(record, expectation.op, expectation.metric, span)
    if found.verdict is Verdict.PASS and unasked:
        return found.spoiled(unasked, may_be_worse=True)
    found = found.undermined(span, mine)
    later = min((gap for gap in mine if (gap.since or 0) >= span.end), key=lambda gap: gap.since or 0, default=None)
    if check is None or check.known_by is None or later is None or found.verdict is Verdict.INCONCLUSIVE:
        return found
    by_then = check.known_by(record, span, int(later.since or 0))
    return found if by_then is None or same(_measure(by_then, expectation, span)) else found.spoiled(later.says)


def _too_much(expectation: Expected, found: Judged) -> bool:
    """Whether more was measured than may be. Too little may be for want of what was not proven."""
    if found.verdict is not Verdict.FAIL or found.measure.value is None:
        return False
    return expectation.comparison in ("<=", "<") or (
        expectation.comparison == "==" and found.measure.value > expectation.value
    )


def _spoils(gap: evidence.Gap, metric: str, *, default: bool = False) -> bool:
    """Whether a gap takes the worth from this metric. A default says what was seen, of no time and no sample."""
    if gap.may_break is not None and catalogue.rests_on(metric, Rests.DATA):
        return metric in gap.may_break
    if default and gap.spoils is not evidence.Spoils.ALL:
        return False
    if gap.spoils is evidence.Spoils.TIME:
        return catalogue.rests_on(metric, Rests.TIME)
    return gap.spoils is evidence.Spoils.ALL or catalogue.rests_on(metric, Rests.DATA)


def _concerns(gap: evidence.Gap, findings: list[Finding]) -> bool:
    """Whether a gap takes the worth from the run: one that spoils nothing that was asked for does not."""
    return gap.spoils is evidence.Spoils.ALL or any(
        _spoils(gap, finding.metric, default=finding.default) for finding in findings
    )


OF_A_NOTE = {
    Verdict.PASS: Counts.KNOWN_WEAKNESS,
    Verdict.FAIL: Counts.WEAKNESS,
    Verdict.INCONCLUSIVE: Counts.INCONCLUSIVE,
}
"""What a missed expectation with a note counts as, by whether it is within the note's bound."""


def _counted(group: list[Finding]) -> list[Finding]:
    """What each finding of one expectation counts as; a known weakness belongs to the expectation as a whole.

    It is still there when any of its phases fails; only when all of them pass the note has to go.
    """
    all_pass = all(finding.verdict is Verdict.PASS for finding in group)

    def counts(finding: Finding) -> Counts:
        known = finding.known_weakness is not None
        if finding.verdict is Verdict.INCONCLUSIVE:
            return Counts.INCONCLUSIVE
        if finding.verdict is Verdict.FAIL:
            return OF_A_NOTE[finding.known.within] if known else Counts.WEAKNESS
        if finding.known.broken:
            return Counts.RELAXED if finding.relaxed is not None else Counts.WEAKNESS
        return Counts.UNEXPECTED_PASS if known and all_pass else Counts.PASS

    def says(finding: Finding, counted: Counts) -> str:
        if finding.verdict is Verdict.FAIL and finding.known.within is Verdict.FAIL:
            return f"{finding.says}; worse than what is known ({finding.known.bound}: {finding.known_weakness})"
        if finding.verdict is Verdict.FAIL and finding.known.within is Verdict.INCONCLUSIVE:
            return f"{finding.says}; whether it is within what is known is open ({finding.known.bound})"
        if counted is Counts.RELAXED:
            return f"{finding.says}; allowed, because {finding.relaxed}"
        if counted is Counts.UNEXPECTED_PASS:
            return f"{finding.says}; expected to fail ({finding.known_weakness}): remove the note"
        return finding.says

    return [replace(item, counts_as=(counted := counts(item)), says=says(item, counted)) for item in group]


def _looked(record: Record, span: Span) -> float:
    """For how many seconds at the end of a phase faults were looked at once more before their undo."""
    ends = [event for event in record.seen(events.PhaseEnd) if event.phase == span.name]
    return float(ends[-1].looked or 0.0) if ends else 0.0


def unplaced(record: Record, phase: str) -> list[str]:
    """Copies that had no node when a phase had waited in vain, each with why, as the cluster said it."""
    ends = [event for event in record.seen(events.PhaseEnd) if event.phase == phase]
    return list(ends[-1].unplaced or ()) if ends else []


def _unless(judged: Judged, why: str | None) -> Judged:
    """The same, unless there is a reason why it does not count: of a condition that was met, what came later may be
    worse."""
    if why is None or judged.verdict is Verdict.INCONCLUSIVE:
        return judged
    return judged.spoiled(why, may_be_worse=judged.verdict is Verdict.PASS)


def _conditions_met(record: Record, gaps: list[evidence.Gap]) -> list[Finding]:
    """Phases with ``until`` expect their condition within its time, without a line of ``expect``."""
    findings = []
    if record.plan.get(UNTIL_RESTS_ON_TIME):
        gaps = [gap for gap in gaps if _spoils(gap, "until")]
    for planned in record.planned_phases:
        until, span = planned.get("until"), record.span(planned["name"])
        if not until:
            continue
        limit = float(until.get("within") or 0)
        wanted = [word for word, on in (("green", until.get("green")),) if on]
        if until.get("stable"):
            wanted.append(f"stable for {text.seconds(float(until['stable']))}")
        condition = text.listed(wanted) or "its condition"
        took = span.seconds - _looked(record, span) if span is not None else 0.0
        if span is None or not span.complete:
            judged = Judged.nothing(f"the phase {planned['name']} did not run to its end")
        elif span.reason == "deadline":
            why = unplaced(record, planned["name"])
            more = f"; {text.plural(len(why), 'copy', 'copies')} without a node: {'; '.join(why[:2])}" if why else ""
            measure = Measure(took, "seconds", f"not {condition} by then{more}", Bound.MORE_THAN)
            judged = Judged(measure, Verdict.FAIL).undermined(span, gaps)
            judged = _unless(judged, noticed.could_not_come(record, span) if noticed.applies(record) else None)
        else:
            measure = Measure(took, "seconds", f"{condition} after that time")
            judged = Judged(measure, Verdict.PASS).undermined(span, gaps)
            judged = _unless(judged, noticed.unnoticed(record, span) if noticed.applies(record) else None)
        name = planned["name"]
        finding = Finding(
            id=f"until@{name}",
            title=f"{condition} within {text.seconds(limit)} in {name}",
            metric="until",
            op=None,
            phase=name,
            target=f"<= {text.seconds(limit)}",
            measure=judged.measure,
            verdict=judged.verdict,
            counts_as=Counts.PASS,
            known_weakness=None,
            says=judged.says,
            because=judged.because,
            may_be_worse=judged.may_be_worse,
        )
        findings += _counted([finding])
    return findings


# -- the tables ----------------------------------------------------------------------------------


def _tables(record: Record) -> dict[str, Any]:
    """Figures for every operation and phase, expected or not. Every number is JSON; None is no data."""
    tables: dict[str, Any] = {
        "phases": [
            {
                "name": span.name,
                "start": record.since_start(span.start),
                "end": record.since_start(span.end),
                "scripted_wait": span.scripted_wait,
                "reason": span.reason,
            }
            for span in record.spans
        ],
        "within": within.table(record),
        "availability": {},
    }
    for check in catalogue.checks().values():
        tables |= {name: found for name, table in check.tables.items() if (found := table(record)) is not None}
    projected = {op.name: found for op in record.operations if (found := projection.projection(record, op.name))}
    if projected:
        tables["projection"] = projected
    for op in record.operations:
        name = op.name
        counts = availability.tally(record, name)
        tables["availability"][name] = availability.table(record, name, counts) | {
            "semantics": semantics.by_phase(record, counts),
            "semantics_by_zone": semantics.by_zone(record, counts),
            "faults": projection.table(record, name),
        }
    opened = {span.name: found for span in record.spans if (found := semantics.fail_open(record, span))}
    if opened:
        tables["fail_open"] = opened
    if came_back := returned.table(record):
        tables["returned"] = came_back
    if swapped := swaps.table(record):
        tables["swaps"] = swapped
    if echoed := deciding.table(record):
        tables["echo"] = echoed
    tables["steady"] = steady.table(record)
    tables["data"] = data.tables(record)
    if asked := coverage.table(record):
        tables["coverage"] = asked
    if waited := during.table(record):
        tables["during"] = waited
    for instrument in instruments.every():
        tables |= {name: found for name, table in instrument.tables.items() if (found := table(record))}
    return tables


def _fault_json(record: Record, fault: evidence.FaultRecord) -> FaultItem:
    return {
        "fault": fault.fault,
        "kind": fault.kind,
        "says": fault.says,
        "colour": fault.colour,
        "provider": fault.provider,
        "grade": fault.grade,
        "targets": list(fault.targets),
        "links": list(fault.links),
        "phase": fault.phase,
        "command": record.since_start(fault.command),
        "in_effect": record.since_start(fault.in_effect),
        "undo": record.since_start(fault.undo),
        "gone": record.since_start(fault.gone),
        "proven": fault.proven,
        "gaps": [gap.says for gap in fault.gaps],
        "vanished": [(t - record.origin) / SECOND for t in fault.window] if fault.window else None,
        "failures": list(fault.failures),
        "stages": {
            stage: {
                "proven": item.get("proven") is True,
                "says": str(item.get("says") or ""),
                "probes": item.get("probes") or [],
                "at": record.since_start(int(item["t"])),
            }
            for stage in STAGES
            if (item := fault.stages.get(stage)) is not None
        },
    }


def _run_json(record: Record) -> dict[str, Any]:
    experiment = record.plan.get("experiment") or {}
    end = _end(record)
    return {
        "name": record.plan.get("run"),
        "experiment": experiment.get("name"),
        "hash": record.plan.get("hash"),
        "seed": record.plan.get("seed"),
        "started": record.plan.get("started"),
        "second_of": record.plan.get("second_of"),
        "objectives": {
            op.name: {"within": op.good_within, "in_file": (experiment.get("good_in_file") or {}).get(op.name)}
            for op in record.operations
        },
        "ended": end.reason if end else None,
        "seconds": record.since_start(record.last_seen),
    }


def _abort_json(record: Record) -> dict[str, Any] | None:
    """The abort as it was measured: seconds from the stop being asked for until the moves of all were taken back."""
    event = next(reversed(record.seen(events.AbortUndone)), None)
    if event is None:
        return None
    seconds, complete = float(event.seconds), event.complete in (True, None)
    ceased = next(iter(record.seen(events.LoadCeased)), None)
    return {
        "asked": record.since_start(int(event.asked)),
        "guard": next((str(each.guard) for each in record.seen(events.GuardTripped)), None),
        "faults": [str(fault) for fault in event.faults or []],
        "seconds": seconds,
        "proven": event.proven is True,
        "proven_seconds": event.proven_seconds,
        **({"actions": int(event.actions)} if event.actions is not None else {}),
        **({"load_seconds": (ceased.t - int(event.asked)) / 1e9} if ceased is not None else {}),
        "goal": ABORT_GOAL_SECONDS,
        "complete": complete,
        "within": complete and seconds <= ABORT_GOAL_SECONDS,
    }
