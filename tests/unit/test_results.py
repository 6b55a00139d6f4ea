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
    assert len(list(results.wanted("demo", 3, [line for line in results.lines("demo") if line["code"] == "new"]))) == 1


def test_each_experiment_is_wanted_until_it_has_ended_once(recorded: Path) -> None:
    every = list(results.wanted("each", 0, []))
    assert "experiments/no-fault.yaml" in every and not any("noise-hour" in what for what in every)
    done = end("new", "pass", "experiments/no-fault.yaml")
    assert set(every) - set(results.wanted("each", 0, [done, begin("new", every[0])])) == {"experiments/no-fault.yaml"}


def test_documents_and_results_are_no_code() -> None:
    code = ["chaos/run.py", "experiments/no-fault.yaml", "Makefile", "requirements.lock", "benchmarks/results.py"]
    assert all(map(results.is_code, code))
    assert not any(map(results.is_code, ["README.md", "docs/report.png", "benchmarks/results/demo.jsonl"]))
