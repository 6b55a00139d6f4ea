"""The program for faults beside a pod: it finds the node by the pod's uid, changes that pod's network alone, and its
dead-man outlives the pod that the program runs in."""

from __future__ import annotations

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

from chaos.hosts.oschaos_host import MAIN_CLASS

pytestmark = needs_a_host
NODE = """
import socket, sys
server = socket.create_server(("127.0.0.1", 9200))
subject = server.accept()
"""
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
    groups = [GROUPS / f"oschaos-test-{uid[:8]}", GROUPS / f"oschaos-test-{uid[:8]}" / f"pod{uid}"]
    groups.append(groups[0] / "helper")
    for each in groups:
        each.mkdir()
    for part in ("etc", "run", "var/lib"):
        (tmp_path / part).mkdir(parents=True)
    for part in (tmp_path, *tmp_path.rglob("*")):
        part.chmod(0o755)
    config = {"nodes": {"es-1": {"pod": uid}}, "intents": ["node.pause", "network.drop", "node.isolation"],
              "longest": 600,
              "peers": ["10.9.9.0/24"]}  # fmt: skip
    (tmp_path / "etc" / "oschaos-host.json").write_text(json.dumps(config))
    (tmp_path / "etc" / "oschaos-host.json").chmod(0o644)
    up = f"ip link set lo up && exec {PYTHON} -c '{NODE}' {MAIN_CLASS}"
    node = subprocess.Popen(within(groups[1], ["unshare", "--net", "sh", "-c", up]))
    made = Pod(groups[1], groups[2], tmp_path, node)
    try:
        yield made
    finally:
        for pid in [pid for each in groups for pid in processes(each)]:
            os.kill(pid, signal.SIGKILL)
        node.wait()
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
            there = Pod(pod.group, pod.beside, pod.root, pod.node, tuple(theirs))
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
