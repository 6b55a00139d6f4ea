"""One run as statistics see it: which numbers it gives, and whether they count.

A run gives no numbers when it ended in an error or was aborted, when its instruments were not valid, or when
something was not proven. It is named with its reasons, never dropped silently. Why matters: instruments fail for
reasons of their own, so such a run is only one run less; any other run without numbers could hide a miss, so
nothing passes over it.

A finding that hangs on the machine, or on an instrument that stood still (:mod:`chaos.checks.forgiving`), is
*doubtful*: without it the value would have been better, nobody knows by how much. It is the range from what was
measured to the best. A finding that proves nothing because a node was not asked, or because the cluster had not noticed
the fault yet, has no value: the truth may be worse than what was measured.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from chaos.base.errors import ChaosError, InvalidInput
from chaos.base.intervals import Range
from chaos.checks import catalogue, defaults
from chaos.checks.good import FEWEST as FEWEST_ARRIVALS
from chaos.checks.measure import Bound, Measure, Verdict, judge
from chaos.checks.models import FindingItem, FindingsFile
from chaos.checks.verdict import Counts
from chaos.history.models import Plan

RECOVERY = ("regained", "recovered", "until")
"""Quantities that are times until something is over: no mean is taken of them, over runs they have a distribution
of any shape, and some are never reached."""


@dataclass(frozen=True)
class Known:
    """One run's value of a metric. ``unit``: share (0..1), seconds or count."""

    unit: str
    low: float
    high: float
    bound: Bound = Bound.EXACT
    doubtful: bool = False

    @property
    def range(self) -> Range:
        return Range(self.low, self.high)

    @property
    def text(self) -> str:
        """For people: ``99.97 %``, ``> 20 s``, ``99.2 % or better``."""
        if self.doubtful:
            return f"{Measure(self.measured, self.unit, '').text} or better"
        return Measure(self.low, self.unit, "", self.bound).text

    @property
    def measured(self) -> float:
        """What was measured; of a doubtful value the worse end of its range."""
        return self.high if self.doubtful and self.high != _best(self.unit) else self.low


MORE_IS_BETTER = ("costs.goodput",)
"""Numbers of what went well, by their names: of other units than shares it cannot be told."""


def higher_is_better(unit: str, metric: str = "") -> bool:
    """Shares are of what went well, unless their check says otherwise; seconds, counts and costs of what did not."""
    name = metric.partition("@")[0]
    check = catalogue.of(name) if name else None
    return (unit == "share" and not (check is not None and check.less_is_better)) or name in MORE_IS_BETTER


def has_words(unit: str) -> bool:
    """Whether a value in this unit can be shown."""
    try:
        return bool(Measure(0.0, unit, "").text)
    except KeyError:
        return False


def known(value: Any, unit: str, bound: Any = "exact") -> Known | None:
    """A value of findings.json; None when there is none that is understood: then it is missing, never guessed."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    try:
        kind = Bound(bound or "exact")
    except ValueError:
        return None
    unit = unit if has_words(unit) else "count"
    return Known(unit, float(value), float(value) if kind is Bound.EXACT else math.inf, kind)


def _best(unit: str) -> float:
    """The best there is in a unit of which more is better."""
    return 1.0 if unit == "share" else math.inf


def doubtful(value: Known, metric: str) -> Known:
    """What is known of a metric's value that would have been better on another machine."""
    if higher_is_better(value.unit, metric):
        return Known(value.unit, value.low, _best(value.unit), doubtful=True)
    return Known(value.unit, 0.0, value.high, doubtful=True)


def is_recovery(metric: str) -> bool:
    """Whether a metric (``read.regained``, with or without ``@phase``) is a time until something is over."""
    name = metric.partition("@")[0]
    return name.startswith("ladder.") or name.rpartition(".")[2] in RECOVERY


@dataclass(frozen=True)
class Facts:
    """A run. ``folder`` is where its report is; None for one that stands in a baseline only."""

    name: str
    folder: Path | None
    plan: Plan
    findings: FindingsFile
    metrics: dict[str, Known] = field(default_factory=dict)

    @property
    def outcome(self) -> str:
        return str(self.findings.get("outcome"))

    @property
    def clean(self) -> bool | None:
        clean = self.findings.get("clean")
        return clean if isinstance(clean, bool) else None

    @property
    def experiment(self) -> dict[str, Any]:
        return dict(self.plan.get("experiment") or {})

    @cached_property
    def instruments(self) -> tuple[str, ...]:
        """Conditions on the instruments that this run did not keep."""
        checks = (self.findings.get("validity") or {}).get("checks") or []
        return tuple(
            f"{item['what']}: {item['measured']}, and the limit is {item['limit']}" for item in checks if not item["ok"]
        )

    @cached_property
    def unproven(self) -> tuple[str, ...]:
        """Everything else for which the run as a whole proves nothing."""
        own = {f"{item['title']}: {item['says']}" for item in self.findings.get("findings") or []}
        return tuple(
            str(reason["says"])
            for reason in self.findings.get("reasons") or []
            if reason["outcome"] in ("error", "aborted", "inconclusive")
            and reason["says"] not in own
            and not any(each.partition(", and the limit")[0] in str(reason["says"]) for each in self.instruments)
        )

    @property
    def ended(self) -> tuple[str, ...]:
        """The nodes that ended by themselves in it, in words: a find, whatever else the run proves or does not."""
        ends = (self.findings.get("tables") or {}).get("ends") or []
        return tuple(str(end["says"]) for end in ends if end.get("weakness"))

    @property
    def excluded(self) -> str | None:
        """Why this run gives no numbers, in words; None when it does."""
        if self.unproven:
            return "; ".join(self.unproven[:2])
        if self.instruments:
            return "; ".join(self.instruments[:2])
        return None

    @property
    def hides(self) -> bool:
        """Excluded for a reason that the cluster may have had a part in: nothing passes over such a run."""
        return bool(self.unproven)

    @cached_property
    def by_id(self) -> dict[str, FindingItem]:
        return {str(item["id"]): item for item in self.findings.get("findings") or []}

    def measured(self, id: str) -> Known | None:
        """A finding's value in this run, doubtful or not; None without one."""
        item = self.by_id.get(id)
        return None if item is None else _of_finding(item)


def raw_verdict(item: FindingItem, comparison: str, target: float) -> Verdict:
    """A finding's value against its target alone, whatever was held against it."""
    if item["verdict"] != "inconclusive":
        return Verdict(item["verdict"])
    value = value_of(item)
    if value is None:
        return Verdict.INCONCLUSIVE
    return judge(Measure(value.low, value.unit, "", value.bound), comparison, target)


def value_of(item: FindingItem) -> Known | None:
    """What a finding measured, also where it hangs on the machine; None: nothing, or nothing that bounds the truth."""
    if is_boundless(item):
        return None
    return known(item.get("measured"), unit_of(item), item.get("bound"))


def is_boundless(item: FindingItem) -> bool:
    """Whether the truth may be worse than what was measured, or on either side of it: it went on for longer than was
    watched, and it hangs on the machine."""
    hangs = item["verdict"] == "inconclusive" and bool(item.get("because"))
    return bool(item.get("may_be_worse")) or (hangs and item.get("bound") != "exact")


def is_relaxed(item: FindingItem) -> bool:
    """Whether it breaks what every run promises, within what its line allows with its reason: it is not held."""
    return item.get("counts_as") == Counts.RELAXED


def unit_of(item: FindingItem) -> str:
    """The unit of a finding; of one that does not name it, that of its target."""
    if item.get("unit"):
        return str(item["unit"])
    target = str(item.get("target") or "").strip()
    return "share" if target.endswith("%") else "seconds" if target.endswith(("s", "m", "h", "min")) else "count"


def of_folder(folder: Path) -> Facts:
    """A run's folder, judged from its history (:mod:`.judged`). Raises InvalidInput when it is no run."""
    from chaos.statistics.judged import judged

    try:
        plan = json.loads((folder / "plan.json").read_text())
        findings = judged(folder)
        if not isinstance(plan, dict):
            raise ValueError("not an object")
        return Facts(folder.name, folder, cast(Plan, plan), findings, metrics(findings))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ChaosError) as error:
        raise InvalidInput(
            f"{folder} is no run that can be read ({type(error).__name__}: {error})",
            remedy="name a run's folder, or judge it anew with: opensearch-chaos report",
        ) from None


# -- metrics -----------------------------------------------------------------------------------------


def metrics(findings: FindingsFile) -> dict[str, Known]:
    """Every number of a run by its name (``read.good@slow``, ``read.outage``), from the tables of findings.json."""
    found = {name: value for name, value in _of_tables(findings.get("tables") or {}) if value is not None}
    items = findings.get("findings") or []
    gone_over = {name: doubtful(found[name], name) for name in _names(items, is_doubtful) if name in found}
    for item in items:  # what only an expectation measures, as `until`
        name = metric_name(item)
        if name not in found and (value := _of_finding(item)) is not None:
            found[name] = value
    missing = _names(items, is_boundless)
    return {name: value for name, value in (found | gone_over).items() if name not in missing}


def metric_name(item: FindingItem) -> str:
    """A finding's metric with its phase."""
    return str(item["metric"]) + (f"@{item['phase']}" if item.get("phase") else "")


def is_doubtful(item: FindingItem) -> bool:
    """Exact, so it has a verdict of its own, and yet inconclusive: in a run that counts only what is ours does that,
    where the truth cannot be worse."""
    return item["verdict"] == "inconclusive" and value_of(item) is not None and item.get("bound") == "exact"


def _names(items: Iterable[FindingItem], wanted: Callable[[FindingItem], bool]) -> set[str]:
    return {metric_name(item) for item in items if wanted(item)}


def _of_finding(item: FindingItem) -> Known | None:
    value = value_of(item)
    return doubtful(value, metric_name(item)) if value is not None and is_doubtful(item) else value


def _of_tables(tables: dict[str, Any]) -> Iterator[tuple[str, Known | None]]:
    for op, phases in (tables.get("good") or {}).items():
        for phase, row in phases.items():
            enough = int(row.get("scheduled") or 0) >= FEWEST_ARRIVALS
            yield f"{op}.good@{phase}", known(row.get("share") if enough else None, "share")
    for op, row in (tables.get("outage") or {}).items():
        yield f"{op}.outage", known(row.get("own"), "seconds")
        for phase, value in (row.get("phases") or {}).items():
            yield f"{op}.outage@{phase}", known(value, "seconds")
    for op, phases in (tables.get("regained") or {}).items():
        for phase, row in phases.items():
            yield f"{op}.regained@{phase}", known(row.get("value"), "seconds", row.get("bound"))
    for op, phases in (tables.get("latency") or {}).items():
        for phase, row in phases.items():
            for name, item in row.items():
                if isinstance(item, dict):
                    yield f"{op}.{name}@{phase}", known(item.get("value"), "seconds", item.get("bound"))
    for op, row in (tables.get("availability") or {}).items():
        for name in ("slices", "user_uptime"):
            yield f"{op}.{name}", known((row.get(name) or {}).get("share"), "share")
        for item in row.get("minimum") or []:
            yield f"{op}.minimum.{item.get('window'):g}s", known(item.get("availability"), "share")
    for phase, row in (tables.get("recovered") or {}).items():
        yield f"cluster.recovered@{phase}", known(row.get("value"), "seconds", row.get("bound"))
    for phase, row in (tables.get("ladder") or {}).items():
        for step in row.get("steps") or []:
            yield f"ladder.{step.get('name')}@{phase}", known(step.get("after"), "seconds", step.get("bound"))
    for phase, row in (tables.get("moved") or {}).items():
        yield f"shards.moved@{phase}", known(row.get("value"), "count", row.get("bound"))
    writes = tables.get("writes") or {}
    yield "acknowledged.lost", known(writes.get("value"), "count", writes.get("bound"))
    for name, row in (tables.get("costs") or {}).items():
        yield f"costs.{name}", known(row.get("value"), str(row.get("unit") or "number"), row.get("bound"))
    for phase, row in (tables.get("manager_processor") or {}).items():
        yield f"manager.processor@{phase}", known(row.get("value"), "share", row.get("bound"))
    for phases in (tables.get("documents") or {}).values():
        for phase, row in phases.items():
            yield f"documents.tries@{phase}", known(row.get("tries"), "number")
    visible = (tables.get("data") or {}).get("visibility") or {}
    if "quantile" in visible:
        yield f"visible.{visible['quantile']}", known(visible.get("value"), "seconds", visible.get("bound"))
    for phase, row in (visible.get("replicas") or {}).items():
        for name in ("p50", "p90", "p99"):
            item = row.get(name) or {}
            yield f"replicas.visible.{name}@{phase}", known(item.get("value"), "seconds", item.get("bound"))
    for phase, row in (tables.get("replication") or {}).items():
        for name, unit in (("lag", "seconds"), ("bytes_behind", "number")):
            item = row.get(name) or {}
            yield f"replication.{name}@{phase}", known(item.get("value"), unit, item.get("bound"))
    for name, row in (tables.get("data") or {}).items():
        if isinstance(row, dict):
            yield f"data.{name}", known(row.get("value"), str(row.get("unit") or "count"), row.get("bound"))


@dataclass(frozen=True)
class Target:
    """What is expected of a metric in a phase. ``id``: that of its finding in every run of the experiment."""

    id: str
    metric: str
    comparison: str
    value: float
    known_weakness: str | None
    group: int
    """Expectations over several phases are one: a known weakness belongs to them as a whole."""
    bound: tuple[str, float] | None = None
    """How bad a known weakness may be: comparison and value."""
    because: str | None = None
    """Why it allows more than every run promises."""


def targets(plan: Plan) -> tuple[Target, ...]:
    """The expectations of a plan, phase by phase, with the ids that :mod:`chaos.checks.verdict` gives them."""
    experiment = plan.get("experiment") or {}
    used: dict[str, int] = {}
    found = []
    for group, item in enumerate(experiment.get("expect") or []):
        for phase in item.get("phases") or [None]:
            name = str(item["metric"]) + (f"@{phase}" if phase else "")
            used[name] = used.get(name, 0) + 1
            id = name if used[name] == 1 else f"{name}#{used[name]}"
            comparison, value = str(item["comparison"]), float(item["value"])
            limit = item.get("known_bound")
            bound = (str(limit["comparison"]), float(limit["value"])) if limit else None
            known, because = item.get("known_weakness"), item.get("because")
            found.append(Target(id, name, comparison, value, known, group, bound, because))
    for phase in experiment.get("phases") or []:
        if until := phase.get("until"):
            id = f"until@{phase['name']}"
            found.append(Target(id, id, "<=", float(until.get("within") or 0), None, -len(found) - 1))
    return tuple(found)


PROMISED = -1_000_000
"""Groups of promises count down from here: each is an expectation of its own."""


def promises(runs: Iterable[Facts]) -> tuple[Target, ...]:
    """What every run promises without a line (:mod:`chaos.checks.defaults`), where a run was held to it.

    Ends of processes are in :attr:`Facts.ended`.
    """
    known = dict.fromkeys(
        id for run in runs for id, item in run.by_id.items() if item.get("default") and id != defaults.PROCESS
    )
    return tuple(Target(id, id, "==", 0.0, None, PROMISED - number) for number, id in enumerate(known))
