"""Segment replication: which indices have it, and until when replicas are awaited."""

from __future__ import annotations

from typing import Any

import pytest
from fake_cluster import FakeCluster

from chaos.opensearch import replication
from chaos.opensearch.replication import Lag, not_caught_up, parse, path, replication_type

ROW = {"shardId": "[chaos][0]", "target_node": "b-data", "current_lag": "2832"}
"""As OpenSearch 3.8.0 answers with ``format=json&bytes=b&time=ms``; all values are text."""


def row(node: str, checkpoints: int, size: int = 0) -> dict[str, Any]:
    return {**ROW, "target_node": node, "checkpoints_behind": str(checkpoints), "bytes_behind": str(size)}


class Copying(FakeCluster):
    """Each answer about replicas is the next of ``answers``; the last stays. ``kind``: where the type is said."""

    def __init__(self, *answers: Any, kind: dict[str, Any] | None = None) -> None:
        super().__init__("3az")
        self.answers, self.kind = list(answers), kind or {}

    def answer(self, node: str, method: str, path_: str, body: Any) -> tuple[int, Any]:
        if path_ == path(["chaos"]):
            return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if path_.startswith("/chaos/_settings/index.replication.type?"):
            assert "include_defaults=true" in path_
            return 200, {"chaos": self.kind}
        return super().answer(node, method, path_, body)


def test_a_row_says_how_far_a_replica_is_behind() -> None:
    assert parse([row("b-data", 3, 27_765)]) == [Lag("chaos", 0, "b-data", 3, 27_765, 2.832)]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ({"settings": {"index.replication.type": "SEGMENT"}}, "SEGMENT"),
        ({"settings": {}, "defaults": {"index.replication.type": "SEGMENT"}}, "SEGMENT"),
        ({"settings": {}, "defaults": {"index.replication.type": "DOCUMENT"}}, "DOCUMENT"),
        ({"settings": {}}, "DOCUMENT"),  # a version that knows no other
    ],
)
def test_the_type_is_that_of_the_index_however_it_was_set(kind: dict[str, Any], expected: str) -> None:
    assert replication_type(Copying(kind=kind), "chaos") == expected


def test_of_a_name_with_several_indices_one_speaks_for_all() -> None:
    class Stream(Copying):
        def answer(self, node: str, method: str, path_: str, body: Any) -> tuple[int, Any]:
            _, found = super().answer(node, method, path_, body)
            return 200, {f".ds-chaos-00000{number}": found["chaos"] for number in (1, 2)}

    assert replication_type(Stream(kind={"settings": {"index.replication.type": "SEGMENT"}}), "chaos") == "SEGMENT"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replication, "LOOK_SECONDS", 0.001)
    monkeypatch.setattr(replication, "ROW_SECONDS", 0.03)


BOTH = [(0, "b-data"), (0, "c-data")]


def test_a_replica_has_caught_up_once_it_was_seen_with_nothing_to_copy() -> None:
    """A merge may give it more to copy at the next look."""
    cluster = Copying(
        (200, [row("b-data", 0), row("c-data", 2, 900)]),
        (503, {"error": "a node does not answer"}),
        (200, [row("b-data", 1, 50), row("c-data", 0)]),
    )
    assert not_caught_up(cluster, "chaos", BOTH, 5.0) == {}


def test_who_is_behind_at_the_end_is_named_with_how_far() -> None:
    cluster = Copying((200, [row("b-data", 0), row("c-data", 2, 900)]))
    assert not_caught_up(cluster, "chaos", BOTH, 0.05) == {(0, "c-data"): Lag("chaos", 0, "c-data", 2, 900, 2.832)}


@pytest.mark.parametrize("answer", [(200, []), (403, {"error": "forbidden"}), (200, [{"shardId": None}])])
def test_of_whom_nothing_is_said_nothing_is_known(answer: tuple[int, Any]) -> None:
    """And it is not awaited for as long as one that is known to be behind."""
    assert not_caught_up(Copying(answer), "chaos", BOTH, 60.0) == dict.fromkeys(BOTH)


def test_no_replicas_are_not_asked_for() -> None:
    cluster = Copying((200, []))
    assert not_caught_up(cluster, "chaos", [], 60.0) == {} and cluster.requests == []
