"""Runs on the pods of a box: a target that is drafted from it, an experiment with one fault, and how its pods are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import requests
from clusterkit import ROOT, cli
from kubebox.api import Api
from kubebox.making import Box
from kubebox.manifests import HTTP, SEARCH

from chaos.targets.existing.pods import NOWHERE

EXPERIMENT = """\
apiVersion: opensearch-chaos/v1
name: {name}
description: A node's pod is ended and comes back.
topology: 3az
load:
  read:  {{rate: 10/s, good: ok within 2s}}
  write: {{rate: 10/s, good: ok within 2s}}
  documents: 500
phases:
  healthy:  {{for: 12s}}
  hit:      {{for: 15s, inject: {{{fault}}}}}
  returned: {{{undo}until: {{green: true, stable: 5s, within: 150s}}}}
expect:
  - {{phase: healthy, read.good: ">= 90%"}}
  - {{acknowledged.lost: 0}}
guards: {{max: 6m}}
"""
RUNS = (
    "caps: {requests: 400/s, documents: 20000, copies: 20}\nnotes: .opensearch-chaos\nrung: node\nuntil: 2027-01-31\n"
)


def target(box: Box, folder: Path, kubeconfig: Path | None = None) -> Path:
    """The drafted file, with what runs need. ``kubeconfig``: of a user who may look into one namespace alone."""
    given = ["--kubeconfig", str(box.layout.kubeconfig)]
    if kubeconfig is not None:
        given = ["--kubeconfig", str(kubeconfig), "--namespace", SEARCH]
    code, output = cli("init", folder, "--from-kubernetes", *given, "--name", "box")
    assert code == 0, output
    file = folder / "topologies" / "existing" / "box.yaml"
    file.write_text(file.read_text().replace("rung: observe\n", RUNS))
    return file


def experiment(folder: Path, fault: str) -> Path:
    kind = fault.partition(":")[0]
    undo = "" if kind == "node.restart" else f"undo: {kind}, "
    file = folder / f"{kind.replace('.', '-')}.yaml"
    text = EXPERIMENT.format(name=file.stem, fault=fault, undo=undo)
    if kind.startswith("disk."):
        made = (ROOT / "topologies" / "3az.yaml").read_text().replace("name: 3az\n", "name: 3az-disk\n")
        (folder / "3az-disk.yaml").write_text(f"{made}disks: {{size: 512MiB}}\n")
        text = text.replace("topology: 3az", f"topology: {folder / '3az-disk.yaml'}")
    file.write_text(text)
    return file


def uids(api: Api) -> dict[str, str]:
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in pods(api)}


def pods(api: Api) -> list[dict[str, Any]]:
    return list(api.get(f"/api/v1/namespaces/{SEARCH}/pods")["items"])


def held(api: Api) -> list[str]:
    """Pods that an image of ours holds down."""
    return [
        each["metadata"]["name"]
        for each in pods(api)
        if each["spec"]["containers"][0]["image"].startswith(f"{NOWHERE}/")
    ]


def whole(api: Api, nodes: int = 6) -> bool:
    """All pods are ready, and each is a node of one cluster: the chart's probe asks for a port alone, which a node
    opens before it has joined."""
    ready = [each for each in pods(api) if {"type": "Ready", "status": "True"}.items() <= _condition(each).items()]
    return len(ready) == nodes and not held(api) and all(_joined(each["status"]["podIP"], nodes) for each in ready)


def _joined(address: str, nodes: int) -> bool:
    """Whether the node at this address sees so many nodes and a cluster manager."""
    try:
        answer = requests.get(f"http://{address}:{HTTP}/_cluster/health?local=true", timeout=5)
        said = answer.json() if answer.status_code == 200 else {}
    except requests.RequestException:
        return False
    return said.get("number_of_nodes") == nodes and said.get("discovered_cluster_manager") is True


def _condition(pod: dict[str, Any]) -> dict[str, Any]:
    return next((each for each in pod["status"].get("conditions", ()) if each["type"] == "Ready"), {})


def counted(found: dict[str, Any], metric: str) -> dict[str, str]:
    """What a metric counts as in each phase in which it is judged."""
    return {each["phase"]: each["counts_as"] for each in found["findings"] if each["metric"] == metric}
