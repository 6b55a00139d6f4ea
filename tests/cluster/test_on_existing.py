"""Experiments on a cluster that exists: a lab of which the suite knows a file and addresses, and nothing else.

Its zones have other names there than in experiments, and an index of somebody else is on it. Whatever happens, what is
not ours must be as it was.
"""

from __future__ import annotations

import json
import random
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from box import witness
from clusterkit import (
    DATA,
    Cli,
    await_event,
    cli,
    events,
    findings,
    in_effect,
    keepers_of,
    recovered_elsewhere,
    run_folder,
)
from relays import Doors, doors

from chaos.definitions.existing import today
from chaos.opensearch.administration import create_index, delete_index, set_weights, weights
from chaos.opensearch.views import administer, await_green, elected
from chaos.targets.labs.local import LocalLab
from chaos.targets.labs.processes import wait_until

CALLED = {"a": "b", "b": "c", "c": "a"}
"""Zone of experiments → what a cluster calls it."""
STANDBY = {"a": "b", "b": "a", "c": "c"}
"""The same of one whose zone c is its standby."""
FOREVER = f"rung: zone\nuntil: {today() + timedelta(days=300)}\n"
ALLOCATION = "cluster.routing.allocation.enable"
HELD = "  held: {for: %s, inject: {settings.change: {scope: cluster, settings: {" + ALLOCATION + ": none}}}}\n"
EXPERIMENT = """apiVersion: opensearch-chaos/v1
name: there
topology: %s
load:
  read:  {rate: 20/s, good: ok within 4s}
  write: {rate: 20/s, good: ok within 4s}
  documents: 100
phases:
"""
OVER = "  over: {undo: all, until: {green: true, stable: 1s, within: 1m}}\n"
EXPECT = "expect:\n  - {acknowledged.lost: 0}\n"


class There:
    """A lab as somebody else's cluster: its file, and what is on it."""

    def __init__(self, lab: LocalLab, doors: Doors, folder: Path, called: dict[str, str], *, links: bool) -> None:
        self.lab, self.folder, self.doors, urls = lab, folder, doors, doors.nodes()
        self.out = folder / "reports"
        self.file = folder / "topologies" / "existing" / "staging.yaml"
        self.file.parent.mkdir(parents=True)
        who = administer(lab, "GET", "/")[1]
        zone_of = {value: zone for zone, value in called.items()}
        nodes = {
            node.name: {"url": urls[node.name], "zone": zone_of[node.zone], "roles": list(node.roles)}
            for node in lab.topology.nodes
        }
        said = {
            "apiVersion": "opensearch-chaos/v1",
            "kind": "existing",
            "name": "staging",
            "endpoints": [next(iter(urls.values()))],
            "identity": {"cluster_uuid": who["cluster_uuid"], "cluster_name": who["cluster_name"]},
            "opensearch": lab.topology.version,
            "zones": {"names": called},
            "nodes": nodes,
            "notes": ".opensearch-chaos",
            "caps": {
                "requests": "100/s",
                "documents": 1000,
                "copies": lab.topology.shards * (lab.topology.replicas + 1),
            },
            "settings": [ALLOCATION],
        }
        if links:
            balancers = doors.balancers()
            said["load_balancers"] = {zone_of[zone]: url for zone, url in balancers.items()}
            said["toxiproxies"] = doors.toxiproxies(zone_of)
        self.text = "".join(f"{key}: {json.dumps(value)}\n" for key, value in said.items())
        self.write(FOREVER)
        self.before = self.theirs()

    def write(self, rung: str, *changes: tuple[str, str]) -> None:
        text = self.text + rung
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        self.file.write_text(text)

    def experiment(self, phases: str) -> Path:
        file = self.folder / "there.yaml"
        topology = DATA / "tiny.yaml" if self.lab.topology.name == "tiny" else self.lab.topology.name
        file.write_text(EXPERIMENT % topology + phases + EXPECT)
        return file

    def run(self, phases: str) -> tuple[int, str]:
        return cli("run", self.experiment(phases), "--on", self.file, "--out", self.out)

    def begin(self, phases: str) -> Cli:
        return Cli("run", self.experiment(phases), "--on", self.file, "--out", self.out)

    def theirs(self) -> dict[str, Any]:
        """All that could be changed on the cluster and is not the state of shards, votes or versions."""
        return witness.picture(self.lab, ".opensearch-chaos")

    def as_before(self) -> bool:
        return self.theirs() == self.before


@contextmanager
def taken_for_theirs(lab: LocalLab, folder: Path, called: dict[str, str], *, links: bool = False) -> Iterator[There]:
    create_index(lab, "orders", {"number_of_shards": 1, "number_of_replicas": 2})
    try:
        assert await_green(lab, 60)[0]
        with doors(lab) as opened:
            yield There(lab, opened, folder, called, links=links)
    finally:
        delete_index(lab, "orders")


@pytest.fixture
def there(tiny: LocalLab, tmp_path: Path) -> Iterator[There]:
    with taken_for_theirs(tiny, tmp_path, CALLED) as made:
        yield made


@pytest.fixture
def with_standby(playground: LocalLab, tmp_path: Path) -> Iterator[There]:
    with taken_for_theirs(playground, tmp_path, STANDBY) as made:
        yield made


@pytest.fixture
def with_links(playground: LocalLab, tmp_path: Path) -> Iterator[There]:
    with taken_for_theirs(playground, tmp_path, STANDBY, links=True) as made:
        yield made


def steps(out: Path) -> list[str]:
    return [str(event["says"]) for event in events(out) if event["kind"] == "action.done" and event["ok"]]


def test_an_experiment_runs_on_it_and_leaves_it_as_it_was(with_standby: There):
    there = with_standby
    code, output = there.run(
        "  healthy: {for: 1s}\n"
        "  out: {for: 1s, do: {weights: {a: 1, b: 2, c: 0}, decommission: {zone: c, no_delay: true}}}\n"
        "  back: {do: {recommission: {zone: c}}, until: {green: true, stable: 1s, within: 2m}}\n"
        + HELD % "1s"
        + "  over: {undo: all, until: {green: true, stable: 1s, within: 1m}}\n"
    )
    assert code in (0, 3), output  # a busy machine may send late
    found = findings(there.out)
    assert found["clean"] is True and found["outcome"] in ("pass", "inconclusive"), found["reasons"]
    lost = next(each for each in found["findings"] if each["title"].startswith("acknowledged.lost"))
    assert lost["counts_as"] == "pass", lost
    assert [each.split()[0] for each in steps(there.out)] == ["set", "decommission", "recommission"]
    gone = {event["node"] for event in events(there.out) if event["kind"] == "cluster.node_left"}
    assert gone == {"c-cm", "c-data"}
    assert [fault["proven"] for fault in found["faults"]] == [True]
    assert there.as_before()
    plan = json.loads((run_folder(there.out) / "plan.json").read_text())
    assert plan["lab"]["kind"] == "existing" and str(there.folder) not in json.dumps(plan["lab"])
    keepers = [
        each for each in psutil.process_iter(["cmdline"]) if "chaos.commands.keeping" in (each.info["cmdline"] or [])
    ]
    assert keepers == []


@pytest.mark.full  # test_runs.py kills a runner whose lab lives on
def test_the_keeper_undoes_what_a_dead_runner_cannot(there: There):
    running = there.begin("  healthy: {for: 2s}\n" + HELD % "5m")
    await_event(running, there.out, in_effect)
    assert not there.as_before()
    running.process.kill()
    running.process.wait()
    assert wait_until(there.as_before, 60), there.theirs()
    code, output = cli("recover")
    assert code == 0 and "could not" not in output, output


@pytest.mark.full
def test_whatever_forbids_it_is_said_before_anything_is_changed(there: There):
    calm = "  healthy: {for: 2s}\n" + HELD % "3s"
    for rung, changes, says in (
        ("rung: observe\n", (), "the file allows observe"),
        ("rung: zone\nuntil: 2020-01-01\n", (), "zone ended on 2020-01-01"),
        (FOREVER, (('"100/s"', '"10/s"'),), "requests per second: 40, and the file allows 10"),
        (FOREVER, (('"copies": 6', '"copies": 5'),), "copies of shards: 6, and the file allows 5"),
        (FOREVER, (('notes: ".opensearch-chaos"\n', ""),), "no index for notes"),
        (FOREVER, ((f'settings: ["{ALLOCATION}"]\n', ""),), f"does not allow to change {ALLOCATION}"),
    ):
        there.write(rung, *changes)
        code, output = there.run(calm)
        assert code == 2 and says in output and "Traceback" not in output, output
        assert there.as_before() and not there.out.exists()
    there.write(FOREVER)
    template = {"index_patterns": ["oschaos*"], "template": {"settings": {"index": {"refresh_interval": "7s"}}}}
    assert administer(there.lab, "PUT", "/_index_template/greedy", template)[0] == 200
    try:
        code, output = there.run(calm)
        assert code == 2 and "a template of yours would catch oschaos-*" in output, output
    finally:
        administer(there.lab, "DELETE", "/_index_template/greedy")
    assert there.as_before() and not there.out.exists()


@pytest.mark.full
def test_a_rung_that_ends_meanwhile_ends_the_run(there: There):
    running = there.begin("  healthy: {for: 8s}\n" + HELD % "5m")
    await_event(running, there.out, lambda event: event["kind"] == "phase.start")
    there.write("rung: observe\n")
    code, output = running.end(120)
    assert code == 4 and "is not allowed there now" in output and "the file allows observe" in output, output
    assert findings(there.out)["clean"] is True and there.as_before()
    assert [event for event in events(there.out) if event["kind"] == "fault.command"] == []


@pytest.mark.full
def test_a_setting_that_somebody_else_changes_meanwhile_is_left_and_named(there: There):
    running = there.begin("  healthy: {for: 2s}\n" + HELD % "5m")
    await_event(running, there.out, in_effect)
    assert administer(there.lab, "PUT", "/_cluster/settings", {"persistent": {ALLOCATION: "primaries"}})[0] == 200
    try:
        code, output = running.end(180)
        assert code == 6 and "left behind: " in output and "somebody else has changed it since" in output, output
        assert there.theirs()["settings"]["persistent"] == {ALLOCATION: "primaries"}
    finally:
        administer(there.lab, "PUT", "/_cluster/settings", {"persistent": {ALLOCATION: None}})
        assert cli("recover")[0] == 0
    assert there.as_before()


EXCLUSIONS = "/_cluster/voting_config_exclusions"
WITHOUT = "  without: {for: %s, do: {exclude_votes: {target: %s}}}\n"


def without_vote(there: There) -> list[str]:
    return [each["node_name"] for each in there.theirs()["votes"]]


def voting(there: There) -> set[str]:
    state = administer(there.lab, "GET", "/_cluster/state/metadata,nodes")[1]
    names = {id: node["name"] for id, node in state["nodes"].items()}
    return {names[id] for id in state["metadata"]["cluster_coordination"]["last_committed_config"]}


def done(phase: str) -> Callable[[dict[str, Any]], bool]:
    return lambda event: event["kind"] == "action.done" and event["ok"] and event["says"].startswith(phase)


def exclude(there: There, node: str) -> None:
    assert administer(there.lab, "POST", f"{EXCLUSIONS}?node_names={node}")[0] == 200


def end_exclusions(there: There) -> None:
    assert administer(there.lab, "DELETE", f"{EXCLUSIONS}?wait_for_removal=false")[0] == 200


@pytest.fixture
def voted(there: There) -> Iterator[There]:
    """Where votes are given back, whatever a test ended in: with them away its lab would lead no further test."""
    yield there
    end_exclusions(there)


@pytest.mark.full
def test_votes_are_taken_away_for_a_phase_and_given_back(voted: There):
    there = voted
    running = there.begin(
        "  healthy: {for: 2s}\n"
        + WITHOUT.replace("without", "one") % ("8s", "node a-all")
        + "  again: {for: 3s, do: {include_votes: {}}}\n"
        + WITHOUT % ("8s", "elected cluster manager")
    )
    await_event(running, there.out, done("take the votes of node a-all away"))
    assert without_vote(there) == ["b-all"] and "b-all" not in voting(there)  # which zone a's is there
    await_event(running, there.out, done("give the votes back"))
    assert without_vote(there) == []
    await_event(running, there.out, done("take the votes of elected cluster manager away"))
    (led,) = without_vote(there)
    assert led not in voting(there) and elected(there.lab) not in (None, led)
    code, output = running.end(180)
    assert code in (0, 3), output  # a busy machine may send late
    found = findings(there.out)
    assert found["clean"] is True and found["outcome"] in ("pass", "inconclusive"), found["reasons"]
    assert there.as_before() and wait_until(lambda: len(voting(there)) == 3, 10)


@pytest.mark.full
def test_votes_that_somebody_else_took_keep_a_run_away_and_are_left(voted: There):
    there = voted
    exclude(there, "c-all")
    code, output = there.run(WITHOUT % ("2s", "node a-all"))
    assert code == 2 and "votes: c-all" in output, output
    assert without_vote(there) == ["c-all"] and not there.out.exists()
    end_exclusions(there)
    running = there.begin("  healthy: {for: 2s}\n" + WITHOUT % ("5m", "node a-all"))
    await_event(running, there.out, done("take the votes"))
    exclude(there, "c-all")
    try:
        code, output = running.end(180)
        assert code == 6 and "left behind: " in output, output
        said = " ".join(output.split())
        assert "somebody else has taken those of c-all away since" in said, output
        # from b-all, or from unset where both came between two looks
        assert re.search(r"somebody else changed which nodes have no vote from \S+ to b-all, c-all", said), output
        assert sorted(without_vote(there)) == ["b-all", "c-all"]
    finally:
        end_exclusions(there)
        assert cli("recover")[0] == 0
    assert there.as_before()


@pytest.mark.full
@pytest.mark.parametrize("both", [False, True], ids=["runner", "runner and keeper"])
def test_votes_of_a_dead_runner_are_given_back(voted: There, tmp_path: Path, both: bool):
    there = voted
    running = there.begin("  healthy: {for: 2s}\n" + WITHOUT % ("5m", "node a-all"))
    await_event(running, there.out, done("take the votes"))
    assert without_vote(there) == ["b-all"]
    if both:
        for child in psutil.Process(running.process.pid).children():
            if "chaos.commands.keeping" in " ".join(child.cmdline()):
                child.send_signal(signal.SIGKILL)
    running.process.kill()
    running.process.wait()
    if both:
        code, output = recovered_elsewhere(there.file, tmp_path)
        assert code == 0 and "votes.exclude" in output, output
    assert wait_until(there.as_before, 60), there.theirs()
    code, output = cli("recover")
    assert code == 0 and "could not" not in output, output


BLOCKED = "  %s: {for: %s, inject: {settings.change: {scope: index, settings: {%s: true}}}}\n"
BLOCKS = ("blocks.write", "blocks.read_only")


@pytest.mark.full
def test_its_own_index_is_blocked_and_free_again(there: There):
    after = "  after_%s: {for: 2s, undo: all}\n"
    code, output = there.run(
        "  healthy: {for: 2s}\n"
        + "".join(BLOCKED % (f"held_{n}", "3s", key) + after % n for n, key in enumerate(BLOCKS))
    )
    assert code in (0, 3), output
    found = findings(there.out)
    assert [fault["proven"] for fault in found["faults"]] == [True] * len(BLOCKS)
    assert found["clean"] is True and there.as_before()


@pytest.mark.full
@pytest.mark.parametrize("key", BLOCKS)
def test_a_blocked_index_of_a_dead_runner_is_taken_away(there: There, key: str):
    running = there.begin("  healthy: {for: 2s}\n" + BLOCKED % ("held", "5m", key))
    await_event(running, there.out, in_effect)
    running.process.kill()
    running.process.wait()
    assert wait_until(there.as_before, 60), there.theirs()
    code, output = cli("recover")
    assert code == 0 and "could not" not in output, output


@pytest.mark.full
def test_another_machine_undoes_it_when_the_keeper_died_too_and_not_before(there: There, tmp_path: Path):
    def recovered() -> tuple[int, str]:
        return recovered_elsewhere(there.file, tmp_path)

    running = there.begin("  healthy: {for: 2s}\n" + HELD % "5m")
    await_event(running, there.out, in_effect)
    code, output = recovered()
    assert code == 2 and "is alive" in output, output
    code, output = there.run("  healthy: {for: 2s}\n")
    assert code == 2, output  # on this machine by the lock of the target's folder, elsewhere by the notes
    for child in keepers_of(running.process.pid):
        child.send_signal(signal.SIGKILL)
    running.process.kill()
    running.process.wait()
    assert not there.as_before()
    code, output = recovered()
    assert code == 0 and "undone of run" in output, output
    assert there.as_before()
    code, output = cli("recover")
    assert code == 0, output
    assert recovered() == (0, "nothing is left behind\n")


SLOW = "  slow: {for: %s, inject: {network.latency: {links: to zone c, delay: 3s}}, scripted_wait: true}\n"


@pytest.mark.full
def test_a_slow_zone_by_their_toxiproxies_and_its_decommission(with_links: There):
    there = with_links
    experiment = there.experiment(
        "  healthy: {for: 10s}\n"
        + SLOW % "15s"
        + "  failover: {for: 40s, do: {decommission: {zone: c, no_delay: true}}}\n"
        "  returned: {undo: network.latency, do: {recommission: {zone: c}},"
        " until: {green: true, stable: 5s, within: 3m}}\n"
    )
    text = experiment.read_text().replace("ok within 4s", "ok within 2s")
    experiment.write_text(text + "  - {phase: slow, write.good: '< 10%'}\n  - {phase: slow, read.good: '>= 99%'}\n")
    code, output = cli("run", experiment, "--on", there.file, "--out", there.out)
    assert code in (0, 3), output  # a busy machine may send late
    found = findings(there.out)
    assert found["clean"] is True and found["outcome"] in ("pass", "inconclusive"), found["reasons"]
    assert [(fault["kind"], fault["proven"]) for fault in found["faults"]] == [("network.latency", True)]
    of = {each["id"]: each["counts_as"] for each in found["findings"]}
    assert of["write.good@slow"] == "pass" and of["acknowledged.lost"] == "pass", found["findings"]
    assert there.as_before()
    plan = json.loads((run_folder(there.out) / "plan.json").read_text())
    assert {each["node"] for each in plan["client"]["targets"]} == {"balancer-a", "balancer-b"}


@pytest.mark.full
@pytest.mark.parametrize("both", [False, True], ids=["runner", "runner and keeper"])
def test_toxics_of_a_dead_runner_are_taken_back(with_links: There, tmp_path: Path, both: bool):
    there = with_links
    running = there.begin("  healthy: {for: 2s}\n" + SLOW % "5m")
    await_event(running, there.out, in_effect)
    assert not there.as_before()
    if both:
        for child in keepers_of(running.process.pid):
            child.send_signal(signal.SIGKILL)
    running.process.kill()
    running.process.wait()
    if both:
        code, output = recovered_elsewhere(there.file, tmp_path)
        assert code == 0, output
    assert wait_until(there.as_before, 60), there.theirs()
    assert cli("recover")[0] == 0


@pytest.mark.full
def test_a_toxic_of_somebody_else_keeps_a_run_away_and_stays(with_links: There):
    there = with_links
    there.lab.add_toxic("a-data", "to-b-data-transport", "theirs", "latency", "upstream", {"latency": 1})
    try:
        code, output = there.run("  healthy: {for: 2s}\n" + SLOW % "5s")
        assert code == 2 and "to-b-data-transport has the toxic theirs" in output, output
        assert "theirs" in json.dumps(there.lab.proxies("a-data"))
    finally:
        there.lab.remove_toxic("a-data", "to-b-data-transport", "theirs")
    assert there.as_before() and not there.out.exists()


KILLS = 30
EVERYTHING = (
    "  healthy: {for: 2s}\n"
    + HELD % "3s"
    + SLOW.replace("inject:", "undo: all, inject:") % "4s"
    + "  out: {for: 5s, undo: all, do: {weights: {a: 1, b: 2, c: 0}, decommission: {zone: c, no_delay: true}}}\n"
    "  back: {do: {recommission: {zone: c}}, until: {green: true, stable: 1s, within: 2m}}\n"
)
"""A setting, toxics, weights and a decommission, one after the other: some half a minute from the command on."""


@pytest.mark.full
@pytest.mark.parametrize("seed", range(KILLS))
def test_whenever_it_dies_everything_is_as_before(with_links: There, tmp_path: Path, seed: int):
    """The runner, the runner and its keeper, or the runner and the network, at a moment drawn from the seed."""
    there, drawn = with_links, random.Random(seed)
    with_it = ("nothing", "the keeper", "the network")[seed % 3]
    running = there.begin(EVERYTHING)
    assert wait_until(lambda: any(there.out.glob("*/ledger.jsonl")) or running.process.poll() is not None, 60)
    time.sleep(drawn.uniform(0, 30))
    if with_it == "the keeper":
        for child in psutil.Process(running.process.pid).children() if running.process.poll() is None else ():
            if "chaos.commands.keeping" in " ".join(child.cmdline()):
                child.send_signal(signal.SIGKILL)
    if with_it == "the network":
        there.doors.cut()
    running.process.kill()
    running.process.wait()
    if with_it == "the network":
        time.sleep(drawn.uniform(5, 15))
        there.doors.mend()
    if with_it == "the keeper":
        code, output = recovered_elsewhere(there.file, tmp_path)
        assert code == 0, output
    assert wait_until(there.as_before, 90), there.theirs()
    code, output = cli("recover")
    assert code == 0 and "could not" not in output, output
    assert await_green(there.lab, 120)[0]


@pytest.mark.full
def test_a_run_that_is_cut_off_is_undone_by_its_keeper_once_it_can(with_links: There):
    there = with_links
    running = there.begin("  healthy: {for: 2s}\n" + HELD % "10s" + "  over: {undo: all, for: 5s}\n")
    await_event(running, there.out, in_effect)
    there.doors.cut()
    code, output = running.end(300)
    assert code in (5, 6) and "the keeper goes on trying" in output, output
    there.doors.mend()
    assert wait_until(there.as_before, 90), there.theirs()
    assert cli("recover")[0] == 0


ROTATING = "controller: {zones: [a, b], rotate_every: 5s, cool_down: 5s, lead_from_standby: %s}\n"
"""Zones as the file calls them: its a is the lab's b."""


def controlled(there: There, phases: str, *, lead: bool = False) -> Path:
    """An experiment with controllers that rotate the roles, allowed by the file."""
    copies = there.lab.topology.shards * (there.lab.topology.replicas + 1)
    there.write(FOREVER, (f'"copies": {copies}', f'"copies": {copies + 6}'))
    experiment = there.experiment(phases)
    experiment.write_text(experiment.read_text() + ROTATING % json.dumps(lead))
    return experiment


def told_by_controllers(out: Path) -> list[dict[str, Any]]:
    files = sorted((run_folder(out) / "history").glob("failover-*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines() if line.endswith("}")]


def rotated(there: There) -> bool:
    """Whether the roles are not as before now."""
    return bool(there.theirs()["weights"] != there.before["weights"])


def controllers_of(running: Cli) -> list[psutil.Process]:
    children = psutil.Process(running.process.pid).children()
    return [child for child in children if "failover" in child.cmdline()]


@pytest.mark.full
def test_controllers_rotate_its_zones_and_everything_is_as_before(with_standby: There):
    there = with_standby
    experiment = controlled(there, "  rotating: {for: 25s}\n")
    code, output = cli("run", experiment, "--on", there.file, "--out", there.out)
    found = findings(there.out)
    assert code in (0, 3), output  # a busy machine may send late
    assert found["clean"] is True and found["outcome"] in ("pass", "inconclusive"), found["reasons"]
    told = told_by_controllers(there.out)
    assert {event["controller"] for event in told} == {"controller-a", "controller-b"}
    seen = [event["weights"] for event in told if event["kind"] == "failover.weights"]
    assert seen[0] == {"a": 1, "b": 1, "c": 0}  # as the file calls zones
    done = [event for event in told if event["kind"] == "failover.done" and event["step"] == "weights"]
    assert len(done) >= 2 and {event["zone"] for event in done} >= {"a", "b"}, done  # c, a, b stand by in turn
    assert [event for event in events(there.out) if event["kind"] == "configuration.changed"] == []
    assert there.as_before(), witness.differences(there.before, there.theirs())


@pytest.mark.full
@pytest.mark.parametrize("both", [False, True], ids=["runner", "runner and keeper"])
def test_what_controllers_of_a_dead_runner_did_is_taken_back(with_standby: There, tmp_path: Path, both: bool):
    there = with_standby
    running = Cli("run", controlled(there, "  rotating: {for: 5m}\n"), "--on", there.file, "--out", there.out)
    assert wait_until(lambda: rotated(there) or running.process.poll() is not None, 180)
    mine = controllers_of(running)
    assert len(mine) == 2
    if both:
        for child in psutil.Process(running.process.pid).children():
            if "chaos.commands.keeping" in " ".join(child.cmdline()):
                child.send_signal(signal.SIGKILL)
    running.process.kill()
    running.process.wait()
    assert psutil.wait_procs(mine, 15)[1] == []
    if both:
        assert not there.as_before()
        code, output = recovered_elsewhere(there.file, tmp_path)
        assert code == 0 and "watching for 60 s" in output, output
    assert wait_until(there.as_before, 60), witness.differences(there.before, there.theirs())
    code, output = cli("recover")
    assert code == 0 and "could not" not in output, output


@pytest.mark.full
def test_a_runner_that_stands_still_loses_its_controllers_before_anything_is_undone(with_standby: There):
    there = with_standby
    running = Cli(
        "run", controlled(there, "  rotating: {for: 5m}\n", lead=True), "--on", there.file, "--out", there.out
    )
    assert wait_until(lambda: rotated(there) or running.process.poll() is not None, 180)
    mine = controllers_of(running)
    assert len(mine) == 2
    mine[0].suspend()  # one that would act later
    running.process.send_signal(signal.SIGSTOP)
    try:
        assert wait_until(there.as_before, 60), witness.differences(there.before, there.theirs())
        assert not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in mine)
        time.sleep(10)
        assert there.as_before(), witness.differences(there.before, there.theirs())
    finally:
        running.process.send_signal(signal.SIGCONT)
    code, output = running.end(180)
    assert code in (3, 4, 5), output  # by who first notices what of it is gone
    assert there.as_before() and cli("recover")[0] == 0


@pytest.mark.full
def test_weights_that_somebody_else_sets_between_rotations_are_left_and_named(with_standby: There):
    there = with_standby
    running = Cli("run", controlled(there, "  rotating: {for: 5m}\n"), "--on", there.file, "--out", there.out)
    assert wait_until(lambda: rotated(there) or running.process.poll() is not None, 180)
    for each in controllers_of(running):
        each.suspend()  # else they rotate what somebody else has set
    set_weights(there.lab, {"a": 3, "b": 2, "c": 0})
    try:
        code, output = running.end(180)
        assert code == 6 and "somebody else has changed the weights since" in output, output
        assert weights(there.lab)[0] == {"a": 3, "b": 2, "c": 0}
    finally:
        set_weights(there.lab, {"a": 1, "b": 1, "c": 0})
        assert cli("recover")[0] == 0
    assert there.as_before(), witness.differences(there.before, there.theirs())


@pytest.mark.full
def test_canaries_of_others_and_balancers_that_nobody_steers_keep_controllers_away(with_links: There):
    there, lab = with_links, with_links.lab
    experiment = controlled(there, "  rotating: {for: 5s}\n")
    refused = cli("run", experiment, "--on", there.file, "--out", there.out)
    assert refused[0] == 2 and "steers clients that go through the load balancers" in refused[1], refused[1]
    experiment.write_text(experiment.read_text().replace("controller: {", "controller: {steer: false, "))
    create_index(lab, ".failover-canary-1", {"hidden": True, "number_of_replicas": 2})
    try:
        refused = cli("run", experiment, "--on", there.file, "--out", there.out)
        assert refused[0] == 2 and "failover controllers of others run there" in refused[1], refused[1]
    finally:
        delete_index(lab, ".failover-canary-1")
    assert there.as_before() and not there.out.exists()


SLOW_ZONE = (
    "  healthy: {for: 3s}\n"
    "  slow: {for: 30s, inject: {network.latency: {links: around zone c, delay: 800ms}}, scripted_wait: true}\n"
    "  returned: {undo: network.latency, until: {green: true, stable: 2s, within: 3m}}\n"
)


@pytest.mark.full
def test_controllers_lead_writes_away_from_a_slow_zone_there(with_links: There):
    there = with_links
    experiment = controlled(there, SLOW_ZONE)
    text = experiment.read_text().replace("rotate_every: 5s", "steer: false, return_after: 5s")
    experiment.write_text(text)
    code, output = cli("run", experiment, "--on", there.file, "--out", there.out)
    assert code in (0, 3), output  # a busy machine may send late
    assert findings(there.out)["clean"] is True
    done = {
        (event["step"], event["zone"]) for event in told_by_controllers(there.out) if event["kind"] == "failover.done"
    }
    assert ("decommission", "c") in done, done
    assert there.as_before(), witness.differences(there.before, there.theirs())


def rolled(lab: LocalLab, *words: str) -> str:
    command = json.dumps([sys.executable, str(DATA / "roll.py"), lab.id, *words])
    return f"  healthy: {{for: 2s}}\n  roll: {{during: {{command: {command}, within: 6m, restarts: role data"


@pytest.mark.full
def test_others_restart_its_nodes_one_after_the_other(there: There):
    nodes = [node.name for node in there.lab.topology.nodes]
    code, output = there.run(f"{rolled(there.lab, *nodes)}, changes: [{ALLOCATION}]}}}}\n" + HELD % "2s" + OVER)
    assert code in (0, 3), output
    found = findings(there.out)
    assert {reason["cause"] for reason in found["reasons"]} <= {"instrument", "pushed"}, found["reasons"]
    (proof,) = [event for event in events(there.out) if event["kind"] == "during.proof"]
    assert proof["proven"] is True and set(proof["nodes"]) == set(nodes)
    assert found["clean"] is True and there.as_before()


@pytest.mark.full
def test_two_of_its_nodes_away_at_once_end_the_run(with_standby: There):
    there, nodes = with_standby, ["a-data", "b-data"]
    try:
        code, output = there.run(f"{rolled(there.lab, '--at-once', '--plainly', *nodes)}}}}}\n")
        assert code == 4 and "are away at the same time, and it was planned that one is" in output, output
    finally:
        for node in nodes:
            there.lab.start_node(node)
        assert await_green(there.lab, 180)[0]
    assert there.as_before()


@pytest.mark.full
def test_what_others_do_with_indices_of_theirs_is_none_of_the_run_s(there: There):
    """A rollover whose index never gets its copies: the cluster is yellow, and what was there is green."""
    running = there.begin("  healthy: {for: 12s}\n" + HELD % "4s" + OVER)
    await_event(running, there.out, lambda event: event["kind"] == "phase.start")
    try:
        never = {"number_of_replicas": 2, "routing.allocation.total_shards_per_node": 1, "number_of_shards": 3}
        create_index(there.lab, "orders-000002", never)
        delete_index(there.lab, "orders")
        code, output = running.end(300)
        assert code in (0, 3), output
        found = findings(there.out)
        assert {reason["cause"] for reason in found["reasons"]} <= {"instrument", "pushed"}, found["reasons"]
        seen = [(event["index"], event["how"]) for event in events(there.out) if event["kind"] == "others.index"]
        assert seen == [("orders", "gone")]
        assert {event["status"] for event in events(there.out) if event["kind"] == "sample"} <= {"green", "unknown"}
        assert found["clean"] is True
    finally:
        delete_index(there.lab, "orders-000002")
