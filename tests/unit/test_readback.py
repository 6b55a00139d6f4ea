"""The read-back's comparison, and which shard an id belongs to."""

from __future__ import annotations

from typing import Any

import mmh3
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.load.workload import check_value
from chaos.observe import readback
from chaos.observe.cluster import ShardCopy
from chaos.observe.readback import NAMED, CopyRead, compare, read_back, shard_of

SHARDS, ROUTING = 3, 768
IDS = [f"w-{k}" for k in range(60)]


def copy(shard: int, node: str, ids: set[str], *, error: str | None = None, wrong: set[str] | None = None) -> CopyRead:
    return CopyRead(ShardCopy("chaos", shard, node == "a", "STARTED", node), ids, wrong or set(), error)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hell", 0x5A0CB7C3),
        ("hello", 0xD7C31989),
        ("hello w", 0x22AB2984),
        ("hello wo", 0xDF0CA123),
        ("hello wor", 0xE7744D61),
        ("The quick brown fox jumps over the lazy dog", 0xE07DB09C),
        ("The quick brown fox jumps over the lazy cog", 0x4E63D2AD),
    ],
)
def test_the_hash_is_the_servers(text: str, expected: int) -> None:
    """The known values of Murmur3HashFunctionTests in the server's sources."""
    assert mmh3.hash(text.encode("utf-16-le"), 0, signed=False) == expected
    signed = expected - 2**32 if expected >= 2**31 else expected
    floor_modulo = signed - ROUTING * (signed // ROUTING)
    assert shard_of(text, SHARDS, ROUTING) == floor_modulo // (ROUTING // SHARDS)


@given(st.text(max_size=20), st.sampled_from([(1, 1024), (2, 1024), (3, 768), (5, 640), (7, 896)]))
def test_every_id_has_one_shard(id: str, table: tuple[int, int]) -> None:
    assert 0 <= shard_of(id, *table) < table[0]


def test_ids_spread_over_all_shards() -> None:
    assert {shard_of(id, SHARDS, ROUTING) for id in IDS} == {0, 1, 2}


layouts = st.fixed_dictionaries(
    {
        shard: st.lists(st.tuples(st.frozensets(st.sampled_from(IDS)), st.booleans()), max_size=3)
        for shard in range(SHARDS)
    }
)


@given(st.frozensets(st.sampled_from(IDS)), layouts)
@settings(max_examples=150, deadline=None)
def test_every_acknowledged_id_is_whole_lost_diverged_or_unavailable(
    acknowledged: frozenset[str], layout: dict[int, list[tuple[frozenset[str], bool]]]
) -> None:
    reads = []
    for shard, copies in layout.items():
        for number, (ids, broken) in enumerate(copies):
            here = {id for id in ids if shard_of(id, SHARDS, ROUTING) == shard}
            reads.append(copy(shard, "abc"[number], here, error="timeout" if broken else None))
    found = compare(reads, acknowledged, SHARDS, ROUTING)

    lost, diverged, unavailable = set(), {}, 0
    for id in acknowledged:
        here = [r for r in reads if r.copy.shard == shard_of(id, SHARDS, ROUTING)]
        read = [r for r in here if r.error is None]
        without = [r.copy.node for r in read if id not in r.ids]
        if not read or (len(without) == len(read) and len(read) < len(here)):
            unavailable += 1  # somebody who could not be asked may have it
        elif len(without) == len(read):
            lost.add(id)
        elif without:
            diverged[id] = without
    assert set(found["lost"]) == lost and found["lost_count"] == len(lost)
    assert {d["id"]: d["missing_on"] for d in found["diverged"]} == diverged
    assert found["unavailable_count"] == unavailable
    assert found["complete"] is all(r.error is None for r in reads)
    assert found["unavailable_shards"] == [s for s in range(SHARDS) if not layout[s]]


def whole(*, without: set[str] | None = None) -> list[CopyRead]:
    return [
        copy(s, node, {id for id in IDS if shard_of(id, SHARDS, ROUTING) == s} - (without or set()))
        for s in range(SHARDS)
        for node in "ab"
    ]


def test_whole_is_whole() -> None:
    found = compare(whole(), IDS, SHARDS, ROUTING)
    assert found["complete"] and found["reason"] is None
    assert [found[f"{word}_count"] for word in ("lost", "diverged", "wrong_content", "unavailable")] == [0] * 4
    assert found["unacknowledged_present"] == 0
    assert sum(each["docs"] for each in found["copies"]) == 2 * len(IDS)


def test_lost_is_on_no_copy_and_more_is_no_loss() -> None:
    found = compare(whole(without={"w-3"}), IDS[:-1], SHARDS, ROUTING)
    assert found["lost"] == ["w-3"] and found["unacknowledged_present"] == 1


def test_destroyed_shards_lose_all_that_was_acknowledged_in_them() -> None:
    reads = [r for r in whole() if r.copy.shard != 1]
    there = {id for id in IDS if shard_of(id, SHARDS, ROUTING) == 1}
    unavailable = compare(reads, IDS, SHARDS, ROUTING)
    assert unavailable["unavailable_count"] == len(there) and unavailable["unavailable_shards"] == [1]
    assert unavailable["lost_count"] == 0
    destroyed = compare(reads, IDS, SHARDS, ROUTING, {1})
    assert set(destroyed["lost"]) == there and destroyed["unavailable_count"] == 0
    assert destroyed["unavailable_shards"] == [] and destroyed["destroyed_shards"] == [1]


def test_wrong_content_counts_for_acknowledged_documents_once() -> None:
    reads = whole()
    for read in reads[:2]:  # both copies of shard 0
        read.wrong |= {sorted(read.ids)[0], "w-999"}
    found = compare(reads, IDS, SHARDS, ROUTING)
    assert found["wrong_content"] == [sorted(reads[0].ids)[0]] and found["wrong_content_count"] == 1


def test_counts_are_exact_where_names_are_cut() -> None:
    many = [f"w-{k}" for k in range(NAMED + 500)]
    found = compare([copy(s, "a", set()) for s in range(SHARDS)], many, SHARDS, ROUTING)
    assert found["lost_count"] == len(many) and len(found["lost"]) == NAMED


# ---- reading one copy, and answers of another shape than expected ------------------------------------------


class Answers:
    """A lab whose nodes answer these, one after the other."""

    def __init__(self, *answers: tuple[int, Any]) -> None:
        self.answers, self.asked = list(answers), []

    def client(self, node: str, *, timeout: float) -> Answers:
        return self

    def request(self, method: str, path: str, *, body: Any = None) -> tuple[int, Any]:
        self.asked.append(dict(body))  # type: ignore[attr-defined]
        return self.answers.pop(0)

    def close(self) -> None:
        pass


def page(*ids: str, wrong: str | None = None) -> tuple[int, Any]:
    hits = [
        {"_id": id, "fields": {"check": [check_value(id) + (id == wrong)]}, "sort": [n, check_value(id)]}
        for n, id in enumerate(ids)
    ]
    return 200, {"timed_out": False, "_shards": {"successful": 1}, "hits": {"hits": hits}}


def test_a_copy_is_read_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readback, "PAGE", 2)
    lab = Answers(page("w-1", "w-2"), page("w-3", "w-4", wrong="w-4"), page())
    read = readback._read_copy(lab, ShardCopy("chaos", 0, True, "STARTED", "a-data"))  # type: ignore[arg-type]
    assert (read.ids, read.wrong, read.error) == ({"w-1", "w-2", "w-3", "w-4"}, {"w-4"}, None)
    assert [body.get("search_after") for body in lab.asked] == [  # type: ignore[attr-defined]
        None,
        [1, check_value("w-2")],
        [1, check_value("w-4")],
    ]


@pytest.mark.parametrize(
    "answer",
    [
        (503, "no"),
        (200, None),
        (200, "<html>"),
        (200, {"timed_out": True, "_shards": {"successful": 1}}),
        (200, {"timed_out": False, "_shards": {"successful": 0}}),
        (200, {"timed_out": False, "_shards": {"successful": 1}, "hits": {"hits": [{"_id": "w-1", "fields": {}}]}}),
        (
            200,
            {
                "timed_out": False,
                "_shards": {"successful": 1},
                "hits": {"hits": [{"_id": "w-1", "fields": {"check": []}}]},
            },
        ),
    ],
)
def test_a_copy_that_cannot_be_read_says_why(answer: tuple[int, Any]) -> None:
    copy = ShardCopy("chaos", 0, True, "STARTED", "a-data")
    read = readback._read_copy(Answers(answer), copy)  # type: ignore[arg-type]
    assert read.error and read.to_json()["read"] is False


@pytest.mark.parametrize(
    "answers",
    [{"shards": [[]]}, {"shards": []}, {}, None, "text"],
)
def test_an_odd_answer_makes_the_read_back_incomplete_and_never_raises(
    monkeypatch: pytest.MonkeyPatch, answers: Any
) -> None:
    monkeypatch.setattr(readback, "_refresh", lambda *_: None)
    monkeypatch.setattr(readback, "_routing", lambda *_: (SHARDS, ROUTING))
    monkeypatch.setattr(readback, "administer", lambda *_, **__: (200, answers))
    found = read_back(None, "chaos", {"w-1"})  # type: ignore[arg-type]
    assert found["complete"] is False and found["reason"]
