"""``pytest -m chaos --chaos-on FILE``: what runs on a cluster that exists, what is skipped, and what is refused.

The cluster is as a test says, and runs end as a test says; what is between them is real.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from fakes import ROOT
from unit.run.test_reaching import TODAY, URL, target, there
from unit.test_pytest_plugin import finding

import chaos.commands.fis_lab
import chaos.commands.running_on
import chaos.run.execution  # noqa: F401 - what a run of pytest inside this one loads first, it forgets
from chaos.base.errors import Exit, LabError, Leftovers
from chaos.base.paths import STATE_VARIABLE
from chaos.run import leftovers, on_target
from chaos.run.options import RunResult
from chaos.targets.existing.compare import Row, Sign
from chaos.targets.existing.seen import Identity, Seen

pytest_plugins = ["pytester"]

OUT = "out: {for: 5s, do: {decommission: {zone: c, no_delay: true}}}"
CALM = "calm: {for: 5s}"
KILL = "dark: {for: 5s, inject: {node.kill: {target: node b-data}}}"
LACKING = "the file names no hosts"
ITEMS = 2


def experiment(name: str, phase: str = OUT, folder: str = "experiments", load: str = "10/s") -> str:
    """Written, as the arguments of pytest name it."""
    file = Path(folder) / f"{name}.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(
        f"apiVersion: opensearch-chaos/v1\nname: {name}\ntopology: {ROOT / 'topologies' / '3az-standby.yaml'}\n"
        f"load: {{write: {{rate: {load}, good: ok within 1s}}}}\n"
        f"phases: {{{phase}}}\nexpect: [{{acknowledged.lost: 0}}]\n"
    )
    return str(file)


def ended(code: Exit = Exit.PASS, *, stopped: bool = False) -> RunResult:
    outcome = "pass" if code is Exit.DIRTY else {Exit.PASS: "pass", Exit.ABORTED: "aborted"}[code]
    findings = {
        "outcome": outcome,
        "headline": "so",
        "summary": "so",
        "findings": [finding("acknowledged.lost")],
        "exit_code": int(code),
    }
    return RunResult(Path("reports/x"), findings, code is not Exit.DIRTY, stopped)  # type: ignore[arg-type]


@dataclass
class Cluster:
    """``ends``: how runs end, one after the other, and then well. ``ran``: experiment and options of each."""

    seen: Seen = field(default_factory=there)
    ends: list[RunResult | Exception] = field(default_factory=list)
    beside: list[Row] = field(default_factory=list)
    looks: int = 0
    ran: list[tuple[Any, Any]] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        return [experiment.name for experiment, _ in self.ran]


@pytest.fixture
def cluster(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cluster:
    made = Cluster()

    def look(*_: Any, **__: Any) -> Seen:
        made.looks += 1
        return made.seen

    def one(experiment: Any, options: Any, reporter: Any) -> RunResult:
        made.ran.append((experiment, options))
        end = made.ends[len(made.ran) - 1] if len(made.ran) <= len(made.ends) else ended()
        if isinstance(end, Exception):
            raise end
        return end

    monkeypatch.setattr("chaos.targets.existing.seen.seen_of", look)
    monkeypatch.setattr("chaos.definitions.existing.today", lambda: TODAY)
    monkeypatch.setattr("chaos.run.execution.run", one)
    monkeypatch.setattr(on_target, "refused_templates", lambda *_: [])
    monkeypatch.setattr(on_target, "refused_beside", lambda *_: made.beside)
    monkeypatch.setattr(leftovers, "refuse_leftovers", lambda: None)
    monkeypatch.setattr("chaos.pytest_plugin._pool", lambda config: pytest.fail("a lab was asked for"))
    monkeypatch.chdir(pytester.path)
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    target(pytester.path)
    return made


Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, cluster: Cluster) -> Run:
    def call(*arguments: str, marked: str = "chaos", on: str = "staging.yaml") -> pytest.RunResult:
        usual = ["-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-rA"]
        return pytester.runpytest_inprocess(*usual, *(["-m", marked] if marked else []), f"--chaos-on={on}", *arguments)

    return call


def said(outcome: pytest.RunResult) -> str:
    return outcome.stdout.str() + outcome.stderr.str()


def allow(old: str, new: str) -> None:
    file = Path("staging.yaml")
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


# ---- what runs ---------------------------------------------------------------------------------------------


def test_each_experiment_runs_once_in_order_on_the_cluster_s_own_nodes(run: Run, cluster: Cluster) -> None:
    files = [experiment("b"), experiment("a", CALM), experiment("c")]
    outcome = run(*files, "--chaos-seed=4", "--chaos-out=elsewhere", "--chaos-objective=write=2s")
    outcome.assert_outcomes(passed=3 * ITEMS)
    assert cluster.names == ["b", "a", "c"] and "3 of 3 experiments can run there" in said(outcome)
    loaded, options = cluster.ran[0]
    assert options.lab.kind == "existing" and options.lab.target.written.name == "staging"
    assert (options.seed, options.out) == (4, Path("elsewhere"))
    assert options.command == (
        "opensearch-chaos run experiments/b.yaml --seed 4 --objective write=2s --on staging.yaml"
    )
    assert loaded.topology.name == "3az-standby" and loaded.topology.version == "3.8.0"
    assert cluster.looks == 1 + 3  # one for all before the first, and one more before each


def test_all_that_are_collected_run_there_by_their_tags_too(run: Run, cluster: Cluster) -> None:
    for name in ("one", "two"):
        experiment(name)
    file = Path("experiments/two.yaml")
    file.write_text(file.read_text().replace("topology", "tags: [smoke]\ntopology"))
    run(marked="chaos and smoke").assert_outcomes(passed=ITEMS)
    assert cluster.names == ["two"]


def test_junit_has_what_was_skipped_and_why(run: Run, cluster: Cluster) -> None:
    experiment("can")
    experiment("cannot", KILL)
    outcome = run("--junitxml=junit.xml")
    outcome.assert_outcomes(passed=ITEMS, skipped=ITEMS)
    assert cluster.names == ["can"] and outcome.ret == 0
    assert "1 of 2 experiments can run there, the others are skipped" in said(outcome)
    why = f"cannot cannot run on staging: no provider: node.kill in phase dark: {LACKING}"
    assert why in said(outcome)
    found = [case.find("skipped") for case in ElementTree.parse("junit.xml").iter("testcase")]
    assert [each is not None and why in str(each.get("message")) for each in found] == [False] * 2 + [True] * 2


def test_what_the_experiment_needs_and_the_cluster_has_not_is_skipped(run: Run, cluster: Cluster) -> None:
    experiment("standby")
    file = Path(experiment("even", CALM))
    file.write_text(file.read_text().replace("3az-standby", "3az"))
    outcome = run()
    outcome.assert_outcomes(passed=ITEMS, skipped=ITEMS)
    assert "even cannot run on staging: weights: the experiment knows no standby" in said(outcome)


# ---- what is refused before anything is changed -----------------------------------------------------------------


def refused(outcome: pytest.RunResult, cluster: Cluster, *says: str) -> None:
    assert outcome.ret == pytest.ExitCode.USAGE_ERROR and cluster.ran == []
    for each in says:
        assert each in said(outcome), said(outcome)
    assert "Traceback" not in said(outcome) and "INTERNALERROR" not in said(outcome)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("rung: zone\nuntil: 2027-01-31", "rung: observe", "zone is needed, and the file allows observe"),
        ("rung: zone", "rung: node", "zone is needed, and the file allows node"),
        ("until: 2027-01-31", "until: 2026-11-24", "zone ended on 2026-11-24"),
        ("cluster_uuid: u", "cluster_uuid: v", "another cluster answers there"),
        ("notes: .opensearch-chaos\n", "", "the file names no index for notes"),
        ("requests: 100/s", "requests: 1/s", "requests per second: 10, and the file allows 1"),
        ("rung: zone", "rang: zone", "rang"),
        ("kind: existing", "kind: topology", "kind"),
    ],
)
def test_what_file_rung_and_identity_forbid_is_a_usage_error(
    run: Run, cluster: Cluster, old: str, new: str, says: str
) -> None:
    experiment("one")
    experiment("cannot", KILL)
    allow(old, new)
    refused(run(), cluster, says)


def test_a_file_that_is_not_there_is_a_usage_error(run: Run, cluster: Cluster) -> None:
    experiment("one")
    refused(run(on="nope.yaml"), cluster, "--chaos-on: ", "nope.yaml")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"status": "red"}, "the cluster, health: it is red"),
        ({"identities": {URL: Identity("other", "staging", "3.8.0")}}, "cluster_uuid is other"),
        ({"nodes": None, "unread": {"nodes": "GET /_nodes answered 403"}}, "answered 403"),
        ({"voting": ("c-cm", "a-cm")}, "no majority"),
    ],
)
def test_a_cluster_on_which_nothing_may_be_done_now_is_a_usage_error_and_told_once(
    run: Run, cluster: Cluster, change: dict[str, Any], says: str
) -> None:
    for name in ("one", "two"):
        experiment(name)
    experiment("cannot", KILL)
    cluster.seen = replace(cluster.seen, **change)
    outcome = run()
    refused(outcome, cluster, says, "no experiment may run on staging:")
    assert said(outcome).count(says) == 1


def test_what_forbids_one_of_them_forbids_all_and_names_it(run: Run, cluster: Cluster) -> None:
    experiment("one")
    experiment("much", load="500/s")
    refused(run(), cluster, "much may not run on staging:", "requests per second: 500, and the file allows 100")


def test_another_run_and_what_dead_ones_left_are_usage_errors(
    run: Run, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment("one")
    cluster.beside = [Row("another run", Sign.BLOCKS, "run r-1 of elsewhere is under way", "wait for its end")]
    refused(run(), cluster, "run r-1 of elsewhere is under way (wait for its end)")
    cluster.beside = []

    def left() -> None:
        raise Leftovers("2 leftovers are here", remedy="run: opensearch-chaos recover")

    monkeypatch.setattr(leftovers, "refuse_leftovers", left)
    refused(run(), cluster, "2 leftovers are here")


def test_where_none_can_run_there_it_is_no_pass(run: Run, cluster: Cluster) -> None:
    experiment("one", KILL)
    experiment("two", KILL)
    refused(
        run(),
        cluster,
        "none of the experiments that are selected (2) can run there",
        "one cannot run on staging: no provider",
        "two cannot run on staging: no provider",
    )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--chaos-lab=local"], "--chaos-lab: of labs"),
        (["--chaos-lab=docker", "--chaos-topology=3az"], "--chaos-lab and --chaos-topology: of labs"),
        (["--chaos-opensearch-home=/tmp"], "--chaos-opensearch-home: of labs"),
        (["--chaos-retry-inconclusive=5m"], "each experiment runs once"),
        (["-n", "2"], "without xdist"),
    ],
)
def test_options_that_mean_nothing_there_are_refused(run: Run, cluster: Cluster, options: list[str], says: str) -> None:
    experiment("one")
    refused(run(*options), cluster, says)
    assert cluster.looks == 0


@pytest.mark.parametrize("marked", ["", "not chaos", "smoke"])
def test_without_chaos_the_option_is_not_ignored(run: Run, cluster: Cluster, marked: str) -> None:
    experiment("one")
    refused(run(marked=marked), cluster, "--chaos-on: no experiment is asked for; add -m chaos")


def test_who_only_collects_sends_nothing(run: Run, cluster: Cluster) -> None:
    experiment("one")
    assert run("--collect-only").ret == 0 and cluster.looks == 0 and cluster.ran == []


def test_a_definition_that_is_wrong_is_said_as_ever_and_nothing_is_asked(run: Run, cluster: Cluster) -> None:
    experiment("one")
    Path(experiment("two")).write_text("apiVersion: opensearch-chaos/v1\nname: two\n")
    outcome = run()
    outcome.assert_outcomes(errors=1)
    assert cluster.looks == 0 and cluster.ran == []


# ---- tests in Python ---------------------------------------------------------------------------------------


PYTHON = "import pytest\npytestmark = pytest.mark.chaos\ndef test_lab(lab): pass\ndef test_load(load): pass\n"


def test_tests_in_python_are_skipped_with_the_reason(run: Run, cluster: Cluster, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_marked=PYTHON)
    experiment("one")
    outcome = run()
    outcome.assert_outcomes(passed=ITEMS, skipped=2)
    assert "--chaos-on: a test in Python decides as it goes what it breaks, so it runs on labs alone" in said(outcome)


def test_tests_in_python_alone_are_no_pass(run: Run, cluster: Cluster, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_marked=PYTHON)
    refused(run(), cluster, "no experiment is selected, and tests in Python run on labs alone")


# ---- what ends it ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "why", "first"),
    [
        (ended(Exit.ABORTED), "before it one ended aborted (reports/x)", {"passed": 1, "failed": 1}),
        (ended(Exit.DIRTY), "before it one ended dirty (reports/x)", {"passed": 1, "failed": 1}),
        (LabError("no longer"), "before it one could not be carried out: no longer", {"errors": 2}),
    ],
)
def test_after_a_run_that_did_not_end_in_order_no_other_begins_and_each_says_why(
    run: Run, cluster: Cluster, end: RunResult | Exception, why: str, first: dict[str, int]
) -> None:
    for name in ("one", "two", "three"):
        experiment(name)
    cluster.ends = [end]
    outcome = run("experiments/one.yaml", "experiments/two.yaml", "experiments/three.yaml", "--junitxml=junit.xml")
    outcome.assert_outcomes(**first | {"errors": first.get("errors", 0) + 2 * ITEMS})
    assert cluster.names == ["one"] and outcome.ret == pytest.ExitCode.TESTS_FAILED
    errors = [str(each.get("message")) for each in ElementTree.parse("junit.xml").iter("error")]
    assert sum(f"two is not run: {why}" in each for each in errors) == ITEMS
    assert sum(f"three is not run: {why}" in each for each in errors) == ITEMS


def test_a_weakness_ends_nothing(run: Run, cluster: Cluster) -> None:
    weak = ended()
    weak.findings |= {"outcome": "weakness", "exit_code": 1, "findings": [finding("acknowledged.lost", "weakness")]}
    for name in ("one", "two"):
        experiment(name)
    cluster.ends = [weak]
    run().assert_outcomes(failed=1, passed=3)
    assert cluster.names == ["one", "two"]


def test_a_signal_ends_the_session(run: Run, cluster: Cluster) -> None:
    for name in ("one", "two"):
        experiment(name)
    cluster.ends = [ended(Exit.ABORTED, stopped=True)]
    outcome = run()
    assert cluster.names == ["one"] and outcome.ret == pytest.ExitCode.INTERRUPTED


def test_what_forbids_it_by_then_is_an_error_and_ends_the_session(
    run: Run, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two", "three"):
        experiment(name)

    def turns_yellow(experiment: Any, options: Any, reporter: Any) -> RunResult:
        cluster.ran.append((experiment, options))
        cluster.seen = replace(cluster.seen, status="yellow")
        return ended()

    monkeypatch.setattr("chaos.run.execution.run", turns_yellow)
    outcome = run("experiments/one.yaml", "experiments/two.yaml", "experiments/three.yaml")
    outcome.assert_outcomes(passed=ITEMS, errors=2 * ITEMS)
    assert cluster.names == ["one"] and "two may not run on staging:" in said(outcome)
    assert "three is not run: before it two could not be carried out" in said(outcome)


# ---- AWS FIS ---------------------------------------------------------------------------------------------


@pytest.fixture
def stood(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What became of the stand-in for AWS FIS, whose target is staging.yaml."""
    what: list[str] = []

    @contextmanager
    def fis_lab() -> Iterator[Path]:
        what.append("begun")
        yield Path("staging.yaml")
        what.append("ended")

    monkeypatch.setattr("chaos.commands.fis_lab.fis_lab", fis_lab)
    return what


def tagged(name: str, tag: str) -> str:
    file = experiment(name)
    Path(file).write_text(Path(file).read_text().replace("topology", f"tags: [{tag}]\ntopology"))
    return file


def plainly(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:hypothesispytest", *arguments)


def test_experiments_by_fis_run_on_what_passes_for_it(
    pytester: pytest.Pytester, cluster: Cluster, stood: list[str]
) -> None:
    tagged("by-fis", "fis")
    tagged("other", "smoke")
    outcome = plainly(pytester, "-m", "chaos and fis")
    outcome.assert_outcomes(passed=ITEMS)
    assert cluster.names == ["by-fis"] and stood == ["begun", "ended"]
    assert cluster.ran[0][1].lab.kind == "existing" and "nothing about AWS" in said(outcome)


def test_experiments_by_fis_are_left_out_where_nobody_names_them_and_begin_nothing_where_none_runs(
    pytester: pytest.Pytester, cluster: Cluster, stood: list[str]
) -> None:
    tagged("by-fis", "fis")
    assert plainly(pytester, "-m", "chaos").ret == pytest.ExitCode.NO_TESTS_COLLECTED
    assert plainly(pytester, "-m", "chaos", "--chaos-on=staging.yaml").ret != 0
    assert plainly(pytester, "-m", "chaos and fis", "--collect-only").ret == 0
    assert cluster.names == [] and stood == []


@pytest.mark.parametrize(
    ("marked", "arguments", "says"),
    [
        ("chaos and (fis or smoke)", [], "other by a stand-in for AWS FIS"),
        ("chaos and fis", ["--chaos-lab=local"], "--chaos-lab"),
        ("chaos and fis", ["--chaos-retry-inconclusive=1m"], "--chaos-retry-inconclusive"),
    ],
)
def test_what_cannot_be_had_of_the_stand_in_is_refused(
    pytester: pytest.Pytester, cluster: Cluster, stood: list[str], marked: str, arguments: list[str], says: str
) -> None:
    tagged("by-fis", "fis")
    tagged("other", "smoke")
    outcome = plainly(pytester, "-m", marked, *arguments)
    assert outcome.ret == pytest.ExitCode.USAGE_ERROR and says in said(outcome)
    assert cluster.names == [] and stood == []


def test_a_stand_in_that_does_not_start_is_told(
    pytester: pytest.Pytester, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def none() -> Iterator[Path]:
        raise LabError("the lab did not start")
        yield Path()

    monkeypatch.setattr("chaos.commands.fis_lab.fis_lab", none)
    tagged("by-fis", "fis")
    outcome = plainly(pytester, "-m", "chaos and fis")
    assert outcome.ret == pytest.ExitCode.USAGE_ERROR and "the lab did not start" in said(outcome)
