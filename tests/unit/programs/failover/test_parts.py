"""The controller's parts that need no cluster: canaries, who is alone, what a step came to, what is remembered."""

from __future__ import annotations

import json
import os
import threading
import time
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import Chapter, Story
from typer.testing import CliRunner

from chaos.base.access import PLAIN, Access
from chaos.checks.record import Record
from chaos.cli import app
from chaos.commands.failing_over import listen_until
from chaos.load.balancer import Balancer
from chaos.load.network import named_by_controller
from chaos.opensearch.cluster import Zoning
from chaos.opensearch.requests import OWNER, known_path
from chaos.programs.failover.cluster import (
    CANARY,
    Reading,
    _alone,
    _lead,
    carry_out,
    give_back_votes,
    pairs,
    read,
    took_effect,
)
from chaos.programs.failover.controller import PATIENCE, PAUSE_SECONDS, FailoverController, Pending, _remembered
from chaos.programs.failover.decide import Cluster, Policy, Step
from chaos.programs.failover.rest import Answer, Api, Node, discover
from chaos.programs.failover.signs import Kind, Sign, Signs
from chaos.programs.failover.steering import serve
from chaos.programs.failover.watch import Pace, Watch
from chaos.report.timeline import _controllers

ZONES = st.lists(st.text("abcdefg", min_size=1), min_size=3, max_size=7, unique=True)


@given(ZONES)
def test_every_zone_is_in_two_canaries_and_no_other_zone_is_in_both(zones: list[str]) -> None:
    of = {zone: {index for index, pair in pairs(zones).items() if zone in pair} for zone in zones}
    assert all(len(indices) == 2 for indices in of.values())
    assert len({frozenset(indices) for indices in of.values()}) == len(zones)


def test_few_zones() -> None:
    assert list(pairs(["b", "a"]).values()) == [("a", "b")] and pairs(["a"]) == {} == pairs([])


@given(ZONES, st.data())
def test_only_the_zone_that_all_late_writes_have_in_common_is_accused(zones: list[str], data: st.DataObject) -> None:
    slow = data.draw(st.sampled_from(zones))
    signs = Signs()
    for number in range(10):
        for index, pair in pairs(zones).items():
            signs.add(Sign(zone, "write", index, number * 0.5, slow not in pair, "") for zone in pair)
    assert [zone for zone in zones if signs.against(zone, 5.0, 2.0)] == [slow]


def copy(node: str, state: str = "STARTED") -> dict[str, str]:
    return {"node": node, "state": state}


def test_who_holds_the_only_active_copy() -> None:
    names = {"1": "a-1", "2": "a-2", "3": "b-1"}
    zone_of = {"a-1": "a", "a-2": "a", "b-1": "b"}
    table = {
        "both": {"shards": {"0": [copy("1"), copy("3")]}},
        "two in one zone": {"shards": {"0": [copy("1"), copy("2"), copy("3", "INITIALIZING")]}},
        "gone": {"shards": {"0": [copy("", "UNASSIGNED")]}},
        f"{CANARY}-0": {"shards": {"0": [copy("3")]}},
    }
    assert list(_alone(table, names, zone_of)) == ["a"]


STATE = Cluster(("a", "b", "c"), {"a": 1, "b": 1, "c": 0}, 3, {}, {}, {}, frozenset(), True)
SWAP = Step("weights", "", "b", {"a": 1, "b": 0, "c": 1})
OUT = Step("decommission", "", "c")
BACK = Step("recommission", "", "c")


def test_a_step_holds_when_the_cluster_says_so() -> None:
    assert took_effect(SWAP, STATE) is False and took_effect(SWAP, replace(STATE, weights=dict(SWAP.weights)))
    states = {state: took_effect(OUT, replace(STATE, decommissioned={"c": state})) for state in ("DRAINING", "FAILED")}
    assert states == {"DRAINING": False, "FAILED": None} and took_effect(OUT, STATE) is False
    assert took_effect(OUT, replace(STATE, decommissioned={"c": "SUCCESSFUL"}))
    assert took_effect(BACK, STATE) and not took_effect(BACK, replace(STATE, decommissioned={"c": "SUCCESSFUL"}))


NODE = Node("a-1", "a", "127.0.0.1:1", True, True)


class Votes(Api):
    """The exclusions of a cluster, and its answers: those in ``fails`` never come, in the order of what is asked."""

    failure = Answer(0, None, 5.0, "Timeout")

    def __init__(self, excluded: list[str], fails: tuple[int, ...] = ()) -> None:
        self.excluded, self._fails, self.asked = excluded, fails, list[str]()

    def ask(self, node: Node, method: str, path: str, body: object = None, *, timeout: float) -> Answer:
        self.asked.append(method)
        if len(self.asked) - 1 in self._fails:
            return self.failure
        if method == "POST":
            self.excluded = ["a-1", "b-1"]
        if method == "DELETE":
            self.excluded = []
        there = {"voting_config_exclusions": [{"node_name": name} for name in self.excluded]}
        return Answer(200, {"metadata": {"cluster_coordination": there if self.excluded else {}}}, 0.0, "HTTP 200")


@pytest.mark.parametrize("fails", [(), (1,), (2,), (3,), (2, 3)])
@pytest.mark.parametrize("failure", [Votes.failure, Answer(503, "OpenSearch Security not initialized.", 0.1, "503")])
def test_votes_that_were_taken_are_given_back_whatever_is_not_answered(fails: tuple[int, ...], failure: Answer) -> None:
    votes = Votes([], fails)
    votes.failure = failure
    answer = _lead(votes, [NODE, NODE], ["a-1", "b-1"])
    assert votes.excluded == [] and votes.asked[:2] == ["GET", "POST"] and answer.ok == (fails != (1,))


def test_votes_that_others_took_are_let_alone() -> None:
    for fails in ((), (0,)):
        votes = Votes(["c-1"], fails)
        assert not _lead(votes, [NODE], ["a-1", "b-1"]).ok and votes.asked == ["GET"]
    votes = Votes(["a-1", "b-1", "c-1"])
    assert give_back_votes(votes, [NODE], ["a-1", "b-1"]) == "" and votes.excluded
    votes = Votes(["a-1", "b-1"], fails=(0, 1))
    assert "may still have no votes" in give_back_votes(votes, [NODE], ["a-1", "b-1"])


def test_what_an_answer_means_for_a_step() -> None:
    def refused(step: Step, status: int) -> bool:
        return Pending(step, 0.0, Answer(status, None, 0.0, ""), 0.0).refused

    assert refused(SWAP, 409) and refused(SWAP, 503) and refused(OUT, 400)
    assert not refused(OUT, 503) and not refused(OUT, 504) and not refused(SWAP, 0) and not refused(SWAP, 200)
    cut = Pending(SWAP, 0.0, Answer(0, None, 0.0, ""), 5.0)
    assert not cut.lost(5.0 + PAUSE_SECONDS) and cut.lost(5.1 + PAUSE_SECONDS)
    assert not Pending(OUT, 0.0).lost(PATIENCE["decommission"]) and Pending(OUT, 0.0).lost(PATIENCE["decommission"] + 1)


def test_a_restart_remembers_its_swap_its_returns_and_the_nodes(tmp_path: Path) -> None:
    log, now = tmp_path / "failover.jsonl", time.time()
    events = [
        {"kind": "failover.nodes", "wall": now - 500, "nodes": [NODE.to_json()]},
        {"kind": "failover.weights", "wall": now - 500, "weights": {}, "version": 3},
        {"kind": "failover.done", "wall": now - 400, "step": "recommission"},
        {"kind": "failover.weights", "wall": now - 30, "weights": {}, "version": 4},
        {"kind": "failover.done", "wall": now - 20, "step": "decommission"},
    ]
    log.write_text("\n".join(json.dumps(event) for event in events) + '\nnonsense\n{"kind": "failo')
    memory, nodes, owes = _remembered(log)
    assert nodes == [NODE] and owes is None and memory.swapped_at == pytest.approx(time.monotonic() - 30, abs=2)
    assert len(memory.returns) == 1 and memory.returns[0] == pytest.approx(time.monotonic() - 400, abs=2)
    assert _remembered(tmp_path / "none")[1] == []


def test_the_first_look_of_a_process_at_the_weights_is_no_swap(tmp_path: Path) -> None:
    """Each process writes down the weights that it finds; only another version than the line before is a change."""
    log, now = tmp_path / "failover.jsonl", time.time()

    def remembered(*found: tuple[float, int]) -> float | None:
        events = [{"kind": "failover.weights", "wall": now - ago, "version": version} for ago, version in found]
        log.write_text("".join(f"{json.dumps(event)}\n" for event in events))
        at = _remembered(log)[0].swapped_at
        return None if at is None else time.monotonic() - at

    assert remembered((900, 3)) is None
    assert remembered((900, 3), (600, 3), (5, 3)) is None
    assert remembered((900, 3), (600, 4), (5, 4)) == pytest.approx(600, abs=2)
    assert remembered((900, 3), (5, 4)) == pytest.approx(5, abs=2)  # another controller's, while this one was away


@pytest.mark.parametrize(("end", "owes"), [(None, "c"), ("failover.done", None), ("failover.failed", None)])
def test_a_restart_remembers_the_votes_that_it_took(tmp_path: Path, end: str | None, owes: str | None) -> None:
    log = tmp_path / "failover.jsonl"
    kinds = ["failover.step"] + ([end] if end else [])
    log.write_text("".join(json.dumps({"kind": k, "wall": 0.0, "step": "lead", "zone": "c"}) + "\n" for k in kinds))
    assert _remembered(log)[2] == owes


def controller(log: Path) -> FailoverController:
    policy, pace = Policy(), Pace()
    return FailoverController(
        Api(PLAIN),
        ["127.0.0.1:1"],
        me="test",
        zoning=Zoning(),
        policy=policy,
        pace=pace,
        acts=True,
        canaries=True,
        log=log,
    )


CALLED = Zoning("rack", {"a": "b", "b": "a", "c": "r 3"})
"""Zones whose names the cluster has for others."""


class Asked(Api):
    """A cluster with three nodes, by what is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, object]] = []

    def ask(self, node: Node, method: str, path: str, body: object = None, *, timeout: float) -> Answer:
        return self.ask_at(node.address, method, path, body, timeout=timeout)

    def ask_at(self, address: str, method: str, path: str, body: object = None, *, timeout: float) -> Answer:
        self.asked.append((method, path, body))
        said: object = {}
        if path.startswith("/_nodes/http"):
            http = {"publish_address": "127.0.0.1:1"}
            of = {"b": "one", "a": "two", "r 3": "three"}
            said = {
                "nodes": {
                    value: {"name": name, "attributes": {"rack": value}, "http": http, "roles": ["data"]}
                    for value, name in of.items()
                }
            }
        elif path.startswith("/_cluster/state/"):
            said = {"version": 5, "cluster_manager_node": "1", "nodes": {"1": {"name": "three"}}}
        elif "/awareness/rack/weights" in path:
            said = {"weights": {"b": "1.0", "a": "1.0", "r 3": "0.0"}, "_version": 4}
        elif path.endswith("/rack/_status"):
            said = {"b": "SUCCESSFUL"}
        elif path.startswith("/_cluster/health"):
            said = {"status": "green"}
        return Answer(200, said, 0.0, "HTTP 200")


def test_zones_are_called_as_its_user_calls_them_and_the_cluster_is_asked_by_its_own_names() -> None:
    api = Asked()
    nodes, _ = discover(api, ["127.0.0.1:1"], CALLED, timeout=1.0)
    assert {node.name: node.zone for node in nodes} == {"one": "a", "two": "b", "three": "c"}
    reading, why = read(api, nodes[0], nodes, CALLED, shards=False)
    assert reading is not None, why
    seen = reading.cluster
    assert seen.weights == {"a": 1, "b": 1, "c": 0} and seen.decommissioned == {"a": "SUCCESSFUL"}
    assert seen.leader == "c" and seen.zones == ("a", "b", "c")
    carry_out(api, nodes, Step("weights", "", "a", {"a": 0, "b": 1, "c": 1}), seen, CALLED, nodes)
    assert api.asked[-1][1:] == (
        "/_cluster/routing/awareness/rack/weights",
        {"weights": {"b": "0", "a": "1", "r 3": "1"}, "_version": 4},
    )
    carry_out(api, nodes, Step("decommission", "", "a"), seen, CALLED, nodes)
    assert api.asked[-1][1] == "/_cluster/decommission/awareness/rack/b?no_delay=true"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["a"], "expected ZONE=VALUE"),
        (["=x"], "expected ZONE=VALUE"),
        (["a=x", "b=x"], "has a name already"),
        (["a=x", "a=y"], "has a name already"),
    ],
)
def test_names_of_zones_that_say_nothing_or_two_things_are_refused(given: list[str], says: str) -> None:
    options = [word for each in given for word in ("--zone-name", each)]
    done = CliRunner().invoke(app, ["failover", "http://127.0.0.1:1", *options])
    assert done.exit_code != 0 and says in str(done.exception or done.output)


def test_it_ends_with_who_speaks_to_it_or_when_nothing_is_said_for_too_long() -> None:
    """A word in time keeps it; the end of the pipe, or silence, ends it."""
    for silence, close in ((0.3, False), (None, True)):
        here, there = os.pipe()
        ended = threading.Event()
        listener = threading.Thread(target=listen_until, args=(here, ended.set, silence), daemon=True)
        listener.start()
        for _ in range(8):
            os.write(there, b".")
            assert not ended.wait(0.05)
        if close:
            os.close(there)
        assert ended.wait(5.0)
        os.close(here)
        if not close:
            os.close(there)


def test_what_was_decided_when_it_is_told_to_end_is_not_asked_for(tmp_path: Path) -> None:
    mind = controller(tmp_path / "failover.jsonl")
    mind.stop()
    mind._handle(SWAP, time.monotonic())
    assert mind._pending is None


def test_without_a_cluster_every_known_node_may_take_traffic_and_nothing_is_done(tmp_path: Path) -> None:
    log = tmp_path / "failover.jsonl"
    log.write_text(json.dumps({"kind": "failover.nodes", "wall": time.time(), "nodes": [NODE.to_json()]}) + "\n")
    mind = controller(log)
    server = serve(mind, "127.0.0.1", 0)
    try:
        for _ in range(3):
            mind.turn()
        base = f"http://127.0.0.1:{server.server_address[1]}"
        with urllib.request.urlopen(f"{base}/nodes") as answer:
            assert [node["name"] for node in json.load(answer)["nodes"]] == ["a-1"]
        plain = urllib.request.Request(f"{base}/nodes", headers={"accept": "text/plain"})
        with urllib.request.urlopen(plain) as answer:
            assert answer.read() == b"127.0.0.1:1\n"
        assert named_by_controller(None, server.server_address[1]) == ["a-1"]
        with urllib.request.urlopen(f"{base}/status") as answer:
            status = json.load(answer)
        assert status["pending"] is None and status["last"].startswith("wait")
        with urllib.request.urlopen(urllib.request.Request(f"{base}/rotate", data=b"{}", method="POST")) as answer:
            assert answer.status == 202
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{base}/other")
    finally:
        server.shutdown()
        mind.stop()
        mind.run()
    kinds = [json.loads(line)["kind"] for line in log.read_text().splitlines()]
    assert "failover.step" not in kinds and kinds[-1] == "failover.stop"


def test_a_node_that_was_replaced_is_forgotten_after_an_hour_and_the_last_of_its_kind_never(tmp_path: Path) -> None:
    log = tmp_path / "failover.jsonl"
    nodes = [replace(NODE, name=name, zone=name[0]) for name in ("a-1", "a-2", "b-1", "c-1")]
    log.write_text(json.dumps({"kind": "failover.nodes", "wall": time.time(), "nodes": [n.to_json() for n in nodes]}))
    mind = controller(log)
    try:
        silent, began = ("a-1", "b-1"), time.monotonic()
        for name in ("a-1", "a-2", "b-1", "c-1"):
            mind._signs.add(
                Sign(name[0], kind, name, began + at, name not in silent, "")
                for kind in ("probe", "member")
                for at in range(4)
            )
        reading = Reading(STATE, frozenset({"a-2", "c-1"}), {}, 1)
        for seconds in (4, 3603):
            mind._take_in(reading, began + seconds)
            assert set(mind._nodes) == {"a-1", "a-2", "b-1", "c-1"}
        mind._take_in(reading, began + 3605)
        assert set(mind._nodes) == {"a-2", "b-1", "c-1"}  # no other node of zone b could stand for b-1
        against = {zone: mind._signs.against(zone, began + 3605, 1.0) for zone in "abc"}
        assert [zone for zone in "abc" if "member" in {each.kind for each in against[zone]}] == ["b"]
    finally:
        mind.stop()
        mind.run()


@pytest.mark.parametrize(
    ("states", "returns"),
    [
        (("INIT", "FAILED"), 0),
        (("INIT", "IN_PROGRESS", "FAILED", "INIT"), 0),
        (("INIT", "SUCCESSFUL", None), 1),
        (("INIT", "FAILED", None), 1),
        ((None, None), 0),
    ],
)
def test_only_a_zone_of_which_the_cluster_says_nothing_any_more_was_taken_in(
    tmp_path: Path, states: tuple[str | None, ...], returns: int
) -> None:
    """A decommission that failed takes nothing in: the next try must not wait for a cool-down."""
    mind = controller(tmp_path / "failover.jsonl")
    for number, state in enumerate(states):
        cluster = replace(STATE, decommissioned={} if state is None else {"c": state})
        mind._take_in(Reading(cluster, frozenset(), {}, number), float(number))
    assert len(mind._memory.returns) == returns
    mind.stop()
    mind.run()


ACCEPTED = Answer(200, {"acknowledged": True}, 0.1, "HTTP 200")


@pytest.mark.parametrize(
    ("before", "seen", "ends"),
    [
        ("FAILED", ("FAILED", "FAILED"), []),
        ("FAILED", ("FAILED", "INIT", "IN_PROGRESS", "SUCCESSFUL"), ["failover.done"]),
        ("FAILED", ("FAILED", "DRAINING", "FAILED"), ["failover.failed"]),
        ("FAILED", ("FAILED", None, "FAILED"), []),
        ("FAILED", (ACCEPTED, "FAILED"), ["failover.failed"]),
        ("FAILED", (ACCEPTED,), []),
        (None, ("FAILED",), ["failover.failed"]),
    ],
)
def test_the_failure_of_an_earlier_try_does_not_end_the_next_one(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    before: str | None,
    seen: tuple[str | Answer | None, ...],
    ends: list[str],
) -> None:
    """``before``: the zone's state when the step was decided. ``seen``: what came then, states (None: no reading) and
    the answer."""
    log, over = tmp_path / "failover.jsonl", threading.Event()
    mind, now = controller(log), time.monotonic()

    def look(state: str | None, at: float) -> None:
        decommissioned = {} if state is None else {"c": state}
        mind._reading, mind._read_at = Reading(replace(STATE, decommissioned=decommissioned), frozenset(), {}, 1), at

    monkeypatch.setattr(mind._watch, "informants", lambda *_: [NODE])
    monkeypatch.setattr("chaos.programs.failover.controller.carry_out", lambda *_: over.wait(10.0) and ACCEPTED)
    look(before, now)
    mind._handle(OUT, now)
    pending = mind._pending
    assert pending is not None
    for number, each in enumerate(seen, 1):
        if isinstance(each, Answer):
            pending.answered, pending.answer = now + number - 0.5, each
        elif each is None:
            mind._reading = None
        else:
            look(each, now + number)
        if mind._pending is not None:
            mind._follow(pending, now + number)
    over.set()
    mind.stop()
    mind.run()
    kinds = [json.loads(line)["kind"] for line in log.read_text().splitlines()]
    assert [kind for kind in kinds if kind in ("failover.done", "failover.failed")] == ends


class Untrusted(Api):
    """All nodes answer well, but for c-1, which clients do not trust."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def ask(self, node: Node, method: str, path: str, body: object = None, *, timeout: float) -> Answer:
        self.asked.append(node.name)
        if node.zone == "c":
            return Answer(0, None, 0.01, "not to be trusted, certificate has expired", trusted=False)
        return Answer(200, {"_nodes": {"successful": 1}}, 0.01, "HTTP 200")


def test_what_is_not_asked_because_a_node_is_not_trusted_accuses_that_node_alone() -> None:
    nodes = [Node(f"{zone}-1", zone, f"{zone}:1", True, True) for zone in "abc"]
    api, signs = Untrusted(), Signs()
    watch = Watch(api, signs, Pace(), "me")
    watch.stop()
    for index, pair in pairs("abc").items():
        watch.there |= {index}
        watch.holds |= dict.fromkeys((f"{zone}-1" for zone in pair), index)
        write = watch._writing(index, pair, [node for node in nodes if node.zone in pair])
        for _ in range(8):
            write()
    for node in nodes:
        peer = watch._through(node, [other for other in nodes if other != node])
        for _ in range(8):
            watch._probe(node), watch._read(node), peer()
    assert set(api.asked) == {"a-1", "b-1", "c-1"}
    now = time.monotonic() + 1
    assert [[each.kind for each in signs.against(zone, now, 0.5, one=True)] for zone in "abc"] == [
        [],
        [],
        ["probe", "read"],
    ]
    assert signs.healthy_for("c", now, ("write", "peer")) > 0 and signs.healthy_for("c", now, ("probe",)) == 0


@pytest.mark.parametrize(("kind", "ready"), [("probe", True), ("read", True), ("peer", False), ("member", False)])
def test_canaries_are_made_when_a_zone_cannot_be_asked_and_not_when_the_cluster_cannot_work_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Kind, ready: bool
) -> None:
    mind = controller(tmp_path / "failover.jsonl")
    now = time.monotonic()
    mind._signs.add(Sign("c", kind, "c-1", now - 3 + 0.5 * number, False, "") for number in range(6))
    made: list[Node] = []
    monkeypatch.setattr(mind._watch, "informants", lambda *_: [NODE])
    monkeypatch.setattr(
        "chaos.programs.failover.cluster.read", lambda *_, **__: (Reading(STATE, frozenset(), {}, 1), "")
    )
    monkeypatch.setattr(mind, "_make_ready", lambda informant, _: made.append(informant))
    mind._read(now, ["c"])
    mind.stop()
    mind.run()
    assert (made == [NODE]) is ready


def test_nobody_answers() -> None:
    nodes, why = discover(Api(PLAIN), ["127.0.0.1:1"], Zoning(), timeout=1.0)
    assert nodes == [] and "127.0.0.1:1" in why


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["http://127.0.0.1:1"], "no node was found"),
        (["127.0.0.1:1"], "is no address"),
        (["http://127.0.0.1:1", "https://127.0.0.1:1"], "name all nodes alike"),
        (["http://127.0.0.1:1", "--read-after", "soon"], "--read-after"),
        (["http://127.0.0.1:1", "--listen", "here"], "HOST:PORT"),
        (["http://127.0.0.1:1", "--at", "x"], "NODE=HOST:PORT"),
        (["http://127.0.0.1:1", "--user", "me"], "belong together"),
        (["http://127.0.0.1:1", "--ca", "x.pem"], "certificates mean TLS"),
        (["http://127.0.0.1:1", "--events", "no/such/folder/x"], "no folder"),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, monkeypatch, arguments: list[str], says: str) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["failover", *arguments])
    assert says in f"{result.exception}" and not list(tmp_path.iterdir())


def test_a_balancer_follows_its_controller_and_does_without() -> None:
    balancer = Balancer([0, 1, 2])
    for node in range(3):
        balancer.observe(node, True)
    balancer.steer([0, 1])
    assert balancer.in_use == (0, 1)
    balancer.observe(0, False), balancer.observe(0, False)
    assert balancer.in_use == (1,)
    balancer.observe(1, False), balancer.observe(1, False)
    assert balancer.in_use == (0, 1)  # the controller sees more than one probe does
    balancer.steer([])
    assert balancer.in_use == (2,)
    balancer.steer(None)
    assert balancer.in_use == (2,)


def test_the_timeline_shows_what_controllers_decided_and_by_what_evidence() -> None:
    chapter = Chapter("hit", 20)
    step = {"controller": "controller-a", "step": "weights", "zone": "b", "because": "zone b is bad"}
    chapter.event(4.0, "failover.step", **step, evidence=[{"kind": "probe"}, {"kind": "read"}])
    chapter.event(9.0, "failover.recommends", **step | {"controller": "controller-c"}, evidence=[])
    moments = _controllers(Record(Story(chapters=[chapter]).history()))
    assert [(at, label) for at, label, _, _ in moments] == [
        (4.0, "controller-a: weights zone b"),
        (9.0, "controller-c: would weights zone b"),
    ]
    assert "zone b is bad (by probe and read)" in moments[0][2]


def test_a_secret_that_is_gone_is_no_answer_and_no_error(tmp_path: Path) -> None:
    """It is read again for each new address, and a controller has to go on without that node."""
    secret = tmp_path / "password"
    secret.write_text("geheim")
    api = Api(Access(user="admin", password=f"file:{secret}"))
    secret.unlink()
    answer = api.ask(NODE, "GET", "/", timeout=1.0)
    assert answer.status == 0 and not answer.ok and str(secret) in answer.says


def test_canaries_that_others_made_are_not_used(tmp_path: Path) -> None:
    """By the mark that each is made with, where there is one (``--owner``)."""

    class Known(Asked):
        def __init__(self) -> None:
            super().__init__()
            self.there: dict[str, object] = {}

        def ask_at(self, address: str, method: str, path: str, body: object = None, *, timeout: float) -> Answer:
            self.asked.append((method, path, body))
            if path == known_path("canary"):
                return Answer(200, {"metadata": {"indices": self.there}}, 0.0, "HTTP 200")
            if method == "PUT" and path == "/canary" and self.there:
                return Answer(400, {"error": {"type": "resource_already_exists_exception"}}, 0.0, "HTTP 400")
            return Answer(200, {}, 0.0, "HTTP 200")

    mind, api = controller(tmp_path / "failover.jsonl"), Known()
    mind._api, mind._owner = api, "ours"
    wanted = {"canary": ("a", "b")}
    assert mind._make_canaries(NODE, wanted, ())
    made = next(body for method, path, body in api.asked if (method, path) == ("PUT", "/canary"))
    assert isinstance(made, dict) and made["mappings"]["_meta"] == {OWNER: "ours"}
    for whose, mine in (({}, False), ({OWNER: "another run"}, False), ({OWNER: "ours"}, True)):
        api.there = {"canary": {"mappings": {"_doc": {"_meta": whose}}}}
        for holders in ((), ("canary",)):
            api.asked.clear()
            assert mind._make_canaries(NODE, wanted, holders) is mine
            assert mine or not any("_doc" in path or "_alias" in path for _, path, _ in api.asked)
    mind._owner = None  # as users run it: whoever made them
    assert mind._make_canaries(NODE, wanted, ("canary",))
