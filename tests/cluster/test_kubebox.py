"""The Kubernetes box: a real control plane, three kubelets and OpenSearch come up, answer, and leave nothing."""

from __future__ import annotations

import re
import signal
from typing import Any

import pytest
import requests
from kubebox import groups, making, manifests, plan
from kubebox.api import Api
from kubekit import Command, left, named, picture

from chaos.base.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.full, pytest.mark.kubernetes]
UP_SECONDS = 900
"""The first time the programs are built."""


def test_a_box_comes_up_answers_respects_budgets_and_leaves_nothing() -> None:
    box, before = named(), picture()
    try:
        code, output = Command(box.name, "up").end(UP_SECONDS)
        assert code == 0, output
        assert str(box.layout.kubeconfig) in output
        seconds = [int(each) for each in re.findall(r": (\d+) s (?:from nothing|more)", output)]
        assert len(seconds) == 2, output
        api = box.api()
        _zones_are_the_machines(api)
        _application_and_neighbours_are_well(api)
        _a_second_eviction_is_refused(api)
        code, output = Command(box.name, "up").end(60)
        assert code == 0 and "up already" in output
    finally:
        code, output = Command(box.name, "down").end(120)
    assert code == 0, output
    assert not box.is_left()
    assert left(before) == {}


def test_what_a_killed_maker_leaves_the_next_down_takes_away() -> None:
    box, before = named(), picture()
    making_it = Command(box.name, "up")
    try:
        # kubelets have made groups for pods: processes, mounts, namespaces and groups of all kinds are there
        assert wait_until(lambda: len(groups.processes(box.layout)) >= 2, UP_SECONDS, every=0.2)
        making_it.process.send_signal(signal.SIGKILL)
        making_it.process.wait(10)
        assert box.is_left() and not box.is_up()
    finally:
        code, output = Command(box.name, "down").end(120)
    assert code == 0, output
    assert not box.is_left()
    assert left(before) == {}


def _zones_are_the_machines(api: Api) -> None:
    """What OpenSearch calls a node's zone is the label of the machine that its pod is on."""
    machines = {node["metadata"]["name"]: node["metadata"]["labels"][plan.ZONE_LABEL] for node in _items(api, "nodes")}
    assert machines == {"node-a": "a", "node-b": "b", "node-c": "c"}
    pods = making.pods_of(api, manifests.SEARCH, "app.kubernetes.io/name=opensearch")
    placed = {pod["metadata"]["name"]: machines[pod["spec"]["nodeName"]] for pod in pods}
    address = next(pod["status"]["podIP"] for pod in pods)
    nodes = requests.get(f"http://{address}:{manifests.HTTP}/_nodes", timeout=10).json()["nodes"].values()
    assert {node["name"]: node["attributes"]["zone"] for node in nodes} == placed
    assert len(placed) == 6 and sorted(placed.values()) == ["a", "a", "b", "b", "c", "c"]
    assert [node["name"] for node in nodes if "cluster_manager" in node["roles"] and "data" in node["roles"]] == []
    health = making.health(api)
    assert health is not None and health["status"] == "green" and health["number_of_data_nodes"] == 3


def _application_and_neighbours_are_well(api: Api) -> None:
    def sent() -> bool:
        (shop,) = making.counts(api, manifests.SHOP).values()
        neighbours = making.counts(api, manifests.OTHERS)
        return shop["write"]["sent"] >= 20 and len(neighbours) == 3

    assert wait_until(sent, 60, every=0.5)
    (shop,) = making.counts(api, manifests.SHOP).values()
    assert shop["write"]["failed"] < shop["write"]["sent"] and shop["search"]["failed"] < shop["search"]["sent"]
    at_first = {pod: counted["peers"]["failed"] for pod, counted in making.counts(api, manifests.OTHERS).items()}
    sent_at_first = {pod: counted["peers"]["sent"] for pod, counted in making.counts(api, manifests.OTHERS).items()}

    def went_on() -> bool:
        now = making.counts(api, manifests.OTHERS)
        return all(now[pod]["peers"]["sent"] > count + 20 for pod, count in sent_at_first.items())

    assert wait_until(went_on, 60, every=0.5)
    now = {pod: counted["peers"]["failed"] for pod, counted in making.counts(api, manifests.OTHERS).items()}
    assert now == at_first  # once all are there, no question fails


def _a_second_eviction_is_refused(api: Api) -> None:
    first, second = f"{manifests.DATA.full_name}-0", f"{manifests.DATA.full_name}-1"
    uid = api.get(f"/api/v1/namespaces/{manifests.SEARCH}/pods/{first}")["metadata"]["uid"]
    assert api.evict(manifests.SEARCH, first)[0] == 201
    status, message = api.evict(manifests.SEARCH, second)
    assert status == 429 and "disruption budget" in message

    def back() -> bool:
        code, pod = api.request("GET", f"/api/v1/namespaces/{manifests.SEARCH}/pods/{first}")
        another = code == 200 and pod["metadata"]["uid"] != uid and making.is_ready(pod)
        health = making.health(api) if another else None
        return health is not None and health["status"] == "green" and health["number_of_nodes"] == 6

    assert wait_until(back, 180, every=0.5)


def _items(api: Api, plural: str) -> list[dict[str, Any]]:
    return list(api.get(f"/api/v1/{plural}")["items"])
