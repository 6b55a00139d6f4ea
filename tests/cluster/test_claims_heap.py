"""What a source claims of full heaps, asked of one real node whose heap is filled step by step.

As in ``test_claims_managers.py``, a test is named after the claim whose answer it shows, and asserts what is seen.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator

import pytest
from claimskit import INDEX, ask, cluster_setting, create, drop, lab_of
from clusterkit import ROOT

from chaos.base.waiting import wait_until
from chaos.targets.labs.local import LocalLab

pytestmark = pytest.mark.full
NODE = "a-node"
VALUE = 15_000
"""Bytes of one value, as the code has it: each is another one, and all of an index are held in memory to sort by."""
VALUES, INDICES = 800, 40
SEARCHES = 20


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalLab]:
    """One node with a heap of 384 MiB and the garbage collector G1, which is what OpenSearch comes with. Its cache for
    values that are sorted by may take all of the heap, so that it can be filled."""
    file = tmp_path_factory.mktemp("topology") / "one-node.yaml"
    shipped = (ROOT / "topologies" / "one-node.yaml").read_text()
    assert "settings:\n" in shipped
    file.write_text(shipped.replace("settings:\n", "settings:\n  node: {indices.fielddata.cache.size: 99%}\n"))
    with lab_of(str(file)) as made:
        yield made
        drop(made)


def name_of(step: int) -> str:
    return f"{INDEX}-{step}"


def write_values(lab: LocalLab, step: int) -> None:
    """An index of :data:`VALUES` values that are sorted by in memory."""
    chance = random.Random(step)
    text = {"type": "text", "analyzer": "keyword", "fielddata": True}
    create(lab, {"number_of_shards": 1, "number_of_replicas": 0}, {"value": text}, name=name_of(step))
    for _ in range(VALUES // 100):
        lines = [
            line
            for _ in range(100)
            for line in ('{"index":{}}', json.dumps({"value": chance.randbytes(VALUE // 2).hex()}))
        ]
        status, answer = ask(lab, NODE, "POST", f"/{name_of(step)}/_bulk", "\n".join(lines) + "\n")
        assert status == 200 and answer["errors"] is False, str(answer)[:300]
    assert ask(lab, NODE, "POST", f"/{name_of(step)}/_flush")[0] == 200


def load(lab: LocalLab, step: int) -> int:
    """Have the node hold an index's values in its heap, and tell how it answered."""
    return ask(
        lab, NODE, "GET", f"/{name_of(step)}/_search?size=0", {"aggs": {"of": {"terms": {"field": "value", "size": 1}}}}
    )[0]


def heap(lab: LocalLab, since_ms: float) -> tuple[float, int, float]:
    """Of the node: percent of its heap in use, how often its parent breaker has tripped, and seconds of collections, as
    it says them of a moment after ``since_ms``; it looks once a second."""
    found: list[tuple[float, int, float]] = []

    def told() -> bool:
        status, answer = ask(lab, NODE, "GET", "/_nodes/stats/jvm,breaker")
        if status != 200:
            return False
        (node,) = answer["nodes"].values()
        if node["jvm"]["timestamp"] <= since_ms:
            return False
        memory, tripped = node["jvm"]["mem"], node["breakers"]["parent"]["tripped"]
        spent = sum(each["collection_time_in_millis"] for each in node["jvm"]["gc"]["collectors"].values()) / 1000
        found.append((100 * memory["heap_used_in_bytes"] / memory["heap_max_in_bytes"], tripped, spent))
        return True

    return found[0] if wait_until(told, 5, every=0.2) else (100.0, -1, 0.0)


def test_ha_18_above_95_percent_of_its_heap_a_node_with_g1_refuses_what_it_is_asked_and_below_80_nothing(
    lab: LocalLab,
) -> None:
    """G1 alone: the collector CMS is in no Java that OpenSearch 3 runs on."""
    for step in range(INDICES):
        write_values(lab, step)
    create(lab, {"number_of_shards": 1, "number_of_replicas": 0}, name=f"{INDEX}-of-users")
    below, above = [], []
    with cluster_setting(lab, "indices.breaker.fielddata.limit", "100%"):
        for step in range(INDICES):
            loaded = load(lab, step)
            said = [ask(lab, NODE, "GET", f"/{INDEX}-of-users/_search?size=0")[0] for _ in range(SEARCHES)]
            used, tripped, spent = heap(lab, time.time() * 1000)
            print(
                f"{step + 1} indices, the last one {loaded}: {used:.0f} % of the heap, {said.count(200)} of {SEARCHES}"
            )
            print(f"  the parent breaker has tripped {tripped} times, {spent:.1f} s of collections")
            (below if used < 80 and tripped == 0 else above).append((used, said))
            if said.count(429) == SEARCHES:
                break
    assert len(below) >= 3 and all(set(said) == {200} for _, said in below), below
    assert above and set(above[-1][1]) == {429}, above
    assert ask(lab, NODE, "POST", f"/{INDEX}-*/_cache/clear?fielddata=true")[0] in (200, 429)
