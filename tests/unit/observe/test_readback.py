"""The read-back's comparison, and which shard an id belongs to."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mmh3
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.checks import contents
from chaos.history import History
from chaos.history.changes import Changes
from chaos.history.format import Action, CallerTold, ItemOutcome
from chaos.history.items import Items, entry
from chaos.load.workloads.documents import WORKLOAD, check_of, check_value, numbers
from chaos.observe import readback
from chaos.observe.idsets import Ids
from chaos.observe.readback import NAMED, Asked, CopyRead, Index, compare, read_back
from chaos.observe.told import held_against
from chaos.observe.written import Written
from chaos.opensearch.routing import shard_of
from chaos.opensearch.views import ShardCopy, View

SHARDS, ROUTING = 3, 768
ASKED = Asked(WORKLOAD)
IDS = [f"w-{k}" for k in range(60)]


def copy(shard: int, node: str, ids: set[str], *, error: str | None = None) -> CopyRead:
    return CopyRead(ShardCopy("chaos", shard, node == "a", "STARTED", node), ids, error)


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
    assert found["complete"] is (bool(reads) and all(r.error is None for r in reads))
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
    first = min(reads[0].ids)
    for read in reads[:2]:  # both copies of shard 0
        for id in (first, "w-999"):
            read.inside.blame(id, "source", "text: another")
            read.inside.blame(id, "index", "not found by amber")
    found = compare(reads, IDS, SHARDS, ROUTING)
    assert found["wrong_content"] == [first] and found["wrong_content_count"] == 1
    item = {"id": first, "on": ["a", "b"], "right_on": [], "unknown_on": [], "says": "text: another"}
    assert found["wrong_source"] == [item]
    assert found["wrong_index_count"] == 1 and found["wrong_doc_values_count"] == 0


def test_a_document_that_is_wrong_on_one_copy_alone_is_named_with_it() -> None:
    reads = whole()
    first = min(reads[0].ids)
    for read in reads:
        read.inside.compared = read.inside.indexed = Ids.of(read.ids)
    reads[1].inside.blame(first, "index", "not found by amber")
    reads[0].inside.blame(first, "doc_values", "seq: another")
    found = compare(reads, IDS, SHARDS, ROUTING)
    item = {"id": first, "on": ["b"], "right_on": ["a"], "unknown_on": [], "says": "not found by amber"}
    assert found["wrong_index"] == [item]
    item = {"id": first, "on": ["a"], "right_on": ["b"], "unknown_on": [], "says": "seq: another"}
    assert found["wrong_doc_values"] == [item]
    assert found["wrong_content"] == [first]
    reads[0].inside.error = "status 503"  # before or after it had looked at that: nobody knows
    (item,) = compare(reads, IDS, SHARDS, ROUTING)["wrong_index"]
    assert (item["right_on"], item["unknown_on"]) == ([], ["a"]) and contents.where(item) == "on b"


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

    def fetch(self, method: str, path: str, *, body: Any = None) -> tuple[int, bytes]:
        self.asked.append(dict(body))
        status, answer = self.answers.pop(0)
        return status, json.dumps(answer).encode()

    def close(self) -> None:
        pass


def page(*ids: str, wrong: str | None = None, total: int | None = None) -> tuple[int, Any]:
    hits = [
        {
            "_id": id,
            "fields": {name: [value + (id == wrong and name == "check")] for name, value in numbers(id, n).items()},
            "sort": [n, check_of(id, n), 10 + n],
            "_seq_no": 10 + n,
            "_primary_term": 1,
        }
        for id in ids
        for n in [int(id[2:])]
    ]
    counted = {"total": {"value": len(ids) if total is None else total}}
    return 200, {"timed_out": False, "_shards": {"successful": 1}, "hits": {**counted, "hits": hits}}


def test_a_copy_is_read_page_by_page() -> None:
    lab = Answers(page("w-1", "w-2", total=4), page("w-3", "w-4", wrong="w-4"), page())
    read = readback._read_copy(lab, ShardCopy("chaos", 0, True, "STARTED", "a-data"), Asked(WORKLOAD, window=2))  # type: ignore[arg-type]
    assert (read.ids, set(read.inside.wrong), read.error) == ({"w-1", "w-2", "w-3", "w-4"}, {"w-4"}, None)
    assert (read.total, read.surplus, read.twice) == (4, 0, set())
    assert [body["track_total_hits"] for body in lab.asked] == [True, False, False]
    assert [body.get("search_after") for body in lab.asked] == [  # type: ignore[attr-defined]
        None,
        [2, check_value("w-2"), 12],
        [4, check_value("w-4"), 14],
    ]
    order = [{field: {"missing": "_last"}} for field in ("seq", "check", "_seq_no")]
    assert all(body["sort"] == order for body in lab.asked)


@pytest.mark.parametrize(
    ("copies", "groups"),
    [
        ([], []),
        ([0], [[0]]),
        ([2, 0, 1, 0, 1, 2, 0, 1, 2], [[0, 0, 0], [1, 1, 1], [2, 2, 2]]),
        ([0, 0, 1, 1, 2, 2], [[0, 0, 1, 1], [2, 2]]),
        ([0, 1, 2, 3], [[0, 1, 2], [3]]),
    ],
)
def test_copies_of_one_shard_are_read_together(copies: list[int], groups: list[list[int]]) -> None:
    """They give the same answers, which are then decoded once."""
    each = [ShardCopy("chaos", shard, False, "STARTED", f"n{n}") for n, shard in enumerate(copies)]
    assert [[copy.shard for copy in group] for group in readback._groups(each)] == groups


@pytest.mark.parametrize(
    "answer",
    [
        (503, "no"),
        (200, None),
        (200, "<html>"),
        (200, {"timed_out": True, "_shards": {"successful": 1}}),
        (200, {"timed_out": False, "_shards": {"successful": 0}}),
        (200, {"timed_out": False, "_shards": {"successful": 1}, "hits": {"hits": []}}),  # how many, it does not say
        (
            200,
            {
                "timed_out": False,
                "_shards": {"successful": 1},
                "hits": {"total": {"value": 1}, "hits": [{"_id": "w-1", "fields": {"check": []}}]},
            },
        ),
    ],
)
def test_a_copy_that_cannot_be_read_says_why(answer: tuple[int, Any]) -> None:
    copy = ShardCopy("chaos", 0, True, "STARTED", "a-data")
    read = readback._read_copy(Answers(answer), copy, ASKED)  # type: ignore[arg-type]
    assert read.error and read.to_json()["read"] is False


@pytest.mark.parametrize(
    "answers",
    [{"shards": [[]]}, {"shards": []}, {}, None, "text"],
)
def test_an_odd_answer_makes_the_read_back_incomplete_and_never_raises(
    monkeypatch: pytest.MonkeyPatch, answers: Any
) -> None:
    monkeypatch.setattr(readback, "_refresh", lambda *_: None)
    monkeypatch.setattr(readback, "_routing", lambda *_: Index(SHARDS, ROUTING))
    monkeypatch.setattr(readback, "administer", lambda *_, **__: (200, answers))
    found = read_back(None, "chaos", {"w-1"})  # type: ignore[arg-type]
    assert found["complete"] is False and found["reason"]


@pytest.mark.parametrize(
    ("more", "window", "remote"),
    [
        ({}, 10_000, False),
        ({"max_result_window": "500", "remote_store": {"enabled": "true", "segment": {"repository": "s"}}}, 500, True),
        ({"remote_store": {"enabled": "false"}}, 10_000, False),
    ],
)
def test_what_must_be_known_of_an_index_is_read_of_its_metadata(
    monkeypatch: pytest.MonkeyPatch, more: dict[str, Any], window: int, remote: bool
) -> None:
    given = {"settings": {"index": {"number_of_shards": "3", **more}}, "routing_num_shards": 768}
    asked: list[str] = []

    def administer(lab: Any, method: str, path: str) -> tuple[int, Any]:
        asked.append(path)
        return 200, {"metadata": {"indices": {"chaos": given}}}

    monkeypatch.setattr(readback, "administer", administer)
    assert readback._routing(None, "chaos") == Index(3, 768, window, remote)  # type: ignore[arg-type]
    assert "settings.index.remote_store.enabled" in asked[0]


@pytest.mark.parametrize("remote", [False, True], ids=["disks alone", "in a store"])
def test_a_shard_of_which_no_disk_has_anything_is_lost_unless_its_index_is_in_a_store(
    monkeypatch: pytest.MonkeyPatch, remote: bool
) -> None:
    """There it stays red until it is restored."""
    late = Late(monkeypatch, 0)
    monkeypatch.setattr(readback, "_routing", lambda *_: Index(8, 1024, remote=remote))
    monkeypatch.setattr(readback, "_stored", lambda *_: set())
    ids = {"w-1", "w-2"}
    gone = {id for id in ids if shard_of(id, 8, 1024) != 0}
    assert gone and late.found(nodes="ab")["lost"] == ([] if remote else sorted(gone))
    assert late.found(nodes="ab")["unavailable_count"] == (len(gone) if remote else 0)


# ---- documents that were not acknowledged ------------------------------------------------------------------


def fates(**sets: set[str]) -> Written:
    return Written(**{"acknowledged": set(IDS), **sets})


def also(reads: list[CopyRead], *ids: str) -> list[CopyRead]:
    """The same copies, holding these documents too."""
    for read in reads:
        read.ids |= {id for id in ids if shard_of(id, SHARDS, ROUTING) == read.copy.shard}
        read.total = len(read.ids)
    return reads


def test_every_document_that_is_there_is_acknowledged_recovered_resurrected_or_unexpected() -> None:
    reads = also(whole(), "w-100", "w-200", "w-300", "someone-elses")
    found = compare(reads, set(IDS), SHARDS, ROUTING, fates=fates(open={"w-100", "w-101"}, refused={"w-200", "w-201"}))
    assert found["recovered"] == ["w-100"] and found["recovered_count"] == 1
    assert found["resurrected"] == ["w-200"] and found["resurrected_count"] == 1
    assert found["unexpected"] == ["w-300", "someone-elses"] and found["unexpected_count"] == 2
    assert found["strangers_count"] == 1  # nothing of ours makes such an id
    assert found["lost_count"] == found["diverged_count"] == found["duplicated_count"] == 0
    assert found["documents"] == len(IDS) + 4 and found["unacknowledged_present"] == 4


def test_without_the_fates_nothing_is_said_about_other_documents() -> None:
    assert "unexpected_count" not in compare(also(whole(), "w-300"), IDS, SHARDS, ROUTING)


everything = [f"w-{k}" for k in range(24)]


@given(*[st.frozensets(st.sampled_from(everything)) for _ in range(4)])
@settings(max_examples=100, deadline=None)
def test_the_classes_of_what_is_there_are_whole_and_apart(
    there: frozenset[str], acknowledged: frozenset[str], open_: frozenset[str], refused: frozenset[str]
) -> None:
    open_, refused = open_ - acknowledged, refused - acknowledged - open_
    reads = [copy(s, "a", {id for id in there if shard_of(id, SHARDS, ROUTING) == s}) for s in range(SHARDS)]
    given_ = Written(set(acknowledged), set(refused), set(open_))
    found = compare(reads, acknowledged, SHARDS, ROUTING, fates=given_)
    named = [set(found[name]) for name in ("recovered", "resurrected", "unexpected")]
    assert set().union(*named) == there - acknowledged
    assert sum(map(len, named)) == len(there - acknowledged) == found["unacknowledged_present"]
    assert set(found["lost"]) == acknowledged - there


ANY_IDS = [*(f"w-{k}" for k in range(12)), *(f"p-{k}" for k in range(6)), "v-1", "c-0", "foo", "w-007"]


@given(
    st.lists(st.tuples(st.integers(0, SHARDS - 1), st.frozensets(st.sampled_from(ANY_IDS)), st.booleans()), max_size=6),
    *[st.frozensets(st.sampled_from(ANY_IDS)) for _ in range(4)],
    st.frozensets(st.integers(0, SHARDS - 1)),
)
@settings(max_examples=100, deadline=None)
def test_whatever_the_copies_hold_all_is_counted_as_in_sets(
    held: list[tuple[int, frozenset[str], bool]],
    acknowledged: frozenset[str],
    open_: frozenset[str],
    refused: frozenset[str],
    probes: frozenset[str],
    destroyed: frozenset[int],
) -> None:
    """Documents on copies of shards that they do not belong to, copies read in part, destroyed shards: as plain sets
    of texts say."""
    destroyed -= {shard for shard, _, _ in held}
    reads = [copy(shard, f"n{n}", set(ids), error="x" if bad else None) for n, (shard, ids, bad) in enumerate(held)]
    written = Written(set(acknowledged), set(refused), set(open_), set(probes))  # type: ignore[arg-type]
    found = compare(reads, acknowledged, SHARDS, ROUTING, destroyed, fates=written)
    present = set().union(*(ids for _, ids, _ in held)) if held else set()
    beyond = present - acknowledged
    assert found["documents"] == len(present) and found["unacknowledged_present"] == len(beyond)
    assert found["content"]["of"] == len(present & (acknowledged | open_ | refused))
    assert set(found["recovered"]) == beyond & open_ and set(found["resurrected"]) == beyond & refused
    assert set(found["unexpected"]) == beyond - open_ - refused
    assert found["strangers_count"] == len({"foo", "w-007"} & set(found["unexpected"]))
    lost, diverged, unavailable, absent = set(), set(), 0, set()
    for id in acknowledged | probes:
        here = [r for r in reads if r.copy.shard == shard_of(id, SHARDS, ROUTING)]
        answered, on = [r for r in here if r.error is None], [r for r in here if id in r.ids]
        gone = shard_of(id, SHARDS, ROUTING) in destroyed
        if id in probes and not on and (gone or (here and answered == here)):
            absent.add(id)
        if id not in acknowledged:
            continue
        with_it = [r for r in answered if id in r.ids]
        if gone or (here and answered == here and not with_it):
            lost.add(id)
        elif not with_it:
            unavailable += 1
        elif len(with_it) < len(answered):
            diverged.add(id)
    assert set(found["lost"]) == lost and {each["id"] for each in found["diverged"]} == diverged
    assert found["unavailable_count"] == unavailable and set(found["watched"]["absent"]) == absent
    assert found["watched"]["count"] == len(probes)


def test_a_document_that_a_copy_gives_twice_or_counts_twice_is_duplicated() -> None:
    reads = whole()
    twice = sorted(reads[0].ids)[0]
    reads[0].twice = {twice}
    reads[1].total = len(reads[1].ids) + 3
    found = compare(reads, IDS, SHARDS, ROUTING)
    assert found["duplicated_count"] == 4
    assert found["duplicated"] == [
        {"id": twice, "node": "a", "shard": 0},
        {"id": None, "node": "b", "shard": 0, "more": 3},
    ]


def copy_with(twice: list[str], total: int, error: str | None = None) -> CopyRead:
    ids = Ids.of(["p-7", "c-0", "v-3", "w-1", "w-2"])
    return CopyRead(ShardCopy("chaos", 0, True, "STARTED", "a"), ids, error, twice=Ids.of(twice), total=total)


@pytest.mark.parametrize(
    ("twice", "total", "stored", "duplicated"),
    [
        (["p-7", "v-3", "c-0"], 8, 0, 3),  # explicit ids
        (["w-1"], 6, 1, 0),
        (["w-1", "w-2"], 9, 4, 0),  # one of them four times
        (["w-1", "p-7"], 8, 2, 1),
        ([], 6, 0, 1),  # counted, and not listed
        ([], 5, 0, 0),
    ],
)
def test_under_ids_of_opensearchs_only_written_documents_are_stored_twice(
    twice: list[str], total: int, stored: int, duplicated: int
) -> None:
    found = readback.stored_twice([copy_with(twice, total)])
    assert (found["stored_twice_count"], found["duplicated_count"]) == (stored, duplicated)
    assert found["stored_twice"] == [id for id in twice if id.startswith("w")]
    named = [each["id"] for each in found["duplicated"] if each["id"] is not None]
    assert sorted(named) == sorted(id for id in twice if not id.startswith("w"))


def test_what_a_copy_that_was_not_read_to_the_end_did_not_list_is_not_stored_twice() -> None:
    found = readback.stored_twice([copy_with(["w-1"], 4000, error="cannot connect")])
    assert (found["stored_twice_count"], found["duplicated_count"], found["duplicated"]) == (1, 0, [])


def test_a_copy_that_gives_an_id_twice_says_so() -> None:
    read = readback._read_copy(  # type: ignore[arg-type]
        Answers(page("w-1", "w-1", "c-2")), ShardCopy("chaos", 0, True, "STARTED", "a-data"), ASKED
    )
    assert read.twice == {"w-1"} and read.surplus == 1 and read.error is None
    assert read.keys == {"c-2": (2, 12, 1)} and not read.inside.wrong


def test_the_content_of_a_key_follows_from_its_value() -> None:
    read = readback._read_copy(  # type: ignore[arg-type]
        Answers(page("c-0", "c-1", wrong="c-1")), ShardCopy("chaos", 0, True, "STARTED", "a-data"), ASKED
    )
    assert set(read.inside.wrong) == {"c-1"} and read.inside.values == {"c-0": 0, "c-1": 1}


def test_wrong_content_of_a_recovered_document_counts_too() -> None:
    reads = also(whole(), "w-100", "w-300")
    for read in reads:
        for id in {"w-100", "w-300"} & read.ids:
            read.inside.blame(id, "source", "another")
    found = compare(reads, set(IDS), SHARDS, ROUTING, fates=fates(open={"w-100"}))
    assert found["wrong_content"] == ["w-100"]  # the other is unexpected, whatever it holds


def test_copies_that_hold_different_values_of_a_key_have_diverged() -> None:
    shard = shard_of("c-0", SHARDS, ROUTING)
    reads = [copy(shard, node, {"c-0"}) for node in "ab"]
    for read, version in zip(reads, [(4, 9, 1), (5, 9, 1)], strict=True):
        read.keys = {"c-0": version}
    found = compare(reads, {"c-0"}, SHARDS, ROUTING)
    assert found["diverged_count"] == 1 and found["diverged"][0]["id"] == "c-0"
    assert [each["value"] for each in found["cas"]["c-0"]] == [4, 5]
    reads[1].keys = {"c-0": (4, 9, 1)}
    assert compare(reads, {"c-0"}, SHARDS, ROUTING)["diverged_count"] == 0


def test_probes_that_are_gone_are_named_and_those_that_nobody_can_tell_apart() -> None:
    ids = {f"v-{n}" for n in range(30)}
    there = {f"v-{n}" for n in range(0, 30, 2)}
    reads = [copy(s, "a", {id for id in there if shard_of(id, SHARDS, ROUTING) == s}) for s in (0, 1)]
    found = compare(reads, set(), SHARDS, ROUTING, {1}, fates=Written(open=set(ids), probes=set(ids)))["watched"]
    shards = {id: shard_of(id, SHARDS, ROUTING) for id in ids}
    assert found["count"] == 30
    assert set(found["absent"]) == {id for id in ids - there if shards[id] in (0, 1)}
    assert set(found["unknown"]) == {id for id in ids if shards[id] == 2}


def test_nothing_read_is_never_complete() -> None:
    found = compare([], set(), SHARDS, ROUTING, fates=Written())
    assert found["complete"] is False and "no live copy" in found["reason"]


class Late:
    """A cluster of one shard with two copies, of which the second lacks a document in the first so many readings."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
        self.slept: list[float] = []
        self.times = times
        view = View("a", 1, "a", frozenset("ab"), tuple(ShardCopy("chaos", 0, n == "a", "STARTED", n) for n in "ab"))
        monkeypatch.setattr(readback, "views", lambda _: [view])
        for name, answer in (("_refresh", None), ("_routing", Index(1, 1024)), ("_check_routing", None)):
            monkeypatch.setattr(readback, name, lambda *_, answer=answer, **__: answer)
        monkeypatch.setattr(readback, "_read_copy", self.read)

    def read(self, lab: Any, copy: ShardCopy, asked: Asked) -> CopyRead:
        late = copy.node == "b" and len(self.slept) < self.times
        ids = {"w-1"} if late else {"w-1", "w-2"}
        return CopyRead(copy, ids, total=len(ids))

    def found(self, nodes: str = "") -> dict[str, Any]:
        lab: Any = SimpleNamespace(topology=SimpleNamespace(nodes=[SimpleNamespace(name=each) for each in nodes]))
        return read_back(lab, "chaos", Written(acknowledged={"w-1", "w-2"}), sleep=self.slept.append)


def test_copies_that_differ_are_read_again_before_they_have_diverged(monkeypatch: pytest.MonkeyPatch) -> None:
    """With segment replication a replica is a moment behind its primary."""
    late = Late(monkeypatch, 2)
    found = late.found()
    assert found["diverged_count"] == 0 and found["complete"] and late.slept == [2.0, 5.0]
    never = Late(monkeypatch, 9)
    found = never.found()
    assert found["diverged"] == [{"id": "w-2", "missing_on": ["b"]}] and never.slept == [2.0, 5.0, 10.0]
    equal = Late(monkeypatch, 0)
    assert equal.found()["diverged_count"] == 0 and equal.slept == []


def test_a_document_that_is_wrong_is_read_again_before_it_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that was under way may arrive between two looks at one copy."""

    class Wrong(Late):
        def read(self, lab: Any, copy: ShardCopy, asked: Asked) -> CopyRead:
            every = {"w-1", "w-2", "w-3"}
            assert asked.wanted[0] == (every, every) and asked.seed == 5  # without a clear answer, too
            assert asked.acknowledged(0) == {"w-1", "w-2"}
            read = CopyRead(copy, {"w-1", "w-2", "w-3"})
            if copy.node == "b" and len(self.slept) < self.times:
                read.inside.blame("w-3", "source", "text: another")
            return read

        def found(self) -> dict[str, Any]:
            written = Written(acknowledged={"w-1", "w-2"}, open={"w-3"})
            return read_back(None, "chaos", written, sleep=self.slept.append, seed=5)  # type: ignore[arg-type]

    once = Wrong(monkeypatch, 1)
    assert once.found()["wrong_content_count"] == 0 and once.slept == [2.0]
    always = Wrong(monkeypatch, 9)
    assert always.found()["wrong_content"] == ["w-3"] and always.slept == [2.0, 5.0, 10.0]


@pytest.mark.parametrize(("sources", "at_once"), [(2, True), (1, True), (0, False)])
def test_sources_come_with_doc_values_where_they_are_wanted_of_half_of_the_documents(
    monkeypatch: pytest.MonkeyPatch, sources: int, at_once: bool
) -> None:
    ways = []

    class Noted(Late):
        def read(self, lab: Any, copy: ShardCopy, asked: Asked) -> CopyRead:
            assert len(asked.wanted[0].sources) == sources
            ways.append(asked.at_once)
            return super().read(lab, copy, asked)

    monkeypatch.setattr("chaos.observe.contents.SOURCES", sources)
    Noted(monkeypatch, 0).found()
    assert ways == [at_once, at_once]


def test_a_copy_that_cannot_be_read_is_asked_again_before_it_is_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node joins, and the cluster is green, before it answers HTTP."""

    class Deaf(Late):
        def read(self, lab: Any, copy: ShardCopy, asked: Asked) -> CopyRead:
            if copy.node == "b" and len(self.slept) < self.times:
                return CopyRead(copy, set(), error="cannot connect")
            return CopyRead(copy, {"w-1", "w-2"}, total=2)

    once = Deaf(monkeypatch, 1)
    assert once.found()["complete"] and once.slept == [2.0]
    always = Deaf(monkeypatch, 9)
    found = always.found()
    assert not found["complete"] and "cannot connect" in found["reason"] and always.slept == [2.0, 5.0, 10.0]


@pytest.mark.parametrize("led", [True, False], ids=["known where it went", "no elected manager"])
def test_a_copy_that_has_moved_meanwhile_is_read_where_it_went(monkeypatch: pytest.MonkeyPatch, led: bool) -> None:
    """The move ends before its old node is asked, which then has nothing of that shard."""

    class Moved(Late):
        def read(self, lab: Any, copy: ShardCopy, asked: Asked) -> CopyRead:
            if copy.node == "b":
                return CopyRead(copy, set(), error="status 404")
            return CopyRead(copy, {"w-1", "w-2"}, total=2)

    moved = Moved(monkeypatch, 0)
    primary = ShardCopy("chaos", 0, True, "STARTED", "a")
    leaving = ShardCopy("chaos", 0, False, "RELOCATING", "b", "c")
    arrived = ShardCopy("chaos", 0, False, "STARTED", "c")

    def views(_: Any) -> list[View]:
        if not moved.slept:
            return [View("a", 1, "a", frozenset("abc"), (primary, leaving))]
        return [View("a", 2, "a" if led else None, frozenset("abc"), (primary, arrived))]

    monkeypatch.setattr(readback, "views", views)
    found = moved.found()
    assert found["complete"] is led and moved.slept == ([2.0] if led else [2.0, 5.0, 10.0])
    assert [each["node"] for each in found["copies"]] == ["a", "c" if led else "b"]


# ---- what the load has tried to write -----------------------------------------------------------------------


def test_only_what_never_reached_a_node_is_refused_for_sure(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = {
        "ok": ("acknowledged", 1),
        "partial": ("acknowledged", 1),
        "refused": ("refused", 1),
        "rejected": ("open", 1),
        "server_error": ("open", 1),
        "reset": ("open", 1),
        "garbled": ("open", 1),
        "timeout": ("open", 1),
        "unknown": ("open", 0),
        "dropped": (None, 0),
    }
    rows = [(k, outcome, attempts) for k, (outcome, (_, attempts)) in enumerate(outcomes.items())]
    rows.append((90, "refused", 3))  # the library had tried elsewhere before
    frame = pd.DataFrame(rows, columns=["k", "outcome", "attempts"]).assign(op="write")
    history = History(Path("in-memory"))
    probes = [{"kind": "write", "t": n, "n": n, "id": f"v-{n}"} for n in range(4)] + [
        {"kind": "written", "t": 9, "n": 0, "acknowledged": True, "sent": True},
        {"kind": "written", "t": 9, "n": 1, "acknowledged": False, "sent": False},
        {"kind": "written", "t": 9, "n": 2, "acknowledged": False, "sent": True},
    ]
    history.__dict__.update(arrivals=frame, probes=probes)
    found = Written.of(history, documents=2, keys=1)
    monkeypatch.setattr("chaos.history.reader.BATCH", 3)
    assert Written.of(history, documents=2, keys=1) == found  # whether they come at once or some at a time
    assert Written.of(history, documents=0, writers={}).acknowledged == {"v-0"}
    for k, (outcome, (where, _)) in enumerate(outcomes.items()):
        inside = [name for name in ("acknowledged", "refused", "open") if f"w-{k}" in getattr(found, name)]
        assert inside == ([where] if where else []), outcome
    assert "w-90" in found.open
    assert {"p-0", "p-1", "c-0", "v-0"} <= found.acknowledged and "v-1" in found.refused
    assert {"v-2", "v-3"} <= found.open and found.probes == {"v-0", "v-1", "v-2", "v-3"}


def test_what_clients_were_told_is_held_against_every_copy() -> None:
    told = {
        CallerTold.STORED: Ids.of(["w-0", "w-1"]),
        CallerTold.RAISED: Ids.of(["w-2", "w-3"]),
        CallerTold.NEVER_SENT: Ids.of(["w-4"]),
    }
    there, nowhere = Ids.of(["w-0", "w-2"]), Ids()
    found = held_against(told, there, twice=Ids.of(["w-2"]), unknown=nowhere)
    assert found["lost_untold"] == ["w-1"] and found["told_failed_but_stored"] == ["w-2"]
    assert found["fates"]["raised"] == {"documents": 2, "there": 1, "twice": 1, "absent": 1, "unknown": 0}
    assert found["fates"]["never_sent"] == {"documents": 1, "there": 0, "twice": 0, "absent": 1, "unknown": 0}
    unread = held_against(told, there, twice=nowhere, unknown=Ids.of(["w-1"]))
    assert unread["lost_untold_count"] == 0 and unread["fates"]["stored"]["unknown"] == 1


def test_of_an_index_are_the_documents_of_its_own_writers(tmp_path: Path) -> None:
    """Bulks of two into one index, single documents and bulks of three into another; arrivals count over all."""
    rows = [(0, "feed", "ok"), (1, "note", "ok"), (2, "ship", "partial"), (3, "feed", "timeout"), (4, "note", "reset")]
    history = History(Path("in-memory"))
    frame = pd.DataFrame(rows, columns=["k", "op", "outcome"]).assign(attempts=1)
    file = tmp_path / "items.bin"
    created, rejected = int(ItemOutcome.CREATED), int(ItemOutcome.REJECTED)
    file.write_bytes(entry(0, [created, created]) + entry(2, [created, rejected, created]))
    history.__dict__.update(arrivals=frame, probes=[], items=Items.read(file))
    first = Written.of(history, documents=1, writers={"feed": 2}, stride=3, alone=False)
    assert first.acknowledged == {"p-0", "w-0", "w-1"} and first.open == {"w-9", "w-10"}
    other = Written.of(history, documents=0, writers={"note": 1, "ship": 3}, stride=3, alone=False, probes=False)
    assert other.acknowledged == {"w-3", "w-6", "w-8"} and other.open == {"w-7", "w-12"}


def test_of_an_index_are_the_changes_of_its_own_writers(tmp_path: Path) -> None:
    """Two streams of bulks, each into an index of its own, change documents of their own."""
    rows = [(0, "feed", "ok"), (1, "ship", "ok"), (2, "feed", "ok"), (3, "ship", "timeout"), (4, "feed", "timeout")]
    history = History(Path("in-memory"))
    frame = pd.DataFrame(rows, columns=["k", "op", "outcome"]).assign(attempts=1)
    file = tmp_path / "items.bin"
    created, changed, deleted = (int(ItemOutcome[name]) for name in ("CREATED", "CHANGED", "DELETED"))
    file.write_bytes(entry(0, [created, created]) + entry(1, [created, created]) + entry(2, [changed, deleted]))
    changes = Changes.of(
        (4, 0, Action.UPDATE),
        (5, 1, Action.DELETE),
        (6, 2, Action.DELETE),
        (7, 3, Action.UPDATE),
        (8, 0, Action.UPDATE),
    )
    history.__dict__.update(arrivals=frame, probes=[], items=Items.read(file), changes=changes)
    first = Written.of(history, documents=0, writers={"feed": 2}, stride=2, alone=False)
    assert first.held is not None and first.acknowledged == {"w-0"} and first.open == {"w-9"}
    assert first.deleted == {"w-1"} and not first.doubtful and first.held.undecided.tolist() == [0]
    other = Written.of(history, documents=0, writers={"ship": 2}, stride=2, alone=False)
    assert other.held is not None and other.acknowledged == {"w-3"} and not other.open
    assert not other.deleted and other.doubtful == {"w-2"} and other.held.undecided.tolist() == [3]
    quiet = Written.of(history, documents=4, writers={}, stride=2, alone=False)
    assert quiet.held is None and quiet.acknowledged == {f"p-{n}" for n in range(4)}
