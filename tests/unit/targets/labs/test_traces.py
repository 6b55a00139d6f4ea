"""The scan after a run finds what carries a lab's name, wherever the kernel keeps it, and nothing of a neighbour's."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.base import paths
from chaos.targets.labs import network, traces

TABLE = """\
/dev/root / ext4 rw 0 0
/dev/loop3 {labs}/my/data/a-data ext4 rw,relatime 0 0
oschaos-my-scratch /mnt/with\\040blank tmpfs rw 0 0
/dev/loop4 {labs}/my-lab/data/a-data ext4 rw 0 0
nsfs /run/netns/oschaos-my-a-data nsfs rw 0 0
broken
"""


def test_mounts_below_the_folder_or_of_the_name(tmp_path: Path) -> None:
    table = TABLE.format(labs=tmp_path)
    assert traces.mounts("my", tmp_path / "my", table) == sorted([f"{tmp_path}/my/data/a-data", "/mnt/with blank"])
    assert traces.mounts("other", tmp_path / "other", table) == []


def test_everything_of_one_id_and_nothing_of_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENSEARCH_CHAOS_STATE", str(tmp_path))
    names = ["oschaos-my-a-data", "oschaos-my-lab-a-data"]
    monkeypatch.setattr(network, "namespaces", lambda prefix="": [name for name in names if name.startswith(prefix)])
    monkeypatch.setattr(network, "processes_in", lambda names: {7: names[0]} if names else {})
    monkeypatch.setattr("chaos.targets.labs.cgroups.ids", lambda: {"my-lab"})
    (paths.labs() / "my-lab").mkdir(parents=True)
    assert traces.of("my") == ["process 7 in oschaos-my-a-data", "network namespace oschaos-my-a-data"]
    assert traces.of("my-lab") == [
        "process 7 in oschaos-my-lab-a-data",
        "network namespace oschaos-my-lab-a-data",
        "control groups oschaos-my-lab",
        f"lab folder {paths.labs() / 'my-lab'}",
    ]
    assert traces.of("r1") == []
