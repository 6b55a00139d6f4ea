"""Indices of others on a cluster that is not ours: what they do with them neither fails a run nor passes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from fakes import FakeLab, Log
from hypothesis import given
from hypothesis import strategies as st
from synthetic import Chapter, Story, expect

from chaos.checks import evaluate
from chaos.history import others
from chaos.instruments.sampler import Sampler
from chaos.observe.counted import Counted
from chaos.opensearch.views import ShardCopy, View

OWN = "oschaos-1a2b-load"
NODES = tuple(node.name for node in FakeLab().topology.nodes)
GREEN, YELLOW, RED = ("STARTED", "STARTED"), ("STARTED", "UNASSIGNED"), ("UNASSIGNED", "UNASSIGNED")


def seen(version: int, leader: str | None = "a-cm", **indices: Sequence[str]) -> View:
    """Each index has one shard; its copies' states, the primary's first. ``own`` is the load's."""
    copies = [
        ShardCopy(
            OWN if name == "own" else name, 0, n == 0, state, None if state == "UNASSIGNED" else f"{'abc'[n]}-data"
        )
        for name, states in indices.items()
        for n, state in enumerate(states)
    ]
    return View("a-cm", version, leader, frozenset(NODES), tuple(copies))


@pytest.fixture
def log() -> Log:
    return Log()


def told(log: Log) -> list[tuple[str, str, str]]:
    return [(event["index"], event["how"], event["status"]) for event in log.of(others.INDEX)]


def test_an_index_that_others_make_meanwhile_says_nothing(log: Log) -> None:
    counted = Counted(OWN, seen(1, own=GREEN, logs=GREEN), log)
    now = seen(2, own=GREEN, logs=GREEN, rolled=RED)
    assert now.status == "red" and counted(now).status == "green" and told(log) == []


def test_those_that_were_there_count_as_ever(log: Log) -> None:
    counted = Counted(OWN, seen(1, own=GREEN, logs=GREEN), log)
    assert counted(seen(2, own=GREEN, logs=YELLOW)).status == "yellow"
    assert counted(seen(3, own=RED, logs=GREEN)).status == "red"
    assert counted(seen(4, own=GREEN, logs=GREEN)).status == "green" and told(log) == []


@pytest.mark.parametrize(("before", "status"), [(GREEN, "green"), (YELLOW, "yellow"), (RED, "red")])
def test_one_that_others_delete_is_told_with_what_it_was(log: Log, before: tuple[str, str], status: str) -> None:
    counted = Counted(OWN, seen(1, own=GREEN, logs=GREEN), log)
    counted(seen(2, own=GREEN, logs=before))
    assert counted(seen(3, own=GREEN)).status == "green"
    assert counted(seen(4, own=GREEN, logs=RED)).status == "green"  # a new one of its name
    assert told(log) == [("logs", "gone", status)]


def test_one_of_which_others_change_the_copies_does_not_count_any_more(log: Log) -> None:
    counted = Counted(OWN, seen(1, own=GREEN, logs=GREEN), log)
    assert counted(seen(2, own=GREEN, logs=(*GREEN, "UNASSIGNED"))).status == "green"
    assert told(log) == [("logs", "copies", "green")]


def test_the_load_s_own_counts_whatever_becomes_of_it(log: Log) -> None:
    counted = Counted(OWN, seen(1, own=GREEN), log)
    assert counted(seen(2, own=(*GREEN, "UNASSIGNED"))).status == "yellow" and told(log) == []


def test_a_word_that_is_older_or_that_nobody_leads_changes_nothing(log: Log) -> None:
    counted = Counted(OWN, seen(5, own=GREEN, logs=GREEN), log)
    counted(seen(4, own=GREEN))
    counted(seen(6, None, own=GREEN))
    assert told(log) == [] and counted(seen(7, own=GREEN, logs=YELLOW)).status == "yellow"


STATES = st.sampled_from([GREEN, YELLOW, RED, (*GREEN, "STARTED")])


@given(
    first=st.dictionaries(st.sampled_from("xyz"), STATES),
    later=st.lists(st.dictionaries(st.sampled_from("uvwxyz"), STATES), max_size=5),
    own=st.sampled_from([GREEN, YELLOW, RED]),
)
def test_what_others_make_never_matters(first: dict[str, Any], later: list[dict[str, Any]], own: Any) -> None:
    """With and without the indices that were not there in the beginning a view comes to the same."""
    one, other = Log(), Log()
    a = Counted(OWN, seen(1, own=own, **first), one)
    b = Counted(OWN, seen(1, own=own, **first), other)
    for version, indices in enumerate(later, 2):
        known = {name: states for name, states in indices.items() if name in first}
        assert a(seen(version, own=own, **indices)) == b(seen(version, own=own, **known))
    assert one.events == other.events


def test_the_sampler_tells_ours_from_theirs(log: Log) -> None:
    """A rollover, a deletion and a move of shards of others: no event of a shard, and the colour is ours."""
    begun = seen(1, own=GREEN, logs=GREEN)
    sampler = Sampler(FakeLab(), log, OWN, Counted(OWN, begun, log))  # type: ignore[arg-type]
    sampler._take([begun])
    log.events.clear()
    moved = ShardCopy("logs", 0, False, "RELOCATING", "b-data", "c-data")
    rolled = seen(2, own=GREEN, logs=GREEN, rolled=("INITIALIZING", "UNASSIGNED"))
    sampler._take([rolled])
    copies = tuple(moved if copy.index == "logs" and not copy.primary else copy for copy in rolled.copies)
    sampler._take([View("a-cm", 3, "a-cm", rolled.nodes, copies)])
    sampler._take([seen(4, own=GREEN)])
    assert {event["kind"] for event in log.events} == {"sample", others.INDEX}
    assert {event["status"] for event in log.of("sample")} == {"green"}
    sampler._take([seen(5, own=("STARTED", "INITIALIZING"))])
    assert log.of("cluster.status")[0]["status"] == "yellow"


def story(status: str) -> Story:
    chapter = Chapter("slow", 30).fault().event(9.0, others.INDEX, index="logs-1", how="gone", status=status)
    wanted = [
        expect("recovery.green", "<=", 30, ("returned",)),
        expect("shards.moved", "==", 0, ("slow",)),
        expect("acknowledged.lost", "==", 0),
    ]
    return Story(
        name="others", chapters=[Chapter("healthy", 20), chapter, Chapter("returned", 20).lift()], expect=wanted
    )


def test_one_that_was_deleted_before_it_was_green_again_leaves_open_how_soon_that_was() -> None:
    assert evaluate(story("green").history()).outcome == "pass"
    findings = evaluate(story("yellow").history())
    assert findings.outcome == "inconclusive"
    assert "index logs-1 was deleted by others while it was yellow" in findings.summary
    counts = {finding.metric: finding.counts_as for finding in findings.findings}
    assert counts["recovery.green"] == "inconclusive" and counts["acknowledged.lost"] == "pass"
