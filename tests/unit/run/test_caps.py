"""What a run may send at most to a cluster that exists, and that the row on others is told."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from unit.run.test_reaching import there

from chaos.commands.planning_on import planned, show
from chaos.definitions.existing import load_existing
from chaos.registry import PROVIDERS, load_experiment
from chaos.run import on_target, reaching
from chaos.targets.existing import draft

URL = "http://127.0.0.1:9200"
LOAD = "  read: {rate: 10/s, good: ok within 1s}\n  write: {rate: 10/s, good: ok within 1s}\n"
FOREIGN = "foreign: {search: {slower: 3x, fewer: 50%}, for: 20s}\n"


def made(
    folder: Path,
    load: str = "",
    caps: str = "100/s",
    more: str = "",
    urls: int | None = None,
    streams: str = LOAD,
    phases: str = "  calm: {for: 5s}\n",
    **now: Any,
) -> Any:
    """``urls``: how many nodes have one; None: all."""
    text = draft.draft(there(), [URL], {}, "staging").replace("rung: observe\n", "rung: zone\nuntil: 2027-01-31\n")
    for node in (there().nodes or ())[:urls]:
        text = text.replace(f"  {node.name}: {{", f'  {node.name}: {{url: "{URL}", ')
    text += f"notes: .opensearch-chaos\ncaps: {{requests: {caps}, documents: 5000, copies: 9}}\n{more}"
    (folder / "staging.yaml").write_text(text)
    (folder / "asked.yaml").write_text(
        "apiVersion: opensearch-chaos/v1\nname: asked\ntopology: 3az-standby\n"
        f"load:\n{streams}{load}phases:\n{phases}expect:\n  - {{acknowledged.lost: 0}}\n"
    )
    target = load_existing(folder / "staging.yaml")
    offers = reaching.offers_on(PROVIDERS, target.written)
    return planned(
        load_experiment(folder / "asked.yaml"), target, replace(there(), **now), 1, offers, date(2026, 11, 25)
    )


@pytest.mark.parametrize(
    ("load", "rate"),
    [
        ("", 20),
        ("  client: {kind: opensearch-py}\n", 80),
        ("  cas: {rate: 10/s, keys: 5}\n", 40),
        ("  visibility: {rate: 2/s}\n", 22 + 5 * 2 * 3),
        ("  cas: {rate: 10/s}\n  visibility: {rate: 2/s}\n  client: {kind: opensearch-py}\n", 4 * 42 + 30),
    ],
)
def test_every_request_that_the_load_may_make_counts(tmp_path: Path, load: str, rate: float) -> None:
    """Both requests of a compare-and-set, each attempt of a client that tries again, each look for a document."""
    assert made(tmp_path, load, f"{rate}/s").refused == []
    ((_, row),) = made(tmp_path, load, f"{rate - 1}/s").refused
    assert row.says == f"requests per second: {rate:g}, and the file allows {rate - 1:g}"


READ, BULK = LOAD.splitlines(keepends=True)[0], "{rate: 1/s, good: ok within 1s, operation: bulk, items: 10, client: "


def test_what_a_helper_and_its_client_send_again_counts(tmp_path: Path) -> None:
    """Behind a load balancer opensearch-py tries its one address four times; other requests are sent once."""
    streams = f"{READ}  write: {BULK}{{kind: helpers.bulk, max_retries: 2}}}}\n"
    rate = 10 + 1 * 10 * 3 * 4
    assert made(tmp_path, "", f"{rate}/s", streams=streams).refused == []
    ((_, row),) = made(tmp_path, "", f"{rate - 1}/s", streams=streams).refused
    assert row.says == f"requests per second: {rate:g}, and the file allows {rate - 1:g}"


def test_the_driver_in_asyncio_is_refused_because_it_does_not_ask_whose_cluster_answers(tmp_path: Path) -> None:
    streams = f"{READ}  write: {BULK}{{kind: helpers.async_bulk}}}}\n  client: {{kind: opensearch-py}}\n"
    ((_, row),) = made(tmp_path, "", "900/s", streams=streams).refused
    assert row.says == "load.write is sent by a driver whose connections do not ask whose cluster answers"
    assert "helpers.bulk" in row.remedy


def test_copies_that_a_fault_sets_count(tmp_path: Path) -> None:
    """The file allows nine of them."""
    change = "  more: {inject: {settings.change: {scope: index, settings: {number_of_replicas: %d}}}, for: 5s}\n"
    phases = change + "  over: {undo: all, for: 5s}\n"
    assert made(tmp_path, phases=phases % 2).refused == []
    ((_, row),) = made(tmp_path, phases=phases % 20).refused
    assert row.what == "caps" and row.says == "copies of shards: 63, and the file allows 9"


def test_what_the_cap_leaves_is_for_looking(tmp_path: Path) -> None:
    plan = made(tmp_path, "  visibility: {rate: 2/s}\n", "100/s")
    assert on_target.most_looks(plan.experiment, plan.target) == 78.0


def test_the_plan_says_whether_others_end_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show(made(tmp_path))
    said = " ".join(capsys.readouterr().out.split())
    assert "foreign: nothing aborts when your own traffic suffers: it is only shown: agree on foreign: {search:" in said
    show(made(tmp_path, more=FOREIGN))
    said = " ".join(capsys.readouterr().out.split())
    assert "foreign: runs end when your own traffic suffers: search 3x slower or 50% fewer, for 20s" in said


def refusals(plan: Any) -> list[str]:
    return [f"{row.what}: {row.says}" for _, row in plan.refused if row.what in ("addresses", "endpoints", "read-back")]


def test_of_no_node_or_of_each_an_address_is_known(tmp_path: Path) -> None:
    assert refusals(made(tmp_path)) == []
    assert refusals(made(tmp_path, urls=0, weights={})) == []
    (says,) = refusals(made(tmp_path, urls=1, weights={}))
    assert "have no url" in says


def test_through_the_endpoints_no_copy_can_be_read_while_zones_have_weights(tmp_path: Path) -> None:
    weights = {"eu-west-1a": 1, "eu-west-1b": 1, "eu-west-1c": 0}
    (says,) = refusals(made(tmp_path, urls=0, weights=weights))
    assert says.startswith("read-back: ")
    lax = {**(there().settings or {}), on_target.STRICT: "false"}
    assert refusals(made(tmp_path, urls=0, weights=weights, settings=lax)) == []
    assert refusals(made(tmp_path, weights=weights)) == []


def test_through_the_endpoints_what_goes_past_them_is_refused(tmp_path: Path) -> None:
    looked = refusals(made(tmp_path, "  visibility: {rate: 1/s, within: 5s}\n", urls=0, weights={}))
    assert [each.partition(":")[0] for each in looked] == ["endpoints"] and "visibility" in looked[0]
    pinned = refusals(made(tmp_path, "  client: {kind: pinned, node: a-data}\n", urls=0, weights={}))
    assert [each.partition(":")[0] for each in pinned] == ["endpoints"] and "pinned" in pinned[0]


def test_through_the_endpoints_clients_of_all_zones_take_the_first(tmp_path: Path) -> None:
    file = made(tmp_path, urls=0).target.written
    assert file.by_doors and {zone: str(at) for zone, at in file.ways_in.items()} == dict.fromkeys("abc", URL)
    assert made(tmp_path).target.written.ways_in == {}


def test_every_stream_counts_and_monitoring_too(tmp_path: Path) -> None:
    streams = "    dash: {operation: search, rate: 5/s, good: ok within 2s}\n"
    streams += "    ship: {operation: bulk, items: 10, rate: 2/s, good: ok within 2s}\n"
    streams += "    watch: {operation: admin, rate: 3/s, good: ok within 2s}\n"
    assert made(tmp_path, f"  streams:\n{streams}", "48/s").refused == []
    ((_, row),) = made(tmp_path, f"  streams:\n{streams}", "47/s").refused
    assert row.says == "requests per second: 48, and the file allows 47"


def test_on_a_cluster_of_others_a_load_has_one_index(tmp_path: Path) -> None:
    more = "  indices: {events: {workload: logs}}\n"
    more += "  streams: {ship: {operation: bulk, items: 10, rate: 2/s, good: ok within 2s, index: events}}\n"
    ((_, row),) = made(tmp_path, more).refused
    assert row.says.startswith("load.indices.events: on a cluster that is not ours a load has one index")
