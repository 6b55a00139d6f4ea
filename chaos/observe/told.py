"""What clients were told of their documents, held against the copies.

A helper of a client library tells its caller what became of each document, or of none (:mod:`chaos.load.calls`). The
read-back knows which are there, and which twice. So the fates are told apart that a client cannot see: lost and not
told, told that it failed and there all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from chaos.history import History
from chaos.history.format import CallerTold
from chaos.observe.idsets import Ids

NAMED = 100
"""How many documents of each fate are named."""
SURE = (CallerTold.STORED, CallerTold.NOTHING)
"""A caller that was told so has no reason to send the document again."""
FAILED = (CallerTold.FAILED, CallerTold.RAISED)
"""A caller that was told so believes that the document is not there."""


def heard(history: History, stride: int) -> dict[CallerTold, Ids]:
    """The documents of helpers by what their caller was told; empty where no helper sent any."""
    if not len(history.told):
        return {}
    numbers, told = history.told.numbers(stride), history.told.outcome
    return {each: Ids({"w": numbers[told == each]}) for each in CallerTold}


def held_against(told: Mapping[CallerTold, Ids], there: Ids, twice: Ids, unknown: Ids) -> dict[str, Any]:
    """How many documents have which fate. ``there``: on some copy; ``twice``: more than once; ``unknown``: in shards
    that were not read."""
    fates: dict[str, dict[str, int]] = {}
    lost, present = Ids(), Ids()
    for each, ids in told.items():
        here, gone = ids & there, ids - there - unknown
        fates[each.name.lower()] = {
            "documents": len(ids),
            "there": len(here),
            "twice": len(ids & twice),
            "absent": len(gone),
            "unknown": len(ids - there) - len(gone),
        }
        lost |= gone if each in SURE else Ids()
        present |= here if each in FAILED else Ids()
    return {
        "fates": fates,
        "lost_untold": lost.first(NAMED),
        "lost_untold_count": len(lost),
        "told_failed_but_stored": present.first(NAMED),
        "told_failed_but_stored_count": len(present),
    }


def everything(told: Mapping[CallerTold, Ids]) -> Ids:
    """All documents that helpers were given."""
    numbers = [each.numbers("w") for each in told.values()]
    return Ids({"w": np.concatenate(numbers)}) if numbers else Ids()
