"""What one custom resource of the OpenSearch Kubernetes operator (``kind: OpenSearchCluster``) says, as a topology.

Node pools are its nodes. Heap is what the operator makes of the memory that a pool requests, where it is not said. A
zone that comes from a label of the machine is not known from here, nor is anything that a living cluster has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from chaos.definitions.source import Problem, Source
from chaos.definitions.topology import ZONE_ATTRIBUTE
from chaos.programs.audit import written
from chaos.programs.audit.definition import UNREAD
from chaos.programs.audit.facts import STOCK, Node, Settings, Sheet

KIND = "opensearchcluster"
LABEL = "the zone of each node comes from a label of its machine (nodeAttributes)"
UNASKED = dict.fromkeys(("left.transient", "settings.hidden", "left.archived"), written.API)
OF_ZONES = ("zones", "zones.equal", "managers.zones", "awareness.forced", "storage.zone")
DEFAULT_HEAP = 512 * 10**6
"""Of a pool that requests no memory. The operator writes 512M."""
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12} | {
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)(|k|[KMGT]i|[MGT])")
_HEAP = re.compile(r"-Xmx([0-9]+)([kKmMgG]?)\b")


def is_one(data: Mapping[str, Any]) -> bool:
    """Whether a YAML file is such a resource."""
    return str(data.get("kind", "")).lower() == KIND


def read(path: Path, zone_attribute: str = ZONE_ATTRIBUTE) -> Sheet:
    """The facts of the resource. Raises InvalidInput with file, line and what was expected."""
    source = Source.read(path, nulls=True)
    spec = _mapping(source, source.data, "spec", ())
    general = _mapping(source, spec, "general", ("spec",))
    pools = spec.get("nodePools")
    if not isinstance(pools, list) or not pools:
        source.add([Problem(("spec", "nodePools"), "spec.nodePools: expected a list of pools", at_key=True)])
        source.raise_if_wrong()
    assert isinstance(pools, list)
    common, notes = written.renamed(written.flattened(source, general.get("additionalConfig") or {}))
    nodes: list[Node] = []
    for number in range(len(pools)):
        found, more = _pool(source, pools[number], number, common, zone_attribute)
        nodes += found
        notes += more
    source.raise_if_wrong()
    labelled = zone_attribute in _labels(general, pools)
    name = (source.data.get("metadata") or {}).get("name", path.stem)
    return Sheet(
        origin=f"{path}, OpenSearchCluster {name}",
        zone_attribute=zone_attribute,
        version=str(general["version"]) if "version" in general else None,
        nodes=tuple(nodes),
        settings=Settings({}, STOCK),
        unread=dict.fromkeys((*(part for part in UNREAD if part not in ("memory", "disk")), "indices"), written.LIVE),
        is_definition=True,
        gaps=written.BY_API,
        unasked={**UNASKED, **(dict.fromkeys(OF_ZONES, LABEL) if labelled else {})},
        notes=tuple(dict.fromkeys(notes)),
    )


def _mapping(source: Source, data: Mapping[str, Any], name: str, above: tuple[str, ...]) -> Mapping[str, Any]:
    found = data.get(name)
    if isinstance(found, Mapping):
        return found
    source.add([Problem((*above, name), f"{'.'.join((*above, name))}: expected a mapping", at_key=True)])
    source.raise_if_wrong()
    raise AssertionError  # raise_if_wrong has raised


def _labels(general: Mapping[str, Any], pools: list[Any]) -> set[str]:
    """Attributes that the operator fills from labels of machines."""
    given = [*(general.get("nodeAttributes") or ()), *(a for pool in pools for a in pool.get("nodeAttributes") or ())]
    return {str(each.get("name")) for each in given if isinstance(each, Mapping)}


def _pool(
    source: Source, pool: Any, number: int, common: Mapping[str, Any], zone_attribute: str
) -> tuple[list[Node], list[str]]:
    """The nodes of one pool, and how it was read. What is wrong becomes a problem of the source."""
    at: tuple[str | int, ...] = ("spec", "nodePools", number)
    if not isinstance(pool, Mapping):
        source.add([Problem(at, "expected a pool: component, replicas, roles")])
        return [], []
    count, component = pool.get("replicas"), pool.get("component")
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        source.add([Problem((*at, "replicas"), f"replicas: expected a whole number, got {count!r}")])
        return [], []
    if not isinstance(component, str):
        source.add([Problem((*at, "component"), "component: expected the pool's name")])
        return [], []
    held, notes = written.roles(pool.get("roles"))
    own, more = written.renamed(written.flattened(source, pool.get("additionalConfig") or {}))
    resources = pool.get("resources") or {}
    request = _quantity(source, (resources.get("requests") or {}).get("memory"), (*at, "resources"))
    memory = _quantity(source, (resources.get("limits") or {}).get("memory"), (*at, "resources")) or request
    heap = _heap(str(pool.get("jvm") or ""), request)
    disk = _quantity(source, pool.get("diskSize"), (*at, "diskSize"))
    made = [
        written.node(
            f"{component}-{each}", {**common, **own}, held, zone_attribute, heap=heap, memory=memory, disk=disk
        )
        for each in range(count)
    ]
    if "-Xmx" not in str(pool.get("jvm") or ""):
        more.append(f"pool {component}: its heap is what the operator makes of the memory that it requests")
    return made, [*notes, *more]


def _quantity(source: Source, value: Any, at: tuple[str | int, ...]) -> int | None:
    """A quantity of Kubernetes in bytes; None where it is not said."""
    if value is None:
        return None
    if (found := _QUANTITY.fullmatch(str(value))) is None:
        source.add([Problem(at, f"cannot read {value!r}: expected a quantity such as 4Gi")])
        return None
    return int(Decimal(found[1]) * _UNITS[found[2]])


def _heap(options: str, request: int | None) -> int:
    """``-Xmx``, else half of what is requested, else the operator's default; in bytes."""
    if (said := _HEAP.search(options)) is not None:
        return int(said[1]) * {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}[said[2].lower()]
    return DEFAULT_HEAP if not request else request // 2
