"""What AWS says of a domain: asked while a run lasts, written down as it changes, and shown beside the findings."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from chaos.base.errors import FaultError
from chaos.instruments import domain_health as domain
from chaos.instruments.domain_health import DomainHealth

ZONE = {"ZoneStatus": "Active", "ConfiguredDataNodeCount": "1", "AvailableDataNodeCount": "1"}
GOOD: dict[str, Any] = {
    "DomainState": "Active",
    "ClusterHealth": "Green",
    "MasterNode": "Available",
    "TotalUnAssignedShards": "0",
    "zones": {"eu-west-1a": ZONE, "eu-west-1b": ZONE},
}


class Events:
    def __init__(self) -> None:
        self.written: list[dict[str, Any]] = []

    def write(self, kind: str, **fields: Any) -> None:
        self.written.append({"kind": kind, **fields})


def test_it_is_written_down_as_it_changes_and_where_nobody_answers() -> None:
    answers: list[Any] = [GOOD, GOOD, FaultError("AccessDenied"), FaultError("AccessDenied"), GOOD | {"zones": {}}]
    asked, over = iter(answers), threading.Event()

    def ask() -> dict[str, Any]:
        answer = next(asked, None)
        if answer is None:
            over.set()
            answer = answers[-1]
        if isinstance(answer, FaultError):
            raise answer
        return dict(answer)

    events = Events()
    health = DomainHealth(ask, events, 0.001)
    health.start()
    assert over.wait(10)
    health.stop()
    health.stop()
    said = [event["said"] for event in events.written]
    assert said == [GOOD, None, GOOD | {"zones": {}}] and events.written[1]["why"] == "AccessDenied"
    assert {event["kind"] for event in events.written} == {"domain.health"}


def test_one_that_was_never_started_is_stopped() -> None:
    DomainHealth(lambda: GOOD, Events(), 1.0).stop()


class Record:
    def __init__(self, *said: Any) -> None:
        self.events = [{"t": number * 10**9, **each} for number, each in enumerate(said)]

    def seen(self, kind: type[Any]) -> list[Any]:
        return [kind.read(event) for event in self.events]

    def since_start(self, t: int) -> float:
        return t / 10**9


def test_a_row_for_each_answer_and_a_column_for_each_zone() -> None:
    lost = GOOD | {"ClusterHealth": "NotAvailable", "MasterNode": "UnAvailable", "zones": {"eu-west-1b": ZONE}}
    found = domain.table(Record({"said": GOOD}, {"said": None, "why": "no answer"}, {"said": lost}))  # type: ignore[arg-type]
    assert found == {
        "zones": ["eu-west-1a", "eu-west-1b"],
        "rows": [
            {"at": 0.0, "cluster": "Green", "copies": "0", "zones": ["Active, 1 of 1", "Active, 1 of 1"]},
            {"at": 1.0, "why": "no answer"},
            {"at": 2.0, "cluster": "NotAvailable, no master node", "copies": "0", "zones": ["-", "Active, 1 of 1"]},
        ],
    }


@pytest.mark.parametrize("said", [{}, {"said": "text"}, {"said": {"zones": 7}}, {"said": {"zones": {"a": 7}}}])
def test_what_was_cut_or_is_of_another_version_is_shown_as_far_as_it_goes(said: dict[str, Any]) -> None:
    found = domain.table(Record(said))  # type: ignore[arg-type]
    assert found is not None and len(found["rows"]) == 1 and found["zones"] == []


def test_no_domain_has_no_table() -> None:
    assert domain.table(Record()) is None  # type: ignore[arg-type]
