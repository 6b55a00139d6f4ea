from __future__ import annotations

import json

import pytest

from chaos.base.ids import preload_id, probe_id, write_id
from chaos.load.workloads.documents import (
    GROUPS,
    MAPPING,
    WORKLOAD,
    Requests,
    cas_source,
    check_of,
    check_value,
    document,
    least_hits,
    source,
)


def test_a_document_follows_from_its_id_alone():
    assert document(5) == source("w-5") == source(write_id(5))
    assert source("w-5") != source("p-5")
    assert source("w-5")["check"] == check_value("w-5") < 2**63
    assert set(document(5)) == set(MAPPING["properties"])
    with pytest.raises(ValueError, match="not the id"):
        source("x-1")


def test_least_hits_is_what_preloading_gives():
    documents = 250
    for group in range(GROUPS):
        loaded = sum(source(preload_id(n))["group"] == group for n in range(documents))
        assert least_hits(group, documents) == loaded


def test_requests():
    requests = Requests("chaos", 2000)
    write = requests.of("index", 7)
    assert (write.method, write.path.partition("?")[0]) == ("PUT", "/chaos/_doc/w-7")
    assert json.loads(write.body) == document(7)
    search = requests.of("search", 7)
    group = json.loads(search.body)["query"]["bool"]["filter"][0]["term"]["group"]
    assert search.least_hits == least_hits(group, 2000) == 20
    assert requests.of("search", 7) == search
    assert len({requests.of("search", k).body for k in range(0, 2000, 2)}) == GROUPS
    assert requests.of("get", 3).path.startswith("/chaos/_doc/p-")


def test_the_keys_of_compare_and_set_are_there_before_the_load_and_their_content_follows_from_their_value():
    actions = list(WORKLOAD._actions("chaos", 2, 2))
    assert [action["_id"] for action in actions] == ["p-0", "p-1", "c-0", "c-1"]
    assert json.loads(actions[2]["_source"]) == cas_source("c-0", 0) and cas_source("c-0", 0)["seq"] == 0
    assert set(cas_source("c-0", 3)) == set(MAPPING["properties"])
    assert not 0 <= cas_source("c-0", 3)["group"] < GROUPS  # no search of the load finds it
    assert len({check_of(key, value) for key in ("c-0", "c-1") for value in range(5)}) == 10
    assert check_of("w-3", 7) == check_value("w-3") and source(probe_id(3))["check"] == check_value("v-3")
