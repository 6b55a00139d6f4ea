"""An experiment's topology as a requirement: held against a cluster that exists, and translated to it. Pure.

Zones, roles, a standby, awareness and copies must be as the topology has them, or nothing that the experiment says
would mean anything there. Other settings are told where they differ: times and limits do not carry over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from chaos.base.units import Duration, Malformed, Size
from chaos.definitions.existing import ExistingFile
from chaos.definitions.topology import AWARENESS, FORCED, NodeSpec, Topology, check_copies
from chaos.targets.existing.compare import LISTED, Row, Sign
from chaos.targets.existing.seen import Seen

ZONES, NODES = "zones", "nodes"
OTHER = "other"
"""The group of nodes of which the experiment knows no like."""
Part = tuple[bool, bool]
"""Whether a node may manage the cluster, and whether it has data."""


@dataclass(frozen=True)
class Mapped:
    """``topology``: the cluster's nodes by their own names, in the experiment's zones. ``nodes``: the experiment's name
    for each that it names → the cluster's. ``rows``: what it requires. ``notes``: settings that differ, in words."""

    topology: Topology
    nodes: Mapping[str, str]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]

    @property
    def known(self) -> bool:
        """Whether everybody whom the experiment names is there: else nobody knows who is meant."""
        return not any(row.what in (ZONES, NODES) for row in self.unmet)

    @property
    def unmet(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.sign is not Sign.SAME)


def mapped(needed: Topology, file: ExistingFile, seen: Seen) -> Mapped:
    """Who is who, and what is lacking. A node of the experiment is the first like it, by name, in its zone."""
    names, missing = _names(needed, file)
    heaps = {node.name: node.heap for node in seen.nodes or ()}
    nodes = tuple(_node(name, needed, file, names, heaps.get(name)) for name in sorted(file.nodes))
    topology = needed.model_copy(
        update={
            "version": file.opensearch,
            "nodes": tuple(sorted(nodes, key=lambda node: not node.is_cluster_manager)),
            "disks": None,
            "security": file.addresses[0].tls,
            "expired": (),
            "services": {},
            "http_layer": (),
            "remote_store": None,
        }
    )
    rows = (_zones(needed, file), _nodes(needed, missing), *_placed(needed, file, seen), _copies(topology))
    only_in_labs = (*_several_versions(needed), *_services(needed))
    return Mapped(topology, names, (*rows, *only_in_labs), tuple(_notes(needed, seen)))


def _part(roles: tuple[str, ...]) -> Part:
    return "cluster_manager" in roles or "master" in roles, "data" in roles


def _names(needed: Topology, file: ExistingFile) -> tuple[dict[str, str], list[NodeSpec]]:
    """The experiment's names with the cluster's, and those nodes of it for which there is none."""
    free = {name: (node.zone, _part(node.roles)) for name, node in sorted(file.nodes.items())}
    names: dict[str, str] = {}
    missing = []
    for node in needed.nodes:
        like = [name for name, what in free.items() if what == (node.zone, _part(node.roles))]
        chosen = node.name if node.name in like else next(iter(like), None)
        if chosen is None:
            missing.append(node)
        else:
            names[node.name] = chosen
            del free[chosen]
    return names, missing


def _node(name: str, needed: Topology, file: ExistingFile, names: Mapping[str, str], heap: int | None) -> NodeSpec:
    member = file.nodes[name]
    alias = next((theirs for theirs, ours in names.items() if ours == name), None)
    like = [node.group for node in needed.nodes if _part(node.roles) == _part(member.roles)]
    return NodeSpec(
        name=name,
        zone=member.zone,
        group=needed.node(alias).group if alias is not None else next(iter(like), OTHER),
        roles=member.roles,
        heap=Size(heap or 0),
        also=(alias,) if alias not in (None, name) else (),
    )


def _zones(needed: Topology, file: ExistingFile) -> Row:
    have = tuple(file.zones.names)
    if set(have) == set(needed.zones):
        return Row(ZONES, Sign.SAME, ", ".join(f"{zone} = {file.zones.names[zone]}" for zone in needed.zones))
    return Row(
        ZONES,
        Sign.DIFFERS,
        f"the experiment has the zones {', '.join(needed.zones)}, and the target's file {', '.join(have)}",
        "name them alike under zones.names, or run it on a topology with these zones (--topology)",
    )


def _said(part: Part) -> str:
    manager, data = part
    return {
        (True, True): "data and cluster_manager",
        (True, False): "cluster_manager and no data",
        (False, True): "data and not cluster_manager",
        (False, False): "neither data nor cluster_manager",
    }[manager, data]


def _nodes(needed: Topology, missing: list[NodeSpec]) -> Row:
    if not missing:
        return Row(NODES, Sign.SAME, f"all {len(needed.nodes)} nodes of the experiment have one with their roles")
    wrong = Counter((node.zone, _part(node.roles)) for node in missing)
    said = [f"{count} more with the roles {_said(part)} in zone {zone}" for (zone, part), count in wrong.items()]
    return Row(
        NODES,
        Sign.DIFFERS,
        f"the experiment needs {'; '.join(said[:LISTED])}",
        "add them, or run it on a topology that is as this cluster (--topology)",
    )


def _placed(needed: Topology, file: ExistingFile, seen: Seen) -> Iterator[Row]:
    """Awareness, forced awareness and weights: by them OpenSearch knows zones at all."""
    attribute, names = file.zones.attribute, file.zones.names
    zone_of = {value: zone for zone, value in names.items()}
    if needed.zone_aware:
        if seen.awareness is None:
            yield Row("awareness", Sign.UNKNOWN, seen.unread.get("awareness", "not read"), "let this user read it")
        else:
            aware = attribute in seen.awareness
            says = f"of {attribute}" if aware else f"the experiment needs it of {attribute}, and there is none"
            remedy = "" if aware else f"set {AWARENESS} to {attribute}"
            yield Row("awareness", Sign.SAME if aware else Sign.DIFFERS, says, remedy)
    if forced := needed.awareness():
        have = {zone_of.get(value, value) for value in seen.forced or ()}
        if seen.forced is None:
            yield Row("forced awareness", Sign.UNKNOWN, "it was not read", "let this user read it")
        elif have == forced:
            yield Row("forced awareness", Sign.SAME, ", ".join(sorted(have)))
        else:
            says = (
                f"the experiment needs {', '.join(sorted(forced))}, and it is {', '.join(sorted(have)) or 'not forced'}"
            )
            key = FORCED.replace(".zone.", f".{attribute}.")
            values = ",".join(names.get(zone, zone) for zone in sorted(forced))
            yield Row("forced awareness", Sign.DIFFERS, says, f"set {key} to {values}")
    have_weights = {zone_of.get(value, value): weight for value, weight in (seen.weights or {}).items()}
    found = ", ".join(f"{zone} {weight}" for zone, weight in have_weights.items()) or "none"
    if needed.weights is None:
        if len(set(have_weights.values())) > 1:
            says = f"the experiment knows no standby, and the zones have the weights {found}"
            yield Row("weights", Sign.DIFFERS, says, "run it on a topology that has them (--topology)")
    else:
        wanted = ", ".join(f"{zone} {weight}" for zone, weight in needed.weights.items())
        if seen.weights is None:
            yield Row("weights", Sign.UNKNOWN, seen.unread.get("weights", "not read"), "let this user read them")
            return
        if have_weights == needed.weights:
            yield Row("weights", Sign.SAME, wanted)
        else:
            says = f"the experiment needs {wanted}, and there are {found}"
            yield Row("weights", Sign.DIFFERS, says, "set them: PUT _cluster/routing/awareness/<attribute>/weights")


def _copies(topology: Topology) -> Row:
    """Whether the load's index, with the copies that the experiment wants, finds its places."""
    wrong = [problem.says for problem in check_copies(topology)]
    wanted = f"{topology.replicas + 1} of each shard of the load's index"
    data = {node.zone for node in topology.data_nodes}
    if without := [zone for zone in topology.zones if zone not in data]:
        wrong = wrong or ([f"zone {without[0]} has no data node"] if topology.replicas + 1 > len(data) else [])
    return Row("copies", Sign.DIFFERS, wrong[0], "add data nodes") if wrong else Row("copies", Sign.SAME, wanted)


def _several_versions(needed: Topology) -> tuple[Row, ...]:
    if len(needed.versions) == 1:
        return ()
    says = f"the experiment needs nodes of {' and '.join(needed.versions)}, and upgrades them by itself"
    return (Row("versions", Sign.DIFFERS, says, "run it on a lab: nodes that exist are upgraded by their owners"),)


def _services(needed: Topology) -> tuple[Row, ...]:
    if needed.http_layer and not needed.services:
        says = "the experiment needs a proxy of a lab's own before nodes, for what it does to HTTP requests"
        return (Row("http layer", Sign.DIFFERS, says, "run it on a lab"),)
    if not needed.services:
        return ()
    kept = ", in which it keeps all indices" if needed.remote_store is not None else ""
    says = f"the experiment needs {', '.join(needed.services)} beside its nodes{kept}: that is a lab's own"
    return (Row("services", Sign.DIFFERS, says, "run it on a lab"),)


def _notes(needed: Topology, seen: Seen) -> Iterator[str]:
    """Settings of the topology that the cluster has otherwise."""
    have = seen.settings or {}
    for key, value in {**needed.settings.node, **needed.settings.cluster}.items():
        if key in (AWARENESS, FORCED):
            continue
        wanted = ",".join(map(str, value)) if isinstance(value, list) else _plain(value)
        found = have.get(key)
        if found is None:
            yield f"{needed.name} sets {key} to {wanted}; what the cluster has is not known"
        elif not _alike(wanted, found):
            yield f"{needed.name} sets {key} to {wanted}, and the cluster has {found}"


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _alike(one: str, other: str) -> bool:
    """The same text, or the same time in other units."""
    with suppress(Malformed):
        return one == other or float(Duration.parse(one)) == float(Duration.parse(other))
    return False
