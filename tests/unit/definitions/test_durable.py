"""The tag durable: refused where there is no store, or where emptying a node would take the cluster's only state."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.base.errors import InvalidInput
from chaos.registry import load_experiment

TEXT = """apiVersion: opensearch-chaos/v1
name: kept
tags: [remote-store, durable]
topology: {topology}
load: {{documents: 10, read: {{rate: 20/s, good: ok within 1s}}, write: {{rate: 20/s, good: ok within 4s}}}}
phases: {{healthy: {{for: 60s}}}}
expect: [{{{line}: 0}}]
"""


def load(folder: Path, topology: str, line: str = "durable.lost", **replaced: str) -> object:
    text = TEXT.format(topology=topology, line=line)
    for old, new in replaced.items():
        text = text.replace(old, new)
    (folder / "x.yaml").write_text(text)
    return load_experiment(folder / "x.yaml")


@pytest.mark.parametrize("topology", ["3az-remote-store", "3az-remote-fs", "3az-remote-state"])
def test_an_experiment_on_a_store_may_be_tagged_durable(tmp_path: Path, topology: str) -> None:
    assert load(tmp_path, topology).durable  # type: ignore[attr-defined]


def test_an_experiment_without_a_store_may_not_be_tagged_durable(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"3:22: durable means .* topology 3az has none: expected remote_store"):
        load(tmp_path, "3az", "acknowledged.lost")


def test_without_the_tag_nothing_is_said_of_the_store(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"durable.lost is of what a store alone gives back.* expected that tag"):
        load(tmp_path, "3az-remote-store", **{", durable": ", other"})
    assert not load(tmp_path, "3az-remote-store", "acknowledged.lost", **{", durable": ""}).durable  # type: ignore[attr-defined]


ONE = """apiVersion: opensearch-chaos/v1
kind: topology
name: small
opensearch: 3.8.0
zones: [a]
nodes: {node: {roles: [cluster_manager, data], per_zone: 1, heap: 384MiB}}
services: {store: fs}
remote_store: STORE
settings: {index: {number_of_replicas: 0}}
"""


@pytest.mark.parametrize(("store", "fine"), [("store", False), ("{service: store, state: true}", True)])
def test_a_node_that_alone_knows_the_indices_cannot_be_emptied(tmp_path: Path, store: str, fine: bool) -> None:
    (tmp_path / "small.yaml").write_text(ONE.replace("STORE", store))
    if fine:
        assert load(tmp_path, str(tmp_path / "small.yaml")).durable  # type: ignore[attr-defined]
        return
    with pytest.raises(InvalidInput, match=r"a-node of topology small holds data and the only state of the cluster"):
        load(tmp_path, str(tmp_path / "small.yaml"))
