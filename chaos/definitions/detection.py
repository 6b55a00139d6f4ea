"""How long a cluster may take to notice that a node is gone, by its own settings of fault detection.

The elected cluster manager checks every node (follower checks), every node checks it (leader checks). A connection that
breaks is noticed by the next check. Where bytes vanish instead, a check ends by its timeout, and only so many in a row
count. Where the elected one itself may be hit, another must be elected first, whose first publication waits for the
nodes that are gone, until its own checks or the publication's timeout give them up. The formulas follow
``FollowersChecker``, ``LeaderChecker``, ``ElectionSchedulerFactory`` and ``Publication`` of OpenSearch 3.8.0; the
defaults are its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from chaos.base.text import seconds as shown
from chaos.definitions.steps import Noticing
from chaos.definitions.topology import Topology

CHECKS = "cluster.fault_detection"
UNITS = {"nanos": 1e-9, "micros": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
SETTINGS = {
    "follower_interval": f"{CHECKS}.follower_check.interval",
    "follower_timeout": f"{CHECKS}.follower_check.timeout",
    "follower_retries": f"{CHECKS}.follower_check.retry_count",
    "leader_interval": f"{CHECKS}.leader_check.interval",
    "leader_timeout": f"{CHECKS}.leader_check.timeout",
    "leader_retries": f"{CHECKS}.leader_check.retry_count",
    "publish": "cluster.publish.timeout",
    "election": "cluster.election.max_timeout",
    "disk_every": "monitor.fs.health.refresh_interval",
    "disk_hung": "monitor.fs.health.healthy_timeout_threshold",
}
"""The setting behind each field of :class:`Detection`."""


def read(value: Any) -> float | None:
    """A number, or a time as OpenSearch writes it (``10s``, ``500ms``), in seconds; None where it is neither."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(nanos|micros|ms|s|m|h|d)?", str(value).strip().lower())
    return float(found[1]) * UNITS.get(found[2] or "s", 1.0) if found else None


@dataclass(frozen=True)
class Detection:
    """Settings of fault detection: times in seconds, retries as numbers. Without arguments: OpenSearch's defaults."""

    follower_interval: float = 1.0
    follower_timeout: float = 10.0
    follower_retries: float = 3.0
    leader_interval: float = 1.0
    leader_timeout: float = 10.0
    leader_retries: float = 3.0
    publish: float = 30.0
    election: float = 10.0
    disk_every: float = 60.0
    disk_hung: float = 60.0

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Detection:
        """From settings by their full names; what is missing, or cannot be read, is as by default."""
        found = {name: read(settings[key]) for name, key in SETTINGS.items() if key in settings}
        return cls(**{name: value for name, value in found.items() if value is not None})

    @classmethod
    def planned(cls, topology: Topology) -> Detection:
        """As a topology sets it; those of single groups of nodes count where they are longer."""
        every = {**topology.settings.node, **topology.settings.cluster}
        return cls.longest(cls.of({**every, **node.settings}) for node in topology.nodes)

    @classmethod
    def longest(cls, several: Any) -> Detection:
        """The longest of each; of none, the defaults."""
        known = list(several) or [cls()]
        return cls(**{each.name: max(getattr(one, each.name) for one in known) for each in fields(cls)})

    @property
    def follower(self) -> float:
        """Seconds until the elected one has given up a node that answers nothing: a check may have just begun."""
        return self.follower_interval + self.follower_retries * (self.follower_interval + self.follower_timeout)

    @property
    def leader(self) -> float:
        """Seconds until nodes have given up an elected one that answers nothing."""
        return self.leader_interval + self.leader_retries * (self.leader_interval + self.leader_timeout)

    def within(self, noticing: Noticing, *, managers: bool = True) -> float:
        """Seconds after which a fault must have been noticed, if it is to be.

        ``noticing``: how it is found out. ``managers``: the elected cluster manager may be
        hit.
        """
        if noticing == "at once":
            return self.follower_interval + self.leader_interval + (self.election if managers else 0.0)
        found = self.follower
        if managers:
            found = self.leader + self.election + max(self.follower, self.publish)
        return found + (self.disk_every + self.disk_hung if noticing == "by checks of the disk" else 0.0)

    @property
    def says(self) -> str:
        """What it rests on, in words."""
        return (
            f"follower checks {self.follower_retries:g} x {shown(self.follower_timeout)}, "
            f"leader checks {self.leader_retries:g} x {shown(self.leader_timeout)}, "
            f"publication {shown(self.publish)}"
        )
