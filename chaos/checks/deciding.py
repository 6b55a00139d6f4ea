"""Can this machine decide the objectives? From the echo beside the nodes (:mod:`chaos.observe.echo`).

The echo needs next to no time of its own: what it took is what the machine took. Of an objective is said, before the
first phase and with the load on:

* *yes*: no answer of the echo took even half of it;
* *no*: more of them were later than it than a target tolerates (one in a thousand): what users would see here is the
  machine;
* *doubtful* in between.

It is said and stays in the record; it changes no verdict. That an answer was late for want of a processor is found
answer by answer in :mod:`.starved`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.base import text
from chaos.checks.record import SECOND, Record

LIMITS_MS = (50, 100, 250, 500, 1000)
"""Columns of the table: how many took no longer."""
FEWEST = 60
"""Questions (three seconds of them) below which nothing is said."""
TOLERATED = 0.001


@dataclass(frozen=True)
class Echoes:
    """What the echo took in some stretch of time. ``silent``: questions without an answer."""

    took_ms: tuple[float, ...]
    silent: int = 0

    @classmethod
    def of(cls, lines: Iterable[Mapping[str, Any]], since: int, until: int) -> Echoes:
        """From the lines of the record whose second lies in [since, until) (ns)."""
        took = [each for line in lines if since <= int(line["t"]) < until for each in line["took_ms"]]
        return cls(tuple(sorted(float(each) for each in took if each is not None)), took.count(None))

    @property
    def asked(self) -> int:
        return len(self.took_ms) + self.silent

    def longer_than(self, ms: float) -> int:
        return self.silent + sum(each > ms for each in self.took_ms)

    @property
    def longest(self) -> str:
        if self.silent:
            return f"{text.plural(self.silent, 'question')} without an answer"
        return text.seconds(self.took_ms[-1] / 1000) if self.took_ms else text.NO_VALUE


def decides(echoes: Echoes, objective_s: float) -> str:
    """``yes``, ``no``, ``doubtful``, or ``not measured``."""
    if echoes.asked < FEWEST:
        return "not measured"
    if echoes.longer_than(objective_s * 1000) > TOLERATED * echoes.asked:
        return "no"
    return "yes" if echoes.longer_than(objective_s * 500) == 0 else "doubtful"


def says(echoes: Echoes, objectives: Mapping[str, float]) -> str:
    """One sentence for people. ``objectives``: operation → seconds."""
    if echoes.asked < FEWEST:
        return "whether this machine can decide the objectives was not measured"
    words = {"yes": "this machine can decide", "no": "this machine cannot decide", "doubtful": "it is doubtful whether"}
    by: dict[tuple[str, float], list[str]] = {}
    for op, objective in objectives.items():
        by.setdefault((decides(echoes, objective), objective), []).append(f"{op}s")
    parts = []
    for (answer, objective), ops in by.items():
        after = " can be decided here" if answer == "doubtful" else ""
        parts.append(f"{words[answer]} {text.seconds(objective)} for {text.listed(ops)}{after}")
    took = f"an echo beside the nodes took {echoes.longest} at most, of {text.count(echoes.asked)} questions"
    if echoes.silent:
        took = f"an echo beside the nodes left {echoes.longest}, of {text.count(echoes.asked)}"
    return f"{'; '.join(parts)}: {took}"


def table(record: Record) -> dict[str, Any] | None:
    """What was said before the first phase, and what the echo took in each; None where none was asked."""
    lines: Sequence[Mapping[str, Any]] = record.echo
    said = record.first("machine.decides")
    if not lines and said is None:
        return None
    phases = {}
    for span in record.spans:
        found = Echoes.of(lines, span.start // SECOND * SECOND, span.end)
        phases[span.name] = {
            "asked": found.asked,
            "within": {str(limit): found.asked - found.longer_than(limit) for limit in LIMITS_MS},
            "longest": found.longest,
        }
    return {
        "says": str(said.get("says")) if said else None,
        "decides": dict(said.get("decides") or {}) if said else {},
        "phases": phases,
    }
