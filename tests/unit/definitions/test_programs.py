"""``programs`` in files: what they mean, what is refused, and that files without them mean what they did."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fakes import ROOT

from chaos.base.errors import InvalidInput
from chaos.definitions import Experiment, writing
from chaos.registry import GRAMMAR, PROVIDERS, load_experiment
from chaos.run import commanding, on_target, plan, space
from chaos.run.execution import offers_for
from chaos.targets.existing.compare import Sign

TEXT = f"""\
apiVersion: opensearch-chaos/v1
name: x
topology: {ROOT}/topologies/3az-standby.yaml
load: {{write: {{rate: 20/s, good: ok within 500ms}}}}
phases: {{healthy: {{for: 10s}}}}
expect: [{{acknowledged.lost: 0}}]
"""
SHIP = "programs: {shipper: {command: [./ship, a b], ready: [./ship, --check], within: 2m}}\n"


def load(folder: Path, more: str = "") -> Experiment:
    path = folder / "x.yaml"
    path.write_text(TEXT + more)
    return load_experiment(path)


def test_a_program_is_words_a_question_and_a_deadline(tmp_path: Path) -> None:
    program = load(tmp_path, SHIP).programs["shipper"]
    assert (program.command, program.ready, program.within) == (("./ship", "a b"), ("./ship", "--check"), 120)
    plain = load(tmp_path, "programs: {shipper: {command: [./ship]}}\n").programs["shipper"]
    assert (plain.ready, plain.within) == (None, 60)


def test_it_survives_the_normal_form_and_being_written_again(tmp_path: Path) -> None:
    loaded = load(tmp_path, SHIP)
    assert GRAMMAR.experiment(loaded.to_json()).programs == loaded.programs
    (tmp_path / "y.yaml").write_text(writing.experiment(loaded, f"{ROOT}/topologies/3az-standby.yaml"))
    assert load_experiment(tmp_path / "y.yaml").programs == loaded.programs


def test_a_plan_without_one_has_no_word_of_it_and_one_with_it_has_another_hash(tmp_path: Path) -> None:
    without, with_it = load(tmp_path), load(tmp_path, SHIP)
    assert "programs" not in without.to_json()
    assert plan.digest(without) != plan.digest(with_it)


def test_the_plan_says_that_it_begins_and_how_it_ends(tmp_path: Path) -> None:
    loaded = load(tmp_path, SHIP)
    first, *_ = plan.steps(loaded, 1, offers_for(loaded, PROVIDERS))
    assert first["step"] == "begin beside the load, command: ./ship 'a b'" and "2m later" in str(first["inverse"])


def test_its_deadline_and_what_it_may_print_count_for_the_room_that_is_needed(tmp_path: Path) -> None:
    without, with_it = load(tmp_path), load(tmp_path, SHIP)
    assert space.longest_seconds(with_it) == space.longest_seconds(without) + 120
    assert space.of_record(with_it).bytes >= space.of_record(without).bytes + commanding.LOG_BYTES


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("programs: {shipper: {command: ./ship}}", "./ship"),
        ("programs: {shipper: {command: []}}", "command"),
        ("programs: {shipper: {}}", "command"),
        ("programs: {Shipper: {command: [./ship]}}", "Shipper"),
        ("programs: {shipper: {command: [./ship], within: 0s}}", "within"),
        ("programs: {shipper: {command: [./ship], shell: true}}", "shell"),
    ],
)
def test_what_is_refused(tmp_path: Path, line: str, says: str) -> None:
    with pytest.raises(InvalidInput) as error:
        load(tmp_path, line + "\n")
    assert says in error.value.message and ":7:" in error.value.message


@pytest.mark.parametrize("given", ["{command: [/no/ship]}", "{command: [sh], ready: [/no/ship]}"])
def test_a_program_that_is_not_here_is_refused_by_the_run(tmp_path: Path, given: str) -> None:
    with pytest.raises(InvalidInput, match="the program shipper of the experiment is a command, and there is no"):
        commanding.refuse_absent(load(tmp_path, f"programs: {{shipper: {given}}}\n"))


def test_on_a_cluster_of_others_it_is_refused_for_no_cap_holds_it(tmp_path: Path) -> None:
    target = cast(Any, SimpleNamespace(written=SimpleNamespace(caps=object())))
    (row,) = on_target.refused_caps(load(tmp_path, SHIP), target)
    assert row.sign is Sign.BLOCKS and "the program shipper sends what no cap of ours can hold" in row.says
