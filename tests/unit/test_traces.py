"""The scan after a run finds what carries a lab's name, wherever the kernel keeps it, and nothing of a neighbour's."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos import places
from chaos.lab import network, traces

TABLE = """\
22 1 0:21 / / rw shared:1 - ext4 /dev/root rw
90 22 7:3 / {labs}/my/data/a-data rw,relatime shared:40 - ext4 /dev/loop3 rw
91 22 0:50 / /mnt/with\\040blank rw - tmpfs oschaos-my-scratch rw
92 22 7:4 / {labs}/my-lab/data/a-data rw - ext4 /dev/loop4 rw
93 22 0:4 net:[4026532290] /run/netns/oschaos-my-a-data rw - nsfs nsfs rw
broken line
"""


def test_mounts_below_the_folder_or_of_the_name(tmp_path: Path) -> None:
    table = TABLE.format(labs=tmp_path)
    assert traces.mounts("my", tmp_path / "my", table) == sorted([f"{tmp_path}/my/data/a-data", "/mnt/with blank"])
    assert traces.mounts("other", tmp_path / "other", table) == []


def test_loop_devices_by_their_file(tmp_path: Path) -> None:
    for device, file in (("loop3", "/labs/my/disks/a.img (deleted)"), ("loop4", "/labs/my-lab/disks/a.img")):
        (tmp_path / device / "loop").mkdir(parents=True)
        (tmp_path / device / "loop" / "backing_file").write_text(f"{file}\n")
    (tmp_path / "loop5").mkdir()
    assert traces.loops("my", Path("/labs/my"), tmp_path) == [("loop3", "/labs/my/disks/a.img")]


def test_everything_of_one_id_and_nothing_of_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENSEARCH_CHAOS_STATE", str(tmp_path))
    names = ["oschaos-my-a-data", "oschaos-my-lab-a-data"]
    monkeypatch.setattr(network, "namespaces", lambda prefix="": [name for name in names if name.startswith(prefix)])
    monkeypatch.setattr(network, "processes_in", lambda names: {7: names[0]} if names else {})
    monkeypatch.setattr("chaos.lab.cgroups.ids", lambda: {"my-lab"})
    (places.labs() / "my-lab").mkdir(parents=True)
    assert traces.of("my") == ["process 7 in oschaos-my-a-data", "network namespace oschaos-my-a-data"]
    assert traces.of("my-lab") == [
        "process 7 in oschaos-my-lab-a-data",
        "network namespace oschaos-my-lab-a-data",
        "control groups oschaos-my-lab",
        f"lab folder {places.labs() / 'my-lab'}",
    ]
    assert traces.of("r1") == []
