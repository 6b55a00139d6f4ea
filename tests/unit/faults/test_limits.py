"""Limits of a node's control group, on folders that stand for the kernel's, in both versions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.base.errors import LabError
from chaos.targets.labs import consumer
from chaos.targets.labs.cgroups import Groups, Hierarchy
from chaos.targets.limits import NO_LIMIT, Limits, MemoryUse, ProcessorUse, untouched

HERE = ("zone-a", "a-data")
FRESH = {
    1: {
        "cpu.cfs_period_us": "100000\n",
        "cpu.cfs_quota_us": "-1\n",
        "cpu.stat": "nr_periods 20\nnr_throttled 7\nthrottled_time 3\n",
        "cpuacct.usage": "2500000000\n",
        "memory.memsw.limit_in_bytes": "9223372036854771712\n",
        "memory.limit_in_bytes": "9223372036854771712\n",
        "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
        "memory.swappiness": "60\n",
        "memory.failcnt": "11\n",
        "memory.usage_in_bytes": "1000\n",
        "memory.stat": "cache 400\nrss 500\nshmem 100\npgmajfault 9\n",
    },
    2: {
        "cpu.max": "max 100000\n",
        "cpu.stat": "usage_usec 2500000\nnr_periods 20\nnr_throttled 7\nthrottled_usec 3\n",
        "memory.high": "max\n",
        "memory.max": "max\n",
        "memory.swap.max": "max\n",
        "memory.current": "1000\n",
        "memory.events": "low 0\nhigh 4\nmax 7\noom 3\noom_kill 3\n",
        "memory.stat": "anon 500\nfile 400\nshmem 100\npgmajfault 9\n",
    },
}


def group(root: Path, version: int) -> tuple[Limits, Path]:
    found = {name: Hierarchy(root, version) for name in ("cpu", "cpuacct", "memory")}
    folder = root.joinpath("oschaos-ab12", *HERE)
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in FRESH[version].items():
        (folder / file).write_text(text)
    return Limits(Groups("ab12", found)), folder


@pytest.mark.parametrize("version", [1, 2])
def test_what_the_kernel_counts_is_read(tmp_path: Path, version: int) -> None:
    limits, _ = group(tmp_path, version)
    assert limits.processor_use(*HERE) == ProcessorUse(2.5, 7)
    # held: all but file pages; shared memory cannot be dropped
    assert limits.memory_use(*HERE) == MemoryUse(held=700, failures=11, oom_kills=3, major_faults=9)


@pytest.mark.parametrize(
    ("version", "expected"),
    [(1, {"cpu.cfs_quota_us": "15000", "cpu.cfs_period_us": "100000"}), (2, {"cpu.max": "15000 100000"})],
)
def test_a_quota_is_a_part_of_each_period(tmp_path: Path, version: int, expected: dict[str, str]) -> None:
    limits, folder = group(tmp_path, version)
    limits.quota(0.15, *HERE)
    assert {file: (folder / file).read_text() for file in expected} == expected


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (1, {"memory.limit_in_bytes": "5000", "memory.oom_control": "1", "memory.swappiness": "0"}),
        (2, {"memory.high": "5000", "memory.max": "max\n", "memory.swap.max": "0"}),
    ],
)
def test_a_squeeze_never_kills_and_never_swaps(tmp_path: Path, version: int, expected: dict[str, str]) -> None:
    limits, folder = group(tmp_path, version)
    limits.squeeze(5000, *HERE)
    assert {file: (folder / file).read_text() for file in expected} == expected


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (1, {"memory.limit_in_bytes": "5000", "memory.memsw.limit_in_bytes": "5000", "memory.oom_control": "0"}),
        (2, {"memory.max": "5000", "memory.swap.max": "0"}),
    ],
)
def test_what_kills_counts_swap_too(tmp_path: Path, version: int, expected: dict[str, str]) -> None:
    limits, folder = group(tmp_path, version)
    limits.strangle(5000, *HERE)
    assert {file: (folder / file).read_text() for file in expected} == expected


@pytest.mark.parametrize("version", [1, 2])
@given(quota=st.floats(0.01, 2), size=st.integers(1, 2**40), first=st.sampled_from(["squeeze", "strangle", "quota"]))
def test_whatever_was_there_comes_back(tmp_path_factory, version: int, quota: float, size: int, first: str) -> None:
    limits, folder = group(tmp_path_factory.mktemp("group"), version)
    if first == "quota":
        limits.quota(0.5, *HERE)  # a value that is not the kernel's own
    else:
        getattr(limits, first)(12345, *HERE)
    if version == 1:  # the kernel answers with a table what is set as a number
        off = (folder / "memory.oom_control").read_text().strip()
        (folder / "memory.oom_control").write_text(f"oom_kill_disable {off[-1] if off.isdigit() else 0}\nunder_oom 0\n")
    before = {resource: limits.values(resource, *HERE) for resource in ("cpu", "memory")}
    limits.quota(quota, *HERE)
    limits.squeeze(size, *HERE)
    limits.strangle(size, *HERE)
    for _ in range(2):
        for resource, values in before.items():
            limits.restore(resource, values, *HERE)
    for resource, values in before.items():
        assert {file: (folder / file).read_text().strip() for file in values} == values, resource


@pytest.mark.parametrize("version", [1, 2])
def test_nothing_known_means_no_limit(tmp_path: Path, version: int) -> None:
    limits, folder = group(tmp_path, version)
    limits.quota(0.5, *HERE)
    limits.restore("cpu", {}, *HERE)
    wanted = NO_LIMIT["cpu", version]
    assert {file: (folder / file).read_text() for file in wanted} == wanted


@pytest.mark.parametrize("version", [1, 2])
def test_a_limit_that_somebody_left_is_seen(tmp_path: Path, version: int) -> None:
    limits, folder = group(tmp_path, version)
    assert limits.set_by_somebody("cpu", *HERE) == limits.set_by_somebody("memory", *HERE) == {}
    limits.quota(0.5, *HERE)
    limits.squeeze(5000, *HERE)
    if version == 1:
        (folder / "memory.oom_control").write_text("oom_kill_disable 1\nunder_oom 0\n")
    assert set(limits.set_by_somebody("cpu", *HERE)) == {"cpu.cfs_quota_us" if version == 1 else "cpu.max"}
    assert set(limits.set_by_somebody("memory", *HERE)) == (
        {"memory.limit_in_bytes", "memory.oom_control"} if version == 1 else {"memory.high", "memory.swap.max"}
    )


@pytest.mark.parametrize("version", [1, 2])
def test_a_kernel_without_accounting_of_swap_is_limited_all_the_same(tmp_path: Path, version: int) -> None:
    limits, folder = group(tmp_path, version)
    swap = folder / ("memory.memsw.limit_in_bytes" if version == 1 else "memory.swap.max")
    swap.unlink()
    assert swap.name not in limits.values("memory", *HERE)
    limits.strangle(5000, *HERE)
    limits.restore("memory", {}, *HERE)
    assert not swap.exists()


def test_a_lab_without_groups_says_so(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no control groups for 'memory'"):
        Limits(Groups("ab12", {})).memory_use(*HERE)


def test_in_version_1_processor_time_must_be_counted_too(tmp_path: Path) -> None:
    limits, _ = group(tmp_path, 1)
    assert limits.lack("cpu") is None and limits.lack("memory") is None
    (tmp_path / "oschaos-ab12").mkdir(exist_ok=True)
    alone = Limits(Groups("ab12", {"cpu": Hierarchy(tmp_path, 1)}))
    assert alone.lack("cpu") == "this lab has no control groups for 'cpu'"
    assert Limits(Groups("ab12", {"cpu": Hierarchy(tmp_path, 2)})).lack("cpu") is None


def test_memory_that_was_asked_for_and_not_touched_is_counted() -> None:
    """As a heap is: reserved whole, touched as it fills."""
    code = "import mmap, sys; m = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); "
    code += "m[: 16 << 20] = b'x' * (16 << 20); print('there', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.readline()
        try:
            assert 40 << 20 <= untouched(child.pid) <= 64 << 20
        finally:
            child.kill()
    assert untouched(child.pid) == 0


def test_the_helper_does_nothing_before_it_is_told_and_ends_with_its_owner() -> None:
    command = [sys.executable, "-I", "-S", consumer.__file__, "take", str(4 << 20)]
    for first, says in ((b"", b""), (b"go\n", b'{"taken": 4194304}\n')):
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            assert child.stdin is not None and child.stdout is not None
            child.stdin.write(first)
            child.stdin.flush()
            if says:
                assert child.stdout.readline() == says
            child.stdin.close()
            assert child.wait(20) == 0


def test_files_that_fit_cost_no_major_fault_the_second_time(tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-S", consumer.__file__, "read", str(tmp_path / "read"), str(8 << 20)]
    answer = subprocess.run(command, input=b"go\n", capture_output=True, timeout=60, check=True)
    assert b'"second": 0' in answer.stdout
    assert os.listdir(tmp_path) == []
