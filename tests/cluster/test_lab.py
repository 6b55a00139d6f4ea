"""The local lab: what it builds, that two can be up, that a failing node speaks, that nothing stays."""

from __future__ import annotations

import json
import re
import socket
import urllib.request
from pathlib import Path

import pytest
from clusterkit import DATA, cli, kept_lab_id, nothing_left

from chaos.base.errors import InvalidInput, LabError
from chaos.definitions import load_topology
from chaos.opensearch.views import newest, views
from chaos.run.options import new_lab_id
from chaos.target.labs import network, provisioning, sweep
from chaos.target.labs.local import LocalLab


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
