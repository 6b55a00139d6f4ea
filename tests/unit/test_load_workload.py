from __future__ import annotations

import json

import pytest

from chaos.load.workload import (
    GROUPS,
    MAPPING,
    Requests,
    check_value,
    document,
    least_hits,
    preload_id,
    source,
    write_id,
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
