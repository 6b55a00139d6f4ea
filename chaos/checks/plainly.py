"""Findings and reasons in plain words: for people who read one line and no table.

No formula, no name of a metric. What is promised, what was seen and what was wanted, each with its phase.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from chaos.base import text
from chaos.checks import ladder
from chaos.checks.reasons import Cause

Item = Mapping[str, Any]
"""A finding, or a reason, as findings.json has it."""

OUTCOMES = {
    "slices": "the time in which most {op}s were good",
    "uptime": "the time in which users could work with {op}s",
    "worst_10s": "good {op}s in the worst ten seconds",
}
_DATA = {
    "cas.violations": ("compare-and-set kept its promise", "Compare-and-set broke its promise {times}"),
    "stale.reads": (
        "reads showed what had been acknowledged before",
        "{reads} did not show a write that had been acknowledged before",
    ),
    "dirty.reads": ("reads showed nothing that was never acknowledged", "{reads} showed a write that was never done"),
    "documents.unexpected": (
        "only documents are there that this test wrote",
        "{documents} there that should not be there",
    ),
}
"""Whole-run promises about data: what is kept, and how breaking it reads."""


def wanted(target: str) -> str:
    """``>= 99.9%`` as ``99.9 % or more``."""
    match = re.fullmatch(r"(>=|<=|==|=|<|>)?\s*(.+)", target.strip())
    sign, value = match.groups() if match else (None, target)
    value = re.sub(r"(\d)(?=(?:ms|s|m|min|h|%)$)", r"\1 ", value)
    shown = {">=": f"{value} or more", "<=": f"{value} or less", "<": f"less than {value}", ">": f"more than {value}"}
    return shown.get(sign or "", value)


def where(item: Item) -> str:
    """`` in “slow”``; empty for what is of the whole run."""
    return f" in “{text.clip(str(item['phase']), 40)}”" if item.get("phase") else ""


def bites(item: Item) -> bool:
    """An expectation that the fault hurts: a guard on the experiment, no wish of users."""
    return str(item["metric"]).endswith(".good") and str(item["target"]).lstrip().startswith("<")


# -- one finding -----------------------------------------------------------------------------------


def missed(item: Item, tables: Mapping[str, Any]) -> str:
    """What a missed expectation comes to, as a sentence without its full stop."""
    metric, measured, want = str(item["metric"]), str(item["measured_text"]), wanted(str(item["target"]))
    if item.get("op"):
        return _missed_by_users(item, measured, want)
    if metric == "acknowledged.lost":
        return lost(tables) or f"{measured} acknowledged writes were lost"
    if metric in _DATA:
        return _broken(metric, item)
    inside = where(item)
    if metric.startswith("visible."):
        return f"Acknowledged writes took {measured} to be found by a search{inside}; wanted was {want}"
    if metric == "shards.moved":
        return f"{_many(item, 'shard copy', 'shard copies')} moved{inside}; wanted was {want}"
    if metric == "failovers":
        return f"Failover controllers led traffic away {_times(item)}{inside}; wanted was {want}"
    if metric == "cpu.survivors":
        return f"The busiest zone used {measured} of its processors{inside}; wanted was {want}"
    if metric == "until":
        return f"The cluster was not {_condition(item)} in time{inside}; wanted was {want}"
    return _upper(f"{_thing(metric)} took {measured}{inside}; wanted was {want}")


def _missed_by_users(item: Item, measured: str, want: str) -> str:
    op, quantity, inside = str(item["op"]), str(item["metric"]).partition(".")[2], where(item)
    if bites(item):
        return f"The fault hurt {op}s too little{inside}: {measured} were good; wanted was {want}"
    if quantity == "good":
        return f"Only {measured} of {op}s were good{inside}; wanted was {want}"
    if quantity == "regained":
        if measured.startswith((">", "≥")):
            return f"{_upper(op)}s were not seen to come back{inside} ({measured}); wanted was {want}"
        return f"{_upper(op)}s came back only after {measured}{inside}; wanted was {want}"
    if quantity == "outage":
        return f"{_upper(op)}s were as good as gone for {measured}{inside}; wanted was {want}"
    if quantity in OUTCOMES:
        return f"{_upper(OUTCOMES[quantity].format(op=op))}{inside} came to {measured}; wanted was {want}"
    share = quantity.removeprefix("p")
    return f"{share} % of {op}s took up to {measured}{inside}; wanted was {want}"


def question(item: Item) -> str:
    """What a finding asks, to go on from "whether"."""
    op, metric, inside = str(item.get("op") or ""), str(item["metric"]), where(item)
    quantity = metric.partition(".")[2]
    if op:
        asked = {
            "good": f"the fault hurt {op}s enough" if bites(item) else f"enough {op}s were good",
            "regained": f"{op}s came back in time",
            "outage": f"{op}s were gone for too long",
        }.get(quantity)
        return (asked or (f"{op}s were fast enough" if quantity.startswith("p") else f"{op}s held for long enough")) + (
            inside
        )
    if metric in _DATA:
        return _DATA[metric][0]
    asked = {
        "acknowledged.lost": "every acknowledged write is there",
        "shards.moved": "shard copies moved",
        "failovers": "failover controllers led traffic away",
        "cpu.survivors": "the other zones had room",
        "until": f"the cluster was {_condition(item)} in time",
    }.get(metric)
    if asked is None:
        asked = "writes could be found in time" if metric.startswith("visible.") else f"{_thing(metric)} came in time"
    return asked + inside


def promise(item: Item) -> str:
    """What was promised, for who knows no metric."""
    metric, want, inside = str(item["metric"]), wanted(str(item["target"])), where(item)
    quantity = metric.partition(".")[2]
    if op := str(item.get("op") or ""):
        if bites(item):
            return f"The fault is felt: {want} of {op}s are good{inside}"
        said = {
            "good": f"{_upper(op)}s are good{inside}: {want}",
            "regained": f"{_upper(op)}s come back{inside}: {want}",
            "outage": f"{_upper(op)}s are gone{inside} for {want}",
        }.get(quantity)
        if said is None and quantity in OUTCOMES:
            said = f"{_upper(OUTCOMES[quantity].format(op=op))}{inside}: {want}"
        return said or f"{quantity.removeprefix('p')} % of {op}s take {want}{inside}"
    if metric in _DATA:
        return _upper(_DATA[metric][0])
    said = {
        "acknowledged.lost": "Every acknowledged write is there",
        "shards.moved": f"Shard copies that move{inside}: {want}",
        "failovers": f"Failovers{inside}: {want}",
        "cpu.survivors": f"The other zones have room{inside}: {want}",
        "until": f"The cluster is {_condition(item)}{inside}: {want}",
    }.get(metric)
    if said is None:
        what = "Acknowledged writes can be found" if metric.startswith("visible.") else _upper(_thing(metric))
        said = f"{what}{inside}: {want}"
    return said


def _thing(metric: str) -> str:
    """What took its time."""
    step = metric.removeprefix("recovery.")
    if metric == "cluster.recovered":
        return "being green again"
    return f"“{ladder.TITLES.get(step, metric)}”"


def _condition(item: Item) -> str:
    return text.clip(str(item["title"]).partition(" within ")[0], 60)


def _broken(metric: str, item: Item) -> str:
    one, many = ("1 document is", f"{item['measured_text']} documents are")
    single = item.get("measured") == 1
    return _DATA[metric][1].format(
        times=_times(item), reads=_many(item, "read", "reads"), documents=one if single else many
    )


def _many(item: Item, one: str, many: str) -> str:
    return f"{item['measured_text']} {one if item.get('measured') == 1 else many}"


def _times(item: Item) -> str:
    return {1: "once", 2: "twice"}.get(item.get("measured") or 0, f"{item['measured_text']} times")


def _upper(words: str) -> str:
    return words[:1].upper() + words[1:]


def lost(tables: Mapping[str, Any]) -> str | None:
    """How many acknowledged writes are not as they were acknowledged; None when none is known to be."""
    writes = tables.get("writes") or {}
    count = int(writes.get("value") or 0)
    if not count:
        return None
    shown = text.plural(count, "acknowledged write")
    if (writes.get("differing") or 0) == 0:
        return f"{shown} {'was' if count == 1 else 'were'} lost"
    wrong = int(writes.get("wrong") or 0)
    if wrong == count:
        return f"{shown} {'has' if count == 1 else 'have'} other content than was sent"
    if wrong:
        return f"{shown} are lost, differ between copies or have other content than was sent"
    return f"{shown} {'is' if count == 1 else 'are'} lost or differ{'s' if count == 1 else ''} between copies"


# -- one reason ------------------------------------------------------------------------------------


def reason(of: Item, findings: Sequence[Item], tables: Mapping[str, Any]) -> str:
    """A reason as a sentence without its full stop. ``findings``: all of the run's."""
    item = next((each for each in findings if of.get("finding") and each["id"] == of["finding"]), None)
    if of["cause"] == Cause.DOCUMENTS:
        beyond = ((tables.get("data") or {}).get("copies") or {}).get("beyond") or {}
        seen = {"measured": beyond.get("value"), "measured_text": beyond.get("text")}
        return _broken("documents.unexpected", seen) if beyond.get("value") else str(of["says"])
    if item is None:
        return str(of["says"])
    if of["cause"] == Cause.NOTE:
        return f"A known weakness is gone ({text.clip(question(item), 90)}): remove its note"
    if of["outcome"] == "inconclusive":
        why = str(item.get("because") or item["says"])
        return f"whether {question(item)} is open: {why}"
    return missed(item, tables)
