"""The kinds of action as data: an operator's or controller's moves that are no faults."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, GetJsonSchemaHandler, StrictBool, StrictInt, model_validator
from pydantic_core import core_schema

from chaos.base.units import Duration, PositiveDuration
from chaos.definitions.base import replaced
from chaos.definitions.selectors import NAME, NodeSelector
from chaos.definitions.steps import Step
from chaos.definitions.topology import Setting


class ActionParams(Step):
    """What every action shares: nothing but a kind and a sentence."""


class Decommission(ActionParams):
    """Take a zone out of the cluster by OpenSearch's own decommission API."""

    kind = "decommission"
    zone: str = Field(description="the zone that leaves; its weight must be 0 by then")
    no_delay: StrictBool = Field(default=False, description="skip draining; the right choice in an outage")
    delay_timeout: Duration | None = Field(
        default=None, description="how long the zone drains; OpenSearch's default is 120s"
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> Decommission:
        if self.no_delay and self.delay_timeout:
            raise ValueError("no_delay and delay_timeout exclude each other: OpenSearch answers 400 to both")
        return self

    def describe(self) -> str:
        if self.no_delay:
            return f"decommission zone {self.zone} without delay"
        drained = f", draining {self.delay_timeout.text}" if self.delay_timeout is not None else ""
        return f"decommission zone {self.zone}{drained}"


class Recommission(ActionParams):
    """Let a decommissioned zone join again."""

    kind = "recommission"
    zone: str = Field(description="the zone that comes back")

    def describe(self) -> str:
        return f"recommission zone {self.zone}"


class Weights(ActionParams):
    """Set the weights of the zones; in YAML a plain mapping of zone to weight."""

    kind = "weights"
    weights: dict[str, StrictInt] = Field(description="zone to weight; 0 is a standby zone")

    @model_validator(mode="before")
    @classmethod
    def _plain_mapping(cls, value: Any) -> Any:
        if isinstance(value, dict) and not (set(value) == {"weights"} and isinstance(value["weights"], dict)):
            return {"weights": value}
        return value

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        plain = {
            "type": "object",
            "description": "zone to weight; 0 is a standby zone",
            "additionalProperties": {"type": "integer", "minimum": 0},
            "minProperties": 1,
        }
        return replaced(handler, schema, plain)

    def describe(self) -> str:
        listed = ", ".join(f"{zone} {weight}" for zone, weight in self.weights.items())
        return f"set the zones' weights to {listed}"


class ExcludeVotes(ActionParams):
    """Take votes away, as an operator does before cluster managers are taken out."""

    kind = "exclude_votes"
    target: NodeSelector = Field(
        description="the cluster managers that lose their votes, for example node a-cm, or elected cluster manager"
    )

    @model_validator(mode="after")
    def _named(self) -> ExcludeVotes:
        if self.target.pick is not None:
            raise ValueError(
                f"{self.target.text!r} draws, and whose vote it is must be known: expected cluster managers by name, "
                "zone or role, or the elected one"
            )
        return self

    def describe(self) -> str:
        return f"take the votes of {self.target.text} away"


class IncludeVotes(ActionParams):
    """Give back the votes that exclude_votes has taken away."""

    kind = "include_votes"

    def describe(self) -> str:
        return "give the votes back"


class Reindex(ActionParams):
    """Copy the load's index to a new one with other settings, by OpenSearch's _reindex, while the load goes on."""

    kind = "reindex"
    settings: dict[str, Setting] = Field(
        min_length=1,
        description="settings of the new index over those of the load's, for example {replication.type: SEGMENT}",
    )
    within: PositiveDuration = Field(default=Duration.parse("3m"), description="by then all must be copied")

    def describe(self) -> str:
        listed = ", ".join(f"{name} {value}" for name, value in self.settings.items())
        return f"copy the load's index to one with {listed}"


class Reroute(ActionParams):
    """Ask the cluster to look again where copies may go (_cluster/reroute), as after a setting was changed."""

    kind = "reroute"

    def describe(self) -> str:
        return "let the cluster look again where copies may go"


class RetryFailed(ActionParams):
    """Ask the cluster to try again copies that it has given up after five failures (_cluster/reroute?retry_failed)."""

    kind = "retry_failed"

    def describe(self) -> str:
        return "let the cluster try again the copies that it has given up"


IndexName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=200)]


class OnIndex(ActionParams):
    """What is done to one index that this experiment makes, never to the load's or to somebody else's."""

    index: IndexName = Field(description="its name, for example archive")


class IndexCreate(OnIndex):
    """Make an index beside the load's; it is deleted at the end of the run."""

    kind = "index_create"
    settings: dict[str, Setting] = Field(
        default_factory=dict, description="its settings, for example {number_of_replicas: 0}"
    )

    def describe(self) -> str:
        listed = ", ".join(f"{name} {value}" for name, value in self.settings.items())
        return f"make the index {self.index}{f' with {listed}' if listed else ''}"


class IndexClose(OnIndex):
    """Close an index that index_create has made."""

    kind = "index_close"

    def describe(self) -> str:
        return f"close the index {self.index}"


class IndexOpen(OnIndex):
    """Open an index that index_close has closed."""

    kind = "index_open"

    def describe(self) -> str:
        return f"open the index {self.index}"


class IndexDelete(OnIndex):
    """Delete an index that index_create has made."""

    kind = "index_delete"

    def describe(self) -> str:
        return f"delete the index {self.index}"


class RemoteRestore(ActionParams):
    """Restore the load's index from the remote store, as an operator does when every copy of a shard is lost."""

    kind = "remote_restore"

    def describe(self) -> str:
        return "restore the load's index from the remote store"


class Snapshot(ActionParams):
    """Take a snapshot of the load's index, in a repository of its own in a service of the lab."""

    kind = "snapshot"
    name: str = Field(pattern=f"^{NAME}$", description="by which restore knows it, for example before")
    service: str | None = Field(
        default=None, description="the service of the lab that keeps it; its only one where nothing is said"
    )
    shallow: StrictBool = Field(
        default=False, description="refer to the segments in the remote store, and copy none of them"
    )
    within: PositiveDuration = Field(default=Duration.parse("3m"), description="by then it must be taken")

    def describe(self) -> str:
        return f"take a {'shallow ' if self.shallow else ''}snapshot {self.name} of the load's index"


class Restore(ActionParams):
    """Take the load's index back from a snapshot of this experiment, as a new index beside it."""

    kind = "restore"
    name: str = Field(pattern=f"^{NAME}$", description="of the snapshot, for example before")
    within: PositiveDuration = Field(default=Duration.parse("3m"), description="by then it must be restored")

    def describe(self) -> str:
        return f"restore the snapshot {self.name} as a new index"


_KINDS: tuple[type[ActionParams], ...] = (
    Decommission,
    Recommission,
    Weights,
    ExcludeVotes,
    IncludeVotes,
    Reindex,
    Reroute,
    RetryFailed,
    IndexCreate,
    IndexClose,
    IndexOpen,
    IndexDelete,
    RemoteRestore,
    Snapshot,
    Restore,
)
ACTIONS: dict[str, type[ActionParams]] = {action.kind: action for action in _KINDS}
"""Every kind of action that a definition can name."""
