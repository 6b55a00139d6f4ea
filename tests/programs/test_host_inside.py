"""Proofs of faults inside a host, against the real program and the kernel: shown, held, missed when it goes, gone.

``ssh`` is here a program that gives its words to a shell of this machine, or calls the program on a host of the tests'.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes import FakeLab
from hostkit import PROGRAM, PYTHON, Host, needs_a_host

from chaos.faults.evidence import Look, ProcessEvidence
from chaos.faults.kinds import resources
from chaos.faults.kinds.disk import FullEvidence, SlowEvidence
from chaos.faults.kinds.resources import StarvationEvidence
from chaos.targets.existing.hosts import Hosts, digest
from chaos.targets.existing.inside import TheirDisks, TheirGroups

pytestmark = [needs_a_host, pytest.mark.full]
MIB = 1 << 20
NODES = ("es-1",)
SSH = """#!/bin/sh
while [ "$1" != -- ]; do case "$1" in -O) exit 0;; esac; shift; done
shift 2
case "$1" in
sha256sum) echo {digest} x;;
sudo) exec {inside} {python} -IS {program} $4 --root {root};;
*) eval "$@";;
esac
"""


class Inside(FakeLab):
    """A lab whose node is on that host. The file names no hosts of the other nodes."""

    def __init__(self, hosts: Hosts) -> None:
        super().__init__()
        self.disks = TheirDisks(hosts)  # type: ignore[assignment]
        self.groups = TheirGroups(hosts)
        self.limits = self.groups.limits  # type: ignore[method-assign]
        self.processor_use = self.groups.processor_use


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    host = Host()
    given = {"inside": " ".join(host.inside), "python": PYTHON, "program": PROGRAM, "root": host.root}
    (tmp_path / "ssh").write_text(SSH.format(digest=digest(), **given))
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    yield host
    host.close()


@pytest.fixture
def lab(host: Host, tmp_path: Path) -> Iterator[Inside]:
    hosts = Hosts({"es-1": "host-1"}, None, tmp_path / "sockets")
    yield Inside(hosts)
    hosts.close()


@pytest.fixture
def disk(host: Host) -> Iterator[Path]:
    image, data = host.folder / "image", host.root / "data"
    with image.open("wb") as file:
        file.truncate(64 * MIB)
    mkfs = subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=False, capture_output=True)
    if mkfs.returncode or subprocess.run([*host.inside, "mount", "-o", "loop", image, data], check=False).returncode:
        pytest.skip("no loop device with ext4 can be had here")
    host.sh("chmod", "0777", str(data))
    yield Path(f"/proc/{host.inside[2]}/root{data}")
    host.sh("umount", str(data))


@pytest.mark.parametrize(
    ("given", "least", "below"),
    [({"leave_bytes": 0}, None, None), ({"share": 0.6}, 0.595, None), ({"share": 0.87}, 0.85, 0.9)],
)
def test_a_full_disk_is_proven_and_missed_when_its_filler_goes(
    host: Host, lab: Inside, disk: Path, given: dict[str, float], least: float | None, below: float | None
) -> None:
    evidence = FullEvidence(NODES, least, below)
    assert evidence.before(lab).proven and not evidence.in_effect(lab).proven
    host.begun("disk.full", **given)
    assert evidence.in_effect(lab).proven, evidence.in_effect(lab)
    still = evidence.still(lab)
    assert evidence.held(lab).proven and still is not None and still.proven and not evidence.gone(lab).proven
    (disk / ".oschaos-r1_f1").unlink()
    still = evidence.still(lab)
    assert not evidence.held(lab).proven and still is not None and not still.proven
    host.undone()
    assert evidence.gone(lab).proven
    assert [file.name for file in disk.iterdir()] == ["lost+found"]


@pytest.fixture
def grouped(host: Host) -> Iterator[Path]:
    """The node's process has a control group of its own for what it writes."""
    folder = Path("/sys/fs/cgroup/blkio") / f"host-test-{host.folder.name[-8:]}"
    if not folder.parent.is_dir():
        pytest.skip("this machine has no control groups of version 1")
    folder.mkdir()
    (folder / "cgroup.procs").write_text(str(host.pid))
    yield folder
    for pid in (folder / "cgroup.procs").read_text().split():
        (folder.parent / "cgroup.procs").write_text(pid)
    folder.rmdir()


def test_a_slow_disk_is_proven_and_missed_when_somebody_lifts_its_limit(
    host: Host, lab: Inside, disk: Path, grouped: Path
) -> None:
    evidence = SlowEvidence(NODES, 256 * 1024)
    evidence.by_others = False
    assert evidence.before(lab).proven and not evidence.in_effect(lab).proven
    host.begun("disk.slow", rate=256 * 1024, reads=False)
    device = (grouped / "blkio.throttle.write_bps_device").read_text().split()[0]
    assert (grouped / "blkio.throttle.read_bps_device").read_text() == ""
    assert evidence.in_effect(lab).proven, evidence.in_effect(lab)
    still = evidence.still(lab)
    assert evidence.held(lab).proven and still is not None and still.proven and not evidence.gone(lab).proven
    assert host.begin("disk.slow", id="f2", rate=1024, reads=False)["ok"] is False, "one at a time"
    (grouped / "blkio.throttle.write_bps_device").write_text(f"{device} 0")
    still = evidence.still(lab)
    assert not evidence.held(lab).proven and still is not None and not still.proven
    assert host.undo()["ok"]
    assert evidence.gone(lab).proven and (grouped / "blkio.throttle.write_bps_device").read_text() == ""


@pytest.fixture
def burning(host: Host) -> Iterator[Path]:
    """The node is a process that takes all it gets, in a control group of its own; where its quota is."""
    folders = [Path("/sys/fs/cgroup") / each for each in ("cpu", "cpuacct")]
    if not all(folder.is_dir() for folder in folders):
        pytest.skip("this machine has no control groups of version 1")
    burner = subprocess.Popen([PYTHON, "-c", "while True: pass"])
    host.config["nodes"]["es-1"]["user"] = "root"
    host.configure()
    host.pidfile.write_text(str(burner.pid))
    folders = [folder / f"host-test-{host.folder.name[-8:]}" for folder in folders]
    for folder in folders:
        folder.mkdir()
        (folder / "cgroup.procs").write_text(str(burner.pid))
    yield folders[0] / "cpu.cfs_quota_us"
    burner.kill()
    burner.wait()
    for folder in folders:
        folder.rmdir()


def test_a_quota_is_proven_and_missed_when_somebody_lifts_it(
    host: Host, lab: Inside, burning: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "ask_in_parallel", lambda *_: time.sleep(resources.WATCHED_SECONDS) or 1)
    monkeypatch.setattr(ProcessEvidence, "before", lambda self, lab: Look(True, "it runs"))
    evidence = StarvationEvidence(NODES, 0.2)
    assert evidence.before(lab).proven and not evidence.in_effect(lab).proven
    assert burning.read_text() == "-1\n"
    host.begun("cpu.limit", processors=0.2)
    assert evidence.in_effect(lab).proven, evidence.in_effect(lab)
    still = evidence.still(lab)
    assert evidence.held(lab).proven and still is not None and still.proven and not evidence.gone(lab).proven
    burning.write_text("-1")
    still = evidence.still(lab)
    assert not evidence.held(lab).proven and still is not None and not still.proven
    assert host.undo()["ok"]
    assert evidence.gone(lab).proven and burning.read_text() == "-1\n"
