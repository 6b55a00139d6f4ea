"""The facts of a living cluster, read by GETs alone: a handful of requests, however many indices and shards there are.

What a cluster refuses or does not answer is missing in the sheet, with the reason; only a server that cannot be spoken
to, or is no OpenSearch, is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import urllib3

from chaos.base.access import Access
from chaos.base.addresses import Address
from chaos.base.errors import InvalidInput, said_by_opensearch
from chaos.base.netsock import Endpoint
from chaos.base.sigv4 import refusal
from chaos.base.text import one_line, printable
from chaos.definitions.topology import ZONE_ATTRIBUTE
from chaos.opensearch.cluster import Cluster
from chaos.opensearch.rest import Garbled, NodeClient, short
from chaos.programs.audit.facts import Copy, Index, Node, Settings, Sheet, plain, wanted

Get = Callable[[str], tuple[int, Any]]
"""Path → status and decoded body. Raises ``urllib3.exceptions.HTTPError``."""

CONNECT_SECONDS = 5.0
READ_SECONDS = 30.0
NODES = (
    "/_nodes/settings,jvm,os?flat_settings=true&timeout=10s&filter_path=_nodes,nodes.*.name,nodes.*.roles,"
    "nodes.*.attributes,nodes.*.settings,nodes.*.jvm.mem.heap_max_in_bytes,nodes.*.os.allocated_processors"
)
STATS = (
    "/_nodes/stats/os,jvm,fs?timeout=10s&filter_path=_nodes,nodes.*.name,nodes.*.os.cpu.percent,"
    "nodes.*.os.mem.total_in_bytes,nodes.*.jvm.mem.heap_used_percent,nodes.*.jvm.mem.pools.old,"
    "nodes.*.fs.total.total_in_bytes,nodes.*.fs.total.available_in_bytes"
)
SETTINGS = "/_cluster/settings?include_defaults=true&flat_settings=true"
INDICES = (
    "/_all/_settings?expand_wildcards=all&filter_path="
    "*.settings.index.number_of_shards,*.settings.index.number_of_replicas"
)
COPIES = "/_cat/shards?format=json&bytes=b&h=index,shard,prirep,state,store,node"
MEASURED = ("memory", "cpu", "heap_used", "disk", "disk_free")


class Partial(ValueError):
    """An answer that lacks what a rule might have found."""


def of_url(host: str, port: int, access: Access, zone_attribute: str = ZONE_ATTRIBUTE) -> Sheet:
    """The facts of the cluster behind an address. Raises InvalidInput."""
    client = NodeClient(Endpoint(host, port), access=access, timeout=READ_SECONDS, connect=CONNECT_SECONDS)
    return _through(client, str(Address(access.tls, host, port)), zone_attribute)


def of_lab(
    lab: Cluster, zone_attribute: str | None = None, timeout: float = CONNECT_SECONDS, where: str | None = None
) -> Sheet:
    """The facts of a lab's cluster, over the path that no fault touches. Raises InvalidInput.

    ``where``: what to call it, where it is no lab.
    """
    client = lab.client(lab.topology.data_nodes[0].name, timeout=timeout)
    return _through(client, where or f"lab of topology {lab.topology.name}", zone_attribute or lab.zoning.attribute)


def _through(client: NodeClient, where: str, zone_attribute: str) -> Sheet:
    """A reader is given a GET and nothing else."""
    try:
        return read(lambda path: client.request("GET", path), where, zone_attribute)
    finally:
        client.close()


def read(get: Get, where: str, zone_attribute: str = ZONE_ATTRIBUTE) -> Sheet:
    """The facts of the cluster that answers. Raises InvalidInput where nothing answers, or something else."""
    version = _version(get, where)
    unread: dict[str, str] = {}

    def part(names: tuple[str, ...], path: str, parse: Callable[[Any], Any]) -> Any:
        name = path.partition("?")[0]
        try:
            status, answer = get(path)
            if status == 200:
                return parse(answer)
            why = f"GET {name} answered {status}: {_reason(answer)}"
        except Garbled as error:
            why = f"GET {name} answered something that cannot be read: {short(error)}"
        except urllib3.exceptions.HTTPError as error:
            why = f"GET {name} was not answered: {short(error)}"
        except Partial as error:
            why = f"GET {name}: {error}"
        except (LookupError, TypeError, ValueError, AttributeError):
            why = f"GET {name} answered something that cannot be read"
        unread.update(dict.fromkeys(names, why))
        return None

    stats = part(MEASURED, STATS, _stats) or {}
    nodes = part(("nodes", "heap"), NODES, lambda answer: _nodes(answer, stats, zone_attribute))
    settings = part(("settings",), SETTINGS, lambda answer: _settings(answer, zone_attribute))
    indices = part(("indices",), INDICES, _indices)
    copies = part(("copies",), COPIES, _copies)
    return Sheet(f"{where}, OpenSearch {version}", zone_attribute, version, nodes, settings, indices, copies, unread)


def _version(get: Get, where: str) -> str:
    try:
        status, answer = get("/")
    except urllib3.exceptions.SSLError as error:
        raise InvalidInput(
            f"{where}: TLS failed: {short(error)}", remedy="name its authority with --ca, or say --insecure"
        ) from error
    except Garbled:
        raise InvalidInput(
            f"{where} is no OpenSearch", remedy="give the address of a node's or a domain's REST API"
        ) from None
    except urllib3.exceptions.HTTPError as error:
        raise InvalidInput(
            f"{where} cannot be reached: {short(error)}", remedy="check the address, and http against https"
        ) from error
    if status in (401, 403) and (told := refusal(answer)):
        raise InvalidInput(f"{where}: {_line(told[0])} ({status})", remedy=told[1])
    if status == 401:
        raise InvalidInput(f"{where} refuses this user or password (401)", remedy="give --user and --password")
    if status != 200:
        raise InvalidInput(f"{where} answered {status}: {_reason(answer)}", remedy="check the address and the rights")
    with suppress(LookupError, TypeError, AttributeError):
        version = answer["version"]
        if version.get("distribution") == "opensearch" or "OpenSearch" in str(answer.get("tagline")):
            return printable(version["number"])
    raise InvalidInput(f"{where} is no OpenSearch", remedy="give the address of a node's or a domain's REST API")


def _stats(answer: Any) -> dict[str, dict[str, Any]]:
    """By node: what was measured. A node that says nothing of it has None."""
    found = {}
    for id, node in answer["nodes"].items():
        memory, disk = node.get("os", {}).get("mem", {}), node.get("fs", {}).get("total", {})
        cpu, jvm = node.get("os", {}).get("cpu", {}).get("percent"), node.get("jvm", {}).get("mem", {})
        old = jvm.get("pools", {}).get("old", {})
        used, most = _number(old.get("used_in_bytes")), _number(old.get("max_in_bytes"))
        share = 100 * used / most if used is not None and most else _number(jvm.get("heap_used_percent"))
        found[id] = {
            "memory": _number(memory.get("total_in_bytes")) or None,
            "cpu": _number(cpu),
            "heap_used": share,
            "disk": _number(disk.get("total_in_bytes")) or None,
            "disk_free": _number(disk.get("available_in_bytes")),
        }
    return found


def _nodes(answer: Any, stats: Mapping[str, Mapping[str, Any]], zone_attribute: str) -> tuple[Node, ...]:
    if silent := answer.get("_nodes", {}).get("failed"):
        raise Partial(f"{silent} nodes did not answer")
    found = []
    for id, node in answer["nodes"].items():
        zone = node.get("attributes", {}).get(zone_attribute)
        found.append(
            Node(
                name=printable(node["name"]),
                roles=frozenset(map(str, node["roles"])),
                zone=None if zone is None else printable(zone),
                processors=_number(node.get("os", {}).get("allocated_processors")),
                heap=_number(node.get("jvm", {}).get("mem", {}).get("heap_max_in_bytes")) or None,
                settings=wanted(node.get("settings", {}), zone_attribute),
                **stats.get(id, {}),
            )
        )
    if not found:
        raise Partial("it names no node")
    return tuple(sorted(found, key=lambda node: node.name))


def _settings(answer: Any, zone_attribute: str) -> Settings:
    persistent, transient = dict(answer["persistent"]), dict(answer["transient"])
    cluster = {**persistent, **transient}
    return Settings(
        wanted(cluster, zone_attribute),
        wanted(answer["defaults"], zone_attribute),
        explicit={str(name): plain(value) for name, value in cluster.items()},
        hidden=tuple(sorted(name for name in {*persistent} & {*transient} if persistent[name] != transient[name])),
    )


def _indices(answer: Any) -> tuple[Index, ...]:
    held = {name: each["settings"]["index"] for name, each in (answer or {}).items()}
    return tuple(
        Index(printable(name), int(each["number_of_shards"]), int(each["number_of_replicas"]))
        for name, each in held.items()
    )


def _copies(answer: Any) -> tuple[Copy, ...]:
    """A copy that moves is named ``node -> address id other``; until it has moved it is where it was."""
    return tuple(
        Copy(
            printable(row["index"]),
            int(row["shard"]),
            row["prirep"] == "p",
            row["state"] in ("STARTED", "RELOCATING"),
            printable(row["node"]).partition(" -> ")[0] if row.get("node") else None,
            None if row.get("store") is None else int(row["store"]),
        )
        for row in answer
    )


def _number(value: Any) -> Any:
    """A number that is one, and not the -1 with which OpenSearch says that it does not know."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else None


def _reason(answer: Any) -> str:
    """What OpenSearch says of a refusal, in one line."""
    said = told[0] if (told := refusal(answer)) else said_by_opensearch(answer)
    return _line(plain(said if said is not None else answer if isinstance(answer, str) else "no reason"))


def _line(text: str) -> str:
    return one_line(text) or "no reason"
