"""Faults and moves for tests, carried out by the providers that we have, on a target that has everything."""

from __future__ import annotations

from typing import Any

from chaos.definitions.steps import FaultParams, Scene
from chaos.faults import kind
from chaos.faults.fault import Fault
from chaos.faults.moves import Reversible
from chaos.faults.offers import Offers
from chaos.providers import neighbour, toxiproxy
from chaos.registry import FAULTS, PROVIDERS
from chaos.targets.wiring import Toxified, Wiring

OFFERS = PROVIDERS.on()
"""Of a target that lacks nothing."""
OFFERED = {name: each for name, each in FAULTS.items() if PROVIDERS.of(name)}
"""The kinds that somebody carries out; tests/unit/faults/test_catalogue.py names the others."""


def lacking(lacks: Any) -> Offers:
    """Of a target that ``lacks`` (capability → reason or None)."""
    return PROVIDERS.on(lacks)


def needs(name: str) -> tuple[str, ...]:
    """What the first provider of a kind needs."""
    return OFFERS.meant(name).needs


def built(params: FaultParams, scene: Scene, wiring: Wiring, id: str = "f1") -> Fault:
    return kind.built(params, id, scene, wiring, OFFERS.chosen(params.kind))


def block(host: str, peer: str) -> Reversible:
    (move,) = neighbour.blocked([(host, peer)])
    return move


def refuse(host: str, proxy: str) -> Reversible:
    return toxiproxy.disabled(host, proxy)


def toxic(host: str, proxy: str, name: str, kind: str, stream: Any, attributes: dict[str, Any]) -> Reversible:
    return toxiproxy.toxic(Toxified(host, proxy, stream), name, kind, stream, attributes)


__all__ = ["FAULTS", "OFFERED", "OFFERS", "block", "built", "lacking", "needs", "refuse", "toxic"]
