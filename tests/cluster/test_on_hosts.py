"""Faults on the hosts of the staging box, from an office, over ssh: what is asked for happens, is proven and is gone;
what must not be done is refused in words; and whatever dies, whenever, the hosts are as before."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import psutil
import pytest
from box import machine, plan
from box.office import give
from boxkit import Boxed, Program
from clusterkit import DATA, await_event, events, findings, keepers_of

from chaos.opensearch.views import administer, await_green
from chaos.targets.existing.hosts import EXTEND_SECONDS, TTL_SECONDS
from chaos.targets.labs.local import LocalLab
from chaos.targets.labs.processes import wait_until

pytestmark = pytest.mark.full
HEAD = """apiVersion: opensearch-chaos/v1
name: on-hosts
topology: 3az
load:
  read:  {rate: 10/s, good: ok within 5s}
  write: {rate: 5/s, good: ok within 5s}
  documents: 50
phases:
  healthy:  {for: 2s}
"""
LAST = "expect:\n  - {acknowledged.lost: 0}\nguards: {max: 20m}\n"
GREEN = "until: {green: true, stable: 2s, within: 3m}"
EVERY = {
    "node.kill": "node c-data",
    "node.pause": "node c-data",
    "node.stop": "node c-cm",
    "network.drop": "from node a-data to node c-data",
    "zone.isolation": "c",
    "zone.power_loss": "c",
}
"""Kind → whom."""
STAGES = ["before", "effect", "held", "gone"]
BOUND = TTL_SECONDS + EXTEND_SECONDS + 15.0
"""Seconds from the last word of a runner to the end of the host's own undo: its ttl, and what that takes."""
MORE = {"network.loss": "share: 20%"}
"""Kind → what else it needs to be told."""


def given(kind: str, whom: str) -> str:
    where = {"node": "target", "network": "links", "zone": "zone"}[kind.partition(".")[0]]
    told = ", ".join([f"{where}: {whom}", *([MORE[kind]] if kind in MORE else [])])
    return f"{kind}: {{{told}}}"


def phases(kinds: dict[str, str]) -> str:
    text = ""
    for kind, whom in kinds.items():
        name = kind.replace(".", "-").replace("_", "-")
        text += f"  {name}: {{for: 6s, inject: {{{given(kind, whom)}}}}}\n  after-{name}: {{undo: all, {GREEN}}}\n"
    return text


@pytest.fixture
def out(boxed: Boxed, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    with boxed.reports(request.node.name, tmp_path) as folder:
        yield folder


@pytest.fixture(autouse=True)
def _green(boxed: Boxed, before: Path) -> None:
    """Copies of a node that was away in the test before may still be on their way. OpenSearch gives them up after five
    tries while a search of before holds them open, for five minutes; their owner asks again (docs/standby.md)."""
    with boxed.owned() as lab:

        def green() -> bool:
            administer(lab, "POST", "/_cluster/reroute?retry_failed=true&metric=none")
            return await_green(lab, 20)[0]

        assert wait_until(green, 420, every=0.1)


def nodes(boxed: Boxed) -> list[str]:
    with boxed.owned() as lab:
        return [node.name for node in lab.topology.nodes]


def named(boxed: Boxed, like: str) -> str:
    """A node by the experiments' name for it, such as c-data."""
    zone, _, role = like.partition("-")
    return next(name for name in nodes(boxed) if f"1{zone}-" in name and role.replace("cm", "manager") in name)


def active(boxed: Boxed) -> list[str]:
    """What of the suite is active on the hosts, as the second office sees it: the first one may be cut off."""
    found = []
    for node in nodes(boxed):
        answer = boxed.asks(node, "state", office=2)
        found += [f"{node}: {each['intent']} {each['left']}" for each in answer["active"]]
    return found


def asked(boxed: Boxed, out: Path, text: str) -> tuple[str | Path, ...]:
    return "run", boxed.written("on-hosts", text), "--on", boxed.target, "--out", out


def test_what_is_asked_for_happens_is_proven_and_is_gone(boxed: Boxed, before: Path, out: Path):
    code, output = boxed.chaos(*asked(boxed, out, HEAD + phases(EVERY) + LAST), timeout=1200)
    assert code in (0, 1, 3), output  # a busy machine decides no objective, and that is not asked here
    found = findings(out)
    assert found["clean"] is True, found["reasons"]
    proven = [
        (each["kind"], [name for name, stage in each["stages"].items() if stage["proven"]]) for each in found["faults"]
    ]
    assert proven == [(kind, STAGES) for kind in EVERY], output
    commands = [each for each in events(out) if each["kind"] == "fault.command"]
    assert {each["provider"] for each in commands} == {"ssh"} and {each["grade"] for each in commands} == {"path"}
    assert {each["id"]: each["counts_as"] for each in found["findings"]}["acknowledged.lost"] == "pass"
    assert active(boxed) == []


@contextmanager
def without(undo: Callable[[], Any]) -> Iterator[None]:
    try:
        yield
    finally:
        undo()


@contextmanager
def without_toxiproxies(boxed: Boxed) -> Iterator[None]:
    """The file names none."""
    text = boxed.box.file.read_text()
    alone = re.sub(r"^toxiproxies:\n(^ .*\n)+", "", text, flags=re.M)
    assert alone != text and "toxiproxies" not in alone
    with without(lambda: give(boxed.box.file, text, 1)):
        give(boxed.box.file, alone, 1)
        yield


@contextmanager
def others_rest(boxed: Boxed) -> Iterator[None]:
    """Nobody else asks the cluster anything: what is judged by delays needs processors that are free."""
    processes = json.loads((boxed.box.folder / "box.json").read_text())["processes"]
    traffic = [psutil.Process(each["pid"]) for name, each in processes.items() if name.startswith("traffic-")]
    assert len(traffic) == 3
    with without(lambda: [each.resume() for each in traffic]):
        for each in traffic:
            each.suspend()
        yield


@pytest.mark.parametrize("toxiproxies", [True, False], ids=["with Toxiproxies", "without"])
def test_packets_that_vanish_one_way(boxed: Boxed, before: Path, out: Path, toxiproxies: bool):
    """Toxiproxies are none of the ways to see it, for they make one connection after the other."""
    text = HEAD + phases({"network.loss": "from node a-data to node c-data"}).replace("for: 6s", "for: 20s") + LAST
    text = text.replace("rate: 10/s", "rate: 2/s").replace("rate: 5/s", "rate: 2/s")
    with others_rest(boxed), nullcontext() if toxiproxies else without_toxiproxies(boxed):
        code, output = boxed.chaos(*asked(boxed, out, text), timeout=900)
    assert code in (0, 1, 3), output
    found = findings(out)
    stages = found["faults"][0]["stages"]
    assert found["clean"] is True and active(boxed) == []
    assert {name: stage["proven"] for name, stage in stages.items()} == dict.fromkeys(STAGES, True), (output, stages)
    ways = sorted(probe["what"] for probe in stages["effect"]["probes"] if not probe.get("control"))
    nodes = [named(boxed, each) for each in ("a-data", "c-data")]
    there, back = f"{nodes[0]} asks {nodes[1]}", f"{nodes[1]} asks {nodes[0]}"
    assert ways == [there, back, f"packets of {nodes[0]}"], ways


def test_what_clients_meet_is_seen_from_their_own_hosts(boxed: Boxed, before: Path, out: Path):
    """Where the file names no Toxiproxies: through ``ssh -W`` from a host of the zone's clients."""
    with without_toxiproxies(boxed):
        kinds = {"zone.isolation": "c", "network.reset": "from node a-data to node c-data"}
        code, output = boxed.chaos(*asked(boxed, out, HEAD + phases(kinds) + LAST), timeout=900)
    assert code in (0, 1, 3), output
    found = findings(out)
    proven = [(each["kind"], all(stage["proven"] for stage in each["stages"].values())) for each in found["faults"]]
    assert found["clean"] is True and proven == [(kind, True) for kind in kinds], output
    probes = found["faults"][0]["stages"]["effect"]["probes"]
    assert any("client-" in probe["what"] and probe["ok"] for probe in probes), probes


# ---- what is refused ---------------------------------------------------------------------------------------

KILL = HEAD + "  dead: {for: 10m, inject: {node.kill: {target: node c-data}}}\n" + LAST


def refused(boxed: Boxed, out: Path, text: str, *says: str) -> None:
    code, output = boxed.chaos(*asked(boxed, out, text))
    plain = " ".join(output.split())
    assert code == 2 and "Traceback" not in output, (code, output)
    assert [each for each in says if each not in plain] == [], output
    assert not out.exists()


def test_a_host_with_another_key_is_refused(boxed: Boxed, before: Path, out: Path):
    node = named(boxed, "c-data")
    known = boxed.box.home(1) / "topologies" / "existing" / plan.KNOWN_HOSTS
    text = known.read_text()
    other = machine.Key.made().public
    lines = [f"{node} {other}" if line.startswith(f"{node} ") else line for line in text.splitlines()]
    with without(lambda: give(known, text, 1)):
        give(known, "\n".join(lines) + "\n", 1)
        refused(boxed, out, KILL, f"ssh {node}: Host key verification failed", "find out whose key it is")
    assert active(boxed) == []


def test_a_changed_program_is_refused(boxed: Boxed, before: Path, out: Path):
    node = named(boxed, "c-data")
    boxed.on_host(node, "cp", machine.PROGRAM, "/run/program")
    with without(lambda: boxed.on_host(node, "cp", "/run/program", machine.PROGRAM)):
        boxed.on_host(node, "sh", "-c", f"echo '# changed' >> {machine.PROGRAM}")
        refused(boxed, out, KILL, f"on {node} is another program than this version's", "make host-deb")
    assert active(boxed) == []


def test_a_host_that_runs_another_node_is_refused(boxed: Boxed, before: Path, out: Path):
    """The file's ssh of a node leads to the host of another one; and one whose configuration calls it as planned."""
    node, other = named(boxed, "c-data"), named(boxed, "b-data")
    text = boxed.box.file.read_text()
    wrong = text.replace(f"ssh: {node}", f"ssh: {other}")
    assert wrong != text
    with without(lambda: give(boxed.box.file, text, 1)):
        give(boxed.box.file, wrong, 1)
        refused(boxed, out, KILL, f"{other}: its configuration names {other}, and not {node}")
        configuration = "/etc/oschaos-host.json"
        boxed.on_host(other, "cp", configuration, "/run/kept.json")
        with without(lambda: boxed.on_host(other, "cp", "/run/kept.json", configuration)):
            boxed.on_host(other, "sed", "-i", f'0,/"{other}"/s//"{node}"/', configuration)
            refused(boxed, out, KILL, f"{other} does not prove that {node} runs on it")
    assert active(boxed) == []


def test_what_the_owners_do_not_allow_is_refused(boxed: Boxed, before: Path, out: Path):
    node = named(boxed, "c-data")
    configuration = "/etc/oschaos-host.json"
    boxed.on_host(node, "cp", configuration, "/run/kept.json")
    with without(lambda: boxed.on_host(node, "cp", "/run/kept.json", configuration)):
        boxed.on_host(node, "sed", "-i", 's/"node.kill",*//', configuration)
        refused(boxed, out, KILL, f"{node}: node.kill of {node} cannot be had")
    says = f"{node}: a fault of {node} may last 1230 s, and {machine.LONGEST} s are allowed there"
    refused(boxed, out, KILL.replace("for: 10m", "for: 20m").replace("max: 20m", "max: 30m"), says)
    assert active(boxed) == []


def begun(boxed: Boxed, out: Path, text: str, fault: str = "f1") -> Program:
    running = boxed.inside("opensearch-chaos", *asked(boxed, out, text))
    await_event(running, out, lambda each: each["kind"] == "fault.in_effect" and each["fault"] == fault, 240)
    return running


def test_whoever_comes_later_has_the_hosts(boxed: Boxed, before: Path, out: Path):
    """A run whose hosts have seen a higher token puts nothing off any more, and its fault ends by itself."""
    node = named(boxed, "c-data")
    running = begun(boxed, out, KILL)
    token = 1 << 40
    assert boxed.asks(node, "extend", run="later", id="x", token=token, ttl=10)["ok"] is False
    assert wait_until(lambda: active(boxed) == [], BOUND, every=1.0)
    code, output = running.end(600)
    found = findings(out)
    assert code == 3 and found["clean"] is True, output
    assert found["faults"][0]["proven"] is not True, output


def test_no_room_for_the_timer_begins_nothing(boxed: Boxed, before: Path, out: Path):
    node = named(boxed, "c-data")
    with without(lambda: boxed.on_host(node, "rm", "-f", "/run/filler")):
        boxed.does("host", node, "--", "sh", "-c", "dd if=/dev/zero of=/run/filler bs=4k; true")
        code, output = boxed.chaos(*asked(boxed, out, KILL))
        assert code in (2, 5) and "Traceback" not in output, output
        assert "could not be written" in output or "No space left" in output, output
    assert active(boxed) == []
    if out.exists():
        assert findings(out)["clean"] is True


# ---- kills -------------------------------------------------------------------------------------------------

SHORT = (
    HEAD.replace("{for: 2s}", "{for: 1s}")
    + "  dead:   {for: 3s, inject: {node.kill: {target: node c-data}}}\n"
    + "  cut:    {undo: all, for: 3s, inject: {network.drop: {links: around node c-data}}}\n"
    + "  paused: {undo: all, for: 3s, inject: {node.pause: {target: node c-cm}}}\n"
    + f"  over:   {{undo: all, {GREEN}}}\n"
    + LAST
)
MOMENTS = [(kind, fault) for fault in ("f1", "f2", "f3") for kind in ("fault.command", "fault.in_effect", "fault.undo")]
WAYS_TO_DIE = (
    "runner",
    "runner, cut off",
    "runner and keeper",
    "runner and keeper, cut off",
    "ssh",
    "sshd",
    "runner, clocks moved, cut off",
    "runner, disks full",
)
HIT = ("c-data", "c-cm")
"""The nodes on whose hosts the three faults are."""
CLOCK = DATA / "clock.c"


def moved(boxed: Boxed, hours: int) -> None:
    for like in HIT:
        boxed.on_host(named(boxed, like), "sh", "-c", f"echo {hours * 3600} > /run/clock")


@pytest.fixture
def clocks(boxed: Boxed, request: pytest.FixtureRequest) -> Iterator[None]:
    """Hosts whose wall's clock can be moved: for all processes that begin there from now on."""
    if "clocks" not in way(request.getfixturevalue("seed")):
        yield
        return
    made = boxed.box.folder / "clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", made, CLOCK], check=True)
    made.chmod(0o755)
    hosts = [named(boxed, like) for like in HIT]
    for host in hosts:
        boxed.on_host(host, "cp", str(made), "/run/clock.so")
        boxed.on_host(host, "sh", "-c", "echo 0 > /run/clock; echo /run/clock.so > /etc/ld.so.preload")
        before = time.time()
        boxed.on_host(host, "sh", "-c", "echo 7200 > /run/clock")
        assert float(boxed.on_host(host, "date", "+%s")) > before + 7000
        boxed.on_host(host, "sh", "-c", "echo 0 > /run/clock")
    try:
        yield
    finally:
        for host in hosts:
            boxed.on_host(host, "rm", "-f", "/etc/ld.so.preload", "/run/clock", "/run/clock.so")
        with boxed.owned() as lab:  # what began with a clock that is set back now has no age that anybody knows
            for host in hosts:
                if stands_still(lab, host):
                    lab.stop_node(host)
                    lab.start_node(host)
            assert await_green(lab, 240)[0]
            assert not any(stands_still(lab, host) for host in hosts)


def stands_still(lab: LocalLab, node: str) -> bool:
    """Whether a node's statistics are of a time to come."""
    status, said = administer(lab, "GET", f"/_nodes/{node}/stats/jvm")
    assert status == 200, said
    (told,) = said["nodes"].values()
    return bool(told["jvm"]["timestamp"] > told["timestamp"] + 5000)


def filled(boxed: Boxed) -> None:
    """No room in the folders where the program for faults writes."""
    for like in HIT:
        for folder in ("/run", "/var/lib"):
            given = ("host", named(boxed, like), "--", "sh", "-c", f"dd if=/dev/zero of={folder}/filler bs=4k; true")
            code, output = boxed.does(*given)
            assert code == 0 and "No space left" in output, output


def way(seed: int) -> str:
    return WAYS_TO_DIE[seed % len(WAYS_TO_DIE)]


def moment(seed: int) -> tuple[str, str]:
    """Of each way another one each time."""
    return MOMENTS[(seed // len(WAYS_TO_DIE) + seed % len(WAYS_TO_DIE)) % len(MOMENTS)]


def killed(boxed: Boxed, running: Program, how: str, drawn: random.Random) -> None:
    if "clocks" in how:
        moved(boxed, drawn.choice((-2, 2)))
    if "full" in how:
        filled(boxed)
    if how.endswith("cut off"):
        assert boxed.does("cut") == (0, "")
    if how == "ssh":
        for each in boxed.box.working():
            process = psutil.Process(each)
            if process.name() == "ssh":
                process.kill()
        return
    if how == "sshd":
        for like in HIT:
            boxed.on_host(named(boxed, like), "sh", "-c", "pkill -KILL -f 'sshd: [c]haos' || true")
        return
    alive = running.process.poll() is None
    dying = keepers_of(running.process.pid) if "keeper" in how and alive else []
    running.process.kill()
    for each in dying:
        each.kill()
    running.process.wait()


@pytest.mark.parametrize("seed", range(60))
def test_killed_at_a_random_moment_hosts_are_as_before(
    boxed: Boxed, before: Path, out: Path, clocks: None, seed: int, record_property: Callable[[str, object], None]
):
    """By the keeper; where that is cut off or dead, by the host itself, within its ttl."""
    drawn = random.Random(seed)
    (kind, fault), how = moment(seed), way(seed)
    running = boxed.inside("opensearch-chaos", *asked(boxed, out, SHORT))
    await_event(running, out, lambda event: event["kind"] == kind and event.get("fault") == fault, 300)
    time.sleep(drawn.uniform(0.0, 2.0))
    began = time.monotonic()
    try:
        killed(boxed, running, how, drawn)
        assert wait_until(lambda: active(boxed) == [], BOUND + 30.0, every=0.5), active(boxed)
        seconds = time.monotonic() - began
    finally:
        assert boxed.does("mend") == (0, "")
        if "full" in how:
            for like in HIT:
                boxed.on_host(named(boxed, like), "rm", "-f", "/run/filler", "/var/lib/filler")
    record_property("way", how)
    record_property("moment", f"{kind} of {fault}")
    record_property("undone_after", round(seconds, 1))
    print(f"seed {seed}, {how}, {kind} of {fault}: nothing of it active after {seconds:.1f} s")
    if how in ("ssh", "sshd"):
        code, output = running.end(900)
        assert findings(out)["clean"] is True, output
    elif "keeper" in how:
        code, output = boxed.chaos("recover", "--on", boxed.target, office=2)
        assert code == 0, output
    assert wait_until(lambda: boxed.differs(before) == "", 240, every=1.0), boxed.differs(before)
    code, output = boxed.chaos("recover")
    assert code == 0 and "could not" not in output, output
    for node in nodes(boxed):
        assert boxed.asks(node, "facts")["strays"] == []


def test_ctrl_c_undoes_what_is_on_hosts(boxed: Boxed, before: Path, out: Path):
    running = begun(boxed, out, KILL)
    began = time.monotonic()
    running.signal(signal.SIGINT)
    code, output = running.end(300)
    assert code == 4 and findings(out)["clean"] is True, output
    print(f"from Ctrl-C to the end: {time.monotonic() - began:.1f} s")
    assert active(boxed) == []
