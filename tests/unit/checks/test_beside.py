"""Programs beside the load: a run whose client was not there for all of it shows nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from synthetic import Chapter, Story, expect

from chaos.checks import evaluate

Events = list[dict[str, Any]]
PLANNED = {"shipper": {"command": ["./ship"], "within": 60.0}}


class Shipped(Story):
    """A story with a program beside its load."""

    def plan(self) -> dict[str, Any]:
        made = super().plan()
        made["experiment"]["programs"] = PLANNED
        return made


def story(change: Callable[[Events], Events] = lambda events: events, **over: Any) -> Shipped:
    last = {"ok": True, "exit_code": 0, "seconds": 40.0, "says": "ended with exit code 0", "log": "l", "last": []}
    chapters = [
        Chapter("healthy", 20).event(0.1, "program.begun", name="shipper", says="command: ./ship"),
        Chapter("after", 20).event(19.5, "program.over", **{"name": "shipper", **last, **over}),
    ]
    wanted = [expect("read.good", ">=", 0.9, ("after",)), expect("acknowledged.lost", "==", 0)]
    return replace(Shipped(name="ships", chapters=chapters, expect=wanted), mutate=change)


def test_one_that_ended_in_order_changes_nothing() -> None:
    findings = evaluate(story().history())
    assert findings.outcome == "pass", findings.reasons


@pytest.mark.parametrize(
    ("over", "says"),
    [
        ({"ok": False, "exit_code": 2, "says": "ended with exit code 2: no room"}, "shipper: ended with exit code 2"),
        ({"ok": False, "exit_code": None, "says": "did not end within 1m"}, "shipper: did not end within 1m"),
    ],
)
def test_one_that_failed_shows_nothing(over: dict[str, Any], says: str) -> None:
    findings = evaluate(story(**over).history())
    assert findings.outcome == "inconclusive" and says in findings.summary, findings.summary


@pytest.mark.parametrize(("lost", "says"), [("program.begun", "was not begun"), ("program.over", "it has no end")])
def test_what_is_not_in_the_record_did_not_happen(lost: str, says: str) -> None:
    findings = evaluate(story(lambda events: [each for each in events if each["kind"] != lost]).history())
    assert findings.outcome == "inconclusive" and says in findings.summary, findings.summary
