"""Documents and requests of a workload that is written in YAML."""

from __future__ import annotations

import ipaddress
import json
import os
import subprocess
import sys
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unit.definitions.test_workload_files import WORKLOAD

from chaos.base.errors import InvalidInput
from chaos.base.ids import preload_id, write_id
from chaos.definitions.loading import load_workload
from chaos.definitions.workload import WorkloadDefinition
from chaos.history.format import Outcome
from chaos.load import workloads
from chaos.load.dataset import Dataset
from chaos.load.known import Known
from chaos.load.right import Judge
from chaos.observe.contents import differs, same

HEAD = "apiVersion: opensearch-chaos/v1\nkind: workload\nname: theirs\n"


def made(folder: Path, text: str = WORKLOAD) -> Dataset:
    path = folder / "theirs.yaml"
    path.write_text(text)
    found = Dataset(load_workload(path))
    found.refuse_unfit()
    return found


def of_fields(folder: Path, fields: str, more: str = "") -> Dataset:
    return made(folder, f"{HEAD}fields:\n{fields}{more}")


def values(workload: Dataset, field: str, number: int = 2000) -> list[Any]:
    return [workload.content(write_id(n))[field] for n in range(number)]


def test_a_document_follows_from_its_id_and_the_seed(tmp_path: Path) -> None:
    one, two = made(tmp_path), made(tmp_path)
    assert one.body("w-5") == two.body("w-5") != one.body("p-5")
    assert one.content("w-5") == json.loads(one.body("w-5"))
    assert one.numbers("w-5") == {name: one.content("w-5")[name] for name in ("seq", "check")}
    other = made(tmp_path, WORKLOAD + "seed: 2\n")
    assert other.body("w-5") != one.body("w-5") and other.content("w-5")["seq"] == 5
    with pytest.raises(ValueError, match="not the id"):
        one.body("x-1")


def test_the_documents_of_another_process_are_the_same(tmp_path: Path) -> None:
    workload = made(tmp_path)
    code = (
        "import json, sys; from chaos.load import workloads\n"
        "w = workloads.of('orders', json.loads(sys.stdin.read()))\n"
        "print(w.body('w-7'), w.body('p-7'), w.requests('i', 9).of('search', 3).body)"
    )
    told = json.dumps(workload.definition.to_json(), sort_keys=True)
    environment = os.environ | {"PYTHONHASHSEED": "7"}
    done = subprocess.run([sys.executable, "-c", code], input=told, capture_output=True, text=True, env=environment)
    wanted = [workload.body("w-7"), workload.body("p-7"), workload.requests("i", 9).of("search", 3).body]
    assert done.stdout.strip() == " ".join(map(str, wanted)), done.stderr


def test_these_documents_never_change() -> None:
    """A plan means the same documents in every version, on every Python."""
    definition = WorkloadDefinition.from_json(
        {
            "name": "kept",
            "fields": [
                ["k", {"type": "keyword", "pool": 9}],
                ["t", {"type": "text", "words": [9, 12]}],
                ["n", {"type": "long", "range": [0, 10**12]}],
                ["d", {"type": "double"}],
                ["at", {"type": "date", "step": 0.02}],
                ["ip", {"type": "ip"}],
                ["h", {"type": "keyword", "hex": 9}],
                ["a", {"type": "boolean", "array": [1, 3], "nulls": 0.1}],
            ],
            "mapping": {},
        }
    )
    assert Dataset(definition).body("w-3") == KEPT


KEPT = (
    '{"seq":3,"check":7783471623468183636,"k":"mugihihu","t":"tavo ferisogo bemafapu togi tivo havivido zapesa '
    'vopucena rupofobu seka foliriga","n":913760292860,"d":618.457,"at":"2026-01-01T00:00:00.060Z","ip":"10.0.221.0",'
    '"h":"52e2141d4","a":[false,false]}'
)


def test_values_are_as_their_field_says(tmp_path: Path) -> None:
    workload = of_fields(
        tmp_path,
        "  k: {type: keyword, pool: 30, prefix: x-}\n"
        "  v: {type: keyword, values: [a, b], weights: [9, 1]}\n"
        "  h: {type: keyword, hex: 5}\n"
        "  t: {type: text, words: [0, 20], vocabulary: 100}\n"
        "  i: {type: integer, range: [-3, 3]}\n"
        "  l: {type: long, range: [-9223372036854775808, 9223372036854775807]}\n"
        "  d: {type: double, range: [0.25, 0.5], decimals: 2}\n"
        "  b: {type: boolean}\n"
        "  p: {type: ip, net: 10.1.2.0/30}\n"
        "  q: {type: ip, net: 'fd00::/16'}\n"
        "  n: {type: integer, pool: 5, nulls: 25%}\n"
        "  a: {type: keyword, pool: 9, array: [0, 3]}\n"
        "  g: {type: geo_point, area: [-1, 4.5, 1, 6.25]}\n"
        "  w: {type: geo_point, pool: 3, array: 2, nulls: 5%}\n"
        "  o: {type: nested, array: [1, 2], fields: {x: {type: long, array: 2}}}\n",
    )
    assert len(set(values(workload, "k"))) == 30 and all(v.startswith("x-") for v in values(workload, "k", 50))
    assert 0.86 < Counter(values(workload, "v"))["a"] / 2000 < 0.94
    assert all(len(v) == 5 and int(v, 16) >= 0 for v in values(workload, "h", 100))
    lengths = {len(text.split()) for text in values(workload, "t")}
    assert lengths == set(range(21)) and len(set(" ".join(values(workload, "t")).split())) == 100
    assert set(values(workload, "i")) == set(range(-3, 4))
    assert min(values(workload, "l")) < -(2**62) and max(values(workload, "l")) > 2**62
    assert {round(v * 100) for v in values(workload, "d")} == set(range(25, 51))
    assert 0.45 < sum(values(workload, "b")) / 2000 < 0.55
    assert set(values(workload, "p")) == {f"10.1.2.{n}" for n in range(4)}
    assert all(ipaddress.ip_address(v) in ipaddress.ip_network("fd00::/16") for v in values(workload, "q", 50))
    assert 0.21 < values(workload, "n").count(None) / 2000 < 0.29 and len(set(values(workload, "n"))) == 6
    assert {len(v) for v in values(workload, "a")} == {0, 1, 2, 3}
    points = values(workload, "g")
    assert all(-1 <= v["lat"] <= 1 and 4.5 <= v["lon"] <= 6.25 for v in points)
    for axis, least, most in (("lat", -1, 1), ("lon", 4.5, 6.25)):  # over the whole area
        assert min(v[axis] for v in points) < least + 0.01 * (most - least)
        assert max(v[axis] for v in points) > most - 0.01 * (most - least)
    wide = [each for v in values(workload, "w") if v is not None for each in v]
    assert len({(v["lat"], v["lon"]) for v in wide}) == 3 and all(abs(v["lat"]) <= 90 for v in wide)
    assert {(len(v), len(v[0]["x"])) for v in values(workload, "o")} == {(1, 2), (2, 2)}


def test_a_point_is_compared_as_it_was_written(tmp_path: Path) -> None:
    workload = of_fields(tmp_path, "  g: {type: geo_point, area: [-0.00001, -0.00001, 0, 0]}\n")
    for n in range(50):  # of minus zero too
        sent = json.loads(workload.body(write_id(n)))
        assert same(workload.content(write_id(n)), sent)
        moved = {**sent, "g": {**sent["g"], "lat": sent["g"]["lat"] + 0.00001}}
        assert differs(workload.content(write_id(n)), moved).startswith('g: expected {"lat": ')
    assert not same(sent, {**sent, "g": [sent["g"]["lon"], sent["g"]["lat"]]})


def test_dates_advance_with_the_documents_and_what_was_there_before_is_older(tmp_path: Path) -> None:
    text = "  at: {type: date, start: '2026-03-01T12:00:00Z', step: 1500ms, format: FORMAT}\n"
    iso = of_fields(tmp_path, text.replace("FORMAT", "strict_date_optional_time"))
    assert [iso.content(i)["at"] for i in ("w-0", "w-1", "p-0", "p-1")] == [
        "2026-03-01T12:00:00.000Z",
        "2026-03-01T12:00:01.500Z",
        "2026-03-01T11:59:58.500Z",
        "2026-03-01T11:59:57.000Z",
    ]
    wanted = {"epoch_millis": 1772366401500, "epoch_second": 1772366401, "yyyy-MM-dd": "2026-03-01"}
    wanted["yyyy-MM-dd HH:mm:ss"] = "2026-03-01 12:00:01"
    for format, value in wanted.items():
        assert of_fields(tmp_path, text.replace("FORMAT", f"'{format}'")).content("w-1")["at"] == value
    three = of_fields(tmp_path, text.replace("FORMAT", "[epoch_millis, yyyy-MM-dd, strict_date_optional_time]"))
    assert [type(three.content(write_id(n))["at"]) for n in range(3)] == [int, str, str]
    assert three.content("w-1")["at"] == "2026-03-01" and three.content("w-2")["at"].endswith("03.000Z")
    assert datetime.fromisoformat(three.content("w-2")["at"]).year == 2026


def test_a_key_of_compare_and_set_holds_its_value_and_no_query_finds_it(tmp_path: Path) -> None:
    workload = made(tmp_path)
    found = workload.content("c-3", 9)
    assert found["seq"] == 9 and set(found) == {"seq", "check"} and found != workload.content("c-3", 8)
    assert workload.believed("c-3", found) == 9 and workload.believed("c-3", {**found, "seq": 8}) is None
    assert workload.found_by("c-3") == ()


# ------------------------------------------------------------------------------------------------ requests


def test_queries_are_drawn_by_weight_and_hold_values_of_fields(tmp_path: Path) -> None:
    requests = made(tmp_path).requests("chaos", 10)
    made_ = [requests.of("search", k) for k in range(2000)]
    assert made_ == [requests.of("search", k) for k in range(2000)]
    mine = [each for each in made_ if each.asks is not None]
    assert 0.71 < len(mine) / 2000 < 0.79
    for each in mine[:50]:
        (customer,) = json.loads(str(each.body))["query"]["term"].values()
        assert each.asks == f'customer="{customer}"' and each.path == "/chaos/_search"
    assert len({each.asks for each in mine}) == 50
    late = next(k for k, each in enumerate(made_) if each.asks is None and k % 3 == 0)
    gte = json.loads(str(made_[late].body))["query"]["range"]["at"]["gte"]
    assert gte == f"2025-12-31T23:{45 + late // 240:02d}:{late // 4 % 60:02d}.{late % 4 * 250:03d}Z"


def test_with_bulks_the_newest_document_is_that_of_the_arrival_s_last_number(tmp_path: Path) -> None:
    workload = made(
        tmp_path, WORKLOAD.replace(', format: [strict_date_optional_time, epoch_millis, "yyyy-MM-dd HH:mm:ss"]', "")
    )
    k = next(k for k in range(99) if workload.requests("i", 1).of("search", k).asks is None)
    gte = [
        json.loads(str(requests.of("search", k).body))["query"]["range"]["at"]["gte"]
        for requests in (workload.requests("i", 1), workload.strided("i", 1, 500))
    ]
    late = [datetime.fromisoformat(each) for each in gte]
    assert (late[1] - late[0]).total_seconds() == 499 * k * 0.25


def test_a_document_is_found_by_the_values_that_queries_filter_on(tmp_path: Path) -> None:
    text = WORKLOAD.replace("mix: {mine: 3, late: 1}", '  of: {find: tags, body: {query: {term: {tags: "{{tags}}"}}}}')
    workload = made(tmp_path, text)
    several = 0
    for n in range(300):
        found = workload.content(write_id(n))
        tags = [f'tags="{each}"' for each in dict.fromkeys(found["tags"])]  # one that is there twice finds it once
        several += len(tags) < len(found["tags"])
        assert sorted(workload.found_by(write_id(n))) == sorted([f'customer="{found["customer"]}"', *tags])
    assert several


def test_null_finds_nothing(tmp_path: Path) -> None:
    query = 'queries: {q: {find: k, body: {query: {term: {k: "{{k}}"}}}}}\n'
    workload = of_fields(tmp_path, "  k: {type: keyword, pool: 5, nulls: 40%}\n", query)
    none = [n for n in range(200) if workload.content(write_id(n))["k"] is None]
    assert 50 < len(none) < 110 and all(workload.found_by(write_id(n)) == [] for n in none)
    asked = {workload.requests("i", 1).of("search", k).asks for k in range(200)}
    assert asked == {f'k="{each}"' for each in set(values(workload, "k", 200)) - {None}}


def test_a_query_that_counts_nothing_is_judged_as_one_of_which_nothing_is_known(tmp_path: Path) -> None:
    text = WORKLOAD.replace("late: {body: {", "late: {body: {track_total_hits: false, ")
    requests = made(tmp_path, text).requests("i", 1)
    assert {(each.asks is None, each.answer) for each in (requests.of("search", k) for k in range(99))} == {
        (True, "query"),
        (False, None),
    }


# -------------------------------------------------------------------------------------------- its answers


def answered(workload: Dataset, ids: list[str], total: int, **more: Any) -> str:
    hits = [{"_index": "chaos", "_id": id, "_score": 1.0, "_source": workload.content(id)} for id in ids]
    shards = {"total": 3, "successful": 3, "skipped": 0, "failed": 0}
    return json.dumps(
        {
            "took": 1,
            "timed_out": False,
            "_shards": shards,
            "hits": {"total": {"value": total, "relation": "eq"}, "max_score": 1.0, "hits": hits},
            **more,
        }
    )


@pytest.fixture
def judged(tmp_path: Path) -> tuple[Dataset, Any]:
    workload = made(tmp_path)
    known = Known(workload.found_by, 200, visible_after_s=1)
    judge = Judge(workload, known, "chaos", shards=3, copies=3)
    requests = workload.requests("chaos", 200)
    k = next(k for k in range(99) if requests.of("search", k).asks is not None)
    request = requests.of("search", k)

    def ask(answer: str) -> Any:
        return judge.of(judge.sent("search", k, request, request.path, 10**12), 200, answer, 10**12)

    return workload, (ask, str(request.asks))


def test_an_answer_is_held_against_the_documents(judged: tuple[Dataset, Any]) -> None:
    workload, (ask, asks) = judged
    right = [preload_id(n) for n in range(200) if asks in workload.found_by(preload_id(n))]
    other = next(preload_id(n) for n in range(200) if asks not in workload.found_by(preload_id(n)))
    assert 0 < len(right) < 10
    assert ask(answered(workload, right, len(right))).outcome is Outcome.OK
    assert ask(answered(workload, right, len(right), aggregations={"per": {"buckets": []}})).outcome is Outcome.OK
    short = ask(answered(workload, right[1:], len(right) - 1))
    assert (short.outcome, short.stale) == (Outcome.PARTIAL, True)
    assert "does not match" in ask(answered(workload, [*right[1:], other], len(right))).says
    assert "were ever sent" in ask(answered(workload, [*right, other], len(right) + 1)).says
    changed = (
        answered(workload, right, len(right))
        .replace('"status": 200', '"status": 201')
        .replace('"status": 404', '"status": 201')
    )
    assert "other content" in ask(changed).says


# ----------------------------------------------------------------------------------------- refused, sized


def test_a_definition_whose_documents_are_not_apart_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    workload = made(tmp_path)
    monkeypatch.setattr(type(workload), "numbers", lambda self, id, value=0: {"seq": 1, "check": 1})
    with pytest.raises(InvalidInput, match="the workload 'orders'"):
        workload.refuse_unfit()


def test_every_shipped_file_bears_its_name() -> None:
    assert {name: workloads.named(name).name for name in workloads.FILES} == {name: name for name in workloads.FILES}


def test_the_fields_of_many_documents_are_those_of_each(tmp_path: Path) -> None:
    workload = made(tmp_path)
    numbers = np.array([0, 3, 10**9], np.int64)
    found = workload.columns("w", numbers, workload.fields)
    for place, number in enumerate(numbers.tolist()):
        assert {name: int(column[place]) for name, column in found.items()} == workload.numbers(write_id(number))
    assert all(column.dtype == np.int64 for column in found.values())


def test_preloading_writes_the_very_bodies(tmp_path: Path) -> None:
    workload = made(tmp_path)
    actions = list(workload._actions("chaos-writes", 2, 1))
    assert [each["_source"] for each in actions] == [workload.body(id) for id in ("p-0", "p-1", "c-0")]
    assert {each["_index"] for each in actions} == {"chaos-writes"}


def test_searches_are_picked_by_name_and_are_those_of_the_whole_mix(tmp_path: Path) -> None:
    workload = made(tmp_path)
    mine = workload.some(["mine"], "chaos", 10, 1)
    whole = workload.requests("chaos", 10)
    picked = [mine.of("search", k) for k in range(200)]
    assert all(each.asks is not None for each in picked)
    assert all(mine.of(kind, 7) == whole.of(kind, 7) for kind in ("index", "get"))
    shared = [(a, b) for k, a in enumerate(picked) if (b := whole.of("search", k)).asks is not None]
    assert len(shared) > 100 and all(a == b for a, b in shared)  # the same arrival asks for the same
