"""What is done to HTTP requests: some of them are late, refused, never answered, or cut off.

Between clients and nodes, or between nodes and a service. Which requests: a share of those with a verb and a path.
They pass a layer where the topology has one (``http_layer``).
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StrictInt

from chaos.base.errors import InvalidInput
from chaos.base.units import Duration, Percent, PositiveDuration, PositivePercent, at_least
from chaos.definitions.selectors import LinkSelector
from chaos.definitions.steps import Noticing, Scene
from chaos.definitions.topology import Topology
from chaos.faults.evidence import Evidence
from chaos.faults.kind import Kind, link_claims
from chaos.faults.kinds.network import AMBER
from chaos.faults.offers import Aim, Means
from chaos.faults.probes import Pair
from chaos.faults.requests import Effect, RequestEvidence, Wanted, answered_with, cut, delayed, hung
from chaos.targets.wiring import Wiring

LEAST_SHARE, LEAST_DELAY = Percent(0.05), Duration(0.1)
Share = Annotated[PositivePercent, at_least(LEAST_SHARE, "cannot be told from none by some hundred requests")]
Delay = Annotated[PositiveDuration, at_least(LEAST_DELAY, "cannot be told from a busy machine")]
Status = Annotated[StrictInt, Field(ge=400, le=599)]
Verb = Literal["GET", "HEAD", "PUT", "POST", "DELETE"]
At = Literal["before", "body"]
AT = "before an answer, or in its body: after its head and half of a part of it; answers without a body are left alone"


def asking(wiring: Wiring, links: frozenset[Pair]) -> list[Pair]:
    """The links over which HTTP requests go that pass a layer."""
    return sorted((a, b) for a, b in links if wiring.asks_http(a, b))


def everybody(wiring: Wiring) -> list[Pair]:
    names = [host.name for host in wiring.hosts]
    return [(a, b) for a in names for b in names if wiring.asks_http(a, b)]


class OnRequests(Kind):
    """What all of these have in common. ``rule``: what the layer is told, beside whom it is about."""

    family = "http"
    noticing: ClassVar[Noticing] = "at once"
    example_topology = "3az-http"
    holding = (
        "where every request meets it one over one of its links every two seconds, in turn; before the undo all of its "
        "proof. The layer's process is watched as the nodes' are"
    )
    links: LinkSelector = Field(description="over which links, for example 'from clients to node c-data'")
    share: Share = Field(default=Percent(1.0), description="of the requests that it is about, for example 20%")
    verbs: tuple[Verb, ...] = Field(default=(), description="only these, for example [PUT]; default all")
    paths: tuple[str, ...] = Field(
        default=(),
        description="only these, without query, as shell patterns, for example ['/chaos/_search*']; default all",
    )

    def check(self, topology: Topology) -> list[str]:
        wrong = [path for path in self.paths if not path.startswith(("/", "*"))]
        return [f"the path {path!r} matches no request: expected it to begin with / or *" for path in wrong]

    def aim(self, id: str, scene: Scene, wiring: Wiring) -> Aim:
        """Raises InvalidInput where no request that passes a layer goes over these links."""
        links = frozenset(asking(wiring, scene.links(self.links)))
        if wiring.layered and not links:
            raise InvalidInput(
                f"{self.kind}: no HTTP request that passes a layer goes over the links {self.links.text}",
                remedy=f"links to {', '.join(sorted(wiring.layered))}, or a wider http_layer in the topology",
            )
        return Aim(id, scene, wiring, links=links)

    def claims(self, scene: Scene) -> frozenset[str]:
        """The links over which the requests go; what else is said on others is left alone."""
        return link_claims(frozenset(asking(Wiring.of_topology("plan", scene.topology), scene.links(self.links))))

    @property
    def wanted(self) -> Wanted:
        return Wanted(float(self.share), self.verbs, self.paths)

    @property
    def which(self) -> str:
        """The requests, in words."""
        share = f"{self.share.text} of the " if self.share < 1 else ""
        verbs = f"{' and '.join(self.verbs)} " if self.verbs else ""
        paths = f" for {' or '.join(self.paths)}" if self.paths else ""
        return f"{share}{verbs}requests{paths} on links {self.links.text}"

    @property
    def rule(self) -> dict[str, Any]:
        raise NotImplementedError

    @property
    def effect(self) -> Effect:
        raise NotImplementedError

    def evidence(self, aim: Aim, means: Means) -> Evidence:
        touched = sorted(aim.links)
        others = [pair for pair in everybody(aim.wiring) if pair not in aim.links]
        return RequestEvidence(touched, others, self.wanted, self.effect)


class HttpDelay(OnRequests):
    """Requests wait before they go on."""

    kind = "http.delay"
    noticing = "hardly"
    colour = AMBER
    examples = (
        {"links": "from clients to node c-data", "delay": "300ms"},
        {
            "links": "from clients of zone a to node a-data",
            "delay": "500ms",
            "share": "50%",
            "paths": ["/chaos/_search*"],
        },
    )
    proof = "requests of ours that stand for those are later by the delay, as many as the share says; others are not"
    delay: Delay = Field(description="for example 300ms")

    @property
    def lateness(self) -> Duration:
        return self.delay

    def describe(self) -> str:
        return f"+{self.delay.text} for {self.which}"

    @property
    def rule(self) -> dict[str, Any]:
        return {"effect": "delay", "seconds": float(self.delay)}

    @property
    def effect(self) -> Effect:
        return delayed(float(self.delay))


class HttpStatus(OnRequests):
    """Requests are answered with an error in the server's place, and never reach it."""

    kind = "http.status"
    examples = (
        {"links": "from clients to node c-data", "status": 503},
        {"links": "from clients of zone a to node a-data", "status": 429, "share": "20%", "verbs": ["PUT", "POST"]},
    )
    proof = "requests of ours that stand for those are answered so, as many as the share says; others as before"
    status: Status = Field(description="400 to 599, for example 503")
    body: str = Field(default="", description="of the answer; default empty")
    content_type: str = Field(default="text/plain", description="of the answer, for example application/json")

    def describe(self) -> str:
        return f"{self.status} to {self.which}"

    @property
    def rule(self) -> dict[str, Any]:
        return {"effect": "status", "status": self.status, "body": self.body, "type": self.content_type}

    @property
    def effect(self) -> Effect:
        return answered_with(self.status)


class HttpHang(OnRequests):
    """Requests are taken and never answered, or not to the end. When it ends their connections are closed."""

    kind = "http.hang"
    noticing = "by checks"
    examples = (
        {"links": "from clients to node c-data"},
        {"links": "from clients of zone a to node a-data", "at": "body", "share": "30%"},
    )
    proof = "requests of ours that stand for those get nothing, or a half of their answer, as many as the share says"
    at: At = Field(default="before", description=AT)

    def describe(self) -> str:
        return f"no answer to {self.which}" if self.at == "before" else f"half an answer to {self.which}, and no more"

    @property
    def rule(self) -> dict[str, Any]:
        return {"effect": "hang", "where": self.at}

    @property
    def effect(self) -> Effect:
        return hung(body=self.at == "body")


class HttpCut(OnRequests):
    """The connection of a request ends before its answer, or in the middle of it."""

    kind = "http.cut"
    examples = (
        {"links": "from clients to node c-data"},
        {"links": "from clients of zone a to node a-data", "at": "body", "share": "30%"},
    )
    proof = "connections of ours end so, as many as the share says; others are answered as before"
    at: At = Field(default="before", description=AT)

    def describe(self) -> str:
        return f"connections end {'before' if self.at == 'before' else 'in'} the answers to {self.which}"

    @property
    def rule(self) -> dict[str, Any]:
        return {"effect": "cut", "where": self.at}

    @property
    def effect(self) -> Effect:
        return cut(body=self.at == "body")
