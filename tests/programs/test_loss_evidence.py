"""The evidence of network.loss, for real: packets that the kernel loses between two namespaces, and what is said of it.

The nodes are echoes of the transport's ping behind one address of the host or of its peer, and oschaos-host loses the
packets, as it does on hosts of others.
"""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
import urllib3
from fakes import FakeLab
from hostkit import CONTROL, NEAR, PEER, Host, needs_a_host

from chaos.faults import evidence as looks
from chaos.faults.evidence import Look
from chaos.faults.loss import LossEvidence, Packets
from chaos.faults.probes import PING
from chaos.targets.wiring import Wiring

pytestmark = [needs_a_host, pytest.mark.full]

TO, BACK, BESIDE = ("a-data", "c-data"), ("c-data", "a-data"), ("b-data", "c-data")


class WiredLab(FakeLab):
    """c-data is the host's echo. a-data speaks to it from the peer, b-data from another address, which is not hit."""

    port = 9300

    def __init__(self, host: Host) -> None:
        super().__init__()
        self._host = host

    def connect(self, host: str, address: tuple[str, int], timeout: float) -> socket.socket:
        namespace, own, target = {
            "a-data": (self._host.peer, PEER, NEAR),
            "b-data": (self._host.peer, CONTROL, NEAR),
            "c-data": (self._host.near, NEAR, PEER),
        }[host]
        made = namespace.socket()
        made.settimeout(timeout)
        try:
            made.bind((own, 0))
            made.connect((target, self.port))
        except OSError:
            made.close()
            raise
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made


class Client(WiredLab):
    """A client of zone a in the place of a-data: it asks over HTTP, of which the echo's answer is an answer too."""

    def connect(self, host: str, address: tuple[str, int], timeout: float) -> socket.socket:
        return super().connect({"client-a": "a-data", "client-b": "b-data"}[host], address, timeout)


class Behind(Wiring):
    """Of nodes whose proxies are not reached from here."""

    def reached(self, source: str, node: str) -> bool:
        return False


class Channel:
    """A connection of a node to another; what is asked over it is answered in order."""

    def __init__(self, line: socket.socket) -> None:
        self._line, self._lock = line, threading.Lock()
        self._waiting: deque[threading.Event] = deque()
        line.settimeout(None)
        threading.Thread(target=self._read, daemon=True).start()

    def ask(self) -> threading.Event:
        with self._lock:
            self._waiting.append(answered := threading.Event())
            self._line.sendall(PING)
        return answered

    def _read(self) -> None:
        left = len(PING)
        with suppress(OSError):
            while got := self._line.recv(left):
                left -= len(got)
                if not left:
                    self._waiting.popleft().set()
                    left = len(PING)

    def close(self) -> None:
        with suppress(OSError):
            self._line.shutdown(socket.SHUT_RDWR)
        self._line.close()


class Asking:
    """A node that is asked about c-data: it takes its six connections to it in turn."""

    def __init__(self, lab: AskedLab, name: str) -> None:
        self.channels = [Channel(lab.connect(name, ("", 0), 5.0)) for _ in range(6)]
        self._turns = itertools.count()

    def request(self, method: str, path: str, *, whole: float) -> tuple[int, dict[str, object]]:
        if not self.channels[next(self._turns) % len(self.channels)].ask().wait(whole):
            raise urllib3.exceptions.TimeoutError
        return 200, {"nodes": {"x": {"name": "c-data"}}}


class AskedLab(WiredLab):
    """No process of ours is beside a node, so a-data is asked by REST, over a way that loses nothing."""

    asks = True

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.wiring = Behind(self.wiring.lab, self.wiring.hosts)
        self.nodes = {name: Asking(self, name) for name in ("a-data", "b-data")}

    def client(self, node: str, *, timeout: float = 5.0) -> Any:
        asked = self.nodes[node]
        return SimpleNamespace(request=asked.request, close=lambda: None)


@pytest.fixture(scope="module")
def _host() -> Iterator[Host]:
    host = Host()
    yield host
    host.close()


@pytest.fixture
def host(_host: Host) -> Iterator[Host]:
    """One host for all tests here: each leaves it without faults, and begins with ids that nobody had."""
    yield _host
    _host.call("sweep")
    for ended in (_host.root / "run" / "oschaos-host").glob("*.ended"):
        ended.unlink()


def evidence(share: float, *, both: bool = False) -> LossEvidence:
    links = [TO, BACK] if both else [TO]
    return LossEvidence([TO], [BESIDE], dict.fromkeys(links, share))


def seen(look: Look) -> str:
    return "; ".join(f"{each.what}: {each.measured}, expected {each.expected}" for each in look.probes)


def soon(look: Callable[[], Look]) -> Look:
    """As a fault's lifecycle looks: again where a busy machine was unlucky. A look takes no longer than 10 s."""
    for _ in range(3):
        began = time.monotonic()
        found = look()
        assert time.monotonic() - began < 10.0
        if found.proven:
            print(f"{time.monotonic() - began:.1f} s; {seen(found)}")
            return found
    pytest.fail(seen(found))


@pytest.mark.parametrize(
    ("share", "both", "given"),
    [
        (0.3, False, {"direction": "in"}),
        (0.3, False, {"direction": "out"}),  # a pair is touched where the answers are lost too
        (0.3, True, {"direction": "both"}),
        (0.05, False, {"direction": "in"}),
        (0.7, False, {"direction": "in"}),
    ],
)
def test_what_is_lost_is_seen_while_it_is_lost_and_the_pair_beside_it_is_calm(
    host: Host, share: float, both: bool, given: dict[str, str]
) -> None:
    lab, fault = WiredLab(host), evidence(share, both=both)
    try:
        assert fault.before(lab).proven
        calm = fault.in_effect(lab)
        assert not calm.proven and not any(probe.ok for probe in calm.probes if not probe.control), seen(calm)
        host.begun("network.loss", peers=[PEER], share=share, **given)
        soon(lambda: fault.in_effect(lab))
        assert not fault.gone(lab).proven
        host.undone()
        soon(lambda: fault.gone(lab))
    finally:
        fault.close()


def loses(host: Host, lab: Any, fault: LossEvidence) -> None:
    """A loss of 30 % is shown and neither what was before it nor a silence, and later it is gone."""
    try:
        assert fault.before(lab).proven
        assert not fault.in_effect(lab).proven
        host.begun("network.loss", peers=[PEER], share=0.3, direction="in")
        soon(lambda: fault.in_effect(lab))
        host.undone()
        host.begun("network.drop", "f2", peers=[PEER], direction="in")
        silent = fault.in_effect(lab)
        assert not silent.proven and not any(probe.ok for probe in silent.probes if not probe.control), seen(silent)
        assert host.undo("f2")["ok"]
        soon(lambda: fault.gone(lab))
    finally:
        fault.close()


def test_what_clients_get_shows_it(host: Host) -> None:
    to, beside = ("client-a", "c-data"), ("client-b", "c-data")
    loses(host, Client(host), LossEvidence([to], [beside], {to: 0.3}))


def test_a_node_that_is_asked_shows_it(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "decommission_status", lambda *_, **__: {})
    lab = AskedLab(host)
    try:
        loses(host, lab, evidence(0.3))
    finally:
        for channel in (each for node in lab.nodes.values() for each in node.channels):
            channel.close()


def counting(host: Host, share: float) -> Callable[[object], list[Packets]]:
    """What the host's program says, as the provider asks for it."""

    def told(_: object) -> list[Packets]:
        (step,) = host.state()["active"][0]["steps"]
        return [Packets("of es-1", share, step["met"], step["hit"])]

    return told


def test_packets_that_the_host_counts_show_it_and_a_rule_that_somebody_changed_does_not(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the same table, under the same comments: only fewer packets are lost."""
    monkeypatch.setattr(looks, "decommission_status", lambda *_, **__: {})
    lab, fault = AskedLab(host), evidence(0.3)
    try:
        assert fault.before(lab).proven
        host.begun("network.loss", peers=[PEER], share=0.3, direction="in")
        fault.counting = counting(host, 0.3)
        shown = soon(lambda: fault.in_effect(lab))
        assert [probe.what for probe in shown.probes if not probe.control] == ["a-data asks c-data", "packets of es-1"]
        rules = host.sh("nft", "list", "table", "inet", "oschaos_r1_f1")
        assert "mod 1000 < 300" in rules
        host.sh("nft", f"delete table inet oschaos_r1_f1; {rules.replace('< 300', '< 30')}")
        look = fault.in_effect(lab)
        packets = [probe for probe in look.probes if probe.what.startswith("packets")]
        assert not look.proven and [probe.ok for probe in packets] == [False], seen(look)
    finally:
        fault.close()
        for channel in (each for node in lab.nodes.values() for each in node.channels):
            channel.close()


@pytest.mark.parametrize(
    ("intent", "given"),
    [
        ("network.drop", {}),
        ("network.loss", {"share": 0.95, "direction": "both"}),
        ("network.loss", {"share": 0.05, "direction": "in"}),
        ("network.refuse", {}),
        ("network.reset", {"local_ports": [9300]}),
    ],
)
def test_what_is_no_loss_of_this_share_does_not_pass_for_one(host: Host, intent: str, given: dict[str, object]) -> None:
    """A silence, a loss of nearly everything, one of much less, and connections that end."""
    lab, fault = WiredLab(host), evidence(0.3)
    try:
        assert fault.before(lab).proven
        host.begun(intent, peers=[PEER], **given)
        looks = [fault.in_effect(lab) for _ in range(2)]
        assert not any(look.proven for look in looks), [seen(look) for look in looks]
        assert any(all(probe.ok for probe in look.probes if probe.control) for look in looks)
    finally:
        fault.close()


def test_a_loss_that_spread_to_the_pair_beside_it_is_no_proof(host: Host) -> None:
    lab, fault = WiredLab(host), evidence(0.3)
    host.configure(peers=["10.77.1.0/24", "fd77::2/128"])
    try:
        assert fault.before(lab).proven
        host.begun("network.loss", peers=[PEER, CONTROL], share=0.3, direction="in")
        look = fault.in_effect(lab)
        assert not look.proven and [probe.ok for probe in look.probes if probe.control] == [False], seen(look)
    finally:
        fault.close()


def test_a_link_that_loses_packets_already_proves_nothing(host: Host) -> None:
    lab, fault = WiredLab(host), evidence(0.3)
    host.begun("network.loss", peers=[PEER], share=0.3, direction="in")
    try:
        assert not fault.before(lab).proven
    finally:
        fault.close()


def test_cheap_looks_see_a_loss_and_neither_a_silence_nor_a_link_that_is_well(host: Host) -> None:
    lab, fault = WiredLab(host), evidence(0.3)
    try:
        assert fault.before(lab).proven
        assert not any(probe.ok for probe in fault.glance(lab, [TO]))
        host.begun("network.loss", peers=[PEER], share=0.3, direction="in")
        looks = [probe for _ in range(5) for probe in fault.glance(lab, [TO])]
        assert sum(probe.ok for probe in looks) >= 4, looks  # one may be unlucky, and is no accusation
        host.undone()
        host.begun("network.drop", "f2", peers=[PEER])
        assert not any(probe.ok for probe in fault.glance(lab, [TO]))
    finally:
        fault.close()
