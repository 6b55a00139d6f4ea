"""What an object store does to its cluster: it is slow, refuses, throttles or hangs, for all keys or some.

Each is a fault of HTTP requests between nodes and a service, in the words that people have for a store. Its proof asks
for more than theirs: requests that the nodes themselves sent, and how they were answered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from chaos.base.units import Percent
from chaos.definitions.selectors import NAME, LinkSelector, NodeSelector
from chaos.definitions.source import did_you_mean
from chaos.definitions.steps import Noticing, Scene
from chaos.definitions.topology import Topology
from chaos.faults.evidence import Evidence, tolerance
from chaos.faults.kind import Kind
from chaos.faults.kinds.http import (
    AT,
    At,
    Delay,
    HttpDelay,
    HttpHang,
    HttpStatus,
    OnRequests,
    Share,
    Status,
    Verb,
    everybody,
)
from chaos.faults.kinds.network import AMBER
from chaos.faults.offers import Aim, Means
from chaos.faults.requests import OwnRequests
from chaos.targets.wiring import Wiring

Prefix = Literal["segments", "translog", "metadata", "state"]
PATHS: dict[Prefix, tuple[str, ...]] = {
    "segments": ("*/segments/data/*",),
    "translog": ("*/translog/data/*",),
    "metadata": ("*/segments/metadata/*", "*/translog/metadata/*"),
    "state": ("*/cluster-state/*",),
}
"""Where 3.8.0 keeps what, below bucket and base path: RemoteStoreEnums (DataCategory, DataType) in the server's
sources, and RemoteClusterStateUtils for the cluster's state."""


def s3_error(code: str, says: str) -> str:
    """The body of an error as S3 gives it: its clients read the code."""
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>{says}</Message></Error>'


class OnStore(Kind):
    """What all of these have in common."""

    family = "store"
    noticing: ClassVar[Noticing] = "hardly"
    example_topology = "3az-remote-store-http"
    holding = OnRequests.holding
    service: Annotated[str, Field(pattern=f"^{NAME}$", description="the store, for example store")]
    nodes: NodeSelector | None = Field(default=None, description="whose requests, for example 'role data'; default all")
    prefix: Prefix | None = Field(
        default=None, description="of which keys: segments, translog, metadata or state; default all"
    )
    verbs: tuple[Verb, ...] = Field(default=(), description="only these, for example [PUT]; default all")
    share: Share = Field(default=Percent(1.0), description="of these requests, for example 20%")

    def check(self, topology: Topology) -> list[str]:
        if self.service not in topology.service_hosts:
            known = did_you_mean(self.service, topology.service_hosts) if topology.service_hosts else "it has no store"
            return [
                f"{self.service} is no service of topology {topology.name} that is reached over the network: {known}"
            ]
        if topology.http_hosts and self.service not in topology.http_hosts:
            return [
                f"no HTTP layer is before {self.service} in topology {topology.name}: expected it in its http_layer"
            ]
        return []

    @property
    def links(self) -> LinkSelector:
        asking = f"from {self.nodes.text} to" if self.nodes is not None else "to"
        return LinkSelector.parse(f"{asking} service {self.service}")

    @property
    def part(self) -> OnRequests:
        raise NotImplementedError

    @property
    def paths(self) -> tuple[str, ...]:
        return PATHS[self.prefix] if self.prefix is not None else ()

    def _given(self) -> dict[str, Any]:
        return {"links": self.links, "share": self.share, "verbs": self.verbs, "paths": self.paths}

    @property
    def which(self) -> str:
        share = f"{self.share.text} of " if self.share < 1 else ""
        verbs = f" by {' and '.join(self.verbs)}" if self.verbs else ""
        about = f" about {self.prefix}" if self.prefix else ""
        return f"{share}the requests of {self.nodes.text if self.nodes else 'nodes'}{verbs}{about}"

    def claims(self, scene: Scene) -> frozenset[str]:
        return self.part.claims(scene)

    def aim(self, id: str, scene: Scene, wiring: Wiring) -> Aim:
        return self.part.aim(id, scene, wiring)

    def evidence(self, aim: Aim, means: Means) -> Evidence:
        part = self.part
        others = [pair for pair in everybody(aim.wiring) if pair not in aim.links]
        return OwnRequests(sorted(aim.links), others, part.wanted, part.effect, fault=aim.id, shows=self.shows)

    @property
    def shows(self) -> Callable[[Mapping[str, Any]], bool]:
        """Whether a line of the layer's record is what becomes of a request that meets it."""
        raise NotImplementedError


PROOF = "requests of ours that stand for those, and what nodes themselves sent since: {}, as many as the share says"


class StoreSlow(OnStore):
    """The store takes longer for each request. Links are as fast as before."""

    kind = "store.slow"
    made_of = HttpDelay.kind
    colour = AMBER
    examples = (
        {"service": "store", "delay": "300ms"},
        {"service": "store", "delay": "500ms", "prefix": "translog", "share": "50%", "verbs": ["PUT"]},
    )
    proof = PROOF.format("answered later by the delay")
    delay: Delay = Field(description="for example 300ms")

    def describe(self) -> str:
        return f"{self.service} takes {self.delay.text} longer for {self.which}"

    @property
    def part(self) -> OnRequests:
        return HttpDelay(**self._given(), delay=self.delay)

    @property
    def shows(self) -> Callable[[Mapping[str, Any]], bool]:
        least = float(self.delay) - tolerance(float(self.delay))
        return lambda row: (row["end"] - row["t"]) / 1e9 >= least


class StoreErrors(OnStore):
    """The store answers with errors, and does nothing of what it was asked."""

    kind = "store.errors"
    made_of = HttpStatus.kind
    examples = (
        {"service": "store", "status": 500},
        {"service": "store", "status": 403, "prefix": "segments"},
        {"service": "store", "status": 500, "prefix": "metadata", "share": "50%"},
    )
    proof = PROOF.format("answered with the error")
    status: Status = Field(default=500, description="for example 500, which is tried again, or 403, which is not")

    def describe(self) -> str:
        return f"{self.service} answers {self.status} to {self.which}"

    @property
    def part(self) -> OnRequests:
        code = {403: "AccessDenied", 404: "NoSuchKey", 503: "ServiceUnavailable"}.get(self.status, "InternalError")
        body = s3_error(code, "a fault of a test")
        return HttpStatus(**self._given(), status=self.status, body=body, content_type="application/xml")

    @property
    def shows(self) -> Callable[[Mapping[str, Any]], bool]:
        return lambda row: row["how"] == "status" and row["status"] == self.status


class StoreThrottle(OnStore):
    """The store asks for fewer requests: 503 SlowDown, after which clients wait longer before they try again."""

    kind = "store.throttle"
    made_of = HttpStatus.kind
    examples = ({"service": "store", "share": "30%"}, {"service": "store", "share": "50%", "prefix": "translog"})
    proof = PROOF.format("answered 503")

    def describe(self) -> str:
        return f"{self.service} throttles {self.which} (503 SlowDown)"

    @property
    def part(self) -> OnRequests:
        body = s3_error("SlowDown", "Please reduce your request rate.")
        return HttpStatus(**self._given(), status=503, body=body, content_type="application/xml")

    @property
    def shows(self) -> Callable[[Mapping[str, Any]], bool]:
        return lambda row: row["how"] == "status" and row["status"] == 503


class StoreHang(OnStore):
    """The store takes requests and never answers, or not to the end. When it ends their connections are closed."""

    kind = "store.hang"
    made_of = HttpHang.kind
    noticing = "by checks"
    examples = ({"service": "store"}, {"service": "store", "prefix": "translog", "share": "50%"})
    proof = PROOF.format("never answered, or not to the end")
    at: At = Field(default="before", description=AT)

    def describe(self) -> str:
        says = "never answers" if self.at == "before" else "answers half of"
        return f"{self.service} {says} {self.which}"

    @property
    def part(self) -> OnRequests:
        return HttpHang(**self._given(), at=self.at)

    @property
    def shows(self) -> Callable[[Mapping[str, Any]], bool]:
        return lambda row: row["how"] == "hung"
