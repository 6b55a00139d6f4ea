"""Does a protection protect? Said of an experiment whose sides are the protection off, (monitoring,) and on.

* *Acted*: its counter grew in each run of *on*, in the phases in which it was provoked, and clients got the status that
  is named in the same seconds, with that protection's type of error and text where those were kept. In no run of *off*
  did it grow: else it grows for another reason, and nothing follows.
* *Protected*: the good share of the other traffic is better on *on* than on *off*, by the rules of :mod:`.compare`, in
  one metric at least, and worse in none.
* *Let go*: in the last phase nothing was refused, and at the end no node holds anything any more.

Words: ``protects``; ``acts without protecting`` (other traffic is no better and no worse); ``hurts`` (other traffic is
worse, or something was refused before the provocation or in the last phase, or is still held); ``inert`` (it never
acted); ``open`` (not enough is known, or the counter grows for another reason). *Off* and *monitoring* are what *on* is
held against and never get one of the first three. What is not known is never taken for 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chaos.base import text
from chaos.statistics.store import Group

PROTECTS, WITHOUT, HURTS, INERT, OPEN = "protects", "acts without protecting", "hurts", "inert", "open"


@dataclass(frozen=True)
class Asked:
    """What the experiment says of it, see :class:`chaos.definitions.vary.ProtectionFile`."""

    counter: str
    provoked: tuple[str, ...]
    answers: Mapping[str, str]
    protects: tuple[str, ...]

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Asked:
        """Raises KeyError or TypeError for data of another shape."""
        return cls(str(given["counter"]), tuple(given["provoked"]), dict(given["answers"]), tuple(given["protects"]))

    @property
    def metrics(self) -> tuple[str, ...]:
        """Of the other traffic, in the phases in which it was provoked."""
        return tuple(f"{metric}@{phase}" for metric in self.protects for phase in self.provoked)


@dataclass(frozen=True)
class Traffic:
    """A metric of *on* against *off*: ``worse``, ``no worse``, ``better`` or ``open``, and why."""

    metric: str
    word: str
    says: str


@dataclass(frozen=True)
class Run:
    """One run that counts. None: not known. ``acted``: by how much the counter grew while it was provoked; ``before``:
    in the phases before that; ``last``: in the last one; ``ever``: in any. ``answered``: operation → how often clients
    were answered with the status while it grew, by tries where those were counted and else by arrivals; ``named``:
    operation → errors of that status, of this protection's type and text, empty where what clients were told was not
    kept. ``held``: whether a node still holds something at the end."""

    acted: int | None
    before: int | None
    last: int | None
    ever: int | None
    answered: Mapping[str, int]
    held: bool | None
    named: Mapping[str, int] = field(default_factory=dict)


def of_run(table: Mapping[str, Any] | None, asked: Asked) -> Run:
    """From ``tables.protections`` of a run's findings."""
    phases: Mapping[str, Any] = (table or {}).get("phases") or {}
    rows = {name: (row.get("metrics") or {}).get(asked.counter) or {} for name, row in phases.items()}
    if table is None or not set(asked.provoked) <= set(rows):
        return Run(None, None, None, None, {}, None)
    names = list(rows)
    first = min(names.index(name) for name in asked.provoked)
    answered = {
        op: sum(_answers(rows[name], status, op) for name in asked.provoked) for op, status in asked.answers.items()
    }
    return Run(
        acted=_grown([rows[name] for name in asked.provoked]),
        before=_grown([rows[name] for name in names[:first]]),
        last=_grown([rows[names[-1]]]),
        ever=_grown(list(rows.values())),
        answered=answered,
        held=_held(table.get("end") or {}, asked.counter.partition(".")[0]),
        named=_named([rows[name] for name in asked.provoked], asked),
    )


def _named(rows: Sequence[Mapping[str, Any]], asked: Asked) -> dict[str, int]:
    """Empty where of no phase it is known what clients were told."""
    kept = [row["named"] for row in rows if "named" in row]
    return {
        op: sum(int((each.get(status) or {}).get(op) or 0) for each in kept)
        for op, status in asked.answers.items()
        if kept
    }


def _grown(rows: Sequence[Mapping[str, Any]]) -> int | None:
    """What is known of some phases together: what was seen stands, and none seen is 0 only where all is known."""
    values = [row.get("value") for row in rows]
    seen = sum(int(value) for value in values if value is not None)
    return seen if seen or None not in values else None


def _answers(row: Mapping[str, Any], status: str, op: str) -> int:
    """A client that sends again what was refused hides it in its last answer, so tries count where they were told."""
    return max(int(((row.get(kind) or {}).get(status) or {}).get(op) or 0) for kind in ("answers", "tries"))


def _held(end: Mapping[str, Any], protection: str) -> bool | None:
    held = any(
        name.startswith(f"{protection}.") and n for node in (end.get("held") or {}).values() for name, n in node.items()
    )
    return True if held else None if end.get("unheard", True) else False


@dataclass(frozen=True)
class Verdict:
    """``word``: see above; ``why``: each reason for it. ``sides``: side → its runs. ``monitors``: what is said of the
    monitoring side; None where there is none."""

    asked: Asked
    off: str
    on: str
    word: str
    why: tuple[str, ...]
    sides: Mapping[str, tuple[Run, ...]]
    monitors: str | None = None

    @property
    def sentence(self) -> str:
        return f"{self.asked.counter}: side {self.on} {_says(self.word)}: {'; '.join(self.why)}"

    def to_json(self) -> dict[str, Any]:
        return {
            "counter": self.asked.counter,
            "provoked": list(self.asked.provoked),
            "word": self.word,
            "why": list(self.why),
            "off": self.off,
            "on": self.on,
            "monitoring": self.monitors,
            "sides": {
                name: [{**vars(run), "answered": dict(run.answered), "named": dict(run.named)} for run in runs]
                for name, runs in self.sides.items()
            },
        }

    def table(self) -> list[tuple[str, ...]]:
        """Side, and what its runs came to: acted, answered, outside of the provocation, held."""
        return [(name, *_cells(runs)) for name, runs in self.sides.items()]


def _says(word: str) -> str:
    return {INERT: "is inert", OPEN: "leaves it open"}.get(word, word)


HEAD = (
    "Side",
    "Counted while provoked",
    "Clients refused meanwhile",
    "Counted before it, and in the last phase",
    "Held at the end",
)
"""Of :meth:`Verdict.table`; a run each in a cell."""


def _cells(runs: Sequence[Run]) -> tuple[str, ...]:
    answered = [str(sum(run.answered.values())) if run.answered else "-" for run in runs]
    outside = [f"{_shown(run.before)}, {_shown(run.last)}" for run in runs]
    held = ["?" if run.held is None else "yes" if run.held else "no" for run in runs]
    return tuple(
        "; ".join(each) or text.NO_VALUE for each in ([_shown(run.acted) for run in runs], answered, outside, held)
    )


def _shown(value: int | None) -> str:
    return "?" if value is None else text.count(value)


def judge(asked: Asked, groups: Sequence[Group], traffic: Sequence[Traffic]) -> Verdict:
    """``groups``: off, (monitoring,) on. ``traffic``: every metric of on against off."""
    sides = {group.label: tuple(of_run(table, asked) for table in group.protections) for group in groups}
    off, on = groups[0].label, groups[-1].label
    rows = [row for row in traffic if row.metric in asked.metrics]
    word, why = _judged(asked, sides[off], sides[on], rows, off)
    monitors = _monitors(asked, sides[groups[1].label]) if len(groups) > 2 else None
    return Verdict(asked, off, on, word, tuple(why), sides, monitors)


def _judged(
    asked: Asked, off: Sequence[Run], on: Sequence[Run], rows: Sequence[Traffic], baseline: str
) -> tuple[str, list[str]]:
    if not off or not on:
        return OPEN, ["one of the sides has no run that counts"]
    if doubts := list(_confounded(off, on, baseline)):
        return OPEN, doubts
    if all(run.acted == 0 for run in on):
        return INERT, [f"its counter grew in none of {text.plural(len(on), 'run')}"]
    if doubts := list(_did_not_act(asked, on)):
        return OPEN, doubts
    acted = f"it acted in all {len(on)} runs" if len(on) > 1 else "it acted in its run"
    if harm := [*_needless(on), *(f"{row.metric} is worse than {baseline}" for row in rows if row.word == "worse")]:
        return HURTS, harm
    if doubts := [*_unknown(on), *_open(asked, rows)]:
        return OPEN, [acted, *doubts]
    better = [row.metric for row in rows if row.word == "better"]
    if better:
        return PROTECTS, [acted, f"{text.listed(better)} is better than {baseline}", "it let go"]
    return WITHOUT, [acted, f"{text.listed([row.metric for row in rows])} is no better than {baseline}", "it let go"]


def _confounded(off: Sequence[Run], on: Sequence[Run], baseline: str) -> Iterator[str]:
    """Why what is seen of the counter says nothing of this protection."""
    grew = [run for run in off if run.ever]
    if grew:
        yield (
            f"its counter grew in {len(grew)} of {text.plural(len(off), 'run')} of {baseline} too, so it grows for "
            "another reason"
        )
    elif any(run.ever is None for run in off):
        yield f"of {baseline} too little is known of the counter"
    if any(run.acted is None for run in on):
        yield "too little is known of the counter"


def _did_not_act(asked: Asked, on: Sequence[Run]) -> Iterator[str]:
    acted = [run for run in on if run.acted]
    if len(acted) < len(on):
        yield f"its counter grew in {len(acted)} of {text.plural(len(on), 'run')} alone"
    for op, status in asked.answers.items():
        silent = [run for run in acted if not run.answered.get(op)]
        if silent:
            yield (
                f"in {len(silent)} of {text.plural(len(acted), 'run')} its counter grew and no {op} was answered "
                f"{status} in the same seconds, so it grows for another reason"
            )
        others = [run for run in acted if run.answered.get(op) and run.named.get(op) == 0]
        if others:
            yield (
                f"in {len(others)} of {text.plural(len(acted), 'run')} no {op} that was answered {status} in the same "
                "seconds was told this protection's error, so something else refused it"
            )


def _needless(on: Sequence[Run]) -> Iterator[str]:
    """What was refused, or is held, although nothing provokes it."""
    for when, grew in (
        ("before it was provoked", [run for run in on if run.before]),
        ("in the last phase", [run for run in on if run.last]),
    ):
        if grew:
            yield f"its counter grew {when}, in {len(grew)} of {text.plural(len(on), 'run')}"
    if held := [run for run in on if run.held]:
        yield f"nodes still hold something at the end of {len(held)} of {text.plural(len(on), 'run')}"


def _unknown(on: Sequence[Run]) -> Iterator[str]:
    if any(run.before is None or run.last is None for run in on):
        yield "too little is known of the counter before it was provoked, or in the last phase"
    if any(run.held is None for run in on):
        yield "it is not known what nodes hold at the end"


def _open(asked: Asked, rows: Sequence[Traffic]) -> Iterator[str]:
    there = {row.metric for row in rows}
    for metric in asked.metrics:
        if metric not in there:
            yield f"{metric} was not measured"
    for row in rows:
        if row.word == "open":
            yield f"{row.metric} is open: {row.says}"


def _monitors(asked: Asked, runs: Sequence[Run]) -> str:
    if not runs or any(run.acted is None for run in runs):
        return "too little is known of it"
    refused = [run for run in runs if sum(run.answered.values())]
    if refused:
        return f"clients were refused in {len(refused)} of {text.plural(len(runs), 'run')} although it only monitors"
    acted = sum(bool(run.acted) for run in runs)
    return f"counted in {acted} of {text.plural(len(runs), 'run')}, and refused no client"
