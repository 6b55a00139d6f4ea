"""A runner that is killed at any moment leaves nothing that `recover` cannot take away; see crash.py."""

from __future__ import annotations

import json
import os
import random
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
def test_a_few_kills_leave_nothing(capsys):
    assert crash.main(["--seed", "1", "--kills", "2", "--stages", "hold,undo"]) == 0, capsys.readouterr().out


@marked
@pytest.mark.full
def test_every_stage_and_every_family_survive_kills(capsys):
    assert crash.main(["--seed", "7"]) == 0, capsys.readouterr().out
