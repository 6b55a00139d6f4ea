"""Actions: what they do to a cluster, and what of them stands in the ledger then."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fake_cluster import FakeCluster
from fakes import Log

from chaos.definitions.actions import (
    ExcludeVotes,
    IncludeVotes,
    IndexClose,
    IndexCreate,
    IndexDelete,
    IndexOpen,
    Reroute,
    Restore,
    RetryFailed,
    Weights,
)
from chaos.faults.actions import perform, reversible
from chaos.faults.ledger import Ledger, moves, standing
from chaos.faults.lifecycle import undo_entries
from chaos.instruments.settings import Configuration
from chaos.opensearch.requests import marked


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


# ---- indices beside the load's, and reroute --------------------------------------------------------------


def test_an_index_is_made_closed_opened_and_deleted_and_nothing_is_left_to_undo(lab: Any, ledger: Ledger) -> None:
    made = IndexCreate(index="archive", settings={"index.number_of_replicas": 0})
    assert done(lab, ledger, made) == (True, "make the index archive with index.number_of_replicas 0: done")
    assert lab.indices["archive"] == {"index.number_of_replicas": 0}
    assert done(lab, ledger, IndexClose(index="archive"))[0] and lab.closed == {"archive"}
    assert [operation for operation, _ in stand(ledger)] == ["index.close", "index.create"]
    assert done(lab, ledger, IndexOpen(index="archive"))[0] and lab.closed == set()
    assert [operation for operation, _ in stand(ledger)] == ["index.create"]
    assert done(lab, ledger, IndexClose(index="archive"))[0]
    assert done(lab, ledger, IndexDelete(index="archive"))[0]
    assert "archive" not in lab.indices and "chaos" in lab.indices and stand(ledger) == []


def test_what_a_run_leaves_open_and_closed_goes_with_it(lab: Any, ledger: Ledger) -> None:
    for action in (IndexCreate(index="one"), IndexCreate(index="two"), IndexClose(index="two")):
        assert done(lab, ledger, action)[0]
    assert undo_entries(lab, ledger, ledger.standing()) == []
    assert set(lab.indices) == {"chaos"} and stand(ledger) == []


@pytest.mark.parametrize("kind", [IndexClose, IndexOpen, IndexDelete])
def test_an_index_that_this_run_did_not_make_is_left_alone(lab: Any, ledger: Ledger, kind: Any) -> None:
    well, says = done(lab, ledger, kind(index="chaos"))
    assert not well and "this run has no index chaos that it made" in says
    assert "chaos" in lab.indices and lab.closed == set() and moves(ledger.path) == []


def test_an_index_that_somebody_else_put_into_its_place_is_left_alone(lab: Any, ledger: Ledger) -> None:
    assert done(lab, ledger, IndexCreate(index="archive"))[0]
    lab.marks["archive"] = {"uuid": "another", "meta": {}}
    for kind in (IndexClose, IndexDelete):
        well, says = done(lab, ledger, kind(index="archive"))
        assert not well and "is not the one that this run made" in says
    assert "archive" in lab.indices and lab.closed == set()


@pytest.mark.parametrize(("action", "query"), [(Reroute(), "metric=none"), (RetryFailed(), "retry_failed=true")])
def test_the_cluster_is_asked_to_allocate_again(lab: Any, ledger: Ledger, action: Any, query: str) -> None:
    assert done(lab, ledger, action)[0]
    (asked,) = [each for each in lab.requests if "_cluster/reroute" in str(each)]
    assert query in str(asked) and ("retry_failed" in str(asked)) is isinstance(action, RetryFailed)
    assert stand(ledger) == []


# ---- what was there before -------------------------------------------------------------------------------

HIDDEN = [range(first, first + number) for first in range(3) for number in (1, 3)]
"""Which of the next answers come from a manager that was just elected and has not read its state."""


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.opensearch.administration.time.sleep", lambda _: None)


@pytest.mark.parametrize("window", HIDDEN, ids=str)
def test_the_weights_before_are_those_that_a_new_manager_hides(lab: Any, at_once: None, window: range) -> None:
    lab.weights = {"a": "1.0", "b": "1.0", "c": "0.0"}
    lab.forgetful = window
    both = reversible(Weights.model_validate({"a": 1, "b": 0, "c": 1}), lab)
    assert both.inverse is not None and both.inverse.arguments["before"] == {"a": 1, "b": 1, "c": 0}


@pytest.mark.parametrize("window", HIDDEN, ids=str)
def test_a_copy_has_the_mark_of_the_index_that_a_new_manager_hides(lab: Any, at_once: None, window: range) -> None:
    lab.put_index("load", {"settings": {}, "mappings": marked(None, "ours")})
    lab.forgetful = window
    both = reversible(Restore(name="before"), lab, index="load")
    assert both.inverse is not None and both.inverse.arguments["owner"] == "ours"
