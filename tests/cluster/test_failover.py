"""Failover controllers on a real cluster: they agree on one change, steer clients, and leave nothing behind."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from clusterkit import DATA, ROOT, Cli, await_event, cli, in_effect, nothing_left, run_folder
from standbykit import votes

from chaos.base.errors import ChaosError
from chaos.base.netsock import Endpoint
from chaos.definitions.experiment import Controller, Experiment
from chaos.faults.ledger import Ledger, standing
from chaos.faults.lifecycle import undo_entries
from chaos.instruments.controllers import PORT, Controllers
from chaos.observe.proof import problems
from chaos.opensearch import administration
from chaos.opensearch.rest import NodeClient
from chaos.opensearch.views import administer, await_green, elected
from chaos.registry import load_experiment
from chaos.run.instruments import Changes
from chaos.targets.labs import network
from chaos.targets.labs.local import LocalLab
from chaos.targets.labs.processes import wait_until

CANARIES = "/.failover-canary-*?expand_wildcards=all&filter_path=*.settings.index.uuid"


class Fleet:
    """Controllers in all zones of a lab, and questions to them."""

    def __init__(self, lab: LocalLab, folder: Path, wanted: Controller) -> None:
        experiment: Experiment = load_experiment(ROOT / "experiments" / "standby" / "rotation.yaml")
        for name in ("history", "logs"):
            (folder / name).mkdir(exist_ok=True)
        self.lab, self.folder, self.ledger = lab, folder, Ledger(folder / "ledger.jsonl")
        self.controllers = Controllers(experiment.model_copy(update={"controller": wanted}), lab, folder)

    def start(self) -> None:
        self.controllers.start(Changes(self.ledger), lambda: None)

    def end(self) -> None:
        self.controllers.stop()
        assert undo_entries(self.lab, self.ledger, standing(self.folder / "ledger.jsonl")) == []

    def ask(self, zone: str, method: str, path: str) -> dict:
        client = NodeClient(Endpoint("127.0.0.1", PORT, self.lab.wiring[f"client-{zone}"].namespace))
        try:
            return client.request(method, path)[1]
        finally:
            client.close()

    def events(self, zone: str, kind: str) -> list[dict]:
        lines = (self.folder / "history" / f"failover-{zone}.jsonl").read_text().splitlines()
        return [event for event in map(json.loads, lines) if event["kind"] == kind]


@pytest.fixture
def fleet(playground: LocalLab, tmp_path: Path, request) -> Iterator[Fleet]:
    assert await_green(playground, 60)[0]
    made = Fleet(playground, tmp_path, getattr(request, "param", Controller()))
    before = administration.weights(playground)[0]
    try:
        yield made
    finally:
        made.end()
        assert administration.weights(playground)[0] == before
        assert not administer(playground, "GET", CANARIES)[1]


def test_three_that_are_asked_at_once_rotate_once_and_steer_clients_after_it(fleet: Fleet) -> None:
    lab, zones = fleet.lab, fleet.lab.topology.zones
    weights, version = administration.weights(lab)
    assert weights == {"a": 1, "b": 1, "c": 0}
    fleet.start()
    for zone in zones:
        assert [node["name"] for node in fleet.ask(zone, "GET", "/nodes")["nodes"]] == ["a-data", "b-data"]
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda zone: fleet.ask(zone, "POST", "/rotate"), zones))

    def all_have_seen_it() -> bool:
        return all(any(e["version"] > version for e in fleet.events(zone, "failover.weights")) for zone in zones)

    assert wait_until(all_have_seen_it, 30)
    assert administration.weights(lab) == ({"a": 0, "b": 1, "c": 1}, version + 1)

    def all_steer_to_it() -> bool:
        named = [[node["name"] for node in fleet.ask(zone, "GET", "/nodes")["nodes"]] for zone in zones]
        return all(each == ["b-data", "c-data"] for each in named)

    assert wait_until(all_steer_to_it, 30)
    steps = [event for zone in zones for event in fleet.events(zone, "failover.done")]
    assert steps and all(event["against"] is None for event in steps)
    assert administer(lab, "GET", CANARIES)[1]


@pytest.mark.parametrize("fleet", [Controller(act=False)], indirect=True)
def test_one_that_may_not_act_changes_nothing(fleet: Fleet) -> None:
    before = administration.weights(fleet.lab)
    fleet.start()
    assert len(administer(fleet.lab, "GET", CANARIES)[1]) == 3  # what it may write: it is started with --canaries
    fleet.ask("a", "POST", "/rotate")
    assert wait_until(lambda: bool(fleet.events("a", "failover.recommends")), 30)
    (said,) = fleet.events("a", "failover.recommends")
    assert said["weights"] == {"a": 0, "b": 1, "c": 1} and administration.weights(fleet.lab) == before
    assert fleet.events("a", "failover.step") == []


@pytest.mark.full
@pytest.mark.parametrize("fleet", [Controller(lead_from_standby=True)], indirect=True)
def test_the_elected_manager_follows_the_standby_zone_and_votes_are_given_back(fleet: Fleet) -> None:
    lab = fleet.lab

    def led_by(name: str) -> bool:
        return elected(lab) == name and not administration.excluded(lab) and votes(lab) == 3

    fleet.start()
    assert wait_until(lambda: led_by("c-cm"), 60), (elected(lab), administration.excluded(lab), votes(lab))
    fleet.ask("a", "POST", "/rotate")
    assert wait_until(lambda: administration.weights(lab)[0] == {"a": 0, "b": 1, "c": 1}, 30)
    assert wait_until(lambda: led_by("a-cm"), 120), (elected(lab), administration.excluded(lab), votes(lab))
    assert await_green(lab, 30)[0]


def test_one_that_died_is_noticed_and_its_successor_remembers(fleet: Fleet) -> None:
    fleet.start()
    fleet.ask("b", "POST", "/rotate")
    assert wait_until(lambda: bool(fleet.events("b", "failover.done")), 30)
    fleet.controllers._running["b"].send_signal(signal.SIGKILL)
    fleet.controllers._running["b"].wait()
    with pytest.raises(ChaosError, match="zone b ended"):
        fleet.controllers.check()
    fleet.controllers.stop()
    fleet.start()
    assert len(fleet.events("b", "failover.start")) == 2
    assert fleet.ask("b", "GET", "/status")["cluster"]["weights"] == {"a": 0, "b": 1, "c": 1}


def controllers_in(lab: LocalLab) -> list[int]:
    names = [host.namespace_name for host in lab.wiring.clients]
    lines = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in network.processes_in(names)}
    return [pid for pid, line in lines.items() if b"failover" in line]


@pytest.mark.full
def test_kill_9_of_a_run_ends_its_controllers_and_recover_takes_back_what_they_did(tiny, out):
    running = Cli("run", DATA / "controlled.yaml", "--out", out, "--on", tiny.id)
    await_event(running, out, in_effect)
    assert len(controllers_in(tiny)) == 3 and administer(tiny, "GET", CANARIES)[1]
    driver = (run_folder(out) / "history" / "driver.jsonl").read_text().splitlines()
    steered = [event for event in map(json.loads, driver) if event["kind"] == "steered"]
    assert {event["client_zone"] for event in steered} == {"a", "b", "c"} and steered[0]["nodes"], steered
    running.signal(signal.SIGKILL)
    running.end()
    assert wait_until(lambda: controllers_in(tiny) == [], 10)
    code, output = cli("recover")
    assert code == 0 and "undone" in output, output
    assert nothing_left() == [] and not administer(tiny, "GET", CANARIES)[1]
    assert await_green(tiny, 120)[0] and problems(tiny) == []
