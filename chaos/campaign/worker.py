"""One worker: it makes the cells that it is given, one run at a time, each in a process of its own.

The order of an attempt: the machine's lock → is the cell committed already → written down in the store → run → its
folder uploaded → committed. So a worker may be killed, frozen or started twice at any moment, and each cell is
committed once.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from chaos.base.console import Reporter
from chaos.base.errors import SEVERITY, ChaosError, Exit
from chaos.base.paths import ProcessIdentity, make_folder
from chaos.campaign import artifacts, child, code, lasting
from chaos.campaign.child import Result
from chaos.campaign.machine import Machine
from chaos.campaign.matrix import Cell, Matrix, Shard
from chaos.campaign.progress import State, estimated, of_cell
from chaos.campaign.records import Commit, Ended, Records
from chaos.campaign.stores import StoreError, prove
from chaos.definitions.campaign import CampaignFile
from chaos.faults.ledger import registrations
from chaos.run.options import Unreported
from chaos.run.stopping import Stop

CELL = ("-m", "chaos.commands.cell")
"""Arguments of Python: the program that makes a run."""
UNCOMMITTED = ("error",)
"""Outcomes of a run that say nothing of the cluster: it is tried again. All others are committed as they are."""
UNREPORTED = Unreported.__name__
"""How a child names the error of a run that was made, and of which no report can be: no machine lacked anything."""
POLL_SECONDS = 0.1
WAIT_SECONDS = 2.0
WHY = "why.txt"
"""Beside a run that was not committed: why not."""
STORE_TRIES = 3
"""Of an upload and its commit, with growing pauses: a store may be slow, or refuse for a moment."""


class _Late(Exception):
    """The budget of time ended while another held the machine."""


@dataclass
class Worked:
    """What a worker did. ``made``: keys that it committed itself; ``codes``: what its exit code is the worst of."""

    made: list[str] = field(default_factory=list)
    surplus: int = 0
    failed: int = 0
    left: int = 0
    """Cells of its share without a commit when it ended."""
    codes: list[Exit] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """Keys of cells for which its machine lacks something."""
    trouble: ChaosError | None = None
    """What ended it early: the store failed, a run left the machine dirty."""

    @property
    def exit_code(self) -> Exit:
        return min([*self.codes, Exit.PASS], key=SEVERITY.index)


@dataclass
class Worker:
    """``program``: the child's, as arguments after Python; ``out``: where runs are made, away again once committed."""

    matrix: Matrix
    records: Records
    machine: Machine
    out: Path
    reporter: Reporter
    stop: Stop
    program: Sequence[str] = CELL
    keep: bool = False
    """Leave runs in ``out`` after their commit."""
    uploaded: Callable[[str], None] = lambda attempt: None
    """Told after an upload and before the commit: tests end a worker there."""
    session: str | None = None
    """Of the scheduler that gave these cells out (:attr:`.records.Attempt.session`); its client says what is left."""
    ends_at: float | None = None
    """Monotonic seconds after which no run may end, in place of the budget's; None: the budget counts from now."""
    expected: Mapping[str, float] | None = None
    """Key → seconds that its run may take, where the client that gives cells out knows more runs."""
    done: Worked = field(default_factory=Worked)

    def work(self, shard: Shard | None = None, cells: Sequence[Cell] | None = None) -> Worked:
        """Make the cells of a shard, or these. Raises ChaosError where nothing can be begun: a store that cannot be
        used, a machine that is retired."""
        cells = self.matrix.of_shard(shard or Shard()) if cells is None else cells
        prove(self.records.store)
        self.machine.refuse_dirty()
        self.out.mkdir(parents=True, exist_ok=True)
        wall = self.matrix.file.budget.wall
        if wall is not None and self.ends_at is None:
            self.ends_at = time.monotonic() + float(wall)
        if self.ends_at is not None and self.expected is None:
            self._earlier = self._commits()
        try:
            while (cell := self._next(cells)) is not None:
                self._try(cell)
        except _Late:
            pass  # what is left is said below
        except ChaosError as error:
            self.reporter.demand(f"opensearch-chaos: {error}")
            self.done.codes.append(error.exit_code)
            self.done.trouble = error
        if self.stop.asked:
            self.done.codes.append(Exit.ABORTED)
        if self.session is None:
            settle(self.done, cells, self.matrix.file, self.records, self.reporter)
        return self.done

    # -- what is next

    def _next(self, cells: Sequence[Cell]) -> Cell | None:
        """The next cell to make; None: there is nothing to do, or no time for it."""
        if self.stop.asked:
            return None
        committed = self.records.committed()
        cell = self._chosen([each for each in cells if each.key not in committed | {*self.done.refused}])
        if cell is None or not self._in_time(cell):
            return None
        count = sum(each.key in committed for each in cells)
        so_far = "" if self.session else f"{count} of {len(cells)} cells committed; "
        self.reporter.line(f"{so_far}next: {cell.name} ({cell.key[:8]})")
        return cell

    def _in_time(self, cell: Cell) -> bool:
        if self.ends_at is None:
            return True
        known = self.expected or {}
        needed = known.get(cell.key) or estimated([cell], self._earlier).seconds
        if time.monotonic() + needed <= self.ends_at:
            return True
        self.reporter.line(f"the budget of time ends: {cell.name} may take {needed:.0f} s")
        return False

    def _chosen(self, cells: Sequence[Cell]) -> Cell | None:
        """The first that no other has begun. Where there is none, the first that others have: they may be frozen."""
        begun = None
        for cell in cells:
            state = of_cell(cell, self.records, self.matrix.file.retry, self._keeps).state
            if state in (State.WAITING, State.REFUSED):
                return cell
            if state is State.OPEN:
                begun = begun or cell
        return begun

    _earlier: list[tuple[Cell, Commit]] = field(default_factory=list, init=False)
    """Commits, for how long the next takes."""
    _code: str = field(default="", init=False)
    """What the run that is made now is made by."""

    def _commits(self) -> list[tuple[Cell, Commit]]:
        found = ((cell, self.records.of_cell(cell.key)) for cell in self.matrix.cells)
        return [(cell, commit) for cell, commit in found if commit is not None]

    @property
    def _keeps(self) -> int:
        """Bytes that a cell may keep in the store."""
        return int(self.matrix.file.budget.artifacts)

    # -- one attempt

    def _try(self, cell: Cell) -> None:
        with self.machine.held(lambda: self._wait(cell)) as lock:
            if self.records.of_cell(cell.key) is not None:  # made by another while this one waited
                return
            self.machine.refuse_dirty()  # the run that held the lock may have retired it
            self._refuse_late(cell)
            _sweep(self.out)
            began = time.monotonic()
            self._code, longest = code.digest(), lasting.longest(cell.experiment)
            where = self.machine.about | self.machine.now
            attempt = self.records.begin(cell, where, longest, self.session, self._code, code.checkout())
            folder = self.out / attempt
            make_folder(folder)
            child.write_request(folder, cell.spec(self.matrix.campaign.file).to_json())
            ended_with, hung = self._carry(cell, folder, lock)
            result = child.Result.read(folder)
            dirt = self._dirt(result, cell)
            if hung and (result is None or result.stopped):
                why = f"it took more than {_bound(cell):.0f} s, {lasting.HANGS} times the longest that its plan allows"
                self._failed(cell, attempt, Ended.ERROR, f"{why}, and was ended")
            else:
                self._file(cell, attempt, result, ended_with, time.monotonic() - began)
        if dirt is not None:
            raise dirt

    def _wait(self, cell: Cell) -> None:
        self.reporter.status("another lab is up on this machine: waiting for its end")
        self.stop.check()
        self._refuse_late(cell)
        time.sleep(WAIT_SECONDS)

    def _refuse_late(self, cell: Cell) -> None:
        if not self._in_time(cell):
            raise _Late

    def _carry(self, cell: Cell, folder: Path, lock: int) -> tuple[int, bool]:
        """The run in a process of its own: how that ended, and whether it was told to because it took too long."""
        bound, hung = _bound(cell), False
        with open(folder / child.LOG, "wb") as log:
            running = subprocess.Popen(
                [sys.executable, *self.program, str(folder), str(lock)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=(lock,),
                start_new_session=True,  # a Ctrl-C is passed on once, by us
            )
        began, ended_at = time.monotonic(), None
        while (code := running.poll()) is None:
            now = time.monotonic()
            self.reporter.status(f"{cell.name}: {now - began:.0f} s")
            if ended_at is None and (self.stop.asked or now - began > bound):
                running.terminate()
                ended_at, hung = now, not self.stop.asked
            elif ended_at is not None and now - ended_at > lasting.END_SECONDS:
                running.kill()
            time.sleep(POLL_SECONDS)
        assert running.stdin is not None
        running.stdin.close()
        return code, hung

    def _dirt(self, result: Result | None, cell: Cell) -> ChaosError | None:
        """The machine is retired where the run left something, or may have."""
        if result is not None and result.clean and result.kind != "Leftovers":
            return None
        found = self.machine.left()
        if result is None and not found:
            return None  # its process died, and nothing of it is here
        why = f"{cell.name} left it dirty: {'; '.join(found[:3]) or (result.why if result else 'its process died')}"
        return self.machine.retire(why)

    def _file(self, cell: Cell, attempt: str, result: Result | None, code: int, seconds: float) -> None:
        """Commit a run that says something, and write down of any other why not."""
        folder = self.out / attempt
        if result is None and self.stop.asked and code == -signal.SIGTERM:
            return self._failed(cell, attempt, Ended.STOPPED, "it was stopped before it had begun")
        if result is None:
            return self._failed(cell, attempt, Ended.LOST, f"its process ended with {code} and no result")
        if result.stopped or (result.run is None and self.stop.asked):
            return self._failed(cell, attempt, Ended.STOPPED, result.why)
        if result.run is None and result.exit_code in (Exit.USAGE, Exit.DIRTY) and result.kind != UNREPORTED:
            self.done.refused.append(cell.key)
            return self._failed(cell, attempt, Ended.REFUSED, result.why)
        if result.run is None or result.outcome in UNCOMMITTED:
            return self._failed(cell, attempt, Ended.ERROR, result.why)
        try:
            names, left_out = artifacts.chosen(folder / result.run, self._keeps)
        except artifacts.TooLarge as error:  # never tried again: it says something, and the next may say another thing
            why = f"it ended as {result.outcome}, and {error}"
            return self._failed(cell, attempt, Ended.TOO_LARGE, why, error.bytes)
        self._upload(cell, attempt, result, names, left_out, seconds)
        if result.clean and not self.keep:
            shutil.rmtree(folder, ignore_errors=True)
            return
        (folder / child.REQUEST).unlink(missing_ok=True)  # no later worker tidies it up (_sweep)
        if not result.clean:
            self._keep(folder, "it is committed, and what it left is undone by its ledger: opensearch-chaos recover")

    def _upload(
        self, cell: Cell, attempt: str, result: Result, names: list[str], left_out: list[str], seconds: float
    ) -> None:
        assert result.run is not None
        for number in range(STORE_TRIES):
            try:
                manifest = self.records.upload(cell.key, attempt, self.out / attempt / result.run, names)
                self.uploaded(attempt)
                commit = Commit(
                    key=cell.key,
                    attempt=attempt,
                    cell=cell.to_json(),
                    manifest=manifest,
                    left_out=tuple(left_out),
                    run=result.run,
                    outcome=result.outcome,
                    clean=result.clean,
                    seconds=round(seconds, 1),
                    machine=self.machine.about,
                    committed=datetime.now(UTC).isoformat(timespec="seconds"),
                    code=self._code,
                )
                won = self.records.commit(commit)
                break
            except StoreError as error:
                if number == STORE_TRIES - 1:
                    self._keep(self.out / attempt, str(error))
                    with suppress(StoreError):  # where it takes that at least: no worker was lost
                        self.records.end(cell.key, attempt, Ended.ERROR, str(error))
                    raise
                self.reporter.line(f"{error}; again in {2**number} s")
                time.sleep(2**number)
        if won:
            self.done.made.append(cell.key)
            self._earlier.append((cell, commit))
            self.reporter.line(f"committed: {cell.name}: {result.outcome}. {result.why}")
        else:
            self.done.surplus += 1
            self.records.end(cell.key, attempt, Ended.SURPLUS, "another attempt was committed first")
            self.reporter.line(f"surplus: {cell.name} was committed by another while this run was made")

    def _failed(self, cell: Cell, attempt: str, how: Ended, why: str, bytes: int | None = None) -> None:
        self.done.failed += 1
        self.reporter.line(f"{how}: {cell.name}: {why}; its folder is {self.out / attempt}")
        self._keep(self.out / attempt, why)
        self.records.end(cell.key, attempt, how, why, bytes)

    def _keep(self, folder: Path, why: str) -> None:
        """For people: no later worker tidies it up."""
        with suppress(OSError):
            (folder / WHY).write_text(f"{why}\n")


def settle(done: Worked, cells: Sequence[Cell], file: CampaignFile, records: Records, reporter: Reporter) -> None:
    """What is left of these cells, and what that means for the exit code."""
    try:
        committed = records.committed()
        left = [cell for cell in cells if cell.key not in committed]
        done.left = len(left)
        states = [of_cell(cell, records, file.retry, int(file.budget.artifacts)) for cell in left]
    except StoreError as error:
        reporter.demand(f"opensearch-chaos: {error}")
        done.codes.append(error.exit_code)
        return
    for each in states:
        if each.state is State.GIVEN_UP:
            key = "retry.lost" if each.lost > file.retry.lost else "retry.error"
            again = "" if each.too_large else f"; to try it again raise {key} in the campaign's file"
            reporter.line(f"given up: {each.cell.name}: {each.why or 'its workers were lost'}{again}")
            done.codes.append(Exit.ERROR)
    if left:
        done.codes.append(Exit.INCONCLUSIVE)


def _bound(cell: Cell) -> float:
    """After so many seconds a run hangs, and is ended."""
    return lasting.bound(lasting.longest(cell.experiment))


def _sweep(out: Path) -> None:
    """Runs that dead workers of this machine were at when they died: nothing was committed of them, so they go.

    The machine's lock is held, so their processes have ended too. What `recover` has yet to undo is undone by the
    ledger in such a folder, so it stays.
    """
    here = ProcessIdentity.me().boot_id
    needed = {folder for each in registrations() for folder in each.ledger.absolute().parents}
    for request in out.glob(f"*/{child.REQUEST}"):
        try:
            worker = child.worker_of(request.parent)
        except (OSError, ValueError, KeyError, TypeError):  # torn by a full disk, or another program's
            continue
        dead = worker.boot_id == here and not worker.alive()
        if dead and request.parent.absolute() not in needed and not (request.parent / WHY).exists():
            shutil.rmtree(request.parent, ignore_errors=True)
