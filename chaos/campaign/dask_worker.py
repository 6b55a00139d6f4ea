"""What runs in a worker of Dask: an order's cells by the ordinary :class:`~chaos.campaign.worker.Worker`.

Dask places orders and finds out which workers are gone. All else is as with `campaign work`: the machine's lock, a
process for each run, which ends with this one, the upload and the one commit.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from distributed import WorkerPlugin, get_worker
from distributed.utils import sync

from chaos.base.console import Reporter
from chaos.base.errors import ChaosError, InvalidInput
from chaos.campaign.dask_order import RESOURCE, Answer, Order, ReadExperiment, Unfit
from chaos.campaign.lasting import END_SECONDS
from chaos.campaign.machine import Machine, Retired
from chaos.campaign.opening import open_store
from chaos.campaign.records import Records
from chaos.campaign.stores import StoreError
from chaos.campaign.worker import CELL, Worker
from chaos.run.stopping import Stop

STATUS_SECONDS = 1.0
"""At most so often a worker tells what it is at."""
stops: dict[str, Stop] = {}
"""Session → what ends its run in this process."""


def topic(session: str) -> str:
    """Of Dask's events: what the workers of a session say."""
    return f"opensearch-chaos-{session}"


def ask_to_stop(session: str, why: str) -> None:
    """End this process's run of a session in order, and begin none for it any more."""
    stops.setdefault(session, Stop()).ask(why)


class Telling(Reporter):
    """A reporter whose lines go to the client, as events of Dask."""

    def __init__(self, worker: Any, session: str) -> None:
        super().__init__(quiet=True)
        self._worker, self._topic, self._last = worker, topic(session), 0.0

    def line(self, text: str) -> None:
        self._tell("line", text)

    def demand(self, text: str) -> None:
        self._tell("demand", text)

    def status(self, text: str) -> None:
        if time.monotonic() - self._last >= STATUS_SECONDS:
            self._last = time.monotonic()
            self._tell("status", text)

    def _tell(self, kind: str, text: str) -> None:
        self._worker.log_event(self._topic, {"name": str(self._worker.name), "kind": kind, "text": text})


class _Ending(WorkerPlugin):
    """Ends the run in order when Dask closes its worker, and keeps the worker until then."""

    def __init__(self, stop: Stop, over: threading.Event) -> None:
        self._stop, self._over = stop, over

    async def teardown(self, worker: Any) -> None:
        if self._over.is_set():
            return
        self._stop.ask("its Dask worker closes")
        end = time.monotonic() + END_SECONDS
        while not self._over.is_set() and time.monotonic() < end:
            await asyncio.sleep(0.1)


@contextmanager
def _ended_with(worker: Any, stop: Stop, session: str) -> Iterator[None]:
    over, name = threading.Event(), f"opensearch-chaos-{session}"
    sync(worker.loop, worker.plugin_add, plugin=_Ending(stop, over), name=name)
    try:
        yield
    finally:
        over.set()
        if name in worker.plugins:
            sync(worker.loop, worker.plugin_remove, name=name)


def see_store(order: Order) -> Records:
    """The records in the store of an order, which is the client's. Raises InvalidInput where it is another one."""
    records = Records(open_store(order.store))
    try:
        found = records.store.read(order.token.name).decode()
    except (StoreError, UnicodeDecodeError) as error:
        raise _other_store(order, str(error)) from error
    if found != order.token.content:
        raise _other_store(order, "another content is there")
    return records


def _other_store(order: Order, why: str) -> InvalidInput:
    return InvalidInput(
        f"this worker does not see the client's store {order.store}: {why}",
        remedy="use a folder that all machines share under the same path, or s3://BUCKET/PREFIX with the same endpoint",
    )


Fit = Callable[[Order], None]
"""Raises ChaosError where this machine can make no run at all."""


def examine(data: Mapping[str, Any], experiment: ReadExperiment, fit: Fit) -> dict[str, Any] | None:
    """What keeps this worker from making runs, as JSON of :class:`.Unfit`; None: nothing."""
    found = _examined(data, experiment, fit)
    return found.to_json() if isinstance(found, Unfit) else None


def _examined(data: Mapping[str, Any], experiment: ReadExperiment, fit: Fit) -> tuple[Order, Records] | Unfit:
    try:
        order = Order.from_json(data, experiment)
        records = see_store(order)
    except ChaosError as error:
        return Unfit(str(error), error.exit_code, everywhere=True)
    try:
        fit(order)
    except ChaosError as error:
        return Unfit(str(error), error.exit_code)
    return order, records


def work(
    data: Mapping[str, Any],
    experiment: ReadExperiment,
    fit: Fit,
    *,
    program: Sequence[str] = CELL,
    machine: Machine | None = None,
) -> dict[str, Any]:
    """The task that Dask runs: make an order's cells; an :class:`.Answer` as JSON.

    A worker that is unfit gives its resource back, so that Dask gives it nothing more. ``program``: the child's;
    ``machine``: None is this one.
    """
    worker = get_worker()
    found = _examined(data, experiment, fit)
    answer = Answer(str(worker.name))
    if not isinstance(found, Unfit):
        order, records = found
        stop = stops.setdefault(order.session, Stop())
        for cell in order.cells:
            records.lose(cell.key, order.session, "Dask lost its worker, and gave the cell out anew")
        made = Worker(
            order.matrix,
            records,
            machine or Machine(),
            Path(order.out),
            Telling(worker, order.session),
            stop,
            program=program,
            keep=order.keep,
            session=order.session,
            ends_at=None if order.until is None else time.monotonic() + order.until - time.time(),
            expected=order.expected,
        )
        with _ended_with(worker, stop, order.session):
            answer = _answered(answer, made, order)
    else:
        answer = replace(answer, unfit=found)
    if answer.unfit is not None:
        sync(worker.loop, worker.set_resources, **{RESOURCE: 0})
    return answer.to_json()


def _answered(answer: Answer, worker: Worker, order: Order) -> Answer:
    try:
        done = worker.work(cells=order.cells)
    except ChaosError as error:
        return replace(answer, unfit=Unfit(str(error), error.exit_code))
    made, refused = tuple(done.made), tuple(done.refused)
    answer = replace(answer, made=made, refused=refused, failed=done.failed, surplus=done.surplus)
    if isinstance(done.trouble, Retired):
        return replace(answer, unfit=Unfit(str(done.trouble), done.trouble.exit_code))
    if isinstance(done.trouble, StoreError):
        return replace(answer, failed_store=str(done.trouble))
    return answer
