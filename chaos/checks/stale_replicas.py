"""Replicas that had not caught up with their primaries, where replicas copy segments.

With segment replication an acknowledged write is in the translog of each replica, and is shown by it once it has copied
the primary's segments. The read-back awaits that (``stale_after_s`` of ``readback.json``). A replica that is behind all
the same answers searches with what was there earlier, for as long as nothing is done about it. That is no lost write
(``acknowledged.lost`` is judged on the primary and on the replicas that have caught up), but no promise covers it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaos.base import text
from chaos.checks import coverage
from chaos.checks.check import Check, Rests, Scope
from chaos.checks.measure import Measure
from chaos.checks.record import Record
from chaos.checks.trial import Altered, Trial, read_back
from chaos.checks.words import Words


def measure(record: Record) -> Measure:
    """How many replicas were behind when they were to have caught up."""
    readback = record.readback
    if readback is None:
        return Measure.missing("count", "there is no read-back, so no replica was looked at")
    if "stale_count" not in readback:
        return Measure.missing("count", "no index of the load was read back as one of segment replication")
    stale, replicas = int(readback["stale_count"]), int(readback.get("replicas_count") or 0)
    within = text.seconds(float(readback.get("stale_after_s") or 0))
    named = list(readback.get("stale") or [])
    says = f"{text.count(stale)} of {text.plural(replicas, 'replica')} had not caught up within {within}"
    if named:
        says += f"; the first: {_words(named[0])}"
    gaps = [] if readback.get("complete") is True else ["the read-back is not complete"]
    gaps += [] if replicas else ["there was no replica"]
    gaps += coverage.unread_copies(record)
    return Measure.seen(stale, says, gaps, {"replicas": replicas, "stale": named})


def _words(replica: Mapping[str, Any]) -> str:
    """How far a replica is behind."""
    said = f"that of shard {replica.get('shard')} on {replica.get('node')}"
    if replica.get("checkpoints") is None:
        said += ", of which nothing says how far it is"
    else:
        said += (
            f", by {text.plural(int(replica['checkpoints']), 'checkpoint')} and "
            f"{text.count(int(replica.get('bytes') or 0))} bytes"
        )
    return said if replica.get("lacks") is None else f"{said}; it lacks {text.count(int(replica['lacks']))} documents"


def replicas_were_awaited(run: Altered) -> None:
    """The same run, whose index is of segment replication."""
    read_back(run, replicas_count=6, stale=[], stale_count=0, stale_after_s=60.0)


def one_replica_never_copied_what_its_primary_has(run: Altered) -> None:
    behind = {"shard": 0, "node": "b-data", "lacks": 40, "checkpoints": 3, "bytes": 81_000, "seconds": 61.2}
    read_back(run, stale=[behind], stale_count=1)


CHECKS = (
    Check(
        "replicas.stale",
        "count",
        lambda record, *_: measure(record),
        Words.of(
            missed="{measured} replicas did not catch up with their primaries; wanted was {want}",
            question="every replica caught up with its primary",
            promise="Replicas that do not catch up with their primaries: {want}",
            short="stale replicas",
        ),
        group="data",
        scope=Scope.RUN,
        rests=Rests.DATA,
        of_replicas=True,
        promise=True,
        meaning=(
            "Replicas that had not copied their primaries' segments a minute after the load was off, where replicas "
            "copy segments. Their searches show an earlier state, and they come back to the newest one only by copying."
        ),
        helps=("segment-pressure", "replication-type", "investigate"),
        order=206,
        trial=Trial("0", None, (one_replica_never_copied_what_its_primary_has,), given=(replicas_were_awaited,)),
    ),
)
