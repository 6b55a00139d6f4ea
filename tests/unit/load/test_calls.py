"""A call of a helper of opensearch-py, with answers of our own under the library: what is noted of both its sides.

The helpers, their client, its retries and its reading of answers are the library's own.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from urllib3.exceptions import ReadTimeoutError

from chaos.base.access import PLAIN
from chaos.history.failures import Failure
from chaos.history.format import CallerTold, ItemOutcome, Outcome
from chaos.load.calls import CURRENT, Call, Stopped, options
from chaos.load.clients import clients, helpers
from chaos.load.config import HelperConfig, Target
from chaos.load.connections import by_default_policy
from chaos.load.known import Known
from chaos.load.pool import Headers
from chaos.load.right import Judge
from chaos.load.said import Said
from chaos.load.workloads.documents import WORKLOAD

BULK, STREAMING = "helpers.bulk", "helpers.streaming_bulk"
FIRST = 40

Step = Callable[[list[str]], tuple[int, Any]]
"""What comes of a request for documents with these ids: status and answer, or an exception that is raised."""


def item(doc_id: str, status: int = 201, kind: str = "") -> dict[str, Any]:
    made: dict[str, Any] = {"_index": "chaos", "_id": doc_id, "status": status}
    if status == 201:
        return {"index": {**made, "result": "created", "_shards": {"total": 3, "successful": 3, "failed": 0}}}
    return {"index": {**made, "error": {"type": kind, "reason": "planted"}}}


def taken(ids: list[str]) -> tuple[int, Any]:
    return 200, {"errors": False, "items": [item(each) for each in ids]}


def refused(status: int, kind: str = "rejected_execution_exception", every: int = 2) -> Step:
    """Every second document is."""

    def step(ids: list[str]) -> tuple[int, Any]:
        made = [item(each, status if place % every else 201, kind) for place, each in enumerate(ids)]
        return 200, {"errors": True, "items": made}

    return step


def whole(status: int) -> Step:
    return lambda ids: (status, {"error": {"type": "planted"}, "status": status})


def reset(ids: list[str]) -> tuple[int, Any]:
    raise ConnectionResetError(104, "reset by peer")


def slow(ids: list[str]) -> tuple[int, Any]:
    raise ReadTimeoutError(None, "/", "too late")  # type: ignore[arg-type]


def short(ids: list[str]) -> tuple[int, Any]:
    return 200, {"errors": False, "items": [item(each) for each in ids[:-1]]}


class Nodes:
    """What answers in the place of a pool of connections; the last step goes on for ever."""

    def __init__(self, *steps: Step) -> None:
        self.steps, self.sent = list(steps), list[list[str]]()
        self.heads: list[dict[str, str]] = []

    def urlopen(self, method: str, url: str, body: bytes, *, headers: dict[str, str], **_: Any) -> Any:
        self.heads.append(dict(headers))
        plain = gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
        ids = re.findall(r'^\{"index":\{"(?:_id|routing)":"(w-\d+)"', plain.decode(), re.MULTILINE)
        self.sent.append(ids)
        status, answer = (self.steps.pop(0) if len(self.steps) > 1 else self.steps[0])(ids)
        return SimpleNamespace(status=status, headers=Headers(), data=json.dumps(answer).encode())


def call(
    nodes: Nodes,
    kind: str = BULK,
    *,
    items: int = 4,
    stopped: Callable[[], bool] = lambda: False,
    compress: bool = False,
    **given: Any,
) -> tuple[Call, Exception | None]:
    target = Target(node="a-data", zone="a", host="127.0.0.1", port=1)
    client = by_default_policy({0: target}, None, PLAIN, pool=1, timeout_s=1.0, compress=compress, helper=True)
    for connection in client.transport.connection_pool.connections:
        connection.pool = nodes
    judge = Judge(WORKLOAD, Known(WORKLOAD.found_by, 0), "chaos", copies=3)
    said = Said(lambda *_, **__: None)
    made = Call(
        range(FIRST, FIRST + items),
        judge,
        stopped,
        partial=lambda status, text, _: said.partial("write", status, text, None),
        raised=lambda error, _: said.raised("write", error, None),
        wrong=lambda *_: None,
    )
    CURRENT.set(made)
    config = HelperConfig(kind=kind, initial_backoff_s=0.0, **given)
    error: Exception | None = None
    try:
        chosen = options(config, WORKLOAD, "chaos-writes", alias=True, automatic=False)
        helpers()[kind].send(client, range(FIRST, FIRST + items), chosen, made)
    except Exception as raised:
        error = raised
    made.ended(error)
    return made, error


def test_behind_a_balancer_each_request_goes_to_the_node_that_it_chooses() -> None:
    targets = {n: Target(node=f"{n}-data", zone="a", host="127.0.0.1", port=1 + n) for n in range(2)}
    turns = iter([1, 0, 1])
    client = by_default_policy(targets, None, PLAIN, pool=1, timeout_s=1.0, helper=True, choose=lambda: next(turns))
    (connection,) = client.transport.connection_pool.connections
    nodes = [Nodes(reset), Nodes(reset, taken)]
    for number, each in connection._behind.items():
        each.pool = nodes[number]
    judge = Judge(WORKLOAD, Known(WORKLOAD.found_by, 0), "chaos", copies=3)
    notes = {"partial": lambda *_: None, "raised": lambda *_: None, "wrong": lambda *_: None}
    made = Call(range(FIRST, FIRST + 2), judge, lambda: False, **notes)  # type: ignore[arg-type]
    CURRENT.set(made)
    # its first request fails on node 1, the second on node 0: opensearch-py tries its one address again
    nodes[1].steps = [reset, taken]
    chosen = options(HelperConfig(kind=BULK), WORKLOAD, "chaos-writes", alias=True, automatic=False)
    helpers()[BULK].send(client, range(FIRST, FIRST + 2), chosen, made)
    made.ended(None)
    assert (made.attempts, made.node, words(made)) == (3, 1, "SS")
    assert [len(each.sent) for each in nodes] == [1, 2]


def words(made: Call) -> str:
    """What was told of each document: Stored, Failed, Raised, Nothing, neVer sent, Cut short."""
    return "".join("SFRNVC"[CallerTold(each)] for each in made.heard)


def outcomes(made: Call) -> str:
    """The cluster's word on each: Created, Rejected, Blocked, Unknown; none where no request was answered so."""
    letters = {ItemOutcome.CREATED: "C", ItemOutcome.REJECTED: "R", ItemOutcome.BLOCKED: "B", ItemOutcome.UNKNOWN: "U"}
    return "none" if made.items is None else "".join(letters[ItemOutcome(each)] for each in made.items)


PATIENT = {"max_retries": 5, "raise_on_error": False}
CASES: dict[str, tuple[str, list[Step], dict[str, Any], tuple[str, str, Outcome]]] = {
    "all is well": (BULK, [taken], {}, ("SSSS", "CCCC", Outcome.OK)),
    "two bulks": (STREAMING, [taken], {"chunk_size": 2}, ("SSSS", "CCCC", Outcome.OK)),
    "429 by item: raises after the first bulk": (
        BULK,
        [refused(429)],
        {"chunk_size": 2},
        ("RFVV", "CRUU", Outcome.PARTIAL),
    ),
    "… and one that streams has told what was stored": (
        STREAMING,
        [refused(429)],
        {"chunk_size": 2},
        ("SFVV", "CRUU", Outcome.PARTIAL),
    ),
    "… retries are void where it raises": (
        BULK,
        [refused(429), taken],
        {"max_retries": 5},
        ("RFRF", "CRCR", Outcome.PARTIAL),
    ),
    "… and not where it does not": (BULK, [refused(429), taken], PATIENT, ("SSSS", "CCCC", Outcome.OK)),
    "… streaming": (STREAMING, [refused(429), taken], PATIENT, ("SSSS", "CCCC", Outcome.OK)),
    "403 by item is told and not sent again": (
        BULK,
        [refused(403, "cluster_block_exception")],
        PATIENT,
        ("SFSF", "CBCB", Outcome.PARTIAL),
    ),
    "a 429 of the whole raises": (BULK, [whole(429), taken], {}, ("RRRR", "none", Outcome.REJECTED)),
    "… and is sent again with retries": (BULK, [whole(429), taken], {"max_retries": 1}, ("SSSS", "CCCC", Outcome.OK)),
    "a 503 of the whole is sent again by the client": (BULK, [whole(503), taken], {}, ("SSSS", "CCCC", Outcome.OK)),
    "a lost answer is sent again by the client": (BULK, [reset, taken], {}, ("SSSS", "CCCC", Outcome.OK)),
    "no answer in time raises": (BULK, [slow], {"chunk_size": 2}, ("RRVV", "none", Outcome.TIMEOUT)),
    "… after a bulk that was stored": (BULK, [taken, slow], {"chunk_size": 2}, ("RRRR", "CCUU", Outcome.TIMEOUT)),
    "… told by name where it does not raise": (
        STREAMING,
        [slow],
        {"raise_on_exception": False, "raise_on_error": False},
        ("FFFF", "none", Outcome.TIMEOUT),
    ),
    "a refusal does not close what a lost answer left open": (
        STREAMING,
        [reset, refused(429)],
        {"raise_on_error": False},
        ("SFSF", "CUCU", Outcome.PARTIAL),
    ),
    "an item too few: a count hides whose": (BULK, [short], {}, ("NNNN", "UUUU", Outcome.WRONG)),
    "… and one that streams says nothing of the last": (STREAMING, [short], {}, ("SSSN", "UUUU", Outcome.WRONG)),
}


@pytest.mark.parametrize("case", CASES)
def test_both_sides_of_a_call_are_noted(case: str) -> None:
    kind, steps, given, (told, answered, outcome) = CASES[case]
    made, _ = call(Nodes(*steps), kind, **given)
    assert (words(made), outcomes(made), made.outcome) == (told, answered, outcome)


def test_each_request_counts_and_says_where_it_went() -> None:
    made, error = call(Nodes(reset, taken), chunk_size=3)
    assert error is None and made.attempts == 3 and made.node == 0 and made.status == 200 and made.idle


def test_a_call_sends_nothing_more_when_the_load_is_over() -> None:
    nodes = Nodes(taken)
    made, error = call(nodes, chunk_size=2, stopped=lambda: len(nodes.sent) == 1)
    assert isinstance(error, Stopped) and nodes.sent == [["w-40", "w-41"]]
    assert (words(made), outcomes(made)) == ("CCCC", "CCUU")
    assert words(call(Nodes(taken), stopped=lambda: True)[0]) == "SSSS"  # it was due when the load ended


def test_bodies_are_compressed_where_they_are_to_be() -> None:
    nodes = Nodes(taken)
    assert words(call(nodes, compress=True)[0]) == "SSSS" == words(call(nodes)[0])
    assert [head.get("content-encoding") for head in nodes.heads] == ["gzip", None]
    assert nodes.heads[0]["accept-encoding"] == "gzip,deflate"


def test_clients_and_helpers_are_found_as_files() -> None:
    assert set(clients()) == {"load-balancer", "pinned", "opensearch-py"}
    assert {BULK, STREAMING} <= set(helpers())


@pytest.mark.parametrize(
    ("steps", "failure"),
    [
        ((taken,), Failure.NONE),
        ((refused(429),), Failure.OTHER_REJECTION),
        ((refused(403, "cluster_block_exception"),), Failure.BLOCKED),
        ((whole(503),), Failure.GATEWAY),  # without a content type the library reads no JSON, nor does the word
        ((reset,), Failure.CONNECTION_RESET),
        ((slow,), Failure.TIMEOUT),
        ((short,), Failure.WRONG),
    ],
    ids=lambda value: "" if isinstance(value, tuple) else value.label,
)
def test_why_the_last_request_that_failed_did(steps: tuple[Step, ...], failure: Failure) -> None:
    made, _ = call(Nodes(*steps), raise_on_error=False, raise_on_exception=False, max_retries=0)
    assert made.failure is failure


def test_what_was_taken_at_last_leaves_its_first_refusal_to_be_passed_over() -> None:
    made, _ = call(Nodes(refused(429), taken), raise_on_error=False, max_retries=2)
    assert made.outcome is Outcome.OK  # whose row has no word, whatever came before
