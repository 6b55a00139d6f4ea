"""What the sources claim of cluster managers and admin APIs, asked of one real cluster of six nodes.

As in ``test_claims_ingestion.py``, a test is named after the claim whose answer it shows, and asserts what is seen.
What calls cost, and what larger clusters would need, is measured elsewhere (docs/cluster-managers.md).
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.parse import quote

import pytest
import urllib3
from claimskit import GREEN_SECONDS, INDEX, ask, cluster_setting, create, drop, lab_of, paused, put
from clusterkit import lifecycle

from chaos.base.waiting import wait_until
from chaos.opensearch.views import administer, await_green, elected
from chaos.registry import FAULTS, ready
from chaos.targets.labs.local import LocalLab

pytestmark = pytest.mark.full
ASKED = "a-data"
READ_SO_OFTEN = 200
GATHERERS = 32
"""Clients that ask one node for statistics of all copies at the same time."""
TERM = "internal:monitor/term"
STATE = "cluster:monitor/state"
TRACER = "logger.org.opensearch.transport.TransportService.tracer"
READS = (
    "_cat/aliases",
    "_cat/allocation",
    "_cat/cluster_manager",
    "_cat/count",
    "_cat/fielddata",
    "_cat/health",
    "_cat/indices",
    "_cat/master",
    "_cat/nodeattrs",
    "_cat/nodes",
    "_cat/pending_tasks",
    "_cat/plugins",
    "_cat/recovery",
    "_cat/repositories",
    "_cat/segment_replication",
    "_cat/segments",
    "_cat/shards",
    "_cat/tasks",
    "_cat/templates",
    "_cat/thread_pool",
    "_cluster/decommission/awareness/zone/_status",
    "_cluster/health",
    "_cluster/pending_tasks",
    "_cluster/routing/awareness/zone/weights",
    "_cluster/settings",
    "_cluster/state",
    "_cluster/stats",
)
"""Reads of _cat and _cluster that a cluster answers without a name of something that it must have; _cat/master is the
old name of _cat/cluster_manager."""


@pytest.fixture(scope="module")
def lab() -> Iterator[LocalLab]:
    """Three zones, a cluster manager and a data node each."""
    with lab_of("3az") as made:
        yield made


@pytest.fixture(autouse=True)
def _no_index_is_left(lab: LocalLab) -> Iterator[None]:
    yield
    drop(lab)


def body_of(lab: LocalLab, path: str) -> bytes:
    client = lab.client(ASKED, timeout=30)
    try:
        status, body = client.fetch("GET", path)
    finally:
        client.close()
    assert status == 200, (path, body[:300])
    return body


def seconds_of_shards(lab: LocalLab, node: str, most: float) -> tuple[int, float]:
    """What a call of _cat/shards that is to be cancelled after two seconds was answered with, and after how many
    seconds; 0 where its client gave up after ``most``."""
    client = lab.client(node, timeout=most)
    began = time.monotonic()
    try:
        status, _ = client.fetch("GET", "/_cat/shards?cancel_after_time_interval=2s")
    except urllib3.exceptions.HTTPError:
        status = 0
    finally:
        client.close()
    return status, time.monotonic() - began


def test_ad_11_the_users_timeout_ends_a_call_that_waits_for_the_manager_and_none_that_waits_for_a_data_node(
    lab: LocalLab, tmp_path: Path
) -> None:
    create(lab, {"number_of_shards": 3, "number_of_replicas": 2})
    leader = str(elected(lab))
    with paused(lab, tmp_path, leader):
        status, waited = seconds_of_shards(lab, ASKED, most=20)
    assert status >= 400 and 1.5 <= waited < 6, (status, waited)
    with paused(lab, tmp_path / "data", "b-data"):
        status, longer = seconds_of_shards(lab, ASKED, most=10)
    print(f"a paused manager: {waited:.1f} s; a paused data node: {status}, {longer:.1f} s")
    assert status == 0 and longer >= 9.5, (status, longer)


def leaves(answer: Any) -> int:
    """How many values a JSON object has at its ends."""
    return sum(map(leaves, answer.values())) if isinstance(answer, dict) else 1


def test_ad_3_the_state_of_six_nodes_one_index_and_three_shards_has_half_the_claimed_size_or_less(
    lab: LocalLab,
) -> None:
    """15 KB are claimed. Here there are no plugins, templates or policies, which a managed cluster has."""
    create(lab, {"number_of_shards": 3, "number_of_replicas": 1})
    compact, pretty = (len(body_of(lab, f"/_cluster/state{how}")) for how in ("", "?pretty"))
    print(f"the state has {compact} bytes as JSON, {pretty} with spaces")
    assert len(lab.topology.nodes) == 6 and 2_000 < compact < 7_500


def test_ad_6_which_reads_ask_the_manager_for_its_term(lab: LocalLab) -> None:
    """By the requests that the asked node says it has sent, which its own log has."""
    create(lab, {"number_of_shards": 1})
    assert await_green(lab, GREEN_SECONDS)[0] and elected(lab) != ASKED
    put(lab, {"transport.tracer.include": f"{TERM}*", TRACER: "TRACE"})
    checked = set()
    try:
        for path in READS:
            since = lab.log_end(ASKED)
            body_of(lab, f"/{path}")
            if any(f"[{TERM}]" in line and "sent to" in line for line in lab.log_lines(ASKED, since)):
                checked.add(path)
    finally:
        put(lab, {"transport.tracer.include": None, TRACER: None})
    print(f"{len(checked)} of {len(READS)}, not {', '.join(sorted(set(READS) - checked))}")
    assert len(checked) == 17 and {"_cat/indices", "_cat/shards", "_cluster/state"} <= checked
    assert not checked & {"_cat/health", "_cluster/health", "_cat/pending_tasks", "_cluster/pending_tasks"}


def test_ad_8_a_copy_has_some_150_statistics_in_20_groups_and_4_kb(lab: LocalLab) -> None:
    create(lab, {"number_of_shards": 3, "number_of_replicas": 2})
    assert await_green(lab, GREEN_SECONDS)[0]
    answer = json.loads(body_of(lab, f"/{INDEX}/_stats?level=shards"))
    copies = [copy for copies in answer["indices"][INDEX]["shards"].values() for copy in copies]
    groups, values = {len(copy) for copy in copies}, {leaves(copy) for copy in copies}
    sizes = [len(json.dumps(copy, separators=(",", ":"))) for copy in copies]
    print(f"{len(copies)} copies of {groups} groups, {values} values, {min(sizes)} to {max(sizes)} bytes")
    assert len(copies) == 9 and groups <= set(range(18, 25)) and values <= set(range(130, 190))
    assert all(3_500 < size < 5_500 for size in sizes)


def test_ad_12_pages_list_each_index_once_while_indices_come_and_go(lab: LocalLab) -> None:
    stay = [f"{INDEX}-stays-{n}" for n in range(12)]
    for name in stay:
        create(lab, {"number_of_shards": 1, "number_of_replicas": 0}, name=name)
    seen: list[str] = []
    token: str | None = None
    for page in range(20):
        path = "/_list/indices?format=json&size=5&sort=asc" + (f"&next_token={quote(token, safe='')}" if token else "")
        answer = json.loads(body_of(lab, path))
        assert len(answer["indices"]) <= 5
        seen += [row["index"] for row in answer["indices"]]
        token = answer["next_token"]
        if token is None or token == "null":
            break
        create(lab, {"number_of_shards": 1, "number_of_replicas": 0}, name=f"{INDEX}-comes-{page}")
        if page:
            assert administer(lab, "DELETE", f"/{INDEX}-comes-{page - 1}")[0] == 200
    assert [name for name in seen if name in stay] == stay and page >= 2, seen
    assert ask(lab, ASKED, "GET", "/_list/indices?format=json&size=1000000")[0] == 400  # a page has a most


def version_at(lab: LocalLab, node: str) -> int:
    """Of the state that a node has."""
    return int(ask(lab, node, "GET", "/_cluster/state/version?local=true")[1]["version"])


def test_ad_17_a_stale_copy_costs_one_call_more_which_fetches_the_state(lab: LocalLab, tmp_path: Path) -> None:
    """What the manager publishes comes to the asked node three seconds late, and it waits for one: then it goes by the
    new state itself. Until then it says the old one's term and version, as it has not applied the new one."""
    leader = str(elected(lab))
    put(lab, {"cluster.publish.timeout": "1s", "transport.tracer.include": f"{TERM}*,{STATE}*", TRACER: "TRACE"})
    cycle = lifecycle(lab, tmp_path)
    params = FAULTS["network.latency"].model_validate({"links": f"from node {leader} to node {ASKED}", "delay": "3s"})

    def sent() -> list[str]:
        """The actions that the asked node asks others for, when it is asked for the state."""
        since = lab.log_end(ASKED)
        body_of(lab, "/_cluster/state/version")
        said = "\n".join(line for line in lab.log_lines(ASKED, since) if "sent to" in line)
        return re.findall(rf"\[({TERM}|{STATE})\]", said)

    try:
        assert sent() == [TERM]
        assert cycle.inject(ready("f1", params, lab, seed=1, elected=leader))
        changing = Thread(target=create, args=(lab, {"number_of_shards": 1, "number_of_replicas": 0}))
        changing.start()
        assert wait_until(lambda: version_at(lab, leader) > version_at(lab, ASKED), 20, every=0.05)
        stale = sent()
        changing.join()
        assert cycle.undo("f1")
        assert wait_until(lambda: version_at(lab, leader) == version_at(lab, ASKED), 30, every=0.1)
        assert stale == [TERM, STATE] and sent() == [TERM]
    finally:
        put(lab, {"cluster.publish.timeout": None, "transport.tracer.include": None, TRACER: None})


def collections(lab: LocalLab, node: str) -> int:
    """How many garbage collections a node has made since it started."""
    status, answer = ask(lab, node, "GET", f"/_nodes/{node}/stats/jvm?filter_path=nodes.*.jvm.gc")
    assert status == 200
    (stats,) = answer["nodes"].values()
    return sum(int(each["collection_count"]) for each in stats["jvm"]["gc"]["collectors"].values())


def test_ad_15_reads_of_a_state_with_many_fields_make_the_leader_collect_its_garbage_more_often(lab: LocalLab) -> None:
    """Of a state of more than a hundred times the size. The claim's hundreds of MB do not fit in the heaps of a lab."""
    leader = str(elected(lab))
    create(lab, {"number_of_shards": 1, "number_of_replicas": 0})

    def collected() -> tuple[int, int]:
        """Collections of the leader in so many reads of its state, and how many bytes an answer had at most."""
        before = collections(lab, leader)
        sizes = [len(state_of(lab, leader)) for _ in range(READ_SO_OFTEN)]
        return collections(lab, leader) - before, max(sizes)

    little, small = collected()
    fields = {f"a_field_with_a_name_{number}": {"type": "keyword"} for number in range(900)}
    for number in range(40):
        create(lab, {"number_of_shards": 1, "number_of_replicas": 0}, fields, name=f"{INDEX}-{number}")
    often, large = collected()
    print(f"{small:,} bytes: {little} collections in {READ_SO_OFTEN} reads; {large:,} bytes: {often}")
    assert large > 100 * small and often >= 10 and often > 5 * little


def test_ad_9_a_node_that_gathers_statistics_trips_its_breaker_and_refuses_searches(lab: LocalLab) -> None:
    """Of a limit of 60 % of its heap, where the claim's node has gigabytes. Statistics are asked of it all the time;
    searches of one document are what it refuses."""
    create(lab, {"number_of_shards": 100, "number_of_replicas": 2})
    statistics, searches, others = Counter[int](), Counter[int](), Counter[int]()
    refused: list[Any] = []
    over = Event()

    def gather() -> None:
        while not over.is_set():
            statistics[ask(lab, ASKED, "GET", "/_nodes/stats?level=shards", timeout=60)[0]] += 1

    def search(node: str, counted: Counter[int]) -> None:
        status, answer = ask(lab, node, "GET", f"/{INDEX}/_search?size=1&preference=_shards:0", timeout=60)
        counted[status] += 1
        if status != 200 and counted is searches:
            refused.append(answer)

    with cluster_setting(lab, "indices.breaker.total.limit", "60%"):
        for _ in range(50):
            search(ASKED, others)
        gathering = [Thread(target=gather) for _ in range(GATHERERS)]
        for thread in gathering:
            thread.start()
        try:
            deadline = time.monotonic() + 60
            while len(refused) < 5 and time.monotonic() < deadline:
                search(ASKED, searches)
                search("b-data", others)
        finally:
            over.set()
            for thread in gathering:
                thread.join()
        print(f"statistics {dict(statistics)}, searches there {dict(searches)}, before and at another {dict(others)}")
        assert set(others) == {200} and len(refused) >= 5 and searches[429] >= 5
        assert {error_of(answer) for answer in refused} == {"circuit_breaking_exception"}
        assert wait_until(lambda: ask(lab, ASKED, "GET", f"/{INDEX}/_search?size=1")[0] == 200, 30)


def error_of(answer: Any) -> str:
    """The type of the first cause of an error."""
    return str(answer["error"]["root_cause"][0]["type"])


def state_of(lab: LocalLab, node: str) -> bytes:
    client = lab.client(node, timeout=30)
    try:
        status, body = client.fetch("GET", "/_cluster/state")
    finally:
        client.close()
    assert status == 200
    return body


def test_ad_16_a_node_has_as_many_transport_threads_as_processors(lab: LocalLab) -> None:
    status, answer = ask(lab, ASKED, "GET", f"/_nodes/{ASKED}/os")
    assert status == 200
    (node,) = answer["nodes"].values()
    said = body_of(lab, f"/_nodes/{ASKED}/hot_threads?threads=1000&ignore_idle_threads=false&interval=100ms").decode()
    workers = set(re.findall(r"\[transport_worker\]\[T#(\d+)\]", said))
    print(f"{len(workers)} workers, {node['os']['allocated_processors']} processors")
    assert len(workers) == node["os"]["allocated_processors"]
