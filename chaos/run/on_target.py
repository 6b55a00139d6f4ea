"""What a run on a cluster that is not ours does beside: it asks before each step, keeps notes there, and is kept.

Before every phase changes anything the target's file is read anew and the cluster looked at: it is the one that the
file names, the file still allows it, nobody has left but whom we hit, and with all that is in effect a majority and a
copy of everything stay. What is not so, or cannot be known, ends the run: undone, exit code 4.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from chaos.base.errors import ChaosError, FaultError, InvalidInput, LabError, Lacking
from chaos.base.logs import LOG
from chaos.base.operations import OF_LIBRARY
from chaos.checks import instruments
from chaos.definitions import Experiment, Topology
from chaos.definitions.actions import ExcludeVotes
from chaos.definitions.existing import Existing, ExistingFile, load_existing, today
from chaos.definitions.experiment import Operation
from chaos.definitions.selectors import NodeSelector, candidates
from chaos.faults.effects import not_back
from chaos.faults.fault import Fault
from chaos.faults.holding import facts, told
from chaos.faults.kinds.node import NodeDrain, NodeIsolation
from chaos.faults.moves import Move, Reversible, apply_moves
from chaos.faults.offers import Offers
from chaos.kubernetes import rights
from chaos.kubernetes.seen import Seen as SeenPods
from chaos.kubernetes.seen import selects
from chaos.load import drivers
from chaos.opensearch import canaries
from chaos.opensearch.administration import explicit_settings, reading
from chaos.opensearch.foreign import CANARY
from chaos.opensearch.views import administer
from chaos.run import plan, reaching, shape
from chaos.run.helping import END, MAKE, end_helpers
from chaos.run.keeper import PATIENCE_SECONDS, Keeper
from chaos.run.noted import OPEN, NotedLedger, Notes, now, opening
from chaos.run.options import ID_BYTES
from chaos.run.pods_of_others import OthersOnPods
from chaos.targets.existing import compare
from chaos.targets.existing.compare import Row, Sign
from chaos.targets.existing.helpers import all_labels_of
from chaos.targets.existing.pods import Pods, unfit
from chaos.targets.existing.seen import Seen, elsewhere, seen_of
from chaos.targets.existing.target import ExistingTarget

RENEW_SECONDS = 5.0
LEASE_SECONDS = 45.0
"""How long after it last said so on the cluster a run may be taken for alive there: so long its failover controllers
go on. In a zone that is lost the notes have a copy, so saying it may take as long as the cluster needs to give that
up."""
TEMPLATES = (
    "/_cluster/state/metadata?filter_path=metadata.templates.*.index_patterns,metadata.index_template.index_template"
)
BY_HOOK = "hook.inject"
"""The move that programs of the cluster's owners are asked to make."""
LEAST_LOOKS = 5
"""Gets and searches without which it is not known when a node finds a document: two, and three."""


def index_of(run: str, prefix: str) -> str:
    """The load's index of a run, which has the run's name in it. ``prefix``: as the target's file has it."""
    return f"{prefix}{run.rsplit('-', 1)[1]}-load"


def balancer(zone: str) -> str:
    """How the record names a zone's own load balancer, among those whom clients ask."""
    return f"balancer-{zone}"


def most_requests(experiment: Experiment) -> float:
    """Requests per second that the load makes at most, but for those that look for documents of visibility.

    A bulk counts as its documents, an msearch as its searches, and a read through pages as its pages and what opens and
    frees it: a cap was agreed on for requests of one document. A compare-and-set is a get and a write; a client that
    tries again makes each request that often, and so does a helper.
    """
    load = experiment.load
    tries = load.client.attempts
    rate = sum(
        each.most
        * each.items
        * each.searches
        * (each.pages + 2 if each.pages else 1)
        * (1 + _again(each))
        * (OF_LIBRARY if each.client else tries)
        for each in load.operations
    )
    rate += 2 * float(load.cas.rate) * tries if load.cas is not None else 0.0
    return rate + (float(load.visibility.rate) * tries if load.visibility is not None else 0.0)


def _again(operation: Operation) -> int:
    """How often what was rejected of a bulk is sent again at most."""
    if operation.client is not None:
        return operation.client.max_retries
    return 0 if operation.retry is None else operation.retry.times


def looking(experiment: Experiment) -> float:
    """Documents per second that are looked for, on each data node."""
    load = experiment.load
    return 0.0 if load.visibility is None else float(load.visibility.rate) * len(experiment.topology.data_nodes)


def most_looks(experiment: Experiment, target: Existing) -> float | None:
    """What the cap leaves for looking for them: so many gets and searches per second, and no more. None: no cap."""
    caps = target.written.caps
    return None if caps is None else float(caps.requests) - most_requests(experiment)


def refused_caps(experiment: Experiment, target: Existing) -> list[Row]:
    """What the experiment's load would put on the cluster beyond what the file allows."""
    caps, load, topology = target.written.caps, experiment.load, experiment.topology
    if caps is None:
        says = "the file has no caps, so no load is allowed"
        return [Row("caps", Sign.BLOCKS, says, "agree on them: caps: {requests: 200/s, documents: 10000, copies: 9}")]
    if load.closed:
        names = ", ".join(f"load.{each.name}" for each in load.closed)
        says = f"{names} is a closed loop, whose requests per second depend on the cluster, so no cap can be held"
        return [Row("caps", Sign.BLOCKS, says, "give it a rate and an objective instead of clients")]
    if apart := drivers.apart(load):
        says = f"load.{apart[0]} is sent by a driver whose connections do not ask whose cluster answers"
        return [Row("client", Sign.BLOCKS, says, "use a helper that is not asynchronous, for example helpers.bulk")]
    if load.indices:
        names = ", ".join(f"load.indices.{each.name}" for each in load.indices)
        says = f"{names}: on a cluster that is not ours a load has one index, whose copies and documents the caps bound"
        return [Row("caps", Sign.BLOCKS, says, "let its streams use the load's first index")]
    if load.rolled is not None:
        says = "the load's index is a data stream or an alias, and on a cluster that is not ours it is one index"
        return [Row("caps", Sign.BLOCKS, says, "leave data_stream, alias and rollover out")]
    if experiment.programs:
        says = f"the program {next(iter(experiment.programs))} sends what no cap of ours can hold"
        return [Row("caps", Sign.BLOCKS, says, "leave programs out, or run this on a lab")]
    rate = most_requests(experiment) + LEAST_LOOKS * looking(experiment)
    copies = shape.most_copies(experiment)
    if experiment.controller is not None:
        copies += canaries.COPIES * len(canaries.canaries(topology))
    wrong = [
        Row("caps", Sign.BLOCKS, f"{what} {asked:g}, and the file allows {allowed:g}", "ask for less, or agree on more")
        for what, asked, allowed in (
            ("requests per second:", rate, float(caps.requests)),
            ("documents:", load.documents, caps.documents),
            ("copies of shards:", copies, caps.copies),
        )
        if asked > allowed
    ]
    return wrong


def refused_ways(experiment: Experiment, target: Existing) -> list[Row]:
    """What a run needs of the file beyond what a plan does, and what no run there can have yet."""
    file = target.written
    rows = []
    without = [name for name, node in file.nodes.items() if node.url is None]
    if without and not file.by_doors:
        says = f"{', '.join(without[: compare.LISTED])} {'has' if len(without) == 1 else 'have'} no url"
        remedy = "write under nodes where each node itself is reached, or of none, to go through the endpoints"
        rows.append(Row("addresses", Sign.BLOCKS, says, remedy))
    if file.notes is None:
        says = "the file names no index for notes of what is about to be changed"
        rows.append(Row("notes", Sign.BLOCKS, says, "agree on one with the cluster's owners: notes: .opensearch-chaos"))
    if experiment.controller is not None and file.by_doors:
        says = "failover controllers ask each node itself, and none is reached by itself"
        rows.append(Row("controller", Sign.BLOCKS, says, "give each node its url, or leave them out (--no-controller)"))
    if file.ways_in:
        rows += _refused_past_balancers(experiment, file)
    return rows


def _refused_past_balancers(experiment: Experiment, file: ExistingFile) -> list[Row]:
    """What clients that go through the cluster's own load balancers, or its endpoints, cannot do."""
    rows, load = [], experiment.load
    what = "load balancers" if file.load_balancers else "endpoints"
    past = "leave them out of the file" if file.load_balancers else "give each node its url"
    if without := [zone for zone in experiment.client_zones if zone not in file.ways_in]:
        says = f"clients of zone {', '.join(without)} have no load balancer in the file"
        rows.append(Row(what, Sign.BLOCKS, says, "name one for each zone that has clients, or none at all"))
    if load.client.kind == "pinned":
        says = f"a client that is pinned to a node goes past the {what}"
        rows.append(Row(what, Sign.BLOCKS, says, f"{past}, or choose another client"))
    if experiment.controller is not None and experiment.controller.steer:
        says = f"no failover controller steers clients that go through the {what} of others"
        rows.append(Row(what, Sign.BLOCKS, says, f"controller: {{steer: false}}, or {past}"))
    if load.visibility is not None:
        says = f"visibility is looked for on each node, past the {what}"
        rows.append(Row(what, Sign.BLOCKS, says, f"{past}, or leave visibility out"))
    return rows


SSH, HELPER, FIS, DOMAIN, KUBERNETES = "ssh", "helper", "fis", "domain", "kubernetes"
"""The providers that work on hosts, beside pods, by AWS FIS, by Amazon OpenSearch Service, and on pods."""
DOMAIN_REMEDY = "see docs/domain.md: what AWS asks for"
FIS_WATCH_SECONDS = 3.0
LOOKS_SECONDS = 30.0
"""What looks before and after a phase add to it."""
HOST_REMEDY = "see there: sudo oschaos-host facts; what may be done stands in /etc/oschaos-host.json"
STRICT = "cluster.routing.weighted.strict"


def refused_copies(target: Existing, seen: Seen) -> list[Row]:
    """Whether copies could not be read one by one in the end: without that nobody knows what was lost."""
    if not target.written.by_doors or not seen.weights or (seen.settings or {}).get(STRICT) == "false":
        return []
    says = "while zones have weights the cluster lets nobody name the node that is to answer, so no copy could be read"
    return [Row("read-back", Sign.BLOCKS, says, "give each node its url, or take the weights away")]


def any_index(prefix: str) -> str:
    """The name of the load's index of a run that has no name yet: :data:`DIGIT` is any digit that it may have."""
    return index_of(f"run-{DIGIT * 2 * ID_BYTES}", prefix)


def refused_templates(target: ExistingTarget, index: str, prefix: str) -> list[Row]:
    """Templates of others that would catch an index of ours, whose name begins with ``prefix``, or that could: see
    :func:`any_index`. Raises LabError.

    Of those of the new kind the one with the highest priority holds; those of the old kind (``_template``) hold where
    none of the new kind catches the index, be it empty (``MetadataIndexTemplateService``, OpenSearch 3.8.0).
    """
    status, answer = administer(target, "GET", TEMPLATES, timeout=20.0)
    if status != 200:
        raise LabError(f"asking which templates there are answered {status}: {str(answer)[:300]}")
    with reading("the list of templates"):
        known = answer.get("metadata", {})
        new = _catching(known.get("index_template", {}).get("index_template", {}), index)
        old = _catching(known.get("templates", {}), index)
        names = []
        for name, holds in sorted(new.items(), key=lambda each: -int(each[1].get("priority", 0))):
            given = any((holds.get("template") or {}).values())
            if given or holds.get("composed_of") or "data_stream" in holds:
                names.append(name)
            if _catching({name: holds}, index.replace(DIGIT, NO_DIGIT)):  # whatever the digits: no other one holds
                break
        else:
            names += sorted(old)
    if not names:
        return []
    says = f"a template of yours would catch {prefix}*: {', '.join(names[: compare.LISTED])}"
    remedy = f"keep it from indices whose names begin with {prefix}, or have an empty index template for them"
    return [Row("templates", Sign.BLOCKS, says, remedy)]


DIGIT, NO_DIGIT = "\0", "\1"
HEXADECIMAL = frozenset("0123456789abcdef")


def _catching(templates: Mapping[str, Any], index: str) -> dict[str, Any]:
    """Those of which a pattern is the name of this index, or can be: * is any text."""
    caught = {name for name, each in templates.items() if any(can_be(p, index) for p in each["index_patterns"])}
    return {name: templates[name] for name in caught}


def can_be(pattern: str, index: str) -> bool:
    """Whether a template's pattern catches an index of this name, with some digits where it has :data:`DIGIT`."""
    reached = {0}  # how much of the name the pattern's beginning may have taken
    for character in pattern:
        if character == "*":
            reached = set(range(min(reached), len(index) + 1)) if reached else reached
        else:
            reached = {
                at + 1
                for at in reached
                if at < len(index) and (index[at] == character or (index[at] == DIGIT and character in HEXADECIMAL))
            }
    return len(index) in reached


def refused_canaries(target: ExistingTarget, topology: Topology) -> list[Row]:
    """What keeps failover controllers of ours away: templates that would catch their canaries, as the cluster itself
    says, and canaries that are there, which are of controllers of somebody else's. Raises LabError."""
    rows = []
    for name in canaries.canaries(topology):
        if explicit_settings(target, name) is not None:
            says, remedy = f"the index {name} is there", "end the failover controllers that made it, and delete it"
            rows.append(Row("controller", Sign.BLOCKS, f"{says}: failover controllers of others run there", remedy))
            break
    first = next(iter(canaries.canaries(topology)), None)
    return rows + (refused_templates(target, first, f"{CANARY}-") if first is not None else [])


def refused_beside(target: ExistingTarget) -> list[Row]:
    """Another run that is under way there, or that left its notes. Raises LabError."""
    if (held := under_way(target)) or (notes := _notes_of(target)) is None:
        return held
    left = ", ".join(notes.standing())
    return [Row("another run", Sign.BLOCKS, f"run {left} has left something there", _wait(target))] if left else []


def lasts(experiment: Experiment, each: plan.Planned) -> float:
    """Seconds from the begin of a fault to its undo, at most."""
    names = [phase.name for phase in experiment.phases]
    seconds = 0.0
    for number, phase in enumerate(experiment.phases[names.index(each.phase) :]):
        if number and ("all" in phase.undo or each.params.label in phase.undo):
            break
        seconds += float(phase.longest) + LOOKS_SECONDS
    return seconds


def faults_by(provider: str, experiment: Experiment, offers: Offers) -> list[plan.Planned]:
    """The experiment's faults that this provider makes."""
    return [each for each in plan.faults(experiment) if offers.meant(each.params.kind).provider == provider]


def refused_hosts(target: ExistingTarget, experiment: Experiment, seed: int, offers: Offers) -> list[Row]:
    """Hosts that do not prove that they are what the file says, or that cannot do what the experiment asks of them."""
    asked: dict[str, set[str]] = {}
    held: dict[str, float] = {}
    for each in faults_by(SSH, experiment, offers):
        fault = plan.preview(each, experiment, seed, target.wiring, offers)
        if fault is None:  # only the moment decides whom it hits
            for node in target.hosts.of_nodes:
                asked.setdefault(node, set())
            continue
        for both in fault.moves:
            if both.move.operation == "host.begin":
                node = both.move.arguments["node"]
                asked.setdefault(node, set()).add(both.move.arguments["intent"])
                passing = 0.0 if each.params.passing else lasts(experiment, each)
                held[node] = max(held.get(node, 0.0), passing)

    def ask(node: str) -> list[Row]:
        try:
            told = target.on_host(node)
        except ChaosError as error:
            return [Row("host", Sign.BLOCKS, error.message, error.remedy or "")]
        host = target.hosts.of_nodes[node]
        whys = [(intent, told["intents"].get(intent, "its program knows no such intent")) for intent in asked[node]]
        says = [f"{host}: {intent} of {node} cannot be had: {why}" for intent, why in sorted(whys) if why]
        if (longest := held.get(node, 0.0)) > told["longest"]:
            says.append(
                f"{host}: a fault of {node} may last {longest:.0f} s, and {told['longest']} s are allowed there"
            )
        return [Row("host", Sign.BLOCKS, each, HOST_REMEDY) for each in says]

    try:
        with ThreadPoolExecutor(16) as pool:
            return [row for rows in pool.map(ask, sorted(asked)) for row in rows]
    finally:
        target.hosts.close()


def refused_fis(target: ExistingTarget, experiment: Experiment, offers: Offers) -> list[Row]:
    """What keeps AWS FIS from making the experiment's faults: asked of AWS by reading alone."""
    mine = faults_by(FIS, experiment, offers)
    if not mine or target.fis is None:
        return []
    rows = []
    if (lasting := max(lasts(experiment, each) for each in mine)) > target.fis.file.lasting:
        says = f"a fault may last {lasting:.0f} s, and FIS would end it after {target.fis.file.lasting:.0f} s"
        rows.append(Row("AWS FIS", Sign.BLOCKS, says, "hold it for less, or write a longer `longest` under fis"))
    nodes = [node.name for node in target.topology.nodes]
    try:
        problems = target.fis.not_ready(lambda path: administer(target, "GET", path), nodes)
    except ChaosError as error:
        return [
            *rows,
            Row("AWS FIS", Sign.BLOCKS, error.message, error.remedy or "see: opensearch-chaos fis preflight"),
        ]
    return [*rows, *(Row("AWS FIS", Sign.BLOCKS, says, "see: opensearch-chaos fis preflight") for says in problems)]


def refused_domain(target: ExistingTarget, experiment: Experiment, offers: Offers) -> list[Row]:
    """What keeps Amazon OpenSearch Service from making the experiment's faults: asked of AWS by reading alone."""
    if not faults_by(DOMAIN, experiment, offers) or target.domain is None:
        return []
    try:
        problems = target.domain.not_ready()
    except ChaosError as error:
        return [Row("the domain", Sign.BLOCKS, error.message, error.remedy or DOMAIN_REMEDY)]
    return [Row("the domain", Sign.BLOCKS, says, DOMAIN_REMEDY) for says in problems]


ANY_RUN = "run"
"""In place of the name of a run that has none yet."""
IN_PODS = ("network.", "node.dns_")
"""Kinds that helper pods make in the network of a pod begin so."""
POLICY_REMEDY = "let its owners apply what opensearch-chaos kubernetes policy prints"


def of_pods(experiment: Experiment, offers: Offers) -> set[str]:
    """What of :data:`chaos.kubernetes.rights.OF_KINDS` the experiment's faults on pods are."""
    found = set()
    for each in faults_by(KUBERNETES, experiment, offers):
        how = getattr(each.params, "how", None)
        found.add(f"{each.params.kind} {how}" if f"{each.params.kind} {how}" in rights.OF_KINDS else each.params.kind)
    beside = [each.params.kind for each in faults_by(HELPER, experiment, offers)]
    return found | {kind for kind in beside if kind in rights.OF_KINDS} | ({rights.HELPER} if beside else set())


def hit_beside(target: ExistingTarget, experiment: Experiment, seed: int, offers: Offers) -> list[str]:
    """The nodes whose pods need a helper beside them; all, where only the moment decides whom a fault hits."""
    found: set[str] = set()
    for each in faults_by(HELPER, experiment, offers):
        fault = plan.preview(each, experiment, seed, target.wiring, offers)
        if fault is None:
            return sorted(node.name for node in target.topology.nodes)
        found |= {both.move.arguments["node"] for both in fault.moves if both.move.operation == "host.begin"}
    return sorted(found)


def refused_pods(target: ExistingTarget, experiment: Experiment, seed: int, offers: Offers) -> list[Row]:
    """What keeps Kubernetes from making the experiment's faults: asked by reading alone."""
    mine = faults_by(KUBERNETES, experiment, offers)
    beside = faults_by(HELPER, experiment, offers)
    if target.pods is None or not (mine or beside):
        return []
    file = target.pods.file
    asked = rights.needed(file.namespace, of_pods(experiment, offers), forward=file.forward is not None)
    try:
        seen = target.pods.look()
        lacking = rights.missing(target.pods.client, file.namespace, asked)
    except ChaosError as error:
        return [Row("Kubernetes", Sign.BLOCKS, error.message, error.remedy or "check the network and the kubeconfig")]
    rows = [Row("rights", Sign.BLOCKS, f"not allowed: {each.says} ({each.why})", POLICY_REMEDY) for each in lacking]
    if beside and seen.enforced not in (None, "privileged"):
        says = f"namespace {file.namespace} takes no privileged pods (Pod Security {seen.enforced}), and helpers are"
        rows.append(Row("helper pods", Sign.BLOCKS, says, "choose faults that need no helper (docs/kubernetes.md)"))
    if beside:
        with suppress(Lacking, InvalidInput):  # the plan refuses it
            hit = [target.pods.of_nodes[node] for node in hit_beside(target, experiment, seed, offers)]
            rows += _refused_by_budgets(seen, hit)
    for each in mine:
        for nodes in _ended(each, target, experiment, seed, offers):
            for node in nodes:
                pod = seen.pods.get(target.pods.of_nodes[node])
                if pod is not None and (why := unfit(pod, each.params.kind)) is not None:
                    rows.append(Row(each.params.kind, Sign.BLOCKS, why, "choose another kind, or other nodes"))
            if isinstance(each.params, NodeDrain):
                rows += _refused_machines(target.pods, seen, nodes, each.params)
            if getattr(each.params, "how", "") == "orderly" or isinstance(each.params, NodeDrain):
                rows += _refused_twice(seen, [target.pods.of_nodes[node] for node in nodes])
                at_once = 1 if getattr(each.params, "rolling", False) else len(nodes)
                rows += _refused_evictions(seen, {target.pods.of_nodes[node] for node in nodes}, at_once)
    shared = [pod.name for pod in seen.pods.values() if pod.of_machine]
    for each in beside:
        if shared and each.params.kind.startswith(IN_PODS):
            says = f"pod {shared[0]} has no network of its own (hostNetwork): its whole machine's would be changed"
            rows.append(Row(each.params.kind, Sign.BLOCKS, says, "choose a fault on its process or its volume"))
        if isinstance(each.params, NodeIsolation):
            for nodes in _ended(each, target, experiment, seed, offers):
                rows += _refused_machines(target.pods, seen, nodes, each.params)
    return list(dict.fromkeys(rows))


def _ended(
    each: plan.Planned, target: ExistingTarget, experiment: Experiment, seed: int, offers: Offers
) -> list[tuple[str, ...]]:
    """The nodes that a fault on pods ends together; each way, where only the moment decides whom it hits."""
    try:
        fault = plan.preview(each, experiment, seed, target.wiring, offers)
    except Lacking:  # the plan refuses it
        return []
    if fault is not None:
        return [fault.targets]
    chosen = [selector for selector in each.params.selectors.values() if isinstance(selector, NodeSelector)]
    return [(name,) for selector in chosen for name in candidates(selector, experiment.topology.nodes)]


def _refused_machines(pods: Pods, seen: SeenPods, nodes: Sequence[str], params: NodeDrain | NodeIsolation) -> list[Row]:
    """Who would be hit by what is done to these nodes' machines without having agreed."""
    hit = {node: pod for node in nodes if (pod := seen.pods.get(pods.of_nodes[node])) is not None}
    try:
        wrong = pods.beside(hit, params.others, cut=isinstance(params, NodeIsolation))
    except ChaosError as error:
        return [Row(params.kind, Sign.BLOCKS, error.message, error.remedy or POLICY_REMEDY)]
    return [Row(params.kind, Sign.BLOCKS, says, "ask them first, or choose other nodes") for says in wrong]


def _refused_evictions(seen: SeenPods, pods: set[str], at_once: int) -> list[Row]:
    """Budgets that would refuse to let so many of these pods go, or of which that is not known: they refuse too."""
    unknown = [
        Row(
            "budget",
            Sign.BLOCKS,
            f"how many of its pods {each.name} lets go is not known: Kubernetes has not computed its status",
            compare.BUDGET_REMEDY,
        )
        for each in seen.budgets or ()
        if each.wanted is None and pods & set(each.pods)
    ]
    return unknown + [
        Row(
            "budget",
            Sign.BLOCKS,
            f"{each.name} lets {each.allowed} of its pods go now, and {min(at_once, len(hit))} would be evicted at "
            "once: so would a drain be refused",
            "how: kill, or fewer nodes at once; or a budget that lets one go",
        )
        for each in seen.budgets or ()
        if each.wanted is not None and (hit := pods & set(each.pods)) and min(at_once, len(hit)) > each.allowed
    ]


def _refused_by_budgets(seen: SeenPods, pods: Sequence[str]) -> list[Row]:
    """Budgets that would take the helpers beside these pods too.

    Kubernetes would count them as healthy pods of OpenSearch. Or, where it needs the scale of each pod's controller, it
    would compute nothing, because Jobs have none, and refuse every eviction.
    """
    every = [all_labels_of(ANY_RUN, pod) for pod in pods]
    return [
        Row(
            "helper pods",
            Sign.BLOCKS,
            f"budget {name} would take the helper pods too, and let more pods go than its owners mean, or none at all",
            "let its selector name OpenSearch's pods, or choose faults that need no helper",
        )
        for name, selector in seen.selectors.items()
        if any(selects(selector, labels) for labels in every)
    ]


def _refused_twice(seen: SeenPods, pods: Sequence[str]) -> list[Row]:
    """Pods of more than one budget: the eviction subresource answers 500 for them."""
    rows = []
    for pod in pods:
        names = [each.name for each in seen.budgets or () if pod in each.pods]
        if len(names) > 1:
            says = f"{' and '.join(names)} cover pod {pod}, and Kubernetes evicts no pod of two budgets"
            rows.append(Row("budget", Sign.BLOCKS, says, "have one budget for each pod; a drain would not end either"))
    return rows


def host_rows(target: ExistingTarget) -> list[Row]:
    """Of each node whose host the file names: whether it proves that it is the node's, and what it can do for it."""

    def ask(node: str) -> Row:
        what = f"host of {node}"
        try:
            intents = target.on_host(node)["intents"]
        except ChaosError as error:
            return Row(what, Sign.BLOCKS, error.message, error.remedy or "")
        can = [intent for intent, why in intents.items() if why is None]
        return Row(what, Sign.SAME, f"{target.hosts.of_nodes[node]} can {', '.join(can) or 'nothing'}")

    try:
        with ThreadPoolExecutor(16) as pool:
            return list(pool.map(ask, filter(target.hosts.ready, target.hosts.of_nodes)))
    finally:
        target.hosts.close()


def under_way(target: ExistingTarget) -> list[Row]:
    """Another run that is under way there; asked by GETs. Raises LabError."""
    notes = _notes_of(target)
    if notes is None or (held := notes.lock()) is None:
        return []
    return [Row("another run", Sign.BLOCKS, f"run {held.run} of {held.host} is under way", _wait(target))]


def _notes_of(target: ExistingTarget) -> Notes | None:
    """Those that there are."""
    index = target.target.written.notes
    if index is None:
        return None
    notes = Notes(target, index)
    return notes if notes.exists() else None


def _wait(target: ExistingTarget) -> str:
    return f"wait for its end; where its machine is dead: opensearch-chaos recover --on {target.target.file}"


def refused_instruments(target: Existing) -> list[Row]:
    """What instruments could not observe there now, of what the file asks."""
    found = (each.refuse_on(target) for each in instruments.every() if each.refuse_on is not None)
    return [Row(what, Sign.BLOCKS, says, remedy) for what, says, remedy in filter(None, found)]


@dataclass
class OnTarget:
    """Of one run. ``stop`` is told in words why the run must end."""

    lab: ExistingTarget
    experiment: Experiment
    seed: int
    offers: Offers
    ledger: NotedLedger
    stop: Callable[[str], None]
    made: Callable[[], Mapping[str, Fault]] = dict
    """The faults that the run has made until now, by their ids."""
    taken_out: Callable[[], frozenset[str]] = frozenset
    """The zones that failover controllers of the run have asked to be decommissioned."""
    _keeper: Keeper | None = None
    _notes: Notes | None = None

    def __post_init__(self) -> None:
        self._over = threading.Event()
        self._thread = self._watching("notes", self._renew, "the notes of this run cannot be renewed any more")

    @property
    def began(self) -> bool:
        """Whether this run was the one under way there: before that it has changed nothing."""
        return self._notes is not None

    # ---- before and after -----------------------------------------------------------------------

    def begin(self, logs: Path) -> Keeper:
        """From now on somebody else undoes this run too. Raises ChaosError where that cannot be had."""
        index = self.lab.target.written.notes
        assert index is not None
        self._keeper = Keeper(self.ledger.path, self.lab.id, logs / "keeper.log", self.stop)
        self._keeper.start()
        notes = Notes(self.lab, index)
        both = opening(notes, self.ledger.run)
        opened = self.ledger.intend("notes", [both])
        self.ledger.renewed = now()
        both.move.apply(self.lab)
        self.ledger.answered(opened)
        self.ledger.notes = self._notes = notes
        self._thread.start()  # what comes may take longer than a lock may stand still
        if self._by(HELPER):
            self._make_helpers()
        if self._by(SSH) or self._by(HELPER):
            self.lab.hosts.may_begin = self.ledger.refuse_lost
            self.lab.hosts.take(self.ledger.run)
        if self._by(FIS):
            self._watching("fis", self._watch_fis, "what AWS FIS does cannot be seen any more").start()
        if self.lab.pods is not None:
            self.lab.pods.may_begin = self.ledger.refuse_lost
            watch = OthersOnPods(self.lab.pods, self.experiment, self.ledger.intended)
            look = partial(watch.until, self._over, self.stop)
            self._watching("pods", look, "what others do to the pods cannot be seen any more").start()
        return self._keeper

    def _make_helpers(self) -> None:
        """Have a helper pod beside each pod that a fault may hit, until the run is over. Raises ChaosError."""
        run, nodes = self.ledger.run, hit_beside(self.lab, self.experiment, self.seed, self.offers)
        both = Reversible(Move(MAKE, {"run": run, "nodes": nodes}), Move(END, {"run": run}))
        made = self.ledger.intend("helpers", [both])
        assert self.lab.helpers is not None
        self.lab.helpers.wanted = partial(self._stands, made[0].number)
        unknown: list[Move] = []
        failed = apply_moves(self.lab, [both.move], unanswered=unknown.append)
        if not unknown:
            self.ledger.answered(made)
        if failed:
            raise FaultError("; ".join(failed), remedy="see docs/kubernetes.md, helper pods")

    def _stands(self, number: int) -> bool:
        """Whether an entry is not undone: the keeper undoes all of them when this process was stopped for a while."""
        try:
            return any(each.number == number for each in self.ledger.standing())
        except (OSError, ValueError):  # the ledger is closed: the run is over
            return False

    def _watching(self, name: str, watch: Callable[[], None], lost: str) -> threading.Thread:
        """A thread that watches until the run is over. An error of ours in it ends the run, told as ``lost``: a run
        that is not watched does not go on."""

        def guarded() -> None:
            try:
                watch()
            except Exception as error:
                LOG.exception("%s", name)
                self.stop(f"{lost}: {type(error).__name__}: {error}")

        return threading.Thread(target=guarded, name=name, daemon=True)

    def _by(self, provider: str) -> bool:
        """Whether anything of the experiment is done by this provider."""
        return bool(faults_by(provider, self.experiment, self.offers))

    def _watch_fis(self) -> None:
        """An experiment of FIS's that ended before we stopped it ends the run: an alarm did it, or a person."""
        assert self.lab.fis is not None
        while not self._over.wait(FIS_WATCH_SECONDS):
            if says := self.lab.fis.ended_early():
                self.stop(says)
                return

    def refuse_templates(self, index: str) -> None:
        """Raises InvalidInput where a template of others would catch the run's index, by its own name."""
        prefix = self.lab.target.written.prefix
        for row in refused_templates(self.lab, index, prefix):
            raise InvalidInput(row.says, remedy=row.remedy)

    def holds(self) -> bool:
        """Whether this run may be taken for alive on the cluster."""
        return self.ledger.renewed is not None and now() - self.ledger.renewed <= LEASE_SECONDS

    def stays(self) -> list[str]:
        """What this run made on the cluster and leaves there on purpose."""
        return [
            f"the index {move.arguments['index']}, which this run created for its notes: it holds none of this run's, "
            "and is not deleted, because somebody else's note, stop or consent could be in it by then"
            for move in self.ledger.moves()
            if move.operation == OPEN and move.arguments["made"]
        ]

    def undone(self) -> None:
        """No notes are taken from here on: those that are left go with the inverse of having opened them."""
        self.ledger.settle()
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()

    def end_helpers(self) -> list[str]:
        """No helper pod stays, whatever became of the undo of the others. What would not go, in words."""
        return end_helpers(self.lab, self.ledger.moves())

    def marks(self) -> list[str]:
        """What of ours is still on the cluster's Toxiproxies and hosts, of those that this run has used; empty:
        nothing."""
        put = facts(self.ledger.moves())
        found = []
        for label in sorted({fact[0] for fact in put}):
            says = told(self.lab, label)
            if says is None:
                found.append(f"the Toxiproxy {label} does not answer: whether it still has toxics of ours is not known")
                continue
            found += [f"{' '.join(fact[1:])} of {label} is still there" for fact in sorted(put & says)]
        if any(move.operation == "host.begin" for move in self.ledger.moves()):
            found += self.lab.hosts.standing()
        marked = ("pod.hold", "pod.kill", "machine.cordon")
        held = [move for move in self.ledger.moves() if move.operation in marked]
        made = {str(move.arguments["mark"]) for move in held}
        if self.lab.pods is not None and made:
            try:
                found += self.lab.pods.left(made.__contains__)
            except ChaosError as error:
                found.append(f"Kubernetes does not say whether anything of ours is left: {error.message}")
        if self.lab.helpers is not None and any(move.operation == MAKE for move in self.ledger.moves()):
            try:
                found += self.lab.helpers.left(self.ledger.run)
            except ChaosError as error:
                found.append(f"Kubernetes does not say whether helper pods are left: {error.message}")
        if self.lab.fis is not None and any(move.operation == "fis.template" for move in self.ledger.moves()):
            try:
                found += self.lab.fis.left(self.ledger.run)
            except ChaosError as error:
                found.append(f"AWS does not say whether anything of ours is left: {error.message}")
        return found

    def by_hooks(self) -> bool:
        """Whether the owners' programs were asked to make anything in this run."""
        return any(move.operation == BY_HOOK for move in self.ledger.moves())

    def not_back(self, seconds: float) -> list[str]:
        """What others still see of what the owners' programs made, whatever these say: ``seconds`` are left for nodes
        to come back."""
        made = [move.arguments for move in self.ledger.moves() if move.operation == BY_HOOK]
        names = {node.name for node in self.lab.topology.nodes}
        nodes = {str(name) for each in made for name in each["nodes"]}
        pairs = {(str(a), str(b)) for each in made for a, b in each["links"] if {a, b} <= names}
        return [f"undone by its hook, and {says}" for says in not_back(self.lab, nodes, pairs, seconds)]

    def end(self, *, clean: bool) -> str | None:
        """The keeper may go, or goes on where something is left: what is said of that."""
        self.lab.hosts.close()
        if self._keeper is None:
            return None
        if clean:
            self._keeper.stop()
            return None
        self._keeper.leave()
        return f"the keeper goes on trying to undo it for {PATIENCE_SECONDS / 60:g} minutes ({self._keeper.log})"

    def _renew(self) -> None:
        assert self._notes is not None
        missed = 0
        while not self._over.wait(RENEW_SECONDS):
            began = now()
            try:
                self._notes.renew(self.ledger.run)
            except ChaosError as error:
                missed += 1
                if "not this run's" in str(error) or missed * RENEW_SECONDS >= 30.0:
                    self.stop(str(error))
                    return
            else:
                missed, self.ledger.renewed = 0, began

    # ---- before every step ------------------------------------------------------------------------

    def forbids(self, number: int) -> str | None:
        """Why the phase of this number may not change anything now; None: it may."""
        try:
            target = load_existing(self.lab.target.file)
            seen = seen_of(target, shards=True)
        except InvalidInput as error:
            return str(error)
        return next(iter(self._wrong(number, target, seen)), None)

    @property
    def _own(self) -> frozenset[str]:
        """The indices of the run's own, but for its notes: they are of all runs, and of others too."""
        made = () if self.experiment.controller is None else canaries.canaries(self.lab.topology)
        return frozenset({index_of(self.ledger.run, self.lab.target.written.prefix), *made})

    def _wrong(self, number: int, target: Existing, seen: Seen) -> list[str]:
        day = today()
        if seen.nodes is None:
            return [f"nodes: {seen.unread['nodes']}"]
        who = target.written.identity
        wrong = [
            f"at {address} is another cluster: {each.cluster_name}, {each.cluster_uuid}"
            for address, each in seen.identities.items()
            if (each.cluster_uuid, each.cluster_name) != (who.cluster_uuid, who.cluster_name)
        ]
        wrong += _other_pods(target, seen)
        if target.written.identity != self.lab.target.written.identity:
            wrong.append("the file names another cluster than when the run began")
        if {name: node.zone for name, node in target.written.nodes.items()} != {
            node.name: node.zone for node in self.lab.topology.nodes
        }:
            wrong.append("the file names other nodes than when the run began")
        reached = reaching.reached(
            self.experiment, target, seen, self.seed, self.offers, day, own=self._own, made=self.made()
        )
        phase = reached[number]
        rung = reaching.rung_row(target, reaching.needed_rung(reached, self.experiment), day)
        wrong += [f"{row.what}: {row.says}" for row in (*phase.forbids, rung) if row.forbids]
        before = {name for each in reached[: number + 1] for name in each.hit}
        before |= {name for each in reached[: number + 1] for step in each.steps for name in step.away}
        left = set(target.written.nodes) - {node.name for node in seen.nodes}
        done = [step.hits for each in reached[:number] for step in each.steps if step.hits is not None]
        before |= {name for hits in done for hit in reaching.explaining(hits, left) for name in hit}
        taken = self.taken_out()  # one that has come back may still be on its way
        before |= {node.name for node in self.lab.topology.nodes if node.zone in taken}
        wrong += [f"{name}: {why}" for name, why in seen.astray.items() if name not in before or elsewhere(why)]
        stands = [entry.move for entry in self.ledger.standing()]
        ours = facts(stands)
        odd = [row for row in compare.toxiproxies(target.written, seen, ours) if row.sign is not Sign.SAME]
        wrong += [f"{row.what}: {row.says}" for row in odd]
        takes = any(isinstance(action, ExcludeVotes) for action in self.experiment.phases[number].do)
        wrong += _other_votes(stands, seen, takes=takes)
        if gone := left - before:
            wrong.append(f"{', '.join(sorted(gone))} left, and that is none of our doing")
        return wrong


def _other_pods(target: Existing, seen: Seen) -> list[str]:
    """Where the pods are not those of the file, or the API server does not answer."""
    if target.written.kubernetes is None:
        return []
    if not isinstance(seen.pods, SeenPods):
        return [f"Kubernetes: {seen.pods}"]
    rows = compare.identity_of_pods(target.written, seen.pods)
    return [f"{row.what}: {row.says}" for row in rows if row.sign is not Sign.SAME]


def _other_votes(stands: Sequence[Move], seen: Seen, *, takes: bool) -> list[str]:
    """Where votes are taken away by us, or are to be (``takes``): votes that others took, or gave back."""
    ours = {name for move in stands if move.operation == "votes.exclude" for name in move.arguments["nodes"]}
    if not (ours or takes):
        return []
    if seen.excluded is None:
        return [f"votes: {seen.unread['votes']}"]
    theirs, back = sorted(set(seen.excluded) - ours), sorted(ours - set(seen.excluded))
    return [
        *([f"votes: {', '.join(theirs)} has none, and that is none of our doing"] if theirs else []),
        *([f"votes: {', '.join(back)} has its vote again, and that is none of our doing"] if back else []),
    ]
