"""How long a run may take: a run that is within its plan does not hang, and its worker is not lost."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import campaignkit as kit
import pytest
from fakes import ROOT

from chaos.base.paths import ProcessIdentity
from chaos.base.units import Duration
from chaos.campaign import progress
from chaos.campaign import worker as module
from chaos.campaign.matrix import Cell
from chaos.campaign.records import Attempt
from chaos.definitions import Experiment
from chaos.definitions.expectations import Expectation
from chaos.observe import restored
from chaos.registry import load_experiment
from chaos.run import space

ASKED = Expectation(
    metric="command",
    op=None,
    quantity="command",
    unit="count",
    phases=(),
    comparison="==",
    value=0,
    text="command = 0",
    command=("check",),
    within=Duration(1200),
)


def asking(experiment: Experiment, times: int) -> Experiment:
    return experiment.model_copy(update={"expect": (*experiment.expect, *[ASKED] * times)})


def test_commands_that_are_asked_after_the_load_count(tmp_path: Path) -> None:
    """They may take as long as their `within`, one after the other, and the run does not hang meanwhile."""
    worker = kit.worker(kit.write_campaign(tmp_path, tmp_path / "store", 1), tmp_path / "store", tmp_path / "machine")
    plain = worker.matrix.cells[0]
    cell = replace(plain, experiment=asking(plain.experiment, 3))
    load = space.longest_seconds(plain.experiment)
    assert space.longest_seconds(cell.experiment) == load, "room is taken while the load is on"
    assert module._bound(plain) == 2 * load + 300
    assert module._bound(cell) == 2 * (load + 3600) + 300
    assert progress.estimated([cell], []).seconds == load + 3600 == progress.estimated([plain], []).seconds + 3600


def test_the_attempt_says_how_long_its_run_may_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By that another machine tells that its worker is lost."""
    worker = kit.worker(kit.write_campaign(tmp_path, tmp_path / "store", 1), tmp_path / "store", tmp_path / "machine")
    cell = replace(worker.matrix.cells[0], experiment=asking(worker.matrix.cells[0].experiment, 1))

    def carry(*_: Any) -> tuple[int, bool]:
        return 1, False

    monkeypatch.setattr(module.Worker, "_carry", carry)
    worker._try(cell)
    (attempt,) = worker.records.attempts(cell.key)
    assert attempt.longest_seconds == space.longest_seconds(cell.experiment) + 1200


def test_the_restore_of_an_emptied_cluster_counts() -> None:
    durable = load_experiment(ROOT / "experiments" / "remote-store" / "all-nodes-lost.yaml")
    assert durable.durable
    cell = Cell(durable, "", "", "3.8.0", 1, 0)
    more = restored.BACK_SECONDS + restored.GREEN_SECONDS
    assert progress.estimated([cell], []).seconds == space.longest_seconds(durable) + more


def test_a_worker_that_cannot_be_seen_is_lost_no_sooner_than_it_would_end_its_run() -> None:
    now = datetime.now(UTC)
    elsewhere = replace(ProcessIdentity.me(), boot_id="another machine")

    def lost(seconds: float) -> bool:
        return Attempt("a", now - timedelta(seconds=seconds), elsewhere, 600.0).is_lost(now)

    assert not lost(1201) and not lost(1499) and lost(1501)
