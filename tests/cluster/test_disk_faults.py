"""Every disk and zone fault on a real cluster whose nodes have disks: its measured effect, and that nothing stays."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from clusterkit import DATA, ROOT, failed, kept_lab_id, lifecycle, nothing_left

from chaos.base import paths
from chaos.definitions import Topology, load_topology
from chaos.faults.kinds.disk import DiskEvidence, PowerLossEvidence
from chaos.faults.ledger import registrations, standing
from chaos.observe.proof import problems
from chaos.opensearch.views import await_green, elected
from chaos.provision import loops
from chaos.registry import FAULTS, ready
from chaos.run.options import new_lab_id
from chaos.run.recovery import leftovers, recover
from chaos.targets.labs import cgroups, disks, network, provisioning, sweep, throttle
from chaos.targets.labs.local import LocalLab
from chaos.targets.labs.processes import wait_until
from chaos.targets.parts import Parts

pytestmark = pytest.mark.skipif(loops.lacking() is not None, reason=loops.lacking() or "")

PARTS = Parts("/home", "3.8.0", "x", "lib/*", "/java", "21", (), None, "/toxiproxy", "2.12.0")
CASES = [
    (kind, example) for kind, each in FAULTS.items() if each.family in ("disk", "zone") for example in each.examples
]


@contextmanager
def living(topology: Topology) -> Iterator[LocalLab]:
    """A lab that lives on whatever happens to its users."""
    lab = LocalLab.create(topology, provisioning.parts(topology), id=kept_lab_id(), lease=True)
    try:
        lab.up()
        (lab.folder / "leased").touch()
        yield lab
    finally:
        assert lab.down() == []
        assert disks.describe(lab.id) == []


@pytest.fixture(scope="module")
def disky() -> Iterator[LocalLab]:
    """The three-zone cluster whose nodes have disks, started once."""
    with living(load_topology("3az-disks", near=ROOT / "experiments" / "x.yaml")) as lab:
        yield lab


@pytest.fixture(scope="module")
def few() -> Iterator[LocalLab]:
    """The same with four nodes in place of six, for what ``make test`` shows: it is up sooner."""
    with living(load_topology(DATA / "few-disks.yaml")) as lab:
        yield lab


@contextmanager
def in_effect(lab: LocalLab, folder: Path, kind: str, **parameters) -> Iterator[None]:
    cycle = lifecycle(lab, folder)
    fault = ready("f1", FAULTS[kind](**parameters), lab, seed=1, elected=elected(lab))
    try:
        assert cycle.inject(fault), failed(folder, "effect")
        yield
    finally:
        gone = cycle.undo_all()
    assert gone, failed(folder, "gone")
    assert standing(folder / "ledger.jsonl") == []


def as_before(lab: LocalLab) -> None:
    assert await_green(lab, 150)[0]
    assert problems(lab) == []


@pytest.mark.parametrize(("kind", "parameters"), CASES, ids=lambda value: str(value)[:60])
@pytest.mark.full  # the conformance suite has one of each family
def test_a_fault_is_proven_and_then_proven_gone(disky, tmp_path, kind, parameters):
    with in_effect(disky, tmp_path, kind, **parameters):
        pass
    as_before(disky)


def test_the_frozen_disk_blocks_fsync_and_not_reads_and_no_other_disk(few, tmp_path):
    with in_effect(few, tmp_path, "disk.stall", target="node c-data"):
        assert few.disks.probe("c-data", "write", timeout=1).blocked
        assert few.disks.probe("c-data", "read", timeout=5).seconds is not None
        assert few.disks.probe("b-data", "write", timeout=5).seconds is not None
    as_before(few)


@pytest.mark.full
def test_slow_is_that_slow_while_the_node_writes_all_the_time(disky, tmp_path):
    """The evidence is the same as ever; here the node competes for the rate."""
    over = threading.Event()
    client = disky.client("a-data", timeout=30.0)
    body = {"settings": {"number_of_shards": 1, "number_of_replicas": 2}}
    assert client.request("PUT", "/sustained", body=body)[0] == 200
    written: list[int] = []

    def write() -> None:
        while not over.is_set():
            status, _ = client.request("PUT", f"/sustained/_doc/{len(written)}", body={"text": "x" * 2000})
            written.append(status)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert wait_until(lambda: len(written) > 5, 30)
        with in_effect(disky, tmp_path, "disk.slow", target="node c-data", write="128KiB/s"):
            count = len(written)
            assert wait_until(lambda: len(written) > count, 60)
    finally:
        over.set()
        writer.join()
        disky.client("a-data", timeout=30.0).request("DELETE", "/sustained")
    as_before(disky)


def test_a_full_disk_takes_no_growth_and_the_others_do(few, tmp_path):
    assert few.disks.probe("c-data", "write", timeout=5).seconds is not None  # so that there is a block to overwrite
    with in_effect(few, tmp_path, "disk.full", target="node c-data", to="enospc"):
        assert few.disks.probe("c-data", "grow", size=2**16, timeout=5).errno == errno.ENOSPC
        assert few.disks.probe("c-data", "write", timeout=5).seconds is not None  # in place
        assert few.disks.probe("b-data", "grow", size=2**16, timeout=5).seconds is not None
    as_before(few)


@pytest.mark.full
def test_a_node_is_lost_with_its_data_and_its_disk_stays(disky, tmp_path):
    with in_effect(disky, tmp_path, "node.loss", target="node c-data"):
        assert disky.disks.mounted("c-data")
    as_before(disky)


HOLDER = """
import sys, time
from pathlib import Path
from chaos.registry import FAULTS
from chaos.faults.ledger import Ledger, Registration
from chaos.faults.lifecycle import Lifecycle
from chaos.registry import ready
from chaos.history import EventWriter
from chaos.targets.labs.local import LocalLab
from chaos.base.paths import ProcessIdentity

lab, folder = LocalLab.attach(sys.argv[1]), Path(sys.argv[2])
Registration(folder.name, folder / "ledger.jsonl", lab.id, ProcessIdentity.me()).write()
cycle = Lifecycle(lab, Ledger(folder / "ledger.jsonl"), EventWriter(folder / "events.jsonl"))
kind, *given = sys.argv[3:]
proven = cycle.inject(ready("f1", FAULTS[kind](**dict(each.split("=") for each in given)), lab, seed=1, elected=None))
print("proven" if proven else "not proven", flush=True)
time.sleep(600)
"""


@contextmanager
def holder(lab: LocalLab, folder: Path, *arguments: str) -> Iterator[subprocess.Popen]:
    """Another process that holds a fault; killed with -9 when the block is left."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, lab.id, str(folder), *arguments], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        assert process.stdout.readline() == "proven\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_dead_holder_s_freeze_thaws_without_anybody_s_help(few, tmp_path):
    with holder(few, tmp_path, "disk.stall", "target=node c-data"):
        assert few.disks.probe("c-data", "write", timeout=1).blocked
    assert wait_until(lambda: few.disks.probe("c-data", "write", timeout=1).seconds is not None, 20)
    assert any("disk.freeze" in left.what for left in leftovers())  # the ledger still says so
    assert recover().clean
    assert nothing_left() == [] and registrations() == []
    as_before(few)


@pytest.mark.parametrize(
    "arguments",
    [
        ("disk.read_only", "target=node c-data"),
        ("disk.power_loss", "target=node c-data"),
        ("zone.power_loss", "zone=c"),
    ],
    ids=lambda arguments: arguments[0],
)
@pytest.mark.full
def test_what_a_dead_holder_did_to_nodes_is_recovered_on_a_lab_that_lives_on(disky, tmp_path, arguments):
    with holder(disky, tmp_path, *arguments):
        pass
    assert leftovers() and problems(disky)
    result = recover()
    assert result.clean, result.problems
    assert nothing_left() == []
    as_before(disky)


# ---- disks without a cluster on them: the same kernel, in seconds ---------------------------------


@pytest.fixture(scope="module")
def bare() -> Iterator[LocalLab]:
    """Hosts and disks of the three-zone topology, and no node on them."""
    topology = load_topology("3az-disks", near=ROOT / "experiments" / "x.yaml")
    lab = LocalLab.create(topology, PARTS, id=kept_lab_id(), lease=True)
    try:
        network.build(lab.wiring)
        lab.groups.build(topology.zones, {(node.zone, node.name): 1 for node in topology.nodes})
        lab.disks.build()
        (lab.folder / "leased").touch()
        yield lab
    finally:
        assert lab.down() == []
        assert disks.describe(lab.id) == []


def test_a_limit_that_was_there_before_is_there_again(bare):
    group = cgroups.hierarchies()["io"].root
    version, device = bare.groups.version("io"), bare.disks._loop("c-data").number
    if version == 2:
        pytest.skip("the root group of version 2 has no limits")
    throttle.set_limit(group, version, device, 2**30)
    try:
        for _ in range(2):
            bare.disks.throttle("c-data", "others", 2**20)
        assert throttle.limit(group, version, device) == 2**20
        for _ in range(2):
            LocalLab.attach(bare.id).disks.unthrottle("c-data", "others")
        assert throttle.limit(group, version, device) == 2**30
    finally:
        throttle.set_limit(group, version, device, None)


DISK_CASES = [(kind, example) for kind, example in CASES if kind.startswith("disk.")]


@pytest.mark.parametrize(("kind", "parameters"), DISK_CASES, ids=lambda value: str(value)[:60])
def test_a_disk_shows_the_fault_and_no_other_disk_does(bare, kind, parameters):
    """The moves and the part of the evidence that the disk alone can give; another process takes it back."""
    fault = ready("f1", FAULTS[kind](**parameters), bare, seed=1, elected=None)
    evidence = fault.evidence()
    others = [node.name for node in bare.topology.nodes if node.name not in fault.targets]
    assert DiskEvidence.before(evidence, bare).proven
    if isinstance(evidence, PowerLossEvidence):
        evidence.before(bare)
    assert not DiskEvidence.in_effect(evidence, bare).proven  # before anything is done
    if isinstance(evidence, PowerLossEvidence):
        evidence.before(bare)
    try:
        for each in fault.moves:
            each.move.apply(bare)
            each.move.apply(bare)  # idempotent
        look = DiskEvidence.in_effect(evidence, bare)
        assert look.proven, look.probes
        for name in others:
            assert all(probe.ok for probe in DiskEvidence([name])._well(bare, name))
    finally:
        for each in reversed(fault.moves):
            if each.inverse.operation != "node.start":
                each.inverse.apply(LocalLab.attach(bare.id))
                each.inverse.apply(bare)
    look = DiskEvidence.gone(DiskEvidence(fault.targets), bare)
    assert look.proven, look.probes
    evidence.close()
    assert bare.disks.problems() == []


def test_the_end_of_the_process_that_froze_a_disk_is_the_end_of_the_freeze(bare):
    code = (
        "import sys, time; from chaos.targets.labs.local import LocalLab;"
        "LocalLab.attach(sys.argv[1]).disks.freeze('c-data'); print('frozen', flush=True); time.sleep(600)"
    )
    freezer = subprocess.Popen([sys.executable, "-c", code, bare.id], stdout=subprocess.PIPE, cwd=ROOT)
    assert freezer.stdout.readline() == b"frozen\n"
    bare.disks.probe("b-data", "write", timeout=5)
    assert bare.disks.probe("c-data", "write", timeout=1).blocked
    assert bare.disks.probe("b-data", "write", timeout=5).seconds is not None
    freezer.kill()
    freezer.wait()
    freezer.stdout.close()
    assert wait_until(lambda: bare.disks.probe("c-data", "write", timeout=1).seconds is not None, 20)


@pytest.mark.parametrize(
    "arguments",
    [
        ("disk.stall", "target=node c-data"),
        ("disk.slow", "target=node c-data", "write=64KiB/s"),
        ("disk.full", "target=node c-data", "to=flood"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_what_a_dead_holder_did_to_disks_is_recovered_on_a_lab_that_lives_on(bare, tmp_path, arguments):
    with holder(bare, tmp_path, *arguments):
        pass
    assert leftovers()
    assert bool(bare.disks.problems()) == (arguments[0] != "disk.stall")  # which ends with its holder
    result = recover()
    assert result.clean, result.problems
    assert bare.disks.problems() == [] and not [left for left in leftovers() if left.lab == bare.id]


def test_a_lab_whose_disk_is_frozen_goes_away_all_the_same(bare):
    """A process that waits for the disk dies only when it is thawed: the sweep does that first."""
    topology = bare.topology
    lab = LocalLab.create(topology, PARTS, id=new_lab_id())
    network.build(lab.wiring)
    lab.disks.build()
    lab.disks.freeze("a-data")
    assert lab.disks.probe("a-data", "write", timeout=0.5).blocked
    assert lab.down() == []
    assert disks.describe(lab.id) == [] and not lab.folder.exists()


STAGES = ("image", "attached", "mounted", "frozen", "throttled")
MAKER = """
import os, signal, sys
from chaos.definitions import load_topology
from chaos.targets.labs import cgroups, diskfreeze, disks, network
from chaos.targets.labs.local import LocalLab
from chaos.targets.parts import Parts

stage, id, topology = sys.argv[1:]
parts = Parts("/home", "3.8.0", "x", "lib/*", "/java", "21", (), None, "/toxiproxy", "2.12.0")
lab = LocalLab.create(load_topology(topology), parts, id=id)
network.build(lab.wiring)
lab.groups.build(lab.topology.zones, {(node.zone, node.name): 1 for node in lab.topology.nodes})
die = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
if stage == "image":
    real = disks._call
    disks._call = lambda *command: die() if command[0] == "losetup" else real(*command)
if stage == "attached":
    disks.LocalDisks._mount = die
lab.disks.build()
if stage == "frozen":
    diskfreeze.freeze(str(lab.disks.path("a-data")))  # by hand: nobody thaws it
    assert lab.disks.probe("a-data", "write", timeout=0.5).blocked  # and somebody waits for it
if stage == "throttled":
    for whose in ("node", "others"):
        lab.disks.throttle("a-data", whose, 65536)
die()
"""


@pytest.mark.parametrize("manifest", [True, False], ids=["", "without a manifest"])
@pytest.mark.parametrize("stage", STAGES)
def test_a_maker_killed_at_any_moment_leaves_nothing_that_is_not_found(stage, manifest):
    id = new_lab_id()
    topology = ROOT / "topologies" / "3az-disks.yaml"
    made = subprocess.run([sys.executable, "-c", MAKER, stage, id, str(topology)], cwd=ROOT, check=False)
    assert made.returncode == -signal.SIGKILL
    folder = paths.labs() / id
    numbers = {loop.number for loop in disks.loops_below(folder)}
    assert bool(numbers) == (stage != "image")
    assert bool(disks.mounts_below(folder)) == (stage not in ("image", "attached"))
    if not manifest:
        (folder / "lab.json").unlink()
        os.utime(folder, (1, 1))  # a folder without a manifest is somebody's for its first seconds
    named = [left.what for left in sweep.leftovers() if left.lab == id]
    assert set(disks.describe(id)) <= set(named)

    result = recover()
    assert result.clean, result.problems
    assert id in result.removed and not folder.exists()
    assert disks.describe(id) == [] and not [left for left in sweep.leftovers() if left.lab == id]
    io = cgroups.hierarchies().get("io")
    if io is not None:
        assert not numbers & set(throttle.limited(io.root, io.version))


def test_the_disks_of_a_lab_are_there_once_and_hold_its_data_and_no_logs(few):
    nodes = [node.name for node in few.topology.nodes]
    assert len(disks.mounts_below(few.folder)) == len(disks.loops_below(few.folder)) == len(nodes)
    for node in nodes:
        total, available = few.disks.usage(node)
        assert available > 0.75 * total  # room enough before anything is filled
        assert few.log(node).stat().st_dev != few.disks.path(node).stat().st_dev
        stats = few.client(node).request("GET", "/_nodes/_local/stats/fs?filter_path=nodes.*.fs.total")[1]
        (fs,) = stats["nodes"].values()
        assert json.dumps(total) == json.dumps(fs["fs"]["total"]["total_in_bytes"])  # it is what the node writes to
