"""Faults by AWS FIS, on a lab that stands in for instances of EC2: what is asked for happens to those who were asked
for, is proven and is gone; and what an endpoint or somebody else spoils is never green.

It shows that targets, direction and duration survive translation, and nothing about AWS.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from clusterkit import (
    ROOT,
    Cli,
    await_copied,
    await_event,
    cli,
    command,
    events,
    fill,
    findings,
    in_effect,
    keepers_of,
    run_folder,
    tmpfs,
)
from fistamper import AstrayHands, IdleHands, Times, elsewhere, tampering

from chaos.base.errors import ChaosError
from chaos.base.paths import STATE_VARIABLE
from chaos.definitions.existing import load_existing
from chaos.fis_endpoint import mirror, standing
from chaos.fis_endpoint.opening import Setup
from chaos.fis_endpoint.standing import Standing
from chaos.opensearch.views import administer, await_green
from chaos.providers.fis import INTENTS, disrupt, stop_instances
from chaos.targets.existing import acceptance
from chaos.targets.existing.fis import OVER, Fis
from chaos.targets.labs.local import LocalLab
from chaos.targets.labs.processes import wait_until

EXPERIMENT = """apiVersion: opensearch-chaos/v1
name: there
topology: 3az-standby
load:
  read:  {rate: 20/s, good: ok within 5s}
  write: {rate: 20/s, good: ok within 5s}
  documents: 100
phases:
  healthy: {for: 3s}
  hit: {for: %s, inject: {%s}}
  over: {undo: all, until: {green: true, stable: 1s, within: 3m}}
expect:
  - {acknowledged.lost: 0}
"""
SCALE = 20.0
NOBODY = 65534


@dataclass
class There:
    lab: LocalLab
    stands: Standing
    folder: Path
    file: Path

    @property
    def out(self) -> Path:
        return self.folder / "reports"

    @property
    def fis(self) -> Fis:
        written = load_existing(self.file).written
        assert written.fis is not None
        return Fis(written.fis, written.name)

    def arguments(self, fault: str, lasts: str = "6s") -> tuple[str | Path, ...]:
        file = self.folder / "there.yaml"
        file.write_text(EXPERIMENT % (lasts, fault))
        return "run", file, "--on", self.file, "--out", self.out

    def run(self, fault: str, lasts: str = "6s") -> tuple[int, str]:
        return cli(*self.arguments(fault, lasts), timeout=900)

    def begin(self, fault: str, lasts: str = "3m") -> Cli:
        return Cli(*self.arguments(fault, lasts))

    def states(self) -> dict[str, str]:
        """Node → its instance's state, as EC2 has it."""
        seen = mirror.Mirror(self.lab.id, self.moto)
        return {each.node: each.state for each in seen.instances().values()}

    @property
    def moto(self) -> str:
        return self.stands.moto

    def stages(self) -> dict[str, bool]:
        return {event["stage"]: event["proven"] for event in events(self.out) if event["kind"] == "fault.evidence"}

    def well(self) -> bool:
        """Every node runs and is a member, every instance runs, nothing of ours is left in FIS."""
        alive = all(self.lab.process_state(node.name) not in (None, "T", "Z") for node in self.lab.topology.nodes)
        return alive and set(self.states().values()) == {"running"} and self.fis.left() == []


@contextmanager
def stood(
    lab: LocalLab, folder: Path, changed: Callable[[Setup], Setup] = lambda setup: setup, *, scale: float = SCALE
) -> Iterator[There]:
    """A lab as instances of EC2. A test that fails within leaves the shared lab mended to the next one."""
    (folder / "endpoint").mkdir(parents=True, exist_ok=True)
    try:
        with standing.standing(lab, time_scale=scale, folder=folder / "endpoint", changed=changed) as stands:
            file = folder / "topologies" / "existing" / "staging.yaml"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in stands.target("staging").items()))
            yield There(lab, stands, folder, file)
    except BaseException:
        mended(lab)
        raise


@pytest.fixture
def there(playground: LocalLab, tmp_path: Path) -> Iterator[There]:
    with stood(playground, tmp_path) as made:
        yield made
        mended(playground)


def mended(lab: LocalLab) -> None:
    for node in lab.topology.nodes:
        lab.start_node(node.name)
    code, output = cli("recover")
    assert code == 0, output
    await_copied(lab, 300)


ZONE_C = {"c-cm", "c-data"}


@pytest.mark.parametrize(
    ("fault", "stopped", "gone"),
    [
        pytest.param("node.stop: {target: node c-data}", {"c-data"}, {"c-data"}, marks=pytest.mark.full),
        pytest.param("node.kill: {target: node c-data}", set(), {"c-data"}, marks=pytest.mark.full),
        pytest.param("zone.power_loss: {zone: c}", ZONE_C, ZONE_C, marks=pytest.mark.full),
        pytest.param("zone.isolation: {zone: c}", set(), ZONE_C, marks=pytest.mark.full),
        pytest.param("zone.partition: {zone: c}", set(), ZONE_C, marks=pytest.mark.full),
        pytest.param("network.latency: {links: to zone c, delay: 300ms}", set(), set(), marks=pytest.mark.full),
        pytest.param("zone.slowness: {zone: c, delay: 200ms}", set(), set(), marks=pytest.mark.full),
        pytest.param(
            "network.drop: {links: between node a-data and node b-data}", set(), set(), marks=pytest.mark.full
        ),
    ],
)
def test_what_is_asked_for_happens_is_proven_and_is_gone(
    there: There, fault: str, stopped: set[str], gone: set[str]
) -> None:
    running = there.begin(fault, "8s")
    await_event(running, there.out, in_effect, 300)
    seen = {node for node, state in there.states().items() if state != "running"}
    code, output = running.end(600)
    assert code in (0, 3), output  # a busy machine may send late
    assert seen == stopped
    found = findings(there.out)
    assert found["clean"] is True and [each["proven"] for each in found["faults"]] == [True], found["faults"]
    assert "own way to the nodes" not in found["headline"], found["headline"]  # those that are cut off are silent to us
    assert there.stages() == {"before": True, "effect": True, "held": True, "gone": True}
    left = {event["node"] for event in events(there.out) if event["kind"] == "cluster.node_left"}
    assert left == gone, output
    assert wait_until(there.well, 60)
    (command,) = [event for event in events(there.out) if event["kind"] == "fault.command"]
    assert (command["provider"], command["grade"]) == ("fis", "effect")
    assert command["mechanism"].startswith(INTENTS[command["fault_kind"]].verdict)


@pytest.mark.full
def test_a_reboot_is_proven_by_another_process_that_others_have_as_a_member(there: There) -> None:
    code, output = there.run("node.restart: {target: node c-data}", "8s")
    assert code in (0, 3), output
    found = findings(there.out)
    assert found["clean"] is True and [each["proven"] for each in found["faults"]] == [True], found["faults"]
    assert there.stages() == {"before": True, "effect": True, "gone": True}
    left = {event["node"] for event in events(there.out) if event["kind"] == "cluster.node_left"}
    assert left == {"c-data"}, output
    assert wait_until(there.well, 60)


def never_green(there: There, code: int, output: str, outcome: str, *, clean: bool = True) -> None:
    assert code not in (0, 1), output
    found = findings(there.out)
    assert found["outcome"] == outcome and found["clean"] is clean, (found["headline"], output)
    assert not any(each["proven"] for each in found["faults"])


STOP = "node.stop: {target: node c-data}"


@pytest.mark.full
def test_a_minute_of_fis_is_a_minute_where_nothing_is_scaled(playground: LocalLab, tmp_path: Path) -> None:
    """PT1M: FIS starts the instance again a minute after it was stopped, since nobody else is there to do it."""
    with stood(playground, tmp_path, scale=1.0) as there:
        there.file.write_text(there.file.read_text().replace('"longest": "2h"', '"longest": "1m"'))
        running = there.begin(STOP, "8s")
        await_event(running, there.out, in_effect, 300)
        for keeper in keepers_of(running.process.pid):
            keeper.kill()
        running.process.kill()
        running.process.wait()
        (made,) = there.fis.experiments()
        assert wait_until(lambda: set(there.states().values()) == {"running"}, 180)
        told = there.fis.call("fis", "get_experiment", id=made["id"])["experiment"]
        (action,) = told["actions"].values()
        assert action["parameters"] == {"startInstancesAfterDuration": "PT1M"}
        assert (told["endTime"] - told["startTime"]).total_seconds() >= 60.0
        code, output = cli("recover", "--on", there.file)
        assert code == 0, output
        mended(playground)


@pytest.mark.full
@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("network.latency: {links: to zone c, delay: 300ms, jitter: 20ms}", "JitterMilliseconds 0"),
        ("network.loss: {links: to zone c, share: 20%}", "a lab loses all packets of a link or none, and not 20 %"),
    ],
    ids=["jitter", "loss"],
)
def test_what_has_no_counterpart_in_a_lab_fails_at_the_endpoint_and_is_never_green(
    there: There, fault: str, why: str
) -> None:
    code, output = there.run(fault)
    never_green(there, code, output, "error")
    assert "did not come to run: failed" in " ".join(output.split()) and why in " ".join(output.split()), output
    assert wait_until(there.well, 60)


@pytest.mark.full
def test_a_document_that_its_action_leaves_behind_is_cancelled(playground: LocalLab, tmp_path: Path) -> None:
    """FIS ends its action and leaves the document to itself: the undo cancels the command, and proves its end."""
    with stood(playground, tmp_path, lambda setup: replace(setup, hands=IdleHands(setup.hands, begins=True))) as there:
        code, output = there.run("network.latency: {links: to zone c, delay: 300ms}")
        assert code in (0, 3), output
        found = findings(there.out)
        assert found["clean"] is True and [each["proven"] for each in found["faults"]] == [True], found["faults"]
        assert there.stages() == {"before": True, "effect": True, "held": True, "gone": True}
        commands = there.fis._all("ssm", "list_commands", "Commands")
        assert {each["Status"] for each in commands} == {"Cancelled"} and there.well()


@pytest.mark.full
def test_completed_without_having_done_anything_is_inconclusive(playground: LocalLab, tmp_path: Path) -> None:
    with stood(playground, tmp_path, lambda setup: replace(setup, hands=IdleHands(setup.hands))) as there:
        code, output = there.run(STOP)
        never_green(there, code, output, "inconclusive")
        assert there.well()


@pytest.mark.full
def test_plain_moto_as_the_endpoint_is_refused_before_a_run_begins(there: There) -> None:
    """It says of every experiment that it is completed; what it makes of one is in test_fis_plain_moto.py."""
    there.file.write_text(there.file.read_text().replace(there.stands.url, there.moto))
    code, output = there.run(STOP)
    assert code == 2 and "get_safety_lever" in " ".join(output.split()) and not there.out.exists(), output
    code, output = cli("fis", "preflight", "--on", there.file)
    assert code == 2 and "REFUSED  safety lever" in output, output
    assert set(there.states().values()) == {"running"}


@pytest.mark.full
def test_another_instance_than_was_asked_for_is_no_proof(playground: LocalLab, tmp_path: Path) -> None:
    def astray(setup: Setup) -> Setup:
        (other,) = setup.resources.find("aws:ec2:instance", tags={mirror.NODE: "b-data", mirror.LAB: playground.id})
        return replace(setup, hands=AstrayHands(setup.hands, other))

    with stood(playground, tmp_path, astray) as there:
        code, output = there.run(STOP)
        never_green(there, code, output, "inconclusive")
        assert wait_until(there.well, 60)
        mended(playground)


@pytest.mark.full  # tests/unit/targets/existing/test_fis.py shows it too
@pytest.mark.parametrize("more", [False, True], ids=["another", "one more"])
def test_fis_that_chooses_others_than_were_asked_for_is_stopped(
    playground: LocalLab, tmp_path: Path, more: bool
) -> None:
    def choosing(setup: Setup) -> Setup:
        (other,) = setup.resources.find("aws:ec2:instance", tags={mirror.NODE: "b-data", mirror.LAB: playground.id})
        return replace(setup, resolve=elsewhere(other, more=more))

    with stood(playground, tmp_path, choosing) as there:
        code, output = there.run(STOP)
        never_green(there, code, output, "error")
        assert "FIS chose other targets" in " ".join(output.split()), output
        assert wait_until(there.well, 60)
        mended(playground)


@pytest.mark.full
def test_a_stop_that_answers_and_does_nothing_leaves_the_run_dirty(playground: LocalLab, tmp_path: Path) -> None:
    idle = Times("idle stop", frozenset({"StopExperiment"}), left=1_000)
    with stood(playground, tmp_path, lambda setup: replace(setup, serve=tampering(idle))) as there:
        there.file.write_text(there.file.read_text().replace('"longest": "2h"', '"longest": "12h"'))
        running = there.begin(STOP)
        await_event(running, there.out, in_effect, 300)
        running.signal(signal.SIGINT)
        code, output = running.end(1500)
        assert code == 6, output
        idle.left = 0
        code, output = cli("recover", "--on", there.file)
        assert wait_until(there.well, 120), output
        mended(playground)


@pytest.mark.full  # tests/unit/targets/existing/test_fis.py has alarms
def test_an_alarm_ends_the_run_and_nothing_is_left(there: There) -> None:
    running = there.begin(STOP)
    await_event(running, there.out, in_effect, 300)
    there.stands.alarms.set_alarm_state(AlarmName=standing.ALARM, StateValue="ALARM", StateReason="users suffer")
    code, output = running.end(600)
    assert code == 4 and "we did not stop it" in " ".join(output.split()), output
    assert findings(there.out)["clean"] is True and wait_until(there.well, 60)


@pytest.mark.full
def test_an_alarm_without_data_and_an_engaged_lever_refuse_a_run_before_it_begins(there: There) -> None:
    lever = there.fis.clients.client("fis")
    there.stands.alarms.set_alarm_state(
        AlarmName=standing.ALARM, StateValue="INSUFFICIENT_DATA", StateReason="nothing was heard"
    )
    code, output = there.run(STOP)
    assert code == 2 and "INSUFFICIENT_DATA" in output and not there.out.exists(), output
    there.stands.alarms.set_alarm_state(AlarmName=standing.ALARM, StateValue="OK", StateReason="nobody suffers")
    lever.update_safety_lever_state(id="default", state={"status": "engaged", "reason": "a holiday"})
    code, output = there.run(STOP)
    assert code == 2 and "the safety lever is engaged" in output and not there.out.exists(), output
    assert there.well()


@pytest.mark.full
def test_the_keeper_stops_what_a_dead_runner_cannot(there: There) -> None:
    running = there.begin(STOP)
    await_event(running, there.out, in_effect, 300)
    running.process.kill()
    running.process.wait()
    assert wait_until(there.well, 120), there.fis.left()
    code, output = cli("recover")
    assert code == 0 and "could not" not in output, output


@pytest.mark.full
def test_fis_itself_ends_it_when_everybody_is_dead(there: There, tmp_path: Path) -> None:
    """The duration is the dead-man's switch: the runner and its keeper are killed, and nobody recovers."""
    there.file.write_text(there.file.read_text().replace('"longest": "2h"', '"longest": "20m"'))
    running = there.begin(STOP, "20s")
    await_event(running, there.out, in_effect, 300)
    for keeper in keepers_of(running.process.pid):
        keeper.kill()
    running.process.kill()
    running.process.wait()
    assert set(there.states().values()) == {"running", "stopped"}
    assert wait_until(lambda: set(there.states().values()) == {"running"}, 120)
    for words in (("recover", "--on", there.file), ("recover",)):
        code, output = cli(*words)
        assert code == 0, output
    assert wait_until(there.well, 60)


MOMENTS = ("fault.command", "fault.in_effect", "fault.undo")
LONGEST, BOUND = '"longest": "40m"', 240.0
"""FIS ends a fault after two minutes here: within one a cluster may not have missed nodes that are cut off. Seconds
from a kill until all is undone: that, and a node needs time to start."""


@pytest.mark.full
@pytest.mark.parametrize("seed", range(20))
def test_a_runner_killed_at_a_random_moment_leaves_nothing(there: There, seed: int) -> None:
    """By the keeper; where that is dead too, by FIS, when the fault has lasted as long as it may."""
    drawn = random.Random(seed)
    kind, fault = MOMENTS[seed % 3], STOP if seed % 2 else "zone.isolation: {zone: c}"
    who = "runner and keeper" if seed // 2 % 2 else "runner"
    there.file.write_text(there.file.read_text().replace('"longest": "2h"', LONGEST))
    running = there.begin(fault, "8s")
    await_event(running, there.out, lambda event: event["kind"] == kind, 300)
    time.sleep(drawn.uniform(0.0, 2.0))
    keepers = keepers_of(running.process.pid) if running.process.poll() is None else []
    began = time.monotonic()
    running.process.kill()
    for each in keepers if "keeper" in who else []:
        each.kill()
    running.process.wait()

    def nothing() -> bool:
        """Now, and not later either: no experiment goes on, and nobody who would end one."""
        going = [each for each in there.fis.experiments() if each["state"]["status"] not in OVER]
        well = set(there.states().values()) == {"running"} and broken(there.lab) == []
        return well and not going and psutil.wait_procs(keepers, 0)[1] == []

    assert wait_until(nothing, BOUND), (there.states(), broken(there.lab))
    what = f"seed {seed}, {who}, {kind} of {fault.partition(':')[0]}"
    print(f"{what}: nothing of it active after {time.monotonic() - began:.1f} s")
    for words in (("recover", "--on", there.file), ("recover",)):
        code, output = cli(*words)
        assert code == 0, output
    assert wait_until(there.well, 60), there.fis.left()


def stage(name: str) -> Callable[[dict[str, Any]], bool]:
    return lambda event: event["kind"] == "stage" and event["name"] == name


@pytest.mark.full
@pytest.mark.parametrize(
    "at",
    [
        pytest.param(stage("preload"), id="nothing is ordered yet"),
        pytest.param(lambda event: event["kind"] == "fault.command", id="FIS is asked"),
        pytest.param(in_effect, id="in mid-fault"),
        pytest.param(lambda event: event["kind"] == "fault.undo", id="FIS is told to end it"),
        pytest.param(stage("settle"), id="all is over"),
    ],
)
def test_ctrl_c_in_each_phase_undoes_reports_and_exits(there: There, at: Callable[[dict[str, Any]], bool]) -> None:
    running = there.begin(STOP, "8s")
    await_event(running, there.out, at, 300)
    running.signal(signal.SIGINT)
    code, output = running.end(300)
    assert code == 4 and "Traceback" not in output, output
    found = findings(there.out)
    assert (found["outcome"], found["clean"]) == ("aborted", True), found["headline"]
    assert (run_folder(there.out) / "report.html").is_file()
    assert wait_until(there.well, 60), (there.states(), there.fis.left())
    code, output = cli("recover", "--on", there.file)
    assert code == 0, output


@pytest.mark.full
def test_a_disk_that_fills_up_in_mid_fault_ends_it_at_fis_too(there: There) -> None:
    """Room for undo and report was kept aside. The watch over the disk ends it (exit 3), or a failed write (exit 5)."""
    with tmpfs(there.out, "64m"):
        running = there.begin(STOP)
        await_event(running, there.out, in_effect, 300)
        fill(there.out)
        code, output = running.end(300)
        assert code in (3, 5) and "Traceback" not in output, output
        found = findings(there.out)
        assert (found["outcome"], found["clean"]) == ({3: "inconclusive", 5: "error"}[code], True), found["headline"]
        assert "No space left" in found["summary"] or "MiB free" in found["summary"], found["summary"]
        assert wait_until(there.well, 60), (there.states(), there.fis.left())


@pytest.mark.full
def test_whoever_runs_it_needs_no_root(there: There) -> None:
    """A user without any right on this machine but to read: FIS is asked over HTTP, and so is the cluster."""
    with tempfile.TemporaryDirectory() as name:  # the folders of tests are root's, and shut
        home = Path(name)
        file, out = home / "topologies" / "existing" / there.file.name, home / "reports"
        file.parent.mkdir(parents=True)
        shutil.copy(there.file, file)
        experiment = shutil.copy(there.arguments(STOP)[1], home)
        for each in (home, *home.rglob("*")):
            os.chown(each, NOBODY, NOBODY)
        reads = "-all,+dac_read_search"  # this checkout may be root's too
        drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", f"--bounding-set={reads}"]
        drop += [f"--inh-caps={reads}", f"--ambient-caps={reads}"]
        environment = os.environ | {"HOME": name, STATE_VARIABLE: str(home / "state"), "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [*drop, *command("run", experiment, "--on", file, "--out", out)],
            env=environment, capture_output=True, text=True, timeout=900, cwd=home,
        )  # fmt: skip
        assert done.returncode in (0, 3), done.stdout + done.stderr  # a busy machine may send late
        assert run_folder(out).stat().st_uid == NOBODY
        found = findings(out)
        assert found["clean"] is True and [each["proven"] for each in found["faults"]] == [True], found["faults"]
    assert wait_until(there.well, 60)


def broken(lab: LocalLab) -> list[str]:
    """Nodes that do not run, and hosts that do not reach each other."""
    dead = [node.name for node in lab.topology.nodes if lab.process_state(node.name) in (None, "T", "Z")]
    hosts = [host.name for host in lab.wiring.hosts]
    return dead + [f"{a} from {b}" for a in hosts for b in hosts if a != b and not lab.reaches_neighbour(a, b)]


def test_preflight_policy_and_export_tell_before_anything_is_made(there: There) -> None:
    code, output = cli("fis", "preflight", "--on", there.file)
    assert code == 0 and "preflight: OK" in output and "nothing about AWS" in " ".join(output.split()), output
    file = there.folder / "there.yaml"
    file.write_text(EXPERIMENT % ("6s", STOP))
    code, output = cli("fis", "export", file, "--on", there.file)
    assert code == 0, output
    request = json.loads(output)
    assert list(request["actions"]) == ["stop-nodes-0"]
    code, output = cli("fis", "policy", file, "--on", there.file)
    assert code == 0 and "ec2:StopInstances" in output and "ssm:SendCommand" not in output, output
    assert administer(there.lab, "GET", "/_cat/indices?format=json")[0] == 200 and there.well()


@pytest.mark.full  # tests/unit/targets/existing/test_fis.py
def test_a_plan_that_asks_fis_hits_nobody(there: There) -> None:
    file = there.folder / "there.yaml"
    file.write_text(EXPERIMENT % ("6s", STOP))
    code, output = cli("plan", file, "--on", there.file, "--fis")
    assert code == 0 and "chose exactly the 1 resource that it should" in " ".join(output.split()), output
    assert there.well() and {each["state"]["status"] for each in there.fis.experiments()} == {"completed"}
    code, output = cli("plan", file, "--fis")
    assert code == 2 and "--on" in output, output
    there.fis.make_template("plan-dead", "f1", acceptance.WAIT)  # of one that was killed
    code, output = cli("recover", "--on", there.file)
    assert code == 0 and "plan-dead" in output and there.fis.left() == [], output


@pytest.mark.full  # tests/unit/targets/existing/test_acceptance.py
def test_acceptance_says_what_it_would_do_and_what_it_costs(there: There) -> None:
    file, evidence = there.folder / "there.yaml", there.folder / "evidence.json"
    file.write_text(EXPERIMENT % ("6s", STOP))
    asked = ("fis", "acceptance", file, "--on", there.file, "--out", evidence)
    code, output = cli(*asked, "--ceiling", "100")
    assert code == 0 and "nothing was made" in output and "action-minutes" in output, output
    code, output = cli(*asked, "--ceiling", "0.1", "--go")
    assert code == 2 and "more than $0.10" in output, output
    assert not evidence.exists() and there.fis.experiments() == [] and there.well()


@pytest.mark.full
def test_acceptance_ends_in_evidence_without_a_name_of_its_owner_s(there: There) -> None:
    file, evidence = there.folder / "there.yaml", there.folder / "evidence.json"
    file.write_text(EXPERIMENT % ("6s", STOP))
    asked = ("fis", "acceptance", file, "--on", there.file, "--out", evidence, "--ceiling", "100", "--go")
    code, output = cli(*asked, timeout=900)
    assert code == 0, output
    text = evidence.read_text()
    found = json.loads(text)
    assert all(claim["well"] for claim in found["claims"]) and len(found["claims"]) == 9
    (run,) = found["runs"]
    assert run["as_believed"] and run["clean"] and {"effect", "gone"} <= {each["stage"] for each in run["faults"]}
    instances = mirror.Mirror(there.lab.id, there.moto).instances().values()
    own = {*(each.id for each in instances), *(each.node for each in instances), "123456789012"}
    assert [name for name in own if name in text] == []
    assert found["against"] != "AWS" and there.well()


# ---- the endpoint itself dies -----------------------------------------------------------------------------


class Endpoint:
    """``opensearch-chaos fis-endpoint`` as a process of its own, which can be killed and started again."""

    def __init__(self, lab: LocalLab, folder: Path) -> None:
        self.lab, self.target = lab, folder / "topologies" / "existing" / "staging.yaml"
        self.process: Cli | None = None

    def start(self) -> Fis:
        self.target.unlink(missing_ok=True)
        self.process = Cli("fis-endpoint", self.lab.id, "--target", self.target, "--time-scale", f"{SCALE:g}")
        assert wait_until(self.target.exists, 120), self.process.end(1)
        written = load_existing(self.target).written
        assert written.fis is not None
        return Fis(written.fis, written.name)

    def kill(self) -> None:
        assert self.process is not None
        self.process.process.kill()
        self.process.process.wait()


@pytest.fixture
def endpoint(playground: LocalLab, tmp_path: Path) -> Iterator[Endpoint]:
    made = Endpoint(playground, tmp_path)
    yield made
    assert made.process is not None
    made.process.signal(signal.SIGTERM)
    assert made.process.end(120)[0] == 0
    mended(playground)


@pytest.mark.full
def test_an_endpoint_that_is_killed_at_a_random_moment_undoes_at_its_restart(
    endpoint: Endpoint, playground: LocalLab
) -> None:
    for seed in range(10):
        drawn = random.Random(seed)
        fis = endpoint.start()
        draft = stop_instances(["c-data"]) if seed % 2 else disrupt(sorted(ZONE_C), "all")
        drafted = draft(fis.file, fis, SimpleNamespace(topology=playground.topology))
        fis.make_template(f"run-{seed}", "f1", drafted.template)
        thread = threading.Thread(target=_tried, args=(fis, f"run-{seed}", drafted.expected))
        thread.start()
        time.sleep(drawn.uniform(0.0, 3.0))
        endpoint.kill()
        thread.join()
        fis = endpoint.start()
        assert broken(playground) == [], seed
        assert all(each["state"]["status"] in OVER for each in fis.experiments())
        fis.end(f"run-{seed}", "f1", drafted.snapshot)
        fis.drop_template(f"run-{seed}", "f1")
        assert fis.left() == []
        endpoint.kill()
        assert await_green(playground, 240)[0]
    endpoint.start()


def _tried(fis: Fis, run: str, expected: dict[str, list[str]]) -> None:
    with suppress(ChaosError):
        fis.start(run, "f1", expected)
