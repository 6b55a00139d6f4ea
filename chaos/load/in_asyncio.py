"""The second driver: opensearch-py's asynchronous client and its helper, in one event loop of asyncio.

Started by :mod:`chaos.load.driver`, never by hand: ``python -m chaos.load.in_asyncio``. It has the same parent, is told
the same and leaves the same record as the first driver (:mod:`chaos.load.control`, :mod:`chaos.load.engine`). With it
it shares the schedule, the judge of answers and how calls of helpers are noted. Bulks by a helper are all that it
sends: compare-and-set, probes of visibility, health checks and signs of life from Toxiproxies are the first driver's.

Importing locust would patch the standard library, so neither it nor gevent may be imported here.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import ssl
import sys
import time
import traceback
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from http.client import RemoteDisconnected
from pathlib import Path
from typing import Any

import aiohttp
import opensearchpy
from aiohttp import client_exceptions as raised_by
from opensearchpy import AIOHttpConnection, AsyncOpenSearch
from opensearchpy._async.http_aiohttp import OpenSearchClientResponse
from opensearchpy.exceptions import ConnectionError as NoConnection
from opensearchpy.exceptions import ConnectionTimeout, OpenSearchException
from urllib3.exceptions import NewConnectionError, ProtocolError, SSLError

from chaos.base.access import Access
from chaos.base.errors import ChaosError, HistoryError
from chaos.base.netsock import Namespace
from chaos.history.failures import Failure
from chaos.history.format import NO_INDEX, Outcome
from chaos.history.items import entry
from chaos.history.writer import (
    ARRIVALS,
    DRIVER_EVENTS,
    ITEMS,
    SCHEDULED,
    TOLD,
    EventWriter,
    RowWriter,
    write_tables,
)
from chaos.load import workloads
from chaos.load.bulks import Bulks
from chaos.load.calls import CURRENT, BulkJson, Call, Stopped, options
from chaos.load.clients import helpers
from chaos.load.config import AFTER_FAILURE_S, ClientHost, DriverConfig
from chaos.load.control import CONTROL, Control, settle_in
from chaos.load.examples import Examples
from chaos.load.known import Known
from chaos.load.rates import rate_of
from chaos.load.record import PLAN_ROW, ROW, Second, clients_of, of_several, percentile_ms, share_of
from chaos.load.right import Judge
from chaos.load.said import Said
from chaos.load.schedule import SECOND, Schedule
from chaos.load.turns import client_of
from chaos.opensearch.rest import Garbled

log = logging.getLogger(__name__)

_FLUSH_S = 0.25
_STOP_S = 0.25
"""How long is waited at once, so that a stop is heard."""
_BEAT_S = 0.02
_LATE_NS = 50_000_000
"""As in :mod:`chaos.load.pulse`."""
_ANSWERED = (Outcome.OK, Outcome.PARTIAL)


class Connection(AIOHttpConnection):
    """opensearch-py's asynchronous connection to one node, made in one namespace, whose requests are noted by the call
    that they belong to."""

    def __init__(self, *, node: int, namespace: Namespace | None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._node, self._namespace = node, namespace

    async def perform_request(
        self,
        method: str,
        url: str,
        params: Mapping[str, Any] | None = None,
        body: bytes | None = None,
        timeout: int | float | None = None,
        ignore: Any = (),
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        call = CURRENT.get()
        call.begins(self._node, url, body or b"")
        try:
            status, answered, text = await super().perform_request(method, url, params, body, timeout, ignore, headers)
        except Exception as error:
            call.fails(in_known_terms(error))
            raise
        call.answered(status, text)
        return status, answered, text

    async def _create_aiohttp_session(self) -> None:
        """As the library makes it, but for where its sockets are."""
        self.loop = self.loop or asyncio.get_running_loop()
        self.session = aiohttp.ClientSession(
            headers=self.headers,
            skip_auto_headers=("accept", "accept-encoding"),
            auto_decompress=True,
            cookie_jar=aiohttp.DummyCookieJar(),
            response_class=OpenSearchClientResponse,
            connector=aiohttp.TCPConnector(
                limit=self._limit or 0,
                use_dns_cache=True,
                ssl=self._ssl_context if self._ssl_context is not None else True,
                socket_factory=self._socket,
            ),
            trust_env=bool(self._trust_env),
        )

    def _socket(self, address: Any) -> socket.socket:
        family, kind, protocol, *_ = address
        if self._namespace is None:
            return socket.socket(family, kind, protocol)
        return self._namespace.socket(family, kind, protocol)


def in_known_terms(error: Exception) -> Exception:
    """What opensearch-py raised over aiohttp's errors, as :func:`chaos.load.outcomes.of_error` reads it."""
    if not isinstance(error, NoConnection) or isinstance(error, ConnectionTimeout):
        return error
    cause = error.info
    known: Exception
    if isinstance(cause, raised_by.ClientConnectorError):
        inner: BaseException = getattr(cause, "certificate_error", cause.os_error)
        known = SSLError(inner) if isinstance(inner, ssl.SSLError) else NewConnectionError(None, str(inner))  # type: ignore[arg-type]
        known.__cause__ = inner
    elif isinstance(cause, raised_by.ServerDisconnectedError):
        known = ProtocolError("Connection aborted.", RemoteDisconnected("nothing came"))
    elif isinstance(cause, raised_by.ClientPayloadError | raised_by.ClientResponseError | UnicodeDecodeError):
        known = Garbled(str(cause)[:200], int(getattr(cause, "status", 0) or 0))
    elif isinstance(cause, OSError):
        known = ProtocolError("Connection aborted.", cause)
    else:
        return error
    return NoConnection("N/A", str(error), known)


def client_of_zone(config: DriverConfig, host: ClientHost, access: Access) -> AsyncOpenSearch:
    """opensearch-py's asynchronous client with its own policy over the nodes that are asked from a client host."""
    targets = [target.seen_from(host) for target in config.targets]
    numbers = [number for number, each in enumerate(targets) if host.through in (None, each.node)]
    if config.client.kind == "pinned":
        numbers = [number for number in numbers if targets[number].node == config.client.node]
    space = None if host.netns is None else Namespace(host.netns)
    return AsyncOpenSearch(
        hosts=[{"host": targets[n].host, "port": targets[n].port, "node": n} for n in numbers],
        connection_class=Connection,
        namespace=space,
        serializer=BulkJson(),
        timeout=config.client.timeout_s,
        # not the library's 10: a stall must not also make later requests wait here
        pool_maxsize=config.at_once,
        http_compress=config.client.compress,
        **access.of_client(),
    )


class Engine:
    """The driver's work from :meth:`prepare` over :meth:`go` to :meth:`stop`, all in one event loop.

    ``say``: a message to the parent. ``fail``: ends the process.
    """

    def __init__(
        self, config: DriverConfig, say: Callable[[dict[str, Any]], None], fail: Callable[[BaseException], None]
    ) -> None:
        self._config, self._say, self._fail = config, say, fail
        self._every = config.every
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
        self._item_rows = RowWriter(out / ITEMS, self._broken)
        self._told_rows = RowWriter(out / TOLD, self._broken)
        self._wrong = Examples(out, self._broken)
        self._said = Said(self._note_said)
        self._share = share_of(config.part)
        rates = [rate_of(each.rate, each.changes, each.times, each.before) for each in config.operations]
        self._schedule = Schedule(rates, config.arrivals, config.seed, self._share)
        workload = workloads.of(config.workload, config.dataset)
        index, aliased = config.alias or config.index, config.alias is not None
        self._bulks: dict[int, Bulks] = {}
        self._options: dict[int, dict[str, Any]] = {}
        self._known = helpers()
        for op, each in enumerate(config.every):
            if self._share.has(op):
                assert each.helper is not None and self._known[each.helper.kind].in_asyncio
                self._bulks[op] = Bulks(workload, index, each.items, config.stride, automatic=each.automatic)
                self._options[op] = options(each.helper, workload, index, alias=aliased, automatic=each.automatic)
        known = Known(workload.found_by, config.documents, alone=False)
        self._judge = Judge(workload, known, config.index, copies=config.copies, automatic=config.automatic(None))
        config.access.check()
        self._clients: dict[tuple[int, int], AsyncOpenSearch] = {}
        self._begin = 0
        self._go = asyncio.Event()
        self._stop_ns: int | None = None
        self._closed = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._calls: dict[Call, asyncio.Task[Any]] = {}
        self._clients_left: set[asyncio.Task[Any]] = set()
        self._beside: list[asyncio.Task[Any]] = []
        self._second = Second(len(config.every))
        self._own: list[tuple[int, int]] = []
        self._since = self._last = time.monotonic_ns()
        self._sent = self._dropped = self._surprises = 0
        self._waiting = [0] * len(config.every)
        """By operation: requests that are under way."""

    # -- the life of a load ----------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Stand ready. Nothing is sent yet."""
        versions = {"aiohttp": aiohttp.__version__, "opensearch-py": opensearchpy.__versionstr__}
        self._events.write("driver.start", pid=os.getpid(), versions=versions, **of_several(self._config.part))
        for work in (self._keep_flushing, self._keep_watching, self._keep_beating, self._walk):
            self._beside.append(self._guarded(work()))

    def go(self, start_ns: int) -> None:
        """Let arrivals begin at ``start_ns`` (CLOCK_MONOTONIC)."""
        self._begin = start_ns
        self._go.set()
        for op, loop in enumerate(self._config.closed, len(self._config.operations)):
            for _ in range(clients_of(self._share, op, loop.clients)):
                self._clients_left.add(self._guarded(self._keep_sending(op)))

    def begin(self, at_ns: int) -> None:
        """Let rates that change begin to at this time (CLOCK_MONOTONIC). What is planned already stays as it is."""
        late = self._schedule.begin(at_ns - self._begin)
        self._events.write("rates.begin", at=at_ns, late_ns=late)

    async def stop(self) -> None:
        """Send nothing that is due from now on, wait for what is under way, and close the record."""
        self._stop_ns = time.monotonic_ns()
        self._go.set()
        end = time.monotonic() + self._config.patience_s + 1
        while self._tasks and time.monotonic() < end:
            for call, task in list(self._calls.items()):
                if call.idle:  # it waits before it sends again, that may be for minutes
                    task.cancel()
            await asyncio.wait(self._tasks, timeout=_STOP_S)
        for task in (*self._beside, *self._clients_left):
            task.cancel()
        self.close("stopped")
        for client in self._clients.values():
            with suppress(Exception):
                await client.close()

    def close(self, reason: str) -> None:
        """Write what there is, each file for itself. Idempotent; the first reason is the one that counts."""
        if self._closed:
            return
        self._closed = True
        if self._stop_ns is None:
            self._stop_ns = time.monotonic_ns()
        last: dict[str, Any] = {"stopped_ns": self._stop_ns, "stale": 0, "pulse": self._pulse()}
        last["wrong"] = dict(self._wrong.counts)
        if errors := self._said.taken():
            last["errors"] = errors
        for file in (self._item_rows, self._told_rows, self._rows, self._plan_rows, self._wrong):
            with suppress(OSError):  # ``_broken`` has heard of it
                file.close()
        with suppress(OSError):
            self._events.write("driver.stop", reason=reason, **last)
        self._events.close()

    def _broken(self, says: str) -> None:
        self._fail(HistoryError(says))

    def _guarded(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start something without which the record is worth nothing: its failure is the driver's end."""

        async def guarded() -> Any:
            try:
                return await work
            except Exception as error:
                self._fail(error)

        return asyncio.get_running_loop().create_task(guarded())

    def _sends(self, k: int, op: int, intended: int) -> asyncio.Task[Any]:
        """Start one arrival, which counts as under way until it is recorded."""
        task = self._guarded(self._arrive(k, op, intended))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # -- the schedule ----------------------------------------------------------------------------------------------

    async def _walk(self) -> None:
        await self._go.wait()
        if not self._begin:
            return
        ahead = self._plan(self._begin + SECOND)
        second = 1
        while self._stop_ns is None:
            now, second = ahead, second + 1
            ahead = self._plan(self._begin + second * SECOND)  # on disk a whole second before its first is due
            await self._walk_second(now, self._begin + (second - 1) * SECOND)

    def _plan(self, until_ns: int) -> list[tuple[int, int, int]]:
        rows = self._schedule.until(until_ns - self._begin)
        rows["intended"] += self._begin
        self._plan_rows.add(rows.tobytes())
        self._plan_rows.flush()
        planned: list[tuple[int, int, int]] = rows.tolist()
        return planned

    async def _walk_second(self, planned: list[tuple[int, int, int]], until: int) -> None:
        most = self._config.at_once
        for k, op, intended in planned:
            await self._reach(intended)
            if self._stop_ns is not None and intended > self._stop_ns:
                return
            if len(self._tasks) >= most:
                self._dropped += 1
                self._second.dropped += 1
                self._record(k, op, Outcome.DROPPED, 0, NO_INDEX, NO_INDEX, 0, intended, 0, 0, Failure.DRIVER)
                continue
            self._sends(k, op, intended)
        await self._reach(until)

    async def _reach(self, t: int) -> None:
        """Wait until a moment (ns), or until the load is stopped; others go on also where it has gone by."""
        await asyncio.sleep(0)
        while self._stop_ns is None and (wait := t - time.monotonic_ns()) > 0:
            await asyncio.sleep(min(wait / SECOND, _STOP_S))

    async def _keep_sending(self, op: int) -> None:
        """One client of a closed loop: its next request leaves when the one before was answered."""
        await self._reach(self._begin)
        while self._stop_ns is None and not self._closed:
            k, intended = self._schedule.take(), time.monotonic_ns()
            self._plan_rows.add(PLAN_ROW.pack(k, op, intended))
            self._plan_rows.flush()
            if not await self._sends(k, op, intended):
                await self._reach(time.monotonic_ns() + int(AFTER_FAILURE_S * SECOND))

    # -- one arrival -----------------------------------------------------------------------------------------------

    async def _arrive(self, k: int, op: int, intended: int) -> bool:
        """Send the documents of one arrival by one call of the helper, and record both its sides; whether it was
        answered."""
        start = time.monotonic_ns()
        self._sent += 1
        self._waiting[op] += 1
        if op < len(self._config.operations):
            self._second.lags.append(start - intended)
        operation, numbers = self._every[op], self._bulks[op].numbers(k)
        zone = client_of(k, op, len(self._config.clients), self._config.seed)
        name = operation.name
        call = Call(
            numbers,
            self._judge,
            lambda: self._stop_ns is not None,
            partial=lambda status, text, node: self._said.partial(name, status, text, self._node(node)),
            raised=lambda error, node: self._said.raised(name, error, self._node(node)),
            wrong=lambda says, node: self._wrong.note(name, says, self._node(node), k),
        )
        task = asyncio.current_task()
        assert operation.helper is not None and task is not None
        self._calls[call] = task
        CURRENT.set(call)
        error: BaseException | None = None
        try:
            await self._known[operation.helper.kind].send(self._client(zone, op), numbers, self._options[op], call)
        except asyncio.CancelledError:
            error = Stopped()
        except Exception as raised:
            error = raised
            if not isinstance(raised, OpenSearchException | Stopped):
                self._surprise(raised)
        finally:
            del self._calls[call]
        call.ended(error)
        node = NO_INDEX if call.node is None else call.node
        if not self._closed:
            if (outcomes := call.items) is not None:
                self._item_rows.add(entry(k, outcomes))
            self._told_rows.add(entry(k, call.heard))
        end = time.monotonic_ns()
        outcome = call.outcome
        failure = 0 if outcome is Outcome.OK else call.failure
        self._waiting[op] -= 1
        self._record(k, op, outcome, call.status, zone, node, call.attempts, intended, start, end, failure)
        return outcome in _ANSWERED

    def _client(self, zone: int, op: int) -> AsyncOpenSearch:
        """One client for each operation and client host, as in the first driver."""
        if (zone, op) not in self._clients:
            self._clients[zone, op] = client_of_zone(self._config, self._config.clients[zone], self._config.access)
        return self._clients[zone, op]

    def _node(self, number: int) -> str:
        return self._config.targets[number].node

    def _record(
        self,
        k: int,
        op: int,
        outcome: Outcome,
        status: int,
        client: int,
        node: int,
        attempts: int,
        intended: int,
        start: int,
        end: int,
        failure: int,
    ) -> None:
        if self._closed:
            return
        tries = min(attempts, 255)
        self._rows.add(ROW.pack(k, op, outcome, status, client, node, tries, failure, intended, start, end))
        second, operation = self._second, self._every[op]
        (second.ok if outcome is Outcome.OK else second.bad)[op] += 1
        if end:
            second.latencies[op].append(end - intended)
        within = operation.good_within_s
        if outcome is Outcome.OK and (within is None or end - intended <= within * 1e9):
            second.good[op] += 1

    def _note_said(self, kind: str, **fields: Any) -> None:
        if not self._closed:
            self._events.write(kind, **fields)

    def _surprise(self, error: BaseException) -> None:
        """An exception that means nothing known: an error of this driver, so it must be seen."""
        self._surprises += 1
        if self._surprises <= 10:
            log.error("an arrival ended in an unforeseen way", exc_info=error)

    # -- once a second, and oftener --------------------------------------------------------------------------------

    async def _keep_flushing(self) -> None:
        while not self._closed:
            await asyncio.sleep(_FLUSH_S)
            if not self._closed:
                for rows in (self._item_rows, self._told_rows, self._rows):  # a bulk's row says that its documents are
                    rows.flush()

    async def _keep_beating(self) -> None:
        """The driver's own beat, as in :mod:`chaos.load.pulse`."""
        self._since = self._last = time.monotonic_ns()
        while not self._closed:
            await asyncio.sleep(_BEAT_S)
            now = time.monotonic_ns()
            if now - self._last - _BEAT_S * 1e9 > _LATE_NS:
                self._own.append((self._last, now))
            self._last = now

    def _pulse(self) -> dict[str, Any]:
        found: dict[str, Any] = {"since": self._since, "until": self._last, "of": 0}
        own, self._own, self._since = self._own, [], self._last
        return found | ({"own": own} if own else {})

    async def _keep_watching(self) -> None:
        """Report each second on the driver itself (its validity) and on the load (for people watching)."""
        then, cpu_then = time.monotonic(), time.process_time()
        while not self._closed:
            await asyncio.sleep(max(0.0, then + 1 - time.monotonic()))
            if self._closed:
                return
            now, cpu_now = time.monotonic(), time.process_time()
            second, self._second = self._second, Second(len(self._every))
            own: dict[str, Any] = {
                "cpu": round((cpu_now - cpu_then) / (now - then), 4),
                "pulse": self._pulse(),
                "lag_p99_ms": percentile_ms(second.lags, 0.99),
                "in_flight": len(self._tasks),
                "dropped": second.dropped,
                **({"errors": errors} if (errors := self._said.taken()) else {}),
            }
            then, cpu_then = now, cpu_now
            self._events.write("self", **own)
            totals = {"sent_total": self._sent, "dropped_total": self._dropped, "in_use": {}}
            words = second.words(self._every, self._waiting)
            self._say({"says": "status", "t": time.monotonic_ns(), **own, **totals, "operations": words})


async def _serve(control: Control, first: dict[str, Any]) -> int:
    """Do what the parent says until it says *stop*, or is gone. Returns the exit code."""
    engine: Engine | None = None
    failing = False

    def fail(error: BaseException) -> None:
        """Say why and end; what was recorded so far is on disk. The parent first: that needs no disk."""
        nonlocal failing
        if failing:
            return
        failing = True
        try:
            control.socket.settimeout(1.0)
            control.say({"says": "error", "error": f"{error}"})
            if engine is not None:
                engine.close(f"error: {error}")
            traceback.print_exception(error)
        finally:
            sys.stderr.flush()
            os._exit(1)

    try:
        settle_in(first["parent"])
        engine = Engine(DriverConfig.model_validate(first["config"]), control.say, fail)
        engine.prepare()
    except Exception as error:
        fail(error)
        return 1
    gc.collect()
    gc.freeze()  # what lives for the whole run need not be walked again
    control.say({"says": "ready"})
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, lambda: fail(ChaosError("terminated")))
    while (message := await loop.run_in_executor(None, control.read)) is not None:
        if message["do"] == "go":
            engine.go(int(message["start_ns"]))
        elif message["do"] == "begin":
            engine.begin(int(message["at_ns"]))
        elif message["do"] == "stop":
            await engine.stop()
            control.say({"says": "stopped"})
            return 0
    engine.close("the parent is gone")
    return 3


def main() -> None:
    control = Control(int(os.environ[CONTROL]))
    first = control.read()
    code = 3 if first is None else asyncio.run(_serve(control, first))
    sys.stdout.flush()
    os._exit(code)  # without waiting for connections that a dead node holds open


if __name__ == "__main__":
    main()
