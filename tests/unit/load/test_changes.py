"""Updates and deletes in bulks: which documents they name, how they go over the wire, and how answers are judged."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.load.test_right import COPIES, INDEX, SHARDS

from chaos.base.errors import InvalidInput
from chaos.base.ids import number_of, preload_id, write_id
from chaos.history.changes import ROW
from chaos.history.format import ACKNOWLEDGED_ITEMS, Action, ItemOutcome, Outcome
from chaos.load.bulks import Bulks
from chaos.load.changes import Changing, Planned, Updates
from chaos.load.known import Known
from chaos.load.right import Judge, Judged
from chaos.load.schedule import SECOND
from chaos.load.workload import Request
from chaos.load.workloads import named
from chaos.load.workloads.documents import WORKLOAD, source

ITEMS = 6
CREATED, CHANGED, DELETED, UNKNOWN, MISSING = (
    int(ItemOutcome[name]) for name in ("CREATED", "CHANGED", "DELETED", "UNKNOWN", "MISSING")
)
_GOOD = {Action.CREATE: CREATED, Action.UPDATE: CHANGED, Action.DELETE: DELETED}


@given(st.integers(0, 2**32), st.integers(1, 4), st.floats(0, 0.5))
def test_an_item_changes_what_was_acknowledged_and_of_which_no_change_is_open(
    seed: int, at_once: int, fails: float
) -> None:
    """Held against a plain account of what is known of each document."""
    chance, updates = random.Random(seed), Updates(ITEMS)
    changing = Changing((3, 2, 1), seed, updates)
    under_way: list[Planned] = []
    content: dict[int, int] = {}  # of documents that may be changed
    for k in range(40):
        plan = changing.plan(range(k * ITEMS, (k + 1) * ITEMS))
        under_way.append(plan)
        for n in range(plan.first, plan.first + ITEMS):
            action, document, held = plan.of(n)
            if action == Action.CREATE:
                assert document == held == n
            else:
                assert content.pop(document) == held and document != n
            assert updates.document(n) == (document if action == Action.UPDATE else None)
        if len(under_way) < at_once:
            continue
        done = under_way.pop(chance.randrange(len(under_way)))
        if chance.random() < fails:
            changing.told(done, None)
            continue
        outcomes = bytes(UNKNOWN if chance.random() < fails else _GOOD[Action(action)] for action in done.actions)
        changing.told(done, outcomes)
        for place, outcome in enumerate(outcomes):
            if outcome in ACKNOWLEDGED_ITEMS and done.actions[place] != Action.DELETE:
                content[done.documents[place]] = done.first + place


def test_items_do_what_their_weights_say() -> None:
    changing, drawn = Changing((8, 1, 1), 3, Updates(100)), Counter[int]()
    for k in range(100):
        plan = changing.plan(range(k * 100, (k + 1) * 100))
        changing.told(plan, bytes(_GOOD[Action(action)] for action in plan.actions))
        drawn.update(plan.actions)
    assert drawn[Action.CREATE] == pytest.approx(8000, rel=0.03)
    assert drawn[Action.UPDATE] == pytest.approx(1000, rel=0.15) and drawn[Action.DELETE] == pytest.approx(
        1000, rel=0.15
    )


def mixed() -> Planned:
    """Items 12 to 17: 13 updates document 3, which holds 7, and 15 deletes document 4."""
    updates = Updates(ITEMS)
    changing = Changing((1, 0, 0), 0, updates)
    plan = changing.plan(range(12, 18))
    for place, action, document, held in ((1, Action.UPDATE, 3, 7), (3, Action.DELETE, 4, 4)):
        plan.actions[place], plan.documents[place], plan.held[place] = action, document, held
    return plan


def test_each_item_goes_over_the_wire_as_what_it_does() -> None:
    request = Bulks(WORKLOAD, "chaos-writes", ITEMS, ITEMS).of(range(12, 18), mixed())
    assert request.body is not None and request.body.endswith("\n")
    lines = [json.loads(line) for line in request.body.splitlines()]
    assert lines[0:2] == [{"index": {"_id": "w-12"}}, source("w-12")]
    assert lines[2:4] == [{"update": {"_id": "w-3"}}, {"doc": source("w-13"), "detect_noop": False}]
    assert lines[6] == {"delete": {"_id": "w-4"}} and lines[7] == {"index": {"_id": "w-16"}}
    assert len(lines) == 2 * ITEMS - 1
    assert mixed().rows == ROW.pack(13, 3, Action.UPDATE) + ROW.pack(15, 4, Action.DELETE)


# ---- answers ----------------------------------------------------------------------------------------------------


def right() -> dict[str, Any]:
    shards = {"total": COPIES, "successful": COPIES, "failed": 0}
    said = {
        Action.CREATE: ("index", 201, "created"),
        Action.UPDATE: ("update", 200, "updated"),
        Action.DELETE: ("delete", 200, "deleted"),
    }
    plan, items = mixed(), []
    for n in range(12, 18):
        action, document, _ = plan.of(n)
        name, status, result = said[Action(action)]
        more = {"status": status, "result": result, "_shards": dict(shards)}
        items.append({name: {"_index": INDEX, "_id": write_id(document), **more}})
    return {"errors": False, "items": items}


def judge(updates: Updates | None = None) -> tuple[Judge, Known]:
    known = Known(WORKLOAD.found_by, 1000, visible_after_s=11.0)
    return Judge(WORKLOAD, known, INDEX, shards=SHARDS, copies=COPIES, updates=updates or Updates(ITEMS)), known


def answered(place: int, errors: bool = False, **change: Any) -> Judged:
    it, _ = judge()
    sent = it.sent_bulk("/chaos-writes/_bulk", range(12, 18), plan=mixed())
    answer = right()
    answer["errors"] = errors
    ((_, item),) = answer["items"][place].items()
    item |= change
    for key in [key for key, value in item.items() if value is None]:
        del item[key]
    return it.of(sent, 200, json.dumps(answer), 0)


def test_changes_that_every_copy_took_are_good_and_told_apart() -> None:
    judged = answered(0)
    assert judged.outcome is Outcome.OK and not judged.says
    assert judged.items == bytes([CREATED, CHANGED, CREATED, DELETED, CREATED, CREATED])


def test_what_is_not_there_was_not_changed() -> None:
    missing = {"type": "document_missing_exception", "reason": "[w-3]: document missing"}
    judged = answered(1, errors=True, status=404, error=missing, result=None, _shards=None)
    assert (
        judged.items is not None
        and judged.items[1] == MISSING
        and judged.outcome is Outcome.PARTIAL
        and not judged.says
    )
    # OpenSearch does not count a delete of what is not there as a failure
    judged = answered(3, status=404, result="not_found")
    assert (
        judged.items is not None
        and judged.items[3] == MISSING
        and judged.outcome is Outcome.PARTIAL
        and not judged.says
    )


@pytest.mark.parametrize(
    ("place", "change"),
    [
        (1, {"result": "noop"}),  # goes to no copy, and ours asks for none
        (1, {"result": "created", "status": 201}),
        (1, {"_id": "w-13"}),
        (3, {"result": "updated"}),
        (3, {"result": "not_found"}),
        (3, {"status": 404, "result": "deleted"}),
        (3, {"_id": "w-15"}),
    ],
)
def test_an_answer_for_another_change_is_wrong(place: int, change: dict[str, Any]) -> None:
    judged = answered(place, **change)
    assert judged.outcome is Outcome.WRONG and judged.items is not None and judged.items[place] == ItemOutcome.WRONG


def test_an_item_that_answers_for_another_action_is_wrong() -> None:
    it, _ = judge()
    sent = it.sent_bulk("/chaos-writes/_bulk", range(12, 18), plan=mixed())
    answer = right()
    answer["items"][3] = {"index": answer["items"][3]["delete"]}
    judged = it.of(sent, 200, json.dumps(answer), 0)
    assert judged.outcome is Outcome.WRONG and "w-4 with index, not with delete" in judged.says


# ---- searches ---------------------------------------------------------------------------------------------------


def _search(group: int) -> Request:
    return WORKLOAD.requests(INDEX, 1000)._searches[group]  # type: ignore[attr-defined]


def found(it: Judge, group: int, *held: tuple[str, str], total: int, t: int = 0) -> Judged:
    """A search for a group that finds documents (id, whose content) and counts so many. Preloaded ones fill it up."""
    request = _search(group)
    sent = it.sent("search", 5, request, request.path, t)
    return it.of(sent, 200, json.dumps(_answer(group, *held, total=total)), t)


def _answer(group: int, *held: tuple[str, str], total: int) -> dict[str, Any]:
    named = [*held, *((preload_id(n),) * 2 for n in range(group, 1000, 100))][: min(10, total)]
    hits = [
        {"_index": INDEX, "_id": id, "_score": 1.0 - place / 100, "_source": source(content)}
        for place, (id, content) in enumerate(named)
    ]
    shards = {"total": SHARDS, "successful": SHARDS, "failed": 0}
    return {"timed_out": False, "_shards": shards, "hits": {"total": {"value": total, "relation": "eq"}, "hits": hits}}


def updated() -> tuple[Judge, Known]:
    """Documents 3 and 4 were written, and item 13 updates document 3."""
    updates = Updates(ITEMS)
    it, known = judge(updates)
    bulk = it.sent_bulk("/chaos-writes/_bulk", range(3, 5))
    assert bulk is not None
    for n in (3, 4):
        known.acknowledged(write_id(n), 0)
    plan = mixed()
    plan.held[1] = 3
    updates.add(plan)
    it.sent_bulk("/chaos-writes/_bulk", range(12, 18), plan=plan)
    return it, known


def test_a_search_may_find_a_document_by_its_old_content_and_by_its_new_one() -> None:
    it, _ = updated()
    assert found(it, 3, ("w-3", "w-3"), total=11).outcome is Outcome.OK
    assert found(it, 13, ("w-3", "w-13"), total=11).outcome is Outcome.OK
    assert "does not match" in found(it, 3, ("w-3", "w-13"), total=11).says
    assert "w-4, which does not match" in found(it, 13, ("w-4", "w-13"), total=11).says


def test_an_update_by_another_process_is_of_a_document_of_that_process() -> None:
    """Two processes share a load: bulks of even numbers are of this one, of odd ones of the other."""
    known = Known(WORKLOAD.found_by, 1000, visible_after_s=11.0, alone=False)
    it = Judge(WORKLOAD, known, INDEX, shards=SHARDS, copies=COPIES, updates=Updates(ITEMS, 0, 2))
    theirs, own = 1 * ITEMS, 2 * ITEMS  # the first documents of bulks 1 and 2
    update = 3 * ITEMS  # the first item of bulk 3, of which nothing is known here
    assert found(it, update % 100, (write_id(theirs), write_id(update)), total=11).outcome is Outcome.OK
    assert "does not match" in found(it, update % 100, (write_id(own), write_id(update)), total=11).says
    never = 4 * ITEMS  # of this process, which has sent no such update
    assert "does not match" in found(it, never % 100, (write_id(own), write_id(never)), total=11).says
    assert "does not match" in found(it, never % 100, (write_id(theirs), write_id(never)), total=11).says


def test_a_search_need_not_find_what_may_have_changed_or_gone_and_must_find_what_it_was_changed_to() -> None:
    it, known = updated()
    later = 12 * SECOND
    assert known.least(3, later) == known.least(4, later) == 10  # 3 was updated, 4 deleted, with no answer so far
    assert found(it, 4, total=10, t=later).outcome is Outcome.OK
    known.acknowledged(write_id(13), later)
    assert known.least(13, later) == 10 and known.least(13, 2 * later) == 11
    assert found(it, 13, total=10, t=2 * later).stale


def test_a_search_that_was_under_way_when_its_document_changed_need_not_find_it() -> None:
    updates = Updates(ITEMS)
    it, known = judge(updates)
    it.sent_bulk("/chaos-writes/_bulk", range(3, 5))
    known.acknowledged(write_id(4), 0)
    later, request = 12 * SECOND, _search(4)
    sent = it.sent("search", 5, request, request.path, later)
    assert sent.least == 11
    text = json.dumps(_answer(4, total=10))
    assert it.of(sent, 200, text, later).stale
    it.sent_bulk("/chaos-writes/_bulk", range(12, 18), plan=mixed())  # deletes document 4
    assert it.of(sent, 200, text, later).outcome is Outcome.OK


class _Growing(type(WORKLOAD)):  # type: ignore[misc]
    """Every third document has a key more in one of its objects."""

    def body(self, doc_id: str) -> str:
        more = {"more": 1} if number_of(doc_id) % 3 == 0 else {}
        return json.dumps({"seq": number_of(doc_id), "in": {"a": 1, **more} if number_of(doc_id) % 2 else None})


def test_documents_whose_keys_differ_cannot_be_updated() -> None:
    WORKLOAD.refuse_updates()
    for name in ("logs", "flat20", "search"):
        named(name).refuse_updates()
    with pytest.raises(InvalidInput, match="other keys from one to the next"):
        _Growing().refuse_updates()
