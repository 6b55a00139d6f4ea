"""What users saw, in sentences: when it was over, as the clocks of all phases together say."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.checks.summary import told

INJECT, UNDO = "pause node b-data", "undo of pause node b-data"


def passed(**regained: dict[str, Any]) -> str:
    """The headline of a run whose writes were lost for 9 s in ``paused``. ``regained``: phase → its clock."""
    clocks = {name: {"bound": "exact", "trigger": UNDO, **item} for name, item in regained.items()}
    rows = {"write": {"total": 9.0, "phases": {"paused": 9.0, "returned": 0.0, "later": 0.0}}}
    faults = [{"phase": "paused", "says": INJECT}]
    return told("pass", {"outage": rows, "regained": {"write": clocks}}, [], [], faults)[0]


@pytest.mark.parametrize(
    ("regained", "end"),
    [
        ({"paused": {"value": 5.0, "trigger": INJECT}}, "and came back 5 s after it began."),
        ({"paused": {"value": 50.0, "bound": "at least", "trigger": INJECT}}, "and were not seen to come back."),
        (
            {"paused": {"value": 50.0, "bound": "at least", "trigger": INJECT}, "returned": {"value": 3.0}},
            f"and came back 3 s after “{UNDO}”.",
        ),
        (
            {"paused": {"value": 50.0, "bound": "at least", "trigger": INJECT}, "returned": {"value": 0.0}},
            f"and came back at once after “{UNDO}”.",
        ),
        (  # what comes next may be good by chance: only an undo ends a fault
            {
                "paused": {"value": 50.0, "bound": "at least", "trigger": INJECT},
                "returned": {"value": 0.0, "trigger": "kill node c-data"},
            },
            "and were not seen to come back.",
        ),
    ],
)
def test_when_it_was_over_is_told_by_the_first_clock_that_knows(regained: dict[str, Any], end: str) -> None:
    assert passed(**regained) == f"Writes failed or came late for 9 s during “{INJECT}”, {end}"


@pytest.mark.parametrize(
    ("good", "headline"),
    [
        (300, "Reads held."),
        (297, "Reads held."),
        (267, "Only 89.0 % of reads were good, without an outage: as few from the start."),
    ],
)
def test_what_was_bad_from_the_start_did_not_hold(good: int, headline: str) -> None:
    """No window is worse than those before, so there is no outage; users noticed all the same."""
    outage = {"read": {"total": 0.0, "phases": {"steady": 0.0}}}
    served = {"read": {"steady": {"scheduled": 300, "good": good}}}
    assert told("pass", {"outage": outage, "good": served}, [], [], [])[0] == headline
