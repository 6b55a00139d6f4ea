"""Phases that wait for others: what is understood, and every way to be wrong with its place and its words."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML

from chaos.base.errors import InvalidInput
from chaos.base.units import Duration
from chaos.definitions import Experiment, writing
from chaos.definitions.during import BY_DEFAULT
from chaos.definitions.schema import schema_of
from chaos.registry import GRAMMAR, load_experiment
from chaos.run import plan

TEXT = """\
apiVersion: opensearch-chaos/v1
name: waits
topology: 3az
load: {read: {rate: 10/s, good: ok within 1s}, write: {rate: 10/s, good: ok within 1s}}
phases:
  healthy: {for: 30s}
  roll: {during: %s}
  over: {for: 5s}
expect: [{acknowledged.lost: 0}]
guards: {max: %s}
"""
COMMAND = (
    "{command: [./roll.py, two words], within: 5m, restarts: role data, changes: [cluster.routing.allocation.enable]}"
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def load(during: str, most: str = "1h") -> Experiment:
    Path("x.yaml").write_text(TEXT % (during, most))
    return load_experiment("x.yaml")


def test_a_command_with_what_it_does() -> None:
    phase = load(COMMAND).phases[1]
    during = phase.during
    assert during is not None and phase.duration is None and phase.until is None
    assert during.command == ("./roll.py", "two words") and during.manual is None
    assert during.restarts is not None and during.restarts.text == "role data"
    assert during.changes == ("cluster.routing.allocation.enable",)
    assert phase.longest == during.within == Duration(300)
    assert during.grade == "path" and during.describe() == "command: ./roll.py 'two words'"


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("manual", "by hand: what this phase waits for"),
        ("{manual: the operator upgrades a-data}", "by hand: the operator upgrades a-data"),
    ],
)
def test_a_person_has_half_an_hour_and_proves_nothing(written: str, says: str) -> None:
    during = load(written).phases[1].during
    assert during is not None and during.describe() == says
    assert during.within == BY_DEFAULT and during.grade == "reported"
    assert "nothing proves" in during.claims()


@pytest.mark.parametrize("written", [COMMAND, "manual", "{manual: x, within: 1m, restarts: node a-data}"])
def test_it_is_written_and_read_back(written: str) -> None:
    experiment = load(written)
    data = json.loads(json.dumps(experiment.to_json()))
    assert GRAMMAR.experiment(data) == experiment
    Path("again.yaml").write_text(writing.experiment(experiment, "3az"))
    assert plan.digest(load_experiment("again.yaml")) == plan.digest(experiment)


def test_an_experiment_without_it_keeps_its_normal_form() -> None:
    assert all("during" not in phase for phase in load(COMMAND).to_json()["phases"] if phase["name"] != "roll")


WRONG = {
    "both": ("{command: [x], manual: y}", "expected one of command and manual, got both"),
    "neither": ("{within: 5m}", "expected one of command and manual, got neither"),
    "another word": ("by-hand", "expected manual, {manual: what a person does} or {command: [program, argument]}"),
    "no program": ("{command: []}", "at least 1"),
    "a shell line": ("{command: ./x}", "a list"),
    "no unit": ("{command: [x], within: 5}", "has no unit"),
    "two lines": ('{manual: "a\\nb"}', "expected text like"),
    "drawn": ("{command: [x], restarts: one of role data}", "only the moment tells"),
    "elected": ("{command: [x], restarts: elected cluster manager}", "only the moment tells"),
    "no such node": ("{command: [x], restarts: node z-data}", "z-data"),
    "no such zone": ("{command: [x], restarts: zone z}", "zone z"),
    "twice": ("{command: [x], changes: [a.b, a.b]}", "changes names a.b twice"),
    "no name": ("{command: [x], changes: [A*]}", "expected text like"),
    "unknown": ("{command: [x], restart: zone a}", "restart"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_told_with_its_place(case: str) -> None:
    written, says = WRONG[case]
    with pytest.raises(InvalidInput) as caught:
        load(written)
    (line,) = str(caught.value).splitlines()
    assert line.startswith("x.yaml:7:") and says in line, line


def test_a_node_that_a_fault_has_in_hand_is_nobody_s_to_restart() -> None:
    def written(fault: str) -> None:
        text = TEXT % ("{command: [x], restarts: role data}", "1h")
        text = text.replace("healthy: {for: 30s}", f"healthy: {{for: 30s, inject: {fault}}}")
        Path("x.yaml").write_text(text.replace("over: {", "over: {undo: all, "))

    written("{node.pause: {target: node c-data}}")
    with pytest.raises(InvalidInput, match=r"node\.pause is still active on c-data"):
        load_experiment("x.yaml")
    written("{node.pause: {target: node c-cm}}")
    assert load_experiment("x.yaml").phases[1].during is not None
    written("{network.latency: {links: to node c-data, delay: 1s}}")
    assert load_experiment("x.yaml").phases[1].during is not None
    written("{node.restart: {target: node c-data}}")
    assert load_experiment("x.yaml").phases[1].during is not None


def test_a_guard_that_would_end_the_run_before_its_deadline_is_told() -> None:
    with pytest.raises(InvalidInput, match=r"x.yaml:10:15: .*roll may take until .* guards.max ends the run after 10m"):
        load("manual", most="10m")


@pytest.mark.parametrize(
    ("written", "valid"),
    [
        (COMMAND, True),
        ("manual", True),
        ("{manual: x}", True),
        ("{command: [x], manual: y}", False),
        ("by-hand", False),
    ],
)
def test_the_published_schema_says_the_same(written: str, valid: bool) -> None:
    Path("x.yaml").write_text(TEXT % (written, "1h"))
    data = YAML(typ="safe").load(Path("x.yaml"))
    found = list(jsonschema.Draft202012Validator(schema_of("experiment", GRAMMAR)).iter_errors(data))
    assert (not found) is valid, found
