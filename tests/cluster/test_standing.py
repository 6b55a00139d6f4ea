"""An instrument that stalls in a real run: the cluster is not blamed for it, and is for all else.

A node that stalls by itself is the cluster's own; a node that an external actor pauses is named.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from clusterkit import DATA, Cli, await_event, findings, run_folder

from chaos.history import History
from chaos.targets.labs.local import LocalLab

FOR = (0.3, 0.8, 3.0)
WHO = {
    "driver": "the load driver",
    "client": "the Toxiproxy of client zone a",
    "proxy": "the Toxiproxy of node b-all",
    "node": None,
}
"""Whom the test stops, and what the verdict calls it; None: a node of OpenSearch, which is the cluster's own. It is
frozen by its control group: as far as its process tells, it waits for something, as one that stalls by itself."""
PAUSED = "paused"
"""A node of OpenSearch that an external actor pauses (SIGSTOP). Comes last: what follows does not count."""
FREEZER = Path("/sys/fs/cgroup/freezer")
"""Where kernels with the first version of control groups freeze processes; of the second each group does."""
INTO = 1.0
"""Seconds into a phase at which somebody is stopped."""


@dataclass(frozen=True)
class Stop:
    who: str
    seconds: float

    @property
    def phase(self) -> str:
        return f"{self.who}-{self.seconds * 1000:.0f}ms"

    @property
    def lasts(self) -> float:
        """The phase: what was held up must be answered before the next one begins."""
        return INTO + 2 * self.seconds + 2


def experiment(folder: Path, stops: list[Stop], faulty: bool) -> Path:
    """One phase for each stop; a fault that leaves reads good is in effect in all of them, or none is."""
    shutil.copy(DATA / "tiny.yaml", folder)
    phases = "".join(f"  {stop.phase}: {{for: {stop.lasts:g}s}}\n" for stop in stops)
    inject = ", inject: {network.latency: {links: to zone c, delay: 60ms}}"
    expect = "".join(f'  - {{phase: {stop.phase}, read.good: ">= 99.5%"}}\n' for stop in stops)
    file = folder / "standing.yaml"
    file.write_text(
        "apiVersion: opensearch-chaos/v1\nname: standing\ntopology: tiny\n"
        "load:\n  read:  {rate: 60/s, good: ok within 200ms}\n  write: {rate: 10/s, good: ok within 1s}\n"
        f"  documents: 200\nphases:\n  healthy: {{for: 4s}}\n  begin: {{for: 4s{inject if faulty else ''}}}\n{phases}"
        + ("  end: {undo: network.latency, for: 2s}\n" if faulty else "")
        + f"expect:\n{expect}"
    )
    return file


def pid(lab: LocalLab, out: Path, who: str) -> int:
    if who == "driver":
        lines = (run_folder(out) / "history" / "driver.jsonl").read_text().splitlines()
        return next(json.loads(line)["pid"] for line in lines if '"driver.start"' in line)
    if who in ("node", PAUSED):
        identity = lab.identity("b-all")
        assert identity is not None
        return identity.pid
    host = "client-a" if who == "client" else "b-all"
    return int(json.loads((lab.folder / "run" / f"toxiproxy-{host}.json").read_text())["pid"])


@contextmanager
def still(lab: LocalLab, whom: int, who: str) -> Iterator[None]:
    """That process is stopped meanwhile."""
    if who != "node":
        os.kill(whom, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(whom, signal.SIGCONT)
        return
    group = FREEZER / f"oschaos-test-{whom}"
    if not FREEZER.is_dir():
        line = next(line for line in Path(f"/proc/{whom}/cgroup").read_text().splitlines() if line.startswith("0::"))
        frozen, on, off = Path("/sys/fs/cgroup") / line[3:].strip("/") / "cgroup.freeze", "1", "0"
    else:
        group.mkdir()
        (group / "cgroup.procs").write_text(str(whom))
        frozen, on, off = group / "freezer.state", "FROZEN", "THAWED"
    frozen.write_text(on)
    try:
        yield
    finally:
        frozen.write_text(off)
        if group.is_dir():
            (FREEZER / "cgroup.procs").write_text(str(whom))
            group.rmdir()


def carry_out(lab: LocalLab, out: Path, folder: Path, stops: list[Stop], faulty: bool) -> dict:
    running = Cli("run", experiment(folder, stops, faulty), "--out", out, "--on", lab.id)
    for stop in stops:
        await_event(running, out, lambda e, stop=stop: e["kind"] == "phase.start" and e["phase"] == stop.phase)
        time.sleep(INTO)
        whom = pid(lab, out, stop.who)
        with still(lab, whom, stop.who):
            time.sleep(stop.seconds)
    code, output = running.end()
    found = findings(out)
    assert code == found["exit_code"], output
    return found


def judged(found: dict, out: Path, stops: list[Stop]) -> None:
    """Each phase by itself: who stood still is named, and a node that did is not excused."""
    by_phase = {each["phase"]: each for each in found["findings"] if each["metric"] == "read.good"}
    said = {stop.phase: (by_phase[stop.phase]["verdict"], by_phase[stop.phase]["says"]) for stop in stops}
    (pulse,) = [each for each in found["validity"]["checks"] if each["id"] == "pulse"]
    assert pulse["ok"], pulse
    spans = {span.name: span for span in History.open(run_folder(out)).phases}
    for stop in stops:
        verdict, says = said[stop.phase]
        if stop.who == PAUSED:
            assert verdict == "inconclusive" and "Node b-all was paused from outside" in says, said
            (row,) = found["tables"]["pauses"]
            assert row["name"] == "b-all" and row["seconds"] == pytest.approx(stop.seconds, abs=1.5), row
            assert found["reasons"][0]["says"].startswith("Node b-all was paused from outside"), found["reasons"]
            continue
        name = WHO[stop.who]
        if name is None:
            # where no processor was free, or reads were not healthy before, that may decide: never an instrument
            assert "stood still" not in says, said
            ours = not found["validity"]["valid"] or "none of this machine's" in says
            assert verdict == "fail" or (verdict == "inconclusive" and ours), said
            continue
        assert verdict == "inconclusive", said
        assert f"{name} stood still" in says or "none of this machine's" in says, said
        assert name in pulse["measured"], pulse
        assert stop.seconds < 3 or f"{name} stood still" in says, said
        assert spans[stop.phase].seconds < stop.lasts + 2


@pytest.mark.full
def test_who_stood_still_is_named_and_a_node_that_did_is_the_cluster_s_own(tiny, out, tmp_path):
    stops = [Stop("driver", 0.8), Stop("client", 0.8), Stop("node", 0.8), Stop(PAUSED, 2.0)]
    judged(carry_out(tiny, out, tmp_path, stops, faulty=False), out, stops)


@pytest.mark.full
@pytest.mark.parametrize("faulty", [False, True], ids=["no fault", "fault"])
def test_each_of_them_is_named_for_each_time(tiny, out, tmp_path, faulty):
    stops = [Stop(who, seconds) for who in WHO for seconds in FOR] + [Stop(PAUSED, 3.0)]
    judged(carry_out(tiny, out, tmp_path, stops, faulty), out, stops)
