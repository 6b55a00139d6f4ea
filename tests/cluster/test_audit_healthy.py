"""Of every shipped topology that is healthy, as a lab that is up: the audit finds nothing left behind."""

from __future__ import annotations

import json

import pytest
from claimskit import GREEN_SECONDS, INDEX, create, lab_of
from shipped import TOPOLOGIES

from chaos.opensearch.views import await_green
from chaos.programs.audit import Status, audit, cluster
from chaos.programs.audit import rules as checklist

pytestmark = pytest.mark.full
PLANTED = ("planted-", "mixed-versions", "3az-secure-expired")
UNKNOWN = {"certificates", "managers.asked"}
"""The first is told to super admins alone, the second by nodes that have been up for a minute."""


@pytest.mark.parametrize("name", [path.stem for path in TOPOLOGIES if not path.stem.startswith(PLANTED)])
def test_nothing_is_left_behind_on_a_topology_that_is_healthy(name: str) -> None:
    with lab_of(name) as lab:
        create(lab, {"number_of_replicas": lab.topology.replicas, **lab.topology.settings.index})
        assert await_green(lab, GREEN_SECONDS)[0]
        found = [row for row in audit(cluster.of_lab(lab)) if row.rule.look.__module__ != checklist.__name__]
        above = {row.rule.id: (row.status, row.value) for row in found if row.status not in (Status.OK, Status.INFO)}
        above = {id: row for id, row in above.items() if row[0] is not Status.UNKNOWN or id not in UNKNOWN}
        assert above == {}, json.dumps({id: row[1] for id, row in above.items()})
        assert INDEX in {index.name for index in cluster.of_lab(lab).indices or ()}
