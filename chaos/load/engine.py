"""The open loop: every arrival is sent at its intended time, whatever became of the ones before.

Runs on gevent inside the locust process. One greenlet walks the schedule and spawns a greenlet for each
arrival; a pool bounds how many are under way, and an arrival that finds it full is ``dropped`` and said so.
The schedule is on disk a second before it is due. Latency counts from the intended time, so neither a late
driver nor a stalled server can hide (closed-loop drivers understate such an outage eightfold).
"""

from __future__ import annotations

import logging
import os
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from http.client import HTTPException
from pathlib import Path
from typing import Any

import gevent
import locust
import opensearchpy
import psutil
from gevent import Timeout
from gevent.event import Event
from gevent.pool import Pool
from opensearchpy import OpenSearch
from opensearchpy.exceptions import OpenSearchException
from urllib3.connection import HTTPConnection
from urllib3.exceptions import HTTPError

from chaos.base.addresses import Address
from chaos.base.errors import HistoryError
from chaos.base.operations import ADMIN, PAGED, WRITING
from chaos.history.failures import Failure
from chaos.history.format import NO_INDEX, Outcome
from chaos.history.items import entry
from chaos.history.writer import (
    ARRIVALS,
    CHANGES,
    DRIVER_EVENTS,
    ITEMS,
    PARTS,
    SCHEDULED,
    STALE,
    TOLD,
    EventWriter,
    RowWriter,
    write_tables,
)
from chaos.load import queries, workloads
from chaos.load.admin import Calls
from chaos.load.balancer import Balancer
from chaos.load.bulks import Bulks, Fates
from chaos.load.calls import CURRENT, Call, Stopped, options
from chaos.load.cas import CompareAndSet, turn_of
from chaos.load.changes import Changing, Planned, Updates
from chaos.load.client import Client, Send
from chaos.load.clients import clients, helpers
from chaos.load.config import AFTER_FAILURE_S, ClientHost, DriverConfig, IndexConfig, Target
from chaos.load.connections import Trace, by_default_policy, single
from chaos.load.examples import Examples
from chaos.load.exchange import Paced
from chaos.load.known import Known
from chaos.load.network import connection_class, named_by_controller, namespace
from chaos.load.outcomes import of_error
from chaos.load.pages import Pages, Read
from chaos.load.processors import busy, busy_of, places
from chaos.load.pulse import LATE_NS, Pulse
from chaos.load.rates import rate_of
from chaos.load.record import PLAN_ROW, ROW, Second, clients_of, of_several, percentile_ms, share_of
from chaos.load.right import Judge
from chaos.load.said import Said
from chaos.load.schedule import SECOND, Schedule
from chaos.load.searches import Searches
from chaos.load.turns import client_of, mixed
from chaos.load.visibility import Visibility
from chaos.load.workload import Request, Requests
from chaos.opensearch.requests import requiring_alias
from chaos.opensearch.rest import only_of

log = logging.getLogger(__name__)

_FLUSH_S = 0.25
_SLICE_S = 0.1
_STOP_S = 0.25
"""How long is waited at once, so that a stop is heard."""
_NAMES = [outcome.name.lower() for outcome in Outcome]
_OK, _PARTIAL, _TIMEOUT, _DROPPED, _UNKNOWN, _GARBLED, _WRONG = (
    int(o)
    for o in (
        Outcome.OK,
        Outcome.PARTIAL,
        Outcome.TIMEOUT,
        Outcome.DROPPED,
        Outcome.UNKNOWN,
        Outcome.GARBLED,
        Outcome.WRONG,
    )
)
_PROBE_TURN = 1000
"""The number under which a balancer counts the turns of the probes; operations are below, compare-and-set is above."""

Report = Callable[[str, str, float, int, BaseException | None], None]
"""Tells locust of an arrival: kind, operation, latency in ms, bytes answered, error."""


def _let_others_on() -> None:
    gevent.sleep(0)


class NotOk(Exception):
    """What locust's statistics see of an arrival that was not ok; one for each outcome keeps them small."""


_ERRORS: list[BaseException | None] = [None] + [NotOk(name) for name in _NAMES[1:]]


class _Zone:
    """A client host: its namespace, its balancer, its clients."""

    def __init__(self, host: ClientHost, config: DriverConfig, number: int, client: Client) -> None:
        self.host = host
        self.namespace = namespace(host.netns)
        config.access.check()
        self.access, self.headers = config.access, config.access.headers()
        verified = config.client.probe.verify or not self.access.tls
        self.probing = self.access if verified else replace(self.access, verify=False, tls_name=None)
        self.targets = [target.seen_from(host) for target in config.targets]
        numbers = [number for number, each in enumerate(self.targets) if host.through in (None, each.node)]
        self.numbers = tuple(numbers)
        probe = config.client.probe
        # other orders in each zone and process, or two that compete for a document would always meet on one node
        process = (config.part.process,) if config.part.process else ()
        self.balancer = Balancer(numbers, up=probe.up, down=probe.down, seed=mixed(config.seed, number, *process))
        self._config = config
        self._connections: dict[int, type[HTTPConnection]] = {}
        self._client = client
        self._helped: dict[int, OpenSearch] = {}
        self.sender = client.sender(self)
        """What sends the next request of an operation (its number) from here."""

    def connection(self, number: int) -> type[HTTPConnection]:
        """Those of health checks of a target."""
        if number not in self._connections:
            plain = connection_class(self.namespace, tls=self.access.tls)
            self._connections[number] = only_of(plain, self.targets[number].reached_by(self.access))
        return self._connections[number]

    @property
    def pinned(self) -> int:
        return [target.node for target in self._config.targets].index(str(self._config.client.node))

    def choose(self, op: int) -> int:
        return self.balancer.choose(op)

    def single(self, number: int) -> Send:
        made = single(
            self.targets[number],
            number,
            self.namespace,
            self.access,
            pool=self._config.at_once,
            compress=self._config.client.compress,
        )
        return made.transport.perform_request

    def by_default_policy(self) -> Send:
        return self._of_library(self.numbers).transport.perform_request

    def for_helper(self, numbers: Sequence[int]) -> OpenSearch:
        return self._of_library(numbers, helper=True)

    def for_helper_behind(self, choose: Callable[[], int]) -> OpenSearch:
        return self._of_library(self.numbers, helper=True, choose=choose)

    def _of_library(self, numbers: Sequence[int], **more: Any) -> OpenSearch:
        return by_default_policy(
            {number: self.targets[number] for number in numbers},
            self.namespace,
            self.access,
            pool=self._config.at_once,
            timeout_s=self._config.client.timeout_s,
            compress=self._config.client.compress,
            **more,
        )

    def helped(self, op: int) -> OpenSearch:
        """The client that the helper of an operation is given, one for each operation, as with others."""
        if op not in self._helped:
            self._helped[op] = self._client.helped(self, op)
        return self._helped[op]


class _Index:
    """An index of the load: requests for its documents, and who judges the answers.

    ``writes``: the requests of writes where they go by an alias; None: by the index's own name.
    """

    def __init__(self, config: DriverConfig, own: IndexConfig, updates: Updates | None) -> None:
        self.own = own
        self.workload = workloads.of(own.workload, own.dataset)
        self.requests: Requests = (
            self.workload.strided(own.index, own.documents, config.stride)
            if config.queries is None
            else queries.Requests(queries.read(config.queries, config.readable))
        )
        self.writes = None if own.alias is None else self.workload.strided(own.alias, own.documents, config.stride)
        self.known = Known(
            self.workload.found_by,
            own.documents,
            keys=config.cas.keys if config.cas is not None and own.place is None else 0,
            visible_after_s=own.visible_after_s,
            alone=config.part.processes == 1,
        )
        self.judge = Judge(
            self.workload,
            self.known,
            own.index,
            shards=own.shards,
            copies=own.copies,
            pause=_let_others_on,
            automatic=config.automatic(own.place),
            updates=updates,
            rolled=own.rolled,
        )


class Engine:
    """The driver's work from ``prepare`` over ``go`` to ``stop``. All methods are called from greenlets."""

    def __init__(
        self,
        config: DriverConfig,
        report: Report,
        say: Callable[[dict[str, Any]], None],
        fail: Callable[[Exception], None],
    ) -> None:
        """``report``: see :data:`Report`. ``say``: a message to the parent. ``fail``: ends the process."""
        self._config = config
        self._share = share_of(config.part)
        self._every = config.every
        self._report = report
        self._say = say
        self._fail = fail
        out = Path(config.out)
        write_tables(
            out,
            operations=[operation.name for operation in config.every],
            clients=[client.zone for client in config.clients],
            nodes=[target.node for target in config.targets],
        )
        self._events = EventWriter(out / DRIVER_EVENTS, self._broken)
        self._rows = RowWriter(out / ARRIVALS, self._broken)
        self._plan_rows = RowWriter(out / SCHEDULED, self._broken)
        rates = [rate_of(each.rate, each.changes, each.times, each.before) for each in config.operations]
        self._schedule = Schedule(rates, config.arrivals, config.seed, self._share)
        updates = Updates(config.stride, self._share.process, self._share.processes)
        changed = {each.place for each in config.every if each.actions}
        indices = {
            own.place: _Index(config, own, updates if own.place in changed else None) for own in config.every_index
        }
        self._first = indices[None]
        self._stride = config.stride
        self._indices = [indices[each.place] for each in config.every]
        self._some: dict[int, Requests] = {
            op: at.workload.some(each.queries, at.own.index, at.own.documents, config.stride)
            for op, (each, at) in enumerate(zip(config.every, self._indices, strict=True))
            if each.queries
        }
        self._some |= {op: Calls(each.calls) for op, each in enumerate(config.every) if each.answer == ADMIN}
        self._bulks = [
            Bulks(
                at.workload,
                at.own.alias or at.own.index,
                each.items,
                self._stride,
                _let_others_on,
                automatic=each.automatic,
                rolled=at.own.rolled,
            )
            if each.answer == "bulk"
            else None
            for each, at in zip(config.every, self._indices, strict=True)
        ]
        self._item_rows = RowWriter(out / ITEMS, self._broken) if any(self._bulks) else None
        self._searches = [
            Searches(self._some.get(op) or at.requests, each.searches) if each.answer == "msearch" else None
            for op, (each, at) in enumerate(zip(config.every, self._indices, strict=True))
        ]
        self._part_rows = RowWriter(out / PARTS, self._broken) if any(self._searches) else None
        self._changing = [
            None if each.actions is None else Changing(each.actions, mixed(config.seed, op), updates)
            for op, each in enumerate(config.every)
        ]
        self._change_rows = RowWriter(out / CHANGES, self._broken) if changed else None
        self._helpers = [
            None if each.helper is None or not self._share.has(op) else helpers()[each.helper.kind]
            for op, each in enumerate(config.every)
        ]
        self._told_rows = RowWriter(out / TOLD, self._broken) if any(self._helpers) else None
        self._calls: dict[Call, gevent.Greenlet] = {}
        client = clients()[config.client.kind]
        self._zones = [_Zone(host, config, number, client) for number, host in enumerate(config.clients)]
        self._pool = Pool(config.at_once)
        self._balanced, self._library_policy = client.probed, not client.whole
        self._begin = 0
        self._go = Event()
        self._stop_ns: int | None = None
        self._scheduler_done = Event()
        self._closed = False
        self._second = Second(len(config.every))
        self._slices: list[tuple[int, int, float | None]] = []
        self._apart: list[list[tuple[int, int, float | None]]] = [[] for _ in config.usable]
        self._pulse = Pulse(config.instruments)
        self._said = Said(self._note_said)
        self._sent = self._dropped = self._surprises = 0
        self._waiting = [0] * len(config.every)
        """By operation: requests that are under way."""
        self._stale: EventWriter | None = None
        self._stale_reads = 0
        self._wrong = Examples(out, self._broken)
        self._options = [
            None
            if each.helper is None
            else options(
                each.helper,
                at.workload,
                at.own.alias or at.own.index,
                alias=at.own.alias is not None,
                automatic=each.automatic,
            )
            for each, at in zip(config.every, self._indices, strict=True)
        ]
        self._paged = [
            Pages(
                self._some.get(op) or at.requests,
                at.workload,
                at.judge,
                at.own.index,
                "scroll" if each.answer == "scroll" else "pit",
                each.pages,
                each.size,
            )
            if each.answer in PAGED
            else None
            for op, (each, at) in enumerate(zip(config.every, self._indices, strict=True))
        ]
        self._checks = self._checks_on_data()

    def _checks_on_data(self) -> list[Paced]:
        """What the load does beside its arrivals, with senders and files of its own; mostly nothing."""
        config = self._config
        checks: list[Paced] = []
        zones = [client.zone for client in config.clients]
        if config.cas is not None:
            checks.append(
                CompareAndSet(
                    config.cas,
                    self._first.workload,
                    index=config.index,
                    alias=config.alias,
                    out=Path(config.out),
                    zones=zones,
                    nodes=[target.node for target in config.targets],
                    sender=lambda zone, f, process: self._zones[zone].sender(turn_of(f, process)),
                    seed=config.seed,
                    timeout_s=config.patience_s,
                    broken=self._broken,
                    judge=self._first.judge,
                    told=self._wrong.note,
                )
            )
        if config.visibility is not None:
            direct: dict[tuple[int, int], Send] = {}

            def to(zone: int, node: int) -> Send:
                if (zone, node) not in direct:
                    where = self._zones[zone]
                    made = single(where.targets[node], node, where.namespace, where.access, pool=50)
                    direct[zone, node] = made.transport.perform_request
                return direct[zone, node]

            checks.append(
                Visibility(
                    config.visibility,
                    self._first.workload,
                    index=config.index,
                    alias=config.alias,
                    out=Path(config.out),
                    zones=zones,
                    nodes=[(target.node, target.zone) for target in config.targets],
                    sender=lambda zone: self._zones[zone].sender(_PROBE_TURN),
                    seed=config.seed,
                    direct=to,
                    timeout_s=config.patience_s,
                    broken=self._broken,
                    judge=self._first.judge,
                    known=self._first.known,
                    told=self._wrong.note,
                )
            )
        return checks

    # -- the life of a load ------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Probe every node once from everywhere, then keep probing. Nothing of the load is sent yet."""
        versions = {
            "locust": locust.__version__,
            "gevent": gevent.__version__,
            "opensearch-py": opensearchpy.__versionstr__,
        }
        self._events.write("driver.start", pid=os.getpid(), versions=versions, **of_several(self._config.part))
        if self._balanced:
            own = [zone for zone in self._zones if zone.host.through is None]  # others have a balancer that probes
            pairs = [(zone, number) for zone in own for number in zone.numbers]
            gevent.joinall([gevent.spawn(self._probe, zone, number) for zone, number in pairs])
            interval = self._config.client.probe.interval_s
            for place, (zone, number) in enumerate(pairs):
                self._spawn(self._keep_probing, zone, number, interval * (place + 1) / len(pairs))
            for zone in self._zones:
                if zone.host.controller is not None and self._config.client.steered_s is not None:
                    self._spawn(self._keep_asking_the_controller, zone, zone.host.controller)
        self._spawn(self._keep_flushing)
        self._spawn(self._keep_watching)
        if self._config.part.process == 0:
            self._spawn(self._keep_measuring_the_machine)
        if self._config.usable:
            self._spawn(self._keep_measuring_apart)
        self._spawn(self._pulse.beat, lambda: self._closed)

    def go(self, start_ns: int) -> None:
        """Let arrivals begin at ``start_ns`` (CLOCK_MONOTONIC)."""
        self._begin = start_ns
        self._go.set()
        for check in self._checks:
            self._spawn(check.walk, start_ns)
        for number, loop in enumerate(self._config.closed, len(self._config.operations)):
            for _ in range(clients_of(self._share, number, loop.clients)):
                self._spawn(self._keep_sending, number, start_ns)

    def begin(self, at_ns: int) -> None:
        """Let rates that change begin to at this time (CLOCK_MONOTONIC). What is planned already stays as it is."""
        late = self._schedule.begin(at_ns - self._begin)
        self._events.write("rates.begin", at=at_ns, late_ns=late)

    def run(self) -> None:
        """Walk the schedule until stopped: the whole task of the one locust user."""
        self._go.wait()
        try:
            if self._begin:
                self._walk()
        except Exception as error:
            self._fail(error)  # else locust would start the task anew
        finally:
            self._scheduler_done.set()

    def stop(self, *, at_once: bool = False) -> None:
        """Send nothing that is due from now on, wait for what is under way, and close the record.

        ``at_once``: nor anything more of a check on data that is under way.
        A request that outlasts its own timeout by a second is left without an outcome.
        """
        self._stop_ns = time.monotonic_ns()
        self._go.set()
        for check in self._checks:
            if at_once:
                check.give_up()
            else:
                check.stop()
        self._scheduler_done.wait(timeout=2)
        end = time.monotonic() + self._config.patience_s + 1
        while self._calls and time.monotonic() < end:
            self._end_waiting_calls()
            self._pool.join(timeout=_STOP_S)
        self._pool.join(timeout=max(0.0, end - time.monotonic()))
        for check in self._checks:  # a document that was just written gets the time to be found
            check.join(max(2.0, end - time.monotonic()))
        self.close("stopped")

    def close(self, reason: str) -> None:
        """Write what there is, each file for itself. Idempotent; the first reason is the one that counts.

        What cannot be written ends the process, as everywhere (``fail``).
        """
        if self._closed:
            return
        self._closed = True
        if self._stop_ns is None:
            self._stop_ns = time.monotonic_ns()
        last: dict[str, Any] = {"stopped_ns": self._stop_ns, "processors": self._slices, "stale": self._stale_reads}
        last |= self._taken_apart()
        last |= {"pulse": self._pulse.taken(), "wrong": dict(self._wrong.counts)}
        if errors := self._said.taken():
            last["errors"] = errors
        files: list[Paced | EventWriter | RowWriter | Examples] = [*self._checks]
        every = (self._change_rows, self._item_rows, self._part_rows, self._told_rows)
        files += [rows for rows in every if rows is not None]
        files += [self._rows, self._plan_rows, self._wrong]
        for file in [*files, self._stale] if self._stale is not None else files:
            with suppress(OSError):  # ``_broken`` has heard of it
                file.close()
        with suppress(OSError):
            self._events.write("driver.stop", reason=reason, **last)
        self._events.close()

    def _broken(self, says: str) -> None:
        """A file of the record cannot be written: the end, from whatever greenlet noticed it."""
        self._fail(HistoryError(says))

    def _spawn(self, work: Callable[..., None], *args: Any) -> None:
        """Start something without which the record is worth nothing: its failure is the driver's end."""

        def guarded() -> None:
            try:
                work(*args)
            except Exception as error:
                self._fail(error)

        gevent.spawn(guarded)

    # -- the schedule ------------------------------------------------------------------------------------

    def _walk(self) -> None:
        begin = self._begin
        ahead = self._plan(begin + SECOND)
        second = 1
        while self._stop_ns is None:
            now, second = ahead, second + 1
            ahead = self._plan(begin + second * SECOND)  # on disk a whole second before its first is due
            self._walk_second(now)
            if not now:  # all operations may be slow, or at rest; else all time to come would be planned at once
                self._reach(begin + (second - 1) * SECOND)

    def _reach(self, t: int) -> None:
        """Wait until a moment (ns), or until the load is stopped."""
        while self._stop_ns is None and (wait := t - time.monotonic_ns()) > 0:
            gevent.sleep(min(wait / SECOND, _STOP_S))

    def _plan(self, until_ns: int) -> list[tuple[int, int, int]]:
        """Write the schedule up to ``until_ns`` to disk and return it as (k, op, intended)."""
        rows = self._schedule.until(until_ns - self._begin)
        rows["intended"] += self._begin
        self._plan_rows.add(rows.tobytes())
        self._plan_rows.flush()
        planned: list[tuple[int, int, int]] = rows.tolist()
        return planned

    def _walk_second(self, planned: list[tuple[int, int, int]]) -> None:
        spawn, full, monotonic_ns = self._pool.spawn, self._pool.full, time.monotonic_ns
        burst = 0
        for k, op, intended in planned:
            while (wait := intended - monotonic_ns()) > 0:
                if self._stop_ns is not None:
                    break
                burst = 0
                gevent.sleep(min(wait / SECOND, _STOP_S))
            if self._stop_ns is not None and intended > self._stop_ns:
                return
            burst += 1
            if burst % 100 == 0:
                gevent.sleep(0)  # behind schedule: catch up, but let requests be sent and answers be read
            if full():
                self._drop(k, op, intended)
            else:
                spawn(self._arrive, k, op, intended)

    def _drop(self, k: int, op: int, intended: int) -> None:
        self._dropped += 1
        self._second.dropped += 1
        self._record(k, op, _DROPPED, 0, NO_INDEX, NO_INDEX, 0, intended, 0, 0, 0, Failure.DRIVER)

    def _keep_sending(self, op: int, start_ns: int) -> None:
        """One client of a closed loop: its next request leaves when the one before was answered."""
        while (wait := start_ns - time.monotonic_ns()) > 0:
            gevent.sleep(wait / SECOND)
        while self._stop_ns is None and not self._closed:
            k, intended = self._schedule.take(), time.monotonic_ns()
            self._plan_rows.add(PLAN_ROW.pack(k, op, intended))
            self._plan_rows.flush()
            sent = self._pool.spawn(self._arrive, k, op, intended)
            sent.join()
            if not sent.value:
                self._goes_on(AFTER_FAILURE_S)

    # -- one arrival -------------------------------------------------------------------------------------

    def _arrive(self, k: int, op: int, intended: int) -> bool:
        """Send one request and record what became of it; whether it was answered, and so that something was done."""
        start = time.monotonic_ns()
        self._sent += 1
        self._waiting[op] += 1
        if op < len(self._config.operations):
            self._second.lags.append(start - intended)
        trace = Trace()
        client = client_of(k, op, len(self._zones), self._config.seed)
        read = None
        if (paged := self._paged[op]) is not None:
            read = paged.read(k, start)
            outcome, status, length = self._send_pages(read, k, op, client, trace)
        elif (bulks := self._bulks[op]) is None:
            outcome, status, length, parts = self._send(k, op, client, trace, start)
            if parts is not None and self._part_rows is not None and not self._closed:
                self._part_rows.add(entry(k, parts))
        elif self._helpers[op] is not None:
            outcome, status, length = self._call(bulks, k, op, client, trace)
        else:
            outcome, status, length = self._send_bulk(bulks, k, op, client, trace, start)
        end = time.monotonic_ns()
        to = NO_INDEX if trace.node is None else trace.node
        failure = 0 if outcome == _OK else trace.failure
        self._waiting[op] -= 1
        self._record(k, op, outcome, status, client, to, trace.attempts, intended, start, end, length, failure)
        if read is not None:
            self._release(read, op, client)
        return outcome in (_OK, _PARTIAL)

    def _send_pages(self, read: Read, k: int, op: int, client: int, trace: Trace) -> tuple[int, int, int]:
        """Go through the pages of a read: outcome, status of the last request, bytes of all answers. All of it has the
        time of one request, but for what opensearch-py tries again."""
        status, length, name = 0, 0, self._every[op].name
        timer = None if self._library_policy else Timeout.start_new(self._config.client.timeout_s)
        try:
            zone = self._zones[client]
            while (request := read.next()) is not None:
                status, text = zone.sender(op)(request.method, request.path, body=request.body, headers=trace)
                length += len(text)
                read.take(status, text)
                if read.outcome == _PARTIAL:
                    trace.failure = self._said.partial(name, status, text, self._name_of(trace))
            if read.says:
                self._note_wrong(k, op, trace, read.says)
            elif read.stale:
                self._note_stale(k, op, trace)
            outcome = int(read.outcome)
            if outcome == _GARBLED:
                trace.failure = Failure.GARBLED
        except Timeout as fired:
            if fired is not timer:
                raise
            outcome, trace.failure = _TIMEOUT, Failure.TIMEOUT
        except Exception as error:
            raised, status = of_error(error)
            self._note_last(name, error, trace)
            outcome = read.failed(raised, status, trace.failure)
            if outcome == _UNKNOWN:
                self._surprise(error)
        finally:
            if timer is not None:
                timer.close()
            self._note_tried_again(name, trace)
        return outcome, status, length

    def _note_last(self, name: str, error: Exception, trace: Trace) -> None:
        """What a request was answered at last."""
        trace.failed = [each for each in trace.failed if each[1] is not error]
        trace.failure = self._said.raised(name, error, self._name_of(trace))

    def _note_tried_again(self, name: str, trace: Trace) -> None:
        """What it was answered before opensearch-py sent it again."""
        for node, error in trace.failed:
            self._said.raised(name, error, self._node(node))
        trace.failed.clear()

    def _release(self, read: Read, op: int, client: int) -> None:
        """Free what a read holds on the nodes, whatever came of it; where that fails, they do so soon."""
        if (request := read.release()) is None:
            return
        with suppress(Exception), Timeout(self._config.client.timeout_s, False):
            sender = self._zones[client].sender(op)
            sender(request.method, request.path, body=request.body, headers=Trace())

    def _send_bulk(self, bulks: Bulks, k: int, op: int, client: int, trace: Trace, start: int) -> tuple[int, int, int]:
        """Send a bulk, and what was rejected of it again as often as its client does. Outcome, status of the last try,
        bytes of all answers."""
        retry, fates = self._every[op].retry, Fates(numbers := bulks.numbers(k))
        changing, plan = self._changing[op], None
        if changing is not None and self._change_rows is not None and not self._closed:
            plan = changing.plan(numbers)
            self._change_rows.add(plan.rows)
            self._change_rows.flush()  # before it is sent: what it may have changed must be known
        length, tries = 0, 0
        while True:
            trace.failure = 0
            outcome, status, more, items = self._send(k, op, client, trace, start, (fates.due, tries > 0, plan))
            length, tries = length + more, tries + 1
            again = fates.told(outcome, items)
            if not again or retry is None or tries > retry.times:
                break
            if not self._goes_on(retry.wait(tries, random.random())):
                break
        if (outcomes := fates.items) is not None:
            self._record_items(k, outcomes)
        if changing is not None and plan is not None:
            changing.told(plan, outcomes)
        return int(fates.outcome), status, length

    def _call(self, bulks: Bulks, k: int, op: int, client: int, trace: Trace) -> tuple[int, int, int]:
        """Send the documents of a bulk by one call of a helper. Outcome, status of the last request, bytes of all
        answers."""
        helper, given, name = self._helpers[op], self._options[op], self._every[op].name
        assert helper is not None and given is not None
        call = Call(
            bulks.numbers(k),
            self._indices[op].judge,
            lambda: self._stop_ns is not None,
            partial=lambda status, text, node: self._said.partial(name, status, text, self._node(node)),
            raised=lambda error, node: self._said.raised(name, error, self._node(node)),
            wrong=lambda says, node: self._wrong.note(name, says, self._node(node), k),
        )
        self._calls[call] = gevent.getcurrent()
        CURRENT.set(call)
        error: Exception | None = None
        try:
            helper.send(self._zones[client].helped(op), bulks.numbers(k), given, call)
        except Exception as raised:
            error = raised
            if not isinstance(raised, OpenSearchException | Stopped):
                self._surprise(raised)
        finally:
            del self._calls[call]
        call.ended(error)
        trace.node, trace.attempts, trace.failure = call.node, call.attempts, call.failure
        if (outcomes := call.items) is not None:
            self._record_items(k, outcomes)
        if self._told_rows is not None and not self._closed:
            self._told_rows.add(entry(k, call.heard))
        return int(call.outcome), call.status, call.length

    def _node(self, number: int) -> str:
        return self._config.targets[number].node

    def _end_waiting_calls(self) -> None:
        """End the calls of helpers that wait before they send again; that may be for minutes."""
        for call, caller in list(self._calls.items()):
            if call.idle:
                caller.kill(Stopped(), block=False)

    def _goes_on(self, seconds: float) -> bool:
        """Wait for so long, at most until the load is stopped; whether it goes on."""
        until = time.monotonic() + seconds
        while self._stop_ns is None and (left := until - time.monotonic()) > 0:
            gevent.sleep(min(left, _STOP_S))
        return self._stop_ns is None

    def _send(
        self,
        k: int,
        op: int,
        client: int,
        trace: Trace,
        start: int,
        some: tuple[Sequence[int], bool, Planned | None] | None = None,
    ) -> tuple[int, int, int, bytes | None]:
        """Send one request: its outcome, its status (0: none), the bytes of its answer, and the outcome of each
        document of a bulk, or of each of several searches, that was answered. ``some``: the items of a bulk, whether
        they were sent before, and what they do."""
        outcome, status, length = _UNKNOWN, 0, 0
        items = None
        asked = None
        # one timer for the whole request, from sending to the last byte; sockets then need none of their own
        timer = None if self._library_policy else Timeout.start_new(self._config.client.timeout_s)
        try:
            zone = self._zones[client]
            operation = self._every[op]
            bulks = self._bulks[op]
            searches: Searches | None = self._searches[op]
            several: Sequence[Request] = ()
            at = self._indices[op]
            aliased = at.writes if operation.answer in WRITING else None
            # the number of the document that it writes, where it writes one; or of the arrival
            number = k * self._stride if operation.answer == "index" else k
            if some is not None and bulks is not None:
                request = bulks.of(some[0], some[2])
            elif searches is not None:
                request, several = searches.of(k)
            else:
                request = (aliased or self._some.get(op) or at.requests).of(operation.kind, number)
            path = request.path if aliased is None else requiring_alias(request.path)
            if some is not None:
                asked = at.judge.sent_bulk(path, some[0], again=some[1], plan=some[2])
            elif searches is not None:
                asked = at.judge.sent_searches(k, path, several, start)
            else:
                asked = at.judge.sent(operation.answer, number, request, path, start)
            status, text = zone.sender(op)(request.method, path, body=request.body, headers=trace)
            length = len(text)
            judged = at.judge.of(asked, status, text, time.monotonic_ns())
            outcome, items = judged.outcome, judged.items
            if outcome == _PARTIAL or (items is not None and outcome != _OK):
                trace.failure = self._said.partial(operation.name, status, text, self._name_of(trace))
            elif outcome == _GARBLED:
                trace.failure = Failure.GARBLED
            if judged.says:
                self._note_wrong(k, op, trace, judged.says)
            elif judged.stale:
                self._note_stale(k, op, trace)
        except Timeout as fired:
            if fired is not timer:
                raise
            outcome, trace.failure = _TIMEOUT, Failure.TIMEOUT
        except Exception as error:
            outcome, status = of_error(error)
            self._note_last(self._every[op].name, error, trace)
            if outcome == _UNKNOWN:
                self._surprise(error)
            elif outcome == _PARTIAL:
                if says := self._indices[op].judge.missing(asked, error):
                    outcome = _WRONG
                    self._note_wrong(k, op, trace, says)
                else:
                    self._note_stale(k, op, trace)
        finally:
            if timer is not None:
                timer.close()
            self._note_tried_again(self._every[op].name, trace)
        return outcome, status, length, items

    def _record(
        self,
        k: int,
        op: int,
        outcome: int,
        status: int,
        client: int,
        node: int,
        attempts: int,
        intended: int,
        start: int,
        end: int,
        length: int,
        failure: int,
    ) -> None:
        if self._closed:
            return
        tries = min(attempts, 255)
        self._rows.add(ROW.pack(k, op, outcome, status, client, node, tries, failure, intended, start, end))
        second = self._second
        if outcome == _OK:
            second.ok[op] += 1
        else:
            second.bad[op] += 1
        latency = end - intended if end else 0  # dropped: it was never sent
        if end:
            second.latencies[op].append(latency)
        operation = self._every[op]
        if outcome == _OK and (operation.good_within_s is None or latency <= operation.good_within_s * 1e9):
            second.good[op] += 1
        self._report(operation.kind, operation.name, latency / 1e6, length, _ERRORS[outcome])

    def _record_items(self, k: int, outcomes: bytes) -> None:
        """Write down what became of each document of a bulk."""
        if self._item_rows is not None and not self._closed:
            self._item_rows.add(entry(k, outcomes))

    def _note_stale(self, k: int, op: int, trace: Trace) -> None:
        """Write down a read that got less than must be there although it was answered in full. Rare."""
        if not trace.failure:
            trace.failure = Failure.DOCUMENT_MISSING
        if self._closed:
            return
        if self._stale is None:
            self._stale = EventWriter(Path(self._config.out) / STALE, self._broken)
        self._stale_reads += 1
        self._stale.write("stale", k=k, op=self._every[op].name, node=self._name_of(trace))

    def _note_said(self, kind: str, **fields: Any) -> None:
        """Write down what OpenSearch said of a request; after the record is closed nothing more."""
        if not self._closed:
            self._events.write(kind, **fields)

    def _name_of(self, trace: Trace) -> str | None:
        """The node that a request went to last."""
        return None if trace.node is None else self._config.targets[trace.node].node

    def _note_wrong(self, k: int, op: int, trace: Trace, says: str) -> None:
        """Write down an answer that was not what was asked for."""
        trace.failure = Failure.WRONG
        self._wrong.note(self._every[op].name, says, self._name_of(trace), k)

    def _surprise(self, error: BaseException) -> None:
        """An exception that means nothing known: an error of this driver, so it must be seen."""
        self._surprises += 1
        if self._surprises <= 10:
            log.error("an arrival ended in an unforeseen way", exc_info=error)

    # -- health checks -----------------------------------------------------------------------------------

    def _keep_probing(self, zone: _Zone, number: int, delay: float) -> None:
        interval = self._config.client.probe.interval_s
        due = time.monotonic() + delay
        while not self._closed:
            gevent.sleep(max(0.0, due - time.monotonic()))
            self._probe(zone, number)
            due = max(due + interval, time.monotonic())

    def _probe(self, zone: _Zone, number: int) -> None:
        """One health check over a connection of its own, as balancers make them."""
        target: Target = zone.targets[number]
        probe = self._config.client.probe
        connection = zone.connection(number)(target.host, target.port, timeout=None, **zone.probing.of_pool())
        server = str(Address(zone.access.tls, target.host, target.port))
        path, headers = zone.access.signed("GET", server, probe.path, headers={"connection": "close", **zone.headers})
        ok, says = False, (silent := f"no answer within {probe.timeout_s:g} s")
        began = time.monotonic_ns()
        try:
            with Timeout(probe.timeout_s, False):
                connection.request("GET", path, headers=headers)
                answer = connection.getresponse()
                answer.read()
                ok, says = answer.status == 200, f"HTTP {answer.status}"
        except (OSError, HTTPError, HTTPException) as error:
            says = _short(error)
        finally:
            connection.close()
        if says is silent and time.monotonic_ns() - began > probe.timeout_s * 1e9 + LATE_NS:
            return  # its own timer came late: this process stood still, and nobody looked whether the node answered
        if zone.balancer.observe(number, ok) and not self._closed:
            self._events.write("balancer", client_zone=zone.host.zone, node=target.node, healthy=ok, says=says)

    def _keep_asking_the_controller(self, zone: _Zone, port: int) -> None:
        """A controller that has not answered three times steers no more: its clients must not depend on it."""
        assert self._config.client.steered_s is not None
        numbers = {target.node: number for number, target in enumerate(self._config.targets)}
        silent = 0
        before: list[str] | None = None
        while not self._closed:
            named: list[str] | None
            try:
                with Timeout(self._config.client.probe.timeout_s, TimeoutError("the controller does not answer")):
                    named = named_by_controller(zone.namespace, port)
                silent = 0
            except (OSError, HTTPError, HTTPException, ValueError, LookupError, TypeError, RecursionError):
                silent += 1
                named = before if silent < 3 else None
            if named != before:
                zone.balancer.steer(None if named is None else [numbers[n] for n in named if n in numbers])
                if not self._closed:
                    self._events.write("steered", client_zone=zone.host.zone, nodes=named)
                before = named
            gevent.sleep(self._config.client.steered_s)

    # -- once a second, and oftener ----------------------------------------------------------------------

    def _keep_flushing(self) -> None:
        while not self._closed:
            gevent.sleep(_FLUSH_S)
            if not self._closed:
                if self._item_rows is not None:  # first: a bulk's own row says that its documents are there
                    self._item_rows.flush()
                for rows in (self._told_rows, self._part_rows):
                    if rows is not None:
                        rows.flush()
                self._rows.flush()

    def _keep_measuring_the_machine(self) -> None:
        """How busy all processors were, in slices fine enough to lay them over single requests."""
        then, times_then = time.monotonic_ns(), psutil.cpu_times()
        while not self._closed:
            gevent.sleep(_SLICE_S)
            now, times_now = time.monotonic_ns(), psutil.cpu_times()
            self._slices.append((then, now, busy(times_then, times_now)))
            then, times_then = now, times_now

    def _keep_measuring_apart(self) -> None:
        """The same of each set of processors that somebody is held to; without one nothing is read."""
        where = [places(each) for each in self._config.usable]
        then, times_then = time.monotonic_ns(), psutil.cpu_times(percpu=True)
        while not self._closed:
            gevent.sleep(_SLICE_S)
            now, times_now = time.monotonic_ns(), psutil.cpu_times(percpu=True)
            for slices, some in zip(self._apart, where, strict=True):
                slices.append((then, now, busy_of(times_then, times_now, some)))
            then, times_then = now, times_now

    def _taken_apart(self) -> dict[str, Any]:
        """The slices of those sets since they were last taken; nothing where there are none."""
        if not self._config.usable:
            return {}
        taken, self._apart = self._apart, [[] for _ in self._config.usable]
        return {"usable": [{"of": of, "slices": some} for of, some in zip(self._config.usable, taken, strict=True)]}

    def _keep_watching(self) -> None:
        """Report each second on the driver itself (its validity) and on the load (for people watching)."""
        then, cpu_then = time.monotonic(), time.process_time()
        while not self._closed:
            gevent.sleep(max(0.0, then + 1 - time.monotonic()))
            if self._closed:
                return
            now, cpu_now = time.monotonic(), time.process_time()
            slices, self._slices = self._slices, []
            second, self._second = self._second, Second(len(self._config.every))
            own: dict[str, Any] = {
                "cpu": round((cpu_now - cpu_then) / (now - then), 4),
                "processors": slices,
                **self._taken_apart(),
                "pulse": self._pulse.taken(),
                "lag_p99_ms": percentile_ms(second.lags, 0.99),
                "in_flight": len(self._pool),
                "dropped": second.dropped,
                **({"errors": errors} if (errors := self._said.taken()) else {}),
            }
            then, cpu_then = now, cpu_now
            self._events.write("self", **own)
            self._say(
                {
                    "says": "status",
                    "t": time.monotonic_ns(),
                    **own,
                    "sent_total": self._sent,
                    "dropped_total": self._dropped,
                    "operations": second.words(self._every, self._waiting),
                    "in_use": {
                        zone.host.zone: [self._config.targets[n].node for n in zone.balancer.in_use]
                        for zone in self._zones
                    }
                    if self._balanced
                    else {},
                }
            )


def _short(error: BaseException) -> str:
    """An error in a few words for the record, without object addresses."""
    inner = error.__cause__ if isinstance(error.__cause__, OSError) else error
    if isinstance(inner, OSError) and inner.strerror:
        return inner.strerror.lower()
    return type(inner).__name__
