"""A run's record: what is on disk (:mod:`.format`), writing it (:mod:`.writer`), reading it (:mod:`.reader`).

This package knows nothing of labs or faults, so a saved run can be judged and drawn again anywhere.
"""

from chaos.history.format import HISTORY_VERSION, Outcome
from chaos.history.reader import OUTCOMES, History, PhaseSpan, compact
from chaos.history.writer import EventWriter

__all__ = [
    "HISTORY_VERSION",
    "OUTCOMES",
    "EventWriter",
    "History",
    "Outcome",
    "PhaseSpan",
    "compact",
]
