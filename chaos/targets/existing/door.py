"""One address for the whole cluster: nodes are asked through it, each by its name.

So it is behind a load balancer, in front of a managed domain, or with an ingress: whoever takes a request, answers it
for the node that is meant. What only a node itself can tell (whom it takes for the leader, which settings it goes by)
is not asked for here: the elected manager answers instead.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

from chaos.base.access import Access
from chaos.base.netsock import Endpoint
from chaos.opensearch.rest import NodeClient

LOCAL_NODE = re.compile(r"(?<=^/_nodes/)_local(?=[/?]|$)")
LOCAL_COPY = re.compile(r"(?<=[=|C])_only_local(?=&|$)")
"""Of a preference, after ``=`` or ``|`` (``%7C``)."""
LOCAL_VIEW = re.compile(r"(?<=[?&])local=true(?=&|$)")
PATIENCE = "cluster_manager_timeout=10s"


def asked_of(node: str, path: str) -> str:
    """A path that a node is to answer, as any other one may be asked for it.

    ``_only_nodes`` is one copy's node as ``_only_local`` is (``OperationRouting``, OpenSearch 3.8.0). While zones have
    weights OpenSearch refuses it (``cluster.routing.weighted.strict``).
    """
    path = LOCAL_NODE.sub(quote(node, safe=""), path)
    path = LOCAL_COPY.sub(f"_only_nodes:{quote(node, safe='')}", path)
    return LOCAL_VIEW.sub(PATIENCE, path)


class DoorClient(NodeClient):
    """Asks one node through an address behind which any of them may answer. ``node`` None: no one in particular."""

    def __init__(self, door: Endpoint, node: str | None, *, access: Access, timeout: float) -> None:
        super().__init__(door, access=access, timeout=timeout)
        self._node = node

    def fetch(
        self, method: str, path: str, *, body: Any = None, timeout: float | None = None, whole: float | None = None
    ) -> tuple[int, bytes]:
        path = LOCAL_VIEW.sub(PATIENCE, path) if self._node is None else asked_of(self._node, path)
        return super().fetch(method, path, body=body, timeout=timeout, whole=whole)
