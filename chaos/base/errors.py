"""One taxonomy of what can go wrong, and the exit code that each kind ends a command with.

Foreign exceptions (docker, pyroute2, requests, OSError …) are translated into these at the boundary
where they are first understood; nothing above that boundary catches a foreign type.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from chaos.base.text import clean


class Exit(IntEnum):
    """Exit codes of the command line. For a suite the worst wins: see :data:`SEVERITY`."""

    PASS = 0
    WEAKNESS = 1
    USAGE = 2
    INCONCLUSIVE = 3
    ABORTED = 4
    ERROR = 5
    DIRTY = 6
    HELD = 7
    """A game day that a person must let go on first: it was stopped, or is on hold. Nothing was started."""


SEVERITY: tuple[Exit, ...] = (
    Exit.DIRTY,
    Exit.ERROR,
    Exit.USAGE,
    Exit.HELD,
    Exit.ABORTED,
    Exit.WEAKNESS,
    Exit.INCONCLUSIVE,
    Exit.PASS,
)
"""Worst first."""


class ChaosError(Exception):
    """Anything that this tool reports as its own failure.

    ``str(error)`` is one line for the user; ``remedy`` says what to do about it. Both may quote what a cluster, a host
    or a program said: they are cleaned here.
    """

    exit_code = Exit.ERROR

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(clean(message))
        self.message = clean(message)
        self.remedy = None if remedy is None else clean(remedy)

    def __str__(self) -> str:
        return f"{self.message}; {self.remedy}" if self.remedy else self.message


class InvalidInput(ChaosError):
    """The user's definition, option or environment is wrong. Nothing has been started."""

    exit_code = Exit.USAGE


class Lacking(InvalidInput):
    """A fault needs what this lab cannot do here; the message has the lab's reason. Nothing has been started."""


class MissingPrerequisite(InvalidInput):
    """A program, right or file that this machine lacks; the remedy says how to get it."""


class Leftovers(InvalidInput):
    """Something of a dead run is still here; a new run refuses to start over it."""


class Dirty(ChaosError):
    """Something could not be undone, or taken away."""

    exit_code = Exit.DIRTY


class LabError(ChaosError):
    """The lab did not come up, or stopped doing what it is told."""


class FaultError(ChaosError):
    """A fault could not be injected, or one of its undos failed."""


class Unanswered(LabError, FaultError):
    """A request that changes something was sent, and no answer to it was seen: it may still be carried out."""


class NotOurs(FaultError):
    """What an undo found under its name was made by somebody else: it is left as it is, and of ours nothing is left."""


class ProvisionError(ChaosError):
    """A part could not be obtained, verified or put in place."""


class HistoryError(ChaosError):
    """A run's folder cannot be read as a history."""


class Aborted(ChaosError):
    """A guard, a signal or the user stopped the run."""

    exit_code = Exit.ABORTED


def said_by_opensearch(answer: Any) -> str | None:
    """The reason that an error of OpenSearch's REST API gives, in its own words; None where the answer has none."""
    error = answer.get("error") if isinstance(answer, dict) else None
    said = error.get("reason") if isinstance(error, dict) else error
    return None if said is None else str(said)
