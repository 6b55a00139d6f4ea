"""The hunt over faults: one seed after the other, none twice, and what it does with what a run says."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from chaos.base.errors import Aborted, Exit, InvalidInput
from chaos.base.units import Duration, Rate
from chaos.campaign import nemesis
from chaos.campaign.faults_hunt import FaultsHunt, plan
from chaos.campaign.journal import Journal, plan_of
from chaos.cli import app
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


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ({}, Exit.PASS),
        ({"outcome": "inconclusive"}, Exit.PASS),
        ({"outcome": "weakness"}, Exit.WEAKNESS),
        ({"outcome": "error"}, Exit.ERROR),
        ({"clean": False}, Exit.DIRTY),
        ({"outcome": "weakness", "clean": False}, Exit.DIRTY),
        ({"outcome": "aborted", "stopped": True, "clean": False}, Exit.DIRTY),
    ],
)
def test_a_hunt_ends_with_the_worst_of_its_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: dict[str, Any], code: Exit
) -> None:
    hunt = hunting(tmp_path, Runs({1: end, 2: {"outcome": "aborted", "stopped": True}}), last=9)

    def over_faults(*_: Any) -> Any:
        return lambda pool, stop, reporter, seconds: (hunt.run(seconds), hunt.codes)

    monkeypatch.setattr("chaos.commands.hunting._over_faults", over_faults)
    monkeypatch.setattr("chaos.run.space.refuse_scarce", lambda *_: None)
    given = ["hunt", "3az", "--over", "faults", "--journal", str(tmp_path / "faults.jsonl")]
    assert CliRunner().invoke(app, given).exit_code == code


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


OPTIONS = nemesis.Options(TOPOLOGY, "3az", 1, Duration(60), Rate(0.1))


@pytest.mark.parametrize(
    "other",
    [
        replace(OPTIONS, topology=load_topology("3az-tuned")),
        replace(OPTIONS, topology=TOPOLOGY.model_copy(update={"version": "2.19.6"})),
        replace(OPTIONS, duration=Duration(120)),
        replace(OPTIONS, rate=Rate(0.2)),
        replace(OPTIONS, hold=(Duration(10), Duration(40))),
        replace(OPTIONS, weights={"node.kill": 1.0}),
        replace(OPTIONS, limits=nemesis.Limits(active=3)),
    ],
    ids=["topology", "version", "each", "rate", "hold", "weights", "limits"],
)
def test_seeds_that_another_plan_drew_are_not_counted(tmp_path: Path, other: nemesis.Options) -> None:
    """A seed of it is another draw, so its journal is refused."""
    offers, file = PROVIDERS.on(), tmp_path / "faults.jsonl"
    Journal(file, plan(other, offers)).write({"seed": 1, "outcome": "pass"})
    with pytest.raises(InvalidInput, match="is of another hunt") as raised:
        Journal(file, plan(OPTIONS, offers))
    assert raised.value.remedy is not None and "--journal" in raised.value.remedy
    assert [line["seed"] for line in Journal(file, plan(replace(other, seed=7, named="x"), offers)).lines] == [1]
    assert [line["seed"] for line in Journal(file).lines] == [1], "whoever only reads it may"


def test_lines_that_do_not_say_of_what_they_are_are_not_counted(tmp_path: Path) -> None:
    file = tmp_path / "settings.jsonl"
    Journal(file).write({"changes": [["a", "1"]], "outcome": "undone"})
    with pytest.raises(InvalidInput, match="does not say what its draws are of"):
        Journal(file, plan_of("settings", TOPOLOGY))
    file.write_text('{"changes": [["a", "1"]], "outc')  # cut off: a hunt that was killed at its first draw
    Journal(file, plan_of("settings", TOPOLOGY)).write({"changes": [["a", "1"]], "outcome": "undone"})
    assert len(Journal(file, plan_of("settings", TOPOLOGY)).lines) == 1


@pytest.mark.parametrize("over", ["settings", "faults"])
def test_the_journal_of_another_hunt_ends_the_command_before_anything_is_started(
    over: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a lab was begun")

    monkeypatch.setattr("chaos.run.pool.LabPool", refuse)
    file = tmp_path / "journal.jsonl"
    file.write_text(json.dumps({"seed": 1, "changes": [["a", "1"]], "outcome": "undone", "plan": "0" * 16}) + "\n")
    before = file.read_text()
    done = CliRunner().invoke(app, ["hunt", "one-node", "--over", over, "--journal", str(file)])
    assert isinstance(done.exception, InvalidInput) and done.exception.exit_code is Exit.USAGE
    assert "is of another hunt" in str(done.exception) and file.read_text() == before
