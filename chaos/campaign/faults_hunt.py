"""A hunt over faults: plans of the random mode, one seed after the other, on a lab that is reused.

The property is the plans' own: nothing acknowledged is lost, and the cluster recovers. What breaks it is written down
with its run folder, from which ``nemesis --shrink`` finds the faults that it takes.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from chaos.base.errors import Exit, InvalidInput
from chaos.campaign import nemesis
from chaos.campaign.journal import Journal, plan_of
from chaos.campaign.repeat import Labs
from chaos.definitions import Experiment
from chaos.faults.offers import Offers
from chaos.run.options import RunResult
from chaos.run.stopping import Stop
from chaos.targets.labs.base import BaseLab

WEAKNESS = "weakness"
NOTHING = "nothing drawn"
Written = Callable[[Path, str], Experiment]
"""Writes a definition's text to a file, and gives what it means."""


def plan(options: nemesis.Options, offers: Offers) -> str:
    """What the journal's lines say of what is drawn, whatever the seed (:func:`chaos.campaign.journal.plan_of`)."""
    weights = nemesis.default_weights(offers) if options.weights is None else options.weights
    return plan_of(
        "faults",
        options.topology,
        each=float(options.duration),
        rate=float(options.rate),
        hold=[float(each) for each in options.hold],
        weights=list(weights.items()),  # in their order, by which a seed draws
        limits=asdict(options.limits),
        load=float(options.load),
        good={operation: float(within) for operation, within in options.good.items()},
    )


@dataclass
class FaultsHunt:
    """``options``: of every plan; its seed is the first. ``written``: of a plan, the experiment, with its file."""

    labs: Labs
    options: nemesis.Options
    offers: Offers
    journal: Journal
    out: Path
    written: Written
    one: Callable[[Experiment, BaseLab], RunResult]
    stop: Stop
    says: Callable[[str], None]
    codes: list[Exit] = field(default_factory=list, init=False)
    """Of runs of this call that left dirt, or ended in an error."""

    def run(self, seconds: float) -> list[dict[str, Any]]:
        """Begin runs for so long. Returns what this call found; ends after a run that was stopped or left dirt."""
        deadline, found = time.monotonic() + seconds, []
        for seed in self._seeds():
            self.stop.check()
            if time.monotonic() > deadline:
                break
            told, result = self._run(replace(self.options, seed=seed))
            if result is not None and not result.clean:
                self.codes.append(Exit.DIRTY)
            elif told["outcome"] == "error":
                self.codes.append(Exit.ERROR)
            if result is not None and result.stopped:
                break  # it says nothing about its seed
            self.journal.write(told)
            self.says(f"seed {seed}: {told['outcome']}{'  ' + told['says'] if told['says'] else ''}")
            if told["outcome"] == WEAKNESS:
                found.append(told)
            if result is not None and not result.clean:
                break
        return found

    def _seeds(self) -> Iterator[int]:
        """Those of which the journal has nothing yet."""
        done = {line["seed"] for line in self.journal.lines}
        return (seed for seed in itertools.count(self.options.seed) if seed not in done)

    def _run(self, options: nemesis.Options) -> tuple[dict[str, Any], RunResult | None]:
        try:
            text = nemesis.text(options, self.offers)
        except InvalidInput as error:
            return {"seed": options.seed, "outcome": NOTHING, "says": error.message, "faults": [], "run": None}, None
        experiment = self.written(self.out / f"nemesis-{options.topology.name}-{options.seed}.yaml", text)
        result = self.one(experiment, self.labs.get(options.topology, check=self.stop.check))
        outcome = result.findings["outcome"]
        return {
            "seed": options.seed,
            "outcome": outcome,
            "says": "" if outcome == "pass" else result.findings["headline"],
            "faults": [fault.describe() for phase in experiment.phases for fault in phase.inject],
            "run": result.folder.name,
        }, result
