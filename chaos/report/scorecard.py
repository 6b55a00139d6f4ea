"""The page of a scorecard: one file, which needs nothing beside it. Regressions come first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.base import text
from chaos.report import overview
from chaos.statistics.scorecard import Change, Data, Promised, Scorecard, Shift, State, Tally
from chaos.statistics.shares import POWER

MARK = {State.KEPT: "pass", State.BROKEN: "weakness", State.OPEN: "inconclusive"}
"""State of a promise → the outcome whose mark and colour it has."""
SECTIONS = {
    Change.REGRESSION: "Kept before, broken now",
    Change.NEWLY_BROKEN: "Broken now, not proven before",
    Change.NO_LONGER_PROVEN: "Kept before, not proven now",
    Change.MENDED: "Broken before, kept now",
}
NOT_A_LAB = (
    "one machine, one kernel and one clock: zones share processors, memory and disk",
    "small heaps, short-lived JVMs and a small index: times do not scale from here to production",
    "links are slowed and cut between processes; switches, hypervisors and power supplies are not there",
    "a promise is that of an experiment's file, for its load and its topology, and no claim about others",
)


@dataclass(frozen=True)
class Bug:
    """A bug of OpenSearch that has a case of its own. ``by_version``: how often it was seen, in words."""

    name: str
    title: str
    thread: str
    by_version: Mapping[str, str]


def scorecard_page(card: Scorecard, file: Path, command: str, bugs: Sequence[Bug] = ()) -> Path:
    """Draw it into ``file``. ``command``: what makes the page again. Raises OSError when it cannot be written."""
    return overview.write(
        "scorecard.html.j2",
        file,
        outcome=card.outcome.value,
        heading=card.sentence,
        versions=card.versions,
        changes=[(title, [_change(*each) for each in card.told(change)]) for change, title in SECTIONS.items()],
        compared=card.is_compared,
        tallies=[_tally(each) for each in card.tallies],
        detectable=list(_detectable(card)),
        experiments=_experiments(card),
        data=[_data(each) for each in card.data],
        controls=card.controls,
        faultless=card.faultless,
        bugs=[(bug, "/".join(bug.thread.rsplit("/", 2)[-2:])) for bug in bugs],
        left_out=card.left_out,
        machines=card.machines,
        codes=card.codes,
        runs=[
            {"experiment": group.experiment, "version": group.version, **origin}
            for group in card.groups
            for origin in group.origins
        ],
        command=command,
        not_a_lab=NOT_A_LAB,
    )


def _change(what: str, how: str, shift: Shift) -> dict[str, Any]:
    return {
        "name": what,
        "profile": shift.promise.profile,
        "mark": MARK[shift.promise.by_version[shift.after].state],
        "says": how,
        "before": shift.before,
        "after": shift.after,
        "other_machines": shift.other_machines,
    }


def interval(bounds: tuple[float, float]) -> str:
    """``0 % to 45 %``."""
    return f"{text.percent(bounds[0])} to {text.percent(bounds[1])}"


def _tally(tally: Tally) -> dict[str, Any]:
    return {
        **tally.to_json(),
        "share": f"{tally.whole} of {tally.runs}",
        "out": f"{tally.left_out}" + (f" ({tally.missed} missed something)" if tally.missed else ""),
        "bounds": interval(tally.bounds) if tally.runs else text.NO_VALUE,
    }


def _detectable(card: Scorecard) -> Iterator[str]:
    for (before, after), (m, n, share) in card.detectable.items():
        if not m or not n:
            yield f"{before} and {after} have no experiment of which runs of both count: nothing is compared"
        elif share is None:
            yield (
                f"{m} and {n} runs of {before} and {after} are too few to show any difference in how often a promise "
                "is broken, not even between never and always"
            )
        else:
            yield (
                f"{m} and {n} runs of {before} and {after} show, in {POWER:.0%} of cases, that a promise which was "
                f"never broken is broken in {share:.0%} of runs or more; anything rarer may go unseen"
            )


def _experiments(card: Scorecard) -> list[dict[str, Any]]:
    """By experiment, then profile, then promise."""
    found: dict[str, dict[tuple[str, str, str], list[dict[str, Any]]]] = {}
    for promise in card.promises:
        at = (promise.profile, promise.experiment, promise.topology)
        cells = [_cell(promise.by_version.get(version)) for version in card.versions]
        found.setdefault(promise.of, {}).setdefault(at, []).append({"title": promise.title, "cells": cells})
    return [
        {
            "name": of,
            "profiles": [
                {"profile": profile, "experiment": experiment, "topology": topology, "rows": rows}
                for (profile, experiment, topology), rows in sorted(profiles.items(), key=lambda item: item[0][0])
            ],
        }
        for of, profiles in found.items()
    ]


def _cell(promised: Promised | None) -> dict[str, Any] | None:
    if promised is None:
        return None
    mark = "relaxed" if promised.allowed else "known_weakness" if promised.known else MARK[promised.state]
    return {
        "mark": mark,
        "word": promised.word,
        "count": f"broken in {promised.broken} of {promised.decided}"
        + (f", {promised.open} undecided" if promised.open else ""),
        "bounds": interval(promised.bounds) if promised.decided else text.NO_VALUE,
        "left_out": promised.left_out,
        "says": promised.says,
        "mixed": len(promised.machines) > 1,
    }


def _data(data: Data) -> dict[str, Any]:
    bound = text.NO_VALUE
    if data.bound is not None:
        writes = int(1 / data.bound)
        bound = f"at most 1 in {text.count(writes)}" if writes > 1 else f"at most {text.percent(data.bound)}"
    return {**data.to_json(), "bound": bound, "acknowledged": text.count(data.acknowledged)}
