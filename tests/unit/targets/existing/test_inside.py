"""What a host tells of a node's control groups and disk, and of which nodes it cannot be had.

``ssh`` is here a program that gives its words to a shell of this machine, as the real one does there. Control groups
are folders with the kernel's files.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.base.errors import LabError, Lacking
from chaos.targets.existing.hosts import Hosts, digest, told
from chaos.targets.existing.inside import UPTIME, TheirDisks, TheirGroups
from chaos.targets.limits import MemoryUse, ProcessorUse
from chaos.targets.protocol import DiskAnswer

SSH = """#!/bin/sh
while [ "$1" != -- ]; do case "$1" in -O) exit 0;; esac; shift; done
shift 2
case "$1" in
sha256sum) echo {digest} x;;
sudo) cat >{folder}/given; cat {folder}/answer-$4;;
*) eval "$@";;
esac
"""
GROUPS = {
    1: {
        "cpu": {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "-1", "cpu.stat": "nr_periods 20\nnr_throttled 7"},
        "count": {"cpuacct.usage": "2500000000"},
        "memory": {
            "memory.limit_in_bytes": "9223372036854771712",
            "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3",
            "memory.swappiness": "60",
            "memory.failcnt": "11",
            "memory.usage_in_bytes": "1000",
            "memory.stat": "cache 400\nrss 500\nshmem 100\npgmajfault 9",
        },
    },
    2: {
        "cpu": {"cpu.max": "max 100000", "cpu.stat": "usage_usec 2500000\nnr_periods 20\nnr_throttled 7"},
        "memory": {
            "memory.high": "max",
            "memory.max": "max",
            "memory.current": "1000",
            "memory.events": "low 0\nhigh 4\nmax 7\noom 3\noom_kill 3",
            "memory.stat": "anon 500\nfile 400\nshmem 100\npgmajfault 9",
        },
    },
}
CPU = {1: {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "-1"}, 2: {"cpu.max": "max 100000"}}
MEMORY = {
    1: {"memory.limit_in_bytes": "9223372036854771712", "memory.oom_control": "0", "memory.swappiness": "60"},
    2: {"memory.high": "max", "memory.max": "max"},
}


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Any], None]:
    """What the program says to a verb."""
    (tmp_path / "ssh").write_text(SSH.format(folder=tmp_path, digest=digest()))
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def says(verb: str, answer: Any) -> None:
        (tmp_path / f"answer-{verb}").write_text(json.dumps(answer))

    return says


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    made = Hosts({"es-1": "host-1"}, None, tmp_path / "sockets")
    yield made
    made.close()


def grouped(tmp_path: Path, answers: Callable[[str, Any], None], version: int) -> Path:
    """A group as ``facts`` would tell of it. Its name is one that a shell would take apart."""
    where = tmp_path / "unit with $(false) \\x2d and it's"
    for name, files in GROUPS[version].items():
        (where / name).mkdir(parents=True)
        for file, text in files.items():
            (where / name / file).write_text(f"{text}\n")
    cpu = {"version": version, "folder": str(where / "cpu")}
    if version == 1:
        cpu["accounting"] = str(where / "count")
    groups = {"cpu": cpu, "memory": {"version": version, "folder": str(where / "memory")}}
    answers("facts", {"ok": True, "nodes": {"es-1": {"groups": groups}}})
    return where


@pytest.mark.parametrize("version", [1, 2])
def test_limits_and_counters_are_the_kernels(
    tmp_path: Path, answers: Callable[[str, Any], None], hosts: Hosts, version: int
) -> None:
    grouped(tmp_path, answers, version)
    groups = TheirGroups(hosts)
    assert groups.limits("es-1", "cpu") == CPU[version] and groups.limits("es-1", "memory") == MEMORY[version]
    use = groups.processor_use("es-1")
    assert use == ProcessorUse(2.5, 7) and 0 < use.at <= float(Path(UPTIME).read_text().split()[0])
    assert groups.memory_use("es-1") == MemoryUse(held=700, failures=11, oom_kills=3, major_faults=9)


@pytest.mark.parametrize("missing", ["cpu/cpu.stat", "count/cpuacct.usage"])
def test_a_counter_that_is_not_there_is_no_zero_and_the_group_is_asked_for_again(
    tmp_path: Path, answers: Callable[[str, Any], None], hosts: Hosts, missing: str
) -> None:
    where, groups = grouped(tmp_path, answers, 1), TheirGroups(hosts)
    groups.processor_use("es-1")
    (where / missing).unlink()
    with pytest.raises(LabError, match=f"{Path(missing).name} of es-1 cannot be read"):
        groups.processor_use("es-1")
    answers("facts", {"ok": True, "nodes": {"es-1": {"groups": {}}}})
    with pytest.raises(Lacking, match="es-1 has no control group of its own for cpu"):
        groups.processor_use("es-1")


def test_a_group_without_files_limits_nothing_that_is_known(
    tmp_path: Path, answers: Callable[[str, Any], None], hosts: Hosts
) -> None:
    where = grouped(tmp_path, answers, 2)
    (where / "cpu" / "cpu.max").unlink()
    with pytest.raises(LabError, match="cannot be read"):
        TheirGroups(hosts).limits("es-1", "cpu")


def test_of_a_node_without_a_host_nothing_can_be_had(hosts: Hosts) -> None:
    for work in (
        lambda: TheirGroups(hosts).limits("es-2", "cpu"),
        lambda: TheirGroups(hosts).processor_use("es-2"),
        lambda: TheirDisks(hosts).usage("es-2"),
        lambda: TheirDisks(hosts).probe("es-2", "write", timeout=1),
    ):
        with pytest.raises(Lacking, match="the file names no host of es-2"):
            work()


def test_what_a_shell_prints_beside_the_files_is_no_part_of_them() -> None:
    said = "Welcome\n/a/x:1 2\n/a/x.y:9\n/a/x:3:4\n"
    assert told(said, ["/a/x", "/a/x.y", "/a/z"]) == {"/a/x": "1 2\n3:4", "/a/x.y": "9"}


def test_a_disk_is_asked_how_full_it_is_and_for_a_write(
    tmp_path: Path, answers: Callable[[str, Any], None], hosts: Hosts
) -> None:
    disks = TheirDisks(hosts)
    answers("probe", {"ok": True, "bytes": 1000, "free": 300, "filled": 500})
    assert disks.usage("es-1") == (1000, 300) and disks.filled("es-1") == 500
    for answer, means in (
        ({"seconds": 0.25}, DiskAnswer(seconds=0.25)),
        ({"errno": errno.ENOSPC}, DiskAnswer(errno=errno.ENOSPC)),
        ({"blocked": True}, DiskAnswer(blocked=True)),
    ):
        answers("probe", {"ok": True, **answer})
        assert disks.probe("es-1", "grow", size=65536, timeout=2.0) == means
    given = json.loads((tmp_path / "given").read_text())
    assert given == {"node": "es-1", "within": 2.0, "do": "write", "size": 65536, "count": 1}
    with pytest.raises(LabError, match="the disk of es-1 gives no answer"):
        disks.usage("es-1")


def test_a_disk_is_written_to_with_the_limits_of_the_node_and_its_limit_is_told(
    tmp_path: Path, answers: Callable[[str, Any], None], hosts: Hosts
) -> None:
    disks = TheirDisks(hosts)
    answers("probe", {"ok": True, "seconds": 2.0, "device_bytes": 900})
    found = disks.probe("es-1", "write", size=4096, count=4, timeout=5.0, whose="node")
    assert found == DiskAnswer(seconds=2.0, device_bytes=900)
    assert json.loads((tmp_path / "given").read_text())["as_node"] is True
    for limit in (65536, None):
        answers("probe", {"ok": True, "bytes": 1000, "free": 300, "filled": 0, "write_limit": limit})
        assert disks.throttled("es-1", "node") == limit and disks.throttled("es-1", "others") is None


def test_a_disk_that_is_not_the_nodes_own_is_not_looked_at(answers: Callable[[str, Any], None], hosts: Hosts) -> None:
    answers("probe", {"ok": False, "why": "/srv has no file system of its own", "remedy": ""})
    with pytest.raises(Lacking, match="host-1: /srv has no file system of its own"):
        TheirDisks(hosts).probe("es-1", "write", timeout=1)


@pytest.mark.parametrize(
    "given", [{"do": "read"}, {"do": "sync"}, {"do": "write", "whose": "others"}, {"do": "write", "sync": False}]
)
def test_what_no_proof_there_needs_is_refused(hosts: Hosts, given: dict[str, Any]) -> None:
    with pytest.raises(LabError, match="are not ours"):
        TheirDisks(hosts).probe("es-1", given.pop("do"), timeout=1, **given)
    with pytest.raises(LabError, match="are not ours"):
        TheirDisks(hosts).freeze("es-1")
