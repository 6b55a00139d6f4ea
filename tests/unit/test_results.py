"""docs/results.md is what the recorded runs say, and what is recorded is counted as it must be."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import results


def test_the_committed_page_is_made_of_the_committed_runs() -> None:
    assert results.PAGE.read_text() == results.page(), "run: python benchmarks/results.py page"


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    return tmp_path


def begin(code: str, what: str = "make demo") -> dict:
    return {"code": code, "commit": "abc", "what": what, "began": "t", "machine": {"busy": 0.1, "processors": 2}}


def end(code: str, outcome: str, what: str = "make demo") -> dict:
    return {"code": code, "commit": "abc", "what": what, "ended": "t", "outcome": outcome, "seconds": 9, "exit_code": 0}


def write(folder: Path, series: str, *lines: dict) -> None:
    (folder / f"{series}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_row_is_of_one_state_of_the_code_and_a_run_that_was_cut_off_is_listed(recorded: Path) -> None:
    write(
        recorded,
        "demo",
        *(begin("old"), end("old", "weakness")),
        *(begin("new"), end("new", "pass")),
        begin("new"),
        *(begin("new"), end("new", "inconclusive")),
    )
    assert [row["outcome"] for row in results.rows("demo")] == ["pass", "cut off", "inconclusive"]
    assert len(list(results.wanted("demo", 3, results.lines("demo"), lambda _: "new"))) == 1
    assert len(list(results.wanted("demo", 3, results.lines("demo"), lambda _: "newer"))) == 3


def test_each_experiment_is_wanted_until_it_has_ended_once(recorded: Path) -> None:
    now = lambda what: "new"  # noqa: E731
    every = list(results.wanted("each", 0, [], now))
    assert "experiments/no-fault.yaml" in every and not any("noise-hour" in what for what in every)
    done = end("new", "pass", "experiments/no-fault.yaml")
    old = end("old", "pass", every[1])
    left = set(results.wanted("each", 0, [done, old, begin("new", every[0])], now))
    assert set(every) - left == {"experiments/no-fault.yaml"}
    assert list(results.wanted("each", 0, [done, old], now))[-1] == every[1]  # what was never run comes first


def test_an_experiment_that_was_changed_is_shown_by_its_newest_runs_alone(recorded: Path) -> None:
    a, b = "experiments/a.yaml", "experiments/b.yaml"
    write(
        recorded,
        "each",
        *(begin("1", b), end("1", "pass", b)),
        *(begin("2", a), end("2", "weakness", a)),
        *(begin("3", a), end("3", "pass", a)),
    )
    assert [(row["what"], row["outcome"]) for row in results.rows("each")] == [(a, "pass"), (b, "pass")]


def test_what_decides_what_a_run_does_and_nothing_else_is_its_code() -> None:
    demo = results.experiments_of("demo")
    code = ["chaos/run.py", "topologies/3az.yaml", demo, "Makefile", "requirements.lock"]
    assert all(results.is_code(path, demo) for path in code)
    others = ["README.md", "docs/report.png", "benchmarks/results.py", "tests/unit/test_run.py", results.NO_FAULT]
    assert not any(results.is_code(path, demo) for path in others)
    assert results.is_code(results.NO_FAULT, results.experiments_of("smoke"))
    assert results.code("demo") != results.code("no-fault") and results.code("demo") == results.code(
        "demo", "make demo"
    )
