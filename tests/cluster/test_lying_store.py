"""Object stores that lie to a real cluster: what they have not any more must be found, by one of two checks at least.

``store.missing`` holds what the store acknowledged against what it lists in the end; ``durable.lost`` is what an empty
cluster has back from the store alone. A store that lies about what nobody asks for again is found by the first alone.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from clusterkit import Cli, findings

pytestmark = pytest.mark.full
TOPOLOGY = """\
apiVersion: opensearch-chaos/v1
kind: topology
name: lied-to
opensearch: 3.8.0
profile: fast
zones: [a, b]
nodes:
  cm:   {roles: [cluster_manager], per_zone: 1, zones: [a], heap: 256MiB}
  data: {roles: [data, ingest],    per_zone: 1, heap: 384MiB}
services: {store: s3}
remote_store: store
http_layer: [store]
settings:
  index: {refresh_interval: REFRESH, number_of_shards: 1, number_of_replicas: 1}
"""
EXPERIMENT = """\
apiVersion: opensearch-chaos/v1
name: lied-to
tags: [durable, remote-store]
topology: lied-to.yaml
load:
  documents: 100
  read:  {rate: 5/s, good: ok within 5s}
  write: {rate: 20/s, good: ok within 5s}
phases:
  steady: {for: 45s}
expect:
  - {store.missing: 0}
  - {durable.lost: 0}
  - {acknowledged.lost: 0}
guards: {max: 5m}
"""


def found(folder: Path, out: Path, lie: str, refresh: str = "1s") -> dict[str, float | None]:
    """What a run measured on a store that tells this lie, by metric. Its code says weakness where one is not 0."""
    (folder / "lied-to.yaml").write_text(TOPOLOGY.replace("REFRESH", refresh))
    file = folder / "experiment.yaml"
    file.write_text(EXPERIMENT)
    code, output = Cli("run", lie, "run", file, "--out", out, program="tests.support.liar").end(400)
    said = findings(out)
    measured = {each["metric"]: each["measured"] for each in said["findings"]}
    assert said["clean"] is True, output
    assert code == 1, (measured, output)
    assert "store.missing" in measured and "durable.lost" in measured, output
    return measured


def test_a_store_that_forgets_files_of_segments_is_found(tmp_path: Path, out: Path):
    measured = found(tmp_path, out, "forgets-segments")
    assert (measured["store.missing"] or 0) > 0, measured


def test_a_store_that_forgets_files_of_the_translog_is_found(tmp_path: Path, out: Path):
    measured = found(tmp_path, out, "forgets-translog")
    assert (measured["store.missing"] or 0) > 0, measured
    assert measured["acknowledged.lost"] == 0, measured


def test_a_translog_that_is_lost_after_its_acknowledgement_is_missing_in_an_empty_cluster(tmp_path: Path, out: Path):
    measured = found(tmp_path, out, "loses-translog", refresh="5m")
    assert (measured["store.missing"] or 0) > 0 and (measured["durable.lost"] or 0) > 0, measured
    assert measured["acknowledged.lost"] == 0, measured  # the live copies have all of it


def test_a_store_that_tells_of_older_metadata_is_found_by_what_an_empty_cluster_has_back(tmp_path: Path, out: Path):
    measured = found(tmp_path, out, "old-metadata")
    assert (measured["durable.lost"] or 0) > 0, measured
