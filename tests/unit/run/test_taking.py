"""Settings that OpenSearch does not take are refused before the load, and asking changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_cluster import FakeCluster
from fakes import ROOT

from chaos.base.errors import InvalidInput
from chaos.definitions import Experiment
from chaos.registry import load_experiment
from chaos.run import taking


def changing(folder: Path, scope: str, settings: str) -> Experiment:
    file = folder / "x.yaml"
    file.write_text(
        "apiVersion: opensearch-chaos/v1\nname: x\n"
        f"topology: {ROOT / 'topologies'}/3az-standby.yaml\n"
        "load:\n  read: {rate: 10/s, good: ok within 1s}\n"
        f"phases:\n  changed: {{for: 30s, inject: {{settings.change: {{scope: {scope}, settings: {{{settings}}}}}}}}}\n"
        'expect:\n  - {read.good: ">= 90%"}\n'
    )
    return load_experiment(file)


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    made.persistent = {"cluster.max_shards_per_node": "500"}
    return made


def puts(cluster: FakeCluster) -> list[str]:
    return [path for _, method, path in cluster.requests if method == "PUT"]


@pytest.mark.parametrize(
    ("scope", "given", "key"),
    [
        ("cluster", "cluster.max_shard_per_nod: 1000", "cluster.max_shard_per_nod"),
        ("index", "refreshh: 1s", "index.refreshh"),
    ],
)
def test_one_that_it_does_not_know_is_refused_by_its_own_word(
    tmp_path: Path, cluster: FakeCluster, scope: str, given: str, key: str
) -> None:
    cluster.refused = {key}
    with pytest.raises(InvalidInput) as caught:
        taking.refuse_unknown(cluster, changing(tmp_path, scope, given), "chaos", ours=True)  # type: ignore[arg-type]
    said = str(caught.value)
    assert f"settings.change in phase changed: OpenSearch does not take {key} (setting [{key}]" in said
    assert ('did you mean "cluster.max_shards_per_node"?' in said) == (scope == "cluster")
    assert cluster.persistent == {"cluster.max_shards_per_node": "500"}


def test_one_that_is_set_is_known_and_let_alone(tmp_path: Path, cluster: FakeCluster) -> None:
    asked = changing(tmp_path, "cluster", "cluster.max_shards_per_node: 1")
    taking.refuse_unknown(cluster, asked, "chaos", ours=True)  # type: ignore[arg-type]
    assert puts(cluster) == [] and cluster.persistent == {"cluster.max_shards_per_node": "500"}


def test_one_that_it_takes_is_not_refused_and_stays_unset(tmp_path: Path, cluster: FakeCluster) -> None:
    asked = changing(tmp_path, "cluster", "cluster.info.update.interval: 10s")
    taking.refuse_unknown(cluster, asked, "chaos", ours=True)  # type: ignore[arg-type]
    assert puts(cluster) == ["/_cluster/settings"]
    assert cluster.persistent == {"cluster.max_shards_per_node": "500"}


def test_settings_of_a_cluster_that_is_not_ours_are_let_alone(tmp_path: Path, cluster: FakeCluster) -> None:
    cluster.refused = {"cluster.nonsense", "index.nonsense"}
    asked = changing(tmp_path, "cluster", "cluster.nonsense: 1")
    taking.refuse_unknown(cluster, asked, "chaos", ours=False)  # type: ignore[arg-type]
    assert puts(cluster) == []
    with pytest.raises(InvalidInput, match=r"index\.nonsense"):  # the load's index is
        taking.refuse_unknown(cluster, changing(tmp_path, "index", "nonsense: 1"), "chaos", ours=False)  # type: ignore[arg-type]
