"""Disks of nodes: what is found by name, limits in both versions of control groups, and disk and zone faults."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fakes import PARTS, FakeLab, topology
from hypothesis import given
from hypothesis import strategies as st

from chaos.base.errors import FaultError, InvalidInput, LabError, Lacking
from chaos.definitions import load_topology
from chaos.definitions.steps import FaultParams, Scene
from chaos.faults.fault import Fault
from chaos.faults.kinds.disk import FullEvidence, PowerLossEvidence, RefusedEvidence, SlowEvidence, StallEvidence
from chaos.faults.lifecycle import Lifecycle
from chaos.faults.moves import Move
from chaos.provision import loops
from chaos.registry import FAULTS, load_experiment, ready
from chaos.targets.labs import diskfreeze, diskprobe, disks, network, sweep, throttle
from chaos.targets.labs.local import LocalLab
from chaos.targets.protocol import DiskAnswer

WELL, STUCK = DiskAnswer(seconds=0.001), DiskAnswer(blocked=True)
DISKS = topology("3az-disks")

# ---- found by name ------------------------------------------------------------------------------


def test_mounts_of_one_lab_and_of_no_other_deepest_last() -> None:
    mounts = (
        "/dev/loop0 /var/labs/ab/data/a-data ext4 rw 0 0\n"
        "/dev/loop1 /var/labs/ab-1/data/a-data ext4 rw 0 0\n"
        "/dev/loop2 /var/labs/ab/data/a\\040b\\134c/d ext4 rw 0 0\n"
        "/dev/loop3 /var/labs/ab ext4 rw 0 0\n"
        "broken\n"
    )
    found = disks.mount_points(mounts, Path("/var/labs/ab"))
    assert found == [Path("/var/labs/ab"), Path("/var/labs/ab/data/a-data"), Path("/var/labs/ab/data/a b\\c/d")]


@given(st.text(alphabet="a \t\n\\0", min_size=1, max_size=12))
def test_every_mount_point_is_read_as_it_was_escaped(name: str) -> None:
    escaped = name
    for character, code in (("\\", "\\134"), (" ", "\\040"), ("\t", "\\011"), ("\n", "\\012")):
        escaped = escaped.replace(character, code)
    assert disks.mount_points(f"/dev/x /labs/{escaped}z ext4 rw 0 0", Path("/labs")) == [Path(f"/labs/{name}z")]


@pytest.mark.parametrize(
    ("options", "read_only"),
    [
        ("rw,noatime,errors=remount-ro", False),
        ("ro,noatime,errors=remount-ro", True),
        ("rw,noatime,errors=remount-ro,emergency_ro", True),
    ],
)
def test_a_file_system_that_turned_read_only_is_known_by_its_options(options: str, read_only: bool) -> None:
    table = f"/dev/a /labs/a ext4 ro 0 0\n/dev/loop0 /labs/a\\040b ext4 {options} 0 0\n"
    assert disks.takes_no_writes(table, Path("/labs/a b")) is read_only
    assert not disks.takes_no_writes(table, Path("/labs"))
    assert disks.takes_no_writes(table, Path("/labs/a"))
    mounted_over = f"{table}/dev/b /labs/a ext4 rw 0 0\n"
    assert not disks.takes_no_writes(mounted_over, Path("/labs/a"))


def test_loop_devices_by_the_file_behind_them_even_when_that_is_deleted(tmp_path: Path) -> None:
    for name, backing in {
        "loop0": "/labs/ab/disks/a-data.img",
        "loop1": "/labs/ab/disks/b-data.img (deleted)",
        "loop2": "/labs/ab-1/disks/a-data.img",
        "loop3": None,
    }.items():
        (tmp_path / name / "loop").mkdir(parents=True)
        if backing is not None:
            (tmp_path / name / "loop" / "backing_file").write_text(f"{backing}\n")
    found = disks.loops_below(Path("/labs/ab"), tmp_path)
    assert [(loop.name, loop.backing.name) for loop in found] == [("loop0", "a-data.img"), ("loop1", "b-data.img")]


def test_what_a_dead_owner_left_is_named_even_without_a_lab_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("OPENSEARCH_CHAOS_STATE", str(tmp_path))
    monkeypatch.setattr(network, "namespaces", lambda prefix="": [])
    top = tmp_path / "labs"
    point, loop = top / "zz99" / "data" / "a-data", disks.Loop("loop7", top / "zz99" / "disks" / "a-data.img")
    monkeypatch.setattr(disks, "mounts_below", lambda folder: [point] if folder in point.parents else [])
    monkeypatch.setattr(disks, "loops_below", lambda folder: [loop] if folder in loop.backing.parents else [])
    assert disks.ids() == {"zz99"}
    assert [(left.what, left.lab) for left in sweep.leftovers()] == [
        (f"mount {point}", "zz99"),
        (f"loop device /dev/loop7 on {loop.backing}", "zz99"),
    ]


def test_emptying_leaves_what_a_disk_has_of_its_own(tmp_path: Path) -> None:
    for folder in ("lost+found", ".oschaos", "nodes/0"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "file").touch()
    assert disks.holds_data(tmp_path)
    disks.empty_folder(tmp_path)
    assert not disks.holds_data(tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir()) == [".oschaos", "lost+found"]


def test_a_lab_without_disks_says_why_and_which_topology_has_them(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("OPENSEARCH_CHAOS_STATE", str(tmp_path))
    lab = LocalLab.create(topology("3az"), PARTS, id="x1")
    assert "topology 3az gives its nodes no disks" in (lab.lacks("disks") or "")
    assert "3az-disks" in (lab.lacks("throttle") or "")
    lab.disks.require("a-data")  # nothing to miss
    other = LocalLab.create(DISKS, PARTS, id="x2")
    with pytest.raises(LabError, match="the disk of a-data is not mounted"):
        other.disks.require("a-data")


def test_a_machine_without_the_tools_says_which_package_brings_them(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(loops, "PATH", f":{tmp_path}")
    for tool in ("losetup", "mount"):
        (tmp_path / tool).touch()
    assert loops.lacking() == "mkfs.ext4, fsck.ext4 are missing: install e2fsprogs"


# ---- limits -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "shown", "written"),
    [
        (1, "8:0 1048576\n7:0 65536\n", "7:0 4096"),
        (2, "8:0 rbps=max wbps=1048576 riops=max wiops=max\n7:0 rbps=9 wbps=65536 riops=max wiops=max\n", None),
    ],
)
def test_a_limit_is_read_and_set_in_both_versions(tmp_path: Path, version: int, shown: str, written: str) -> None:
    file = tmp_path / throttle.FILES[version]
    file.write_text(shown)
    assert throttle.limit(tmp_path, version, "7:0") == 65536
    assert throttle.limit(tmp_path, version, "7:1") is None
    assert throttle.limited(tmp_path, version) == ["8:0", "7:0"]
    throttle.set_limit(tmp_path, version, "7:0", 4096)
    assert file.read_text() == (written or "7:0 wbps=4096")
    assert throttle.limit(tmp_path, version, "7:0") == 4096
    throttle.set_limit(tmp_path, version, "7:0", None)
    assert throttle.limit(tmp_path, version, "7:0") is None


def test_lifting_in_a_group_that_is_gone_is_no_error_and_limiting_there_is(tmp_path: Path) -> None:
    throttle.set_limit(tmp_path / "gone", 1, "7:0", None)
    with pytest.raises(OSError):
        throttle.set_limit(tmp_path / "gone", 1, "7:0", 4096)


# ---- a disk that is not mounted -----------------------------------------------------------------


@pytest.fixture
def unmounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> disks.LocalDisks:
    """Disks whose folders are there with nothing mounted on them; nothing here reaches the machine's own disk."""

    def never(*given: Any, **more: Any) -> None:
        raise AssertionError(f"the machine's own file system is touched: {given}")

    monkeypatch.setattr(disks.os, "posix_fallocate", never)
    monkeypatch.setattr(diskfreeze.fcntl, "ioctl", never)
    monkeypatch.setattr(disks.LocalDisks, "_spawn", never)
    lab = FakeLab("3az-disks")
    lab.folder = tmp_path
    found = disks.LocalDisks(lab, None)  # type: ignore[arg-type]
    found.path("c-data").mkdir(parents=True)
    return found


@pytest.mark.parametrize("do", [lambda found: found.freeze("c-data"), lambda found: found.fill("c-data", None)])
def test_a_disk_that_is_not_mounted_is_neither_frozen_nor_filled(unmounted: disks.LocalDisks, do: Any) -> None:
    with pytest.raises(LabError, match="the disk of c-data is not mounted"):
        do(unmounted)
    assert list(unmounted.path("c-data").iterdir()) == []


def test_one_that_is_unmounted_between_the_look_and_the_filler_is_not_filled(
    unmounted: disks.LocalDisks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disks.LocalDisks, "mounted", lambda self, node: True)
    with pytest.raises(LabError, match="the disk of c-data is not mounted"):
        unmounted.fill("c-data", None)
    assert list(unmounted.path("c-data").iterdir()) == []


def test_the_keeper_of_a_freeze_refuses_a_folder_that_nothing_is_mounted_on(unmounted: disks.LocalDisks) -> None:
    with pytest.raises(OSError, match="nothing is mounted there"):
        diskfreeze.freeze(str(unmounted.path("c-data")))
    diskfreeze.thaw(str(unmounted.path("c-data")))  # and thaws nothing of others


# ---- the probe ----------------------------------------------------------------------------------


def asked(tmp_path: Path, do: str, **more: Any) -> dict[str, Any]:
    (tmp_path / "stat").write_text("1 0 8 0 1 0 16 0 0 0 0\n")
    file = str(tmp_path / "o" / "probe-data")
    return {"do": do, "file": file, "size": 8192, "count": 2, "sync": True, "stat": str(tmp_path / "stat"), **more}


def test_a_probe_writes_grows_marks_reads_and_tidies(tmp_path: Path) -> None:
    assert diskprobe.measure(asked(tmp_path, "write"))["seconds"] > 0
    assert (tmp_path / "o" / "probe-data").stat().st_size == 8192  # in place
    diskprobe.measure(asked(tmp_path, "sync"))
    diskprobe.measure(asked(tmp_path, "grow", file=str(tmp_path / "o" / "probe-growth")))
    assert not (tmp_path / "o" / "probe-growth").exists()
    diskprobe.measure(asked(tmp_path, "mark", token="t7"))
    assert diskprobe.measure(asked(tmp_path, "read"))["text"] == "synced t7\nunsynced t7\n"
    (tmp_path / "o" / "filler").touch()
    diskprobe.measure(asked(tmp_path, "tidy"))
    assert [each.name for each in (tmp_path / "o").iterdir()] == ["filler"]


def test_a_probe_says_what_it_was_refused_with(tmp_path: Path) -> None:
    given = asked(tmp_path, "read", file=str(tmp_path / "missing"))
    done = subprocess.run(
        [sys.executable, "-I", "-S", diskprobe.__file__, json.dumps(given)], capture_output=True, text=True, check=True
    )
    started, said = done.stdout.splitlines()
    assert started == "started" and json.loads(said) == {"errno": errno.ENOENT}
    assert str(DiskAnswer(errno=errno.ENOENT)) == "refused: No such file or directory"


# ---- the faults as data -------------------------------------------------------------------------

CASES = [
    (kind, example) for kind, each in FAULTS.items() if each.family in ("disk", "zone") for example in each.examples
]


def scene(**more: Any) -> Scene:
    return Scene.of(DISKS, 1, "f1", **more)


def params(kind: str, **given: Any) -> FaultParams:
    return FAULTS[kind].model_validate(given)


def built(lab: FakeLab, kind: str, **given: Any) -> Fault:
    return ready("f1", params(kind, **given), lab, seed=1, elected=None)


@pytest.mark.parametrize(("kind", "example"), CASES, ids=lambda value: str(value)[:60])
def test_every_example_takes_back_what_it_does_and_twice_does_no_harm(
    kind: str, example: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chaos.providers.process.sleep", lambda seconds: None)
    lab = FakeLab("3az-disks")
    assert params(kind, **example).check(DISKS) == []
    fault = built(lab, kind, **example)
    for each in fault.moves:
        each.move.apply(lab)
    assert lab.effects
    for _ in range(2):
        for each in reversed(fault.moves):
            assert each.inverse is not None
            Move.from_json(json.loads(json.dumps(each.inverse.to_json()))).apply(lab)
    assert lab.effects == set()


def test_a_broken_disk_is_mended_before_its_node_starts() -> None:
    lab = FakeLab("3az-disks")
    fault = built(lab, "disk.power_loss", target="role data")
    for each in reversed(fault.moves):
        assert each.inverse is not None
        each.inverse.apply(lab)
    for node in fault.targets:
        assert [call for call, *rest in lab.calls if rest == [node]] == ["restore", "start"]


def test_a_zone_returns_group_after_group_in_the_order_given(monkeypatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("chaos.providers.process.sleep", waited.append)
    lab = FakeLab("3az-disks")
    fault = built(lab, "zone.power_loss", zone="b", return_order=["data", "cm"], return_gap="5s")
    for each in reversed(fault.moves):
        assert each.inverse is not None
        each.inverse.apply(lab)
    assert lab.calls == [("restore", "b-data"), ("start", "b-data"), ("restore", "b-cm"), ("start", "b-cm")]
    assert waited == [5.0]


def test_a_zone_of_a_topology_without_disks_is_killed_only() -> None:
    lab = FakeLab("3az")
    fault = built(lab, "zone.power_loss", zone="b")
    assert [each.move.operation for each in fault.moves] == ["nothing", "node.kill", "node.kill"]
    assert fault.needs == ("process",)
    fault.moves[0].inverse.apply(lab)  # type: ignore[union-attr]
    assert lab.calls == [("start", "b-cm"), ("start", "b-data")]
    assert "disks" in built(FakeLab("3az-disks"), "zone.power_loss", zone="b").needs


def test_one_node_that_does_not_come_back_does_not_keep_the_others() -> None:
    lab = FakeLab("3az")

    def fails(call: str, arguments: tuple[str, ...]) -> None:
        if arguments == ("b-cm",):
            raise LabError("no memory")

    lab.fails = fails
    with pytest.raises(FaultError, match="not every node came back: b-cm: no memory"):
        built(lab, "zone.power_loss", zone="b").moves[0].inverse.apply(lab)  # type: ignore[union-attr]
    assert ("start", "b-data") in lab.calls


@pytest.mark.parametrize(
    ("kind", "given", "same"),
    [
        ("zone.isolation", {}, ("network.drop", {"links": "around everything in zone c"})),
        ("zone.partition", {}, ("network.drop", {"links": "around zone c"})),
        (
            "zone.slowness",
            {"delay": "90ms"},
            ("network.latency", {"links": "around everything in zone c", "delay": "90ms"}),
        ),
    ],
)
def test_a_zone_fault_on_links_is_that_of_the_network_family(kind, given, same) -> None:
    lab = FakeLab()
    zone, other = built(lab, kind, zone="c", **given), built(lab, same[0], **same[1])
    assert (zone.moves, zone.links, zone.claims, zone.needs) == (other.moves, other.links, other.claims, other.needs)
    assert zone.kind == kind and "zone c" in zone.says
    assert any("client" in host for link in zone.links for host in link) == (kind != "zone.partition")


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (("disk.stall", {"target": "node c-data"}), ("node.kill", {"target": "node c-data"}), "the process of c-data"),
        (
            ("disk.errors", {"target": "zone c"}),
            ("disk.full", {"target": "role data", "to": "low"}),
            "the disk of c-data",
        ),
        (("zone.power_loss", {"zone": "c"}), ("disk.full", {"target": "role data", "to": "low"}), "the disk of c-data"),
        (("disk.full", {"target": "node c-data", "to": "low"}), ("node.kill", {"target": "node c-data"}), None),
        (("disk.stall", {"target": "node c-data"}), ("disk.stall", {"target": "node b-data"}), None),
    ],
)
def test_what_collides(one, other, both) -> None:
    common = params(one[0], **one[1]).claims(scene()) & params(other[0], **other[1]).claims(scene())
    assert common == (frozenset() if both is None else frozenset({both}) & common) and bool(common) == bool(both)


# ---- evidence -----------------------------------------------------------------------------------


def answering(**answers: DiskAnswer) -> FakeLab:
    lab = FakeLab("3az-disks")
    lab.disks.answers = {("c-data", do): answer for do, answer in answers.items()}
    return lab


@pytest.mark.parametrize(
    ("answers", "proven"),
    [
        ({"write": STUCK, "read": WELL}, True),
        ({"write": WELL, "read": WELL}, False),  # the freeze did not come
        ({"write": STUCK, "read": STUCK}, False),  # more than the writes stands still
        ({"write": DiskAnswer(errno=errno.EIO), "read": WELL}, False),
    ],
)
def test_a_stall_blocks_writes_and_only_writes(answers, proven) -> None:
    assert StallEvidence(["c-data"]).in_effect(answering(**answers)).proven is proven
    assert StallEvidence(["c-data"]).gone(answering(**answers)).proven is (answers["write"] == answers["read"] == WELL)


@pytest.mark.parametrize("number", [errno.EROFS, errno.EIO])
def test_another_error_than_the_asked_one_proves_nothing(number: int) -> None:
    refused = DiskAnswer(errno=number)
    for expected in (errno.EROFS, errno.EIO):
        evidence = RefusedEvidence(["c-data"], expected, reads=expected == errno.EROFS)
        read = WELL if expected == errno.EROFS else refused
        assert evidence.in_effect(answering(write=refused, read=read)).proven is (number == expected)
    assert not RefusedEvidence(["c-data"], errno.EIO, reads=False).in_effect(answering(write=refused)).proven


@pytest.mark.parametrize(
    ("least", "below", "used", "grow", "proven"),
    [
        (0.95, None, 0.97, WELL, True),
        (0.95, None, 0.94, WELL, False),
        (0.85, 0.90, 0.91, WELL, False),  # beyond the next watermark is another experiment
        (0.85, 0.90, 0.87, WELL, True),
        (0.95, None, 0.97, DiskAnswer(errno=errno.ENOSPC), False),
        (None, None, 1.0, DiskAnswer(errno=errno.ENOSPC), True),
        (None, None, 1.0, WELL, False),
    ],
)
def test_full_is_as_full_as_asked(least, below, used, grow, proven) -> None:
    lab = answering(grow=grow)
    lab.disks.used["c-data"] = used
    assert FullEvidence(["c-data"], least, below).in_effect(lab).proven is proven
    lab.disks.used["c-data"] = 0.1
    assert FullEvidence(["c-data"], least, below).before(lab).proven is (grow is WELL)


@pytest.mark.parametrize(
    ("seconds", "device", "sync", "proven"),
    [
        (2.0, 131072, 0.5, True),
        (4.0, 262144, 0.5, True),  # the node wrote as much as we did
        (4.0, 131072, 0.5, False),  # slower than asked
        (0.5, 131072, 0.5, False),  # faster than asked
        (2.0, 131072, 0.01, False),  # write-back by another process escapes
        (None, 0, 0.5, False),
    ],
)
def test_slow_is_as_slow_as_asked(seconds, device, sync, proven) -> None:
    answer = DiskAnswer(seconds=seconds, device_bytes=device, blocked=seconds is None)
    lab = answering(write=answer, sync=DiskAnswer(seconds=sync))
    assert SlowEvidence(["c-data"], 65536).in_effect(lab).proven is proven


def test_a_disk_that_is_slow_before_proves_nothing() -> None:
    assert not SlowEvidence(["c-data"], 65536).before(answering(write=DiskAnswer(seconds=1.9))).proven
    assert SlowEvidence(["c-data"], 65536).before(answering()).proven


@pytest.mark.parametrize(
    ("text", "proven"),
    [
        ("synced {t}\n", True),
        ("synced {t}\nunsynced {t}\n", False),
        ("", False),
        ("unsynced {t}\n", False),
        ("synced x\n", False),
    ],
)
def test_a_power_loss_loses_exactly_what_was_not_fsynced(text: str, proven: bool) -> None:
    evidence = PowerLossEvidence(["c-data"])
    answer = DiskAnswer(seconds=0.001, text=text.format(t=evidence._token))
    assert all(probe.ok for probe in evidence._shown(answering(read=answer), "c-data")) is proven


def test_a_disk_that_is_not_there_proves_nothing_and_raises_nothing(monkeypatch) -> None:
    lab = answering()

    def fails(node: str, do: str, **given: Any) -> DiskAnswer:
        raise LabError(f"the disk of {node} is not mounted")

    monkeypatch.setattr(lab.disks, "probe", fails)
    look = StallEvidence(["c-data"]).gone(lab)
    assert not look.proven and "not mounted" in look.probes[0].measured


def test_a_lab_without_disks_is_told_before_anything_happens(tmp_path: Path) -> None:
    from fakes import Log

    from chaos.faults.ledger import Ledger

    lab = FakeLab("3az-disks")
    lab.missing["disks"] = "no disks here"
    with pytest.raises(Lacking, match=r"disk\.stall: no disks here"):
        built(lab, "disk.stall", target="node c-data")
    del lab.missing["disks"]
    fault = built(lab, "disk.stall", target="node c-data")
    lab.missing["disks"] = "no disks any more"
    with pytest.raises(FaultError, match=r"disk\.stall: no disks any more"):
        Lifecycle(lab, Ledger(tmp_path / "l"), Log()).inject(fault)
    assert lab.calls == []


# ---- definitions --------------------------------------------------------------------------------

EXPERIMENT = """\
apiVersion: opensearch-chaos/v1
name: x
topology: {topology}
load: {{write: {{rate: 50/s, good: ok within 100ms}}}}
phases:
  healthy: {{for: 20s}}
  broken: {{for: 20s, inject: {{{fault}}}}}
expect: [{{acknowledged.lost: 0}}]
"""


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("disk.stall: {target: node b-data}", None),
        ("disk.full: {target: node b-data}", "expected either to"),
        ("disk.full: {target: node b-data, to: low, fill: 50%}", "expected either to"),
        ("disk.full: {target: node b-data, fill: 100%}", "no share to fill"),
        ("disk.slow: {target: node b-data, write: 1KiB/s}", "less than one block a second"),
        ("zone.power_loss: {zone: d}", "zone d is not in topology 3az-disks"),
        ("zone.power_loss: {zone: b, return_order: [date]}", "no nodes of group date"),
        ("zone.power_loss: {zone: b, return_order: [cm, cm]}", "named twice"),
        ("zone.power_loss: {zone: b, return_gap: 5s}", "return_gap needs an order"),
        ("zone.slowness: {zone: b, delay: 5ms, jitter: 1s}", "jitter"),
    ],
)
def test_what_is_wrong_is_said_at_plan_time(tmp_path: Path, fault: str, says: str | None) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(
        EXPERIMENT.format(topology=Path(__file__).parents[3] / "topologies" / "3az-disks.yaml", fault=fault)
    )
    if says is None:
        assert load_experiment(file).topology.disks is not None
        return
    with pytest.raises(InvalidInput) as raised:
        load_experiment(file)
    assert says in str(raised.value) and "x.yaml:7" in str(raised.value)


def test_a_disk_fault_on_a_topology_without_disks_names_one_that_has_them(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    where = Path(__file__).parents[3] / "topologies" / "3az.yaml"
    file.write_text(EXPERIMENT.format(topology=where, fault="disk.stall: {target: node b-data}"))
    with pytest.raises(InvalidInput, match=r"disk\.stall needs nodes with disks .* for example 3az-disks"):
        load_experiment(file)


def test_a_disk_too_small_for_a_node_is_refused(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "topologies" / "3az-disks.yaml").read_text()
    file = tmp_path / "3az-disks.yaml"
    file.write_text(text.replace("256MiB}      #", "64MiB}      #"))
    with pytest.raises(InvalidInput, match="a disk of 64MiB leaves no room to start: expected 128MiB or more"):
        load_topology(file)


# ---- a service's disk ---------------------------------------------------------------------------

STORE = topology("3az-remote-disk")


def of_store(kind: str, **given: Any) -> FaultParams:
    return params(kind, service="store", **given)


@pytest.mark.parametrize(
    ("kind", "given", "moves"),
    [
        ("disk.full", {"to": "enospc"}, [("fill", "store"), ("empty", "store")]),
        ("disk.stall", {}, [("freeze", "store"), ("thaw", "store")]),
        ("disk.read_only", {}, [("make_read_only", "store"), ("restore", "store")]),
        ("disk.errors", {}, [("fail", "store"), ("restore", "store")]),
    ],
)
def test_a_fault_of_a_services_disk_moves_that_disk_alone_and_names_no_node(
    kind: str, given: dict[str, Any], moves: list[tuple[str, str]]
) -> None:
    lab = FakeLab("3az-remote-disk")
    fault = ready("f1", of_store(kind, **given), lab, seed=1, elected=None)
    for each in fault.moves:
        each.move.apply(lab)
    assert lab.effects
    for each in reversed(fault.moves):
        assert each.inverse is not None
        each.inverse.apply(lab)
    assert lab.calls == moves and lab.effects == set()
    assert fault.targets == () and fault.claims == {"the disk of store"}
    assert "service store" in fault.says


def test_a_services_disk_is_proven_by_measurements_on_it_and_not_by_a_node_that_restarts() -> None:
    lab = FakeLab("3az-remote-disk")
    look = ready("f1", of_store("disk.read_only"), lab, seed=1, elected=None).evidence()
    assert look.before(lab).proven and not look.in_effect(lab).proven
    refused = DiskAnswer(errno=errno.EROFS)
    lab.disks.answers["store", "write"] = refused
    lab.disks.make_read_only("store")
    shown = look.in_effect(lab)
    assert shown.proven and "store" in shown.says
    assert look.held(lab).proven and not look.gone(lab).proven
    assert all("disk of store" in probe.what or "process of" in probe.what for probe in look.held(lab).probes)
    lab.disks.answers.clear()
    lab.disks.restore("store")
    lab.states["a-data"] = None  # whatever a node does: nothing restarts with this disk
    assert look.gone(lab).proven


def test_no_node_is_expected_to_leave_because_a_stores_disk_stalls() -> None:
    assert params("disk.stall", target="node c-data").noticed == "by checks of the disk"
    assert of_store("disk.stall").noticed == "hardly"


@pytest.mark.parametrize(
    ("kind", "given", "on", "says"),
    [
        ("disk.stall", {"service": "store"}, "3az-remote-fs", "gives store none: expected services: {store: {kind: fs"),
        ("disk.stall", {"service": "stor"}, "3az-remote-disk", "no service stor in topology 3az-remote-disk: did you"),
        ("disk.stall", {"service": "store"}, "3az-disks", "no service store in topology 3az-disks: it has no service"),
        ("disk.stall", {"target": "node c-data"}, "3az-remote-disk", "gives them none: expected one with `disks`"),
        ("disk.slow", {"service": "store", "write": "64KiB/s"}, "3az-remote-disk", "all nodes write to a service's"),
        ("disk.power_loss", {"service": "store"}, "3az-remote-disk", "is for disks of nodes: it kills the node"),
    ],
)
def test_what_cannot_be_done_to_a_disk_is_refused_by_name(kind: str, given: Any, on: str, says: str) -> None:
    fault = params(kind, **given)
    (wrong,) = fault.check(topology(on))
    assert says in wrong
    if fault.model_dump().get("service"):
        with pytest.raises(InvalidInput, match=kind):
            ready("f1", fault, FakeLab(on), seed=1, elected=None)


@pytest.mark.parametrize("given", [{}, {"target": "node c-data", "service": "store"}])
def test_a_disk_is_a_nodes_or_a_services(given: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"expected either target .* or service"):
        params("disk.stall", **given)


def test_the_normal_form_of_a_fault_of_nodes_is_as_it_was() -> None:
    form = params("disk.stall", target="node c-data").model_dump(mode="json", by_alias=True)
    assert set(form) == {"kind", "name", "target"}
    assert of_store("disk.stall").model_dump(mode="json", by_alias=True) == {
        "kind": "disk.stall",
        "name": None,
        "service": "store",
    }


def test_a_lab_knows_the_disks_of_nodes_and_of_services_by_name(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("OPENSEARCH_CHAOS_STATE", str(tmp_path))
    lab = LocalLab.create(STORE, PARTS, id="x3")
    assert lab.disks.sizes == {"store": 256 * 2**20}
    assert lab.disks.path("store") == lab.service("store").folder
    assert lab.disks.path("a-data") == lab.folder / "data" / "a-data"
    assert lab.lacks("disks") is None or "no disks" not in (lab.lacks("disks") or "")
    with pytest.raises(LabError, match="the disk of store is not mounted"):
        lab.disks.require("store")
    lab.disks.require("a-data")
    assert set(LocalLab.create(DISKS, PARTS, id="x4").disks.sizes) == {node.name for node in DISKS.nodes}


@pytest.mark.parametrize(
    ("service", "says"),
    [
        ("{kind: s3, disk: 256MiB}", r":\d+:.*kind s3 keeps everything in memory: expected no disk, or the kind fs"),
        ("{kind: fs, disk: 1MiB}", "a disk of 1MiB leaves no room to start"),
    ],
)
def test_a_service_without_a_folder_has_no_disk_and_a_tiny_one_is_refused(
    tmp_path: Path, service: str, says: str
) -> None:
    text = (Path(__file__).parents[3] / "topologies" / "3az-remote-disk.yaml").read_text()
    file = tmp_path / "3az-remote-disk.yaml"
    file.write_text(text.replace("{kind: fs, disk: 256MiB}", service))
    with pytest.raises(InvalidInput, match=says):
        load_topology(file)
