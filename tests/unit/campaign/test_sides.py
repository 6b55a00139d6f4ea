"""Making the runs of an experiment with sides: their order, one lab or several, going on after a cut; without a lab."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import synthetic
from pages import Page

from chaos import cli as module
from chaos.base.errors import Dirty, Exit, InvalidInput, LabError
from chaos.base.paths import locked
from chaos.campaign import repeat as making
from chaos.campaign import sides
from chaos.checks.models import FindingsFile
from chaos.commands.running import _serves
from chaos.definitions.varied import Varied
from chaos.registry import load_experiment
from chaos.report import render
from chaos.run import plan
from chaos.run.options import RunResult
from chaos.run.pool import made_of
from chaos.run.stopping import Stop
from chaos.targets.labs import network

FILE = """\
apiVersion: opensearch-chaos/v1
name: ab
topology: 3az-standby
load:
  read:  {rate: 50/s, good: ok within 100ms}
  write: {rate: 50/s, good: ok within 100ms}
phases:
  healthy: {for: 20s}
expect:
  - {phase: all, read.good: ">= 99%"}
vary:
  sides:
    default: {}
    slow: {topology: {settings: {index: {refresh_interval: 30s}}}}
  times: 2
"""
Cli = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("names", [("a", "b"), ("a", "b", "c"), ("a", "b", "c", "d")])
@pytest.mark.parametrize("seed", range(20))
def test_every_round_has_every_side_and_two_rounds_favour_none(names: tuple[str, ...], seed: int) -> None:
    turns = sides.order(names, 6, seed)
    rounds = [[name for number, name in turns if number == each] for each in range(6)]
    assert [name for each in rounds for name in each] == [name for _, name in turns]
    assert all(sorted(each) == sorted(names) for each in rounds)
    assert all(rounds[i] == rounds[i + 1][::-1] for i in (0, 2, 4))
    places = {name: sum(place for place, (_, each) in enumerate(turns) if each == name) for name in names}
    assert len(set(places.values())) == 1, "a drift that is steady in time shifts all sides alike"


def test_the_order_is_drawn_from_the_seed_and_an_odd_round_stands_alone() -> None:
    assert sides.order(("a", "b"), 5, 7) == sides.order(("a", "b"), 5, 7)
    firsts = Counter(sides.order(("a", "b"), 1, seed)[0][1] for seed in range(200))
    assert 70 < firsts["a"] < 130
    assert Counter(name for _, name in sides.order(("a", "b"), 5, 7)) == {"a": 5, "b": 5}


def loaded(text: str = FILE) -> Varied:
    Path("ab.yaml").write_text(text)
    found = load_experiment("ab.yaml", sides=True)
    assert isinstance(found, Varied)
    return found


class Labs:
    """Gives labs as the pool does, by what they are made of. ``before``: called ahead of each run. ``lacks``: a version
    that is not to be had."""

    def __init__(self, before: Callable[[int], None] = lambda number: None, lacks: str = "") -> None:
        self.before, self.made, self.asked, self.closed = before, 0, 0, 0
        self.lacks = lacks
        self.provisioned: list[str] = []
        self._key: Any = None

    def parts(self, topology: Any) -> str:
        if topology.version == self.lacks:
            raise InvalidInput(f"OpenSearch {self.lacks} has no lock file")
        self.provisioned.append(topology.version)
        return str(topology.name)

    def get(self, topology: Any, *, parts: Any = None, check: Callable[[], None] = lambda: None) -> Any:
        self.before(self.asked)
        check()
        self.asked += 1
        if made_of(topology) != self._key:
            self.made, self._key = self.made + 1, made_of(topology)
        return type("Lab", (), {"kind": "local", "id": f"lab {self.made}"})()

    def close(self) -> None:
        self.closed, self._key = self.closed + 1, None


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Cli:
    monkeypatch.setenv("OPENSEARCH_CHAOS_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(network, "namespaces", lambda prefix="": [])
    monkeypatch.setattr(network, "require_root", lambda: None)
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["opensearch-chaos", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            module.main()
        out, err = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, out, err

    return call


class Ran(list[tuple[str, int | None, str]]):
    """(side, seed, lab) of each run. ``warmed``: the labs of runs that only warm one."""

    def __init__(self) -> None:
        super().__init__()
        self.warmed: list[str] = []
        self.dirty = False
        """Whether such a run leaves something behind."""


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Ran:
    """Runs that are written instead of made. Those of the side ``late`` are worse."""
    seen = Ran()

    def one(experiment: Any, options: Any, reporter: Any) -> RunResult:
        assert options.side is not None and not isinstance(experiment, Varied)
        name, number = str(options.side["name"]), len(seen) + 1
        if options.out.name == "_burn-in":
            seen.warmed.append(options.lab.id)
            number = 100 * len(seen.warmed)
        else:
            seen.append((name, options.seed, options.lab.id))
        made = synthetic.STORIES["slow_zone"]()
        made.seed = options.seed
        if name == "late":
            made.chapters[1].read = synthetic.healthy(late=0.05)
        folder = made.write(options.out / f"run-{number}")
        data = json.loads((folder / "plan.json").read_text())
        data |= {"hash": plan.digest(experiment), "side": options.side, "command": options.command}
        (folder / "plan.json").write_text(json.dumps(data))
        render(folder)
        findings: FindingsFile = json.loads((folder / "findings.json").read_text())
        dirty = seen.dirty and options.out.name == "_burn-in"
        if dirty:
            findings |= {"clean": False, "exit_code": int(Exit.DIRTY)}
        return RunResult(folder, findings, not dirty, stopped=findings["outcome"] == "aborted")

    monkeypatch.setattr("chaos.run.execution.run", one)
    return seen


def given(monkeypatch: pytest.MonkeyPatch, labs: Labs) -> Labs:
    monkeypatch.setattr("chaos.run.pool.LabPool", lambda *_, **__: labs)
    return labs


def test_sides_alternate_in_one_lab_with_the_same_seeds_and_one_page_comes_out(
    cli: Cli, ran: Ran, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    experiment, labs = loaded(FILE.replace("times: 2", "times: 5")), given(monkeypatch, Labs())
    code, out, err = cli("run", "ab.yaml", "--seed", "10", "--out", "r", "-q")
    assert (code, err) == (0, ""), out
    assert [(name, seed) for name, seed, _ in ran] == [
        (name, 10 + number) for number, name in sides.order(experiment.names, 5, 10)
    ]
    assert {lab for _, _, lab in ran} == {"lab 1"} == set(ran.warmed) and labs.closed == 1
    (folder,) = Path("r").iterdir()
    assert folder.name.endswith(tuple("0123456789abcdef")) and "-ab-sides-" in folder.name
    assert sorted(each.name for each in folder.iterdir()) == [
        "_burn-in",
        "compare.html",
        "compare.json",
        "compare.md",
        "default",
        "sides.json",
        "sides.lock",
        "slow",
    ]
    found = json.loads((folder / "compare.json").read_text())
    assert (found["outcome"], found["baseline"], list(found["comparisons"])) == ("pass", "default", ["slow"])
    assert found["differences"]["slow"] == ["topology.settings.index.refresh_interval: not set → 30s"]
    run = json.loads(next((folder / "slow").glob("run-*/plan.json")).read_text())
    assert run["side"] == {
        "name": "slow",
        "among": ["default", "slow"],
        "changes": {"topology": {"settings": {"index": {"refresh_interval": "30s"}}}},
    }
    assert run["command"] == f"opensearch-chaos run ab.yaml --seed {run['seed']} --side slow"
    assert found["burn_in"] == ["run-100"] and len(ran.warmed) == 1
    assert all(len(found["comparisons"]["slow"]["sides"][side]["runs"]) == 5 for side in "ab")
    report = next((folder / "slow").glob("run-*/report.html"))
    assert "slow, of default and slow" in Page(report.read_text()).words
    page = Page((folder / "compare.html").read_text())
    assert "Only warmed a new lab" in page.words
    assert page.open == [] and "Each side against default" in page.words and "no worse" in page.words
    # each side is a series like any other
    assert cli("report", folder / "slow")[0] == 0
    assert cli("report", folder)[0] == 0
    assert cli("compare", folder / "default", folder / "slow")[0] == 0


def test_what_a_run_that_warms_the_lab_leaves_behind_ends_it(
    cli: Cli, ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded()
    labs, ran.dirty = given(monkeypatch, Labs()), True
    code, out, _ = cli("run", "ab.yaml", "--out", "r", "-q")
    assert code == Exit.DIRTY and list(ran) == [] and labs.closed == 1 and "go on with" in out


def test_a_side_that_is_worse_fails(cli: Cli, ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded(FILE.replace("    slow:", "    late:").replace("times: 2", "times: 4"))
    given(monkeypatch, Labs())
    code, out, _ = cli("run", "ab.yaml", "--out", "r", "-q")
    assert code == Exit.WEAKNESS and "sides: FAIL  Side late is worse than default in read.good@slow" in out
    assert "worse      late: read.good@slow" in out


def test_few_runs_decide_nothing_and_three_sides_need_more(cli: Cli, ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded(FILE.replace("  times: 2", "    more: {load: {write: {rate: 60/s}}}\n  times: 1"))
    given(monkeypatch, Labs())
    code, out, _ = cli("run", "ab.yaml", "--out", "r", "-q")
    assert code == Exit.INCONCLUSIVE and "1 and 1 runs have no 97.5 % interval" in out
    _, out, _ = cli("plan", "ab.yaml")
    assert "note: 1 run of a side decides nothing: no interval reaches that level below 5" in out


def test_sides_of_other_labs_have_each_run_in_a_lab_of_its_own(
    cli: Cli, ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sides.one_lab(loaded())
    experiment = loaded(
        FILE.replace("{index: {refresh_interval: 30s}}", "{cluster: {indices.recovery.max_bytes_per_sec: 9mb}}")
    )
    assert not sides.one_lab(experiment)
    labs = given(monkeypatch, Labs())
    cli("run", "ab.yaml", "--out", "r", "-q")
    names = [name for name, _, _ in ran]
    assert names[1] == names[2] and labs.made == 4, "A B, B A: the two in the middle have labs of their own, too"
    assert [lab for _, _, lab in ran] == [f"lab {number}" for number in range(1, 5)]
    assert ran.warmed == [], "each is as cold as the others"


def test_sides_that_one_lab_could_serve_have_new_ones_where_the_file_asks_for_them(
    cli: Cli, ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = loaded(FILE.replace("times: 2", "times: 2\n  new_labs: true"))
    assert not sides.one_lab(experiment)
    _, out, _ = cli("plan", "ab.yaml")
    assert "each in a lab of its own" in out and "warms the lab" not in out
    labs = given(monkeypatch, Labs())
    cli("run", "ab.yaml", "--out", "r", "-q")
    assert labs.made == 4 and ran.warmed == []


OF_VERSIONS = FILE.replace("{settings: {index: {refresh_interval: 30s}}}", "{opensearch: 2.19.6}")


def test_versions_are_sides_and_no_lab_is_of_two(cli: Cli, ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = loaded(OF_VERSIONS)
    default, slow = (side.experiment for side in experiment.sides)
    assert not sides.one_lab(experiment) and not _serves(SimpleNamespace(topology=default.topology), slow, alone=False)
    _, out, _ = cli("plan", "ab.yaml")
    assert "side slow: topology.opensearch: 3.8.0 → 2.19.6" in out and "each in a lab of its own" in out
    labs = given(monkeypatch, Labs())
    cli("run", "ab.yaml", "--out", "r", "-q")
    assert labs.provisioned[:2] == ["3.8.0", "2.19.6"], "before the first run"
    assert len({lab for _, _, lab in ran}) == 4


def test_a_version_that_cannot_be_had_begins_nothing(cli: Cli, ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded(OF_VERSIONS)
    given(monkeypatch, Labs(lacks="2.19.6"))
    code, _, err = cli("run", "ab.yaml", "--out", "r", "-q")
    assert code == Exit.USAGE and list(ran) == [] and not Path("r").exists()
    assert "ab.yaml:14:5: side slow: OpenSearch 2.19.6 has no lock file" in err


def test_a_lab_that_cannot_be_taken_away_between_runs_ends_it(
    cli: Cli, ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded(OF_VERSIONS)
    labs = given(monkeypatch, Labs())
    monkeypatch.setattr(labs, "close", lambda: (_ for _ in ()).throw(Dirty("lab 1 is still here")))
    code, out, err = cli("run", "ab.yaml", "--out", "r", "-q")
    assert code == Exit.DIRTY and len(ran) == 1 and "lab 1 is still here" in out + err


def test_a_lab_that_is_up_serves_sides_that_differ_in_settings_of_the_index_alone(cli: Cli) -> None:
    default, slow = (side.experiment for side in loaded().sides)
    lab = SimpleNamespace(topology=default.topology)
    assert _serves(lab, slow, alone=False) and not _serves(lab, slow, alone=True)
    other = loaded(FILE.replace("{index: {refresh_interval: 30s}}", "{node: {search.max_buckets: 100}}")).sides[1]
    assert not _serves(lab, other.experiment, alone=False)


def stops(monkeypatch: pytest.MonkeyPatch) -> list[Stop]:
    made: list[Stop] = []

    def stop() -> Stop:
        made.append(Stop())
        return made[-1]

    monkeypatch.setattr(making, "Stop", stop)
    return made


def test_it_goes_on_where_it_was_cut_off(cli: Cli, ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Ctrl-C between runs, then a runner that died in a run: what is there is kept, and what says nothing is not."""
    experiment, asked = loaded(), stops(monkeypatch)

    def interrupt(number: int) -> None:
        if number == 3:
            asked[-1].ask("stopped by SIGINT")

    labs = given(monkeypatch, Labs(interrupt))
    code, out, _ = cli("run", "ab.yaml", "--out", "r", "-q")
    (folder,) = Path("r").iterdir()
    assert code == Exit.ABORTED and labs.closed == 1 and len(ran) == 2
    assert f"go on with: opensearch-chaos run ab.yaml --resume {folder}" in out
    order = sides.order(experiment.names, 2, 1)
    dead = synthetic.killed()
    dead.write(folder / order[2][1] / "run-dead")
    given(monkeypatch, Labs())
    code, out, err = cli("run", "ab.yaml", "--resume", folder, "-q")
    assert code == Exit.INCONCLUSIVE and err == "" and "set aside: run-dead: its runner had died" in out
    assert len(ran.warmed) == 2, "another lab, which is cold again"
    assert [(seed - 1, name) for name, seed, _ in ran if seed is not None] == order
    assert (folder / "_cut-off" / "run-dead" / "plan.json").is_file()
    data = json.loads((folder / "sides.json").read_text())
    assert data["cut_off"] == [{"run": "run-dead", "why": "its runner had died"}] and len(data["runs"]) == 4
    assert "run-dead" in Page((folder / "compare.html").read_text()).words
    # all are there: nothing is run, and it is compared again
    code, _, _ = cli("run", "ab.yaml", "--resume", folder, "-q")
    assert code == Exit.INCONCLUSIVE and len(ran) == 4


def test_a_run_that_a_signal_ended_is_made_again(cli: Cli, ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded()
    given(monkeypatch, Labs())
    cli("run", "ab.yaml", "--out", "r", "-q")
    (folder,) = Path("r").iterdir()
    data = json.loads((folder / "sides.json").read_text())
    data["runs"][1]["stopped"] = True
    (folder / "sides.json").write_text(json.dumps(data))
    _, out, _ = cli("run", "ab.yaml", "--resume", folder, "-q")
    assert len(ran) == 5 and ran[4][:2] == ran[1][:2] and "set aside: run-2: a signal had ended it" in out
    assert json.loads((folder / ran[1][0] / "series.json").read_text())["runs"][-1] == "run-5"
    data = json.loads((folder / "sides.json").read_text())
    data["runs"][-1]["stopped"] = True  # and once more
    (folder / "sides.json").write_text(json.dumps(data))
    assert cli("run", "ab.yaml", "--resume", folder, "-q")[0] == Exit.INCONCLUSIVE
    assert len(ran) == 6 and len(list((folder / "_cut-off").iterdir())) == 2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("times: 2", "times: 3"), "is of another plan: times 2, and 3 is asked for"),
        (("30s", "20s"), "is of another plan: side slow"),
        (
            ("    default: {}\n", ""),
            "is of another plan: sides default, slow, and slow, default is asked for",
        ),
        (("name: ab", "name: other"), "is of another plan: experiment ab, and other is asked for"),
    ],
)
def test_another_plan_is_no_continuation(
    cli: Cli, ran: Ran, monkeypatch: pytest.MonkeyPatch, change: tuple[str, str], says: str
) -> None:
    loaded()
    given(monkeypatch, Labs())
    cli("run", "ab.yaml", "--out", "r", "-q")
    (folder,) = Path("r").iterdir()
    text = FILE.replace(*change)
    loaded(text if "default" in text else text.replace("  times: 2", "    default: {}\n  times: 2"))
    code, _, err = cli("run", "ab.yaml", "--resume", folder, "-q")
    assert code == Exit.USAGE and says in err and len(ran) == 4
    loaded()
    assert "first seed 1, and 5" in cli("run", "ab.yaml", "--resume", folder, "--seed", "5", "-q")[2]
    with locked(folder / "sides.lock"):
        assert "are being made right now" in cli("run", "ab.yaml", "--resume", folder, "-q")[2]
    assert "r has no sides.json" in cli("run", "ab.yaml", "--resume", "r", "-q")[2]
    assert not Path("r/sides.lock").exists()


def test_a_lab_that_cannot_be_had_ends_it_with_what_there_is(
    cli: Cli, ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded()

    def fail(number: int) -> None:
        if number == 1:
            raise LabError("the lab did not come up")

    labs = given(monkeypatch, Labs(fail))
    code, out, err = cli("run", "ab.yaml", "--out", "r", "-q")
    assert code == Exit.ERROR and "the lab did not come up" in err and labs.closed == 1
    assert "has no run yet: nothing is compared" in out and "go on with" in out


def test_one_side_alone_is_an_ordinary_run(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    loaded()
    code, out, _ = cli("run", "ab.yaml", "--side", "slow", "--dry-run")
    assert code == 0 and "runs of each" not in out
    assert "has no side fast; choose among: default, slow" in cli("run", "ab.yaml", "--side", "fast")[2]
    assert "leave one of them out" in cli("run", "ab.yaml", "--side", "slow", "--resume", "r")[2]
    assert "--side makes one run" in cli("run", "ab.yaml", "--side", "slow", "--repeat", "3")[2]
    (tmp_path / "plain.yaml").write_text(FILE.partition("vary:")[0])
    for option in (("--side", "slow"), ("--resume", "r")):
        assert "is for one experiment with sides" in cli("run", "plain.yaml", *option)[2]
    for given_too in (("--repeat", "3"), ("--retry-inconclusive", "5m")):
        code, _, err = cli("run", "ab.yaml", *given_too)
        assert code == Exit.USAGE and f"{given_too[0]}: ab has sides" in err


def test_what_can_be_told_before_is_not_told_after_an_hour(cli: Cli) -> None:
    loaded(FILE.replace("times: 2", "tolerance: {read.p99: much}"))
    for command in ("validate", "plan", "run"):
        code, _, err = cli(command, "ab.yaml")
        assert code == Exit.USAGE and "ab.yaml:15:15: tolerance read.p99=much" in err, command


def test_the_plan_says_sides_order_and_time(cli: Cli) -> None:
    loaded()
    code, out, _ = cli("plan", "ab.yaml", "--seed", "3")
    assert code == 0 and "side slow: topology.settings.index.refresh_interval: not set → 30s" in out
    order = ", ".join(name for _, name in sides.order(("default", "slow"), 2, 3))
    assert f"2 runs of each of 2 sides, seeds 3 to 4, in one lab: {order}" in out and "4 runs take about" in out
    code, out, _ = cli("plan", "ab.yaml", "--json")
    data = json.loads(out)
    assert [each["name"] for each in data["sides"]] == ["default", "slow"] and data["times"] == 2
    assert "vary" not in data["experiment"]
    assert cli("validate", "ab.yaml")[1].startswith("ab.yaml: valid experiment ab with sides default, slow")


def test_where_sides_cannot_be_run_they_are_refused(cli: Cli) -> None:
    loaded()
    for arguments in (("compare", "ab.yaml", "ab.yaml"), ("gameday", "init", "x.yaml", "ab.yaml")):
        assert cli(*arguments)[0] == Exit.USAGE, arguments
    assert "ab.yaml:11:1: this experiment has sides" in cli("compare", "ab.yaml", "ab.yaml")[2]
    with pytest.raises(InvalidInput, match="this experiment has sides"):
        load_experiment("ab.yaml")
