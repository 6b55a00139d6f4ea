"""Half a page for who pays: what was promised, whether it was kept, how it was before, and how sure that is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import synthetic
from pages import Page
from unit.checks import test_controls_mutated

from chaos.checks import plainly
from chaos.registry import METRICS
from chaos.report import promises, render


def made(folder: Path, name: str, story: synthetic.Story) -> Path:
    """A judged run in a folder of runs."""
    run = story.write(folder / name)
    render(run)
    return run


def named(story: synthetic.Story) -> str:
    return str(story.plan()["experiment"]["name"])


def test_the_first_run_says_that_it_is_one_run(tmp_path: Path) -> None:
    run = made(tmp_path, "20260101T000000Z-zone-network-slowdown-0001", synthetic.slow_zone())
    promises.remember(run, "zone-network-slowdown")
    assert promises.earlier(run) is None and not (run / promises.FILE).exists()
    words = Page((run / "report.html").read_text()).words
    assert "No earlier run of this experiment lies beside this one" in words
    assert "one run" in words and "first run" in words


def test_a_later_run_is_set_beside_the_one_before(tmp_path: Path) -> None:
    story, broken = synthetic.slow_zone(), synthetic.slow_zone()
    broken.chapters[2].write = synthetic.constant(synthetic.Outcome.TIMEOUT, 5.0)
    assert named(story) == "zone-network-slowdown"
    for number, each in enumerate((story, broken)):
        made(tmp_path, f"20260101T00000{number}Z-zone-network-slowdown-000{number}", each)
    made(tmp_path, "20260101T000005Z-another-one-0005", synthetic.black_hole())
    run = made(tmp_path, "20260101T000009Z-zone-network-slowdown-0009", story)
    promises.remember(run, "zone-network-slowdown")
    last = promises.earlier(run)
    assert last is not None and last["runs"] == 2 and last["last"]["outcome"] == "weakness"
    section = promises.section(json.loads((run / "findings.json").read_text()), last)
    assert section is not None and section["runs"] == 3
    (row,) = [row for row in section["rows"] if row["promise"].startswith("Writes come back in “failover”")]
    assert row["word"] == "kept" and row["before"].startswith("broken, ") and row["sure"] == "kept in 2 of 3 runs"
    render(run)
    assert "Against the run before" in Page((run / "report.html").read_text()).words


def test_a_run_is_not_set_beside_later_ones_or_what_cannot_be_read(tmp_path: Path) -> None:
    run = made(tmp_path, "20260101T000001Z-zone-network-slowdown-0001", synthetic.slow_zone())
    made(tmp_path, "20260101T000002Z-zone-network-slowdown-0002", synthetic.slow_zone())
    (tmp_path / "20260101T000000Z-zone-network-slowdown-0000").mkdir()
    torn = tmp_path / "20250101T000000Z-zone-network-slowdown-0000"
    torn.mkdir()
    (torn / "findings.json").write_text('{"findings": [')
    promises.remember(run, "zone-network-slowdown")
    assert promises.earlier(run) is None


def test_a_redacted_page_says_nothing_of_other_runs(tmp_path: Path) -> None:
    for number in range(2):
        run = made(tmp_path, f"20260101T00000{number}Z-zone-network-slowdown-000{number}", synthetic.slow_zone())
    promises.remember(run, "zone-network-slowdown")
    page = render(run, redact=True).read_text()
    assert "20260101T000000Z" not in page


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_is_a_promise_in_plain_words(metric: str) -> None:
    run = test_controls_mutated._sound().copy()
    item: dict[str, Any] = run.judged(test_controls_mutated.expected(metric)).findings[0].to_json()
    for words in (plainly.promise(item), plainly.question(item)):
        assert metric not in words and not any(sign in words for sign in (">=", "<=", "=="))
        assert "{" not in words
