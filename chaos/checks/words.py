"""How a metric is told to people who read one line and no table: no formula, and no name of a metric."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from chaos.base import text

Item = Mapping[str, Any]
"""A finding, or a reason, as findings.json has it."""
Tables = Mapping[str, Any]
"""``tables`` of findings.json."""


@dataclass(frozen=True)
class Words:
    """What is said of one metric.

    ``missed``: what a missed expectation comes to, as a sentence without its full stop. ``question``: what a finding
    asks, to go on from "whether". ``promise``: what was promised. ``short``: the metric in a few words.
    """

    missed: Callable[[Item, Tables], str]
    question: Callable[[Item], str]
    promise: Callable[[Item], str]
    short: str

    @classmethod
    def of(cls, *, missed: str, question: str, promise: str, short: str) -> Words:
        """From patterns: ``{measured}``, ``{want}``, ``{times}``, ``{inside}`` (the phase), ``{op}`` and ``{Op}``."""
        return cls(
            lambda item, _: filled(missed, item),
            lambda item: filled(question, item),
            lambda item: filled(promise, item),
            short,
        )

    @classmethod
    def within_bounds(cls, missed: str, short: str) -> Words:
        """Of a figure that has bounds. ``missed``: a pattern for what it came to, without what was wanted."""
        return cls.of(
            missed=f"{missed}{{inside}}; wanted was {{want}}",
            question=f"{short} was within bounds{{inside}}",
            promise=f"{short[0].upper()}{short[1:]}{{inside}}: {{want}}",
            short=short,
        )


def verbatim(said: str) -> str:
    """Text that stands in a pattern as it is."""
    return said.replace("{", "{{").replace("}", "}}")


def filled(pattern: str, item: Item) -> str:
    """A pattern with what a finding says put in."""
    op = str(item.get("op") or "")
    return pattern.format(
        measured=item["measured_text"],
        want=wanted(str(item["target"])),
        times=times(item),
        inside=where(item),
        op=op,
        Op=upper(op),
    )


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


def many(item: Item, one: str, more: str) -> str:
    """``1 read``, ``2 reads``."""
    return f"{item['measured_text']} {one if item.get('measured') == 1 else more}"


def times(item: Item) -> str:
    """``once``, ``twice``, ``3 times``."""
    return {1: "once", 2: "twice"}.get(item.get("measured") or 0, f"{item['measured_text']} times")


def upper(words: str) -> str:
    return words[:1].upper() + words[1:]
