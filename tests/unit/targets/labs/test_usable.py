"""Affinity, cpusets and quotas as the kernel has them: version 1 for real where groups can be made, 2 by folders."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from chaos.targets.labs import usable
from chaos.targets.labs.cgroups import Hierarchy, enter, hierarchies
from chaos.targets.labs.processes import wait_until

ROOT = Path("/sys/fs/cgroup")
VERSION_1 = pytest.mark.skipif(
    os.geteuid() != 0 or not os.access(ROOT / "cpu", os.W_OK) or "cpu" not in hierarchies(),
    reason="needs root and control groups of version 1",
)
SPIN = [sys.executable, "-c", "while True: pass"]


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(SPIN)
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def group(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A group of our own in the hierarchy that the test names. No run takes it for what another one left."""
    folder = ROOT / request.param / f"test-usable-{os.getpid()}"
    folder.mkdir()
    yield folder
    for pid in (folder / "cgroup.procs").read_text().split():
        enter(folder.parent, int(pid))
    assert wait_until(lambda: _removed(folder), 5.0), f"{folder} is left"


def _removed(folder: Path) -> bool:
    with suppress(OSError):
        folder.rmdir()
    return not folder.exists()


@pytest.mark.parametrize(
    ("listed", "numbers"),
    [("0", {0}), ("0-2,5\n", {0, 1, 2, 5}), ("", set()), ("7,9-9", {7, 9})],
)
def test_lists_of_processors(listed: str, numbers: set[int]) -> None:
    assert usable.numbers(listed) == numbers


def test_a_list_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        usable.numbers("0-x")


@pytest.mark.skipif(len(usable.online()) < 2, reason="needs two processors")
def test_what_taskset_says_counts(child: subprocess.Popen[bytes]) -> None:
    assert usable.of(child.pid).sets == (usable.online(),)
    os.sched_setaffinity(child.pid, {0})
    assert usable.of(child.pid).sets == (frozenset({0}),)
    assert usable.of(child.pid).number == 1


def test_a_process_that_is_gone_is_no_free_machine() -> None:
    process = subprocess.Popen(["/bin/true"])
    process.wait()
    with pytest.raises(OSError, match="No such file"):
        usable.of(process.pid)


@VERSION_1
@pytest.mark.parametrize("group", ["cpuset"], indirect=True)
def test_a_cpuset_of_version_1(child: subprocess.Popen[bytes], group: Path) -> None:
    (group / "cpuset.mems").write_text((group.parent / "cpuset.mems").read_text())
    (group / "cpuset.cpus").write_text("1")
    enter(group, child.pid)
    found = usable.of(child.pid)
    assert found.sets == (frozenset({1}),)
    assert found.cpuset == {1}


@VERSION_1
@pytest.mark.parametrize("group", ["cpu"], indirect=True)
def test_a_quota_of_version_1_and_the_time_that_it_makes_wait(child: subprocess.Popen[bytes], group: Path) -> None:
    assert usable.of(child.pid).quota is None
    (group / "cpu.cfs_period_us").write_text("100000")
    (group / "cpu.cfs_quota_us").write_text("20000")
    enter(group, child.pid)
    found = usable.of(child.pid)
    assert found.quota == pytest.approx(0.2)
    assert found.number == 1
    assert found.groups[0] == group
    before = usable.throttled(group)
    assert before is not None
    assert wait_until(lambda: (usable.throttled(group) or 0) > before + 0.05, 10.0)


def of_version_2(tmp_path: Path, cpu_max: str, cpus: str) -> tuple[Path, dict[str, Hierarchy]]:
    """A made-up /proc in which this process is in ``/box/run`` of a made-up hierarchy."""
    root, proc = tmp_path / "cgroup", tmp_path / "proc"
    own = root / "box" / "run"
    own.mkdir(parents=True)
    (root / "box" / "cpu.max").write_text(cpu_max)
    (own / "cpu.max").write_text("max 100000\n")
    (own / "cpuset.cpus.effective").write_text(cpus)
    (root / "box" / "cpu.stat").write_text("usage_usec 10\nnr_throttled 3\nthrottled_usec 1500000\n")
    mine = proc / str(os.getpid())
    (mine / "task" / str(os.getpid())).mkdir(parents=True)
    (mine / "cgroup").write_text("0::/box/run\n")
    where = Hierarchy(root, 2)
    return proc, {"cpu": where, "cpuset": where}


def test_groups_of_version_2(tmp_path: Path) -> None:
    proc, found = of_version_2(tmp_path, "50000 100000\n", "0\n")
    mine = usable.of(os.getpid(), proc=proc, found=found.items())
    assert mine.quota == 0.5  # of a group above its own
    assert mine.cpuset == {0}
    assert mine.sets == (frozenset({0}),)
    assert usable.throttled(tmp_path / "cgroup" / "box") == 1.5


def test_no_limit_of_version_2(tmp_path: Path) -> None:
    proc, found = of_version_2(tmp_path, "max 100000\n", "0-1023\n")
    mine = usable.of(os.getpid(), proc=proc, found=found.items())
    assert mine.quota is None
    assert mine.sets == (frozenset(os.sched_getaffinity(0)),)


def test_a_container_sees_its_own_group_as_the_root(tmp_path: Path) -> None:
    proc, found = of_version_2(tmp_path, "max 100000\n", "0\n")
    (proc / str(os.getpid()) / "cgroup").write_text("0::/docker/abc\n")
    (tmp_path / "cgroup" / "cpu.max").write_text("150000 100000\n")
    mine = usable.of(os.getpid(), proc=proc, found=found.items())
    assert mine.groups == (tmp_path / "cgroup",)
    assert mine.quota == 1.5


def test_a_counter_that_is_not_there_is_not_zero(tmp_path: Path) -> None:
    assert usable.throttled(tmp_path) is None
    (tmp_path / "cpu.stat").write_text("nr_periods 4\n")
    assert usable.throttled(tmp_path) is None
