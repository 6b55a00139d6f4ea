"""The program for faults beside a pod: it finds the node by the pod's uid, changes that pod's network alone, and its
dead-man outlives the pod that the program runs in."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from hostkit import PROGRAM, PYTHON, eventually, needs_a_host

from chaos.hosts.oschaos_host import MAIN_CLASS, PREFIX

pytestmark = needs_a_host
NODE = """
import socket, sys
server = socket.create_server(("127.0.0.1", 9200))
subject = server.accept()
"""
NAMES = """
import socket
asked = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asked.bind(("127.0.0.1", 53))
print("up", flush=True)
while True:
    question, whose = asked.recvfrom(4096)
    asked.sendto(question[:2] + bytes([0x81, 0x83]) + question[4:], whose)
"""
"""A DNS server that knows no name, and says so."""
FOLDERS = (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup"))
GROUPS = next((each for each in FOLDERS if (each / "cgroup.procs").exists()), FOLDERS[-1])


@dataclass
class Pod:
    """Stands for a pod: a control group that is named as a kubelet names it, with a node in a network of its own.
    ``beside``: the group of a helper pod."""

    group: Path
    beside: Path
    root: Path
    node: subprocess.Popen[bytes]
    volume: Path
    """Where the machine has the pod's volume, which is a file system of its own."""
    there: tuple[str, ...] = ()
    """How a command is run on its machine, where that is not this one."""

    def call(self, verb: str, **given: Any) -> dict[str, Any]:
        """The program, run in the helper pod's group."""
        command = [*self.there, PYTHON, "-IS", str(PROGRAM), verb, "--root", str(self.root)]
        done = subprocess.run(
            within(self.beside, command), input=json.dumps(given), capture_output=True, text=True, check=False
        )
        return dict(json.loads(done.stdout))

    def begin(self, intent: str, **given: Any) -> dict[str, Any]:
        ask = {"run": "r1", "id": "f1", "token": 1, "ttl": 60, "node": "es-1", "intent": intent}
        return self.call("begin", **{**ask, **given})

    @property
    def state(self) -> str:
        return psutil.Process(self.node.pid).status()


def within(group: Path, command: list[str]) -> list[str]:
    """A command that is run in a control group."""
    return ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(group), *command]


def processes(group: Path) -> list[int]:
    return [int(each) for each in (group / "cgroup.procs").read_text().split()]


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Pod]:
    uid = str(uuid.uuid4())
    groups = [GROUPS / f"pod-test-{uid[:8]}", GROUPS / f"pod-test-{uid[:8]}" / f"pod{uid}"]
    groups.append(groups[0] / "helper")
    for each in groups:
        each.mkdir()
    for part in ("etc", "run", "var/lib"):
        (tmp_path / part).mkdir(parents=True)
    for part in (tmp_path, *tmp_path.rglob("*")):
        part.chmod(0o755)
    intents = ["node.pause", "network.drop", "node.isolation", "node.dns_outage", "node.dns_slowness", "disk.full",
               "node.out_of_memory"]  # fmt: skip
    nodes = {"es-1": {"pod": uid, "data": f"{tmp_path}/data"}, "part": {"pod": uid, "data": "/etc/resolv.conf"}}
    config = {"nodes": nodes, "intents": intents, "longest": 600, "peers": ["10.9.9.0/24"]}
    (tmp_path / "etc" / "oschaos-host.json").write_text(json.dumps(config))
    (tmp_path / "etc" / "oschaos-host.json").chmod(0o644)
    (tmp_path / "resolv.conf").write_text("search search.svc.cluster.local\nnameserver 127.0.0.1\n")
    volume = tmp_path / "pods" / uid / "volumes" / "data"
    for each in (volume, tmp_path / "data"):
        each.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", volume], check=True)
    up = f"mount --bind {tmp_path}/resolv.conf /etc/resolv.conf && mount --bind {volume} {tmp_path}/data"
    up += " && ip link set lo up"
    up += f" && exec {PYTHON} -c '{NODE}' {MAIN_CLASS}"
    node = subprocess.Popen(within(groups[1], ["unshare", "--net", "--mount", "sh", "-c", up]))
    made = Pod(groups[1], groups[2], tmp_path, node, volume)
    try:
        yield made
    finally:
        for pid in [pid for each in groups for pid in processes(each)]:
            os.kill(pid, signal.SIGKILL)
        node.wait()
        subprocess.run(["umount", volume], check=True)
        for each in reversed(groups):
            eventually(lambda each=each: removed(each))


def removed(group: Path) -> bool:
    try:
        group.rmdir()
    except OSError:
        return not group.exists()
    return True


def listens(pod: Pod) -> bool:
    found = pod.call("facts")["nodes"]["es-1"]["process"]
    return found is not None and found["listens"] == [9200]


def tables(pod: Pod, *inside: str) -> str:
    return subprocess.run([*inside, "nft", "list", "tables"], capture_output=True, text=True, check=True).stdout


def test_rules_are_in_the_pods_network_alone_and_hit_what_its_node_listens_on(pod: Pod) -> None:
    eventually(lambda: listens(pod))
    theirs, before = ("nsenter", "-t", str(pod.node.pid), "-n", "--"), tables(pod)
    begun = pod.begin("network.drop", peers=["10.9.9.9"])
    assert begun["ok"], begun
    assert "oschaos_r1_f1" in tables(pod, *theirs) and tables(pod) == before
    rules = subprocess.run([*theirs, "nft", "list", "ruleset"], capture_output=True, text=True, check=True).stdout
    assert "10.9.9.9" in rules and "dport 9200" in rules
    assert pod.call("undo", run="r1", id="f1")["ok"]
    assert "oschaos" not in tables(pod, *theirs)


def test_a_machine_is_cut_off_but_for_its_kubelet_and_comes_back(pod: Pod, tmp_path: Path) -> None:
    """The machine is a process and a network of its own, so that its first process is not this one's."""
    up = "ip link set lo up && ip link add card0 type veth peer name far0 && ip addr add 10.9.9.1/24 dev card0"
    up += " && ip link set far0 up && ip link set card0 up && ip route add default via 10.9.9.254"
    up += " && echo up && exec sleep 600"
    apart = ["unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--net", "sh", "-c", up]
    with subprocess.Popen(apart, stdout=subprocess.PIPE, text=True) as machine:
        try:
            assert machine.stdout is not None and machine.stdout.readline() == "up\n"
            (first,) = psutil.Process(machine.pid).children()
            theirs = ["nsenter", "-t", str(first.pid), "-p", "-m", "-n", "--"]
            run = f"ip link set lo up && exec {PYTHON} -c '{NODE}' {MAIN_CLASS}"
            subprocess.Popen([*theirs, *within(pod.group, ["unshare", "--net", "sh", "-c", run])])
            pod.node.kill()
            there = Pod(pod.group, pod.beside, pod.root, pod.node, pod.volume, tuple(theirs))
            eventually(lambda: listens(there))
            before = tables(pod)
            begun = there.begin("node.isolation", spare=[10250])
            assert begun["ok"], begun
            rules = subprocess.run(
                [*theirs, "nft", "list", "ruleset"], capture_output=True, text=True, check=True
            ).stdout
            assert rules.count('"card0"') == 6 and "dport 10250" in rules and "sport 10250" in rules
            assert "hook forward" in rules and tables(pod) == before, "nothing is in this machine's own network"
            sends = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('10.9.9.9', 9))"
            subprocess.run([*theirs, PYTHON, "-c", sends], check=False)
            (shown,) = there.call("state", run="r1", id="f1")["active"]
            assert shown["steps"][0]["there"] and shown["steps"][0]["hit"] > 0, shown
            assert there.call("undo", run="r1", id="f1")["ok"] and "oschaos" not in tables(there, *theirs)
        finally:
            machine.kill()


@pytest.fixture
def server(pod: Pod) -> Iterator[subprocess.Popen[str]]:
    """A DNS server in the pod's own network; the node is up."""
    eventually(lambda: listens(pod))
    inside = ["nsenter", "-t", str(pod.node.pid), "-n", "--"]
    with subprocess.Popen([*inside, PYTHON, "-c", NAMES], stdout=subprocess.PIPE, text=True) as made:
        assert made.stdout is not None and made.stdout.readline() == "up\n"
        try:
            yield made
        finally:
            made.kill()


def lookup(pod: Pod, *, within: float, times: int) -> float | None:
    told = pod.call("lookup", node="es-1", within=within, times=times)
    assert told["ok"] and told["asked_for"] == "search.svc.cluster.local", told
    seconds: float | None = told["answers"]["127.0.0.1"]
    return seconds


@pytest.mark.parametrize("how", ["drop", "refuse"])
def test_a_pod_gets_no_answer_of_dns_servers_until_it_is_undone(
    pod: Pod, server: subprocess.Popen[str], how: str
) -> None:
    assert lookup(pod, within=0.5, times=3) is not None
    before = tables(pod)
    begun = pod.begin("node.dns_outage", how=how)
    assert begun["ok"] and tables(pod) == before, begun
    assert lookup(pod, within=0.5, times=3) is None
    (shown,) = pod.call("state", run="r1", id="f1")["active"]
    assert shown["steps"][0]["there"] and shown["steps"][0]["hit"] >= 3, "each question met the rule"
    assert listens(pod), "nothing else is changed"
    assert pod.call("undo", run="r1", id="f1")["ok"] and lookup(pod, within=0.5, times=3) is not None
    server.kill()
    server.wait()
    assert lookup(pod, within=0.1, times=1) is None, "no server, no answer"


def relays(pod: Pod) -> psutil.Process:
    """The process that passes questions on."""
    (file,) = (pod.root / "run" / "oschaos-host").glob("*.relay")
    return psutil.Process(json.loads(file.read_text())["pid"])


def test_a_pod_gets_answers_of_dns_servers_late_until_it_is_undone(pod: Pod, server: subprocess.Popen[str]) -> None:
    def late(seconds: float | None) -> bool:
        return seconds is not None and 0.8 <= seconds < 3

    assert not late(lookup(pod, within=5, times=1))
    before = tables(pod)
    begun = pod.begin("node.dns_slowness", delay_ms=800)
    assert begun["ok"] and tables(pod) == before, begun
    assert late(lookup(pod, within=5, times=1)) and late(lookup(pod, within=5, times=1))
    (shown,) = pod.call("state", run="r1", id="f1")["active"]
    assert shown["steps"][0]["there"] and shown["steps"][0]["hit"] >= 2
    passes = relays(pod)
    assert passes.pid not in processes(pod.beside), "it outlives the helper pod"
    assert pod.call("undo", run="r1", id="f1")["ok"]
    eventually(lambda: not passes.is_running())
    told = lookup(pod, within=5, times=1)
    assert told is not None and not late(told)


def test_a_table_without_the_process_behind_it_is_not_there(pod: Pod, server: subprocess.Popen[str]) -> None:
    """Then there are no answers at all, which is another fault."""
    assert pod.begin("node.dns_slowness", delay_ms=100)["ok"]
    relays(pod).kill()
    (shown,) = pod.call("state", run="r1", id="f1")["active"]
    assert shown["steps"][0]["there"] is False
    assert lookup(pod, within=0.5, times=1) is None
    assert pod.call("undo", run="r1", id="f1")["ok"] and lookup(pod, within=0.5, times=3) is not None
    assert not list((pod.root / "run" / "oschaos-host").glob("*.relay"))


def test_a_volume_of_the_pods_alone_is_filled_and_emptied_though_its_container_ends(pod: Pod) -> None:
    eventually(lambda: listens(pod))
    write = {"node": "es-1", "do": "write", "within": 10}
    assert "errno" not in pod.call("probe", **write)
    begun = pod.begin("disk.full", leave_bytes=0)
    assert begun["ok"] and begun["steps"][0]["bytes"] > 7 << 20, begun
    assert pod.call("probe", **write)["errno"] == errno.ENOSPC
    pod.node.kill()
    pod.node.wait()
    assert pod.call("probe", node="es-1", do="look", within=10)["free"] == 0, "where it is is written down"
    assert pod.call("undo", run="r1", id="f1")["ok"] and list(pod.volume.iterdir()) == []


def test_what_is_no_file_system_of_the_pods_own_is_refused(pod: Pod) -> None:
    eventually(lambda: listens(pod))
    assert "has no file system of its own" in pod.begin("disk.full", node="part", leave_bytes=0)["why"]
    other = pod.root / "pods" / str(uuid.uuid4()) / "volumes"
    other.mkdir(parents=True)
    subprocess.run(["mount", "--bind", pod.volume, other], check=True)
    try:
        assert "another pod has the same volume" in pod.begin("disk.full", leave_bytes=0)["why"]
    finally:
        subprocess.run(["umount", other], check=True)
    assert list(pod.volume.iterdir()) == []


def test_a_file_that_came_along_with_a_volume_is_removed_by_its_name(pod: Pod) -> None:
    eventually(lambda: listens(pod))
    for name in ("r1_f9", "r2_f9"):
        (pod.volume / f"{PREFIX}{name}").write_bytes(b"filled")
    assert "removed filler" in pod.call("undo", run="r1", id="f9")["says"]
    assert [each.name for each in pod.volume.iterdir()] == [f"{PREFIX}r2_f9"]
    assert pod.call("sweep")["strays"] and list(pod.volume.iterdir()) == []


def test_a_file_that_came_along_is_removed_though_the_node_does_not_start_on_its_full_volume(pod: Pod) -> None:
    eventually(lambda: listens(pod))
    pod.node.kill()
    pod.node.wait()
    for name in ("r1_f9", "r2_f9"):
        (pod.volume / f"{PREFIX}{name}").write_bytes(b"filled")
    assert "removed filler" in pod.call("undo", run="r1", id="f9")["says"]
    assert [each.name for each in pod.volume.iterdir()] == [f"{PREFIX}r2_f9"]


CONTAINER = "container"
HUNGRY = "import sys, time; held = b'x' * (int(sys.argv[1]) << 20); print('up', flush=True); time.sleep(600)"


@pytest.fixture
def memory(pod: Pod) -> Iterator[Path]:
    """Control groups of version 1 for the pod's memory: the pod's, and in it that of a container with a node, which
    holds 300 MiB."""
    above = Path("/sys/fs/cgroup/memory") / pod.group.parent.name
    if not above.parent.is_dir():
        pytest.skip("this machine has no control groups of version 1")
    mine = above / pod.group.name
    for each in (above, mine, mine / CONTAINER):
        each.mkdir()
    pod.node.kill()
    pod.node.wait()
    pod.node = hungry(pod, mine, 300, MAIN_CLASS)
    yield mine
    pod.node.kill()
    pod.node.wait()
    for each in (mine / CONTAINER, mine, above):
        eventually(lambda each=each: removed(each))


def hungry(pod: Pod, group: Path, size: int, *words: str) -> subprocess.Popen[bytes]:
    """A process in the pod's container that takes so many MiB, and has them when this returns, or was ended."""
    groups = within(group / CONTAINER, within(pod.group, [PYTHON, "-c", HUNGRY, str(size), *words]))
    made = subprocess.Popen(groups, stdout=subprocess.PIPE)
    assert made.stdout is not None
    made.stdout.readline()
    made.stdout.close()
    return made


def test_a_node_is_ended_for_want_of_memory_and_so_is_what_is_started_after_it(pod: Pod, memory: Path) -> None:
    limit, beside = memory / "memory.limit_in_bytes", hungry(pod, memory, 1)
    before = limit.read_text()
    begun = pod.begin("node.out_of_memory")
    assert begun["ok"] and begun["steps"][0]["there"], begun
    assert pod.node.wait(5) == -signal.SIGKILL and int(limit.read_text()) == 64 << 20
    assert beside.poll() is None, "what is small is left"
    again = hungry(pod, memory, 100, MAIN_CLASS)
    assert again.wait(5) == -signal.SIGKILL
    assert processes(memory / CONTAINER) == [beside.pid], "nothing of ours is left in it"
    assert pod.call("undo", run="r1", id="f1")["ok"] and limit.read_text() == before
    beside.kill()
    beside.wait()
    pod.node = hungry(pod, memory, 100, MAIN_CLASS)
    assert pod.node.poll() is None


def test_a_pod_whose_node_has_not_started_keeps_its_memory_and_a_limit_of_others_stays(pod: Pod, memory: Path) -> None:
    pod.node.kill()
    pod.node.wait()
    pod.node = hungry(pod, memory, 100, MAIN_CLASS)
    assert "what is not a node that has started" in pod.begin("node.out_of_memory")["why"]
    (memory / "memory.limit_in_bytes").write_text(str(512 << 20))
    pod.node.kill()
    pod.node.wait()
    pod.node = hungry(pod, memory, 300, MAIN_CLASS)
    assert pod.begin("node.out_of_memory", id="f2")["ok"]
    (memory / "memory.limit_in_bytes").write_text(str(128 << 20))
    assert "somebody else changed" in pod.call("undo", run="r1", id="f2")["steps"][0]["left"]
    assert int((memory / "memory.limit_in_bytes").read_text()) == 128 << 20


def test_what_is_no_pods_is_refused_and_a_node_that_is_down_has_no_ports(pod: Pod) -> None:
    eventually(lambda: listens(pod))
    assert "allows no fault towards" in pod.begin("network.drop", peers=["10.8.8.8"])["why"]
    assert "does not allow it" in pod.begin("node.kill", id="f2")["why"]
    pod.node.kill()
    pod.node.wait()
    assert "does not run" in pod.begin("network.drop", id="f3", peers=["10.9.9.9"])["why"]


def test_the_dead_man_leaves_the_helper_pod_and_undoes_what_that_left_behind(pod: Pod) -> None:
    eventually(lambda: listens(pod))
    begun = pod.begin("node.pause", ttl=4)
    assert begun["ok"] and pod.state == psutil.STATUS_STOPPED, begun
    assert processes(pod.beside) == [], "its dead-man is in the machine's own group"
    assert begun["dead_man"]["alive"]
    eventually(lambda: pod.state != psutil.STATUS_STOPPED, 15)
    assert pod.call("state")["active"] == []


def test_another_helper_extends_and_undoes_what_the_one_before_has_begun(pod: Pod) -> None:
    eventually(lambda: listens(pod))
    assert pod.begin("node.pause")["ok"]
    assert pod.call("extend", run="r1", id="f1", token=1, ttl=50)["left"] == pytest.approx(50, abs=3)
    assert pod.call("undo", run="r1", id="f1")["ok"] and pod.state != psutil.STATUS_STOPPED
