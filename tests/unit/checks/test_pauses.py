"""Processes that an external actor paused: the verdict, and what the page says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import synthetic
from synthetic import Chapter, Story, expect

from chaos.checks import evaluate
from chaos.checks.record import Record
from chaos.history import pauses
from chaos.instruments.process_pauses import DUE, table
from chaos.report import render

PAUSED = {
    "what": "node",
    "name": "a-data",
    "node": "a-data",
    "zone": "a",
    "pid": 4711,
    "state": "T",
    "commanded": False,
}


class Watched(Story):
    """A run whose plan says that the record is due."""

    def plan(self) -> dict[str, Any]:
        return super().plan() | {DUE: True}


def story(
    *, watched: bool = True, why: str | None = None, until: float | None = 12.0, due: bool = True, **given: Any
) -> Story:
    """A node is paused 4 s into a slow zone that everything bears, and goes on 8 s later."""
    slow = Chapter("slow", 30).fault(kind="network.latency", targets=("c-data",))
    if given.pop("paused", True):
        event = PAUSED | given
        slow.event(4.0, pauses.PAUSED, **event)
        if until is not None:
            slow.event(until, pauses.RESUMED, what=event["what"], name=event["name"], pid=4711, gone=False)
    healthy = Chapter("healthy", 20)
    if watched:
        healthy.event(0.0, pauses.WATCHED, processes=["node a-data"])
    returned = Chapter("returned", 20).lift()
    if watched:
        returned.event(19.9, pauses.UNWATCHED, because=why)
    return (Watched if due else Story)(
        name="pauses",
        chapters=[healthy, slow, returned],
        expect=[
            expect("read.good", ">=", 0.9, ("healthy",)),
            expect("read.good", ">=", 0.9, ("slow",)),
            expect("acknowledged.lost", "==", 0),
        ],
    )


def reasons(told: Story) -> list[str]:
    return [each.says for each in evaluate(told.history()).reasons]


def test_without_a_pause_the_run_passes() -> None:
    findings = evaluate(story(paused=False).history())
    assert findings.outcome == "pass", findings.reasons
    assert "pauses" not in findings.tables


def test_a_pause_by_a_fault_does_not_count() -> None:
    assert evaluate(story(commanded=True).history()).outcome == "pass"


def test_any_other_pause_is_named_and_what_follows_does_not_count() -> None:
    findings = evaluate(story().history())
    assert findings.outcome == "inconclusive"
    assert findings.reasons[0].says == (
        "Node a-data was paused from outside for 8 s, 4 s into “slow”; no fault of this run did that"
    )
    assert findings.summary.lower().startswith("nothing proven: node a-data was paused from outside")
    counts = {(finding.metric, finding.phase): finding.counts_as for finding in findings.findings}
    assert counts["read.good", "healthy"] == "pass", "it was over before"
    assert counts["read.good", "slow"] == counts["acknowledged.lost", None] == "inconclusive"


def test_what_was_measured_since_the_look_before_does_not_count_either() -> None:
    """The pause may have begun right after the last look that did not find it."""
    told = story()
    edge = told.chapters[0].seconds
    since = synthetic.T0 + round((edge - 1) * synthetic.S)
    told.chapters[1].events[:] = [
        (at, kind, {**fields, "since": since} if kind == pauses.PAUSED else fields)
        for at, kind, fields in told.chapters[1].events
    ]
    findings = evaluate(told.history())
    counts = {(finding.metric, finding.phase): finding.counts_as for finding in findings.findings}
    assert counts["read.good", "healthy"] == "inconclusive"


def test_a_lost_write_counts_after_a_pause_too() -> None:
    told = story()
    told.readback = {**synthetic.READBACK, "lost": ["w-7"], "lost_count": 1}
    findings = evaluate(told.history())
    assert findings.outcome == "weakness" and "1 acknowledged write" in findings.summary


def test_the_page_says_what_to_do(tmp_path: Path) -> None:
    folder = story().write(tmp_path / "run")
    page = render(folder).read_text()
    assert "Find out what paused it, then run it again" in page
    assert "Node a-data was paused from outside for 8 s" in page


@pytest.mark.parametrize(
    "given, words",
    [
        ({"what": "service", "name": "store", "node": None}, "The service store was paused from outside for 8 s"),
        ({"state": "t"}, "Node a-data was paused from outside by a debugger for 8 s"),
        ({"until": None}, "and was not seen to go on; no fault"),
    ],
)
def test_the_reason_names_process_actor_and_duration(given: dict[str, Any], words: str) -> None:
    assert words in reasons(story(**given))[0]


def test_a_word_of_a_phase_that_allows_nothing_excuses_nothing() -> None:
    assert "was paused" in reasons(story(during="slow"))[0]


@pytest.mark.parametrize("given", [{"watched": False}, {"why": "OSError: no /proc"}])
def test_without_a_watch_nothing_passes(given: dict[str, Any]) -> None:
    findings = evaluate(story(paused=False, **given).history())
    assert findings.outcome == "inconclusive"
    assert "whether a process was paused" in findings.reasons[0].says


def test_a_run_of_before_owes_no_such_record() -> None:
    assert evaluate(story(paused=False, watched=False, due=False).history()).outcome == "pass"


def test_the_table_has_how_long_it_was() -> None:
    (row,) = table(Record(story().history()))
    assert row["seconds"] == pytest.approx(8.0) and row["at"] == pytest.approx(24.0)
