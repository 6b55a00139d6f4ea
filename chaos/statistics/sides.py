"""An experiment with sides over its runs: each side against the first, by the rules of :mod:`.compare`.

A folder of sides holds ``sides.json`` (what is made, in which order, and which runs were), a series' folder for each
side, ``_cut-off`` with runs that ended before they could say anything and were made again, and ``_burn-in`` with those
that only warmed a new lab.

With more than two sides every side is compared with the first, and each interval has the level 1 - 0.05 / (sides - 1)
(Bonferroni): so all intervals of a metric cover together with 95 %, whatever they have in common. Holm's order of
p-values decides a little more, but leaves no intervals that hold together, and the verdict is made of intervals.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos.base import text
from chaos.base.errors import Exit, InvalidInput
from chaos.base.intervals import LEVEL
from chaos.base.paths import write_json
from chaos.checks.measure import Verdict
from chaos.statistics import compare as comparing
from chaos.statistics import protections, store
from chaos.statistics.compare import Comparison, Row, Tolerance, signed, summary_of
from chaos.statistics.facts import higher_is_better
from chaos.statistics.store import Group

FILE = "sides.json"
VERSION = 1
CUT_OFF, BURN_IN = "_cut-off", "_burn-in"
SHOWN = 4
"""Metrics that a sentence names at most."""


# -- on disk -------------------------------------------------------------------------------------------------


@dataclass
class SideRun:
    """One run that was made: a side's in round ``number``. ``stopped``: a signal ended it, so it says nothing."""

    side: str
    number: int
    run: str
    stopped: bool = False


@dataclass
class SidesFile:
    """``sides.json``. ``hashes``: side → its plan's; ``changes``: side → what it changes; ``first_seed``: of the first
    round; ``protection``: what it is, where the sides are a protection off, (monitoring,) and on; ``cut_off``: runs
    that were set aside and made again, each with why; ``burn_in``: those that warmed a lab."""

    experiment: str
    times: int
    first_seed: int
    hashes: dict[str, str]
    changes: dict[str, dict[str, Any]]
    differences: dict[str, list[str]]
    decide: tuple[str, ...] = ()
    tolerance: dict[str, str] = field(default_factory=dict)
    protection: dict[str, Any] | None = None
    runs: list[SideRun] = field(default_factory=list)
    cut_off: list[dict[str, str]] = field(default_factory=list)
    burn_in: list[str] = field(default_factory=list)

    @property
    def sides(self) -> tuple[str, ...]:
        return tuple(self.hashes)

    def write(self, folder: Path) -> None:
        data = {**vars(self), "decide": list(self.decide), "runs": [vars(each) for each in self.runs]}
        if self.protection is None:
            del data["protection"]
        write_json(folder / FILE, {"format": VERSION, "kind": "sides", **data})

    @classmethod
    def read(cls, folder: Path) -> SidesFile:
        """Raises InvalidInput where there is none that this version reads."""
        file = folder / FILE
        try:
            data = json.loads(file.read_text())
            if data["kind"] != "sides" or data["format"] != VERSION:
                raise ValueError("another kind or format")
            rest = {key: value for key, value in data.items() if key not in ("kind", "format")}
            runs = [SideRun(**each) for each in rest.pop("runs")]
            found = cls(**{**rest, "decide": tuple(rest["decide"])}, runs=runs)
            _refuse_paths(found)
            if found.protection is not None:
                protections.Asked.of(found.protection)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidInput(
                f"{file} cannot be read: {type(error).__name__}: {error}",
                remedy="name a folder that `run` of an experiment with sides has made",
            ) from None
        return found


def _refuse_paths(found: SidesFile) -> None:
    names = [*found.hashes, *(each.run for each in found.runs), *found.burn_in]
    if any("/" in name or name in ("", ".", "..") for name in names):
        raise ValueError("names folders outside its own")


def is_sides(folder: Path) -> bool:
    return (folder / FILE).is_file()


def groups(folder: Path, file: SidesFile) -> list[Group]:
    """The runs of each side. Raises InvalidInput where a side has none yet, or its runs are of another plan."""
    found = []
    for name in file.sides:
        runs, planned = store.series_of(folder / name)
        wrong = [run.name for run in runs if run.plan.get("hash") != file.hashes[name]]
        if wrong:
            raise InvalidInput(f"{folder / name}: {wrong[0]} is of another plan than side {name}")
        found.append(store.group_of(runs, name, planned))
    return found


# -- compared --------------------------------------------------------------------------------------------------


def level_of(sides: int) -> float:
    """That of each interval, where so many sides are compared with the first of them."""
    return 1 - (1 - LEVEL) / max(1, sides - 1)


@dataclass(frozen=True)
class Sides:
    """Each side against the first. ``changes``, ``differences``: side → what it changes, and in what it differs from
    the first, in words."""

    experiment: str
    comparisons: tuple[Comparison, ...]
    changes: Mapping[str, Mapping[str, Any]]
    differences: Mapping[str, Sequence[str]]
    cut_off: tuple[Mapping[str, str], ...] = ()
    burn_in: tuple[str, ...] = ()
    protection: protections.Verdict | None = None
    """Of an experiment whose sides are a protection off, (monitoring,) and on."""

    @property
    def groups(self) -> tuple[Group, ...]:
        return (self.comparisons[0].a, *(each.b for each in self.comparisons))

    @property
    def baseline(self) -> str:
        return self.comparisons[0].a.label

    @property
    def level(self) -> float:
        return self.comparisons[0].level

    @property
    def outcome(self) -> Verdict:
        """The worst of all comparisons."""
        found = [each.outcome for each in self.comparisons]
        return next(each for each in (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS) if each in found)

    @property
    def exit_code(self) -> Exit:
        return {Verdict.PASS: Exit.PASS, Verdict.FAIL: Exit.WEAKNESS, Verdict.INCONCLUSIVE: Exit.INCONCLUSIVE}[
            self.outcome
        ]

    @property
    def metrics(self) -> list[str]:
        """Every metric, those that decide first."""
        names = {row.metric for each in self.comparisons for row in each.rows}
        return sorted(names, key=lambda name: (not self.decides(name), name))

    def decides(self, metric: str) -> bool:
        """Whether it decides of any side."""
        return any(row.decides for each in self.comparisons for row in each.rows if row.metric == metric)

    def row(self, metric: str, comparison: Comparison) -> Row | None:
        return next((row for row in comparison.rows if row.metric == metric), None)

    def of(self, comparison: Comparison) -> str:
        """One side against the first, in a sentence."""
        name = f"side {comparison.b.label}"
        rows = [row for row in comparison.rows if row.decides]
        worse = [row.metric for row in rows if row.verdict is Verdict.FAIL]
        open_ = [row.metric for row in rows if row.verdict is Verdict.INCONCLUSIVE]
        better = [row.metric for row in rows if row.verdict is Verdict.PASS and is_better(row)]
        gain = f"; it is better in {_listed(better)}" if better else ""
        if worse:
            return f"{name} is worse than {self.baseline} in {_listed(worse)}{gain}"
        if open_ or not rows:
            return f"of {name} not enough is known: {_listed(open_) or 'no metric decides'}{gain}"
        return f"{name} is no worse than {self.baseline} in any metric that decides{gain}"

    @property
    def sentence(self) -> str:
        """All in one line."""
        runs = text.listed([f"{group.counted} of {group.label}" for group in self.groups])
        said = "; ".join(self.of(each) for each in self.comparisons)
        return f"{said[0].upper()}{said[1:]}. Runs that count: {runs}."

    def to_json(self) -> dict[str, Any]:
        return {
            "format": VERSION,
            "kind": "sides compared",
            "experiment": self.experiment,
            "outcome": self.outcome.value,
            "exit_code": int(self.exit_code),
            "summary": self.sentence,
            "level": self.level,
            "baseline": self.baseline,
            "changes": {name: dict(each) for name, each in self.changes.items()},
            "differences": {name: list(each) for name, each in self.differences.items()},
            "cut_off": [dict(each) for each in self.cut_off],
            "burn_in": list(self.burn_in),
            "comparisons": {each.b.label: each.to_json() for each in self.comparisons},
        } | ({} if self.protection is None else {"protection": self.protection.to_json()})

    def markdown(self) -> str:
        return "\n".join(_markdown(self)) + "\n"


def is_better(row: Row) -> bool:
    """The whole interval is on the better side of no shift."""
    if row.interval is None:
        return False
    more = higher_is_better(row.unit, row.metric)
    return row.interval.low > 0 if more else row.interval.high < 0


def word(row: Row | None) -> str:
    """``worse``, ``better``, ``no worse`` or ``open``: a row in one word or two."""
    if row is None or row.verdict is Verdict.INCONCLUSIVE:
        return "open"
    return "worse" if row.verdict is Verdict.FAIL else "better" if is_better(row) else "no worse"


def moved(row: Row | None) -> str:
    """The shift with its interval, as in ``+3 ms [+1 ms to +5 ms]``; where there is none that of all differences."""
    if row is None or row.shift is None:
        return text.NO_VALUE
    interval = row.interval or row.shift.widest
    least = "" if row.interval else f", {100 * interval.level:.3g} % only"
    return f"{signed(row.shift.estimate, row.unit)} [{signed(interval, row.unit)}{least}]"


def _listed(metrics: Sequence[str]) -> str:
    few, more = [text.clip(each, 80) for each in metrics[:SHOWN]], len(metrics) - SHOWN
    return text.listed([*few, f"{more} more"] if more > 0 else few)


def _markdown(found: Sides) -> Iterator[str]:
    def cell(words: str) -> str:
        return " ".join(words.split()).replace("|", "\\|")

    yield f"# {found.experiment}: {found.outcome.value}"
    yield ""
    yield found.sentence
    yield ""
    if found.protection is not None:
        yield f"**{cell(found.protection.sentence)}.**"
        yield ""
        yield "| " + " | ".join(protections.HEAD) + " |"
        yield "|---" * len(protections.HEAD) + "|"
        for of_side in found.protection.table():
            yield "| " + " | ".join(map(cell, of_side)) + " |"
        yield ""
    names = [each.b.label for each in found.comparisons]
    for name in names:
        yield f"* {name} against {found.baseline}: {cell('; '.join(found.differences.get(name, ())))}"
    yield ""
    yield f"Shift from {found.baseline} with its interval, {100 * found.level:.3g} % each or more."
    yield ""
    yield f"| metric | decides | {found.baseline} | " + " | ".join(f"{name} | shift | is" for name in names) + " |"
    yield "|---|---|---|" + "---|---|---|" * len(names)
    for metric in found.metrics:
        rows = [found.row(metric, each) for each in found.comparisons]
        first = next(row for row in rows if row is not None)
        cells = [metric, "yes" if found.decides(metric) else "", summary_of(first.a)]
        for row in rows:
            cells += [summary_of(row.b) if row else text.NO_VALUE, moved(row), word(row)]
        yield "| " + " | ".join(map(cell, cells)) + " |"
    for each in found.cut_off:
        yield ""
        yield cell(f"Set aside and made again: {each['run']}, {each['why']}.")
    if found.burn_in:
        yield ""
        yield cell(f"Only warmed a new lab, and count for nothing: {', '.join(found.burn_in)}.")


def compare_sides(groups: Sequence[Group], file: SidesFile) -> Sides:
    """Compare every group with the first. Raises InvalidInput for a tolerance that cannot be read."""
    level, given = level_of(len(groups)), tolerances_of(file.tolerance)
    first, *others = groups
    found = tuple(
        comparing.compare(
            first, each, given, file.decide, level=level, of_one_file=True, names=(first.label, each.label)
        )
        for each in others
    )
    protection = None
    if file.protection is not None:
        traffic = [protections.Traffic(row.metric, word(row), row.says) for row in found[-1].rows]
        protection = protections.judge(protections.Asked.of(file.protection), groups, traffic)
    return Sides(
        file.experiment,
        found,
        file.changes,
        file.differences,
        tuple(file.cut_off),
        tuple(file.burn_in),
        protection,
    )


def tolerances_of(given: Mapping[str, str]) -> dict[str, Tolerance]:
    """Raises InvalidInput for an amount that cannot be read."""
    return {metric: comparing.parse_tolerance(metric, amount) for metric, amount in given.items()}
