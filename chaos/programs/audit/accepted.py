"""Settings that OpenSearch accepts and cannot live with, as they were seen in clusters: docs/upstream.md has each.

A cluster that has one may still answer: some wait for the next restart, some let everything go on but one thing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from chaos.programs.audit.facts import seconds

ALL = ("2.19.6", "3.4.0", "3.8.0")
LATER = ALL[1:]
"""Versions on which it was seen: a test holds them against the recorded attempts."""


class InFile(Enum):
    """What becomes of a node in whose opensearch.yml such a setting stands."""

    NO_START = auto()
    """It does not start, so one that runs does not have it, or lives with it."""
    SAME = auto()
    """It starts, and then all is as if the API had set it."""
    HARMLESS = auto()


@dataclass(frozen=True)
class Accepted:
    """``name``: a regular expression. ``when``: of the value as text. ``case``: the file under experiments/upstream."""

    name: str
    when: Callable[[str], bool]
    ends_in: str
    case: str
    versions: tuple[str, ...] = ALL
    unless: str | None = None
    """Another setting, of the same group, which must not be there."""
    in_file: InFile = InFile.NO_START


def _below(least: float) -> Callable[[str], bool]:
    def holds(value: str) -> bool:
        if value in ("0", "-1"):
            return True
        read = seconds(value)
        return read is not None and read < least

    return holds


def _number(holds: Callable[[float], bool]) -> Callable[[str], bool]:
    def read(value: str) -> bool:
        try:
            return holds(float(value))
        except ValueError:
            return False

    return read


def _above(most: float) -> Callable[[str], bool]:
    def holds(value: str) -> bool:
        read = seconds(value)
        return read is not None and read > most

    return holds


NO_LEADER = "no leader any more"
NO_NODE = "nodes end where their heap does not hold its window"
ACCEPTED: tuple[Accepted, ...] = (
    Accepted(
        r"cluster_manager\.throttling\.retry\.base\.delay",
        _below(0.001),
        "every cluster manager action answers 400",
        "retry-base-delay-zero",
        in_file=InFile.SAME,
    ),
    Accepted(
        r"cluster\.routing\.allocation\.awareness\.force\.[^.]+",
        lambda _: True,
        NO_LEADER,
        "forced-awareness-without-values",
    ),
    Accepted(
        r"node\.resource\.tracker\.\w+\.window_duration",
        _below(0.5),
        NO_LEADER,
        "resource-tracker-window-below-polling",
    ),
    Accepted(
        r"node\.resource\.tracker\.\w+\.window_duration",
        _above(1000 * 86_400),
        NO_NODE,
        "resource-tracker-window-huge",
    ),
    Accepted(
        r"search_backpressure\.search_(shard_)?task\.heap_moving_average_window_size",
        _number(lambda size: size > 1e8),
        NO_NODE,
        "heap-moving-average-window-huge",
    ),
    Accepted(
        r"search_backpressure\.search_(shard_)?task\.heap_moving_average_window_size",
        _number(lambda size: size == 0),
        NO_LEADER,
        "heap-moving-average-window-zero",
    ),
    Accepted(
        r"wlm\.workload_group\.node\.(cpu|memory)_rejection_threshold",
        _number(lambda share: not share <= 0.9),  # NaN is taken too
        NO_LEADER,
        "workload-group-rejection-threshold",
        LATER,
    ),
    Accepted(
        r"wlm\.workload_group\.node\.(cpu|memory)_cancellation_threshold",
        _number(lambda share: not 0.8 <= share <= 0.95),
        NO_LEADER,
        "workload-group-rejection-threshold",
        LATER,
    ),
    Accepted(
        r"indices\.fielddata\.cache\.size",
        lambda value: value in ("-1", "-1b"),
        NO_LEADER,
        "fielddata-cache-unlimited",
        LATER,
        in_file=InFile.HARMLESS,  # IndicesFieldDataCache: a cache that is made without a size has no limit
    ),
    Accepted(
        r"cluster\.application_templates\.enabled",
        lambda value: value == "true",
        f"{NO_LEADER} without the experimental flag",
        "application-templates-without-flag",
    ),
    Accepted(
        r"cluster\.publish\.timeout",
        _below(0.1),
        "no state can be published",
        "publish-timeout-one-millisecond",
        in_file=InFile.SAME,
    ),
    Accepted(
        r"cluster_manager\.throttling\.thresholds\.cluster-update-settings\.value",
        _number(lambda count: count == 0),
        "settings can never be changed again",
        "throttling-of-settings-zero",
        in_file=InFile.SAME,
    ),
    Accepted(
        r"cluster\.thread_pool\.\w+\.core",
        lambda _: True,
        "a node that restarts has no leader where the core size is above the default maximum",
        "thread-pool-null-ends-the-next-start",
        unless="max",
    ),
)


def case_of(name: str, value: str) -> str | None:
    """The case that shows what becomes of this setting; None: none does."""
    fits = (each.case for each in ACCEPTED if re.fullmatch(each.name, name) and each.when(value))
    return next(fits, None)


def deadly(cluster: Mapping[str, str], kinds: Collection[InFile] = tuple(InFile)) -> list[str]:
    """Of what is set for the cluster, or in a file, those that are among ACCEPTED, in words.

    ``kinds``: only those of which that becomes, for what stands in a file.
    """
    found = []
    for name, value in sorted(cluster.items()):
        for each in ACCEPTED:
            if each.in_file not in kinds or not re.fullmatch(each.name, name) or not each.when(value):
                continue
            if each.unless is not None and f"{name.rpartition('.')[0]}.{each.unless}" in cluster:
                continue
            found.append(f"{name}: {value or 'empty'} ({each.ends_in}; seen on {', '.join(each.versions)})")
    return found
