"""The commands over several runs: what they make, print, write and refuse, on made-up runs and without a lab."""

from __future__ import annotations

import json
import re
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import synthetic
from fakes import ROOT
from pages import Page

from chaos import cli as module
from chaos.base.errors import Dirty, Exit, LabError
from chaos.campaign import repeat as making
from chaos.report import render
from chaos.run.options import RunResult
from chaos.run.stopping import Stop
from chaos.statistics import store
from chaos.targets.labs import network
from chaos.targets.labs.local import LocalLab

EXPERIMENT = ROOT / "experiments" / "data-node-kill.yaml"
Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Cli:
    monkeypatch.setenv("OPENSEARCH_CHAOS_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(network, "namespaces", lambda prefix="": [])
    monkeypatch.setattr(network, "require_root", lambda: None)

    def call(*arguments: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["opensearch-chaos", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            module.main()
        out, err = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, out, err

    return call


def story(number: int, name: str = "slow_zone", late: float = 0.0) -> synthetic.Story:
    """A run of a series: seeds differ, the plan does not."""
    made = synthetic.STORIES[name]()
    made.seed = 7 + number
    if late:
        made.chapters[1].read = synthetic.healthy(late=late)
    return made


def series(folder: Path, runs: int, name: str = "slow_zone", late: float = 0.0, planned: int | None = None) -> Path:
    folder.mkdir(parents=True)
    names = [f"r{i}" for i in range(runs)]
    for number, each in enumerate(names):
        render(story(number, name, late).write(folder / each).parent / each)
    store.write_series(folder, {"planned_runs": planned or runs, "runs": names})
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two series alike, one whose reads are worse, and single runs of every story."""
    root = tmp_path_factory.mktemp("made")
    found = {
        "a": series(root / "a", 5),
        "b": series(root / "b", 5),
        "worse": series(root / "worse", 5, late=0.05),
    }
    for name in synthetic.STORIES:
        folder = story(0, name).write(root / "single" / name)
        render(folder)
        found[name] = folder
    return found


def checked(page: Path) -> Page:
    """A page that is balanced, self-contained, without scripts, with a table for every figure."""
    html = page.read_text()
    parsed = Page(html)
    assert parsed.open == []
    names = {name for name, _ in parsed.tags}
    assert not names & {"script", "img", "iframe", "object", "embed", "base", "form"}
    for tag, attributes in parsed.tags:
        assert not any(name.startswith("on") for name in attributes)
        if tag == "link":
            assert attributes["href"] == "data:,"
        elif "href" in attributes:
            assert re.fullmatch(r"[\w./%~-]+report\.html", attributes["href"] or ""), attributes
    style = html.split("<style>")[1].split("</style>")[0]
    assert "url(" not in style and "@import" not in style and "prefers-color-scheme" in style
    ids = [attributes["id"] for _, attributes in parsed.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for tag, attributes in parsed.tags:
        if tag == "svg" and attributes.get("role") == "img":
            assert set((attributes["aria-labelledby"] or "").split()) <= set(ids)
    assert sum(tag == "table" for tag, _ in parsed.tags) >= 1
    return parsed


# ---- compare -----------------------------------------------------------------------------------------------


def test_two_series_alike_are_no_worse(cli: Cli, made: dict[str, Path], tmp_path: Path) -> None:
    page = tmp_path / "compare.html"
    code, out, err = cli("compare", made["a"], made["b"], "-o", page)
    assert (code, err) == (0, "") and "B is no worse than A" in out and "PASS" in out
    words = checked(page).words
    assert "no worse than tolerated" in words and "in tolerances" in words


def test_a_worse_one_fails_by_name_also_against_a_baseline(cli: Cli, made: dict[str, Path], tmp_path: Path) -> None:
    file = tmp_path / "baselines" / "a.json"
    code, out, _ = cli("baseline", made["a"], "-o", file)
    assert code == 0 and "5 of 5 runs" in out and file.stat().st_size < 40_000
    code, out, _ = cli("compare", file, made["worse"], "-o", tmp_path / "c.json")
    assert code == Exit.WEAKNESS and "B is worse than A in" in out and "read.good@slow" in out
    assert json.loads((tmp_path / "c.json").read_text())["outcome"] == "fail"
    assert cli("compare", file, made["worse"], "--tolerance", "read.good=20%", "--tolerance", "outage=1m")[0] == 0


def test_single_runs_can_be_compared_but_conclude_nothing(cli: Cli, made: dict[str, Path]) -> None:
    code, out, _ = cli("compare", made["slow_zone"], made["slow_zone"])
    assert code == Exit.INCONCLUSIVE and "have no 95 % interval" in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["a", "black_hole"], "cannot be compared: the phases differ"),
        (["a", "nowhere"], "nowhere is no run"),
        (["a", EXPERIMENT], "an experiment is compared with an experiment"),
        (["a", "b", "--repeat", "3"], "--repeat and --seed are for experiments"),
        (["a", "b", "--tolerance", "read.good"], "--tolerance read.good"),
        (["a", "b", "--metric", "read.god"], "neither side has the metric"),
        (["a", "b", "-o", "x.pdf"], "ends in .html or .json"),
        ([EXPERIMENT, ROOT / "experiments" / "zone-black-hole.yaml"], "cannot be compared"),
    ],
)
def test_what_is_wrong_with_a_comparison_is_one_line(
    cli: Cli, made: dict[str, Path], arguments: list[Any], says: str
) -> None:
    code, _, err = cli("compare", *(made.get(each, each) if isinstance(each, str) else each for each in arguments))
    assert code == 2 and says in err and err.count("\n") == 1 and "Traceback" not in err


def test_a_baseline_needs_a_run_that_counts(cli: Cli, made: dict[str, Path], tmp_path: Path) -> None:
    code, _, err = cli("baseline", made["unproven"], "-o", tmp_path / "b.json")
    assert code == 2 and "no run of unproven counts" in err.replace(str(made["unproven"]), "unproven")
    assert not (tmp_path / "b.json").exists()


# ---- judge -------------------------------------------------------------------------------------------------

NEW = """\
apiVersion: opensearch-chaos/v1
name: stricter
topology: 3az-standby
load:
  read:  {rate: 50/s, good: ok within 60ms}
  write: {rate: 100/s, good: ok within 100ms}
phases:
  healthy:  {for: 30s}
  slow:     {for: 40s}
  nowhere:  {for: 10s}
expect:
  - {phase: healthy, read.good: ">= 99.9%"}
  - {phase: slow, write.good: ">= 99%"}
  - {phase: nowhere, read.good: ">= 50%"}
  - {acknowledged.lost: 0}
"""


def test_an_old_history_is_judged_by_new_expectations(cli: Cli, made: dict[str, Path], tmp_path: Path) -> None:
    file = tmp_path / "new.yaml"
    file.write_text(NEW)
    run = made["slow_zone"]
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    code, out, err = cli("judge", run, "--experiment", file, "-o", tmp_path / "f.json")
    assert code == Exit.WEAKNESS and err == ""
    assert "note: read.good >= 50% in nowhere cannot be judged: the run has no phase nowhere" in out
    assert "note: good reads are now within 60 ms, not 100 ms" in out
    assert "note: reads ran at 100/s, not at 50/s" in out and "note: phase slow ran as the run planned it" in out
    found = {item["id"]: item for item in json.loads((tmp_path / "f.json").read_text())["findings"]}
    assert found["write.good@slow"]["verdict"] == "fail" and found["acknowledged.lost"]["verdict"] == "pass"
    assert found["read.good@healthy"]["verdict"] == "pass"
    assert found["read.good@nowhere"]["verdict"] == "inconclusive"
    assert before == {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert cli("judge", run, "--experiment", file, "-o", tmp_path / "r.html")[0] == Exit.WEAKNESS
    assert "write.good" in Page((tmp_path / "r.html").read_text()).words


def test_a_runs_own_findings_are_replaced_only_when_asked(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "new.yaml"
    file.write_text(NEW)
    run = story(0).write(tmp_path / "run")
    render(run)
    own = (run / "findings.json").read_bytes()
    code, _, err = cli("judge", run, "--experiment", file, "-o", run / "findings.json")
    assert code == 2 and "is the run's own" in err and (run / "findings.json").read_bytes() == own
    code, _, err = cli("judge", run, "--experiment", file, "-o", run / "plan.json", "--overwrite")
    assert code == 2 and "is a record of the run" in err
    assert cli("judge", run, "--experiment", file, "-o", run / "findings.json", "--overwrite")[0] == Exit.WEAKNESS
    assert json.loads((run / "findings.json").read_text())["judged_by"] == "stricter"


@pytest.mark.parametrize("content", [None, "{", "[]", "{}", '{"experiment": 3}'])
def test_a_folder_that_is_no_run_is_one_line(cli: Cli, tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "new.yaml"
    file.write_text(NEW)
    folder = tmp_path / "run"
    folder.mkdir()
    if content is not None:
        (folder / "plan.json").write_text(content)
    code, _, err = cli("judge", folder, "--experiment", file)
    assert "Traceback" not in err and ((code == 2 and err.count("\n") == 1) or content == "{}")
    if content != "{}":
        assert cli("suite", folder, "-o", tmp_path / "s.html")[0] == 2


# ---- pages over many runs ------------------------------------------------------------------------------------


def test_the_suite_page_shows_every_run_and_escapes_all(cli: Cli, made: dict[str, Path], tmp_path: Path) -> None:
    page = tmp_path / "deep" / "suite.html"
    code, out, _ = cli("suite", made["slow_zone"].parent, made["a"], "-o", page)
    assert code == Exit.DIRTY and "13 runs" in out  # lost_writes left something behind
    parsed = checked(page)
    assert "zone-black-hole" in parsed.words and "primary-loss" in parsed.words and "dirty" in parsed.words
    assert "<script>" in parsed.words  # as text
    links = [attributes["href"] for tag, attributes in parsed.tags if tag == "a"]
    assert len(links) == 13 and all((page.parent / str(link)).resolve().is_file() for link in links)
    assert "3.8.0" in parsed.words and "Nines" in parsed.words and "≥" in parsed.words + "≥"


def test_the_trend_page_is_in_the_order_of_time(cli: Cli, made: dict[str, Path], tmp_path: Path) -> None:
    page = tmp_path / "trend.html"
    code, _, err = cli("trend", made["a"], made["worse"], made["hostile"], made["killed"], "-o", page)
    assert (code, err) == (0, "")
    words = checked(page).words
    assert "zone-network-slowdown on 3az-standby" in words and "The runner died" in words
    assert "Outage-equivalent time, reads" in words and "Longest time to regain the objective" in words


def test_pages_go_to_html_files_only(cli: Cli, made: dict[str, Path], tmp_path: Path) -> None:
    for command in ("suite", "trend"):
        code, _, err = cli(command, made["slow_zone"], "-o", tmp_path / "x.txt")
        assert code == 2 and "ends in .html" in err
        code, _, err = cli(command, tmp_path, "-o", tmp_path / "x.html")
        assert code == 2 and "holds none" in err


# ---- export --------------------------------------------------------------------------------------------------


def test_export_hands_the_run_to_the_exporter(
    cli: Cli, made: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []
    stand_in = types.ModuleType("chaos.checks.data.export")
    stand_in.export = lambda run, out, format: given.append((run, out, format))  # type: ignore[attr-defined]
    package = types.ModuleType("chaos.checks.data")
    package.export = stand_in  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "chaos.checks.data", package)
    monkeypatch.setitem(sys.modules, "chaos.checks.data.export", stand_in)
    code, out, _ = cli("export", made["slow_zone"], "--format", "elle", "-o", tmp_path / "h.json")
    assert code == 0 and given == [(made["slow_zone"], tmp_path / "h.json", "elle")] and "written (elle)" in out
    assert cli("export", tmp_path, "-o", tmp_path / "h.json")[0] == 2


# ---- making runs ---------------------------------------------------------------------------------------------


class Lab(str):
    """A lab by its name alone."""

    kind = "docker"


class Labs:
    """Gives numbers instead of labs; ``fails`` at the n-th."""

    def __init__(self, fails: int | None = None, dirt: str | None = None) -> None:
        self.given: list[str] = []
        self.closed, self.fails, self.dirt = False, fails, dirt

    def parts(self, topology: Any) -> str:
        return topology.name

    def get(self, topology: Any, *, parts: Any = None, check: Callable[[], None] = lambda: None) -> Any:
        check()
        if self.fails == len(self.given):
            raise LabError("the lab did not come up")
        self.given.append(topology.name)
        return Lab(f"lab {len(self.given)}")

    def close(self) -> None:
        self.closed = True
        if self.dirt:
            raise Dirty(self.dirt)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int | None, Any]]:
    """Runs that are written instead of made: (experiment, seed, lab) of each."""
    seen: list[tuple[str, int | None, Any]] = []

    def one(experiment: Any, options: Any, reporter: Any) -> RunResult:
        seen.append((experiment.name, options.seed, options.lab))
        made = story(len(seen))
        folder = made.write(options.out / f"run-{len(seen)}")
        render(folder)
        findings = json.loads((folder / "findings.json").read_text())
        return RunResult(folder, findings, True)

    monkeypatch.setattr("chaos.run.execution.run", one)
    monkeypatch.setattr("chaos.run.execution.refuse_lacking", lambda *_, **__: None)
    return seen


def test_repeat_fixes_r_makes_the_runs_and_judges_them_together(
    cli: Cli, ran: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    labs = Labs()
    monkeypatch.setattr("chaos.run.pool.LabPool", lambda *_, **__: labs)
    code, out, err = cli("run", EXPERIMENT, "--repeat", "5", "--seed", "10", "--out", tmp_path / "r", "-q")
    assert code == 0, out + err
    assert [seed for _, seed, _ in ran] == [10, 11, 12, 13, 14] and labs.closed
    (folder,) = (tmp_path / "r").iterdir()
    assert re.fullmatch(r"\d{8}T\d{6}Z-data-node-kill-series-[0-9a-f]{4}", folder.name)
    planned = json.loads((folder / "series.json").read_text())
    assert planned["planned_runs"] == 5 and planned["runs"] == [f"run-{i}" for i in range(1, 6)]
    assert "PASS  Every expectation is met with 95 % confidence. 5 runs, 5 of them count" in out
    assert json.loads((folder / "verdict.json").read_text())["outcome"] == "pass"
    words = checked(folder / "series.html").words
    assert "Expectations over all runs that count" in words and "read.good >= 99.9% in healthy" in words


def test_a_series_that_ends_early_says_so_and_gives_the_lab_back(
    cli: Cli, ran: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    labs = Labs(fails=2)
    monkeypatch.setattr("chaos.run.pool.LabPool", lambda *_, **__: labs)
    code, out, err = cli("run", EXPERIMENT, "--repeat", "5", "--out", tmp_path / "r", "-q")
    assert code == Exit.ERROR and "the lab did not come up" in err and labs.closed
    assert "2 runs of 5 planned" in out
    labs = Labs(dirt="lab r1 could not be taken away: a namespace")
    monkeypatch.setattr("chaos.run.pool.LabPool", lambda *_, **__: labs)
    code, _, err = cli("run", EXPERIMENT, "--repeat", "1", "--out", tmp_path / "r", "-q")
    assert code == Exit.DIRTY and "opensearch-chaos recover" in err


def test_a_signal_between_runs_ends_the_series(
    cli: Cli, ran: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Impatient(Labs):
        def get(self, *arguments: Any, **named: Any) -> Any:
            if len(self.given) == 1:
                stops[0].ask("stopped by SIGINT")
            return super().get(*arguments, **named)

    stops: list[Stop] = []

    def stop() -> Stop:
        stops.append(Stop())
        return stops[-1]

    monkeypatch.setattr(making, "Stop", stop)
    labs = Impatient()
    monkeypatch.setattr("chaos.run.pool.LabPool", lambda *_, **__: labs)
    code, out, _ = cli("run", EXPERIMENT, EXPERIMENT, "--repeat", "3", "--out", tmp_path / "r", "-q")
    assert code == Exit.ABORTED and len(ran) == 1 and labs.closed and "1 run of 3 planned" in out


def test_two_experiments_are_run_in_turn_with_the_same_seeds(
    cli: Cli, ran: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    labs = Labs()
    monkeypatch.setattr("chaos.run.pool.LabPool", lambda *_, **__: labs)
    other = tmp_path / "other.yaml"
    other.write_text(EXPERIMENT.read_text().replace("name: data-node-kill", "name: other"))
    code, out, err = cli("compare", EXPERIMENT, other, "--repeat", "4", "--seed", "3", "--out", tmp_path / "r", "-q")
    assert err == "" and [name for name, _, _ in ran] == ["data-node-kill", "other"] * 4
    assert [seed for _, seed, _ in ran] == [3, 3, 4, 4, 5, 5, 6, 6]
    assert code == 0 and "B is no worse than A" in out
    (page,) = (tmp_path / "r").rglob("compare.html")
    checked(page)
    assert not any(issue in out for issue in ("Traceback", "differs: hash: null"))


def test_a_run_without_root_is_refused_before_a_folder_is_made(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from chaos.base.errors import MissingPrerequisite

    def refuse() -> None:
        raise MissingPrerequisite("this needs root")

    monkeypatch.setattr(network, "require_root", refuse)
    monkeypatch.setattr("chaos.run.execution.refuse_lacking", lambda *_, **__: None)
    for arguments in (["run", EXPERIMENT], ["compare", EXPERIMENT, EXPERIMENT]):
        assert cli(*arguments, "--repeat", "5", "--out", tmp_path / "r")[0] == 2
    assert not (tmp_path / "r").exists()


# ---- the pool ------------------------------------------------------------------------------------------------


def test_a_lab_of_the_users_is_neither_made_anew_nor_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    from chaos.base.errors import InvalidInput
    from chaos.run import pool

    given = types.SimpleNamespace(id="play", manifest=types.SimpleNamespace(parts="its parts"))
    found: list[list[str]] = [["red"], [], ["node a-data is stopped"]]
    monkeypatch.setattr(pool, "problems", lambda lab: found.pop(0))
    labs = pool.LabPool(lambda _: None, given=given)  # type: ignore[arg-type]
    spec: Any = None
    assert labs.parts(spec) == "its parts"
    with pytest.raises(InvalidInput, match="is not as its topology says: red"):
        labs.get(spec)
    assert labs.get(spec) is given
    with pytest.raises(LabError, match="a-data is stopped"):  # a run has left that: nobody's wrong input
        labs.get(spec)
    labs.close()


def test_a_lab_is_used_again_only_while_it_proves_clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from fakes import PARTS, topology

    monkeypatch.setenv("OPENSEARCH_CHAOS_STATE", str(tmp_path))

    from chaos.run import pool

    found: list[list[str]] = [[], ["node a-data is stopped"], []]
    up: list[str] = []

    class Lab:
        def __init__(self, id: str) -> None:
            self.id = id

        def up(self, *_: Any) -> None:
            up.append(self.id)

        def down(self) -> list[str]:
            up.remove(self.id)
            return []

    made = iter(["r1", "r2", "r3"])
    monkeypatch.setattr(network, "require_root", lambda: None)
    monkeypatch.setattr(pool, "refuse_leftovers", lambda: None)
    monkeypatch.setattr(pool.traces, "of", lambda id: [])
    monkeypatch.setattr(pool, "problems", lambda lab: found.pop(0))
    monkeypatch.setattr(pool, "upgraded", lambda lab: [])
    monkeypatch.setattr(LocalLab, "create", classmethod(lambda *_, **__: Lab(next(made))))
    says: list[str] = []
    labs = pool.LabPool(says.append)
    spec = topology("3az")
    assert labs.get(spec, parts=PARTS).id == "r1" and labs.get(spec, parts=PARTS).id == "r1"
    assert labs.get(spec, parts=PARTS).id == "r2" and says == ["new lab, because node a-data is stopped"]
    assert labs.get(topology("3az-standby"), parts=PARTS).id == "r3" and up == ["r3"]
    labs.close()
    assert up == []


def test_a_lab_that_cannot_be_taken_away_is_dirt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from chaos.run import pool

    monkeypatch.setenv("OPENSEARCH_CHAOS_STATE", str(tmp_path))
    monkeypatch.setattr(pool.traces, "of", lambda id: ["a namespace"])
    labs = pool.LabPool(lambda _: None)
    labs._lab = types.SimpleNamespace(id="r1", down=lambda: ["a process"])  # type: ignore[assignment]
    with pytest.raises(Dirty, match="lab r1 could not be taken away: a process; a namespace is still here") as raised:
        labs.close()
    assert raised.value.exit_code is Exit.DIRTY and "recover" in str(raised.value)


def test_a_series_that_was_killed_is_judged_from_its_folder(cli: Cli, tmp_path: Path) -> None:
    """The last run died with its runner: it is in no list, and is counted all the same."""
    folder = series(tmp_path / "s", 2, planned=5)
    story(3, "killed").write(folder / "r9")
    code, out, _ = cli("report", folder)
    assert code == Exit.ERROR and "3 runs of 5 planned, 2 of them count" in out
    assert "left out: r9: The runner died in the phase slow" in out and (folder / "r9" / "report.html").is_file()
    assert json.loads((folder / "verdict.json").read_text())["runs"][2]["counts"] is False
