"""The catalogue of events: what is on disk is what a class says, in its order, and reads back as it was."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import corpuskit as kit
import pytest

from chaos.history import EventWriter, events
from chaos.history.events import KINDS, LEFT_OUT, AbortUndone, ClusterLeader, Event, FaultCommand, LoadStart

ELSEWHERE = ("failover.",)
"""Kinds of other processes, which have files of their own."""


def written(tmp_path: Path, *some: Event) -> list[str]:
    with EventWriter(tmp_path / "events.jsonl") as writer:
        for each in some:
            each.write(writer)
    return (tmp_path / "events.jsonl").read_text().splitlines()


def test_a_line_is_the_same_byte_for_byte_as_one_that_was_written_by_its_kind(tmp_path: Path) -> None:
    fault = {
        "fault": "f1",
        "fault_kind": "network.drop",
        "says": "x",
        "mechanism": "m",
        "provider": "p",
        "grade": "path",
    }
    more = {"colour": None, "targets": ["a"], "links": [["a", "b"]], "pulses": False, "held": True}
    undone = {"asked": 1, "faults": [], "seconds": 0.5, "complete": True, "proven": True, "proven_seconds": None}
    lines = written(
        tmp_path, ClusterLeader(leader=None), FaultCommand(**fault, **more), AbortUndone(**undone), LoadStart()
    )  # type: ignore[arg-type]
    bare = [line[line.index('"kind"') :] for line in lines]
    expected = [{"kind": "cluster.leader", "leader": None}, {"kind": "fault.command", **fault, **more}]
    expected += [{"kind": "abort.undone", **undone}, {"kind": "load.start"}]
    assert bare == [json.dumps(each, separators=(",", ":"))[1:] for each in expected]
    assert [list(json.loads(line))[:3] for line in lines] == [["t", "wall", "kind"]] * 4


def test_a_moment_before_is_written_as_that(tmp_path: Path) -> None:
    with EventWriter(tmp_path / "events.jsonl") as writer:
        assert LoadStart().write(writer, t=7) == 7
    assert json.loads((tmp_path / "events.jsonl").read_text())["t"] == 7


def test_a_line_of_an_earlier_version_or_of_a_dead_run_lacks_keys_and_is_read() -> None:
    seen = FaultCommand.read({"t": 5, "kind": "fault.command", "fault": "f1", "unheard of": 1})
    assert (seen.t, seen.fault, seen.grade, seen.silences) == (5, "f1", None, None)


def test_what_is_left_out_is_no_value() -> None:
    made = AbortUndone(asked=1, faults=[], seconds=0.0, complete=True, proven=True, proven_seconds=None)
    assert "actions" not in set(made.keys())
    assert not LEFT_OUT and repr(LEFT_OUT) == "LEFT_OUT"


def test_every_kind_is_one_class_that_is_frozen() -> None:
    assert len(KINDS) == len(set(KINDS.values())) > 55
    for kind, event in KINDS.items():
        assert event.kind == kind and event.__dataclass_params__.frozen  # type: ignore[attr-defined]
        assert [each.name for each in dataclasses.fields(event)][:2] == ["t", "wall"]
    assert events.KINDS is KINDS


@pytest.mark.full
@pytest.mark.parametrize("name", kit.names())
def test_each_event_of_a_stored_run_reads_and_writes_back_as_it_was(name: str) -> None:
    """Its keys, in their order, whichever version wrote it."""
    with kit.unpacked(name) as folder:
        lines = (folder / "history" / "events.jsonl").read_text().splitlines()
    for line in lines:
        said = json.loads(line)
        if said["kind"].startswith(ELSEWHERE):
            continue
        seen = KINDS[said["kind"]].read(said)
        again = {"t": seen.t, "wall": seen.wall, "kind": seen.kind, **seen.keys()}
        kept = {key: value for key, value in again.items() if key in said}
        assert json.dumps(kept) == json.dumps(said), said["kind"]
