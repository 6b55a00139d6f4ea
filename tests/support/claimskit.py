"""Questions to a real cluster that the tests of claims share (``tests/cluster/test_claims_*.py``)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clusterkit import ROOT, lifecycle

from chaos.definitions import load_topology
from chaos.opensearch.views import administer, await_green, elected
from chaos.registry import FAULTS, ready
from chaos.run.options import new_lab_id
from chaos.targets.labs import provisioning
from chaos.targets.labs.local import LocalLab

INDEX = "claimed"
GREEN_SECONDS = 60.0


@contextmanager
def lab_of(topology: str) -> Iterator[LocalLab]:
    """A lab of a shipped topology, which is up; taken away without a trace."""
    read = load_topology(topology, near=ROOT / "experiments" / "x.yaml")
    made = LocalLab.create(read, provisioning.parts(read), id=new_lab_id())
    try:
        made.up()
        yield made
    finally:
        assert made.down() == []


@contextmanager
def paused(lab: LocalLab, folder: Path, node: str) -> Iterator[None]:
    """A node that does not answer, for as long as this lasts; then the cluster is whole again."""
    cycle = lifecycle(lab, folder)
    params = FAULTS["node.pause"].model_validate({"target": f"node {node}"})
    assert cycle.inject(ready("f1", params, lab, seed=1, elected=elected(lab)))
    try:
        yield
    finally:
        assert cycle.undo("f1")
        assert await_green(lab, GREEN_SECONDS)[0]


def drop(lab: LocalLab) -> None:
    """Delete all indices that these tests have made."""
    administer(lab, "DELETE", f"/{INDEX}*?ignore_unavailable=true")


def create(
    lab: LocalLab,
    settings: Mapping[str, Any],
    properties: Mapping[str, Any] | None = None,
    name: str = INDEX,
    active: int | str = "all",
) -> None:
    """An index, of each of whose shards so many copies are ``active``."""
    body = {"settings": dict(settings), "mappings": {"properties": dict(properties or {})}}
    status, answer = administer(lab, "PUT", f"/{name}?wait_for_active_shards={active}", body)
    assert status == 200 and answer["shards_acknowledged"] is True, answer


@contextmanager
def cluster_setting(lab: LocalLab, name: str, value: Any) -> Iterator[None]:
    """A persistent setting of the cluster, taken back at the end."""
    put(lab, {name: value})
    try:
        yield
    finally:
        put(lab, {name: None})


def put(lab: LocalLab, settings: Mapping[str, Any]) -> None:
    """Persistent settings of the cluster."""
    status, answer = administer(lab, "PUT", "/_cluster/settings", {"persistent": dict(settings)})
    assert status == 200, answer


def ask(lab: LocalLab, node: str, method: str, path: str, body: Any = None, timeout: float = 30.0) -> tuple[int, Any]:
    """One request to one node, once. ``timeout`` in seconds."""
    client = lab.client(node, timeout=timeout)
    try:
        return client.request(method, path, body=body)
    finally:
        client.close()


def bulk(
    lab: LocalLab, documents: Sequence[tuple[str | None, Mapping[str, Any]]], more: str = "", name: str = INDEX
) -> dict[str, Any]:
    """The answer to a bulk of documents by their ids; None: OpenSearch gives one. It is 200, whatever became of them
    (claim in-4)."""
    lines: list[str] = []
    for id, document in documents:
        lines += [json.dumps({"index": {} if id is None else {"_id": id}}), json.dumps(document)]
    status, answer = ask(lab, lab.topology.data_nodes[0].name, "POST", f"/{name}/_bulk{more}", "\n".join(lines) + "\n")
    assert status == 200, answer
    return dict(answer)


def hits(lab: LocalLab, name: str = INDEX, node: str | None = None) -> int:
    """How many documents a search finds; on one node's copies, where that is named."""
    only = f"&preference=_only_nodes:{node_ids(lab)[node]}" if node else ""
    status, answer = administer(lab, "POST", f"/{name}/_search?size=0{only}", {"track_total_hits": True})
    assert status == 200, answer
    return int(answer["hits"]["total"]["value"])


def copies(lab: LocalLab, kind: str, name: str = INDEX) -> list[str]:
    """The nodes of an index's primaries (``p``) or replicas (``r``), each as often as it has some, in order."""
    status, answer = administer(lab, "GET", f"/_cat/shards/{name}?format=json")
    assert status == 200
    return sorted(str(copy["node"]) for copy in answer if copy["prirep"] == kind)


def node_ids(lab: LocalLab) -> dict[str, str]:
    """The ids that preferences take, by the nodes' names."""
    status, answer = administer(lab, "GET", "/_nodes/_all/info?filter_path=nodes.*.name")
    assert status == 200
    return {str(node["name"]): id for id, node in answer["nodes"].items()}


def settings_of(lab: LocalLab, name: str = INDEX) -> dict[str, str]:
    """All settings of an index by their full names, defaults among them."""
    status, answer = administer(lab, "GET", f"/{name}/_settings?include_defaults&flat_settings")
    assert status == 200
    (found,) = answer.values()
    return {**found["defaults"], **found["settings"]}
