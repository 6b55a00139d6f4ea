"""Findings and reasons in plain words: for people who read one line and no table.

What is promised, what was seen and what was wanted, each with its phase. The words of a metric are in its check.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chaos.base import text
from chaos.checks import catalogue, defaults, words, writes
from chaos.checks.reasons import Cause
from chaos.checks.shown import CLEAR
from chaos.checks.words import Item, Tables, Words

# -- one finding -----------------------------------------------------------------------------------


def missed(item: Item, tables: Tables) -> str:
    """What a missed expectation comes to, as a sentence without its full stop."""
    return _words(item).missed(item, tables)


def question(item: Item) -> str:
    """What a finding asks, to go on from "whether"."""
    return _words(item).question(item)


def promise(item: Item) -> str:
    """What was promised, for who knows no metric."""
    return _words(item).promise(item)


def short(item: Item) -> str:
    """The metric in a few words, and in which phase."""
    said = text.clip(_condition(item), 60) if item["metric"] == UNTIL else _words(item).short
    of = f"{item['op']}s " if item.get("op") else ""
    return f"{of}{said}" + (f" in {text.clip(str(item['phase']), 40)}" if item.get("phase") else "")


UNTIL = "until"
"""The findings of phases with ``until``: their condition is expected without a line of ``expect``."""


def _words(item: Item) -> Words:
    metric = str(item["metric"])
    if metric == UNTIL:
        condition = words.verbatim(_condition(item))
        return Words.of(
            missed=f"The cluster was not {condition} in time{{inside}}; wanted was {{want}}",
            question=f"the cluster was {condition} in time{{inside}}",
            promise=f"The cluster is {condition}{{inside}}: {{want}}",
            short=condition,
        )
    if metric == defaults.PROCESS:
        return defaults.WORDS
    check = catalogue.of(metric)
    return _unknown(metric) if check is None else check.words


def _unknown(metric: str) -> Words:
    """Of a metric that another version, or another package, knows."""
    metric = words.verbatim(metric)
    return Words.of(
        missed=f"“{metric}” came to {{measured}}{{inside}}; wanted was {{want}}",
        question=f"“{metric}” was as wanted{{inside}}",
        promise=f"“{metric}”{{inside}}: {{want}}",
        short=metric,
    )


def _condition(item: Item) -> str:
    return text.clip(str(item["title"]).partition(" within ")[0], 60)


# -- one reason ------------------------------------------------------------------------------------


def reason(of: Item, findings: Sequence[Item], tables: Mapping[str, Any]) -> str:
    """A reason as a sentence without its full stop. ``findings``: all of the run's."""
    item = next((each for each in findings if of.get("finding") and each["id"] == of["finding"]), None)
    if of["cause"] == Cause.DOCUMENTS:
        beyond = ((tables.get("data") or {}).get("copies") or {}).get("beyond") or {}
        seen = {"measured": beyond.get("value"), "measured_text": beyond.get("text")}
        return writes.beyond(seen) if beyond.get("value") else str(of["says"])
    if item is None:
        return str(of["says"]).partition(" (")[0] if of["cause"] == Cause.INSTRUMENT else str(of["says"])
    if of["cause"] == Cause.NOTE:
        return f"a known weakness is gone ({text.clip(question(item), 90)}): {CLEAR}"
    if of["outcome"] == "inconclusive":
        why = str(item.get("because") or item["says"])
        return f"whether {question(item)} is open: {why}"
    return missed(item, tables)
