"""The read-back on a real cluster whose disk lies: one byte is another one on one copy, and nobody else notices.

OpenSearch verifies a segment's checksum when it copies the segment, not when it opens or reads it. So a node that was
stopped and started again serves what its disk holds by now.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from relays import doors

from chaos.base.ids import cas_id, preload_id
from chaos.definitions.existing import load_existing
from chaos.load.workloads.documents import MAPPING, WORKLOAD, check_value, content, source
from chaos.observe import contents
from chaos.observe.readback import read_back
from chaos.opensearch.rest import opensearch
from chaos.opensearch.views import administer, await_green, view
from chaos.targets.existing.target import ExistingTarget
from chaos.targets.labs.processes import wait_until

DOCUMENTS, KEYS, INDEX = 300, 3, "damaged"
IDS = {preload_id(n) for n in range(DOCUMENTS)} | {cas_id(n) for n in range(KEYS)}
COLUMN, POINT = preload_id(17), preload_id(23)
"""Whose doc value, and whose indexed number is changed."""
WORD = ("willow", "willox")
"""A word of the dictionary, and what stands there afterwards: between the same neighbours."""


@pytest.fixture
def damaged(tiny):
    """An index of one shard with three copies, each of one segment that lies on disk."""
    settings = {"number_of_shards": 1, "number_of_replicas": 2}
    try:
        assert administer(tiny, "PUT", f"/{INDEX}", body={"mappings": MAPPING, "settings": settings})[0] == 200
        assert await_green(tiny, 60)[0]
        node = tiny.topology.nodes[0].name
        WORKLOAD.preload(opensearch(tiny.administration(node), access=tiny.access), DOCUMENTS, INDEX, keys=KEYS)
        for step in ("_forcemerge?max_num_segments=1&flush=true", "_flush?force=true"):
            assert administer(tiny, "POST", f"/{INDEX}/{step}")[0] == 200
        yield tiny
    finally:
        for each in tiny.topology.nodes:
            tiny.start_node(each.name)
        administer(tiny, "DELETE", f"/{INDEX}?ignore_unavailable=true")


def by_one_door(lab, url: str, folder: Path) -> ExistingTarget:
    """The same cluster, of whose nodes no address is known."""
    who = administer(lab, "GET", "/")[1]
    said = {
        "apiVersion": "opensearch-chaos/v1",
        "kind": "existing",
        "name": "staging",
        "endpoints": [url],
        "identity": {"cluster_uuid": who["cluster_uuid"], "cluster_name": who["cluster_name"]},
        "opensearch": lab.topology.version,
        "zones": {"names": {zone: zone for zone in lab.topology.zones}},
        "nodes": {node.name: {"zone": node.zone, "roles": list(node.roles)} for node in lab.topology.nodes},
    }
    file = folder / "staging.yaml"
    file.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in said.items()))
    return ExistingTarget(load_existing(file), lab.topology)


def found(lab) -> dict[str, Any]:
    return read_back(lab, INDEX, IDS, sleep=lambda _: None)


def last_of(lab, node: str) -> str:
    """The document that stands last in a copy: nothing behind it in the compressed sources repeats a part of it."""
    client = lab.client(node, timeout=10)
    try:
        body = {"size": 1, "sort": [{"_doc": "desc"}]}
        _, answer = client.request("POST", f"/{INDEX}/_search?preference=_shards:0%7C_only_local", body=body)
        return answer["hits"]["hits"][0]["_id"]
    finally:
        client.close()


def files(lab, node: str) -> list[Path]:
    return [path for path in (lab.folder / "data" / node).rglob("*") if path.is_file() and path.parent.name == "index"]


def change(where: list[Path], parts: list[bytes], other: Callable[[bytes], bytes]) -> None:
    """Overwrite the first of these that stands in the files once."""
    contents = {path: path.read_bytes() for path in where}
    for part in parts:
        if sum(data.count(part) for data in contents.values()) == 1:
            (path,) = [path for path, data in contents.items() if part in data]
            new = other(part)
            assert len(new) == len(part) and new != part
            with path.open("r+b") as file:
                file.seek(contents[path].index(part))
                file.write(new)
            return
    raise AssertionError(f"none of {parts[:3]} stands in a file once")


def pieces(value: bytes) -> list[bytes]:
    """Parts of at least four bytes, the longest first: compression may have taken the others."""
    return [value[at : at + length] for length in range(len(value), 3, -1) for at in range(len(value) - length + 1)]


def other_digit(digits: bytes) -> bytes:
    middle = len(digits) // 2
    return digits[:middle] + str((int(digits[middle : middle + 1]) + 1) % 10).encode() + digits[middle + 1 :]


def flipped(at: int) -> Callable[[bytes], bytes]:
    def flip(data: bytes) -> bytes:
        changed = bytearray(data)
        changed[at] ^= 1
        return bytes(changed)

    return flip


def test_one_byte_on_one_copys_disk_is_found_in_the_source_the_index_or_the_doc_values_of_that_copy(damaged, tmp_path):
    before = found(damaged)
    assert before["complete"] and before["wrong_content_count"] == 0
    assert before["content"] == before["content"] | {"documents": len(IDS), "of": len(IDS), "copies": 3, "reason": None}

    node = damaged.topology.nodes[2].name
    last = last_of(damaged, node)
    damaged.stop_node(node)
    mine = files(damaged, node)
    dictionary = f"valley{WORD[0]}".encode()
    change(mine, pieces(str(content(last)["check"]).encode()), other_digit)
    change(mine, [dictionary], lambda data: data.replace(*(word.encode() for word in WORD)))
    change(mine, [struct.pack("<q", check_value(COLUMN))], flipped(0))
    change(mine, [struct.pack(">q", check_value(POINT))[-6:]], flipped(-1))
    damaged.start_node(node)
    # by its own word: to the others it may be the node of before, which they have not missed yet
    assert wait_until(lambda: (seen := view(damaged, node)) is not None and seen.leader and seen.status == "green", 120)

    after = found(damaged)
    others = {each.name for each in damaged.topology.nodes} - {node}
    ways = {way: after[f"wrong_{way}"] for way in ("source", "index", "doc_values")}
    by_word = {id for id in IDS if id.startswith("p-") and WORD[0] in source(id)["text"].split()}
    assert {each["id"] for each in ways["source"]} == {last}
    assert {each["id"] for each in ways["doc_values"]} == {COLUMN}
    assert {each["id"] for each in ways["index"]} == by_word | {POINT}
    for each in (each for named in ways.values() for each in named):
        assert each["on"] == [node] and set(each["right_on"]) == others, each
    assert after["wrong_content_count"] == len({last, COLUMN, POINT} | by_word)
    assert after["lost_count"] == after["diverged_count"] == 0 and after["complete"]

    # and through one address, behind which any node answers, it is the same
    with doors(damaged) as opened:
        url = opened.door(*(damaged.administration(each.name) for each in damaged.topology.nodes))
        through = found(by_one_door(damaged, url, tmp_path))
    assert {key: value for key, value in through.items() if key != "seconds"} == {
        key: value for key, value in after.items() if key != "seconds"
    }


@pytest.mark.full
def test_samples_of_a_real_index_are_read_by_their_ids_and_found_right(damaged, monkeypatch):
    """As of more documents than are all compared: the source of more documents than the index, and not of all."""
    for sources, indexed in ((DOCUMENTS + KEYS, 50), (200, 50), (100, 20)):
        monkeypatch.setattr(contents, "SOURCES", sources)
        monkeypatch.setattr(contents, "WHOLE", indexed)
        content = (result := found(damaged))["content"]
        assert result["complete"] and result["wrong_content_count"] == result["lost_count"] == 0
        assert content == content | {"documents": sources, "indexed": indexed, "of": len(IDS), "reason": None}


@pytest.mark.full
def test_an_index_that_gives_few_documents_at_once_is_read_in_as_many_answers_as_it_takes(damaged):
    administer(damaged, "PUT", f"/{INDEX}/_settings", body={"index": {"max_result_window": 40}})
    result = found(damaged)
    assert result["complete"] and result["documents"] == len(IDS) and result["content"]["reason"] is None
    assert result["content"]["indexed"] == len(IDS) and result["duplicated_count"] == 0


@pytest.mark.full
def test_documents_of_others_that_share_every_value_are_listed_in_full_and_hide_none_of_ours(damaged):
    """More than an answer holds have none of our fields, and more than that have those of one of our documents."""
    administer(damaged, "PUT", f"/{INDEX}/_settings", body={"index": {"max_result_window": 40}})
    ours = administer(damaged, "GET", f"/{INDEX}/_doc/{COLUMN}")[1]["_source"]
    given = [(f"other-{n}", {"text": "of another writer"}) for n in range(90)]
    given += [(f"copy-{n}", ours) for n in range(90)]
    for id, body in given:
        assert administer(damaged, "PUT", f"/{INDEX}/_doc/{id}", body=body)[0] == 201
    result = found(damaged)
    assert result["complete"] and result["lost_count"] == result["duplicated_count"] == 0
    assert result["documents"] == len(IDS) + len(given)
    assert result["unacknowledged_present"] == len(given)
