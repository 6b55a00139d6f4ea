"""The local lab: what it builds, that two can be up, that a failing node speaks, that nothing stays."""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest
from clusterkit import DATA, cli, kept_lab_id, nothing_left

from chaos.base.errors import FaultError, InvalidInput, LabError
from chaos.definitions import load_topology
from chaos.observe.proof import problems
from chaos.opensearch.views import newest, views
from chaos.run.options import new_lab_id
from chaos.targets.labs import network, provisioning, sweep
from chaos.targets.labs.local import LocalLab
from chaos.targets.wiring import Proxy


def test_the_cluster_is_as_the_topology_says(playground):
    seen = newest(views(playground))
    assert seen is not None and seen.status == "green"
    assert seen.nodes == {"a-cm", "b-cm", "c-cm", "a-data", "b-data", "c-data"}
    client = playground.client("a-data")
    _, attributes = client.request("GET", "/_cat/nodeattrs?format=json&h=node,attr,value")
    zones = {row["node"]: row["value"] for row in attributes if row["attr"] == "zone"}
    assert zones == {node.name: node.zone for node in playground.topology.nodes}
    _, weights = client.request("GET", "/_cluster/routing/awareness/zone/weights")
    assert weights["weights"] == {"a": "1.0", "b": "1.0", "c": "0.0"}


def test_nodes_run_without_privileges_in_their_own_namespaces(playground):
    inside = network.processes_in([host.namespace_name for host in playground.wiring.hosts])
    assert len(inside) == 2 * (6 + 9)  # nodes and proxies, each with the shell that waits for it
    for pid in inside:
        uids = re.search(r"^Uid:(.*)$", Path(f"/proc/{pid}/status").read_text(), re.M)[1].split()
        assert "0" not in uids


@pytest.mark.full  # every other test that has a lab of its own beside the shared one
def test_two_labs_side_by_side_and_a_loopback_port(playground, spotless):
    name = kept_lab_id()
    code, output = cli("lab", "up", DATA / "tiny.yaml", "--name", name)
    assert code == 0, output
    try:
        url = output.split("http://")[1].split()[0]
        with urllib.request.urlopen(f"http://{url}/_cluster/health", timeout=10) as answer:
            health = json.load(answer)
        assert (health["cluster_name"], health["number_of_nodes"]) == (f"oschaos-{name}", 3)
        assert newest(views(playground)).nodes >= {"a-data", "b-data"}

        code, output = cli("lab", "up", DATA / "tiny.yaml", "--name", name)
        assert code == 2 and f"lab named '{name}'" in output
        code, output = cli("lab", "exec", name, "client-a", "--", "cat", "/proc/net/tcp")
        assert code == 0 and "local_address" in output
        code, output = cli("lab", "exec", name, "nobody", "--", "true")
        assert code == 2 and "has no host 'nobody'" in output
        code, output = cli("lab", "status", name)
        assert code == 0 and "green" in output and output.count("runs (") == 3
    finally:
        code, output = cli("lab", "down", name)
    assert code == 0 and "logs" in output
    assert (sweep.logs() / name / "a-all.log").exists()


def test_a_port_that_is_taken(spotless):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, output = cli("lab", "up", DATA / "tiny.yaml", "--port", str(port))
    assert code == 2 and f"port {port}" in output and "Traceback" not in output


def test_a_node_that_dies_at_start_shows_its_own_last_error(tmp_path, spotless):
    text = (DATA / "tiny.yaml").read_text().replace("  node:\n", "  node:\n    no.such.setting: 7\n")
    (tmp_path / "broken.yaml").write_text(text)
    topology = load_topology(tmp_path / "broken.yaml")
    lab = LocalLab.create(topology, provisioning.parts(topology), id=new_lab_id())
    try:
        with pytest.raises(LabError, match=r"died at start: .*unknown setting \[no\.such\.setting\]"):
            lab.up()
    finally:
        assert lab.down() == []


def test_names_of_labs_are_checked():
    topology = load_topology(DATA / "tiny.yaml")
    with pytest.raises(InvalidInput, match="cannot name a lab"):
        LocalLab.create(topology, None, id="../evil")  # type: ignore[arg-type]


def test_down_is_the_end_of_everything(spotless):
    topology = load_topology(DATA / "tiny.yaml")
    lab = LocalLab.create(topology, provisioning.parts(topology), id=new_lab_id())
    network.build(lab.wiring)
    lab._start_toxiproxy("a-all")
    assert network.processes_in([lab.wiring["a-all"].namespace_name])
    assert lab.down() == []
    assert lab.down() == []  # again, with nothing there
    assert not network.namespaces(f"oschaos-{lab.id}-")
    assert not lab.folder.exists()
    assert nothing_left() == []


def test_namespaces_come_and_go_without_piling_up_mounts():
    """Binding the namespaces' folder onto itself twice doubles every mount below it, until the kernel has enough."""

    def mounts() -> int:
        with open("/proc/self/mountinfo") as table:
            return sum("/run/netns" in line for line in table)

    topology = load_topology(DATA / "tiny.yaml")
    counts = []
    for _ in range(3):
        lab = LocalLab.create(topology, provisioning.parts(topology), id=new_lab_id())
        network.build(lab.wiring)
        assert lab.down() == []
        counts.append(mounts())
    assert counts[0] == counts[1] == counts[2]


def lock_a_proxy(lab: LocalLab, host: str) -> None:
    """Toxiproxy issue 558: toxics are removed while the other end of their connections dies, until that hangs."""
    server, namespace = lab.toxiproxy(host), lab.wiring[host].namespace
    listener, port = "127.0.0.1:21999", 22000
    end = time.monotonic() + 60
    while server.serves():
        assert time.monotonic() < end, "it does not hang"
        port += 1
        with namespace.entered(), socket.socket() as upstream:
            upstream.bind(("127.0.0.1", port))
            upstream.listen(16)
            server.populate([Proxy("doomed", listener, f"127.0.0.1:{port}")])
            clients = [socket.create_connection(("127.0.0.1", 21999), 5) for _ in range(13)]
            served = [upstream.accept()[0] for _ in clients]
        server.add_toxic("doomed", "slow", "latency", "upstream", {"latency": 200})
        over = threading.Event()

        def talk(clients=clients, over=over) -> None:
            with suppress(OSError):
                while not over.wait(0.005):
                    for client in clients:
                        client.sendall(b"x" * 300)

        def die(served=served) -> None:
            for each in served:
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                each.close()

        talking = threading.Thread(target=talk)
        talking.start()
        time.sleep(0.5)  # some of what was said is under way now
        dying = threading.Timer(0.002, die)
        dying.start()
        with suppress(FaultError):
            server.remove_toxic("doomed", "slow")
        dying.join()
        over.set()
        talking.join()
        for each in clients:
            each.close()


def test_a_toxiproxy_of_which_one_proxy_is_locked_is_started_anew(tiny):
    lock_a_proxy(tiny, "client-a")
    assert tiny.toxiproxy("client-a").version(), "it says its version all the same"
    assert tiny.mend() == ["Toxiproxy of client-a"]
    assert problems(tiny) == [] and tiny.mend() == []
