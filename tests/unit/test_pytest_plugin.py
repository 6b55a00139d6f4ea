"""The pytest plugin, in pytest runs of its own: what is collected when, and what each verdict becomes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from apart import some
from fakes import ROOT
from unit.report import test_first_screen

import chaos.run.execution  # noqa: F401 - what a run of pytest inside this one loads first, it forgets
from chaos import pytest_plugin as plugin
from chaos.base.errors import Leftovers
from chaos.definitions import crosschecks
from chaos.registry import load_experiment
from chaos.run import space
from chaos.run.options import RunResult
from chaos.targets.labs.local import LocalLab

pytest_plugins = ["pytester"]

EXPERIMENT = """\
apiVersion: opensearch-chaos/v1
name: {name}
tags: [{tags}]
topology: {topology}
load:
  read:  {{rate: 100/s, good: ok within 100ms}}
  write: {{rate: 100/s, good: ok within 100ms}}
phases:
  healthy: {{for: 5s}}
  dark:    {{for: 5s, inject: {{node.kill: {{target: node b-data}}}}}}
expect:
  - {{phase: all, read.good: ">= 99.9%"}}
  - {{phase: dark, write.good: "< 10%", known_weakness: issue 1}}
  - {{acknowledged.lost: 0}}
"""
ITEMS = (
    "read.good >= 99.9% in healthy",
    "read.good >= 99.9% in dark",
    "write.good < 10% in dark",
    "acknowledged.lost = 0",
    "the run itself is valid and clean",
)
IDS = ("read.good@healthy", "read.good@dark", "write.good@dark", "acknowledged.lost")
Run = Callable[..., pytest.RunResult]


def experiment(folder: Path, name: str, tags: str = "smoke", topology: str = "3az") -> None:
    (folder / "experiments").mkdir(exist_ok=True)
    text = EXPERIMENT.format(name=name, tags=tags, topology=ROOT / "topologies" / f"{topology}.yaml")
    (folder / "experiments" / f"{name}.yaml").write_text(text)


def finding(id: str, counts_as: str = "pass", **more: Any) -> dict[str, Any]:
    return {
        "id": id,
        "title": f"title of {id}",
        "counts_as": counts_as,
        "measured_text": "12 %",
        "known_weakness": "issue 1",
        "says": "because",
        **more,
    }


def result(outcome: str = "pass", clean: bool = True, stopped: bool = False, **counts_as: str) -> RunResult:
    """Findings of EXPERIMENT; ``counts_as``: by the finding's metric, dots as underscores."""
    found = [finding(id, counts_as.pop(id.replace(".", "_").replace("@", "_"), "pass")) for id in IDS]
    found += [finding(id, how) for id, how in counts_as.items()]
    findings = {"outcome": outcome, "headline": "so", "summary": "so", "findings": found}
    return RunResult(Path("reports/x"), findings, clean, stopped)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The experiments that were run; each passes, unless a test says otherwise."""
    names: list[str] = []

    def run(config: pytest.Config, experiment: Any) -> RunResult:
        names.append(experiment.name)
        return result()

    monkeypatch.setattr(plugin, "_run", run)
    return names


@pytest.fixture
def run(pytester: pytest.Pytester, ran: list[str]) -> Run:
    pytester.makepyfile(test_plain="def test_plain(): pass")

    def call(*arguments: str) -> pytest.RunResult:
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:hypothesispytest", *arguments)

    return call


def nodes(outcome: pytest.RunResult) -> list[str]:
    return [line for line in outcome.outlines if ".yaml::" in line]


# ---- what is collected -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments", [[], ["-m", "not chaos"], ["-m", "not slow"], ["experiments"], ["-m", "smoke"], ["-k", "chaos"]]
)
def test_experiments_are_left_alone_unless_chaos_is_asked_for(
    run: Run, pytester: pytest.Pytester, ran: list[str], arguments: list[str]
) -> None:
    experiment(pytester.path, "one")
    outcome = run(*arguments, "--collect-only", "-q")
    assert nodes(outcome) == [] and ran == []


def test_each_expectation_in_each_phase_is_an_item_and_so_is_the_run(run: Run, pytester: pytest.Pytester) -> None:
    experiment(pytester.path, "one")
    outcome = run("-m", "chaos", "--collect-only", "-q")
    assert nodes(outcome) == [f"experiments/one.yaml::{item}" for item in ITEMS]


@pytest.mark.parametrize(
    ("expression", "collected"),
    [
        ("chaos", {"one", "two"}),
        ("chaos and smoke", {"one"}),
        ("chaos and not smoke", {"two"}),
        ("chaos and zone", {"two"}),
        ("chaos and (smoke or zone)", {"one", "two"}),
        ("smoke or chaos", {"one", "two"}),
        ("chaos and control", {"planted"}),
        ("chaos and control and zone", {"planted"}),
        ("chaos and nothing", set()),
    ],
)
def test_tags_select_and_controls_only_when_they_are_named(
    run: Run, pytester: pytest.Pytester, ran: list[str], expression: str, collected: set[str]
) -> None:
    experiment(pytester.path, "one", "smoke")
    experiment(pytester.path, "two", "zone")
    experiment(pytester.path, "planted", "control, zone")
    outcome = run("-m", expression)
    assert set(ran) == collected
    assert outcome.parseoutcomes().get("passed", 0) == len(ITEMS) * len(collected)


@pytest.mark.parametrize("key", ["vary", '"vary"'])
def test_an_experiment_with_sides_is_not_collected_and_that_is_said(
    run: Run, pytester: pytest.Pytester, ran: list[str], key: str
) -> None:
    experiment(pytester.path, "one")
    experiment(pytester.path, "two")
    sides = pytester.path / "experiments" / "two.yaml"
    sides.write_text(sides.read_text() + f"{key}: {{sides: {{a: {{}}, b: {{load: {{documents: 5}}}}}}}}\n")
    outcome = run("-m", "chaos")
    printed = outcome.stdout.str()
    assert ran == ["one"] and "not collected" in printed and "two.yaml: it has sides" in printed
    outcome = run("-m", "chaos", str(sides))
    assert outcome.ret == pytest.ExitCode.INTERRUPTED and "opensearch-chaos run" in outcome.stdout.str()


def test_an_experiment_runs_once_for_all_its_items_and_only_when_one_is_selected(
    run: Run, pytester: pytest.Pytester, ran: list[str]
) -> None:
    experiment(pytester.path, "one")
    experiment(pytester.path, "two")
    run("-m", "chaos", "-k", "two and lost")
    assert ran == ["two"]


def test_experiments_of_one_topology_run_one_after_the_other(
    run: Run, pytester: pytest.Pytester, ran: list[str]
) -> None:
    for name, topology in {"a": "3az", "b": "2az", "c": "3az", "d": "2az"}.items():
        experiment(pytester.path, name, topology=topology)
    run("-m", "chaos")
    assert ran == ["a", "c", "b", "d"]


def test_python_tests_marked_chaos_are_left_out_of_a_plain_run(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_marked="import pytest\n@pytest.mark.chaos\ndef test_marked(): pass\n")
    run().assert_outcomes(passed=1, deselected=1)
    run("-m", "chaos").assert_outcomes(passed=1, deselected=1)


def test_other_yaml_is_nobody_s_experiment(run: Run, pytester: pytest.Pytester) -> None:
    experiment(pytester.path, "one")
    (pytester.path / "experiments" / "compose.yaml").write_text("services: {}\n")
    (pytester.path / "experiments" / "3az.yaml").write_text((ROOT / "topologies" / "3az.yaml").read_text())
    (pytester.path / "experiments" / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    outcome = run("-m", "chaos", "--collect-only", "-q")
    assert outcome.ret == 0 and {line.partition("::")[0] for line in nodes(outcome)} == {"experiments/one.yaml"}


@pytest.mark.parametrize("line", ["kind: experiment  # of ours", 'kind: "experiment"', "'kind': experiment"])
def test_an_experiment_may_say_its_kind_in_every_way_of_yaml(run: Run, pytester: pytest.Pytester, line: str) -> None:
    experiment(pytester.path, "one")
    file = pytester.path / "experiments" / "one.yaml"
    file.write_text(f"{line}\n{file.read_text()}")
    assert len(nodes(run("-m", "chaos", "--collect-only", "-q"))) == len(ITEMS)


@pytest.mark.parametrize("line", ["kind: campaign  # of ours", 'kind: "gameday"', "'kind': workload", "kind: upstream"])
def test_other_definitions_beside_experiments_stay_out(run: Run, pytester: pytest.Pytester, line: str) -> None:
    experiment(pytester.path, "one")
    folder = pytester.path / "experiments"
    text = f"{line}\n{(folder / 'one.yaml').read_text()}"
    (folder / "other.yaml").write_text(text)
    (folder / "broken.yaml").write_text(text + "phases: [\n")
    indented = "".join(f"    {each}\n" for each in text.splitlines()[1:])
    (folder / "map.yaml").write_text(f"apiVersion: v1\nkind: ConfigMap\ndata:\n  one.yaml: |\n{indented}")
    outcome = run("-m", "chaos", "--collect-only", "-q")
    assert outcome.ret == 0 and {each.partition("::")[0] for each in nodes(outcome)} == {"experiments/one.yaml"}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda text: text.replace("name: one", "description: caf\xe9\nname: one").encode("latin-1"), "not UTF-8 text"),
        (lambda text: text.encode("utf-16"), "not UTF-8 text"),
        (lambda text: text.replace("/v1", "/v2").encode(), "expected opensearch-chaos/v1, got 'opensearch-chaos/v2'"),
        (lambda text: text.replace("opensearch-chaos", "opensearchchaos").encode(), "expected opensearch-chaos/v1"),
        (lambda text: text.partition("\n")[2].encode(), '"apiVersion" is missing'),
        (lambda text: f"kind: experimant\n{text}".encode(), "kind: expected experiment, got 'experimant'"),
        (lambda text: f"kind: experiment\n{text}phases: [\n".encode(), "not YAML"),
    ],
)
def test_what_was_to_be_an_experiment_is_a_collection_error(
    run: Run, pytester: pytest.Pytester, ran: list[str], change: Callable[[str], bytes], says: str
) -> None:
    experiment(pytester.path, "one")
    file = pytester.path / "experiments" / "one.yaml"
    file.write_bytes(change(file.read_text()))
    outcome = run("-m", "chaos")
    outcome.assert_outcomes(errors=1, deselected=1)
    assert says in outcome.stdout.str() and ran == []


def test_a_wrong_definition_is_a_collection_error_with_file_line_and_column(
    run: Run, pytester: pytest.Pytester, ran: list[str]
) -> None:
    experiment(pytester.path, "one")
    file = pytester.path / "experiments" / "one.yaml"
    file.write_text(file.read_text().replace("for: 5s", "for: soon", 1))
    line = next(n for n, text in enumerate(file.read_text().splitlines(), 1) if "soon" in text)
    outcome = run("-m", "chaos")
    outcome.assert_outcomes(errors=1, deselected=1)
    assert any(f"one.yaml:{line}:" in each and "soon" in each for each in outcome.outlines) and ran == []


def test_strict_markers_know_the_tags(run: Run, pytester: pytest.Pytester) -> None:
    experiment(pytester.path, "one", "smoke, cluster-manager")
    run("-m", "chaos and cluster-manager", "--strict-markers").assert_outcomes(passed=5, deselected=1)


@pytest.mark.parametrize("tag", crosschecks.OF_PYTEST)
def test_a_tag_that_pytest_acts_on_is_a_collection_error(
    run: Run, pytester: pytest.Pytester, ran: list[str], tag: str
) -> None:
    """As a mark ``xfail`` would make each weakness an expected one."""
    experiment(pytester.path, "one", tag)
    outcome = run("-m", "chaos")
    outcome.assert_outcomes(errors=1, deselected=1)
    assert f"the tag {tag} is a mark that pytest acts on" in outcome.stdout.str() and ran == []


# ---- what a verdict becomes ------------------------------------------------------------------------------


@pytest.fixture
def verdict(run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[..., pytest.RunResult]:
    def call(outcome: RunResult | Exception, *arguments: str) -> pytest.RunResult:
        def ends(config: pytest.Config, experiment: Any) -> RunResult:
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        monkeypatch.setattr(plugin, "_run", ends)
        experiment(pytester.path, "one")
        return run("-m", "chaos", "-rA", *arguments)

    return call


@pytest.mark.parametrize(
    ("counts_as", "becomes"),
    [
        ("pass", {"passed": 5}),
        ("weakness", {"passed": 4, "failed": 1}),
        ("inconclusive", {"passed": 4, "errors": 1}),
        ("known_weakness", {"passed": 4, "xfailed": 1}),
        ("unexpected_pass", {"passed": 4, "failed": 1}),
    ],
)
def test_each_way_to_count_has_an_outcome_of_its_own(
    verdict: Callable[..., pytest.RunResult], counts_as: str, becomes: dict[str, int]
) -> None:
    outcome = verdict(result(write_good_dark=counts_as))
    outcome.assert_outcomes(**becomes, deselected=1)
    if counts_as in ("weakness", "inconclusive", "unexpected_pass"):
        text = outcome.stdout.str()
        assert "title of write.good@dark" in text and "12 %" in text and "report: reports/x/report.html" in text
        assert "pytest_plugin.py" not in text  # the user's business is not our code


def test_a_dirty_run_fails_even_when_every_expectation_passes(verdict: Callable[..., pytest.RunResult]) -> None:
    outcome = verdict(result(clean=False))
    outcome.assert_outcomes(passed=4, failed=1, deselected=1)
    assert "opensearch-chaos recover" in outcome.stdout.str()


@pytest.mark.parametrize("outcome", ["error", "aborted"])
def test_a_run_that_did_not_end_in_order_is_no_pass(verdict: Callable[..., pytest.RunResult], outcome: str) -> None:
    verdict(result(outcome)).assert_outcomes(passed=4, failed=1, deselected=1)


@pytest.mark.parametrize(
    ("kind", "cause", "says"),
    [
        ("weakness", "process", "Node a-data ended, told so"),
        ("inconclusive", "process", "Node a-data was ended by a third hand"),
        ("weakness", "documents", "3 documents that nobody wrote"),
        ("inconclusive", "no_readback", "The acknowledged writes were not read back"),
    ],
)
def test_what_no_expectation_asks_about_is_shown_by_the_run_s_item(
    verdict: Callable[..., pytest.RunResult], kind: str, cause: str, says: str
) -> None:
    """Every expectation has passed, and ``run`` would exit with 1 or 2."""
    judged = result(kind)
    judged.findings["reasons"] = [{"outcome": kind, "cause": cause, "says": says, "finding": None}]
    outcome = verdict(judged)
    outcome.assert_outcomes(passed=4, failed=1, deselected=1)
    assert says in outcome.stdout.str()


@pytest.mark.parametrize("kind", ["weakness", "inconclusive"])
def test_no_run_that_did_not_pass_is_green_whatever_its_findings_say(
    verdict: Callable[..., pytest.RunResult], kind: str
) -> None:
    judged = result(kind)
    judged.findings["headline"] = "It did not hold."
    outcome = verdict(judged)
    outcome.assert_outcomes(passed=4, failed=1, deselected=1)
    assert "It did not hold." in outcome.stdout.str()


@pytest.mark.parametrize("what", some(test_first_screen.CAUSES))
def test_whatever_decides_is_shown_by_the_run_s_item_where_no_other_shows_it(
    verdict: Callable[..., pytest.RunResult], what: str
) -> None:
    findings = test_first_screen.judged(test_first_screen.history_of(test_first_screen.CAUSES[what][1]()))
    outcome = verdict(RunResult(Path("reports/x"), findings, True, False), "-k", "itself")
    outcome.assert_outcomes(failed=1, deselected=5)


def test_a_finding_that_no_item_asks_for_is_shown_by_the_run_s_item(verdict: Callable[..., pytest.RunResult]) -> None:
    outcome = verdict(result(extra="weakness"))
    outcome.assert_outcomes(passed=4, failed=1, deselected=1)
    assert "title of extra" in outcome.stdout.str()


def test_a_known_weakness_that_no_item_asks_for_does_not_fail_the_run(
    verdict: Callable[..., pytest.RunResult],
) -> None:
    verdict(result(extra="known_weakness")).assert_outcomes(passed=5, deselected=1)


def test_a_switch_makes_known_weaknesses_fail(verdict: Callable[..., pytest.RunResult]) -> None:
    switch = "--chaos-fail-on-known"
    known = verdict(result(write_good_dark="known_weakness"), switch)
    known.assert_outcomes(passed=4, failed=1, deselected=1)
    assert "it fails because of --chaos-fail-on-known" in known.stdout.str()
    verdict(result(extra="known_weakness"), switch).assert_outcomes(passed=4, failed=1, deselected=1)
    verdict(result(), switch).assert_outcomes(passed=5, deselected=1)


def test_the_end_of_the_session_counts_known_weaknesses_apart(verdict: Callable[..., pytest.RunResult]) -> None:
    said = verdict(result(write_good_dark="known_weakness")).stdout.str()
    assert "chaos verdicts" in said and "1 pass with known weaknesses" in said
    assert "known weakness: title of write.good@dark: 12 %" in said
    assert "1 pass" in verdict(result()).stdout.str()


def test_a_weakness_whose_own_item_is_left_out_is_not_lost(verdict: Callable[..., pytest.RunResult]) -> None:
    outcome = verdict(result(write_good_dark="weakness"), "-k", "itself")
    outcome.assert_outcomes(failed=1, deselected=5)


@pytest.mark.parametrize(
    ("ended", "says"),
    [
        (result(clean=False), "opensearch-chaos recover"),
        (result("aborted"), "aborted: so"),
        (result("error"), "error: so"),
        (result("weakness", write_good_dark="weakness"), "title of write.good@dark"),
    ],
)
@pytest.mark.parametrize(("left", "count"), [("lost", 1), ("read", 2)])
def test_what_spoils_a_run_fails_each_item_where_that_of_the_run_is_left_out(
    verdict: Callable[..., pytest.RunResult], left: str, count: int, ended: RunResult, says: str
) -> None:
    outcome = verdict(ended, "-k", left)
    outcome.assert_outcomes(failed=count, deselected=6 - count)
    assert says in outcome.stdout.str()


def test_a_known_weakness_hides_no_dirt_where_the_run_s_item_is_left_out(
    verdict: Callable[..., pytest.RunResult],
) -> None:
    known = {"write_good_dark": "known_weakness"}
    verdict(result(clean=False, **known), "-k", "write").assert_outcomes(failed=1, deselected=5)
    verdict(result(**known), "-k", "write").assert_outcomes(xfailed=1, deselected=5)


def test_an_item_tells_its_own_weakness_first(verdict: Callable[..., pytest.RunResult]) -> None:
    outcome = verdict(result("weakness", write_good_dark="weakness", acknowledged_lost="weakness"), "-k", "write")
    outcome.assert_outcomes(failed=1, deselected=5)
    assert "title of write.good@dark" in outcome.stdout.str()
    assert "title of acknowledged.lost" not in outcome.stdout.str()


def test_a_finding_that_is_missing_is_an_error_never_a_pass(verdict: Callable[..., pytest.RunResult]) -> None:
    lacking = result()
    lacking.findings["findings"] = lacking.findings["findings"][1:]
    verdict(lacking).assert_outcomes(passed=4, errors=1, deselected=1)


def test_a_run_that_cannot_begin_is_an_error_of_every_item_tried_once(
    verdict: Callable[..., pytest.RunResult],
) -> None:
    outcome = verdict(Leftovers("2 leftovers are here", remedy="run: opensearch-chaos recover"))
    outcome.assert_outcomes(errors=5, deselected=1)
    assert "2 leftovers are here; run: opensearch-chaos recover" in outcome.stdout.str()
    assert "pytest_plugin.py" not in outcome.stdout.str()


def test_what_the_lab_lacks_is_skipped_with_its_reason_before_a_lab_is_made(
    run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # the real `_run`
    monkeypatch.setattr(LocalLab, "offers", classmethod(lambda cls, topology: {"process": "signals are off here"}))
    monkeypatch.setattr(plugin, "_pool", lambda config: pytest.fail("a lab was asked for"))
    monkeypatch.chdir(pytester.path)
    experiment(pytester.path, "one")
    outcome = run("-m", "chaos", "-rs")
    outcome.assert_outcomes(skipped=5, deselected=1)
    assert "one cannot run here: node.kill in phase dark: signals are off here" in outcome.stdout.str()


def test_a_signal_keeps_the_next_experiment_from_beginning(
    run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []

    def stopped(config: pytest.Config, experiment: Any) -> RunResult:
        names.append(experiment.name)
        return result("aborted", stopped=True)

    monkeypatch.setattr(plugin, "_run", stopped)
    experiment(pytester.path, "one")
    experiment(pytester.path, "two")
    outcome = run("-m", "chaos")
    assert names == ["one"] and outcome.ret == pytest.ExitCode.INTERRUPTED
    assert "stopped by a signal" in outcome.stdout.str()


# ---- options ---------------------------------------------------------------------------------------------


def test_options_reach_the_run(run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Any, Any]] = []
    monkeypatch.undo()  # the real `_run`, with a pool and a runner that are not

    class Pool:
        def get(self, topology: Any) -> str:
            return f"lab of {topology.name}"

        def close(self) -> None:
            pass

    def one(experiment: Any, options: Any, reporter: Any) -> RunResult:
        seen.append((experiment, options))
        return result()

    monkeypatch.setattr(plugin, "_pool", lambda config: Pool())
    monkeypatch.setattr("chaos.run.execution.run", one)
    monkeypatch.chdir(pytester.path)
    experiment(pytester.path, "one")
    run("-m", "chaos", "--chaos-seed=0", "--chaos-out=elsewhere", "--chaos-topology=3az-standby")
    ((loaded, options),) = seen
    assert (options.seed, options.out, options.lab) == (0, Path("elsewhere"), "lab of 3az-standby")
    assert loaded.topology.name == "3az-standby" and "--seed 0" in options.command


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("--chaos-experiments=nope", "there is no folder"),
        ("--chaos-experiments=empty", "there is no experiment in"),
        ("--chaos-topology=nope", "there is no topology nope"),
        ("--chaos-seed=-1", "expected 0 or more"),
        ("--chaos-opensearch-home=/nothing-is-here", "does not exist"),
        ("--chaos-lab=podman", "--chaos-lab"),
        ("--chaos-out=experiments/one.yaml", "is no folder"),
    ],
)
def test_an_option_that_asks_for_what_is_not_there_is_refused_before_anything_runs(
    run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, ran: list[str], option: str, says: str
) -> None:
    monkeypatch.chdir(pytester.path)
    experiment(pytester.path, "one")
    pytester.mkdir("empty")
    outcome = run("-m", "chaos", option)
    assert outcome.ret == pytest.ExitCode.USAGE_ERROR and ran == []
    assert says in outcome.stderr.str() + outcome.stdout.str()


def test_a_docker_lab_takes_no_home(run: Run, pytester: pytest.Pytester, ran: list[str]) -> None:
    experiment(pytester.path, "one")
    outcome = run("-m", "chaos", "--chaos-lab=docker", "--chaos-opensearch-home=/tmp")
    assert outcome.ret == pytest.ExitCode.USAGE_ERROR and "a docker lab runs images" in outcome.stderr.str()


def test_all_runs_that_are_to_come_must_find_room_together(
    run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, ran: list[str]
) -> None:
    """There is room for either of two; what is only collected needs none."""
    for name in ("one", "two"):
        experiment(pytester.path, name)
    loaded = load_experiment(pytester.path / "experiments" / "one.yaml")
    enough = space.of_lab(loaded).bytes + 3 * space.of_record(loaded).bytes // 2
    blocks = enough // 4096
    says = SimpleNamespace(f_bavail=blocks, f_frsize=4096, f_blocks=blocks, f_favail=10**6, f_files=10**7)
    monkeypatch.setattr(os, "statvfs", lambda path: says)
    outcome = run("-m", "chaos")
    assert outcome.ret == pytest.ExitCode.USAGE_ERROR and ran == []
    assert "the records of 2 runs" in outcome.stderr.str() + outcome.stdout.str()
    assert run("-m", "chaos", "--collect-only").ret == pytest.ExitCode.OK
    run("-m", "chaos", "experiments/one.yaml")
    assert ran == ["one"]


def test_another_folder_of_experiments(run: Run, pytester: pytest.Pytester, ran: list[str]) -> None:
    experiment(pytester.path, "one")
    (pytester.path / "experiments").rename(pytester.path / "gamedays")
    pytester.makeini("[pytest]\ntestpaths = test_plain.py\n")
    run("-m", "chaos")
    assert ran == []
    run("-m", "chaos", "--chaos-experiments=gamedays")
    assert ran == ["one"]


# ---- objectives, and a second run of what was inconclusive -------------------------------------------------


def test_objectives_replace_those_of_every_experiment(
    run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def one(config: pytest.Config, experiment: Any) -> RunResult:
        seen.append(experiment)
        return result()

    monkeypatch.setattr(plugin, "_run", one)
    experiment(pytester.path, "one")
    run("-m", "chaos", "--chaos-objective=read=250ms", "--chaos-objective=write=2s").assert_outcomes(
        passed=5, deselected=1
    )
    (loaded,) = seen
    assert (loaded.load.operation("read").good_within, loaded.load.operation("write").good_within) == (0.25, 2.0)
    assert dict(loaded.good_in_file) == {"read": 0.1, "write": 0.1}


def test_values_replace_those_of_every_experiment(
    run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def one(config: pytest.Config, experiment: Any) -> RunResult:
        seen.append(experiment)
        return result()

    monkeypatch.setattr(plugin, "_run", one)
    experiment(pytester.path, "one")
    run("-m", "chaos", "--chaos-set=load.read.rate=7/s").assert_outcomes(passed=5, deselected=1)
    (loaded,) = seen
    assert loaded.load.operation("read").rate == 7
    assert loaded.overrides == {"load.read.rate": "7/s"}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--chaos-seed=5", "--chaos-set=seed=7"], "--chaos-seed and --chaos-set seed=7 say the same"),
        (["--chaos-topology=3az", "--chaos-set=topology=2az"], "--chaos-topology and --chaos-set topology=2az say the"),
    ],
)
def test_a_value_that_another_option_gives_too_is_said_before_anything_is_collected(
    run: Run, pytester: pytest.Pytester, ran: list[str], options: list[str], says: str
) -> None:
    experiment(pytester.path, "one")
    outcome = run("-m", "chaos", *options)
    assert outcome.ret == pytest.ExitCode.USAGE_ERROR and ran == []
    assert says in outcome.stderr.str()


def test_an_objective_that_a_value_gives_too_is_a_collection_error(
    run: Run, pytester: pytest.Pytester, ran: list[str]
) -> None:
    experiment(pytester.path, "one")
    outcome = run("-m", "chaos", "--chaos-objective=100ms", "--chaos-set=load.read.good=ok within 2s")
    outcome.assert_outcomes(errors=1, deselected=1)
    assert "--chaos-objective 100ms and load.read.good=ok within 2s say the same of reads" in outcome.stdout.str()
    assert ran == []


def test_a_path_that_a_selected_experiment_does_not_have_is_a_collection_error_and_nothing_runs(
    run: Run, pytester: pytest.Pytester, ran: list[str]
) -> None:
    experiment(pytester.path, "one", "smoke")
    experiment(pytester.path, "two", "zone")
    outcome = run("-m", "chaos and smoke", "--chaos-set=load.raed.rate=7/s")
    outcome.assert_outcomes(errors=1, deselected=1)
    assert outcome.ret == 2 and ran == []
    assert "did you mean load.read.rate?" in outcome.stdout.str()


def test_a_test_in_python_has_no_file_to_set_values_of(run: Run, pytester: pytest.Pytester, ran: list[str]) -> None:
    experiment(pytester.path, "one")
    pytester.makepyfile(test_own="import pytest\n@pytest.mark.chaos\ndef test_own(): pass\n")
    outcome = run("-m", "chaos", "--chaos-set=load.read.rate=7/s", "experiments", "test_own.py")
    assert outcome.ret == pytest.ExitCode.USAGE_ERROR and ran == []
    assert "test_own.py::test_own is a test in Python" in outcome.stderr.str()


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("--chaos-objective=reed=1s", "--chaos-objective reed=1s: there is no operation 'reed'"),
        ("--chaos-objective=1", "--chaos-objective 1: 1 has no unit"),
        ("--chaos-set=load.read.rate", "--chaos-set load.read.rate: expected a path in the file"),
        ("--chaos-retry-inconclusive=10", "--chaos-retry-inconclusive 10: 10 has no unit"),
    ],
)
def test_a_wrong_option_is_said_before_anything_is_collected(
    run: Run, pytester: pytest.Pytester, ran: list[str], option: str, says: str
) -> None:
    experiment(pytester.path, "one")
    outcome = run("-m", "chaos", option)
    assert outcome.ret == pytest.ExitCode.USAGE_ERROR and ran == []
    assert says in outcome.stderr.str() and "Traceback" not in outcome.stderr.str()


def test_an_objective_for_what_an_experiment_does_not_have_is_a_collection_error(
    run: Run, pytester: pytest.Pytester, ran: list[str]
) -> None:
    for name, tags in (("one", "smoke"), ("two", "zone")):
        experiment(pytester.path, name, tags)
        file = pytester.path / "experiments" / f"{name}.yaml"
        lines = file.read_text().splitlines(keepends=True)
        file.write_text("".join(line for line in lines if "write" not in line and "acknowledged" not in line))
    outcome = run("-m", "chaos and smoke", "--chaos-objective=write=1s")
    outcome.assert_outcomes(errors=1, deselected=1)  # the other one is not asked for, and nothing is wrong with it
    assert "--chaos-objective write=1s: the load of" in outcome.stdout.str() and "has no writes" in outcome.stdout.str()
    assert ran == []


Runs = Callable[..., tuple[pytest.RunResult, list[Any]]]


@pytest.fixture
def repeated(run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Runs:
    """A pytest run of one experiment whose runs end so; and what each was told of the one before."""

    def call(*ends: RunResult, budget: str | None = "20m") -> tuple[pytest.RunResult, list[Any]]:
        asked: list[Any] = []

        def one(config: pytest.Config, experiment: Any, second_of: Any = None) -> RunResult:
            asked.append(second_of)
            return ends[len(asked) - 1]

        monkeypatch.setattr(plugin, "_run", one)
        experiment(pytester.path, "one")
        options = [] if budget is None else [f"--chaos-retry-inconclusive={budget}"]
        return run("-m", "chaos", "--junitxml=junit.xml", *options), asked

    return call


def inconclusive() -> RunResult:
    return result("inconclusive", write_good_dark="inconclusive")


def test_an_inconclusive_experiment_is_run_once_more_and_the_second_run_decides(
    repeated: Runs, pytester: pytest.Pytester
) -> None:
    outcome, asked = repeated(inconclusive(), result())
    outcome.assert_outcomes(passed=5, deselected=1)
    assert asked[0] is None and (asked[1]["run"], asked[1]["says"]) == ("x", "so")
    text = outcome.stdout.str()
    assert "chaos: one: inconclusive: so; repeated once (--chaos-retry-inconclusive, 20 min of 20 min left)" in text
    assert "1 of 1 experiment repeated (--chaos-retry-inconclusive, " in text
    junit = (pytester.path / "junit.xml").read_text()
    assert junit.count('name="second of two runs; the first" value="x was inconclusive: so"') == 5


@pytest.mark.parametrize(
    ("second", "becomes"),
    [
        (inconclusive(), {"passed": 4, "errors": 1}),
        (result("weakness", write_good_dark="weakness"), {"passed": 4, "failed": 1}),
    ],
)
def test_there_is_no_third_run_and_the_second_is_no_better_than_it_is(
    repeated: Runs, second: RunResult, becomes: dict[str, int]
) -> None:
    outcome, asked = repeated(inconclusive(), second)
    outcome.assert_outcomes(**becomes, deselected=1)
    assert len(asked) == 2


@pytest.mark.parametrize(
    "first", [result("weakness", write_good_dark="weakness"), result("inconclusive", clean=False), result("error")]
)
def test_a_weakness_dirt_or_an_error_is_never_run_again(
    repeated: Runs, pytester: pytest.Pytester, first: RunResult
) -> None:
    outcome, asked = repeated(first)
    assert asked == [None] and "0 of 1 experiment repeated" in outcome.stdout.str()
    assert "second of two" not in (pytester.path / "junit.xml").read_text()


def test_without_the_option_nothing_is_run_again(repeated: Runs) -> None:
    outcome, asked = repeated(inconclusive(), budget=None)
    outcome.assert_outcomes(passed=4, errors=1, deselected=1)
    assert asked == [None] and "repeated" not in outcome.stdout.str()


def test_the_second_run_has_the_same_plan_and_seed_and_a_new_lab(
    run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    labs: list[str] = []
    seen: list[tuple[Any, Any]] = []

    class Pool:
        lab: str | None = None

        def get(self, topology: Any) -> str:
            if self.lab is None:
                self.lab = f"lab {len(labs) + 1}"
                labs.append(self.lab)
            return self.lab

        def close(self) -> None:
            self.lab = None

    def one(experiment: Any, options: Any, reporter: Any) -> RunResult:
        seen.append((experiment, options))
        return result() if options.second_of or experiment.name == "one" else inconclusive()

    pool = Pool()
    monkeypatch.setattr(plugin, "_pool", lambda config: pool)
    monkeypatch.setattr("chaos.run.execution.run", one)
    monkeypatch.chdir(pytester.path)
    experiment(pytester.path, "one")
    experiment(pytester.path, "two")
    outcome = run("-m", "chaos", "--chaos-seed=4", "--chaos-objective=read=2s", "--chaos-retry-inconclusive=5m")
    outcome.assert_outcomes(passed=10, deselected=1)
    assert "1 of 2 experiments repeated" in outcome.stdout.str()
    (_, one_), (first, a), (second, b) = seen
    assert one_.lab == a.lab == "lab 1" and b.lab == "lab 2"  # reused from run to run, but not for a second one
    assert first is second and (a.seed, a.command, a.out) == (b.seed, b.command, b.out)
    assert a.command.endswith("--seed 4 --objective read=2s")
    assert a.second_of is None and b.second_of["option"] == "--chaos-retry-inconclusive"


def test_a_test_that_states_its_objective_keeps_it_and_says_so(
    run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    seen: list[tuple[str, Any]] = []

    class Pool:
        def get(self, topology: Any) -> Any:
            return SimpleNamespace(topology=topology)

    def execution(*, good: str, objectives: Any, **rest: Any) -> Any:
        seen.append((good, objectives))
        raise Leftovers("no further")

    monkeypatch.setattr(plugin, "_pool", lambda config: Pool())
    monkeypatch.setattr("chaos.run.in_python.python_execution", execution)
    monkeypatch.chdir(pytester.path)
    (pytester.path / "topologies").mkdir()
    (pytester.path / "topologies" / "3az-standby.yaml").write_text(
        (ROOT / "topologies" / "3az-standby.yaml").read_text()
    )
    pytester.makepyfile(
        test_marked="import pytest\npytestmark = pytest.mark.chaos\n"
        "def test_own(load):\n    with load(good='3s'): pass\n"
        "def test_none(load):\n    with load(): pass\n"
    )
    outcome = run("-m", "chaos", "--chaos-objective=250ms")
    option = "--chaos-objective"
    assert seen == [("3s", ({}, option)), (plugin.GOOD, ({"": 0.25}, option))]
    said = f"chaos: test_own: {option} does not apply, the test says good='3s'"
    assert said in outcome.stdout.str() and "test_none: --chaos" not in outcome.stdout.str()
