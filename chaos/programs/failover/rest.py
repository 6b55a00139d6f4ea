"""OpenSearch's REST API as the controller uses it: every call has a deadline of its own, and says why it failed."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import urllib3

from chaos.base.access import Access, distrust
from chaos.base.errors import ChaosError
from chaos.base.netsock import Endpoint
from chaos.base.sigv4 import refusal
from chaos.opensearch.cluster import Zoning
from chaos.opensearch.rest import NodeClient

DATA_ROLES = frozenset({"data", "warm", "search"})


@dataclass(frozen=True)
class Node:
    """A node that is spoken to. ``address`` is ``host:port`` of its HTTP."""

    name: str
    zone: str
    address: str
    is_data: bool
    eligible: bool

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Answer:
    """``status`` 0: none came. ``says`` is for people: the status, or why none came.

    ``trusted`` False: none was asked for, because the node's certificate does not hold.
    """

    status: int
    body: Any
    seconds: float
    says: str
    trusted: bool = True

    @property
    def ok(self) -> bool:
        return self.status == 200


class Api:
    """Connections to all nodes; thread-safe."""

    def __init__(self, access: Access) -> None:
        """Raises InvalidInput when secrets, certificates or AWS credentials cannot be read."""
        access.check()
        self._access = access
        self._clients: dict[tuple[str, str | None], NodeClient] = {}
        self._making = threading.Lock()

    def ask(self, node: Node, method: str, path: str, body: Any = None, *, timeout: float) -> Answer:
        """Never raises. ``timeout`` in seconds, for the whole call."""
        return self._ask(node.address, node.name, method, path, body, timeout=timeout)

    def ask_at(self, address: str, method: str, path: str, body: Any = None, *, timeout: float) -> Answer:
        """The same, of an address of which no node is known yet."""
        return self._ask(address, None, method, path, body, timeout=timeout)

    def _ask(
        self, address: str, node: str | None, method: str, path: str, body: Any = None, *, timeout: float
    ) -> Answer:
        began = time.monotonic()
        try:
            status, data = self._client(address, node).request(method, path, body=body, whole=timeout)
        except ChaosError as error:  # secrets are read again for each address: one that is gone is no answer
            return Answer(0, None, time.monotonic() - began, str(error))
        except urllib3.exceptions.HTTPError as error:
            seconds = time.monotonic() - began
            cause = type(error).__name__.removesuffix("Error")
            if why := distrust(error):
                return Answer(0, None, seconds, f"not to be trusted, {why}", trusted=False)
            return Answer(0, None, seconds, f"{cause} after {seconds * 1000:.0f} ms")
        seconds = time.monotonic() - began
        return Answer(status, data, seconds, f"HTTP {status} after {seconds * 1000:.0f} ms")

    def _client(self, address: str, node: str | None) -> NodeClient:
        """Where the access is for one cluster, for this node of it alone."""
        with self._making:
            if (address, node) not in self._clients:
                host, _, port = address.rpartition(":")
                access = self._access if node is None else self._access.only(node)
                self._clients[address, node] = NodeClient(Endpoint(host.strip("[]"), int(port)), access=access)
            return self._clients[address, node]


def discover(api: Api, addresses: Sequence[str], zoning: Zoning, *, timeout: float) -> tuple[list[Node], str]:
    """The cluster's nodes that have the zone's attribute, as the first of these addresses that answers knows them, with
    zones as ``zoning`` calls them.

    With none: an empty list, and why, in words. Nodes are reached where they publish their HTTP address.
    """
    says = "no address was given"
    path = "/_nodes/http?timeout=2s&filter_path=nodes.*.name,nodes.*.roles,nodes.*.attributes,nodes.*.http"
    for address in addresses:
        answer = api.ask_at(address, "GET", path, timeout=timeout)
        if not answer.ok or not isinstance(answer.body, dict):
            reason = (answer.body or {}).get("error") if isinstance(answer.body, dict) else None
            if told := refusal(answer.body):
                reason = "; ".join(told)
            says = f"{address}: {answer.says}{f' ({str(reason)[:200]})' if reason else ''}"
            continue
        nodes = []
        for each in answer.body.get("nodes", {}).values():
            zone = each.get("attributes", {}).get(zoning.attribute)
            published = each.get("http", {}).get("publish_address", "")
            if not zone or not published:
                continue
            roles = set(each.get("roles", ()))
            nodes.append(
                Node(
                    each["name"],
                    zoning.zone(zone),
                    published.rpartition("/")[2],  # "name/address:port" where a name is published
                    bool(roles & DATA_ROLES),
                    bool(roles & {"cluster_manager", "master"}),
                )
            )
        if nodes:
            return sorted(nodes, key=lambda node: node.name), ""
        says = f"{address}: no node has the attribute {zoning.attribute}"
    return [], says
