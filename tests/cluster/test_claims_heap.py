"""What a source claims of full heaps, asked of one real node whose heap is filled step by step.

As in ``test_claims_managers.py``, a test is named after the claim whose answer it shows, and asserts what is seen.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest
from claimskit import INDEX, ask, cluster_setting, create, drop, lab_of

from chaos.targets.labs.local import LocalLab

pytestmark = pytest.mark.full
NODE = "a-node"
VALUE = 15_000
"""Bytes of one value, as the code has it: each is another one, and all of an index are held in memory to sort by."""
VALUES, INDICES = 800, 40
SEARCHES = 20


@pytest.fixture(scope="module")
def lab() -> Iterator[LocalLab]:
    """One node with a heap of 384 MiB and the garbage collector G1, which is what OpenSearch comes with."""
    with lab_of("one-node") as made:
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


def heap(lab: LocalLab) -> tuple[float, int, float]:
    """Of the node: percent of its heap in use, how often its parent breaker has tripped, and seconds of collections."""
    status, answer = ask(lab, NODE, "GET", "/_nodes/stats/jvm,breaker")
    if status != 200:
        return 100.0, -1, 0.0
    (node,) = answer["nodes"].values()
    memory = node["jvm"]["mem"]
    spent = sum(each["collection_time_in_millis"] for each in node["jvm"]["gc"]["collectors"].values()) / 1000
    return (
        100 * memory["heap_used_in_bytes"] / memory["heap_max_in_bytes"],
        node["breakers"]["parent"]["tripped"],
        spent,
    )


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
            used, tripped, spent = heap(lab)
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
