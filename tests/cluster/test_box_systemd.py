"""A small box whose nodes have disks of their own and one of whose hosts has a systemd; and how a box goes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from box import hosts
from boxkit import Boxed, left
from clusterkit import DATA

from chaos.opensearch.views import administer, await_green
from chaos.targets.labs import network
from chaos.targets.labs.local import LocalLab
from chaos.targets.labs.processes import wait_until

pytestmark = pytest.mark.full
UNIT, DISK, OTHER = "a-node", "b-node", "c-node"
"""The node that systemd starts, and two that it does not."""


@pytest.fixture(scope="module")
def small() -> Iterator[Boxed]:
    try:
        hosts.groups_of_systemd()
    except hosts.MissingPrerequisite as error:
        pytest.skip(str(error))
    made = Boxed()
    code, output = made.does("up", "--topology", DATA / "box-disks.yaml", "--systemd", UNIT, timeout=600)
    try:
        assert code == 0, output
        yield made
    finally:
        code, output = made.does("down")
    assert code == 0, (output, left(made.box.name))
    assert left(made.box.name) == []


def begun(small: Boxed, node: str, intent: str, id: str, ttl: float = 600, **given: Any) -> dict[str, Any]:
    answer = small.asks(node, "begin", run="r1", token=1, id=id, ttl=ttl, node=node, intent=intent, **given)
    assert answer["ok"] and answer["dead_man"]["alive"] and all(step["there"] for step in answer["steps"]), answer
    return answer


def by_rest(lab: LocalLab) -> dict[str, int]:
    """Node → the pid that its process has, where it is."""
    status, answer = administer(lab, "GET", "/_nodes/_all/process")
    return {each["name"]: each["process"]["id"] for each in answer["nodes"].values()} if status == 200 else {}


def test_a_node_is_a_unit_of_its_host_s_systemd(small: Boxed):
    with small.owned() as lab:
        told = {name: small.asks(name, "facts") for name in (UNIT, OTHER)}
        assert {name: facts["dead_man"] for name, facts in told.items()} == {UNIT: "systemd", OTHER: "process"}
        assert told[UNIT]["systemd"] is True and told[OTHER]["systemd"] is False
        for name, facts in told.items():
            assert facts["nodes"][name]["process"]["pid"] == by_rest(lab)[name]
        outside = lab.identity(UNIT)
        assert outside is not None and outside.pid != by_rest(lab)[UNIT]  # it has a namespace of processes there
        assert psutil.Process(outside.pid).cmdline() == lab.launch(UNIT).command
    assert small.on_host(UNIT, "cat", "/proc/1/comm") == "systemd\n"
    units = small.on_host(UNIT, "systemctl", "list-units", "--plain", "--no-legend", "--type=service").splitlines()
    assert [line.split()[0] for line in units] == ["opensearch.service", "ssh.service"]  # none of this machine's


def test_a_killed_unit_is_started_by_a_timer_alone_and_by_nobody_before(small: Boxed):
    with small.owned() as lab:
        old = by_rest(lab)[UNIT]
        said = begun(small, UNIT, "node.kill", "killed", ttl=40)
        assert said["dead_man"]["by"] == "systemd timer oschaos-undo-r1_killed-1"
        assert small.does("cut") == (0, "")
        try:
            assert wait_until(lambda: UNIT not in by_rest(lab), 30, every=0.2)
            shown = small.on_host(UNIT, "systemctl", "show", "--property=Restart,ActiveState", "opensearch")
            assert shown.split() == ["Restart=no", "ActiveState=failed"]
            assert wait_until(lambda: by_rest(lab).get(UNIT, old) != old, 120, every=0.5)
        finally:
            assert small.does("mend") == (0, "")
        assert await_green(lab, 120)[0]
    state = small.asks(UNIT, "state", run="r1", id="killed")
    assert state["active"] == [] and state["ended"]["why"] == "its time was over"
    assert small.on_host(UNIT, "systemctl", "show", "--property=Restart", "opensearch") == "Restart=on-failure\n"
    with small.owned() as lab:
        assert lab.process_state(UNIT) in ("S", "R") and small.box.is_up()


def test_a_disk_is_filled_and_emptied_by_the_dead_man(small: Boxed):
    with small.owned() as lab:
        before = small.asks(DISK, "facts")["nodes"][DISK]
        assert before["data"]["own_file_system"] is True and before["intents"]["disk.full"] is None
        begun(small, DISK, "disk.full", "full", ttl=15, leave_bytes=1 << 20)
        where = lab.folder / "data" / DISK
        assert [each for each in where.iterdir() if each.name.startswith(".oschaos-r1")]  # the lab's own disk, no copy
        assert wait_until(lambda: small.asks(DISK, "state")["active"] == [], 60, every=0.5)
        assert not [each for each in where.iterdir() if each.name.startswith(".oschaos-r1")]
        assert await_green(lab, 120)[0]


def test_it_goes_whole_whatever_its_hosts_hold(small: Boxed):
    """With faults under way, a session open, a disk full, and an sshd dead; it is the last test with this box."""
    with small.owned() as lab:
        begun(small, DISK, "disk.full", "fuller", leave_bytes=1 << 20)
        begun(small, DISK, "node.kill", "killed")
        begun(small, OTHER, "node.pause", "paused")
        begun(small, OTHER, "network.drop", "dropped", peers=[lab.wiring[DISK].bridge_address])
        begun(small, UNIT, "node.pause", "paused")
        session = small.ssh(OTHER, "echo up; exec sleep 1000")
        assert session.process.stdout is not None and session.process.stdout.readline() == "up\n"
        spaces = [host.namespace_name for host in lab.wiring.hosts]
        living = [psutil.Process(pid) for pid in network.processes_in(spaces)]
        assert len([each for each in living if "oschaos-host" in " ".join(each.cmdline())]) == 4  # dead-men
        assert len(hosts.groups_left(small.box.name)) == 1 and left(small.box.name) != []
        psutil.Process(small.box.sshd(DISK).pid).kill()
        assert wait_until(lambda: not small.box.is_up(), 10)
    code, output = small.does("down")
    assert code == 0, (output, left(small.box.name))
    session.end()
    assert left(small.box.name) == []
    assert [each for each in living if each.is_running() and each.status() != psutil.STATUS_ZOMBIE] == []
    assert str(small.box.folder) not in Path("/proc/self/mounts").read_text()


@pytest.mark.parametrize("node", ["a-nodes", "client-a"])
def test_a_systemd_for_a_node_that_is_not_there_is_refused(node: str):
    made = Boxed()
    code, output = made.does("up", "--topology", DATA / "box-disks.yaml", "--systemd", node)
    assert code == 2 and f"there is no node {node}" in output and "a-node, b-node, c-node" in output
    assert left(made.box.name) == []
