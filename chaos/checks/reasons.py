"""Why a run's outcome is what it is: every reason with its cause, what decides first.

The first reason is the one that everything on a first screen follows from: the headline, the advice, what CI shows
(:mod:`.plainly`, :mod:`chaos.report.answers`). So each reason says what kind it is, and nobody has to read its words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from chaos.checks.models import FindingsFile, ReasonItem


class Outcome(StrEnum):
    """The outcome of a run, worst first."""

    ERROR = "error"
    ABORTED = "aborted"
    WEAKNESS = "weakness"
    INCONCLUSIVE = "inconclusive"
    PASS = "pass"


class Cause(StrEnum):
    """What a reason is about. Of two of one outcome the first here decides."""

    RECORD = "record"
    """The record is not what the run wrote, or nothing says that it is (:mod:`chaos.checks.sealed`)."""
    ERROR = "error"
    """Something of ours raised an error."""
    RUNNER_DIED = "runner_died"
    REFUSED = "refused"
    """Requests of the load were refused as wrong (4xx) from the start: our mistake, or the user's."""
    CHECK_BROKEN = "check_broken"
    GUARD = "guard"
    ABORTED = "aborted"
    PROCESS = "process"
    """A process ended that nobody had asked to."""
    DISK = "disk"
    """A disk had too little room: this machine's, or one of a cluster that exists."""
    SETTINGS = "settings"
    """An external actor changed what steers the cluster or its links, cancelled tasks or wrote documents; or it was not
    watched whether one did."""
    FAULT = "fault"
    """A fault is not proven: to be in effect, to have held, to be gone."""
    STEP = "step"
    """A phase, a fault or an action of the plan did not happen."""
    NEVER_GOOD = "never_good"
    """An operation of the load was never good."""
    NEVER_SHOWN = "never_shown"
    """A check on data was never answered, or a stretch of it is missing."""
    TOO_LITTLE = "too_little"
    """The load wrote too little."""
    PUSHED = "pushed"
    """This machine pushed nodes out of the cluster."""
    INSTRUMENT = "instrument"
    """An instrument was not good enough."""
    DATA = "data"
    """A finding about data: lost, diverged, stale and their like."""
    DOCUMENTS = "documents"
    """Documents that should not be there, and that no expectation asks about."""
    USERS = "users"
    """A finding about reads or writes."""
    FINDING = "finding"
    """Any other finding."""
    NOTE = "note"
    """A weakness that the file calls known is gone."""
    NOTHING_EXPECTED = "nothing_expected"
    NO_READBACK = "no_readback"


OF_FINDINGS = (Cause.DATA, Cause.USERS, Cause.FINDING, Cause.NOTE)
"""Reasons that are findings; each names its own."""


@dataclass(frozen=True)
class Reason:
    """Why the outcome is not better than ``outcome``. ``finding``: the id of the finding that it is."""

    outcome: Outcome
    cause: Cause
    says: str
    finding: str | None = None

    def to_json(self) -> ReasonItem:
        return {"outcome": self.outcome.value, "cause": self.cause.value, "says": self.says, "finding": self.finding}


def ordered(reasons: Iterable[Reason], gravity: Callable[[Reason], int] = lambda _: 0) -> tuple[Reason, ...]:
    """The worst first; of one outcome and cause as they were given.

    ``gravity``: the place of a reason among those about data, whichever of the two causes it has; 0 is the gravest.
    """
    outcomes, causes = list(Outcome), list(Cause)

    def place(each: Reason) -> tuple[int, int, int]:
        about_data = each.cause in (Cause.DATA, Cause.DOCUMENTS)
        cause = Cause.DATA if about_data else each.cause
        return outcomes.index(each.outcome), causes.index(cause), gravity(each) if about_data else 0

    return tuple(sorted(reasons, key=place))


def deciding(findings: FindingsFile) -> ReasonItem | None:
    """The reason of findings.json that everything on a first screen follows from; None for a run that passed."""
    return next((each for each in findings["reasons"] if each["outcome"] == findings["outcome"]), None)
