"""What a phase waited for: when it counts, what it may do, and what is told of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from synthetic import Chapter, Story, expect

from chaos.checks import evaluate, ladder, timeline
from chaos.checks.record import Record
from chaos.history import ends
from chaos.report import render

DATA = ("a-data", "b-data", "c-data")


def story(chapter: Chapter) -> Story:
    wanted = [
        expect("read.good", ">=", 0.9, ("healthy",)),
        expect("read.good", ">=", 0.9, ("roll",)),
        expect("recovery.regained", "<=", 30, ("roll",)),
        expect("acknowledged.lost", "==", 0),
    ]
    return Story(name="rolls", chapters=[Chapter("healthy", 20), chapter, Chapter("after", 10)], expect=wanted)


def rolled(**given: Any) -> Chapter:
    return Chapter("roll", 30).waits(nodes=DATA, **given)


def end(node: str = "a-data", **given: Any) -> dict[str, Any]:
    fact = {"what": "node", "name": node, "node": node, "zone": node[0], "pid": 1, "exit_code": None}
    fact |= {"signal": "SIGTERM", "oom_kill": False, "fatal": None, "sent": False, "report": None, "log_tail": []}
    return {**fact, "commanded": False, "during": "roll", **given}


def without(kind: str) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    return lambda events: [event for event in events if event["kind"] != kind]


def test_what_was_waited_for_and_is_shown_passes() -> None:
    chapter = rolled().event(3.0, ends.KIND, **end()).event(7.0, ends.KIND, **end("b-data"))
    findings = evaluate(story(chapter).history())
    assert findings.outcome == "pass", findings.reasons
    (shown,) = findings.tables["during"]
    assert shown["proven"] is True and shown["ok"] is True and shown["last"] == ["bye"]
    assert [item["says"] for item in shown["seen"]][:2] == ["a-data left", "a-data joined"]


def test_its_clocks_begin_when_it_begins_and_its_nodes_are_concerned() -> None:
    record = Record(story(rolled()).history())
    span = record.span("roll")
    assert span is not None and span.complete
    assert [each.name for each in record.healthy] == ["healthy"]
    found = ladder.table(record)["roll"]
    steps = {step["name"]: step for step in found["steps"]}
    assert found["trigger"] == "command: ./roll" and steps["in_effect"]["after"] == pytest.approx(19.0)
    assert steps["node_left"]["after"] == pytest.approx(2.0)
    assert timeline.concerned(record, span) == frozenset(DATA)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"ok": False, "exit_code": 3, "says": "ended with exit code 3"}, "ended with exit code 3: bye"),
        ({"ok": False, "exit_code": None, "says": "it was not over within 1m"}, "it was not over within 1m"),
    ],
)
def test_what_failed_is_no_test_of_anything(given: dict[str, Any], says: str) -> None:
    findings = evaluate(story(rolled(**given)).history())
    assert findings.outcome == "inconclusive" and says in findings.summary, findings.summary
    counts = {(finding.metric, finding.phase): finding.counts_as for finding in findings.findings}
    assert counts["read.good", "healthy"] == "pass" and counts["read.good", "roll"] == "inconclusive"


@pytest.mark.parametrize("lost", ["during.begun", "during.over", "during.proof"])
def test_without_a_trace_of_it_nothing_passes(lost: str) -> None:
    told = story(rolled())
    told.mutate = without(lost)
    assert evaluate(told.history()).outcome == "inconclusive"


def test_nodes_that_are_not_shown_to_be_others_are_no_proof() -> None:
    def unproven(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [
            event | {"proven": False, "says": "a-data is the process that it was"}
            if event["kind"] == "during.proof"
            else event
            for event in events
        ]

    told = story(rolled())
    told.mutate = unproven
    findings = evaluate(told.history())
    assert findings.outcome == "inconclusive" and "a-data is the process that it was" in findings.summary

    def of_another(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [e | {"nodes": {"z-data": {}}} if e["kind"] == "during.proof" else e for e in events]

    told.mutate = of_another
    assert evaluate(told.history()).outcome == "inconclusive"


@pytest.mark.parametrize(
    ("event", "outcome"),
    [
        (end(), "pass"),
        (end(signal="SIGKILL"), "pass"),
        (end("a-cm"), "inconclusive"),  # one that nobody had named, whoever says that it is allowed
        (end(what="toxiproxy"), "inconclusive"),
        (end(during=None), "inconclusive"),
        (end(oom_kill=True), "inconclusive"),
        (end(signal=None, exit_code=127, fatal="fatal error in thread [x]"), "weakness"),
    ],
)
def test_nodes_that_it_names_may_end_and_nothing_else(event: dict[str, Any], outcome: str) -> None:
    assert evaluate(story(rolled().event(6.0, ends.KIND, **event)).history()).outcome == outcome


def test_outside_of_it_an_end_is_as_unasked_as_ever() -> None:
    told = story(rolled())
    told.chapters[2].event(2.0, ends.KIND, **end())
    assert evaluate(told.history()).outcome == "inconclusive"


def test_where_nothing_proves_it_the_page_says_so(tmp_path: Path) -> None:
    told = story(Chapter("roll", 30).waits(restarts=None))
    findings = evaluate(told.history())
    assert findings.outcome == "pass", findings.reasons
    assert findings.tables["during"][0]["grade"] == "reported" and findings.tables["during"][0]["proven"] is None
    page = render(told.write(tmp_path / "run")).read_text()
    assert "Nothing proves what was done" in page and "grade reported" in page
    page = render(story(rolled()).write(tmp_path / "other")).read_text()
    assert "Nothing proves what was done" not in page and "seen to be others" in page
