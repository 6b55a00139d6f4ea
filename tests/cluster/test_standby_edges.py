"""The edges of zonal decommission: called off, asked for twice, without a manager that could stay; one vote alone.

What OpenSearch 3.8.0 does there, flaws too: a test that no longer holds means that docs/standby.md is to be changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import urllib3
from clusterkit import DATA
from standbykit import DOCUMENTS, INDEX, held, led, members, placed, set_cluster, stocked, votes

from chaos.definitions import load_topology
from chaos.load.workloads.documents import WORKLOAD
from chaos.opensearch import administration
from chaos.opensearch.administration import decommission_status, excluded
from chaos.opensearch.requests import DECOMMISSION
from chaos.opensearch.views import administer, await_elected, await_green, elected
from chaos.programs.audit import audit, cluster
from chaos.programs.failover.cluster import CANARY, canary_settings, pairs
from chaos.run.options import new_lab_id
from chaos.targets.labs import provisioning
from chaos.targets.labs.local import LocalLab
from chaos.targets.labs.processes import wait_until

pytestmark = pytest.mark.full
DRAIN_SECONDS = 20
BALANCE = "cluster.routing.allocation.awareness.balance"
N = {"n": {"type": "integer"}}


@pytest.fixture
def lab(playground: LocalLab) -> Iterator[LocalLab]:
    with stocked(playground):
        yield playground


def test_a_drain_that_is_called_off_leaves_all_as_it_was_but_for_its_timer(lab: LocalLab) -> None:
    """Nobody cancels the timer. When it is over, whatever decommission there is then has FAILED, and its zone joins."""
    before, leader = placed(lab), elected(lab)
    assert leader is not None
    status, answer = administer(lab, "PUT", f"{DECOMMISSION}/zone/c?delay_timeout={DRAIN_SECONDS}s")
    assert status == 200, answer
    assert wait_until(lambda: decommission_status(lab, leader) == {"c": "DRAINING"}, 10)
    assert excluded(lab) == ["c-cm"] and votes(lab) == 1 and members(lab) == 6

    assert administer(lab, "DELETE", DECOMMISSION)[0] == 200
    assert decommission_status(lab) == {} and excluded(lab) == []
    assert wait_until(lambda: votes(lab) == 3, 30) and members(lab) == 6
    assert placed(lab) == before

    administration.decommission(lab, "c", no_delay=True)
    assert members(lab) == 4
    assert wait_until(lambda: decommission_status(lab) == {"c": "FAILED"}, 2 * DRAIN_SECONDS, every=0.2)
    assert await_green(lab, 120)[0] and members(lab) == 6  # nobody has recommissioned it


def test_the_timer_of_a_drain_that_was_called_off_removes_its_zone_while_another_drains(lab: LocalLab) -> None:
    """And that other zone, of which nobody went, is SUCCESSFUL: until its own timer is over, and it has FAILED."""
    leader = elected(lab)
    assert leader is not None
    led_from, said = lab.node(leader).zone, len(lab.log(leader).read_bytes())
    first, second = (zone for zone in lab.topology.zones if zone != led_from)  # the elected one has the timers
    administration.set_weights(lab, {led_from: 1, first: 0, second: 1})
    assert administer(lab, "PUT", f"{DECOMMISSION}/zone/{first}?delay_timeout=10s")[0] == 200
    assert wait_until(lambda: decommission_status(lab, leader) == {first: "DRAINING"}, 5)
    assert administer(lab, "DELETE", DECOMMISSION)[0] == 200
    administration.set_weights(lab, {led_from: 1, first: 1, second: 0})
    assert administer(lab, "PUT", f"{DECOMMISSION}/zone/{second}?delay_timeout=30s")[0] == 200
    assert wait_until(lambda: decommission_status(lab, leader) == {second: "DRAINING"}, 5)
    assert wait_until(lambda: decommission_status(lab, leader) == {second: "SUCCESSFUL"}, 15)
    assert await_green(lab, 60)[0] and members(lab) == 6  # of the second zone nobody went, and the first is back
    log = lab.log(leader).read_bytes()[said:].decode(errors="replace")
    gone = [line for line in log.splitlines() if "removed {" in line]
    assert gone and all(f"{{{first}-data}}" in line and f"{{{second}-data}}" not in line for line in gone), gone
    assert wait_until(lambda: decommission_status(lab, leader) == {second: "FAILED"}, 40, every=0.2)


def test_of_requests_at_once_one_zone_goes(lab: LocalLab) -> None:
    """Two zones never: only one can have weight 0. Of two for the same zone one is refused."""
    asked = [("c", "a-data"), ("b", "b-data"), ("c", "c-data"), ("b", "a-data"), ("c", "b-data")]

    def ask(request: tuple[str, str]) -> tuple[str, int, str]:
        zone, node = request
        path = f"{DECOMMISSION}/zone/{zone}?no_delay=true"
        status, answer = lab.client(node, timeout=60.0).request("PUT", path)
        return zone, status, str(answer)

    with ThreadPoolExecutor(len(asked)) as pool:
        answers = list(pool.map(ask, asked))
    assert [zone for zone, status, _ in answers if status == 200] == ["c"], answers
    for zone, status, says in answers:
        assert status == 200 or (status == 400 and "decommissioning_failed_exception" in says), (zone, says)
    leader = await_elected(lab)
    assert wait_until(lambda: decommission_status(lab, leader) == {"c": "SUCCESSFUL"}, 60)
    assert members(lab) == 4 and excluded(lab) == []


def test_without_the_only_manager_that_votes_nobody_is_elected_and_documents_go_on(lab: LocalLab) -> None:
    """While a zone is decommissioned one cluster manager alone has a vote, though two of three live.

    A shard that was not written since the zone went is not written now: only a cluster manager can take the copy that
    went with the zone out of those that must have every write.
    """
    quiet = f"{INDEX}-quiet"
    settings = {"number_of_shards": 1, "number_of_replicas": 2}
    assert administer(lab, "PUT", f"/{quiet}", {"settings": settings, "mappings": {"properties": N}})[0] == 200
    assert await_green(lab, 60)[0]
    administration.decommission(lab, "c", no_delay=True)
    for number in range(DOCUMENTS):  # into every shard
        assert administer(lab, "PUT", f"/{INDEX}/_doc/{number}", {"n": number})[0] == 200
    leader = elected(lab)
    assert leader is not None and lab.node(leader).zone != "c" and votes(lab) == 1
    lab.kill_node(leader)
    assert wait_until(lambda: not led(lab, "a-data") and not led(lab, "b-data"), 30)
    assert not wait_until(lambda: elected(lab) is not None, 15, every=0.5)  # the other one lives and has no vote
    for number, node in enumerate(("a-data", "b-data")):
        client = lab.client(node, timeout=20.0)
        status, answer = client.request("PUT", f"/{INDEX}/_doc/during-{number}", body={"n": number})
        assert status == 201 and answer["_shards"]["failed"] == 0, answer
        status, answer = client.request("POST", f"/{INDEX}/_search", body={"size": 0})
        assert status == 200 and answer["_shards"]["failed"] == 0, answer
        assert answer["hits"]["total"]["value"] >= DOCUMENTS
    with pytest.raises(urllib3.exceptions.ReadTimeoutError):
        lab.client("a-data").request("PUT", f"/{quiet}/_doc/1?timeout=1s", body={"n": 1}, timeout=5.0)
    lab.start_node(leader)
    assert await_elected(lab, 60) == leader
    administration.recommission(lab, "c")
    assert await_green(lab, 120)[0] and members(lab) == 6
    assert wait_until(lambda: votes(lab) == 3, 30)
    assert held(lab) == DOCUMENTS + 2
    assert administer(lab, "PUT", f"/{quiet}/_doc/2", {"n": 2})[0] == 201


def test_awareness_balance_refuses_copies_that_zones_cannot_share_evenly(lab: LocalLab) -> None:
    """The canaries of the failover controller, which have two copies each, are none of its business: their names."""

    def create(replicas: int) -> tuple[int, str]:
        settings = {"number_of_shards": 1, "number_of_replicas": replicas}
        status, answer = administer(lab, "PUT", f"/{INDEX}-more", {"settings": settings})
        if status == 200:
            assert administer(lab, "DELETE", f"/{INDEX}-more")[0] == 200
        return status, str(answer)

    def audited() -> str:
        return next(row.value for row in audit(cluster.of_lab(lab)) if row.rule.id == "copies")

    assert create(1)[0] == 200 and "refused" not in audited()
    set_cluster(lab, {BALANCE: True})
    status, says = create(1)
    assert status == 400 and "multiple of total awareness attributes" in says, says
    assert create(2)[0] == create(5)[0] == 200
    assert administer(lab, "PUT", f"/{INDEX}/_settings", {"number_of_replicas": 1})[0] == 400
    for index, pair in pairs(lab.topology.zones).items():
        assert administer(lab, "PUT", f"/{index}", canary_settings(index, "zone", pair))[0] == 200
    assert await_green(lab, 60)[0]
    for index in pairs(lab.topology.zones):
        assert administer(lab, "DELETE", f"/{index}")[0] == 200
    status, answer = administer(lab, "PUT", f"/{CANARY.strip('.')}-x", canary_settings("x", "zone", ("a", "b")))
    assert status == 400 and "multiple of total awareness attributes" in str(answer)
    assert "any other number is refused" in audited()
    set_cluster(lab, {BALANCE: None})
    assert create(1)[0] == 200


@pytest.fixture
def without_others() -> Iterator[LocalLab]:
    """Every cluster manager is in zone a."""
    topology = load_topology(DATA / "one-zone-managers.yaml")
    made = LocalLab.create(topology, provisioning.parts(topology), id=new_lab_id())
    try:
        made.up()
        administration.create_index(made, INDEX, topology.settings.index, WORKLOAD.mapping)
        yield made
    finally:
        assert made.down() == []


def test_the_zone_of_all_managers_does_not_go_and_is_as_before_after_two_minutes(without_others: LocalLab) -> None:
    lab = without_others
    assert await_green(lab, 60)[0]
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(administer, lab, "PUT", f"{DECOMMISSION}/zone/a?no_delay=true", timeout=150.0)
        assert wait_until(lambda: decommission_status(lab, "a-cm") == {"a": "INIT"}, 10)
        assert excluded(lab) == ["a-cm"] and members(lab) == 3
        status, answer = administer(lab, "PUT", f"{DECOMMISSION}/zone/a?no_delay=true", timeout=150.0)
        assert status == 400 and "already in status [INIT]" in str(answer)
        assert administer(lab, "PUT", f"/{INDEX}/_doc/1", {"seq": 1})[0] == 201
        status, answer = asked.result()
    assert status == 504 and "while removing to-be-decommissioned cluster manager eligible nodes" in str(answer), answer
    assert wait_until(lambda: decommission_status(lab) == {"a": "FAILED"} and excluded(lab) == [], 30)
    assert members(lab) == 3 and await_green(lab, 10)[0] and held(lab) == 1
    administration.recommission(lab, "a")
    assert decommission_status(lab) == {}
