"""Sides as people write them (``vary:``): two to four variants of an experiment, whose runs alternate and are compared.

A side is an overlay of keys of the experiment: mappings are merged deeply, lists and single values replace what they
stand for. No key can be taken away. What a file with sides means is in :mod:`.varied`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StrictBool, StrictInt, WithJsonSchema

from chaos.base.units import Malformed
from chaos.definitions.base import OneOrMore, Strict
from chaos.definitions.source import Loc, Problem, did_you_mean

FEWEST_SIDES, MOST_SIDES = 2, 4
KEY = "vary"
WHOLE = "every side has the same users' wishes and faults, else there is nothing to compare"
FIXED = {
    "phases": WHOLE,
    "expect": WHOLE,
    "slis": WHOLE,
    "rates": WHOLE,
    "guards": "a guard that ends one side earlier hides what it would have shown",
    "seed": "all sides of a round share a seed, so that the same is drawn",
    "name": "the side has a name",
    "kind": "a side is no file",
    "apiVersion": "a side is no file",
    "description": "a side's name and what it changes say what it is",
    "tags": "tags choose among files",
    "vary": "sides have no sides",
}
"""Keys of an experiment that no side may have, and why."""
PROTECTIONS = (
    "search_backpressure.cancelled",
    "admission_control.rejected",
    "indexing_pressure.rejected",
    "shard_indexing_pressure.rejected",
    "manager_throttling.throttled",
    "segment_replication_backpressure.rejected",
    "thread_pools.rejected",
    "circuit_breakers.tripped",
)
"""Metrics that count what a protection did (the instrument ``protections``)."""
OF_PROTECTION = (2, 3)
"""How many sides a protection has: off, on, and monitoring between them."""
OF_TABLES = ("data", "ladder")
"""First words of metrics that runs are compared by and no line of ``expect`` names."""
FIXED_OF_TOPOLOGY = ("apiVersion", "kind", "name", "description")


def _overlay(value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise Malformed(f"expected a mapping of what the side changes, got {value!r}")
    if not value:
        raise Malformed("nothing is changed here: expected at least one key, or this left out")
    return value


def _topology(value: Any) -> Any:
    if isinstance(value, str) and value:
        return value
    if not isinstance(value, Mapping):
        raise Malformed(
            f"expected another topology's name, or keys of the experiment's topology such as "
            f"{{settings: {{index: {{refresh_interval: 30s}}}}}}, got {value!r}"
        )
    return _overlay(value)


Overlay = Annotated[Any, BeforeValidator(_overlay), WithJsonSchema({"type": "object", "minProperties": 1})]
OfTopology = Annotated[
    Any,
    BeforeValidator(_topology),
    WithJsonSchema({"anyOf": [{"type": "string", "minLength": 1}, {"type": "object", "minProperties": 1}]}),
]


class SideFile(Strict):
    """What one side changes of the experiment. Mappings are merged deeply, lists and single values replaced."""

    load: Overlay = Field(default=None, description="keys of the load, for example {client: {kind: opensearch-py}}")
    topology: OfTopology = Field(
        default=None,
        description="another topology by name or path, or keys of the experiment's own topology, for example "
        "{settings: {index: {refresh_interval: 30s}}}",
    )
    controller: Overlay = Field(default=None, description="keys of the controller, for example {act: false}")

    def changes(self) -> dict[str, Any]:
        """The overlay as it is written."""
        return {
            name: value for name in ("topology", "load", "controller") if (value := getattr(self, name)) is not None
        }


def _amount(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Amount = Annotated[str, BeforeValidator(_amount), WithJsonSchema({"type": ["string", "integer"]})]
SideName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*$")]


def _status(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Status = Annotated[Literal["429", "5xx"], BeforeValidator(_status), WithJsonSchema({"enum": ["429", 429, "5xx"]})]


class ProtectionFile(Strict):
    """The sides are a protection off, (monitoring,) and on, in this order: did it act, did it protect, did it let go?
    (docs/protections.md)"""

    counter: Literal[PROTECTIONS] = Field(description="what it did, for example indexing_pressure.rejected")  # type: ignore[valid-type]
    provoked: OneOrMore[str] = Field(min_length=1, description="the phase, or phases, in which it is to act")
    answers: dict[str, Status] = Field(
        default_factory=dict,
        description="what clients must get in the same seconds, by operation, for example {write: 429}; left out where "
        "they see nothing of it",
    )
    protects: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        min_length=1,
        description="the traffic that is to be good more often with it, for example [lookup.good]; judged in the "
        "phases in which it is to act",
    )


class VaryFile(Strict):
    """Two to four sides of the experiment, whose runs alternate. ``run`` makes them all, and compares each side with
    the first by the rules of ``compare`` (docs/ab.md)."""

    sides: dict[SideName, SideFile] = Field(
        min_length=FEWEST_SIDES,
        max_length=MOST_SIDES,
        description="two to four by name, the first is what the others are compared with, for example {default: {}, "
        "slow: {topology: {settings: {index: {refresh_interval: 30s}}}}}",
    )
    times: StrictInt = Field(default=5, ge=1, le=100, description="runs of each side; fewer than five conclude little")
    new_labs: StrictBool = Field(
        default=False,
        description="true: each run has a new lab, also where one could serve all sides; for what a lab that ran "
        "already hides, such as cold caches",
    )
    decide: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=(),
        description="metrics that decide, with or without @phase, for example [costs.processor, write.p99]; default: "
        "what is expected, outages and lost writes",
    )
    tolerance: dict[str, Amount] = Field(
        default_factory=dict,
        description="how much worse is still the same, by metric, for example {write.p99: 10ms or 25%}",
    )
    protection: ProtectionFile | None = Field(
        default=None,
        description="the sides are a protection off, (monitoring,) and on: the page says whether it protects, for "
        "example {counter: indexing_pressure.rejected, provoked: stuck, answers: {write: 429}, protects: [read.good]}",
    )


def merged(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with ``overlay`` over it: mappings are merged, all else is replaced. Neither is changed."""
    found = dict(base)
    for key, value in overlay.items():
        below = found.get(key)
        found[key] = merged(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return found


def why_fixed(loc: Loc) -> str | None:
    """Why no side may have the key at this place of the file; None for a place that is no such key."""
    if len(loc) == 4 and loc[:2] == (KEY, "sides") and loc[3] in FIXED:
        return f"a side cannot change {loc[3]}: {FIXED[str(loc[3])]}"
    return None


def check(
    file: VaryFile, phases: Mapping[str, Any], operations: Collection[str], metrics: Iterable[str]
) -> Iterator[Problem]:
    """What sides may not change although the key is theirs, and what ``decide`` names and no run can measure.

    ``operations``: those of the load, by name. ``metrics``: those that a line of ``expect`` may name.
    """
    if file.protection is not None:
        yield from _protection(file.protection, tuple(file.sides), tuple(phases), operations)
    for name, side in file.sides.items():
        here: Loc = (KEY, "sides", name)
        for operation, given in (side.load or {}).items():
            if isinstance(given, Mapping) and "good" in given:
                says = "a side cannot change what is good: shares of other objectives cannot be compared"
                yield Problem((*here, "load", operation, "good"), says, at_key=True)
        for key in FIXED_OF_TOPOLOGY if isinstance(side.topology, Mapping) else ():
            if key in side.topology:
                yield Problem((*here, "topology", key), f"a side cannot change a topology's {key}", at_key=True)
    places: list[tuple[Loc, str, bool]] = [((KEY, "decide", i), each, False) for i, each in enumerate(file.decide)]
    places += [((KEY, "tolerance", each), each, True) for each in file.tolerance]
    known = dict.fromkeys([*operations, *_streams(file), *OF_TABLES, *(each.partition(".")[0] for each in metrics)])
    for loc, metric, at_key in places:
        if (first := re.split("[.@]", metric)[0]) not in known:
            says = f"{metric}: no metric begins with {first}"
            near = did_you_mean(first, known)
            yield Problem(loc, f"{says}: {near}" if near.startswith("did") else says, at_key=at_key)
        phase = metric.partition("@")[2]
        if phase and phase not in phases:
            says = f"{metric}: there is no phase {phase}: expected one of {', '.join(phases)}"
            yield Problem(loc, says, at_key=at_key)


def _streams(file: VaryFile) -> Iterator[str]:
    """Operations that sides may bring."""
    for side in file.sides.values():
        for key, value in (side.load or {}).items():
            yield from value if key == "streams" and isinstance(value, Mapping) else (key,)


def _protection(
    file: ProtectionFile, sides: tuple[str, ...], phases: tuple[str, ...], operations: Container[str]
) -> Iterator[Problem]:
    """Why it could never be said whether a protection protects."""
    here: Loc = (KEY, "protection")
    if len(sides) not in OF_PROTECTION:
        says = f"a protection is off, (monitoring,) and on: expected two or three sides, got {len(sides)}"
        yield Problem(here, says, at_key=True)
    for phase in file.provoked:
        if phase not in phases:
            says = f"there is no phase {phase}: expected one of {', '.join(phases)}"
            yield Problem((*here, "provoked"), says)
        elif phase == phases[-1]:
            says = f"{phase} is the last phase, so nothing would show whether it lets go: expected a phase after it"
            yield Problem((*here, "provoked"), says)
    for operation in file.answers:
        if operation not in operations:
            yield Problem((*here, "answers", operation), f"the load has no operation {operation}", at_key=True)
    for index, metric in enumerate(file.protects):
        operation, _, quantity = metric.partition(".")
        if quantity != "good" or operation not in operations:
            says = f"{metric}: expected the good share of an operation of the load, for example read.good"
            yield Problem((*here, "protects", index), says)
