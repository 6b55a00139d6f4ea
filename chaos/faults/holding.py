"""Whether a fault that was proven still holds: looked at in full before its undo, and cheaply in between.

A proof holds for the moment in which it was made. Somebody may take a fault back behind our back (a Toxiproxy that is
reset, a process that is let go), or it may spread. So one thread takes cheap looks at every fault that is to hold, a
part of it each time, and the proxies' own lists are read as hints: a hint proves nothing, in either direction. Whatever
is odd leads to a full look, and only full looks that fail for some seconds say that the fault is gone.

A full look is repeated until each of its signs has been seen once within ``held_deadline``: on a busy machine a single
look at thirty connections is easily unlucky with one of them, and what is gone is not seen once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from chaos.base.errors import ChaosError
from chaos.faults.evidence import Evidence, Look, Probe
from chaos.faults.moves import Move, said
from chaos.faults.patience import patiently
from chaos.targets.protocol import Lab

LOOK_SECONDS = 2.0
"""From one round of cheap looks to the next."""
HINTED_HOSTS = 2
"""How many hosts' proxies are asked for their lists in each round, the next ones each time."""
RECORDED_SECONDS = 5.0
"""Of looks that prove it one in so long is recorded: a history of an hour must not swell."""
AGAIN_SECONDS = 0.1
"""Between one full look and the next."""


@dataclass
class Verdict:
    """What came of full looks: whether it still holds; ``look`` is the last one.

    ``since``: until when everything that is not shown any more was last shown; ``first``: when the first of the looks
    began that did not show it (both monotonic ns).
    """

    holds: bool
    look: Look
    since: int
    first: int
    spread: bool = False
    """It is where it should be, and somewhere else too."""


@dataclass
class Holding:
    """What is known of one fault since it was proven at ``proven`` (monotonic ns)."""

    evidence: Evidence
    proven: int
    recorded: int = 0
    shown: dict[str, int] = field(default_factory=dict)
    """When each thing was last looked at and was as it must be."""
    looking: threading.Lock = field(default_factory=threading.Lock)
    """Full looks use the connections that exist since before: one at a time."""

    def saw(self, look: Look, began: int) -> None:
        """Keep when each thing was seen to be as it must be; a thing with several signs when all of them were."""
        odd = {probe.key for probe in look.probes if not probe.ok}
        for probe in look.probes:
            if probe.key not in odd:
                self.shown[probe.key] = max(began, self.shown.get(probe.key, 0))

    def glance(self, lab: Lab) -> Look | None:
        """A cheap look; one that cannot be taken is odd."""
        began = time.monotonic_ns()
        try:
            look = self.evidence.still(lab)
        except Exception as error:  # whatever it is, a full look tells
            return Look(False, said(error))
        if look is not None:
            self.saw(look, began)
        return look

    def settle(self, lab: Lab, stopped: Callable[[], bool]) -> Verdict | None:
        """Full looks until it is proven to hold, or until its deadline; None after a stop."""
        end = time.monotonic() + self.evidence.held_deadline
        asked: set[str] = set()
        shown: set[str] = set()
        before = dict(self.shown)
        first = time.monotonic_ns()
        while True:
            began = time.monotonic_ns()
            look = patiently(lambda: self._full(lab), stopped, 0.0)
            if look is None or stopped():
                return None
            self.saw(look, began)
            shown |= {probe.what for probe in look.probes if probe.ok}
            asked |= {probe.what for probe in look.probes if not probe.control}
            if look.proven or (asked <= shown and self._seen_in_turn(look, shown)):
                return Verdict(True, look, began, began)
            if time.monotonic() >= end:
                odd = [probe for probe in look.probes if not probe.ok and probe.what not in shown]
                since = min((before.get(probe.key, self.proven) for probe in odd), default=self.proven)
                spread = bool(odd) and all(probe.control for probe in odd)
                return Verdict(False, _said_odd(look, odd), since, first, spread)
            time.sleep(AGAIN_SECONDS)

    def _full(self, lab: Lab) -> Look:
        with self.looking:
            try:
                return self.evidence.held(lab)
            except Exception as error:  # what cannot be looked at is not proven
                return Look(False, f"it cannot be looked at: {said(error)}")

    @staticmethod
    def _seen_in_turn(look: Look, shown: set[str]) -> bool:
        """Each sign of this look was seen in one of the looks; not where anything else than its signs decides."""
        return any(not probe.ok for probe in look.probes) and all(probe.what in shown for probe in look.probes)


def _said_odd(look: Look, odd: Sequence[Probe]) -> Look:
    """The look, with what it did not show in words."""
    if not odd:
        return look
    named = [f"{probe.what}: {probe.measured}" for probe in odd[:3]]
    more = f", and {len(odd) - 3} more" if len(odd) > 3 else ""
    return Look(False, f"{look.says}: {'; '.join(named)}{more}", look.probes)


# ---- hints ----------------------------------------------------------------------------------------------

Fact = tuple[str, ...]
"""(host, proxy, toxic), or (host, proxy) of a proxy that is off."""


def facts(moves: Iterable[Move]) -> frozenset[Fact]:
    """What proxies must say of these moves."""
    found: set[Fact] = set()
    for move in moves:
        given = move.arguments
        if move.operation == "toxic.add":
            found.add((given["host"], given["proxy"], given["toxic"]))
        elif move.operation == "proxy.disable":
            found.add((given["host"], given["proxy"]))
    return frozenset(found)


def told(lab: Lab, host: str) -> frozenset[Fact] | None:
    """What the Toxiproxy of a host says of itself; None when it does not answer."""
    try:
        proxies = lab.proxies(host)
    except ChaosError:
        return None
    found: set[Fact] = {(host, name) for name, proxy in proxies.items() if not proxy["enabled"]}
    return frozenset(found | {(host, name, toxic["name"]) for name, p in proxies.items() for toxic in p["toxics"]})
