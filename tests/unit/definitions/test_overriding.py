"""``--set``: what a path leads to, what is refused, and that plan, hash and the command that runs it again know it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from shipped import EXPERIMENTS

from chaos import cli as module
from chaos.base.errors import InvalidInput
from chaos.definitions import Duration, Experiment, overriding
from chaos.definitions.source import Source
from chaos.registry import load_experiment
from chaos.run import plan
from chaos.run.spec import RunSpec

TEXT = f"""\
apiVersion: opensearch-chaos/v1
name: x
topology: {ROOT}/topologies/3az-standby.yaml
load:
  read:  {{rate: 100/s, good: ok within 500ms}}
  write: {{rate: 20/s, good: ok within 500ms}}
phases:
  healthy: {{for: 10s}}
  slow:
    for: 10s
    inject:
      network.latency:
        - {{name: first, links: to zone c, delay: 3s}}
        - {{name: second, links: to zone b, delay: 3s}}
  away:    {{for: 10s, undo: all}}
expect:
  - {{phase: healthy, read.good: ">= 99%"}}
  - {{phase: slow, write.good: ">= 50%"}}
  - {{phase: away, write.good: ">= 60%"}}
  - {{acknowledged.lost: 0}}
guards: {{cluster.red: 20s}}
"""
Load = Callable[..., Experiment]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x.yaml"
    path.write_text(TEXT)
    return path


@pytest.fixture
def load(file: Path) -> Load:
    return lambda *given: load_experiment(file, overrides=overriding.parse(given))


def refused(load: Load, *given: str) -> str:
    with pytest.raises(InvalidInput) as error:
        load(*given)
    return error.value.message


def call(arguments: list[str | Path], monkeypatch: pytest.MonkeyPatch, capsys: Any) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["opensearch-chaos", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        module.main()
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


# ---- where a path leads ----------------------------------------------------------------------------------


def test_a_value_takes_the_place_of_the_file_s(load: Load) -> None:
    changed = load("load.write.rate=50/s", "phases.healthy.for=1m", "topology=3az")
    assert changed.load.operation("write").rate == 50  # type: ignore[union-attr]
    assert changed.load.operation("read").rate == 100  # type: ignore[union-attr]
    assert changed.phase("healthy").duration == 60
    assert changed.topology.name == "3az"


def test_keys_with_dots_of_their_own(load: Load) -> None:
    changed = load("guards.cluster.red=40s", "guards.read.good={below: 10%, for: 20s}", "rates.first=2/year")
    assert changed.guards.cluster_red == 40
    assert changed.guards.read_good is not None and changed.guards.read_good.below == pytest.approx(0.1)
    assert set(changed.rates) == {"first"}


def test_an_item_of_a_list_by_number_by_name_and_by_a_key_that_it_alone_has(load: Load) -> None:
    changed = load(
        "phases.slow.inject.network.latency.0.delay=4s",
        "phases.slow.inject.network.latency.second.delay=5s",
        "expect.read.good=>= 90%",
        "expect.2.write.good='>= 70%'",
    )
    assert [each.delay for each in changed.phase("slow").inject] == [4, 5]  # type: ignore[attr-defined]
    assert [each.value for each in changed.expect] == [0.9, 0.5, 0.7, 0]


def test_a_key_that_the_file_leaves_out(load: Load) -> None:
    changed = load("load.client.zones=[a]", "controller.act=false", "seed=7")
    assert changed.client_zones == ("a",)
    assert changed.controller is not None and not changed.controller.act
    assert changed.seed == 7


def test_keys_of_the_topology_s_own_file(load: Load, file: Path) -> None:
    changed = load("topology.opensearch=2.19.6", "topology.settings.index.refresh_interval=5s")
    assert changed.topology.versions == ("2.19.6",) and "5s" in str(changed.topology.settings)
    assert changed.overrides["topology.opensearch"] == "2.19.6"
    assert plan.digest(changed) != plan.digest(load()), "another version is another plan"
    assert load("topology=3az", "topology.opensearch=2.19.6").topology.name == "3az"
    with pytest.raises(InvalidInput, match=r"--set topology\.opensearch=2\.19\.6: the topology is that of a cluster"):
        load_experiment(file, topology=load().topology, overrides=overriding.parse(["topology.opensearch=2.19.6"]))


def test_a_cluster_that_exists_has_its_own_topology() -> None:
    overriding.refuse_topology(overriding.parse(["load.write.rate=5/s"]))
    with pytest.raises(InvalidInput, match=r"--set topology\.opensearch=3\.9\.0: a cluster that exists has its own"):
        overriding.refuse_topology(overriding.parse(["topology.opensearch=3.9.0"]))


def test_sides_have_them_too_but_not_beside_a_topology_of_their_own(file: Path) -> None:
    of = "vary:\n  sides: {one: {}, other: {topology: %s}}\n  times: 5\n  decide: [write.good]\n"
    given = overriding.parse(["topology.opensearch=2.19.6"])
    file.write_text(TEXT + of % "{settings: {index: {refresh_interval: 9s}}}")
    sides = load_experiment(file, sides=True, overrides=given)
    versions = [side.experiment.topology.versions for side in sides.sides]  # type: ignore[attr-defined]
    assert versions == [("2.19.6",), ("2.19.6",)]
    file.write_text(TEXT + of % "3az")
    with pytest.raises(InvalidInput, match="side other names its topology, so none can be given on the command line"):
        load_experiment(file, sides=True, overrides=given)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_every_path_of_every_shipped_file_leads_to_itself(data: st.DataObject) -> None:
    """And the value that stands there, given by the option, changes neither the experiment nor its hash."""
    path = data.draw(st.sampled_from(sorted(EXPERIMENTS)))
    before = load_experiment(path, sides=True)
    source = Source.read(path)
    where = data.draw(st.sampled_from([each for each in overriding._paths(source.data) if each != "vary"]))
    value = source.data
    for part in overriding._resolve(source.data, None, where):
        value = value[part]
    after = load_experiment(path, sides=True, overrides=overriding.parse([f"{where}={json.dumps(value)}"]))
    assert plan.digest(after) == plan.digest(before)


# ---- what is refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("load.wriet.rate=50/s", "load.write.rate"),
        ("topology.opensarch=3.9.0", "topology.opensearch"),
        ("load.write.rat=50/s", "load.write.rate"),
        ("laod.wrte.rat=50/s", "load.write.rate"),
        ("write.rate=50/s", "load.write.rate"),
        ("guards.cluster.rde=40s", "guards.cluster.red"),
        ("phases.slwo.for=3s", "phases.slow.for"),
        ("phases.slow.inject.network.latncy.0.delay=4s", "phases.slow.inject.network.latency.0.delay"),
        ("phases.slow.inject.network.latency.2.delay=4s", "phases.slow.inject.network.latency.1"),
        ("phases.slow.inject.network.latency.secnd.delay=4s", "phases.slow.inject.network.latency.second.delay"),
        ("expect.read.goood=>= 90%", "expect.read.good"),
        ("expect.9.read.good=>= 90%", "expect.3"),
    ],
)
def test_a_wrong_path_is_one_error_with_the_nearest_right_one(load: Load, wrong: str, right: str) -> None:
    says = refused(load, wrong)
    assert len(says.splitlines()) == 1
    assert f"--set {wrong}" in says
    assert f"did you mean {right}?" in says


def test_a_path_through_a_single_value_and_an_ambiguous_one(load: Load) -> None:
    assert "load.write.rate is a single value (20/s)" in refused(load, "load.write.rate.per=5")
    assert "expect.1 and expect.2" in refused(load, "expect.write.good=>= 90%")


@pytest.mark.parametrize("text", ["load.write.rate", "=5", "seed=", "seed=~", "seed=[1", "seed={a: 1, a: 2}"])
def test_what_is_no_path_with_a_value(load: Load, text: str) -> None:
    assert refused(load, text).startswith(f"--set {text}")


def test_a_path_that_is_given_twice(load: Load) -> None:
    assert "given twice" in refused(load, "seed=1", "seed=2")


def test_a_wrong_value_is_told_of_the_option_and_of_no_line_of_the_file(load: Load, file: Path) -> None:
    says = refused(load, "load.write.rate=fast")
    assert says.startswith(f"{file}: --set load.write.rate=fast: ")
    assert len(says.splitlines()) == 1


@pytest.mark.parametrize(
    "value", ["!!int abc", "0x_", "!!bool maybe", "9" * 5000, "[" * 2000], ids=lambda text: text[:9]
)
def test_a_value_that_cannot_be_read_is_told_of_the_option(load: Load, value: str) -> None:
    said = refused(load, f"seed={value}")
    assert said.startswith(f"--set seed={value}: ") and ("cannot read" in said or "more than 100 levels" in said)


def test_what_only_the_whole_plan_shows_to_be_wrong(load: Load) -> None:
    assert "--set phases.slow.inject.network.latency.0.links=to zone q" in refused(
        load, "phases.slow.inject.network.latency.0.links=to zone q"
    )


def test_nothing_starts_and_the_exit_code_is_that_of_bad_input(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("run", "plan", "validate"):
        code, out, err = call([command, file, "--set", "load.wriet.rate=1/s"], monkeypatch, capsys)
        assert (code, out) == (2, "")
        assert err.count("\n") == 1 and "did you mean load.write.rate?" in err


def test_a_topology_is_not_what_it_is_for(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    topology = ROOT / "topologies" / "3az-standby.yaml"
    code, _, err = call(["validate", file, topology, "--set", "seed=3"], monkeypatch, capsys)
    assert code == 2 and "--set is of experiments" in err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--topology", "3az-standby", "--set", "topology=2az"], "--topology and --set topology=2az say the same"),
        (["--seed", "0", "--set", "seed=7"], "--seed and --set seed=7 say the same"),
        (["--no-controller", "--set", "controller.act=false"], "--no-controller and --set controller.act=false say"),
        (
            ["--objective", "read=1s", "--set", "load.read.good=ok within 2s"],
            "--objective 1s and load.read.good=ok within 2s say the same of reads",
        ),
        (
            ["--objective", "1s", "--set", "load.read={rate: 9/s, good: ok within 2s}"],
            "--objective 1s and load.read={rate: 9/s, good: ok within 2s} say the same of reads",
        ),
    ],
)
def test_what_another_option_says_too_is_refused(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: list[str], says: str
) -> None:
    for command in (["plan"], ["run", "--dry-run"]):
        code, out, err = call([*command, file, *options], monkeypatch, capsys)
        assert (code, out) == (2, "")
        assert says in err and "leave one of them out" in err


def test_options_of_something_else_stand_beside_it(load: Load, file: Path) -> None:
    beside = overriding.parse(["topology.opensearch=2.19.6", "load.read.rate=9/s"])
    overriding.refuse_beside(beside, ("--topology", "topology", "3az"), ("--seed", "seed", 3))
    found = load_experiment(file, overrides=beside, good={"read": Duration.parse("1s")})
    assert found.load.operation("read").rate == 9  # type: ignore[union-attr]


# ---- plan, hash and command ------------------------------------------------------------------------------


def test_plan_hash_and_command_know_it(load: Load, file: Path) -> None:
    plainly, changed = load(), load("load.write.rate=50/s")
    assert plan.digest(plainly) == plan.digest(load_experiment(file)) == plan.digest(load("load.write.rate=20/s"))
    assert plan.digest(changed) != plan.digest(plainly)
    assert "overrides" not in plainly.to_json()
    assert changed.to_json()["overrides"] == {"load.write.rate": "50/s"}
    assert "--set load.write.rate=50/s" in RunSpec.of(changed).command
    assert RunSpec.of(load("seed=7", "load.write.rate=50/s")).command.endswith("--seed 7 --set load.write.rate=50/s")


def test_the_plan_says_so(file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(["plan", file, "--set", "load.write.rate=50/s"], monkeypatch, capsys)
    assert code == 0
    assert "note: load.write.rate is 50/s: given on the command line" in out
    code, out, _ = call(["plan", file, "--json", "--set", "load.write.rate=50/s"], monkeypatch, capsys)
    assert json.loads(out)["experiment"]["overrides"] == {"load.write.rate": "50/s"}


def test_every_side_has_it_and_what_is_wrong_there_is_told_of_the_option(tmp_path: Path) -> None:
    path = tmp_path / "sides.yaml"
    sides = "vary: {times: 5, sides: {default: {}, slow: {load: {read: {rate: 10/s}}}}}\n"
    path.write_text(TEXT + sides)
    made: Any = load_experiment(path, sides=True, overrides=overriding.parse(["load.write.rate=50/s", "vary.times=6"]))
    assert made.times == 6
    for side in made.sides:
        assert side.experiment.load.operation("write").rate == 50
        assert side.experiment.overrides == made.overrides
    with pytest.raises(InvalidInput, match=r"--set load\.write\.good=x: "):
        load_experiment(path, sides=True, overrides=overriding.parse(["load.write.good=x"]))
