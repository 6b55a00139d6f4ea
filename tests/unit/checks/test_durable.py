"""What the remote store alone gave back: counted, not known, and never a pass where it was not looked at."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from mutations import Mutation, Stored, counts
from synthetic import Chapter, Story, expect

from chaos.checks import Findings, Outcome, defaults, durable

LINE = expect("read.good", ">=", 0.9, ("healthy",))


@cache
def _kept() -> Stored:
    story = Story(name="durable", rules=2, chapters=[Chapter("healthy", 30)], expect=[LINE])
    return Stored.of(story.history()).changed(durable.the_cluster_came_back_from_the_store)


def judged(*changes: Mutation) -> Findings:
    return _kept().changed(*changes).judged(LINE)


def finding(found: Findings) -> Any:
    return next(each for each in found.findings if each.metric == "durable.lost")


def test_what_came_back_is_said_with_what_was_emptied_and_what_it_took() -> None:
    found = judged()
    assert found.outcome is Outcome.PASS
    says = finding(found).says
    assert "acknowledged writes came back from the store alone; all nodes were emptied: green 19 s after" in says
    assert says.endswith("read back in 2 s")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (durable.an_acknowledged_id_is_not_in_the_store, "1 in no copy"),
        (durable.a_shard_could_not_be_restored, "40 on shards that were not restored"),
        (durable.the_store_gave_back_other_content, "1 with other content"),
        (durable.the_store_gave_back_what_was_deleted, "1 back after their delete was acknowledged"),
    ],
)
def test_what_did_not_come_back_is_a_weakness_without_a_line(change: Mutation, says: str) -> None:
    found = judged(change)
    assert counts(found)["durable.lost"] == "weakness" and found.outcome is Outcome.WEAKNESS
    assert says in finding(found).says


def nothing_is_said_of_a_shard(run: Stored) -> None:
    assert run.readback is not None
    run.readback["store"] |= {"unavailable_count": 40}


def no_node_was_read(run: Stored) -> None:
    assert run.readback is not None
    run.readback["store"]["copies"] = [{**each, "read": False} for each in run.readback["store"]["copies"]]


def fewer_were_looked_for(run: Stored) -> None:
    assert run.readback is not None
    run.readback["store"]["acknowledged"] = 1


@pytest.mark.parametrize(
    "change",
    [
        durable.no_cluster_was_restored,
        durable.the_restored_cluster_was_not_green_in_time,
        nothing_is_said_of_a_shard,
        no_node_was_read,
        fewer_were_looked_for,
    ],
)
def test_what_is_not_known_of_the_store_is_never_a_pass(change: Mutation) -> None:
    found = judged(change)
    assert counts(found)["durable.lost"] == "inconclusive" and found.outcome is Outcome.INCONCLUSIVE


def test_a_loss_stands_beside_what_is_not_known() -> None:
    found = judged(nothing_is_said_of_a_shard, durable.an_acknowledged_id_is_not_in_the_store)
    assert counts(found)["durable.lost"] == "weakness"


def another_tag(run: Stored) -> None:
    run.plan["experiment"]["tags"] = ["remote-store"]


def no_store(run: Stored) -> None:
    run.plan["topology"]["remote_store"] = None


@pytest.mark.parametrize("change", [another_tag, no_store])
def test_a_run_that_is_not_to_be_restored_is_judged_as_ever(change: Mutation) -> None:
    found = judged(change, durable.no_cluster_was_restored)
    assert "durable.lost" not in counts(found) and found.outcome is Outcome.PASS
    assert "durable" not in found.tables or found.tables["durable"] is None


def test_a_plan_says_that_it_is_promised_only_where_it_is_looked_at() -> None:
    experiment = {"tags": ["durable"], "topology": {"remote_store": {"service": "store"}}, "load": {"write": {}}}
    assert "durable.lost" in defaults.foreseen(experiment)
    assert "durable.lost" not in defaults.foreseen({**experiment, "tags": []})
    assert "durable.lost" not in defaults.foreseen({**experiment, "topology": {"remote_store": None}})
