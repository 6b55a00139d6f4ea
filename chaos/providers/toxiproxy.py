"""Faults on links by Toxiproxies that every byte between hosts passes."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from chaos.faults.fault import Grade
from chaos.faults.kinds.network import (
    NetworkBandwidth,
    NetworkHang,
    NetworkLatency,
    NetworkRefuse,
    NetworkReset,
    NetworkSlicer,
    NetworkSlowClose,
    pairs_opened,
)
from chaos.faults.moves import Move, Reversible, operation
from chaos.faults.offers import Aim, Means, Provider
from chaos.targets.protocol import Toxiproxies
from chaos.targets.wiring import Toxified

PROVIDER = Provider(
    "toxiproxy", "toxics, and proxies that are switched off, on the path of every connection", grade=Grade.PATH
)
NEEDS = ("links",)


@operation("toxic.add")
def _add(lab: Toxiproxies, **given: Any) -> None:
    lab.add_toxic(**given)


@operation("toxic.remove")
def _remove(lab: Toxiproxies, host: str, proxy: str, toxic: str) -> bool | None:
    return lab.remove_toxic(host, proxy, toxic)


@operation("proxy.disable")
def _disable(lab: Toxiproxies, host: str, proxy: str) -> None:
    lab.set_proxy(host, proxy, enabled=False)


@operation("proxy.enable")
def _enable(lab: Toxiproxies, host: str, proxy: str) -> bool | None:
    return lab.set_proxy(host, proxy, enabled=True)


def toxic(place: Toxified, name: str, kind: str, stream: str, attributes: dict[str, int]) -> Reversible:
    where = {"host": place.host, "proxy": place.proxy, "toxic": name}
    return Reversible(
        Move("toxic.add", {**where, "kind": kind, "stream": stream, "attributes": attributes}),
        Move("toxic.remove", where),
    )


def disabled(host: str, proxy: str) -> Reversible:
    where = {"host": host, "proxy": proxy}
    return Reversible(Move("proxy.disable", where), Move("proxy.enable", where))


def toxics(aim: Aim, kind: str, attributes: dict[str, int]) -> Means:
    """One toxic for each place where a link's bytes pass a Toxiproxy."""
    places = list(dict.fromkeys(place for a, b in sorted(aim.links) for place in aim.wiring.toxified(a, b)))
    aim.wiring.refuse_others(aim.links, places)
    return named_anew(aim, [(place, kind, place.stream, attributes) for place in places])


def named_anew(aim: Aim, every: Sequence[tuple[Toxified, str, str, dict[str, int]]]) -> Means:
    """These toxics, (where, type, stream, attributes) each. Their names are drawn when they are made, so that what has
    one of them is ours: others, and other runs, have toxics of a fault ``f1`` too."""

    def both(id: str) -> tuple[Reversible, ...]:
        return tuple(toxic(at, f"oschaos-{id}-{stream}", kind, stream, given) for at, kind, stream, given in every)

    return Means(both(aim.id), read=lambda lab: both(f"{aim.id}-{secrets.token_hex(8)}"))


def opened(aim: Aim) -> list[Toxified]:
    """The proxy behind which the source of each link opens its connections."""
    pairs = pairs_opened(aim.wiring, aim.links)
    places = list(dict.fromkeys(aim.wiring.toxified(a, b)[0] for a, b in pairs))
    aim.wiring.refuse_others(pairs, places)
    return places


@PROVIDER.carries_out(
    NetworkLatency,
    mechanism="Toxiproxy latency, each direction of each connection",
    undoing="the toxics go; connections stay",
    needs=NEEDS,
)
def latency(fault: NetworkLatency, aim: Aim) -> Means:
    attributes = {"latency": round(float(fault.delay) * 1000), "jitter": round(float(fault.jitter) * 1000)}
    return toxics(aim, "latency", attributes)


@PROVIDER.carries_out(
    NetworkBandwidth,
    mechanism="Toxiproxy bandwidth: a cap on each connection, not on the link as a whole",
    undoing="the toxics go; connections stay",
    needs=NEEDS,
)
def bandwidth(fault: NetworkBandwidth, aim: Aim) -> Means:
    return toxics(aim, "bandwidth", {"rate": fault.kilobytes})


@PROVIDER.carries_out(
    NetworkSlicer,
    mechanism="Toxiproxy slicer: halved until a slice is small enough, a pause after each slice of each connection",
    undoing="the toxics go; connections stay",
    needs=NEEDS,
)
def slicer(fault: NetworkSlicer, aim: Aim) -> Means:
    # a variation of 0 ends Toxiproxy 2.12: it draws a number below twice the variation, and below 0 there is none
    attributes = {
        "average_size": int(fault.size) - 1,
        "size_variation": 1,
        "delay": round(float(fault.delay) * 1_000_000),
    }
    return toxics(aim, "slicer", attributes)


@PROVIDER.carries_out(
    NetworkSlowClose,
    mechanism="Toxiproxy slow_close: a close is passed on after a delay, in each direction of each connection",
    undoing="the toxics go; a close that waits goes through",
    needs=NEEDS,
)
def slow_close(fault: NetworkSlowClose, aim: Aim) -> Means:
    return toxics(aim, "slow_close", {"delay": round(float(fault.delay) * 1000)})


@PROVIDER.carries_out(
    NetworkHang,
    mechanism="Toxiproxy timeout: accepted, then bytes vanish; healing closes",
    undoing="the toxics go, and the connections that they held are closed",
    needs=NEEDS,
)
def hang(fault: NetworkHang, aim: Aim) -> Means:
    return toxics(aim, "timeout", {"timeout": 0})


@PROVIDER.carries_out(
    NetworkRefuse,
    mechanism="Toxiproxy proxy disabled: existing connections close, new ones are refused",
    undoing="the proxies are enabled again",
    needs=NEEDS,
)
def refuse(fault: NetworkRefuse, aim: Aim) -> Means:
    return Means(tuple(disabled(place.host, place.proxy) for place in opened(aim)))


@PROVIDER.carries_out(
    NetworkReset,
    mechanism="Toxiproxy reset_peer: new connections are reset; existing ones end, by FIN or RST as measured",
    undoing="the toxics go",
    needs=NEEDS,
)
def reset(fault: NetworkReset, aim: Aim) -> Means:
    return named_anew(aim, [(place, "reset_peer", "upstream", {"timeout": 0}) for place in opened(aim)])
