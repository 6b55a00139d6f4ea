"""Did others take away an index of theirs whose copies were missing? Then nobody knows when the cluster had recovered.

What they do with indices that are green, and with those that they make meanwhile, neither fails a run nor passes it.
"""

from __future__ import annotations

from chaos.checks.evidence import Gap, Spoils
from chaos.checks.record import Record
from chaos.history import others
from chaos.history.events import OthersIndex


def gaps(record: Record) -> tuple[Gap, ...]:
    """Spoils what depends on time: how soon the cluster was well. What is said about our own documents stands."""
    return tuple(
        Gap(
            f"{_upper(others.sentence(event.keys()))} while it was {event.status}: whether it would have recovered "
            "nobody knows",
            event.t,
            Spoils.TIME,
        )
        for event in record.seen(OthersIndex)
        if event.status != "green"
    )


def _upper(words: str) -> str:
    return words[:1].upper() + words[1:]
