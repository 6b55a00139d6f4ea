"""The command line as users call it, and questions to a run under way: shared by the tests on real clusters."""

from __future__ import annotations

import ctypes
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar

import psutil
import pytest

from chaos.base.paths import STATE_VARIABLE
from chaos.faults.ledger import Ledger, registrations
from chaos.faults.lifecycle import Lifecycle
from chaos.history import EventWriter
from chaos.opensearch.administration import create_index
from chaos.opensearch.views import administer, await_green, lacking
from chaos.run.recovery import recover
from chaos.targets.kinds import docker as docker_kind
from chaos.targets.labs import processes, sweep
from chaos.targets.labs.docker.engine import Engine
from chaos.targets.labs.local import LocalLab
from chaos.targets.labs.processes import wait_until
from chaos.targets.wiring import Host

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "cluster" / "data"


KEPT = re.compile(r"test(\d+)-[0-9a-f]{4}")


def keepers_of(runner: int) -> list[psutil.Process]:
    """The keepers of a run on a cluster that exists, by its process."""
    return [
        child for child in psutil.Process(runner).children() if "chaos.commands.keeping" in " ".join(child.cmdline())
    ]


def kept_lab_id() -> str:
    """A name for a lab that lives on when its maker dies: it says whose it is, see :func:`tidy`."""
    return f"test{os.getpid()}-{secrets.token_hex(2)}"


def tidy() -> None:
    """Take away what an earlier run of these tests left when it was killed; its labs that live on are its own.

    Containers can only go while their engine runs: it is started for that where it does not.
    """
    abandoned = [record.id for record in sweep.known() if _abandoned(record)]
    if any(docker_kind.is_docker(id) for id in abandoned) and Engine.if_any() is None:
        engine = ROOT / "tests" / "docker" / "engine.py"
        subprocess.run([sys.executable, engine, sys.executable, __file__], check=True, timeout=300)
        abandoned = [record.id for record in sweep.known() if _abandoned(record)]
    for id in abandoned:
        assert sweep.destroy(id) == []
    assert recover().problems == []


def _abandoned(record: sweep.LabRecord) -> bool:
    """Nobody's, or of a dead run of these tests."""
    maker = KEPT.fullmatch(record.id)
    return record.orphaned or bool(maker and not record.owner_alive and not Path(f"/proc/{maker[1]}").exists())


def command(*arguments: str | Path, program: str = "chaos") -> list[str]:
    return [sys.executable, "-m", program, *map(str, arguments)]


class Cli:
    """``opensearch-chaos``, or another program, in a process of its own, with its output kept."""

    started: ClassVar[list[Cli]] = []

    def __init__(self, *arguments: str | Path, program: str = "chaos") -> None:
        self.started.append(self)
        self.process = subprocess.Popen(
            command(*arguments, program=program),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
            start_new_session=True,
        )

    def end(self, timeout: float = 300) -> tuple[int, str]:
        output, _ = self.process.communicate(timeout=timeout)
        return self.process.returncode, output

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)


def end_all(seconds: float = 240) -> None:
    """End what a test that failed has left running, as a user would: it undoes what it did, and frees its lab."""
    while Cli.started:
        running = Cli.started.pop()
        if running.process.poll() is None:
            running.signal(signal.SIGINT)
            with suppress(ValueError):  # its output was being read, and is closed
                running.end(seconds)


def cli(*arguments: str | Path, timeout: float = 300) -> tuple[int, str]:
    return Cli(*arguments).end(timeout)


def recovered_elsewhere(file: Path, folder: Path) -> tuple[int, str]:
    """``recover --on FILE`` on what is another machine to the suite: ``folder`` holds its state."""
    there = os.environ | {STATE_VARIABLE: str(folder / "elsewhere")}
    done = subprocess.run(command("recover", "--on", file), env=there, capture_output=True, text=True, timeout=180)
    return done.returncode, done.stdout + done.stderr


def run_folder(out: Path) -> Path | None:
    return next(iter(sorted(out.glob("*/"))), None)


def events(out: Path) -> list[dict]:
    """The events so far of the only run in ``out``."""
    folder = run_folder(out)
    file = folder / "history" / "events.jsonl" if folder else None
    if file is None or not file.exists():
        return []
    lines = []
    for line in file.read_text().splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            continue
    return lines


def findings(out: Path) -> dict:
    """The verdict of the only run in ``out``."""
    return json.loads((run_folder(out) / "findings.json").read_text())


def assert_proven(found: dict) -> None:
    """Every fault of the run is proven; fails with what each of its proofs said, and with why the run is what it is."""
    assert found["faults"], found["headline"]
    said = [
        f"{fault['fault']} {stage}: {look['says']}"
        + "".join(f"; {probe['what']}: {probe['measured']}" for probe in look["probes"] if not probe["ok"])
        for fault in found["faults"]
        for stage, look in fault["stages"].items()
        if look
    ]
    assert all(fault["proven"] for fault in found["faults"]), "\n".join(
        [found["headline"], *(reason["says"] for reason in found["reasons"]), *said]
    )


def short(out: Path, seconds: int = 3, **changes: object) -> Path:
    """The slow-zone experiment, held for these seconds only, with other parts put in."""
    from ruamel.yaml import YAML

    yaml = YAML()
    data = yaml.load((DATA / "slow.yaml").read_text())
    data["topology"] = str(DATA / "tiny.yaml")
    data["phases"]["healthy"]["for"], data["phases"]["slow"]["for"] = "1s", f"{seconds}s"
    data["load"]["read"]["good"] = data["load"]["write"]["good"] = "ok within 4s"
    data["expect"] = [{"acknowledged.lost": 0}]
    data |= changes
    out.mkdir(parents=True, exist_ok=True)
    file = out.parent / "short.yaml"
    with open(file, "w") as target:
        yaml.dump(data, target)
    return file


@contextmanager
def tmpfs(folder: Path, size: str) -> Iterator[Path]:
    folder.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", str(folder).encode(), b"tmpfs", 0, f"size={size}".encode()):
        pytest.skip(f"no tmpfs here: {os.strerror(ctypes.get_errno())}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> None:
    """Take what is left of a file system, to the last byte."""
    with suppress(OSError), open(folder / "filler", "wb", buffering=0) as filler:
        while True:
            filler.write(b"\0" * 4096)


def in_effect(event: dict) -> bool:
    return event["kind"] == "fault.in_effect"


def await_event(running: Cli, out: Path, matches: Callable[[dict], bool], seconds: float = 120) -> None:
    def there() -> bool:
        if running.process.poll() is not None:
            raise AssertionError(f"it ended early: {running.end()}")
        return any(matches(event) for event in events(out))

    assert wait_until(there, seconds), f"the event did not come: {[e['kind'] for e in events(out)]}"


@contextmanager
def impostors(lab: LocalLab, hosts: Sequence[Host], lie: str = "", about: str | None = None) -> Iterator[Path]:
    """The Toxiproxies of these hosts replaced by ones that lie; see ``cluster/fake_toxiproxy.py``.

    On the way to the cluster they lie once the file that this yields is there; ``about``: on the way to this node only.
    What they changed is in ``told`` beside it.
    """
    fakes = []
    switch = lab.folder / "run" / "lie"
    switch.with_name("told").unlink(missing_ok=True)
    try:
        for host in hosts:
            proxies = lab.folder / "run" / f"fake-{host.name}.json"
            proxies.write_text(json.dumps(lab.toxiproxy(host.name).proxies()))
            identity = json.loads((lab.folder / "run" / f"toxiproxy-{host.name}.json").read_text())
            assert processes.end([identity["pid"]]) == []
            arguments = [sys.executable, str(DATA.parent / "fake_toxiproxy.py"), str(proxies), lie, str(switch)]
            arguments += [] if about is None else [about]
            with host.namespace.entered():
                fakes.append(subprocess.Popen(arguments, start_new_session=True))
        assert await_green(lab, 120, stable=2)[0]
        yield switch
    finally:
        switch.unlink(missing_ok=True)
        for fake in fakes:
            fake.kill()
            fake.wait()
        for host in hosts:
            lab._start_toxiproxy(host.name)
        assert await_green(lab, 120)[0]


def await_copied(lab: LocalLab, seconds: float) -> None:
    """Until every data node can copy from every other, by an index that has a copy of each of its shards on each.

    Green says nothing of it where no index is. Two nodes that were cut off from each other keep their connections, and
    TCP may say nothing on these for a minute after: what is copied on one hangs until a timeout.
    """
    nodes = len(lab.topology.data_nodes)
    deadline = time.monotonic() + seconds
    assert await_green(lab, seconds)[0], lacking(lab)
    create_index(lab, "copied", {"number_of_shards": nodes, "number_of_replicas": nodes - 1})
    try:
        while not await_green(lab, 5)[0]:
            assert time.monotonic() < deadline, lacking(lab)
            administer(lab, "POST", "/_cluster/reroute?retry_failed=true&metric=none")
    finally:
        administer(lab, "DELETE", "/copied")


def nothing_left() -> list[str]:
    """Everything that a run could have left, but for labs that somebody living owns."""
    left = [leftover.what for leftover in sweep.leftovers()]
    return left + [str(r.file) for r in registrations() if not r.owner.alive()]


def lifecycle(lab: LocalLab, folder: Path) -> Lifecycle:
    """A lifecycle on ``lab`` that keeps its ledger and its events in ``folder``."""
    return Lifecycle(lab, Ledger(folder / "ledger.jsonl"), EventWriter(folder / "events.jsonl"))


def told(folder: Path, kind: str) -> list[dict]:
    """The events of one kind that :func:`lifecycle` wrote."""
    lines = (folder / "events.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["kind"] == kind]


def look(folder: Path, stage: str) -> dict:
    """What was looked at last in this stage of a fault of :func:`lifecycle`, probe by probe."""
    return [event for event in told(folder, "fault.evidence") if event["stage"] == stage][-1]


def failed(folder: Path, stage: str) -> list[dict]:
    """The probes that were not as expected in this stage of a fault of :func:`lifecycle`."""
    looks = [event for event in told(folder, "fault.evidence") if event["stage"] == stage]
    return [probe for each in looks for probe in each["probes"] if not probe["ok"]]


if __name__ == "__main__":
    tidy()
