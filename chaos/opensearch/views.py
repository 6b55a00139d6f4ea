"""Questions to a cluster over the direct path: who is elected, how is it, where are its shards.

Every call has a deadline of its own and asks for *local* views where a cluster manager may be missing: without
``local=true`` such calls wait 30 s for one and then fail.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import urllib3

from chaos.base.errors import LabError, Unanswered
from chaos.base.text import listed, plural, printable
from chaos.opensearch.cluster import Cluster
from chaos.opensearch.rest import UNREADABLE, Garbled, NodeClient

NOBODY = "-"
"""What ``_cat/cluster_manager`` says when a node sees no elected cluster manager."""
STATE = (
    "/_cluster/state/cluster_manager_node,nodes,routing_table,version,blocks?local=true&filter_path="
    "cluster_uuid,version,state_uuid,cluster_manager_node,nodes.*.name,routing_table.indices.*.shards,blocks"
)
WITHOUT_SHARDS = (
    "/_cluster/state/cluster_manager_node,nodes,version,blocks?local=true&filter_path="
    "cluster_uuid,version,state_uuid,cluster_manager_node,nodes.*.name,blocks"
)
"""The table of 6,000 copies of shards, asked for once a second, cost an elected cluster manager of 2.19.6 a seventh of
a processor: it writes all of them, whatever ``filter_path`` keeps."""
UNNAMED = "_na_"
"""``ClusterState.UNKNOWN_UUID`` and ``Metadata.UNKNOWN_CLUSTER_UUID``."""
STANDING = ("STARTED", "RELOCATING")
"""The states of a copy that is whole."""
TERM = "metadata.cluster_coordination.term"


@dataclass(frozen=True)
class ShardCopy:
    """One line of the routing table. ``node`` is a name, None while unassigned; ``state`` as OpenSearch says it.

    ``fresh``: it never held anything, its index has just been made.
    """

    index: str
    shard: int
    primary: bool
    state: str
    node: str | None
    relocating_to: str | None = None
    fresh: bool = False


@dataclass(frozen=True)
class Block:
    """That an index takes no reads, or no writes; None: no index of the cluster. ``says``: in OpenSearch's words."""

    index: str | None
    says: str


@dataclass(frozen=True)
class View:
    """The cluster as one node sees it. ``version`` grows with every change of the state; ``state`` is the name that
    OpenSearch gave the state of this version, None where it gave none. ``cluster``: its UUID; None: none is known."""

    seen_by: str
    version: int
    leader: str | None
    nodes: frozenset[str]
    copies: tuple[ShardCopy, ...]
    blocks: tuple[Block, ...] = ()
    state: str | None = None
    cluster: str | None = None

    @property
    def status(self) -> str:
        """green, yellow or red, as OpenSearch computes it from the routing table."""
        if any(copy.primary and copy.state not in STANDING and not copy.fresh for copy in self.copies):
            return "red"
        good = all(copy.state in STANDING for copy in self.copies)
        return "green" if good else "yellow"

    @property
    def building(self) -> bool:
        """True while any copy is being built or moved."""
        return any(copy.state in ("INITIALIZING", "RELOCATING") for copy in self.copies)


def view(cluster: Cluster, node: str, timeout: float = 2.0, last: View | None = None) -> View | None:
    """What ``node`` believes, which is one of those that can be asked; None when it does not answer in time, or nothing
    that can be read.

    ``last``: what it believed before. Where its state is the same, the shards are taken from that and not asked for.
    Who is elected and what is blocked a node changes in its own copy of a state, so these are always asked.
    """
    client = cluster.client(node, timeout=timeout)
    try:
        seen = _unchanged(node, client, last) if last is not None and last.state is not None else None
        if seen is None:
            status, state = client.request("GET", STATE)
            seen = parse(node, state) if status == 200 else None
    except (urllib3.exceptions.HTTPError, *UNREADABLE):
        return None
    finally:
        client.close()
    known = {each.name for each in cluster.topology.nodes}
    return seen if seen is None or seen.leader is None or seen.leader in known else None


def _unchanged(node: str, client: NodeClient, last: View) -> View | None:
    """What a node believes with the shards of ``last``; None where its state is another one, or it does not say."""
    status, state = client.request("GET", WITHOUT_SHARDS)
    seen = parse(node, state) if status == 200 else None
    if seen is None or (seen.version, seen.state) != (last.version, last.state):
        return None
    return replace(seen, copies=last.copies)


Counts = Callable[[View], View]
"""What of a view counts."""


def everything(seen: View) -> View:
    """On a lab all that is there is ours."""
    return seen


def parse(node: str, state: dict[str, Any]) -> View:
    """A view from the answer of ``_cluster/state``."""
    names = {id: entry["name"] for id, entry in state.get("nodes", {}).items()}
    copies = []
    for index, table in state.get("routing_table", {}).get("indices", {}).items():
        for shard, group in table["shards"].items():
            for copy in group:
                copies.append(
                    ShardCopy(
                        index,
                        int(shard),
                        bool(copy["primary"]),
                        copy["state"],
                        names.get(copy["node"], copy["node"]) if copy["node"] else None,
                        names.get(copy["relocating_node"]) if copy.get("relocating_node") else None,
                        _fresh(copy),
                    )
                )
    leader = state.get("cluster_manager_node") or state.get("master_node")
    elected = names.get(leader) if leader else None
    own, cluster = (
        given if isinstance(given, str) and given not in ("", UNNAMED) else None
        for given in (state.get("state_uuid"), state.get("cluster_uuid"))
    )
    members = frozenset(names.values())
    return View(node, int(state["version"]), elected, members, tuple(copies), _blocks(state), own, cluster)


def _blocks(state: dict[str, Any]) -> tuple[Block, ...]:
    """The blocks of reads and writes; others (of metadata, of making indices) keep no request of users away."""
    said = state.get("blocks") or {}
    every = {None: said.get("global") or {}, **(said.get("indices") or {})}
    return tuple(
        Block(index, str(block["description"]))
        for index, blocks in every.items()
        for block in blocks.values()
        if {"read", "write"} & set(block.get("levels") or ())
    )


def _fresh(copy: dict[str, Any]) -> bool:
    """OpenSearch calls a new index yellow until its primary stands (``ClusterShardHealth``), unless it cannot stand."""
    why = copy.get("unassigned_info") or {}
    refused = why.get("allocation_status") == "deciders_no" or "failed_attempts" in why
    return (copy.get("recovery_source") or {}).get("type") == "EMPTY_STORE" and not refused


def views(cluster: Cluster, timeout: float = 2.0) -> list[View]:
    """The view of everybody who can be asked, those that answer in time."""
    names = cluster.viewers
    with ThreadPoolExecutor(len(names)) as pool:
        return [seen for seen in pool.map(lambda name: view(cluster, name, timeout), names) if seen is not None]


def newest(seen: list[View]) -> View | None:
    """The view to believe: of those that have a leader, the one with the highest version."""
    led = [each for each in seen if each.leader is not None]
    return max(led, key=lambda each: each.version, default=None)


def lacking(cluster: Cluster) -> str:
    """Why it is not green, in words: the nodes that are no members and the copies that do not stand, three of each."""
    seen = newest(views(cluster))
    if seen is None:
        return "no node that answers sees a cluster manager"
    away = sorted({node.name for node in cluster.topology.nodes} - seen.nodes)
    down = [copy for copy in seen.copies if copy.state not in STANDING]
    found = [f"not in the cluster: {_some(away)}"] if away else []
    if down:
        words = [f"{printable(copy.index)}[{copy.shard}] {copy.state} on {copy.node or 'no node'}" for copy in down]
        verb = "does" if len(down) == 1 else "do"
        found.append(f"{plural(len(down), 'copy', 'copies')} of {len(seen.copies)} {verb} not stand: {_some(words)}")
    return "; ".join(found) or "it has just become so"


def _some(words: list[str]) -> str:
    return listed(words if len(words) <= 3 else [*words[:3], f"{len(words) - 3} more"])


def elected(cluster: Cluster) -> str | None:
    """The elected cluster manager by the word of most cluster managers that answer; None when most see none.

    Where they cannot be asked, by the word of those who can.
    """
    names = [node.name for node in cluster.topology.nodes if node.is_cluster_manager]
    asked = [name for name in names if name in cluster.viewers] or list(cluster.viewers)
    with ThreadPoolExecutor(len(asked)) as pool:
        votes = Counter(said for said in pool.map(lambda name: _leader_seen_by(cluster, name), asked) if said)
    if not votes:
        return None
    leader = votes.most_common(1)[0][0]
    return leader if leader in names else None


def _leader_seen_by(cluster: Cluster, node: str) -> str | None:
    """Whom ``node`` takes for the leader, NOBODY, or None when it does not answer. Far cheaper than a view."""
    client = cluster.client(node, timeout=2.0)
    try:
        status, rows = client.request("GET", "/_cat/cluster_manager?local=true&format=json&h=node")
        return str(rows[0]["node"]) if status == 200 else NOBODY
    except (urllib3.exceptions.HTTPError, LookupError, TypeError):
        return None
    finally:
        client.close()


def another_leader(cluster: Cluster, node: str, leader: str) -> bool:
    """True when ``node`` answers and takes a third node, neither ``leader`` nor itself, for the leader.

    A leader that was cut off believes in itself for long: its word alone is no news.
    """
    return _leader_seen_by(cluster, node) not in (None, NOBODY, leader, node)


def leaders(cluster: Cluster) -> dict[str, str | None]:
    """Whom each that can be asked takes for the leader: a name, NOBODY, or None when it does not answer."""
    names = cluster.viewers
    with ThreadPoolExecutor(len(names)) as pool:
        return dict(zip(names, pool.map(lambda name: _leader_seen_by(cluster, name), names), strict=True))


def await_elected(cluster: Cluster, seconds: float = 60.0) -> str:
    """The elected cluster manager, as soon as there is one. Raises LabError when there is none in time."""
    deadline = time.monotonic() + seconds
    while (leader := elected(cluster)) is None:
        if time.monotonic() > deadline:
            raise LabError(f"no cluster manager is elected after {seconds:g} s")
        time.sleep(0.2)
    return leader


def term(cluster: Cluster) -> int | None:
    """The term of the newest election that a cluster manager knows of; None when none of them answers."""

    def ask(name: str) -> int | None:
        client = cluster.client(name, timeout=2.0)
        try:
            status, state = client.request("GET", f"/_cluster/state/metadata?local=true&filter_path={TERM}")
            return int(state["metadata"]["cluster_coordination"]["term"]) if status == 200 else None
        except (urllib3.exceptions.HTTPError, LookupError, TypeError, ValueError):
            return None
        finally:
            client.close()

    names = [node.name for node in cluster.topology.nodes if node.is_cluster_manager]
    with ThreadPoolExecutor(len(names)) as pool:
        return max((each for each in pool.map(ask, names) if each is not None), default=None)


GATEWAYS = (502, 504)
"""Statuses by which a gateway says that it has no answer of the server's."""
REJECTED_SECONDS = 20.0
"""For how long an administrative request that is rejected is asked again."""


def administer(
    cluster: Cluster, method: str, path: str, body: Any = None, timeout: float = 60.0, through: str | None = None
) -> tuple[int, Any]:
    """One administrative request, through the elected manager (or ``through``), or else any node that answers.

    One that is rejected (429: a full heap, a full queue) is asked again for a while: heaps are collected. A GET that is
    answered with what cannot be read goes to the next node. Raises LabError when no node takes it, and Unanswered where
    a request that changes something was sent and nothing says what became of it: a gateway's word of an answer that it
    did not wait for says nothing either.
    """
    deadline = time.monotonic() + REJECTED_SECONDS
    leader = through or elected(cluster)
    order = ([leader] if leader else []) + [n.name for n in cluster.topology.nodes if n.name != leader]
    last = "no node answers"
    for name in order:
        client = cluster.client(name, timeout=timeout)
        try:
            status, answer = client.request(method, path, body=body)
            while status == 429 and time.monotonic() < deadline:
                time.sleep(0.25)
                status, answer = client.request(method, path, body=body)
            if method != "GET" and (status in GATEWAYS or (status == 503 and not isinstance(answer, dict))):
                raise Unanswered(f"{method} {path} on {name} answered {status}: {str(answer)[:200]}")
            return status, answer
        except urllib3.exceptions.ConnectTimeoutError as error:
            last = str(error)
        except urllib3.exceptions.NewConnectionError as error:
            last = str(error)
        except Garbled as error:
            last = f"{name}: {error}"
            if method != "GET":  # it may have been done, and to ask again is not ours to decide
                raise Unanswered(f"{method} {path} on {last}") from error
        except urllib3.exceptions.HTTPError as error:
            kind = LabError if method == "GET" else Unanswered
            raise kind(f"{method} {path} on {name}: {error}") from error
        finally:
            client.close()
    raise LabError(f"{method} {path}: {last}")


def await_green(
    cluster: Cluster,
    seconds: float,
    *,
    stable: float = 0.0,
    stopped: Callable[[], bool] = lambda: False,
    hopeless: float | None = None,
    counted: Callable[[View], View] = lambda seen: seen,
    counts: Callable[[View], bool] = lambda seen: True,
) -> tuple[bool, float]:
    """Until all nodes are in and the cluster is green, and stays so for ``stable`` seconds.

    ``counted``: what of a view says how the cluster is. ``counts``: whether a green view says anything. A view that
    is older than one before it does not: the leader applies a state last, up to ``cluster.publish.timeout`` after the
    others, where a node that is gone does not answer. Gives up when all nodes are in, it is red and no copy is being
    built for ``hopeless`` seconds.
    Returns whether green was reached within ``seconds``, and the seconds until it began (or the wait's length).
    """
    expected = {node.name for node in cluster.topology.nodes}
    began = time.monotonic()
    since: float | None = None
    stuck: float | None = None
    seen: View | None = None
    latest = 0
    while True:
        now = time.monotonic()
        # one question to the known leader; all nodes only while there is none: the lab's processors are scarce
        seen = view(cluster, seen.leader) if seen is not None and seen.leader in cluster.viewers else None
        if stopped():
            return False, now - began
        if seen is None or seen.leader != seen.seen_by or seen.version < latest:
            seen = newest(views(cluster))
        if seen is not None and seen.version < latest:
            seen = None
        latest = latest if seen is None else seen.version
        seen = None if seen is None else counted(seen)
        if seen is not None and seen.nodes >= expected and seen.status == "green":
            since = since if since is not None else now
            if now - since >= stable and counts(seen):
                return True, since - began
        else:
            since = None
        if seen is not None and seen.nodes >= expected and seen.status == "red" and not seen.building:
            stuck = stuck if stuck is not None else now
        else:
            stuck = None
        given_up = hopeless is not None and stuck is not None and now - stuck >= hopeless
        if now - began > seconds or given_up or stopped():
            return False, now - began
        time.sleep(0.25)
