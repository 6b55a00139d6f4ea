"""A cluster that exists as data: its file, and how it was seen. Zones and nodes have names of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from chaos.definitions import load_topology
from chaos.definitions.existing import ExistingFile
from chaos.targets.existing.seen import Identity, Seen, SeenNode

PLACES = {"a": "eu-west-1a", "b": "eu-west-1b", "c": "eu-west-1c"}
NEEDED = load_topology("3az-standby")


def file(**members: dict[str, Any]) -> ExistingFile:
    """A target whose zones are AWS's, with a manager and two data nodes in each, under names of its own."""
    nodes = {f"es-m-{zone}": {"zone": zone, "roles": ["cluster_manager"]} for zone in PLACES}
    nodes |= {f"es-d-{zone}{n}": {"zone": zone, "roles": ["data", "ingest"]} for zone in PLACES for n in (1, 2)}
    nodes |= {name.replace("_", "-"): member for name, member in members.items()}
    data = {
        "apiVersion": "opensearch-chaos/v1",
        "kind": "existing",
        "name": "staging",
        "endpoints": ["http://127.0.0.1:9200"],
        "identity": {"cluster_uuid": "u", "cluster_name": "n"},
        "opensearch": "2.19.0",
        "zones": {"attribute": "zone", "names": PLACES},
        "nodes": {name: member for name, member in nodes.items() if member},
    }
    return ExistingFile.model_validate(data)


def seen(written: ExistingFile, **changes: Any) -> Seen:
    there = tuple(
        SeenNode(name, node.roles, PLACES[node.zone], "2.19.0", heap=1 << 30) for name, node in written.nodes.items()
    )
    found = Seen(
        identities={"x": Identity("u", "n", "2.19.0")},
        silent={},
        attribute="zone",
        nodes=there,
        awareness=("zone",),
        forced=tuple(PLACES.values()),
        weights={PLACES["a"]: 1, PLACES["b"]: 1, PLACES["c"]: 0},
        decommissioned={},
        settings={"discovery.find_peers_interval_during_decommission": "1000ms"},
    )
    return replace(found, **changes)
