"""How far an experiment reaches on a cluster that is not ours, phase by phase, before anything is done to it.

Each step has the least rung at which a target's file may allow it. What is active at the same time counts together,
and where only the moment decides who is hit the worst case counts. What cannot be computed is refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from types import MappingProxyType

from chaos.base.errors import Lacking
from chaos.definitions import Experiment
from chaos.definitions.actions import (
    ActionParams,
    Decommission,
    ExcludeVotes,
    IncludeVotes,
    OnIndex,
    Recommission,
    Reindex,
    RemoteRestore,
    Reroute,
    Restore,
    RetryFailed,
    Snapshot,
)
from chaos.definitions.during import During
from chaos.definitions.existing import RUNGS, Existing, ExistingFile, as_production
from chaos.definitions.selectors import LinkSelector, candidates
from chaos.definitions.steps import FaultParams
from chaos.faults.fault import Fault
from chaos.faults.kinds.disk import DiskFull
from chaos.faults.kinds.network import pairs_both
from chaos.faults.offers import Offers, Providers
from chaos.run import noticing, plan
from chaos.targets.existing import offered, radius
from chaos.targets.existing.compare import Row, Sign, too_far
from chaos.targets.existing.passages import TheirWiring, client_host
from chaos.targets.existing.seen import Seen
from chaos.targets.wiring import Wiring

NODE, ZONE = RUNGS[2], RUNGS[3]
COMBINED = 256
"""Ways in which faults can hit together that are looked at; where there are more, all of their nodes count at once."""
Hits = tuple[frozenset[str], ...]
"""The sets of nodes of which a fault may take one out: several where the moment, or the cluster, decides which."""
NOBODY: Hits = (frozenset(),)


@dataclass(frozen=True)
class Step:
    """``rung``: the least that allows it. ``hits`` None: whom it hits cannot be computed. ``rows``: what forbids it
    whatever the cluster is like."""

    says: str
    rung: str
    hits: Hits | None
    rows: tuple[Row, ...] = ()
    away: frozenset[str] = frozenset()
    """Nodes that are hit one after the other, so that each of them may be away, and be back later."""


@dataclass(frozen=True)
class Reached:
    """One phase. ``hit``: the nodes of the worst case, by name; ``voteless``: those whose votes are taken away in it.
    ``rows``: what holds of the cluster then."""

    phase: str
    steps: tuple[Step, ...]
    hit: tuple[str, ...]
    rows: tuple[Row, ...]
    voteless: tuple[str, ...] = ()

    @property
    def forbids(self) -> list[Row]:
        """What keeps the phase from being done, whatever the rung."""
        return radius.wrong([*(row for step in self.steps for row in step.rows), *self.rows])


def offers_on(providers: Providers, file: ExistingFile) -> Offers:
    """What the cluster of a file can have."""
    return providers.on(offered.by(file), offered.ORDER, offered.NOT_YET)


def wiring_of(experiment: Experiment, file: ExistingFile) -> Wiring:
    """The links between its nodes and clients there. ``experiment``: with the cluster's own nodes for its topology."""
    return TheirWiring.there("plan", experiment.topology.nodes, experiment.topology.zones, file)


def carried_out(each: plan.Planned, experiment: Experiment, seed: int, wiring: Wiring, offers: Offers) -> bool:
    """Whether there is somebody and something there to do it by."""
    try:
        plan.preview(each, experiment, seed, wiring, offers)
    except Lacking:
        return False
    return not offers.reasons(each.params.kind)


def reached(
    experiment: Experiment,
    target: Existing,
    seen: Seen,
    seed: int,
    offers: Offers,
    today: date,
    *,
    own: Collection[str] = frozenset(),
    made: Mapping[str, Fault] = MappingProxyType({}),
) -> list[Reached]:
    """Every phase in order. ``experiment``: with the cluster's own nodes for its topology; ``own``: indices that the
    run has made; ``made``: the faults that it has made, by their ids, of which is known whom they have hit."""
    wiring = wiring_of(experiment, target.written)
    planned = plan.by_phase(experiment)
    plainly = Wiring.of("plan", experiment.topology.nodes, experiment.topology.zones)
    zones = target.written.zones.names
    out = {zone for zone, value in zones.items() if value in (seen.decommissioned or {})}
    acting = _by_controllers(experiment)
    shown = _shown(made, experiment, target, seen)
    active: dict[str, list[Hits]] = {}
    held: dict[str, list[Fault]] = {}
    voteless, found = NOBODY, []
    for phase in experiment.phases:
        # faults of a phase are made before its actions, and what one action takes the next may give back
        votes = list(voteless) if phase.inject else []
        outs = [_nodes_of(out, experiment)] if phase.inject else []
        for label in list(active) if "all" in phase.undo else phase.undo:
            active.pop(label, None)
            held.pop(label, None)
        steps, now = [], list[Hits]()
        for each in planned[phase.name]:
            lacking: tuple[Row, ...] = ()
            try:
                fault = plan.preview(each, experiment, seed, wiring, offers)
            except Lacking as error:  # who is hit is known all the same: its links, on a lab
                fault = plan.preview(each, experiment, seed, plainly, offers)
                if not offers.reasons(each.params.kind):  # else that nobody can do it is told once, of the kind
                    lacking = (Row(each.params.kind, Sign.BLOCKS, error.message, error.remedy or ""),)
            if fault is not None and fault.links:
                held.setdefault(each.params.label, []).append(fault)
            step = _of_fault(each.params, fault, experiment, target)
            if each.id in made and step.hits is not None:
                step = replace(step, hits=_as_made(step.hits, each.params, made[each.id], shown[each.id]))
            filled = _filled(each.params, step.hits or NOBODY, target, seen, today, own)
            step = replace(step, rows=(*lacking, *step.rows, *filled))
            steps.append(step)
            (now if each.params.passing else active.setdefault(each.params.label, [])).append(step.hits or NOBODY)
        if phase.during is not None:
            waiting = _of_others(phase.during, experiment, target)
            steps.append(waiting)
            now.append(waiting.hits or NOBODY)
        for action in phase.do:
            step = _of_action(action)
            if isinstance(action, Decommission):
                out.add(action.zone)
                step = replace(step, rows=tuple(_unseen(held, action.zone, experiment, wiring)))
            elif isinstance(action, Recommission):
                out.discard(action.zone)
            elif isinstance(action, ExcludeVotes):
                voteless = _voteless(action, experiment)
            elif isinstance(action, IncludeVotes):
                voteless = NOBODY
            steps.append(step)
            votes += voteless
            outs.append(_nodes_of(out, experiment))
        gone = _nodes_of(out, experiment)
        ways = now + [hits for several in active.values() for hits in several]
        votes = list(dict.fromkeys([*votes, *voteless]))
        outside = tuple(dict.fromkeys([*outs, gone]))
        worst, without, rows = _worst([*ways, outside], votes, target, seen, today, acting)
        found.append(Reached(phase.name, tuple(steps), tuple(sorted(worst)), tuple(rows), tuple(sorted(without))))
    return found


def explaining(hits: Hits, gone: Collection[str]) -> Hits:
    """Those of the sets that hold all nodes that are gone and stand in any of them: the others are ruled out."""
    concerned = frozenset().union(*hits) & frozenset(gone)
    return tuple(hit for hit in hits if concerned <= hit)


def _as_made(hits: Hits, params: FaultParams, fault: Fault, gone: frozenset[str]) -> Hits:
    """What is left of the sets of nodes of which a fault may take one out, now that it was made. ``gone``: the nodes
    that it alone can have taken out."""
    if params.momentary:
        whom = set(fault.targets)
        if fault.links:  # around one node, which is an end of each
            whom = set(fault.links[0]).intersection(*fault.links)
        hits = tuple(hit for hit in hits if hit <= whom) or hits
    return explaining(hits, gone) if any(hit <= gone for hit in hits) else hits


def _shown(
    made: Mapping[str, Fault], experiment: Experiment, target: Existing, seen: Seen
) -> dict[str, frozenset[str]]:
    """For each fault that was made the nodes that are gone and that nothing else can have taken out."""
    if seen.nodes is None or _by_controllers(experiment):  # a zone that controllers gave back may be on its way
        return dict.fromkeys(made, frozenset())
    out = {zone for zone, value in target.written.zones.names.items() if value in (seen.decommissioned or {})}
    out |= {action.zone for phase in experiment.phases for action in phase.do if isinstance(action, Decommission)}
    waits = [phase.during.restarts for phase in experiment.phases if phase.during is not None and phase.during.restarts]
    others = {name for each in waits for name in candidates(each, experiment.topology.nodes)}
    gone = frozenset(target.written.nodes) - {node.name for node in seen.nodes} - _nodes_of(out, experiment) - others
    hit = {id: frozenset().union(*(_hits(fault, experiment) or NOBODY)) for id, fault in made.items()}
    return {id: gone.difference(*(hit[other] for other in hit if other != id)) for id in made}


def _nodes_of(zones: Collection[str], experiment: Experiment) -> frozenset[str]:
    return frozenset(node.name for node in experiment.topology.nodes if node.zone in zones)


def _unseen(held: Mapping[str, Sequence[Fault]], zone: str, experiment: Experiment, wiring: Wiring) -> Iterator[Row]:
    """Faults on links of which nothing could be seen any more once a zone is decommissioned: nobody can ask its nodes
    anything then but through the proxies before them."""
    gone = {node.name for node in experiment.topology.nodes if node.zone == zone}
    for fault in (each for several in held.values() for each in several):
        pairs = pairs_both(wiring, frozenset(fault.links))
        if not any(wiring.reached(*pair) or not gone & set(pair) for pair in pairs):
            yield Row(
                fault.kind,
                Sign.BLOCKS,
                f"with zone {zone} decommissioned nothing would show whether it still holds",
                "say where the proxies on its links are reached: their url; or undo it before",
            )


def needed_rung(found: Sequence[Reached], experiment: Experiment) -> str:
    """The least rung for all of it."""
    return max((rung for rung, _ in _wanted(found, experiment)), key=RUNGS.index)


def _wanted(found: Sequence[Reached], experiment: Experiment) -> Iterator[tuple[str, str]]:
    """The least rung of each part, and what that is. Any run makes an index, which is above looking and planning."""
    yield NODE, "an index of the run's own"
    if experiment.controller is not None and experiment.controller.act:
        yield ZONE, "failover controllers that act"
    for each in found:
        for step in each.steps:
            yield step.rung, f"phase {each.phase}: {step.says.partition(': ')[2]}"


@dataclass(frozen=True)
class AtRung:
    """What a target's file would refuse of an experiment if this were its rung, in words; nothing: it allows it all."""

    rung: str
    refused: tuple[str, ...]


def at_rungs(found: Sequence[Reached] | None, experiment: Experiment, target: Existing) -> tuple[AtRung, ...]:
    """For each rung above looking, whichever the file's is today. ``found`` None: it is not known who is meant."""
    if production := next(as_production(target.written), None):
        return tuple(AtRung(rung, (production,)) for rung in RUNGS[1:])
    if found is None:
        return tuple(AtRung(rung, ("it is not known who is meant",)) for rung in RUNGS[1:])
    parts = list(_wanted(found, experiment))
    return tuple(
        AtRung(
            rung,
            tuple(f"{what} ({least})" for least, what in parts if RUNGS.index(least) > RUNGS.index(rung)),
        )
        for rung in RUNGS[1:]
    )


def rung_row(target: Existing, needed: str, today: date) -> Row:
    """Whether the file allows as much today."""
    have = target.rung_on(today)
    if target.too_far(today):
        return Row("rung", Sign.BLOCKS, *too_far(target))
    if RUNGS.index(have) >= RUNGS.index(needed):
        return Row("rung", Sign.SAME, f"{needed} is needed, and {have} is allowed until {target.written.until}")
    if have != target.written.rung:
        says = f"{needed} is needed, and {target.written.rung} ended on {target.written.until}"
    else:
        says = f"{needed} is needed, and the file allows {have}"
    return Row("rung", Sign.BLOCKS, says, f"agree with the cluster's owners on rung: {needed} and its last day, until")


def _worst(
    ways: Sequence[Hits],
    votes: Sequence[frozenset[str]],
    target: Existing,
    seen: Seen,
    today: date,
    acting: Hits,
) -> tuple[frozenset[str], frozenset[str], list[Row]]:
    """Of all that may be hit together the first that is forbidden; where none is, the one with most nodes.

    ``votes``: the sets of nodes of which one is without its votes meanwhile; the one of that case is given with it.
    ``acting``: the zones that failover controllers may take out. Where one is hit it is that, and all of it: they
    take out none beside another that is not well, and two never go. Else it may be any.
    """
    count = 1
    for hits in ways:
        count *= len(hits)
    if count > COMBINED:
        together = [frozenset().union(*(one for hits in ways for one in hits))]
    else:
        together = list({frozenset().union(*chosen): None for chosen in itertools.product(*ways)})
    if acting:
        wide = [hit.union(*(zone for zone in acting if zone & hit)) for hit in together if hit]
        together = list(dict.fromkeys([*wide, *(acting if len(wide) < len(together) else ())]))
    accepted = target.accepted_on(today)
    judged = [
        (hit, without, radius.rows(hit, target.written, seen, accepted=accepted, voteless=without))
        for hit in together
        for without in votes
    ]
    return max(judged, key=lambda each: (len(radius.wrong(each[2])), len(each[0]), len(each[1])))


def _of_fault(params: FaultParams, fault: Fault | None, experiment: Experiment, target: Existing) -> Step:
    says = f"{params.kind}: {params.spoken(params.describe())}"
    if (why := params.uncomputable) is not None:
        row = Row(params.kind, Sign.BLOCKS, f"{why}: what it does there cannot be computed", "run it on a lab")
        return Step(says, ZONE, None, (row,))
    if params.reach == "index":
        return Step(says, NODE, NOBODY)
    if params.reach == "foreign":
        row = Row(
            params.kind, Sign.BLOCKS, "it changes an index that is not the run's own", "name no index, or use a lab"
        )
        return Step(says, ZONE, NOBODY, (row,))
    if params.reach == "cluster":
        return Step(says, ZONE, NOBODY, _strange(params.kind, params.cluster_settings, target))
    hits = _elected(params, experiment) if fault is None else _hits(fault, experiment)
    if hits is None:
        row = Row(params.kind, Sign.UNKNOWN, "whom it hits cannot be computed", "run it on a lab")
        return Step(says, ZONE, None, (row,))
    return Step(says, _rung(hits, experiment), hits)


def _filled(
    params: FaultParams, hits: Hits, target: Existing, seen: Seen, today: date, own: Collection[str]
) -> tuple[Row, ...]:
    """A row where a disk that is filled stops writes to indices of others, or moves their copies."""
    if not isinstance(params, DiskFull):
        return ()
    accepted, every = target.accepted_on(today), frozenset[str]().union(*hits)
    row = radius.filled(every, params.share, target.written, seen, accepted=accepted, own=own)
    return () if row is None else (row,)


def _strange(what: str, settings: Iterable[str], target: Existing) -> tuple[Row, ...]:
    """A row where the file does not allow to change one of these settings."""
    strange = [key for key in settings if key not in target.written.settings]
    if not strange:
        return ()
    says = f"the file does not allow to change {', '.join(strange)}"
    remedy = "what a setting does to others cannot be computed: agree with them, and name it under settings"
    return (Row(what, Sign.BLOCKS, says, remedy),)


def _of_others(during: During, experiment: Experiment, target: Existing) -> Step:
    """What a phase waits for: any one of its nodes at a time, which the run watches; and settings that it names."""
    says = f"during: {during.describe()}"
    if during.restarts is None and not during.changes:
        row = Row(
            "during",
            Sign.BLOCKS,
            "what it does to the cluster cannot be computed",
            "say what it does: restarts, the nodes whose processes it replaces, and changes, the settings",
        )
        return Step(says, ZONE, NOBODY, (row,))
    nodes = () if during.restarts is None else candidates(during.restarts, experiment.topology.nodes)
    hits = tuple(frozenset({name}) for name in nodes) or NOBODY
    several = len(nodes) > 1 or bool(during.changes)
    rows = _strange("during", during.changes, target)
    return Step(says, ZONE if several else _rung(hits, experiment), hits, rows, frozenset(nodes))


def _of_action(action: ActionParams) -> Step:
    """Weights and decommissions are of a whole zone, votes of the whole cluster."""
    rows: tuple[Row, ...] = ()
    if isinstance(action, Reindex):
        says = "a copy of an index of any size on a cluster of others is not there yet"
        rows = (Row(action.kind, Sign.BLOCKS, says, "leave it out, or run this on a lab"),)
    elif isinstance(action, Reroute | RetryFailed | OnIndex):
        says = "what it does to copies of others cannot be computed"
        rows = (Row(action.kind, Sign.BLOCKS, says, "leave it out, or run this on a lab"),)
    elif isinstance(action, RemoteRestore | Snapshot | Restore):
        says = "repositories and stores of a cluster of others are not used yet"
        rows = (Row(action.kind, Sign.BLOCKS, says, "leave it out, or run this on a lab"),)
    return Step(f"{action.kind}: {action.describe()}", ZONE, NOBODY, rows)


def _voteless(action: ExcludeVotes, experiment: Experiment) -> Hits:
    """The nodes that lose their votes, or each that may be the elected manager by then."""
    named = candidates(action.target, experiment.topology.nodes)
    return tuple(frozenset({name}) for name in named) if action.target.elected else (frozenset(named),)


def _by_controllers(experiment: Experiment) -> Hits:
    """The zones of which failover controllers may take one out, where the experiment has some that act."""
    if experiment.controller is None or not experiment.controller.act:
        return ()
    nodes = experiment.topology.nodes
    return tuple(frozenset(node.name for node in nodes if node.zone == zone) for zone in experiment.topology.zones)


def _rung(hits: Collection[frozenset[str]], experiment: Experiment) -> str:
    """``node`` where it is one node, and not all that its zone has."""
    zones = [
        [node.name for node in experiment.topology.nodes if node.zone == zone] for zone in experiment.topology.zones
    ]
    whole = any(hit.issuperset(names) for hit in hits for names in zones if names)
    return ZONE if whole or max(map(len, hits)) > 1 else NODE


def _elected(params: FaultParams, experiment: Experiment) -> Hits | None:
    """Each node that may be the elected manager by the time; None where others are named beside it."""
    if len(params.selectors) != 1:
        return None
    (chosen,) = params.selectors.values()
    if isinstance(chosen, LinkSelector):
        if chosen.b is not None or chosen.a.nodes is None:
            return None
        chosen = chosen.a.nodes
    return tuple(frozenset({name}) for name in candidates(chosen, experiment.topology.nodes)) or None


def _hits(fault: Fault, experiment: Experiment) -> Hits | None:
    if fault.links:
        covers = dict.fromkeys((*_covers(fault, experiment), *noticing.dropped(fault.links, experiment.topology)))
        return tuple(cover | frozenset(fault.targets) for cover in covers)
    return (frozenset(fault.targets),) if fault.targets else None


def _covers(fault: Fault, experiment: Experiment) -> Iterator[frozenset[str]]:
    """Nodes that are as good as gone when these links are: those of one zone, where all links have an end in it, at
    its nodes or its clients.

    Where several zones will do, it may be any of them; where none does, all ends.
    """
    zone_of = {node.name: node.zone for node in experiment.topology.nodes}
    nodes = {name for link in fault.links for name in link if name in zone_of}
    found = False
    for zone in experiment.topology.zones:
        here = {name for name in nodes if zone_of[name] == zone}
        inside = {*here, client_host(zone)}
        if all(inside.intersection(link) for link in fault.links):
            found = True
            yield frozenset(here)
    if not found:
        yield frozenset(nodes)
