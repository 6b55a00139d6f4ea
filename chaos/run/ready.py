"""What an experiment asks of this machine and its surroundings, looked for before anything is started."""

from __future__ import annotations

from chaos.base.console import Reporter
from chaos.definitions import Experiment
from chaos.run import beside, commanding, guards, instruments


def refuse_unready(experiment: Experiment, reporter: Reporter | None = None) -> None:
    """Raises InvalidInput for a guard that cannot be evaluated here, for what an instrument could not observe (an SLI),
    for a command that is not here, and for a program that is not ready.

    ``reporter`` is told of what has no data yet.
    """
    guards.refuse_unready(experiment.guards)
    instruments.refuse_unready(experiment, reporter)
    commanding.refuse_absent(experiment)
    beside.refuse_unready(experiment)
