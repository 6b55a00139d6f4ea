"""Network and node faults as pure functions: which moves, where, and what their evidence touches."""

from __future__ import annotations

import random
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

import making
import pytest
from fakes import FakeLab
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chaos.definitions import LinkSelector
from chaos.definitions.steps import FaultParams, Scene
from chaos.faults.evidence import LinkEvidence, SlicerEvidence, SlowCloseEvidence
from chaos.faults.fault import Fault
from chaos.faults.kinds.network import pairs_both, pairs_opened, spoken, untouched
from chaos.faults.probes import Echo, Line, Reply
from chaos.registry import FAULTS, ready

LAB = FakeLab()
WIRING = LAB.wiring
KINDS = {
    "network.latency": {"delay": "300ms"},
    "network.bandwidth": {"rate": "256KiB/s"},
    "network.slicer": {"size": "512B", "delay": "10ms"},
    "network.slow_close": {"delay": "2s"},
    "network.drop": {},
    "network.hang": {},
    "network.refuse": {},
    "network.reset": {},
}
HOSTS = [host.name for host in WIRING.hosts]
link_sets = st.frozensets(
    st.tuples(st.sampled_from(HOSTS), st.sampled_from(HOSTS)).filter(
        lambda pair: pair[0] != pair[1] and not (pair[0].startswith("client") and pair[1].startswith("client"))
    ),
    min_size=1,
    max_size=8,
)


@dataclass(frozen=True)
class Given(Scene):
    """A scene in which every link selector means these links."""

    given: frozenset[tuple[str, str]] = frozenset()

    def links(self, selector: LinkSelector) -> frozenset[tuple[str, str]]:
        return self.given


def params(kind: str, **more: object) -> FaultParams:
    return FAULTS[kind].model_validate({"links": "to zone c", **KINDS.get(kind, {}), **more})


def built(kind: str, links: frozenset[tuple[str, str]], **more: object) -> Fault:
    return making.built(params(kind, **more), Given(LAB.topology, random.Random(0), given=links), WIRING)


@pytest.mark.parametrize("kind", KINDS)
@given(links=link_sets)
@settings(max_examples=25, deadline=None)
def test_every_network_fault_takes_back_exactly_what_it_does_and_only_on_its_links(
    kind: str, links: frozenset[tuple[str, str]]
) -> None:
    lab = FakeLab()
    fault = built(kind, links)
    allowed = {(p.host, p.proxy) for a, b in links for p in WIRING.toxified(a, b)} | set(links)
    for both in fault.moves:
        both.move.apply(lab)
    assert len(lab.effects) == len(fault.moves)  # no move twice
    assert {effect[1:3] for effect in lab.effects} <= allowed
    for both in reversed(fault.moves):
        assert both.inverse is not None
        both.inverse.apply(lab)
    assert lab.effects == set()


@given(links=link_sets)
@settings(max_examples=25, deadline=None)
def test_touched_and_untouched_pairs_are_all_pairs_and_never_the_same(links: frozenset[tuple[str, str]]) -> None:
    touched = pairs_both(WIRING, links)
    others = untouched(WIRING, touched)
    assert not set(touched) & set(others)
    assert len(touched) + len(others) == len(WIRING.nodes) * (len(WIRING.hosts) - 1)
    assert set(pairs_opened(WIRING, links)) <= set(touched)
    assert set(spoken(WIRING, links)) == links  # no client-to-client link was among them


@given(links=link_sets)
@settings(max_examples=25, deadline=None)
def test_drop_is_one_move_a_link_and_latency_one_for_each_place(links: frozenset[tuple[str, str]]) -> None:
    assert {(m.move.arguments["host"], m.move.arguments["peer"]) for m in built("network.drop", links).moves} == links
    assert len(built("network.latency", links).moves) == sum(len(WIRING.toxified(a, b)) for a, b in links)


def test_refuse_and_reset_hit_the_proxies_of_those_who_open_connections() -> None:
    links = frozenset({("a-data", "c-data"), ("client-a", "c-data"), ("c-data", "client-b")})
    for kind in ("network.refuse", "network.reset"):
        assert {(m.move.arguments["host"], m.move.arguments["proxy"]) for m in built(kind, links).moves} == {
            ("a-data", "to-c-data-transport"),
            ("client-a", "to-c-data-http"),
        }


@pytest.mark.parametrize(
    ("links", "ways"),
    [({("a-data", "c-data")}, 1), ({("a-data", "c-data"), ("c-data", "a-data")}, 2)],
    ids=["one direction", "both"],
)
def test_latency_is_believed_when_the_round_trip_grew_by_what_was_asked(links: set[tuple[str, str]], ways: int) -> None:
    evidence = built("network.latency", frozenset(links)).evidence()
    assert isinstance(evidence, LinkEvidence)
    pair, base = ("a-data", "c-data"), Echo(Reply.ANSWERED, 0.002)

    def shows(seconds: float) -> bool:
        return evidence._shows(pair, base, Echo(Reply.ANSWERED, seconds))

    asked = 0.3 * ways
    assert shows(0.002 + asked) and shows(0.002 + asked * 1.149) and shows(0.002 + asked * 0.851)
    assert not shows(0.002) and not shows(0.002 + asked * 1.2) and not shows(0.002 + asked * 0.8)
    assert not evidence._shows(pair, base, Echo(Reply.SILENT))
    assert f"{ways * 255 + 2:.1f} ms" in evidence._expected(pair, base)


def test_a_delay_that_was_proven_is_still_there_while_nothing_is_faster() -> None:
    """A busy machine, or a long way, adds to it: that is no reason to call it gone."""
    evidence = built("network.latency", frozenset({("a-data", "c-data")})).evidence()
    assert isinstance(evidence, LinkEvidence)
    pair = ("a-data", "c-data")
    evidence._baseline[pair] = Echo(Reply.ANSWERED, 0.002)

    def ok(echo: Echo, *, held: bool) -> bool:
        return evidence._new(pair, echo, "a round trip", held=held).ok

    slower = Echo(Reply.ANSWERED, 0.9)
    assert not ok(slower, held=False) and ok(slower, held=True)
    for echo in (Echo(Reply.ANSWERED, 0.24), Echo(Reply.ANSWERED, 0.002), Echo(Reply.SILENT), Echo(Reply.REFUSED)):
        assert not ok(echo, held=True) and not ok(echo, held=False)
    assert ok(Echo(Reply.ANSWERED, 0.3), held=False)


def test_an_untouched_pair_of_a_delayed_direction_is_one_that_nothing_crosses() -> None:
    """A delay on answers alone touches the pair as well: its round trip is longer."""
    evidence = built("network.latency", frozenset({("c-data", "a-data")})).evidence()
    assert isinstance(evidence, LinkEvidence)
    assert set(evidence.touched) == {("a-data", "c-data"), ("c-data", "a-data")}
    assert not set(evidence.touched) & set(evidence.control_pairs)


@pytest.mark.parametrize(
    ("kind", "new", "existing"),
    [
        ("network.drop", {Reply.SILENT}, {Reply.SILENT}),
        ("network.hang", {Reply.SILENT}, {Reply.SILENT}),
        ("network.refuse", {Reply.REFUSED}, {Reply.CLOSED, Reply.RESET, Reply.REFUSED}),
        ("network.reset", {Reply.RESET}, {Reply.CLOSED, Reply.RESET}),
    ],
)
def test_each_kind_is_proven_by_its_own_sign_and_never_by_an_answer(
    kind: str, new: set[Reply], existing: set[Reply]
) -> None:
    evidence = built(kind, frozenset({("a-data", "c-data")})).evidence()
    assert isinstance(evidence, LinkEvidence)
    pair = ("a-data", "c-data")
    for reply in set(Reply) - {Reply.CUT}:
        assert evidence._shows(pair, None, Echo(reply)) is (reply in new)
        assert evidence._shows_existing(pair, None, Echo(reply)) is (reply in existing)


@pytest.mark.parametrize("kind", ["network.drop", "network.hang", "network.refuse", "network.reset"])
def test_a_node_that_was_asked_and_says_that_it_is_cut_off_shows_each_of_them(kind: str) -> None:
    fault = built(kind, frozenset({("a-data", "c-data")})).evidence()
    assert isinstance(fault, LinkEvidence) and fault._shows(("a-data", "c-data"), None, Echo(Reply.CUT))


def test_loss_kills_then_empties_and_only_the_kill_can_be_taken_back() -> None:
    fault = ready("f1", FAULTS["node.loss"].model_validate({"target": "zone c"}), LAB, seed=1, elected=None)
    assert [(m.move.operation, m.inverse and m.inverse.operation) for m in fault.moves] == [
        ("node.kill", "node.start"),
        ("node.wipe", None),
    ] * 2
    assert fault.needs == ("process", "data") and fault.targets == ("c-cm", "c-data")


@pytest.mark.parametrize("kind", ["node.kill", "node.stop", "node.pause"])
def test_node_faults_take_back_what_they_did(kind: str) -> None:
    lab = FakeLab()
    fault = ready("f1", FAULTS[kind].model_validate({"target": "zone c"}), LAB, seed=1, elected=None)
    for both in fault.moves:
        both.move.apply(lab)
    assert len(lab.effects) == 2 and {effect[1] for effect in lab.effects} == {"c-cm", "c-data"}
    for both in fault.moves:
        assert both.inverse is not None
        both.inverse.apply(lab)
    assert lab.effects == set() and fault.needs == ("process",)


@given(st.integers(0, 2**31))
def test_the_draw_depends_on_seed_and_id_only(seed: int) -> None:
    picks = FAULTS["node.kill"].model_validate({"target": "one of role data"})
    first, again = (ready("f1", picks, LAB, seed=seed, elected=None) for _ in range(2))
    assert first.targets == again.targets and len(first.targets) == 1
    assert first.targets[0] in {"a-data", "b-data", "c-data"}


def test_another_seed_draws_another_node_sooner_or_later() -> None:
    picks = FAULTS["node.kill"].model_validate({"target": "one of role data"})
    assert len({ready("f1", picks, LAB, seed=seed, elected=None).targets for seed in range(40)}) == 3


def test_links_of_an_elected_manager_follow_who_is_elected() -> None:
    latency = params("network.drop", links="around elected cluster manager")
    assert isinstance(latency.links, LinkSelector)
    for elected in ("a-cm", "b-cm"):
        fault = ready("f1", latency, LAB, seed=1, elected=elected)
        assert all(elected in link for link in fault.links)


def test_a_slicers_variation_is_never_nothing_and_slices_are_no_larger_than_asked() -> None:
    """Toxiproxy draws a number below twice the variation: below 0 there is none, and the server ends."""
    for both in built("network.slicer", frozenset({("a-data", "c-data")}), size="16B", delay="5ms").moves:
        attributes = both.move.arguments["attributes"]
        assert attributes["size_variation"] >= 1
        assert attributes["average_size"] + attributes["size_variation"] <= 16
        assert attributes["delay"] == 5000  # microseconds


@pytest.mark.parametrize("ways", [1, 2])
def test_a_close_is_late_once_for_each_slow_direction(monkeypatch: pytest.MonkeyPatch, ways: int) -> None:
    links = frozenset({("a-data", "c-data"), ("c-data", "a-data")} if ways == 2 else {("a-data", "c-data")})
    evidence = built("network.slow_close", links).evidence()
    assert isinstance(evidence, SlowCloseEvidence)
    late: dict[str, float] = {}
    monkeypatch.setattr(Line, "ended", lambda line, _: late["touched" if "c-data" in line.pair else "other"])
    evidence.control_pairs = [("a-data", "b-data")]
    for touched, other, proven in (
        (2.0 * ways, 0.01, True),
        (2.3 * ways, 0.01, True),
        (0.01, 0.01, False),
        (2.6 * ways, 0.01, False),
        (2.0 * ways, 2.0, False),  # others are late as well
    ):
        late.update(touched=touched, other=other)
        assert evidence.in_effect(LAB).proven is proven, (touched, other)
    evidence.close()


class EchoLab(FakeLab):
    """Nodes that echo what they get, in slices with a pause after each."""

    def __init__(self, size: int, delay: float) -> None:
        super().__init__()
        self.size, self.delay = size, delay

    def connect(self, host: str, address: tuple[str, int], timeout: float) -> socket.socket:
        near, far = socket.socketpair()
        near.settimeout(timeout)
        threading.Thread(target=self._echo, args=(far,), daemon=True).start()
        return near

    def _echo(self, far: socket.socket) -> None:
        with far, suppress(OSError):
            while data := far.recv(32768):
                for at in range(0, len(data), self.size):
                    far.sendall(data[at : at + self.size])
                    time.sleep(self.delay)


@pytest.mark.parametrize(
    ("size", "delay", "proven"),
    [
        (512, 0.02, True),
        (65536, 0.0, False),
        (65536, 0.02, False),
        pytest.param(512, 0.06, False, marks=pytest.mark.full),
    ],
)
def test_slices_are_proven_by_their_pause_and_by_their_size(size: int, delay: float, proven: bool) -> None:
    pair = ("a-data", "c-data")
    evidence = SlicerEvidence([pair], [], 512, 0.02, [pair])
    lab = EchoLab(65536, 0.0)
    assert evidence.before(lab).proven
    lab.size, lab.delay = size, delay
    assert evidence.in_effect(lab).proven is proven
    evidence.close()


def test_slices_that_are_still_made_are_not_gone_though_single_pings_do_not_wait() -> None:
    pair = ("a-data", "c-data")
    evidence, lab = SlicerEvidence([pair], [], 512, 0.05, [pair]), EchoLab(65536, 0.0)
    assert evidence.before(lab).proven
    lab.size, lab.delay = 512, 0.05
    assert LinkEvidence.gone(evidence, lab).proven and not evidence.gone(lab).proven
    lab.size, lab.delay = 65536, 0.0
    assert evidence.gone(lab).proven
    evidence.close()


def thousandths(least: int, most: int) -> st.SearchStrategy[str]:
    return st.integers(least, most).map(lambda number: f"{number}ms")


SHAPES = st.one_of(
    st.tuples(st.just("network.latency"), st.fixed_dictionaries({"delay": thousandths(20, 400)})),
    st.tuples(
        st.just("network.latency"), st.fixed_dictionaries({"delay": thousandths(60, 90), "jitter": thousandths(0, 40)})
    ),
    st.tuples(
        st.just("network.bandwidth"),
        st.fixed_dictionaries({"rate": st.integers(1, 10**7).map(lambda number: f"{number}KiB/s")}),
    ),
    st.tuples(
        st.just("network.slicer"),
        st.fixed_dictionaries({"size": st.sampled_from(["64B", "4KiB", "1MiB"]), "delay": thousandths(5, 50)}),
    ),
    st.tuples(st.just("network.slow_close"), st.fixed_dictionaries({"delay": thousandths(100, 400)})),
)


@given(SHAPES, st.booleans())
@example(("network.latency", {"delay": "60ms", "jitter": "40ms"}), False)  # no less than the least
@settings(max_examples=30, deadline=None)
def test_a_link_on_which_nothing_was_done_shows_no_effect_that_can_be_asked_for(
    shape: tuple[str, dict[str, str]], both: bool
) -> None:
    kind, given_ = shape
    links = {("a-data", "c-data"), ("c-data", "a-data")} if both else {("a-data", "c-data")}
    evidence = built(kind, frozenset(links), **given_).evidence()
    lab = EchoLab(65536, 0.0)
    well = evidence.before(lab).proven
    assert not (evidence.in_effect(lab).proven and well)
    evidence.close()


def test_a_cap_above_what_the_link_carries_is_no_cap() -> None:
    evidence = built("network.bandwidth", frozenset({("a-data", "c-data")}), rate="4000000KiB/s").evidence()
    seen = evidence.before(EchoLab(65536, 0.0))
    assert not seen.proven and any("more than" in probe.expected and not probe.ok for probe in seen.probes)
    evidence.close()


def test_the_end_of_a_connection_is_timed_from_our_half_to_the_other() -> None:
    assert Line(EchoLab(64, 0.0), ("a-data", "c-data")).ended(5.0) is not None
    silent = FakeLab()
    pairs: list[socket.socket] = []

    def connect(host: str, address: tuple[str, int], timeout: float) -> socket.socket:
        near, far = socket.socketpair()
        pairs.append(far)
        return near

    silent.connect = connect  # type: ignore[attr-defined]
    assert Line(silent, ("a-data", "c-data")).ended(0.05) is None
    for far in pairs:
        far.close()
