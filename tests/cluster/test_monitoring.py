"""Monitoring calls of a stream, on real nodes: each is answered whole and in the shape that it must have."""

from __future__ import annotations

import json

import admin_cost
import pytest

from chaos.history.format import Outcome
from chaos.load import admin
from chaos.opensearch.views import administer, await_green
from chaos.targets.labs.local import LocalLab

INDEX = "monitored"
PADDED = [(call, admin_cost.CALLS[call]) for call in ("mapping", "index-settings")]
"""Two calls whose answers are to be of one size, so that they differ only in who answers."""


@pytest.mark.full
def test_each_call_is_answered_whole_and_in_its_shape(tiny: LocalLab) -> None:
    try:
        assert administer(tiny, "PUT", f"/{INDEX}", body={"settings": {"number_of_replicas": 0}})[0] == 200
        assert await_green(tiny, 60)[0]
        for name, call in admin.EVERY.items():
            status, answer = administer(tiny, "GET", call.path)
            assert status == 200 and admin.judge(call.path, json.dumps(answer)) is Outcome.OK, (name, str(answer)[:300])
    finally:
        administer(tiny, "DELETE", f"/{INDEX}?ignore_unavailable=true")


@pytest.mark.full
def test_a_thousand_routing_entries_are_made_of_a_few_copies(tiny: LocalLab) -> None:
    client = tiny.client(tiny.topology.data_nodes[0].name)
    try:
        admin_cost.allow(tiny)
        before, copies = admin_cost.entries_of(client)
        admin_cost.fill(tiny, 0, 2)
        admin_cost.calm(tiny)
        entries, now = admin_cost.entries_of(client)
        assert entries - before == 2000 and now - copies <= 2 * len(tiny.topology.data_nodes)
        sizes = {call: len(admin_cost.Asking(tiny, tiny.topology.nodes[0].name).get(path)[1]) for call, path in PADDED}
        assert min(sizes.values()) > 2 * admin_cost.PAD and max(sizes.values()) < 1.2 * min(sizes.values()), sizes
    finally:
        client.close()
        administer(tiny, "DELETE", "/entries-*")
        administer(tiny, "PUT", "/_cluster/settings", body={"persistent": {"cluster.max_shards_per_node": None}})
