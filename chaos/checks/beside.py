"""Were the experiment's programs (``programs``) there for all phases, and did each end in order?

One that was not begun, that ended with another code than 0, or that had to be ended was no client of the whole run:
from its begin on nothing that was measured is of what the experiment describes.
"""

from __future__ import annotations

from chaos.base import text
from chaos.checks.evidence import Gap
from chaos.checks.record import Record
from chaos.history.events import ProgramBegun, ProgramOver


def gaps(record: Record) -> tuple[Gap, ...]:
    """Of the programs that were planned, those of which nothing can be concluded."""
    begun = {event.name: event for event in record.seen(ProgramBegun)}
    over = {event.name: event for event in record.seen(ProgramOver)}
    found = []
    for name in (record.plan.get("experiment") or {}).get("programs") or {}:
        began, ended = begun.get(name), over.get(name)
        if began is None:
            found.append(Gap(f"the program {text.clip(name, 60)} was not begun", None))
        elif ended is None or ended.ok is not True:
            why = "it has no end" if ended is None else str(ended.says or "it failed")
            found.append(Gap(f"the program {text.clip(name, 60)}: {text.clip(why, 200)}", began.t))
    return tuple(found)
