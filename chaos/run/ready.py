"""What an experiment asks of this machine and its surroundings, looked for before anything is started."""

from __future__ import annotations

from chaos.base.console import Reporter
from chaos.definitions import Experiment
from chaos.observe import slis
from chaos.run import commanding, guards


def refuse_unready(experiment: Experiment, reporter: Reporter | None = None) -> None:
    """Raises InvalidInput for a guard or an SLI that cannot be evaluated here, and for a command that is not here.

    ``reporter`` is told of an SLI that has no data yet.
    """
    guards.refuse_unready(experiment.guards)
    slis.refuse_unready(experiment, reporter)
    commanding.refuse_absent(experiment)
