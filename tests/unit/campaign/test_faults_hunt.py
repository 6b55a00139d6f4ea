"""The hunt over faults: one seed after the other, none twice, and what it does with what a run says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.base.errors import Aborted
from chaos.base.units import Duration, Rate
from chaos.campaign import nemesis
from chaos.campaign.faults_hunt import FaultsHunt
from chaos.campaign.journal import Journal
from chaos.definitions import load_topology
from chaos.registry import PROVIDERS, load_experiment
from chaos.run.stopping import Stop

TOPOLOGY = load_topology("3az")


@dataclass
class Runs:
    """Stands for runs: ``ends`` says by its seed how each ends, else it passes."""

    ends: dict[int, dict[str, Any]] = field(default_factory=dict)
    seeds: list[int] = field(default_factory=list)
    after: Callable[[int], None] = lambda seed: None

    def __call__(self, experiment: Any, lab: Any) -> Any:
        self.seeds.append(experiment.seed)
        self.after(experiment.seed)
        given = {"outcome": "pass", "clean": True, "stopped": False} | self.ends.get(experiment.seed, {})
        findings = {"outcome": given["outcome"], "headline": f"it ended as {given['outcome']}"}
        return SimpleNamespace(findings=findings, folder=Path(f"run-{experiment.seed}"), **given)


def hunting(folder: Path, runs: Runs, *, last: int = 3, seed: int = 1) -> FaultsHunt:
    """One that is stopped when the run of seed ``last`` is over."""
    stop = Stop()
    runs.after = lambda at: stop.ask("enough") if at >= last else None

    def written(file: Path, text: str) -> Any:
        file.write_text(text)
        return load_experiment(file)

    options = nemesis.Options(TOPOLOGY, "3az", seed, Duration(60), Rate(0.1))
    labs = SimpleNamespace(get=lambda topology, check: None)
    said: list[str] = []
    journal = Journal(folder / "faults.jsonl")
    return FaultsHunt(labs, options, PROVIDERS.on(), journal, folder, written, runs, stop, said.append)


def lines(folder: Path) -> list[dict[str, Any]]:
    return Journal(folder / "faults.jsonl").lines


def test_seeds_are_drawn_one_after_the_other_and_none_twice(tmp_path: Path) -> None:
    runs = Runs()
    with pytest.raises(Aborted):
        hunting(tmp_path, runs).run(60)
    assert runs.seeds == [1, 2, 3] == [line["seed"] for line in lines(tmp_path)]
    assert all(line["outcome"] == "pass" and line["faults"] and line["run"] for line in lines(tmp_path))
    with pytest.raises(Aborted):
        hunting(tmp_path, runs, last=5).run(60)
    assert runs.seeds == [1, 2, 3, 4, 5]


def test_a_weakness_is_found_and_the_hunt_goes_on(tmp_path: Path) -> None:
    runs = Runs({1: {"outcome": "weakness"}, 2: {"outcome": "inconclusive"}, 3: {"clean": False}})
    (found,) = hunting(tmp_path, runs, last=9).run(60)
    assert (found["seed"], found["run"], found["says"]) == (1, "run-1", "it ended as weakness")
    assert [line["outcome"] for line in lines(tmp_path)] == ["weakness", "inconclusive", "pass"]
    assert runs.seeds == [1, 2, 3], "what left dirt ends it"


def test_a_run_that_was_stopped_says_nothing_about_its_seed(tmp_path: Path) -> None:
    runs = Runs({2: {"outcome": "aborted", "stopped": True}})
    assert hunting(tmp_path, runs, last=9).run(60) == []
    assert [line["seed"] for line in lines(tmp_path)] == [1]


def test_no_time_no_run(tmp_path: Path) -> None:
    runs = Runs()
    assert hunting(tmp_path, runs).run(-1) == [] and runs.seeds == [] and lines(tmp_path) == []


def test_a_plan_in_which_nothing_was_drawn_is_written_down_and_not_run(tmp_path: Path) -> None:
    runs = Runs()
    hunt = hunting(tmp_path, runs, last=200)
    hunt.options = nemesis.Options(TOPOLOGY, "3az", 1, Duration(1), Rate(0.01))

    def first_few(seed: int) -> None:
        hunt.stop.ask("enough")

    runs.after = first_few
    with pytest.raises(Aborted):
        hunt.run(60)
    nothing = [line for line in lines(tmp_path) if line["outcome"] == "nothing drawn"]
    assert nothing and all(line["run"] is None for line in nothing) and len(runs.seeds) == 1
