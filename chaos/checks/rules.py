"""By which rules a run is judged, and what the newest rules would say of one that was recorded under older ones.

What decides an outcome changes only with the number in a run's plan (:data:`chaos.history.format.RULES`), so an old run
keeps the verdict that somebody acted on. What has been learnt since is not hidden either: it is listed beside it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Protocol

from chaos.checks.models import RulesItem
from chaos.checks.reasons import Outcome, Reason
from chaos.checks.record import Record
from chaos.history.format import RULES


class Judged(Protocol):
    """What a verdict comes to."""

    @property
    def outcome(self) -> Outcome: ...

    @property
    def reasons(self) -> Sequence[Reason]: ...


def compared(record: Record, findings: Judged, evaluate: Callable[[Record], Judged]) -> RulesItem:
    """``findings`` are those of the run's own rules, ``evaluate`` judges a record by its number.

    A reason of the newest rules is new where the run has none of its outcome, cause and words.
    """
    said: RulesItem = {"judged_by": record.rules, "newest": RULES}
    if record.rules >= RULES:
        return said
    newest = evaluate(under(record, RULES))
    known = {(reason.outcome, reason.cause, reason.says) for reason in findings.reasons}
    added = [each for each in newest.reasons if (each.outcome, each.cause, each.says) not in known]
    return {**said, "would_be": newest.outcome.value, "would_add": [each.to_json() for each in added]}


def under(record: Record, rules: int) -> Record:
    """The same record as if it had been recorded under other rules."""
    other = copy.copy(record)
    other.rules = rules
    return other
