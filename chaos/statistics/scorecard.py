"""A scorecard of releases: which promises a cluster kept, broke, or is not proven to keep, by version.

A promise is an expectation of an experiment, in a phase, or what every run promises of its data. Its verdict over runs
is that of a series (:mod:`.series`); what is counted beside it is runs. No single number is made of it all: promises
are not alike, and a sum would hide the one that matters.

Between two releases a promise that was kept and is broken comes first. Whether so many runs can show that is said
beside it (:mod:`.shares`), and never decides whether it is named. What is kept or broken is compared with the newest
release before in which the promise was one of the two: a release in between in which it is not proven takes nothing
from that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import Any

from chaos.base import text
from chaos.base.intervals import FEWEST, LEVEL, clopper_pearson
from chaos.checks import defaults
from chaos.checks.measure import Verdict
from chaos.checks.reasons import Outcome
from chaos.checks.verdict import Counts
from chaos.definitions.topology import latest, ordered
from chaos.statistics import series as judging
from chaos.statistics import shares
from chaos.statistics.facts import Facts, is_relaxed, raw_verdict
from chaos.statistics.facts import known as known_value
from chaos.statistics.machines import classes
from chaos.statistics.series import SeriesFinding

VERSION = 1
CONTROL = "control"
"""The tag of planted weaknesses: their runs must fail."""
LIVES = "no process of the cluster ends by itself"
"""The promise of every run that is no finding of a series."""
RULE_OF_THREE = 3.0
"""Nothing lost of n bounds the share that is lost by 3/n with 95 %."""


class State(StrEnum):
    """Of a promise, in one version."""

    KEPT = "kept"
    BROKEN = "broken"
    OPEN = "not proven"


STATES = {
    Counts.PASS: State.KEPT,
    Counts.RELAXED: State.BROKEN,
    Counts.UNEXPECTED_PASS: State.KEPT,
    Counts.WEAKNESS: State.BROKEN,
    Counts.KNOWN_WEAKNESS: State.BROKEN,
    Counts.INCONCLUSIVE: State.OPEN,
}


@dataclass(frozen=True)
class Group:
    """The runs of one experiment, on one topology, in one version. ``version``: where nodes have several the label of
    all (:func:`chaos.definitions.topology.spanned`); ``planned``: how many runs there should be; ``origins``: of each
    run its cell's key, command and hashes; ``tags``: of the experiment, for where it has no run yet."""

    of: str
    """The experiment beside which it is shown."""
    experiment: str
    profile: str
    topology: str
    version: str
    planned: int
    runs: tuple[Facts, ...]
    origins: tuple[Mapping[str, Any], ...] = ()
    tags: tuple[str, ...] = ()

    @property
    def is_control(self) -> bool:
        return CONTROL in self.tags or any(CONTROL in (run.experiment.get("tags") or []) for run in self.runs)

    @property
    def does_nothing(self) -> bool:
        """Whether nothing is done to the cluster: by no phase, no failover controller and no program beside."""
        phases = [phase for run in self.runs for phase in run.experiment.get("phases") or []]
        beside = any(run.experiment.get(key) for run in self.runs for key in ("controller", "programs"))
        done = any(phase.get(key) for phase in phases for key in ("inject", "do", "during"))
        return bool(phases) and not beside and not done

    @property
    def counted(self) -> list[Facts]:
        return [run for run in self.runs if run.excluded is None]


@dataclass(frozen=True)
class Promised:
    """A promise in one version. ``kept``, ``broken``, ``open``: runs that count. ``bounds``: of the share of runs that
    break it, exact, with 95 %. ``left_out``: of a broken promise runs that break it, and do not count: what is lost is
    lost."""

    state: State
    known: bool
    """Broken within what the experiment's file says is known, or allows."""
    kept: int
    broken: int
    open: int
    bounds: tuple[float, float]
    says: str
    machines: tuple[str, ...]
    allowed: bool = False
    """Broken within what a line of the file allows, with its reason; ``known`` too."""
    left_out: int = 0

    @property
    def decided(self) -> int:
        return self.kept + self.broken

    @property
    def word(self) -> str:
        if self.known:
            return "broken, as allowed" if self.allowed else "broken, as known"
        return str(self.state)

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "bounds": list(self.bounds), "machines": list(self.machines)}


@dataclass(frozen=True)
class Promise:
    """A promise in all versions; one that is missing was not run."""

    of: str
    experiment: str
    profile: str
    topology: str
    id: str
    title: str
    by_version: Mapping[str, Promised]

    @property
    def name(self) -> str:
        return f"{self.experiment} on {self.topology}: {self.title}"

    def to_json(self) -> dict[str, Any]:
        named = {name: getattr(self, name) for name in ("of", "experiment", "profile", "topology", "id", "title")}
        return {**named, "by_version": {version: each.to_json() for version, each in self.by_version.items()}}


class Change(StrEnum):
    """What became of a promise between two releases, worst first."""

    REGRESSION = "regression"
    NEWLY_BROKEN = "broken, and not proven before"
    NO_LONGER_PROVEN = "no longer proven"
    MENDED = "mended"


CHANGES = {
    (State.KEPT, State.BROKEN): Change.REGRESSION,
    (State.OPEN, State.BROKEN): Change.NEWLY_BROKEN,
    (State.KEPT, State.OPEN): Change.NO_LONGER_PROVEN,
    (State.BROKEN, State.KEPT): Change.MENDED,
}


@dataclass(frozen=True)
class Shift:
    """A promise that changed between two releases. ``chance``: of so many runs that count and break it, or more, if
    both releases break it as often. ``other_machines``: both sides were not run on one and the same class of
    machines."""

    change: Change
    promise: Promise
    before: str
    after: str
    chance: float
    other_machines: bool

    @property
    def is_shown(self) -> bool:
        """Whether the runs alone show it."""
        return self.chance <= 1 - LEVEL

    @property
    def says(self) -> str:
        a, b = self.promise.by_version[self.before], self.promise.by_version[self.after]
        counts = (
            f"broken in {a.broken} of {a.decided} runs of {self.before}, in {b.broken} of {b.decided} of {self.after}"
        )
        also = "".join(
            f"; of {version} also in {text.plural(each.left_out, 'run that was', 'runs that were')} left out"
            for version, each in ((self.before, a), (self.after, b))
            if each.left_out
        )
        if self.change in (Change.NO_LONGER_PROVEN, Change.MENDED) or not b.broken:  # no run that counts decided it
            return f"{counts}{also}"
        if self.is_shown:
            return f"{counts}; were both broken as often, it would come to this in {self.chance:.1%} of cases{also}"
        return f"{counts}, which runs alone do not show (by chance in {self.chance:.0%} of cases){also}"

    def to_json(self) -> dict[str, Any]:
        return {
            "change": self.change,
            "promise": self.promise.name,
            "profile": self.promise.profile,
            "before": self.before,
            "after": self.after,
            "says": self.says,
            "chance": self.chance,
            "shown_by_runs": self.is_shown,
            "other_machines": self.other_machines,
        }


@dataclass(frozen=True)
class Tally:
    """The promises of one version and profile. ``whole``: runs that count in which nothing that was expected was
    missed; ``bounds``: of their share, exact, with 95 %. ``missed``: of the runs that are left out those in which
    something was."""

    version: str
    profile: str
    kept: int
    broken: int
    known: int
    """Of those broken, so many within what is known or allowed."""
    open: int
    runs: int
    whole: int
    left_out: int
    missing: int
    bounds: tuple[float, float]
    missed: int = 0

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "bounds": list(self.bounds)}


@dataclass(frozen=True)
class Data:
    """What was read back in one version. ``unknown``: runs whose read-back says nothing."""

    version: str
    runs: int
    acknowledged: int
    lost: int
    unknown: int

    @property
    def bound(self) -> float | None:
        """The share of acknowledged writes that may be lost, with 95 %; None where some were, or where so few were
        checked that it may be any."""
        return RULE_OF_THREE / self.acknowledged if self.acknowledged > RULE_OF_THREE and not self.lost else None

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "bound": self.bound}


@dataclass(frozen=True)
class Tried:
    """A control, or an experiment that does nothing. ``as_it_must``: runs that ended as they must."""

    experiment: str
    version: str
    runs: int
    as_it_must: int
    otherwise: tuple[str, ...]
    """The other runs, each with its outcome."""
    missing: int = 0
    """Of a control: runs that were planned and not made. Elsewhere they keep promises open."""

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "otherwise": list(self.otherwise)}


@dataclass(frozen=True)
class LeftOut:
    """A run that gives no numbers, or a cell without a run."""

    what: str
    why: str


@dataclass(frozen=True)
class Scorecard:
    """All of it. ``detectable``: (before, after) → runs of each side, and the share that so many can show."""

    versions: tuple[str, ...]
    promises: tuple[Promise, ...]
    shifts: tuple[Shift, ...]
    tallies: tuple[Tally, ...]
    data: tuple[Data, ...]
    controls: tuple[Tried, ...]
    faultless: tuple[Tried, ...]
    left_out: tuple[LeftOut, ...]
    machines: tuple[str, ...]
    groups: tuple[Group, ...]
    detectable: Mapping[tuple[str, str], tuple[int, int, float | None]] = field(default_factory=dict)

    def told(self, change: Change) -> list[tuple[str, str, Shift]]:
        """(what, how, its first promise) of a change: each promise, but of those that are no longer proven each
        experiment once, since what keeps a run from counting keeps all its promises open."""
        if change is not Change.NO_LONGER_PROVEN:
            return [(shift.promise.name, shift.says, shift) for shift in self.of(change)]
        found: dict[tuple[str, str, str, str, str], list[Shift]] = {}
        for shift in self.of(change):
            made = shift.promise
            at = (made.experiment, made.topology, made.profile, shift.before, shift.after)
            found.setdefault(at, []).append(shift)
        return [
            (f"{experiment} on {topology}", f"{text.plural(len(shifts), 'promise')}; {_why_open(shifts)}", shifts[0])
            for (experiment, topology, _, _, _), shifts in found.items()
        ]

    @property
    def is_compared(self) -> bool:
        """Whether anything here stands beside the same of another version."""
        return bool(self.detectable)

    @property
    def codes(self) -> tuple[str, ...]:
        """The states of the suite's code that runs were made by, as far as that is on record, sorted."""
        codes = {str(origin.get("code") or "") for group in self.groups for origin in group.origins}
        return tuple(sorted(codes - {""}))

    def of(self, change: Change) -> list[Shift]:
        return [shift for shift in self.shifts if shift.change is change]

    @property
    def outcome(self) -> Outcome:
        """Weakness where the newest version has a regression, or breaks a promise beyond what is known. Inconclusive
        where one of its promises is open, one of its experiments has no run, or a control did not end as it must or
        lacks a run."""
        regressed = any(self._is_newest(shift.after) for shift in self.of(Change.REGRESSION))
        if regressed or self._newest(State.BROKEN, known=False):
            return Outcome.WEAKNESS
        wrong = any(each.otherwise or each.missing for each in (*self.controls, *self.faultless))
        open_ = self._newest(State.OPEN) or self.not_run or not self.promises
        return Outcome.INCONCLUSIVE if wrong or open_ else Outcome.PASS

    @property
    def not_run(self) -> tuple[str, ...]:
        """The experiments of which there is no run of the newest version: none of their promises is proven in it."""
        missing = [group for group in self.groups if self._is_newest(group.version) and not group.runs]
        return tuple(f"{group.experiment} on {group.topology}" for group in missing)

    @property
    def releases(self) -> tuple[str, ...]:
        """The versions of which all nodes were; where there is none, the newest that some were of."""
        alone = tuple(version for version in self.versions if latest(version) == version)
        return alone or tuple(latest(version) for version in self.versions[-1:])

    def _is_newest(self, version: str) -> bool:
        """Whether runs of a version count for the newest release: those of nodes of several do by their newest."""
        return bool(self.releases) and ordered(latest(version)) >= ordered(self.releases[-1])

    def _newest(self, state: State, known: bool | None = None) -> int:
        made = (item for each in self.promises for item in each.by_version.items())
        found = [promised for version, promised in made if self._is_newest(version)]
        return sum(each.state is state and known in (None, each.known) for each in found)

    @property
    def sentence(self) -> str:
        """The point, in a line."""
        if not self.versions:
            return "No run is committed yet."
        newest = self.releases[-1]
        kept, broken, open_ = (self._newest(state) for state in (State.KEPT, State.BROKEN, State.OPEN))
        known = self._newest(State.BROKEN, known=True)
        said = (
            f"OpenSearch {newest}: {kept} promises kept, {broken} broken ({known} of them known), {open_} not proven."
        )
        if missing := len(self.not_run):
            said += f" {text.plural(missing, 'experiment')} {'has' if missing == 1 else 'have'} no run of it."
        if not self.is_compared:
            return said
        regressed = [shift for shift in self.of(Change.REGRESSION) if self._is_newest(shift.after)]
        before = self.releases[-2] if len(self.releases) > 1 else self.versions[-2]
        if regressed:
            verb = "is" if len(regressed) == 1 else "are"
            kept_by = text.listed(sorted({shift.before for shift in regressed}, key=_age))
            return f"{text.plural(len(regressed), 'promise')} that {kept_by} kept {verb} broken. {said}"
        open_now = sum(self._is_newest(shift.after) for shift in self.of(Change.NO_LONGER_PROVEN))
        also = f", {open_now} of them are no longer proven" if open_now else ""
        return f"No promise that {before} kept is seen broken{also}. {said}"

    def to_json(self) -> dict[str, Any]:
        return {
            "format": VERSION,
            "kind": "scorecard",
            "outcome": self.outcome,
            "summary": self.sentence,
            "level": LEVEL,
            "versions": list(self.versions),
            "changes": [shift.to_json() for shift in self.shifts],
            "tallies": [each.to_json() for each in self.tallies],
            "promises": [each.to_json() for each in self.promises],
            "detectable": [
                {"before": a, "after": b, "runs": [m, n], "share": share, "power": shares.POWER}
                for (a, b), (m, n, share) in self.detectable.items()
            ],
            "data": [each.to_json() for each in self.data],
            "controls": [each.to_json() for each in self.controls],
            "faultless": [each.to_json() for each in self.faultless],
            "left_out": [vars(each) for each in self.left_out],
            "machines": list(self.machines),
            "codes": list(self.codes),
            "runs": [
                {"experiment": group.experiment, "version": group.version, **origin}
                for group in self.groups
                for origin in group.origins
            ],
        }


def _why_open(shifts: Sequence[Shift]) -> str:
    says = list(dict.fromkeys(shift.promise.by_version[shift.after].says for shift in shifts))
    return text.clip(says[0], 160) + (" …" if len(says) > 1 else "")


def evaluate(groups: Sequence[Group], left_out: Iterable[LeftOut] = ()) -> Scorecard:
    """The scorecard of these runs. Pure. ``left_out``: what else is missing, beside the runs that give no numbers."""
    versions = tuple(sorted({group.version for group in groups}, key=_age))
    ordinary = [group for group in groups if not group.is_control]
    promises = tuple(_promises(ordinary, versions))
    # a promise that was not run in a release between is compared with the last one in which it was
    alone = [version for version in versions if latest(version) == version]
    pairs = list(dict.fromkeys([*pairwise(alone), *(pair for each in promises for pair in _pairs(each.by_version))]))
    shifts = [shift for pair in pairs for each in promises for shift in _shift(each, *pair)]
    order = list(Change)
    return Scorecard(
        versions=versions,
        promises=promises,
        shifts=tuple(sorted(shifts, key=lambda shift: (order.index(shift.change), not shift.is_shown))),
        tallies=tuple(_tallies(ordinary, promises, versions)),
        data=tuple(_data(ordinary, versions)),
        controls=tuple(_tried(group, Outcome.WEAKNESS) for group in groups if group.is_control),
        faultless=tuple(_tried(group, Outcome.PASS) for group in ordinary if group.does_nothing),
        left_out=(*_left_out(groups), *left_out),
        machines=classes(run for group in groups for run in group.runs),
        groups=tuple(groups),
        detectable={pair: _detectable(ordinary, *pair) for pair in pairs},
    )


def _age(version: str) -> tuple[tuple[int, ...], bool, str]:
    """A version's place in order: where nodes had several, after the newest of them."""
    return ordered(latest(version)), latest(version) != version, version


def _promises(groups: Sequence[Group], versions: Sequence[str]) -> Iterator[Promise]:
    """In the order of groups and of their expectations."""
    found: dict[tuple[str, str, str, str, str], tuple[str, dict[str, Promised]]] = {}
    for group in groups:
        if not group.runs:
            continue
        for finding in judging.evaluate(group.runs, group.planned).findings:
            at = (group.of, group.experiment, group.profile, group.topology, finding.target.id)
            found.setdefault(at, (finding.title, {}))[1][group.version] = _promised(finding, group)
    found |= _ends(groups)
    for (of, experiment, profile, topology, id), (title, by) in found.items():
        shown = {version: by[version] for version in versions if version in by}
        yield Promise(of, experiment, profile, topology, id, title, shown)


def _ends(groups: Sequence[Group]) -> dict[tuple[str, str, str, str, str], tuple[str, dict[str, Promised]]]:
    """That no process of the cluster ends by itself, of experiments in which one did in some version: a series has it
    as a reason of its own, and no finding (:attr:`chaos.statistics.facts.Facts.ended`)."""
    found: dict[tuple[str, str, str, str, str], tuple[str, dict[str, Promised]]] = {}

    def place(group: Group) -> tuple[str, str, str, str]:
        return group.of, group.experiment, group.profile, group.topology

    seen = {place(group) for group in groups for run in group.runs if run.ended}
    for group in groups:
        if group.runs and (where := place(group)) in seen:
            by = found.setdefault((*where, defaults.PROCESS), (LIVES, {}))[1]
            by[group.version] = _lived(group)
    return found


def _lived(group: Group) -> Promised:
    """Whether no process ended by itself. One that did counts in a run that is left out, too."""
    ended = [run for run in group.runs if run.ended]
    counted, broken = group.counted, sum(bool(run.ended) for run in group.counted)
    whole = len(counted) >= FEWEST and len(group.runs) >= group.planned and not any(run.hides for run in group.runs)
    told = [f"run {run.name}: {says}" for run in ended for says in run.ended]
    return Promised(
        state=State.BROKEN if ended else State.KEPT if whole else State.OPEN,
        known=False,
        kept=len(counted) - broken,
        broken=broken,
        open=0,
        bounds=clopper_pearson(broken, len(counted)),
        says="; ".join(told[:2]) or f"none ended in {text.plural(len(counted), 'run')} that count",
        machines=classes(group.runs),
        left_out=len(ended) - broken,
    )


def _promised(finding: SeriesFinding, group: Group) -> Promised:
    verdicts = [_verdict(finding, run) for run in group.counted]
    kept, broken = (sum(each is wanted for each in verdicts) for wanted in (Verdict.PASS, Verdict.FAIL))
    state = STATES[finding.counts_as]
    others = [run for run in group.runs if run.excluded is not None] if state is State.BROKEN else []
    return Promised(
        state=state,
        known=finding.counts_as in (Counts.KNOWN_WEAKNESS, Counts.RELAXED),
        kept=kept,
        broken=broken,
        open=len(verdicts) - kept - broken,
        bounds=clopper_pearson(broken, kept + broken),
        says=finding.says,
        machines=classes(group.runs),
        allowed=finding.counts_as is Counts.RELAXED,
        left_out=sum(_verdict(finding, run) is Verdict.FAIL for run in others),
    )


def _verdict(finding: SeriesFinding, run: Facts) -> Verdict:
    """What one run says of it by itself: what hangs on the machine decides nothing."""
    item = run.by_id.get(finding.target.id)
    if item is None or item["verdict"] == "inconclusive":
        return Verdict.INCONCLUSIVE
    if is_relaxed(item):
        return Verdict.FAIL
    return raw_verdict(item, finding.target.comparison, finding.target.value)


def _pairs(by_version: Mapping[str, Promised]) -> Iterator[tuple[str, str]]:
    """Each version of a promise with the one that it is compared with: the newest before it in which the promise was
    kept or broken, and the one just before it where there is none, or where it is not proven itself."""
    decided: str | None = None
    for before, after in pairwise(by_version):
        if by_version[before].state is not State.OPEN:
            decided = before
        yield (before if by_version[after].state is State.OPEN else decided or before), after


def _shift(promise: Promise, before: str, after: str) -> Iterator[Shift]:
    if (before, after) not in _pairs(promise.by_version):
        return
    a, b = promise.by_version[before], promise.by_version[after]
    if (change := CHANGES.get((a.state, b.state))) is None:
        return
    chance = shares.chance_of_more(a.broken, a.decided, b.broken, b.decided) if a.decided and b.decided else 1.0
    yield Shift(change, promise, before, after, chance, len({*a.machines, *b.machines}) > 1)


def _tallies(groups: Sequence[Group], promises: Sequence[Promise], versions: Sequence[str]) -> Iterator[Tally]:
    for profile in dict.fromkeys(group.profile for group in groups):
        for version in versions:
            mine = [group for group in groups if (group.profile, group.version) == (profile, version)]
            if not mine:
                continue
            counted = [run for group in mine for run in group.counted]
            others = [run for group in mine for run in group.runs if run.excluded is not None]
            whole = sum(not _missed(run) for run in counted)
            made = [
                each.by_version[version] for each in promises if each.profile == profile and version in each.by_version
            ]
            states = [each.state for each in made]
            yield Tally(
                version=version,
                profile=profile,
                kept=states.count(State.KEPT),
                broken=states.count(State.BROKEN),
                known=sum(each.known for each in made),
                open=states.count(State.OPEN),
                runs=len(counted),
                whole=whole,
                left_out=len(others),
                missing=sum(max(0, group.planned - len(group.runs)) for group in mine),
                bounds=clopper_pearson(whole, len(counted)),
                missed=sum(map(_missed, others)),
            )


def _missed(run: Facts) -> bool:
    return any(item["verdict"] == "fail" or is_relaxed(item) for item in run.by_id.values()) or bool(run.ended)


def _data(groups: Sequence[Group], versions: Sequence[str]) -> Iterator[Data]:
    for version in versions:
        runs = [run for group in groups if group.version == version for run in group.runs]
        rows = [(run.findings.get("tables") or {}).get("writes") or {} for run in runs]
        read = [row for row in rows if known_value(row.get("value"), "count") is not None]
        yield Data(
            version,
            len(runs),
            sum(int(row.get("acknowledged") or 0) for row in read),
            sum(int(row["value"]) for row in read),
            len(rows) - len(read),
        )


def _tried(group: Group, must: Outcome) -> Tried:
    otherwise = tuple(f"{run.name}: {run.outcome}" for run in group.runs if run.outcome != must)
    made = len(group.runs)
    missing = max(0, group.planned - made) if group.is_control else 0
    return Tried(group.experiment, group.version, made, made - len(otherwise), otherwise, missing)


def _left_out(groups: Sequence[Group]) -> Iterator[LeftOut]:
    for group in groups:
        for run in group.runs:
            if run.excluded is not None:
                yield LeftOut(f"{group.experiment} {group.version}, run {run.name}", run.excluded)


def _detectable(groups: Sequence[Group], before: str, after: str) -> tuple[int, int, float | None]:
    """What can be shown everywhere: of the experiment of which the runs that count show the least. One without such a
    run in either version is not compared at all."""
    counts: dict[tuple[str, str, str], dict[str, int]] = {}
    for group in groups:
        counts.setdefault((group.experiment, group.profile, group.topology), {})[group.version] = len(group.counted)
    both = {(by[before], by[after]) for by in counts.values() if by.get(before) and by.get(after)}
    found = [(m, n, shares.detectable(m, n)) for m, n in sorted(both)]
    return max(found, key=lambda each: 2.0 if each[2] is None else each[2], default=(0, 0, None))
