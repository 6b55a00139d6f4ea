"""The command line: one line for every mistake, the right exit code, and nothing started before it is time."""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import synthetic
from daykit import written as written_day
from fakes import PARTS, ROOT, topology
from making import block

from chaos import cli as module
from chaos.base.errors import Aborted, ChaosError, Exit, InvalidInput, LabError, ProvisionError
from chaos.base.paths import ProcessIdentity
from chaos.commands.common import folded
from chaos.faults import documentation
from chaos.faults.ledger import Ledger, Registration
from chaos.history import EventWriter
from chaos.registry import FAULTS, PROVIDERS, load_experiment
from chaos.run import closing, space, stopping
from chaos.run import execution as running
from chaos.run.options import RunOptions, RunResult
from chaos.run.plan import again
from chaos.run.space import MIB
from chaos.targets.labs import network
from chaos.targets.labs.local import LocalLab
from chaos.targets.protocol import CAPABILITIES, NO_OWNERS

EXPERIMENT = ROOT / "experiments" / "data-node-kill.yaml"
Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of its own, no namespaces, and whoever provisions parts or makes a lab fails the test."""
    monkeypatch.setenv("OPENSEARCH_CHAOS_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(network, "namespaces", lambda prefix="": [])
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    def never(*_: Any, **__: Any) -> Any:
        pytest.fail("something was started")

    monkeypatch.setattr("chaos.targets.labs.provisioning.parts", never)
    monkeypatch.setattr(LocalLab, "up", never)
    return tmp_path


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    def call(*arguments: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["opensearch-chaos", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            module.main()
        out, err = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, out, err

    return call


def one_line(err: str) -> str:
    assert err.count("\n") == 1 and err.startswith("opensearch-chaos: "), err
    return err


def written(folder: Path, text: str, name: str = "x.yaml") -> Path:
    file = folder / name
    file.write_text(text)
    return file


# ---- mistakes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["frobnicate"], "frobnicate"),
        (["run", "--frobnicate"], "--frobnicate"),
        (["run"], "EXPERIMENT"),
        (["run", "x.yaml", "--seed", "many"], "--seed"),
        (["run", "x.yaml", "--seed", "-1"], "--seed"),
        (["lab", "frobnicate"], "frobnicate"),
        (["lab", "up", "3az", "--port", "70000"], "--port"),
    ],
)
def test_a_wrong_command_or_option_is_one_line_and_exit_2(cli: Cli, arguments: list[str], says: str) -> None:
    code, _, err = cli(*arguments)
    assert code == 2 and says in one_line(err)


LONG = f"{'x' * 300}.yaml"


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", LONG],
        ["run", f"experiments/{LONG}"],
        ["plan", LONG],
        ["validate", LONG],
        ["gameday", "validate", LONG],
        ["gameday", "check", LONG],
        ["gameday", "history", LONG],
        ["campaign", "plan", LONG],
        ["target", "check", LONG],
        ["workload", "check", LONG],
        ["audit", LONG],
        ["report", LONG],
    ],
    ids=lambda arguments: " ".join(arguments)[:24],
)
def test_a_name_that_no_file_can_have_is_one_line_and_exit_2(cli: Cli, arguments: list[str]) -> None:
    code, _, err = cli(*arguments)
    assert code == 2 and "File name too long" in one_line(err) and LONG in err


PLANNED = ["run", EXPERIMENT, "--dry-run"]
NOTHING = "/nothing-is-here"
SAMPLE = ROOT / "reports" / "sample"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([*PLANNED, "--on", "nope"], "there is no lab named 'nope'"),
        ([*PLANNED, "--on", "nope", "--lab", "docker"], "--on names one that is there"),
        ([*PLANNED, "--on", "nope", "--lab", "local"], "--on names one that is there"),
        ([*PLANNED, "--on", "nope", "--opensearch-home", "/tmp"], "--opensearch-home is for a lab of its own"),
        ([*PLANNED, "--opensearch-home", NOTHING], "does not exist"),
        ([*PLANNED, "--opensearch-home", EXPERIMENT], "neither a folder nor a tar archive"),
        ([*PLANNED, "--opensearch-home", ROOT], "is no usable OpenSearch home"),
        ([*PLANNED, "--lab", "docker", "--opensearch-home", "/tmp"], "a docker lab runs images"),
        ([*PLANNED, "--lab", "podman"], "'podman' is no kind of lab; choose one of: local, docker"),
        ([*PLANNED, "--out", "FILE"], "is no folder"),
        ([*PLANNED, "--out", "FILE/below"], "is no folder"),
        ([*PLANNED, "--quiet"], "--dry-run prints a plan"),
        ([*PLANNED, "--no-controller"], "no controllers to leave out"),
        ([*PLANNED, "--topology", "nope"], "there is no topology nope"),
        (["plan", EXPERIMENT, "--no-controller"], "no controllers to leave out"),
        (["plan", EXPERIMENT, "--for-change"], "name its file: --on topologies/existing/NAME.yaml"),
        (["plan", EXPERIMENT, "--for-change", "--on", NOTHING], "there is no such file"),
        (["plan", EXPERIMENT, "--for-change", "--on", NOTHING, "--json"], "--for-change is a page"),
        (["faults", "--markdown", "--json"], "the same page everywhere"),
        (["faults", "--markdown", "--lab", "local"], "the same page everywhere"),
        (["nemesis", "3az", "--budget", "3"], "--budget: it is of --shrink"),
        (["nemesis", "3az", "--reports", "x"], "nothing is run without --run"),
        (["nemesis", "3az", "--opensearch-home", "/tmp"], "nothing is run without --run"),
        (["nemesis", "3az", "--run", "--opensearch-home", NOTHING], "does not exist"),
        (["nemesis", "3az", "--name", "Not_a_Name"], "--name Not_a_Name"),
        (["nemesis", "3az", "--out", "FILE/x.yaml"], "cannot write"),
        (["nemesis", "--shrink", SAMPLE, "--seed", "7"], "--seed: --shrink"),
        (["nemesis", "--shrink", SAMPLE, "--run"], "--run: --shrink"),
        (["nemesis", "--shrink", SAMPLE, "--opensearch-home", NOTHING], "does not exist"),
        (["lab", "up", "3az", "--name", "Not/a/Name"], "cannot name a lab"),
        (["lab", "up", "3az", "--opensearch-home", NOTHING], "does not exist"),
        (["lab", "up", "3az", "--lab", "docker", "--port", "9200"], "chosen by its engine"),
        (["lab", "status", "nope"], "there is no lab named 'nope'"),
        (["lab", "exec", "nope", "a-data", "--", "true"], "there is no lab named 'nope'"),
        (["lab", "down", "nope"], "there is no lab named 'nope'"),
        (["compare", SAMPLE, SAMPLE, "--out", "x"], "--out: it is for experiments"),
        (["compare", SAMPLE, SAMPLE, "--opensearch-home", "/tmp"], "--opensearch-home: it is for experiments"),
        (["compare", SAMPLE, SAMPLE, "--seed", "3"], "--seed are for experiments"),
        (["compare", SAMPLE, SAMPLE, "--metric", "nope.good"], "nope.good"),
        (["compare", SAMPLE, SAMPLE, "--page", "FILE/x.html"], "is no folder"),
        (["compare", EXPERIMENT, EXPERIMENT, "--page", "FILE/x.html"], "is no folder"),
        (["compare", EXPERIMENT, EXPERIMENT, "--out", "FILE"], "is no folder"),
        (["compare", EXPERIMENT, EXPERIMENT, "--metric", "read.good@nope"], "has the phase nope"),
        (["compare", EXPERIMENT, EXPERIMENT, "--tolerance", "read.good@nope=1%"], "has the phase nope"),
        (["compare", EXPERIMENT, EXPERIMENT, "--opensearch-home", NOTHING], "does not exist"),
        (["judge", SAMPLE, "--experiment", EXPERIMENT, "--overwrite"], "-o"),
        (["export", SAMPLE, "-o", "x", "--format", "nope"], "unknown export format"),
        (["audit", "3az", "--lab", "nope"], "audit takes"),
        (["audit", "--lab", "nope"], "there is no lab named 'nope'"),
        (["audit", "3az", "--markdown"], "the same page everywhere"),
        (["audit", "https://127.0.0.1:1", "--insecure", "--ca", "x"], "leave one out"),
    ],
    ids=lambda value: " ".join(Path(str(each)).name for each in value) if isinstance(value, list) else "",
)
def test_what_is_asked_for_and_cannot_be_had_is_refused_and_nothing_is_ignored(
    cli: Cli, tmp_path: Path, arguments: list[Any], says: str
) -> None:
    """No option of any command is silently without effect, and none is found out only after hours of runs."""
    file = written(tmp_path, "", "file")
    code, out, err = cli(*(str(each).replace("FILE", str(file)) for each in arguments))
    assert code == 2 and says in one_line(err), (code, out, err)
    assert not (tmp_path / "state" / "labs").exists() and list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("variable", ["OPENSEARCH_HOME", "OPENSEARCH_JAVA_HOME"])
@pytest.mark.parametrize("command", [[*PLANNED], ["lab", "up", "3az"]], ids=["run", "lab up"])
def test_an_environment_that_points_nowhere_is_refused(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, variable: str, command: list[Any]
) -> None:
    monkeypatch.setenv(variable, NOTHING)
    code, _, err = cli(*command)
    assert code == 2 and variable in one_line(err) and NOTHING in err


def test_a_dry_run_shows_the_series_and_the_room_that_it_may_need(cli: Cli, tmp_path: Path) -> None:
    code, out, _ = cli(*PLANNED, "--repeat", "5", "--seed", "7", "--out", tmp_path)
    assert code == 0 and "a series of 5 runs, seeds 7 to 11" in out
    loaded = load_experiment(EXPERIMENT)
    records, lab = space.size(5 * space.of_record(loaded).bytes), space.size(space.of_lab(loaded).bytes)
    assert f"room on disk, at most: {records} for the record, {lab} for the lab" in out


def test_a_lab_whose_state_folder_cannot_be_made_fetches_nothing(cli: Cli, tmp_path: Path) -> None:
    written(tmp_path, "", "state")
    code, _, err = cli("lab", "up", "3az")
    assert code == 2 and "lab '3az' cannot be put in" in one_line(err) and "OPENSEARCH_CHAOS_STATE" in err


@pytest.mark.parametrize("command", [["run", EXPERIMENT], [*PLANNED], ["run", EXPERIMENT, "--repeat", "20"]])
def test_a_disk_without_the_room_that_a_run_may_need_is_refused(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[Any]
) -> None:
    loaded = load_experiment(EXPERIMENT)
    one = space.of_record(loaded).bytes + space.of_lab(loaded).bytes  # the state folder is on the same disk
    enough = one if "--repeat" in command else one - MIB
    found = os.statvfs(tmp_path)
    blocks = enough // found.f_frsize

    def says(path: Any) -> Any:
        return SimpleNamespace(f_bavail=blocks, f_frsize=found.f_frsize, f_blocks=blocks, f_favail=10**6, f_files=10**7)

    monkeypatch.setattr(os, "statvfs", says)
    code, _, err = cli(*command, "--out", tmp_path / "reports")
    assert code == 2 and "on the disk of" in one_line(err) and "are free" in err and "--out" in err
    assert not (tmp_path / "reports").exists()


@pytest.mark.parametrize("command", ["run", "plan", "validate"])
def test_a_file_that_is_not_there(cli: Cli, tmp_path: Path, command: str) -> None:
    code, out, err = cli(command, tmp_path / "none.yaml")
    assert code == 2 and "none.yaml" in one_line(err) and out == ""


@pytest.mark.parametrize("command", ["run", "plan", "validate"])
def test_wrong_yaml_is_named_by_file_line_and_column(cli: Cli, tmp_path: Path, command: str) -> None:
    file = written(tmp_path, EXPERIMENT.read_text().replace("for: 30s", "for: 30 parsecs", 1))
    line = next(n for n, text in enumerate(file.read_text().splitlines(), 1) if "parsecs" in text)
    code, _, err = cli(command, file)
    assert code == 2 and f"x.yaml:{line}:" in err and "parsecs" in err and "Traceback" not in err
    code, _, err = cli(command, written(tmp_path, "name: [\n", "broken.yaml"))
    assert code == 2 and "broken.yaml:" in err and "Traceback" not in err


def test_the_errors_of_all_files_are_reported_at_once(cli: Cli, tmp_path: Path) -> None:
    bad = [written(tmp_path, "name: 1\n", f"bad{n}.yaml") for n in range(2)]
    code, out, err = cli("validate", EXPERIMENT, *bad)
    assert code == 2 and "bad0.yaml:" in err and "bad1.yaml:" in err and out == ""


@pytest.mark.parametrize("command", [["run"], ["plan"], ["run", "--dry-run"]])
def test_a_topology_that_does_not_exist(cli: Cli, command: list[str]) -> None:
    code, _, err = cli(*command, EXPERIMENT, "--topology", "9az")
    assert code == 2 and "there is no topology 9az" in one_line(err) and "3az" in err


def test_a_lab_that_does_not_exist(cli: Cli) -> None:
    for arguments in (["run", EXPERIMENT, "--on", "none"], ["lab", "status", "none"], ["lab", "down", "none"]):
        code, _, err = cli(*arguments)
        assert code == 2 and "there is no lab named 'none'" in one_line(err)
    assert cli("lab", "down")[0] == 2
    assert cli("lab", "exec", "none", "a-data")[0] == 2


def test_a_topology_of_another_lab(cli: Cli) -> None:
    LocalLab.create(topology("3az-standby"), PARTS, id="play")
    code, _, err = cli("run", EXPERIMENT, "--on", "play")
    assert code == 2 and "lab 'play' runs topology 3az-standby" in one_line(err)


def test_a_folder_without_definitions(cli: Cli, tmp_path: Path) -> None:
    code, _, err = cli("validate", tmp_path)
    assert code == 2 and "no definitions" in one_line(err)


# ---- plan and validate -----------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["plan"], ["run", "--dry-run"]])
def test_a_plan_needs_no_root_and_no_cluster(cli: Cli, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    code, out, err = cli(*arguments, EXPERIMENT, "--seed", "3")
    assert code == 0 and err == ""
    assert "data-node-kill on 3az, seed 3" in out
    assert "move: node.kill node=b-data" in out and "inverse: node.start node=b-data" in out
    assert "expect: acknowledged.lost" in out


def test_a_plan_names_closed_loops_too(cli: Cli) -> None:
    code, out, _ = cli("plan", ROOT / "experiments" / "ingestion" / "parallel-clients.yaml")
    assert code == 0
    assert "load: read search 5/s, good within 2s, from zones a" in out
    assert "load: write bulk of 100 documents, 1 client in a closed loop, from zones a" in out


def test_a_plan_as_json(cli: Cli) -> None:
    code, out, _ = cli("plan", EXPERIMENT, "--json", "--topology", "3az-standby")
    plan = json.loads(out)
    assert code == 0 and plan["seed"] == 1 and plan["experiment"]["topology"]["name"] == "3az-standby"
    assert [step["moves"] for step in plan["steps"] if "moves" in step] == [["node.kill node=b-data"]]


@pytest.mark.parametrize("arguments", [["plan"], ["run", "--dry-run"]])
def test_an_experiment_without_its_controllers(cli: Cli, arguments: list[str]) -> None:
    file = ROOT / "experiments" / "standby" / "paused-node.yaml"
    says = "failover controllers in zones a, c act"
    assert says in cli(*arguments, file)[1]
    code, out, _ = cli(*arguments, file, "--no-controller")
    assert code == 0 and says not in out and "inject" in out
    code, _, err = cli(*arguments, EXPERIMENT, "--no-controller")
    assert code == 2 and "there are no controllers to leave out" in one_line(err)
    assert again(file, 3, "3az", controlled=False).endswith("paused-node.yaml --seed 3 --topology 3az --no-controller")


def test_validate_takes_folders_experiments_and_topologies(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    code, out, _ = cli("validate", ROOT / "experiments", ROOT / "topologies")
    assert code == 0
    assert "valid experiment data-node-kill" in out and "valid topology 3az-standby" in out
    assert "attributes-flat.yaml: valid workload attributes-flat" in out, "a workload may stand beside its experiment"
    files = [line for line in out.splitlines() if not line.startswith("  note: ")]
    assert len(files) == len(list((ROOT / "experiments").rglob("*.yaml"))) + len(
        list((ROOT / "topologies").glob("*.yaml"))
    )


def test_validate_takes_each_file_of_a_folder_for_what_its_data_says(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "experiments"
    folder.mkdir()
    experiment, topology = (ROOT / "experiments/no-fault.yaml").read_text(), (ROOT / "topologies/3az.yaml").read_text()
    (folder / "a.yml").write_text(experiment)
    (folder / "b.yaml").write_text(experiment.replace("description: >-", "description: >-\n  kind: topology", 1))
    (folder / "c.yaml").write_text(topology.replace("kind: topology", 'kind: "topology"  # of three zones'))
    (folder / "alerts.yml").write_bytes((ROOT / "tests/support/rules/opensearch-alerts.yml").read_bytes())
    code, out, err = cli("validate", folder)
    said = {line.partition(": ")[0].rpartition("/")[2]: line.partition(": ")[2] for line in out.splitlines()}
    assert (code, err) == (0, "")
    assert said["a.yml"] == said["b.yaml"] == "valid experiment no-fault"
    assert said["c.yaml"] == "valid topology 3az" and said["alerts.yml"].endswith(" alert rules")
    (folder / "a.yml").write_text(experiment.replace("topology:", "topolgy:", 1))
    code, _, err = cli("validate", folder)
    assert code == 2 and "a.yml:" in err and 'did you mean "topology"?' in err


def test_validate_sends_on_from_a_game_day(cli: Cli, tmp_path: Path) -> None:
    file = written_day(tmp_path)
    code, out, _ = cli("validate", file)
    assert code == 0 and "use: opensearch-chaos gameday validate" in out
    file.write_text(file.read_text().replace("target:", "taget:", 1))
    code, _, err = cli("validate", file)
    assert code == 2 and 'did you mean "target"?' in err


def test_version_and_help(cli: Cli) -> None:
    assert cli("--version")[:2] == (0, f"{module.chaos.__version__}\n")
    code, out, _ = cli("--help")
    assert code == 0 and "recover" in out


GROUPS = (
    "First steps",
    "Write and run experiments",
    "Judge, compare and draw runs",
    "Clusters that exist",
    "Labs and this machine",
    "Bugs of OpenSearch",
    "Game days",
)


def test_the_command_alone_prints_help_in_groups_with_every_command(cli: Cli) -> None:
    code, out, err = cli()
    assert (code, err) == (0, "")
    places = [out.index(f"─ {group} ") for group in GROUPS]
    assert places == sorted(places) and "─ Commands " not in out
    for name in (*(each.__name__.replace("_", "-") for several in module.PANELS.values() for each in several), "lab"):
        assert re.search(rf"^│ {name} ", out, re.M), name


def test_one_kind_of_fault_with_its_examples(cli: Cli, lacking: None) -> None:
    code, printed, _ = cli("faults", "node.kill")
    assert code == 0 and "example: node.kill: {target: node c-data" in printed and "node.stop" not in printed
    code, printed, _ = cli("faults", "disk", "--json")
    kinds = {each["kind"] for each in json.loads(printed)["faults"]}
    assert kinds == {each for each in FAULTS if each.startswith("disk.")}
    code, _, err = cli("faults", "node.kil")
    assert code == 2 and 'did you mean "node.kill"?' in one_line(err)


@pytest.mark.parametrize("command", ["run", "plan"])
def test_an_address_is_no_cluster_s_file_and_it_is_said_what_makes_one(cli: Cli, command: str) -> None:
    code, printed, err = cli(command, str(EXPERIMENT), "--on", "https://search.example:9200")
    assert (code, printed) == (2, "")
    assert "opensearch-chaos init --from https://search.example:9200" in one_line(err)


def test_a_plan_folds_moves_that_are_alike_and_json_has_them_all(cli: Cli) -> None:
    file = str(ROOT / "experiments" / "zone-black-hole.yaml")
    _, printed, _ = cli("plan", file)
    moves = [line for line in printed.splitlines() if line.startswith("    move: ")]
    assert len(moves) == 4 and moves[-1] == "    move: … and 29 more like these"
    _, whole, _ = cli("plan", file, "--json")
    (step,) = [each for each in json.loads(whole)["steps"] if each.get("moves")]
    assert len(step["moves"]) == 32


def test_few_moves_and_moves_in_turn_are_shown_whole() -> None:
    five = [f"node.kill node={n}" for n in range(5)]
    assert folded(five) == five
    turns = [f"{what} node={n}" for n in range(9) for what in ("node.stop", "node.start")]
    assert folded(turns) == turns
    assert folded([*five, "x a", *(f"y {n}" for n in range(7))]) == [
        *five,
        "x a",
        "y 0",
        "y 1",
        "y 2",
        "… and 4 more like these",
    ]


# ---- before a run ----------------------------------------------------------------------------------------


@pytest.fixture
def lacking(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which no process can be signalled."""
    offers = {**dict.fromkeys(CAPABILITIES), **NO_OWNERS, "process": "signals are off here"}
    monkeypatch.setattr(LocalLab, "offers", classmethod(lambda cls, topology: offers))


@pytest.mark.parametrize("command", [["run"], ["run", "--dry-run"], ["plan"], ["plan", "--json"]])
def test_what_the_lab_lacks_is_refused_with_its_reason_before_anything_starts(
    cli: Cli, lacking: None, command: list[str]
) -> None:
    code, printed, err = cli(*command, EXPERIMENT)
    assert code == Exit.USAGE
    assert "cannot run here: node.kill in phase" in one_line(err) and "signals are off here" in err
    assert bool(printed) == (command != ["run"])  # a plan is shown all the same


def test_the_catalogue_says_what_can_be_had_here_and_why_not(cli: Cli, lacking: None) -> None:
    code, printed, err = cli("faults")
    assert (code, err) == (0, "")
    assert "  node.kill   SIGKILL" in printed and "here: not available: signals are off here" in printed
    assert "here: available" in printed and documentation.CLOCKS in printed
    code, printed, _ = cli("faults", "--json", "--topology", "2az")
    listed = {each["kind"]: each for each in json.loads(printed)["faults"]}
    assert code == 0 and list(listed) == list(FAULTS)
    assert listed["node.kill"]["reasons"] == ["signals are off here"] and not listed["node.kill"]["available"]
    assert listed["network.drop"]["available"] and listed["network.drop"]["needs"] == {"drop": CAPABILITIES["drop"]}


def test_the_catalogue_as_a_page_is_the_same_everywhere(cli: Cli, lacking: None) -> None:
    assert cli("faults", "--markdown")[:2] == (0, documentation.markdown(PROVIDERS))


def test_a_drawn_experiment_is_printed_or_written_and_says_how_to_draw_it_again(cli: Cli, tmp_path: Path) -> None:
    drawn = ["nemesis", "3az-standby", "--seed", "3", "--for", "60s"]
    code, printed, _ = cli(*drawn)
    file = tmp_path / "deep" / "x.yaml"
    assert code == 0 and cli(*drawn, "--out", file)[:2] == (0, "")
    assert file.read_text() == printed
    again = printed.splitlines()[0].partition("opensearch-chaos ")[2].split()
    assert cli(*again)[1] == printed
    assert cli("validate", file)[0] == 0


def test_a_drawn_experiment_that_is_run_at_once_is_kept(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def run(experiment: Any, options: RunOptions, reporter: Any) -> RunResult:
        ran.append(options.command)
        return RunResult(
            tmp_path,
            {"outcome": "pass", "exit_code": 0}
            | dict.fromkeys(("headline", "summary"), "")
            | {"reasons": [], "findings": []},
            True,
        )

    monkeypatch.setattr(running, "run", run)
    code, _, _ = cli("nemesis", "3az-standby", "--for", "60s", "--run", "--reports", tmp_path / "r")
    assert code == 0 and len(ran) == 1 and "nemesis-3az-standby-1.yaml --seed 1" in ran[0]
    assert (tmp_path / "r" / "nemesis-3az-standby-1.yaml").exists()


@pytest.mark.parametrize(("signalled", "code", "runs"), [(True, Exit.ABORTED, 1), (False, Exit.PASS, 2)])
def test_after_a_signal_no_other_experiment_begins_though_the_run_passed(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signalled: bool, code: Exit, runs: int
) -> None:
    """It came after the read-back, so that the run has its verdict."""
    ran: list[str] = []

    def run(experiment: Any, options: RunOptions, reporter: Any) -> RunResult:
        ran.append(experiment.name)
        return RunResult(
            tmp_path,
            {"outcome": "pass", "exit_code": 0}
            | dict.fromkeys(("headline", "summary"), "")
            | {"reasons": [], "findings": []},
            True,
            signalled,
        )

    monkeypatch.setattr(running, "run", run)
    assert cli("run", EXPERIMENT, EXPERIMENT, "--out", tmp_path)[0] == code and len(ran) == runs


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "takes a topology, or --shrink"),
        (["3az", "--shrink", "x"], "takes a topology, or --shrink"),
        (["nowhere"], "there is no topology nowhere"),
        (["3az", "--for", "0s"], "--for 0s: expected more than 0"),
        (["3az", "--rate", "5"], "5 has no unit"),
        (["3az", "--hold", "20s..10s"], "--hold 20s..10s: expected"),
        (["3az", "--weights", "node.kil=1"], 'did you mean "node.kill"?'),
        (["--shrink", "nowhere.yaml"], "nowhere.yaml"),
    ],
)
def test_a_plan_that_cannot_be_drawn_is_one_line(cli: Cli, arguments: list[str], says: str) -> None:
    code, _, err = cli("nemesis", *arguments)
    assert code == Exit.USAGE and says in one_line(err)


def test_a_failing_plan_is_shrunk_and_the_smallest_is_written(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever kills fails."""
    drawn = tmp_path / "x.yaml"
    cli("nemesis", "3az-standby", "--seed", "2", "--weights", "node.stop=1,network.hang=1", "--out", drawn)

    def run(experiment: Any, options: RunOptions, reporter: Any) -> RunResult:
        bad = any(step.kind == "node.stop" for phase in experiment.phases for step in phase.inject)
        found = [{"id": "acknowledged.lost", "counts_as": "weakness" if bad else "pass"}]
        return RunResult(tmp_path, {"outcome": "weakness" if bad else "pass", "findings": found}, True)

    monkeypatch.setattr(running, "run", run)
    code, printed, err = cli("nemesis", "--shrink", drawn, "--reports", tmp_path / "r", "--budget", "50")
    assert code == 0, err
    assert "1 faults are needed" in printed and "no single fault of it can be left out" in printed
    (file,) = (tmp_path / "r").glob("*.yaml")
    assert file.read_text().count("node.stop") == 1 and "network.hang" not in file.read_text()
    assert "# the failure: acknowledged.lost" in file.read_text()


@pytest.mark.parametrize(("clean", "stopped", "code"), [(False, False, 6), (False, True, 6), (True, True, 4)])
def test_shrinking_that_leaves_something_behind_is_dirty(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clean: bool, stopped: bool, code: int
) -> None:
    drawn = tmp_path / "x.yaml"
    cli("nemesis", "3az-standby", "--seed", "2", "--weights", "node.stop=1,network.hang=1", "--out", drawn)
    result = RunResult(tmp_path, {"outcome": "weakness", "findings": []}, clean, stopped)  # type: ignore[typeddict-item]
    monkeypatch.setattr(running, "run", lambda *_: result)
    assert cli("nemesis", "--shrink", drawn, "--reports", tmp_path / "r")[0] == code


@pytest.mark.parametrize("arguments", [["run", EXPERIMENT], ["lab", "up", "3az"]])
def test_without_root_nothing_is_started(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: list[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("chaos.definitions.loading.topology_folders", lambda near=None: [ROOT / "topologies"])
    code, _, err = cli(*arguments)
    said = [line for line in err.splitlines() if line.startswith("opensearch-chaos: ")]
    assert code == 2 and len(said) == 1 and "root" in said[0] and "sudo" in said[0]
    assert not (tmp_path / "reports").exists() and not (tmp_path / "state" / "labs").exists()


def leave_something(folder: Path, lab: str = "gone", owner: ProcessIdentity | None = None) -> None:
    ledger = Ledger(folder / "run-1" / "ledger.jsonl")
    ledger.intend("f1", [block("a-data", "c-data")])
    ledger.close()
    Registration("run-1", ledger.path, lab, owner or ProcessIdentity(1, 0, "another boot")).write()


def test_leftovers_are_refused_by_name_with_the_command_that_helps(cli: Cli, tmp_path: Path) -> None:
    leave_something(tmp_path)
    code, _, err = cli("run", EXPERIMENT, "--out", tmp_path / "reports")
    assert code == 2 and "neighbour.block host=a-data peer=c-data" in err
    assert "run: opensearch-chaos recover" in err and "Traceback" not in err
    assert not (tmp_path / "reports").exists()

    code, out, _ = cli("recover")
    assert code == 0, out
    code, out, _ = cli("recover")
    assert (code, out) == (0, "nothing is left behind\n")


def test_recover_that_cannot_is_dirty(cli: Cli, tmp_path: Path) -> None:
    lab = LocalLab.create(topology("3az"), PARTS, id="play", lease=True)
    manifest = json.loads((lab.folder / "lab.json").read_text())
    manifest["owner"]["boot_id"] = "another boot"
    (lab.folder / "lab.json").write_text(json.dumps(manifest))
    (lab.folder / "leased").touch()
    (lab.folder / "topology.json").unlink()
    leave_something(tmp_path, lab="play")
    code, out, _ = cli("recover")
    assert code == 6 and "could not: run run-1 on lab play" in out


def test_a_lab_with_a_run_under_way_is_neither_shared_nor_taken_down(cli: Cli, tmp_path: Path) -> None:
    LocalLab.create(topology("3az"), PARTS, id="play")
    parent = ProcessIdentity.of(os.getppid())
    leave_something(tmp_path, lab="play", owner=parent)
    code, _, err = cli("run", EXPERIMENT, "--on", "play", "--out", tmp_path / "reports")
    assert code == 2 and "run run-1 is under way on lab 'play'" in err
    code, _, err = cli("lab", "down", "play")
    assert code == 2 and "under way" in one_line(err)
    assert not (tmp_path / "reports").exists() and (tmp_path / "state" / "labs" / "play").exists()


def test_a_reports_folder_that_cannot_be_made(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.targets.labs.provisioning.parts", lambda *_, **__: PARTS)
    code, _, err = cli("run", EXPERIMENT, "-q", "--out", written(tmp_path, "", "file"))
    assert code == 2 and "is no folder" in one_line(err) and "--out" in err
    assert not (tmp_path / "state" / "labs").exists()


def test_parts_that_cannot_be_had_are_our_error(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **options: Any) -> Any:
        assert options["opensearch_home"] == Path("/opt/opensearch")
        raise ProvisionError("no mirror answers", remedy="look at the network")

    monkeypatch.setattr("chaos.targets.labs.provisioning.parts", fails)
    monkeypatch.setattr("chaos.provision.given.refuse_unusable", lambda *_: None)
    arguments = ("run", EXPERIMENT, "-q", "--out", tmp_path / "r", "--opensearch-home", "/opt/opensearch")
    code, _, err = cli(*arguments)
    assert code == 5 and one_line(err) == "opensearch-chaos: no mirror answers; look at the network\n"


# ---- a run that goes wrong: everything but the cluster is real -----------------------------------------------


@pytest.fixture
def provisioned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr("chaos.targets.labs.provisioning.parts", lambda *_, **__: PARTS)
    return tmp_path / "reports"


def findings(out: Path) -> dict[str, Any]:
    (folder,) = out.iterdir()
    return dict(json.loads((folder / "findings.json").read_text()))


@pytest.mark.parametrize(
    ("error", "code", "outcome"),
    [
        (LabError("node a-cm died at start: no memory"), 5, "error"),
        (Aborted("stopped by SIGINT"), 4, "aborted"),
        (IndexError("list index out of range"), 5, "error"),
        (OSError(28, "No space left on device"), 5, "error"),
    ],
)
def test_a_lab_that_does_not_come_up_is_taken_away_and_reported(
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
    provisioned: Path,
    tmp_path: Path,
    error: Exception,
    code: int,
    outcome: str,
) -> None:
    def up(*_: Any) -> None:
        raise error

    monkeypatch.setattr(LocalLab, "up", up)
    got, out, err = cli("run", EXPERIMENT, "-q", "--out", provisioned)
    assert got == code, out + err
    found = findings(provisioned)
    assert found["outcome"] == outcome and found["clean"] is True and "Traceback" not in out + err
    assert list((tmp_path / "state" / "labs").iterdir()) == []
    assert list((tmp_path / "state" / "registry").iterdir()) == []


def test_a_disk_that_fills_up_does_not_keep_the_lab_from_being_taken_away(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, provisioned: Path, tmp_path: Path
) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    def up(*_: Any) -> None:
        monkeypatch.setattr(EventWriter, "write", full)
        monkeypatch.setattr(closing, "write_json", full)
        raise LabError("nobody can write any more")

    monkeypatch.setattr(LocalLab, "up", up)
    code, _, err = cli("run", EXPERIMENT, "-q", "--out", provisioned)
    assert code == 5 and "no report of" in one_line(err) and "No space left" in err
    assert list((tmp_path / "state" / "labs").iterdir()) == []
    assert list((tmp_path / "state" / "registry").iterdir()) == []


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    if ctypes.CDLL(None).mount(b"tmpfs", str(folder).encode(), b"tmpfs", 0, b"size=64m"):
        pytest.skip("mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_record_that_breaks_is_the_headline_of_a_report_in_the_room_that_was_kept(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, provisioned: Path, tmp_path: Path, small: Path
) -> None:
    """Whoever notices it first may be a thread that goes on; the run does not."""
    out = small / "reports"

    def up(lab: LocalLab, says: Any, check: Callable[[], None]) -> None:
        (folder,) = out.iterdir()
        with suppress(OSError), open(small / "filler", "wb", buffering=0) as filler:
            while True:
                filler.write(bytes(4096))
        with suppress(OSError):  # as the sampler does
            events.append(EventWriter(folder / "history" / "events.jsonl", stops[0].fail))
            events[0].write("sample", nodes="x" * 8192)
        check()
        pytest.fail("it went on")

    events: list[Any] = []
    stops: list[Any] = []
    made = stopping.Stop
    monkeypatch.setattr(running, "Stop", lambda: stops.append(made()) or stops[0])
    monkeypatch.setattr(LocalLab, "up", up)
    code, said, err = cli("run", EXPERIMENT, "-q", "--out", out)
    found = findings(out)
    assert (code, found["outcome"], found["clean"]) == (5, "error", True), said + err
    assert "the record cannot be written: events.jsonl: No space left on device" in found["summary"]
    (folder,) = out.iterdir()
    assert (folder / "report.html").is_file() and not list(folder.glob(".room-for-*"))
    for name in ("summary.md", "junit.xml"):
        assert "No space left on device" in (folder / name).read_text()


@pytest.mark.parametrize("full_disk", [False, True])
def test_a_lab_that_will_not_go_is_dirty_whatever_else(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, provisioned: Path, tmp_path: Path, full_disk: bool
) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    def up(*_: Any) -> None:
        if full_disk:
            monkeypatch.setattr(closing, "write_json", full)
        raise LabError("no")

    monkeypatch.setattr(LocalLab, "up", up)
    monkeypatch.setattr(LocalLab, "down", lambda lab: ["process 4711 does not die"])
    code, out, err = cli("run", EXPERIMENT, "-q", "--out", provisioned)
    assert code == 6 and ("no report" in one_line(err) and "4711" in err if full_disk else "DIRTY" in out)
    assert len(list((tmp_path / "state" / "registry").iterdir())) == 1  # for `recover` to find


@pytest.mark.parametrize(
    "ends", [SystemExit(1), KeyboardInterrupt(), GeneratorExit()], ids=lambda end: type(end).__name__
)
def test_whatever_ends_the_process_the_lab_is_taken_away(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, provisioned: Path, tmp_path: Path, ends: BaseException
) -> None:
    """Seen: a library that ended the process when nobody read its lines any more."""

    def up(*_: Any) -> None:
        raise ends

    monkeypatch.setattr(LocalLab, "up", up)
    with suppress(type(ends)):
        cli("run", EXPERIMENT, "-q", "--out", provisioned)
    assert list((tmp_path / "state" / "labs").iterdir()) == []
    assert list((tmp_path / "state" / "registry").iterdir()) == []


def test_a_read_back_that_breaks_is_our_error_but_nothing_is_left(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, provisioned: Path, tmp_path: Path
) -> None:
    def breaks(_: Any) -> None:
        raise KeyError("hits")

    def up(*_: Any) -> None:
        raise LabError("no")

    monkeypatch.setattr(LocalLab, "up", up)
    monkeypatch.setattr(running.Execution, "settle_and_read_back", breaks)
    code, _, _ = cli("run", EXPERIMENT, "-q", "--out", provisioned)
    assert code == 5 and findings(provisioned)["clean"] is True
    assert list((tmp_path / "state" / "registry").iterdir()) == []


def test_signals_ask_for_an_end_once_and_are_given_back() -> None:
    said: list[str] = []

    class Lines:
        def line(self, text: str) -> None:
            said.append(text)

    before = signal.getsignal(signal.SIGTERM)
    stop = stopping.Stop()
    with stopping.signals(stop, Lines()):  # type: ignore[arg-type]
        with stop._lock:  # a signal may come while another's handler is at work
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        assert stop.reason == "stopped by SIGTERM" and len(said) == 2 and "already" in said[1]
        with pytest.raises(Aborted, match="SIGTERM"):
            stop.check()
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_state_folder_that_cannot_be_written_is_one_line(cli: Cli, provisioned: Path, tmp_path: Path) -> None:
    written(tmp_path, "", "state")  # a file where the folder should be
    code, _, err = cli("run", EXPERIMENT, "-q", "--out", provisioned)
    assert code == 2 and "its lab cannot be put in" in one_line(err) and "is no folder" in err


# ---- several ---------------------------------------------------------------------------------------------


def result(code: Exit) -> RunResult:
    outcome = {0: "pass", 1: "weakness", 3: "inconclusive", 4: "aborted", 5: "error", 6: "pass"}[code]
    return RunResult(
        Path("reports/x"),
        {
            "exit_code": int(code),
            "outcome": outcome,
            "headline": "so",
            "summary": "so",
            "reasons": [],
            "findings": [],
            "clean": code != 6,
        },
        code != 6,
    )


@pytest.mark.parametrize(
    ("ends", "worst", "count"),
    [
        ([Exit.PASS, Exit.PASS], 0, 2),
        ([Exit.PASS, Exit.INCONCLUSIVE], 3, 2),
        ([Exit.INCONCLUSIVE, Exit.WEAKNESS, Exit.PASS], 1, 3),
        ([Exit.WEAKNESS, Exit.ERROR, Exit.PASS], 5, 3),
        ([Exit.ERROR, Exit.ABORTED, Exit.PASS], 5, 2),  # after an abort nothing more is begun
        ([Exit.WEAKNESS, Exit.DIRTY, Exit.PASS], 6, 2),
        ([Exit.ERROR, InvalidInput("leftovers"), Exit.PASS], 5, 2),
        ([Exit.WEAKNESS, InvalidInput("leftovers"), Exit.PASS], 2, 2),
    ],
)
def test_the_worst_of_several_is_the_exit_code(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, ends: list[Exit | ChaosError], worst: int, count: int
) -> None:
    asked: list[RunOptions] = []

    def run(experiment: Any, options: RunOptions, reporter: Any) -> RunResult:
        end = ends[len(asked)]
        asked.append(options)
        if isinstance(end, ChaosError):
            raise end
        return result(end)

    monkeypatch.setattr(running, "run", run)
    code, out, err = cli("run", *[EXPERIMENT] * len(ends), "--seed", "9", "-q")
    assert (code, len(asked)) == (worst, count)
    assert out.count("data-node-kill: ") == sum(isinstance(end, Exit) for end in ends[:count])
    assert ("leftovers" in err) is any(isinstance(end, ChaosError) for end in ends)
    assert all(options.seed == 9 and options.command.endswith("--seed 9") for options in asked)


# ---- report ----------------------------------------------------------------------------------------------


def test_a_folder_that_is_no_run(cli: Cli, tmp_path: Path) -> None:
    code, _, err = cli("report", tmp_path)
    assert code == 2 and "no run folder" in one_line(err)
    code, _, err = cli("report", tmp_path / "none")
    assert code == 2 and "no run folder" in one_line(err)


def test_a_plan_that_cannot_be_read_is_one_line(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{")
    code, _, err = cli("report", tmp_path)
    assert code == 5 and one_line(err)


def test_runs_are_judged_again_from_their_folders_and_the_worst_counts(cli: Cli, tmp_path: Path) -> None:
    folders = [synthetic.STORIES[name]().write(tmp_path / name) for name in ("unproven", "aborted")]
    assert [cli("report", folder)[0] for folder in folders] == [3, 4]
    code, out, err = cli("report", *folders)
    assert code == 4 and out.count("  report: ") == 2 and err == ""
    assert all((folder / "report.html").is_file() for folder in folders)


def test_a_foreign_oserror_is_one_line_too(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def denied(folder: Path, **_: Any) -> Any:
        raise PermissionError(13, "Permission denied", str(folder / "findings.json"))

    monkeypatch.setattr("chaos.report.render", denied)
    (tmp_path / "plan.json").write_text("{}")
    code, _, err = cli("report", tmp_path)
    assert code == 5 and "Permission denied" in one_line(err) and "findings.json" in err


def test_ctrl_c_before_a_run_is_one_line_and_aborted(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("chaos.registry.load_experiment", interrupted)
    code, _, err = cli("plan", EXPERIMENT)
    assert (code, one_line(err)) == (4, "opensearch-chaos: interrupted\n")
