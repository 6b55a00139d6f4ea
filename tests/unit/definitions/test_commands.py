"""``expect: {command: […]}`` in files: what it means, what is refused, and that files without it mean what they did."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import ROOT

from chaos.base.errors import InvalidInput
from chaos.definitions import Experiment, writing
from chaos.registry import GRAMMAR, PROVIDERS, load_experiment
from chaos.run import commanding, notes, plan
from chaos.run.execution import offers_for

TEXT = f"""\
apiVersion: opensearch-chaos/v1
name: x
topology: {ROOT}/topologies/3az-standby.yaml
load: {{write: {{rate: 20/s, good: ok within 500ms}}}}
phases: {{healthy: {{for: 10s}}}}
expect:
"""


def load(folder: Path, *lines: str) -> Experiment:
    path = folder / "x.yaml"
    path.write_text(TEXT + "".join(f"  - {line}\n" for line in lines))
    return load_experiment(path)


def test_a_command_is_words_and_a_deadline_and_its_exit_code_is_to_be_zero(tmp_path: Path) -> None:
    known = "{command: [sh, -c, 'exit 1'], within: 5s, known_weakness: fails until orders are mended}"
    one, two = load(tmp_path, "{command: [./check.sh, a b]}", known).expect
    assert (one.command, one.within, one.phases) == (("./check.sh", "a b"), 30, ())
    assert one.text == "command ./check.sh 'a b'"
    assert (two.within, two.known_weakness) == (5, "fails until orders are mended")
    assert one.holds(0) and not one.holds(1) and not one.holds(3)


def test_it_survives_the_normal_form_and_being_written_again(tmp_path: Path) -> None:
    loaded = load(tmp_path, "{command: [./check.sh, a b], within: 5s}")
    assert GRAMMAR.experiment(loaded.to_json()).expect == loaded.expect
    (tmp_path / "y.yaml").write_text(writing.experiment(loaded, f"{ROOT}/topologies/3az-standby.yaml"))
    assert load_experiment(tmp_path / "y.yaml").expect == loaded.expect


def test_a_plan_without_one_has_no_word_of_it(tmp_path: Path) -> None:
    (line,) = load(tmp_path, "{acknowledged.lost: 0}").to_json()["expect"]
    assert not {"command", "within"} & set(line)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{command: ./check.sh}", "expected a program and its arguments"),
        ("{command: []}", "expected a program and its arguments"),
        ("{command: [./check.sh, 3]}", "expected a program and its arguments"),
        ("{command: [./check.sh], phase: healthy}", "command is of the whole run: expected no phase"),
        ("{command: [./check.sh], within: 0s}", "within"),
        ("{acknowledged.lost: 0, within: 5s}", "within is of a command, and this line is of acknowledged.lost"),
        (
            "{command: [./a], known_weakness: {why: so, bound: <= 1}}",
            "a command holds or fails, and has no bound",
        ),
        ("{command: [./check.sh], because: so}", "there is nothing to give a reason for"),
    ],
)
def test_what_is_refused(tmp_path: Path, line: str, says: str) -> None:
    with pytest.raises(InvalidInput) as error:
        load(tmp_path, line)
    assert says in error.value.message and ":7:" in error.value.message


def test_the_same_command_twice_is_asked_once_and_two_are_no_contradiction(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="already expectation 1"):
        load(tmp_path, "{command: [./check.sh]}", "{command: [./check.sh]}")
    assert len(load(tmp_path, "{command: [./check.sh]}", "{command: [./check.sh, b]}").expect) == 2


def test_a_program_that_is_not_here_is_said_by_the_plan_and_refused_by_the_run(tmp_path: Path) -> None:
    loaded = load(tmp_path, "{command: [/no/such/program]}")
    assert any("no program '/no/such/program'" in each for each in notes.of(loaded, 1, offers_for(loaded, PROVIDERS)))
    with pytest.raises(InvalidInput, match="the experiment expects something of a command"):
        commanding.refuse_absent(loaded)
    assert plan.digest(loaded) != plan.digest(load(tmp_path, "{command: [/no/such/other]}"))
