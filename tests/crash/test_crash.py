"""A runner that is killed at any moment leaves nothing that `recover` cannot take away; see crash.py."""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from crash import crash

real = [
    pytest.mark.cluster,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: network namespaces"),
]


def marked(test):
    for mark in real:
        test = mark(test)
    return test


FAMILIES = list(dict.fromkeys(kind.family for kind in crash.FAULTS.values()))


def test_every_cell_is_aimed_at_when_there_are_kills_enough():
    cells = crash.cells(FAMILIES, list(crash.WINDOWS), 200, random.Random(1))
    assert len(cells) == 200 and len(set(cells)) == len(FAMILIES) * len(crash.WINDOWS)


def test_few_kills_are_spread_over_both_axes():
    few = crash.cells(FAMILIES, list(crash.WINDOWS), len(FAMILIES), random.Random(1))
    assert set(Counter(family for family, _ in few).values()) == {1}
    assert max(Counter(stage for _, stage in few).values()) == -(-len(FAMILIES) // len(crash.WINDOWS))


def test_where_a_kill_hit_is_read_from_the_events(tmp_path: Path):
    history = tmp_path / "reports" / "x" / "history"
    history.mkdir(parents=True)
    told = [
        ({"kind": "run.start"}, "nowhere"),
        ({"kind": "stage", "name": "preload"}, "preload"),
        ({"kind": "stage", "name": "warm-up"}, "warm-up"),
        ({"kind": "phase.start", "phase": "faulty"}, "inject"),
        ({"kind": "fault.evidence", "stage": "before"}, "inject"),
        ({"kind": "fault.command"}, "inject"),
        ({"kind": "fault.evidence", "stage": "effect"}, "hold"),
        ({"kind": "phase.start", "phase": "healed"}, "hold"),
        ({"kind": "fault.undo"}, "undo"),
        ({"kind": "fault.evidence", "stage": "gone"}, "undo"),
        ({"kind": "stage", "name": "lab away"}, "lab away"),
    ]
    for event, stage in told:
        with open(history / "events.jsonl", "a") as file:
            file.write(json.dumps({"t": 1, **event}) + "\n")
        assert crash.stages(tmp_path)[-1] == stage
    assert crash.reached(tmp_path, "hold") and not crash.reached(tmp_path, "settle")


@marked
@pytest.mark.full
def test_a_few_kills_leave_nothing(capsys):
    assert crash.main(["--seed", "1", "--kills", "2", "--stages", "hold,undo"]) == 0, capsys.readouterr().out


@marked
@pytest.mark.full
def test_every_stage_and_every_family_survive_kills(capsys):
    assert crash.main(["--seed", "7"]) == 0, capsys.readouterr().out


BEFORE = "1f6303b"
"""The last commit before kinds, providers and targets had rooms of their own."""


@marked
@pytest.mark.full
def test_what_an_earlier_version_wrote_down_is_undone(tmp_path: Path, capsys):
    """One run of each family by the code of that commit, killed while its fault holds, and recovered by this one."""
    earlier = tmp_path / "earlier"
    git = ["git", "-C", str(crash.ROOT), "worktree"]
    if subprocess.run([*git[:-1], "cat-file", "-e", f"{BEFORE}^{{commit}}"], capture_output=True).returncode:
        pytest.skip(f"this checkout has no history back to {BEFORE}: git fetch --unshallow")
    subprocess.run([*git, "add", "--detach", str(earlier), BEFORE], check=True, capture_output=True)
    try:
        kills = str(len(FAMILIES))
        assert crash.main(["--seed", "3", "--kills", kills, "--stages", "hold", "--runner", str(earlier)]) == 0, (
            capsys.readouterr().out
        )
    finally:
        subprocess.run([*git, "remove", "--force", str(earlier)], check=True, capture_output=True)
