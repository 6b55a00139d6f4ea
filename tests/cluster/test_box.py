"""The staging cluster in a box: the suite as a user without rights has it, in a host that reaches URLs and no more."""

from __future__ import annotations

import json
import random
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from box import plan, traffic
from box.office import SUITE
from boxkit import Boxed, Program, left
from clusterkit import (
    assert_proven,
    await_event,
    events,
    findings,
    in_effect,
    keepers_of,
    nothing_left,
    run_folder,
)

from chaos.base.paths import PREFIX
from chaos.targets.labs import network
from chaos.targets.labs.processes import wait_until

pytestmark = pytest.mark.full
HELD = """apiVersion: opensearch-chaos/v1
name: held
topology: 3az
load:
  read:  {rate: 10/s, good: ok within 4s}
  write: {rate: 10/s, good: ok within 4s}
  documents: 50
phases:
  healthy: {for: 2s}
  out:     {for: 2s, do: {weights: {a: 1, b: 2, c: 0}}}
  held:
    for: 10m
    inject:
      settings.change: {scope: cluster, settings: {cluster.routing.allocation.enable: none}}
      network.latency: {links: to zone c, delay: 1s}
expect:
  - {acknowledged.lost: 0}
"""
WAY_OUT = """
import os, socket
said = {"uid": os.getuid(), "labs": os.listdir("/run/netns"), "home": sorted(os.listdir(".")), "seen": []}
said["capabilities"] = [line.split()[1] for line in open("/proc/self/status") if line.startswith("CapEff")]
for folder in ("/root", "/var/lib/opensearch-chaos", os.path.dirname(os.getcwd())):
    said["seen"] += os.listdir(folder) if os.access(folder, os.R_OK) else []
try:
    socket.create_connection(("127.0.0.1", PORT), 2.0)
    said["out"] = True
except OSError:
    said["out"] = False
import json; print(json.dumps(said))
"""


@pytest.fixture
def out(boxed: Boxed, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    with boxed.reports(request.node.name, tmp_path) as folder:
        yield folder


def held(boxed: Boxed, out: Path) -> Program:
    """A run that has changed settings, weights and a proxy, and holds them."""
    file = boxed.written("held", HELD)
    running = boxed.inside("opensearch-chaos", "run", file, "--on", boxed.target, "--out", out)
    await_event(running, out, lambda event: in_effect(event) and event["fault"] == "f2", 180)
    return running


def test_who_tests_has_urls_and_nothing_else(boxed: Boxed, before: Path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        script = WAY_OUT.replace("PORT", str(listener.getsockname()[1]))
        code, output = boxed.inside("python", "-c", script).end(60)
    assert code == 0, output
    said = json.loads(output)
    assert said["uid"] > 0 and said["capabilities"] == ["0000000000000000"] and said["out"] is False
    needed = (SUITE, Path(sys.prefix), Path(sys.base_prefix), boxed.box.home(1))
    assert said["labs"] == [] and set(said["seen"]) <= {part for path in needed for part in path.parts}, said
    code, output = boxed.chaos("target", "check", boxed.target)
    assert code == 0, output
    code, output = boxed.chaos("plan", "experiments/zone-out.yaml", "--on", boxed.target)
    assert code == 0, output
    code, output = boxed.chaos("observe", "--on", boxed.target, "--for", "15s", "--out", "observed")
    assert code == 0, output
    code, output = boxed.does("up")
    assert code == 0 and "is up already" in output, output
    assert nothing_left() == []  # the suite on this machine takes it for nobody's leftover


def test_others_have_traffic_through_their_load_balancers(boxed: Boxed, before: Path):
    since = time.time()

    def zones() -> set[str]:
        good = [each for each in traffic.lines(boxed.box.traffic, since) if each["ok"]]
        return {each["id"].rpartition("-")[0] for each in good if each["op"] == "write"}

    assert wait_until(lambda: len(zones()) == 3, 60, every=0.5), traffic.lines(boxed.box.traffic, since)[-5:]


def test_a_zone_goes_and_comes_back_and_all_that_is_not_ours_is_as_before(boxed: Boxed, before: Path, out: Path):
    since = time.time()
    code, output = boxed.chaos("run", "experiments/zone-out.yaml", "--on", boxed.target, "--out", out)
    assert code in (0, 1, 3), output  # what it is for others and for us while a zone goes, the report says
    found = findings(out)
    assert found["clean"] is True, found["reasons"]
    lost = next(each for each in found["findings"] if each["title"].startswith("acknowledged.lost"))
    assert lost["counts_as"] == "pass", lost
    gone = {event["node"] for event in events(out) if event["kind"] == "cluster.node_left"}
    assert gone == {"eu-west-1c-manager", "eu-west-1c-data"}
    theirs = traffic.lines(boxed.box.traffic, since)
    assert {each["op"] for each in theirs if each["ok"]} == {"search", "write"}


def test_a_slow_zone_by_their_toxiproxies_is_proven_from_the_office(boxed: Boxed, before: Path, out: Path):
    code, output = boxed.chaos("run", "experiments/zone-slow.yaml", "--on", boxed.target, "--out", out)
    assert code in (0, 1, 3), output
    found = findings(out)
    assert found["clean"] is True, found["reasons"]
    assert_proven(found)


def test_a_runner_that_dies_cut_off_is_undone_when_its_keeper_has_a_network_again(
    boxed: Boxed, before: Path, out: Path
):
    running = held(boxed, out)
    keeper = keepers_of(running.process.pid)
    log = run_folder(out) / "logs" / "keeper.log"
    assert len(keeper) == 1 and boxed.differs(before) != ""
    code, output = boxed.does("up")
    assert code == 0 and "is up already" in output, output  # whatever a run does to its cluster
    assert boxed.does("cut") == (0, "")
    try:
        running.process.kill()
        running.process.wait()
        assert wait_until(lambda: "takes a connection" in log.read_text(), 90), log.read_text()
        assert keeper[0].is_running() and boxed.differs(before) != ""
    finally:
        assert boxed.does("mend") == (0, "")
    assert wait_until(lambda: boxed.differs(before) == "", 120, every=1.0), (boxed.differs(before), log.read_text())
    code, output = boxed.chaos("recover")
    assert code == 0 and "could not" not in output, output


def undelivered(boxed: Boxed) -> list[str]:
    """Connections to the office's ways whose process is dead, and whose bytes its kernel would still deliver (proc(5)).

    What a way itself still has for the dead does not count: it is an answer. Nor does the end of a connection that was
    closed in order, which is one in the queue, nor the greeting that proves what a proxy does: nobody acts on those.
    """
    code, output = boxed.inside("cat", "/proc/net/tcp").end(60)
    assert code == 0, output
    rows = [line.split() for line in output.splitlines()[1:]]
    ports = [int(row[2].partition(":")[2], 16) for row in rows]
    asked = [row for row, port in zip(rows, ports, strict=True) if port < plan.PASSAGE_PORT]
    return [row[2] for row in asked if row[9] == "0" and row[3] in ("04", "09", "0B") and int(row[4][:8], 16) > 1]


def test_another_office_undoes_it_when_the_keeper_died_too(boxed: Boxed, before: Path, out: Path):
    """Cut off with requests under way: they must not arrive when the office has a network again."""
    running = held(boxed, out)
    assert boxed.does("cut") == (0, "")
    try:
        time.sleep(2.0)  # the load's requests pile up meanwhile
        for each in keepers_of(running.process.pid):
            each.send_signal(signal.SIGKILL)
        running.process.kill()
        running.process.wait()
        assert wait_until(lambda: undelivered(boxed) == [], 10), undelivered(boxed)
        assert boxed.differs(before) != ""
        code, output = boxed.chaos("recover", "--on", boxed.target, office=2)
        assert code == 0 and "undone of run" in output, output
        assert boxed.differs(before) == ""
    finally:
        assert boxed.does("mend") == (0, "")
    code, output = boxed.chaos("recover")
    assert code == 0, output
    assert boxed.picture(before.with_name("after.json"))["of the suite"] == []


SHORT = (
    HELD.replace("name: held", "name: short")
    .replace("for: 10m", "for: 3s")
    .replace("expect:", "  over: {undo: all, until: {green: true, stable: 1s, within: 1m}}\nexpect:")
)
MOMENTS = [
    *(("stage", name) for name in ("notes", "preload", "warm-up")),
    *(("phase.start", name) for name in ("out", "held", "over")),
]
WAYS_TO_DIE = ("runner", "runner, cut off", "both, cut off")


@pytest.mark.parametrize("seed", range(30))
def test_killed_at_a_random_moment_it_is_undone(boxed: Boxed, before: Path, out: Path, seed: int):
    """By the keeper, or from a second office when that died too."""
    drawn = random.Random(seed)
    (kind, name), how = MOMENTS[seed % len(MOMENTS)], WAYS_TO_DIE[seed // len(MOMENTS) % len(WAYS_TO_DIE)]
    file = boxed.written("short", SHORT)
    running = boxed.inside("opensearch-chaos", "run", file, "--on", boxed.target, "--out", out)
    await_event(
        running, out, lambda event: event["kind"] == kind and name in (event.get("name"), event.get("phase")), 180
    )
    time.sleep(drawn.uniform(0.0, 3.0))
    dying = [*(keepers_of(running.process.pid) if how.startswith("both") and running.process.poll() is None else [])]
    if how.endswith("cut off"):
        assert boxed.does("cut") == (0, "")
    try:
        running.process.kill()
        for each in dying:
            each.kill()
        running.process.wait()
        if how.startswith("both"):
            code, output = boxed.chaos("recover", "--on", boxed.target, office=2)
            assert code == 0, output
        assert wait_until(lambda: undelivered(boxed) == [], 60), undelivered(boxed)
    finally:
        assert boxed.does("mend") == (0, "")
    assert wait_until(lambda: boxed.differs(before) == "", 120, every=1.0), boxed.differs(before)
    code, output = boxed.chaos("recover")
    assert code == 0 and "could not" not in output, output
    assert boxed.picture(before.with_name("after.json"))["of the suite"] == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_box_that_is_half_made_goes_whole(number: signal.Signals):
    made = Boxed()
    running = made.begin("up")
    started = lambda: len(network.namespaces(f"{PREFIX}{made.box.name}-")) > 3  # noqa: E731
    assert wait_until(started, 120), running.end()
    running.signal(number)
    code, output = running.end(120)
    assert code == (4 if number == signal.SIGINT else -9), output
    if number == signal.SIGINT:
        assert left(made.box.name) == []
    else:
        assert made.box.is_left() and nothing_left() == []
    code, output = made.does("down")
    assert code == 0, output
    assert left(made.box.name) == []
