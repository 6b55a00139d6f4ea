"""Where runs are found for statistics: a run's folder, a series' folder, a baseline in git; and what may be compared.

A series' folder holds the folders of its runs and ``series.json``, written before the first run: what is run, and R.
A baseline is a small JSON file, one line per metric, that a person can review: per-run values, plan hash, versions,
topology, machine.
"""

from __future__ import annotations

import hashlib
import json
import math
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from chaos.base import text
from chaos.base.errors import InvalidInput
from chaos.base.paths import make_folder, write_atomically, write_json
from chaos.checks.measure import Bound
from chaos.definitions.experiment import DOCUMENTS
from chaos.history import models
from chaos.history.models import Plan
from chaos.statistics import facts as reading
from chaos.statistics.facts import Facts, Known
from chaos.statistics.machines import classes

SERIES = "series.json"
VERSION = 1
LOST = "acknowledged.lost"
DIGITS = 6
"""Significant digits of a value in a baseline: more than any metric is good for."""


def is_run(folder: Path) -> bool:
    return (folder / "plan.json").is_file()


def is_series(folder: Path) -> bool:
    return (folder / SERIES).is_file()


# -- series on disk ---------------------------------------------------------------------------------------


def new_series(out: Path, name: str, plan: dict[str, Any]) -> Path:
    """``<UTC>-<experiment>-series-<shortid>`` in ``out`` with its series.json: R is on disk before the first run."""
    folder = out / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{name}-series-{secrets.token_hex(2)}"
    try:
        make_folder(folder)
        write_series(folder, plan)
    except OSError as error:
        raise InvalidInput(
            f"cannot make the series folder {folder}: {error.strerror}", remedy="choose a folder with --out"
        ) from error
    return folder


def write_series(folder: Path, plan: dict[str, Any]) -> None:
    write_json(folder / SERIES, {"format": VERSION, "kind": "series", **plan})


def read_series(folder: Path) -> tuple[list[Facts], int]:
    """The runs that a series made, in order, and R as it was planned. Raises InvalidInput."""
    data = _json(folder / SERIES, "series")
    names = [str(name) for name in data.get("runs") or []]
    # a run that was killed, or could not be reported, is in the folder and not in the list
    names += sorted(each.parent.name for each in folder.glob("*/plan.json") if each.parent.name not in names)
    if any("/" in name or name in ("", ".", "..") for name in names):
        raise InvalidInput(f"{folder / SERIES} names runs outside its folder")
    try:
        planned = int(data["planned_runs"])
    except (KeyError, TypeError, ValueError):
        raise InvalidInput(f"{folder / SERIES} does not say how many runs were planned") from None
    return [reading.of_folder(folder / name) for name in names], planned


def found(paths: Iterable[Path]) -> list[Path]:
    """Every run's folder in these: runs, series, or folders of either. Raises InvalidInput when there is none."""
    runs: list[Path] = []
    for path in paths:
        if is_run(path):
            runs.append(path)
            continue
        inside = sorted(file.parent for file in path.rglob("plan.json")) if path.is_dir() else []
        if not inside:
            raise InvalidInput(f"{path} is no run and holds none (no plan.json)", remedy="name a folder under reports/")
        runs += inside
    return list(dict.fromkeys(runs))


def series_of(folder: Path) -> tuple[list[Facts], int | None]:
    """The runs of a series' folder, of one run, or of any folder of runs of one experiment.

    Only a series of ours knows how many were planned. Raises InvalidInput when runs are of different plans.
    """
    if is_series(folder):
        runs, planned = read_series(folder)
        known: int | None = planned
    else:
        runs, known = [reading.of_folder(each) for each in found([folder])], None
    if not runs:
        raise InvalidInput(f"{folder} holds no run yet")
    refuse_mixed(runs)
    return runs, known


def refuse_mixed(runs: Sequence[Facts]) -> None:
    """Raises InvalidInput when the runs are not all of one plan: they are no series."""
    first: dict[str, str] = {}
    for run in runs:
        first.setdefault(str(run.plan.get("hash")), run.name)
    if len(first) > 1:
        raise InvalidInput(
            f"{len(first)} different plans are among these runs (for example {text.listed(list(first.values())[:2])})",
            remedy="name runs of one experiment, unchanged",
        )


# -- a group of runs, to be compared --------------------------------------------------------------------


@dataclass(frozen=True)
class Group:
    """One side of a comparison. ``values``: metric → one value per run that counts, None where a run has none.

    ``about``: experiment, hash, versions, topology, machine, client. ``conditions``: what must be the same on both
    sides. ``left_out``: (run, why). ``lost``: the most acknowledged writes that a run lost, counted or left out; None:
    no run knows. ``planned``: how many runs were to be made, where that was fixed. ``protections``: of each run that
    counts, its table of them. ``machines``: the classes of those that its runs were made on.
    """

    label: str
    about: dict[str, Any]
    conditions: dict[str, Any]
    runs: tuple[dict[str, Any], ...]
    values: dict[str, tuple[Known | None, ...]]
    lost: float | None
    planned: int | None = None
    protections: tuple[Mapping[str, Any] | None, ...] = ()
    machines: tuple[str, ...] = ()

    @property
    def counted(self) -> int:
        return sum(run["why_not"] is None for run in self.runs)

    @property
    def left_out(self) -> list[tuple[str, str]]:
        return [(str(run["run"]), str(run["why_not"])) for run in self.runs if run["why_not"] is not None]

    @property
    def hidden(self) -> list[str]:
        """Runs without numbers for a reason that the cluster may have had a part in; and those never made."""
        found = [f"{run['run']} gives no numbers: {run['why_not']}" for run in self.runs if run.get("hides")]
        if self.planned is not None and len(self.runs) < self.planned:
            found.append(f"only {len(self.runs)} of {self.planned} runs were made")
        return found


def group_of(runs: Sequence[Facts], label: str, planned: int | None = None) -> Group:
    """Runs of one plan as one side of a comparison."""
    plan = runs[0].plan
    counted = [run for run in runs if run.excluded is None]
    names = sorted({name for run in counted for name in run.metrics})
    losses = [((run.findings.get("tables") or {}).get("writes") or {}).get("value") for run in runs]
    return Group(
        label=label,
        about=_about(plan),
        conditions=_conditions(plan),
        runs=tuple(
            {
                "run": run.name,
                "seed": run.plan.get("seed"),
                "started": run.plan.get("started"),
                "outcome": run.outcome,
                "why_not": run.excluded,
                "hides": run.hides,
            }
            for run in runs
        ),
        values={name: tuple(run.metrics.get(name) for run in counted) for name in names},
        lost=max((float(value) for value in losses if value is not None), default=None),
        planned=planned,
        protections=tuple((run.findings.get("tables") or {}).get("protections") for run in counted),
        machines=classes(runs),
    )


def planned_group(experiment: Any, label: str) -> Group:
    """A side of which no run was made yet, to ask :func:`refuse_incomparable`."""
    data = experiment.to_json()
    plan: Plan = {"experiment": data, "topology": data["topology"]}
    return Group(label, _about(plan), _conditions(plan), (), {}, None)


def _about(plan: Plan) -> dict[str, Any]:
    experiment, topology = plan.get("experiment") or {}, plan.get("topology") or {}
    load = experiment.get("load") or {}
    return {
        "experiment": experiment.get("name"),
        "hash": plan.get("hash"),
        "versions": plan.get("versions") or {},
        "topology": {
            "name": topology.get("name"),
            "zones": topology.get("zones"),
            "nodes": [node.get("name") for node in topology.get("nodes") or []],
            "settings": topology.get("settings"),
        },
        "machine": _machine(plan.get("machine")),
        "client": load.get("client"),
    }


def _digest(dataset: dict[str, Any]) -> str:
    """Of a workload's definition; where its file lies does not matter."""
    data = {key: value for key, value in dataset.items() if key != "file"}
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:12]


def _machine(machine: dict[str, Any] | None) -> dict[str, Any] | None:
    """Without what the run could use of it where that was all: runs of before do not say so."""
    if machine is None or "usable" not in machine:
        return machine
    usable = machine["usable"] or {}
    whole = usable.get("quota") is None and len(usable.get("processors") or ()) == usable.get("of")
    return {key: value for key, value in machine.items() if key != "usable" or not whole}


def _conditions(plan: Plan) -> dict[str, Any]:
    """What users do, what is done to the cluster, and what is expected: the same, or there is nothing to compare."""
    experiment = plan.get("experiment") or {}
    load = experiment.get("load") or {}
    return {
        "load": {
            **models.operations(load),
            **models.closed(load),
            "arrivals": load.get("arrivals"),
            "documents": load.get("documents"),
            **({"workload": load["workload"]} if load.get("workload", DOCUMENTS) != DOCUMENTS else {}),
            **({"documents and searches": _digest(load["dataset"])} if load.get("dataset") else {}),
            **{name: load[name] for name in ("data_stream", "alias", "rollover") if load.get(name)},
        },
        "phases": experiment.get("phases") or [],
        "targets": {target.id: [target.comparison, target.value] for target in reading.targets(plan)},
    }


def refuse_incomparable(a: Group, b: Group) -> None:
    """Raises InvalidInput, with every difference, when the two were not under the same load, faults and targets.

    Topology, versions, client policy and machine may differ: that is what one compares (:func:`differences`).
    Targets count where both sides have one for the same finding.
    """
    found = [
        f"the load differs in {name}: {_brief(a.conditions['load'].get(name))} in A, "
        f"{_brief(b.conditions['load'].get(name))} in B"
        for name in sorted({*a.conditions["load"], *b.conditions["load"]})
        if a.conditions["load"].get(name) != b.conditions["load"].get(name)
    ]
    phases = [{str(phase.get("name")): phase for phase in side.conditions["phases"]} for side in (a, b)]
    if list(phases[0]) != list(phases[1]):
        found.append(f"the phases differ: {text.listed(list(phases[0]))} in A, {text.listed(list(phases[1]))} in B")
    else:
        found += [
            f"phase {name} differs: {_where(phases[0][name], phases[1][name])}"
            for name in phases[0]
            if phases[0][name] != phases[1][name]
        ]
    ours, theirs = a.conditions["targets"], b.conditions["targets"]
    found += [
        f"the target of {name} differs: {_target(ours[name])} in A, {_target(theirs[name])} in B"
        for name in ours
        if name in theirs and ours[name] != theirs[name]
    ]
    if found:
        raise InvalidInput(
            f"{a.label} and {b.label} cannot be compared: {'; '.join(text.clip(each, 200) for each in found[:4])}",
            remedy="run both with the same load, phases and targets",
        )


def _where(a: dict[str, Any], b: dict[str, Any]) -> str:
    keys = [key for key in sorted({*a, *b}) if a.get(key) != b.get(key)]
    return ", ".join(f"{key} {_brief(a.get(key))} in A, {_brief(b.get(key))} in B" for key in keys)


def _target(pair: list[Any]) -> str:
    return f"{pair[0]} {pair[1]:g}"


def _brief(value: Any) -> str:
    return text.clip(json.dumps(value, ensure_ascii=False), 80)


def differences(a: Group, b: Group, names: tuple[str, str] = ("A", "B")) -> list[str]:
    """Everything else in which the two sides differ, in words: it may be the reason for a shift."""
    one, other = names
    found = [f"{name}: {each}" for name, side in ((one, a), (other, b)) for each in side.hidden]
    found += [
        f"{name}: its runs were made on {len(side.machines)} classes of machines: {'; '.join(side.machines)}"
        for name, side in ((one, a), (other, b))
        if len(side.machines) > 1
    ]
    for name in ("experiment", "hash", "client", "machine"):
        if a.about.get(name) != b.about.get(name):
            found.append(f"{name}: {_brief(a.about.get(name))} in {one}, {_brief(b.about.get(name))} in {other}")
    for name in ("versions", "topology"):
        ours, theirs = a.about.get(name) or {}, b.about.get(name) or {}
        found += [
            f"{name}, {key}: {_brief(ours.get(key))} in {one}, {_brief(theirs.get(key))} in {other}"
            for key in sorted({*ours, *theirs})
            if ours.get(key) != theirs.get(key)
        ]
    if a.about.get("machine") is None or b.about.get("machine") is None:
        found.append("machine: not recorded on both sides")
    return found


# -- baselines ------------------------------------------------------------------------------------------


def baseline(group: Group, name: str) -> str:
    """The text of a baseline: every metric on a line of its own, so that a diff in git says what moved."""
    head = {
        "format": VERSION,
        "kind": "baseline",
        "name": name,
        "about": group.about,
        "conditions": group.conditions,
        "lost": group.lost,
        "planned": group.planned,
        **({"machines": [*group.machines]} if len(group.machines) > 1 else {}),
    }
    lines = [f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in head.items()]
    runs = ",\n".join(f"    {json.dumps(run, ensure_ascii=False)}" for run in group.runs)
    values = ",\n".join(
        f"    {json.dumps(metric)}: "
        + json.dumps({"unit": _unit(row), "values": [_written(value) for value in row]}, ensure_ascii=False)
        for metric, row in group.values.items()
    )
    body = [*lines, f'  "runs": [\n{runs}\n  ]', f'  "metrics": {{\n{values}\n  }}']
    return "{\n" + ",\n".join(body) + "\n}\n"


def write_baseline(group: Group, file: Path) -> None:
    try:
        write_atomically(file, baseline(group, file.stem))
    except OSError as error:
        raise InvalidInput(f"cannot write {file}: {error.strerror}") from error


def read_baseline(file: Path) -> Group:
    """A baseline. Raises InvalidInput when it is none that this version reads."""
    data = _json(file, "baseline")
    try:
        values = {
            str(metric): tuple(_read(value, str(row["unit"])) for value in row["values"])
            for metric, row in data["metrics"].items()
        }
        group = Group(
            label=file.name,
            about=dict(data["about"]),
            conditions=dict(data["conditions"]),
            runs=tuple(dict(run) for run in data["runs"]),
            values=values,
            lost=_read_lost(data["lost"], values),
            planned=None if data["planned"] is None else int(data["planned"]),
            machines=tuple(map(str, data.get("machines") or ())),
        )
        if any(len(row) != group.counted for row in values.values()):
            raise ValueError("a metric has more or fewer values than runs count")
        _ = group.conditions["load"], group.conditions["phases"], group.conditions["targets"]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(f"{file} is no baseline that can be read: {type(error).__name__}: {error}") from None
    return group


def _read_lost(lost: float | None, values: Mapping[str, Sequence[Known | None]]) -> float | None:
    """How many writes a baseline's runs lost at most; None: no run knows. Baselines of before had 0 there too, but no
    value of the metric."""
    known = any(value is not None for value in values.get(LOST, ()))
    if lost is None or (not lost and not known):
        return None
    return float(lost)


def _unit(row: Sequence[Known | None]) -> str:
    return next((value.unit for value in row if value is not None), "count")


def _written(value: Known | None) -> float | str | None:
    """A number; ``"> 62"`` or ``">= 62"`` when censored; ``"0.99 .. 1"`` when doubtful; null when missing."""
    if value is None:
        return None
    if value.doubtful:
        return f"{_short(value.low)} .. {_short(value.high)}"
    if value.bound is Bound.EXACT:
        return _short(value.low)
    return f"{'>' if value.bound is Bound.MORE_THAN else '>='} {_short(value.low)}"


def _short(value: float) -> float:
    return value if value in (0, math.inf) else round(value, DIGITS - 1 - math.floor(math.log10(abs(value))))


def _read(value: Any, unit: str) -> Known | None:
    if value is None:
        return None
    if not reading.has_words(unit):
        raise ValueError(f"unknown unit {unit!r}")
    if isinstance(value, str):
        if ".." in value:
            low, high = (float(part) for part in value.split(".."))
            return Known(unit, low, high, doubtful=True)
        sign, _, number = value.partition(" ")
        bound = {">": Bound.MORE_THAN, ">=": Bound.AT_LEAST}[sign]
        return Known(unit, float(number), math.inf, bound)
    if isinstance(value, bool) or not math.isfinite(float(value)):
        raise ValueError(f"no value: {value!r}")
    return Known(unit, float(value), float(value))


def _json(file: Path, kind: str) -> dict[str, Any]:
    try:
        data = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{file} cannot be read: {type(error).__name__}: {error}") from None
    if not isinstance(data, dict) or data.get("kind") != kind or data.get("format") != VERSION:
        raise InvalidInput(f"{file} is no {kind} of format {VERSION}")
    return data
