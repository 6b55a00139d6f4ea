"""What stands in an opensearch.yml, read as the part of a topology that one node is.

Nested YAML is flattened, and names that OpenSearch has replaced are read as the new ones. What the file of one node
cannot tell is unknown, each with its reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from chaos.definitions.source import Problem, Source
from chaos.definitions.topology import ZONE_ATTRIBUTE
from chaos.programs.audit.definition import ATTRIBUTE, UNREAD
from chaos.programs.audit.facts import STOCK, Node, Settings, Sheet, by_name, plain

RENAMED: Mapping[str, str] = {
    "cluster.initial_master_nodes": "cluster.initial_cluster_manager_nodes",
    "discovery.zen.ping.unicast.hosts": "discovery.seed_hosts",
}
"""Old name of a setting → the one that OpenSearch 3 takes."""
OLD_ROLE, ROLE = "master", "cluster_manager"
FLAGS: Mapping[str, str] = {"node.master": ROLE, "node.data": "data", "node.ingest": "ingest"}
"""Settings that said a node's roles before ``node.roles``, each true where it was not written."""
DEFAULT_ROLES = frozenset({ROLE, "data", "ingest", "remote_cluster_client"})
FIRST = frozenset(
    (
        *("action", "admission_control", "bootstrap", "cluster", "cluster_manager", "compatibility", "discovery"),
        *("gateway", "http", "index", "indices", "ingest", "knn", "logger", "monitor", "network", "node"),
        *("opendistro_security", "opensearch", "path", "plugins", "reindex", "remote_store", "repositories", "s3"),
        *("script", "search", "search_backpressure", "segrep", "shard_indexing_pressure", "snapshot", "task"),
        *("telemetry", "thread_pool", "transport", "wlm"),
    )
)
"""How the names of OpenSearch's settings begin: a file with another one is no opensearch.yml."""
ONE = "this is the file of one node: it does not say which others there are"
API = "what is set through the API does not stand in a file"
LIVE = "only a living cluster has it"
UNASKED = {
    **dict.fromkeys(("zones", "zones.equal", "managers.dedicated", "managers.zones", "managers.size"), ONE),
    **dict.fromkeys(("storage.zone", "tiers.copies", "index.filters"), ONE),
    **dict.fromkeys(("left.transient", "settings.hidden", "left.archived"), API),
}
BY_API = dict.fromkeys(
    (
        *("left.allocation", "left.rebalance", "left.disk-threshold", "left.excludes", "left.watermarks"),
        *("left.recovery", "settings.deadly"),
    ),
    API,
)
"""Rules about what is set in a hurry: a file never says that nothing is."""
GAPS = {**BY_API, "awareness.forced": f"whether these are all zones: {ONE}"}


def is_one(data: Mapping[str, Any]) -> bool:
    """Whether a YAML file says that it is neither a resource of Kubernetes nor a definition of ours."""
    return not {"apiVersion", "kind", "zones", "nodes", "phases"} & set(data)


def flattened(source: Source, data: Mapping[str, Any], loc: tuple[str, ...] = ()) -> dict[str, Any]:
    """Settings by their full names. One that stands there in two forms is a problem of the source."""
    found: dict[str, Any] = {}
    for name, value in data.items():
        here = (*loc, name)
        part = flattened(source, value, here) if isinstance(value, Mapping) else {".".join(here): value}
        for twice in found.keys() & part.keys():
            source.add([Problem(here, f"{twice} stands there twice: expected it once", at_key=True)])
        found |= part
    return found


def renamed(settings: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Settings under their new names, and sentences about those that had an old one."""
    old = [name for name in settings if name in RENAMED]
    notes = [f"{name} is read as {RENAMED[name]}" for name in old]
    return {RENAMED.get(name, name): value for name, value in settings.items()}, notes


def roles(given: Any) -> tuple[frozenset[str], list[str]]:
    """Roles under their new names, and sentences about old ones."""
    named = [given] if isinstance(given, str) else list(given or ())
    if named == [""]:
        named = []
    notes = [f"the role {OLD_ROLE} is read as {ROLE}"] if OLD_ROLE in named else []
    return frozenset(ROLE if role == OLD_ROLE else str(role) for role in named), notes


def _roles(settings: Mapping[str, Any]) -> tuple[frozenset[str], list[str]]:
    if "node.roles" in settings:
        return roles(settings["node.roles"])
    flags = {name: role for name, role in FLAGS.items() if name in settings}
    off = {role for name, role in flags.items() if plain(settings[name]) == "false"}
    notes = [f"{', '.join(flags)} {'is' if len(flags) == 1 else 'are'} read as node.roles"] if flags else []
    return DEFAULT_ROLES - off, notes


def _problems(settings: Mapping[str, Any]) -> Iterator[str]:
    for name in settings:
        if name.split(".")[0] not in FIRST:
            yield f"{name} is no setting of OpenSearch: an opensearch.yml was expected"
    both = sorted(FLAGS.keys() & settings.keys())
    if "node.roles" in settings and both:
        yield f"{', '.join(both)} beside node.roles: OpenSearch starts with one of them only"


def node(name: str, settings: Mapping[str, Any], held: frozenset[str], zone_attribute: str, **facts: Any) -> Node:
    """A node by its settings."""
    attributes = {key.removeprefix(ATTRIBUTE): plain(v) for key, v in settings.items() if key.startswith(ATTRIBUTE)}
    return Node(
        name,
        held,
        attributes.get(zone_attribute),
        settings=by_name(settings),
        attributes=attributes,
        **facts,
    )


def read(path: Path, zone_attribute: str = ZONE_ATTRIBUTE) -> Sheet:
    """The facts of an opensearch.yml. Raises InvalidInput with file, line and what was expected."""
    source = Source.read(path, nulls=True)
    written = flattened(source, source.data)
    wrong = list(_problems(written))
    source.add([Problem((wrong[0].split(" ")[0].rstrip(","),), wrong[0], at_key=True)] if wrong else [])
    source.raise_if_wrong()
    settings, notes = renamed(written)
    held, more = _roles(settings)
    one = node(str(settings.get("node.name", "this node")), settings, held, zone_attribute)
    first = settings.get("cluster.initial_cluster_manager_nodes")
    if first is not None:
        notes.append(f"the first managers are {plain(first)}; who votes now is not in this file")
    own = {name: value for name, value in settings.items() if name in ("http.host", "network.host")}
    notes += [f"{name}: {plain(value)} is this machine's, and no rule asks for it" for name, value in own.items()]
    return Sheet(
        origin=f"{path}, an opensearch.yml (of one node; {API})",
        zone_attribute=zone_attribute,
        nodes=(one,),
        settings=Settings({}, STOCK),
        unread=dict.fromkeys((*UNREAD, "indices", "heap"), LIVE),
        is_definition=True,
        unasked=UNASKED,
        gaps=GAPS,
        notes=(*notes, *more),
    )
