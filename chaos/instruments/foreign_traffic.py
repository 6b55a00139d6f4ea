"""Samples what others do on a cluster that is not ours while a run lasts: searches and indexing of all other indices.

Every two seconds one address that has a cluster manager is asked for the counters of every copy of a shard
(:mod:`chaos.opensearch.foreign`). Lines of ``history/foreign.jsonl``, ``t`` in CLOCK_MONOTONIC ns when the answer was
there; no line names a node or an index:

* ``grown``: what was done since the answer before, ``seconds`` ago: ``searches`` (of shards) with ``search_ms`` of all
  of them together, ``documents`` (each once), ``indexed`` (on every copy) with ``index_ms``, ``failed``; by how many
  ``copies`` and ``nodes``; ``unheard``: nodes that did not answer; ``ms``: what the question took;
* ``missing``: nobody answered, and ``says`` why. The next ``grown`` reaches back over it;
* ``baseline``: before the run did anything, from ``since`` to ``t``: see :mod:`chaos.instruments.neighbour_impact`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import urllib3

from chaos.base import text
from chaos.base.errors import InvalidInput
from chaos.base.netsock import Endpoint
from chaos.checks import theirs
from chaos.checks.instrument import Begins, Context, Ends, Instrument, Observer, Traffic
from chaos.checks.record import SECOND, Record
from chaos.checks.section import Curve, Row, Section
from chaos.checks.theirs import AFTER, BEFORE, WARM_UP
from chaos.definitions.existing import Existing
from chaos.history import EventWriter
from chaos.history.writer import Broken
from chaos.opensearch.foreign import COUNTERS, PERIOD_SECONDS, WHO, Counted, Grown, counted, grown, not_of
from chaos.opensearch.rest import UNREADABLE, NodeClient, short

FILE = "foreign.jsonl"
WHO_SECONDS, COUNTERS_SECONDS = 1.5, 3.0
"""How long one may take; nodes are waited for by OpenSearch for one second."""
AT_ONCE = 8
ALONE = "has no cluster manager"
Get = Callable[[str, float], tuple[int, Any]]
"""(path, seconds) → status and decoded body. Raises ``urllib3.exceptions.HTTPError``."""


@dataclass(frozen=True)
class Way:
    """One address: its name for people, and how it is asked."""

    address: str
    get: Get


class Unheard(Exception):
    """Nobody says what others do."""


@contextmanager
def ways_to(target: Existing) -> Iterator[tuple[Way, ...]]:
    """Every address of a file, its endpoints first."""
    addresses = dict.fromkeys((*target.written.addresses, *target.written.of_nodes.values()))
    nodes = {address: node for node, address in target.written.of_nodes.items()}
    bound = target.bound
    clients = [
        (str(each), NodeClient(Endpoint(each.host, each.port), access=access, timeout=COUNTERS_SECONDS))
        for each in addresses
        for access in [bound.only(nodes[each]) if each in nodes else bound]
    ]
    try:
        yield tuple(Way(address, _get(client)) for address, client in clients)
    finally:
        for _, client in clients:
            client.close()


def _get(client: NodeClient) -> Get:
    return lambda path, seconds: client.request("GET", path, timeout=seconds)


def why_not(target: Existing) -> str | None:
    """Why what others do there cannot be sampled now; None where it can."""
    with ways_to(target) as ways, closing(Asking(ways, target)) as asking:
        try:
            asking.ask()
        except Unheard as error:
            return str(error)
    return None


class Asking:
    """Finds the address to ask, and remembers it."""

    def __init__(self, ways: Sequence[Way], target: Existing) -> None:
        self._ways, self._uuid = list(ways), target.written.identity.cluster_uuid
        self._foreign = not_of(target.written.prefix, target.written.notes)
        self._pool = ThreadPoolExecutor(AT_ONCE, "foreign")

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def ask(self) -> Counted:
        """Whoever answered last is asked first, and where it does not all others at the same time. Raises Unheard.

        Where no node at all has a cluster manager, whoever answered last still knows who was in the cluster.
        """
        first, *others = self._ways
        why = self._not_led(first)
        if why is not None:
            asked: dict[Future[str | None], Way] = {self._pool.submit(self._not_led, way): way for way in others}
            led = next((asked[done] for done in as_completed(asked) if done.result() is None), None)
            if led is None and not why.endswith(ALONE):
                raise Unheard(why)
            led = led or first
            self._ways = [led, *(way for way in self._ways if way is not led)]
        return self._counted(self._ways[0])

    def _not_led(self, way: Way) -> str | None:
        """Why this address is not to be asked."""
        try:
            status, state = way.get(WHO, WHO_SECONDS)
            if status != 200:
                return f"{way.address} answered {status}"
            if state["cluster_uuid"] != self._uuid:
                return f"at {way.address} is another cluster"
            led = state.get("cluster_manager_node") or state.get("master_node")
        except urllib3.exceptions.HTTPError as error:
            return f"{way.address}: {short(error)}"
        except UNREADABLE:
            return f"{way.address} answered something that cannot be read"
        return None if led else f"{way.address} {ALONE}"

    def _counted(self, way: Way) -> Counted:
        try:
            status, answer = way.get(COUNTERS, COUNTERS_SECONDS)
            if status == 200:
                return counted(answer, self._foreign)
            why = f"answered {status}"
        except urllib3.exceptions.HTTPError as error:
            why = short(error)
        except UNREADABLE:
            why = "answered something that cannot be read"
        self._ways = [*self._ways[1:], way]
        raise Unheard(f"{way.address}, for the counters of its shards: {why}")


class Sampled(Observer, Traffic):
    """Runs in a thread of its own from :meth:`start` to :meth:`stop`.

    ``grown``: what was seen so far, each with when it ended (``time.monotonic``); it only gets longer.
    """

    def __init__(self, target: Existing, file: Path, broken: Broken) -> None:
        self._target, self._file, self._broken = target, file, broken
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="foreign", daemon=True)
        self._writer: EventWriter | None = None
        self.grown: list[tuple[float, Grown]] = []
        self.heard = 0.0
        self.why: str | None = None

    def start(self) -> None:
        self._writer = EventWriter(self._file, self._broken)
        self.heard = time.monotonic()
        self._thread.start()

    def stop(self, *, patient: bool = True) -> None:
        """Idempotent."""
        if self._thread.ident is None or self._over.is_set():
            return
        self._over.set()
        self._thread.join()
        assert self._writer is not None
        self._writer.close()

    def alive(self) -> bool:
        return self._thread.is_alive()

    def note(self, kind: str, **fields: Any) -> None:
        """A line of somebody else in the same file."""
        assert self._writer is not None
        self._writer.write(kind, **fields)

    def _run(self) -> None:
        with suppress(OSError), ways_to(self._target) as ways, closing(Asking(ways, self._target)) as asking:
            before: tuple[float, Counted] | None = None
            while not self._over.is_set():
                began = time.monotonic()
                before = self._once(asking, before) or before
                self._over.wait(max(0.1, PERIOD_SECONDS - (time.monotonic() - began)))

    def _once(self, asking: Asking, before: tuple[float, Counted] | None) -> tuple[float, Counted] | None:
        began = time.monotonic()
        try:
            now = asking.ask()
        except (Unheard, InvalidInput) as error:
            self._missing(str(error))
            return None
        except Exception as error:  # one that dies in silence would look like calm
            self._missing(f"{type(error).__name__}: {error}")
            return None
        at = time.monotonic()
        if before is not None:
            more = grown(before[1], now, round(at - before[0], 3))
            took = round((at - began) * 1000, 1)
            self.note("grown", **asdict(more), nodes=now.nodes, unheard=now.unheard, ms=took)
            self.grown.append((at, more))
        self.why, self.heard = None, at
        return at, now

    def _missing(self, says: str) -> None:
        self.why = says
        self.note("missing", says=says)


# -- judging ---------------------------------------------------------------------------------------
# figures beside the findings, which judge none of it; a sample that lies in two phases counts for each by its share

COUNTED = ("searches", "search_ms", "documents", "indexed", "index_ms", "failed")


@dataclass(frozen=True)
class Sample:
    """From when to when (monotonic ns), and what was done in it."""

    start: int
    end: int
    done: dict[str, float]
    unheard: bool

    def within(self, start: int, end: int) -> float:
        """Which share of it lies between."""
        return max(0, min(self.end, end) - max(self.start, start)) / (self.end - self.start)


def samples(record: Record) -> Iterator[Sample]:
    """Those that are whole: a record may have been cut anywhere."""
    for line in record.lines(FILE):
        known = {name: line.get(name) for name in (*COUNTED, "seconds")}
        if line["kind"] != "grown" or not all(isinstance(value, int | float) for value in known.values()):
            continue
        done = {name: float(value) for name, value in known.items()}  # type: ignore[arg-type]
        if (seconds := done.pop("seconds")) > 0:
            yield Sample(int(line["t"] - seconds * SECOND), int(line["t"]), done, bool(line.get("unheard")))


def table(record: Record) -> dict[str, Any] | None:
    """Rates per second and mean times in milliseconds; ``known``: the share of the time that was sampled.

    None where nobody listened, on a lab.
    """
    if not record.lines(FILE):
        return None
    found = list(samples(record))
    baseline = next((line for line in record.lines(FILE) if line["kind"] == "baseline"), None)
    return {
        "rows": {name: row for name, start, end in _spans(record, found, baseline) if (row := _row(found, start, end))},
        "limits": None if baseline is None else str(baseline.get("limits")),
        "undecided": [] if baseline is None else [str(says) for says in baseline.get("undecided") or []],
        "missing": sum(line["kind"] == "missing" for line in record.lines(FILE)),
        "unheard": sum(sample.unheard for sample in found),
        "samples": len(found),
        "own": theirs.own(record),
    }


def _spans(record: Record, found: list[Sample], baseline: dict[str, Any] | None) -> Iterator[tuple[str, int, int]]:
    if not found:
        return
    first, last = found[0].start, found[-1].end
    load = record.first("load.start")
    start = last if load is None else int(load["t"])
    yield BEFORE, first, int(baseline["t"]) if baseline is not None else start
    if record.spans:
        yield WARM_UP, start, record.spans[0].start
        yield from ((span.name, span.start, span.end) for span in record.spans)
        yield AFTER, record.spans[-1].end, last
    elif load is not None:
        yield WARM_UP, start, last


def _row(found: list[Sample], start: int, end: int) -> dict[str, Any] | None:
    if end <= start:
        return None
    sums, seconds = dict.fromkeys(COUNTED, 0.0), 0.0
    for sample in found:
        if share := sample.within(start, end):
            seconds += share * (sample.end - sample.start) / SECOND
            for name, value in sample.done.items():
                sums[name] += share * value
    if not seconds:
        return dict.fromkeys(("searches", "search_ms", "documents", "index_ms", "failed")) | {"known": 0.0}
    return {
        "searches": round(sums["searches"] / seconds, 2),
        "search_ms": round(sums["search_ms"] / sums["searches"], 2) if sums["searches"] else None,
        "documents": round(sums["documents"] / seconds, 2),
        "index_ms": round(sums["index_ms"] / sums["indexed"], 2) if sums["indexed"] else None,
        "failed": round(sums["failed"]),
        "known": round(min(1.0, seconds * SECOND / (end - start)), 3),
    }


CURVES = (
    ("searches", "Searches of shards per second, of others", ""),
    ("search_ms", "Mean time of a search of a shard, of others", "ms"),
    ("documents", "Documents indexed per second, by others", ""),
    ("index_ms", "Mean time to index one on a copy, by others", "ms"),
)


def section(record: Record, tables: Mapping[str, Any]) -> Section | None:
    found = tables.get("foreign")
    if found is None:
        return None
    seen = list(samples(record))
    begin = seen[0].start if seen else 0
    limits = f"The run was to end when it got worse: {found['limits']}." if found["limits"] else None
    none = "Nothing would have ended the run: the target's file has no limits for it."
    rates = [_rates(sample, begin) for sample in seen]
    return Section(
        id="others",
        title="What others did meanwhile",
        short="Others",
        says="Searches and indexing of all other indices of the cluster, as its nodes count them. No expectation is "
        f"judged by it. {limits or none}",
        gaps=_gaps(found),
        open=tuple(found["undecided"]),
        head=("When", "Searches of shards#", "each#", "Documents#", "each, a copy#", "Failed#", "Ours#", "Sampled#"),
        rows=tuple(_drawn(record, tables, name, row) for name, row in found["rows"].items()),
        curves=tuple(Curve(title, unit, _pieces(rates, key)) for key, title, unit in CURVES),
        lasted=(seen[-1].end - begin) / SECOND if seen else 0.0,
        edges=tuple((span.name, (span.start - begin) / SECOND) for span in record.spans),
        small="Counted from when the run began to listen; a vertical line is the beginning of a phase. A search counts "
        "once for each shard that it asks, with the time of its query there. What was refused before it came to a "
        "shard (full queues) is in no counter of an index.",
    )


def _pieces(rates: Sequence[Mapping[str, float | None]], key: str) -> tuple[tuple[float, float, float], ...]:
    known = [(each["from"], each["to"], each[key]) for each in rates]
    return tuple((a, b, value) for a, b, value in known if a is not None and b is not None and value is not None)


def _rates(sample: Sample, begin: int) -> dict[str, float | None]:
    done, seconds = sample.done, (sample.end - sample.start) / SECOND
    return {
        "from": (sample.start - begin) / SECOND,
        "to": (sample.end - begin) / SECOND,
        "searches": done["searches"] / seconds,
        "search_ms": done["search_ms"] / done["searches"] if done["searches"] else None,
        "documents": done["documents"] / seconds,
        "index_ms": done["index_ms"] / done["indexed"] if done["indexed"] else None,
    }


def _drawn(record: Record, tables: Mapping[str, Any], name: str, row: dict[str, Any]) -> Row:
    span = record.span(name)
    ours = "-"
    if span is not None and span.seconds:
        counted = {op: phases.get(name) for op, phases in (tables.get("good") or {}).items()}
        ours = ", ".join(f"{op}s {each['scheduled'] / span.seconds:.3g}/s" for op, each in counted.items() if each)
    cells = (
        _shown(row["searches"], "/s"),
        _shown(row["search_ms"], " ms"),
        _shown(row["documents"], "/s"),
        _shown(row["index_ms"], " ms"),
        _shown(row["failed"], ""),
        ours or "-",
        text.percent(row["known"]),
    )
    return Row(name, cells)


def _shown(value: float | None, unit: str) -> str:
    return text.NO_VALUE if value is None else f"{value:.3g}{unit}" if value < 1000 else f"{text.count(value)}{unit}"


def _gaps(found: Mapping[str, Any]) -> str:
    """What is not known, in words."""
    gaps = [
        f"{text.plural(found['missing'], 'question was', 'questions were')} not answered" if found["missing"] else "",
        f"in {text.plural(found['unheard'], 'answer')} nodes were missing" if found["unheard"] else "",
        "nothing was answered twice" if not found["samples"] else "",
    ]
    said = [each for each in gaps if each]
    return f"{text.listed(said)}." if said else ""


class Listening(Sampled):
    """Of a run: which says so in its record."""

    def __init__(self, target: Existing, file: Path, broken: Broken, stage: Callable[[str], None]) -> None:
        super().__init__(target, file, broken)
        self._stage = stage

    def start(self) -> None:
        self._stage("listening")
        super().start()


def _observe(context: Context) -> Listening | None:
    if context.existing is None:
        return None
    return Listening(context.existing, context.folder / "history" / FILE, context.broken, context.stage)


def _refuse_on(target: Existing) -> tuple[str, str, str] | None:
    if target.written.foreign is None or (why := why_not(target)) is None:
        return None
    remedy = "give this user the right cluster:monitor/nodes/stats, or take foreign out of the file"
    return "foreign", f"what others do there cannot be sampled: {why}", remedy


INSTRUMENT = Instrument(
    name="foreign traffic",
    says="what others do on a cluster that is not ours",
    observe=_observe,
    begins=Begins.FIRST,
    ends=Ends.LAST,
    order=30,
    refuse_on=_refuse_on,
    file=FILE,
    tables={"foreign": table},
    section=section,
)
