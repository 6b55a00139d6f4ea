"""Documents with ids that the load never makes: no cluster invents those, so an external actor wrote them (rules 2).

Ids of the load follow from the numbers of its arrivals (:mod:`chaos.base.ids`). A document of such an id that should
not be there is the cluster's: it was refused for sure, or never sent. Any other is somebody else's, is named, and makes
the run inconclusive, for who writes into the load's index may do more to it than that. A loss that stands beside it
stands: one more document takes away none. Searches of the load find them too, so a missed expectation that would hold
without the answers that were wrong is open.
"""

from __future__ import annotations

import copy
from typing import Any

from chaos.base import text
from chaos.base.ids import is_ours
from chaos.checks.evidence import Gap, Spoils
from chaos.checks.record import OUTCOMES, Record
from chaos.history.configuration import HAND

NAMED = 3
WRONG = OUTCOMES["wrong"]


def ids(record: Record) -> list[str]:
    """Those that the read-back names."""
    if record.rules < 2:
        return []
    return [str(each) for each in _named(record) if not is_ours(each)]


def count(record: Record) -> int:
    """How many there are; where the read-back did not count them and names only some, those that it names and, if all
    of these are somebody else's, the rest too."""
    if record.rules < 2 or record.readback is None:
        return 0
    known = record.readback.get("strangers_count")
    if isinstance(known, int):
        return known
    named, found = _named(record), ids(record)
    total = int(record.readback.get("unexpected_count") or 0)
    return total if found and len(found) == len(named) else len(found)


def says(record: Record) -> str | None:
    """``3 documents with ids that are not ours (x, y and z)``; None: there are none."""
    number, named = count(record), ids(record)
    if not number:
        return None
    shown = [text.clip(each, 40) for each in named[:NAMED]]
    more = [f"{text.count(number - len(shown))} more"] if number > len(shown) else []
    one, many = "document with an id that is not ours", "documents with ids that are not ours"
    return f"{text.plural(number, one, many)} ({text.listed([*shown, *more])})"


def reasons(record: Record) -> list[str]:
    """Why the run is not conclusive, in words."""
    found = says(record)
    return [f"{HAND[:1].upper()}{HAND[1:]} wrote into the load's index: {found}"] if found else []


def gaps(record: Record) -> tuple[Gap, ...]:
    """Searches find such documents too: an answer that was wrong may be the external actor's doing."""
    return tuple(
        Gap(each, None, Spoils.DATA, third_hand=True, may_break=("wrong.answers",)) for each in reasons(record)
    )


def without(record: Record) -> Record | None:
    """The record with every wrong answer as good, where there are such documents; None: there are none."""
    if not count(record) or not any(part.counts[WRONG].any() for part in record.arrivals.values()):
        return None
    other = copy.copy(record)
    other.arrivals = record.arrivals | {
        op.name: record.arrivals[op.name].forgiving(lambda part: part.outcome == WRONG, op.good_within)
        for op in record.operations
    }
    return other


def _named(record: Record) -> list[Any]:
    return list((record.readback or {}).get("unexpected") or [])
