"""When ``until: {green: true}`` counts: a cluster that has not noticed a fault yet is green, and shows nothing by it.

Green counts once the cluster was seen to become worse after a fault was commanded (a node left, or its health was no
longer green), or after the time in which its own settings of fault detection must have noticed it. So it is for each
fault that is active, and for those of which the cluster learns by checks alone also when they have been undone: a check
that began before may end after. What makes slow only leaves nothing behind. The judge holds the record against the same
rule (:mod:`chaos.checks.noticed`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from chaos.base import text
from chaos.definitions import Experiment, Topology
from chaos.definitions.actions import Decommission, Recommission
from chaos.definitions.detection import Detection
from chaos.definitions.experiment import Phase
from chaos.definitions.steps import FaultParams
from chaos.faults.fault import Fault
from chaos.faults.kind import process_claims
from chaos.faults.kinds import settings
from chaos.targets.protocol import Lab

SECOND = 1_000_000_000
ASKED = 2
"""Nodes whose settings are read: they may differ by groups of nodes, and a look at each costs what it costs."""


def detection(lab: Lab) -> Detection:
    """By the cluster's own word, the longest of those that answer; else the longest of topology and defaults."""
    found: list[Detection] = []
    for node in lab.viewers:
        if len(found) < ASKED and (held := settings.effective(lab, node, None)) is not None:
            found.append(Detection.of({key: value for key, (value, _) in held.items()}))
    return Detection.longest(found or [Detection(), Detection.planned(lab.topology)])


def seconds(params: FaultParams, fault: Fault | None, found: Detection, topology: Topology) -> float:
    """Seconds within which a fault must have been noticed. ``fault`` None: only the moment tells whom it hits."""
    hit = None if fault is None else {*fault.targets, *(host for link in fault.links for host in link)}
    managers = {node.name for node in topology.cluster_managers}
    return found.within(params.noticed, managers=not hit or bool(hit & managers))


def kept_out(params: FaultParams, fault: Fault, topology: Topology) -> frozenset[str]:
    """The nodes that cannot be in the cluster while a fault holds, once that is noticed: their processes are in its
    hand, or they cannot speak with any cluster manager that could be elected. What comes and goes keeps none out."""
    if params.passing or fault.pulse is not None or params.noticed not in ("at once", "by checks"):
        return frozenset()
    gone = {node for node in fault.targets if process_claims((node,)) <= fault.claims}
    return frozenset(gone | _cut_off({frozenset(link) for link in fault.links}, topology))


def _cut_off(links: set[frozenset[str]], topology: Topology) -> set[str]:
    """The nodes that reach no cluster manager which reaches a majority of them; links are cut in both directions, since
    a check is a question and an answer."""
    if not links:
        return set()
    electable = _electable(links, topology)
    return {node.name for node in topology.nodes if not _reached(node.name, electable, links)}


def _reached(node: str, among: Iterable[str], links: set[frozenset[str]]) -> list[str]:
    """Of these nodes those that one speaks with while links are cut."""
    return [other for other in among if other == node or frozenset((node, other)) not in links]


def _electable(links: set[frozenset[str]], topology: Topology) -> list[str]:
    """The cluster managers that reach a majority of them."""
    managers = [node.name for node in topology.cluster_managers]
    return [manager for manager in managers if 2 * len(_reached(manager, managers, links)) > len(managers)]


def dropped(cut: Iterable[tuple[str, str]], topology: Topology) -> Iterator[frozenset[str]]:
    """For each cluster manager that keeps its majority while links are cut, and loses any: the nodes that it removes
    from the cluster where it is the elected one."""
    links, names = {frozenset(link) for link in cut}, [node.name for node in topology.nodes]
    for manager in _electable(links, topology):
        if lost := frozenset(names) - frozenset(_reached(manager, names, links)):
            yield lost


@dataclass(frozen=True)
class Wait:
    """A fault that must be noticed before green counts. Times in ns, monotonic; ``seconds``: the longest it may take.

    ``since``: before it was made, and ``made``: after that. ``lingers``: also once it is undone. ``away``: the nodes
    that it keeps out.
    """

    fault: str
    since: int
    made: int
    seconds: float
    lingers: bool
    away: frozenset[str] = frozenset()

    @classmethod
    def of(cls, params: FaultParams, fault: Fault, since: int, made: int, found: Detection, topology: Topology) -> Wait:
        return cls(
            fault.id,
            since,
            made,
            seconds(params, fault, found, topology),
            params.noticed != "hardly",
            kept_out(params, fault, topology),
        )

    def over(self, now: int, worse: int | None) -> bool:
        """Whether it was noticed, or must have been. ``worse``: when the cluster was last seen to become worse."""
        return (worse is not None and worse >= self.since) or now - self.made >= self.seconds * SECOND

    def to_json(self) -> dict[str, Any]:
        return {"fault": self.fault, "since": self.since, "made": self.made, "seconds": round(self.seconds, 3)}


# ------------------------------------------------------------------------------------------ as it is planned

Previewed = Callable[[int], Fault | None]
"""The fault of that number, as it will be; None: only the moment can tell."""


@dataclass(frozen=True)
class Foreseen:
    """One phase that ends by green. ``after``: seconds into it from which green counts if nothing was seen, and
    ``because`` of which fault; 0: from its beginning. ``never``: why it cannot be green while it lasts."""

    phase: str
    after: float
    because: str
    never: str

    @property
    def says(self) -> str:
        """For the plan's line of the phase; empty where nothing has to be noticed."""
        if not self.after:
            return ""
        return (
            "green counts once a node was seen to leave or a copy was missing, else at most "
            f"{text.seconds(self.after)} into the phase, when this cluster's fault detection must have noticed: "
            f"{self.because}"
        )


def foreseen(experiment: Experiment, found: Detection, previewed: Previewed) -> Iterator[Foreseen]:
    """Every phase that ends by green, by the shortest times that the plan allows."""
    made: list[tuple[FaultParams, Fault | None, float, bool]] = []
    gone_zones: list[str] = []
    clock, number = 0.0, 0
    for phase in experiment.phases:
        made = [(p, f, at, on and not _undone(p, phase)) for p, f, at, on in made]
        for params in phase.inject:
            made.append((params, previewed(number), clock, True))
            number += 1
        for action in phase.do:
            if isinstance(action, Decommission):
                gone_zones.append(action.zone)
            elif isinstance(action, Recommission) and action.zone in gone_zones:
                gone_zones.remove(action.zone)
        if phase.until is not None:
            left = [
                (at + seconds(p, f, found, experiment.topology) - clock, p.describe())
                for p, f, at, on in made
                if on or p.noticed != "hardly"
            ]
            after, because = max(left, default=(0.0, ""))
            active = [(p, f) for p, f, _, on in made if on]
            yield Foreseen(phase.name, max(0.0, after), because, never(experiment.topology, active, gone_zones))
        clock += _least(phase)


def _undone(params: FaultParams, phase: Phase) -> bool:
    return "all" in phase.undo or params.label in phase.undo


def _least(phase: Phase) -> float:
    """Seconds that a phase takes at least."""
    if phase.duration is not None:
        return float(phase.duration)
    return float(phase.until.stable) if phase.until is not None else 0.0


def never(topology: Topology, active: list[tuple[FaultParams, Fault | None]], gone_zones: list[str]) -> str:
    """Why a cluster cannot be green while these faults hold and these zones are decommissioned, in words; or empty."""
    if gone_zones:
        return f"zone {gone_zones[-1]} is decommissioned, and its nodes are not in the cluster"
    for params, fault in active:
        if fault is None:
            if params.noticed == "at once" and not params.passing and params.selectors:
                return f"{params.describe()} keeps a node out of the cluster"
            continue
        if away := kept_out(params, fault, topology):
            copies = topology.replicas + 1
            left = [node.name for node in topology.data_nodes if node.name not in away]
            few = f", and {len(left)} data nodes cannot hold {copies} copies of a shard" if len(left) < copies else ""
            return f"{params.describe()} keeps {', '.join(sorted(away))} out of the cluster{few}"
        wanted = getattr(params, "full", {}).get(settings.REPLICAS)
        if isinstance(wanted, str) and wanted.isdigit() and int(wanted) >= len(topology.data_nodes):
            there = f"{len(topology.data_nodes)} data nodes for {int(wanted) + 1} copies of a shard"
            return f"{params.describe()}, and there are {there}"
    return ""
