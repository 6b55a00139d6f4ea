"""Were searches of the load cancelled, and by whom? From the answers that the load driver counted.

``_tasks/_cancel`` in a loop makes searches fail, and the cluster does as it is told. Nothing of ours cancels tasks, so
what was cancelled by request, or for a reason that is not known here, may be an external actor's doing: what was
measured from then on is neither a weakness nor a pass. What the cluster cancels of itself is its own
(:mod:`chaos.history.cancelled`). So are answers without a known reason where the nodes' own counters say that search
backpressure cancelled as many in the same seconds, and no answer of the run names a request. No cancelled search loses
a document: a broken promise about data stands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from chaos.base import text
from chaos.checks.evidence import Gap
from chaos.checks.record import SECOND, Record
from chaos.history import cancelled
from chaos.history.cancelled import By

COUNTED_IN = SECOND
"""An event of the driver counts what came since the one before, about so long ago (ns)."""
COUNTERS = "protections.jsonl"
"""The file of the history with what nodes counted of their protections (:mod:`chaos.instruments.protections`)."""
OF_BACKPRESSURE = ("search_backpressure.search_task", "search_backpressure.search_shard_task")
"""The counters of what search backpressure cancelled: whole searches, and those of single shards."""
ANSWERED_IN = 5 * SECOND
"""A search that was cancelled is answered within so long after it (ns)."""


def gaps(record: Record) -> tuple[Gap, ...]:
    """From the first cancellation within the phases on, one for each who."""
    if record.rules < 2 or not record.spans:
        return ()
    found: dict[By, list[tuple[int, str, int, str | None]]] = {}
    for t, op, number, reason in _counted(record):
        if (who := cancelled.by(reason)) is not By.CLUSTER:
            found.setdefault(who, []).append((t, op, number, reason))
    if By.REQUEST not in found and (some := found.get(By.UNKNOWN)) and _explained(record, some):
        del found[By.UNKNOWN]
    return tuple(_gap(record, who, some) for who, some in found.items())


def _counted(record: Record) -> Iterator[tuple[int, str, int, str | None]]:
    """(When (ns), operation, how many, reason) of cancelled tasks while the phases lasted."""
    start, end = record.spans[0].start, record.spans[-1].end
    for event in record.driver:
        t = int(event.get("t", 0))
        if not start <= t < end + COUNTED_IN:
            continue
        for entry in event.get("errors") or ():
            if isinstance(entry, list) and len(entry) == 5 and entry[2] == cancelled.TYPE:
                yield t, str(entry[0]), int(entry[4]), entry[3]


def _explained(record: Record, some: list[tuple[int, str, int, str | None]]) -> bool:
    """Whether nodes counted, about the time of these answers, as many cancellations of search backpressure."""
    times = [t for t, *_ in some]
    first, last = min(times) - COUNTED_IN - ANSWERED_IN, max(times)
    own = 0
    for line in record.lines(COUNTERS):
        t, seconds, grew = int(line.get("t", 0)), line.get("seconds"), line.get("grew")
        if isinstance(seconds, int | float) and isinstance(grew, dict) and first <= t and t - seconds * SECOND <= last:
            own += sum(n for name in OF_BACKPRESSURE if isinstance(n := grew.get(name), int))
    return own >= sum(number for *_, number, _ in some)


def _gap(record: Record, who: By, some: list[tuple[int, str, int, str | None]]) -> Gap:
    by_op: Counter[str] = Counter()
    for _, op, number, _ in some:
        by_op[op] += number
    what = text.listed([text.plural(number, f"answer to {op}s", f"answers to {op}s") for op, number in by_op.items()])
    since = max(min(t for t, *_ in some) - COUNTED_IN, record.spans[0].start)
    a, b = ((t - record.origin) / SECOND for t in (since, max(t for t, *_ in some)))
    when = f"between {a:.1f} s and {b:.1f} s of the run"
    reason = next((reason for *_, reason in some if reason), None)
    if who is By.REQUEST:
        says = f"Somebody else cancelled tasks of the cluster (_tasks/_cancel): {what} said so, {when}"
    else:
        says = f"Tasks of the cluster were cancelled, and it cannot be told by whom: {what} said so, {when}"
    return Gap(f"{says} (“{text.clip(reason, 120)}”)" if reason else says, since)
