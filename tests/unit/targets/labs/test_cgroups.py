"""Control groups, on folders that stand for the kernel's."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.base.errors import LabError
from chaos.targets.labs.cgroups import INSTRUMENTS, Groups, Hierarchy, hierarchies


def test_each_controller_has_its_hierarchy_in_version_1_and_one_for_all_in_version_2(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    one = "cgroup /sys/cpu cgroup rw,relatime,cpu,cpuacct 0 0\ncgroup /sys/blkio cgroup rw,blkio 0 0\n"
    two = f"cgroup2 {tmp_path} cgroup2 rw 0 0\n"
    cpu = Hierarchy(Path("/sys/cpu"), 1)
    assert hierarchies(one) == {"cpu": cpu, "cpuacct": cpu, "io": Hierarchy(Path("/sys/blkio"), 1)}
    assert hierarchies(two) == {name: Hierarchy(tmp_path, 2) for name in ("cpu", "memory", "io")}
    both = hierarchies(one + two)  # a hybrid: version 2 has only what version 1 left to it
    assert both["cpu"].version == 1 and both["memory"].version == 2


@pytest.mark.parametrize(
    ("version", "file", "lab", "network"), [(1, "cpu.shares", "2048", "8192"), (2, "cpu.weight", "200", "800")]
)
def test_groups_by_zone_and_node_with_the_network_first(tmp_path, version, file, lab, network) -> None:
    groups = Groups("ab12", {"cpu": Hierarchy(tmp_path, version)})
    groups.build(["a"], {("a", "a-data"): 3})
    top = tmp_path / "oschaos-ab12"
    assert (top / "zone-a" / "a-data").is_dir()
    assert (top / file).read_text() == lab and (top / INSTRUMENTS / file).read_text() == network
    assert (top / "zone-a" / "a-data" / file).read_text() == {1: "3072", 2: "300"}[version]
    groups.place(4711, "zone-a", "a-data")
    assert (top / "zone-a" / "a-data" / "cgroup.procs").read_text() == "4711"


@pytest.mark.parametrize(("version", "asked"), [(1, ["zone-a/a-data"]), (2, ["zone-a/a-data", "."])])
def test_a_user_may_join_one_group_and_no_other(tmp_path, monkeypatch, version, asked) -> None:
    """In version 2 who moves a process also needs what is above both of its groups (cgroups(7))."""
    groups = Groups("ab12", {"cpu": Hierarchy(tmp_path, version)})
    groups.build(["a"], {("a", "a-data"): 3, ("a", "a-cm"): 1})
    given: list[tuple[Path, int, int]] = []
    monkeypatch.setattr("os.chown", lambda *each: given.append(each))
    top = tmp_path / "oschaos-ab12"
    assert groups.admit(4711, "zone-a", "a-data") == [top / "zone-a" / "a-data"]
    assert given == [(top / group / "cgroup.procs", 4711, -1) for group in asked]
    assert Groups("ab12", {}).admit(4711, "zone-a", "a-data") == []


def test_a_kernel_without_groups_is_no_error_until_one_is_needed(tmp_path: Path) -> None:
    groups = Groups("ab12", {})
    groups.build(["a"], {("a", "a-data"): 3})
    groups.place(4711, "zone-a", "a-data")
    assert groups.remove() == []
    with pytest.raises(LabError, match="no control groups for 'cpu'"):
        groups.folder("cpu")


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "oschaos-ab12").write_text("")
    with pytest.raises(LabError, match="cannot make control groups"):
        Groups("ab12", {"cpu": Hierarchy(tmp_path, 1)}).build(["a"], {})
