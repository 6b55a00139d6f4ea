"""Steps of a phase: what every fault and every action shares, and what a fault is resolved against.

Files name steps by their kinds. Which kinds there are, a :class:`.grammar.Grammar` is told; this module knows none.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeVar, cast

from pydantic import (
    Field,
    ModelWrapValidatorHandler,
    SerializerFunctionWrapHandler,
    StrictInt,
    model_serializer,
    model_validator,
)

from chaos.base.units import Duration, PositiveDuration
from chaos.definitions.base import Strict
from chaos.definitions.selectors import NAME, LinkSelector, NodeSelector, fixed, resolve_links, resolve_nodes
from chaos.definitions.topology import Topology

T = TypeVar("T")

Reach = Literal["named", "index", "foreign", "cluster"]
"""Nodes and links that are named, the load's own index, an index of somebody else, or the cluster as a whole."""

Noticing = Literal["at once", "by checks", "by checks of the disk", "hardly"]
"""How a cluster finds a fault out: connections break; checks get no answer; a node's check of its own disk fails; or it
need not at all, because it makes slow only and no node has to leave for it."""

LOAD_INDEX = "chaos"
"""The load's index, where its run does not name it otherwise."""


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


@dataclass(frozen=True)
class Scene:
    """What a fault's selectors are resolved against. ``elected``: the cluster manager of this moment, if known.

    ``index``: the load's index; a run on a lab that lives on gives it a name of its own. A selector is drawn once: who
    is hit and what is claimed are the same nodes, however often a fault asks.
    """

    topology: Topology
    rng: random.Random
    elected: str | None = None
    index: str = LOAD_INDEX
    _drawn: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, topology: Topology, seed: int, id: str, elected: str | None = None, index: str = LOAD_INDEX) -> Scene:
        """The draw depends on the seed and the fault's id only."""
        return cls(topology, random.Random(f"{seed}:{id}"), elected, index)

    def nodes(self, selector: NodeSelector) -> tuple[str, ...]:
        """Raises InvalidInput when nothing matches."""
        return self._once(
            selector, lambda: resolve_nodes(selector, self.topology.nodes, elected=self.elected, rng=self.rng)
        )

    def links(self, selector: LinkSelector) -> frozenset[tuple[str, str]]:
        """Raises InvalidInput when nothing matches."""
        topology = self.topology
        return self._once(
            selector,
            lambda: resolve_links(
                selector,
                topology.nodes,
                topology.zones,
                topology.service_hosts,
                elected=self.elected,
                rng=self.rng,
            ),
        )

    def _once(self, selector: NodeSelector | LinkSelector, resolve: Callable[[], T]) -> T:
        key = f"{type(selector).__name__} {selector.text}"
        if key not in self._drawn:
            self._drawn[key] = resolve()
        return cast(T, self._drawn[key])


DRAWN = re.compile(r"n\d+")
"""Names that the random mode gives for undo alone, which are no names for people."""


class Flap(Strict):
    """A fault that comes and goes until it is undone. Times in seconds."""

    down: PositiveDuration = Field(description="how long it is in effect each time, for example 2s")
    up: PositiveDuration = Field(description="how long it is away in between, for example 3s")
    times: StrictInt | None = Field(default=None, ge=1, description="how often; default until it is undone")

    def describe(self) -> str:
        times = f", {self.times} times" if self.times is not None else ""
        if self.times == 1:
            return f"once, for {self.down.text}"
        return f"{self.down.text} on, {self.up.text} off{times}"


class FaultParams(Step):
    """What every fault takes, and what every kind of fault says of itself. How it is made, its providers say.

    ``family``: the heading in the catalogue. ``sees``: the capabilities of a target without which it cannot be proven.
    ``made_of``: the kind that it is another name for, whose providers carry it out too. ``proof``: what its evidence
    measures, for the catalogue. ``holding``: how it is looked at between its proof and its undo, for the catalogue.
    ``examples``: parameters that work on the topology 3az-standby (three zones, one manager and one data node each) or,
    where a kind needs more, on ``example_topology``; the catalogue shows them, the conformance suite runs them and the
    random mode draws from them. ``lasting``: what it does to data cannot be undone. ``passing``: it is over by itself
    when it has been made. ``noticing``: how a cluster finds it out, which says how long that takes
    (:mod:`chaos.definitions.detection`).
    """

    family: ClassVar[str]
    proof: ClassVar[str]
    holding: ClassVar[str]
    sees: ClassVar[tuple[str, ...]] = ()
    made_of: ClassVar[str | None] = None
    colour: ClassVar[str] = "#9b2c2c"
    examples: ClassVar[tuple[dict[str, Any], ...]]
    example_topology: ClassVar[str] = "3az-standby"
    lasting: ClassVar[bool] = False
    passing: ClassVar[bool] = False
    noticing: ClassVar[Noticing] = "by checks"

    name: str | None = Field(
        default=None,
        pattern=f"^{NAME}$",
        description="a name of its own, for undo, where a kind is active more than once",
    )
    as_: str | None = Field(
        default=None,
        alias="as",
        max_length=60,
        pattern=r"^\S(?:.*\S)?$",
        description="what people call it, in plan, headline, timeline and report, for example payment link slow",
    )

    @model_serializer(mode="wrap")
    def _write(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """The normal form has what people call it only where they call it something: hashes of others stay."""
        data = {"kind": self.kind, **handler(self)}
        given = data.pop("as_", None) or data.pop("as", None)
        return data | ({"as": given} if given else {})

    def spoken(self, says: str) -> str:
        """A line about it with what its author calls it first, where that has a name: ``payment link slow: +3s …``."""
        called = self.as_ or (None if DRAWN.fullmatch(self.name or "") else self.name)
        return f"{called}: {says}" if called else says

    @property
    def label(self) -> str:
        """What undo calls it: its name, else its kind."""
        return self.name or self.kind

    @property
    def selectors(self) -> dict[str, NodeSelector | LinkSelector]:
        """Its selectors by field."""
        given = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: value for name, value in given.items() if isinstance(value, NodeSelector | LinkSelector)}

    @property
    def lateness(self) -> Duration | None:
        """How late it makes an answer that has to cross it, once each way (s); None: that is not what it does."""
        return None

    @property
    def momentary(self) -> bool:
        """True when only the moment can tell whom it hits: it names the elected cluster manager."""
        for selector in self.selectors.values():
            chosen = [side.nodes for side in selector.sides] if isinstance(selector, LinkSelector) else [selector]
            if any(nodes is not None and nodes.elected for nodes in chosen):
                return True
        return False

    @property
    def fixed(self) -> bool:
        """True when the topology alone tells whom it hits: nothing is elected or drawn."""
        return all(fixed(selector) for selector in self.selectors.values())

    @property
    def noticed(self) -> Noticing:
        """How a cluster finds out this fault, by whom it hits."""
        return self.noticing

    @property
    def reach(self) -> Reach:
        """What it touches, which on a cluster that is not ours decides whether it may."""
        return "named"

    @property
    def uncomputable(self) -> str | None:
        """Why nobody can compute that it is safe on a cluster that is not ours; None: by whom it hits it can be."""
        return None

    @property
    def cluster_settings(self) -> tuple[str, ...]:
        """The settings of the cluster that it changes, by their full names."""
        return ()

    def check(self, topology: Topology) -> list[str]:
        """What is wrong with it on this topology, beyond its selectors; one sentence each."""
        return []

    def claims(self, scene: Scene) -> frozenset[str]:
        """What it holds while it is active; two faults never hold the same. In words, for people."""
        return frozenset()
