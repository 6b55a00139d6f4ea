"""Several searches in one request: made from the mix of the workload, and each judged as it would be alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.load.test_right import DOCUMENTS, INDEX, REQUESTS, hit, judge, said

from chaos.history.format import Outcome
from chaos.load.outcomes import of_parts
from chaos.load.right import Judged
from chaos.load.searches import Searches
from chaos.load.workload import Request
from chaos.load.workloads import named

NUMBER = 5
TOGETHER = Searches(REQUESTS, NUMBER)


def test_each_search_is_one_of_the_mix_and_asks_for_what_it_would_alone() -> None:
    request, parts = TOGETHER.of(7)
    assert request.method == "POST" and request.path.startswith(f"/{INDEX}/_msearch?filter_path=responses.timed_out,")
    assert {"responses.status", "responses.error"} <= set(request.path.partition("=")[2].split(","))
    assert request.body is not None and request.body.endswith("\n")
    lines = request.body.splitlines()
    assert lines[::2] == ["{}"] * NUMBER and lines[1::2] == [part.body for part in parts]
    assert parts[0] == REQUESTS.of("search", 7) and len({part.asks for part in parts}) > 1


def test_the_searches_of_a_workload_in_yaml_say_now_as_its_single_ones_do() -> None:
    requests = named("logs").strided(INDEX, DOCUMENTS, 15)
    request, parts = Searches(requests, NUMBER).of(1000)
    assert request.path == f"/{INDEX}/_msearch" and len({part.body for part in parts}) > 1
    assert parts[0] == requests.of("search", 1000)
    alone = [requests.search(1000, place) for place in range(NUMBER)]  # type: ignore[attr-defined]
    assert list(parts) == alone


def answered(change: Callable[[list[Any]], Any] = lambda responses: None, status: int = 200) -> Judged:
    it, _ = judge()
    request, parts = TOGETHER.of(7)
    sent = it.sent_searches(7, request.path, parts, 0)
    responses: list[Any] = [{**said(part, "search")[1], "status": 200} for part in parts]
    change(responses)
    return it.of(sent, status, json.dumps({"responses": responses}), 0)


def failed(responses: list[Any], place: int, status: int, kind: str) -> None:
    responses[place] = {"status": status, "error": {"type": kind, "reason": "no"}}


def test_searches_that_are_all_right_are_good() -> None:
    assert answered() == Judged(Outcome.OK, items=bytes([Outcome.OK] * NUMBER))


@pytest.mark.parametrize(
    ("change", "whole", "part"),
    [
        (lambda r: failed(r, 2, 429, "rejected_execution_exception"), Outcome.PARTIAL, Outcome.REJECTED),
        (lambda r: failed(r, 2, 503, "search_phase_execution_exception"), Outcome.PARTIAL, Outcome.SERVER_ERROR),
        (lambda r: failed(r, 2, 403, "cluster_block_exception"), Outcome.PARTIAL, Outcome.SERVER_ERROR),
        (lambda r: failed(r, 2, 400, "parsing_exception"), Outcome.PARTIAL, Outcome.CLIENT_ERROR),
        (lambda r: failed(r, 2, 200, "none"), Outcome.WRONG, Outcome.WRONG),
        (lambda r: r[2]["_shards"].update(successful=2, failed=1), Outcome.PARTIAL, Outcome.PARTIAL),
        (
            lambda r: r[2]["hits"].update(total={"value": 3, "relation": "eq"}, hits=r[2]["hits"]["hits"][:3]),
            Outcome.PARTIAL,
            Outcome.PARTIAL,
        ),  # fewer than must be visible
        (lambda r: r[2]["hits"]["hits"].__setitem__(0, hit("w-1000000", 3.0)), Outcome.WRONG, Outcome.WRONG),
        (lambda r: r[2].pop("timed_out"), Outcome.GARBLED, Outcome.GARBLED),
        (lambda r: r.__setitem__(2, 7), Outcome.GARBLED, Outcome.GARBLED),
        (lambda r: r.__setitem__(2, r[3]), Outcome.WRONG, Outcome.WRONG),  # another search's answer
    ],
)
def test_one_bad_search_decides_for_the_request_and_the_others_keep_their_own(
    change: Callable[[list[Any]], Any], whole: Outcome, part: Outcome
) -> None:
    judged = answered(change)
    assert judged.outcome is whole and bool(judged.says) == (part is Outcome.WRONG)
    assert judged.items == bytes([Outcome.OK, Outcome.OK, part, Outcome.OK, Outcome.OK])


def test_answers_for_another_number_of_searches_are_wrong_and_none_at_all_is_garbled() -> None:
    assert "5 searches in one request answered for 4" in answered(lambda r: r.pop()).says
    it, _ = judge()
    request, parts = TOGETHER.of(7)
    sent = it.sent_searches(7, request.path, parts, 0)
    for body in ("{}", "[]", '{"responses": 3}', "no"):
        assert it.of(sent, 200, body, 0) == Judged(Outcome.GARBLED)
    assert it.of(sent, 429, "{}", 0) == Judged(Outcome.REJECTED)


@given(st.lists(st.sampled_from(list(Outcome)), min_size=1, max_size=6))
def test_only_searches_that_are_all_good_make_a_good_request(outcomes: list[Outcome]) -> None:
    made = of_parts(bytes(outcomes))
    assert (made is Outcome.OK) == (set(outcomes) == {Outcome.OK})
    assert made in outcomes or made is Outcome.PARTIAL


def test_requests_that_know_no_places_are_asked_for_more_arrivals() -> None:
    class Plain:
        def of(self, kind: str, k: int) -> Request:
            return Request("POST", "/x/_search", str(k))

    request, parts = Searches(Plain(), 3).of(4)
    assert [part.body for part in parts] == ["12", "13", "14"] and request.path == "/x/_msearch"
