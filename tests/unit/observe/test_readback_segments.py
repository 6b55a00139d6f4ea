"""The read-back where replicas copy segments: the primary decides, and a replica that is behind is stale."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.observe import readback
from chaos.observe.readback import Asked, Comparison, CopyRead, Index, read_back
from chaos.observe.written import Written
from chaos.opensearch.replication import Lag
from chaos.opensearch.views import ShardCopy, View

BEHIND = Lag("chaos", 0, "b", 3, 27_765, 61.0)
WRITTEN = {"w-1", "w-2", "w-3"}


def copy(node: str, *ids: str, error: str | None = None) -> CopyRead:
    return CopyRead(ShardCopy("chaos", 0, node == "a", "STARTED", node), set(ids), error)  # type: ignore[arg-type]


def compared(*reads: CopyRead, behind: dict[str, Lag | None] | None = None, **more: Any) -> dict[str, Any]:
    places = {(0, node): lag for node, lag in (behind or {}).items()}
    return Comparison(list(reads), readback.Ids.of(WRITTEN), 1, 1024, behind=places, **more).to_json()


def counts(found: dict[str, Any]) -> dict[str, int]:
    names = ("lost", "diverged", "unavailable", "stale")
    return {name: found[f"{name}_count"] for name in names if found[f"{name}_count"]}


def test_replicas_that_have_caught_up_are_compared() -> None:
    found = compared(copy("a", *WRITTEN), copy("b", *WRITTEN))
    assert counts(found) == {} and found["replicas_count"] == 1 and found["stale"] == []
    found = compared(copy("a", *WRITTEN), copy("b", "w-1", "w-2"))
    assert counts(found) == {"diverged": 1} and found["diverged"] == [{"id": "w-3", "missing_on": ["b"]}]


def test_a_replica_that_is_behind_is_stale_and_nothing_else_is_held_against_it() -> None:
    late = copy("b", "w-1", "w-9")  # w-9 was deleted since
    late.inside.blame("w-1", "source", "as before an update")
    late.keys = {"c-0": (4, 9, 1)}
    whole = copy("a", *WRITTEN)
    whole.keys = {"c-0": (5, 10, 1)}
    fates = Written(acknowledged=WRITTEN, deleted={"w-9"})  # type: ignore[arg-type]
    found = compared(whole, late, behind={"b": BEHIND}, fates=fates)
    assert counts(found) == {"stale": 1} and found["complete"]
    assert found["wrong_content_count"] == 0 and found["unacknowledged_present"] == 0
    assert found["stale"] == [{"shard": 0, "node": "b", "lacks": 2, "checkpoints": 3, "bytes": 27_765, "seconds": 61.0}]
    assert [each["node"] for each in found["copies"]] == ["a", "b"]


def test_what_the_primary_lacks_is_lost_even_where_a_replica_has_it() -> None:
    found = compared(copy("a", "w-1", "w-2"), copy("b", *WRITTEN))
    assert counts(found) == {"lost": 1} and found["lost"] == ["w-3"]
    unread = compared(copy("a", "w-1", "w-2"), copy("b", error="no answer"))
    assert counts(unread) == {"lost": 1} and not unread["complete"]


def test_without_a_primary_what_no_replica_shows_may_be_in_their_translogs() -> None:
    found = compared(copy("b", "w-1"), copy("c", "w-1", "w-2"), behind={"b": None, "c": None})
    assert counts(found) == {"unavailable": 1}


def test_of_a_replica_that_nothing_is_said_of_a_difference_tells() -> None:
    same = compared(copy("a", *WRITTEN), copy("b", *WRITTEN), behind={"b": None})
    assert counts(same) == {}
    other = compared(copy("a", *WRITTEN), copy("b", "w-1"), behind={"b": None})
    assert counts(other) == {"stale": 1} and other["stale"][0]["checkpoints"] is None


class Copying:
    """A cluster of one shard whose replica is behind at the first so many looks, each time by a document."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *looks: Lag | None) -> None:
        self.slept: list[float] = []
        self.given: list[float] = []
        self.looks, self.asked = list(looks), 0
        view = View("a", 1, "a", frozenset("ab"), tuple(ShardCopy("chaos", 0, n == "a", "STARTED", n) for n in "ab"))
        monkeypatch.setattr(readback, "views", lambda _: [view])
        for name, answer in (("_refresh", None), ("_routing", Index(1, 1024)), ("_check_routing", None)):
            monkeypatch.setattr(readback, name, lambda *_, answer=answer, **__: answer)
        monkeypatch.setattr(readback, "_read_copy", self.read)
        monkeypatch.setattr(readback, "not_caught_up", self.await_replicas)

    def await_replicas(self, lab: Any, index: str, replicas: list[Any], seconds: float, **_: Any) -> dict[Any, Any]:
        assert replicas in ([], [(0, "b")])
        if not replicas:
            return {}
        self.asked += 1
        self.given.append(seconds)
        return {(0, "b"): self.looks[self.asked - 1]} if self.asked <= len(self.looks) else {}

    def read(self, lab: Any, copy: ShardCopy, asked: Asked) -> CopyRead:
        late = copy.node == "b" and self.asked <= len(self.looks)
        ids = {"w-1"} if late else {"w-1", "w-2"}
        return CopyRead(copy, ids, total=len(ids))  # type: ignore[arg-type]

    def found(self) -> dict[str, Any]:
        written = Written(acknowledged={"w-1", "w-2"})  # type: ignore[arg-type]
        return read_back(None, "chaos", written, sleep=self.slept.append, segments=True)  # type: ignore[arg-type]


def test_replicas_are_awaited_before_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Copying(monkeypatch)
    found = cluster.found()
    assert found["stale_count"] == found["diverged_count"] == 0 and cluster.asked == 1 and cluster.slept == []


def test_one_that_is_known_to_be_behind_is_stale_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Copying(monkeypatch, BEHIND)
    found = cluster.found()
    assert found["stale_count"] == 1 and found["stale"][0]["lacks"] == 1 and cluster.slept == []


def test_one_of_which_nothing_is_said_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    once = Copying(monkeypatch, None)
    assert once.found()["stale_count"] == 0 and once.slept == [2.0]
    assert set(once.given) == {readback.CATCH_UP_SECONDS}  # what came meanwhile must be copied, too
    never = Copying(monkeypatch, *[None] * 9)
    assert never.found()["stale_count"] == 1 and never.slept == [2.0, 5.0, 10.0]
