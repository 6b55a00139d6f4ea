"""The evidence of network.loss, for real: packets that the kernel loses between two namespaces, and what is said of it.

The nodes are echoes of the transport's ping behind one address of the host or of its peer, and oschaos-host loses the
packets, as it does on hosts of others.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest
from fakes import FakeLab
from hostkit import CONTROL, NEAR, PEER, Host, needs_a_host

from chaos.faults.evidence import Look
from chaos.faults.loss import LossEvidence

pytestmark = [needs_a_host, pytest.mark.full]

TO, BACK, BESIDE = ("a-data", "c-data"), ("c-data", "a-data"), ("b-data", "c-data")


class WiredLab(FakeLab):
    """c-data is the host's echo. a-data speaks to it from the peer, b-data from another address, which is not hit."""

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
            made.connect((target, 9300))
        except OSError:
            made.close()
            raise
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made


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
        before = fault.before(lab)
        assert before.proven, seen(before)
        calm = fault.in_effect(lab)
        assert not calm.proven and not any(probe.ok for probe in calm.probes if not probe.control), seen(calm)
        host.begun("network.loss", peers=[PEER], share=share, **given)
        began = time.monotonic()
        shown = fault.in_effect(lab)
        took = time.monotonic() - began
        assert shown.proven, seen(shown)
        assert took < 5.0
        print(f"{share:.0%} {given['direction']}: {took:.1f} s; {seen(shown)}")
        assert not fault.gone(lab).proven
        host.undone()
        gone = fault.gone(lab)
        assert gone.proven, seen(gone)
    finally:
        fault.close()


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
        assert all(probe.ok for probe in looks[0].probes if probe.control)
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
