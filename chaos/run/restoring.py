"""After the read-back of an experiment tagged durable: the same of a cluster that was restored from its store alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from chaos.base.errors import ChaosError, InvalidInput
from chaos.definitions.experiment import Experiment
from chaos.observe import restored
from chaos.observe.several import merged
from chaos.opensearch import rollover
from chaos.run.indices import RunIndex
from chaos.targets.existing.target import ExistingTarget
from chaos.targets.labs.base import BaseLab

ReadBack = Callable[[RunIndex], dict[str, Any]]


def refuse_others(experiment: Experiment, lab: BaseLab | None) -> None:
    """Raises InvalidInput where the cluster that would be emptied is not the run's own."""
    if lab is None or not experiment.durable:
        return
    if isinstance(lab, ExistingTarget):
        whose = "a cluster that exists is never emptied"
    elif lab.manifest.lease:
        whose = f"lab '{lab.id}' is meant to live on, with what is in it"
    else:
        return
    raise InvalidInput(
        f"{experiment.name} is tagged durable, so its cluster is emptied and restored from the store: {whose}",
        remedy="run it on a lab of its own, or without that tag",
    )


def read_back_from_store(
    lab: BaseLab,
    indices: Sequence[RunIndex],
    read_back: ReadBack,
    says: Callable[[str], None],
    stopped: Callable[[], bool],
) -> dict[str, Any]:
    """Empty a lab's cluster, restore it from the store, and read every index of the load back; the content of
    ``history/restored.json``. Never raises for what the cluster does."""
    concrete: dict[str, list[str]] = {}
    try:
        for each in indices:
            rolled = each.rolled.rolled is not None
            concrete[each.index] = rollover.indices(lab, each.index) if rolled else [each.index]
    except ChaosError as error:
        return restored.not_read(indices[0].index, f"{type(error).__name__}: {error}", restored.Restored())
    found = restored.restore(lab, [name for names in concrete.values() for name in names], says, stopped)
    if found.reason is not None:
        return restored.not_read(indices[0].index, found.reason, found)
    results = {}
    for each in indices:
        result = read_back(each)
        if set(concrete[each.index]) & set(found.missing):
            result = restored.without(result, found)
        results[each.index] = restored.held_against(result, found, each.index)
    result = merged(results) if len(results) > 1 else results[indices[0].index]
    return {**result, "restored": found.to_json()}
