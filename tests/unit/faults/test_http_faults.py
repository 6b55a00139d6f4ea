"""HTTP faults: which requests a rule meets, how many tell a share, and what counts as proof of it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.base.errors import FaultError, InvalidInput
from chaos.definitions import load_topology
from chaos.definitions.steps import Scene
from chaos.faults import requests
from chaos.faults.evidence import UNANSWERABLE
from chaos.faults.kinds.http import HttpDelay, HttpHang, HttpStatus
from chaos.faults.kinds.store import PATHS, StoreErrors, StoreHang, StoreSlow, StoreThrottle
from chaos.faults.requests import Answer, Effect, Got, OwnRequests, RequestEvidence, Wanted, bounds, enough
from chaos.registry import FAULTS, PROVIDERS
from chaos.targets.http_addon import Half, chosen, matches, subject
from chaos.targets.labs.http_layer import HttpLayer
from chaos.targets.wiring import LAYER, Wiring

HTTP, STORE = load_topology("3az-http"), load_topology("3az-remote-store-http")
PAIR = ("client-a", "a-data")


def fault(params: Any, topology: Any = HTTP) -> Any:
    scene, wiring = Scene.of(topology, 1, "f1"), Wiring.of_topology("lab", topology)
    return params.build("f1", scene, wiring, PROVIDERS.of(params.kind)[0])


# -- which requests ------------------------------------------------------------------------------------


def test_a_list_of_keys_is_a_request_for_their_prefix_and_no_other_query_is_kept() -> None:
    assert subject("/store/a/segments/data/x?x-id=PutObject") == "/store/a/segments/data/x"
    assert subject("/store?list-type=2&prefix=a%2F0%2Ftranslog%2Fmetadata%2F") == "/store/a/0/translog/metadata/"


def test_a_rule_is_about_its_hosts_verbs_and_paths_alone() -> None:
    rule = {"peers": ["a-data"], "verbs": ["PUT"], "paths": list(PATHS["segments"]), "share": 0.5}
    assert matches(rule, "a-data", "PUT", "/store/x/0/segments/data/f")
    for peer, verb, path in (
        ("b-data", "PUT", "/store/x/0/segments/data/f"),
        ("a-data", "GET", "/store/x/0/segments/data/f"),
        ("a-data", "PUT", "/store/x/0/segments/metadata/f"),
        ("a-data", "PUT", "/store/x/0/translog/data/f"),
    ):
        assert not matches(rule, peer, verb, path)
    assert chosen([rule], "a-data", "PUT", "/store/x/0/segments/data/f", 0.49) is rule
    assert chosen([rule], "a-data", "PUT", "/store/x/0/segments/data/f", 0.5) is None


@pytest.mark.parametrize("prefix", list(PATHS))
def test_what_stands_for_a_part_of_the_store_is_about_that_part_and_no_other(prefix: Any) -> None:
    wanted = StoreErrors(service="store", prefix=prefix).part.wanted
    verb, path = str(wanted.stands_for).split(" ", 1)
    for other, paths in PATHS.items():
        rule = {"peers": ["a-data"], "verbs": None, "paths": list(paths), "share": 1.0}
        assert matches(rule, "a-data", verb, path) is (other == prefix)
    assert wanted.elsewhere is not None


@given(st.binary(max_size=99))
def test_half_of_a_part_of_a_body_is_less_than_all_of_it(data: bytes) -> None:
    half = Half()
    first, rest = half(data), half(b"more")
    assert data.startswith(first) and (not data or len(first) < len(data))
    assert rest == (b"" if data else b"mo") and half(b"") == b""


# -- how many ------------------------------------------------------------------------------------------


@given(st.floats(0.05, 0.95))
def test_so_many_requests_are_sent_that_a_share_is_told_from_none_and_from_all(share: float) -> None:
    number = enough(share)
    least, most = bounds(number, share)
    assert (1 - share) ** number <= requests.SURE  # where it is in effect hardly ever nothing is seen
    assert 1 <= least <= share * number + 1 and share * number - 1 <= most <= number - 1


@pytest.mark.parametrize(("number", "share"), [(1500, 0.2), (20_000, 0.05), (20_000, 0.95)])
def test_shares_of_the_thousands_of_requests_of_a_run_are_told_too(number: int, share: float) -> None:
    least, most = bounds(number, share)
    spread = (number * share * (1 - share)) ** 0.5
    assert 3.5 * spread < share * number - least < 4.5 * spread and 3.5 * spread < most - share * number < 4.5 * spread


@given(st.integers(1, 60), st.floats(0.05, 0.95))
def test_bounds_are_those_of_the_exact_distribution(number: int, share: float) -> None:
    least, most = bounds(number, share)
    weights = [math.comb(number, k) * share**k * (1 - share) ** (number - k) for k in range(number + 1)]
    assert sum(weights[:least]) <= requests.SURE / 2 + 1e-9 or least == 1
    assert sum(weights[most + 1 :]) <= requests.SURE / 2 + 1e-9 or most == number - 1


def test_all_must_meet_what_all_are_to_meet() -> None:
    assert bounds(4, 1.0) == (4, 4)


# -- what is proof -------------------------------------------------------------------------------------


class Scripted(RequestEvidence):
    """Requests are answered from a list, and again from its beginning."""

    answers: list[Got]

    def _send(self, lab: Any, asked: Any) -> list[requests.Row]:
        rows = []
        for pair, stands_for, number in asked:
            plain = pair != PAIR or stands_for == requests.ELSEWHERE
            given = [FINE] if plain else self.answers
            rows.append(requests.Row(pair, stands_for, [given[n % len(given)] for n in range(number)]))
        return rows


FINE, BUSY, LATE, NOTHING = (
    Got(Answer.WHOLE, 0.004, 200),
    Got(Answer.WHOLE, 0.004, 503),
    Got(Answer.WHOLE, 0.31, 200),
    Got(Answer.SILENT, 1.0),
)


def scripted(effect: Effect, share: float = 1.0) -> Scripted:
    evidence = Scripted([PAIR], [("client-a", "b-data")], Wanted(share, paths=("/chaos/*",)), effect)
    evidence.answers = [FINE]
    assert evidence.before(None).proven  # type: ignore[arg-type]
    return evidence


@pytest.mark.parametrize(
    ("effect", "share", "answers", "proven"),
    [
        (requests.answered_with(503), 1.0, [BUSY], True),
        (requests.answered_with(503), 1.0, [BUSY, BUSY, BUSY, FINE], False),
        (requests.answered_with(429), 1.0, [BUSY], False),
        (requests.answered_with(503), 0.5, [BUSY, FINE], True),
        (requests.answered_with(503), 0.5, [BUSY], False),
        (requests.answered_with(503), 0.5, [FINE], False),
        (requests.answered_with(503), 0.5, [BUSY, NOTHING], False),
        (requests.delayed(0.3), 1.0, [LATE], True),
        (requests.delayed(0.3), 1.0, [FINE], False),
        (requests.delayed(0.1), 1.0, [LATE], False),
        (requests.hung(body=False), 1.0, [NOTHING], True),
        (requests.hung(body=True), 1.0, [NOTHING], False),
        (requests.cut(body=False), 1.0, [Got(Answer.CLOSED, 0.01)], True),
        (requests.cut(body=True), 1.0, [Got(Answer.CUT, 0.01, 200)], True),
        (requests.cut(body=True), 1.0, [Got(Answer.CLOSED, 0.01)], False),
    ],
)
def test_a_fault_is_proven_by_what_its_requests_get(
    effect: Effect, share: float, answers: list[Got], proven: bool
) -> None:
    evidence = scripted(effect, share)
    evidence.answers = answers
    assert evidence.in_effect(None).proven is proven  # type: ignore[arg-type]
    assert evidence.gone(None).proven is (answers == [FINE])  # type: ignore[arg-type]


def test_an_end_that_no_request_can_show_is_not_proven() -> None:
    evidence = scripted(requests.answered_with(503))
    evidence.beside(frozenset(), frozenset({PAIR[1]}))  # another fault holds the node
    gone = evidence.gone(None)  # type: ignore[arg-type]
    assert not gone.proven and gone.says == UNANSWERABLE
    evidence.beside(frozenset(), frozenset())
    assert evidence.gone(None).proven  # type: ignore[arg-type]


def test_a_fault_that_meets_other_requests_too_is_not_proven() -> None:
    evidence = scripted(requests.answered_with(503))

    def everywhere(lab: Any, asked: Any) -> list[requests.Row]:
        return [requests.Row(pair, stands_for, [BUSY] * number) for pair, stands_for, number in asked]

    evidence._send = everywhere  # type: ignore[method-assign]
    look = evidence.in_effect(None)  # type: ignore[arg-type]
    assert not look.proven and {probe.control for probe in look.probes if not probe.ok} == {True}


class Told(OwnRequests):
    """What ours get is as it must be; the nodes' own are a list."""

    rows: list[dict[str, Any]]

    def _look(self, lab: Any, pairs: Any) -> requests.Look:
        return requests.Look(True, "ours", [])

    def _of_nodes(self, lab: Any, since: int) -> list[dict[str, Any]]:
        return [{**row, "t": since + 1} for row in self.rows]


def row(how: str, rule: str | None, status: int | None = None) -> dict[str, Any]:
    return {"peer": "a-data", "verb": "PUT", "path": "/store/x", "how": how, "rule": rule, "status": status}


@pytest.mark.parametrize(
    ("rows", "proven"),
    [
        ([], False),
        ([row("answered", None, 200)], False),
        ([row("status", "oschaos-f2-1", 500)], False),
        ([row("status", "oschaos-f1-1", 500)], True),
        ([row("status", "oschaos-f1-1", 500), row("answered", "oschaos-f1-1", 200)], False),
        ([row("status", "oschaos-f1-1", 500)] * 10 + [row("answered", None, 200)] * 10, False),
    ],
)
def test_a_fault_of_a_store_is_proven_by_requests_that_nodes_sent_too(rows: list[dict[str, Any]], proven: bool) -> None:
    kind = StoreErrors(service="store", status=500)
    evidence = Told([("a-data", "store")], [], kind.part.wanted, kind.part.effect, fault="f1", shows=kind.shows)
    evidence.rows = rows
    assert evidence.in_effect(None).proven is proven  # type: ignore[arg-type]


# -- kinds and moves -----------------------------------------------------------------------------------


def test_each_kind_is_one_rule_a_host_and_its_inverse_takes_that_very_rule_away() -> None:
    made = fault(HttpStatus(links="from clients to role data", status=503, share="20%", verbs=["PUT"]))
    moves = made.read(None)
    assert [each.move.arguments["host"] for each in moves] == ["a-data", "b-data", "c-data"]
    for each in moves:
        rule = each.move.arguments["rule"]
        assert each.inverse.arguments == {"host": each.move.arguments["host"], "rule": rule["id"]}
        assert (
            rule["peers"] == ["client-a", "client-b", "client-c"] and rule["share"] == 0.2 and rule["verbs"] == ["PUT"]
        )
    assert json.loads(json.dumps([each.move.to_json() for each in moves]))
    assert made.read(None)[0].move.arguments["rule"]["id"] != moves[0].move.arguments["rule"]["id"]


def test_throttling_is_the_error_that_s3_clients_know_and_403_is_not_tried_again() -> None:
    assert "<Code>SlowDown</Code>" in StoreThrottle(service="store").part.rule["body"]
    assert "<Code>AccessDenied</Code>" in StoreErrors(service="store", status=403).part.rule["body"]
    assert StoreThrottle(service="store").part.rule["status"] == 503


def test_faults_of_a_store_are_about_all_nodes_or_those_that_are_named() -> None:
    every = fault(StoreSlow(service="store", delay="300ms"), STORE)
    some = fault(StoreHang(service="store", nodes="role data"), STORE)
    assert {a for a, _ in every.links} == {node.name for node in STORE.nodes} and {b for _, b in every.links} == {
        "store"
    }
    assert {a for a, _ in some.links} == {"a-data", "b-data", "c-data"}


def test_links_over_which_no_request_goes_that_passes_a_layer_are_refused() -> None:
    with pytest.raises(InvalidInput, match="no HTTP request that passes a layer"):
        fault(HttpDelay(links="between node a-data and node b-data", delay="300ms"))


@pytest.mark.parametrize(
    ("params", "topology", "says"),
    [
        (StoreHang(service="shop"), STORE, "shop is no service"),
        (StoreHang(service="store"), load_topology("3az-remote-store"), None),
        (StoreHang(service="store"), HTTP, "has no store"),
        (HttpHang(links="to node a-data", paths=["_search"]), HTTP, "matches no request"),
    ],
)
def test_what_a_topology_has_not_is_said_before_anything_starts(params: Any, topology: Any, says: str | None) -> None:
    found = params.check(topology)
    assert (found == []) if says is None else (len(found) == 1 and says in found[0])


def test_labs_without_a_layer_have_none_of_it_and_say_which_topology_has() -> None:
    from chaos.targets.labs.local import LocalLab

    reason = LocalLab.offers(load_topology("3az"))["http"]
    assert reason is not None and "http_layer" in reason
    assert LocalLab.offers(HTTP)["http"] is None
    assert {kind for kind in FAULTS if kind.startswith(("http.", "store."))} == {
        *("http.delay", "http.status", "http.hang", "http.cut"),
        *("store.slow", "store.errors", "store.throttle", "store.hang"),
    }


# -- the layer of a lab --------------------------------------------------------------------------------


def layer(tmp_path: Path) -> HttpLayer:
    (tmp_path / "run").mkdir()
    found = HttpLayer(tmp_path, Wiring.of_topology("lab", STORE), "store")
    found.prepare()
    return found


RULE = {"id": "oschaos-f1-1", "peers": ["a-data"], "share": 1.0, "effect": "cut", "where": "before"}


def test_rules_are_added_and_removed_whoever_asks_and_however_often(tmp_path: Path) -> None:
    found = layer(tmp_path)
    found.add(RULE)
    found.add(RULE)
    found.prepare()  # it is started anew
    assert found.rules() == [RULE]
    with pytest.raises(FaultError, match="another rule"):
        found.add({**RULE, "effect": "hang"})
    assert found.remove("oschaos-f1-1") is True and found.remove("oschaos-f1-1") is False
    assert found.rules() == []


def test_each_opener_has_a_port_of_its_own_and_toxiproxies_lead_there(tmp_path: Path) -> None:
    wiring = Wiring.of_topology("lab", STORE)
    entrances = wiring.entrances("store")
    assert list(entrances.values()) == [node.name for node in STORE.nodes]
    for port, name in entrances.items():
        (proxy,) = [each for each in wiring.proxies(wiring[name]) if each.name == "to-store-service"]
        assert proxy.upstream == f"{wiring['store'].bridge_address}:{port}" and port == LAYER + wiring[name].index
    command = layer(tmp_path).command()
    assert sum("reverse:http://" in word for word in command) == len(entrances)


def test_without_a_layer_nothing_is_wired_otherwise() -> None:
    plain, layered = (Wiring.of_topology("lab", load_topology(name)) for name in ("3az-remote-store", STORE.name))
    for host in plain.hosts:
        same = {each.name for each in plain.proxies(host)} == {
            each.name for each in layered.proxies(layered[host.name])
        }
        assert same
    assert plain.entrances("store") == {} and not plain.asks_http("a-data", "store")
