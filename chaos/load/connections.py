"""The opensearch-py side: what sends a request of the load, and through which node.

For a declared client policy each (client host, node) has a client of its own with one host and no retries, so
that the choice of node is ours alone. The kind ``opensearch-py`` leaves the choice to that library. In both,
the connection notes which node an attempt went to, and answers come back undecoded with their status, which
the library would otherwise decode and throw away.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from opensearchpy import OpenSearch
from opensearchpy.connection import Connection
from opensearchpy.connection_pool import RoundRobinSelector
from opensearchpy.exceptions import TransportError
from opensearchpy.serializer import JSONSerializer

from chaos.base.access import Access
from chaos.base.netsock import Namespace
from chaos.load.calls import CURRENT, BulkJson
from chaos.load.config import Target
from chaos.load.network import connection_class
from chaos.load.pool import KeptConnections
from chaos.opensearch.rest import LibraryConnection, only_of


class Trace(dict[str, str]):
    """Follows one request through its attempts.

    opensearch-py hands the ``headers`` of a request to every attempt untouched; this is an empty set of them.
    ``failed``: (node, error) of each attempt that came to one; of those that it tried again nothing else tells.
    """

    __slots__ = ("attempts", "failed", "failure", "node")

    def __init__(self) -> None:
        self.attempts = 0
        self.node: int | None = None
        self.failure = 0
        """Why it failed (:class:`chaos.history.failures.Failure`); 0 where it did not."""
        self.failed: list[tuple[int, TransportError]] = []


class Raw(JSONSerializer):
    """Leaves requests and answers as they are."""

    def loads(self, s: Any) -> Any:
        return s

    def dumps(self, data: Any) -> Any:
        return data


class ZoneHttpConnection(LibraryConnection):
    """opensearch-py's connection to one node, made in one namespace. A body that is no UTF-8 is garbled: opensearch-py
    finds that out too, but forgets the status over it, and takes lone surrogates for text."""

    def __init__(
        self,
        *,
        node: int,
        namespace: Namespace | None,
        access: Access,
        pool_maxsize: int,
        use_ssl: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(use_ssl=use_ssl, pool_maxsize=pool_maxsize, **kwargs)
        self._node = node
        pool = self.pool
        pool.ConnectionCls = only_of(connection_class(namespace, tls=use_ssl), access)
        self.pool = KeptConnections(pool, most=pool_maxsize)

    def perform_request(
        self,
        method: str,
        url: str,
        params: Mapping[str, Any] | None = None,
        body: bytes | None = None,
        timeout: int | float | None = None,
        ignore: Collection[int] = (),
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        if isinstance(headers, Trace):
            headers.attempts += 1
            headers.node = self._node
        try:
            status, _, text = super().perform_request(method, url, params, body, timeout, ignore, headers)
        except TransportError as error:
            if isinstance(headers, Trace):
                headers.failed.append((self._node, error))
            raise
        return status, {}, (status, text)


class HelperConnection(ZoneHttpConnection):
    """The same under a helper of opensearch-py: each of its requests is noted by the call that it belongs to
    (:mod:`chaos.load.calls`), and its answer goes back as the library expects it."""

    def perform_request(
        self,
        method: str,
        url: str,
        params: Mapping[str, Any] | None = None,
        body: bytes | None = None,
        timeout: int | float | None = None,
        ignore: Collection[int] = (),
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        call = CURRENT.get()
        call.begins(self._node, url, body or b"")
        try:
            status, _, (_, text) = super().perform_request(method, url, params, body, timeout, ignore, headers)
        except Exception as error:
            call.fails(error)
            raise
        call.answered(status, text)
        return status, {}, text


class Balanced(Connection):
    """The one connection of a client that stands behind a load balancer: each of its requests goes to the node that the
    balancer chooses."""

    def __init__(self, *, behind: Mapping[int, Connection], choose: Callable[[], int], **kwargs: Any) -> None:
        super().__init__(**{key: kwargs[key] for key in ("host", "port", "use_ssl") if key in kwargs})
        self._behind, self._choose = behind, choose

    def perform_request(self, *args: Any, **kwargs: Any) -> Any:
        return self._behind[self._choose()].perform_request(*args, **kwargs)


class OneCounter(RoundRobinSelector):
    """opensearch-py's round robin with one counter for all greenlets.

    The library counts for each thread, and gevent makes a thread's own data a greenlet's own. Every arrival is a
    greenlet, so each would be its thread's first request, and all would go to the first node.
    """

    def __init__(self, opts: Sequence[tuple[Connection, Any]]) -> None:
        super().__init__(opts)
        self.data: Any = SimpleNamespace()


def single(
    target: Target, number: int, namespace: Namespace | None, access: Access, *, pool: int, compress: bool = False
) -> OpenSearch:
    """A client of one node, without retries and without a timeout of its own: the sender sets one for all.

    ``compress``: bodies are sent with gzip, and so answered (``http_compress``).
    """
    more: dict[str, Any] = {"http_compress": True} if compress else {}
    return _client([(number, target)], namespace, access, pool=pool, timeout=None, max_retries=0, **more)


def by_default_policy(
    targets: Mapping[int, Target],
    namespace: Namespace | None,
    access: Access,
    *,
    pool: int,
    timeout_s: float,
    compress: bool = False,
    helper: bool = False,
    choose: Callable[[], int] | None = None,
) -> OpenSearch:
    """A client of these targets, by their numbers, with opensearch-py's own policy; ``timeout_s`` is for each
    attempt. ``helper``: for the library's helpers, which read answers themselves. ``choose``: the client knows one
    address alone, behind which this chooses the target of each request."""
    numbered = list(targets.items())
    more: dict[str, Any] = {"http_compress": True} if compress else {}
    if helper:
        more |= {"connection_class": HelperConnection, "serializer": BulkJson()}
    if choose is not None:
        each = {
            number: _client([(number, target)], namespace, access, pool=pool, timeout=timeout_s, **more)
            for number, target in numbered
        }
        behind = {number: made.transport.connection_pool.connections[0] for number, made in each.items()}
        more = {"connection_class": Balanced, "serializer": BulkJson(), "behind": behind, "choose": choose}
        numbered = numbered[:1]
    return _client(numbered, namespace, access, pool=pool, timeout=timeout_s, selector_class=OneCounter, **more)


def _client(
    targets: list[tuple[int, Target]],
    namespace: Namespace | None,
    access: Access,
    *,
    pool: int,
    timeout: float | None,
    **policy: Any,
) -> OpenSearch:
    return OpenSearch(
        hosts=[
            {"host": target.host, "port": target.port, "node": number, "access": target.reached_by(access)}
            for number, target in targets
        ],
        namespace=namespace,
        timeout=timeout,
        # not the library's 10: a stall must not also cost a new connection for each later request
        pool_maxsize=pool,
        **access.of_client(),
        **{"connection_class": ZoneHttpConnection, "serializer": Raw(), **policy},
    )
