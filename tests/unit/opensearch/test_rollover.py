"""Data streams and aliases are made with a template, rolled over, and taken away as what this run made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake_rolled import RolledCluster

from chaos.base.errors import FaultError, LabError, NotOurs
from chaos.faults.ledger import Ledger
from chaos.faults.lifecycle import undo_entries
from chaos.faults.moves import Move, Reversible
from chaos.opensearch import administration, counters, rollover
from chaos.opensearch.administration import new_owner
from chaos.opensearch.requests import OWNER, belongs

MAPPING = {"dynamic": "strict", "properties": {"@timestamp": {"type": "date"}}}
KINDS = ["data_stream", "alias"]
FIRST = {"data_stream": ".ds-chaos-000001", "alias": "chaos-000001"}
SECOND = {"data_stream": ".ds-chaos-000002", "alias": "chaos-000002"}


@pytest.fixture
def cluster() -> Any:
    return RolledCluster()


def made(kind: str, owner: str) -> Reversible:
    named = {"name": "chaos", "kind": kind, "owner": owner}
    more = {"settings": {"number_of_shards": 2}, "mapping": MAPPING, "timestamp": "@timestamp"}
    return Reversible(Move("rolled.create", {**named, **more}), Move("rolled.delete", named))


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_gets_a_template_and_its_first_index_once(cluster: Any, kind: str) -> None:
    mine = made(kind, "0wner")
    mine.move.apply(cluster)
    first = list(cluster.bodies)
    (_, path, template), (_, second, body) = first
    assert path == "/_index_template/chaos" and template["_meta"] == {OWNER: "0wner"}
    assert template["template"]["mappings"] == {**MAPPING, "_meta": {OWNER: "0wner"}}
    assert template["template"]["settings"] == {"index": {"number_of_shards": 2}}
    if kind == "data_stream":
        assert template["index_patterns"] == ["chaos"] and second == "/_data_stream/chaos"
        assert template["data_stream"] == {"timestamp_field": {"name": "@timestamp"}}
    else:
        assert template["index_patterns"] == ["chaos-0*"] and "data_stream" not in template
        assert (second, body) == ("/chaos-000001", {"aliases": {"chaos": {"is_write_index": True}}})
    mine.move.apply(cluster)
    assert cluster.bodies == first and rollover.indices(cluster, "chaos") == [FIRST[kind]]


@pytest.mark.parametrize("kind", KINDS)
def test_all_that_was_rolled_over_goes_and_the_template_too(cluster: Any, kind: str, tmp_path: Path) -> None:
    mine = made(kind, new_owner())
    ledger = Ledger(tmp_path / "ledger.jsonl")
    (entry,) = ledger.intend("index", [mine])
    mine.move.apply(cluster)
    assert rollover.roll(cluster, "chaos") == SECOND[kind]
    assert rollover.indices(cluster, "chaos") == [FIRST[kind], SECOND[kind]]
    assert len(rollover.left(cluster, "chaos")) == 3
    assert undo_entries(cluster, ledger, [entry]) == []
    assert rollover.left(cluster, "chaos") == [] and not cluster.templates and not cluster.indices
    assert mine.inverse is not None and mine.inverse.apply(cluster) is False


def test_a_run_that_was_killed_between_template_and_index_leaves_nothing(cluster: Any) -> None:
    mine = made("data_stream", "0wner")
    mine.move.apply(cluster)
    cluster.streams.clear()
    cluster.indices.clear()
    assert mine.inverse is not None and mine.inverse.apply(cluster) is True and not cluster.templates


@pytest.mark.parametrize("kind", KINDS)
def test_what_others_made_is_refused_and_stays(cluster: Any, kind: str) -> None:
    made(kind, "theirs").move.apply(cluster)
    before = dict(cluster.indices), dict(cluster.templates)
    mine = made(kind, "0wner")
    with pytest.raises(FaultError, match="which this run did not make"):
        mine.move.apply(cluster)
    assert mine.inverse is not None
    with pytest.raises(NotOurs, match=r"is not what this run made: it is left as it is"):
        mine.inverse.apply(cluster)
    assert (cluster.indices, cluster.templates) == before
    cluster.templates.clear()
    with pytest.raises(FaultError, match=f"{FIRST[kind]} is there already"):
        mine.move.apply(cluster)


def test_a_name_goes_on_only_with_enough_documents(cluster: Any) -> None:
    made("alias", "0wner").move.apply(cluster)
    assert rollover.roll(cluster, "chaos", 10) is None
    cluster.counts["chaos-000001"] = 10
    assert rollover.roll(cluster, "chaos", 10) == "chaos-000002"
    assert cluster.bodies[-1][2] == {"conditions": {"max_docs": 10}}


def test_of_several_the_oldest_says_the_settings_and_others_say_none(monkeypatch: pytest.MonkeyPatch) -> None:
    answer: dict[str, Any] = {f".ds-chaos-{n:06}": {"settings": {"index.uuid": str(n)}} for n in (2, 1, 10)}
    monkeypatch.setattr(administration, "asked", lambda *_, **__: answer)
    of: Any = None
    assert administration.settings_of_oldest(of, "chaos") == {"index.uuid": "1"}
    with pytest.raises(LabError, match=r"those of \.ds-chaos-000001, .* answered"):
        administration.settings_of_oldest(of, "logs")
    answer.clear()
    assert administration.settings_of_oldest(of, "chaos") is None


def test_recoveries_and_routing_are_those_of_all_under_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    one = {
        "id": 0,
        "type": "PEER",
        "stage": "DONE",
        "primary": False,
        "start_time_in_millis": 5000,
        "total_time_in_millis": 7,
        "target": {"name": "b-data"},
        "index": {
            "size": {"total_in_bytes": 1, "reused_in_bytes": 0, "recovered_in_bytes": 1},
            "files": {"total": 1, "reused": 0},
        },
        "translog": {"recovered": 0},
    }
    names = (".ds-chaos-000001", ".ds-chaos-000002")
    rows = [{"index": name, "shard": "0", "node": "b-data", "store": str(n)} for n, name in enumerate(names, 1)]
    told = {"settings": {"index": {"number_of_shards": "2"}}, "routing_num_shards": 1024}
    said: dict[str, Any] = {
        "_recovery": {name: {"shards": [one]} for name in (*names, "other")},
        "_cat/shards": rows,
        "_cluster/state": {"metadata": {"indices": dict.fromkeys(names, told)}},
    }
    monkeypatch.setattr(
        counters, "_get", lambda lab, node, path, timeout: next(a for part, a in said.items() if part in path)
    )
    of: Any = None
    found = counters.recoveries(of, "a", "chaos", 1.0, 1.0)
    assert found is not None and [(each["index"], each["shard_bytes"]) for each in found] == list(
        zip(names, (1, 2), strict=True)
    )
    assert counters.routing(of, "a", "chaos", 1.0) == {"shards": 2, "routing_shards": 1024}


def test_which_indices_are_those_of_a_name() -> None:
    yes = ("chaos", "chaos-000001", ".ds-chaos-000012", "chaos-1000000")
    no = (
        "chaos-writes",
        "chaos-notes",
        "chaos-notes-000001",
        ".ds-chaos-notes-000001",
        "chaos-00001",
        "x-chaos-000001",
    )
    assert all(belongs(each, "chaos") for each in yes) and not any(belongs(each, "chaos") for each in no)
