"""The read-back of a name with several indices: a document is in the one that was the newest when it was written."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from chaos.observe import readback
from chaos.observe.idsets import Ids
from chaos.observe.readback import Asked, CopyRead, Index, read_back
from chaos.observe.written import Written
from chaos.opensearch.routing import shard_of
from chaos.opensearch.views import ShardCopy, View

SHARDS, ROUTING = 2, 1024
OLD, NEW = ".ds-chaos-000001", ".ds-chaos-000002"
IDS = [f"w-{n}" for n in range(40)]
Held = dict[tuple[str, int, str], set[str] | None]
"""Index, shard and node → what that copy holds; None: it cannot be read."""


def of_shard(ids: list[str], shard: int) -> set[str]:
    return {id for id in ids if shard_of(id, SHARDS, ROUTING) == shard}


def whole(first: int = 20) -> Held:
    """The first so many documents in the old index, the others in the new one, each on two copies."""
    parts = {OLD: IDS[:first], NEW: IDS[first:]}
    return {(i, s, node): of_shard(ids, s) for i, ids in parts.items() for s in range(SHARDS) for node in "ab"}


class Cluster:
    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, held: Held, stored: set[int] | None = None, *, remote: bool = False
    ) -> None:
        self.held, self.slept, self.late = held, [], 0
        copies = tuple(ShardCopy(i, s, node == "a", "STARTED", node) for i, s, node in held)
        view = View("a", 1, "a", frozenset("ab"), copies)
        monkeypatch.setattr(readback, "views", lambda _: [view])
        monkeypatch.setattr(
            readback.rollover, "indices", lambda lab, name: sorted({i for i, _, _ in held} | {OLD, NEW})
        )
        index = Index(SHARDS, ROUTING, remote=remote)
        for name, answer in (("_refresh", None), ("_routing", index), ("_check_routing", None)):
            monkeypatch.setattr(readback, name, lambda *_, answer=answer, **__: answer)
        monkeypatch.setattr(
            readback, "_stored", lambda lab, index: stored if stored is not None else set(range(SHARDS))
        )
        monkeypatch.setattr(readback, "_read_copy", self.read)

    def read(self, lab: Any, copy: ShardCopy, asked: Asked) -> CopyRead:
        assert copy.node is not None
        ids = self.held[copy.index, copy.shard, copy.node]
        return CopyRead(copy, Ids.of(ids or ()), total=len(ids or ()), error="cannot connect" if ids is None else None)

    def found(self, acknowledged: list[str] = IDS, **fates: Any) -> dict[str, Any]:
        lab: Any = SimpleNamespace(topology=SimpleNamespace(nodes=[SimpleNamespace(name=each) for each in "ab"]))
        written = Written(acknowledged=set(acknowledged), **fates)
        return read_back(lab, "chaos", written, sleep=self.slept.append, rolled=True)


def counts(found: dict[str, Any]) -> list[int]:
    return [found[f"{word}_count"] for word in ("lost", "diverged", "unavailable", "unexpected", "duplicated")]


def test_what_is_in_either_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Cluster(monkeypatch, whole()).found()
    assert counts(found) == [0] * 5 and found["complete"] and found["reason"] is None
    assert found["index"] == "chaos" and found["acknowledged"] == len(IDS) == found["documents"]
    assert "stored_twice_count" not in found
    assert sorted(found["indices"]) == [OLD, NEW]
    assert sum(each["docs"] for each in found["copies"] if each["index"] == NEW) == 2 * 20


def test_what_is_in_none_of_them_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    held = {place: (ids or set()) - {"w-3", "w-33"} for place, ids in whole().items()}
    found = Cluster(monkeypatch, held).found()
    assert counts(found) == [2, 0, 0, 0, 0] and found["lost"] == ["w-3", "w-33"] and found["complete"]


def test_what_one_copy_of_its_index_lacks_has_diverged(monkeypatch: pytest.MonkeyPatch) -> None:
    shard = shard_of("w-33", SHARDS, ROUTING)
    held = whole()
    held[NEW, shard, "b"] = (held[NEW, shard, "b"] or set()) - {"w-33"}
    it = Cluster(monkeypatch, held)
    found = it.found()
    assert counts(found) == [0, 1, 0, 0, 0] and it.slept == [2.0, 5.0, 10.0]
    assert found["diverged"] == [{"index": NEW, "id": "w-33", "missing_on": ["b"]}]


def test_while_a_shard_of_any_is_not_read_nothing_of_it_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    shard = shard_of("w-3", SHARDS, ROUTING)
    other = min(of_shard(IDS[:20], 1 - shard))
    held = {place: (ids or set()) - {"w-3", other} for place, ids in whole().items()}
    held[NEW, shard, "a"] = held[NEW, shard, "b"] = None
    found = Cluster(monkeypatch, held).found()
    assert found["lost"] == [other] and not found["complete"] and "cannot connect" in found["reason"]
    new = of_shard(IDS[20:], shard)
    assert found["unavailable_count"] == len(new | {"w-3"})


def test_a_shard_of_which_nothing_is_left_loses_what_was_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    held = {place: ids for place, ids in whole().items() if place[:2] != (OLD, 1)}
    gone = of_shard(IDS[:20], 1)
    unavailable = Cluster(monkeypatch, held).found()
    assert unavailable["lost_count"] == 0 and unavailable["unavailable_count"] == len(gone)
    destroyed = Cluster(monkeypatch, held, stored={0}).found()
    assert set(destroyed["lost"]) == gone and destroyed["unavailable_count"] == 0
    in_a_store = Cluster(monkeypatch, held, stored={0}, remote=True).found()
    assert in_a_store["lost_count"] == 0 and in_a_store["unavailable_count"] == len(gone)


def test_what_was_sent_again_after_a_rollover_is_stored_twice_and_nothing_unexpected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = whole()
    for node in "ab":
        place = (NEW, shard_of("w-3", SHARDS, ROUTING), node)
        held[place] = (held[place] or set()) | {"w-3"}
    found = Cluster(monkeypatch, held).found()
    assert counts(found) == [0] * 5 and found["complete"]
    assert found["stored_twice"] == ["w-3"] and found["stored_twice_count"] == 1


def test_what_was_not_acknowledged_is_told_apart_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Cluster(monkeypatch, whole()).found(IDS[:18] + IDS[21:], open={"w-18"}, refused={"w-19"})
    assert [found[f"{word}_count"] for word in ("recovered", "resurrected", "unexpected")] == [1, 1, 1]
    assert found["unexpected"] == ["w-20"] and found["lost_count"] == 0


def test_a_name_without_an_index_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    it = Cluster(monkeypatch, whole())
    monkeypatch.setattr(readback.rollover, "indices", lambda lab, name: [])
    found = it.found()
    assert not found["complete"] and found["reason"] == "there is no index under chaos"
