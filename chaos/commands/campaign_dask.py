"""``campaign run`` on Dask, and the two functions that its workers are asked to run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.base.console import Reporter
from chaos.campaign import dask_cluster, dask_worker
from chaos.campaign.dask_cluster import Tls
from chaos.campaign.dask_executor import Executor, Tasks
from chaos.campaign.dask_order import Order
from chaos.campaign.matrix import Matrix
from chaos.campaign.records import Records
from chaos.campaign.worker import Worked
from chaos.commands.fitness import refuse_unfit
from chaos.registry import GRAMMAR
from chaos.run.stopping import Stop, signals


def make(order: Mapping[str, Any]) -> dict[str, Any]:
    """Make an order's cells, on the machine of the worker that calls this."""
    return dask_worker.work(order, GRAMMAR.experiment, _fit)


def examine(order: Mapping[str, Any]) -> dict[str, Any] | None:
    """What keeps this machine from that."""
    return dask_worker.examine(order, GRAMMAR.experiment, _fit)


def _fit(order: Order) -> None:
    refuse_unfit([cell.experiment for cell in order.cells], Path(order.out))


@dataclass(frozen=True)
class On:
    """The scheduler; ``address`` None: one in this process."""

    address: str | None
    tls: Tls


def worked(matrix: Matrix, records: Records, on: On, out: Path, *, keep: bool = False, quiet: bool = False) -> Worked:
    """Make all cells of a campaign that are not committed. Raises ChaosError where nothing can be begun."""
    dask_cluster.check(on.address, on.tls)
    reporter, stop, tasks, alone = Reporter(quiet=quiet), Stop(), Tasks(make, examine), on.address is None
    cluster = dask_cluster.local(matrix.file.name) if on.address is None else dask_cluster.at(on.address, on.tls)
    try:
        with signals(stop, reporter), cluster as reached:
            if reached.dashboard:
                reporter.line(f"Dask's dashboard: {reached.dashboard}")
            made = Executor(matrix, records, reached.client, reporter, stop, tasks, out, keep=keep, alone=alone)
            return made.run()
    finally:
        reporter.close()
