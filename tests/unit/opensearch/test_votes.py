"""Votes that are taken away, and given back only where they are all ours."""

from __future__ import annotations

from typing import Any

import pytest
from apart import examples
from fake_cluster import FakeCluster
from hypothesis import given, settings
from hypothesis import strategies as some

from chaos.base.errors import LabError
from chaos.opensearch import administration
from chaos.opensearch.requests import EXCLUSIONS, still_voting

MANAGERS = ("a-cm", "b-cm", "c-cm")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(administration, "VOTES_SECONDS", 0.3)


def changes(lab: FakeCluster) -> list[tuple[str, str]]:
    return [(method, path) for _, method, path in lab.requests if path.startswith(EXCLUSIONS)]


def test_votes_are_taken_once_and_shown_to_be_away() -> None:
    lab: Any = FakeCluster()
    administration.exclude_votes(lab, ["b-cm", "a-cm"])
    assert lab.votes == ["a-cm", "b-cm"]
    assert [method for method, _ in changes(lab)] == ["POST"]
    assert changes(lab)[0][1].endswith("&node_names=b-cm%2Ca-cm")
    administration.exclude_votes(lab, ["b-cm", "a-cm"])
    assert len(changes(lab)) == 1


@pytest.mark.parametrize("why", ["still in the configuration", "away"])
def test_what_the_state_does_not_show_is_not_done(why: str) -> None:
    lab: Any = FakeCluster()
    if why == "away":
        lab.away = {"b-cm"}
    else:
        lab.keeps = {"b-cm"}
    with pytest.raises(LabError, match=r"b-cm still votes, or is away, 0\.3 s after its vote was taken"):
        administration.exclude_votes(lab, ["a-cm", "b-cm"])


def test_a_request_that_is_refused_is_said() -> None:
    lab: Any = FakeCluster()
    answer = lab.answer
    lab.answer = lambda node, method, path, body: (
        (400, {"error": "too many"}) if method == "POST" else answer(node, method, path, body)
    )
    with pytest.raises(LabError, match=r"taking the votes of a-cm away answered 400: .*too many"):
        administration.exclude_votes(lab, ["a-cm"])


def test_where_somebody_else_has_taken_votes_no_other_is_taken() -> None:
    lab: Any = FakeCluster()
    lab.votes = ["c-cm"]
    with pytest.raises(LabError, match="c-cm has no vote already, and OpenSearch gives votes back all at once"):
        administration.exclude_votes(lab, ["a-cm"])
    assert lab.votes == ["c-cm"] and changes(lab) == []


some_managers = some.sets(some.sampled_from(MANAGERS))


@settings(max_examples=examples(100))
@given(some_managers, some_managers)
def test_votes_are_given_back_where_all_that_are_away_are_ours_and_else_none(ours: set[str], now: set[str]) -> None:
    lab: Any = FakeCluster()
    lab.votes = sorted(now)
    for _ in range(2):  # an inverse may be applied again
        if ours & now and now - ours:
            with pytest.raises(LabError, match="somebody else has taken"):
                administration.include_votes(lab, sorted(ours))
            assert lab.votes == sorted(now) and changes(lab) == []
        else:
            administration.include_votes(lab, sorted(ours))
            assert lab.votes == ([] if ours & now else sorted(now))
    assert len(changes(lab)) == bool(ours & now and now <= ours)


def test_shown_is_what_stands_by_an_id_and_is_out_of_the_last_committed_configuration() -> None:
    def of(*excluded: tuple[str, str], voting: tuple[str, ...] = ("1", "3")) -> list[str]:
        entries = [{"node_name": name, "node_id": id} for name, id in excluded]
        coordination = {"last_committed_config": list(voting), "voting_config_exclusions": entries}
        return still_voting({"metadata": {"cluster_coordination": coordination}}, ["b", "a"])

    assert of() == ["a", "b"]
    assert of(("a", "2"), ("b", "1")) == ["b"]
    assert of(("a", "2"), ("b", "_absent_")) == ["b"]
    assert of(("a", "2"), ("b", "4"), ("c", "1")) == []
    with pytest.raises(KeyError):
        still_voting({"metadata": {"cluster_coordination": {}}}, ["a"])
