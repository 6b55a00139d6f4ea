"""What others do, from counters of copies: no order, no node that left and no counter that began anew makes traffic."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from chaos.opensearch.foreign import Copy, Counted, counted, grown, not_of
from chaos.opensearch.rest import UNREADABLE

FOREIGN = not_of("oschaos-", ".opensearch-chaos")
keys = some.tuples(some.sampled_from(["orders", "logs.1"]), some.sampled_from("01"), some.sampled_from("abc"))
numbers = some.integers(0, 10**6)
copies = some.builds(Copy, numbers, numbers, numbers, numbers, numbers)
several = some.dictionaries(keys, copies, max_size=8)


def said(copy: Copy) -> dict[str, Any]:
    return {
        "search": {"query_total": copy.searches, "query_time_in_millis": copy.search_ms},
        "indexing": {
            "index_total": copy.indexed,
            "index_time_in_millis": copy.index_ms,
            "index_failed": copy.failed,
        },
    }


def answer(held: dict[tuple[str, str, str], Copy], failed: int = 0) -> dict[str, Any]:
    """As OpenSearch writes it."""
    nodes: dict[str, Any] = {}
    for (index, shard, node), copy in held.items():
        shards = nodes.setdefault(node, {"indices": {"shards": {}}})["indices"]["shards"]
        shards.setdefault(index, []).append({shard: said(copy)})
    return {"_nodes": {"successful": 3 - failed, "failed": failed}, **({"nodes": nodes} if nodes else {})}


def after(held: dict[tuple[str, str, str], Copy], more: int) -> dict[tuple[str, str, str], Copy]:
    """Each copy has done ``more`` of everything."""
    return {
        key: Copy(*(value + more for value in (c.searches, c.search_ms, c.indexed, c.index_ms, c.failed)))
        for key, c in held.items()
    }


def of(held: dict[tuple[str, str, str], Copy]) -> Counted:
    return Counted(held, 3, 0)


@given(several)
def test_every_copy_is_read_whoever_lists_it_first(held: dict[tuple[str, str, str], Copy]) -> None:
    backwards = dict(reversed(held.items()))
    assert counted(answer(held), FOREIGN) == counted(answer(backwards), FOREIGN) == Counted(held, 3, 0)


@given(several, several)
def test_what_is_ours_is_in_no_figure(ours: dict[tuple[str, str, str], Copy], theirs: Any) -> None:
    names = {"orders": "oschaos-ab12-load", "logs.1": ".opensearch-chaos"}
    mine = {(names[index], shard, node): copy for (index, shard, node), copy in ours.items()}
    assert counted(answer(mine | theirs), FOREIGN).copies == theirs


@given(several, several)
def test_nothing_is_ever_less_than_nothing(
    first: dict[tuple[str, str, str], Copy], second: dict[tuple[str, str, str], Copy]
) -> None:
    more = grown(of(first), of(second), 2.0)
    assert min(more.searches, more.search_ms, more.documents, more.indexed, more.index_ms, more.failed) >= 0
    assert more.documents <= more.indexed and more.copies <= len(first.keys() & second.keys())


@given(several, some.integers(0, 50))
def test_a_node_that_leaves_takes_its_own_share_along_and_nothing_else(
    held: dict[tuple[str, str, str], Copy], more: int
) -> None:
    stay = {key: copy for key, copy in held.items() if key[2] != "c"}
    found = grown(of(held), of(after(stay, more)), 2.0)
    assert found.searches == more * len(stay) and found.copies == len(stay)


@given(several, some.integers(1, 50))
def test_a_node_that_began_anew_says_nothing_of_that_time(held: dict[tuple[str, str, str], Copy], more: int) -> None:
    again = {key: Copy(0, 0, 0, 0, 0) if key[2] == "c" else copy for key, copy in after(held, more).items()}
    kept = [
        key
        for key in held
        if key[2] != "c" or max(held[key].__dict__.values()) == 0  # it had done nothing before either
    ]
    found = grown(of(held), of(again), 2.0)
    assert found.searches == more * sum(key[2] != "c" for key in kept) and found.copies == len(kept)


@given(several, some.integers(0, 50), some.integers(0, 50))
def test_two_spans_make_one(held: dict[tuple[str, str, str], Copy], one: int, two: int) -> None:
    first, second, third = held, after(held, one), after(held, one + two)
    parts = [grown(of(first), of(second), 2.0), grown(of(second), of(third), 2.0)]
    whole = grown(of(first), of(third), 4.0)
    for name in ("searches", "search_ms", "documents", "indexed", "index_ms", "failed", "seconds"):
        assert sum(getattr(part, name) for part in parts) == getattr(whole, name)


def test_a_document_counts_once_whichever_copy_is_the_primary_and_whoever_is_gone() -> None:
    a, b, c = (("orders", "0", node) for node in "abc")
    before = {a: Copy(0, 0, 100, 0, 0), b: Copy(0, 0, 40, 0, 0), c: Copy(0, 0, 7, 0, 0)}
    assert grown(of(before), of(after(before, 5)), 1.0).documents == 5
    assert grown(of(before), of(after({b: before[b], c: before[c]}, 5)), 1.0).documents == 5
    by_segments = {a: Copy(0, 0, 105, 0, 0), b: before[b], c: before[c]}
    assert grown(of(before), of(by_segments), 1.0).documents == 5


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        None,
        "text",
        {},
        {"_nodes": {"successful": 1}},
        {"_nodes": {"successful": 1, "failed": "0"}},
        {"_nodes": {"successful": 1, "failed": 0}, "nodes": []},
        {"_nodes": {"successful": 1, "failed": 0}, "nodes": {"a": {"indices": {"shards": {"orders": [{"0": {}}]}}}}},
    ],
)
def test_what_is_no_answer_is_told_so(wrong: Any) -> None:
    with pytest.raises(UNREADABLE):
        counted(wrong, FOREIGN)


@given(some.one_of(some.none(), some.text(), some.floats(), some.booleans(), some.integers(max_value=-1)))
def test_what_is_no_counter_is_not_taken_for_none(value: Any) -> None:
    told = answer({("orders", "0", "a"): Copy(1, 1, 1, 1, 1)})
    told["nodes"]["a"]["indices"]["shards"]["orders"][0]["0"]["search"]["query_total"] = value
    with pytest.raises(UNREADABLE):
        counted(told, FOREIGN)
