"""How full a disk may be before a lab's nodes act on it.

OpenSearch's own watermarks are shares: no new copies beyond 85 %, copies move away beyond 90 %, indices take no more
writes beyond 95 % (``cluster.routing.allocation.disk.watermark.*``, ``DiskThresholdSettings``). Nodes of a lab without
disks of their own share this machine's disk, most of which is others': a disk of 250 GB that is 97 % full has room for
a thousand labs. So these labs count free bytes instead. That is no production's setting, and the plan says so.

OpenSearch takes shares or bytes, and refuses a mixture. So one hand sets all of them: a topology that names one gets
none of ours, nor does the lab of an experiment of which a fault changes one. Nodes with disks of their own keep
OpenSearch's shares: ``disk.full`` fills to these.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from chaos.definitions import Topology

DISK = "cluster.routing.allocation.disk."
PREFIX = f"{DISK}watermark."
OFF = f"{DISK}threshold_enabled"
MIB = 2**20
FREE = {"low": 200 * MIB, "high": 150 * MIB, "flood_stage": 100 * MIB}
"""Free bytes: more than six nodes and their logs and documents take in a quarter of an hour, by the figures of
:mod:`chaos.run.space` for 20 writes a second."""
STOCK = {"low": "85%", "high": "90%", "flood_stage": "95%"}
_UNITS = {"b": 1, "k": 2**10, "kb": 2**10, "m": 2**20, "mb": 2**20, "g": 2**30, "gb": 2**30, "t": 2**40, "tb": 2**40}
_SIZE = re.compile(r"\s*([0-9.]+)\s*([a-z]*)\s*\Z", re.IGNORECASE)


def settings(topology: Topology) -> dict[str, str]:
    """What a lab of this topology adds to each node's settings; nothing where watermarks are not ours to choose."""
    if topology.disks is not None or _named(topology):
        return {}
    return {f"{PREFIX}{name}": f"{free // MIB}mb" for name, free in FREE.items()}


def says(topology: Topology) -> str | None:
    """How that differs from production, for the plan; None where it does not."""
    if not settings(topology):
        return None
    low, high, flood = (f"{free // MIB} MiB" for free in FREE.values())
    return (
        f"disk watermarks are free bytes (low {low}, high {high}, flood stage {flood}) and not OpenSearch's shares "
        "(85, 90 and 95 %): all nodes share this machine's disk, and how full others make it says nothing of a cluster"
    )


def stock(topology: Topology, changed: Collection[str]) -> Topology:
    """The topology of a lab on which an experiment's faults change these settings of the cluster.

    With OpenSearch's own watermarks, where one of them is changed: a mixture would be refused.
    """
    if not settings(topology) or not any(name.startswith(PREFIX) for name in changed):
        return topology
    node = {f"{PREFIX}{name}": share for name, share in STOCK.items()} | topology.settings.node
    return topology.model_copy(update={"settings": topology.settings.model_copy(update={"node": node})})


def needed(topology: Topology, total: int) -> int:
    """Free bytes below which the nodes act on a disk of ``total`` bytes that is not theirs alone; 0: never."""
    if topology.disks is not None:
        return 0
    named = _named(topology)
    if str(named.get(OFF, True)).lower() == "false":
        return 0
    if not named:
        return FREE["low"]
    low = named.get(f"{PREFIX}low", STOCK["low"])
    return free_of(str(low), total)


def free_of(watermark: str, total: int) -> int:
    """``85%``, ``0.85`` or ``10gb`` as free bytes on a disk of ``total`` bytes; 0 for what is none of these."""
    found = _SIZE.match(watermark.removesuffix("%"))
    if found is None:
        return 0
    number, unit = float(found[1]), found[2].lower()
    if watermark.strip().endswith("%"):
        return max(0, round(total * (1 - number / 100)))
    if not unit:
        return max(0, round(total * (1 - number)))
    return round(number * _UNITS.get(unit, 0))


def _named(topology: Topology) -> dict[str, object]:
    """The settings of this kind that a topology has of its own, of whatever level; the cluster's win."""
    levels = [topology.settings.node, *(node.settings for node in topology.nodes), topology.settings.cluster]
    found: dict[str, object] = {}
    for level in levels:
        found |= {name: value for name, value in level.items() if name.startswith(PREFIX) or name == OFF}
    return found
