"""The table of docs/remote-store.md: every prediction, and nothing seen that no recorded run says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import predictions
import pytest
import yaml
from predictions import PredictionError

SLOW = "experiments/remote-store/store-slow.yaml"
ROW = {"id": "a", "when": "it is slow", "predicted": "writes are late", "by": [SLOW]}
RUN = {
    "what": SLOW,
    "series": "each",
    "outcome": "weakness",
    "began": "2026-11-28T19:00:00+00:00",
    "ended": "x",
    "commit": "abc1234",
    "summary": "Reads held.",
    "findings": [],
    "reasons": [],
}


def test_the_committed_table_is_made_of_the_committed_predictions_and_runs() -> None:
    text = predictions.PAGE.read_text()
    made = predictions.page(text, predictions.table(predictions.read()))
    assert text == made, "run: python benchmarks/predictions.py"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"by": ["experiments/none.yaml"]}, "no file"),
        ({"seen": "all is well"}, "a prediction has"),
        ({"answer": "holds"}, "because of what"),
        ({"answer": "surely", "because": "x"}, "an answer is one of"),
    ],
)
def test_a_row_that_is_not_as_the_head_says_is_refused(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    file = tmp_path / "remote-store.yaml"
    file.write_text(yaml.safe_dump({"predictions": [{**ROW, **change}]}))
    with pytest.raises(PredictionError, match=says):
        predictions.read(file)
    file.write_text(yaml.safe_dump({"predictions": [ROW, ROW]}))
    with pytest.raises(PredictionError, match="two of this id"):
        predictions.read(file)


def test_what_was_seen_is_what_the_newest_recorded_run_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictions.results, "rows", lambda series: [RUN] if series == "each" else [])
    made = predictions.line(ROW)
    assert "Reads held." in made and "`store-slow`, 2026-11-28, abc1234" in made
    answered = predictions.line({**ROW, "answer": "partly", "because": "it waits for three"})
    assert "**partly**: it waits for three" in answered
    assert predictions.NONE in predictions.line({**ROW, "by": []})


@pytest.mark.parametrize(
    "rows", [[], [{**RUN, "outcome": "inconclusive"}], [{k: v for k, v in RUN.items() if k != "ended"}]]
)
def test_no_answer_stands_without_a_run_that_decides(
    monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, Any]]
) -> None:
    monkeypatch.setattr(predictions.results, "rows", lambda series: rows)
    assert predictions.line(ROW)
    with pytest.raises(PredictionError, match="store-slow"):
        predictions.line({**ROW, "answer": "holds", "because": "x"})
    with pytest.raises(PredictionError):
        predictions.line({**ROW, "by": [], "answer": "holds", "because": "x"})


def test_a_page_without_a_place_for_the_table_is_refused() -> None:
    with pytest.raises(PredictionError, match="no place"):
        predictions.page("# Remote-backed storage", "| |")
