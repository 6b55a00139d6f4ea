"""docs/results.md is what the recorded runs say, and what is recorded is counted as it must be."""

from __future__ import annotations

import itertools
import json
import subprocess
from pathlib import Path

import pytest
import results

from chaos.base.errors import Exit


def test_the_committed_page_is_made_of_the_committed_runs() -> None:
    assert results.PAGE.read_text() == results.page(), "run: python benchmarks/results.py page"


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    return tmp_path


TIMES = itertools.count()


def run(code: str, outcome: str | None = None, what: str = "make demo") -> dict:
    """A run of a series; without an outcome it was cut off."""
    began = f"2026-11-01T00:{next(TIMES) % 60:02}:00+00:00"
    found = {
        "code": code,
        "commit": "abc",
        "what": what,
        "began": began,
        "machine": {"busy": 0.1, "processors": 2, "memory_gib": 1},
    }
    return found | ({} if outcome is None else {"ended": "t", "outcome": outcome, "seconds": 9, "exit_code": 0})


def write(series: str, *runs: dict) -> None:
    for each in runs:
        results.keep({"series": series, **each})


def test_a_row_is_of_one_state_of_the_code_and_a_run_that_was_cut_off_is_listed(recorded: Path) -> None:
    write("demo", run("old", "weakness"), run("new", "pass"), run("new"), run("new", "inconclusive"))
    assert [row["outcome"] for row in results.rows("demo")] == ["pass", "cut off", "inconclusive"]
    assert len(list(results.wanted("demo", 3, results.lines("demo"), lambda _: "new"))) == 1
    assert len(list(results.wanted("demo", 3, results.lines("demo"), lambda _: "newer"))) == 3


def test_each_experiment_is_wanted_until_it_has_ended_once(recorded: Path) -> None:
    now = lambda what: "new"  # noqa: E731
    every = list(results.wanted("each", 0, [], now))
    assert "experiments/no-fault.yaml" in every and not any("noise-hour" in what for what in every)
    done = run("new", "pass", "experiments/no-fault.yaml")
    old = run("old", "pass", every[1])
    left = set(results.wanted("each", 0, [done, old, run("new", None, every[0])], now))
    assert set(every) - left == {"experiments/no-fault.yaml"}
    assert list(results.wanted("each", 0, [done, old], now))[-1] == every[1]  # what was never run comes first


def test_each_experiment_without_a_fault_has_a_table_of_its_own_and_goes_on_by_its_own_rows(recorded: Path) -> None:
    other = "experiments/replication/segrep-no-fault.yaml"
    write("no-fault", run("1", "pass", results.NO_FAULT), run("2", "pass", other), run("2", "inconclusive", other))
    left = lambda what: list(results.wanted("no-fault", 3, results.lines("no-fault"), lambda _: "2", what))  # noqa: E731
    assert left("") == 3 * [results.NO_FAULT] and left(other) == [other]
    text = "\n".join(results.section("no-fault"))
    assert text.count("## ") == 2 and "## Nothing is done to the cluster: segrep-no-fault" in text
    assert f"`opensearch-chaos run {other}`" in text and "2 runs, in a row: 1 pass, 1 inconclusive." in text


def test_a_run_that_is_refused_is_none_of_its_series_and_ends_it(
    recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = {"outcome": "none", "exit_code": Exit.USAGE, "seconds": 2, "said": "leftovers of a dead run are here"}
    asked: list[str] = []
    monkeypatch.setattr(results, "run_once", lambda series, what, goes_on: asked.append(what) or refused)
    monkeypatch.setattr(results, "refuse_uncommitted", lambda *_: None)
    before = set(results.RESULTS.rglob("*.json"))
    with pytest.raises(SystemExit, match="leftovers of a dead run"):
        results.record("no-fault", 20, 60)
    assert len(asked) == 1 and set(results.RESULTS.rglob("*.json")) == before


def test_an_experiment_that_was_changed_is_shown_by_its_newest_runs_alone(recorded: Path) -> None:
    a, b = "experiments/a.yaml", "experiments/b.yaml"
    write("each", run("1", "pass", b), run("2", "weakness", a), run("3", "pass", a))
    assert [(row["what"], row["outcome"]) for row in results.rows("each")] == [(a, "pass"), (b, "pass")]


def test_a_run_is_kept_under_its_experiment_and_never_over_another(recorded: Path) -> None:
    a = "experiments/controls/a.yaml"
    write("each", run("1", "pass", a), run("1", "pass", a))
    write("demo", run("1", "pass"))
    assert sorted(path.parent.name for path in recorded.glob("*/*.json")) == ["a", "a", "zone-network-slowdown"]
    assert len(results.lines("each")) == 2


def test_the_hash_of_a_history_is_of_its_names_and_bytes(tmp_path: Path) -> None:
    (tmp_path / "history").mkdir()
    (tmp_path / "history" / "a").write_text("1")
    first = results.fingerprint(tmp_path)
    (tmp_path / "history" / "a").rename(tmp_path / "history" / "b")
    second = results.fingerprint(tmp_path)
    (tmp_path / "history" / "b").write_text("2")
    assert len({first, second, results.fingerprint(tmp_path)}) == 3


def test_what_decides_what_a_run_does_and_nothing_else_is_its_code() -> None:
    demo = results.experiments_of("demo")
    code = ["chaos/run/execution.py", "topologies/3az.yaml", demo, "Makefile", "requirements.lock"]
    assert all(results.is_code(path, demo) for path in code)
    others = [
        "README.md",
        "docs/report.png",
        "benchmarks/results.py",
        "tests/unit/run/test_execution.py",
        results.NO_FAULT,
    ]
    assert not any(results.is_code(path, demo) for path in others)
    assert results.is_code(results.NO_FAULT, results.experiments_of("smoke"))
    assert results.code("demo") != results.code("no-fault") and results.code("demo") == results.code(
        "demo", "make demo"
    )


@pytest.mark.parametrize(
    ("cases", "code", "outcome"),
    [
        ('<testcase name="a"/><testcase name="b"><skipped/></testcase>', 0, "green"),
        ('<testcase name="a"/><testcase name="b"><failure/></testcase>', 1, "red"),
        ('<testcase name="a"/>', 1, "red"),
        ('<testcase name="a"><skipped/></testcase>', 0, "none"),
        (None, 4, "none"),
    ],
)
def test_long_tests_that_were_all_skipped_or_never_ran_are_not_green(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cases: str | None, code: int, outcome: str
) -> None:
    def pytest_did(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        (junit,) = (part.partition("=")[2] for part in command if part.startswith("--junitxml="))
        if cases is not None:
            Path(junit).write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
        return subprocess.CompletedProcess(command, code, "said", "")

    monkeypatch.setattr(results, "ROOT", tmp_path)
    monkeypatch.setattr(subprocess, "run", pytest_did)
    found = results.run_once("full", "tests/cluster/test_runs.py")
    assert found["outcome"] == outcome and ("said" in found) == (outcome != "green")


def test_a_file_of_long_tests_is_kept_under_its_name_and_depends_on_itself(recorded: Path) -> None:
    write("full", run("1", "green", "tests/cluster/test_runs.py"))
    assert [path.parent.name for path in recorded.glob("*/*.json")] == ["test_runs"]
    part = results.experiments_of("full", "tests/cluster/test_runs.py")
    assert results.is_code("tests/cluster/test_runs.py", part) and results.is_code("chaos/cli.py", part)
    assert not results.is_code("tests/cluster/test_audit.py", part)


# -- the summary -----------------------------------------------------------------------------------


MACHINE = {"busy": 0.1, "processors": 2, "memory_gib": 24}


def ended(what: str, outcome: str, counts: dict, *reasons: str) -> dict:
    return run("1", outcome, what) | {"findings": counts, "reasons": list(reasons), "machine": MACHINE}


def test_the_page_begins_with_a_summary_from_which_somebody_can_decide(recorded: Path) -> None:
    demo = results.DEMO
    write(
        "each",
        ended("experiments/no-fault.yaml", "pass", {"pass": 8}),
        ended(demo, "pass", {"pass": 9, "known_weakness": 1}),
        ended("experiments/disk-stall.yaml", "weakness", {"pass": 6, "weakness": 1}),
        ended("experiments/leader-flap.yaml", "weakness", {"unexpected_pass": 1}, "read.good: remove the note"),
        ended(
            "experiments/task-storm.yaml", "weakness", {"unexpected_pass": 1}, "node a-data ended", "remove the note"
        ),
        ended("experiments/double-fault.yaml", "inconclusive", {"inconclusive": 1}),
        ended("experiments/controls/planted-data-loss.yaml", "weakness", {"weakness": 1}),
        ended("experiments/controls/patient-client.yaml", "pass", {"pass": 1}),
    )
    lines = results.page().splitlines()
    assert lines.index("## In short") < lines.index("## The demo")
    table = {row[1].strip(): row[2:4] for row in (line.split("|") for line in lines) if len(row) == 5}
    said = {name: (number.strip(), which.strip()) for name, (number, which) in table.items()}
    assert said["pass"] == ("1", "all others") and said["pass with known weaknesses"] == ("1", "see below")
    assert said["weakness"] == ("2", "disk-stall, task-storm") and said["improved"] == ("1", "leader-flap")
    assert said["inconclusive"] == ("1", "double-fault")
    assert said["planted, and found"] == ("1 of 2", "not found: patient-client")
    known = [line for line in lines if line.startswith("| zone-network-slowdown | `write.regained <= 10s` in failover")]
    assert len(known) == 1 and "Detect dead nodes sooner" in known[0]
    assert "Take the slow or dark zone out" not in known[0] and "zone-network-slowdown-tuned" in known[0]


def test_a_recorded_pass_with_known_weaknesses_is_called_so(recorded: Path) -> None:
    found = [{"title": "t", "measured_text": "1", "counts_as": "known_weakness"}]
    write("demo", run("1", "pass") | {"machine": MACHINE, "findings": found})
    assert "1 runs, in a row: 1 pass with known weaknesses." in results.page()
    assert results.called({"outcome": "cut off"}) == "cut off" and results.called({"outcome": "pass"}) == "pass"


@pytest.mark.parametrize(("clean", "left"), [(False, "not clean"), (None, "clean-up unknown")])
def test_a_pass_that_is_not_known_to_have_left_its_machine_clean_is_no_pass(
    recorded: Path, clean: bool | None, left: str
) -> None:
    write(
        "each",
        ended("experiments/no-fault.yaml", "pass", {"pass": 8}) | {"clean": True},
        ended("experiments/disk-stall.yaml", "pass", {"pass": 8}) | {"clean": clean},
        ended(results.DEMO, "pass", {"known_weakness": 1}) | {"clean": clean},
    )
    page = results.page()
    assert "| pass | 1 | all others |" in page and "| pass with known weaknesses | 0 | - |" in page
    assert f"| pass; {left} | 1 | disk-stall |" in page
    assert f"| pass with known weaknesses; {left} | 1 | zone-network-slowdown |" in page
    assert f"1 pass; {left}, 1 pass, 1 pass with known weaknesses; {left}" in page
    assert "### Known weaknesses, and what helps" in page


def test_which_tests_passed_is_kept(tmp_path: Path) -> None:
    cases = "".join(
        f'<testcase name="{name}">{told}</testcase>'
        for name, told in (("b", ""), ("a", ""), ("c", "<skipped/>"), ("d", '<failure message="no"/>'), ("d", ""))
    )
    (tmp_path / "junit.xml").write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    found = results.junit_of(tmp_path / "junit.xml")
    assert (found["passed"], found["known"], list(found["bad"]), found["items"]) == (["a", "b"], 1, ["d"], 5)


def test_what_helps_is_what_the_report_of_the_run_says(recorded: Path) -> None:
    sample = results.ROOT / "reports" / "sample"
    kept = results.helps_of(sample, json.loads((sample / "findings.json").read_text()))
    assert kept == {"write.regained <= 10s in failover": ["Detect dead nodes sooner"]}
    write("each", ended(results.DEMO, "pass", {"known_weakness": 1}) | {"helps": kept})
    (line,) = [line for line in results.page().splitlines() if line.startswith("| zone-network-slowdown | `write.reg")]
    assert line.endswith("| Detect dead nodes sooner |")


def test_what_a_command_said_is_kept_without_the_path_of_the_checkout() -> None:
    assert (
        results.said(f"{'x' * 999}\nin {results.ROOT}/reports/no-fault holds no run")[-31:]
        == "in reports/no-fault holds no run"[-31:]
    )
    assert len(results.said("x" * 999)) == 400
