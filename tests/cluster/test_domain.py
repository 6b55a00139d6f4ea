"""Restarts by Amazon OpenSearch Service, on a lab that stands in for a domain: they are proven and are over, and what
the control plane spoils is never green.

It shows that the node that is meant is the one that is restarted, and nothing about AWS.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from clusterkit import (
    Cli,
    await_copied,
    await_event,
    cli,
    events,
    findings,
    keepers_of,
    recovered_elsewhere,
    run_folder,
)
from fistamper import Times, tampering

from chaos.definitions.existing import load_existing
from chaos.fis_endpoint import standing
from chaos.fis_endpoint.domain import DomainService, Maintenance
from chaos.fis_endpoint.opening import Setup
from chaos.fis_endpoint.standing import Standing
from chaos.opensearch import administration
from chaos.opensearch.views import administer
from chaos.targets.existing.domain import Domain
from chaos.targets.labs.local import LocalLab
from chaos.targets.labs.processes import wait_until

pytestmark = pytest.mark.full

EXPERIMENT = """apiVersion: opensearch-chaos/v1
name: maintained
topology: 3az
load:
  read:  {rate: 20/s, good: ok within 5s}
  write: {rate: 20/s, good: ok within 5s}
  documents: 100
phases:
  healthy: {for: 3s}
  hit: {for: 5s, inject: {node.restart: {target: node b-data}}}
  over: {undo: all, until: {green: true, stable: 1s, within: 3m}}
expect:
  - {acknowledged.lost: 0}
"""


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
    def domain(self) -> Domain:
        written = load_existing(self.file).written
        assert written.domain is not None
        return Domain(written.domain)

    @property
    def service(self) -> DomainService:
        return self.stands.service

    def write(self, **changes: Any) -> None:
        said = self.stands.domain_target("staging")
        said |= {"domain": {**said["domain"], **changes}}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in said.items()))

    def begin(self) -> Cli:
        file = self.folder / "maintained.yaml"
        file.write_text(EXPERIMENT)
        return Cli("run", file, "--on", self.file, "--out", self.out)

    def run(self) -> tuple[int, str]:
        return self.begin().end(600)

    def maintenances(self) -> list[tuple[str, str]]:
        return [(each["Action"], each["Status"]) for each in self.domain._maintenances()]


@contextmanager
def stood(lab: LocalLab, folder: Path, changed: Callable[[Setup], Setup] = lambda setup: setup) -> Iterator[There]:
    """The lab as a domain whose zones all serve: AWS restarts no node of one with a standby zone."""
    (folder / "endpoint").mkdir()
    administration.set_weights(lab, None)
    try:
        with standing.standing(lab, folder=folder / "endpoint", changed=changed) as stands:
            made = There(lab, stands, folder, folder / "topologies" / "existing" / "staging.yaml")
            made.write()
            yield made
            code, output = cli("recover")
            assert code == 0, output
    finally:
        await_copied(lab, 300)
        administration.set_weights(lab, lab.topology.weights)


@pytest.fixture
def there(playground: LocalLab, tmp_path: Path) -> Iterator[There]:
    with stood(playground, tmp_path) as made:
        yield made


@pytest.mark.parametrize("restart", ["process", "machine"])
def test_a_node_is_restarted_and_proven_by_another_process(there: There, restart: str) -> None:
    there.write(restart=restart)
    code, output = there.run()
    assert code in (0, 3), output  # a busy machine may send late
    found = findings(there.out)
    assert found["clean"] is True and [each["proven"] for each in found["faults"]] == [True], found["faults"]
    stages = {event["stage"]: event["proven"] for event in events(there.out) if event["kind"] == "fault.evidence"}
    assert stages == {"before": True, "effect": True, "gone": True}
    left = {event["node"] for event in events(there.out) if event["kind"] == "cluster.node_left"}
    assert left == {"b-data"}, output
    (command,) = [event for event in events(there.out) if event["kind"] == "fault.command"]
    assert (command["provider"], command["grade"]) == ("domain", "effect")
    action = "REBOOT_NODE" if restart == "machine" else "RESTART_SEARCH_PROCESS"
    assert there.maintenances() == [(action, "COMPLETED")] and there.domain.not_ready() == []


def test_what_aws_says_of_the_domain_is_in_record_and_report(there: There) -> None:
    code, output = there.run()
    assert code in (0, 3), output
    said = [event["said"]["zones"] for event in events(there.out) if event["kind"] == "domain.health"]
    of_b = [zone["AvailableDataNodeCount"] for each in said for name, zone in each.items() if name.endswith("b")]
    assert of_b[0] == "1" and "0" in of_b and of_b[-1] == "1", said
    page = (run_folder(there.out) / "report.html").read_text()
    assert "What AWS said of the domain" in page and "NotAvailable, 0 of 1" in page
    assert "stand-in for Amazon OpenSearch Service" in page


def never_green(there: There, code: int, output: str, *outcomes: str) -> None:
    assert code not in (0, 1), output
    found = findings(there.out)
    assert found["outcome"] in outcomes and found["clean"] is True, (found["headline"], output)
    assert not any(each["proven"] for each in found["faults"])
    assert there.domain.under_way() == []


def test_completed_without_a_restart_is_never_a_proof(there: There) -> None:
    there.service._restart = lambda node: None
    code, output = there.run()
    never_green(there, code, output, "inconclusive")
    assert there.maintenances() == [("RESTART_SEARCH_PROCESS", "COMPLETED")]


def test_another_node_than_was_asked_for_is_no_proof(there: There) -> None:
    real = there.service._restart
    there.service._restart = lambda node: real("c-data")
    code, output = there.run()
    never_green(there, code, output, "inconclusive")


def test_a_restart_that_aws_denies_is_no_proof(there: There) -> None:
    """The node has another process, and AWS says that its maintenance failed: whose doing it was nobody knows."""
    service = there.service

    def denied(made: Maintenance, node: str) -> None:
        service._say(made, "FAILED", "no capacity")
        service._by_hands(node)

    service._carry_out = denied  # type: ignore[method-assign]
    code, output = there.run()
    never_green(there, code, output, "inconclusive")
    left = {event["node"] for event in events(there.out) if event["kind"] == "cluster.node_left"}
    assert left == {"b-data"}, output


def test_a_domain_with_a_standby_zone_is_refused_before_a_run_begins(there: There) -> None:
    there.service._standby = lambda: {"c"}  # type: ignore[method-assign]
    code, output = there.run()
    said = " ".join(output.split())
    assert code == 2 and "AWS restarts no node of a domain that is Multi-AZ with Standby" in said, output
    assert not there.out.exists() and there.maintenances() == []


def test_a_maintenance_of_somebody_else_keeps_a_run_away(there: There) -> None:
    going: list[bool] = []
    there.service._restart = lambda node: wait_until(lambda: bool(going), 120)
    (id,) = [each for name, each in there.service._known_ids().items() if name == "c-data"]
    there.domain._call("start_domain_maintenance", Action="REBOOT_NODE", NodeId=id)
    try:
        code, output = there.run()
        assert code == 2 and "REBOOT_NODE of" in output and not there.out.exists(), output
    finally:
        going.append(True)


@pytest.mark.parametrize(("what", "restarts"), [("drop", 1), ("cut", 1), ("deny", 0), ("error", 0)])
def test_whatever_becomes_of_the_call_it_is_made_once(
    playground: LocalLab, tmp_path: Path, what: Any, restarts: int
) -> None:
    times = Times(what, frozenset({"StartDomainMaintenance"}))
    with stood(playground, tmp_path, lambda setup: replace(setup, serve=tampering(times))) as there:
        code, output = there.run()
        found = findings(there.out)
        assert found["clean"] is True and times.seen.count("StartDomainMaintenance") == 1, output
        assert len(there.maintenances()) == restarts
        proven = [each["proven"] for each in found["faults"]]
        assert (code in (0, 3) and proven == [True]) if restarts else (code == 5 and not any(proven)), output


@pytest.mark.parametrize("seed", range(6))
def test_a_runner_killed_at_a_random_moment_leaves_nothing(there: There, seed: int) -> None:
    """By the keeper, and where that is dead too by another machine."""
    drawn = random.Random(seed)
    kind = ("fault.command", "fault.in_effect", "fault.undo")[seed % 3]
    running = there.begin()
    await_event(running, there.out, lambda event: event["kind"] == kind, 300)
    time.sleep(drawn.uniform(0.0, 1.0))
    keepers = keepers_of(running.process.pid) if running.process.poll() is None else []
    running.process.kill()
    for each in keepers if seed >= 3 else []:
        each.kill()
    running.process.wait()
    code, output = recovered_elsewhere(there.file, there.folder)
    assert code == 0, output
    assert there.domain.under_way() == [] and len(there.maintenances()) <= 1
    code, output = cli("recover")
    assert code == 0, output
    status, rows = administer(there.lab, "GET", "/_cat/indices?format=json&h=index&expand_wildcards=all")
    assert status == 200 and not [row for row in rows if row["index"].startswith("oschaos-")], rows
