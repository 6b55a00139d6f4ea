"""Can this machine decide the objectives? From the echo beside the nodes (:mod:`chaos.instruments.echo`).

The echo needs next to no time of its own: what it took is what the machine took. Of an objective is said, before the
first phase and with the load on:

* *yes*: no answer of the echo took even half of it;
* *no*: more of them were later than it than a target tolerates (one in a thousand): what users would see here is the
  machine;
* *doubtful* in between.

The echo alone would promise too much: it wants little, so the kernel lets it go first, while nodes beside it wait for
seconds. So what else was seen in the same seconds counts too. Where no processor that the run may use was free for half
of them, or more answers of the load than that were later than the objective, it is *doubtful* at best; where both were
so, the answer is *no*. What was promised before the first phase is taken back in the report for each phase in which the
same would not be said again (rules 2).

It is said and stays in the record; it changes no verdict. That an answer was late for want of a processor is found
answer by answer in :mod:`.starved`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chaos.base import text
from chaos.checks import starved, usable
from chaos.checks.record import SECOND, Record, Span
from chaos.history.events import MachineDecides
from chaos.history.writer import ECHO

LIMITS_MS = (50, 100, 250, 500, 1000)
"""Columns of the table: how many took no longer."""
FEWEST = 60
"""Questions (three seconds of them) below which nothing is said."""
TOLERATED = 0.001
MOSTLY = usable.MOSTLY
"""Share of the time without a free processor from which on the machine decides nothing."""


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


@dataclass(frozen=True)
class Seen:
    """What else was seen meanwhile. ``full``: the share of the time in which certainly no processor was free.

    ``late``: operation → (how many of its answers were not there within the objective, of how many).
    """

    full: float = 0.0
    late: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, record: Record, since: int, until: int) -> Seen:
        """From the record of a run, or of one that is under way, in [since, until) (ns)."""
        late = {op.name: _late(record, op.name, since, until) for op in record.operations}
        full = 0.0
        if starved.applies(record) and until > since:
            seconds = starved.Clock(record).between(np.array([since]), np.array([until]))[0]
            full = float(seconds) * SECOND / (until - since)
        return cls(full, late)

    def contradicts(self, op: str | None) -> bool:
        """Whether more answers of an operation (None: of any) were late than a target tolerates."""
        several = self.late.values() if op is None else [self.late.get(op, (0, 0))]
        return any(late > TOLERATED * of for late, of in several)


def _late(record: Record, op: str, since: int, until: int) -> tuple[int, int]:
    """How many answers of an operation were not there within the objective, of how many that were intended in
    [since, until) (ns)."""
    part = record.arrivals[op].between(since, until)
    ended = sum(int((piece.end > 0).sum()) for piece in part.pieces())
    good = sum(int((piece.good & (piece.end > 0)).sum()) for piece in part.pieces())
    return ended - good, ended


NOTHING = Seen()


def decides(echoes: Echoes, objective_s: float, seen: Seen = NOTHING, op: str | None = None) -> str:
    """``yes``, ``no``, ``doubtful``, or ``not measured``."""
    if echoes.asked < FEWEST:
        return "not measured"
    full, late = seen.full >= MOSTLY, seen.contradicts(op)
    if echoes.longer_than(objective_s * 1000) > TOLERATED * echoes.asked or (full and late):
        return "no"
    if echoes.longer_than(objective_s * 500) > 0 or full or late:
        return "doubtful"
    return "yes"


def says(echoes: Echoes, objectives: Mapping[str, float], seen: Seen = NOTHING) -> str:
    """One sentence for people. ``objectives``: operation → seconds."""
    if echoes.asked < FEWEST:
        return "whether this machine can decide the objectives was not measured"
    words = {"yes": "this machine can decide", "no": "this machine cannot decide", "doubtful": "it is doubtful whether"}
    by: dict[tuple[str, float], list[str]] = {}
    for op, objective in objectives.items():
        by.setdefault((decides(echoes, objective, seen, op), objective), []).append(f"{op}s")
    parts = []
    for (answer, objective), ops in by.items():
        after = " can be decided here" if answer == "doubtful" else ""
        parts.append(f"{words[answer]} {text.seconds(objective)} for {text.listed(ops)}{after}")
    took = f"an echo beside the nodes took {echoes.longest} at most, of {text.count(echoes.asked)} questions"
    if echoes.silent:
        took = f"an echo beside the nodes left {echoes.longest}, of {text.count(echoes.asked)}"
    also = [f"{text.count(late)} of {text.count(of)} {op}s were not good" for op, (late, of) in seen.late.items()]
    also = [each for each, op in zip(also, seen.late, strict=True) if seen.contradicts(op)]
    if seen.full >= MOSTLY:
        also.append(f"no processor that the run may use was free for {text.percent(seen.full)} of that time")
    return f"{'; '.join(parts)}: {', '.join([took, *also])}"


def table(record: Record) -> dict[str, Any] | None:
    """What was said before the first phase, and what the echo took in each; None where none was asked."""
    lines: Sequence[Mapping[str, Any]] = record.lines(ECHO)
    said = next(iter(record.seen(MachineDecides)), None)
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
        "says": _kept(record, said),
        "decides": dict(said.decides or {}) if said is not None else {},
        "phases": phases,
    }


def _kept(record: Record, said: MachineDecides | None) -> str | None:
    """What was said before the first phase, and of rules 2 on in which phases it would not be said again."""
    if said is None:
        return None
    promised = [op for op, answer in (said.decides or {}).items() if answer == "yes"]
    objectives = {op.name: op.good_within for op in record.operations if op.name in promised}
    if record.rules < 2 or not objectives:
        return str(said.says)
    broken: dict[str, list[str]] = {}
    for span in record.spans:
        for why in _broken(record, span, objectives):
            broken.setdefault(why, []).append(span.name)
    back = [f"in {text.listed(phases)} {why}" for why, phases in broken.items()]
    if not back:
        return str(said.says)
    return f"before the first phase: {said.says}. It did not stay so: {'; '.join(back)}"


def _broken(record: Record, span: Span, objectives: Mapping[str, float]) -> list[str]:
    """Why the machine did not decide the objectives in a phase; what a fault did to answers is no reason."""
    heard = Echoes.of(record.lines(ECHO), span.start // SECOND * SECOND, span.end)
    seen = Seen.of(record, span.start, span.end)
    found = []
    if heard.asked >= FEWEST and any(decides(heard, objective) == "no" for objective in objectives.values()):
        found.append("the echo itself was too late")
    if seen.full >= MOSTLY:
        found.append("no processor that the run may use was free for half of the time or more")
    # what is asked later than its objective before the end is under way when something is done
    ends = {op: max(span.start, span.end - int(objective * SECOND)) for op, objective in objectives.items()}
    before = Seen(late={op: _late(record, op, span.start, end) for op, end in ends.items()})
    if span in record.healthy and before.contradicts(None):
        found.append("answers were late before anything was done to the cluster")
    return found
