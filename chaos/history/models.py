"""The shape of plan.json, as the runner writes it and everybody reads it. Runs of earlier versions lack keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

READS = "read"
WRITES = "write"
"""The operation that writes documents, where a plan does not say so of another."""


class PlannedNode(TypedDict):
    """A node of the lab."""

    name: str
    zone: str
    roles: list[str]


class PlannedLab(TypedDict, total=False):
    """What the run is on. ``pulsed``: hosts whose Toxiproxies the load passes → the zone, for those of clients.

    ``accepts``: grades of proofs below ``path`` that count here. ``cluster``: of one that exists, 16 digits of the
    SHA-256 of its UUID: runs on one cluster are known by it, and the UUID is not told.
    """

    kind: str
    id: str
    shares_processors: bool
    nodes: list[PlannedNode]
    client_hosts: list[str]
    pulsed: dict[str, str | None]
    accepts: list[str]
    cluster: str


class PlannedStep(TypedDict, total=False):
    """One step of the plan, for people; of a fault with what it is made of."""

    phase: str
    step: str
    fault: str
    resolved: str
    provider: str
    grade: str
    mechanism: str
    proof: str
    targets: list[str]
    links: list[str]
    moves: list[str]
    inverse: str | list[str] | None


class Plan(TypedDict, total=False):
    """plan.json. ``experiment`` and ``topology`` are in the normal form of definitions."""

    format: int
    rules: int
    run: str
    command: str
    seed: int
    hash: str
    started: str
    experiment: dict[str, Any]
    topology: dict[str, Any]
    lab: PlannedLab
    versions: dict[str, str]
    machine: dict[str, Any]
    watched: bool
    configuration_watched: bool
    disks_watched: bool
    passages_watched: bool
    windows_by_phase: bool
    steady_baseline: bool
    until_rests_on_time: bool
    looks_by_phase: bool
    differences: list[str]
    client: dict[str, Any]
    steps: list[PlannedStep]
    notes: list[str]
    second_of: dict[str, Any]
    side: dict[str, Any]
    judged_by: str


def operations(load: Mapping[str, Any] | None) -> dict[str, Mapping[str, Any]]:
    """The operations of a load in normal form, by name: read and write first, then a workload's own."""
    given = load or {}
    usual = {name: given[name] for name in (READS, WRITES) if given.get(name)}
    named = {str(name): each for name, each in given.items() if isinstance(each, Mapping) and "good_within" in each}
    return {**usual, **named}


def closed(load: Mapping[str, Any] | None) -> dict[str, Mapping[str, Any]]:
    """The closed loops of a load in normal form, by name. Of these nothing is said about availability and latency."""
    return {str(each["name"]): each for each in (load or {}).get("closed") or ()}


def writes(name: str, operation: Mapping[str, Any]) -> bool:
    """Whether each arrival of an operation writes a document of its own. ``operation``: in normal form."""
    return bool(operation.get("writes", name == WRITES))
