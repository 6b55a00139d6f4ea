"""The client's side of a campaign on Dask: gives out blocks of cells, and asks the store what became of them.

Dask places each block on a worker that has the resource ``lab``, and anew where that worker is lost. It decides nothing
else: what is committed, lost, tried again or given up is what the store says (:mod:`.records`, :mod:`.progress`). So a
scheduler that forgets everything costs nothing but the runs that were under way.
"""

from __future__ import annotations

import queue
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from distributed import Client, Future, KilledWorker

from chaos.base import text
from chaos.base.console import Reporter
from chaos.base.errors import Exit, InvalidInput
from chaos.campaign.dask_order import RESOURCE, Answer, Order, Token, Unfit
from chaos.campaign.dask_watch import EVERY_SECONDS, Watch
from chaos.campaign.dask_worker import ask_to_stop, topic
from chaos.campaign.folder_store import FolderStore
from chaos.campaign.lasting import END_SECONDS
from chaos.campaign.matrix import Cell, Matrix
from chaos.campaign.progress import State, estimated, of_cell
from chaos.campaign.records import Commit, Records
from chaos.campaign.stores import PROBES, StoreError, prove
from chaos.campaign.worker import Worked, settle
from chaos.run.stopping import Stop

POLL_SECONDS = 0.1
RESULT_SECONDS = 10.0
"""How long an answer that is there may take to come. Without it the store says what became of the cells."""
STUCK_SECONDS = 5.0
STOP_SECONDS = 5.0
"""A stop is passed on again so often, for workers that come late."""
SHOWN = 3
"""Workers on the status line."""
Task = Callable[[Mapping[str, Any]], Any]
"""A function of a module that workers have too: Dask sends its name, and data."""


@dataclass(frozen=True)
class Tasks:
    """``make``: an order → an :class:`.Answer`; ``examine``: an order → None, or an :class:`.Unfit`. All as JSON."""

    make: Task
    examine: Task


@dataclass
class _Block:
    """Cells that one worker makes. ``killed``, ``errors``: tasks of Dask that ended so; ``refused_by``: addresses of
    workers whose machines lack something for it; ``placed``: the only workers that it may go to, empty: any; ``stuck``:
    since when it waits at a worker that takes nothing any more, in monotonic seconds."""

    cells: Sequence[Cell]
    killed: int = 0
    errors: int = 0
    refused_by: set[str] = field(default_factory=set)
    placed: list[str] = field(default_factory=list)
    stuck: float | None = None


class Executor:
    """``out``: the folder on each worker's machine where runs are made; ``alone``: there is one worker, which needs no
    name."""

    def __init__(
        self,
        matrix: Matrix,
        records: Records,
        client: Client,
        reporter: Reporter,
        stop: Stop,
        tasks: Tasks,
        out: Path,
        *,
        keep: bool = False,
        alone: bool = False,
    ) -> None:
        self.matrix, self.records, self.client, self.reporter, self.stop = matrix, records, client, reporter, stop
        self.tasks, self.out, self.keep, self.alone = tasks, out, keep, alone
        self.done = Worked()
        self.session = secrets.token_hex(8)
        self.watch = Watch(client)
        self._address = str(client.scheduler_info()["address"])
        self._waiting = [_Block([*cells]) for _, cells in groupby(matrix.cells, key=lambda cell: cell.block)]
        self._flying: dict[Future[Any], _Block] = {}
        self._events: queue.SimpleQueue[Mapping[str, str]] = queue.SimpleQueue()
        self._at: dict[str, str] = {}
        """Worker → what it is at."""
        self._earlier: list[tuple[Cell, Commit]] = []
        self._until: float | None = None
        self._closed = False
        """Nothing more is given out."""
        self._stopped: float | None = None
        self._passed_on = self._looked = 0.0
        self._unfit: dict[str, Unfit] = {}

    def run(self) -> Worked:
        """Make what is missing. Raises ChaosError where nothing can be begun."""
        prove(self.records.store)
        wall = self.matrix.file.budget.wall
        self._until = None if wall is None else time.time() + float(wall)
        found = ((cell, self.records.of_cell(cell.key)) for cell in self.matrix.cells)
        self._earlier = [(cell, commit) for cell, commit in found if commit is not None]
        self.client.subscribe_topic(topic(self.session), lambda event: self._events.put(event[1]))
        with self._token() as self._given:
            self._refuse_unfit()
            with self.watch.going_on():
                self._carry_on()
        if self.stop.asked:
            self.done.codes.append(Exit.ABORTED)
        settle(self.done, self.matrix.cells, self.matrix.file, self.records, self.reporter)
        if self.done.left:
            self.done.codes += [unfit.code for unfit in self._unfit.values()]
        return self.done

    @contextmanager
    def _token(self) -> Iterator[Token]:
        token = Token(f"{PROBES}/session-{self.session}", secrets.token_hex(16))
        self.records.store.create(token.name, token.content.encode())
        try:
            yield token
        finally:
            with suppress(StoreError):
                self.records.store.delete(token.name)

    # -- which workers are fit

    def _refuse_unfit(self) -> None:
        """Ask every worker that is there; those that come later find out by themselves. Raises InvalidInput."""
        labs = self.watch.labs
        if self.watch.workers and not labs:
            raise InvalidInput(
                f"none of {text.plural(len(self.watch.workers), 'worker')} at {self._address} offers the resource "
                f"{RESOURCE}",
                remedy=f"start one on each machine: dask worker {self._address} --resources {RESOURCE}=1 --nthreads 1",
            )
        answers = self.watch.asked(self.tasks.examine, self._order(_Block(())), addresses=labs)
        unfit = {address: found for address, answer in answers.items() if (found := _unfit(answer)) is not None}
        for address, found in unfit.items():
            if found.everywhere or len(unfit) == len(labs):
                raise InvalidInput(f"worker {address}: {found.why}", remedy="nothing was started")
            self.reporter.line(f"{address} cannot make runs now: {found.why}")
        machines = self.matrix.file.budget.machines
        if len(labs) > machines:
            self.reporter.line(f"budget.machines is {machines}: so many of {len(labs)} workers are used at a time")

    # -- giving out

    def _carry_on(self) -> None:
        while True:
            self._hear()
            try:
                self._collect()
            except StoreError as error:
                self._close(str(error), error.exit_code)
            if self.client.status != "running":
                self._close("the scheduler is gone; start the same command again once it is there", Exit.ERROR)
            if self.stop.asked:
                self._pass_the_stop_on()
            elif not self._closed:
                self._give_out()
            if not self._flying:
                return self._hear()
            if self._stopped is not None and time.monotonic() > self._stopped + END_SECONDS:
                return self.reporter.demand("opensearch-chaos: not all workers said that their runs have ended")
            self._show()
            time.sleep(POLL_SECONDS)

    def _close(self, why: str, code: Exit) -> None:
        if self._closed:
            return
        self._closed = True
        self.reporter.demand(f"opensearch-chaos: {why}")
        self.done.codes.append(code)

    def _give_out(self) -> None:
        """As many blocks at a time as there may be machines, and are. Where there is no worker yet, blocks wait for it:
        that is what clusters grow by that grow by themselves."""
        machines = self.matrix.file.budget.machines
        most = min(machines, len(self.watch.labs) or machines)
        if self._flying and time.monotonic() - self._looked < EVERY_SECONDS:
            return  # the store was asked a moment ago, and had nothing
        try:
            while len(self._flying) < most and self._waiting:
                if (block := self._next()) is None:
                    self._looked = time.monotonic()
                    return
                self._submit(block)
        except StoreError as error:
            self._close(str(error), error.exit_code)

    def _next(self) -> _Block | None:
        """The first block with a cell that no other has begun; where there is none, the first that others have."""
        begun = None
        committed = self.records.committed()
        for block in [*self._waiting]:
            left = [(cell, self._state(cell)) for cell in block.cells if cell.key not in committed]
            open_ = [cell for cell, state in left if state is not State.GIVEN_UP]
            if not open_ or not self._in_time(open_):
                self._waiting.remove(block)
            elif self._place(block):
                if any(state in (State.WAITING, State.REFUSED) for _, state in left):
                    return self._taken(block)
                begun = begun or block
        return None if begun is None else self._taken(begun)

    def _state(self, cell: Cell) -> State:
        file = self.matrix.file
        return of_cell(cell, self.records, file.retry, int(file.budget.artifacts)).state

    def _taken(self, block: _Block) -> _Block:
        self._waiting.remove(block)
        return block

    def _in_time(self, cells: Sequence[Cell]) -> bool:
        """Whether each of them can be made within the budget: a worker ends at the first that cannot."""
        for cell in cells:
            needed = self._seconds(cell)
            if self._until is not None and time.time() + needed > self._until:
                self.reporter.line(f"the budget of time ends: {cell.name} may take {needed:.0f} s")
                return False
        return True

    def _seconds(self, cell: Cell) -> float:
        return estimated([cell], self._earlier).seconds

    def _place(self, block: _Block) -> bool:
        """Where a machine lacked something it goes to another. False: there is no worker for it."""
        labs = self.watch.labs
        if not labs and self._unfit:
            return False
        block.placed = [address for address in labs if address not in block.refused_by] if block.refused_by else []
        return bool(block.placed) or not block.refused_by

    def _submit(self, block: _Block) -> None:
        cell, block.stuck = block.cells[0], None
        future: Future[Any] = self.client.submit(
            self.tasks.make,
            self._order(block),
            key=f"{cell.experiment.name}-{self.session}-{cell.block}-{secrets.token_hex(4)}",
            resources={RESOURCE: 1},
            workers=block.placed or None,
            pure=False,
        )
        self._flying[future] = block

    def _order(self, block: _Block) -> dict[str, Any]:
        store = self.records.store
        return Order(
            replace(self.matrix, cells=tuple(block.cells), excluded=()),
            str(store.folder.absolute()) if isinstance(store, FolderStore) else store.address,
            self._given,
            self.session,
            str(self.out),
            self.keep,
            self._until,
            {cell.key: self._seconds(cell) for cell in block.cells},
        ).to_json()

    # -- collecting

    def _collect(self) -> None:
        for future, block in [*self._flying.items()]:
            if future.status == "pending":
                if not self._waits_in_vain(future, block):
                    continue
                future.cancel()
            del self._flying[future]
            self._waiting.insert(0, block)  # the store says what is left of it
            if future.status == "finished":
                if (answer := _fetched(future)) is not None:
                    self._answered(block, answer)
            elif future.status == "error":
                self._failed(block, future.exception())

    def _waits_in_vain(self, future: Future[Any], block: _Block) -> bool:
        if not self.watch.labs and (self._unfit or self._stopped is not None):
            return True  # no worker is left that takes it, or none is wanted any more
        if block.placed and not {*block.placed} & {*self.watch.labs}:
            return True
        if not self.watch.is_stuck(str(future.key)):
            block.stuck = None
        elif block.stuck is None:
            block.stuck = time.monotonic()
        return block.stuck is not None and time.monotonic() - block.stuck > STUCK_SECONDS

    def _answered(self, block: _Block, answer: Answer) -> None:
        self.done.made += answer.made
        self.done.failed += answer.failed
        self.done.surplus += answer.surplus
        self._at.pop(answer.worker, None)
        made = [cell for cell in block.cells if cell.key in answer.made]
        self._earlier += [(cell, commit) for cell in made if (commit := self.records.of_cell(cell.key)) is not None]
        if answer.failed_store:
            self._close(answer.failed_store, Exit.ERROR)
        if answer.unfit is not None:
            self._unfit[answer.worker] = answer.unfit
            self.reporter.demand(f"opensearch-chaos: {answer.worker} gets no more cells: {answer.unfit.why}")
            if answer.unfit.code is Exit.DIRTY:
                self.done.codes.append(Exit.DIRTY)
        if answer.refused:
            block.refused_by |= self.watch.addresses(answer.worker)

    def _failed(self, block: _Block, error: BaseException | None) -> None:
        """Dask gave up on a task: its workers died again and again, or code of ours raised what it should not."""
        retry = self.matrix.file.retry
        if isinstance(error, KilledWorker):
            block.killed += 1
            for cell in block.cells:
                self.records.lose(cell.key, self.session, "Dask lost its worker, and others before it")
        else:
            block.errors += 1
        self.reporter.line(f"{block.cells[0].name}: {type(error).__name__}: {error}")
        if block.killed > retry.lost or block.errors > retry.error:
            self._waiting.remove(block)
            self.done.codes.append(Exit.ERROR)

    # -- ending and showing

    def _pass_the_stop_on(self) -> None:
        """Runs that are under way undo and end; what begins after it ends at once."""
        now = time.monotonic()
        self._stopped = self._stopped or now
        if now - self._passed_on < STOP_SECONDS:
            return
        self._passed_on = now
        given = (ask_to_stop, self.session, self.stop.reason or "stopped")
        addresses = {"addresses": self.watch.labs}
        threading.Thread(target=self.watch.asked, args=given, kwargs=addresses, daemon=True).start()

    def _hear(self) -> None:
        """What workers have said since."""
        with suppress(queue.Empty):
            while True:
                event = self._events.get_nowait()
                worker, kind, said = event["name"], event["kind"], event["text"]
                if kind == "status":
                    self._at[worker] = said
                    continue
                tell = self.reporter.demand if kind == "demand" else self.reporter.line
                tell(said if self.alone else f"{worker}: {said}")

    def _show(self) -> None:
        if not self.watch.labs:
            return self.reporter.status(f"waiting for a worker with {RESOURCE}=1 at {self._address}")
        at = [said if self.alone else f"{worker}: {said}" for worker, said in sorted(self._at.items())]
        more = f"; and {len(at) - SHOWN} more" if len(at) > SHOWN else ""
        so_far = f"{len(self._earlier)} of {len(self.matrix.cells)} cells committed"
        self.reporter.status(f"{so_far}; {'; '.join(at[:SHOWN])}{more}")


def _fetched(future: Future[Any]) -> Answer | None:
    """The answer of a task that has ended; None where its worker or the scheduler is gone since."""
    try:
        return Answer.from_json(future.result(timeout=RESULT_SECONDS))
    except (OSError, TimeoutError, CancelledError, KilledWorker):
        return None


def _unfit(answer: Any) -> Unfit | None:
    """What a worker said of itself."""
    if answer is None:
        return None
    if isinstance(answer, ModuleNotFoundError):
        return Unfit(f"opensearch-chaos cannot be loaded there ({answer})", Exit.USAGE, True)
    if isinstance(answer, BaseException):
        its_own = isinstance(answer, OSError | TimeoutError)  # it is busy, frozen or gone
        return Unfit(f"{type(answer).__name__}: {answer}", Exit.ERROR, everywhere=not its_own)
    return Unfit.from_json(answer)
