"""A target's file held against its cluster: what matches, what differs, and what keeps it from being touched.

Pure, but for the question whether its programs are on this machine.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from chaos.definitions.existing import EXPIRING, RUNGS, Existing, ExistingFile
from chaos.definitions.hooks import CALLS
from chaos.kubernetes import seen as on_kubernetes
from chaos.targets.existing.pods import held
from chaos.targets.existing.seen import ANOTHER, Seen, SeenNode

LISTED = 5
"""Names that a row holds at most."""
BUDGET_REMEDY = "wait a few seconds; where it stays so, kubectl describe poddisruptionbudget says why"
"""For one whose status Kubernetes has not computed."""


class Sign(StrEnum):
    """What a row says."""

    SAME = "same"
    WARNING = "warning"
    """True to the file, which leaves out something that people should agree on: it forbids nothing."""
    DIFFERS = "differs"
    """The file is not true: nothing may go by it."""
    BLOCKS = "blocks"
    """True to the file, and nothing may be changed while it is so."""
    UNKNOWN = "unknown"
    """It could not be read: nothing may be changed, because nothing could be computed to be safe."""


@dataclass(frozen=True)
class Row:
    """One thing that was held against the file. ``remedy``: what to do where it is not as it should be."""

    what: str
    sign: Sign
    says: str
    remedy: str = ""

    @property
    def forbids(self) -> bool:
        """Whether nothing may be changed while it is so."""
        return self.sign not in (Sign.SAME, Sign.WARNING)

    def to_json(self) -> dict[str, str]:
        return {"what": self.what, "sign": self.sign.value, "says": self.says, "remedy": self.remedy}


def rows(target: Existing, seen: Seen, today: date) -> list[Row]:
    """Every row, in the order in which they are told."""
    file = target.written
    return [
        *_endpoints(file, seen),
        *_nodes(file, seen),
        *_zones(file, seen),
        *_calm(seen),
        *toxiproxies(file, seen),
        *hooks(target),
        *kubernetes(file, seen),
        _foreign(file),
        _rung(target, today),
    ]


def refused(target: Existing, found: list[Row]) -> list[Row]:
    """The rows that keep the file from being used: it is not true, or what its rung allows could not be done now."""
    changes = target.written.rung in EXPIRING
    return [row for row in found if row.sign is Sign.DIFFERS or (changes and row.forbids)]


def _endpoints(file: ExistingFile, seen: Seen) -> Iterator[Row]:
    for address in map(str, (*file.addresses, *file.of_balancers.values())):
        if address in seen.silent:
            yield Row(f"endpoint {address}", Sign.DIFFERS, seen.silent[address], "mend it, or take it out of the file")
            continue
        found = seen.identities[address]
        wrong = [
            f"{what} is {is_}, and the file says {wanted}"
            for what, is_, wanted in (
                ("cluster_uuid", found.cluster_uuid, file.identity.cluster_uuid),
                ("cluster_name", found.cluster_name, file.identity.cluster_name),
            )
            if is_ != wanted
        ]
        yield Row(
            f"endpoint {address}",
            Sign.DIFFERS if wrong else Sign.SAME,
            "; ".join(wrong) or f"cluster {found.cluster_name}, {found.cluster_uuid}",
            "another cluster answers there: nothing may be done to it by this file" if wrong else "",
        )


def _nodes(file: ExistingFile, seen: Seen) -> Iterator[Row]:
    if seen.nodes is None:
        yield Row("nodes", Sign.UNKNOWN, seen.unread["nodes"], "give this user the right cluster:monitor/nodes/info")
        return
    there = {node.name: node for node in seen.nodes}
    missing = [name for name in file.nodes if name not in there]
    strange = [name for name in there if name not in file.nodes]
    wrong = [*(f"{name} is not there" for name in missing), *(f"{name} is not in the file" for name in strange)]
    wrong += [
        f"{name} has the roles {', '.join(there[name].roles)}, and the file says {', '.join(sorted(each.roles))}"
        for name, each in file.nodes.items()
        if name in there and sorted(each.roles) != sorted(there[name].roles)
    ]
    yield _row("nodes", wrong, f"all {len(there)} are there, with their roles", "correct the file, or the cluster")
    if any(each.url is not None for each in file.nodes.values()):
        astray = [f"{name}: {why}" for name, why in seen.astray.items()]
        another = any(ANOTHER in why for why in seen.astray.values())
        remedy = "nothing may be done to it by this file" if another else "correct the url, or take it out of the file"
        yield _row("addresses", astray, "nodes answer at their own", remedy)
    others = [f"{node.name} runs {node.version}" for node in seen.nodes if node.version != file.opensearch]
    mixed = len({node.version for node in seen.nodes}) > 1
    remedy = "an upgrade is under way: wait until it is over" if mixed else "correct the file"
    yield _row("version", others, f"all run {file.opensearch}", remedy)


def _zones(file: ExistingFile, seen: Seen) -> Iterator[Row]:
    attribute = file.zones.attribute
    if seen.nodes is not None:
        zone_of = {value: zone for zone, value in file.zones.names.items()}
        wrong = [
            f"{node.name} is in {_place(node, zone_of)}, and the file says {file.nodes[node.name].zone}"
            for node in seen.nodes
            if node.name in file.nodes and zone_of.get(node.zone or "") != file.nodes[node.name].zone
        ]
        shown = ", ".join(f"{zone} = {value}" for zone, value in file.zones.names.items())
        yield _row("zones", wrong, f"{attribute}: {shown}", "correct the file, or the nodes' attributes")
    if seen.awareness is None:
        remedy = "give this user the right cluster:monitor/settings"
        yield Row("awareness", Sign.UNKNOWN, seen.unread.get("awareness", "it was not read"), remedy)
    elif attribute not in seen.awareness:
        said = ", ".join(seen.awareness) or "no attribute"
        yield Row(
            "awareness",
            Sign.DIFFERS,
            f"the cluster is aware of {said}, and the file's zones are those of {attribute}",
            "name the attribute of cluster.routing.allocation.awareness.attributes under zones.attribute",
        )
    else:
        forced = f"forced: {', '.join(seen.forced)}" if seen.forced else "not forced"
        yield Row("awareness", Sign.SAME, f"of {attribute}, {forced}")


def _place(node: SeenNode, zone_of: dict[str, str]) -> str:
    if node.zone is None:
        return "no zone"
    return f"{zone_of[node.zone]} ({node.zone})" if node.zone in zone_of else f"{node.zone}, which the file has not"


def _calm(seen: Seen) -> Iterator[Row]:
    """What must be so before anything is changed: a target is never made worse."""
    if seen.status is None:
        yield Row("health", Sign.UNKNOWN, seen.unread["health"], "give this user the right cluster:monitor/health")
    else:
        busy = [f"it is {seen.status}"] if seen.status != "green" else []
        busy += [f"{seen.relocating} shards move"] if seen.relocating else []
        yield _row("health", busy, "green, and no shard moves", "wait until it is green and still", Sign.BLOCKS)
    out = (
        None
        if seen.decommissioned is None
        else [f"{z} is decommissioned ({s})" for z, s in seen.decommissioned.items()]
    )
    mute = None if seen.excluded is None else [f"{name} is without a vote" for name in seen.excluded]
    for name, well, found, remedy in (
        ("decommission", "no zone is decommissioned", out, "recommission it, or wait"),
        ("votes", "no node is without a vote", mute, "give it back: DELETE _cluster/voting_config_exclusions"),
    ):
        if found is None:
            yield Row(name, Sign.UNKNOWN, seen.unread[name], "give this user the right to read it")
        else:
            yield _row(name, found, well, remedy, Sign.BLOCKS)
    if seen.weights is None:
        yield Row("weights", Sign.UNKNOWN, seen.unread["weights"], "give this user the right to read them")
    else:
        weights = ", ".join(f"{zone} {weight}" for zone, weight in seen.weights.items())
        yield Row("weights", Sign.SAME, weights or "none are set")


def toxiproxies(file: ExistingFile, seen: Seen, ours: Collection[tuple[str, ...]] = ()) -> Iterator[Row]:
    """A row for each Toxiproxy of the file. ``ours``: (label, proxy, toxic) that we put there, and (label, proxy) that
    we switched off; whatever else is done to these proxies is somebody else's."""
    for server in file.toxiproxies:
        name = f"Toxiproxy {server.label}"
        said = seen.proxies.get(server.label, "it was not asked")
        if isinstance(said, str):
            yield Row(name, Sign.UNKNOWN, said, "mend it, or take it out of the file")
            continue
        if missing := [proxy for proxy in server.proxies if proxy not in said]:
            yield _row(name, [f"no proxy {each}" for each in missing], "", "correct toxiproxies")
            continue
        odd = [
            f"{each} is switched off" for each, p in said.items() if not p.enabled and (server.label, each) not in ours
        ]
        odd += [
            f"{each} has the toxic {toxic}"
            for each, proxy in said.items()
            for toxic in proxy.toxics
            if (server.label, each, toxic) not in ours
        ]
        remedy = "somebody else breaks the same links, or a run left it: wait for its end, or take it back"
        yield _row(
            name,
            odd,
            f"{len(said)} prox{'ies' if len(said) > 1 else 'y'}, nothing is done to them",
            remedy,
            Sign.BLOCKS,
        )


def hooks(target: Existing) -> Iterator[Row]:
    """Whether the programs of the file are here, and may be executed."""
    written = target.written.hooks
    if not written:
        return
    absent = dict.fromkeys(
        f"{kind}: there is no program {given.words(call)[0]} that may be executed"
        for kind, given in written.items()
        for call in CALLS
        if shutil.which(given.beside(target.folder).words(call)[0]) is None
    )
    well = f"the programs of {', '.join(written)} are here"
    remedy = "put it there and let it be executed (chmod +x); a path is beside the target's file"
    yield _row("hooks", list(absent), well, remedy, Sign.BLOCKS)


def kubernetes(file: ExistingFile, seen: Seen) -> Iterator[Row]:
    """Whether the pods are those that the file means, where the file has them; and whether anything moves them."""
    if file.kubernetes is None:
        return
    if not isinstance(seen.pods, on_kubernetes.Seen):
        says = seen.pods or "it was not asked"
        yield Row("Kubernetes", Sign.UNKNOWN, says, "see docs/kubernetes.md: what this user must be allowed")
        return
    yield from identity_of_pods(file, seen.pods)
    yield _pods_of_nodes(file, seen, seen.pods)
    yield _machines(file, seen.pods)
    left = [f"pod {pod.name} has the image {pod.image}" for pod in seen.pods.pods.values() if held(pod)]
    left += [f"machine {name} takes no new pods ({mark})" for name, mark in seen.pods.drained.items()]
    if left:
        yield _row("left of a run", left, "", "opensearch-chaos recover --on this file", Sign.BLOCKS)
    yield _row("rollout", moved(seen.pods), "no pod is being replaced, and all are ready", "wait", Sign.BLOCKS)
    yield _budgets(seen.pods)


def identity_of_pods(file: ExistingFile, there: on_kubernetes.Seen) -> Iterator[Row]:
    """Whose pods they are, by uids."""
    assert file.kubernetes is not None
    wanted = file.kubernetes.identity
    pairs = [("kube-system", there.cluster, wanted.cluster, "cluster")]
    pairs.append((file.kubernetes.namespace, there.namespace, wanted.namespace, "namespace"))
    for what, is_, want, key in pairs:
        if is_ is None:
            says = f"the uid of namespace {what} may not be read: {there.unread.get(key, 'no reason')}"
            yield Row("Kubernetes", Sign.UNKNOWN, says, "allow what opensearch-chaos kubernetes policy prints")
        elif is_ != want:
            says = f"the uid of namespace {what} is {is_}, and the file says {want}"
            yield Row("Kubernetes", Sign.DIFFERS, says, "another one answers there: nothing may be done by this file")
        else:
            yield Row("Kubernetes", Sign.SAME, f"the uid of namespace {what} is {is_}")
    wrong = [f"there is no StatefulSet {name}" for name in wanted.stateful_sets if name not in there.sets]
    wrong += [
        f"the uid of {name} is {each.uid}, and the file says {wanted.stateful_sets.get(name, 'nothing of it')}"
        for name, each in there.sets.items()
        if wanted.stateful_sets.get(name) != each.uid
    ]
    yield _row("StatefulSets", wrong, ", ".join(sorted(there.sets)), "correct the file: init --from-kubernetes")


def _pods_of_nodes(file: ExistingFile, seen: Seen, there: on_kubernetes.Seen) -> Row:
    """Each node is the pod that the file says: the address that the cluster knows the node by is the pod's."""
    ip_of = {node.name: node.ip for node in seen.nodes or ()}
    wrong = []
    for name, node in file.nodes.items():
        pod = there.pods.get(node.pod or "")
        if pod is None:
            wrong.append(f"{name}: there is no pod {node.pod} with these labels")
        elif pod.owner is None:
            wrong.append(f"{name}: pod {pod.name} is of no StatefulSet, so no controller would make it anew")
        elif seen.nodes is not None and pod.ip != ip_of.get(name):
            wrong.append(f"{name} has the address {ip_of.get(name)}, and pod {pod.name} has {pod.ip}")
    known = {node.pod for node in file.nodes.values()}
    wrong += [f"pod {name} is no node of the file" for name in there.pods if name not in known]
    well = f"all {len(there.pods)} are nodes of the cluster, at the addresses that it knows them by"
    return _row("pods", wrong, well, "correct the file, or its selector")


def _machines(file: ExistingFile, there: on_kubernetes.Seen) -> Row:
    """Whether a zone of the file is one zone of machines."""
    pod_of = {node.pod: node for node in file.nodes.values()}
    zones = {
        name: (file.zones.names[pod_of[name].zone], pod.zone) for name, pod in there.pods.items() if name in pod_of
    }
    wrong = [
        f"pod {name} is on a machine of zone {is_}, and its node says {says}"
        for name, (says, is_) in zones.items()
        if is_ is not None and is_ != says
    ]
    if wrong:
        return _row("machines", wrong, "", "correct the node attribute: it must be the zone of the pod's machine")
    if bare := [name for name, (_, is_) in zones.items() if is_ is None]:
        why = there.unread.get("machines", "their machines have no such label")
        return Row("machines", Sign.WARNING, f"of {len(bare)} pods the machine's zone is not known: {why}")
    count = len({pod.machine for pod in there.pods.values()})
    return Row("machines", Sign.SAME, f"{count}, in the zones that their nodes say")


def moved(there: on_kubernetes.Seen) -> list[str]:
    """Pods that others replace, or that are not well, in words."""
    found = [f"{each.name} is being rolled out" for each in there.sets.values() if each.rolling]
    found += [
        f"{each.name} wants {each.wanted} and {each.ready} are ready"
        for each in there.sets.values()
        if each.wanted != each.ready
    ]
    for pod in there.pods.values():
        by = f" ({pod.disrupted})" if pod.disrupted else ""
        found += [f"pod {pod.name} is being deleted{by}"] if pod.ending else []
    return found


def _budgets(there: on_kubernetes.Seen) -> Row:
    if there.budgets is None:
        says = f"they may not be read: {there.unread.get('budgets', 'no reason')}"
        return Row("budgets", Sign.UNKNOWN, says, "allow what opensearch-chaos kubernetes policy prints")
    covered = {name for each in there.budgets for name in each.pods}
    if bare := sorted(set(there.pods) - covered):
        says = f"no PodDisruptionBudget covers {', '.join(bare[:LISTED])}: a drain may take all of them at once"
        return Row("budgets", Sign.WARNING, says, "have one for each StatefulSet: maxUnavailable: 1")
    if unknown := [each.name for each in there.budgets if each.wanted is None]:
        says = f"Kubernetes has not computed the status of {', '.join(unknown[:LISTED])}"
        return Row("budgets", Sign.WARNING, says, BUDGET_REMEDY)
    told = ", ".join(f"{each.name} lets {each.allowed} of {len(each.pods)} go" for each in there.budgets)
    return Row("budgets", Sign.SAME, told)


def _foreign(file: ExistingFile) -> Row:
    if file.foreign is not None:
        return Row("foreign", Sign.SAME, f"runs end when your own traffic suffers: {file.foreign.says}")
    return Row(
        "foreign",
        Sign.WARNING,
        "nothing aborts when your own traffic suffers: it is only shown",
        "agree on foreign: {search: {slower: 3x, fewer: 50%}, indexing: {slower: 3x, fewer: 50%}, for: 10s}",
    )


def _rung(target: Existing, today: date) -> Row:
    file = target.written
    rung = target.rung_on(today)
    if rung != file.rung:
        return Row(
            "rung",
            Sign.BLOCKS,
            f"{file.rung} ended on {file.until}: only {rung} is left",
            "agree on a new day and write it under until",
        )
    if target.too_far(today):
        return Row("rung", Sign.BLOCKS, *too_far(target))
    until = f", until {file.until}" if file.until else ""
    return Row("rung", Sign.SAME, f"{rung}{until}: {', '.join(RUNGS[: RUNGS.index(rung) + 1])} may be done")


def too_far(target: Existing) -> tuple[str, str]:
    """What is wrong with a rung that lasts for longer than people remember what they agreed on, and its remedy."""
    file = target.written
    return (
        f"{file.rung} until {file.until} is more than a year away",
        f"agree on it again within a year: write a day that is nearer under until, in {target.file}",
    )


def _row(what: str, wrong: list[str], well: str, remedy: str, sign: Sign = Sign.DIFFERS) -> Row:
    if not wrong:
        return Row(what, Sign.SAME, well)
    more = f"; and {len(wrong) - LISTED} more" if len(wrong) > LISTED else ""
    return Row(what, sign, "; ".join(wrong[:LISTED]) + more, remedy)
