"""The least that a user needs on a secured cluster that exists: with it all goes well, and without any part something
is missing, and is said."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from clusterkit import DATA, cli, findings, kept_lab_id, run_folder
from relays import Doors, doors

from chaos.definitions.existing import load_existing, today
from chaos.opensearch.cluster import Zoning
from chaos.opensearch.requests import GIVE_BACK
from chaos.opensearch.rest import NodeClient
from chaos.opensearch.views import administer
from chaos.programs.failover.cluster import canary_settings, carry_out, pairs
from chaos.programs.failover.decide import Cluster, Step
from chaos.programs.failover.rest import Api, discover
from chaos.targets import security
from chaos.targets.existing import rights
from chaos.targets.labs.local import LocalLab

pytestmark = pytest.mark.full
SECRET = "opensesame-2f9Kq-opensesame"
ALLOCATION = "cluster.routing.allocation.enable"
RUN = """apiVersion: opensearch-chaos/v1
name: there
topology: %s
load:
  read:  {rate: 10/s, good: ok within 4s}
  write: {rate: 40/s, good: ok within 4s}
  documents: 50
phases:
  held: {for: 3s, inject: {settings.change: {scope: cluster, settings: {%s: none}}}}
  over: {undo: all, for: 2s, do: {weights: {a: 1, b: 1, c: 0}}}
  out: {for: 2s, do: {decommission: {zone: c, no_delay: true}}}
  back: {do: {recommission: {zone: c}}, until: {green: true, stable: 1s, within: 2m}}
  voteless: {for: 2s, do: {exclude_votes: {target: node a-all}}}
expect:
  - {acknowledged.lost: 0}
"""


STEERED = """apiVersion: opensearch-chaos/v1
name: steered
topology: %s
load:
  read:  {rate: 10/s, good: ok within 4s}
  write: {rate: 10/s, good: ok within 4s}
  documents: 50
controller: {zones: [a], rotate_every: 12s, cool_down: 4s, lead_from_standby: true}
phases:
  steered: {for: 30s, do: {weights: {a: 1, b: 1, c: 0}}}
expect:
  - {acknowledged.lost: 0}
"""


class Secured:
    """A secured lab as somebody else's cluster, and a user there whose role can be changed."""

    def __init__(self, lab: LocalLab, opened: Doors, folder: Path) -> None:
        self.lab, self.folder = lab, folder
        self.out = folder / "reports"
        self.admin = NodeClient(
            lab.administration(lab.topology.nodes[0].name), access=security.transport(lab.folder, security.USER)
        )
        who = administer(lab, "GET", "/")[1]
        urls = opened.nodes()
        (folder / "password").write_text(SECRET)
        said = {
            "apiVersion": "opensearch-chaos/v1",
            "kind": "existing",
            "name": "staging",
            "endpoints": list(urls.values())[:1],
            "access": {"user": "chaos", "password": "file:password", "ca": str(lab.access.ca)},
            "identity": {"cluster_uuid": who["cluster_uuid"], "cluster_name": who["cluster_name"]},
            "opensearch": lab.topology.version,
            "zones": {"names": {"a": "a", "b": "b", "c": "c"}},
            "nodes": {
                node.name: {"url": urls[node.name], "zone": node.zone, "roles": list(node.roles)}
                for node in lab.topology.nodes
            },
            "notes": ".opensearch-chaos",
            "caps": {"requests": "100/s", "documents": 1000, "copies": 12},
            "settings": [ALLOCATION],
            "rung": "zone",
            "until": (today() + timedelta(days=300)).isoformat(),
        }
        self.file = folder / "staging.yaml"
        self.file.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in said.items()))
        self.experiment = folder / "there.yaml"
        self.experiment.write_text(RUN % (DATA / "tiny-secure.yaml", ALLOCATION))
        self._put("internalusers/chaos", {"password": SECRET})
        self.may({"cluster_permissions": [], "index_permissions": []})
        self._put("rolesmapping/chaos", {"users": ["chaos"]})

    def _put(self, what: str, body: dict[str, Any]) -> None:
        status, answer = self.admin.request("PUT", f"/_plugins/_security/api/{what}", body=body)
        assert status in (200, 201), answer

    def indices(self) -> set[str]:
        """Every index, hidden ones too, but for those that the security plugin keeps."""
        status, rows = self.admin.request("GET", "/_cat/indices?format=json&h=index&expand_wildcards=all")
        assert status == 200, rows
        return {row["index"] for row in rows if not row["index"].startswith((".opendistro", "security-auditlog"))}

    def may(self, role: dict[str, Any]) -> None:
        self._put("roles/chaos", role)

    @property
    def role(self) -> dict[str, Any]:
        """As the command prints it."""
        return rights.role(load_existing(self.file).written)


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    name = kept_lab_id()
    code, said = cli("lab", "up", DATA / "tiny-secure.yaml", "--name", name)
    assert code == 0, said
    try:
        lab = LocalLab.attach(name)
        with doors(lab) as opened:
            yield Secured(lab, opened, tmp_path_factory.mktemp("secured"))
    finally:
        assert cli("lab", "down", name)[0] == 0


def without(role: dict[str, Any], action: str) -> dict[str, Any]:
    return {
        "cluster_permissions": [each for each in role["cluster_permissions"] if each != action],
        "index_permissions": [
            {**each, "allowed_actions": [allowed for allowed in each["allowed_actions"] if allowed != action]}
            for each in role["index_permissions"]
        ],
    }


def test_with_it_all_goes_well(there: Secured):
    there.may(there.role)
    code, output = cli("target", "check", there.file)
    assert code == 0 and "unknown" not in output, output
    code, output = cli("audit", there.file)
    (unknown,) = [line for line in output.splitlines() if line.strip().startswith("unknown")]
    # certificates are told to super admins alone; and counts of a lab that has just come up say nothing yet
    rows = re.search(r"\d rows? \((.*?)\)", unknown)
    assert code in (1, 3) and rows is not None and rows[1] in ("certificates", "certificates, managers.asked"), output
    assert ("managers.asked" in unknown) is ("nodes started a moment ago" in unknown), output
    code, output = cli("run", there.experiment, "--on", there.file, "--out", there.out)
    assert code in (0, 3) and "FAILED" not in output, output  # a busy machine may send late
    found = findings(there.out)
    assert found["clean"] is True and [fault["proven"] for fault in found["faults"]] == [True], found["reasons"]
    lost = next(each for each in found["findings"] if each["title"].startswith("acknowledged.lost"))
    assert lost["counts_as"] == "pass", lost


def test_a_row_that_the_file_names_refuses_a_run_and_once_it_is_mended_the_run_goes(there: Secured):
    there.may(there.role)
    refusing = there.folder / "refusing" / there.file.name  # the name that it says is the file's
    refusing.parent.mkdir()
    shutil.copy(there.folder / "password", refusing.parent)
    refusing.write_text(there.file.read_text() + "audit: {refuse: [blocks.index]}\n")
    out, before = there.folder / "refused", there.indices()
    settings = {"number_of_replicas": 2, "blocks.read_only_allow_delete": True}
    status, answer = there.admin.request("PUT", "/kept", body={"settings": settings})
    assert status == 200, answer
    try:
        code, output = cli("run", there.experiment, "--on", refusing, "--out", out)
    finally:
        assert there.admin.request("DELETE", "/kept")[0] == 200
    assert code == 2 and "refuses runs where rows of the audit fail: blocks.index is fail" in output, output
    assert "kept" in output and run_folder(out) is None and there.indices() == before, output
    code, output = cli("run", there.experiment, "--on", refusing, "--out", out)
    assert code in (0, 3), output  # a busy machine may send late
    # what fails and is not named is shown and recorded: managers of a lab are small
    folder = run_folder(out)
    assert folder is not None and "audit: " in output
    noted = [line for line in (folder / "history" / "events.jsonl").read_text().splitlines() if '"audit: ' in line]
    assert noted and all(json.loads(line)["kind"] == "note" for line in noted)


def test_with_it_controllers_rotate_and_lead_from_the_standby(there: Secured):
    there.may(there.role)
    experiment = there.folder / "steered.yaml"
    experiment.write_text(STEERED % (DATA / "tiny-secure.yaml"))
    out = there.folder / "steered"
    code, output = cli("run", experiment, "--on", there.file, "--out", out)
    assert code in (0, 3), output  # a busy machine may send late
    assert findings(out)["clean"] is True
    lines = (run_folder(out) / "history" / "failover-a.jsonl").read_text().splitlines()
    told = [event for event in map(json.loads, lines) if event["kind"] in ("failover.done", "failover.failed")]
    assert {event["step"] for event in told if event["kind"] == "failover.done"} >= {"weights", "lead"}, told
    assert not any("security" in event["says"] for event in told), told
    secret = json.dumps([(run_folder(out) / "plan.json").read_text(), lines])
    assert SECRET not in secret


def steps(there: Secured) -> dict[str, bool]:
    """What controllers ask beside what any run with actions does, and whether it went well."""
    file = load_existing(there.file)
    api = Api(file.access)
    nodes, why = discover(
        api, [str(at).partition("://")[2] for at in file.written.of_nodes.values()], Zoning(), timeout=5.0
    )
    assert nodes, why
    at = {name: str(address).partition("://")[2] for name, address in file.written.of_nodes.items()}
    nodes = [replace(node, address=at[node.name]) for node in nodes]
    cluster = Cluster(("a", "b", "c"), {}, -1, {}, {}, {}, frozenset(), True)
    done = {step: carry_out(api, nodes, Step(step, "", "c"), cluster, Zoning(), nodes).ok for step in ("retry", "lead")}
    for index, pair in pairs("abc").items():
        made = api.ask(nodes[0], "PUT", f"/{index}", canary_settings(index, "zone", pair), timeout=30.0)
        written = api.ask(nodes[0], "PUT", f"/{index}/_doc/read", {}, timeout=30.0)
        done[index] = (
            made.ok and written.status == 201 and api.ask(nodes[0], "GET", f"/{index}/_doc/read", timeout=5.0).ok
        )
    return done


@pytest.mark.parametrize("missing", [None, *rights.CONTROLLERS, "canaries"])
def test_each_part_of_what_controllers_take_is_missed(there: Secured, missing: str | None):
    role = there.role
    if missing == "canaries":
        own = [each for each in role["index_permissions"][1]["index_patterns"] if each != rights.CANARIES]
        role["index_permissions"][1]["index_patterns"] = own
    there.may(role if missing is None else without(role, missing))
    try:
        done = steps(there)
    finally:
        there.may(there.role)
        there.admin.request("DELETE", GIVE_BACK)
        for index in pairs("abc"):
            there.admin.request("DELETE", f"/{index}")
    failed = {step for step, ok in done.items() if not ok}
    of = {"cluster:admin/reroute": {"retry"}, "canaries": set(pairs("abc")), None: set()}
    assert failed == of.get(missing, {"lead"}), done


@pytest.mark.parametrize("action", [*rights.LOOK, *rights.AUDIT, *rights.LOOK_AT_INDICES])
def test_each_part_of_what_looking_takes_is_missed(there: Secured, action: str):
    there.may(there.role)
    well = [cli(*asked) for asked in (("target", "check", there.file), ("audit", there.file))]
    there.may(without(there.role, action))
    ill = [cli(*asked) for asked in (("target", "check", there.file), ("audit", there.file))]
    assert ill != well, f"nobody misses {action}"
    assert not any("Traceback" in output for _, output in ill), ill


@pytest.mark.parametrize("action", [*rights.RUN, *rights.SETTINGS, *rights.ZONES])
def test_each_part_of_what_a_run_takes_is_missed(there: Secured, action: str):
    there.may(without(there.role, action))
    # without one right a zone stays out, and the run waits for green to the end of each of its deadlines
    out = there.folder / action.rpartition(":")[2]
    code, output = cli("run", there.experiment, "--on", there.file, "--out", out, timeout=900)
    there.may(there.role)
    assert "Traceback" not in output, output
    assert code not in (0, 3) or "FAILED" in output, f"nobody misses {action}: {output}"
    assert cli("recover", "--on", there.file)[0] == 0 and cli("recover")[0] == 0
