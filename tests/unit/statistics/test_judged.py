"""Findings of many runs: judged from their histories, and read only where judging again would say the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import synthetic

from chaos.base.errors import HistoryError
from chaos.checks import made
from chaos.commands.gameday_hands import lab_runs
from chaos.report import render
from chaos.statistics import facts, judged


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Path]:
    """The runs that were judged; with a cache of its own."""
    monkeypatch.setenv("OPENSEARCH_CHAOS_CACHE", str(tmp_path / "cache"))
    seen: list[Path] = []
    really = judged.evaluate

    def evaluate(history: Any) -> Any:
        seen.append(history.folder)
        return really(history)

    monkeypatch.setattr(judged, "evaluate", evaluate)
    return seen


def written(folder: Path, rules: int, *, lost: bool = False) -> Path:
    story = synthetic.lost_writes() if lost else synthetic.slow_zone()
    story.rules = rules
    run = story.write(folder)
    render(run)
    return run


def edited(run: Path, **more: Any) -> dict[str, Any]:
    found = json.loads((run / "findings.json").read_text()) | more
    (run / "findings.json").write_text(json.dumps(found))
    return dict(found)


def test_a_run_of_rules_2_is_read_where_the_same_code_judged_the_same_record(
    tmp_path: Path, evaluated: list[Path]
) -> None:
    run = written(tmp_path / "run", 2)
    stored = json.loads((run / "findings.json").read_text())
    assert set(stored["made_by"]) == {"rules", "code", "record", "findings"} and stored["made_by"]["rules"] == 2
    assert facts.of_folder(run).findings == stored and evaluated == []


@pytest.mark.parametrize(
    "edit",
    [
        {"outcome": "pass"},
        {"findings": []},
        {"made_by": {}},
        {"made_by": "me"},
    ],
)
def test_findings_that_were_edited_are_judged_anew(tmp_path: Path, evaluated: list[Path], edit: dict[str, Any]) -> None:
    run = written(tmp_path / "run", 2, lost=True)
    edited(run, **edit)
    assert facts.of_folder(run).outcome == "weakness" and evaluated == [run]


def test_a_record_that_changed_after_it_was_judged_is_judged_anew_and_found_out(
    tmp_path: Path, evaluated: list[Path]
) -> None:
    run = written(tmp_path / "run", 2, lost=True)
    file = run / "history" / "readback.json"
    file.write_text(file.read_text().replace('"lost_count"', '"found_count"'))
    assert facts.of_folder(run).outcome == "error" and evaluated == [run]


def test_another_version_of_the_checks_judges_anew(
    tmp_path: Path, evaluated: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = written(tmp_path / "run", 2)
    monkeypatch.setattr(made, "code", lambda: "of tomorrow")
    assert facts.of_folder(run).outcome == "pass" and evaluated == [run]
    assert facts.of_folder(run).findings["made_by"]["code"] == "of tomorrow" and evaluated == [run]  # from the cache


def test_a_run_of_rules_1_is_judged_from_its_history_and_never_from_what_is_stored(
    tmp_path: Path, evaluated: list[Path]
) -> None:
    run = written(tmp_path / "run", 1, lost=True)
    own = edited(run, outcome="pass")
    for _ in range(3):
        assert facts.of_folder(run).outcome == "weakness"
    assert evaluated == [run]  # once: then it is in the cache, under the digest of its record
    assert json.loads((run / "findings.json").read_text()) == own  # looking writes nothing into the run
    (run / "history" / "readback.json").unlink()
    facts.of_folder(run)
    assert evaluated == [run, run]


def test_without_room_for_a_cache_runs_are_judged_all_the_same(
    tmp_path: Path, evaluated: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").write_text("no folder")
    run = written(tmp_path / "run", 1)
    assert [facts.of_folder(run).outcome for _ in range(2)] == ["pass", "pass"] and evaluated == [run, run]


def test_the_cache_keeps_the_newest(tmp_path: Path, evaluated: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judged, "MOST", 2)
    for number in range(4):
        story = synthetic.slow_zone()
        story.seed = number
        judged.judged(story.write(tmp_path / f"run-{number}"))
    assert len(list((tmp_path / "cache" / "judged").iterdir())) == 2


def test_what_is_no_run_is_said(tmp_path: Path, evaluated: list[Path]) -> None:
    with pytest.raises(HistoryError, match="no plan"):
        judged.judged(tmp_path)


def test_a_gate_of_a_game_day_is_not_opened_by_findings_that_somebody_wrote(
    tmp_path: Path, evaluated: list[Path]
) -> None:
    run = written(tmp_path / "labs" / "run", 2, lost=True)
    edited(run, outcome="pass", clean=True)
    (found,) = lab_runs(tmp_path / "labs")
    assert found.outcome == "weakness"


def test_a_redacted_folder_does_not_say_whose_record_it_was_made_of(tmp_path: Path) -> None:
    run = written(tmp_path / "run", 2)
    render(run, redact=True)
    assert "made_by" not in json.loads((run / "redacted" / "findings.json").read_text())
