"""Requests: what nodes asked of an object store, how long it took, how it answered, and whether it kept what it took.

Each request is a row: by the record of the layer before the store, where the topology has one (what nodes saw of it),
else by the store's own log (what the store saw). Once a second the store's process is asked inside its own host, past
every fault, whether it answers. Before the lab goes away it is asked which keys it has. All that it acknowledged
and that was not taken away since must be there, by the same record: with a layer, what others took away past it is
missing too.

Lines of ``history/store_requests.jsonl``, ``t`` in CLOCK_MONOTONIC ns. Kind ``request``: ``at`` (when it ended),
``verb``, ``of`` (segments, translog, metadata, state, list, other), ``sent`` and ``got`` (bytes), ``status`` (null: no
answer), ``how`` (answered, status, cut, hung, left, unreachable) and ``ms``. Kind ``look``: ``ms`` until the store's
process answered (null: not within a second), ``waiting`` requests and since how many ms the ``oldest`` does, ``layer``
(whether the layer's own tick was there; null without one). Kind ``kept``: ``acknowledged`` keys, ``missing`` (how
many) and the ``first`` of them; or ``why`` it is not known.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from chaos.base import text
from chaos.base.errors import ChaosError
from chaos.checks.check import Check, Rests, Scope
from chaos.checks.evidence import Gap
from chaos.checks.instrument import Begins, Context, Ends, Event, Instrument, Observer, Trial
from chaos.checks.latency import QUANTILES, rank
from chaos.checks.measure import Bound, Measure
from chaos.checks.reasons import Cause
from chaos.checks.record import SECOND, Record, Span
from chaos.checks.section import Curve, Row, Section
from chaos.checks.words import Words
from chaos.definitions import Experiment
from chaos.history.writer import Broken, EventWriter

FILE = "store_requests.jsonl"
REQUEST, LOOK, KEPT = "request", "look", "kept"
PERIOD_SECONDS, TIMEOUT_SECONDS = 1.0, 1.0
TICK_SECONDS = 5.0
"""A layer that has not said for so long that it is there, is not."""
LIST_SECONDS = 30.0
REACH = 3 * PERIOD_SECONDS
"""For so long a look speaks: two may be missed."""
COVERED = 0.8
"""The share of a phase that must be known."""
SILENT_SECONDS = 3.0
"""A store that does not answer for longer was stopped by somebody, or its machine was: what was measured is not of the
cluster alone."""
WAITED_SECONDS = 3.0
"""A request that was under way for so long when a phase ended was not in flight when the next one's fault met it."""
NAMED = 5
"""Missing keys that are named."""
BYTES, RATE = 170, 120
"""Of a line, and how many requests a second are reckoned with."""
PARTS = ("segments", "translog", "metadata", "state", "list", "other")


class Asked(Protocol):
    """A record that grows (:mod:`chaos.targets.services.record`)."""

    layered: bool
    ticked: int | None
    waiting: tuple[int, int | None]

    def more(self) -> list[dict[str, Any]]: ...


class Expects(Protocol):
    """The keys that must be there, by what was asked and answered."""

    keys: set[str]
    taken: set[str]

    def add(self, rows: Iterable[dict[str, Any]]) -> None: ...
    def mark(self) -> None: ...


class Stores(Protocol):
    """What is needed of a lab with a store."""

    def requests(self, service: str) -> Asked: ...
    def expected(self, service: str) -> Expects: ...
    def keys(self, service: str, seconds: float) -> set[str]: ...
    def answers(self, service: str, seconds: float) -> float | None: ...


# -- observing ---------------------------------------------------------------------------------------


def part(verb: str, path: str) -> str:
    """What of remote-backed storage a request is about (see ``PATHS`` of the kinds ``store.*``)."""
    if "/cluster-state/" in path:
        return "state"
    if "/metadata/" in path:
        return "metadata"
    for name in ("segments", "translog"):
        if f"/{name}/data/" in path:
            return name
    return (
        "list"
        if verb == "GET" and not path.rstrip("/").rpartition("/")[2].count("_") and path.count("/") < 3
        else "other"
    )


class StoreRequests(Observer):
    """Reads the record in a thread of its own, from :meth:`start` to :meth:`stop`."""

    def __init__(self, lab: Stores, service: str, file: Path, broken: Broken) -> None:
        self._lab, self._service, self._file, self._broken = lab, service, file, broken
        self._events: EventWriter | None = None
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._asked, self._expected = self._lab.requests(self._service), self._lab.expected(self._service)
        self._events = EventWriter(self._file, self._broken)
        self._expected.add(self._asked.more())  # a lab that was used before has its keys already
        self._thread = threading.Thread(target=self._run, name="store requests", daemon=True)
        self._thread.start()

    def stop(self, *, patient: bool = True) -> None:
        if self._over.is_set():
            return
        self._over.set()
        if self._thread is not None and self._events is not None:
            self._thread.join()
            self._read()
            self._inventory(LIST_SECONDS if patient else TIMEOUT_SECONDS)
            self._events.close()

    def _run(self) -> None:
        while not self._over.wait(PERIOD_SECONDS):
            self._read()
            took = self._lab.answers(self._service, TIMEOUT_SECONDS)
            now, (waiting, oldest) = time.monotonic_ns(), self._asked.waiting
            ticked = self._asked.ticked
            layer = None if not self._asked.layered else ticked is not None and now - ticked < TICK_SECONDS * SECOND
            since = None if oldest is None else round((now - oldest) / 1e6)
            ms = None if took is None else round(took * 1000, 1)
            self._write(LOOK, ms=ms, waiting=waiting, oldest=since, layer=layer)

    def _read(self) -> None:
        rows = self._asked.more()
        self._expected.add(rows)
        for row in rows:
            about = {name: row[name] for name in ("verb", "sent", "got", "status", "how")}
            ms = round((row["end"] - row["t"]) / 1e6, 1)
            self._write(REQUEST, at=row["end"], of=part(row["verb"], row["path"]), ms=ms, **about)

    def _inventory(self, seconds: float) -> None:
        """What must be there now is held against what is; what was taken away meanwhile is left out."""
        wanted = set(self._expected.keys)
        self._expected.mark()
        try:
            there = self._lab.keys(self._service, seconds)
        except ChaosError as error:
            self._write(KEPT, why=str(error))
            return
        self._expected.add(self._asked.more())
        missing = sorted(wanted - there - self._expected.taken)
        self._write(KEPT, acknowledged=len(wanted), missing=len(missing), first=missing[:NAMED])

    def _write(self, kind: str, **fields: Any) -> None:
        assert self._events is not None
        with suppress(OSError):  # the run has been told (``broken``), and ends
            self._events.write(kind, **fields)


# -- judging -----------------------------------------------------------------------------------------


def _ended(record: Record) -> list[Event]:
    """All requests: each was written when it ended."""
    return [line for line in record.lines(FILE) if line.get("kind") == REQUEST and isinstance(line.get("at"), int)]


def requests(record: Record, span: Span) -> list[Event]:
    """Those that ended in a phase."""
    return [line for line in _ended(record) if span.holds(int(line["at"]))]


def looks(record: Record) -> list[Event]:
    """Those that were taken while the record was written: without a layer's tick nothing is known of requests."""
    found = [line for line in record.lines(FILE) if line.get("kind") == LOOK and line.get("layer") is not False]
    return sorted(found, key=lambda line: int(line["t"]))


def known(record: Record, span: Span) -> float:
    """The share of a phase of which some look speaks."""
    until, covered = span.start, 0
    for look in looks(record):
        start, end = max(until, int(look["t"]) - int(REACH * SECOND)), min(span.end, int(look["t"]))
        if end > start:
            covered += end - start
            until = end
    return covered / max(1, span.end - span.start)


def asked(record: Record, span: Span) -> list[Event]:
    """Those that ended in a phase, and those that had waited for long when it ended and were never answered: they would
    else count for the phase alone in which they were given up."""
    return [line for line in _ended(record) if span.holds(int(line["at"])) or _outlasted(line, span)]


def _outlasted(line: Event, span: Span) -> bool:
    return line.get("status") is None and int(line["at"]) >= span.end and _waited(line, span.end) >= WAITED_SECONDS


def _waited(line: Event, until: int) -> float:
    """For how many seconds a request had been under way at a moment; below 0: it began later."""
    return (until - int(line["at"])) / SECOND + float(line["ms"]) / 1000


def _timed(record: Record, span: Span) -> list[Event]:
    """As :func:`asked`, and those that had waited for long when the phase ended and were answered later: what was slow
    is the phase in which they waited. One that waited before the phase, and hardly in it, is of the phase before."""
    found = []
    for line in _ended(record):
        if span.holds(int(line["at"])):
            waited_before = _waited(line, span.start) >= WAITED_SECONDS and span is not record.spans[0]
            here = (int(line["at"]) - span.start) / SECOND >= WAITED_SECONDS
            if line.get("status") is None or here or not waited_before:
                found.append(line)
        elif int(line["at"]) >= span.end and _waited(line, span.end) >= WAITED_SECONDS:
            found.append(line)
    return found


def failed(line: Event) -> bool:
    """Whether a request came to nothing. That a key is not there (404) is an answer."""
    status = line.get("status")
    return line.get("how") != "answered" or status is None or (int(status) >= 400 and int(status) != 404)


def _unknown(record: Record, span: Span) -> str | None:
    if not looks(record):
        return "no requests to a store were recorded"
    share = known(record, span)
    return None if share >= COVERED else f"only {text.percent(min(1.0, share))} of this phase are known"


def number(record: Record, span: Span) -> Measure:
    """How many requests nodes sent."""
    if (why := _unknown(record, span)) is not None:
        return Measure.missing("count", why)
    found = requests(record, span)
    return Measure(float(len(found)), "count", f"requests to the store, {text.seconds(span.seconds)}")


def refused(record: Record, span: Span) -> Measure:
    """Which share of them came to nothing."""
    if (why := _unknown(record, span)) is not None:
        return Measure.missing("share", why)
    found = asked(record, span)
    if not found:
        return Measure.missing("share", "no request to the store ended in this phase")
    wrong = [line for line in found if failed(line)]
    return Measure(len(wrong) / len(found), "share", f"{len(wrong)} of {text.plural(len(found), 'request')}")


def slow(record: Record, span: Span) -> Measure:
    """Within what time 99 of 100 requests were answered. One without an answer is later than any: taken over the
    answered ones alone, it would fall when answers stop coming. For how long it waited is all that is known of it."""
    if (why := _unknown(record, span)) is not None:
        return Measure.missing("seconds", why)
    found = _timed(record, span)
    times = sorted(float(line["ms"]) for line in found if line.get("status") is not None)
    if not times:
        return Measure.missing("seconds", "no request to the store was answered in this phase")
    says = f"{text.count(len(times))} answered of {text.plural(len(found), 'request')}"
    place = rank(len(found), QUANTILES["p99"])
    if place > len(times):
        longest = max(float(line["ms"]) for line in found)
        return Measure(longest / 1000, "seconds", says, Bound.MORE_THAN)
    return Measure(times[place - 1] / 1000, "seconds", says)


def missing(record: Record) -> Measure:
    """How many keys that it had acknowledged the store had not at the end."""
    lines = [line for line in record.lines(FILE) if line.get("kind") == KEPT]
    if not lines or "missing" not in lines[-1]:
        why = str(lines[-1].get("why")) if lines else "the store was not asked for its keys at the end"
        return Measure.missing("count", why)
    last = lines[-1]
    says = f"of {text.plural(int(last['acknowledged']), 'acknowledged key')}"
    says += f", such as {', '.join(map(str, last['first']))}" if last["first"] else ""
    return Measure(float(last["missing"]), "count", says)


def silences(record: Record) -> list[tuple[int, int]]:
    """When the store's own process did not answer for longer than it may (ns, from and to)."""
    found: list[tuple[int, int]] = []
    since: int | None = None
    last = 0
    for line in record.lines(FILE):
        if line.get("kind") != LOOK:
            continue
        last = int(line["t"])
        if line.get("ms") is None:
            since = since if since is not None else last - int(TIMEOUT_SECONDS * SECOND)
        elif since is not None:
            found.append((since, last))
            since = None
    if since is not None:
        found.append((since, last))
    return [(start, end) for start, end in found if (end - start) / SECOND > SILENT_SECONDS]


def gaps(record: Record) -> list[Gap]:
    """No fault of ours keeps a store from answering in its own host."""
    return [
        Gap(
            f"The store's own process did not answer for {text.seconds((end - start) / SECOND)}, in its own host where "
            "no fault is on the way: an external actor stopped it, or this machine was too busy",
            start,
        )
        for start, end in silences(record)
    ]


def table(record: Record) -> dict[str, Any]:
    """Phase → figures, and of each part of the store; empty where there is no store."""
    if not looks(record):
        return {}
    rows = {}
    for span in record.spans:
        found = requests(record, span)
        parts = {name: [line for line in found if line.get("of") == name] for name in PARTS}
        rows[span.name] = {
            "requests": number(record, span).to_json(),
            "refused": refused(record, span).to_json(),
            "p99": slow(record, span).to_json(),
            "parts": {name: _part(lines) for name, lines in parts.items() if lines},
        }
    return rows


def _part(lines: Sequence[Event]) -> dict[str, Any]:
    statuses: dict[str, int] = {}
    for line in lines:
        name = str(line["status"]) if line.get("how") in ("answered", "status") else str(line.get("how"))
        statuses[name] = statuses.get(name, 0) + 1
    times = sorted(float(line["ms"]) for line in lines)
    return {
        "count": len(lines),
        "sent": sum(int(line["sent"]) for line in lines),
        "got": sum(int(line["got"]) for line in lines),
        "p50_ms": times[len(times) // 2],
        "max_ms": times[-1],
        "answers": dict(sorted(statuses.items())),
    }


def section(record: Record, tables: Mapping[str, Any]) -> Section | None:
    found = tables.get("store_requests")
    if not found or not record.spans:
        return None
    begin, end = record.spans[0].start, record.spans[-1].end
    rows = [
        Row(
            f"{phase}: {name}",
            (
                text.count(row["count"]),
                text.count(row["sent"]),
                text.count(row["got"]),
                f"{row['p50_ms']:.0f} ms, {row['max_ms']:.0f} ms",
                ", ".join(f"{count} {answer}" for answer, count in row["answers"].items()),
            ),
        )
        for phase, figures in found.items()
        for name, row in figures["parts"].items()
    ]
    kept = missing(record)
    return Section(
        id="store-requests",
        title="What nodes asked of the store",
        short="Store",
        says="Of each phase and each part of remote-backed storage: requests, bytes sent and got, the median and the "
        f"longest time, and how they were answered. Acknowledged keys that the store had not at the end: {kept.text} "
        f"({kept.says}).",
        gaps=" ".join(f"{gap.says}." for gap in gaps(record)),
        head=("Phase and part", "Requests#", "Sent#", "Got#", "Median, longest#", "Answers"),
        rows=tuple(rows),
        curves=(
            Curve("Requests to the store that came to an end", "/s", _curve(record, begin, end, lambda line: 1.0)),
            Curve("Those that came to nothing", "/s", _curve(record, begin, end, lambda line: float(failed(line)))),
            Curve("Longest wait of a request that is under way", "s", _waits(record, begin, end)),
        ),
        lasted=(end - begin) / SECOND,
        edges=tuple((span.name, (span.start - begin) / SECOND) for span in record.spans),
        small="By the layer that requests pass where the topology has one, else by the store's own log, which knows "
        "nothing of requests that never came to it. 404 counts as an answer.",
    )


def _curve(
    record: Record, begin: int, end: int, worth: Callable[[Event], float]
) -> tuple[tuple[float, float, float], ...]:
    """Second by second, of those of which something is known."""
    rates: dict[int, float] = {
        (int(look["t"]) - begin) // SECOND: 0.0 for look in looks(record) if begin <= look["t"] < end
    }
    for line in record.lines(FILE):
        if line.get("kind") == REQUEST and isinstance(line.get("at"), int) and begin <= line["at"] < end:
            second = (line["at"] - begin) // SECOND
            rates[second] = rates.get(second, 0.0) + worth(line)
    return tuple((float(at), at + 1.0, value) for at, value in sorted(rates.items()))


def _waits(record: Record, begin: int, end: int) -> tuple[tuple[float, float, float], ...]:
    inside = [(int(look["t"]) - begin, look) for look in looks(record) if begin <= look["t"] < end]
    return tuple((max(0.0, at / SECOND - 1), at / SECOND, float(look.get("oldest") or 0) / 1000) for at, look in inside)


def _check(
    metric: str, unit: str, measure: Any, missed: str, short: str, meaning: str, order: int, **more: Any
) -> Check:
    return Check(
        metric,
        unit,
        measure,
        Words.of(
            missed=f"{missed}{{inside}}; wanted was {{want}}",
            question=f"{short} were within bounds{{inside}}",
            promise=f"{short[0].upper()}{short[1:]}{{inside}}: {{want}}",
            short=short,
        ),
        meaning=meaning,
        helps=("headroom", "investigate"),
        order=order,
        of_service=True,
        **more,
    )


CHECKS = (
    _check(
        "store.requests",
        "count",
        lambda record, _, span: number(record, span),
        "Nodes sent {measured} requests to the store",
        "requests to the store",
        "How many requests of nodes to the object store came to an end. It says that a fault of the store had "
        "something to meet, and what a setting saves.",
        840,
        group="recovery",
        rests=Rests.DATA,
    ),
    _check(
        "store.failed",
        "percent",
        lambda record, _, span: refused(record, span),
        "{measured} of the requests to the store came to nothing",
        "requests to the store that came to nothing",
        "The share of requests to the object store that were answered with an error other than 404, or not at all. "
        "Nodes try most of them again, so that users may notice nothing.",
        841,
        group="recovery",
        rests=Rests.DATA,
        less_is_better=True,
    ),
    _check(
        "store.p99",
        "duration",
        lambda record, _, span: slow(record, span),
        "The store took up to {measured} for 99 of 100 answers",
        "answers of the store in time",
        "Within what time 99 of 100 requests to the object store were answered, unanswered ones counting as slower "
        "than any. A write waits for two of them or more.",
        842,
        group="recovery",
    ),
    _check(
        "store.missing",
        "count",
        lambda record, _, span: missing(record),
        "{measured} objects that the store had acknowledged were not in it at the end",
        "objects that the store has lost",
        "Objects that the store acknowledged and nobody asked it to delete, and that it did not list at the end. "
        "Copies on nodes hide this until one has to be restored from the store.",
        843,
        group="data",
        scope=Scope.RUN,
        rests=Rests.DATA,
    ),
)


# -- what the checks are tried by ----------------------------------------------------------------------


def _lines(each: int = 4, status: int | None = 200, ms: float = 8.0, gone: int = 0) -> Any:
    """``each``: requests in a second."""

    def lines(start: int, end: int) -> list[Event]:
        found: list[Event] = []
        for t in range(start, end + 1, SECOND):
            about = {
                "verb": "PUT",
                "of": "translog",
                "sent": 900,
                "got": 0,
                "status": status,
                "how": "answered",
                "ms": ms,
            }
            found += [{"t": t, "at": t, "kind": REQUEST, **about} for _ in range(each)]
            found.append({"t": t, "kind": LOOK, "ms": 2.0, "waiting": 0, "oldest": None, "layer": True})
        first = ["a/translog/data/1"] if gone else []
        return [*found, {"t": end, "kind": KEPT, "acknowledged": 90, "missing": gone, "first": first}]

    return lines


def _observe(context: Context) -> StoreRequests | None:
    stores = context.experiment.topology.service_hosts if context.existing is None else ()
    if not stores:
        return None
    return StoreRequests(context.lab, stores[0], context.folder / "history" / FILE, context.broken)


def _room(experiment: Experiment) -> float:
    return BYTES * (RATE + 1 / PERIOD_SECONDS) if experiment.topology.service_hosts else 0.0


INSTRUMENT = Instrument(
    name="store requests",
    says="what nodes ask of an object store, how it answers, and whether it keeps what it acknowledged",
    observe=_observe,
    begins=Begins.INDEX,
    ends=Ends.LAST,
    order=86,
    room=_room,
    file=FILE,
    checks=CHECKS,
    trials=(
        Trial("store.requests", ">= 20", _lines(), _lines(each=0)),
        Trial("store.failed", "<= 1%", _lines(), _lines(status=503)),
        Trial("store.p99", "<= 100ms", _lines(), _lines(ms=800.0)),
        Trial("store.missing", "0", _lines(), _lines(gone=3)),
    ),
    gaps={Cause.SETTINGS: gaps},
    tables={"store_requests": table},
    section=section,
)
