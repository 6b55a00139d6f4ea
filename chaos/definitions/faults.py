"""The kinds of fault as data: which parameters each takes, and how it is said in one line.

How a fault is injected, proven and undone is no business of a definition; that is ``chaos.faults``.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import (
    Field,
    ModelWrapValidatorHandler,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from chaos.definitions.base import Strict
from chaos.definitions.selectors import NAME, LinkSelector, NodeSelector
from chaos.definitions.units import Duration, PositiveDuration, PositiveSizeRate


class Step(Strict):
    """A fault or an action: it has a kind, and says itself in one English line."""

    kind: ClassVar[str]

    def describe(self) -> str:
        """One English line for plan, report and log."""
        raise NotImplementedError

    @model_serializer(mode="wrap")
    def _write(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {"kind": self.kind, **handler(self)}

    @model_validator(mode="wrap")
    @classmethod
    def _read(cls, value: Any, handler: ModelWrapValidatorHandler[Any]) -> Any:
        if isinstance(value, dict) and value.get("kind") == getattr(cls, "kind", None):
            value = {key: item for key, item in value.items() if key != "kind"}  # the normal form
        return handler(value)


class FaultParams(Step):
    """What every fault takes."""

    name: str | None = Field(
        default=None,
        pattern=f"^{NAME}$",
        description="a name of its own, for undo; needed when the same kind is active twice on one target",
    )

    @property
    def selector(self) -> NodeSelector | LinkSelector:
        """Whom it hits."""
        raise NotImplementedError

    @property
    def label(self) -> str:
        """What undo calls it: its name, else its kind."""
        return self.name or self.kind


class NetworkFault(FaultParams):
    """A fault on directed links."""

    links: LinkSelector = Field(description="which directed links, for example 'to zone c'")

    @property
    def selector(self) -> LinkSelector:
        return self.links


class NodeFault(FaultParams):
    """A fault on whole nodes."""

    target: NodeSelector = Field(description="which nodes, for example 'node c-data'")

    @property
    def selector(self) -> NodeSelector:
        return self.target


class NetworkLatency(NetworkFault):
    """Added one-way delay. A round trip grows by it once per direction that is chosen."""

    kind = "network.latency"
    delay: PositiveDuration = Field(description="added one way, for example 300ms")
    jitter: Duration = Field(default=Duration(0), description="the delay varies by plus or minus this much")

    @model_validator(mode="after")
    def _jitter_below_delay(self) -> NetworkLatency:
        if self.jitter > self.delay:
            raise ValueError(
                f"jitter {self.jitter.text} is more than the delay {self.delay.text}: a delay cannot become negative"
            )
        return self

    def describe(self) -> str:
        jitter = f" ± {self.jitter.text}" if self.jitter else ""
        return f"+{self.delay.text}{jitter} on links {self.links.text}"


class NetworkBandwidth(NetworkFault):
    """A limit of throughput per link."""

    kind = "network.bandwidth"
    rate: PositiveSizeRate = Field(description="per link, for example 256KiB/s")

    def describe(self) -> str:
        return f"at most {self.rate.text} on links {self.links.text}"


class NetworkDrop(NetworkFault):
    """Packets vanish at layer 3; TCP retransmits and goes on after healing."""

    kind = "network.drop"

    def describe(self) -> str:
        return f"packets vanish on links {self.links.text}"


class NetworkHang(NetworkFault):
    """Connections are accepted and their bytes vanish; healing closes them."""

    kind = "network.hang"

    def describe(self) -> str:
        return f"connections hang on links {self.links.text}"


class NetworkRefuse(NetworkFault):
    """New connections are refused."""

    kind = "network.refuse"

    def describe(self) -> str:
        return f"connections are refused on links {self.links.text}"


class NetworkReset(NetworkFault):
    """Connections are reset."""

    kind = "network.reset"

    def describe(self) -> str:
        return f"connections are reset on links {self.links.text}"


class NodeKill(NodeFault):
    """SIGKILL; the node is started again, with its data, at undo."""

    kind = "node.kill"

    def describe(self) -> str:
        return f"kill {self.target.text}"


class NodeStop(NodeFault):
    """SIGTERM, an orderly stop; the node is started again, with its data, at undo."""

    kind = "node.stop"

    def describe(self) -> str:
        return f"stop {self.target.text} in good order"


class NodePause(NodeFault):
    """SIGSTOP: the process freezes while its kernel still acknowledges; SIGCONT at undo."""

    kind = "node.pause"

    def describe(self) -> str:
        return f"pause {self.target.text}"


class NodeLoss(NodeFault):
    """Killed and its data folder emptied; an empty replacement joins at undo."""

    kind = "node.loss"

    def describe(self) -> str:
        return f"lose {self.target.text} with all its data"


FAULTS: dict[str, type[FaultParams]] = {
    fault.kind: fault
    for fault in (
        NetworkLatency,
        NetworkBandwidth,
        NetworkDrop,
        NetworkHang,
        NetworkRefuse,
        NetworkReset,
        NodeKill,
        NodeStop,
        NodePause,
        NodeLoss,
    )
}
"""Every kind of fault that a definition can name."""
