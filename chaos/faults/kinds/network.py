"""Network faults: parameters, and what must be seen of them on directed links.

Two ways to lose all packets, which recover differently: *drop* (they vanish below TCP, which retransmits, and after
healing the connections go on) and *hang* (bytes vanish behind an accepted connection, and healing closes it). With
*loss* a share of them vanishes, and every connection goes on: late.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from chaos.base.errors import InvalidInput
from chaos.base.units import (
    Duration,
    Percent,
    PositiveDuration,
    PositivePercent,
    PositiveSize,
    PositiveSizeRate,
    Size,
    at_least,
)
from chaos.definitions.steps import Scene
from chaos.definitions.topology import Topology
from chaos.faults.evidence import (
    CONTROL_GROWTH_SECONDS,
    LEAST_CLOSE_SECONDS,
    LEAST_DELAY_SECONDS,
    LEAST_PAUSE_SECONDS,
    SILENCE_SECONDS,
    BandwidthEvidence,
    Evidence,
    LinkEvidence,
    SlicerEvidence,
    SlowCloseEvidence,
    milliseconds,
    tolerance,
)
from chaos.faults.fault import Link
from chaos.faults.kind import NetworkFault
from chaos.faults.lateness import late_share
from chaos.faults.loss import LEAST_FLAP_SECONDS, MOST_LATE, LossEvidence
from chaos.faults.offers import Aim, Means
from chaos.faults.probes import Echo, Pair, Reply
from chaos.targets.wiring import Wiring

Links = frozenset[Link]


def spoken(wiring: Wiring, links: Links) -> Links:
    """The links over which anything is ever said: clients do not speak to each other, nor to services."""
    return frozenset((a, b) for a, b in links if wiring.opens(a, b) or wiring.opens(b, a))


def pairs_both(wiring: Wiring, links: Links) -> list[Pair]:
    """Connections whose bytes cross one of the links in either direction."""
    ends = links | {(b, a) for a, b in links}
    return sorted((a, b) for a, b in ends if wiring.opens(a, b))


def pairs_opened(wiring: Wiring, links: Links) -> list[Pair]:
    """Connections that the source of one of the links opens."""
    return sorted((a, b) for a, b in links if wiring.opens(a, b))


def untouched(wiring: Wiring, touched: list[Pair]) -> list[Pair]:
    """Every other connection that can be opened there and looked at."""
    names = [host.name for host in wiring.hosts]
    everything = {(a, b) for a in names for b in names if wiring.opens(a, b) and wiring.answers(a, b)}
    return sorted(everything - set(touched))


AMBER = "#b7791f"
LEAST_SLICE_OVER_TLS = 256
"""Bytes; a client's ping is some 190 of them."""


LEAST_LOSS, MOST_LOSS = Percent(0.02), Percent(MOST_LATE)
"""Of a smaller loss the pings of one look do not tell (800 over each pair, on average)."""


ANSWERED_WITHIN = 2.0
"""Seconds for which an untouched link is waited for: of a fault that lets nothing through, any answer says that it is
not there."""


class OnLinks(NetworkFault):
    """What all network faults have in common: links resolved, pairs that nobody speaks over left out."""

    holding = (
        "every two seconds pings over two of its pairs and one untouched pair, in turn; before the undo all of "
        "its proof, and a glance at every other pair. "
        "With `flap` each time is proven when it begins, and one of 10 s or more before it ends"
    )

    def aim(self, id: str, scene: Scene, wiring: Wiring) -> Aim:
        return Aim(id, scene, wiring, links=spoken(wiring, scene.links(self.links)))

    def check(self, topology: Topology) -> list[str]:
        if "bursts" in self.sees and topology.service_hosts and self.links.may_reach_services:
            return [
                f"{self.links.text} leads to a service ({', '.join(topology.service_hosts)}), which does not answer at "
                f"length, so {self.kind} cannot be proven there: expected links between nodes, or another kind"
            ]
        return []

    @property
    def silence(self) -> float:
        """Seconds without an answer that count as silence; less where the fault itself is short."""
        return SILENCE_SECONDS if self.flap is None else min(SILENCE_SECONDS, 0.4 * float(self.flap.down))


class NetworkLatency(OnLinks):
    """Added one-way delay. A round trip grows by it once per direction that is chosen."""

    kind = "network.latency"
    noticing = "hardly"
    examples = (
        {"links": "to zone c", "delay": "300ms"},
        {"links": "around everything in zone c", "delay": "200ms", "jitter": "20ms"},
    )
    proof = "round trips over new and existing connections grow as asked, untouched ones do not"
    colour = AMBER
    delay: PositiveDuration = Field(description="added one way, for example 300ms")
    jitter: Duration = Field(default=Duration(0), description="the delay varies by plus or minus this much")

    @model_validator(mode="after")
    def _jitter_below_delay(self) -> NetworkLatency:
        if self.jitter > self.delay:
            raise ValueError(
                f"jitter {self.jitter.text} is more than the delay {self.delay.text}: a delay cannot become negative"
            )
        if self.delay - self.jitter < LEAST_DELAY_SECONDS - 1e-9:  # 60 ms less 40 ms are 20, and not quite in floats
            less = f" less its jitter {self.jitter.text}" if self.jitter else ""
            raise ValueError(
                f"a delay of {self.delay.text}{less} cannot be told from a link that nobody touched: "
                f"expected {milliseconds(LEAST_DELAY_SECONDS)} or more"
            )
        return self

    @property
    def lateness(self) -> Duration:
        return self.delay

    def describe(self) -> str:
        jitter = f" ± {self.jitter.text}" if self.jitter else ""
        return f"+{self.delay.text}{jitter} on links {self.links.text}"

    def evidence(self, aim: Aim, means: Means) -> Evidence:
        delay, jitter, links = float(self.delay), float(self.jitter), aim.links
        touched = pairs_both(aim.wiring, links)

        def ways(pair: Pair) -> int:
            """How many of a round trip's two directions are delayed."""
            return (pair in links) + ((pair[1], pair[0]) in links)

        def bounds(pair: Pair, base: Echo | None) -> tuple[float, float]:
            before = base.seconds if base and base.seconds else 0.0
            added, slack = ways(pair) * delay, ways(pair) * jitter
            least = max(added - slack - tolerance(added), CONTROL_GROWTH_SECONDS)
            return before + least, before + added + slack + tolerance(added)

        def expected(pair: Pair, base: Echo | None) -> str:
            low, high = bounds(pair, base)
            return f"{milliseconds(low)} to {milliseconds(high)}"

        def shows(pair: Pair, base: Echo | None, echo: Echo) -> bool:
            low, high = bounds(pair, base)
            return echo.seconds is not None and low <= echo.seconds <= high

        def expected_still(pair: Pair, base: Echo | None) -> str:
            return f"at least {milliseconds(bounds(pair, base)[0])}"

        def shows_still(pair: Pair, base: Echo | None, echo: Echo) -> bool:
            """What is slower than it was made has not become faster: a busy machine or a long way adds to it."""
            return echo.seconds is not None and echo.seconds >= bounds(pair, base)[0]

        silence = 2 * (delay + jitter) + 2.0
        others = untouched(aim.wiring, touched)
        return LinkEvidence(
            touched,
            others,
            expected,
            shows,
            holds=(expected_still, shows_still),
            silence=silence,
            adds=max(0.0, delay - jitter),
        )


class NetworkBandwidth(OnLinks):
    """A limit of throughput, of each connection over a link (Toxiproxy knows no links as a whole)."""

    kind = "network.bandwidth"
    noticing = "hardly"
    examples = (
        {"links": "from node a-data to node c-data", "rate": "64KiB/s"},
        {"links": "from clients of zone a to node c-data", "rate": "1MiB/s"},
    )
    proof = (
        "a burst of pings, or of questions that the node quotes, takes as long as the rate says, and neither before "
        "nor afterwards"
    )
    sees = ("bursts",)
    holding = (
        "up to 128 KiB/s every two seconds a short burst over one of its pairs in turn; before the undo bursts over "
        "three of them, first those of which a proxy says something else, and a glance at every other pair. "
        "With `flap` each time is proven when it begins, and one of 10 s or more before it ends"
    )
    colour = AMBER
    rate: PositiveSizeRate = Field(
        description="of each connection, for example 64KiB/s; proven where a link carries twice as much without it: "
        "a local lab some 70 MB/s between nodes and 10 MB/s from clients, over TLS 7 and 2"
    )

    def describe(self) -> str:
        return f"at most {self.rate.text} on links {self.links.text}"

    @property
    def kilobytes(self) -> int:
        """The rate in whole kB/s, as which it is made."""
        return max(round(float(self.rate) / 1000), 1)

    def evidence(self, aim: Aim, means: Means) -> Evidence:
        touched = pairs_both(aim.wiring, aim.links)
        return BandwidthEvidence(touched, untouched(aim.wiring, touched), self.kilobytes * 1000.0)


class NetworkSlicer(OnLinks):
    """Bytes arrive in small slices with a pause after each, as a tunnel or a lossy link makes them of a stream.

    Toxiproxy halves what it has read until a piece is small enough: slices are between half of ``size`` and ``size``.
    """

    kind = "network.slicer"
    noticing = "hardly"
    examples = (
        {"links": "from node a-data to node c-data", "size": "512B", "delay": "10ms"},
        {"links": "from clients of zone a to node c-data", "size": "4KiB", "delay": "10ms"},
    )
    proof = "pings in a row are kept apart by the pause, later no more, and a burst takes as long as its slices"
    sees = ("bursts",)
    holding = (
        "every two seconds pings in a row over two of its pairs, in turn; before the undo all of its proof over three "
        "of them, first those of which a proxy says something else, and a glance at every other pair. "
        "With `flap` each time is proven when it begins, and one of 10 s or more before it ends"
    )
    colour = AMBER
    size: Annotated[PositiveSize, at_least(Size(16), "is less than one message's header")] = Field(
        description="of a slice at most, for example 512B"
    )
    delay: Annotated[
        PositiveDuration,
        at_least(Duration(LEAST_PAUSE_SECONDS), "cannot be told from round trips on a busy machine"),
    ] = Field(description="the pause after each slice, for example 10ms")

    def check(self, topology: Topology) -> list[str]:
        if topology.security and self.size < LEAST_SLICE_OVER_TLS:
            return [
                f"slices of {self.size.text} would cut the pings that prove them, which on a secured topology are TLS "
                f"records and carry a password: expected {LEAST_SLICE_OVER_TLS}B or more"
            ]
        return super().check(topology)

    def describe(self) -> str:
        return f"slices of {self.size.text} at most, {self.delay.text} apart, on links {self.links.text}"

    def evidence(self, aim: Aim, means: Means) -> Evidence:
        touched = pairs_both(aim.wiring, aim.links)
        opened = pairs_opened(aim.wiring, aim.links)
        return SlicerEvidence(touched, untouched(aim.wiring, touched), int(self.size), float(self.delay), opened)


class NetworkSlowClose(OnLinks):
    """The end of a connection arrives late: the other side goes on believing in it."""

    kind = "network.slow_close"
    noticing = "hardly"
    examples = ({"links": "from node a-data to node c-data", "delay": "2s"},)
    proof = "from the end of our half of a connection to the end of the other takes as long as asked"
    sees = ("closes",)
    colour = AMBER
    delay: Annotated[
        PositiveDuration,
        at_least(Duration(LEAST_CLOSE_SECONDS), "cannot be told from a close that nothing delays"),
    ] = Field(description="until a close arrives, for example 2s")

    def describe(self) -> str:
        return f"closes arrive {self.delay.text} late on links {self.links.text}"

    def evidence(self, aim: Aim, means: Means) -> Evidence:
        links, touched = aim.links, pairs_both(aim.wiring, aim.links)
        delays = {pair: ((pair in links) + (pair[::-1] in links)) * float(self.delay) for pair in touched}
        return SlowCloseEvidence(touched, untouched(aim.wiring, touched), delays)


class _Silencing(OnLinks):
    """Bytes vanish: no answer over new connections and over existing ones."""

    proof = "no answer over new and existing connections, untouched ones answer as before"

    def evidence(self, aim: Aim, means: Means) -> Evidence:
        touched = pairs_both(aim.wiring, aim.links)
        return LinkEvidence(
            touched,
            untouched(aim.wiring, touched),
            lambda *_: "silent",
            lambda _pair, _base, echo: echo.is_(Reply.SILENT),
            silence=self.silence,
            adds=ANSWERED_WITHIN,
        )


class NetworkDrop(_Silencing):
    """Packets vanish at layer 3; TCP retransmits and goes on after healing."""

    kind = "network.drop"
    examples = (
        {"links": "to zone c"},
        {"links": "between node a-data and node b-data"},
        {"links": "around everything in zone c", "flap": {"down": "1s", "up": "4s", "times": 1}},
    )

    def describe(self) -> str:
        return f"packets vanish on links {self.links.text}"


class NetworkLoss(OnLinks):
    """A share of the packets vanishes, drawn for each: TCP sends them again, and whatever waits for them is late."""

    kind = "network.loss"
    noticing = "hardly"
    examples = (
        {"links": "to zone c", "share": "20%"},
        {"links": "between node a-data and node c-data", "share": "5%"},
    )
    proof = (
        "over existing connections as many pings are late as this loss makes late, and some are in time; over "
        "untouched ones hardly any is late; counted until it is told with an error of 1 in 10,000. Where hosts count "
        "the packets that met it, as many of these were lost, told likewise, and of the pings of nodes that are asked "
        "some are late"
    )
    holding = (
        "every two seconds pings over two of its pairs, in turn, until one is late, and one over an untouched pair; "
        "before the undo all of its proof, and a glance at every other pair. "
        "With `flap` each time is proven when it begins, and one of 10 s or more before it ends"
    )
    colour = AMBER
    share: Annotated[PositivePercent, at_least(LEAST_LOSS, "cannot be told from none by the pings of one look")] = (
        Field(description="of the packets on each of these links, for example 20%; 2% to 90%")
    )

    @model_validator(mode="after")
    def _can_be_told(self) -> NetworkLoss:
        if self.share > MOST_LOSS:
            raise ValueError(
                f"a loss of {self.share.text} lets too little through to be told from one of all: "
                f"expected {MOST_LOSS.text} at most, or network.drop"
            )
        if self.flap is not None and self.flap.down < LEAST_FLAP_SECONDS:
            raise ValueError(
                f"flap: {self.flap.down.text} are over before a share can be told: "
                f"expected down: {Duration(LEAST_FLAP_SECONDS).text} or more"
            )
        return self

    def aim(self, id: str, scene: Scene, wiring: Wiring) -> Aim:
        """Raises InvalidInput, too, where hardly a round trip would come through both ways of a pair."""
        aim = super().aim(id, scene, wiring)
        both = late_share(self.share, self.share)
        if both > MOST_LATE and any((b, a) in aim.links for a, b in aim.links):
            raise InvalidInput(
                f"network.loss: {self.share.text} lost both ways leave {1 - both:.0%} of the round trips, which cannot "
                "be told from none",
                remedy="68% at most, links that go one way, or network.drop",
            )
        return aim

    def describe(self) -> str:
        return f"{self.share.text} of the packets vanish on links {self.links.text}"

    def evidence(self, aim: Aim, means: Means) -> Evidence:
        touched = pairs_both(aim.wiring, aim.links)
        return LossEvidence(touched, untouched(aim.wiring, touched), dict.fromkeys(aim.links, float(self.share)))


class NetworkHang(_Silencing):
    """Connections are accepted and their bytes vanish; healing closes them."""

    kind = "network.hang"
    examples = ({"links": "from node a-data to node c-data"},)

    def describe(self) -> str:
        return f"connections hang on links {self.links.text}"


def turned_away(aim: Aim, new: Reply, *existing: Reply) -> LinkEvidence:
    """New connections meet exactly this reply; existing ones this one or one of the others."""
    ends = (new, *existing)
    return LinkEvidence(
        pairs_opened(aim.wiring, aim.links),
        untouched(aim.wiring, pairs_both(aim.wiring, aim.links)),
        lambda *_: new.value,
        lambda _pair, _base, echo: echo.is_(new),
        expected_existing=lambda *_: " or ".join(reply.value for reply in ends),
        shows_existing=lambda _pair, _base, echo: any(echo.is_(end) for end in ends),
        adds=ANSWERED_WITHIN,
    )


class NetworkRefuse(OnLinks):
    """New connections are refused, existing ones close."""

    kind = "network.refuse"
    noticing = "at once"
    examples = (
        {"links": "from node a-data to node c-data"},
        {"links": "from clients of zone a to node b-data"},
    )
    proof = "new connections are refused, existing ones are closed"

    def describe(self) -> str:
        return f"connections are refused on links {self.links.text}"

    def evidence(self, aim: Aim, means: Means) -> Evidence:
        return turned_away(aim, Reply.REFUSED, Reply.CLOSED, Reply.RESET)


class NetworkReset(OnLinks):
    """New connections are reset; existing ones end."""

    kind = "network.reset"
    noticing = "at once"
    examples = (
        {"links": "from node a-data to node c-data"},
        {"links": "from clients of zone a to node b-data"},
    )
    proof = "new connections are reset, existing ones are reset or closed"

    def describe(self) -> str:
        return f"connections are reset on links {self.links.text}"

    def evidence(self, aim: Aim, means: Means) -> Evidence:
        return turned_away(aim, Reply.RESET, Reply.CLOSED)
