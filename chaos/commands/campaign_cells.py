"""Cells of a campaign as pytest runs them: each by a worker, through the store, unless it is committed already."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from chaos.base.console import Reporter
from chaos.base.errors import Aborted, ChaosError, Lacking
from chaos.campaign.machine import Machine
from chaos.campaign.matrix import Cell
from chaos.campaign.progress import State, of_cell
from chaos.campaign.worker import Worker
from chaos.commands.campaign import SCRATCH
from chaos.commands.campaign_runs import loaded, records_of, run_of
from chaos.run.options import RunResult
from chaos.run.stopping import Stop, signals


class CampaignCells:
    """A campaign's cells, in its order, and the result of each. Raises InvalidInput for a wrong file."""

    def __init__(self, file: Path, says: Callable[[str], None]) -> None:
        self.file = file
        self._matrix = loaded(file)
        self._records = records_of(self._matrix, None)
        self._says = says
        wall = self._matrix.file.budget.wall
        self._ends_at = None if wall is None else time.monotonic() + float(wall)

    @property
    def cells(self) -> tuple[Cell, ...]:
        return self._matrix.cells

    def result(self, cell: Cell) -> RunResult:
        """That of the committed run, which is made first where there is none.

        Raises Aborted for a signal, Lacking for what this machine lacks, ChaosError where it cannot be had.
        """
        commit = self._records.of_cell(cell.key)
        if commit is None:
            self._make(cell)
            commit = self._records.of_cell(cell.key)
        else:
            self._says(f"{cell.name} is committed already, by {commit.run}")
        if commit is None:
            written = self._matrix.file
            found = of_cell(cell, self._records, written.retry, int(written.budget.artifacts))
            kind = Lacking if found.state is State.REFUSED else ChaosError
            late = self._ends_at is not None and found.state is State.WAITING
            why = found.why or ("the budget of time has ended" if late else "see the lines above")
            raise kind(f"{cell.name} could not be made: {found.state}: {why}")
        run = run_of(cell, commit, self._records)
        assert run.folder is not None
        return RunResult(run.folder, run.findings, commit.clean)

    def _make(self, cell: Cell) -> None:
        reporter, stop = Reporter(), Stop()
        try:
            with signals(stop, reporter):
                worker = Worker(self._matrix, self._records, Machine(), SCRATCH, reporter, stop, ends_at=self._ends_at)
                worker.work(cells=[cell])
        finally:
            reporter.close()
        if stop.asked:
            raise Aborted(stop.reason or "stopped")
