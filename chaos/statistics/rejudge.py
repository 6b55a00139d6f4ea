"""An old history judged by the expectations of another definition.

What happened stays what it was: phases, faults, load, read-back. What is new is what is expected of it, or what
*good* means (the objective ``ok within``). Phases must match by name; an expectation in a phase that the run did
not have, or of an operation that its load did not have, cannot be judged and is inconclusive.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chaos.base import text
from chaos.base.errors import ChaosError, InvalidInput
from chaos.base.rates import Profile, Trace
from chaos.checks import evaluate
from chaos.checks.models import FindingsFile
from chaos.definitions import Duration, Experiment
from chaos.history import History, models
from chaos.history.format import RULES


def rejudge(
    run: Path, experiment: Experiment | None, good: Mapping[str, Duration] | None = None
) -> tuple[History, FindingsFile, list[str]]:
    """(the history with the new expectations in its plan, findings, notes on what differs or cannot be judged).

    ``experiment`` None: its own, with the objectives ``good`` (:func:`chaos.definitions.objectives.parse`), which
    an ``experiment`` has already. Reads only. Raises InvalidInput when ``run`` is no run, or has no such operation.
    """
    try:
        history = History.open(run)
        plan = copy.deepcopy(history.plan)
        old = plan.setdefault("experiment", {})
        for name in good or {}:
            if name and name not in models.operations(old.get("load")):
                raise InvalidInput(f"--objective for {name}s: the load of {run} has none", remedy=f"leave {name}= out")
        new = experiment.to_json() if experiment is not None else _with_objectives(old, good or {})
        notes = _notes(new, old)
        old["expect"] = new.get("expect") or []
        stated = old["good_in_file"] = dict(new.get("good_in_file") or {})
        for op in _both(new, old):
            ours, theirs = ((each.get("load") or {}).get(op) for each in (old, new))
            if ours and theirs:
                ours["good_within"] = theirs["good_within"]
            else:
                stated.pop(op, None)
        plan["notes"] = []  # of the run's own objectives
        if experiment is not None:
            plan.pop("judged_by", None)  # a run that was written in Python has expectations now
            plan["rules"] = RULES  # expectations that are written today are meant by the rules of today
        history = history.planned_as(plan)
        return history, evaluate(history).to_json(), notes
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInput(f"{run} is no run that can be judged: {type(error).__name__}: {error}") from None
    except InvalidInput:  # an objective for what this run does not have
        raise
    except ChaosError as error:
        raise InvalidInput(str(error), remedy="name a run's folder") from None


def _with_objectives(old: dict[str, Any], good: Mapping[str, Duration]) -> dict[str, Any]:
    """The run's own experiment, in normal form, with these objectives."""
    new = copy.deepcopy(old)
    load, stated = new.get("load") or {}, dict(new.get("good_in_file") or {})
    for op in models.operations(load):
        wanted = good.get(op, good.get(""))
        if wanted is None:
            continue
        if stated.setdefault(op, load[op]["good_within"]) == float(wanted):
            del stated[op]
        load[op]["good_within"] = float(wanted)
    return new | {"good_in_file": stated}


def _both(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[str]:
    """The operations that one of two experiments has, or both, in order."""
    return list(dict.fromkeys(name for each in (old, new) for name in models.operations(each.get("load"))))


def _rate(operation: Mapping[str, Any]) -> str:
    """The rate of an operation in normal form, in words."""
    if times := operation.get("times"):
        return Trace(times, float(operation["before"])).text
    changes = operation.get("changes")
    return Profile(changes).text if changes else f"{operation.get('rate'):g}/s"


def _notes(new: dict[str, Any], old: dict[str, Any]) -> list[str]:
    notes = []
    had = {str(phase.get("name")): phase for phase in old.get("phases") or []}
    wanted = {str(phase["name"]): phase for phase in new.get("phases") or []}
    for item in new.get("expect") or []:
        for phase in item["phases"]:
            if phase not in had and had:
                notes.append(f"{item['text']} in {phase} cannot be judged: the run has no phase {phase}")
        if item["op"] and item["op"] not in models.operations(old.get("load")):
            notes.append(f"{item['text']} cannot be judged: the run's load has no {item['op']}s")
    for name, phase in wanted.items():
        if name not in had:
            continue
        changed = [
            key
            for key in ("duration", "until", "during", "undo", "inject", "do", "scripted_wait")
            if (phase.get(key) or None) != (had[name].get(key) or None)
        ]
        if changed:
            notes.append(f"phase {name} ran as the run planned it: {text.listed(changed)} of the new definition differ")
    for op in _both(new, old):
        ours, theirs = ((each.get("load") or {}).get(op) for each in (old, new))
        if not ours or not theirs:
            continue
        if any(ours.get(key) != theirs.get(key) for key in ("rate", "changes")):
            notes.append(f"{op}s ran at {_rate(ours)}, not at {_rate(theirs)}")
        if ours.get("good_within") != theirs.get("good_within"):
            notes.append(
                f"good {op}s are now within {text.seconds(theirs['good_within'])}, "
                f"not {text.seconds(ours['good_within'])}"
            )
    theirs = new.get("topology") or {}
    if theirs.get("name") != (old.get("topology") or theirs).get("name"):
        notes.append("the run was on another topology")
    return list(dict.fromkeys(notes))
