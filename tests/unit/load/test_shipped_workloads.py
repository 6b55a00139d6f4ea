"""The workloads that come with this package are as their sources say."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from fakes import ROOT

from chaos.base.ids import write_id
from chaos.load import workloads
from chaos.load.dataset import Dataset
from chaos.registry import load_experiment


def of(name: str) -> Dataset:
    found = workloads.named(name)
    assert isinstance(found, Dataset)
    return found


@pytest.mark.parametrize("name", workloads.FILES)
def test_each_has_sources_an_experiment_and_a_reason_for_each_query(name: str) -> None:
    definition = of(name).definition
    assert definition.sources and definition.description
    assert all(query.description for query in definition.queries.values())
    experiment = load_experiment(ROOT / "experiments" / f"workload-{name}.yaml")
    assert experiment.load.workload == name and "workload" in experiment.tags


def test_logs_are_rows_of_1_6_kib_in_the_order_of_their_time() -> None:
    workload = of("logs")
    assert 1.5 * 1024 < workload.size < 1.7 * 1024  # or-4: 1.6 KiB
    assert workload.settings == {"refresh_interval": "20s"}
    times = [workload.content(write_id(n))["@timestamp"] for n in range(200)]
    assert times == sorted(times) and len(set(times)) == 200
    flat = {name for name, each in workload.mapping["properties"].items() if each["type"] == "flat_object"}
    assert flat == {"attributes", "resource", "scope"}
    levels = Counter(workload.content(write_id(n))["severityText"] for n in range(2000))
    assert 0.65 < levels["INFO"] / 2000 < 0.75 and levels["ERROR"] + levels["FATAL"] < 100


def test_flat20_has_the_fields_the_pools_and_the_mix_of_its_source() -> None:
    workload = of("flat20")
    fields = Counter(each.type for each in workload.definition.fields.values())
    assert fields == {"date": 1, "keyword": 5, "text": 11, "float": 1, "long": 2}  # gr-3: 1, 16, 1, 2
    assert {each.pool for each in workload.definition.fields.values() if each.type != "date"} == {2000}
    assert 1.8 * 1024 < workload.size < 2.2 * 1024  # gr-4: 4 MB in 2,048
    mix = workload.definition.mix
    assert (mix["low"], mix["medium-keyword"] + mix["medium-words"], mix["high"]) == (20, 50, 30)  # gr-5
    high = json.dumps(workload.definition.queries["high"].body)
    assert all(f"{{{{k{n}}}}}" in high for n in range(1, 6)) and "3h" in high and "1m" in high
    load = load_experiment(ROOT / "experiments" / "workload-flat20.yaml").load
    assert {each.name: float(each.rate) for each in load.operations} == {"write": 18, "read": 2}  # gr-6: 90/10


def test_search_has_cheap_filtered_and_aggregating_searches() -> None:
    definition = of("search").definition
    kinds = Counter(str(each.description).partition(";")[0] for each in definition.queries.values())
    assert kinds == {"cheap": 2, "filtered": 2, "aggregating": 1}
    aggregating = [name for name, each in definition.queries.items() if "aggs" in each.body]
    assert aggregating == ["facets"] and sum(definition.mix.values()) == 100


@pytest.mark.parametrize("name", workloads.FILES)
def test_a_document_is_made_in_a_time_that_a_driver_has(name: str) -> None:
    """An eighth of a core at 5,000 documents a second would be 25 µs; this machine may be busy, so six times that."""
    import time

    workload = of(name)
    workload.body("w-0")
    began = time.process_time()
    for n in range(500):
        workload.body(write_id(n))
    assert (time.process_time() - began) / 500 < 150e-6


def test_the_file_of_each_is_where_packages_are_built_from() -> None:
    assert all(path.parent == Path(workloads.__file__).parent for path in workloads.FILES.values())
