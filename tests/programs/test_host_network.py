"""oschaos-host's network faults, for real, between two namespaces: what is hit, and what beside it is not."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
from hostkit import CONTROL, NEAR, NEAR6, PEER, PEER6, Host, Ssh, needs_a_host

from chaos.base.netsock import Namespace

pytestmark = [needs_a_host, pytest.mark.full]


@pytest.fixture(scope="module")
def _host() -> Iterator[Host]:
    host = Host()
    yield host
    host.close()


@pytest.fixture
def host(_host: Host) -> Iterator[Host]:
    """One host for all tests here: each leaves it without faults, and begins with ids that nobody had."""
    yield _host
    left = _host.call("sweep")
    for ended in (_host.root / "run" / "oschaos-host").glob("*.ended"):
        ended.unlink()
    assert left == {"ok": True, "undone": [], "strays": []}
    assert _host.sh("nft", "list", "tables") == ""
    assert _host.reaches(_host.near, PEER) and _host.reaches(_host.peer, NEAR)


def test_drop_hits_both_directions_and_the_ports_of_the_node_alone(host: Host) -> None:
    kept = host.near.connect((PEER, 9300), 2)
    kept.settimeout(0.5)
    host.begun("network.drop", peers=[PEER])
    assert host.ends(host.near, PEER) == host.ends(host.peer, NEAR) == "timeout"
    assert host.ends(host.near, PEER, 7000) == "answered"  # no port of the node
    assert host.ends(host.near, CONTROL) == host.ends(host.peer, NEAR, own=CONTROL) == "answered"  # another peer
    kept.sendall(b"x")
    with pytest.raises(TimeoutError):
        kept.recv(1)
    assert host.state()["active"][0]["steps"][0]["hit"] >= 3
    host.undone()
    assert host.reaches(host.near, PEER) and host.reaches(host.peer, NEAR)
    kept.settimeout(10)
    assert kept.recv(1) == b"x"  # what waited came through: drop ends no connection
    kept.close()


def test_drop_in_version_6_too(host: Host) -> None:
    host.begun("network.drop", peers=[PEER6, PEER])
    assert host.ends(host.near, PEER6) == host.ends(host.peer, NEAR6) == host.ends(host.near, PEER) == "timeout"
    host.undone()
    assert host.reaches(host.near, PEER6) and host.reaches(host.peer, NEAR6)


def test_only_what_comes_to_our_ports(host: Host) -> None:
    host.begun("network.drop", peers=[PEER], local_ports=[9300])
    assert host.ends(host.peer, NEAR) == "timeout"
    assert host.ends(host.near, PEER) == host.ends(host.peer, NEAR, 9200) == "answered"
    host.undone()


def test_only_what_goes_to_their_ports_and_one_way(host: Host) -> None:
    host.begun("network.drop", peers=[PEER], remote_ports=[9300], direction="out")
    assert host.ends(host.near, PEER) == "timeout"
    assert host.ends(host.peer, NEAR) == host.ends(host.near, PEER, 9200) == "answered"
    host.undone()


def test_refuse_refuses_new_connections_and_leaves_others(host: Host) -> None:
    kept = host.near.connect((PEER, 9300), 2)
    kept.settimeout(2)
    host.begun("network.refuse", peers=[PEER])
    assert host.ends(host.near, PEER) == host.ends(host.peer, NEAR) == "refused"
    assert host.ends(host.near, CONTROL) == "answered"
    kept.sendall(b"x")
    assert kept.recv(1) == b"x"
    kept.close()
    host.undone()


@pytest.mark.parametrize("outgoing", [True, False])
def test_reset_ends_connections_that_are_there(host: Host, outgoing: bool) -> None:
    source, target = (host.near, PEER) if outgoing else (host.peer, NEAR)
    with source.connect((target, 9300), 2) as kept, source.connect((target, 7000 if outgoing else 9200), 2) as control:
        kept.settimeout(2)
        control.settimeout(2)
        host.begun("network.reset", peers=[PEER], local_ports=[9300], remote_ports=[9300])
        kept.sendall(b"x")
        with pytest.raises(ConnectionResetError):
            kept.recv(1)
        control.sendall(b"x")
        assert control.recv(1) == b"x"
    assert host.ends(source, target) == "reset"
    assert host.ends(host.near, CONTROL) == "answered"
    host.undone()


def _arrive(source: Namespace, own: str, number: int) -> int:
    """Of so many datagrams to the node and back, how many came back."""
    with source.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        asking.bind((own, 0))
        asking.settimeout(0.5)
        came = 0
        for k in range(number):
            asking.sendto(str(k).encode(), (NEAR, 9200))
            if k % 20 == 19:
                time.sleep(0.002)
        while True:
            try:
                asking.recv(2048)
                came += 1
            except TimeoutError:
                return came


def test_loss_takes_its_share(host: Host) -> None:
    ssh = Ssh(host)
    asked = {"run": "r1", "id": "f1", "token": 1, "ttl": 60, "node": "es-1", "peers": [PEER], "everything": True}
    begun = ssh("begin", intent="network.loss", share=0.2, direction="in", **asked)
    assert begun["ok"], begun
    came, control = _arrive(host.peer, PEER, 3000), _arrive(host.peer, CONTROL, 3000)
    # 3000 draws at 0.2: mean 2400, standard deviation 22; six of them
    assert 2268 <= came <= 2532 and control == 3000, (came, control)
    (step,) = host.state()["active"][0]["steps"]
    assert step["hit"] >= 3000 - came and 3000 <= step["met"] < 3100 and step["met"] - step["hit"] >= came
    host.undone()
    assert _arrive(host.peer, PEER, 1000) == 1000
    ssh.close()


def test_our_own_ssh_is_spared_and_a_second_one_gets_in(host: Host) -> None:
    ssh = Ssh(host)
    asked = {"run": "r1", "id": "f1", "token": 1, "ttl": 60, "node": "es-1", "peers": [PEER, "10.77.1.4"]}
    assert ssh("facts")["came_by"] == [[PEER, 2222]]
    begun = ssh("begin", intent="network.drop", everything=True, **asked)
    assert begun["ok"], begun
    assert host.ends(host.near, PEER, 7000) == "timeout" == host.ends(host.peer, NEAR)
    found = ssh("state")["active"][0]["steps"][0]
    assert found["spared"] > 0
    # a new connection to the port of ssh from there is let in: the listener is busy with the first, and takes it
    host.peer.connect((NEAR, 2222), 2).close()
    assert ssh("undo", run="r1", id="f1")["ok"]
    assert host.reaches(host.near, PEER, 7000)
    ssh.close()


def test_without_a_way_in_that_is_seen_everything_is_refused(host: Host) -> None:
    answer = host.begin("network.drop", peers=[PEER], everything=True)
    assert not answer["ok"] and "cut our own way in" in answer["why"]
    assert host.sh("nft", "list", "tables") == ""


@pytest.mark.parametrize(
    "given, why",
    [
        ({"peers": ["192.0.2.1"]}, "allows no fault towards 192.0.2.1"),
        ({"peers": [PEER], "local_ports": [22]}, "only the node's own ports"),
        ({"peers": [PEER], "local_ports": [9300], "everything": True}, "everything takes no ports"),
    ],
)
def test_what_the_configuration_does_not_name_is_not_hit(host: Host, given: dict[str, object], why: str) -> None:
    answer = host.begin("network.drop", **given)
    assert not answer["ok"] and why in answer["why"], answer


def _seconds(source: Namespace, own: str, target: str, size: int) -> float:
    """How long it takes until so many bytes are there, which the other side swallows."""
    with source.socket() as connection:
        connection.bind((own, 0))
        connection.settimeout(30)
        connection.connect((target, 9300))
        began = time.monotonic()
        connection.sendall(b"S" * size)
        connection.shutdown(socket.SHUT_WR)  # the other side ends it when it has everything
        assert connection.recv(1 << 16) == b""
        return time.monotonic() - began


def test_bandwidth_is_shared_by_what_goes_to_the_peer(host: Host) -> None:
    size, rate = 2_000_000, 500_000
    free = _seconds(host.near, NEAR, PEER, size)
    host.begun("network.bandwidth", peers=[PEER], rate=rate)
    taken: list[float] = []
    measuring = threading.Thread(target=lambda: taken.append(_seconds(host.near, NEAR, PEER, size)))
    measuring.start()
    control = _seconds(host.near, NEAR, CONTROL, size)  # meanwhile, over the same device
    measuring.join()
    assert free < 2 and control < 2, (free, control)
    assert 3 <= taken[0] <= 8, taken  # 4 s, less what buffers take at once, and what a busy machine adds
    host.undone()
    assert _seconds(host.near, NEAR, PEER, size) < 2
    assert '"htb"' not in host.sh("tc", "-j", "qdisc", "show", "dev", "near")


def test_queueing_of_somebody_else_is_left(host: Host) -> None:
    host.sh("tc", "qdisc", "add", "dev", "near", "root", "handle", "5:", "tbf", "rate", "1gbit", "burst", "100k",
            "latency", "50ms")  # fmt: skip
    answer = host.begin("network.bandwidth", peers=[PEER], rate=1_000_000)
    assert not answer["ok"] and "queueing of somebody else (tbf 5:)" in answer["why"]
    host.sh("tc", "qdisc", "del", "dev", "near", "root")
    host.begun("network.bandwidth", "f2", peers=[PEER], rate=1_000_000)
    host.sh("tc", "qdisc", "replace", "dev", "near", "root", "handle", "5:", "tbf", "rate", "1gbit", "burst", "100k",
            "latency", "50ms")  # fmt: skip
    assert not host.state("f2")["active"][0]["steps"][0]["there"]
    answer = host.undo("f2")
    assert answer["ok"] and "somebody else changed the queueing of near to tbf 5:" in answer["steps"][0]["left"]
    assert "tbf" in host.sh("tc", "qdisc", "show", "dev", "near")
    host.sh("tc", "qdisc", "del", "dev", "near", "root")


def test_latency_where_the_kernel_has_netem_and_said_plainly_else(host: Host) -> None:
    lacking = host.call("facts")["kernel_lacks"]["netem"]
    if lacking:
        answer = host.begin("network.latency", peers=[PEER], delay_ms=100)
        assert not answer["ok"] and "the kernel has no netem" in answer["why"]
        return
    host.begun("network.latency", peers=[PEER], delay_ms=100)
    with host.near.connect((PEER, 9300), 5) as kept, host.near.connect((CONTROL, 9300), 5) as control:
        took = []
        for each in (kept, control):
            began = time.monotonic()
            each.sendall(b"x")
            each.recv(1)
            took.append(time.monotonic() - began)
    assert took[0] >= 0.1 > took[1]
    host.undone()


def test_a_table_without_a_record_is_swept(host: Host) -> None:
    host.begun("network.drop", peers=[PEER])
    folder = host.root / "run" / "oschaos-host"
    (folder / "r1_f1.json").unlink()  # as if somebody had emptied /run
    assert host.call("facts")["strays"] == ["table oschaos_r1_f1"]
    assert host.call("sweep") == {"ok": True, "undone": [], "strays": ["table oschaos_r1_f1"]}
    assert host.reaches(host.near, PEER)
    for file in folder.iterdir():
        file.unlink()


def test_a_table_of_somebody_else_with_the_name_of_ours_stays(host: Host) -> None:
    """nft would have added our rules to it, and the undo would have deleted both."""
    name = "oschaos_r1_f1"
    host.sh("nft", f'table inet {name} {{\nchain theirs {{\ncounter comment "theirs"\n}}\n}}')
    try:
        before = host.sh("nft", "list", "tables")
        answer = host.begin("network.drop", peers=[PEER])
        assert answer["ok"] is False and f"there is a table {name} already" in answer["why"], answer
        host.undo("f1")
        assert host.call("sweep") == {"ok": True, "undone": [], "strays": []}
        assert host.sh("nft", "list", "tables") == before and host.reaches(host.near, PEER)
    finally:
        host.sh("nft", "delete", "table", "inet", name)
