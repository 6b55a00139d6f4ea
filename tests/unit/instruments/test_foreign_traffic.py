"""What others did, from the record to the page: figures by phase, what is not known, and how fast an abort was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from pages import Page
from synthetic import T0, S, Story, aborted, slow_zone

from chaos.checks import evaluate
from chaos.checks.record import Record
from chaos.history import History
from chaos.instruments import foreign_traffic as foreign
from chaos.report import render
from chaos.report.page import render_html


def grown(at: float, searches: float, documents: float = 20, **more: Any) -> dict[str, Any]:
    """The two seconds before ``at`` (s after the load's start): so many a second, of 5 ms each."""
    done = {"searches": int(2 * searches), "search_ms": int(10 * searches), "documents": int(2 * documents)}
    copies = {"indexed": int(6 * documents), "index_ms": int(12 * documents), "failed": 0, "copies": 6, "nodes": 3}
    return {"t": T0 + int(at * S), "kind": "grown", "seconds": 2.0, "unheard": 0, "ms": 9.0, **done, **copies, **more}


def lines(story: Story, *, rate: float = 50) -> list[dict[str, Any]]:
    """From 30 s before the load on; in the second phase others have half of it."""
    first = story.chapters[0].seconds
    second = first + story.chapters[1].seconds
    times = range(-28, int(story.seconds) + 2, 2)
    return [grown(t, rate / 2 if first < t <= second else rate) for t in times]


def seen(story: Story, given: list[dict[str, Any]]) -> History:
    history = story.history()
    history.give(foreign.FILE, given)
    return history


def rows(history: History) -> dict[str, Any]:
    found: dict[str, Any] = evaluate(history).tables["foreign"]
    return found


def test_each_phase_has_its_figures() -> None:
    story = slow_zone()
    found = rows(seen(story, lines(story)))["rows"]
    healthy, slow = (found[chapter.name] for chapter in story.chapters[:2])
    assert (healthy["searches"], healthy["search_ms"], healthy["known"]) == (50, 5, 1)
    assert (healthy["documents"], healthy["index_ms"], healthy["failed"]) == (20, 2, 0)
    assert slow["searches"] == 25 and found[foreign.BEFORE]["searches"] == 50
    assert list(found)[1:5] == [chapter.name for chapter in story.chapters]


def test_what_was_not_sampled_is_no_zero() -> None:
    story = slow_zone()
    first = story.chapters[0].seconds
    second = first + story.chapters[1].seconds
    gap = [line for line in lines(story) if not first < (line["t"] - T0) / S <= second]
    found = rows(seen(story, [*gap, {"t": T0, "kind": "missing", "says": "timed out"}]))
    row = found["rows"][story.chapters[1].name]
    assert row["searches"] is None and row["known"] == 0 and found["missing"] == 1
    half = [line for line in lines(story) if (line["t"] - T0) / S > first / 2]
    assert 0.3 < rows(seen(story, half))["rows"][story.chapters[0].name]["known"] < 0.7


RECORD = Record(slow_zone().history())


@given(some.lists(some.integers(0, 99), min_size=1, max_size=30))
def test_all_that_was_done_is_somewhere(done: list[int]) -> None:
    lines = [grown(2 * n, searches / 2) for n, searches in enumerate(done, 1)]
    RECORD._lines = lambda name: lines
    found = foreign.table(RECORD)
    assert found is not None
    seconds = {span.name: span.seconds for span in RECORD.spans}
    rows = {name: row for name, row in found["rows"].items() if name in seconds and row["searches"]}
    counted = sum(row["searches"] * row["known"] * seconds[name] for name, row in rows.items())
    assert counted == pytest.approx(sum(done), rel=0.02, abs=0.5)


@pytest.mark.parametrize(
    "line",
    [
        {"t": T0, "kind": "grown"},
        {"t": T0, "kind": "grown", "seconds": 0.0, "searches": 1},
        {"t": T0, "kind": "grown", "seconds": None},
        {"t": T0, "kind": "baseline"},
        {"t": T0, "kind": "other"},
    ],
)
def test_a_line_that_was_cut_or_is_unknown_spoils_no_page(line: dict[str, Any]) -> None:
    story = slow_zone()
    for given_lines in ([line], [*lines(story), line]):
        history = seen(story, given_lines)
        page = Page(render_html(history, evaluate(history).to_json()))
        assert "What others did meanwhile" in page.words
    assert "nothing was answered twice" in Page(page_of(seen(story, [line]))).words.lower()


def page_of(history: History) -> str:
    return render_html(history, evaluate(history).to_json())


def test_the_page_shows_others_beside_ours_and_what_cannot_end_the_run() -> None:
    story = slow_zone()
    says = "foreign indexing, fewer: nothing ends the run: 3 documents indexed in 30 s, and 84 are needed"
    baseline = {
        "t": T0,
        "kind": "baseline",
        "since": T0 - 30 * S,
        "limits": "search 3x slower or 50% fewer, for 10s",
        "judged": ["fewer search"],
        "undecided": [says],
    }
    text = page_of(seen(story, [*lines(story), baseline]))
    words = Page(text).words
    assert "What others did meanwhile" in words and says[0].upper() + says[1:] in words
    assert "search 3x slower or 50% fewer, for 10s" in words and "reads 100/s, writes 100/s" in words
    assert text.count("of others: ") >= 2 and "Nothing would have ended the run" not in words
    assert "Nothing would have ended the run" in Page(page_of(seen(story, lines(story)))).words


def test_a_lab_has_no_such_section() -> None:
    story = slow_zone()
    history = story.history()
    assert "foreign" not in evaluate(history).tables
    assert 'id="others"' not in page_of(history) and "#others" not in page_of(history)


def test_an_abort_says_when_the_load_was_stopped_and_all_was_undone(tmp_path: Path) -> None:
    story = aborted()
    chapter = story.chapters[1]
    at = story.chapters[0].seconds
    chapter.events = [event for event in chapter.events if event[1] != "abort.undone"]
    asked = T0 + int((at + 44.5) * S)
    chapter.event(
        44.9, "abort.undone", asked=asked, faults=[], actions=1, seconds=0.4, proven=True, proven_seconds=None
    )
    chapter.event(44.52, "load.ceased")
    folder = story.write(tmp_path / "run")
    (folder / "history" / "foreign.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines(story)))
    words = Page(render(folder).read_text()).words
    assert "Everything was undone 400 ms after the stop was asked for" in words
    assert "the load was stopped 20 ms after it" in words
    assert "The load was stopped 20 ms after the stop was asked for, and everything was undone 400 ms after it" in (
        folder / "summary.md"
    ).read_text().replace("\\", "")
    found = json.loads((folder / "findings.json").read_text())
    assert found["abort"]["load_seconds"] == pytest.approx(0.02) and found["abort"]["actions"] == 1
    assert "What others did meanwhile" in Page(render(folder, redact=True).read_text()).words
