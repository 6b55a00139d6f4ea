"""Actions: what they do to a cluster, and what of them stands in the ledger then."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fake_cluster import FakeCluster
from fakes import Log

from chaos.definitions.actions import ExcludeVotes, IncludeVotes
from chaos.faults.actions import perform
from chaos.faults.ledger import Ledger, moves, standing
from chaos.instruments.settings import Configuration


@pytest.fixture
def lab() -> Any:
    return FakeCluster()


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.jsonl")


def exclude(target: str) -> ExcludeVotes:
    return ExcludeVotes.model_validate({"target": target})


def done(lab: Any, ledger: Ledger, action: Any) -> tuple[bool, str]:
    log: Any = Log()
    well = perform("a1", action, lab, ledger, log)
    (event,) = log.of("action.done")
    assert event["ok"] is well
    return well, event["says"]


def stand(ledger: Ledger) -> list[tuple[str, Any]]:
    return [(each.move.operation, each.inverse and each.inverse.to_json()) for each in standing(ledger.path)]


def test_votes_are_taken_away_and_given_back_by_name(lab: Any, ledger: Ledger) -> None:
    assert done(lab, ledger, exclude("node a-cm")) == (True, "take the votes of node a-cm away: done")
    assert lab.votes == ["a-cm"]
    assert stand(ledger) == [("votes.exclude", {"operation": "votes.include", "arguments": {"nodes": ["a-cm"]}})]
    assert done(lab, ledger, IncludeVotes()) == (True, "give the votes back: done")
    assert lab.votes == [] and stand(ledger) == []


def test_whoever_is_elected_at_that_moment_loses_its_vote(lab: Any, ledger: Ledger) -> None:
    lab.leader = "b-cm"
    assert done(lab, ledger, exclude("elected cluster manager"))[0]
    assert lab.votes == ["b-cm"]
    lab.leader = "a-cm"
    assert done(lab, ledger, IncludeVotes())[0] and lab.votes == []


def test_where_others_took_votes_nothing_is_written_down_and_nothing_done(lab: Any, ledger: Ledger) -> None:
    lab.votes = ["c-cm"]
    well, says = done(lab, ledger, exclude("node a-cm"))
    assert not well and "c-cm has no vote already" in says
    assert lab.votes == ["c-cm"] and stand(ledger) == []


def test_where_others_took_votes_since_ours_are_not_given_back_and_stay_in_the_ledger(lab: Any, ledger: Ledger) -> None:
    assert done(lab, ledger, exclude("node a-cm"))[0]
    lab.votes.append("c-cm")
    well, says = done(lab, ledger, IncludeVotes())
    assert not well and "somebody else has taken those of c-cm away since" in says
    assert lab.votes == ["a-cm", "c-cm"]
    assert ("votes.exclude", {"operation": "votes.include", "arguments": {"nodes": ["a-cm"]}}) in stand(ledger)


def test_there_is_nothing_to_give_back_where_none_was_taken(lab: Any, ledger: Ledger) -> None:
    lab.votes = ["c-cm"]
    well, says = done(lab, ledger, IncludeVotes())
    assert not well and "there is none to give back" in says and lab.votes == ["c-cm"] and stand(ledger) == []


def test_a_third_hand_is_told_apart_from_votes_that_we_took(lab: Any, ledger: Ledger) -> None:
    told: list[str] = []
    log: Any = Log()
    watch = Configuration(lab, log, "chaos", partial(moves, ledger.path), told.append)
    assert watch.look()
    assert done(lab, ledger, exclude("node a-cm"))[0] and watch.look() and told == []
    lab.votes.append("c-cm")
    assert watch.look()
    assert told == ["somebody else changed which nodes have no vote from a-cm to a-cm, c-cm"]
