"""A full disk of this machine is never the cluster's weakness; that of a cluster that exists is its own."""

from __future__ import annotations

from typing import Any

import pytest
import synthetic
from mutations import Stored
from synthetic import T0, S, expect, mixed

from chaos.checks import Findings, evaluate
from chaos.checks.reasons import Cause
from chaos.history.format import Outcome as Arrival

MIB = 2**20
PATH = "/var/lib/opensearch-chaos/labs"
PLACE = {
    "what": "data of the lab's nodes",
    "path": PATH,
    "size": 250 * 2**30,
    "need": 200 * MIB,
    "remedy": "make room there, or name another state folder with $OPENSEARCH_CHAOS_STATE",
}
REFUSED = mixed((10.0, 1e9, 0.9, Arrival.REJECTED, 0.01))
"""From 40 s of the run on, nine of ten writes are refused: 'only 8.8 % of writes were good'."""


def made(free: list[tuple[float, int]] | None = None, *, rules: int = 2, refused: bool = True) -> Stored:
    """Healthy to 30 s, one zone slow to 60 s, returned to 80 s. ``free``: (second, MiB that were free then)."""
    chapters = [synthetic.Chapter("healthy", 30), synthetic.Chapter("slow", 30), synthetic.Chapter("returned", 20)]
    story = synthetic.Story(chapters=chapters, rules=rules)
    chapters[1].fault()
    chapters[2].lift()
    story.expect = [expect("write.good", ">=", 0.99, ("slow",)), expect("acknowledged.lost", "==", 0)]
    if refused:
        chapters[1].write = REFUSED
    stored = Stored.of(story.history())
    stored.plan["disks_watched"] = True
    event(stored, -0.5, "disks.watched", places=[PLACE])
    for at, mib in free or [(float(second), 5000) for second in range(0, 80, 5)]:
        event(stored, at, "disks.free", free={PATH: mib * MIB})
    event(stored, 81.0, "disks.unwatched", last=T0 + 80 * S, because=None)
    return stored


def event(stored: Stored, at: float, kind: str, **more: Any) -> None:
    stored.events.append({"t": T0 + round(at * S), "wall": 0.0, "kind": kind, **more})


def judged(stored: Stored) -> Findings:
    return evaluate(stored.history())


FILLED = [(0.0, 5000), (30.0, 584), (35.0, 120), (40.0, 20)]


def test_a_foreign_file_that_fills_the_disk_is_no_weakness_and_is_named() -> None:
    found = judged(made(FILLED))
    assert found.outcome == "inconclusive"
    assert found.reasons[0].cause is Cause.DISK
    assert found.reasons[0].says == (
        f"The disk of {PATH} (data of the lab's nodes) has 120 MiB free, and 200 MiB are needed: "
        "make room there, or name another state folder with $OPENSEARCH_CHAOS_STATE (seen 35.0 s into the run)"
    )
    assert f"disk of {PATH}" in found.headline


def test_rules_1_and_a_run_that_did_not_sample_are_judged_as_before() -> None:
    assert judged(made(FILLED, rules=1)).outcome == "weakness"
    unsampled = made(FILLED)
    del unsampled.plan["disks_watched"]
    assert judged(unsampled).outcome == "weakness"


def test_enough_bytes_are_enough_however_full_the_disk_is() -> None:
    assert judged(made([(0.0, 584), (30.0, 200)])).outcome == "weakness"
    assert judged(made([(0.0, 584), (30.0, 200)], refused=False)).outcome == "pass"


def test_what_was_over_before_stands() -> None:
    """It is from the last look at which there was room that nothing counts."""
    stored = made([(59.0, 5000), (60.5, 20)])
    found = judged(stored)
    assert found.findings[0].verdict == "inconclusive"  # the phase ended after that look
    later = made([(60.0, 5000), (60.5, 20)])
    first = judged(later).findings[0]
    assert (first.verdict, first.counts_as) == ("fail", "weakness")


def test_it_is_the_last_look_that_counts_and_not_the_last_that_was_written_down() -> None:
    stored = made([(57.0, 5000), (62.0, 20)])
    assert judged(stored).findings[0].verdict == "inconclusive"
    stored.of_kind("disks.free")[-1]["since"] = T0 + 61 * S  # "slow" ends at 60 s
    assert judged(stored).findings[0].verdict == "fail"


def test_a_watch_that_is_missing_is_no_pass() -> None:
    stored = made(refused=False)
    stored.drop("disks.watched", "disks.free", "disks.unwatched")
    found = judged(stored)
    assert found.outcome == "inconclusive"
    assert found.reasons[0].says == "Nobody watched how full this machine's disks were"


def test_a_watch_that_broke_is_no_pass() -> None:
    stored = made(refused=False)
    stored.of_kind("disks.unwatched")[0]["because"] = "OSError: stale handle"
    assert judged(stored).outcome == "inconclusive"


def test_lost_writes_on_a_disk_that_others_filled_are_not_laid_at_the_cluster_s_door() -> None:
    stored = made(FILLED)
    assert stored.readback is not None
    stored.readback |= {"lost": ["w-1"], "lost_count": 1}
    assert judged(stored).outcome == "inconclusive"


def test_a_node_that_ended_by_itself_on_a_full_disk_is_no_weakness() -> None:
    end = {"what": "node", "name": "a-data", "node": "a-data", "exit_code": 1, "signal": None, "commanded": False}
    for at, outcome in ((20.0, "weakness"), (50.0, "inconclusive")):
        stored = made(FILLED, refused=False)
        event(stored, at, "process.ended", **end, how="itself", log_tail=[])
        found = judged(stored)
        assert found.outcome == outcome, [reason.says for reason in found.reasons]


# ---- the block that OpenSearch sets ----------------------------------------------------------------------


def blocked(stored: Stored, since: float = 38.0, t: float = 40.0) -> Stored:
    event(stored, t, "disks.blocked", blocked=True, since=T0 + round(since * S))
    return stored


def test_a_block_that_no_fault_explains_is_not_the_lab_s_cluster_s() -> None:
    found = judged(blocked(made()))
    assert found.outcome == "inconclusive"
    assert "read_only_allow_delete" in found.reasons[0].says
    assert "no fault of this run fills a disk" in found.reasons[0].says


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("disk.full", "fill the disk of node b-data beyond the flood watermark"),
        ("settings.change", "set cluster.routing.allocation.disk.watermark.flood_stage = 1% on the cluster"),
        ("settings.change", "set blocks.read_only_allow_delete = true on the load's index"),
    ],
)
def test_a_block_that_a_fault_of_ours_explains_is_that_fault(kind: str, says: str) -> None:
    stored = blocked(made())
    event(stored, 20.0, "fault.command", fault="f1", fault_kind=kind, says=says, targets=["b-data"])
    assert not [reason for reason in judged(stored).reasons if reason.cause is Cause.DISK]
    late = blocked(made())
    event(late, 50.0, "fault.command", fault="f1", fault_kind=kind, says=says, targets=["b-data"])
    assert [reason for reason in judged(late).reasons if reason.cause is Cause.DISK]


def test_a_cluster_that_exists_has_a_disk_of_its_own() -> None:
    stored = blocked(made())
    stored.plan["lab"]["kind"] = "existing"
    found = judged(stored)
    assert found.outcome == "weakness"
    assert found.reasons[0].cause is Cause.DISK
    assert found.reasons[0].says.startswith("A disk of the cluster is beyond the flood stage")
    harmless = blocked(made(refused=False))
    harmless.plan["lab"]["kind"] = "existing"
    assert judged(harmless).outcome == "pass"


@pytest.mark.parametrize("kind", ["disk.slow", "disk.stall", "disk.read_only", "disk.errors", "disk.power_loss"])
def test_a_fault_on_a_disk_that_does_not_fill_it_explains_no_block(kind: str) -> None:
    stored = blocked(made())
    event(
        stored,
        20.0,
        "fault.command",
        fault="f2",
        fault_kind=kind,
        says="the disk of b-data is slow",
        targets=["b-data"],
    )
    assert [reason for reason in judged(stored).reasons if reason.cause is Cause.DISK]


@pytest.mark.parametrize(("gone", "explained"), [(77.0, True), (14.0, False)])
def test_a_full_disk_that_was_emptied_explains_a_block_for_a_minute(gone: float, explained: bool) -> None:
    stored = blocked(made(), since=76.0, t=78.0)
    event(stored, 10.0, "fault.command", fault="f2", fault_kind="disk.full", says="fill the disk", targets=["b-data"])
    event(stored, gone - 1.0, "fault.undo", fault="f2")
    event(stored, gone, "fault.gone", fault="f2")
    assert (not [reason for reason in judged(stored).reasons if reason.cause is Cause.DISK]) is explained


def test_a_block_before_the_disk_ran_short_is_not_passed_over() -> None:
    """It is from the block on that nothing counts, and not from when the disk of this machine was short at last."""
    stored = blocked(made([(0.0, 5000), (70.0, 5000), (75.0, 20)]))
    found = judged(stored)
    assert "read_only_allow_delete" in found.reasons[0].says
    assert found.findings[0].verdict == "inconclusive"
    first = judged(blocked(made(FILLED), since=50.0, t=52.0))
    assert first.reasons[0].says.startswith(f"The disk of {PATH}")
