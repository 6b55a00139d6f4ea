"""Room on disks: what is reckoned covers what real runs wrote, and too little of it is refused in one line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import ROOT

from chaos.base.errors import InvalidInput
from chaos.definitions import Experiment
from chaos.history import History
from chaos.history.format import ARRIVAL, SCHEDULED
from chaos.registry import load_experiment
from chaos.run import space
from chaos.run.space import MIB, Need, Wanted

STORED = [ROOT / "reports" / "sample", ROOT / "tests" / "unit" / "data" / "zone-network-slowdown"]


def experiment(name: str, **changes: Any) -> Experiment:
    return load_experiment(ROOT / "experiments" / f"{name}.yaml").model_copy(update=changes)


# ---- what is reckoned ------------------------------------------------------------------------------------


@pytest.mark.parametrize("run", STORED, ids=lambda run: run.name)
def test_the_bytes_cover_what_real_runs_wrote(run: Path) -> None:
    frame = History.open(run).arrivals
    seconds = (frame.intended.max() - frame.intended.min()) / 1e9
    nodes = len(json.loads((run / "plan.json").read_text())["topology"]["nodes"])
    written = {file.name: file.stat().st_size for file in (run / "history").iterdir()}
    assert ARRIVAL.itemsize + SCHEDULED.itemsize + written["arrivals.parquet"] / len(frame) < space.ARRIVAL_BYTES
    own = (written["events.jsonl"] + written["driver.jsonl"]) / seconds
    assert own < space.SECOND_BYTES + nodes * space.SECOND_NODE_BYTES
    rest = [file for file in run.iterdir() if file.is_file()]
    assert sum(file.stat().st_size for file in rest) < space.FIXED_BYTES
    assert len(rest) + len(written) < space.RECORD_FILES


def test_the_longest_that_a_plan_allows_counts_with_its_deadlines_and_its_guard() -> None:
    plain = experiment("no-fault")
    beside = space.BEFORE_SECONDS + space.AFTER_SECONDS
    assert not any(phase.inject or phase.do or phase.undo for phase in plain.phases)
    assert space.longest_seconds(plain) == beside + sum(float(phase.longest) for phase in plain.phases)
    slow = experiment("zone-network-slowdown")  # three of its phases begin with steps, the last is a deadline
    whole = sum(float(phase.longest) for phase in slow.phases)
    assert whole > 180 and space.longest_seconds(slow) == beside + whole + 3 * space.STEP_SECONDS
    short = slow.guards.model_copy(update={"max": type(slow.guards.max)(100)})
    assert space.longest_seconds(slow.model_copy(update={"guards": short})) == beside + 100
    in_python = slow.model_copy(update={"phases": ()})  # its phases are made by the test
    assert space.longest_seconds(in_python) == beside + float(slow.guards.max)


def test_what_a_plan_asks_for_more_needs_more_room() -> None:
    plain = experiment("zone-network-slowdown")
    load = plain.load
    read, write = load.operations
    many = write.model_copy(update={"rate": type(write.rate)(5000)})
    faster = plain.model_copy(update={"load": load.model_copy(update={"operations": (read, many)})})
    data = experiment("data-promises")
    fewer = data.model_copy(update={"load": data.load.model_copy(update={"cas": None})})
    fewest = data.model_copy(update={"load": data.load.model_copy(update={"cas": None, "visibility": None})})
    steered = experiment("standby/active-zone-lost")
    alone = steered.model_copy(update={"controller": None})
    for less, more in ((plain, faster), (fewer, data), (fewest, fewer), (alone, steered)):
        assert space.of_record(less).bytes < space.of_record(more).bytes
    arrivals = (5000 - float(write.rate)) * space.longest_seconds(plain) * space.ARRIVAL_BYTES * space.MARGIN
    assert space.of_record(faster).bytes - space.of_record(plain).bytes == pytest.approx(arrivals, abs=2)
    assert space.of_lab(faster).bytes > space.of_lab(plain).bytes + 4950 * 800 * 3 * space.DOCUMENT_BYTES


def test_disks_of_nodes_are_allocated_whole_and_a_docker_lab_s_data_lies_elsewhere() -> None:
    full = experiment("disk-stall")
    assert full.topology.disks is not None
    disks = int(full.topology.disks.size) * len(full.topology.nodes)
    assert space.of_lab(full).bytes > disks == space.of_lab(full, "docker").bytes
    assert space.of_lab(experiment("no-fault"), "docker") == Need()


def test_a_services_disk_is_allocated_whole_too() -> None:
    full = experiment("remote-store/store-disk-full")
    bare = full.topology.services["store"].model_copy(update={"disk": None})
    without = full.model_copy(update={"topology": full.topology.model_copy(update={"services": {"store": bare}})})
    assert space.of_lab(full).bytes - space.of_lab(without).bytes == int(full.topology.service_disks["store"])


def test_what_the_nodes_watermarks_need_is_looked_for_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plain, own = experiment("no-fault"), experiment("disk-stall")
    with_room = space.of_topology(plain.topology).bytes
    monkeypatch.setattr(space.watermarks, "needed", lambda topology, total: 0)
    assert with_room - space.of_topology(plain.topology).bytes == 200 * MIB
    monkeypatch.undo()
    nodes = space.of_topology(own.topology).bytes - space.of_topology(own.topology, "docker").bytes
    assert nodes == space.MARGIN * space.NODE_BYTES * len(own.topology.nodes)  # its disks are its own
    monkeypatch.setattr("chaos.targets.kinds.docker.Docker.data_folder", lambda self: tmp_path)
    _, _, engine = space.wanted([plain], tmp_path, kind="docker")
    assert (engine.what, engine.folder) == ("data of its lab", tmp_path)
    assert engine.need.bytes == space.of_engine(plain, 1).bytes > 200 * MIB


def test_records_add_up_and_labs_come_one_after_the_other(tmp_path: Path) -> None:
    both = [experiment("no-fault"), experiment("zone-network-slowdown")]
    records, lab = space.wanted(both, tmp_path, times=5)
    assert records.need.bytes == 5 * sum(space.of_record(each).bytes for each in both)
    assert records.need.files == 10 * space.RECORD_FILES and records.what == "the records of 10 runs"
    assert lab.need.bytes == max(space.of_lab(each).bytes for each in both)
    assert [each.what for each in space.wanted(both[:1], tmp_path, own_lab=False)] == ["the run's record"]


# ---- what is refused -------------------------------------------------------------------------------------


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``free(bytes, files, of)``: what every file system says that it has left; 0 files of 0 are not counted."""

    def says(count: int, files: int = 10**6, of: int = 10**7) -> None:
        answer = SimpleNamespace(f_bavail=count // 4096, f_frsize=4096, f_favail=files, f_files=of)
        monkeypatch.setattr(os, "statvfs", lambda path: answer)

    return says


def test_too_little_room_is_refused_with_what_is_needed_what_is_there_and_what_to_do(tmp_path: Path, free: Any) -> None:
    wanted = [Wanted("the run's record", tmp_path / "a" / "b", Need(40 * MIB, 10), "choose another folder with --out")]
    free(40 * MIB)
    space.refuse_scarce(wanted)
    free(39 * MIB)
    with pytest.raises(InvalidInput) as raised:
        space.refuse_scarce(wanted)
    assert str(raised.value) == (
        f"the run's record (40 MiB) may need 40 MiB on the disk of {tmp_path}/a/b, and 39 MiB are free; "
        "choose another folder with --out"
    )
    assert not (tmp_path / "a").exists()


def test_what_lies_on_one_disk_is_added_up(tmp_path: Path, free: Any) -> None:
    wanted = [Wanted(what, tmp_path / what, Need(30 * MIB), "make room") for what in ("record", "lab")]
    free(59 * MIB)
    for each in wanted:
        space.refuse_scarce([each])
    with pytest.raises(InvalidInput, match=r"record \(30 MiB\) and lab \(30 MiB\) may need 60 MiB"):
        space.refuse_scarce(wanted)


def test_inodes_are_counted_where_the_file_system_counts_them(tmp_path: Path, free: Any) -> None:
    wanted = [Wanted("the run's record", tmp_path, Need(1, 100), "make room")]
    free(MIB, files=99)
    with pytest.raises(InvalidInput, match=r"may need 100 files .* and 99 are free"):
        space.refuse_scarce(wanted)
    free(MIB, files=0, of=0)
    space.refuse_scarce(wanted)


@pytest.mark.parametrize("below", ["", "deep/er"])
def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("")
    wanted = Wanted("the run's record", tmp_path / "file" / below, Need(), "choose another folder with --out")
    with pytest.raises(InvalidInput, match="is no folder; choose another folder with --out"):
        space.refuse_scarce([wanted])


@pytest.mark.parametrize(
    ("count", "shown"), [(600 * 1024, "600 KiB"), (MIB * 3 // 2, "1.5 MiB"), (42 * MIB, "42 MiB"), (2**31, "2.0 GiB")]
)
def test_bytes_for_people(count: int, shown: str) -> None:
    assert space.size(count) == shown


def test_temporary_files_need_room_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free: Any) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    free(16 * MIB)
    space.refuse_scarce([space.temporary()])
    free(15 * MIB)
    with pytest.raises(InvalidInput, match=r"temporary files .* 15 MiB are free; make room, or set \$TMPDIR"):
        space.refuse_scarce([space.temporary()])
