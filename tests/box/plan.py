"""Addresses, target file and load balancers of a box, as pure data.

An office reaches each node at the address that the node has in its own host (all of 127.0.0.0/8 is local there), so
that certificates fit; everything else at ports of 127.0.0.1, which every node's certificate names too.
"""

from __future__ import annotations

import base64
import json
import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from box import team
from box.machine import SSH
from chaos.base.netsock import Endpoint
from chaos.base.paths import PREFIX
from chaos.definitions import Topology
from chaos.definitions.gameday import WEEKDAYS
from chaos.targets.wiring import HTTP, NETNS_FOLDER, TOXIPROXY, Host, Wiring

OFFICES = (1, 2)
"""Machines of those who test: on the second one somebody recovers what the first one left."""
OFFICE_UID = 64260
"""Of nobody in passwd; an office's user has this and its number."""
BALANCER_PORT, API_PORT, PASSAGE_PORT, SSH_PORT = 9301, 8501, 9401, 2201
"""The first of each kind in an office."""
BALANCED = ("127.0.0.1", HTTP)
"""Where a zone's load balancer listens, in the host of its clients."""
HEALTHY = "/_cluster/health?local=true&ensure_node_weighed_in=true"
"""What load balancers ask of a node: one whose zone has a weight of 0 takes no clients, as on labs."""
DAYS = 14
"""How long certificates are good, and so the target's rung."""
CHAOS, SHOP, CHECKS = "chaos", "shop", "checks"
"""Users of the cluster: who tests, whose traffic is foreign, and the load balancers' health checks."""
ALLOCATION = "cluster.routing.allocation.enable"
SSH_CONFIG, SSH_KEY, KNOWN_HOSTS = "ssh_config", "ssh_key", "known_hosts"
"""Beside the target's file."""
NOTES = ".opensearch-chaos"
ORDERS = "orders"
"""The foreign index, as its clients name it: an alias."""


@dataclass(frozen=True)
class Way:
    """A port of an office, and where bytes go that are sent there."""

    listen: tuple[str, int]
    to: Endpoint

    def to_json(self) -> dict[str, Any]:
        assert self.to.namespace is not None
        return {"listen": list(self.listen), "to": list(self.to.address), "namespace": str(self.to.namespace.path)}


def office_namespace(name: str, number: int) -> str:
    """Named so that whoever takes the lab away finds it, and what runs in it."""
    return f"{PREFIX}{name}-office-{number}"


def office_path(name: str, number: int) -> Path:
    return NETNS_FOLDER / office_namespace(name, number)


def letters(topology: Topology) -> dict[str, str]:
    """Zone as experiments call it → as the cluster does."""
    return dict(zip(string.ascii_lowercase, topology.zones, strict=False))


class Ways:
    """All that an office reaches."""

    def __init__(self, wiring: Wiring, topology: Topology) -> None:
        self.wiring = wiring
        data = {node.name for node in topology.data_nodes}
        self.nodes = {host.name: self._to(host, host, (host.loopback, HTTP)) for host in wiring.nodes}
        self.balancers = {
            host.zone: Way(("127.0.0.1", BALANCER_PORT + n), Endpoint(*BALANCED, host.namespace))
            for n, host in enumerate(wiring.clients)
        }
        self.apis = {
            host.name: Way(("127.0.0.1", API_PORT + n), Endpoint(*TOXIPROXY, host.namespace))
            for n, host in enumerate(wiring.hosts)
        }
        pairs = [(client, node) for client in wiring.clients for node in wiring.nodes if node.name in data]
        pairs += [(one, other) for one in wiring.nodes for other in wiring.nodes if one != other]
        self.passages = {
            (opener.name, node.name): self._to(
                opener, node, ("127.0.0.1", PASSAGE_PORT + n), wiring.port(opener.name, node.name)
            )
            for n, (opener, node) in enumerate(pairs)
        }
        beside = {host.zone: host for host in wiring.clients}
        self.hosts = {
            host.name: Way(("127.0.0.1", SSH_PORT + n), Endpoint(host.bridge_address, SSH, beside[host.zone].namespace))
            for n, host in enumerate(wiring.hosts)
        }
        """To each host's sshd, over the bridge: from where its zone's clients are, as by a jump host beside them."""

    @staticmethod
    def _to(seen_by: Host, node: Host, listen: tuple[str, int], port: int = HTTP) -> Way:
        return Way(listen, Endpoint(node.loopback, port, seen_by.namespace))

    def __iter__(self) -> Any:
        for kind in (self.nodes, self.balancers, self.apis, self.passages, self.hosts):
            yield from kind.values()


def _url(way: Way, scheme: str = "https") -> str:
    return f"{scheme}://{way.listen[0]}:{way.listen[1]}"


def target(topology: Topology, ways: Ways, identity: Mapping[str, str], today: date) -> dict[str, Any]:
    """The file of the cluster, as an office has it."""
    zone_of = {value: zone for zone, value in letters(topology).items()}
    first = {node.zone: node.name for node in reversed(topology.data_nodes)}
    return {
        "apiVersion": "opensearch-chaos/v1",
        "kind": "existing",
        "name": "staging",
        "description": "a staging cluster in a box",
        "endpoints": [_url(ways.nodes[first[zone]]) for zone in topology.zones],
        "access": {"user": CHAOS, "password": "file:password", "ca": "ca.pem"},
        "identity": {key: identity[key] for key in ("cluster_uuid", "cluster_name")},
        "opensearch": topology.version,
        "zones": {"names": letters(topology)},
        "nodes": {
            node.name: {
                "zone": zone_of[node.zone],
                "roles": list(node.roles),
                "url": _url(ways.nodes[node.name]),
                "ssh": node.name,
                "addresses": [ways.wiring[node.name].bridge_address],
            }
            for node in topology.nodes
        },
        "load_balancers": {zone_of[zone]: _url(way) for zone, way in ways.balancers.items()},
        "toxiproxies": [
            {"api": _url(ways.apis[host.name], "http"), "proxies": _proxies(host, ways, zone_of)}
            for host in ways.wiring.hosts
        ],
        "hosts": {
            "config": SSH_CONFIG,
            "clients": {
                zone_of[host.zone]: {"addresses": [host.bridge_address], "ssh": host.name}
                for host in ways.wiring.clients
            },
        },
        "reads": {"indices": [f"{ORDERS}*"], "most": "10/s"},
        "caps": {"requests": "100/s", "documents": 1000, "copies": topology.shards * (topology.replicas + 1)},
        "notes": NOTES,
        "settings": [ALLOCATION],
        "rung": "zone",
        "until": (today + timedelta(days=DAYS)).isoformat(),
    }


def _proxies(host: Host, ways: Ways, zone_of: Mapping[str, str]) -> dict[str, Any]:
    """The proxies of one host's Toxiproxy: those on the way of connections that it opens."""
    found: dict[str, Any] = {}
    for peer in ways.wiring.nodes:
        if (way := ways.passages.get((host.name, peer.name))) is None:
            continue
        opener = host.name if host.kind == "node" else f"clients of zone {zone_of[host.zone]}"
        passage = {"from": opener, "to": peer.name, "url": _url(way)}
        found[ways.wiring.toxified(host.name, peer.name)[0].proxy] = passage
    return found


def written(target: Mapping[str, Any]) -> str:
    """The file's text: a line for each node, each zone's clients and each proxy."""
    lines = []
    for key, value in target.items():
        if key == "nodes":
            lines += ["nodes:", *(f"  {name}: {_flow(member)}" for name, member in value.items())]
        elif key == "hosts":
            lines += ["hosts:", f"  config: {_flow(value['config'])}", "  clients:"]
            lines += [f"    {zone}: {_flow(client)}" for zone, client in value["clients"].items()]
        elif key == "toxiproxies":
            lines.append("toxiproxies:")
            for server in value:
                lines += [f"  - api: {server['api']}", "    proxies:"]
                lines += [f"      {name}: {_flow(passage)}" for name, passage in server["proxies"].items()]
        else:
            lines.append(f"{key}: {_flow(value)}")
    return "\n".join(lines) + "\n"


PLAIN = re.compile(r"[A-Za-z0-9./][A-Za-z0-9._/*-]*(:[A-Za-z0-9._/*-]+)*( [a-z]+)*")


def _flow(value: Any) -> str:
    """In one line of YAML, with as few quotes as it takes."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return value if isinstance(value, str) and PLAIN.fullmatch(value) else json.dumps(value)


def balancer(nodes: Sequence[tuple[str, str]], uid: int, ca: Path, user: str, password: str) -> str:
    """HAProxy's configuration for one zone: bytes are passed on as they are, to every data node that is healthy.

    ``nodes``: name and address. Holds a secret.
    """
    basic = base64.b64encode(f"{user}:{password}".encode()).decode()
    servers = "\n".join(f"    server {name} {address}:{HTTP}" for name, address in nodes)
    return f"""\
global
    maxconn 1000
    uid {uid}
    gid {uid}

defaults
    mode tcp
    timeout connect 2s
    timeout client 1m
    timeout server 1m
    timeout check 2s
    retries 2
    option redispatch

frontend search
    bind {BALANCED[0]}:{BALANCED[1]}
    default_backend nodes

backend nodes
    balance roundrobin
    option httpchk
    http-check send meth GET uri {HEALTHY} ver HTTP/1.1 hdr Host staging hdr Authorization "Basic {basic}"
    http-check expect status 200
    default-server check check-ssl verify required ca-file {ca} inter 2s fall 2 rise 2
{servers}
"""


ROLES: dict[str, dict[str, Any]] = {
    SHOP: {
        "cluster_permissions": ["cluster_composite_ops"],
        "index_permissions": [{"index_patterns": [f"{ORDERS}*"], "allowed_actions": ["indices_all"]}],
    },
    CHECKS: {"cluster_permissions": ["cluster:monitor/health"]},
}
"""Of users that are not the suite's; its own is what ``target rights`` says."""

TEMPLATE = {
    "index_patterns": [f"{ORDERS}-*"],
    "template": {
        "settings": {"number_of_shards": 3, "number_of_replicas": 2},
        "mappings": {
            "dynamic": "strict",
            "properties": {"n": {"type": "long"}, "item": {"type": "keyword"}, "zone": {"type": "keyword"}},
        },
    },
}
FIRST = f"{ORDERS}-000001"
EXPERIMENTS = {
    "zone-out": """\
apiVersion: opensearch-chaos/v1
name: zone-out
topology: 3az            # what it needs of a cluster: three zones, and awareness
load:
  read:  {rate: 20/s, good: ok within 2s}
  write: {rate: 10/s, good: ok within 2s}
  documents: 200
phases:
  healthy:  {for: 15s}
  out:      {for: 30s, do: {weights: {a: 1, b: 1, c: 0}, decommission: {zone: c, no_delay: true}}}
  returned: {do: {recommission: {zone: c}}, until: {green: true, stable: 15s, within: 5m}}
expect:
  - {phase: all, read.good: ">= 99%"}
  - {phase: all, write.good: ">= 99%"}
  - {acknowledged.lost: 0}
""",
    "zone-slow": """\
apiVersion: opensearch-chaos/v1
name: zone-slow
topology: 3az
load:
  read:  {rate: 20/s, good: ok within 5s}
  write: {rate: 10/s, good: ok within 5s}
  documents: 200
phases:
  healthy:  {for: 15s}
  slow:     {for: 30s, inject: {network.latency: {links: to zone c, delay: 1s}}}
  returned: {undo: all, until: {green: true, stable: 15s, within: 2m}}
expect:
  - {phase: all, read.good: ">= 99%"}
  - {acknowledged.lost: 0}
""",
    "node-dead": """\
apiVersion: opensearch-chaos/v1
name: node-dead
topology: 3az
load:
  read:  {rate: 20/s, good: ok within 5s}
  write: {rate: 10/s, good: ok within 5s}
  documents: 200
phases:
  healthy:  {for: 15s}
  dead:     {for: 20s, inject: {node.kill: {target: node c-data}}}
  returned: {undo: all, until: {green: true, stable: 15s, within: 4m}}
expect:
  - {acknowledged.lost: 0}
guards: {max: 8m}
""",
}
"""To try, by name."""

APPROVER, OPERATOR = "approver.key", "operator.key"
"""Keys of who approves a game day, in the first office, and of who operates the cluster, in the second."""
CHAT = "chat.jsonl"


def gameday(home: Path, approver: str, operator: str) -> dict[str, str]:
    """The files of a game day to try, for an office: one node, any hour, guarded by what the shop's users see.

    ``home``: the office's folder. ``approver``, ``operator``: public keys.
    """
    day = {
        "apiVersion": "opensearch-chaos/v1",
        "kind": "gameday",
        "name": "staging",
        "owner": "team-search <search@example.com>",
        "hypothesis": "The shop's users notice nothing when a data node dies.",
        "target": "../../topologies/existing/staging.yaml",
        "experiments": [{"experiment": "../node-dead.yaml", "rung": "node"}],
        "window": {"zone": "UTC", "days": list(WEEKDAYS), "from": "00:00", "to": "23:59"},
        "approval": {"allowed_signers": "allowed_signers"},
        "consent": {"allowed_signers": "operators"},
        "ladder": {"waived": "this cluster is in a box, and was made to be broken"},
        "preflight": {"stable": "2s", "within": "5m", "headroom": ["storage"]},
        "guards": {
            "shop": {
                "counts": "outcome",
                "http": {"url": f"http://127.0.0.1:{team.PORT}/users", "number": "/failing", "at": "/at"},
                "above": "50%",
                "every": "5s",
                "times": 3,
            }
        },
        "announce": [{"webhook": f"http://127.0.0.1:{team.PORT}/chat"}],
        "bounds": {"day": "20m", "abort": "2m"},
        "stop": {"file": str(home / "stop"), "ssh": "you@this-machine"},
    }
    return {
        "experiments/gamedays/staging.yaml": "".join(f"{key}: {json.dumps(value)}\n" for key, value in day.items()),
        "experiments/gamedays/allowed_signers": f"approver@example.com {approver}\n",
        "experiments/gamedays/operators": f"operator@example.com {operator}\n",
    }
