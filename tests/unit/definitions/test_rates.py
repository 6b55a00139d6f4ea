"""Rates that change: their grammar, what a normal form says of them, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from making import OFFERS
from ruamel.yaml import YAML
from typer.testing import CliRunner

from chaos.base.errors import InvalidInput
from chaos.cli import app
from chaos.definitions import writing
from chaos.definitions.experiment import Experiment
from chaos.definitions.schema import schema_of
from chaos.registry import GRAMMAR, load_experiment
from chaos.run import notes, on_target, space
from chaos.statistics import rejudge

FILE = """\
apiVersion: opensearch-chaos/v1
name: surge
topology: 3az
load:
  read: {rate: RATE, good: ok within 1s}
  write: {rate: 20/s, good: ok within 1s}
phases:
  healthy: {for: 60s}
  dead: {for: 60s, inject: {node.kill: {target: node b-data}}}
  returned: {undo: node.kill, until: {green: true, stable: 30s, within: 180s}}
expect:
  - {phase: all, read.good: ">= 99.9%"}
  - {acknowledged.lost: 0}
"""
STEPS = "{steps: [{at: 0s, rate: 20/s}, {at: 60s, rate: 80/s}]}"
RAMP = "{from: 40/s, to: 120/s, over: 2m}"
SURGE = "{steps: [{at: 0s, rate: 40/s}, {at: 60s, rate: 120/s, over: 30s}, {at: 90s, rate: 40/s, over: 0.5s}]}"
PLATEAU = "{steps: [{at: 0s, rate: 40/s}, {at: 10s, rate: 40/s}, {at: 60s, rate: 120/s, over: 30s}]}"


def loaded(folder: Path, rate: str, **changed: str) -> Experiment:
    path = folder / "surge.yaml"
    text = FILE.replace("RATE", rate)
    for old, new in changed.items():
        text = text.replace(old, new)
    path.write_text(text)
    return load_experiment(path)


@pytest.mark.parametrize(
    ("rate", "pieces", "lowest", "highest"),
    [
        (STEPS, ((0, 20, 20), (60, 80, 80)), 20, 80),
        (RAMP, ((0, 40, 120), (120, 120, 120)), 40, 120),
        (SURGE, ((0, 40, 40), (60, 40, 120), (90, 120, 40), (90.5, 40, 40)), 40, 120),
        (PLATEAU, ((0, 40, 40), (10, 40, 40), (60, 40, 120), (90, 120, 120)), 40, 120),
        ("{from: 120/s, to: 40/s, over: 1m}", ((0, 120, 40), (60, 40, 40)), 40, 120),
    ],
)
def test_a_rate_that_changes_is_pieces_and_its_normal_form_has_the_lowest(
    rate: str, pieces: Any, lowest: float, highest: float, tmp_path: Path
) -> None:
    experiment = loaded(tmp_path, rate)
    read, write = experiment.load.operations
    assert (read.changes, float(read.rate), read.most) == (pieces, lowest, highest)
    normal = json.loads(json.dumps(experiment.to_json()))
    assert normal["load"]["read"]["rate"] == lowest and normal["load"]["read"]["changes"] == [list(p) for p in pieces]
    assert "changes" not in normal["load"]["write"] and write.most == write.rate == 20
    assert GRAMMAR.experiment(normal) == experiment
    (tmp_path / "again").mkdir()
    again = tmp_path / "again" / "surge.yaml"
    again.write_text(writing.experiment(experiment, "3az"))
    assert load_experiment(again).to_json() | {"file": ""} == experiment.to_json() | {"file": ""}


def test_the_published_schema_takes_what_loads_and_refuses_what_does_not() -> None:
    schema = schema_of("experiment", GRAMMAR)
    read = YAML(typ="safe").load
    for rate in ("20/s", STEPS, RAMP, SURGE, "{times: ./x}", "{times: [0s, 2s], before: 3/s}"):
        jsonschema.validate(read(FILE.replace("RATE", rate)), schema)
    for rate in ("20", "{times: ./x, steps: [{at: 0s, rate: 3/s}]}", "{from: 40/s, to: 120/s}", "{steps: []}", "{}"):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(read(FILE.replace("RATE", rate)), schema)


@pytest.mark.parametrize(
    ("rate", "says"),
    [
        ("{times: ./arrivals.txt}", "5:24: TMP/arrivals.txt: cannot be read: No such file or directory"),
        ("{times: []}", "5:16: rate: this list has no times: expected one at least, or a rate"),
        ("{times: [1s, 1ms]}", "5:16: rate: time 2 is 0.001 s, earlier than the one before it (1 s)"),
        (
            "{times: [1s], to: 3/s}",
            "5:16: rate: a list of times says when all requests arrive: expected times without",
        ),
        (
            "{times: [1s, 25h]}",
            "5:16: rate: the last time is 90,000 s: expected seconds from the begin",
        ),
        ("{from: 3/s, to: 4/s, over: 1m, before: 2/s}", "5:16: rate: before is the rate before a list of times"),
        ("{from: 3/s, to: 4/s}", "5:16: rate: over is missing: expected for example {from: 20/s, to: 100/s, over: 2m}"),
        ("{}", "5:16: rate: from, to and over are missing"),
        ("{from: 3/s, to: 3/s, over: 1m}", "5:16: rate: this rate never changes: expected 3/s alone"),
        ("{steps: [{at: 0s, rate: 3/s}]}", "5:16: rate: this rate never changes: expected 3/s alone"),
        ("{steps: []}", "5:24: steps: expected at least 1, got nothing"),
        (
            "{steps: [{at: 3s, rate: 3/s}, {at: 9s, rate: 4/s}]}",
            "5:16: rate: the first step is at 3s: expected one at 0s",
        ),
        (
            "{steps: [{at: 0s, rate: 3/s, over: 1s}]}",
            "5:16: rate: the first step is the rate with which the load begins",
        ),
        (
            "{steps: [{at: 0s, rate: 3/s}, {at: 30s, rate: 5/s}, {at: 20s, rate: 5/s}]}",
            "5:16: rate: the step at 20s stands after the one at 30s: expected each later than the one before",
        ),
        (
            "{steps: [{at: 0s, rate: 3/s}, {at: 30s, rate: 5/s, over: 40s}, {at: 1m, rate: 6/s}]}",
            "5:16: rate: the step at 30s takes until 70s, and the next is at 1m: expected that one later",
        ),
        ("{steps: [{at: 0s, rate: 0/s}, {at: 9s, rate: 4/s}]}", "5:40: rate: 0/s is nothing: expected more than zero"),
        ("{steps: [{at: 0s, rate: 3/s}, {at: 30, rate: 5/s}]}", "5:51: at: 30 has no unit"),
        ("{from: 0/s, to: 4/s, over: 1m}", "5:23: from: 0/s is nothing: expected more than zero"),
        ("{steps: [{at: 0s, rate: 3/s}], to: 4/s}", "5:16: rate: a rate changes either in steps or evenly"),
        ("{stpes: [{at: 0s, rate: 3/s}]}", '5:17: unknown key "stpes": did you mean "steps"?'),
        ("[3/s]", "5:16: rate: cannot read ['3/s']"),
        ("50", "5:16: rate: 50 has no unit"),
        ("0/s", "5:16: rate: 0/s is nothing: expected more than zero"),
    ],
)
def test_what_makes_no_rate_is_refused_with_its_place_and_a_remedy(rate: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as refused:
        loaded(tmp_path, rate)
    assert f"surge.yaml:{says.replace('TMP', str(tmp_path))}" in str(refused.value)


def test_the_plan_says_it_in_words(tmp_path: Path) -> None:
    loaded(tmp_path, SURGE)
    shown = CliRunner().invoke(app, ["plan", str(tmp_path / "surge.yaml")])
    assert shown.exit_code == 0
    assert "read search 40/s, evenly to 120/s from 1m to 90s, evenly to 40/s from 90s to 90.5s, good within 1s" in (
        " ".join(shown.output.split())
    )


def test_room_and_caps_count_with_the_highest_rate(tmp_path: Path) -> None:
    constant, changing = loaded(tmp_path, "120/s"), loaded(tmp_path, RAMP)
    assert space.of_record(changing) == space.of_record(constant)
    assert on_target.most_requests(changing) == on_target.most_requests(constant)
    assert space.of_lab(loaded(tmp_path, "40/s", **{"20/s": "20/s"})) == space.of_lab(constant)  # reads write nothing
    more = loaded(tmp_path, "40/s", **{"write: {rate: 20/s": f"write: {{rate: {RAMP}"})
    assert space.of_lab(more) == space.of_lab(loaded(tmp_path, "40/s", **{"write: {rate: 20/s": "write: {rate: 120/s"}))


def test_notes_know_how_many_arrivals_a_phase_has(tmp_path: Path) -> None:
    def said(rate: str) -> list[str]:
        return notes.of(loaded(tmp_path, rate, **{"99.9%": "99.95%"}), 1, OFFERS)

    many = said("{steps: [{at: 0s, rate: 40/s}, {at: 1s, rate: 80/s}]}")
    assert not any("healthy will be inconclusive" in each for each in many)
    few = said("{steps: [{at: 0s, rate: 20/s}, {at: 59s, rate: 80/s}]}")
    assert any("in healthy will be inconclusive: 1\u00a0260 arrivals at 21/s" in each for each in few), few
    late = said("{steps: [{at: 0s, rate: 40/s}, {at: 1h, rate: 80/s}]}")
    assert any("it never comes to 80/s" in each for each in late)
    assert not any("never comes" in each for each in many)


def test_a_run_at_another_rate_than_a_new_definition_has_says_both(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    old, new = loaded(tmp_path / "old", STEPS).to_json(), loaded(tmp_path, "20/s").to_json()
    assert "reads ran at 20/s, 80/s from 1m, not at 20/s" in rejudge._notes(new, old)
    assert not [note for note in rejudge._notes(old, old) if "ran at" in note]


LIST = "# of a Tuesday\n0\n0.25\n0.25  # two at once\n\n3.5\n"


def test_listed_times_are_read_from_a_file_beside_the_experiment(tmp_path: Path) -> None:
    (tmp_path / "arrivals.txt").write_text(LIST)
    experiment = loaded(tmp_path, "{times: arrivals.txt}")
    read, write = experiment.load.operations
    assert (read.times, read.before, float(read.rate), read.most) == ((0, 0.25, 0.25, 3.5), 1, 1, 3)
    assert read.rate_text == "4 arrivals listed over 4s, 1/s before"
    assert read.varies and not write.varies
    normal = json.loads(json.dumps(experiment.to_json()))
    assert normal["load"]["read"]["times"] == [0, 0.25, 0.25, 3.5] and normal["load"]["read"]["before"] == 1
    assert not {"times", "before", "changes"} & set(normal["load"]["write"])
    assert GRAMMAR.experiment(normal) == experiment
    inline = loaded(tmp_path, "{times: [0s, 0.25s, 250ms, 3.5s], before: 1/s}")
    assert inline.to_json() == experiment.to_json()
    (tmp_path / "again").mkdir()
    again = tmp_path / "again" / "surge.yaml"
    again.write_text(writing.experiment(experiment, "3az"))
    assert load_experiment(again).to_json() | {"file": ""} == experiment.to_json() | {"file": ""}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("0\n1.5 s\n", 'arrivals.txt:2: "1.5 s" is no time: expected a number of seconds, for example 12.345'),
        ("0\n-1\n", 'arrivals.txt:2: "-1" is no time'),
        ("nan\n", 'arrivals.txt:1: "nan" is no time'),
        ("5\n\n4\n", "arrivals.txt:3: 4 s is earlier than the line before it (5 s): expected them in order"),
        ("# none\n", "arrivals.txt: this list has no times"),
        ("1764342000.1\n", "arrivals.txt: the last time is 1,764,342,000 s: expected seconds from the begin"),
        ("0\n" * 100_001, "arrivals.txt:100001: more than 100,000 times"),
        ("\x00\xff", "arrivals.txt: it is not UTF-8 text"),
    ],
)
def test_a_file_that_lists_no_times_is_refused_with_its_line(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "arrivals.txt").write_bytes(text.encode("latin-1"))
    with pytest.raises(InvalidInput, match="5:24: ") as refused:
        loaded(tmp_path, "{times: arrivals.txt}")
    assert says in refused.value.message


def test_arrivals_after_the_phases_are_told_of_before_the_run(tmp_path: Path) -> None:
    experiment = loaded(tmp_path, "{times: [0s, 1s, 299s, 2000s]}")
    (note,) = [each for each in notes.of(experiment, 1, OFFERS) if "listed arrivals" in each]
    assert note.startswith("1 of the 4 listed arrivals of read come after the phases")
