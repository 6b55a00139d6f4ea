"""Selectors: which nodes and which directed links a step means, as a sentence and as plain data.

A node selector is one or more terms joined by ``and`` (all must match): ``zone c``, ``role data``,
``group cm``, ``node c-data``, ``elected cluster manager``; ``one of`` or ``2 of`` in front draws that
many with the seed. A link selector puts hosts in relation: ``to zone c``, ``around everything in
zone c``, ``between zone a and zone b``. Everything here is pure: no network, no clock, and chance only
through the ``rng`` that is given, so a partition can be tested as the set of pairs that it is.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Literal, Protocol, Self

from pydantic import (
    Field,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic_core import core_schema

from chaos.base.errors import FaultError, InvalidInput
from chaos.base.units import Malformed
from chaos.definitions.base import Strict, replaced
from chaos.definitions.source import did_you_mean

NAME = r"[a-z0-9](?:[a-z0-9_.-]*[a-z0-9])?"
"""Names of zones, groups and nodes; also DNS-safe enough for a namespace's name."""
ELECTED = "elected cluster manager"
_TERM = rf"(?:(?:zone|node|role|group) {NAME}|{ELECTED})"
_TERMS = rf"{_TERM}(?: and {_TERM})*"
_NODES = rf"(?:(?:one|[1-9][0-9]*) of )?{_TERMS}"
_HOSTS = rf"(?:{_NODES}|clients(?: of zone {NAME})?|everything in zone {NAME}|service {NAME})"
_SIDE = rf"(?:{_HOSTS}|\({_HOSTS}\))"

NODES_EXPECTED = (
    "expected for example 'zone c', 'node c-data', 'role data and zone b', 'one of role data' "
    "or 'elected cluster manager'"
)
HOSTS_EXPECTED = (
    "expected nodes, for example 'zone c' or 'role data and zone b', or 'clients', 'clients of zone c', "
    "'everything in zone c' or 'service store'"
)
LINKS_EXPECTED = (
    "expected 'to X', 'from X', 'around X', 'between X and Y' or 'from X to Y', for example "
    "'to zone c' or 'around everything in zone c'"
)


class NodeLike(Protocol):
    """What a selector needs to know of a node; :class:`~chaos.definitions.topology.NodeSpec` has it."""

    @property
    def name(self) -> str: ...
    @property
    def zone(self) -> str: ...
    @property
    def group(self) -> str: ...
    @property
    def roles(self) -> tuple[str, ...]: ...
    @property
    def also(self) -> tuple[str, ...]: ...


Link = tuple[str, str]
"""A directed pair of host names: source, destination."""


def client_host(zone: str) -> str:
    """The name of a zone's client host."""
    return f"client-{zone}"


def variable(node: str) -> str:
    """The name under which a shell in a lab's host finds a node's URL; with ``_pid`` its process."""
    return node.replace("-", "_")


class NodeSelector(Strict):
    """Which nodes: all given terms must match, then ``pick`` of them are drawn."""

    zone: str | None = Field(default=None, pattern=f"^{NAME}$", description="nodes of this zone")
    node: str | None = Field(default=None, pattern=f"^{NAME}$", description="the node of this name")
    role: str | None = Field(default=None, pattern=f"^{NAME}$", description="nodes with this OpenSearch role")
    group: str | None = Field(default=None, pattern=f"^{NAME}$", description="nodes of this group of the topology")
    elected: bool = Field(default=False, description="the elected cluster manager")
    pick: int | None = Field(default=None, ge=1, strict=True, description="draw this many with the seed")

    @classmethod
    def parse(cls, text: str) -> Self:
        """From a sentence. Raises :class:`~chaos.base.units.Malformed`."""
        rest = " ".join(text.split())
        found: dict[str, Any] = {}
        if match := re.match(r"(one|[1-9][0-9]*) of ", rest):
            found["pick"] = 1 if match[1] == "one" else int(match[1])
            rest = rest[match.end() :]
        for term in rest.split(" and "):
            if term == ELECTED:
                key, value = "elected", "cluster manager"
            elif match := re.fullmatch(rf"(zone|node|role|group) ({NAME})", term):
                key, value = match[1], match[2]
            else:
                raise Malformed(f"cannot read {term!r} as a choice of nodes: {NODES_EXPECTED}")
            if key in found:
                raise Malformed(f"{key} is named twice in {text!r}: terms joined by 'and' must all match")
            found[key] = value
        return cls.model_validate(found)

    @model_validator(mode="wrap")
    @classmethod
    def _read(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            return cls.parse(value)
        if not isinstance(value, dict):
            raise Malformed(f"cannot read {value!r} as a choice of nodes: {NODES_EXPECTED}")
        if "elected" in value and not isinstance(value["elected"], bool):
            if value["elected"] != "cluster manager":
                raise Malformed(f"elected: expected 'cluster manager', got {value['elected']!r}")
            value = {**value, "elected": True}
        selector = handler(value)
        if not (selector.zone or selector.node or selector.role or selector.group or selector.elected):
            raise Malformed(f"chooses no nodes: {NODES_EXPECTED}")
        return selector

    @model_serializer
    def _write(self) -> str:
        return self.text

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        sentence = {"type": "string", "pattern": f"^{_NODES}$"}
        return replaced(
            handler,
            schema,
            {"description": f"Which nodes: {NODES_EXPECTED}", "anyOf": [sentence, _node_mapping()]},
        )

    @property
    def terms(self) -> tuple[str, ...]:
        """The sentence's terms, without the pick."""
        named = ((key, getattr(self, key)) for key in ("zone", "node", "role", "group"))
        terms = [f"{key} {value}" for key, value in named if value is not None]
        return (*terms, *([ELECTED] if self.elected else []))

    @property
    def text(self) -> str:
        """The English that :meth:`parse` reads back."""
        pick = "" if self.pick is None else "one of " if self.pick == 1 else f"{self.pick} of "
        return pick + " and ".join(self.terms)


def _node_mapping() -> dict[str, Any]:
    """The JSON Schema of a node selector that is written as a mapping."""
    name = {"type": "string", "pattern": f"^{NAME}$"}
    named = ("zone", "node", "role", "group")
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            **{key: name for key in named},
            "elected": {"const": "cluster manager"},
            "pick": {"type": "integer", "minimum": 1},
        },
        "anyOf": [{"required": [key]} for key in (*named, "elected")],
    }


class HostSelector(Strict):
    """Which hosts a link starts or ends at: nodes, client hosts, both of one zone, or a service of the lab."""

    kind: Literal["nodes", "clients", "everything", "service"]
    nodes: NodeSelector | None = None
    zone: str | None = None
    service: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """From a sentence. Raises :class:`~chaos.base.units.Malformed`."""
        rest = " ".join(text.split())
        if rest.startswith("(") and rest.endswith(")"):
            rest = rest[1:-1].strip()
        if rest == "clients":
            return cls(kind="clients")
        if match := re.fullmatch(rf"clients of zone ({NAME})", rest):
            return cls(kind="clients", zone=match[1])
        if match := re.fullmatch(rf"everything in zone ({NAME})", rest):
            return cls(kind="everything", zone=match[1])
        if match := re.fullmatch(rf"service ({NAME})", rest):
            return cls(kind="service", service=match[1])
        try:
            return cls(kind="nodes", nodes=NodeSelector.parse(rest))
        except Malformed as error:
            raise Malformed(error.message.replace(NODES_EXPECTED, HOSTS_EXPECTED)) from None

    @classmethod
    def read(cls, value: Any) -> Self:
        """From a sentence or from a node selector's mapping."""
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            return cls.parse(value)
        if not isinstance(value, dict):
            raise Malformed(f"cannot read {value!r} as hosts: {HOSTS_EXPECTED}")
        for key in value:
            if key not in NodeSelector.model_fields:
                raise Malformed(f'unknown key "{key}": {did_you_mean(str(key), NodeSelector.model_fields)}')
        try:
            return cls(kind="nodes", nodes=NodeSelector.model_validate(value))
        except ValidationError:
            raise Malformed(f"cannot read {value!r} as a choice of nodes: {NODES_EXPECTED}") from None

    @property
    def text(self) -> str:
        if self.kind == "everything":
            return f"everything in zone {self.zone}"
        if self.kind == "clients":
            return f"clients of zone {self.zone}" if self.zone else "clients"
        if self.kind == "service":
            return f"service {self.service}"
        assert self.nodes is not None
        return self.nodes.text

    @property
    def has_clients(self) -> bool:
        return self.kind in ("clients", "everything")


class LinkSelector(Strict):
    """Which directed links. ``from_to`` goes one way, ``between`` both ways."""

    kind: Literal["to", "from", "around", "between", "from_to"]
    a: HostSelector
    b: HostSelector | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """From a sentence. Raises :class:`~chaos.base.units.Malformed`."""
        words = " ".join(text.split())
        verb, _, rest = words.partition(" ")
        if verb == "from" and (sides := _split(rest, "to")):
            return cls(kind="from_to", a=sides[0][0], b=sides[0][1])
        if verb in ("to", "from", "around") and rest:
            return cls(kind=verb, a=HostSelector.parse(rest))  # type: ignore[arg-type]
        if verb == "between" and rest:
            sides = _split(rest, "and")
            if len(sides) == 1:
                return cls(kind="between", a=sides[0][0], b=sides[0][1])
            if sides:
                raise Malformed(
                    f"{text!r} can be read in {len(sides)} ways: put each side in brackets, "
                    f"for example 'between (zone a and role data) and (zone b)'"
                )
            raise Malformed(f"cannot read the two sides of {text!r}: {LINKS_EXPECTED}")
        raise Malformed(f"cannot read {text!r} as links: {LINKS_EXPECTED}")

    @model_validator(mode="wrap")
    @classmethod
    def _read(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            return cls.parse(value)
        if not isinstance(value, dict):
            raise Malformed(f"cannot read {value!r} as links: {LINKS_EXPECTED}")
        if "kind" in value:  # built in Python
            return handler(value)
        keys = frozenset(value)
        if keys == {"from", "to"}:
            return cls(kind="from_to", a=HostSelector.read(value["from"]), b=HostSelector.read(value["to"]))
        if keys == {"between"} and isinstance(value["between"], list) and len(value["between"]) == 2:
            first, second = map(HostSelector.read, value["between"])
            return cls(kind="between", a=first, b=second)
        if len(keys) == 1 and keys <= {"to", "from", "around"}:
            ((verb, side),) = value.items()
            return cls(kind=verb, a=HostSelector.read(side))
        raise Malformed(
            f"cannot read a mapping of {', '.join(map(str, value)) or 'nothing'} as links: expected one of "
            "to, from, around, between: [X, Y], or from and to"
        )

    @model_serializer
    def _write(self) -> str:
        return self.text

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        side = {"anyOf": [{"type": "string", "pattern": f"^{_HOSTS}$"}, _node_mapping()]}

        def mapping(**properties: Any) -> dict[str, Any]:
            return {
                "type": "object",
                "additionalProperties": False,
                "properties": properties,
                "required": list(properties),
            }

        pair = {"type": "array", "items": side, "minItems": 2, "maxItems": 2}
        sentence = rf"(?:to|from|around) {_SIDE}|from {_SIDE} to {_SIDE}|between {_SIDE} and {_SIDE}"
        options = [
            {"type": "string", "pattern": f"^(?:{sentence})$"},
            *(mapping(**{verb: side}) for verb in ("to", "from", "around")),
            mapping(**{"from": side, "to": side}),
            mapping(between=pair),
        ]
        description = f"Which directed links: {LINKS_EXPECTED}"
        return replaced(handler, schema, {"description": description, "anyOf": options})

    @property
    def text(self) -> str:
        """The English that :meth:`parse` reads back."""
        if self.b is None:
            return f"{self.kind} {self.a.text}"
        if self.kind == "from_to":
            return f"from {self.a.text} to {self.b.text}"
        sides = [f"({side.text})" if " and " in side.text else side.text for side in (self.a, self.b)]
        return f"between {sides[0]} and {sides[1]}"

    @property
    def may_reach_services(self) -> bool:
        """Whether a service is at one of the ends, where there is one (:func:`resolve_links`)."""
        return any(side.kind == "service" for side in self.sides) or (self.b is None and self.a.has_clients)

    @property
    def sides(self) -> tuple[HostSelector, ...]:
        return (self.a,) if self.b is None else (self.a, self.b)


def _split(text: str, word: str) -> list[tuple[HostSelector, HostSelector]]:
    """Every way to read ``text`` as ``X <word> Y``. Brackets keep a side together."""
    pieces = text.split(f" {word} ")
    found = []
    for cut in range(1, len(pieces)):
        left, right = f" {word} ".join(pieces[:cut]), f" {word} ".join(pieces[cut:])
        if left.count("(") == left.count(")"):
            try:
                found.append((HostSelector.parse(left), HostSelector.parse(right)))
            except Malformed:
                continue
    return found


# ------------------------------------------------------------------------------------------ resolving


def candidates(selector: NodeSelector, nodes: Sequence[NodeLike]) -> tuple[str, ...]:
    """The names of all nodes that the terms can mean, before any draw, in the topology's order.

    Whoever may be elected counts for ``elected cluster manager``: that is what a plan can know. A name that stands for
    a node of another name means that one alone, though a node be called so.
    """
    stands = any(selector.node in node.also for node in nodes)
    return tuple(
        node.name
        for node in nodes
        if selector.zone in (None, node.zone)
        and (selector.node is None or selector.node in (node.also if stands else (node.name,)))
        and selector.group in (None, node.group)
        and (selector.role is None or selector.role in node.roles)
        and (not selector.elected or "cluster_manager" in node.roles)
    )


def resolve_nodes(
    selector: NodeSelector,
    nodes: Sequence[NodeLike],
    *,
    elected: str | None = None,
    rng: random.Random | None = None,
) -> tuple[str, ...]:
    """The names of the chosen nodes, in the topology's order.

    ``elected`` is the name of the elected cluster manager at this moment; ``rng`` draws the picks.
    Raises :class:`InvalidInput` when nothing, or too little to pick from, matches;
    :class:`FaultError` when the elected cluster manager is asked for and there is none, or it does not
    match the other terms (only the moment of injecting can tell);
    ``ValueError`` when a pick is asked for without ``rng``.
    """
    found = candidates(selector, nodes)
    if selector.elected:
        if elected is None:
            raise FaultError(f"{selector.text!r}: there is no elected cluster manager at this moment")
        if elected not in found:
            raise FaultError(f"{selector.text!r}: the elected cluster manager is {elected}, which does not match")
        found = (elected,)
    if not found:
        raise InvalidInput(f"{selector.text!r} matches no node")
    if selector.pick is None:
        return found
    if selector.pick > len(found):
        raise InvalidInput(f"{selector.text!r} matches only {len(found)}: {', '.join(found)}")
    if rng is None:
        raise ValueError(f"{selector.text!r} draws: rng is needed")
    drawn = set(rng.sample(found, selector.pick))
    return tuple(name for name in found if name in drawn)


def resolve_hosts(
    selector: HostSelector,
    nodes: Sequence[NodeLike],
    zones: Iterable[str],
    services: Collection[str] = (),
    *,
    elected: str | None = None,
    rng: random.Random | None = None,
) -> tuple[str, ...]:
    """The names of the chosen hosts; raises as :func:`resolve_nodes`. ``services``: those that have a host."""
    if selector.kind == "service":
        if selector.service is None or selector.service not in services:
            raise InvalidInput(f"{selector.text!r} matches no host: {no_service(selector.service, services)}")
        return (selector.service,)
    if selector.nodes is not None:
        return resolve_nodes(selector.nodes, nodes, elected=elected, rng=rng)
    clients = tuple(client_host(zone) for zone in zones if selector.zone in (None, zone))
    inside = tuple(node.name for node in nodes if node.zone == selector.zone)
    found = clients if selector.kind == "clients" else inside + clients
    if not found:
        raise InvalidInput(f"{selector.text!r} matches no host")
    return found


def no_service(name: str | None, services: Collection[str]) -> str:
    """Why a service of this name has no links."""
    if not services:
        return "no service there is reached over the network"
    return did_you_mean(str(name), services)


def resolve_links(
    selector: LinkSelector,
    nodes: Sequence[NodeLike],
    zones: Iterable[str],
    services: Iterable[str] = (),
    *,
    elected: str | None = None,
    rng: random.Random | None = None,
) -> frozenset[Link]:
    """The directed host pairs that are meant: never a host to itself, never client to client.

    The outside of ``to``, ``from`` and ``around`` is node hosts only, unless the inside has client
    hosts: then all hosts, so that isolating a zone cuts the clients of the others off too, and the
    zone from every service. Of a link between a client and a service, which do not speak, none is left.
    Raises as :func:`resolve_nodes`, and :class:`InvalidInput` when no link is left.
    """
    zones, services = tuple(zones), tuple(services)
    mute = frozenset(client_host(zone) for zone in zones) | frozenset(services)
    """Hosts of which none speaks to another."""
    inside = frozenset(resolve_hosts(selector.a, nodes, zones, services, elected=elected, rng=rng))
    if selector.b is None:
        everywhere = {node.name for node in nodes} | (mute if selector.a.has_clients else frozenset())
        other = frozenset(everywhere) - inside
    else:
        other = frozenset(resolve_hosts(selector.b, nodes, zones, services, elected=elected, rng=rng))
    pairs: set[Link] = set()
    if selector.kind in ("from", "around", "from_to", "between"):
        pairs |= {(source, target) for source in inside for target in other}
    if selector.kind in ("to", "around", "between"):
        pairs |= {(source, target) for source in other for target in inside}
    links = frozenset((s, t) for s, t in pairs if s != t and not (s in mute and t in mute))
    if not links:
        raise InvalidInput(f"{selector.text!r} matches no link")
    return links


def fixed(selector: NodeSelector | LinkSelector) -> bool:
    """True when the topology alone decides what is meant: nothing drawn, nobody elected."""
    chosen = [selector] if isinstance(selector, NodeSelector) else [side.nodes for side in selector.sides]
    return not any(nodes is not None and (nodes.pick or nodes.elected) for nodes in chosen)
