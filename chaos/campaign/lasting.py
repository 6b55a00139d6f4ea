"""How long a run of a campaign may take: from when on it hangs, or its worker counts as lost."""

from __future__ import annotations

from chaos.definitions import Experiment
from chaos.observe import restored
from chaos.run import space

END_SECONDS = 300.0
"""From a SIGTERM to a SIGKILL of a run that hangs: undoing takes a minute."""
HANGS = 2
"""A run hangs that takes so many times the longest that its plan allows, and :data:`END_SECONDS`."""


def longest(experiment: Experiment) -> float:
    """Seconds that a run takes at most by its plan: its load, then commands of expectations one after the other, then
    the restore of a cluster that was emptied. What is read back has no bound: :func:`bound` has room for it."""
    commands = sum(float(line.within) for line in experiment.expect if line.within is not None)
    emptied = restored.BACK_SECONDS + restored.GREEN_SECONDS if experiment.durable else 0.0
    return space.longest_seconds(experiment) + commands + emptied


def bound(longest_seconds: float) -> float:
    """Seconds after which a run hangs, and is ended; by then a worker that cannot be seen counts as lost."""
    return HANGS * longest_seconds + END_SECONDS
