"""Sets of ids as arrays: the same as sets of texts say, and as the server routes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.base.ids import is_ours
from chaos.load.workload import Workload, as_column
from chaos.load.workloads.documents import WORKLOAD
from chaos.observe.idsets import KINDS, Collected, Ids, _one_by_one, parsed
from chaos.opensearch.routing import shard_of, shards_of

NUMBERS = st.one_of(
    st.integers(0, 30), st.integers(0, 2**33), st.integers(10**17, 10**18 - 1), st.sampled_from([2**32 - 1, 2**32])
)
OURS = st.builds("{}-{}".format, st.sampled_from(KINDS), NUMBERS)
OTHERS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        [
            "",
            "w-",
            "w-007",
            "w-00",
            "w-+1",
            "w- 1",
            "x-1",
            "w-1 ",
            "w-1\n",
            "w--1",
            "W-1",
            "w",
            "w-1e3",
            "w-\u0661",
            "é-1",
        ]
    ),
    st.integers(10**18, 10**25).map("w-{}".format),  # ours, and too long for an array
)
IDS = st.one_of(OURS, OTHERS)
SETS = st.sets(IDS, max_size=30)
TABLES = st.sampled_from([(1, 1024), (2, 1024), (3, 768), (5, 640), (7, 896), (1024, 1024)])


@given(st.lists(IDS, max_size=30))
@settings(deadline=None)
def test_ids_are_read_at_once_as_each_alone(ids: list[str]) -> None:
    kinds, numbers = parsed(ids)
    alone_kinds, alone_numbers = _one_by_one(ids)
    assert kinds.tolist() == alone_kinds.tolist() and numbers.tolist() == alone_numbers.tolist()
    for id, kind, number in zip(ids, kinds.tolist(), numbers.tolist(), strict=True):
        if kind >= 0:
            assert id == f"{KINDS[kind]}-{number}"
        else:
            assert not is_ours(id) or len(id) > 20


@given(SETS, SETS)
@settings(deadline=None)
def test_sets_of_ids_are_sets_of_texts(one: set[str], other: set[str]) -> None:
    mine, theirs = Ids.of(one), Ids.of(other)
    assert len(mine) == len(one) and set(mine) == one and mine == one and (mine == theirs) == (one == other)
    assert mine | theirs == one | other and mine & theirs == one & other
    assert mine - theirs == one - other and theirs - mine == other - one
    assert (mine <= theirs) == (one <= other) and one - theirs == one - other and one | theirs == one | other
    for id in one | other:
        assert (id in mine) == (id in one)
    assert 1 not in mine and bool(mine) == bool(one)
    kinds, numbers = parsed(each := sorted(other))
    assert mine.has(kinds, numbers).tolist() == [id in one and kind >= 0 for id, kind in zip(each, kinds, strict=True)]


@given(st.lists(st.lists(IDS, max_size=8), max_size=6))
@settings(deadline=None)
def test_what_comes_more_than_once_is_told(pages: list[list[str]]) -> None:
    kept = Collected()
    for page in pages:
        if len(page) == 1:
            kept.add_one(page[0])
        else:
            kept.add(page)
    every = [id for page in pages for id in page]
    ids, twice = kept.ids_and_twice()
    assert ids == set(every) and twice == {id for id in every if every.count(id) > 1}


@given(SETS, TABLES)
@settings(deadline=None)
def test_ids_are_shared_out_as_the_server_routes_them(ids: set[str], table: tuple[int, int]) -> None:
    ids = {id for id in ids if id.isprintable()}
    parts = Ids.of(ids).by_shard(*table)
    assert len(parts) == table[0] and sum(map(len, parts)) == len(ids)
    assert all(shard_of(id, *table) == shard for shard, part in enumerate(parts) for id in part)


@given(st.lists(NUMBERS, max_size=40), st.sampled_from(["w-", "p-", "", "long-prefix-"]), TABLES)
@settings(deadline=None)
def test_routing_of_numbers_is_the_routing_of_each(numbers: list[int], prefix: str, table: tuple[int, int]) -> None:
    found = shards_of(prefix, np.array(numbers, np.int64), *table)
    assert found.tolist() == [shard_of(f"{prefix}{number}", *table) for number in numbers]


@pytest.mark.parametrize("dtype", [np.int64, np.uint32])
def test_routing_goes_on_from_one_stretch_of_numbers_to_the_next(monkeypatch: pytest.MonkeyPatch, dtype: Any) -> None:
    monkeypatch.setattr("chaos.opensearch.routing.CHUNK", 7)
    numbers = np.arange(95, 130).astype(dtype)
    assert shards_of("w-", numbers, 3, 768).tolist() == [shard_of(f"w-{n}", 3, 768) for n in range(95, 130)]


@given(SETS, st.integers(0, 2**64), st.integers(1, 40), st.integers(1, 40))
@settings(deadline=None)
def test_a_sample_follows_from_ids_and_seed_alone(ids: set[str], seed: int, most: int, fewer: int) -> None:
    every = Ids.of(ids)
    sample = every.drawn(seed, most)
    assert sample <= every and len(sample) == min(most, len(ids))
    assert sample == Ids.of(sorted(ids, reverse=True)).drawn(seed, most)
    assert every.drawn(seed, min(most, fewer)) <= sample
    keys = {id for id in ids if id in every.only("c")}
    assert keys <= set(sample) or sample <= every.only("c")


def test_another_seed_draws_others_and_each_about_as_often() -> None:
    every = Ids({"w": np.arange(1000), "p": np.arange(1000)})
    counts = np.zeros(2000)
    for seed in range(200):
        drawn = every.drawn(seed, 100)
        counts[drawn.numbers("w")] += 1
        counts[drawn.numbers("p") + 1000] += 1
    assert counts.sum() == 200 * 100 and counts.max() < 30 and (counts == 0).sum() < 20  # 10 each, sigma about 3


def test_many_are_looked_up_stretch_by_stretch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.observe.idsets.CHUNK", 5)
    mine, theirs = Ids({"w": np.arange(0, 100, 2)}), Ids({"w": np.arange(40, 60)})
    assert (mine & theirs).numbers("w").tolist() == list(range(40, 60, 2))
    assert (theirs - mine).numbers("w").tolist() == list(range(41, 60, 2))
    assert list(mine) == [f"w-{n}" for n in range(0, 100, 2)]


def test_ids_are_named_by_kind_and_number_and_those_of_others_last() -> None:
    ids = ["w-10", "w-9", "p-2", "foo", "v-1", "c-3", "w-00", "w-1" + 20 * "0"]
    ordered = ["c-3", "p-2", "v-1", "w-9", "w-10", "w-1" + 20 * "0", "foo", "w-00"]
    assert Ids.of(ids).first(8) == list(Ids.of(ids)) == ordered and Ids.of(ids).first(2) == ordered[:2]
    assert "8" in repr(Ids.of(ids))


@given(st.sampled_from("wpv"), st.lists(st.integers(0, 10**18 - 1), max_size=20))
@settings(deadline=None)
def test_fields_in_arrays_are_the_fields_of_each_document(kind: str, numbers: list[int]) -> None:
    """Of the workload that says it in arrays, and of any other by the default."""
    given_ = np.array(numbers, np.int64)
    for made in (WORKLOAD.columns(kind, given_, WORKLOAD.fields), Workload.columns(WORKLOAD, kind, given_, ("check",))):
        for name, column in made.items():
            assert column.dtype == np.int64
            assert column.tolist() == [WORKLOAD.numbers(f"{kind}-{number}")[name] for number in numbers]


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1, 2], np.int64),
        ([1.0, 2.5], np.float64),
        ([1, 2.0], object),
        ([1, True], object),
        ([True, False], object),
        ([2**63], object),
        (["a", None], object),
        ([[1], [2]], object),
    ],
)
def test_a_column_keeps_the_types_of_its_values(values: list[Any], dtype: Any) -> None:
    column = as_column(values)
    assert column.dtype == dtype and column.tolist() == values
    assert [type(each) for each in column.tolist()] == [type(each) for each in values]
