"""How soon is a document found that was acknowledged, and does anybody read what must not, or not yet, be read?

A few documents a second are written beside the load, through the client's own policy (``v-<n>``). Every data node
is asked for each of them, from the client host of its own zone if there is one (else from one that is drawn for each
document), with ``preference=_local``, so that it answers from its own copy where it has one:

* while the write is under way, gets: what they find may never have been acknowledged (a *dirty* read, should it
  be gone in the end);
* after the acknowledgement one get, which is realtime and must find it, else it is *stale*;
* then searches, until one finds it: that is when it became visible here. One search a round asks a node for all that
  it has not shown yet (:class:`Rounds`), so that the cluster's work for it hangs on no refresh interval; where only a
  part of the shards answered, each document is asked for alone, of its own shard.

With segment replication a replica answers a get that has a preference from the segments that it has copied, and only a
get without one is realtime: OpenSearch passes it on to the primary (``TransportGetAction``). So gets have none there
(``primary_gets``), and what a node's own copy shows is told by the searches.

Lines of ``history/probes.jsonl``, times in CLOCK_MONOTONIC ns: ``write`` (``n``, ``id``, ``zone``), before it is
sent; ``written`` (``n``, ``acknowledged``, ``outcome``, ``status``, ``node``); ``get`` (``n``, ``node``, ``zone``,
``began``, ``found``: true, false or null for no answer), while the write is under way only the first that found it;
``seen`` (``n``, ``node``, ``zone``, ``began``, ``hits``, ``searches``, ``silent``: when the last search before it was
asked for if the node gave no whole answer to any, else null); ``unseen`` (``n``, ``node``, ``zone``,
``missed``: when the last whole answer without it was asked for, null when no node gave one; ``away``: the last search
had no whole answer). ``t`` is when the answer was there.
An answer that is wrong (:mod:`chaos.load.right`) is told as such, and is no answer here: no acknowledgement, nothing
found and nothing missed.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gevent
from gevent.event import Event

from chaos.base.ids import probe_id
from chaos.history.format import Outcome
from chaos.history.writer import PROBES, Broken
from chaos.load.client import Send
from chaos.load.config import VisibilityConfig
from chaos.load.examples import Told
from chaos.load.exchange import Allowance, Paced, ask
from chaos.load.known import Known
from chaos.load.right import EVERY, Judge, fields_of
from chaos.load.turns import at, mixed
from chaos.load.workload import Workload
from chaos.opensearch.requests import WRITE_FIELDS, document_path

_EARLY_S = (0.002, 0.01, 0.05, 0.25)
"""Pauses between gets while the write is under way; the last again and again."""
_SEARCH_S = 0.1
"""Pause between rounds of searches: how fine the time until visible is known."""
MOST_SOUGHT = 1000
"""Documents that one search looks for."""
_WRITERS, _LOOKERS = 3001, 3002
"""Tell what is drawn here from other things that are drawn from the same seed."""


class Written:
    """One document under way: whether and when it was acknowledged, once that is known."""

    def __init__(self) -> None:
        self.done = Event()
        self.acknowledged = False


@dataclass
class Looked:
    """What one look for a document came to. ``began``: when it was asked for, CLOCK_MONOTONIC in ns. ``hits``: how many
    documents of that id were found; None: no whole answer, of which ``in_part`` says that some shards did answer."""

    began: int
    hits: int | None
    in_part: bool = False


@dataclass
class _Round:
    """Documents that are looked for together."""

    ids: list[str] = field(default_factory=list)
    done: Event = field(default_factory=Event)
    found: dict[str, Looked] = field(default_factory=dict)


class Rounds:
    """Looks of all that wait for a document of one node, by one search each ``pause_s`` seconds while any does.

    With a search for each document ten times a second, a refresh interval of 30 s cost a cluster thirty times the
    searches of one of 1 s, and the longer interval was blamed for them.
    """

    def __init__(self, search: Callable[[Sequence[str]], dict[str, Looked]], pause_s: float = _SEARCH_S) -> None:
        """``search``: looks for these documents, which are :data:`MOST_SOUGHT` at most."""
        self._search, self._pause_s = search, pause_s
        self._next = _Round()
        self._going = False

    def look(self, id: str) -> Looked | None:
        """The document's part in the next round; None where the round could not be asked."""
        round = self._next
        round.ids.append(id)
        if not self._going:
            self._going = True
            gevent.spawn(self._go)
        round.done.wait()
        return round.found.get(id)

    def _go(self) -> None:
        try:
            while self._next.ids:
                round, self._next = self._next, _Round()
                try:
                    for begin in range(0, len(round.ids), MOST_SOUGHT):
                        round.found |= self._search(round.ids[begin : begin + MOST_SOUGHT])
                finally:
                    round.done.set()
                gevent.sleep(self._pause_s)
        finally:
            self._going = bool(self._next.ids)  # a search that raised ends this greenlet, and not those that wait
            if self._going:
                gevent.spawn(self._go)


class Visibility(Paced):
    """The probes of one load.

    ``zones``: client zones by number. ``nodes``: (name, zone) of every data node by number. ``sender``: what sends
    the next write from a zone. ``direct``: what sends to one node from a zone (zone, node). ``seed``: of draws.
    """

    def __init__(
        self,
        config: VisibilityConfig,
        workload: Workload,
        *,
        index: str,
        alias: str | None,
        out: Path,
        zones: list[str],
        nodes: list[tuple[str, str]],
        sender: Callable[[int], Send],
        direct: Callable[[int, int], Send],
        timeout_s: float,
        seed: int,
        broken: Broken,
        judge: Judge,
        known: Known,
        told: Told,
    ) -> None:
        super().__init__(
            config.rate,
            at_once=max(10, int(config.rate * (config.within_s + 2 * timeout_s))),
            file=out / PROBES,
            broken=broken,
        )
        self._within_s, self._workload = config.within_s, workload
        self._copy = "" if config.primary_gets else "preference=_local&"
        self._index, self._alias = index, alias
        self._zones, self._nodes = zones, nodes
        self._sender, self._direct = sender, direct
        self._timeout_s = timeout_s
        self._seed = seed
        self._judge, self._known, self._told = judge, known, told
        self._looks = Allowance(config.most_looks)
        self._rounds: dict[tuple[int, int], Rounds] = {}

    def turn(self, number: int) -> None:
        """Write one document and look for it everywhere."""
        written = Written()
        zone = writer_of(number, len(self._zones), self._seed)
        looks = [gevent.spawn(self._look, number, node, written) for node in range(len(self._nodes))]
        id = probe_id(number)
        self.note("write", n=number, id=id, zone=self._zones[zone])
        path = document_path(self._index, id, WRITE_FIELDS, self._alias)
        self._known.sent(id)

        def wrong(status: int, data: Any) -> str:
            return self._judge.write(status, data, id, fields_of(path))

        answer = ask(self._sender(zone), "index", "PUT", path, self._workload.body(id), self._timeout_s, wrong)
        written.acknowledged = answer.outcome is Outcome.OK
        node = None if answer.node is None else self._nodes[answer.node][0]
        self.note(
            "written",
            n=number,
            acknowledged=written.acknowledged,
            sent=not answer.never_sent,
            outcome=Outcome(answer.outcome).name.lower(),
            status=answer.status,
            node=node,
        )
        if written.acknowledged:
            self._known.acknowledged(id, time.monotonic_ns())
        if answer.wrong:
            self._told("probe.write", answer.wrong, node)
        written.done.set()
        gevent.joinall(looks)

    def _look(self, number: int, node: int, written: Written) -> None:
        """One node's view of one document."""
        name, zone = self._nodes[node]
        client = looker_of(number, node, zone, self._zones, self._seed)
        send = self._direct(client, node)
        where = {"n": number, "node": name, "zone": zone}
        for pause in (*_EARLY_S, *[_EARLY_S[-1]] * int(self._timeout_s / _EARLY_S[-1] + 1)):
            if written.done.wait(pause) or self.given_up:
                break
            if self._get(send, where, only_found=True):
                written.done.wait()
                break
        written.done.wait()
        if self.given_up:
            return
        self._get(send, where, only_found=not written.acknowledged)
        if written.acknowledged:
            if (client, node) not in self._rounds:
                self._rounds[client, node] = Rounds(lambda ids: self._sought(send, name, ids))
            self._search(self._rounds[client, node], send, where)

    def _get(self, send: Send, where: dict[str, Any], *, only_found: bool) -> bool | None:
        self._looks.take()
        began = time.monotonic_ns()
        id = probe_id(where["n"])
        path = f"/{self._index}/_doc/{id}?{self._copy}filter_path=_index,_id,found,_source"

        def wrong(_: int, data: Any) -> str:
            return self._judge.document(data, id, EVERY)

        answer = ask(send, "get", "GET", path, None, self._timeout_s, wrong)
        if answer.wrong:
            self._told("probe.get", answer.wrong, where["node"])
        said = answer.data.get("found") if isinstance(answer.data, dict) else None
        found = said if isinstance(said, bool) else None
        if found or not only_found:
            self.note("get", **where, began=began, found=found)
        return found

    def _search(self, rounds: Rounds, send: Send, where: dict[str, Any]) -> None:
        id = probe_id(where["n"])
        deadline = time.monotonic() + self._within_s
        missed, silent, searches, hits = None, None, 0, None
        while not self.closed:
            looked = rounds.look(id)
            if looked is not None and looked.in_part and not self.given_up:
                looked = self._sought(send, where["node"], [id])[id]
            if looked is None or self.given_up:
                return
            began, hits = looked.began, looked.hits
            searches += 1
            if hits:
                late: dict[str, int] = {"missed": missed} if missed is not None and silent is not None else {}
                self.note("seen", **where, began=began, hits=hits, searches=searches, silent=silent, **late)
                return
            if hits == 0:
                missed, silent = began, None
            else:
                silent = began
            if time.monotonic() >= deadline:
                break
        self.note("unseen", **where, missed=missed, searches=searches, away=hits is None)

    def _sought(self, send: Send, node: str, ids: Sequence[str]) -> dict[str, Looked]:
        """One search of a node for these documents; for a single one of its shard alone."""
        if self.given_up:
            return {}
        routing = f"routing={ids[0]}&" if len(ids) == 1 else ""
        path = (
            f"/{self._index}/_search?{routing}preference=_local&request_cache=false"
            "&filter_path=timed_out,_shards,hits.total,hits.hits._index,hits.hits._id"
        )
        most = 2 * len(ids)
        query = json.dumps({"size": most, "track_total_hits": True, "query": {"ids": {"values": list(ids)}}})

        def wrong(_: int, data: Any) -> str:
            return self._judge.by_ids(data, ids)

        self._looks.take()
        began = time.monotonic_ns()
        answer = ask(send, "search", "POST", path, query, self._timeout_s, wrong)
        if answer.wrong:
            self._told("probe.search", answer.wrong, node)
        total = hits_of(answer.data)
        if total is None:
            in_part = len(ids) > 1 and isinstance(answer.data, dict) and "_shards" in answer.data
            return dict.fromkeys(ids, Looked(began, None, in_part))
        if len(ids) == 1:
            return {ids[0]: Looked(began, total)}
        found = Counter(hit["_id"] for hit in answer.data["hits"].get("hits", ()))
        return {id: Looked(began, found[id]) for id in ids}


def writer_of(number: int, zones: int, seed: int) -> int:
    """The client zone (its number) that writes document ``number``."""
    return at(number, range(zones), seed, _WRITERS)


def looker_of(number: int, node: int, zone: str, zones: Sequence[str], seed: int) -> int:
    """The client zone (its number) from which a node in ``zone`` is asked for document ``number``."""
    return zones.index(zone) if zone in zones else mixed(seed, _LOOKERS, number, node) % len(zones)


def hits_of(data: Any) -> int | None:
    """How many documents a search found; None for an answer that is not whole (or none at all)."""
    try:
        shards = data["_shards"]
        if data["timed_out"] or shards["failed"] or shards["successful"] < max(1, shards["total"]):
            return None
        return int(data["hits"]["total"]["value"])
    except (KeyError, TypeError, ValueError):
        return None
