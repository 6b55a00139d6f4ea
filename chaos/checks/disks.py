"""Was there room on this machine's disks, and did OpenSearch block writes for a full one that no fault of ours filled?

A disk with fewer free bytes than the nodes' watermarks need makes a lab refuse copies and writes: from then on nothing
that was measured is the cluster's, neither good nor bad. The block that OpenSearch sets beyond its flood stage
(``read_only_allow_delete``) tells the same where the disk was not sampled. Under a fault that fills a disk, or that
sets watermarks or the block itself, and for a minute after it, it is that fault. Else on a lab it is ours, or an
external actor's; on a cluster that exists it is the cluster's own disk, which is said beside what it did to writes.

Under rules 2, for runs whose plan says that it is recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chaos.base import text
from chaos.checks import evidence
from chaos.checks.evidence import Gap
from chaos.checks.record import SECOND, Record
from chaos.history import disks
from chaos.history.events import DisksBlocked, DisksFree, DisksWatched

DUE = "disks_watched"
EXISTING = "existing"
OF_DISKS, FILLS = "disk.", "disk.full"
"""How the kinds of fault on disks begin, and the one of them that fills a disk."""
NAMES = ("watermark", "read_only", "disk")
"""What the words of any other fault have in them when it sets watermarks or the block."""
AFTER = 60.0
"""Seconds after such a fault is gone in which OpenSearch may still set the block: it looks at disks every 30 s."""


def watched(record: Record) -> bool:
    return record.rules >= 2 and bool(record.plan.get(DUE))


def gaps(record: Record) -> tuple[Gap, ...]:
    """From when on nothing counts, and why. The runner's own disk loses no document of a cluster that exists."""
    if not watched(record):
        return ()
    found = sorted(_short(record))
    ours = not _exists(record)
    if ours:
        found += [(since, _on_lab(record, event)) for since, event in _unexplained(record)]
    found.sort(key=lambda each: each[0])
    first = [Gap(says, since, third_hand=ours) for since, says in found[:1]]
    what = "how full this machine's disks were"
    return (*first, *evidence.unwatched(record, DUE, disks.WATCHED, disks.UNWATCHED, what))


def short_since(record: Record) -> int | None:
    """From when on (ns) there was too little room; None: always enough, or not recorded."""
    return min((since for since, _ in _short(record)), default=None) if watched(record) else None


def weaknesses(record: Record, phases: Sequence[str | None]) -> tuple[str, ...]:
    """What is to be said of a cluster that exists whose own disk was full. ``phases``: those with a missed finding.

    Nothing where no expectation was missed: then it did no harm that anybody asked about.
    """
    if not watched(record) or not _exists(record):
        return ()
    spans = [record.span(phase) for phase in phases if phase is not None]
    return tuple(
        f"A disk of the cluster is beyond the flood stage: OpenSearch blocked writes to the load's index "
        f"(read_only_allow_delete) {_when(record, event)}, and no fault of this run fills a disk"
        for since, event in _unexplained(record)
        if any(span is not None and span.end > since for span in spans)
    )


def _exists(record: Record) -> bool:
    return str((record.plan.get("lab") or {}).get("kind")) == EXISTING


def _short(record: Record) -> Iterator[tuple[int, str]]:
    """The first time that each disk had too little room: since when that may be so (ns), and words."""
    first = next(iter(record.seen(DisksWatched)), None)
    samples = record.seen(DisksFree)
    for place in () if first is None else first.places or ():
        since, path = 0 if first is None else first.t, str(place["path"])
        for event in samples:
            left = (event.free or {}).get(path)
            if left is not None and int(left) < int(place["need"]):
                since = max(since, int(event.since or 0))  # more looks are taken than are written down
                at = (event.t - record.origin) / SECOND
                says = disks.sentence(place, int(left))
                yield since, f"{says[:1].upper()}{says[1:]} (seen {at:.1f} s into the run)"
                break
            since = event.t


def _unexplained(record: Record) -> list[tuple[int, DisksBlocked]]:
    """Each block of the load's index that no fault of ours explains: since when that may be so (ns), and its event."""
    faults = [fault for fault in evidence.faults(record) if _may_block(fault)]
    return [
        (int(event.since), event)
        for event in record.seen(DisksBlocked)
        if event.blocked is True
        and not any(fault.command <= event.t and int(event.since) <= _last(record, fault) for fault in faults)
    ]


def _may_block(fault: evidence.FaultRecord) -> bool:
    """Whether a fault fills a disk, or sets watermarks or the block."""
    if fault.kind.startswith(OF_DISKS):
        return fault.kind == FILLS
    return any(name in fault.says.lower() for name in NAMES)


def _last(record: Record, fault: evidence.FaultRecord) -> int:
    """Until when (ns) a block may still be of a fault."""
    return (fault.gone or fault.undo or record.last_seen) + int(AFTER * SECOND)


def _on_lab(record: Record, event: DisksBlocked) -> str:
    own = (record.plan.get("topology") or {}).get("disks")
    why = (
        "the disks that the topology gives its nodes are too small for this load" if own else "this machine's disk was"
    )
    why = why if own else f"{why} beyond the flood stage between two looks"
    return (
        f"OpenSearch blocked writes to the load's index (read_only_allow_delete) {_when(record, event)}, and no fault "
        f"of this run fills a disk: {why}, or an external actor set the block"
    )


def _when(record: Record, event: DisksBlocked) -> str:
    a, b = (text.seconds(record.since_start(int(at)) or 0.0) for at in (event.since, event.t))
    return f"between {a} and {b} of the run"
