"""A rollout of the data nodes by Kubernetes itself, which goes by readiness: as the chart has it, and with a startup
probe that waits for green; and of one zone's, while the rest of that zone is slow."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from clusterkit import ROOT, cli, events, findings
from kubebox import images
from kubebox.api import Api
from kubebox.making import Box
from kubebox.manifests import DATA, HTTP, SEARCH
from kubekit import brought_up
from podruns import counted, pods, target, uids, whole
from ruamel.yaml import YAML

from chaos.base.errors import Exit
from chaos.base.waiting import wait_until
from chaos.history.during import PROOF

pytestmark = [pytest.mark.cluster, pytest.mark.full, pytest.mark.kubernetes]
GREEN = "/_cluster/health?wait_for_status=green&timeout=1s"
SHIPPED = ROOT / "experiments" / "kubernetes"
TOPOLOGY = ROOT / "topologies" / "3az-delayed-allocation.yaml"
ONE_AT_A_TIME = {"persistent": {"cluster.routing.allocation.node_concurrent_recoveries": 1}}
"""Copies that come back queue, as they do where each has much to catch up with."""
ROLL = """\
import datetime, sys, time
from kubernetes import client, config
config.load_kube_config(sys.argv[1])
apps, (name, space) = client.AppsV1Api(), sys.argv[2:]
now = datetime.datetime.now(datetime.timezone.utc).isoformat()
restarted = {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": now}}}
apps.patch_namespaced_stateful_set(name, space, {"spec": {"template": restarted}})
while True:
    found = apps.read_namespaced_stateful_set(name, space)
    said, wanted = found.status, found.spec.replicas
    if (said.observed_generation >= found.metadata.generation and said.current_revision == said.update_revision
            and (said.updated_replicas or 0) == (said.ready_replicas or 0) == wanted):
        break
    time.sleep(1)
"""
"""What ``kubectl rollout restart`` and ``kubectl rollout status`` do: kubectl is not part of the box."""


@pytest.fixture
def box(request: pytest.FixtureRequest) -> Iterator[Box]:
    """With the options that the test names."""
    with brought_up(*request.param) as made:
        yield made


def slowed(api: Api) -> None:
    address = next(each["status"]["podIP"] for each in pods(api) if each["metadata"]["name"].startswith(DATA.full_name))
    answer = requests.put(f"http://{address}:{HTTP}/_cluster/settings", json=ONE_AT_A_TIME, timeout=20)
    assert answer.status_code == 200, answer.text


def rolled(box: Box, folder: Path, name: str, rolls: str, topology: Path | None = None) -> tuple[str, dict[str, Any]]:
    """A shipped experiment with its command replaced by one that rolls a StatefulSet out, and with another topology
    where one is given: output and verdict."""
    yaml = YAML()
    asked = yaml.load((SHIPPED / f"{name}.yaml").read_text())
    (folder / "roll.py").write_text(ROLL)
    command = [sys.executable, str(folder / "roll.py"), str(box.layout.kubeconfig), rolls, SEARCH]
    asked["phases"]["rolled"]["during"]["command"] = command
    if topology is not None:
        asked["topology"] = str(topology)
    with (folder / f"{name}.yaml").open("w") as file:
        yaml.dump(asked, file)
    on = target(box, folder)
    text = on.read_text().replace("rung: node\n", "rung: zone\n").replace("copies: 20", "copies: 60")
    on.write_text(text.replace("\n  forward:", f"\n  helper: {images.HELPER}\n  forward:", 1))
    code, output = cli("run", folder / f"{name}.yaml", "--on", on, "--out", folder / "run", "--yes", timeout=1800)
    print(output)
    # a busy machine may take the worth from what depends on time, and not from which process is which
    assert code in (Exit.PASS, Exit.WEAKNESS, Exit.INCONCLUSIVE) and "clean-up: clean" in output, output
    assert [each["proven"] for each in events(folder / "run") if each["kind"] == PROOF] == [True], output
    return output, findings(folder / "run")


@pytest.mark.parametrize("box", [(), ("--startup", GREEN)], indirect=True, ids=["port", "green"])
def test_a_rollout_replaces_each_data_node_and_where_it_waits_for_green_no_shard_is_without_a_copy(
    box: Box, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    api = box.api()
    assert wait_until(lambda: whole(api), 240, every=0.5)
    slowed(api)
    before = uids(api)
    output, found = rolled(box, tmp_path, "rollout", DATA.full_name)
    after = uids(api)
    assert {name for name in before if after[name] != before[name]} == {f"{DATA.full_name}-{n}" for n in range(3)}
    red = counted(found, "cluster.red")
    assert {"healthy", "rolled", "returned"} <= set(red), found["findings"]
    if "green" in request.node.name:
        assert red["rolled"] != "weakness", output
    assert wait_until(lambda: whole(api), 150, every=0.5)


@pytest.mark.parametrize("box", [("--zonal",)], indirect=True, ids=["zonal"])
def test_while_the_rest_of_its_zone_is_slow_a_rollout_moves_copies_only_where_they_wait_for_no_node(
    box: Box, tmp_path: Path
) -> None:
    api, moved = box.api(), {}
    for delay in ("0ms", "3m"):
        folder = tmp_path / delay
        folder.mkdir()
        made = TOPOLOGY.read_text().replace("delayed_timeout: 3m", f"delayed_timeout: {delay}")
        (folder / TOPOLOGY.name).write_text(made)
        assert wait_until(lambda: whole(api, 9), 240, every=0.5)
        before = uids(api)
        output, found = rolled(box, folder, "rollout-slow-zone", f"{DATA.full_name}-b", folder / TOPOLOGY.name)
        after = uids(api)
        assert {name for name in before if after[name] != before[name]} == {f"{DATA.full_name}-b-{n}" for n in (0, 1)}
        assert "not proven" not in output, output
        moved[delay] = counted(found, "shards.moved")["rolled"]
    assert moved["0ms"] == "weakness" and moved["3m"] != "weakness", moved
    assert wait_until(lambda: whole(api, 9), 150, every=0.5)
