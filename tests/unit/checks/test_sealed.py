"""A record that is not what the run wrote is an error and never a pass; one of before is judged as it was."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import synthetic

from chaos.checks import evaluate
from chaos.checks.reasons import Cause, Outcome
from chaos.checks.verdict import Findings
from chaos.history import History


def written(folder: Path, rules: int = 2, story: synthetic.Story | None = None) -> Path:
    made = story or synthetic.slow_zone()
    made.rules = rules
    return made.write(folder)


def judged(folder: Path) -> Findings:
    return evaluate(History.open(folder))


def decides(findings: Findings) -> tuple[Outcome, Cause, str]:
    return findings.outcome, findings.reasons[0].cause, findings.reasons[0].says


def zeros(run: Path) -> None:
    """As found: whatever was counted in the read-back is set to zero."""
    file = run / "history" / "readback.json"
    found = json.loads(file.read_text())
    file.write_text(json.dumps({name: 0 if name.endswith("_count") else value for name, value in found.items()}))


def lost_zone() -> synthetic.Story:
    story = synthetic.lost_writes()
    story.clean = {"clean": True, "detail": []}
    return story


def test_a_sealed_run_is_judged_as_one_of_rules_1(tmp_path: Path) -> None:
    new, old = judged(written(tmp_path / "new")), judged(written(tmp_path / "old", rules=1))
    assert new.outcome is old.outcome is Outcome.PASS and not new.reasons
    assert new.to_json()["rules"] == {"judged_by": 2, "newest": 2} and old.to_json()["rules"]["judged_by"] == 1


def test_a_readback_that_was_edited_to_zeros_is_an_error_and_no_pass(tmp_path: Path) -> None:
    run = written(tmp_path / "run", story=lost_zone())
    assert judged(run).outcome is Outcome.WEAKNESS
    zeros(run)
    outcome, cause, says = decides(judged(run))
    assert (outcome, cause) == (Outcome.ERROR, Cause.RECORD)
    assert says.startswith("history/readback.json is not what the run wrote (")
    assert int(judged(run).exit_code) == 5 and judged(run).headline.startswith("No verdict: history/readback.json is")


def line_less(run: Path) -> None:
    """The events without their last fault: a line taken out by hand."""
    file = run / "history" / "events.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(line for line in lines if '"fault.evidence"' not in line))


def looser(run: Path) -> None:
    """An expectation that was made weaker after the run."""
    plan = json.loads((run / "plan.json").read_text())
    plan["experiment"]["expect"][0]["value"] = 0.1
    (run / "plan.json").write_text(json.dumps(plan))


def another(run: Path) -> None:
    """The arrivals of another run of the same experiment."""
    story = synthetic.slow_zone()
    story.seed = 8
    shutil.copy(story.write(run.with_name("other")) / "history" / "arrivals.bin", run / "history" / "arrivals.bin")


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (line_less, "history/events.jsonl"),
        (looser, "plan.json"),
        (another, "history/arrivals.bin"),
        (lambda run: (run / "history" / "driver.jsonl").unlink(), "history/driver.jsonl"),
        (lambda run: (run / "history" / "stale.jsonl").write_text(""), "history/stale.jsonl"),
        (lambda run: (run / "clean.json").write_text('{"clean": true, "detail": ["none"]}'), "clean.json"),
    ],
)
def test_whatever_was_changed_is_named(tmp_path: Path, change: Callable[[Path], object], names: str) -> None:
    run = written(tmp_path / "run")
    change(run)
    outcome, cause, says = decides(judged(run))
    assert (outcome, cause) == (Outcome.ERROR, Cause.RECORD) and says.startswith(names + " is ")


def test_a_run_that_ended_and_is_not_sealed_is_inconclusive(tmp_path: Path) -> None:
    run = written(tmp_path / "run")
    (run / "seal.json").unlink()
    outcome, cause, says = decides(judged(run))
    assert (outcome, cause) == (Outcome.INCONCLUSIVE, Cause.RECORD) and "is not sealed" in says


def test_what_is_lost_stands_though_the_run_is_not_sealed(tmp_path: Path) -> None:
    run = written(tmp_path / "run", story=lost_zone())
    (run / "seal.json").unlink()
    assert judged(run).outcome is Outcome.WEAKNESS


@pytest.mark.parametrize("sealed", [True, False])
def test_a_history_that_is_missing_is_said_to_be_and_nobody_died(tmp_path: Path, sealed: bool) -> None:
    run = written(tmp_path / "run")
    if not sealed:
        (run / "seal.json").unlink()
    shutil.rmtree(run / "history")
    found = judged(run)
    outcome, cause, says = decides(found)
    assert (outcome, cause) == (Outcome.ERROR, Cause.RECORD) and says.startswith("history is missing")
    assert all("died" not in reason.says for reason in found.reasons)
    assert len([reason for reason in found.reasons if reason.cause is Cause.RECORD]) == 1


def test_under_rules_1_a_missing_history_keeps_its_outcome_and_cause_and_has_other_words(tmp_path: Path) -> None:
    run = written(tmp_path / "run", rules=1)
    shutil.rmtree(run / "history")
    outcome, cause, says = decides(judged(run))
    assert (outcome, cause) == (Outcome.ERROR, Cause.RUNNER_DIED) and says.startswith("history is missing")


def test_a_run_of_rules_1_needs_no_seal_and_may_have_been_edited(tmp_path: Path) -> None:
    run = written(tmp_path / "run", rules=1, story=lost_zone())
    before = judged(run).to_json()
    assert before["outcome"] == "weakness" and all(reason["cause"] != "record" for reason in before["reasons"])
    (run / "history" / "stale.jsonl").write_text("")
    assert judged(run).to_json() == before


def test_a_runner_that_died_has_no_seal_and_is_said_to_have_died(tmp_path: Path) -> None:
    story = synthetic.killed()
    run = written(tmp_path / "run", story=story)
    assert not (run / "seal.json").exists()
    outcome, cause, says = decides(judged(run))
    assert (outcome, cause) == (Outcome.ERROR, Cause.RUNNER_DIED) and says.startswith("The runner died in the phase")


def test_a_run_that_was_sealed_without_an_end_is_no_pass(tmp_path: Path) -> None:
    """A disk that was full for the last event and not for the seal."""
    story = synthetic.slow_zone()
    story.mutate = lambda events: [event for event in events if event["kind"] != "run.end"]
    outcome, cause, _ = decides(judged(written(tmp_path / "run", story=story)))
    assert (outcome, cause) == (Outcome.ERROR, Cause.RUNNER_DIED)
