"""Control groups of containers, found through a process of theirs; on folders that stand for the kernel's."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.base.errors import LabError
from chaos.targets.labs.cgroups import Hierarchy
from chaos.targets.labs.docker.groups import ContainerGroups

PROCESS = {
    1: "12:memory:/docker/abc\n11:cpu,cpuacct:/docker/abc\n0::/system.slice/docker.service\n",
    2: "0::/system.slice/docker-abc.scope\n",
}
PLACE = {1: "docker/abc", 2: "system.slice/docker-abc.scope"}


def groups(folder: Path, version: int) -> ContainerGroups:
    (folder / "proc" / "77").mkdir(parents=True)
    (folder / "proc" / "77" / "cgroup").write_text(PROCESS[version])
    (folder / "memory" / PLACE[version]).mkdir(parents=True)
    found = {"memory": Hierarchy(folder / "memory", version)}
    return ContainerGroups({"a-data": 77, "b-data": 78}.__getitem__, found, folder / "proc")


@pytest.mark.parametrize("version", [1, 2])
def test_a_containers_group_is_where_its_process_is(tmp_path: Path, version: int) -> None:
    found = groups(tmp_path, version)
    assert found.folder("memory", "a-data") == tmp_path / "memory" / PLACE[version]
    assert found.version("memory") == version and found.built("memory") and not found.built("cpu")
    found.place(5, "a-data")
    assert (tmp_path / "memory" / PLACE[version] / "cgroup.procs").read_text() == "5"


def test_what_is_not_there_is_an_error_of_the_lab(tmp_path: Path) -> None:
    found = groups(tmp_path, 1)
    with pytest.raises(LabError, match="no control groups for 'cpu'"):
        found.folder("cpu", "a-data")
    with pytest.raises(LabError, match="of b-data cannot be read"):
        found.folder("memory", "b-data")
    (tmp_path / "proc" / "77" / "cgroup").write_text("0::/\n")
    with pytest.raises(LabError, match="has no control group for 'memory'"):
        found.folder("memory", "a-data")
