"""Bulks: made from the number of their arrival, and judged document by document."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.load.test_right import COPIES, INDEX, judge

from chaos.base.ids import arrival_of, number_of, write_id
from chaos.history.format import ACKNOWLEDGED_ITEMS, ItemOutcome, Outcome
from chaos.load.bulks import Bulks, Fates, of_items
from chaos.load.bulks import judge as bulks_judge
from chaos.load.config import RetryConfig
from chaos.load.known import Known
from chaos.load.right import Judge, Judged
from chaos.load.workloads.documents import WORKLOAD, source

ITEMS = 5
FIRST = 3 * ITEMS
Answer = dict[str, Any]


def right() -> Answer:
    """The answer to the bulk of arrival 3 when every copy took every document."""
    shards = {"total": COPIES, "successful": COPIES, "failed": 0}
    named = [{"_index": INDEX, "_id": write_id(FIRST + place)} for place in range(ITEMS)]
    return {
        "errors": False,
        "items": [{"index": {**each, "status": 201, "result": "created", "_shards": dict(shards)}} for each in named],
    }


def answered(change: Callable[[Answer], Any] = lambda answer: None, status: int = 200) -> Judged:
    it, _ = judge()
    sent = it.sent_bulk("/chaos-writes/_bulk", range(FIRST, FIRST + ITEMS))
    answer = right()
    change(answer)
    return it.of(sent, status, json.dumps(answer), 0)


def refused(answer: Answer, status: int, kind: str, *places: int) -> None:
    for place in places:
        item = answer["items"][place]["index"]
        item |= {"status": status, "error": {"type": kind, "reason": "no"}}
        item.pop("result", None)
        item.pop("_shards", None)
    answer["errors"] = True


def names(judged: Judged) -> list[str]:
    assert judged.items is not None
    return [ItemOutcome(each).name.lower() for each in judged.items]


def test_a_bulk_has_the_documents_of_its_arrival_and_no_other() -> None:
    bulks = Bulks(WORKLOAD, INDEX, items=3, stride=10)
    request = bulks.of(bulks.numbers(7))
    lines = [json.loads(line) for line in str(request.body).splitlines()]
    assert lines[::2] == [{"index": {"_id": f"w-{n}"}} for n in (70, 71, 72)]
    assert lines[1::2] == [source(f"w-{n}") for n in (70, 71, 72)]
    assert request.method == "POST" and request.path.startswith(f"/{INDEX}/_bulk?") and str(request.body).endswith("\n")


@given(st.integers(1, 5000), st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 4999)), min_size=2, max_size=20))
def test_two_documents_of_a_load_never_have_the_same_id(stride: int, placed: list[tuple[int, int]]) -> None:
    places = {(k, i % stride) for k, i in placed}
    ids = {write_id(k * stride + i): (k, i) for k, i in places}
    assert len(ids) == len(places)
    assert all(arrival_of(number_of(each), stride) == place for each, place in ids.items())


def test_what_every_copy_took_is_created() -> None:
    judged = answered()
    assert judged.outcome is Outcome.OK and not judged.says and names(judged) == ["created"] * ITEMS


@pytest.mark.parametrize(
    ("status", "kind", "one", "all_of_them"),
    [
        (429, "rejected_execution_exception", "rejected", Outcome.REJECTED),
        (403, "cluster_block_exception", "blocked", Outcome.SERVER_ERROR),
        (403, "security_exception", "invalid", Outcome.CLIENT_ERROR),
        (409, "version_conflict_engine_exception", "conflict", Outcome.PARTIAL),
        (400, "mapper_parsing_exception", "invalid", Outcome.CLIENT_ERROR),
        (503, "unavailable_shards_exception", "failed", Outcome.SERVER_ERROR),
    ],
)
def test_a_document_that_was_refused_makes_no_success_of_a_200(
    status: int, kind: str, one: str, all_of_them: Outcome
) -> None:
    judged = answered(lambda answer: refused(answer, status, kind, 1))
    assert judged.outcome is Outcome.PARTIAL and not judged.says
    assert names(judged) == ["created", one, "created", "created", "created"]
    judged = answered(lambda answer: refused(answer, status, kind, *range(ITEMS)))
    assert judged.outcome is all_of_them and names(judged) == [one] * ITEMS


def item(answer: Answer, place: int = 1) -> dict[str, Any]:
    found: dict[str, Any] = answer["items"][place]["index"]
    return found


def swap(answer: Answer) -> None:
    item(answer, 1)["_id"], item(answer, 2)["_id"] = item(answer, 2)["_id"], item(answer, 1)["_id"]


@pytest.mark.parametrize(
    ("change", "says", "outcomes"),
    [
        (swap, "in the place of w-16", ["created", "wrong", "wrong", "created", "created"]),
        (lambda answer: answer["items"].pop(), "answered for 4", ["unknown"] * 5),
        (lambda answer: answer.update(errors=True), "errors: true, and 0", ["created"] * 5),
        (
            lambda answer: (refused(answer, 429, "x", 4), answer.update(errors=False)),
            "errors: false, and 1",
            ["created"] * 4 + ["rejected"],
        ),
        (
            lambda answer: item(answer).update(_index="other"),
            "the index 'other'",
            ["created", "wrong", "created", "created", "created"],
        ),
        (
            lambda answer: item(answer)["_shards"].update(successful=0),
            "0 of 3 copies",
            ["created", "wrong", "created", "created", "created"],
        ),
        (
            lambda answer: item(answer).update(result="updated"),
            "status 201 and updated",
            ["created", "wrong", "created", "created", "created"],
        ),
        (
            lambda answer: answer["items"].__setitem__(1, {"create": item(answer)}),
            "with create, not with index",
            ["created", "wrong", "created", "created", "created"],
        ),
    ],
)
def test_an_answer_that_contradicts_its_request_or_itself_is_wrong(
    change: Callable[[Answer], Any], says: str, outcomes: list[str]
) -> None:
    judged = answered(change)
    assert judged.outcome is Outcome.WRONG and says in judged.says, judged.says
    assert names(judged) == outcomes


def test_a_copy_that_did_not_take_a_document_leaves_it_acknowledged() -> None:
    judged = answered(lambda answer: item(answer)["_shards"].update(successful=2, failed=1))
    assert judged.outcome is Outcome.PARTIAL and names(judged)[1] == "degraded"


@pytest.mark.parametrize(
    "change",
    [
        lambda answer: answer.pop("items"),
        lambda answer: answer.update(errors="false"),
        lambda answer: item(answer).pop("_id"),
        lambda answer: item(answer).update(status="201"),
        lambda answer: item(answer)["_shards"].update(total=None),
        lambda answer: answer["items"].__setitem__(0, 7),
    ],
)
def test_what_is_no_answer_to_a_bulk_is_garbled_and_acknowledges_nothing(change: Callable[[Answer], Any]) -> None:
    judged = answered(change)
    assert judged.outcome is Outcome.GARBLED and judged.items is None


def test_a_status_that_is_no_success_speaks_for_itself() -> None:
    assert answered(status=429) == Judged(Outcome.REJECTED)


@given(st.lists(st.sampled_from(list(ItemOutcome)), min_size=1, max_size=8))
def test_only_a_bulk_of_which_every_copy_took_every_document_is_ok(outcomes: list[ItemOutcome]) -> None:
    made = of_items(bytes(outcomes))
    taken = {ItemOutcome.CREATED, ItemOutcome.UPDATED, ItemOutcome.CHANGED, ItemOutcome.DELETED}
    assert (made is Outcome.OK) == (set(outcomes) <= taken)
    assert (made is Outcome.WRONG) == (ItemOutcome.WRONG in outcomes)


def test_searches_may_find_what_a_bulk_sent_and_must_find_what_it_acknowledged() -> None:
    it, known = judge()
    group = FIRST % 100
    least, most = known.least(group, 0), known.most(group)
    sent = it.sent_bulk("/chaos-writes/_bulk", range(FIRST, FIRST + ITEMS))
    assert known.most(group) == most + 1
    it.of(sent, 200, json.dumps(right()), 0)
    assert known.least(group, 10**12) == least + 1


# ---- what is sent again -----------------------------------------------------------------------------------------


TRIES = st.lists(
    st.one_of(
        st.sampled_from([Outcome.REJECTED, Outcome.TIMEOUT, Outcome.RESET, Outcome.GARBLED]),
        st.lists(st.sampled_from(list(ItemOutcome)), min_size=6, max_size=6),
    ),
    min_size=1,
    max_size=5,
)


@given(TRIES)
def test_only_what_was_rejected_is_sent_again_and_the_last_word_on_each_document_stands(tries: list[Any]) -> None:
    fates = Fates(range(60, 66))
    told: dict[int, ItemOutcome] = {}
    for each in tries:
        due = list(fates.due)
        if isinstance(each, Outcome):
            again = fates.told(each, None)
            told |= dict.fromkeys(due, ItemOutcome.UNKNOWN) if told else {}
            assert again == (each is Outcome.REJECTED)
        else:
            items = [int(outcome) for outcome in each[: len(due)]]
            again = fates.told(of_items(bytes(items)), bytes(items))
            told |= dict(zip(due, map(ItemOutcome, items), strict=True))
            rejected = [n for n, item in zip(due, items, strict=True) if item == ItemOutcome.REJECTED]
            assert again == (bool(rejected) and ItemOutcome.WRONG not in items)
            assert list(fates.due) == rejected
        if not again:
            break
    assert fates.items == (bytes(told[n] for n in range(60, 66)) if told else None)
    acknowledged = set(ACKNOWLEDGED_ITEMS) - {ItemOutcome.DEGRADED}
    assert (fates.outcome is Outcome.OK) == (set(told.values()) <= acknowledged and bool(told))


def test_waits_grow_to_their_most_and_are_drawn_where_they_are_to_be() -> None:
    grows = RetryConfig(times=4, wait_s=2, most_s=10)
    assert [grows.wait(n, 0.5) for n in (1, 2, 3, 4)] == [2, 4, 8, 10] and grows.longest_s == 24
    fixed = RetryConfig(times=3, wait_s=2, most_s=10, exponential=False, jitter=True)
    assert [fixed.wait(n, 0.5) for n in (1, 2, 3)] == [1, 1, 1] and fixed.longest_s == 6


# ---- ids that OpenSearch gives ----------------------------------------------------------------------------------


def test_documents_without_an_id_of_ours_are_routed_by_it() -> None:
    request = Bulks(WORKLOAD, INDEX, items=2, stride=2, automatic=True).of([4, 5])
    lines = [json.loads(line) for line in str(request.body).splitlines()]
    assert lines == [{"index": {"routing": "w-4"}}, source("w-4"), {"index": {"routing": "w-5"}}, source("w-5")]


@pytest.mark.parametrize("twice", [False, True])
def test_each_document_has_an_id_that_no_other_has(twice: bool) -> None:
    answer = right()
    for place in range(ITEMS):
        item(answer, place)["_id"] = f"given-{0 if twice and place == 1 else place}"
    outcome, says, items = bulks_judge(answer, range(FIRST, FIRST + ITEMS), INDEX, COPIES, automatic=True)
    assert (outcome is Outcome.WRONG) == twice and ("the id 'given-0' twice" in says) == twice
    assert [ItemOutcome(each).name for each in items].count("WRONG") == twice


def test_searches_that_find_documents_of_given_ids_are_held_against_their_content() -> None:
    known = Known(WORKLOAD.found_by, 0)
    it = Judge(WORKLOAD, known, INDEX, shards=3, copies=COPIES, automatic=True)
    it.sent_bulk("/chaos-writes/_bulk", range(0, 3))
    request = WORKLOAD.requests(INDEX, 2000).of("search", 0)
    group = request.asks
    assert isinstance(group, int)
    it.sent_bulk("/chaos-writes/_bulk", range(group, group + 1))

    def judged(**other: Any) -> Judged:
        hit = {"_index": INDEX, "_id": "given", "_score": 1.0, "_source": source(f"w-{group}") | other}
        shards = {"total": 3, "successful": 3, "skipped": 0, "failed": 0}
        hits = {"total": {"value": 2, "relation": "eq"}, "hits": [hit, hit | {"_id": "again"}]}
        text = json.dumps({"timed_out": False, "_shards": shards, "hits": hits})
        return it.of(it.sent("search", 0, request._replace(least_hits=0), request.path, 0), 200, text, 1)

    assert judged() == Judged(Outcome.OK)  # stored twice, and both are right
    assert "other content" in judged(text="amber").says
    assert "never sent" in judged(seq=10**6).says


# ---- names with several indices ------------------------------------------------------------------------------


def created(index: str) -> Answer:
    """The answer to a bulk of a data stream, whose newest index took every document."""
    answer = right()
    answer["items"] = [{"create": {**item["index"], "_index": index}} for item in answer["items"]]
    return answer


def of_stream(change: Callable[[Answer], Any] = lambda answer: None, index: str = ".ds-chaos-000002") -> Judged:
    answer = created(index)
    change(answer)
    known = Known(WORKLOAD.found_by, 0, visible_after_s=None)
    it = Judge(WORKLOAD, known, INDEX, copies=COPIES, rolled="data_stream")
    return it.of(it.sent_bulk("/chaos/_bulk", range(FIRST, FIRST + ITEMS)), 200, json.dumps(answer), 0)


def test_documents_of_a_data_stream_are_created() -> None:
    request = Bulks(WORKLOAD, INDEX, ITEMS, ITEMS, rolled="data_stream").of(range(FIRST, FIRST + ITEMS))
    assert request.body is not None
    actions = [json.loads(line) for line in request.body.splitlines()[::2]]
    assert actions == [{"create": {"_id": write_id(n)}} for n in range(FIRST, FIRST + ITEMS)]
    of_alias = Bulks(WORKLOAD, INDEX, 1, 1, rolled="alias").of(range(1))
    assert of_alias.body is not None and of_alias.body.startswith('{"index":')


def test_any_index_of_the_name_may_take_them_and_no_other() -> None:
    assert of_stream().outcome is Outcome.OK and of_stream(index=".ds-chaos-000001").outcome is Outcome.OK
    wrong = of_stream(index=".ds-other-000001")
    assert wrong.outcome is Outcome.WRONG and "with the index '.ds-other-000001'" in wrong.says
    assert answered(lambda answer: answer["items"][0]["index"].update(_index="chaos-000001")).outcome is Outcome.WRONG


def test_a_create_that_was_done_twice_is_a_conflict_and_no_acknowledgement() -> None:
    def conflict(answer: Answer) -> None:
        item = answer["items"][2]["create"]
        item |= {"status": 409, "error": {"type": "version_conflict_engine_exception", "reason": "exists"}}
        del item["result"], item["_shards"]
        answer["errors"] = True

    judged = of_stream(conflict)
    assert judged.outcome is Outcome.PARTIAL and names(judged) == ["created"] * 2 + ["conflict"] + ["created"] * 2


def test_a_create_never_answers_that_it_has_updated() -> None:
    judged = of_stream(lambda answer: answer["items"][0]["create"].update(status=200, result="updated"))
    assert judged.outcome is Outcome.WRONG
