"""Who was asked how often: for each kind of request, in each phase, each data node; and whether that is enough.

A check that never asked a node says nothing about it. So what is expected of an operation, or of the data, passes only
where every node that served was asked often enough; a node that was not is named, and makes that finding inconclusive,
that one alone.

*Who serves.* What the driver's load balancers had in use, replayed from their events (``balancer``: healthy or not;
``steered``: what a controller named). A node that is down, or weighted away so that health checks refuse it, is in
nobody's use, and not due. A pinned client asks its one node and no other: that one is due. With opensearch-py the
library decides by what it met whom it leaves alone, and says so to nobody: all nodes are due before the experiment
changes anything, and later none; the counts are shown. Probes of visibility ask every data node directly, whatever the
balancers do. Where clients go through a load balancer that somebody else has (``through``), that is whom they ask;
which node it chose is told to nobody.

*What a node would have been asked* (``share``): each client zone's part of the rate (or, where there is none, of what
was asked), split evenly among the nodes that were in use there, over the time that they were. *How much of it* it could
have answered: a node that answers nobody has given no wrong answer either. So where answers are wanted the share is
taken times a part: that of all requests to the node in that phase (or of all of this kind, if that is less) which were
answered in it. A node that nobody asked for anything has no such part, and is taken to answer.

*Enough* (``due``): :data:`ENOUGH` requests in each phase, but never more than a third of that share: in a short phase,
or at a low rate, more cannot be asked. Of a node of which less than :data:`LEAST` were to be expected in a phase that
phase says nothing: chance alone could have kept them from it (of 10 that come at random, fewer than 4 once in a
hundred). Over the whole run nothing is let off: every node that served for :data:`SERVED` seconds, or for half of the
run, must have been asked once at least.

Nothing here is judged of a history whose plan does not say who the targets were, or that has no phases.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from chaos.base import text
from chaos.base.ids import cas_id
from chaos.checks.data import operations
from chaos.checks.data.operations import planned
from chaos.checks.record import OUTCOMES, SECOND, Record, Span

ENOUGH = 29
"""Of a node that answers one request in ten wrongly, one such answer at least is among 29 with 95 %: 1 - 0.9^29."""
PART = 1 / 3
LEAST = 10.0
"""Requests to be expected of a node in a phase below which that phase says nothing of it."""
SERVED = 10.0
"""Seconds in which a node was in service after which it must have been asked at least once in the run."""
PER_KEY = 10.0
"""Reads of one key through one node to be expected over the run from which on there must have been one."""

CAS_READ, CAS_WRITE = "compare-and-set read", "compare-and-set write"
PROBE_WRITE, PROBE_GET, PROBE_SEARCH = "probe write", "probe get", "probe search"
DIRECT = (PROBE_GET, PROBE_SEARCH)
"""Kinds that ask each node by its name."""
LOOKS = (CAS_READ, *DIRECT)
"""Kinds of which answers count. Of writes requests do: what was not acknowledged cannot be lost, and a fault may keep
one node from acknowledging any."""
ALL_PHASES = "all phases"

Where = tuple[int, str]
"""A phase's place and a node."""


@dataclass(frozen=True)
class Asked:
    """Requests of one kind to one node in one phase (or in all). ``due``: how many it takes; 0: none."""

    asked: int
    answered: int
    share: float
    due: int

    def to_json(self, *, answers: bool) -> dict[str, Any]:
        enough = (self.answered if answers else self.asked) >= self.due
        figures = {"asked": self.asked, "answered": self.answered, "share": round(self.share, 1), "due": self.due}
        return {**figures, "enough": enough}


class Counts:
    """What is known of who was asked. :attr:`known` False: who the targets were is not recorded."""

    def __init__(self, record: Record) -> None:
        self.record = record
        client = record.plan.get("client") or {}
        self.nodes = tuple(str(target["node"]) for target in client.get("targets") or ())
        self.kind = str((client.get("client") or {}).get("kind") or "")
        self.known = bool(self.nodes and self.kind and record.spans)
        self.asked: defaultdict[str, Counter[Where]] = defaultdict(Counter)
        self.answered: defaultdict[str, Counter[Where]] = defaultdict(Counter)
        self.late: Counter[Where] = Counter()
        """Of the answers those that came in a later phase: a node that was away until then could give no other."""
        self.weight: dict[Where, float] = {}
        """The part of a phase's requests that go to a node while all in use are asked alike."""
        self.served: dict[Where, float] = {}
        """Seconds of a phase in which a node was in use, on average over the client zones."""
        self.total: dict[str, dict[int, float]] = {}
        """How many requests of a kind were due in a phase."""
        if self.known:
            self._count()
            self._serve(client)
        self.parts, self.parts_of_kinds = self._parts(), self._parts_of_kinds()

    # -- counting --------------------------------------------------------------------------------------

    def _count(self) -> None:
        record = self.record
        seconds = {span.index: span.seconds for span in record.spans}
        for op in record.operations:
            self._arrivals(op.name)
            self.total[op.name] = {span.index: record.due(op, span.start, span.end) for span in record.spans}
        if (cas := planned(record, "cas")) is not None:
            done = operations.of(record)
            for each in done:
                if each.node is not None:
                    kind = CAS_READ if each.f == "read" else CAS_WRITE
                    self._note(kind, each.begin, each.node, each.kind == "ok" or each.status == 409)
            rate = float(cas.get("rate") or 0)
            self.total[CAS_READ] = {place: rate * length for place, length in seconds.items()}
            self.total[CAS_WRITE] = {
                p: float(n) for p, n in self._places(o.begin for o in done if o.f == "cas").items()
            }
        if (probes := planned(record, "visibility")) is not None:
            acknowledged = {e["n"]: int(e["t"]) for e in record.probes if e["kind"] == "written" and e["acknowledged"]}
            for event in record.probes:
                n = event["n"]
                if event["kind"] == "written":
                    self._note(PROBE_WRITE, int(event["t"]), event.get("node"), event["acknowledged"] is True)
                elif event["kind"] == "get" and event["began"] >= acknowledged.get(n, math.inf):
                    self._note(PROBE_GET, acknowledged[n], event["node"], event["found"] is not None)
                elif event["kind"] in ("seen", "unseen") and n in acknowledged:
                    told = event["kind"] == "seen" or (event.get("missed") is not None and not event.get("away"))
                    self._note(PROBE_SEARCH, acknowledged[n], event["node"], told, int(event["t"]))
            rate = float(probes.get("rate") or 0)
            self.total[PROBE_WRITE] = {place: rate * length for place, length in seconds.items()}
            looked = {p: float(number) for p, number in self._places(acknowledged.values()).items()}
            self.total |= dict.fromkeys(DIRECT, looked)

    def _arrivals(self, op: str) -> None:
        """One pass over the arrivals of an operation, a part at a time."""
        record = self.record
        width, ok = len(record.nodes), [OUTCOMES["ok"], OUTCOMES["partial"]]
        found = np.zeros(2 * width * len(record.spans), np.int64)
        for piece in record.arrivals[op].pieces() if width else ():
            node, phase, outcome = piece.node, piece.phase, piece.outcome
            sent = (node >= 0) & (phase >= 0)
            place = ((phase * width + node) * 2 + np.isin(outcome, ok))[sent]
            found += np.bincount(place, minlength=len(found))
        for number in np.flatnonzero(found).tolist():
            rest, answered = divmod(number, 2)
            phase_, node_ = divmod(rest, width)
            where = (int(phase_), record.nodes[node_])
            self.asked[op][where] += int(found[number])
            self.answered[op][where] += int(found[number]) * answered

    def _places(self, moments: Iterable[int]) -> Counter[int]:
        return Counter(place for t in moments if (place := self.record.place(t)) is not None)

    def _note(self, kind: str, t: int, node: str | None, answered: bool, told: int | None = None) -> None:
        """A request by its moment. ``told``: when it was answered, where it was asked again and again until it was."""
        place = self.record.place(t)
        if node is None or place is None:
            return
        self.asked[kind][place, node] += 1
        self.answered[kind][place, node] += answered
        if answered and told is not None and self.record.place(told) != place:
            self.late[place, node] += 1

    # -- who served ------------------------------------------------------------------------------------

    def _serve(self, client: Mapping[str, Any]) -> None:
        record = self.record
        clients = client.get("clients") or [{"zone": ""}]
        zones = {str(each["zone"]): each.get("through") for each in clients}
        if self.kind == "load-balancer":
            for zone, through in zones.items():
                targets = self.nodes if through is None else (str(through),)
                for span in record.spans:
                    for start, end, nodes in _in_use(record, zone, targets, span):
                        for node in nodes:
                            self._serves(span, node, (end - start) / SECOND / len(zones), len(nodes))
            return
        pinned = (client.get("client") or {}).get("node")
        nodes = (str(pinned),) if self.kind == "pinned" else self.nodes
        for span in record.spans if self.kind == "pinned" else record.healthy:
            for node in nodes:
                self._serves(span, node, span.seconds, len(nodes))

    def _serves(self, span: Span, node: str, seconds: float, among: int) -> None:
        where = (span.index, node)
        self.served[where] = self.served.get(where, 0.0) + seconds
        if span.seconds:
            self.weight[where] = self.weight.get(where, 0.0) + seconds / span.seconds / among

    # -- how many it takes -----------------------------------------------------------------------------

    def _parts(self) -> dict[Where, float]:
        """The part of all requests to a node in a phase that were answered."""
        asked: Counter[Where] = sum(self.asked.values(), Counter())
        answered: Counter[Where] = sum(self.answered.values(), Counter())
        return {where: (answered[where] - self.late[where]) / number for where, number in asked.items()}

    def _parts_of_kinds(self) -> dict[tuple[str, int], float]:
        """The part of all requests of a kind in a phase that were answered."""
        asked: Counter[tuple[str, int]] = Counter()
        answered: Counter[tuple[str, int]] = Counter()
        for found, given in ((asked, self.asked), (answered, self.answered)):
            for kind, own in given.items():
                for (place, _), number in own.items():
                    found[kind, place] += number
        return {each: answered[each] / number for each, number in asked.items()}

    def share(self, kind: str, where: Where, *, answers: bool) -> float:
        """How many requests of a kind a node would have been asked in a phase, or would have answered."""
        weight = 1.0 if kind in DIRECT else self.weight.get(where, 0.0)
        share = self.total.get(kind, {}).get(where[0], 0.0) * weight
        if not answers:
            return share
        return share * min(self.parts.get(where, 1.0), self.parts_of_kinds.get((kind, where[0]), 1.0))

    def row(
        self, kind: str, node: str, span: Span | None, *, answers: bool, useful: Counter[Where] | None = None
    ) -> Asked:
        """One node in one phase, or in all of them (None). ``useful``: counted instead of the answers."""
        asked = self.asked.get(kind, Counter())
        answered = self.answered.get(kind, Counter()) if useful is None else useful
        places = [(each.index, node) for each in (self.record.spans if span is None else (span,))]
        share = sum(self.share(kind, where, answers=answers) for where in places)
        due = min(ENOUGH, math.ceil(PART * share)) if share >= LEAST else 0
        if span is None and share > 0 and self._long(kind, places):
            due = max(1, due)
        return Asked(sum(asked[where] for where in places), sum(answered[where] for where in places), share, due)

    def _long(self, kind: str, places: Sequence[Where]) -> bool:
        served = sum(self.served.get(where, 0.0) for where in places)
        whole = sum(span.seconds for span in self.record.spans)
        return kind in DIRECT or served >= min(SERVED, whole / 2)

    def short(
        self, kind: str, *, span: Span | None = None, answers: bool, useful: Counter[Where] | None = None
    ) -> list[str]:
        """Nodes that were asked too little, in words; in one phase, or in each of them and over all."""
        found: list[str] = []
        for node in self.nodes if self.known else ():
            wrong: list[str] = []
            for each in (*self.record.spans, None) if span is None else (span,):
                row = self.row(kind, node, each, answers=answers, useful=useful)
                had = row.answered if answers else row.asked
                if had < row.due and not (each is None and wrong):
                    wrong.append(_words(node, kind, row, answers, f"in {each.name}" if each else "in the whole run"))
            found += wrong
        return found


def _words(node: str, kind: str, row: Asked, answers: bool, where: str) -> str:
    if row.asked == 0:
        return f"{node} was never asked {where} ({kind}; {text.count(row.due)} are needed of a node that serves)"
    if answers:
        return (
            f"{node} was asked {text.count(row.asked)} times {where} and gave {text.plural(row.answered, 'answer')} "
            f"that count ({kind}; {text.count(row.due)} are needed)"
        )
    return f"{node} was asked {text.count(row.asked)} times only {where} ({kind}; {text.count(row.due)} are needed)"


def of(record: Record) -> Counts:
    """The counts of a record, made once and kept with it: a copy of it that forgives what was late counts the same."""
    kept: dict[str, Any] = vars(record)
    if "_asked" not in kept:
        kept["_asked"] = Counts(record)
    found: Counts = kept["_asked"]
    return found


def _in_use(record: Record, zone: str, nodes: Sequence[str], span: Span) -> list[tuple[int, int, tuple[str, ...]]]:
    """Stretches of a phase (ns) with the nodes that the balancer of one client zone had in use.

    A node of which no health is recorded counts as healthy: who was in service is then not known, so it is due.
    """
    kinds = ("balancer", "steered")
    told = [e for e in record.driver if e.get("kind") in kinds and str(e.get("client_zone")) == zone]
    told = [e for e in told if not e.get("process")]  # each process has a balancer, whose health checks see the same
    told.sort(key=lambda event: int(event["t"]))
    heard = {str(event.get("node")) for event in told if event["kind"] == "balancer"}
    healthy = {node: node not in heard for node in nodes}
    steered: list[str] | None = None
    found: list[tuple[int, int, tuple[str, ...]]] = []
    since = span.start
    for event in told:
        t = min(int(event["t"]), span.end)
        if t > since:
            found.append((since, t, in_use(nodes, healthy, steered)))
            since = t
        if event["kind"] == "balancer":
            healthy[str(event.get("node"))] = event.get("healthy") is True
        else:
            named = event.get("nodes")
            steered = None if named is None else [str(name) for name in named]
    if span.end > since:
        found.append((since, span.end, in_use(nodes, healthy, steered)))
    return found


def in_use(nodes: Sequence[str], healthy: Mapping[str, bool], steered: Sequence[str] | None) -> tuple[str, ...]:
    """Whom a load balancer asks: as :class:`chaos.load.balancer.Balancer` does it."""
    well = tuple(node for node in nodes if healthy.get(node))
    if steered:
        named = tuple(node for node in nodes if node in steered)
        return tuple(node for node in named if node in well) or named or well or tuple(nodes)
    return well or tuple(nodes)


# -- what is asked of it ------------------------------------------------------------------------------

OF_ARRIVALS = ("recovery.regained", "recovery.first_writes", "recovery.latency")
"""Steps of recovery that are read from all operations of the load."""


def of_phase(record: Record, op: str | None, metric: str, span: Span) -> str | None:
    """Why a phase's pass of this metric proves nothing, in words; None: every node that served was asked."""
    if metric.startswith(("visible.", "replicas.visible.")):
        counts = of(record)
        found = counts.short(PROBE_WRITE, span=span, answers=False)
        found += counts.short(PROBE_SEARCH, span=span, answers=True)
    else:
        ops = [each.name for each in record.operations] if metric in OF_ARRIVALS else [op] if op else []
        found = [each for name in ops for each in of(record).short(name, span=span, answers=False)]
    return "; ".join(found) or None


def of_data(record: Record, *kinds: str, useful: Mapping[str, Counter[Where]] | None = None) -> list[str]:
    """Nodes that were asked too little of these kinds, in words; ``useful``: answers that count, instead of all."""
    counts = of(record) if record.spans else None
    if counts is None:
        return []
    given = useful or {}
    return [
        each
        for kind in kinds
        if kind in counts.total
        for each in counts.short(kind, answers=kind in (*LOOKS, *record.readers), useful=given.get(kind))
    ]


def unread_keys(record: Record) -> list[str]:
    """Keys of compare-and-set that were never read through a node that served, in words."""
    keys = int((planned(record, "cas") or {}).get("keys") or 0)
    if not keys or not record.spans or not of(record).known:
        return []
    counts = of(record)
    seen = {(each.key, each.node) for each in operations.of(record) if each.f == "read" and each.kind == "ok"}
    return [
        f"{node} was never asked for {text.listed(lacking)} ({CAS_READ})"
        for node in counts.nodes
        if counts.row(CAS_READ, node, None, answers=True).share / keys >= PER_KEY
        and (lacking := [key for key in map(cas_id, range(keys)) if (key, node) not in seen])
    ]


def unread_copies(record: Record) -> list[str]:
    """Nodes with live copies of which the read-back read none, in words."""
    lacking = [node for node, row in copies(record).items() if row["live"] and not row["read"]]
    return [f"{node} was never asked for any of its copies (read-back)" for node in lacking]


def copies(record: Record) -> dict[str, dict[str, int]]:
    """Node → how many live copies it held in the end, how many of them were read, and their documents."""
    return of_copies(record.readback or {})


def of_copies(readback: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """The same of any read-back."""
    found: dict[str, dict[str, int]] = {}
    for copy in readback.get("copies") or ():
        if copy.get("node") is None:
            continue
        row = found.setdefault(str(copy["node"]), {"live": 0, "read": 0, "documents": 0})
        row["live"] += copy.get("state") in ("STARTED", "RELOCATING")
        row["read"] += copy.get("read") is True
        row["documents"] += int(copy.get("docs") or 0)
    return found


def least(record: Record, useful: Mapping[str, Counter[Where]]) -> str | None:
    """Which node's answers were fewest over the run, and what would have been seen of them, in words."""
    if not useful:
        return None
    counts = of(record)
    found = [
        (row.answered, node)
        for kind, own in useful.items()
        for node in (counts.nodes if counts.known else ())
        if (row := counts.row(kind, node, None, answers=True, useful=own)).due
    ]
    if not found or (fewest := min(found))[0] == 0:
        return None
    number, node = fewest
    share = 1 - 0.05 ** (1 / number)
    return (
        f"{node} gave the fewest, {text.count(number)}: had {text.percent(share)} of them been wrong, 95 % to see one"
    )


def table(record: Record) -> dict[str, Any] | None:
    """``tables.coverage`` of findings.json; None: the history does not say who the targets were.

    ``operations``: kind → phase (and ``all phases``) → node → asked, answered, share, due (of answers for
    :data:`LOOKS`, of requests for the others), enough. ``copies``: see :func:`copies`. ``says``: who is due.
    """
    counts = of(record)
    if not counts.known:
        return None
    return {
        "enough": ENOUGH,
        "says": {
            "pinned": "The client is pinned: its one node is due, and nothing is said about the others.",
            "opensearch-py": "The library chooses: all nodes are due until something is changed, and later none.",
        }.get(counts.kind, "Due is every node that the load balancers had in use."),
        "nodes": list(counts.nodes),
        "operations": {
            kind: {
                (span.name if span else ALL_PHASES): {
                    node: counts.row(kind, node, span, answers=kind in LOOKS).to_json(answers=kind in LOOKS)
                    for node in counts.nodes
                }
                for span in (*record.spans, None)
            }
            for kind in counts.total
        },
        "copies": copies(record),
    }
