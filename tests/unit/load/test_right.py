"""Answers held against what was asked for, by the real judge of the driver, of the usual workload."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opensearchpy.exceptions import NotFoundError
from unit.load.test_outcomes import ABSENT, places, put

from chaos.base.ids import preload_id, write_id
from chaos.history.format import Outcome
from chaos.load.known import LATE_S, Known
from chaos.load.right import EVERY, Judge, Judged, Searched, fields_of, searched
from chaos.load.schedule import SECOND
from chaos.load.workload import Request
from chaos.load.workloads.documents import GROUPS, HITS, WORKLOAD, source

INDEX, DOCUMENTS, SHARDS, COPIES = "chaos", 2000, 3, 3
REQUESTS = WORKLOAD.requests(INDEX, DOCUMENTS)


def judge(documents: int = DOCUMENTS, visible_after_s: float | None = 11.0) -> tuple[Judge, Known]:
    known = Known(WORKLOAD.found_by, documents, keys=2, visible_after_s=visible_after_s)
    return Judge(WORKLOAD, known, INDEX, shards=SHARDS, copies=COPIES), known


def asked(kind: str, k: int = 7) -> Request:
    return REQUESTS.of(kind, k)


def said(request: Request, kind: str, k: int = 7) -> tuple[int, dict[str, Any]]:
    """The right answer of an index with what was preloaded."""
    if kind == "get":
        id = request.path.rpartition("/")[2]
        named = {"_index": INDEX, "_id": id, "_version": 1, "_seq_no": 4, "_primary_term": 1}
        return 200, {**named, "found": True, "_source": source(id)}
    if kind == "index":
        shards = {"total": COPIES, "successful": COPIES, "failed": 0}
        named = {"_index": INDEX, "_id": write_id(k), "result": "created", "_shards": shards}
        return 201, {**named, "_seq_no": 4, "_primary_term": 1}
    assert isinstance(request.asks, int)
    ids = [preload_id(n) for n in range(request.asks, DOCUMENTS, GROUPS)]
    hits = [hit(id, 2.0 - n / 10) for n, id in enumerate(ids[:HITS])]
    shards = {"total": SHARDS, "successful": SHARDS, "skipped": 0, "failed": 0}
    total = {"value": len(ids), "relation": "eq"}
    return 200, {"timed_out": False, "_shards": shards, "hits": {"total": total, "hits": hits}}


def hit(id: str, score: float = 1.0) -> dict[str, Any]:
    return {"_index": INDEX, "_id": id, "_score": score, "_source": source(id)}


def answered(kind: str, change: Any = None, status: int | None = None, k: int = 7) -> Judged:
    """What an answer comes to that is right but for ``change``."""
    it, _ = judge()
    request = asked(kind, k)
    code, answer = said(request, kind, k)
    if change is not None:
        change(answer)
    sent = it.sent(kind, k, request, request.path, 0)
    return it.of(sent, status or code, json.dumps(answer), 1)


@pytest.mark.parametrize("kind", ["search", "get", "index"])
@pytest.mark.parametrize("k", [0, 7, 99, 12345])
def test_what_was_asked_for_is_good(kind: str, k: int) -> None:
    assert answered(kind, k=k) == Judged(Outcome.OK)


def to(*path: Any, value: Any) -> Any:
    return lambda answer: put(answer, path, value)


def equal(answer: dict[str, Any]) -> None:
    answer["hits"]["hits"] = [answer["hits"]["hits"][0]] * HITS


def reversed_(answer: dict[str, Any]) -> None:
    answer["hits"]["hits"].reverse()


def shards(total: int, successful: int, failed: int = 0) -> Any:
    return to("_shards", value={"total": total, "successful": successful, "failed": failed})


HIT = ("hits", "hits", 3)
WRONG = [
    ("search", to("hits", "hits", value=[]), "0 hits of 20 that it counts"),
    ("search", lambda answer: answer["hits"].pop("hits"), "0 hits of 20 that it counts"),
    ("search", lambda answer: answer["hits"]["hits"].pop(), "9 hits of 20"),
    ("search", lambda answer: answer["hits"]["hits"].append(hit("p-1527")), "11 hits of 20"),
    ("search", shards(0, 0), "0 of 0 shards"),
    ("search", shards(1, 1), "1 shards, and 3 were to be asked"),
    ("search", shards(6, 6), "6 shards, and 3 were to be asked"),
    ("search", shards(3, 4), "4 of 3 shards"),
    ("search", equal, "twice"),
    ("search", to(*HIT, value=hit("p-8")), "which does not match"),
    ("search", to(*HIT, "_id", value="x"), '"x", which this load never sent'),
    ("search", to(*HIT, "_id", value="w-99900027"), "which this load never sent"),
    ("search", to(*HIT, "_id", value="p-0007"), "which this load never sent"),
    ("search", to(*HIT, "_index", value="other"), 'the index "other"'),
    ("search", to(*HIT, "_source", "check", value=1), "other content of p-"),
    ("search", to(*HIT, "_source", value={}), "other content of p-"),
    ("search", reversed_, "out of order"),
    ("search", to("hits", "total", "value", value=21), "found 21, and 20 were ever sent"),
    ("search", to("hits", "total", "value", value=9999), "found 9999, and 20 were ever sent"),
    ("get", to("_id", value="p-1"), 'the _id "p-1"'),
    ("get", to("_index", value="other"), 'the _index "other"'),
    ("get", to("found", value=False), "status 200 and found: false"),
    ("get", to("_source", value={}), "other content"),
    ("get", to("_source", "seq", value=-1), "other content"),
    ("get", lambda answer: answer["_source"].update(more=1), "other content"),
    ("index", to("_id", value="w-8"), 'the _id "w-8"'),
    ("index", to("_index", value="chaos-writes"), 'the _index "chaos-writes"'),
    ("index", to("result", value="updated"), "201 and updated"),
    ("index", shards(3, 0), "0 of 3 copies that took it"),
    ("index", shards(0, 0), "0 of 0 copies that took it"),
    ("index", shards(3, 3, 1), "3 of 3 copies that took it, 1 failed"),
    ("index", to("_seq_no", value=-2), "seq_no -2"),
    ("index", to("_primary_term", value=0), "primary term 0"),
]


@pytest.mark.parametrize(("kind", "change", "says"), WRONG, ids=[f"{kind}-{says}" for kind, _, says in WRONG])
def test_what_was_not_asked_for_is_wrong_and_says_what_came(kind: str, change: Any, says: str) -> None:
    found = answered(kind, change)
    assert found.outcome is Outcome.WRONG and says in found.says and not found.stale
    assert kind in found.says.replace("write", "index")


@pytest.mark.parametrize(
    ("kind", "change", "outcome"),
    [
        ("search", shards(3, 2, 1), Outcome.PARTIAL),  # it says so itself: what a zone that is away leaves
        ("search", shards(3, 2), Outcome.PARTIAL),
        ("search", to("timed_out", value=True), Outcome.PARTIAL),
        ("index", shards(3, 1), Outcome.OK),  # copies without a node are no failure of this write
        ("index", shards(4, 4), Outcome.OK),  # and one that moves counts twice
        ("index", shards(3, 2, 1), Outcome.PARTIAL),
    ],
)
def test_what_an_answer_says_of_itself_stands(kind: str, change: Any, outcome: Outcome) -> None:
    assert answered(kind, change) == Judged(outcome)


def test_an_answer_that_is_partial_by_its_own_word_is_wrong_all_the_same_with_hits_of_others() -> None:
    def both(answer: dict[str, Any]) -> None:
        answer["_shards"] = {"total": 3, "successful": 2, "failed": 1}
        answer["hits"] = {"total": {"value": 1}, "hits": [hit("p-8")]}

    assert answered("search", both).outcome is Outcome.WRONG


@pytest.mark.parametrize("total", [1, 2, 7])
def test_a_write_that_speaks_of_other_copies_than_there_are_is_acknowledged_and_not_whole(total: int) -> None:
    says = f"write of w-7 answered created and {total} copies, and each shard has 3"
    assert answered("index", shards(total, 1)) == Judged(Outcome.PARTIAL, says)


def test_an_update_is_the_second_try_of_our_own_write() -> None:
    assert answered("index", to("result", value="updated"), status=200) == Judged(Outcome.OK)


@pytest.mark.parametrize("kind", ["search", "get", "index"])
def test_nothing_that_goodness_hangs_on_can_be_another(kind: str) -> None:
    """Every place of a good answer taken out, or replaced by something of every other kind."""
    beside = {("_shards", "skipped"), ("hits", "total", "relation"), ("_version",)}
    beside |= {("_seq_no",), ("_primary_term",)} if kind == "get" else set()
    _, answer = said(asked(kind), kind)
    for place in places(answer):
        for other in (None, 0.5, "0", [], {}, [[]], ABSENT):
            found = answered(kind, to(*place, value=other)).outcome
            if place in beside and (place[-1] != "relation" or other is ABSENT):
                assert found is Outcome.OK, (place, other)
            elif place[-1] == "_score" and other == 0.5:
                assert found in (Outcome.WRONG, Outcome.OK)
            else:
                assert found in (Outcome.WRONG, Outcome.GARBLED), (place, other)


# -- what must be visible by now ----------------------------------------------------------------------------------


def search(it: Judge, total: int, ids: list[str], t: int, k: int = 7) -> Judged:
    request = asked("search", k)
    shown = [hit(id) for id in ids[:HITS]]
    shards = {"total": SHARDS, "successful": SHARDS, "failed": 0}
    answer = {"timed_out": False, "_shards": shards, "hits": {"total": {"value": total}, "hits": shown}}
    return it.of(it.sent("search", k, request, request.path, t), 200, json.dumps(answer), t)


def write(it: Judge, k: int, t: int, successful: int = 3) -> Judged:
    request = asked("index", k)
    status, answer = said(request, "index", k)
    answer["_shards"]["successful"] = successful
    return it.of(it.sent("index", k, request, request.path, t), status, json.dumps(answer), t)


def test_a_search_is_stale_that_lacks_what_was_acknowledged_long_enough_before_it_was_sent() -> None:
    it, _ = judge(visible_after_s=1 + LATE_S)
    group = asked("search").asks
    assert isinstance(group, int)
    there = [preload_id(n) for n in range(group, DOCUMENTS, GROUPS)]
    k = GROUPS + group
    assert write(it, k, 0).outcome is Outcome.OK
    soon, late = int((1 + LATE_S) * SECOND) - 1, int((1 + LATE_S) * SECOND)
    assert search(it, 20, there, soon) == Judged(Outcome.OK)  # a refresh may still be due
    assert search(it, 21, [write_id(k), *there], soon) == Judged(Outcome.OK)
    assert search(it, 20, there, late) == Judged(Outcome.PARTIAL, stale=True)
    assert search(it, 21, there, late) == Judged(Outcome.OK)
    assert search(it, 22, there, late).says == f"search for {group} found 22, and 21 were ever sent"
    assert search(it, 19, there, soon).stale, "what was preloaded must be there always"


def test_a_write_that_no_copy_took_is_not_counted_on() -> None:
    """OpenSearch says of a write that was done that one copy took it, at least: this one was acknowledged by nobody."""
    it, known = judge()
    group = asked("search").asks
    assert isinstance(group, int)
    assert write(it, GROUPS + group, 0, successful=0).outcome is Outcome.WRONG
    assert known.least(group, 10**15) == 20 and known.most(group) == 21


def test_nobody_can_say_when_documents_are_visible_where_the_experiment_changes_that() -> None:
    it, known = judge(visible_after_s=None)
    write(it, 7, 0)
    assert known.least(7, 10**15) == 20


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 30), st.booleans()), max_size=60), st.integers(0, 60))
def test_what_must_be_found_never_exceeds_what_can_be(writes: list[tuple[int, int, bool]], t: int) -> None:
    """Law: least <= what was acknowledged a while ago <= all that was sent, for each group."""
    known = Known(WORKLOAD.found_by, 250, visible_after_s=5)
    sent = {number: (at, yes) for number, at, yes in sorted(writes, key=lambda each: each[1])}
    for number, (at, yes) in sorted(sent.items(), key=lambda item: item[1][0]):
        known.sent(write_id(number))
        if yes:
            known.acknowledged(write_id(number), at * SECOND)
    for group in range(GROUPS):
        preloaded = len(range(group, 250, GROUPS))
        due = sum(n % GROUPS == group and yes and at + 5 <= t for n, (at, yes) in sent.items())
        assert known.least(group, t * SECOND) == preloaded + due
        assert known.most(group) == preloaded + sum(n % GROUPS == group for n in sent)


# -- what an answer must have ---------------------------------------------------------------------------------------


def test_a_404_that_speaks_of_another_document_is_wrong() -> None:
    it, _ = judge()
    request = asked("get")
    sent = it.sent("get", 7, request, request.path, 0)
    id = request.path.rpartition("/")[2]
    for info, says in (
        ({"_index": INDEX, "_id": id, "found": False}, ""),
        ({"found": False}, ""),
        ({"_index": INDEX, "_id": "x", "found": False}, f'get of {id} answered that "x" is not there'),
        ({"_index": "other", "_id": id, "found": False}, f'get of {id} answered that "other" is not there'),
    ):
        assert it.missing(sent, NotFoundError(404, "x", info)) == says


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/chaos/_doc/p-1", EVERY),
        ("/chaos/_doc/p-1?_source=false", {"_index", "_id"}),
        ("/chaos/_search", EVERY),
        ("/chaos/_search?filter_path=hits", EVERY),
        ("/chaos/_search?filter_path=timed_out,_shards,hits.total", set()),
        ("/chaos/_search?filter_path=_shards,hits.hits._id,hits.hits._source.seq", {"_id"}),
        ("/chaos/_doc/w-1?filter_path=_id,result,_shards&require_alias=true", {"_id"}),
    ],
)
def test_an_answer_has_the_fields_that_its_path_asks_for(path: str, fields: set[str]) -> None:
    assert fields_of(path) == fields


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (None, Searched(10, True, True)),
        ('{"query":{}}', Searched(10, True, True)),
        ('{"size":3,"sort":["seq"]}', Searched(3, False, True)),
        ('{"size":3,"_source":false}', Searched(3, True, False)),
        ('{"size":3,"script_fields":{"a":{}}}', Searched(3, True, False)),
        ('{"size":3,"track_total_hits":50}', Searched(3, True, True, 50)),
        ('{"from":10}', Searched()),
        ("no JSON", Searched()),
    ],
)
def test_what_a_search_asks_for_is_in_its_body(body: str | None, expected: Searched) -> None:
    assert searched(body) == expected


def test_a_search_that_counts_only_so_far_is_not_stale() -> None:
    it, _ = judge(documents=0)
    answer = {
        "timed_out": False,
        "_shards": {"total": 3, "successful": 3, "failed": 0},
        "hits": {"total": {"value": 10_000, "relation": "gte"}},
    }
    known = Known(lambda _: ("x",), 20_000)
    it = Judge(WORKLOAD, known, INDEX)
    request = Request("POST", "/chaos/_search?filter_path=timed_out,_shards,hits.total", '{"size":0}', asks="x")
    assert it.of(it.sent("search", 0, request, request.path, 0), 200, json.dumps(answer), 0) == Judged(Outcome.OK)
    answer["hits"]["total"]["relation"] = "eq"  # type: ignore[index]
    assert it.of(it.sent("search", 0, request, request.path, 0), 200, json.dumps(answer), 0).stale


def test_a_workload_that_says_nothing_of_its_searches_is_held_against_all_that_was_sent() -> None:
    it, _ = judge(documents=5)
    request = Request("POST", "/chaos/_search?filter_path=timed_out,_shards,hits.total,hits.hits._id", None)

    def found(ids: list[str], total: int) -> Judged:
        answer = {
            "timed_out": False,
            "_shards": {"total": 3, "successful": 3, "failed": 0},
            "hits": {"total": {"value": total}, "hits": [{"_id": id} for id in ids]},
        }
        return it.of(it.sent("search", 0, request, request.path, 0), 200, json.dumps(answer), 0)

    assert found(["p-0", "p-4", "c-1"], 3) == Judged(Outcome.OK)
    for ids, total in ((["p-5"], 1), (["p-0", "p-0"], 2), (["p-0"], 2), (["p-0"], 8)):
        assert found(ids, total).outcome is Outcome.WRONG


def test_the_answer_to_a_search_for_ids_is_about_these() -> None:
    it, _ = judge()

    def found(asked: list[str], shards: int, total: int, *ids: str) -> str:
        hits = [{"_index": INDEX, "_id": id} for id in ids]
        counted = {"total": shards, "successful": shards, "failed": 0}
        answer = {"timed_out": False, "_shards": counted, "hits": {"total": {"value": total}, "hits": hits}}
        return it.by_ids(answer, asked)

    one, two, every = ["v-3"], ["v-3", "v-5"], SHARDS
    assert found(one, 1, 0) == found(one, 1, 1, "v-3") == found(one, 1, 2, "v-3", "v-3") == ""
    assert all((found(one, 0, 0), found(one, 3, 0), found(one, 1, 1), found(one, 1, 1, "v-4"), found(one, 1, 0, "v-3")))
    assert found(two, every, 0) == found(two, every, 1, "v-5") == found(two, every, 3, "v-3", "v-5", "v-5") == ""
    assert all((found(two, 0, 0), found(two, 1, 0), found(two, every, 1)))
    assert all((found(two, every, 1, "v-4"), found(two, every, 1, *two)))


def test_where_other_processes_write_too_no_document_was_never_sent() -> None:
    """A process knows its own documents alone; that a hit must match what was asked for holds all the same."""
    known = Known(WORKLOAD.found_by, 10, alone=False)
    assert known.most(None) > 10**12 and known.last["w"] > 10**12 and known.last["c"] > 10**12
    assert known.last["p"] == 9


# ---- names with several indices ------------------------------------------------------------------------------


def searched_in(*indices: str, rolled: Any = "data_stream") -> Judged:
    """A search whose hits are of these indices, one each, the last two of one id."""
    known = Known(WORKLOAD.found_by, DOCUMENTS, keys=0, visible_after_s=None)
    it = Judge(WORKLOAD, known, INDEX, copies=COPIES, rolled=rolled)
    request = asked("search")
    code, answer = said(request, "search")
    ids = [each["_id"] for each in answer["hits"]["hits"]][: len(indices) - 1]
    hits = [{**hit(id), "_index": index} for id, index in zip([*ids, ids[-1]], indices, strict=True)]
    answer["hits"] = {"total": {"value": len(hits), "relation": "eq"}, "hits": hits}
    answer["_shards"] = {"total": 6, "successful": 6, "failed": 0}
    sent = it.sent("search", 7, request, request.path, 0)._replace(least=0)
    return it.of(sent, code, json.dumps(answer), 1)


def test_hits_may_be_of_any_index_of_the_name_and_an_id_is_once_in_each() -> None:
    first, second = ".ds-chaos-000001", ".ds-chaos-000002"
    assert searched_in(first, first, second) == Judged(Outcome.OK)  # sent again after a rollover: the read-back's
    assert "twice" in searched_in(first, second, second).says
    assert "a hit of the index" in searched_in(first, first, ".ds-chaos2-000001").says
    assert "a hit of the index" in searched_in(first, second, second, rolled=None).says
