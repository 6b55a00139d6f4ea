"""An experiment that ended inconclusive, made once more: visibly, and within a budget of time.

Only *inconclusive* is made again, and only from a run that left nothing behind. A weakness never gets a second
chance, nor does a run that was aborted, ended in an error or left dirt. The second run differs from the first in
nothing (the same plan, the same seed) and has a lab of its own unless the lab is the user's. Its verdict is the one
that counts, whatever it is; both runs stay, and the second names the first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from chaos.base import text
from chaos.base.errors import Exit, InvalidInput
from chaos.definitions import Duration
from chaos.run.options import RunResult

OPTION = "--retry-inconclusive"


@dataclass
class Retries:
    """``budget``: seconds that all second runs of this command may cost together. ``option``: as the user knows it."""

    budget: float
    option: str = OPTION
    spent: float = 0.0
    runs: int = 0
    """Experiments that were run to an end, each counted once."""
    repeated: int = 0
    told: list[str] = field(default_factory=list)
    """What was done about each inconclusive run, and why."""

    @classmethod
    def parse(cls, given: str, option: str = OPTION) -> Retries:
        """Raises :class:`InvalidInput` for what is no duration above 0."""
        try:
            budget = Duration.parse(given)
        except InvalidInput as error:
            raise InvalidInput(f"{option} {given}: {error.message}") from None
        if budget <= 0:
            raise InvalidInput(f"{option} {given}: nothing can be repeated in no time", remedy="for example 10m")
        return cls(float(budget), option)

    @property
    def left(self) -> float:
        return max(0.0, self.budget - self.spent)

    @property
    def words(self) -> str:
        """``8 min of 20 min left``."""
        return f"{text.seconds(round(self.left))} of {text.seconds(self.budget)} left"

    @property
    def tally(self) -> str:
        """How many were made again, for the end of it all."""
        return f"{self.repeated} of {text.plural(self.runs, 'experiment')} repeated ({self.option}, {self.words})"


def may_be_repeated(result: RunResult) -> bool:
    """Inconclusive, clean and not stopped by anybody."""
    findings = result.findings
    code = findings.get("exit_code", Exit.INCONCLUSIVE)
    inconclusive = findings.get("outcome") == "inconclusive" and code == Exit.INCONCLUSIVE
    return inconclusive and result.clean and not result.stopped


def first(result: RunResult, seconds: float, retries: Retries) -> dict[str, Any]:
    """What the second run's plan says of the first."""
    return {
        "run": result.folder.name,
        "outcome": "inconclusive",
        "says": str(result.findings.get("summary") or ""),
        "seconds": round(seconds, 1),
        "option": retries.option,
    }


def runs(
    name: str,
    one: Callable[[dict[str, Any] | None], RunResult],
    retries: Retries | None,
    says: Callable[[str], None],
    refused: Callable[[], str | None] = lambda: None,
) -> Iterator[RunResult]:
    """The experiment's run, and a second one if the first is to be repeated. The last is the one that counts.

    ``one`` makes a run; it is given what the second says of the first. ``says`` is told what is done about an
    inconclusive run, and why. ``refused``: why no second run can be made now, for example a lab that is not as it was.
    """
    began = time.monotonic()
    result = one(None)
    seconds = time.monotonic() - began
    if retries is not None:
        retries.runs += 1
    yield result
    if retries is None or not may_be_repeated(result):
        return
    why = refused()
    if seconds > retries.left:
        why = f"it took {text.seconds(round(seconds))}, and there are {retries.words}"
    done = f"not repeated ({retries.option}: {why})" if why else f"repeated once ({retries.option}, {retries.words})"
    line = f"{name}: inconclusive: {result.findings.get('summary')}; {done}"
    retries.told.append(line)
    says(line)
    if why:
        return
    retries.repeated += 1
    began = time.monotonic()
    try:
        again = one(first(result, seconds, retries))
    finally:
        retries.spent += time.monotonic() - began
    yield again
