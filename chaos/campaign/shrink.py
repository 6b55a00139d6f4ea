"""Shrinking: which faults of a failing experiment does its failure need?

The core is delta debugging (Zeller's ddmin) over a sequence and a predicate, pure. It ends with a subset that fails
and from which no single item can be left out, or, when the runs that it may spend are over, with the smallest that
was seen to fail. Around it: an experiment without some of its faults, and what makes a run's failure the same one.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from chaos.base.errors import HistoryError, InvalidInput
from chaos.checks.models import FindingsFile
from chaos.definitions import Experiment, FaultParams, NodeSelector, Phase, Scene
from chaos.definitions.grammar import Grammar
from chaos.definitions.loading import load_experiment
from chaos.run import plan
from chaos.statistics.judged import judged

T = TypeVar("T")


@dataclass(frozen=True)
class Shrunk(Generic[T]):
    """``kept`` fails. ``minimal``: no single one of it can be left out; False when the budget ended before that."""

    kept: tuple[T, ...]
    minimal: bool
    asked: int
    """How often the predicate was asked."""


def shrink(items: Sequence[T], fails: Callable[[tuple[T, ...]], bool], budget: int) -> Shrunk[T]:
    """The smallest subset that could be found to fail, in order. ``items`` as a whole must be known to fail.

    ``fails`` is asked ``budget`` times at most, and never twice of the same subset.
    """
    asked: dict[tuple[int, ...], bool] = {}

    def failing(chosen: tuple[int, ...]) -> bool:
        if chosen not in asked:
            if len(asked) >= budget:
                raise _Spent
            asked[chosen] = fails(tuple(items[i] for i in chosen))
        return asked[chosen]

    kept = tuple(range(len(items)))
    parts = 2
    minimal = not kept
    try:
        while kept:
            parts = min(parts, len(kept))
            smaller = next((each for each in _smaller(kept, parts) if failing(each)), None)
            if smaller is not None:
                parts = 2 if len(smaller) <= -(-len(kept) // parts) else max(parts - 1, 2)
                kept = smaller
                minimal = not kept
            elif parts >= len(kept):
                minimal = True
                break
            else:
                parts *= 2
    except _Spent:
        pass
    return Shrunk(tuple(items[i] for i in kept), minimal, len(asked))


class _Spent(Exception):
    """The budget is over."""


def _smaller(kept: tuple[int, ...], parts: int) -> list[tuple[int, ...]]:
    """Each of so many parts alone, then all but each."""
    edges = [len(kept) * i // parts for i in range(parts + 1)]
    pieces = [kept[a:b] for a, b in itertools.pairwise(edges)]
    rest = [tuple(i for i in kept if i not in piece) for piece in pieces]
    alone = pieces if parts > 1 else []
    return list(dict.fromkeys([*alone, *rest]))


# ---- experiments without some of their faults ----------------------------------------------------------


def fixed(experiment: Experiment, seed: int) -> Experiment:
    """With single draws made: left-out faults change the others' ids, and so what would be drawn for them."""
    planned = plan.by_phase(experiment)
    phases = tuple(
        phase.model_copy(update={"inject": tuple(_drawn(each, experiment, seed) for each in planned[phase.name])})
        for phase in experiment.phases
    )
    return experiment.model_copy(update={"phases": phases, "seed": seed})


def _drawn(each: plan.Planned, experiment: Experiment, seed: int) -> FaultParams:
    changed: dict[str, Any] = {}
    scene = Scene.of(experiment.topology, seed, each.id)
    for name, selector in each.params.selectors.items():
        if isinstance(selector, NodeSelector) and selector.pick == 1 and not selector.elected:
            (node,) = scene.nodes(selector)
            changed[name] = NodeSelector(node=node)
    return each.params.model_copy(update=changed)


def reduced(experiment: Experiment, keep: frozenset[str]) -> Experiment | None:
    """Only the faults with these ids (of :func:`chaos.run.plan.faults`), everything else at its time as before.

    Expectations that count from an undo go where nothing is undone any more; None when none is left.
    """
    planned = plan.by_phase(experiment)
    active: list[FaultParams] = []
    phases: list[Phase] = []
    for phase in experiment.phases:
        undo = tuple(label for label in phase.undo if _matching(label, active))
        for label in undo:
            gone = _matching(label, active)
            active = [each for each in active if each not in gone]
        inject = tuple(each.params for each in planned[phase.name] if each.id in keep)
        active += inject
        phases.append(phase.model_copy(update={"undo": undo, "inject": inject}))
    undoing = {phase.name for phase in phases if phase.undo}
    expect = []
    for given in experiment.expect:
        if given.metric == "cluster.recovered":
            where = tuple(name for name in given.phases if name in undoing)
            if not where:
                continue
            given = given.model_copy(update={"phases": where})
        expect.append(given)
    if not expect:
        return None
    return experiment.model_copy(update={"phases": tuple(phases), "expect": tuple(expect)})


def _matching(label: str, active: Sequence[FaultParams]) -> list[FaultParams]:
    return [each for each in active if label in ("all", each.name, each.kind)]


# ---- what failed ---------------------------------------------------------------------------------------


ENDED = "process.ended"


def failures(findings: FindingsFile) -> frozenset[str]:
    """The metrics whose expectations a run did not meet (findings.json), in whatever phase; and a node's own end.

    Empty unless the outcome is a weakness: what is inconclusive, aborted or broken shows nothing. A known weakness
    that passes is no failure here: with fewer faults many would.
    """
    if findings["outcome"] != "weakness":
        return frozenset()
    weak = [each["id"] for each in findings["findings"] if each["counts_as"] == "weakness"]
    ended = any(end["weakness"] for end in (findings.get("tables") or {}).get("ends") or [])
    return frozenset(id.split("@")[0].split("#")[0] for id in weak) | ({ENDED} if ended else set())


def opened(given: Path, grammar: Grammar) -> tuple[Experiment, frozenset[str]]:
    """The experiment in a run's folder or a file, and what failed there: nothing known of a file.

    Raises InvalidInput when it is neither, or a run that did not end in a weakness.
    """
    if not given.is_dir():
        experiment = load_experiment(given, grammar)
        return fixed(experiment, experiment.seed), frozenset()
    try:
        planned = json.loads((given / "plan.json").read_text())
        findings = judged(given)
        experiment = grammar.experiment(planned["experiment"])
        found = fixed(experiment, planned["seed"]), failures(findings)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, HistoryError) as error:
        raise InvalidInput(
            f"{given} is no run that can be shrunk: {type(error).__name__}", remedy="name a run's folder or its file"
        ) from None
    if not found[1]:
        raise InvalidInput(f"{given} ended as {findings['outcome']}: only a weakness can be shrunk")
    return found


def smallest(
    experiment: Experiment,
    failed: frozenset[str],
    run: Callable[[Experiment], FindingsFile],
    budget: int,
    says: Callable[[str], None],
) -> tuple[Experiment, Shrunk[str], frozenset[str]]:
    """The experiment with the fewest faults that fails as it did, the search, and the metrics that failed.

    ``run`` carries an experiment out and returns its findings.

    ``failed`` empty: the whole is run once to see what fails, which counts as one of ``budget``. A smaller one fails
    alike when one of those metrics fails again. Raises InvalidInput when the whole does not fail.
    """
    ids = [each.id for each in plan.faults(experiment)]
    if not failed:
        failed = failures(run(experiment))
        budget -= 1
        if not failed:
            raise InvalidInput(f"{experiment.name} did not end in a weakness: there is nothing to shrink")
    says(f"{len(ids)} faults; what failed: {', '.join(sorted(failed))}")

    def fails(kept: tuple[str, ...]) -> bool:
        smaller = reduced(experiment, frozenset(kept))
        if smaller is None:
            return False
        found = run(smaller)
        again = bool(failures(found) & failed)
        says(f"with {', '.join(kept) or 'no fault'}: {found['outcome']}{', the same failure' if again else ''}")
        return again

    result = shrink(ids, fails, budget)
    kept = reduced(experiment, frozenset(result.kept))
    assert kept is not None  # it has failed, so it had expectations
    return kept.model_copy(update={"name": f"{experiment.name}-shrunk"}), result, failed
