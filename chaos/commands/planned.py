"""What a plan on a cluster that exists comes to, as data: made by :mod:`chaos.commands.planning_on`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chaos.definitions import Experiment
    from chaos.definitions.existing import Existing
    from chaos.run.reaching import AtRung, Reached
    from chaos.targets.existing.compare import Row
    from chaos.targets.existing.mapping import Mapped
    from chaos.targets.existing.rehearsing import Rehearsed

THE_CLUSTER, NEEDS, FAULTS, THE_FILE = "the cluster", "what the experiment needs", "faults", "the file"
"""What refuses; a phase, by its name, is the fifth, and AWS FIS the sixth."""
SHOWN = 3
"""Parts of an experiment that the line of a rung names at most."""
NOT_THERE = ("zones hit",)
"""Rows of phases that hold of every cluster that exists, whatever its file says."""


@dataclass(frozen=True)
class Planned:
    """One experiment on one target. ``refused``: everything that would keep it from beginning today, in order.

    ``rungs``: what the file would refuse of it at each rung, whichever it allows on that ``day``. ``rehearsed``: its
    faults by AWS FIS that were tried with their actions skipped, where that was asked for.
    """

    experiment: Experiment
    target: Existing
    mapped: Mapped
    steps: list[Any]
    reached: list[Reached]
    checks: list[Row]
    needs: str
    refused: list[tuple[str, Row]]
    rungs: tuple[AtRung, ...]
    seed: int
    day: date
    rehearsed: tuple[Rehearsed, ...] = ()
    notes: tuple[str, ...] = ()
    """What is said of the experiment without refusing it (:mod:`chaos.run.notes`)."""

    @property
    def never(self) -> list[Row]:
        """What the cluster lacks for it, whatever its file says and whichever day it is.

        Nothing is known to be so while the cluster is not as its file says, or could not be read.
        """
        from chaos.targets.existing.compare import Sign

        if any(where == THE_CLUSTER for where, _ in self.refused):
            return []
        return [
            row
            for where, row in self.refused
            if row.sign is not Sign.UNKNOWN and (where in (NEEDS, FAULTS) or row.what in NOT_THERE)
        ]

    def to_json(self) -> dict[str, Any]:
        return {
            "experiment": self.experiment.name,
            "target": self.target.written.name,
            "zones": dict(self.target.written.zones.names),
            "nodes": dict(self.mapped.nodes),
            "requires": [row.to_json() for row in self.mapped.rows],
            "cluster": [row.to_json() for row in self.checks],
            "differences": list(self.mapped.notes),
            "steps": self.steps,
            "notes": list(self.notes),
            "reach": [
                {
                    "phase": each.phase,
                    "steps": [{"says": step.says, "rung": step.rung} for step in each.steps],
                    "hit": list(each.hit),
                    "voteless": list(each.voteless),
                    "rows": [row.to_json() for row in (*(r for s in each.steps for r in s.rows), *each.rows)],
                }
                for each in self.reached
            ],
            "rung": self.needs,
            "rungs": [{"rung": each.rung, "refused": list(each.refused)} for each in self.rungs],
            "rehearsed": [each.to_json() for each in self.rehearsed],
            "refused": [{"where": where, **row.to_json()} for where, row in self.refused],
        }


def at_rung(each: AtRung, made: Planned) -> str:
    """One line: what the file would refuse at a rung, for the rung alone."""
    if each.refused:
        more = f"; and {len(each.refused) - SHOWN} more" if len(each.refused) > SHOWN else ""
        return f"at rung {each.rung}: refused, {'; '.join(each.refused[:SHOWN])}{more}"
    others = sum(row.what != "rung" for _, row in made.refused)
    return f"at rung {each.rung}: nothing is refused{' for the rung; the other reasons stay' if others else ''}"
