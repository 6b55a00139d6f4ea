"""Hosts of the staging box: reached by ssh from an office, with the program for faults as owners install it."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from box import machine, plan
from boxkit import Boxed, Program

from chaos.base.netsock import Endpoint
from chaos.opensearch.views import administer, await_elected, await_green
from chaos.targets.labs import network
from chaos.targets.labs.local import LocalLab
from chaos.targets.labs.processes import wait_until

pytestmark = pytest.mark.full
RUN = {"run": "r1", "token": 1}
THROUGH = """
import os, ssl, subprocess, sys
config, jump, to, name = sys.argv[1:]
ssh = subprocess.Popen(["ssh", "-F", config, "-W", to, jump], stdin=-1, stdout=-1)
taken, given = ssl.MemoryBIO(), ssl.MemoryBIO()
context = ssl.create_default_context(cafile="topologies/existing/ca.pem")
tls = context.wrap_bio(taken, given, server_hostname=name)
def until(step):
    while True:
        try:
            return step()
        except ssl.SSLWantReadError:
            ssh.stdin.write(given.read())
            ssh.stdin.flush()
            if not taken.write(os.read(ssh.stdout.fileno(), 65536)):
                taken.write_eof()
until(tls.do_handshake)
tls.write(b"GET / HTTP/1.1\\r\\nHost: staging\\r\\n\\r\\n")
print(until(lambda: tls.read(100)).decode())
ssh.kill()
"""
"""An office asks a node over TLS, as a zone's clients do: by a host of theirs, and by the node's own name."""


@pytest.fixture(autouse=True)
def _no_fault_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "boxed" in request.fixturenames:
        boxed: Boxed = request.getfixturevalue("boxed")
        with boxed.owned() as lab:
            assert [each for each in nodes(lab) if not boxed.asks(each, "sweep")["ok"]] == []
            assert await_green(lab, 120)[0]


def nodes(lab: LocalLab) -> list[str]:
    return [node.name for node in lab.topology.nodes]


def two(lab: LocalLab) -> tuple[str, str]:
    """The elected manager, and a data node of another zone."""
    manager = await_elected(lab)
    return manager, next(node.name for node in lab.topology.data_nodes if node.zone != lab.node(manager).zone)


def pid_by_rest(lab: LocalLab, node: str) -> int:
    status, answer = administer(lab, "GET", f"/_nodes/{node}/process")
    assert status == 200, answer
    return next(each["process"]["id"] for each in answer["nodes"].values())


def members(lab: LocalLab, manager: str) -> set[str]:
    """The nodes of the cluster, as its manager says."""
    status, answer = administer(lab, "GET", "/_nodes/_all/process")
    return {each["name"] for each in answer["nodes"].values()} if status == 200 else set()


def begun(boxed: Boxed, node: str, intent: str, id: str, ttl: float, **given: Any) -> dict[str, Any]:
    answer = boxed.asks(node, "begin", **RUN, id=id, ttl=ttl, node=node, intent=intent, **given)
    assert answer["ok"] and answer["dead_man"]["alive"] and all(step["there"] for step in answer["steps"]), answer
    return answer


def test_facts_name_each_node_s_process_as_the_cluster_itself_does(boxed: Boxed, before: Path):
    with boxed.owned() as lab:
        jumps = {host.zone: host.bridge_address for host in lab.wiring.clients}
        for name in nodes(lab):
            facts = boxed.asks(name, "facts")
            assert facts["ok"] and list(facts["nodes"]) == [name]
            process = facts["nodes"][name]["process"]
            assert process["pid"] == pid_by_rest(lab, name) and {9200, 9300} <= set(process["listens"])
            assert facts["came_by"] == [[jumps[lab.node(name).zone], machine.SSH]]
            assert facts["active"] == [] and facts["strays"] == [] and facts["dead_man"] == "process"


def test_what_is_written_on_one_host_is_on_no_other(boxed: Boxed, before: Path):
    with boxed.owned() as lab:
        one, other = nodes(lab)[:2]
    places = ["/run/was-here", "/etc/was-here", "/usr/sbin/was-here", f"{machine.STATE}/was-here", "/var/log/was-here"]
    assert (boxed.on_host(one, "hostname"), boxed.on_host(other, "hostname")) == (f"{one}\n", f"{other}\n")
    boxed.on_host(one, "touch", *places)
    try:
        assert boxed.on_host(one, "ls", *places).split() == sorted(places)
        code, output = boxed.does("host", other, "--", "ls", *places)
        assert code == 2 and output.count("No such file") == len(places), output
        assert not [each for each in places if Path(each).exists()]
    finally:
        boxed.on_host(one, "rm", "-f", *places)


def test_an_office_s_key_opens_what_it_should_and_nothing_else(boxed: Boxed, before: Path):
    with boxed.owned() as lab:
        node = lab.topology.data_nodes[0].name
        client = lab.wiring.clients[0]
        far = lab.wiring[lab.topology.data_nodes[1].name]
    for office in plan.OFFICES:
        assert boxed.ssh(node, "id", "-un", office=office).end(60) == (0, "chaos\n")
    keys = [(boxed.box.home(each) / "topologies" / "existing" / plan.SSH_KEY).read_text() for each in plan.OFFICES]
    assert len(set(keys)) == len(plan.OFFICES)
    for user in ("root", machine.NODE_USER):
        code, output = boxed.ssh(node, "id", options=["-l", user]).end(60)
        assert code == 255 and "Permission denied (publickey)" in output
    code, output = boxed.ssh(node, "sudo", "-n", "id").end(60)
    assert code == 1 and "a password is required" in output
    code, output = boxed.ssh(node, "sudo", "-n", machine.PROGRAM, "facts", "--root", "/tmp").end(60)
    assert code == 1 and "a password is required" in output
    code, output = boxed.ssh(client.name, "ls", machine.PROGRAM).end(60)
    assert code == 2 and "No such file" in output
    code, output = boxed.inside(
        "python", "-c", THROUGH, boxed.target.with_name(plan.SSH_CONFIG), client.name, f"{far.bridge_address}:19200",
        far.loopback,
    ).end(60)  # fmt: skip
    assert code == 0 and output.split()[1] == "401", output


def test_a_host_with_another_key_is_refused(boxed: Boxed, before: Path):
    with boxed.owned() as lab:
        node = lab.topology.data_nodes[0].name
    known = boxed.box.home(1) / "topologies" / "existing" / plan.KNOWN_HOSTS
    text = known.read_text()
    try:
        known.write_text(text.replace(f"{node} ", f"not-{node} ").replace("\n", "\n", 1))
        code, output = boxed.ssh(node, "true").end(60)
        assert code == 255 and "Host key verification failed" in output  # one that is not known
        lines = [
            f"{node} {machine.Key.made().public}" if line.startswith(f"{node} ") else line for line in text.splitlines()
        ]
        known.write_text("\n".join(lines) + "\n")
        code, output = boxed.ssh(node, "true").end(60)
        assert code == 255 and "REMOTE HOST IDENTIFICATION HAS CHANGED" in output
    finally:
        known.write_text(text)
    assert boxed.ssh(node, "true").end(60) == (0, "")


def open_files(pid: int) -> list[str]:
    """How many it may have, in /proc's words."""
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    return [line for line in lines if line.startswith("Max open files")]


def test_a_killed_node_is_started_by_the_dead_man_alone(boxed: Boxed, before: Path):
    """With the office cut off, so that nobody else could have done it."""
    with boxed.owned() as lab:
        manager, node = two(lab)
        old = pid_by_rest(lab, node)
        how, command = lab.launch(node), psutil.Process(old).cmdline()
        said = begun(boxed, node, "node.kill", "killed", ttl=40)
        assert boxed.does("cut") == (0, "")
        try:
            assert said["steps"][0]["pid"] is None and lab.process_state(node) is None
            assert wait_until(lambda: node not in members(lab, manager), 30, every=0.2)
            assert wait_until(lambda: node in members(lab, manager), 120, every=0.5)
        finally:
            assert boxed.does("mend") == (0, "")
        assert await_green(lab, 120)[0]
        new = pid_by_rest(lab, node)
    assert new != old and boxed.asks(node, "facts")["nodes"][node]["process"]["pid"] == new
    assert boxed.asks(node, "state", run="r1", id="killed")["ended"]["why"] == "its time was over"
    with boxed.owned() as lab:
        identity = lab.identity(node)
        assert identity is not None and identity.pid == new and lab.process_state(node) in ("S", "R")
        process = psutil.Process(new)
        assert process.cmdline() == command == how.command and process.environ() == how.env
        assert process.cwd() == str(how.cwd) and new in network.processes_in([lab.wiring[node].namespace_name])
        for group in lab.admit(node):
            assert (group / "cgroup.procs").read_text().split() == [str(new)]
        other = next(each for each in nodes(lab) if each != node)
        assert open_files(new) == open_files(pid_by_rest(lab, other))
    assert boxed.box.is_up()


def test_without_a_dead_man_s_time_a_killed_node_stays_away_until_somebody_undoes_it(boxed: Boxed, before: Path):
    """The negative control: it is not the box, or the lab, that starts it again."""
    with boxed.owned() as lab:
        manager, node = two(lab)
        begun(boxed, node, "node.kill", "held", ttl=600)
        assert wait_until(lambda: node not in members(lab, manager), 30, every=0.2)
        time.sleep(15)
        assert lab.process_state(node) is None and node not in members(lab, manager)
        left_over = boxed.asks(node, "state", run="r1", id="held")["active"]
        assert [each["steps"][0]["there"] for each in left_over] == [True]
        answer = boxed.asks(node, "undo", run="r1", id="held", office=2)
        assert answer["ok"] and answer["steps"][0]["gone"] == "it was started", answer
        assert wait_until(lambda: node in members(lab, manager), 120, every=0.5)


def counting(boxed: Boxed, node: str) -> Program:
    """A session that says a number every 0.2 s, into a file of the office."""
    config = boxed.target.with_name(plan.SSH_CONFIG)
    counts = "n=0; while sleep 0.2; do n=$((n+1)); echo $n; done"
    return boxed.inside("sh", "-c", f"exec ssh -F {config} {node} {shlex.quote(counts)} >counted")


def counted(boxed: Boxed) -> int:
    lines = (boxed.box.home(1) / "counted").read_text().split()
    return int(lines[-1]) if lines else 0


def test_a_drop_between_two_hosts_is_seen_by_nodes_and_ssh_goes_on(boxed: Boxed, before: Path):
    with boxed.owned() as lab:
        manager, node = two(lab)
        other = next(each for each in nodes(lab) if each not in (manager, node))
        here = lab.wiring[node].namespace
        to = {name: (lab.wiring[name].bridge_address, 19300) for name in (manager, other)}
        session = counting(boxed, node)
        try:
            assert wait_until(lambda: (boxed.box.home(1) / "counted").exists() and counted(boxed) > 0, 30)
            assert all(reaches(Endpoint(*each, here)) for each in to.values())
            begun(boxed, node, "network.drop", "dropped", ttl=300, peers=[to[manager][0]])
            assert not reaches(Endpoint(*to[manager], here)) and reaches(Endpoint(*to[other], here))
            assert wait_until(lambda: node not in members(lab, manager), 120, every=0.5)
            seen = counted(boxed)
            assert wait_until(lambda: counted(boxed) > seen + 10, 20) and session.process.poll() is None
            hit = boxed.asks(node, "state", run="r1", id="dropped")["active"][0]["steps"][0]
            assert hit["there"] and hit["hit"] > 0, hit
            assert boxed.asks(node, "undo", run="r1", id="dropped")["ok"]
            assert reaches(Endpoint(*to[manager], here))
            assert wait_until(lambda: node in members(lab, manager), 120, every=0.5)
        finally:
            session.process.kill()
            session.end()


def test_all_packets_of_the_host_that_ssh_comes_from_are_dropped_and_ssh_goes_on(boxed: Boxed, before: Path):
    """What is spared is needed here: from the same address no other packet arrives."""
    with boxed.owned() as lab:
        node = lab.topology.data_nodes[0]
        jump = next(host for host in lab.wiring.clients if host.zone == node.zone)
        to = Endpoint(lab.wiring[node.name].bridge_address, 19200, jump.namespace)
        session = counting(boxed, node.name)
        try:
            assert wait_until(lambda: (boxed.box.home(1) / "counted").exists() and counted(boxed) > 0, 30)
            assert reaches(to)
            begun(boxed, node.name, "network.drop", "all", ttl=60, peers=[jump.bridge_address], everything=True)
            assert not reaches(to)
            seen = counted(boxed)
            assert wait_until(lambda: counted(boxed) > seen + 10, 20) and session.process.poll() is None
            step = boxed.asks(node.name, "state", run="r1", id="all")["active"][0]["steps"][0]  # a login meanwhile
            assert step["hit"] > 0 and step["spared"] > 20, step
            assert boxed.asks(node.name, "undo", run="r1", id="all")["ok"] and reaches(to)
        finally:
            session.process.kill()
            session.end()


def reaches(to: Endpoint) -> bool:
    try:
        to.connect(2.0).close()
    except OSError:
        return False
    return True


def test_a_sweep_leaves_nothing(boxed: Boxed, before: Path):
    with boxed.owned() as lab:
        _, node = two(lab)
        peer = lab.wiring.clients[0].bridge_address
        groups = {path.parent.parent.parent.parent.name: path for path in lab.admit(node)}
        quota = groups["cpu"] / "cpu.cfs_quota_us" if "cpu" in groups else None
        old = quota.read_text() if quota is not None and quota.exists() else None
        begun(boxed, node, "network.drop", "a", ttl=600, peers=[peer])
        begun(boxed, node, "node.pause", "b", ttl=600)
        if old is not None:
            begun(boxed, node, "cpu.limit", "c", ttl=600, processors=1)
            assert quota is not None and quota.read_text() != old
        assert lab.process_state(node) == "T" and "oschaos_r1_a" in boxed.on_host(node, "nft", "list", "tables")
        swept = boxed.asks(node, "sweep", office=2)
        assert swept["ok"] and len(swept["undone"]) == (2 if old is None else 3), swept
        assert lab.process_state(node) in ("S", "R") and boxed.on_host(node, "nft", "list", "tables") == ""
        assert old is None or (quota is not None and quota.read_text() == old)
        files = boxed.on_host(node, "ls", "/run/oschaos-host").split()
        assert [each for each in files if not each.endswith(".ended")] == []
        here = network.processes_in([lab.wiring[node].namespace_name])
        assert not [pid for pid in here if "oschaos-host" in " ".join(psutil.Process(pid).cmdline())]
        assert boxed.asks(node, "facts")["active"] == []


def test_a_host_that_is_not_there_is_said(boxed: Boxed, before: Path):
    code, output = boxed.does("host", "es-9", "--", "true")
    assert code == 2 and "there is no host es-9" in output and "Traceback" not in output
    with boxed.owned() as lab:
        code, output = boxed.does("host", nodes(lab)[0], "--", "no-such-program")
    assert code == 2 and "there is no program 'no-such-program'" in output
