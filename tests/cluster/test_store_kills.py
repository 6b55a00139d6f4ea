"""A runner, and a store, that are killed at random moments of a run on remote-backed storage: nothing is left.

Ten seeds each; those of the store begin at 10, since both tests are one series of ``benchmarks/kills.py``, ``store``.
Each run has a state folder of its own: whatever is left in it, or on this machine, is the run's. What the store's
credentials and objects are is read while the lab lives, so that the search for them afterwards can find something.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from clusterkit import ROOT, Cli, await_event, cli, end_all, events, findings, nothing_left, run_folder
from ruamel.yaml import YAML
from storekit import Known

from chaos.base import paths
from chaos.base.paths import ProcessIdentity
from chaos.faults.ledger import registrations
from chaos.targets.labs import base, cgroups, network, traces
from chaos.targets.labs.local import LocalLab
from chaos.targets.labs.processes import wait_until
from chaos.targets.wiring import NETNS_FOLDER

pytestmark = pytest.mark.full

EXPERIMENT = """apiVersion: opensearch-chaos/v1
name: store-kills
topology: small.yaml
load:
  documents: 100
  read:  {rate: 5/s, good: ok within 5s}
  write: {rate: 20/s, good: ok within 5s}
phases:
  steady:   {for: 12s}
  slow:     {for: 12s, inject: {network.latency: {links: around zone b, delay: 100ms}}}
  returned: {undo: network.latency, until: {green: true, stable: 3s, within: 60s}}
expect:
  - {acknowledged.lost: 0}
guards: {max: 5m}
"""
S3 = "3az-remote-store"
KINDS = {S3: "s3", "3az-remote-fs": "fs", "3az-remote-disk": "fs with a disk"}
"""Shipped topologies, and what their stores are."""
STORES = ("3az-remote-fs", S3, "3az-remote-disk", S3)
"""By seed, when the runner is killed: half of them keep objects in files, half in the memory of a process."""
CREDENTIALS = {"s3.client.default.access_key", "s3.client.default.secret_key"}
ENDED = re.compile(r"service store (was ended from outside \(SIGKILL\)|had ended|ended with 137)")
"""The words for a store that is gone: of the watch over processes, of an error while nobody watches yet, and of a lab
whose store does not come up."""
GONE_SECONDS = 30.0
"""How long processes may take to end by themselves once their runner is dead: a driver leaves requests their time."""


def stage(name: str) -> Callable[[dict[str, Any]], bool]:
    return lambda event: event["kind"] == "stage" and event["name"] == name


def phase(name: str) -> Callable[[dict[str, Any]], bool]:
    return lambda event: event["kind"] == "phase.start" and event["phase"] == name


@dataclass(frozen=True)
class Moment:
    """Somewhere within ``most`` seconds after ``begins``. ``written``: documents are in the store by then."""

    name: str
    begins: Callable[[dict[str, Any]], bool]
    most: float
    written: bool = True


START = Moment("lab-start", stage("lab start"), 20.0, written=False)
MOMENTS = (
    START,
    Moment("preload", stage("preload"), 8.0, written=False),
    Moment("steady", phase("steady"), 12.0),
    Moment("slow", phase("slow"), 12.0),
)
"""An odd number of moments with the last one of each test, so that each moment meets both kinds of stores."""
OF_RUNNER = (*MOMENTS, Moment("settle", stage("settle"), 3.0))
OF_STORE = (*MOMENTS, Moment("returned", phase("returned"), 3.0))
"""Once the lab is being taken away the end of its store is asked for."""


def small(shipped: str) -> dict[str, Any]:
    """A shipped topology with one cluster manager and two data nodes in two zones, which is up sooner."""
    topology: dict[str, Any] = YAML().load((ROOT / "topologies" / f"{shipped}.yaml").read_text())
    zones = ["a", "b"]
    topology |= {"name": "small", "zones": zones}
    topology["nodes"]["cm"]["zones"] = ["a"]
    topology["settings"]["node"]["cluster.routing.allocation.awareness.force.zone.values"] = zones
    topology["settings"]["index"] |= {"number_of_shards": 1, "number_of_replicas": 1}
    return topology


def taken() -> set[str]:
    """What labs take of this machine, whoever made them: namespaces, control groups, mounts, loop devices, tables of
    nftables."""
    found = {f"network namespace {name}" for name in network.namespaces()}
    found |= {f"control groups of {id}" for id in cgroups.ids()}
    points = {line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()}
    # the folder of namespaces is made a mount of its own once, by the first lab of a machine
    found |= {f"mount {point}" for point in points - {str(NETNS_FOLDER)}}
    for file in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):  # detached meanwhile
            found.add(f"loop device {file.parts[3]} on {file.read_text().strip()}")
    if nft := shutil.which("nft"):
        tables = subprocess.run([nft, "list", "tables"], capture_output=True, text=True, check=True).stdout
        found |= {f"nft {line}" for line in tables.splitlines()}
    return found


def alive(folder: Path) -> list[str]:
    """Processes that have to do with a folder: by their arguments, by where they work, or by their environment."""
    mine = {os.getpid(), *(each.pid for each in psutil.Process().parents())}
    found = []
    for pid in set(psutil.pids()) - mine:
        place = Path("/proc", str(pid))
        with suppress(OSError):
            said = place.joinpath("cmdline").read_bytes()
            about = said + place.joinpath("environ").read_bytes() + os.readlink(place / "cwd").encode()
            if str(folder).encode() in about:
                found.append(f"process {pid}: {said.replace(bytes(1), b' ').decode(errors='replace')[:120]}")
    return found


@dataclass(frozen=True)
class Room:
    """Where one run has its state, and what was taken of the machine before it."""

    state: Path
    before: set[str]

    def left(self, lab: str) -> list[str]:
        """Everything that is still there of a run and its lab; nothing may be."""
        found = nothing_left() + traces.of(lab) + alive(self.state)
        found += [f"registry entry {each.file}" for each in registrations()]
        found += [f"lab folder {folder}" for folder in paths.labs().glob("*")]
        return found + sorted(taken() - self.before)

    def kept(self, known: Known, out: Path) -> list[str]:
        """Objects, keystores and credentials in files: of the program's folders, and of the run's own."""
        return known.found_in(out, self.state, paths.lab_markers()) + known.named_in(paths.cache())


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Iterator[Room]:
    """A state folder that the nodes' own user can enter. What a test that failed leaves in it is taken away."""
    folder = Path(tempfile.mkdtemp(prefix="store-kills-"))
    folder.chmod(0o755)
    monkeypatch.setenv(paths.STATE_VARIABLE, str(folder / "state"))
    try:
        yield Room(folder / "state", taken())
    finally:
        end_all()
        code, output = cli("recover")
        assert code == 0, output
        shutil.rmtree(folder)


def begun(folder: Path, out: Path, shipped: str) -> Cli:
    """A short run, on a small lab with the store of a shipped topology."""
    with open(folder / "small.yaml", "w") as file:
        YAML().dump(small(shipped), file)
    experiment = folder / "store-kills.yaml"
    experiment.write_text(EXPERIMENT)
    return Cli("run", experiment, "--out", out)


def lab_of(out: Path) -> LocalLab:
    """The lab of a run that goes on, to be read and not to be touched: nothing of it is adopted."""
    return LocalLab(*base.read(json.loads(written(out, "plan.json"))["lab"]["id"]))


def written(out: Path, name: str) -> str:
    """A file of the only run in a folder."""
    folder = run_folder(out)
    assert folder is not None
    return (folder / name).read_text()


def refuse_unknown(known: Known, shipped: str, moment: Moment) -> None:
    """A search for what nobody knows finds nothing: so it must be known, from the time on at which it is there."""
    if shipped != S3:
        assert known.secrets == {}
    elif moment is not START:
        assert set(known.secrets) == CREDENTIALS and all(len(value) > 12 for value in known.secrets.values())
    assert known.objects or not moment.written


@pytest.mark.parametrize("seed", range(10))
def test_a_runner_killed_at_a_random_moment_leaves_nothing_of_its_store(
    room: Room, tmp_path: Path, out: Path, seed: int
) -> None:
    """``recover`` takes the lab away, as a user would have it done. Until then the lab lives on without a runner."""
    moment, shipped, known = OF_RUNNER[seed % len(OF_RUNNER)], STORES[seed % len(STORES)], Known()
    running = begun(tmp_path, out, shipped)
    await_event(running, out, moment.begins, 300)
    lab, after = lab_of(out), random.Random(seed).uniform(0.0, moment.most)
    known.learn(lab)
    time.sleep(after)
    assert running.process.poll() is None, f"it ended before its moment: {running.end()}"
    began = time.monotonic()
    running.process.kill()
    running.process.wait()
    known.learn(lab)
    assert nothing_left() != [] or moment.name == "settle"
    code, output = cli("recover")
    assert code == 0 and "could not" not in output, output
    assert wait_until(lambda: room.left(lab.id) == [], GONE_SECONDS, every=0.5), room.left(lab.id)
    seconds, what = time.monotonic() - began, f"runner, store {KINDS[shipped]}, second {after:.1f} of {moment.name}"
    print(f"seed {seed}, {what}: nothing of it active after {seconds:.1f} s")
    refuse_unknown(known, shipped, moment)
    assert room.kept(known, out) == []
    assert list(out.glob("*/.room-for-*")) == []  # what the dead runner had kept aside on the disk is free again


@pytest.mark.parametrize("seed", range(10, 20))
def test_a_store_killed_at_a_random_moment_ends_its_run_without_a_verdict(
    room: Room, tmp_path: Path, out: Path, seed: int
) -> None:
    """All that it keeps is gone with it. Once the load is on the run is inconclusive; before, an error may come first:
    nodes do not start, or documents are not written, and the error says why."""
    moment, known = OF_STORE[seed % len(OF_STORE)], Known()
    running = begun(tmp_path, out, S3)
    await_event(running, out, moment.begins, 300)
    lab, after = lab_of(out), random.Random(seed).uniform(0.0, moment.most)
    noted = lab.folder / "run" / "service-store.json"
    assert wait_until(noted.exists, 120), "the store was not started"
    known.learn(lab)
    time.sleep(after)
    known.learn(lab)
    assert running.process.poll() is None, f"it ended before its moment: {running.end()}"
    store = ProcessIdentity.from_json(json.loads(noted.read_text()))
    assert store.alive()
    began = time.monotonic()
    os.kill(store.pid, signal.SIGKILL)
    code, output = running.end(900)
    assert wait_until(lambda: room.left(lab.id) == [], GONE_SECONDS, every=0.5), room.left(lab.id)
    seconds, what = time.monotonic() - began, f"store {KINDS[S3]}, second {after:.1f} of {moment.name}"
    print(f"seed {seed}, {what}: nothing of it active after {seconds:.1f} s")
    found = findings(out)
    loaded = any(event["kind"] == "load.start" for event in events(out))
    assert found["outcome"] == "inconclusive" or (found["outcome"] == "error" and not loaded), found["reasons"]
    assert (code, found["clean"]) == ({"inconclusive": 3, "error": 5}[found["outcome"]], True), output
    for told in (output, found["summary"], written(out, "summary.md").replace("\\", "")):
        assert ENDED.search(" ".join(told.split())), told
    refuse_unknown(known, S3, moment)
    assert room.kept(known, out) == []
