"""What the load's index is like, as it was set up: the shards and copies that answers must speak of, and by when a
document must be found.

Read from the index and not from the topology, because an index template of the cluster may have its say. An index
without a refresh interval of its own has the cluster's (``IndexService.getRefreshInterval``). What the
experiment itself is going to change is not held against answers, nor anything in a test in Python, whose phases are
not known beforehand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from chaos.base.units import Duration, Malformed
from chaos.definitions import Experiment
from chaos.load.known import LATE_S
from chaos.opensearch.replication import DOCUMENT, SEGMENT

SHARDS, REPLICAS, REFRESH = "index.number_of_shards", "index.number_of_replicas", "index.refresh_interval"
EXPANDS = "index.auto_expand_replicas"
SEARCHERS = "index.number_of_search_replicas"
REMOTE = "index.remote_store.enabled"
ELSEWHERE = (REMOTE, SEARCHERS)
"""Settings of indices whose writes do not go to every copy, so that their answers count other ones."""
DEFAULT_REFRESH = "1s"
"""The interval of a cluster that knows no setting for it."""
CLUSTER_REFRESH = "cluster.default.index.refresh_interval"


@dataclass(frozen=True)
class Shape:
    """As :class:`chaos.load.config.DriverConfig` has it; None for what no answer can be held against."""

    shards: int | None = None
    copies: int | None = None
    visible_after_s: float | None = None
    replication: str | None = None
    """DOCUMENT or SEGMENT; None: it was not looked at."""

    @property
    def segments(self) -> bool:
        """Whether replicas copy segments, so that they may show less than their primary for a time."""
        return self.replication == SEGMENT


def of_index(
    settings: Mapping[str, Any],
    experiment: Experiment,
    replication: str = DOCUMENT,
    *,
    cluster_refresh: Any = DEFAULT_REFRESH,
) -> Shape:
    """The shape of an index with these explicit settings (full names, values as text), and the replication type that is
    in force for it. ``cluster_refresh``: the interval of indices that have none of their own."""
    planned = dict(_changes(experiment))
    unknown = not experiment.phases
    shards = _number(settings.get(SHARDS))
    replicas = _number(settings.get(REPLICAS))
    fixed = (
        not unknown
        and planned.keys().isdisjoint((REPLICAS, EXPANDS, SEARCHERS))
        and settings.get(EXPANDS, "false") == "false"
    )
    everywhere = all(settings.get(name, "false") in ("false", "0") for name in ELSEWHERE)
    copies = replicas + 1 if replicas is not None and fixed and everywhere else None
    visible = None
    if not unknown and REFRESH not in planned and replication == DOCUMENT:
        if (own := settings.get(REFRESH)) is not None:
            visible = _visible_after(str(own))
        elif CLUSTER_REFRESH not in _cluster_changes(experiment):
            visible = _visible_after(str(cluster_refresh))
    return Shape(shards, copies, visible, replication)


def most_copies(experiment: Experiment) -> int:
    """Copies of the shards of the load's index at most, with what faults of the experiment make of their number."""
    topology = experiment.topology
    replicas, searchers = [topology.replicas], [0]
    begun = ((f"index.{name.removeprefix('index.')}", value) for name, value in topology.settings.index.items())
    for name, value in (*begun, *_changes(experiment)):
        if name == REPLICAS:
            replicas.append(1 if value is None else _number(str(value)) or 0)
        elif name == EXPANDS:
            most = str(value).rpartition("-")[2]  # of 0-5, or of 0-all
            replicas.append(len(topology.data_nodes) - 1 if most == "all" else _number(most) or 0)
        elif name == SEARCHERS:
            searchers.append(_number(str(value)) or 0)
    return topology.shards * (1 + max(replicas) + max(searchers))


def _changes(experiment: Experiment) -> Iterator[tuple[str, Any]]:
    """The settings of an index that some fault of the experiment sets, by their full names."""
    for phase in experiment.phases:
        for params in phase.inject:
            for name, value in (getattr(params, "settings", None) or {}).items():
                yield f"index.{str(name).removeprefix('index.')}", value


def _cluster_changes(experiment: Experiment) -> set[str]:
    """The settings of the cluster that some fault of the experiment sets, or what a phase waits for may change."""
    names: set[str] = set()
    for phase in experiment.phases:
        for params in phase.inject:
            names |= (getattr(params, "settings", None) or {}).keys()
        if phase.during is not None:
            names |= set(phase.during.changes)
    return names


def _number(said: Any) -> int | None:
    return int(said) if isinstance(said, str) and said.isdecimal() else None


def _visible_after(refresh: str) -> float | None:
    """Seconds until an acknowledged document must be found; None where it is never refreshed, or that is not known."""
    try:
        return float(Duration.parse(refresh)) + LATE_S
    except Malformed:
        return None
