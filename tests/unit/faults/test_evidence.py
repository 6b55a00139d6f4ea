"""Probes on real sockets, and how looks at the data path become a proof."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import urllib3
from fakes import FakeLab
from hypothesis import given
from hypothesis import strategies as st

from chaos.base.errors import Lacking
from chaos.faults import evidence, probes
from chaos.faults.echoes import Http, Transport
from chaos.faults.evidence import CONTROLS, LinkEvidence, ProcessEvidence, spread, tolerance
from chaos.faults.kinds.network import untouched
from chaos.faults.loss import LossEvidence
from chaos.faults.probes import PING, ROUNDS, Echo, Line, Pair, Reply, at_rest, direct, together
from chaos.targets.protocol import DiskAnswer

PAIR = ("a-data", "c-data")


class SocketLab(FakeLab):
    """Hands out ready-made connections, or raises what a connect would."""

    def __init__(self) -> None:
        super().__init__()
        self.far: list[socket.socket] = []
        self.refuse: OSError | None = None

    def connect(self, host: str, address: tuple[str, int], timeout: float) -> socket.socket:
        if self.refuse is not None:
            raise self.refuse
        near, far = socket.socketpair()
        near.settimeout(timeout)
        self.far.append(far)
        return near


@pytest.fixture
def lab() -> Iterator[SocketLab]:
    made = SocketLab()
    yield made
    for far in made.far:
        far.close()


def opened(lab: SocketLab, pair: Pair = PAIR) -> tuple[Line, socket.socket]:
    line = Line(lab, pair)
    assert line.open(1.0) is None
    return line, lab.far[-1]


def test_an_answer_is_the_nodes_own_six_bytes(lab: SocketLab) -> None:
    line, far = opened(lab)
    far.sendall(PING)
    echo = line.ping(1.0)
    assert echo.reply is Reply.ANSWERED and echo.seconds is not None
    assert far.recv(100) == PING
    line.close()


def test_silence_is_no_answer_and_a_late_echo_does_not_pass_for_a_new_one(lab: SocketLab) -> None:
    line, far = opened(lab)
    assert line.connected and not line.owes
    assert line.ping(0.02) == Echo(Reply.SILENT)
    far.sendall(PING)  # the first ping's echo, late
    assert line.ping(0.02) == Echo(Reply.SILENT) and line.owes
    far.sendall(PING + PING)  # the second's, and the third's
    assert line.ping(1.0).reply is Reply.ANSWERED and not line.owes
    line.close()
    assert not line.connected


def test_half_an_echo_is_no_answer(lab: SocketLab) -> None:
    line, far = opened(lab)
    far.sendall(PING[:3])
    assert line.ping(0.02) == Echo(Reply.SILENT)
    line.close()


def test_a_closed_connection_is_closed(lab: SocketLab) -> None:
    line, far = opened(lab)
    far.shutdown(socket.SHUT_WR)
    assert line.ping(1.0) == Echo(Reply.CLOSED)


def test_a_reset_connection_is_reset() -> None:
    lab = FakeLab()
    with socket.create_server(("127.0.0.1", 0)) as server:
        lab.connect = lambda *_: socket.create_connection(server.getsockname()[:2], 1.0)  # type: ignore[attr-defined]
        line = Line(lab, PAIR)
        assert line.open(1.0) is None
        far, _ = server.accept()
        far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        far.close()  # lingering for no time at all sends RST
        assert line.ping(1.0) == Echo(Reply.RESET)


@pytest.mark.parametrize(
    ("error", "reply"),
    [
        (ConnectionRefusedError(), Reply.REFUSED),
        (TimeoutError(), Reply.SILENT),
        (OSError(113, "No route to host"), Reply.UNREACHABLE),
    ],
)
def test_a_connect_that_fails_says_how(lab: SocketLab, error: OSError, reply: Reply) -> None:
    lab.refuse = error
    assert Line(lab, PAIR).ping(0.1) == Echo(reply) == direct(lab, "c-data", 0.1)


def test_clients_ask_over_http_and_wait_for_the_whole_body(lab: SocketLab) -> None:
    line, far = opened(lab, ("client-a", "c-data"))
    far.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n123")
    assert line.ping(0.02) == Echo(Reply.SILENT)
    line, far = opened(lab, ("client-a", "c-data"))
    far.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n12345")
    assert line.ping(1.0).reply is Reply.ANSWERED
    assert far.recv(1000).startswith(b"GET /")
    line.close()


@pytest.mark.parametrize(
    ("took", "best", "rounds"),
    [
        ([0.002], 0.002, 1),
        ([0.148, 0.060, 0.009, 0.001], 0.009, 3),  # calm now: nobody asks any more
        ([0.148, 0.060, 0.070] + [0.065] * 20, 0.060, ROUNDS),  # a long way: the fastest of all
        ([0.148, None, 0.001], None, 2),  # it was silent once: no baseline
    ],
)
def test_what_a_line_takes_at_rest_is_not_what_it_took_in_a_burst_of_work(
    monkeypatch: pytest.MonkeyPatch, took: list[float | None], best: float | None, rounds: int
) -> None:
    left, asked = iter(took), []

    class Slow:
        pair = PAIR

    def together(lines: list[Any], *_: Any, **__: Any) -> dict[Pair, Echo]:
        asked.append([line.pair for line in lines])
        return {PAIR: Echo(Reply.SILENT) if (s := next(left)) is None else Echo(Reply.ANSWERED, s)}

    monkeypatch.setattr(probes, "together", together)
    monkeypatch.setattr(probes, "PAUSE_SECONDS", 0.0)
    assert at_rest([Slow()], 1.0)[PAIR].seconds == best  # type: ignore[list-item]
    assert len(asked) == rounds


def test_of_several_pings_the_fastest_counts_but_silence_beats_them_all(lab: SocketLab) -> None:
    line, far = opened(lab)
    far.sendall(PING)
    assert together([line], 0.02, pings=3) == {PAIR: Echo(Reply.SILENT)}  # one answer of three
    line.close()
    assert together([], 1.0) == {}


def test_a_flood_counts_every_byte_that_comes_back(lab: SocketLab) -> None:
    line, far = opened(lab)

    def echo() -> None:
        while data := far.recv(65536):
            far.sendall(data)

    thread = threading.Thread(target=echo, daemon=True)
    thread.start()
    assert line.flood(6000, 5.0) is not None
    thread.join(5)
    line, _ = opened(lab)
    assert line.flood(600, 0.02) is None  # nothing comes back


def answers(far: socket.socket, question: type[Transport] | type[Http], answer: bytes) -> None:
    """A node that quotes: for every question one answer, however the bytes of either arrive."""
    asked = b""
    while data := far.recv(65536):
        asked += data
        while (length := asked_length(question, asked)) is not None and len(asked) >= length:
            asked = asked[length:]
            far.sendall(answer)


def asked_length(question: type[Transport] | type[Http], asked: bytes) -> int | None:
    if question is Transport:
        return 6 + int.from_bytes(asked[2:6], "big") if len(asked) >= 6 else None
    head, end, _ = asked.partition(b"\r\n\r\n")
    if not end:
        return None
    return len(head) + 4 + next(int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length"))


@pytest.mark.parametrize(
    ("pair", "question", "answer"),
    [
        (PAIR, Transport, b"ES" + (50_000).to_bytes(4, "big") + bytes(50_000)),
        (("client-a", "c-data"), Http, b"HTTP/1.1 405 No\r\ncontent-length: 6000\r\n\r\n" + bytes(6000)),
    ],
)
def test_a_large_flood_asks_what_a_node_answers_at_the_same_length(
    lab: SocketLab, pair: Pair, question: type[Transport] | type[Http], answer: bytes
) -> None:
    line, far = opened(lab, pair)
    thread = threading.Thread(target=answers, args=(far, question, answer), daemon=True)
    thread.start()
    assert line.flood(1_000_000, 10.0) is not None
    thread.join(5)


@pytest.mark.parametrize("said", [b"HTTP/1.1 400 No\r\n\r\n", PING, b"ES" + (3).to_bytes(4, "big") + b"abc"])
def test_a_flood_that_is_answered_with_something_else_carried_nothing(lab: SocketLab, said: bytes) -> None:
    line, far = opened(lab)
    far.sendall(said)
    far.shutdown(socket.SHUT_WR)
    assert line.flood(1_000_000, 2.0) is None


def test_a_question_on_the_wire() -> None:
    """Fixed by hand from ``TcpHeader``, ``Header`` and ``StreamOutput`` of OpenSearch 2.19 and 3.x."""
    asked = Transport().question(1, 2)
    name = b"opensearch-chaos:probe/x"
    assert asked[:2] == b"ES" and int.from_bytes(asked[2:6], "big") == len(asked) - 6
    assert asked[6:15] == (1).to_bytes(8, "big") + b"\0"
    assert int.from_bytes(asked[15:19], "big") ^ 0x08000000 == 2190099
    assert int.from_bytes(asked[19:23], "big") == 4 + len(name)
    assert asked[23:] == b"\0\0\0" + bytes([len(name)]) + name + b"\0\0"
    assert Transport().question(300, 0)[26:28] == bytes(
        [(300 + len(name) - 1) & 0x7F | 0x80, (300 + len(name) - 1) >> 7]
    )


@given(st.floats(0, 100))
def test_tolerance_is_the_larger_of_15_percent_and_30_ms(asked: float) -> None:
    assert tolerance(asked) >= 0.030 and tolerance(asked) >= 0.15 * asked
    assert tolerance(asked) in (0.030, 0.15 * asked)


@given(st.lists(st.tuples(st.text(max_size=2), st.text(max_size=2)), max_size=30, unique=True), st.integers(1, 6))
def test_spread_takes_as_many_as_asked_all_different(pairs: list[Pair], count: int) -> None:
    chosen = spread(pairs, count)
    assert len(chosen) == len(set(chosen)) == min(count, len(pairs))
    assert set(chosen) <= set(pairs)


# ---- looks -----------------------------------------------------------------------------------------------

NEAR = Echo(Reply.ANSWERED, 0.002)
UNTOUCHED = [("a-data", "b-data"), ("b-data", "a-data")]
Answers = Callable[[Pair], Echo]


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Callable[[Answers], None]:
    """Replaces the lines by a table: what each pair answers."""

    class FakeLine:
        def __init__(self, lab: Any, pair: Pair) -> None:
            self.pair = pair

        def close(self) -> None:
            pass

    def answers(table: Answers) -> None:
        def together(lines: list[Any], *_: Any, **__: Any) -> dict[Pair, Echo]:
            return {each.pair: table(each.pair) for each in lines}

        monkeypatch.setattr(evidence, "together", together)
        monkeypatch.setattr(probes, "together", together)

    monkeypatch.setattr(evidence, "Line", FakeLine)
    monkeypatch.setattr(evidence, "direct", lambda *_: NEAR)
    monkeypatch.setattr(probes, "PAUSE_SECONDS", 0.0)
    answers(lambda pair: NEAR)
    return answers


def silent_on_touched() -> LinkEvidence:
    return LinkEvidence([PAIR], UNTOUCHED, lambda *_: "silent", lambda _p, _b, echo: echo.reply is Reply.SILENT)


def test_a_whole_life_is_proven_step_by_step(network: Callable[[Answers], None]) -> None:
    look, lab = silent_on_touched(), FakeLab()
    assert look.before(lab).proven
    assert not look.in_effect(lab).proven  # everything still answers
    network(lambda pair: Echo(Reply.SILENT) if pair == PAIR else NEAR)
    seen = look.in_effect(lab)
    assert seen.proven and {probe.ok for probe in seen.probes} == {True}
    assert not look.gone(lab).proven
    network(lambda pair: NEAR)
    assert look.gone(lab).proven


def test_an_effect_that_spills_over_is_not_proven(network: Callable[[Answers], None]) -> None:
    look, lab = silent_on_touched(), FakeLab()
    look.before(lab)
    slow = Echo(Reply.ANSWERED, 0.002 + 0.011)  # untouched links may grow by 10 ms
    for other in (slow, Echo(Reply.SILENT)):
        network(lambda pair, other=other: Echo(Reply.SILENT) if pair == PAIR else other)  # type: ignore[misc]
        assert not look.in_effect(lab).proven
    network(lambda pair: Echo(Reply.SILENT) if pair == PAIR else Echo(Reply.ANSWERED, 0.002 + 0.009))
    assert look.in_effect(lab).proven


def test_gone_means_as_fast_as_before_on_every_pair(network: Callable[[Answers], None]) -> None:
    look, lab = silent_on_touched(), FakeLab()
    look.before(lab)
    for pair in (PAIR, *UNTOUCHED):
        network(lambda asked, pair=pair: Echo(Reply.ANSWERED, 0.3) if asked == pair else NEAR)  # type: ignore[misc]
        assert not look.gone(lab).proven


def test_a_baseline_with_a_silent_pair_proves_nothing(network: Callable[[Answers], None]) -> None:
    network(lambda pair: Echo(Reply.SILENT) if pair == UNTOUCHED[0] else NEAR)
    look = silent_on_touched().before(FakeLab())
    assert not look.proven and look.says == "2 of 3 probed pairs answer"


def test_few_untouched_pairs_are_enough() -> None:
    many = [(str(i), "b") for i in range(50)]
    assert len(LinkEvidence([], many, lambda *_: "", lambda *_: True).control_pairs) == CONTROLS


# ---- processes -------------------------------------------------------------------------------------------


WELL = {"discovered_cluster_manager": True, "number_of_nodes": 6}


class HealthLab(FakeLab):
    """Every node answers health as told."""

    def __init__(self) -> None:
        super().__init__()
        self.health: Any = WELL

    def client(self, node: str, *, timeout: float = 5.0) -> Any:
        lab = self

        class Client:
            def request(self, method: str, path: str) -> tuple[int, Any]:
                if lab.health is None:
                    raise urllib3.exceptions.HTTPError("refused")
                return 200, lab.health

        return Client()


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> Callable[[Reply], None]:
    def says(reply: Reply) -> None:
        monkeypatch.setattr(evidence, "direct", lambda *_: Echo(reply))

    says(Reply.ANSWERED)
    return says


@pytest.mark.parametrize(
    ("state", "reply", "paused", "proven"),
    [
        (None, Reply.REFUSED, False, True),
        ("S", Reply.REFUSED, False, False),
        (None, Reply.ANSWERED, False, False),
        ("T", Reply.SILENT, True, True),
        ("S", Reply.SILENT, True, False),
        ("T", Reply.ANSWERED, True, False),
        (None, Reply.REFUSED, True, False),
    ],
)
def test_a_dead_or_paused_process_shows_in_its_state_and_on_its_port(
    inside: Callable[[Reply], None], state: str | None, reply: Reply, paused: bool, proven: bool
) -> None:
    lab = HealthLab()
    lab.states = {"c-data": state}
    inside(reply)
    assert ProcessEvidence(["c-data"], paused=paused).in_effect(lab).proven is proven


def test_a_lost_node_must_have_an_empty_data_folder(inside: Callable[[Reply], None]) -> None:
    lab = HealthLab()
    lab.states = {"c-data": None}
    inside(Reply.REFUSED)
    look = ProcessEvidence(["c-data"], emptied=True)
    assert not look.in_effect(lab).proven
    lab.effects.add(("wiped", "c-data"))
    assert look.in_effect(lab).proven


def test_a_node_is_back_when_it_runs_answers_and_has_a_cluster_manager(inside: Callable[[Reply], None]) -> None:
    lab, look = HealthLab(), ProcessEvidence(["c-data"])
    assert look.gone(lab).proven and look.before(lab).proven
    for health in (None, {"discovered_cluster_manager": False}):
        lab.health = health
        assert not look.gone(lab).proven
    lab.health = WELL
    lab.states = {"c-data": "T"}
    assert not look.gone(lab).proven
    lab.states = {}
    inside(Reply.SILENT)
    assert not look.gone(lab).proven


# ---- whether it still holds ------------------------------------------------------------------------------


def in_effect_on(network: Callable[[Answers], None], lab: FakeLab, touched: list[Pair] | None = None) -> LinkEvidence:
    """Evidence of silence on ``touched`` that was proven."""
    hit = touched or [PAIR]
    look = LinkEvidence(hit, UNTOUCHED, lambda *_: "silent", lambda _p, _b, echo: echo.reply is Reply.SILENT)
    network(lambda pair: NEAR)
    assert look.before(lab).proven
    network(lambda pair: Echo(Reply.SILENT) if pair in hit else NEAR)
    assert look.in_effect(lab).proven
    return look


def test_what_is_taken_back_by_a_third_hand_is_seen_by_the_full_look_and_by_the_cheap_ones_in_turn(
    network: Callable[[Answers], None],
) -> None:
    lab, hit = FakeLab(), [("a-data", "c-data"), ("b-data", "c-data"), ("client-a", "c-data")]
    look = in_effect_on(network, lab, hit)
    assert look.held(lab).proven and all(seen.proven for _ in range(3) if (seen := look.still(lab)))
    for gone in hit:  # of a single pair
        network(lambda pair, gone=gone: Echo(Reply.SILENT) if pair in hit and pair != gone else NEAR)  # type: ignore[misc]
        assert not look.held(lab).proven
        seen = [look.still(lab) for _ in range(len(hit))]
        assert any(each is not None and not each.proven for each in seen), "no turn came to it"
    network(lambda pair: NEAR)
    held, cheap = look.held(lab), look.still(lab)
    assert cheap is not None and not cheap.proven and not held.proven
    assert {probe.key for probe in cheap.probes if not probe.ok} <= {probe.key for probe in held.probes if not probe.ok}


def test_what_spread_to_a_link_that_is_not_named_is_seen_wherever_it_is(network: Callable[[Answers], None]) -> None:
    lab = FakeLab()
    every = untouched(lab.wiring, [PAIR])
    look = LinkEvidence([PAIR], every, lambda *_: "silent", lambda _p, _b, echo: echo.reply is Reply.SILENT)
    assert look.before(lab).proven
    for other in every:
        network(lambda pair, other=other: Echo(Reply.SILENT) if pair in (PAIR, other) else NEAR)  # type: ignore[misc]
        held = look.held(lab)
        odd = [probe for probe in held.probes if not probe.ok]
        assert not held.proven and [probe.what for probe in odd] == [f"untouched: round trip {other[0]} → {other[1]}"]
        assert all(probe.control for probe in odd)
    network(lambda pair: Echo(Reply.SILENT) if pair == PAIR else NEAR)
    assert look.held(lab).proven


@pytest.mark.parametrize(("adds", "slower", "calm"), [(3.0, 0.3, True), (3.0, 1.6, False), (0.1, 0.3, False)])
def test_a_link_that_is_a_little_slower_than_before_has_not_been_spread_to(
    network: Callable[[Answers], None], adds: float, slower: float, calm: bool
) -> None:
    """A leak shows at least half of what the fault adds; a busy machine shows less."""
    lab = FakeLab()
    late = Echo(Reply.ANSWERED, slower)
    look = LinkEvidence(
        [PAIR], UNTOUCHED, lambda *_: "silent", lambda _p, _b, echo: echo.reply is Reply.SILENT, adds=adds
    )
    network(lambda pair: NEAR)
    assert look.before(lab).proven
    network(lambda pair: Echo(Reply.SILENT) if pair == PAIR else late)
    assert look.in_effect(lab).proven is calm and look.held(lab).proven is calm
    network(lambda pair: late)
    assert look.gone(lab).proven is calm


def test_cheap_looks_come_to_every_untouched_link_too(network: Callable[[Answers], None]) -> None:
    lab = FakeLab()
    look = in_effect_on(network, lab)
    network(lambda pair: Echo(Reply.SILENT) if pair in (PAIR, UNTOUCHED[1]) else NEAR)
    seen = [look.still(lab) for _ in range(len(UNTOUCHED))]
    assert sorted(each.proven for each in seen if each is not None) == [False, True]


def test_what_another_fault_holds_by_now_and_a_node_that_does_not_run_say_nothing(
    network: Callable[[Answers], None],
) -> None:
    lab, hit = FakeLab(), [("a-data", "c-data"), ("b-data", "c-cm")]
    look = in_effect_on(network, lab, hit)
    refused = Echo(Reply.REFUSED)
    network(lambda pair: refused if "c-data" in pair else Echo(Reply.SILENT) if pair in hit else NEAR)
    assert not look.held(lab).proven
    look.beside(frozenset(), frozenset({"c-data"}))  # somebody kills it, as was planned
    assert look.held(lab).proven
    look.beside(frozenset(), frozenset())
    lab.states = {"c-data": None}  # it died
    assert look.held(lab).proven and look.still(lab).proven  # type: ignore[union-attr]
    lab.states = {"c-data": "T", "c-cm": None}
    held = look.held(lab)
    assert not held.proven and "nothing can be looked at" in held.says and look.still(lab) is None
    lab.states = {}
    network(lambda pair: NEAR)
    assert look.gone(lab).proven and len(look.gone(lab).probes) == len(hit) + len(UNTOUCHED)  # all of them count again


def test_a_way_to_a_service_is_looked_at_beside_a_node_that_is_dead(network: Callable[[Answers], None]) -> None:
    lab, store = FakeLab("3az-remote-store"), ("c-data", "store")
    look = in_effect_on(network, lab, [store])
    look.beside(frozenset(), frozenset({"c-data"}))
    lab.states = {"c-data": None}
    network(lambda pair: Echo(Reply.SILENT) if pair == store else NEAR)
    assert look.held(lab).proven
    network(lambda pair: NEAR)
    assert not look.held(lab).proven and look.gone(lab).proven


@pytest.mark.parametrize("deaf", [True, False])
def test_a_node_that_is_silent_itself_says_nothing_of_its_links(
    network: Callable[[Answers], None], monkeypatch: pytest.MonkeyPatch, deaf: bool
) -> None:
    """Its heap overflows, say: nobody has to be accused of a fault that spread. If it answers itself, somebody has."""
    lab = FakeLab()
    look = in_effect_on(network, lab)
    network(lambda pair: Echo(Reply.SILENT) if pair == PAIR or pair[1] == "b-data" else NEAR)
    pinged: list[str] = []

    def direct(_lab: Any, node: str, _seconds: float) -> Echo:
        pinged.append(node)
        return Echo(Reply.SILENT) if deaf and node == "b-data" and pinged.count("b-data") == 3 else NEAR

    monkeypatch.setattr(evidence, "direct", direct)  # one worker of it is stuck
    held = look.held(lab)
    assert held.proven is deaf, held.says
    assert deaf is not any("b-data" in probe.what for probe in held.probes if not probe.ok)


@pytest.mark.parametrize("ended", [Reply.CLOSED, Reply.RESET, Reply.UNREACHABLE])
def test_a_connection_from_before_that_has_ended_says_nothing_of_what_holds_now(
    network: Callable[[Answers], None], monkeypatch: pytest.MonkeyPatch, ended: Reply
) -> None:
    lab = FakeLab()
    look = in_effect_on(network, lab)
    old = look._existing

    def together(lines: list[Any], *_: Any, **__: Any) -> dict[Pair, Echo]:
        says = Echo(ended) if lines == old else Echo(Reply.SILENT)
        return {each.pair: says if each.pair == PAIR else NEAR for each in lines}

    monkeypatch.setattr(evidence, "together", together)
    assert not look.in_effect(lab).proven  # when it is to be proven first, it would
    held = look.held(lab)
    assert held.proven and [probe.what for probe in held.probes if not probe.control] == [
        "new connection a-data → c-data"
    ]


@pytest.mark.parametrize(
    ("state", "reply", "paused"),
    [("S", Reply.ANSWERED, False), ("S", Reply.ANSWERED, True), (None, Reply.REFUSED, True)],
)
def test_a_process_that_somebody_brings_back_is_seen_cheaply_too(
    inside: Callable[[Reply], None], state: str | None, reply: Reply, paused: bool
) -> None:
    lab, look = HealthLab(), ProcessEvidence(["c-data"], paused=paused)
    assert look.before(lab).proven
    lab.states = {"c-data": "T" if paused else None}
    inside(Reply.SILENT if paused else Reply.REFUSED)
    assert look.held(lab).proven and look.still(lab).proven  # type: ignore[union-attr]
    lab.states = {"c-data": state}
    inside(reply)
    assert not look.held(lab).proven and not look.still(lab).proven  # type: ignore[union-attr]


@pytest.mark.parametrize("state", [None, "T"])
def test_a_process_that_is_not_named_and_does_not_run_any_more_has_been_spread_to(
    inside: Callable[[Reply], None], state: str | None
) -> None:
    lab, look = HealthLab(), ProcessEvidence(["c-data"])
    lab.states = {"b-cm": "T"}  # one that did not run before says nothing
    look.before(lab)
    lab.states |= {"c-data": None}
    inside(Reply.REFUSED)
    assert look.held(lab).proven
    lab.states |= {"a-data": state}
    for seen in (look.held(lab), look.still(lab)):
        assert seen is not None and not seen.proven
        assert [p.what for p in seen.probes if not p.ok and p.control] == ["untouched: process of a-data"]
    look.beside(frozenset(), frozenset({"a-data"}))  # another fault, as was planned
    assert look.held(lab).proven


def test_what_another_fault_held_when_this_one_began_is_not_held_against_it_later() -> None:
    """Found by a hunt: the other one was undone first, and the node's limits were then others than before."""
    lab, others = FakeLab(), evidence.Others(["c-data"], limits="memory")
    lab.squeeze_memory("a-data", 1)
    others.remember(lab, frozenset({"a-data"}))
    lab.restore_limits("a-data", "memory", {})
    assert all(probe.ok for probe in others.cheap(lab, frozenset()))
    lab.squeeze_memory("b-data", 1)
    wrong = [probe.what for probe in others.cheap(lab, frozenset()) if not probe.ok]
    assert wrong == ["untouched: memory limits of b-data"]


class PartlyKnown(FakeLab):
    """Nobody can be asked what limits b-data, nor measure on its disk; from ``lost`` on not even for a-data."""

    lost = False

    def limits(self, node: str, resource: str) -> dict[str, str]:
        if node == "b-data" or (self.lost and node == "a-data"):
            raise Lacking(f"the file names no host of {node}")
        return super().limits(node, resource)


def test_what_nobody_can_be_asked_of_another_node_is_left_out_and_what_could_be_asked_before_is_not() -> None:
    lab, others = PartlyKnown(), evidence.Others(["c-data"], limits="cpu", disks=True)

    def probe(node: str, do: str, **given: Any) -> DiskAnswer:
        if node == "b-data":
            raise Lacking("the file names no host of b-data")
        return DiskAnswer(seconds=0.001)

    lab.disks.probe = probe  # type: ignore[method-assign]
    others.remember(lab, frozenset())
    seen = {each.what: each.ok for each in others.probes(lab, frozenset())}
    assert all(seen.values()) and "untouched: process of b-data" in seen
    assert not [what for what in seen if "b-data" in what and "process" not in what]
    assert {"untouched: cpu limits of a-data", "untouched: fsync'd write on the disk of a-data"} <= seen.keys()
    lab.states["b-data"], lab.lost = None, True
    wrong = [each.what for each in others.cheap(lab, frozenset()) if not each.ok]
    assert wrong == ["untouched: process of b-data", "untouched: cpu limits of a-data"]


def test_bursts_are_sent_over_a_few_pairs_those_in_doubt_first_until_they_have_shown_it(
    network: Callable[[Answers], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    every = [(a, "c-data") for a in ("a-data", "b-data", "a-cm", "b-cm", "c-cm", "client-a", "client-b")]
    look, lab, slow = evidence.BandwidthEvidence(every, UNTOUCHED, 64000.0), FakeLab(), 0.1
    asked: list[Pair] = []

    def flood(self: Any, lab: Any, pair: Pair, part: float = 1.0) -> tuple[float, str]:
        asked.append(pair)
        return slow, "as told"

    monkeypatch.setattr(evidence.BandwidthEvidence, "_flood", flood)
    assert look.before(lab).proven
    slow = 1.0
    assert look.in_effect(lab).proven and asked[-len(every) :] == every
    asked.clear()
    look.suspect([("client-b", "c-data"), ("a-data", "b-data")])
    assert look.held(lab).proven
    assert len(asked) == evidence.HELD_BURSTS and asked[0] == ("client-b", "c-data")
    asked.clear()
    assert look.held(lab).proven and len(set(asked)) == evidence.HELD_BURSTS
    slow = 0.1
    asked.clear()
    assert not look.held(lab).proven and not look.held(lab).proven
    assert asked[: evidence.HELD_BURSTS] == asked[evidence.HELD_BURSTS :]  # the same ones again


def test_what_held_until_the_end_of_one_time_is_proven_in_full_when_the_next_one_begins(
    network: Callable[[Answers], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    every = [(a, "c-data") for a in ("a-data", "b-data", "a-cm", "b-cm", "c-cm")]
    look, lab, slow = evidence.BandwidthEvidence(every, UNTOUCHED, 64000.0), FakeLab(), 0.1
    asked: list[Pair] = []

    def flood(self: Any, lab: Any, pair: Pair, part: float = 1.0) -> tuple[float, str]:
        asked.append(pair)
        return slow, "as told"

    monkeypatch.setattr(evidence.BandwidthEvidence, "_flood", flood)
    assert look.before(lab).proven
    slow = 1.0
    assert look.in_effect(lab).proven and look.held(lab).proven
    asked.clear()
    assert look.in_effect(lab).proven and asked == every


# ---- whether it is gone ----------------------------------------------------------------------------------


def test_a_cap_is_gone_when_bursts_are_as_before_because_a_ping_is_as_fast_under_any(
    network: Callable[[Answers], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    every = [("a-data", "c-data"), ("b-data", "c-data"), ("client-a", "c-data")]
    look, lab = evidence.BandwidthEvidence(every, UNTOUCHED, 64000.0), FakeLab()
    capped: set[Pair] = set()
    asked: list[Pair] = []

    def flood(self: Any, lab: Any, pair: Pair, part: float = 1.0) -> tuple[float, str]:
        asked.append(pair)
        return (1.0 if pair in capped else 0.1), "as told"

    monkeypatch.setattr(evidence.BandwidthEvidence, "_flood", flood)
    assert look.before(lab).proven
    capped |= set(every)
    assert look.in_effect(lab).proven
    asked.clear()
    assert not look.gone(lab).proven
    assert asked == every[:1], "those that are still capped take seconds each"
    capped -= set(every[:2])
    seen = look.gone(lab)
    assert not seen.proven and [probe.what for probe in seen.probes if not probe.ok] == [
        "64000 bytes client-a → c-data"
    ]
    capped.clear()
    asked.clear()
    assert look.gone(lab).proven and asked == every
    look.beside(frozenset(), frozenset({"a-data"}))  # another fault holds it
    asked.clear()
    assert look.gone(lab).proven and asked == every[1:]
    asked.clear()
    network(lambda pair: Echo(Reply.SILENT) if pair == every[1] else NEAR)
    assert not look.gone(lab).proven and asked == []


def test_slices_are_gone_when_a_row_of_pings_is_as_before(
    network: Callable[[Answers], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    look, lab = evidence.SlicerEvidence([PAIR], UNTOUCHED, 512, 0.01, [PAIR]), FakeLab()
    took = iter([0.01, 0.02, 0.03])
    monkeypatch.setattr(evidence.SlicerEvidence, "_pings", lambda *_: (next(took), NEAR))
    assert look.before(lab).proven
    pauses = 9 * 0.01
    for rows, proven in (
        ([0.01 + 0.5 * pauses] * 3, False),
        ([1.0, 1.0, 0.01 + 0.4 * pauses], True),  # a busy machine, twice
        ([0.01], True),
    ):
        took = iter(rows)
        assert look.gone(lab).proven is proven
        assert next(took, None) is None
    monkeypatch.setattr(evidence.SlicerEvidence, "_pings", lambda *_: (0.0, Echo(Reply.CLOSED)))
    assert not look.gone(lab).proven


SOME = Callable[[], LinkEvidence]


@pytest.mark.parametrize(
    "made",
    [
        silent_on_touched,
        lambda: evidence.BandwidthEvidence([PAIR], UNTOUCHED, 64000.0),
        lambda: evidence.SlicerEvidence([PAIR], UNTOUCHED, 512, 0.01, [PAIR]),
        lambda: evidence.SlowCloseEvidence([PAIR], UNTOUCHED, {PAIR: 2.0}),
        lambda: LossEvidence([PAIR], UNTOUCHED, {PAIR: 0.3}),
    ],
    ids=["silence", "bandwidth", "slicer", "slow close", "loss"],
)
def test_an_end_that_nothing_can_show_is_not_proven(network: Callable[[Answers], None], made: SOME) -> None:
    """Another fault holds every node behind these links: the untouched ones say nothing of them."""
    look, lab = made(), FakeLab()
    look.beside(frozenset(), frozenset({"c-data"}))
    gone = look.gone(lab)
    assert not gone.proven and gone.says == evidence.UNANSWERABLE == look.held(lab).says
