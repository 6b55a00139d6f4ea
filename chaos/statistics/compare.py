"""A and B: is B worse than A by more than is tolerated? The run is the unit.

Per metric the shift from A to B, Hodges and Lehmann's over per-run values with its exact two-sided 95 % interval
(:mod:`chaos.base.intervals`), is held against a tolerance that is stated beforehand:

* pass: the whole interval is no worse than the tolerance;
* fail: the whole interval is worse than the tolerance;
* inconclusive: else, and always where no interval exists (three runs a side have none: all their differences
  together are an interval with 90 %).

Runs whose instruments failed are left out. Over a run of B that is without numbers for any other reason nothing passes.
No outlier is removed (in a canary it is noise, here it is the finding), and no request is compared with another.
An acknowledged write that is lost in any run of B and in none of A fails, whatever the ranks say. Where a load writes,
or a line expects of either side that none is lost, nothing passes unless that is known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.base import text
from chaos.base.errors import Exit, InvalidInput
from chaos.base.intervals import LEVEL, Interval, Range, Shift, median, shift
from chaos.checks import catalogue
from chaos.checks.measure import Measure, Verdict
from chaos.history import models
from chaos.statistics.facts import Known, higher_is_better
from chaos.statistics.series import percent, shown
from chaos.statistics.store import LOST, Group, differences, refuse_incomparable

VERSION = 1
NAMES = ("A", "B")
"""What both are called where they have no names."""


@dataclass(frozen=True)
class Tolerance:
    """How much worse is still the same: ``absolute`` in the metric's unit or ``relative`` to A's median, the larger."""

    absolute: float = 0.0
    relative: float = 0.0

    def of(self, a: Range) -> float:
        """In the metric's unit. What is not known from above allows nothing beyond its low end."""
        return max(self.absolute, self.relative * abs(a.low))

    def text(self, unit: str, of: str = NAMES[0]) -> str:
        """In words. ``of``: what the first side is called."""
        parts = []
        if self.absolute or not self.relative:
            shown_as = f"{self.absolute * 100:g} points" if unit == "share" else Measure(self.absolute, unit, "").text
            parts.append(shown_as)
        if self.relative:
            parts.append(f"{percent(self.relative)} of {of}")
        return " or ".join(parts)


DEFAULTS: tuple[tuple[str, Tolerance], ...] = (
    (r".*\.(good|slices|user_uptime)|documents\.acknowledged|.*\.minimum\..*", Tolerance(0.001)),
    (r".*\.outage", Tolerance(1.0, 0.10)),
    (r".*\.regained|cluster\.recovered|ladder\..*|until", Tolerance(2.0, 0.10)),
    (r".*\.p[0-9.]+", Tolerance(0.010, 0.25)),
    (r"costs\..*|manager\.processor", Tolerance(0.0, 0.10)),
    (r"replication\.lag", Tolerance(1.0, 0.25)),
    (r"replication\.bytes_behind", Tolerance(0.0, 0.25)),
)
"""What is tolerated by default. Chosen from what users notice and what is measured, never fitted:
0.1 points of a share are a month's whole error budget at 99.9 %; an outage is measured in windows of 1 s, and whether
it is over in windows of 1 or 2 s; less than 10 ms of latency, or a quarter of it, alerts no
pager; a tenth of what it costs buys no other machine; replicas are looked at once a second. Counts: none."""


def default_tolerance(metric: str) -> Tolerance:
    name = metric.partition("@")[0]
    return next((each for pattern, each in DEFAULTS if re.fullmatch(pattern, name)), Tolerance())


def parse_tolerance(metric: str, given: str) -> Tolerance:
    """``0.1%`` of a share is points, ``25%`` of anything else relative; ``10ms``, ``3``; ``10ms or 25%``: the larger.

    Raises InvalidInput.
    """
    from chaos.base.units import Duration, Malformed, Percent

    quantity = metric.partition("@")[0]
    is_share = bool(re.fullmatch(DEFAULTS[0][0], quantity) or quantity in ("good", "slices", "user_uptime"))
    found = Tolerance()
    for part in (piece.strip() for piece in str(given).split(" or ")):
        try:
            if part.endswith("%"):
                value = float(Percent.parse(part)) if part.strip("% ") not in ("", "0") else 0.0
                found = Tolerance(value, found.relative) if is_share else Tolerance(found.absolute, value)
            elif re.fullmatch(r"[0-9]+", part, re.ASCII):
                found = Tolerance(float(part), found.relative)
            elif is_share:
                raise Malformed("a share takes percentage points")
            else:
                found = Tolerance(float(Duration.parse(part)), found.relative)
        except (Malformed, ValueError) as error:
            raise InvalidInput(
                f"tolerance {metric}={given}: {getattr(error, 'message', error)}",
                remedy="for example read.good=0.1%, write.regained=2s, read.p99=10ms or 25%, shards.moved=1",
            ) from None
    return found


def parse_tolerances(given: Sequence[str]) -> dict[str, Tolerance]:
    """``--tolerance`` options: ``metric=value``, or files of ``metric: value`` (YAML). Later ones win."""
    found: dict[str, Tolerance] = {}
    for each in given:
        name, equals, value = each.partition("=")
        pairs = {name.strip(): value.strip()} if equals else _tolerance_file(Path(each))
        found |= {metric: parse_tolerance(metric, amount) for metric, amount in pairs.items()}
    return found


def _tolerance_file(file: Path) -> dict[str, str]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        data = YAML(typ="safe").load(file.read_text())
    except OSError as error:
        raise InvalidInput(
            f"--tolerance {file}: {error.strerror}", remedy="give metric=value, or a file of them"
        ) from None
    except (YAMLError, UnicodeDecodeError) as error:
        raise InvalidInput(f"--tolerance {file}: {str(error).splitlines()[0]}") from None
    if not isinstance(data, dict) or not all(isinstance(v, str | int) for v in data.values()):
        raise InvalidInput(f"--tolerance {file}: expected lines such as read.good: 0.1%")
    return {str(key): str(value) for key, value in data.items()}


def tolerance_of(metric: str, given: Mapping[str, Tolerance]) -> Tolerance:
    """The one for ``read.good@slow``, else for ``read.good``, else for ``good``, else the default."""
    name = metric.partition("@")[0]
    for key in (metric, name, name.partition(".")[2]):
        if key in given:
            return given[key]
    return default_tolerance(metric)


def refuse_unknown(given: Mapping[str, Tolerance], metrics: Sequence[str]) -> None:
    """Raises InvalidInput for a tolerance that no metric has: a typing error must not loosen or tighten nothing."""
    names = {
        key
        for metric in metrics
        for name in [metric.partition("@")[0]]
        for key in (metric, name, name.partition(".")[2])
    }
    for key in given:
        if key not in names:
            raise InvalidInput(
                f"tolerance {key}: neither side has that metric",
                remedy=f"choose among: {', '.join(sorted({metric.partition('@')[0] for metric in metrics}))}",
            )


@dataclass(frozen=True)
class Row:
    """One metric compared. ``decides``: its verdict counts for the whole; else it is shown only."""

    metric: str
    unit: str
    a: tuple[Known, ...]
    b: tuple[Known, ...]
    shift: Shift | None
    tolerance: float
    tolerance_text: str
    verdict: Verdict
    says: str
    decides: bool

    @property
    def interval(self) -> Interval | None:
        return self.shift.interval if self.shift else None

    def to_json(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "unit": self.unit,
            "decides": self.decides,
            "verdict": self.verdict.value,
            "says": self.says,
            "a": [value.text for value in self.a],
            "b": [value.text for value in self.b],
            "shift": _range_json(self.shift.estimate) if self.shift else None,
            "interval": _interval_json(self.interval),
            "widest": _interval_json(self.shift.widest) if self.shift else None,
            "tolerance": self.tolerance,
            "tolerance_text": self.tolerance_text,
        }


def _finite(value: float) -> float | None:
    return value if abs(value) != float("inf") else None


def _range_json(value: Range) -> list[float | None]:
    return [_finite(value.low), _finite(value.high)]


def _interval_json(value: Interval | None) -> dict[str, Any] | None:
    """An open end is null."""
    return None if value is None else {"low": _finite(value.low), "high": _finite(value.high), "level": value.level}


@dataclass(frozen=True)
class Comparison:
    """All metrics compared. ``outcome``: the worst of those that decide."""

    a: Group
    b: Group
    rows: tuple[Row, ...]
    differences: tuple[str, ...]
    level: float = LEVEL
    """That of each interval, at least."""

    @property
    def outcome(self) -> Verdict:
        verdicts = [row.verdict for row in self.rows if row.decides]
        if Verdict.FAIL in verdicts:
            return Verdict.FAIL
        return Verdict.PASS if verdicts and set(verdicts) == {Verdict.PASS} else Verdict.INCONCLUSIVE

    @property
    def exit_code(self) -> Exit:
        return {Verdict.PASS: Exit.PASS, Verdict.FAIL: Exit.WEAKNESS, Verdict.INCONCLUSIVE: Exit.INCONCLUSIVE}[
            self.outcome
        ]

    @property
    def sentence(self) -> str:
        """The comparison in one line."""
        counts = {verdict: [r.metric for r in self.rows if r.decides and r.verdict is verdict] for verdict in Verdict}
        runs = f"{text.plural(self.a.counted, 'run')} of A and {self.b.counted} of B count"
        if counts[Verdict.FAIL]:
            return f"B is worse than A in {_named(counts[Verdict.FAIL])}; {runs}."
        if counts[Verdict.INCONCLUSIVE] or not counts[Verdict.PASS]:
            what = _named(counts[Verdict.INCONCLUSIVE]) if counts[Verdict.INCONCLUSIVE] else "any metric"
            return f"Not enough is known of {what}; {runs}."
        return f"B is no worse than A in any metric that decides, within its tolerance; {runs}."

    def to_json(self) -> dict[str, Any]:
        return {
            "format": VERSION,
            "outcome": self.outcome.value,
            "exit_code": int(self.exit_code),
            "summary": self.sentence,
            "level": self.level,
            "sides": {
                name: {"label": side.label, "runs": list(side.runs), "about": side.about}
                for name, side in (("a", self.a), ("b", self.b))
            },
            "differences": list(self.differences),
            "metrics": [row.to_json() for row in self.rows],
        }


def _named(metrics: Sequence[str]) -> str:
    return text.listed([text.clip(metric, 80) for metric in metrics[:4]]) + (
        f" and {len(metrics) - 4} more" if len(metrics) > 4 else ""
    )


def deciding(a: Group, b: Group) -> set[str]:
    """The metrics that decide by default: what both sides expect, measured or not, outage seconds, and lost writes.

    An expectation that wants a fault to bite (``write.good < 10%``) is no wish of users, and decides nothing here.
    """
    names = {LOST}
    for id in set(a.conditions["targets"]) & set(b.conditions["targets"]):
        metric, (comparison, _) = id.partition("#")[0], a.conditions["targets"][id]
        unit = next((v.unit for side in (a, b) for v in side.values.get(metric, ()) if v is not None), None)
        unit = unit or _unit(metric)
        if unit is None or (comparison in (">=", ">")) == higher_is_better(unit, metric):
            names.add(metric)
    names |= {metric for side in (a, b) for metric in side.values if re.fullmatch(r"[a-z]+\.outage", metric)}
    return names


def _owes_losses(side: Group) -> bool:
    """Whether a side's runs are to know whether writes were lost: its load writes, or a line expects it."""
    load = side.conditions["load"]
    expected = any(id.partition("#")[0] == LOST for id in side.conditions["targets"])
    return expected or any(models.writes(name, each) for name, each in load.items() if isinstance(each, Mapping))


def _lost_more(a: Group, b: Group, tolerated: float = 0.0) -> bool:
    """Whether B lost writes, and more than A, as far as is known of A."""
    lost = b.lost or 0.0
    return lost > (a.lost or 0.0) and lost > tolerated


def _unit(metric: str) -> str | None:
    """The unit of a metric that no run measured, by its check; None: no check here has that name."""
    check = catalogue.of(metric.partition("@")[0])
    return None if check is None else "share" if check.unit == "percent" else check.unit


def compare(
    a: Group,
    b: Group,
    tolerances: Mapping[str, Tolerance] | None = None,
    metrics: Sequence[str] = (),
    *,
    level: float = LEVEL,
    of_one_file: bool = False,
    names: tuple[str, str] = NAMES,
) -> Comparison:
    """Compare. ``metrics``: those that decide, by name with or without phase, instead of :func:`deciding`; writes that
    were lost on B alone decide whatever is chosen. ``level``:
    of each interval. ``of_one_file``: they are sides of one experiment, so what differs between their loads is what one
    compares, and a name of its file that no run measured is open. ``names``: what both are called.

    Raises InvalidInput when the sides cannot be compared, or an option names no metric of theirs.
    """
    if not of_one_file:
        refuse_incomparable(a, b)
    chosen, measured = deciding(a, b), {*a.values, *b.values}
    owed = {LOST} if _owes_losses(a) or _owes_losses(b) or _lost_more(a, b) else set()
    every = sorted(measured if metrics else measured | (chosen - {LOST}) | owed)
    given = dict(tolerances or {})
    if of_one_file:
        every += [name for name in metrics if not any(name in (each, each.partition("@")[0]) for each in every)]
    else:
        refuse_unknown(given, every)
    if metrics:
        chosen = {name for name in every for wanted in metrics if wanted in (name, name.partition("@")[0])}
        for wanted in metrics:
            if not any(wanted in (name, name.partition("@")[0]) for name in every):
                raise InvalidInput(f"neither side has the metric {wanted}", remedy=f"choose among: {', '.join(every)}")
        if _lost_more(a, b):  # whatever else was chosen
            chosen |= {LOST}
            every += [LOST] if LOST not in every else []
    rows = [_row(name, a, b, tolerance_of(name, given), name in chosen, level, names) for name in every]
    rows.sort(key=lambda row: (not row.decides, _ORDER.index(row.verdict), row.metric))
    return Comparison(a, b, tuple(rows), tuple(differences(a, b, names)), level)


_ORDER = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS)


def _row(
    metric: str,
    a: Group,
    b: Group,
    tolerance: Tolerance,
    decides: bool,
    level: float = LEVEL,
    names: tuple[str, str] = NAMES,
) -> Row:
    ours, theirs = a.values.get(metric, ()), b.values.get(metric, ())
    left, right = (tuple(value for value in side if value is not None) for side in (ours, theirs))
    unit = next((value.unit for value in (*left, *right)), "count")
    moved, allowed = None, tolerance.absolute
    if not left or not right:
        side = names[0] if not left else names[1]
        verdict, says = Verdict.INCONCLUSIVE, f"{side} has no value"
    else:
        allowed = tolerance.of(median([value.range for value in left]))
        moved = shift([value.range for value in left], [value.range for value in right], level)
        more = higher_is_better(unit, metric)
        verdict, says = _verdict(moved, unit, allowed, len(left), len(right), more=more, level=level)
        missing = (len(ours) - len(left)) + (len(theirs) - len(right))
        if missing and verdict is Verdict.PASS:
            verdict, says = Verdict.INCONCLUSIVE, f"{says}; does not count, because {missing} runs have no value"
        if b.hidden and verdict is Verdict.PASS:
            verdict, says = Verdict.INCONCLUSIVE, f"{says}; does not count, because of {names[1]} {b.hidden[0]}"
    if metric == LOST and _lost_more(a, b, tolerance.absolute):
        lost = f"up to {text.count(b.lost or 0.0)} lost in a run of {names[1]}"
        if a.lost is None:
            verdict, says = Verdict.INCONCLUSIVE, f"{lost}; not known in {names[0]}"
        else:
            verdict, says = Verdict.FAIL, f"{lost}, {text.count(a.lost)} in any of {names[0]}"
    return Row(metric, unit, left, right, moved, allowed, tolerance.text(unit, names[0]), verdict, says, decides)


def _verdict(
    moved: Shift, unit: str, allowed: float, left: int, right: int, *, more: bool, level: float
) -> tuple[Verdict, str]:
    """``more``: of this metric more is better."""
    interval = moved.interval
    if interval is None:
        widest = f"all differences together ({signed(moved.widest, unit)}) are one with {percent(moved.widest.level)}"
        return Verdict.INCONCLUSIVE, f"{left} and {right} runs have no {100 * level:.3g} % interval; {widest}"
    best, worst = (-interval.high, -interval.low) if more else (interval.low, interval.high)
    slack = 1e-12
    if worst <= allowed + slack:
        return Verdict.PASS, "no worse than tolerated"
    if best > allowed + slack:
        return Verdict.FAIL, "worse than tolerated"
    return Verdict.INCONCLUSIVE, "the interval reaches over the tolerance"


def signed(interval: Interval | Range, unit: str) -> str:
    """A shift for people: ``-0.3 to +0.1 points``, ``+2 s to +30 s``."""
    low, high = (_signed(value, unit) for value in (interval.low, interval.high))
    both = low if low == high else f"{low} to {high}"
    return f"{both} points" if unit == "share" else both


def _signed(value: float, unit: str) -> str:
    if value in (float("inf"), float("-inf")):
        return "+∞" if value > 0 else "-∞"
    sign = "+" if value > 0 else "-" if value < 0 else ""
    if unit == "share":
        return f"{sign}{abs(value) * 100:.3g}"
    return sign + Measure(abs(value), unit, "").text


def summary_of(values: Sequence[Known]) -> str:
    """``median (min to max)`` of one side, for a table."""
    if not values:
        return text.NO_VALUE
    unit, ranges = values[0].unit, [value.range for value in values]
    lows, highs = [r.low for r in ranges], [r.high for r in ranges]
    middle = shown(median(ranges), unit)
    if min(lows) == max(highs):
        return middle
    return f"{middle} ({shown(Range(min(lows), min(highs)), unit)} to {shown(Range(max(lows), max(highs)), unit)})"


__all__ = ["Comparison", "Row", "Tolerance", "compare", "parse_tolerances"]
