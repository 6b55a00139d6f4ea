"""Whether the record is what the run wrote: nothing that rests on another one counts.

Runs of rules 2 are sealed when they end (:mod:`chaos.history.seal`). A file that differs, is missing or was added since
is an error, whatever the findings are. A run that ended and has no seal is inconclusive: nothing says that its record
is whole. A run whose runner died has no seal, and is judged as what is left of it. Runs of rules 1 have none.
"""

from __future__ import annotations

from chaos.checks.reasons import Cause, Outcome, Reason
from chaos.checks.record import Record

RULES = 2
"""The first rules under which a run is sealed."""


def reasons(record: Record) -> list[Reason]:
    """What is wrong with the record itself."""
    if (look := record.seal) is None:
        return []
    found = [Reason(Outcome.ERROR, Cause.RECORD, says) for says in look.broken if not _beneath(says, look.missing)]
    if look.missing and record.rules >= RULES:
        found.insert(0, Reason(Outcome.ERROR, Cause.RECORD, _missing(look.missing)))
    if record.recorded_rules >= RULES and not look.sealed and record.first("run.end") is not None:
        says = "The run ended and is not sealed (seal.json is missing): nothing says that its record is what it wrote"
        found.append(Reason(Outcome.INCONCLUSIVE, Cause.RECORD, says))
    return found


def no_end(record: Record) -> list[Reason] | None:
    """What stands for "the runner died" where the events have no end because somebody took it away; None: it died."""
    look = record.seal
    if look is None:
        return None
    if record.rules >= RULES and (look.broken or look.missing):
        return []  # reasons() says so
    if look.missing:
        return [Reason(Outcome.ERROR, Cause.RUNNER_DIED, _missing(look.missing))]
    return None


def _missing(names: tuple[str, ...]) -> str:
    return f"{names[0]} is missing from the run's folder: nothing says what happened in the run"


def _beneath(says: str, folders: tuple[str, ...]) -> bool:
    """Whether a sentence is of a file in a folder that is missing as a whole."""
    return any(says.startswith(f"{folder}/") or says.startswith(f"{folder} ") for folder in folders)
