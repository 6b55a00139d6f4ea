"""Network faults: pure functions from directed links to moves and evidence.

Two ways to lose packets, which recover differently: *drop* (layer 3: the neighbour's hardware address becomes one
that nobody has; TCP retransmits, and after healing the connections go on) and *hang* (Toxiproxy's ``timeout``: bytes
vanish behind an accepted connection, and healing closes it).
"""

from __future__ import annotations

from collections.abc import Callable

from chaos.definitions.faults import (
    NetworkBandwidth,
    NetworkDrop,
    NetworkFault,
    NetworkHang,
    NetworkLatency,
    NetworkRefuse,
    NetworkReset,
)
from chaos.faults.evidence import BandwidthEvidence, Evidence, LinkEvidence, milliseconds, tolerance
from chaos.faults.fault import Fault, Link
from chaos.faults.moves import Reversible, block, refuse, toxic
from chaos.faults.probes import Echo, Pair, Reply
from chaos.lab.wiring import Wiring

Links = frozenset[Link]


def spoken(wiring: Wiring, links: Links) -> list[Link]:
    """The links over which anything is ever said, in a fixed order: clients do not speak to each other."""
    return sorted((a, b) for a, b in links if wiring.toxified(a, b))


def pairs_both(wiring: Wiring, links: Links) -> list[Pair]:
    """Connections whose bytes cross one of the links in either direction."""
    pairs = {(a, b) for a, b in links if wiring[b].kind == "node"}
    pairs |= {(b, a) for a, b in links if wiring[a].kind == "node"}
    return sorted(pairs)


def pairs_opened(wiring: Wiring, links: Links) -> list[Pair]:
    """Connections that the source of one of the links opens."""
    return sorted((a, b) for a, b in links if wiring[b].kind == "node")


def untouched(wiring: Wiring, touched: list[Pair]) -> list[Pair]:
    """Every other connection that can be opened in this lab."""
    everything = {(a.name, b.name) for a in wiring.hosts for b in wiring.nodes if a != b}
    return sorted(everything - set(touched))


def toxics(wiring: Wiring, links: Links, id: str, kind: str, attributes: dict[str, int]) -> list[Reversible]:
    """One toxic for each place where a link's bytes pass a Toxiproxy."""
    return [
        toxic(place.host, place.proxy, f"oschaos-{id}-{place.stream}", kind, place.stream, attributes)
        for a, b in spoken(wiring, links)
        for place in wiring.toxified(a, b)
    ]


def build(id: str, params: NetworkFault, links: Links, wiring: Wiring) -> Fault:
    """The fault ``params`` on ``links``, which the selector of ``params`` resolved to."""
    links = frozenset(spoken(wiring, links))
    maker, mechanism, colour = _KINDS[params.kind]
    moves, evidence = maker(id, params, links, wiring)
    return Fault(
        id=id,
        kind=params.kind,
        says=params.describe(),
        mechanism=mechanism,
        targets=(),
        links=tuple(sorted(links)),
        moves=tuple(moves),
        evidence=evidence,
        needs=("drop",) if params.kind == "network.drop" else ("links",),
        colour=colour,
    )


Made = tuple[list[Reversible], Callable[[], Evidence]]


def _latency(id: str, params: NetworkFault, links: Links, wiring: Wiring) -> Made:
    assert isinstance(params, NetworkLatency)
    delay, jitter = float(params.delay), float(params.jitter)
    attributes = {"latency": round(delay * 1000), "jitter": round(jitter * 1000)}
    touched = pairs_both(wiring, links)

    def ways(pair: Pair) -> int:
        """How many of a round trip's two directions are delayed."""
        return (pair in links) + ((pair[1], pair[0]) in links)

    def bounds(pair: Pair, base: Echo | None) -> tuple[float, float]:
        before = base.seconds if base and base.seconds else 0.0
        asked, slack = ways(pair) * delay, ways(pair) * jitter
        return before + asked - slack - tolerance(asked), before + asked + slack + tolerance(asked)

    def expected(pair: Pair, base: Echo | None) -> str:
        low, high = bounds(pair, base)
        return f"{milliseconds(low)} to {milliseconds(high)}"

    def shows(pair: Pair, base: Echo | None, echo: Echo) -> bool:
        low, high = bounds(pair, base)
        return echo.seconds is not None and low <= echo.seconds <= high

    silence = 2 * (delay + jitter) + 2.0
    return toxics(wiring, links, id, "latency", attributes), lambda: LinkEvidence(
        touched, untouched(wiring, touched), expected, shows, silence=silence
    )


def _bandwidth(id: str, params: NetworkFault, links: Links, wiring: Wiring) -> Made:
    assert isinstance(params, NetworkBandwidth)
    rate = max(round(float(params.rate) / 1000), 1)  # Toxiproxy counts in kB/s, per connection
    touched = pairs_both(wiring, links)
    return toxics(wiring, links, id, "bandwidth", {"rate": rate}), lambda: BandwidthEvidence(
        touched, untouched(wiring, touched), rate * 1000.0
    )


def _silent(what: str, existing: tuple[Reply, ...]) -> Callable[[list[Pair], list[Pair]], Evidence]:
    return lambda touched, others: LinkEvidence(
        touched,
        others,
        lambda *_: what,
        lambda _pair, _base, echo: echo.reply is Reply.SILENT,
        shows_existing=lambda _pair, _base, echo: echo.reply in existing,
    )


def _drop(id: str, params: NetworkFault, links: Links, wiring: Wiring) -> Made:
    touched = pairs_both(wiring, links)
    make = _silent("silent", (Reply.SILENT,))
    return [block(a, b) for a, b in sorted(links)], lambda: make(touched, untouched(wiring, touched))


def _hang(id: str, params: NetworkFault, links: Links, wiring: Wiring) -> Made:
    touched = pairs_both(wiring, links)
    make = _silent("silent", (Reply.SILENT,))
    return toxics(wiring, links, id, "timeout", {"timeout": 0}), lambda: make(touched, untouched(wiring, touched))


def _refuse(id: str, params: NetworkFault, links: Links, wiring: Wiring) -> Made:
    touched = pairs_opened(wiring, links)
    moves = [refuse(wiring.toxified(a, b)[0].host, wiring.toxified(a, b)[0].proxy) for a, b in touched]
    others = untouched(wiring, pairs_both(wiring, links))
    return moves, lambda: LinkEvidence(
        touched,
        others,
        lambda *_: "refused",
        lambda _pair, _base, echo: echo.reply is Reply.REFUSED,
        expected_existing=lambda *_: "closed",
        shows_existing=lambda _p, _b, echo: echo.reply in (Reply.CLOSED, Reply.RESET, Reply.REFUSED),
    )


def _reset(id: str, params: NetworkFault, links: Links, wiring: Wiring) -> Made:
    touched = pairs_opened(wiring, links)
    places = [wiring.toxified(a, b)[0] for a, b in touched]
    moves = [
        toxic(place.host, place.proxy, f"oschaos-{id}-upstream", "reset_peer", "upstream", {"timeout": 0})
        for place in places
    ]
    others = untouched(wiring, pairs_both(wiring, links))
    return moves, lambda: LinkEvidence(
        touched,
        others,
        lambda *_: "reset",
        lambda _pair, _base, echo: echo.reply is Reply.RESET,
        expected_existing=lambda *_: "reset or closed",
        shows_existing=lambda _p, _b, echo: echo.reply in (Reply.RESET, Reply.CLOSED),
    )


_KINDS: dict[str, tuple[Callable[[str, NetworkFault, Links, Wiring], Made], str, str]] = {
    NetworkLatency.kind: (_latency, "Toxiproxy latency, each direction of each connection", "#b7791f"),
    NetworkBandwidth.kind: (
        _bandwidth,
        "Toxiproxy bandwidth: a cap on each connection, not on the link as a whole",
        "#b7791f",
    ),
    NetworkDrop.kind: (
        _drop,
        "packets vanish at layer 3 (neighbour entry to a hardware address that nobody has)",
        "#9b2c2c",
    ),
    NetworkHang.kind: (_hang, "Toxiproxy timeout: accepted, then bytes vanish; healing closes", "#9b2c2c"),
    NetworkRefuse.kind: (
        _refuse,
        "Toxiproxy proxy disabled: existing connections close, new ones are refused",
        "#9b2c2c",
    ),
    NetworkReset.kind: (
        _reset,
        "Toxiproxy reset_peer: new connections are reset; existing ones end, by FIN or RST as measured",
        "#9b2c2c",
    ),
}
