"""Did an external actor change what the lab's Toxiproxies let pass? What was measured since then is not the cluster's.

A broken promise about data stands: no cluster may lose what it acknowledged because packets do not arrive. A record
from before this was watched says nothing about it.
"""

from __future__ import annotations

from chaos.base import text
from chaos.checks.evidence import Gap, unwatched
from chaos.checks.record import SECOND, Record
from chaos.history import passages

WHAT = "whether somebody else changed the Toxiproxies' proxies and toxics"
SILENT = 10.0
"""Seconds before the end of the phases from which on a Toxiproxy must have been seen."""


def gaps(record: Record) -> tuple[Gap, ...]:
    """Each change of an external actor, from the last moment at which it was not there; and a watch that broke."""
    if record.rules < 2:
        return ()
    changed = (Gap(_says(record, event), int(event["since"])) for event in record.of_kind(passages.CHANGED))
    blind = unwatched(record, "passages_watched", passages.WATCHED, passages.UNWATCHED, WHAT)
    return (*changed, *(blind or _unseen(record)))


def _says(record: Record, event: dict[str, object]) -> str:
    says = passages.sentence(event)
    a, b = ((int(str(event[key])) - record.origin) / SECOND for key in ("since", "t"))
    return f"{says[:1].upper()}{text.clip(says[1:], 200)}, between {a:.1f} s and {b:.1f} s of the run"


def _unseen(record: Record) -> list[Gap]:
    """A Toxiproxy that did not say what it lets pass: never, or not until the end of the phases."""
    over = record.first(passages.UNWATCHED)
    if over is None or not record.spans:
        return []
    last, host = over.get("last"), over.get("host")
    if last is None:
        return [Gap(f"The Toxiproxy of {host} never said what it lets pass", None)]
    if int(last) < record.spans[-1].end - SILENT * SECOND:
        return [Gap(f"From some time on the Toxiproxy of {host} did not say what it lets pass", int(last))]
    return []
