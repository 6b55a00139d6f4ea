"""The page: findings and history turned into what the template shows, and the files written.

Everything that comes from a run is text for the template, which escapes all of it; no value is ever marked as
safe. Words are chosen here, so that the template holds no logic beyond loops.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import ChainableUndefined, Environment, PackageLoader

from chaos.base import text
from chaos.base.paths import write_atomically
from chaos.checks import contents, evaluate, made, shown
from chaos.checks.models import FindingItem, FindingsFile
from chaos.checks.outage import BUDGETS
from chaos.checks.record import Record
from chaos.checks.shown import CLEAR, Shown
from chaos.checks.summary import NOTICED
from chaos.checks.validity import PLAINLY, STEADY
from chaos.history.models import Plan, PlannedStep
from chaos.history.reader import History
from chaos.report import (
    answers,
    asked,
    audit,
    figures,
    headroom,
    in_force,
    interactive,
    markdown,
    older_rules,
    promises,
    sections,
    timeline,
    within,
)
from chaos.report.clean import keep_clean
from chaos.report.junit import junit_xml
from chaos.report.meanings import meanings
from chaos.report.redact import redacted

LONGEST = 400
"""Characters of a name or a sentence that the page shows; the whole is in findings.json and plan.json."""

REDACTED = "redacted"
"""The folder in a run's folder where its report without names goes."""

OUTCOME_WORDS = {
    Shown.PASS: ("Pass", "Everything that was expected held."),
    Shown.KNOWN: ("Pass with known weaknesses", "What its file calls known was missed again; all else held."),
    Shown.IMPROVED: ("Improved", f"No weakness was found: a known one is gone. To pass again, {CLEAR}."),
    Shown.WEAKNESS: ("Weakness found", "The cluster did not do what was expected of it."),
    Shown.INCONCLUSIVE: ("Inconclusive", "Not enough is proven for a verdict."),
    Shown.ABORTED: ("Aborted", "The run was stopped before its end."),
    Shown.ERROR: ("Error", "The test itself failed; this says nothing about the cluster."),
}
QUANTILES = ("p50", "p90", "p99", "p99.9")


def render(run_folder: Path, *, redact: bool = False) -> Path:
    """Judge the run and write findings.json, report.html, junit.xml and summary.md beside it; returns the page's path.

    ``redact``: write them into the folder ``redacted`` instead, without names, addresses and paths of their owner.
    Raises :class:`chaos.base.errors.HistoryError` when the folder is no run's folder.
    """
    history = History.open(run_folder)
    folder = run_folder
    if redact:
        history, _ = redacted(history)
        folder = run_folder / REDACTED
        folder.mkdir(exist_ok=True)
    findings = made.write(folder, evaluate(history).to_json(), None if redact else history.seal)
    write_atomically(folder / "junit.xml", junit_xml(findings))
    record = Record(history)
    shown: FindingsFile = {**findings, "findings": answers.with_targets(findings, record.plan)}
    write_atomically(folder / markdown.FILE, markdown.summary(shown, answers.answers(record, shown)))
    page = folder / "report.html"
    last = None if redact else promises.earlier(run_folder)  # its words are of other runs, with names of their own
    write_atomically(page, _html(record, findings, redact, last))
    return page


def render_html(history: History, findings: FindingsFile) -> str:
    """The page as text, from a history and its findings."""
    return _html(Record(history), findings, False)


def _html(record: Record, findings: FindingsFile, redact: bool, last: dict[str, Any] | None = None) -> str:
    return (
        _templates()
        .get_template("report.html.j2")
        .render(_context(record, findings), promises=promises.section(findings, last, redacted=redact), redacted=redact)
    )


@functools.cache
def _templates() -> Environment:
    """The templates and their filters, once a process: compiling them costs more than drawing a page."""
    environment = Environment(
        loader=PackageLoader("chaos.report"),
        autoescape=True,  # of every file, whatever its name: tojson escapes what stands inside a script
        undefined=ChainableUndefined,  # a record of a dead run may lack any key, and is drawn all the same
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["clip"] = lambda value, limit=LONGEST: text.clip(str(value), limit)
    for name, form in (("seconds", text.seconds), ("count", text.count), ("percent", text.percent)):
        environment.filters[name] = _if_known(form)
    environment.filters["at"] = _if_known(lambda value: f"{value:.1f} s")
    environment.filters["tight"] = lambda value: re.sub(r"(\d) (?=(?:s|ms|min|%)(?!\w))", "\\1\u00a0", value)
    environment.filters["upper_first"] = lambda value: value[:1].upper() + value[1:]
    environment.filters["bytes"] = _bytes
    environment.filters["attr_with_title"] = lambda columns, title: {**columns, "title": title}
    return keep_clean(environment)


@functools.cache
def _anchors() -> frozenset[str]:
    """Ids that the page has of itself, whatever the run."""
    templates = _templates()
    assert templates.loader is not None
    sources = [templates.loader.get_source(templates, name)[0] for name in ("report.html.j2", "timeline.svg.j2")]
    return frozenset(name for source in sources for name in re.findall(r' id="([a-z-]+)"', source))


def _if_known(shown: Callable[[float], str]) -> Callable[[object], str]:
    """A filter that shows a number, and ``-`` for what is none: a table may lack any figure."""
    return lambda value: shown(value) if isinstance(value, int | float) and math.isfinite(value) else "-"


def _context(record: Record, findings: FindingsFile) -> dict[str, Any]:
    plan = record.plan
    findings = {**findings, "findings": answers.with_targets(findings, plan)}
    called = shown.of(findings)
    word, meaning = OUTCOME_WORDS[called]
    if called is Shown.PASS:
        meaning = _held(findings)
    tables = findings["tables"]
    return {
        "findings": findings,
        "mark": shown.MARKS[called],
        "called": called.value,
        "word": word,
        "meaning": meaning,
        "rest": findings["summary"].removeprefix(findings["headline"]).strip(),
        "answers": answers.answers(record, findings),
        "policy": interactive.policy(),
        "script": interactive.script(),
        "uplot_style": interactive.style(),
        "clean": _clean(findings, record),
        "plan": plan,
        "experiment": plan.get("experiment") or {},
        "topology": plan.get("topology") or {},
        "facts": _facts(plan, findings),
        "phases": _phases(record, tables),
        "matrix": _matrix(record, findings),
        "within": within.section(tables),
        "second_of": within.second_of(findings),
        "older_rules": older_rules.section(findings),
        "impact": _impact(tables),
        "waits": _waits(tables),
        "writes": tables["writes"],
        "expected": [_expected(item, index, record, findings) for index, item in enumerate(findings["findings"])],
        "glossary": _glossary(record, findings),
        "ladders": figures.ladders(tables),
        "curves": figures.curves(tables),
        "availability": _availability(tables),
        "steady": STEADY,
        "projection": _projection(tables),
        "headroom": headroom.section(record, tables),
        "sections": sections.drawn(record, tables, _anchors()),
        "returned": tables.get("returned"),
        "swaps": tables.get("swaps"),
        "ends": tables.get("ends") or [],
        "waited": tables.get("during") or [],
        "data_checks": _data_checks(tables),
        "asked": asked.section(tables),
        "tally": _tally(findings["findings"]),
        "faults": findings["faults"],
        "trust": _trust(findings),
        "timeline": timeline.build(record, findings["faults"]),
        "latency": _latency(record, tables),
        "outcomes": _outcomes(tables),
        "recovery": _recovery(record, tables),
        "readback": record.readback,
        "lost": _lost(record),
        "audit": audit.rows(record.audit),
        "audited": record.audit or {},
        "steps": [_step(step) for step in plan.get("steps") or []],
        "missing": _missing(record),
        "size": {
            "width": timeline.WIDTH,
            "left": timeline.LEFT,
            "right": timeline.WIDTH - timeline.RIGHT,
            "bar_top": timeline.BAR_TOP,
            "bar_height": timeline.BAR_HEIGHT,
            "latency_top": timeline.LATENCY_TOP,
            "latency_height": timeline.LATENCY_HEIGHT,
            "ladder_left": figures.LABELS,
            "ladder_right": figures.WIDTH - figures.RIGHT,
        },
    }


def _held(findings: FindingsFile) -> str:
    """What a pass without known weaknesses may claim: what was expected held; what users bore is said beside it."""
    relaxed = sum(item["counts_as"] == "relaxed" for item in findings["findings"])
    says = f"What was expected held, {relaxed} of it relaxed." if relaxed else OUTCOME_WORDS[Shown.PASS][1]
    rows = findings["tables"].get("outage") or {}
    bore = [
        f"{text.seconds(round(row['total'], 1))} without {op}s" for op, row in rows.items() if row["total"] >= NOTICED
    ]
    return f"{says} Users bore {text.listed(bore)}; no expectation is against that." if bore else says


def _clean(findings: FindingsFile, record: Record) -> dict[str, Any]:
    state = record.clean or {}
    detail, stays = ([str(item) for item in state.get(name) or []] for name in ("detail", "stays"))
    known = {
        True: ("✓", "Clean", "ok"),
        False: ("✗", "Dirty", "bad"),
        None: ("?", "Clean-up unknown", "open"),
    }
    mark, word, kind = known[findings["clean"]]
    return {"mark": mark, "word": word, "kind": kind, "detail": detail, "stays": stays}


def _where(lab: Mapping[str, Any]) -> tuple[str, str]:
    """What it ran on: a cluster that exists by its name, a lab by its kind."""
    nodes = text.plural(len(lab.get("nodes") or []), "node")
    if lab.get("kind") == "existing":
        return "Cluster", f"{str(lab.get('id')).removeprefix('existing-')}, {nodes}"
    return "Lab", f"{lab.get('kind') or 'unknown'}, {nodes}"


def _facts(plan: Plan, findings: FindingsFile) -> list[tuple[str, str]]:
    topology, versions, lab = plan.get("topology") or {}, plan.get("versions") or {}, plan.get("lab") or {}
    zones = topology.get("zones") or []
    standby = f", {topology['standby']} on standby" if topology.get("standby") else ""
    where = f"{topology.get('name') or 'unknown'} ({text.plural(len(zones), 'zone')}{standby})"
    return [
        ("Run on", _date(plan.get("started"))),
        ("Length", text.seconds(round(findings["run"].get("seconds") or 0))),
        ("Topology", where),
        ("OpenSearch", str(versions.get("opensearch") or topology.get("version") or "unknown")),
        _where(lab),
        ("Seed", str(plan.get("seed", "unknown"))),
        *(
            [("Side", f"{side.get('name')}, of {text.listed(side.get('among') or [])}")]
            if (side := plan.get("side"))
            else []
        ),
    ]


def _date(started: object) -> str:
    try:
        moment = datetime.fromisoformat(str(started).replace("Z", "+00:00")).astimezone(UTC)
    except ValueError:
        return text.clip(str(started or "unknown"), 40)
    return f"{moment.day} {moment:%B %Y, %H:%M} UTC"


def _phases(record: Record, tables: dict[str, Any]) -> list[dict[str, Any]]:
    """Every planned phase, also those that never ran."""
    ran = {item["name"]: item for item in tables["phases"]}
    names = [item["name"] for item in record.planned_phases] or list(ran)
    found = []
    for name in names:
        item = ran.get(name)
        if item is None:
            found.append({"name": name, "note": "never ran", "scripted_wait": False, "ran": False})
            continue
        note = text.seconds(round(item["end"] - item["start"], 1))
        if item["reason"] not in ("elapsed", "condition met", "done"):
            note += f", {item['reason'] or 'cut off'}"
        found.append({"name": name, "note": note, "scripted_wait": item["scripted_wait"], "ran": True})
    return found


def _matrix(record: Record, findings: FindingsFile) -> list[dict[str, Any]]:
    """Good arrivals: a row per operation, a cell per phase, with its targets."""
    rows = []
    objectives = within.objectives(findings)
    for op in record.operations:
        cells = []
        for phase in [item["name"] for item in record.planned_phases]:
            counted = findings["tables"]["good"][op.name].get(phase)
            judged = [
                item
                for item in findings["findings"]
                if item["op"] == op.name and item["phase"] == phase and item["metric"].endswith(".good")
            ]
            worst = min((_order(item["counts_as"]) for item in judged), default=None)
            kind = _unasked(findings, op.name, phase) if worst is None else _ORDER[worst]
            cells.append(
                {
                    "value": text.percent(counted["share"])
                    if counted and counted["share"] is not None
                    else text.NO_VALUE,
                    "detail": f"{text.count(counted['good'])} of {text.count(counted['scheduled'])}"
                    + _certain(findings, op.name, phase)
                    if counted
                    else "",
                    "targets": [
                        {
                            "mark": answers.WORDS[item["counts_as"]][0],
                            "word": answers.WORDS[item["counts_as"]][1],
                            "text": _spaced(item["target"]),
                        }
                        for item in judged
                    ],
                    "kind": kind,
                }
            )
        rows.append(
            {
                "op": f"{op.name.capitalize()}s",
                "note": f"{op.rate_text}, good is ok within {objectives.get(op.name) or text.seconds(op.good_within)}",
                "cells": cells,
            }
        )
    return rows


def _unasked(findings: FindingsFile, op: str, phase: str) -> str:
    """How a cell looks that no expectation is about: bad is bad, whether somebody asked or not."""
    phases = ((findings["tables"].get("outage") or {}).get(op) or {}).get("phases") or {}
    return "unasked" if float(phases.get(phase) or 0.0) >= NOTICED else "none"


def _certain(findings: FindingsFile, op: str, phase: str) -> str:
    """What the arrivals of a steady phase certify (:mod:`chaos.checks.steady`)."""
    row = ((findings["tables"].get("steady") or {}).get(op) or {}).get(phase)
    return f"; 95 % sure: {text.percent(row['low'])} or more" if row else ""


_ORDER = ("weakness", "inconclusive", "known_weakness", "relaxed", "unexpected_pass", "pass")


def _order(counts_as: str) -> int:
    return _ORDER.index(counts_as)


def _spaced(target: str) -> str:
    """``>= 99.9%`` as people set it: ``≥ 99.9 %``."""
    return target.replace(">=", "≥").replace("<=", "≤").replace("%", " %")


def _impact(tables: dict[str, Any]) -> list[dict[str, Any]]:
    """Per operation: outage seconds, budget shares, and the longest time to regain."""
    waiting = {item["name"] for item in tables["phases"] if item["scripted_wait"]}
    rows = []
    for op, out in tables["outage"].items():
        regained = tables["regained"].get(op, {})
        known = {name: item for name, item in regained.items() if item["value"] is not None}
        # In a phase that waits on purpose the fault is held: how long is the experiment's choice.
        free = {name: item for name, item in known.items() if name not in waiting}
        if not any(item["value"] for item in free.values()):
            free = known
        worst = max(free, key=lambda name: (free[name]["value"], free[name]["bound"] != "exact"), default=None)
        rows.append(
            {
                "op": f"{op.capitalize()}s",
                "own": text.seconds(round(out["own"], 3)),
                "scripted": text.seconds(round(out["scripted"], 3)),
                "has_scripted": out["scripted"] > 0.0005,
                "total": text.seconds(round(out["total"], 3)),
                "budget": [
                    {
                        "of": name,
                        "own": _share(out["budget_own"][name]),
                        "total": _share(value),
                        "month": text.seconds(BUDGETS[name]) if name in BUDGETS else "",
                    }
                    for name, value in out["budget"].items()
                ],
                "regained": known[worst]["text"] if worst else text.NO_VALUE,
                "regained_in": _in_phase(known, worst),
            }
        )
    return rows


def _waits(tables: dict[str, Any]) -> str:
    """What the time costs in which the test waits for somebody to act: that is an assumption, and the reader's to make.

    In a phase that waits on purpose users lose so much a minute; a month's budget is that of :mod:`..checks.outage`.
    """
    waiting = {item["name"]: item["end"] - item["start"] for item in tables["phases"] if item["scripted_wait"]}
    found = []
    for op, out in tables["outage"].items():
        seconds = sum(waiting.values())
        lost = sum(value for name, value in out["phases"].items() if name in waiting)
        if seconds > 0 and lost > NOTICED:
            (of, budget), *_ = BUDGETS.items()
            found.append(f"{text.seconds(60 * lost / seconds)} without {op}s ({_share(60 * lost / seconds / budget)})")
    if not found:
        return ""
    took = text.seconds(round(sum(waiting.values())))
    return (
        f"The test assumes that somebody acts after {took}. For each minute that your people take, "
        f"count {text.listed(found)}, of a month's {text.seconds(budget)} at {of}."
    )


def _in_phase(known: dict[str, Any], worst: str | None) -> str:
    if worst is None:
        return ""
    if not known[worst]["value"]:
        return "never lost"
    return f"in {text.clip(worst, 40)}, after {text.clip(known[worst]['trigger'] or 'its start', 80)}"


def _share(value: float) -> str:
    if value >= 10:
        return f"{value:.0f} x"
    if value >= 1:
        return f"{value:.1f} x"
    return text.percent(value) if value < 0.1 else f"{value * 100:.0f} %"


def _expected(item: FindingItem, index: int, record: Record, findings: FindingsFile) -> dict[str, Any]:
    mark, word = answers.WORDS[item["counts_as"]]
    metric = item["title"].removesuffix(f" in {item['phase']}") if item["phase"] else item["title"]
    missed = item["counts_as"] in ("weakness", "known_weakness", "relaxed")
    meaning = meanings().metric(item["metric"])
    return item | {
        "id": f"finding-{index}",
        "mark": mark,
        "word": word,
        "wanted": _spaced(metric),
        "margin": answers.margin(item, findings["tables"]) if missed else "",
        "helps": answers.advice(record, findings, item)[:3] if missed else (),
        "meaning": f"means-{meaning.id}" if meaning else None,
        "evidence_rows": [] if item["counts_as"] == "pass" else _evidence(item.get("evidence")),
    }


def _evidence(evidence: object) -> list[tuple[str, str]]:
    """What a check noted, as rows; long lists are clipped, the whole is in findings.json."""
    rows = []
    for name, value in (evidence if isinstance(evidence, dict) else {}).items():
        if value is not None and value != [] and value != {}:
            rows.append((str(name).replace("_", " "), text.clip(_spelled(value), 600)))
    return rows


def _spelled(value: object) -> str:
    """A value of JSON for people: no brackets, no quotes."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        return ", ".join(f"{str(name).replace('_', ' ')} {_spelled(item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        return ("; " if any(isinstance(item, dict | list) for item in value) else ", ").join(map(_spelled, value))
    return "none" if value is None else str(value)


def _glossary(record: Record, findings: FindingsFile) -> dict[str, Any]:
    """The meanings that this page needs: of its metrics, faults and actions, and of all that may help them."""
    all_ = meanings()
    metrics = {found.id: found for item in findings["findings"] if (found := all_.metric(item["metric"])) is not None}
    if findings["tables"].get("ends"):
        metrics[answers.ENDED] = all_.metrics[answers.ENDED]
    kinds = list(dict.fromkeys(answers.cause_of(record, fault) for fault in findings["faults"]))
    kinds += [str(event.get("action_kind")) for event in record.of_kind("action.command")]
    causes = {kind: found for kind in kinds if (found := all_.faults.get(kind) or all_.actions.get(kind))}
    missed = [item for item in findings["findings"] if item["counts_as"] in ("weakness", "known_weakness")]
    helps = {remedy.id: remedy for item in missed for remedy in answers.advice(record, findings, item)}
    for meaning in [*causes.values(), *metrics.values()]:
        helps |= {id: all_.remedies[id] for id in meaning.helps if id not in helps}
    helps |= {remedy.id: remedy for remedy in answers.relief(record, findings) if remedy.id not in helps}
    first = {remedy.id for item in missed for remedy in answers.advice(record, findings, item)[:1]}
    ordered = sorted(helps.values(), key=lambda remedy: remedy.id not in first)
    here = in_force.settings_of(record.plan)
    had = in_force.in_force(record)
    return {
        "metrics": list(metrics.values()),
        "causes": list(causes.values()),
        "helps": [
            {
                "remedy": remedy,
                "first": remedy.id in first,
                "had": remedy.id in had,
                "settings": [(name, value, here.get(name)) for name, value in remedy.settings.items()],
            }
            for remedy in ordered
        ],
        "titles": {id: remedy.title for id, remedy in all_.remedies.items()},
    }


def _availability(tables: dict[str, Any]) -> list[dict[str, Any]]:
    """Per operation: the figures of availability, and good arrivals by the zone of the client."""
    rows = []
    for op, given in (tables.get("availability") or {}).items():
        if not isinstance(given, dict):
            continue
        slices, uptime = given.get("slices") or {}, given.get("user_uptime") or {}
        zones = given.get("zones") or {}
        phases = list(dict.fromkeys(phase for by_phase in zones.values() for phase in by_phase))
        semantics = given.get("semantics") or {}
        kinds = list(dict.fromkeys(kind for counts in semantics.values() for kind in counts))
        rows.append(
            {
                "op": op,
                "request": (given.get("request") or {}),
                "slices": slices,
                "uptime": uptime,
                "minimum": given.get("minimum") or [],
                "phases": phases,
                "zones": [
                    {"zone": zone, "cells": [by_phase.get(phase) for phase in phases]}
                    for zone, by_phase in zones.items()
                ],
                "kinds": kinds,
                "semantics": [
                    {"phase": phase, "counts": [counts.get(kind, 0) for kind in kinds]}
                    for phase, counts in semantics.items()
                ],
                "semantics_by_zone": [
                    {"zone": zone, "phase": phase, "counts": [counts.get(kind, 0) for kind in kinds]}
                    for zone, by_phase in (given.get("semantics_by_zone") or {}).items()
                    for phase, counts in by_phase.items()
                ],
            }
        )
    return rows


def _projection(tables: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"op": op, **item} for op, item in (tables.get("projection") or {}).items() if isinstance(item, dict)]


DATA_CHECKS = {
    "copies": "Every acknowledged write on every copy",
    "compare_and_set": "Compare-and-set, linearizable per key",
    "visibility": "Time until an acknowledged write is searchable",
    "staleness": "Dirty and stale reads",
    "wrong_answers": "Answers that were not what was asked for",
}


def _data_checks(tables: dict[str, Any]) -> list[dict[str, Any]]:
    """``tables.data`` as rows; figures beside the value are shown as they are named."""
    rows = []
    for name, item in (tables.get("data") or {}).items():
        if not isinstance(item, dict):
            continue
        rest = {key: value for key, value in item.items() if key not in ("value", "text", "bound", "says")}
        rows.append(
            {
                "title": DATA_CHECKS.get(name, name.replace("_", " ").capitalize()),
                "text": str(item.get("text") or text.NO_VALUE),
                "says": str(item.get("says") or ""),
                "figures": _evidence(rest),
            }
        )
    return rows


def _bytes(value: object) -> str:
    """A number of bytes for people: ``4.2 MB``."""
    if not isinstance(value, int | float):
        return "-"
    size = float(value)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def _tally(findings: Sequence[FindingItem]) -> str:
    counted: dict[str, int] = {}
    for item in findings:
        counted[item["counts_as"]] = counted.get(item["counts_as"], 0) + 1
    return ", ".join(f"{counted[kind]} {answers.WORDS[kind][1]}" for kind in reversed(_ORDER) if kind in counted)


DRIVER = ("lag", "cpu", "dropped", "unknown", "schedule", "offered")
"""Conditions on the load driver, by the first part of their ids; the others are on what stands beside it."""


def _trust(findings: FindingsFile) -> list[dict[str, str]]:
    """The short version of why to believe this: a line for each fault, for the driver, and for what else failed."""
    lines = []
    for fault in findings["faults"]:
        held = (("held", "held until its undo"),) if "held" in fault["stages"] else ()
        stages = [
            f"{words}: {fault['stages'][name]['says'] if name in fault['stages'] else 'no evidence'}"
            for name, words in (("effect", "in effect"), *held, ("gone", "gone"))
        ]
        lines.append(
            {
                "mark": "✓" if fault["proven"] else "?",
                "kind": "pass" if fault["proven"] else "inconclusive",
                "head": f"{'Proven' if fault['proven'] else 'Not proven'}: {text.clip(fault['says'], 160)}",
                "text": text.clip("; ".join(stages), 300),
            }
        )
    if (abort := findings.get("abort")) and _was_undone(abort):
        lines.append(_abort_line(abort))
    checks = findings["validity"]["checks"]
    bad = [item for item in checks if not item["ok"]]
    of_driver = [item for item in bad if _kind(item) in DRIVER]
    figures = {item["id"]: item["measured"] for item in checks}
    lines.append(
        {
            "mark": "?" if of_driver else "✓",
            "kind": "inconclusive" if of_driver else "pass",
            "head": "The load driver is not to be trusted" if of_driver else "The load driver kept its schedule",
            "text": "; ".join(map(_failed, of_driver))
            or f"99 % of requests left within {figures.get('lag')} of their time; "
            f"{figures.get('cpu')} of one core used; {figures.get('dropped')} dropped",
        }
    )
    lines += [
        {"mark": "?", "kind": "inconclusive", "head": _plainly(item), "text": _failed(item)}
        for item in bad
        if _kind(item) not in DRIVER
    ]
    return lines


def _kind(condition: dict[str, Any]) -> str:
    return str(condition["id"]).partition(".")[0]


def _plainly(condition: dict[str, Any]) -> str:
    """What it means that a condition does not hold, as a head."""
    said = PLAINLY[_kind(condition)].format(op=str(condition["id"]).partition(".")[2])
    return said[:1].upper() + said[1:]


def _failed(condition: dict[str, Any]) -> str:
    return f"{condition['what']} {condition['measured']} (limit: {condition['limit']})"


def _was_undone(abort: dict[str, Any]) -> bool:
    """Whether there was something to undo, or load to stop on a cluster that is not ours."""
    return bool(abort["faults"] or abort.get("actions") or "load_seconds" in abort)


def _abort_line(abort: dict[str, Any]) -> dict[str, str]:
    """How long the abort took, against its goal."""
    if not abort["faults"] and not abort.get("actions"):
        proof = "; there was nothing to undo"
    elif abort["proven"]:
        proof = f"; proven to be gone after {text.seconds(abort['proven_seconds'])}" if abort["faults"] else ""
    else:
        proof = "; the end of not every fault was proven by then"
    load = f"; the load was stopped {text.seconds(abort['load_seconds'])} after it" if "load_seconds" in abort else ""
    head = "Everything was undone" if abort.get("complete", True) else "Not everything could be undone: tried until"
    return {
        "mark": "✓" if abort["within"] else "?",
        "kind": "pass" if abort["within"] else "inconclusive",
        "head": f"{head} {text.seconds(abort['seconds'])} after the stop was asked for",
        "text": f"The goal is {text.seconds(abort['goal'])}{proof}{load}",
    }


def _latency(record: Record, tables: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"op": op, "phase": phase, **row} for op, phases in tables["latency"].items() for phase, row in phases.items()
    ]


def _outcomes(tables: dict[str, Any]) -> dict[str, Any]:
    """Arrivals by outcome: the columns that occur, and a row per operation and phase."""
    rows = [{"op": op, "phase": phase, **row} for op, phases in tables["good"].items() for phase, row in phases.items()]
    names = list(dict.fromkeys(name for row in rows for name in row["outcomes"]))
    return {"names": names, "rows": rows}


def _recovery(record: Record, tables: dict[str, Any]) -> list[dict[str, Any]]:
    """Per phase: what was measured about coming back."""
    rows = []
    for phase in tables["phases"]:
        name = phase["name"]
        recovered = tables["recovered"].get(name)
        rows.append(
            {
                "phase": name,
                "regained": [
                    {"op": op, **by_phase[name]} for op, by_phase in tables["regained"].items() if name in by_phase
                ],
                "recovered": recovered,
                "moved": tables["moved"].get(name),
                "outage": [
                    {"op": op, "text": text.seconds(round(out["phases"].get(name, 0.0), 3))}
                    for op, out in tables["outage"].items()
                ],
            }
        )
    return rows


def _lost(record: Record) -> list[dict[str, Any]]:
    """Groups of ids that the read-back names, first hundred each."""
    readback = record.readback or {}
    groups = []
    for name, words in (
        ("lost", "on no live copy"),
        ("diverged", "missing on some live copies"),
        ("wrong_content", "found with other content"),
    ):
        places = contents.named(readback) if name == "wrong_content" else {}
        ids = [
            f"{item.get('id')} (not on {', '.join(map(str, item.get('missing_on') or []))})"
            if isinstance(item, dict) and item.get("missing_on")
            else f"{item} ({places[str(item)]})"
            if str(item) in places
            else str(item.get("id") if isinstance(item, dict) else item)
            for item in (readback.get(name) or [])[:100]
        ]
        if ids:
            groups.append({"words": words, "count": readback.get(f"{name}_count"), "ids": ids})
    return groups


def _step(step: PlannedStep) -> dict[str, str]:
    inverse = step.get("inverse")
    listed = inverse if isinstance(inverse, list) else [inverse]
    return {
        "phase": str(step.get("phase") or "-"),
        "step": str(step.get("step") or "-"),
        "inverse": "; ".join(str(item) for item in listed if item) or "-",
    }


def _missing(record: Record) -> list[str]:
    """What this run's folder lacks, in words."""
    gaps = []
    if record.first("run.end") is None:
        gaps.append("the end of the run: the runner died, so everything after its last event is unknown")
    if not any(len(part) for part in record.arrivals.values()):
        gaps.append("arrivals: the load driver recorded nothing")
    if record.readback is None:
        gaps.append("the read-back of acknowledged writes: losses are not known")
    if record.clean is None:
        gaps.append("the record of clean-up: run opensearch-chaos recover on the machine of the run")
    if not record.driver:
        gaps.append("the driver's own samples: its load on the machine is not known")
    if not record.of_kind("sample"):
        gaps.append("the cluster's samples: shard moves and status are not known")
    return gaps
