"""What Multi-AZ with standby is made of, asked of a real cluster: weights, zonal decommission, and their refusals.

Those of OpenSearch's own tests of weighted routing and awareness decommission that concern the failure of a zone, with
real processes and sockets; docs/standby.md says which.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from standbykit import DOCUMENTS, WEIGHED_IN, held, members, put_weights, search, stocked, votes

from chaos.opensearch import administration
from chaos.opensearch.requests import DECOMMISSION
from chaos.opensearch.views import administer, await_green, elected
from chaos.targets.labs.local import LocalLab
from chaos.targets.labs.processes import wait_until

pytestmark = pytest.mark.full


@pytest.fixture
def lab(playground: LocalLab) -> Iterator[LocalLab]:
    with stocked(playground):
        yield playground


def test_the_standby_zone_serves_no_search_until_weights_change_and_versions_are_kept(lab: LocalLab) -> None:
    _, version = administration.weights(lab)
    served = search(lab)
    assert served["c"] == 0 and served["a"] > 0 and served["b"] > 0
    assert put_weights(lab, version, a=1, b=0, c=0) == 400  # only one of three may be 0
    assert put_weights(lab, version - 1, a=1, b=0, c=1) == 409
    assert put_weights(lab, version, a=1, b=0) == 409  # every zone must be named
    assert administration.weights(lab)[1] == version
    assert put_weights(lab, version, a=1, b=0, c=1) == 200
    assert administration.weights(lab) == ({"a": 1, "b": 0, "c": 1}, version + 1)
    served = search(lab)
    assert served["b"] == 0 and served["a"] > 0 and served["c"] > 0
    for node in ("a-data", "b-data", "c-data"):
        assert lab.client(node).request("GET", WEIGHED_IN)[0] == (421 if node == "b-data" else 200)


def test_what_a_decommission_refuses(lab: LocalLab) -> None:
    refused = administer(lab, "PUT", f"{DECOMMISSION}/zone/a?no_delay=true")
    assert refused[0] == 400 and "weight" in str(refused[1])
    assert administer(lab, "PUT", f"{DECOMMISSION}/rack/a?no_delay=true")[0] == 400
    administration.decommission(lab, "c", no_delay=True)
    for zone in ("b", "c"):  # a second one, and the same again
        assert administer(lab, "PUT", f"{DECOMMISSION}/zone/{zone}?no_delay=true")[0] == 400
    _, version = administration.weights(lab)
    assert put_weights(lab, version, a=1, b=0, c=1) == 409  # its weight stays 0


def test_the_zone_of_the_elected_manager_goes_and_comes_back(lab: LocalLab) -> None:
    """The manager abdicates; one vote is left; a restarted node is refused; everything is back afterwards."""
    leader = elected(lab)
    assert leader is not None and votes(lab) == 3
    zone = lab.node(leader).zone
    others = [each for each in lab.topology.zones if each != zone]
    _, version = administration.weights(lab)
    assert put_weights(lab, version, **{zone: 0, others[0]: 1, others[1]: 1}) in (200, 409)
    administration.set_weights(lab, {zone: 0, others[0]: 1, others[1]: 1})
    administration.decommission(lab, zone, no_delay=True)
    assert elected(lab) not in (None, leader) and votes(lab) == 1
    data = f"{zone}-data"
    # 421 (its weight is 0) until it has asked to join again and knows that it is decommissioned
    assert wait_until(lambda: lab.client(data).request("GET", WEIGHED_IN)[0] == 424, 60)
    lab.stop_node(data)
    lab.start_node(data)
    assert wait_until(lambda: "decommissioned" in lab.log(data).read_text(errors="replace")[-20000:], 60)
    assert members(lab) == 4
    assert sum(search(lab, 10).values()) == 30
    administration.recommission(lab, zone)
    assert await_green(lab, 120)[0]
    assert members(lab) == 6
    assert wait_until(lambda: votes(lab) == 3, 30)
    assert held(lab) == DOCUMENTS
