"""What only the whole experiment with its topology can tell: steps that contradict each other,
selectors that match nothing, expectations about what is not there.

The phases are walked in order with the state that they make: which faults are active, what the
weights are, which zone is decommissioned.
"""

from __future__ import annotations

import random
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from chaos.base.errors import InvalidInput
from chaos.base.operations import ADMIN, PAGED, OperationKind
from chaos.base.units import Duration
from chaos.definitions import decidable, durable, notes, rolled, slis
from chaos.definitions.actions import (
    Decommission,
    ExcludeVotes,
    IncludeVotes,
    IndexClose,
    IndexCreate,
    IndexDelete,
    IndexOpen,
    OnIndex,
    Recommission,
    Reindex,
    RemoteRestore,
    Reroute,
    Restore,
    RetryFailed,
    Snapshot,
    Weights,
)
from chaos.definitions.expectations import ExpectationFile
from chaos.definitions.experiment import MOST_PAGED, ExperimentFile, LoadIndex, OperationFile, PhaseFile, judged_in
from chaos.definitions.grammar import Grammar
from chaos.definitions.selectors import LinkSelector, NodeSelector, candidates, no_service, resolve_links
from chaos.definitions.source import Loc, Problem, did_you_mean
from chaos.definitions.steps import FaultParams, Scene
from chaos.definitions.topology import (
    AWARENESS,
    FORCED,
    Topology,
    check_copies,
    check_index,
    check_weights,
    short_names,
    unknown_zone,
    with_settings,
)


@dataclass
class _State:
    """What is so at this point of the experiment."""

    topology: Topology
    faults: Container[str]
    """The kinds of fault that there are."""
    active: list[FaultParams] = field(default_factory=list)
    weights: dict[str, int] | None = None
    decommissioned: str | None = None
    voteless: str | None = None
    """Whose votes are taken away, in words."""
    controlled: bool = False
    """Whether failover controllers act."""
    rolled: bool = False
    """Whether the load's index is several, one after the other."""
    copied: bool = False
    """Whether the load's index was copied already."""
    made: dict[str, str] = field(default_factory=dict)
    """Indices that the experiment has made, each ``open`` or ``closed``."""
    several: bool = False
    """Whether the load has indices beside its first."""
    snapshots: dict[str, bool] = field(default_factory=dict)
    """Those that were taken, and whether each was taken back."""


OF_HELPERS = ("documents.lost_untold", "documents.told_failed_but_stored")
"""Metrics about what helpers of client libraries tell their callers."""
OF_PYTEST = ("filterwarnings", "parametrize", "skip", "skipif", "usefixtures", "xfail")
"""Marks that pytest acts on. The plugin makes each tag a mark: a tag ``xfail`` would hide a weakness."""


def check(
    file: ExperimentFile, topology: Topology, grammar: Grammar, indices: Sequence[LoadIndex] = ()
) -> Iterator[Problem]:
    """Every contradiction, with the path to it. ``indices``: of the load, beside its first, with all their settings."""
    yield from _tags(file.tags)
    yield from durable.check(file.tags, topology)
    yield from _load(file, topology)
    yield from _operations(file, grammar)
    yield from _ids(file, grammar)
    yield from rolled.check(file, grammar)
    yield from rolled.copying(file, topology, indices)
    yield from _controller(file, topology)
    state = _State(topology, grammar.faults, weights=dict(topology.weights) if topology.weights is not None else None)
    state.controlled = file.controller is not None and file.controller.act
    state.rolled = bool(file.load.data_stream or file.load.alias)
    state.several = bool(indices)
    for name, phase in file.phases.items():
        if name == "all":
            yield Problem(("phases", name), 'a phase cannot be named "all", which means every phase', at_key=True)
        yield from _undo(name, phase, state)
        yield from _inject(name, phase, state)
        yield from _do(name, phase, state)
        if phase.during is not None and phase.during.restarts is not None:
            yield from _restarts(phase.during.restarts, ("phases", name, "during", "restarts"), state)
    yield from _expect(file, grammar.declared(file.load.workload))
    yield from decidable.check(file, grammar.declared(file.load.workload), topology, indices)
    yield from notes.check(file.expect)
    yield from _guards(file)
    yield from _slis(file)
    yield from _rates(file)


def _tags(tags: Sequence[str]) -> Iterator[Problem]:
    for index, tag in enumerate(tags):
        if tag in OF_PYTEST:
            yield Problem(("tags", index), f"the tag {tag} is a mark that pytest acts on: expected another word")


def _load(file: ExperimentFile, topology: Topology) -> Iterator[Problem]:
    client = file.load.client
    yield from _zones(client.zones, topology, ("load", "client", "zones"))
    names = [node.name for node in topology.nodes]
    if client.node is not None and client.node not in names:
        yield Problem(("load", "client", "node"), _unknown_node(client.node, topology))
    if not client.verify_health_checks and not topology.security:
        says = f"topology {topology.name} has no certificates: expected security there, or this left out"
        yield Problem(("load", "client", "verify_health_checks"), says)
    for name, given in file.load.every.items():
        if given.good is not None and (late := client.unseen(given.good, given)) is not None:
            yield Problem((*file.load.place(name), "good"), late)


def _zones(zones: Sequence[str] | None, topology: Topology, loc: Loc) -> Iterator[Problem]:
    for index, zone in enumerate(zones or ()):
        if zone not in topology.zones:
            yield Problem((*loc, index), unknown_zone(zone, topology))
        elif zone in (zones or ())[:index]:
            yield Problem((*loc, index), f"zone {zone} is named twice: expected each once")


def _operations(file: ExperimentFile, grammar: Grammar) -> Iterator[Problem]:
    """A workload has the operations that it declares, each of the kinds of request that it declares for it."""
    workload = file.load.workload
    declared = grammar.declared(workload)
    for name, given in file.load.every.items():
        where = file.load.place(name)
        kind = given.operation or (declared[name].usual if name in declared else "")
        request = declared[name].requests.get(kind) if name in declared else None
        if name not in declared and name in file.load.streams:
            of = grammar.streams[name].workload if name in grammar.streams else None
            usual = [kind for kind in grammar.declared(of or workload).values() if kind.name not in grammar.streams]
            kinds = " or ".join([each for kind in usual for each in kind.requests])
            says = f'the workload {of or workload} has no "{given.operation}": expected {kinds}'
            yield Problem((*where, "operation"), says)
        elif name not in declared:
            known = " or ".join(each for each in declared if each not in grammar.streams)
            says = f'the workload {workload} has no operation "{name}": expected {known}'
            yield Problem(where, says, at_key=True)
        elif given.operation is not None and given.operation not in declared[name].requests:
            expected = " or ".join(declared[name].requests)
            says = f'in the workload {workload} a {name} is no "{given.operation}": expected {expected}'
            yield Problem((*where, "operation"), says)
        elif request == "get" and not _before(file, name):
            says = f"a {name} gets documents that are there before, and there are none: expected 1 or more"
            index = file.load.index_of(name)
            yield Problem(("load", "documents") if index is None else ("load", "indices", index, "documents"), says)
        elif (request == "bulk") != (given.items is not None):
            if given.items is None:
                says = f"a {kind} has several documents: expected items, the number in each, for example items: 500"
                yield Problem(where, says, at_key=True)
            else:
                bulks = [each for each, answer in declared[name].requests.items() if answer == "bulk"]
                instead = f"operation: {bulks[0]} beside it, or no items" if bulks else "no items"
                says = f"requests of the kind {kind} write one document each: expected {instead}"
                yield Problem((*where, "items"), says)
        elif given.ids == "automatic" and given.items is None:
            says = "only bulks may leave ids to OpenSearch: expected operation: bulk, or no ids"
            yield Problem((*where, "ids"), says)
        elif given.retry is not None and given.items is None:
            says = "what is sent again is what was rejected of a bulk: expected operation: bulk, or no retry"
            yield Problem((*where, "retry"), says)
        elif (request == "msearch") != (given.searches is not None):
            if given.searches is None:
                says = "an msearch has several searches: expected searches, the number in each, for example searches: 5"
                yield Problem(where, says, at_key=True)
            else:
                says = "only an msearch has several searches: expected operation: msearch beside it, or no searches"
                yield Problem((*where, "searches"), says)
        elif request in PAGED and (given.pages is None or given.size is None):
            says = f"a {kind} goes through pages: expected pages and size, for example pages: 20, size: 100"
            yield Problem(where, says, at_key=True)
        elif request in PAGED and (given.pages or 0) * (given.size or 0) > MOST_PAGED:
            says = f"{given.pages} pages of {given.size}: expected {MOST_PAGED} documents a read at most"
            yield Problem((*where, "pages"), says)
        elif request not in PAGED and (given.pages is not None or given.size is not None):
            says = (
                "only a scroll or a point-in-time goes through pages: expected one of these as operation, or no pages"
            )
            yield Problem((*where, "size" if given.pages is None else "pages"), says)
        elif given.actions is not None and given.items is None:
            says = "only the items of bulks update and delete: expected operation: bulk, or no actions"
            yield Problem((*where, "actions"), says)
        elif given.actions is not None and given.ids == "automatic":
            says = "an item changes a document by its id, which only OpenSearch knows: expected no actions, or no ids"
            yield Problem((*where, "actions"), says)
        elif given.actions is not None and given.client is not None:
            says = f"actions with the helper {given.client.kind} are not there yet: expected one of the two"
            yield Problem((*where, "actions"), says)
        elif given.client is not None:
            yield from _helper(where, given, file, grammar)


def _helper(where: tuple[str, ...], given: OperationFile, file: ExperimentFile, grammar: Grammar) -> Iterator[Problem]:
    """A helper sends bulks, has retries of its own, and cannot run on every client."""
    assert given.client is not None
    kind, loc = given.client.kind, (*where, "client")
    if given.items is None:
        says = f"{kind} sends bulks: expected operation: bulk and items, for example items: 500, or no client here"
        yield Problem(loc, says, at_key=True)
    if given.retry is not None:
        says = f"{kind} sends again by itself: expected max_retries in client, and no retry here"
        yield Problem((*where, "retry"), says, at_key=True)
    if file.load.indices:
        says = f"{kind} in a load of several indices is not there yet: expected no client here, or no indices"
        yield Problem(loc, says, at_key=True)
    known = grammar.helpers[kind].clients
    if file.load.client.kind not in known:
        says = f"{kind} cannot run on a client of the kind {file.load.client.kind}: expected load: {{client: {{kind:"
        yield Problem(loc, f"{says} {' or '.join(known)}}}}}", at_key=True)


def _ids(file: ExperimentFile, grammar: Grammar) -> Iterator[Problem]:
    """Streams name indices that there are, each of which some stream names; and all that write into one leave the ids
    of its documents to the same side."""
    declared = grammar.declared(file.load.workload)
    writers = {name: each for name, each in file.load.every.items() if name in declared and declared[name].writes}
    indices = file.load.indices
    for name, stream in file.load.streams.items():
        if stream.operation == ADMIN and stream.index is not None:
            says = "monitoring calls are of the cluster and no index: expected no index"
            yield Problem((*file.load.place(name), "index"), says)
        if stream.operation != ADMIN and stream.calls is not None:
            says = f"calls are of monitoring, and {name} is no {ADMIN}: expected operation: {ADMIN}, or no calls"
            yield Problem((*file.load.place(name), "calls"), says)
        if stream.index is not None and stream.index not in indices:
            known = did_you_mean(stream.index, indices) if indices else "expected it under load.indices"
            yield Problem((*file.load.place(name), "index"), f'there is no index "{stream.index}": {known}')
    for index in indices:
        if index not in {stream.index for stream in file.load.streams.values()}:
            says = f"no stream reads or writes the index {index}: expected index: {index} of one, or no {index} here"
            yield Problem(("load", "indices", index), says, at_key=True)
    for place in (None, *indices):
        here = {name: each for name, each in writers.items() if file.load.index_of(name) == place}
        yield from _sides(file, here)


def _before(file: ExperimentFile, name: str) -> int:
    """How many documents there are before the load in the index of an operation."""
    index = file.load.indices.get(file.load.index_of(name) or "")
    return file.load.documents if index is None else index.documents


def _sides(file: ExperimentFile, writers: Mapping[str, OperationFile]) -> Iterator[Problem]:
    """Of what writes into one index."""
    left = [name for name, each in writers.items() if each.ids == "automatic"]
    named = [name for name in writers if name not in left]
    if left and named:
        says = f"{left[0]} leaves ids to OpenSearch and {named[0]} names its documents, in one index: "
        yield Problem((*file.load.place(left[0]), "ids"), f"{says}expected the same of all that write")


def _controller(file: ExperimentFile, topology: Topology) -> Iterator[Problem]:
    if file.controller is None:
        return
    yield from _zones(file.controller.zones, topology, ("controller", "zones"))
    if not topology.awareness():
        needs = f"expected {AWARENESS} and {FORCED} in the topology's settings"
        yield Problem(("controller",), f"a failover controller needs zones that the cluster knows: {needs}")


# ------------------------------------------------------------------------------------------- the steps


def _undo(name: str, phase: PhaseFile, state: _State) -> Iterator[Problem]:
    for index, label in enumerate(phase.undo):
        gone = state.active if label == "all" else [f for f in state.active if label in (f.name, f.kind)]
        if not gone:
            labels = dict.fromkeys(fault.label for fault in state.active)
            now = f"active here: {', '.join(labels)}" if labels else "no fault is active here"
            what = "there is nothing to undo" if label == "all" else f"{label} is not active"
            guess = ""
            if label != "all" and label not in state.faults and labels:
                guess = f"; {did_you_mean(label, labels)}" if len(labels) == 1 else ""
            yield Problem(("phases", name, "undo", index), f"{what} in phase {name}: {now}{guess}")
        state.active = [fault for fault in state.active if fault not in gone]


def _inject(name: str, phase: PhaseFile, state: _State) -> Iterator[Problem]:
    if phase.inject is None:
        return
    for kind, index, fault in phase.inject.in_order():
        loc: Loc = ("phases", name, "inject", kind, index)
        problems = [
            problem
            for key, selector in fault.selectors.items()
            for problem in _selector(selector, state.topology, (*loc, key))
        ]
        problems += [Problem(loc, says) for says in fault.check(state.topology)] if not problems else []
        yield from problems
        if fault.name is not None and (fault.name in state.faults or fault.name == "all"):
            yield Problem((*loc, "name"), f'the name "{fault.name}" already means something to undo')
        for other in state.active:
            if fault.name is not None and other.name == fault.name:
                yield Problem((*loc, "name"), f'the name "{fault.name}" is taken by a fault that is still active')
            elif not problems and (both := _both_hold(fault, other, state.topology)):
                yield Problem(loc, f"{other.kind} is still active on {both}: expected it undone first")
        state.active.append(fault)


def _restarts(selector: NodeSelector, loc: Loc, state: _State) -> Iterator[Problem]:
    """Others restart nodes that there are, and none whose process a fault has in hand."""
    problems = list(_selector(selector, state.topology, loc))
    yield from problems
    named = set() if problems else set(candidates(selector, state.topology.nodes))
    for fault in state.active:
        chosen = [each for each in fault.selectors.values() if isinstance(each, NodeSelector)]
        held = {node for each in chosen for node in candidates(each, state.topology.nodes)}
        if not fault.passing and (both := sorted(named & held)):
            yield Problem(
                loc,
                f"{fault.kind} is still active on {both[0]}: that it is another process would say nothing: "
                "expected it undone first",
            )


def _both_hold(one: FaultParams, other: FaultParams, topology: Topology) -> str | None:
    """What both faults would hold, as far as the topology alone can tell; None when nothing."""
    if not (one.fixed and other.fixed):
        same = one.kind == other.kind and one.selectors == other.selectors and one.selectors
        return next(iter(one.selectors.values())).text if same else None
    try:
        common = one.claims(Scene.of(topology, 0, "")) & other.claims(Scene.of(topology, 0, ""))
    except InvalidInput:
        return None
    if not common:
        return None
    rest = f" and {len(common) - 1} more" if len(common) > 1 else ""
    return f"{min(common)}{rest}"


def _selector(selector: NodeSelector | LinkSelector, topology: Topology, loc: Loc) -> Iterator[Problem]:
    """Unknown names, and selectors that match nothing whoever is elected and whatever is drawn."""
    sides = [side for side in selector.sides] if isinstance(selector, LinkSelector) else []
    nodes = [side.nodes for side in sides if side.nodes] if sides else [selector]
    problems = []
    for zone in [side.zone for side in sides] + [chosen.zone for chosen in nodes]:  # type: ignore[union-attr]
        if zone is not None and zone not in topology.zones:
            problems.append(unknown_zone(zone, topology))
    for chosen in nodes:
        assert isinstance(chosen, NodeSelector)
        problems += _names(chosen, topology)
    if not problems:
        problems += _matches(selector, [n for n in nodes if isinstance(n, NodeSelector)], topology)
    yield from (Problem(loc, says) for says in dict.fromkeys(problems))


def _names(chosen: NodeSelector, topology: Topology) -> Iterator[str]:
    if chosen.node is not None and chosen.node not in [node.name for node in topology.nodes]:
        yield _unknown_node(chosen.node, topology)
    for key, value, known in (
        ("role", chosen.role, dict.fromkeys(role for node in topology.nodes for role in node.roles)),
        ("group", chosen.group, dict.fromkeys(node.group for node in topology.nodes)),
    ):
        if value is not None and value not in known:
            yield f"no node of topology {topology.name} has {key} {value}: {did_you_mean(value, known)}"


def _matches(selector: NodeSelector | LinkSelector, chosen: list[NodeSelector], topology: Topology) -> Iterator[str]:
    for nodes in chosen:
        found = candidates(nodes, topology.nodes)
        count = 1 if nodes.elected else len(found)
        if not found:
            yield f"{nodes.text!r} matches no node of topology {topology.name}"
        elif nodes.pick is not None and nodes.pick > count:
            listed = "the elected one" if nodes.elected else ", ".join(found)
            yield f"{nodes.text!r} matches only {count} of topology {topology.name}: {listed}"
        else:
            continue
        return
    for side in selector.sides if isinstance(selector, LinkSelector) else ():
        if side.kind == "service" and side.service not in topology.service_hosts:
            yield f"{side.text!r} matches no host of topology {topology.name}: {_no_service(side.service, topology)}"
            return
    if isinstance(selector, LinkSelector) and not _any_link(selector, topology):
        yield f"{selector.text!r} matches no link of topology {topology.name}: expected hosts at both ends"


def _no_service(name: str | None, topology: Topology) -> str:
    if name in topology.services:
        return f"{name} is a folder, which no network leads to; expected a service of kind s3"
    return no_service(name, topology.service_hosts)


def _any_link(selector: LinkSelector, topology: Topology) -> bool:
    """Whether some election gives it a link. What is drawn is of no matter: a draw has as many nodes."""
    managers = [node.name for node in topology.nodes if "cluster_manager" in node.roles]
    needs = any(side.nodes is not None and side.nodes.elected for side in selector.sides)
    for elected in managers if needs else [None]:
        try:
            resolve_links(
                selector, topology.nodes, topology.zones, topology.service_hosts, elected=elected, rng=random.Random(0)
            )
            return True
        except InvalidInput:
            continue
    return False


def _do(name: str, phase: PhaseFile, state: _State) -> Iterator[Problem]:
    if phase.do is None:
        return
    for kind, _, action in phase.do.in_order():
        loc: Loc = ("phases", name, "do", kind)
        if isinstance(action, Weights):
            yield from _weights(action, state, loc)
        elif isinstance(action, ExcludeVotes):
            yield from _exclude_votes(action, state, loc)
        elif isinstance(action, IncludeVotes):
            if state.voteless is None:
                yield Problem(loc, "no vote is taken away here: expected exclude_votes before", at_key=True)
            state.voteless = None
        elif isinstance(action, Reindex):
            yield from _reindex(action, state, loc)
        elif isinstance(action, OnIndex):
            yield from _on_index(action, state, loc)
        elif isinstance(action, Reroute | RetryFailed):
            continue
        elif isinstance(action, RemoteRestore):
            yield from _remote_restore(state, loc)
        elif isinstance(action, Snapshot):
            yield from _snapshot(action, state, loc)
        elif isinstance(action, Restore):
            yield from _restore(action, state, loc)
        elif action.zone not in state.topology.zones:
            yield Problem((*loc, "zone"), unknown_zone(action.zone, state.topology))
        elif isinstance(action, Decommission):
            yield from _decommission(action, state, loc)
        elif isinstance(action, Recommission):
            yield from _recommission(action, state, loc)


def _weights(action: Weights, state: _State, loc: Loc) -> Iterator[Problem]:
    yield from check_weights(action.weights, state.topology, loc)
    out = state.decommissioned
    if out is not None and action.weights.get(out, 0) != 0:
        yield Problem(
            (*loc, out),
            f"zone {out} is decommissioned here, and OpenSearch keeps its weight at 0: expected a recommission before",
        )
    state.weights = dict(action.weights)


def _decommission(action: Decommission, state: _State, loc: Loc) -> Iterator[Problem]:
    """OpenSearch's preconditions (``DecommissionController``, ``DecommissionService`` of 3.8.0)."""
    zone, topology = action.zone, state.topology
    if not topology.awareness():
        yield Problem(
            loc,
            f"decommission needs forced awareness of the zone, and topology {topology.name} does not set it: "
            f"expected {AWARENESS} and {FORCED} in its settings",
        )
    if state.voteless is not None:
        yield Problem(
            (*loc, "zone"),
            f"the votes of {state.voteless} are taken away here, and a decommission takes and gives back votes by the "
            "same list: expected include_votes before",
        )
    if state.decommissioned is not None:
        yield Problem(
            (*loc, "zone"),
            f"zone {state.decommissioned} is already decommissioned here: "
            "OpenSearch takes one at a time, so expected a recommission before",
        )
    elif state.weights is None:
        yield Problem(
            (*loc, "zone"),
            f"topology {topology.name} sets no weights, and OpenSearch decommissions only a zone whose "
            "weight is 0: expected standby or weights there, or a weights action before that sets it to 0",
        )
    elif state.weights.get(zone, 0) != 0:
        yield Problem(
            (*loc, "zone"),
            f"the weight of zone {zone} is {state.weights[zone]} here, and OpenSearch decommissions only a "
            "zone whose weight is 0: expected a weights action before that sets it to 0",
        )
    state.decommissioned = zone


def _exclude_votes(action: ExcludeVotes, state: _State, loc: Loc) -> Iterator[Problem]:
    """Of cluster managers that there are, some keep their votes; and they can be given back, which OpenSearch does for
    all nodes at once (``TransportClearVotingConfigExclusionsAction`` of 3.8.0)."""
    target, topology, where = action.target, state.topology, (*loc, "target")
    problems = list(_selector(target, topology, where))
    yield from problems
    if not problems:
        managers = {node.name for node in topology.nodes if node.is_cluster_manager}
        named = candidates(target, topology.nodes)
        without = [name for name in named if name not in managers]
        if without:
            says = f"{', '.join(without)} is no cluster manager and has no vote: expected cluster managers alone"
            yield Problem(where, f"{says}, for example 'node {min(managers)}'")
        elif managers <= set(named) and (not target.elected or len(managers) == 1):
            yield Problem(where, f"{target.text!r} names every cluster manager: expected one at least that votes")
    if state.voteless is not None:
        says = f"the votes of {state.voteless} are taken away already here, and votes are given back all at once"
        yield Problem(loc, f"{says}: expected include_votes before", at_key=True)
    if state.decommissioned is not None:
        says = f"zone {state.decommissioned} is decommissioned here, and its recommission gives all votes back"
        yield Problem(loc, f"{says}: expected a recommission before", at_key=True)
    if state.controlled:
        says = "failover controllers decommission zones, and what they take back gives all votes back"
        yield Problem(loc, f"{says}: expected no controller that acts", at_key=True)
    state.voteless = target.text


def _reindex(action: Reindex, state: _State, loc: Loc) -> Iterator[Problem]:
    if state.rolled:
        yield Problem(
            loc, "a data stream or an alias is several indices: expected a load with one to copy", at_key=True
        )
    if state.copied:
        yield Problem(loc, "the load's index was copied before, under the same name: expected one reindex", at_key=True)
    state.copied = True
    yield from check_index(action.settings, (*loc, "settings"))
    for problem in check_copies(with_settings(state.topology, short_names(action.settings))):
        yield Problem((*loc, "settings"), problem.says)


def _on_index(action: OnIndex, state: _State, loc: Loc) -> Iterator[Problem]:
    """An index is made once, and closed, opened and deleted as it is then."""
    name, where = action.index, (*loc, "index")
    now = state.made.get(name)
    if isinstance(action, IndexCreate):
        if now is not None:
            yield Problem(where, f"the index {name} is made already: expected another name, or index_delete before")
        yield from check_index(action.settings, (*loc, "settings"))
        whole = with_settings(state.topology, short_names(action.settings))
        yield from (Problem((*loc, "settings"), each.says) for each in check_copies(whole))
        state.made[name] = "open"
        return
    if now is None:
        says = f"no index {name} is made here: expected index_create before"
        yield Problem(where, f"{says}; the load's index, and others', are not touched")
        return
    if isinstance(action, IndexClose | IndexOpen) and now == ("open" if isinstance(action, IndexOpen) else "closed"):
        yield Problem(where, f"the index {name} is {now} already: expected this left out")
    if isinstance(action, IndexDelete):
        del state.made[name]
    else:
        state.made[name] = "closed" if isinstance(action, IndexClose) else "open"


def _one_index(state: _State, loc: Loc) -> Iterator[Problem]:
    """What is restored is the load's first index, by its name."""
    if state.rolled:
        says = "a data stream or an alias is several indices: expected a load with one"
        yield Problem(loc, says, at_key=True)
    elif state.several:
        yield Problem(loc, "the load has indices beside its first: expected a load with one", at_key=True)


def _remote_restore(state: _State, loc: Loc) -> Iterator[Problem]:
    yield from _one_index(state, loc)
    if state.topology.remote_store is None:
        says = f"topology {state.topology.name} has no remote store: expected remote_store there"
        yield Problem(loc, says, at_key=True)


def _snapshot(action: Snapshot, state: _State, loc: Loc) -> Iterator[Problem]:
    yield from _one_index(state, loc)
    services, name = state.topology.services, state.topology.name
    if not services:
        says = f"topology {name} has no service that could keep a snapshot: expected services: {{store: fs}} there"
        yield Problem(loc, says, at_key=True)
    elif action.service is None and len(services) > 1:
        yield Problem(loc, f"topology {name} has {len(services)} services: expected service, one of them", at_key=True)
    elif action.service is not None and action.service not in services:
        says = f"topology {name} has no service {action.service}: {did_you_mean(action.service, services)}"
        yield Problem((*loc, "service"), says)
    if action.shallow and state.topology.remote_store is None:
        says = f"topology {name} has no remote store, to whose segments it would refer: expected shallow left out"
        yield Problem((*loc, "shallow"), says)
    if action.name in state.snapshots:
        yield Problem((*loc, "name"), f"a snapshot {action.name} was taken before: expected another name")
    state.snapshots.setdefault(action.name, False)


def _restore(action: Restore, state: _State, loc: Loc) -> Iterator[Problem]:
    if action.name not in state.snapshots:
        known = did_you_mean(action.name, state.snapshots) if state.snapshots else "expected snapshot before"
        yield Problem((*loc, "name"), f"no snapshot {action.name} was taken here: {known}")
    elif state.snapshots[action.name]:
        yield Problem((*loc, "name"), f"the snapshot {action.name} was restored before: expected it once")
    state.snapshots[action.name] = True


def _recommission(action: Recommission, state: _State, loc: Loc) -> Iterator[Problem]:
    if state.decommissioned != action.zone:
        now = f"zone {state.decommissioned} is" if state.decommissioned else "no zone is"
        yield Problem(
            (*loc, "zone"),
            f"zone {action.zone} is not decommissioned here ({now}): expected a decommission of it before",
        )
    state.decommissioned = None


# ------------------------------------------------------------------------------- expectations, guards


def _expect(file: ExperimentFile, declared: Mapping[str, OperationKind]) -> Iterator[Problem]:
    loads = list(file.load.operations)
    seen: dict[tuple[str, str, str], int] = {}
    for index, given in enumerate(file.expect):
        metric = given.metric
        loc: Loc = ("expect", index)
        op = given.grammar.operation
        if op is not None and op in file.load.closed:
            place = ".".join(file.load.place(op))
            says = f"{metric} is of an open loop, and {place} is a closed one: expected rate and good there, or"
            yield Problem((*loc, metric), f"{says} documents.acknowledged here", at_key=True)
        elif op is not None and op not in loads:
            yield Problem(
                (*loc, metric),
                f"{metric} needs a {op} load, and there is none: expected load.{op}, or a metric of "
                f"{' or '.join(loads)}",
                at_key=True,
            )
        needs = given.grammar.needs
        if needs and not any(getattr(file.load, name) for name in needs):
            wanted = " or ".join(f"load.{name}" for name in needs)
            yield Problem((*loc, metric), f"{metric} needs what is not in the load: expected {wanted}", at_key=True)
        if metric in OF_HELPERS and not any(
            each.client for each in [*file.load.operations.values(), *file.load.closed.values()]
        ):
            says = f"{metric} is about what a helper of a client library tells, and no stream has one: expected client"
            yield Problem(
                (*loc, metric), f"{says} in a stream of bulks, for example {{kind: helpers.bulk}}", at_key=True
            )
        phases = given.phase
        known = [*file.phases, "all"]
        bad = [phase for phase in phases if phase not in known]
        for position, phase in enumerate(phases):
            if phase in bad:
                yield Problem((*loc, "phase", position), f'there is no phase "{phase}": {did_you_mean(phase, known)}')
        if bad:
            continue
        judged = judged_in(given, file)
        if metric == "cluster.recovered":
            yield from _recovered(judged, phases, file, loc)
        if metric.startswith("recovery."):
            yield from _recovery(metric, judged, file, loc, declared)
        text = given.wanted.text
        for phase in judged if not given.grammar.whole_run else ("",):
            first = seen.setdefault((metric, phase, text), index)
            if first != index:
                where = f" in phase {phase}" if phase else ""
                yield Problem(loc, f"{metric} {text}{where} is already expectation {first + 1}: expected it once")


def _recovered(judged: tuple[str, ...], phases: tuple[str, ...], file: ExperimentFile, loc: Loc) -> Iterator[Problem]:
    if not judged:
        yield Problem(
            loc,
            "cluster.recovered counts from a phase's undo, and no phase undoes anything: expected a phase with undo",
        )
    for position, phase in enumerate(phases):
        if phase != "all" and not file.phases[phase].undo:
            yield Problem(
                (*loc, "phase", position),
                f"cluster.recovered counts from a phase's undo, and phase {phase} undoes nothing: "
                "expected a phase with undo",
            )


def _recovery(
    metric: str, judged: tuple[str, ...], file: ExperimentFile, loc: Loc, declared: Mapping[str, OperationKind]
) -> Iterator[Problem]:
    """A step of a recovery has a start to count from, and the load that it is seen by."""
    given = {name: file.phases[name] for name in judged}
    if not given:
        yield Problem(
            loc, f"{metric} counts from a phase's first command, and no phase commands anything: expected one that does"
        )
    for name, phase in given.items():
        if not (phase.undo or phase.inject or phase.do or phase.during):
            yield Problem(
                loc,
                f"{metric} counts from a phase's first command, and phase {name} commands nothing: "
                "expected a phase with inject, undo, do or during",
            )
    writers = [kind.name for kind in declared.values() if kind.writes]
    closed = [name for name in file.load.closed if name in writers]
    first = {name: each for name, each in file.load.operations.items() if file.load.index_of(name) is None}
    opened = {name: each for name, each in first.items() if name in writers}
    if metric == "recovery.first_writes" and closed and not opened:
        place = ".".join(file.load.place(closed[0]))
        says = f"{metric} is of an open loop, and {place} is a closed one: expected rate and good there"
        yield Problem((*loc, metric), says, at_key=True)
    elif metric == "recovery.first_writes" and not opened:
        wanted = " or ".join(f"load.{name}" for name in writers) or "a workload that writes"
        yield Problem((*loc, metric), f"{metric} needs a write load, and there is none: expected {wanted}", at_key=True)
    elif metric == "recovery.first_writes" and all(each.items for each in opened.values()):
        says = f"{metric} is of requests that write one document each, for a bulk goes to all shards at once: expected"
        yield Problem((*loc, metric), f"{says} documents.acknowledged, or no operation: bulk", at_key=True)


def _guards(file: ExperimentFile) -> Iterator[Problem]:
    timed = Duration(sum(phase.for_ for phase in file.phases.values() if phase.for_ is not None))
    if timed > file.guards.max:
        where: Loc = ("guards", "max") if "max" in file.guards.model_fields_set else ("phases",)
        yield Problem(
            where,
            f"the phases with `for` take {timed.text}, and guards.max ends the run after "
            f"{file.guards.max.text}: expected more than {timed.text}",
        )
        return
    waited = {name: phase.during for name, phase in file.phases.items() if phase.during is not None}
    if waited and (all_of_it := Duration(timed + sum(each.within for each in waited.values()))) > file.guards.max:
        where = ("guards", "max") if "max" in file.guards.model_fields_set else ("phases", next(iter(waited)), "during")
        yield Problem(
            where,
            f"what is waited for in {', '.join(waited)} may take until {all_of_it.text} into the phases, and "
            f"guards.max ends the run after {file.guards.max.text}: expected more there, or a shorter `within`",
        )
    for operation in file.guards.floors:
        if operation not in file.load.operations:
            yield Problem(
                ("guards", f"{operation}.good"),
                f"the load has no {operation}s to guard: expected load.{operation}, or no {operation}.good here",
            )


def _slis(file: ExperimentFile) -> Iterator[Problem]:
    """An SLI is expected or guarded, a guard names one that there is, and a phase has room for its answers."""
    used = set(file.guards.sli)
    for name in file.guards.sli:
        if name not in file.slis:
            yield Problem(("guards", "sli", name), f"there is no SLI {name}: {_known(name, file.slis)}", at_key=True)
        elif file.guards.sli[name].firing and file.slis[name].rules is None:
            says = "firing is of alert rules, and this SLI has a query: expected above or below, with for"
            yield Problem(("guards", "sli", name, "firing"), says, at_key=True)
    for index, given in enumerate(file.expect):
        if (parted := slis.parted(given.metric)) is None:
            continue
        used.add(parted[0])
        if why := _of_alerts(given, parted[1], file.slis[parted[0]]):
            yield Problem(("expect", index, given.metric), why, at_key=True)
            continue
        room = slis.INTERVALS * file.slis[parted[0]].every
        for phase in judged_in(given, file):
            lasts = file.phases[phase].for_ if phase in file.phases else None
            if lasts is not None and lasts < room:
                says = f"phase {phase} lasts {lasts.text}, and {given.metric} needs {slis.INTERVALS} answers"
                says += f", one every {file.slis[parted[0]].every.text}: expected {Duration(room).text} or more"
                yield Problem(("expect", index, given.metric), says, at_key=True)
    for name in file.slis:
        if name not in used:
            says = (
                f"nobody asks for the SLI {name}: expected {slis.metric(name, slis.QUANTITIES[0])} in expect, a guard"
            )
            yield Problem(("slis", name), f"{says}, or no {name} here", at_key=True)


def _of_alerts(given: ExpectationFile, quantity: str, sli: slis.Sli) -> str | None:
    """Why an SLI cannot be asked this; None where it can."""
    if quantity in slis.OF_ALERTS and sli.rules is None:
        return f"{given.metric} is of alert rules, and this SLI has a query: expected .{', .'.join(slis.QUANTITIES)}"
    if quantity == slis.FIRES and given.wanted.comparison not in ("<", "<="):
        never = given.metric.removesuffix(slis.FIRES) + slis.FIRING
        return f"{given.metric} {given.wanted.text} sets no latest moment: expected <= with a time, or {never}: 0"
    return None


def _known(name: str, known: Mapping[str, object]) -> str:
    return did_you_mean(name, known) if known else "expected it under slis"


def _rates(file: ExperimentFile) -> Iterator[Problem]:
    """A rate is of a fault that this experiment injects, and the faults of one phase are one event."""
    phases = {
        name: list(dict.fromkeys(step.label for _, _, step in phase.inject.in_order()))
        for name, phase in file.phases.items()
        if phase.inject is not None
    }
    known = list(dict.fromkeys(label for labels in phases.values() for label in labels))
    for label in file.rates:
        if label not in known:
            hint = did_you_mean(label, known) if known else "expected no rates, because nothing is injected"
            yield Problem(("rates", label), f"no phase injects {label}: {hint}", at_key=True)
    for name, labels in phases.items():
        rated = [label for label in labels if label in file.rates]
        if len(rated) > 1:
            yield Problem(
                ("rates", rated[1]),
                f"{' and '.join(rated)} begin together in phase {name}, so they are one event: expected one rate",
                at_key=True,
            )


def _unknown_node(name: str, topology: Topology) -> str:
    return (
        f"node {name} is not in topology {topology.name}: {did_you_mean(name, [node.name for node in topology.nodes])}"
    )
