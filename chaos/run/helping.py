"""Helper pods of a run that is over, whatever ended it: none of them stays."""

from __future__ import annotations

from collections.abc import Iterable

from chaos.base.errors import ChaosError
from chaos.faults.moves import Move
from chaos.targets.existing.target import ExistingTarget
from chaos.targets.protocol import Lab

MAKE, END = "helpers.make", "helpers.end"


def end_helpers(lab: Lab, moves: Iterable[Move]) -> list[str]:
    """Take away the helper pods of the runs of these moves, also those that were made anew after the end of all of
    them was written down. What would not go, in words."""
    runs = {str(move.arguments["run"]) for move in moves if move.operation == MAKE}
    if not isinstance(lab, ExistingTarget) or lab.helpers is None:
        return []
    failed = []
    for run in sorted(runs):
        try:
            lab.helpers.end(run)
        except ChaosError as error:
            failed.append(f"helper pods of run {run}: {error.message}")
    return failed
