"""Uploads: how far the store is behind the primaries, what failed on the way there, and what nodes tried again.

On remote-backed storage each data node is asked once a second for the uploads of the primaries that it holds
(``_remotestore/stats?local=true``), and every five seconds for what its clients counted of their requests
(``_nodes/_local/stats/repositories``), over the direct path, which no fault touches; when a phase begins or ends at
once. A node that does not answer within 1.5 s is given up; its next answer reaches back over the gap. A shard that a
node gets anew counts from 0 there, and so does a process: a node whose answer before is more than three seconds old is
asked for how long its process has been running.

Lines of ``history/remote_uploads.jsonl``, ``t`` in CLOCK_MONOTONIC ns when the answer was there, with ``node`` and
``seconds`` since its answer before (0: it is the first, and nothing is known of what grew). Kind ``uploads``:
``primaries`` (how many it holds), ``lag`` (s, of the primary whose last refresh has not been wholly in the store for
longest), ``index`` and ``shard`` of that one (null where none is behind), ``refreshes`` and ``bytes`` (the most that
one is behind), ``pending`` (uploads under way), and ``grew``: by how much ``segments`` and ``translog`` (uploads that
failed) and ``rejected`` (writes) grew, where they did. Kind ``requests``: ``grew``: the same of ``sent``, ``failed``,
``retried`` and ``ms``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3

from chaos.base import text
from chaos.checks.check import Check
from chaos.checks.headroom import data_nodes
from chaos.checks.instrument import Begins, Context, Ends, Event, Instrument, Observer, Trial
from chaos.checks.measure import Bound, Measure
from chaos.checks.record import SECOND, Record, Span
from chaos.checks.section import Curve, Row, Section
from chaos.checks.words import Words
from chaos.definitions import Experiment
from chaos.history.writer import Broken, EventWriter
from chaos.opensearch.cluster import Cluster
from chaos.opensearch.polling import Polling
from chaos.opensearch.remote_store import REQUESTS, UPTIME, Upload, requests, uploads, uploads_path, uptime
from chaos.opensearch.rest import UNREADABLE
from chaos.opensearch.reused import Reused

FILE = "remote_uploads.jsonl"
UPLOADS, ASKED = "uploads", "requests"
PERIOD_SECONDS, REQUESTS_SECONDS, TIMEOUT_SECONDS = 1.0, 5.0, 1.5
BYTES, REQUEST_BYTES = 200, 130
"""Of a node's line."""
REACH = 3 * PERIOD_SECONDS
"""For so long a look at the lag speaks: two may be missed."""
COVERED = 0.8
"""The share of a phase that must be known of a node."""
SILENT_SECONDS = 3.0
"""A node whose answer before is older may be another process by now; none begins in less."""
AROUND_SECONDS = 1.0
"""An answer may reach back so far beyond the begin of a phase, and what grew counts to it."""


# -- observing ---------------------------------------------------------------------------------------


def furthest(found: Sequence[Upload]) -> dict[str, Any]:
    """A line, from what a node says of its primaries."""
    behind = [each for each in found if each.seconds > 0]
    worst = max(behind, key=lambda each: each.seconds, default=None)
    return {
        "primaries": len(found),
        "lag": worst.seconds if worst is not None else 0.0,
        "index": worst.index if worst is not None else None,
        "shard": worst.shard if worst is not None else None,
        "refreshes": max((each.refreshes for each in found), default=0),
        "bytes": max((each.bytes for each in found), default=0),
        "pending": sum(each.pending for each in found),
    }


def grown(before: Mapping[Any, Mapping[str, int]], now: Mapping[Any, Mapping[str, int]]) -> dict[str, int]:
    """By how much counters grew in all, each of what it is about. One that fell, or is new, has begun at 0."""
    total: dict[str, int] = {}
    for what, counts in now.items():
        old = before.get(what, {})
        anew = any(count < old.get(name, 0) for name, count in counts.items())
        for name, count in counts.items():
            total[name] = total.get(name, 0) + count - (0 if anew else old.get(name, 0))
    return {name: count for name, count in total.items() if count}


class Uploads(Observer):
    """Asks every data node in threads of its own, from :meth:`start` to :meth:`stop`."""

    def __init__(self, lab: Cluster, indices: Callable[[], Sequence[str]], file: Path, broken: Broken) -> None:
        """``indices``: those that are kept in the store, when it starts."""
        self._lab, self._indices, self._file, self._broken = lab, indices, file, broken
        self._asking = Reused(lab)
        self._data = {node.name for node in lab.topology.data_nodes}
        self._before: dict[tuple[str, str], tuple[float, Mapping[Any, Mapping[str, int]]]] = {}
        self._lock = threading.Lock()
        self._polls: list[Polling] = []
        self._events: EventWriter | None = None

    def start(self) -> None:
        if not (indices := self._indices()):
            return
        self._events = EventWriter(self._file, self._broken)
        asked = ((uploads_path(indices), self._uploaded, PERIOD_SECONDS), (REQUESTS, self._asked, REQUESTS_SECONDS))
        self._polls = [
            Polling(
                self._lab, path, told, name="remote uploads", period=period, timeout=TIMEOUT_SECONDS, nodes=self._data
            )
            for path, told, period in asked
        ]
        for poll in self._polls:
            poll.start()

    def edge(self) -> None:
        for poll in self._polls:
            poll.soon()

    def stop(self, *, patient: bool = True) -> None:
        ended = [poll.stop(once_more=patient) for poll in self._polls]
        if any(ended) and self._events is not None:
            self._asking.end()
            self._events.close()

    def _uploaded(self, node: str, body: Any) -> None:
        found = uploads(body, time.time())  # the node's clock is this machine's
        self._write(UPLOADS, node, {(each.index, each.shard): each.counts for each in found}, **furthest(found))

    def _asked(self, node: str, body: Any) -> None:
        self._write(ASKED, node, {"all": requests(body)})

    def _write(self, kind: str, node: str, now: Mapping[Any, Mapping[str, int]], **more: Any) -> None:
        moment = time.monotonic()
        with self._lock:
            before, self._before[kind, node] = self._before.get((kind, node)), (moment, now)
        seconds = 0.0 if before is None else moment - before[0]
        grew = {} if before is None else grown({} if self._is_another(node, seconds) else before[1], now)
        assert self._events is not None
        fields: dict[str, Any] = more | ({"grew": grew} if grew else {})
        with suppress(OSError):  # the run has been told (``broken``), and ends
            self._events.write(kind, node=node, seconds=round(seconds, 3), **fields)

    def _is_another(self, node: str, seconds: float) -> bool:
        """Whether a node is another process than so many seconds ago, as far as it says."""
        if seconds <= SILENT_SECONDS:
            return False
        client = self._asking.client(node, timeout=TIMEOUT_SECONDS)
        try:
            status, body = client.request("GET", UPTIME)
            return status == 200 and uptime(body) < seconds
        except (urllib3.exceptions.HTTPError, *UNREADABLE):
            return False
        finally:
            client.close()


# -- judging -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Look:
    """One answer of one node. Times in ns; ``start``: of its answer before."""

    node: str
    start: int
    t: int
    line: Mapping[str, Any]

    def grew(self, *names: str) -> int:
        counts = self.line.get("grew")
        return sum(int(counts.get(name, 0)) for name in names) if isinstance(counts, Mapping) else 0


def looks(record: Record, kind: str) -> list[Look]:
    """Those that are whole, by time: a record may have been cut anywhere."""
    found = []
    for line in record.lines(FILE):
        seconds, lag = line.get("seconds"), line.get("lag", 0.0)
        whole = isinstance(seconds, int | float) and isinstance(lag, int | float)
        if line.get("kind") == kind and whole and line.get("node") in record.zone_of:
            start = int(line["t"]) - round(float(seconds or 0) * SECOND)
            found.append(Look(str(line["node"]), start, int(line["t"]), line))
    return sorted(found, key=lambda look: look.t)


def unknown(record: Record, every: Sequence[Look], span: Span, reach: float) -> list[str]:
    """The data nodes of which too little of a phase is known; an answer speaks of ``reach`` seconds before it."""
    found = []
    for node in data_nodes(record):
        until, covered = span.start, 0
        for look in (each for each in every if each.node == node):
            start, end = max(until, look.t - round(reach * SECOND)), min(span.end, look.t)
            if end > start:
                covered += end - start
                until = end
        if covered < COVERED * (span.end - span.start):
            found.append(node)
    return found


def _of(nodes: Sequence[str]) -> str:
    return f"of {text.listed(list(nodes))} too little of this phase is known"


def lag(record: Record, span: Span) -> Measure:
    """The longest that a primary's last refresh was not wholly in the store. Of a node that was not heard more may be
    behind."""
    every = looks(record, UPLOADS)
    if not every:
        return Measure.missing("seconds", "no node was asked about its uploads to a store")
    inside, silent = [look for look in every if span.holds(look.t)], unknown(record, every, span, REACH)
    if not inside or len(silent) == len(data_nodes(record)):
        return Measure.missing("seconds", _of(silent))
    worst = max(inside, key=lambda look: float(look.line.get("lag", 0)))
    where = f"shard {worst.line.get('shard')} of {worst.line.get('index')} on {worst.node}, "
    says = f"{where if worst.line.get('index') else 'no primary was behind, '}in {text.plural(len(inside), 'look')}"
    evidence = {"looks": len(inside)}
    if silent:
        return Measure(float(worst.line["lag"]), "seconds", f"{says}; {_of(silent)}", Bound.AT_LEAST, evidence)
    if (share := _reported(record, every, inside)) < COVERED:
        says += f"; of all primaries {text.percent(share)} of the looks speak"
        return Measure(float(worst.line["lag"]), "seconds", says, Bound.AT_LEAST, evidence)
    return Measure(float(worst.line["lag"]), "seconds", says, evidence=evidence)


def _reported(record: Record, every: Sequence[Look], inside: Sequence[Look]) -> float:
    """The share of a phase's looks at which all nodes together reported as many primaries as they ever had by then. A
    record of before primaries were counted says nothing of it: 1."""
    if not all("primaries" in look.line for look in every):
        return 1.0
    planned = sum(int(each.get("shards") or 0) for each in record.of_kind("index.shape"))
    wanted, whole, held = 0, 0, dict[str, Look]()
    phase = {id(look) for look in inside}
    for look in every:
        held[look.node] = look
        recent = [each for each in held.values() if look.t - each.t <= round(REACH * SECOND)]
        reported = sum(int(each.line["primaries"]) for each in recent)
        # a node that was lost and the one that took over may both have reported a primary within the reach
        wanted = max(wanted, min(reported, planned) if planned else reported)
        whole += id(look) in phase and reported >= wanted > 0
    return whole / len(inside)


def counted(record: Record, span: Span, kind: str, *names: str) -> Measure:
    """By how much counters of nodes grew in a phase."""
    every = looks(record, kind)
    if not every:
        return Measure.missing("count", "no node was asked about its uploads to a store")
    inside = [look for look in every if span.holds(look.t)]
    early = span.start - round(AROUND_SECONDS * SECOND)
    around = sum(look.grew(*names) for look in inside if look.start < early)
    number = sum(look.grew(*names) for look in inside if look.start >= early)
    silent = unknown(record, every, span, 2 * REQUESTS_SECONDS if kind == ASKED else REACH)
    gaps = [_of(silent)] if silent else []
    gaps += [f"{around} more may be of the phase before"] if around else []
    says = f"by the nodes' own counters, in {text.plural(len(inside), 'look')}"
    return Measure.seen(number, says, gaps, {"looks": len(inside)})


def failures(record: Record, span: Span) -> Measure:
    return counted(record, span, UPLOADS, "segments", "translog")


def rejected(record: Record, span: Span) -> Measure:
    return counted(record, span, UPLOADS, "rejected")


def retried(record: Record, span: Span) -> Measure:
    return _of_clients(record, span, "retried")


def _of_clients(record: Record, span: Span, name: str) -> Measure:
    """Where clients have counted nothing in the whole run they do not count, as with a folder: 0 would say nothing."""
    every = looks(record, ASKED)
    if every and not any(look.grew("sent", "failed") for look in every):
        return Measure.missing("count", "nodes counted no request to a store: they do so for an object store alone")
    return counted(record, span, ASKED, name)


def table(record: Record) -> dict[str, Any]:
    """Phase → figures; empty where no node was asked."""
    if not looks(record, UPLOADS):
        return {}
    rows = {}
    for span in record.spans:
        inside = [look for look in looks(record, UPLOADS) if span.holds(look.t)]
        rows[span.name] = {
            "lag": lag(record, span).to_json(),
            "pending": max((int(look.line.get("pending", 0)) for look in inside), default=None),
            "bytes": max((int(look.line.get("bytes", 0)) for look in inside), default=None),
            "failed": failures(record, span).to_json(),
            "rejected": rejected(record, span).to_json(),
            "sent": _of_clients(record, span, "sent").to_json(),
            "retried": retried(record, span).to_json(),
        }
    return rows


def section(record: Record, tables: Mapping[str, Any]) -> Section | None:
    found = tables.get("remote_uploads")
    if not found or not record.spans:
        return None
    begin, end = record.spans[0].start, record.spans[-1].end
    rows = tuple(
        Row(
            phase,
            (
                row["lag"]["text"],
                _count(row["pending"]),
                _count(row["bytes"]),
                *(row[name]["text"] for name in ("failed", "rejected", "sent", "retried")),
                row["lag"]["says"],
            ),
        )
        for phase, row in found.items()
    )
    return Section(
        id="remote-uploads",
        title="How far the store was behind the primaries",
        short="Uploads",
        says="Of each phase: for how long at most a primary's last refresh was not wholly in the store, uploads under "
        "way at once on one node and bytes that one primary had still to upload, at most; uploads that failed, writes "
        "that were rejected for it, and requests to the store that nodes counted as answered well and as tried again.",
        head=("Phase", "Lag#", "Under way#", "Bytes#", "Failed#", "Rejected#", "Requests#", "Again#", "Which"),
        rows=rows,
        curves=(
            Curve("Lag of the store behind the primary that is furthest ahead", "s", _worst(record, begin, end, "lag")),
            Curve("Uploads under way on one node, at most", "", _worst(record, begin, end, "pending")),
        ),
        lasted=(end - begin) / SECOND,
        edges=tuple((span.name, (span.start - begin) / SECOND) for span in record.spans),
        small="By the nodes themselves (_remotestore/stats each second, _nodes/stats/repositories every five), over "
        "the direct path. Stores of kind fs count no requests.",
    )


def _count(value: int | None) -> str:
    return text.NO_VALUE if value is None else text.count(value)


def _worst(record: Record, begin: int, end: int, what: str) -> tuple[tuple[float, float, float], ...]:
    """Second by second, of those in which some node answered."""
    worst: dict[int, float] = {}
    for look in looks(record, UPLOADS):
        if begin <= look.t < end:
            second = (look.t - begin) // SECOND
            worst[second] = max(worst.get(second, 0.0), float(look.line.get(what, 0)))
    return tuple((float(at), at + 1.0, value) for at, value in sorted(worst.items()))


def _check(
    metric: str,
    unit: str,
    measure: Callable[[Record, Span], Measure],
    missed: str,
    short: str,
    meaning: str,
    order: int,
) -> Check:
    return Check(
        metric,
        unit,
        lambda record, _, span: measure(record, span),
        Words.within_bounds(missed, short),
        group="recovery",
        meaning=meaning,
        helps=("headroom", "investigate"),
        order=order,
    )


SILENT = "Where a data node is not heard for a fifth of a phase more may be hidden there: then no upper limit is met."
CHECKS = (
    _check(
        "store.refresh_lag",
        "duration",
        lag,
        "The store was {measured} behind a primary",
        "lag of the store behind primaries",
        "For how long at most what a primary had refreshed was not wholly in the store. Replicas show it no earlier, "
        f"and the next refresh of that primary waits. {SILENT}",
        844,
    ),
    _check(
        "store.upload_failures",
        "count",
        failures,
        "{measured} uploads to the store failed",
        "number of uploads to the store that failed",
        "Uploads of segments and translogs that failed for good, by the nodes' own counts: their clients had tried "
        f"again in vain. {SILENT}",
        845,
    ),
    _check(
        "store.rejected",
        "count",
        rejected,
        "{measured} writes were rejected because the store was behind",
        "number of writes rejected because the store was behind",
        "Writes that primaries rejected (429) because too many uploads of their segments had failed or were too far "
        f"behind (remote_store.segment.pressure), by the nodes' own counts. It says that this pressure acted. {SILENT}",
        846,
    ),
    _check(
        "store.retries",
        "count",
        retried,
        "Nodes tried {measured} requests to the store again",
        "number of requests to the store that were tried again",
        "Requests to the object store that the nodes' clients tried again, by their own counts. Users see them as "
        f"delay alone. {SILENT}",
        847,
    ),
)


# -- what the checks are tried by ----------------------------------------------------------------------


def _lines(seconds: float = 0.4, failed: int = 0, refused: int = 0, again: int = 0) -> Any:
    """``failed``, ``refused`` and ``again``: by each of three nodes in each look."""

    def lines(start: int, end: int) -> list[Event]:
        found: list[Event] = []
        behind = {"lag": seconds, "index": "chaos", "shard": 1, "refreshes": 1, "bytes": 20_000, "pending": 1}
        for number, t in enumerate(range(start, end + 1, int(PERIOD_SECONDS * SECOND))):
            for node in ("a-data", "b-data", "c-data"):
                about = {"node": node, "seconds": PERIOD_SECONDS if number else 0.0}
                grew = {"grew": {"segments": failed, "rejected": refused}}
                found.append({"t": t, "kind": UPLOADS, "primaries": 1, **about, **behind, **grew})
                found.append({"t": t, "kind": ASKED, **about, "grew": {"sent": 9, "retried": again}})
        return found

    return lines


def _observe(context: Context) -> Uploads | None:
    if context.experiment.topology.remote_store is None or context.existing is not None:
        return None
    return Uploads(context.lab, lambda: context.indices, context.folder / "history" / FILE, context.broken)


def _room(experiment: Experiment) -> float:
    if experiment.topology.remote_store is None:
        return 0.0
    nodes = len(experiment.topology.data_nodes)
    return nodes * (BYTES / PERIOD_SECONDS + REQUEST_BYTES / REQUESTS_SECONDS)


INSTRUMENT = Instrument(
    name="remote uploads",
    says="how far an object store is behind the primaries, what failed on the way there, and what nodes tried again",
    observe=_observe,
    begins=Begins.INDEX,
    ends=Ends.LOAD,
    order=84,
    room=_room,
    file=FILE,
    checks=CHECKS,
    trials=(
        Trial("store.refresh_lag", "<= 5s", _lines(), _lines(seconds=20.0)),
        Trial("store.upload_failures", "0", _lines(), _lines(failed=2)),
        Trial("store.rejected", "0", _lines(), _lines(refused=2)),
        Trial("store.retries", "0", _lines(), _lines(again=2)),
    ),
    tables={"remote_uploads": table},
    section=section,
)
