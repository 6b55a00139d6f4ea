"""A storm: requests at a rate from the runner itself, for as long as a fault holds. A :class:`Worker`.

Open loop: request k is due at k / rate after the start, whatever became of those before it. What is more than a
second late is left out instead of sent in a burst, and so shows as a rate that was not reached. Everything goes over
the direct path, that no fault touches. A watch measures beside it once a second what the storm does to others.
"""

from __future__ import annotations

import math
import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import urllib3

from chaos.faults.evidence import Look, Probe
from chaos.opensearch.rest import NodeClient
from chaos.targets.protocol import Lab

ENOUGH = 0.8
"""The share of the asked rate that a storm must reach to count as one."""
LATE_SECONDS = 1.0
TIMEOUT_SECONDS = 5.0
"""Of one request, unless a storm has another one."""
FEWEST_SENDERS, MOST_SENDERS = 4, 32


class Ask(NamedTuple):
    """One HTTP request. ``body`` is JSON."""

    method: str
    path: str
    body: object = None


@dataclass(frozen=True)
class Tally:
    """What became of a storm within ``seconds``. ``slowest`` in seconds; ``refusal``: what the first failure said."""

    seconds: float = 0.0
    sent: int = 0
    well: int = 0
    slowest: float = 0.0
    refusal: str | None = None

    @property
    def rate(self) -> float:
        """Requests sent per second."""
        return self.sent / self.seconds if self.seconds else 0.0

    def says(self) -> str:
        well = self.well / self.seconds if self.seconds else 0.0
        more = f"; the first failure: {self.refusal}" if self.refusal else ""
        return (
            f"{self.rate:.1f}/s sent and {well:.1f}/s answered well over {self.seconds:.1f} s, "
            f"the slowest after {self.slowest * 1000:.0f} ms{more}"
        )


Watch = Callable[[Lab], Mapping[str, float]]
"""Measures something by name, in the unit that the name says; an empty mapping when it cannot."""


class Storm:
    """``requests(k)`` is what the k-th tick sends, one after the other; the tick is well when all of them are.

    ``timeout``: of one request (s), and so the longest that :meth:`stop` waits. ``senders``: how many requests may be
    under way at once, at most; None: as many as the rate needs where answers come within half a second. A sender is
    started where all others wait for answers.
    """

    def __init__(
        self,
        rate: float,
        nodes: Sequence[str],
        requests: Callable[[int], Sequence[Ask]],
        watch: Watch | None = None,
        *,
        timeout: float = TIMEOUT_SECONDS,
        senders: int | None = None,
    ) -> None:
        self.rate, self.nodes = rate, list(nodes)
        self._requests, self._watch, self._timeout = requests, watch, timeout
        self._most = senders or min(MOST_SENDERS, max(FEWEST_SENDERS, math.ceil(rate / 2)))
        self._idle = self._senders = 0
        self._free: dict[str, list[NodeClient]] = {node: [] for node in self.nodes}
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._next = 0
        self._tally = Tally()
        self._watched: dict[str, list[float]] = {}
        self._began: float | None = None
        self._ended: float | None = None

    def start(self, lab: Lab) -> None:
        self._began = time.monotonic()
        with self._lock:
            for _ in range(min(FEWEST_SENDERS, self._most)):
                self._start_sender(lab)
            if self._watch is not None:
                self._begin(threading.Thread(target=self._look, args=(lab,), name="storm watch", daemon=True))

    def _start_sender(self, lab: Lab) -> None:
        """Under the lock: one more, unless it is over or there are enough."""
        if not self._over.is_set() and self._senders < self._most:
            self._begin(threading.Thread(target=self._send, args=(lab,), name=f"storm {self._senders}", daemon=True))
            self._senders += 1

    def _begin(self, thread: threading.Thread) -> None:
        self._threads.append(thread)
        thread.start()

    def stop(self) -> Look:
        """End it; the look is over its whole time."""
        self._over.set()
        self._ended = time.monotonic()  # what is under way still counts, the time that it takes does not
        with self._lock:  # none is started from here on
            threads = list(self._threads)
        for thread in threads:
            thread.join()
        for client in (each for free in self._free.values() for each in free):
            client.close()
        probes = [self.probe(), *self.watched()]
        return Look(all(probe.ok for probe in probes), f"the storm: {self.tally().says()}", probes)

    @property
    def over(self) -> bool:
        """Whether it was ended; its tally stands still since."""
        return self._ended is not None

    def tally(self) -> Tally:
        """As it is now."""
        if self._began is None:
            return Tally()
        with self._lock:
            now, tally = self._ended or time.monotonic(), self._tally
        return Tally(now - self._began, tally.sent, tally.well, tally.slowest, tally.refusal)

    def probe(self) -> Probe:
        """Whether the rate that was asked for is reached."""
        tally = self.tally()
        # an eighth of a second of a short storm is one request more or less
        ok = tally.sent + 1 >= ENOUGH * self.rate * tally.seconds and tally.sent > 0
        return Probe("requests of the storm", f"at least {ENOUGH:.0%} of {self.rate:g}/s sent", tally.says(), ok)

    def measure(self, lab: Lab) -> Mapping[str, float]:
        """What the watch sees now."""
        return self._watch(lab) if self._watch is not None else {}

    def watched(self) -> list[Probe]:
        """What the watch has seen until now; for people, nothing is judged by it."""
        with self._lock:
            seen = {name: list(values) for name, values in self._watched.items() if values}
        return [
            Probe(
                name,
                "whatever it is",
                f"median {statistics.median(values):.4g}, at most {max(values):.4g} ({len(values)} looks)",
                True,
            )
            for name, values in seen.items()
        ]

    def _take(self, lab: Lab) -> int | None:
        """The number of the next request, once it is due; None when the storm is over. Where no other sender is left to
        take the one after it, another is started."""
        assert self._began is not None
        with self._lock:
            late = time.monotonic() - self._began - LATE_SECONDS
            number = max(self._next, math.ceil(late * self.rate))
            self._next = number + 1
            self._idle += 1
        due = self._began + number / self.rate
        over = self._over.wait(max(0.0, due - time.monotonic()))
        with self._lock:
            self._idle -= 1
            if not self._idle:
                self._start_sender(lab)
        return None if over else number

    def _send(self, lab: Lab) -> None:
        while (number := self._take(lab)) is not None:
            node = self.nodes[number % len(self.nodes)]
            with self._lock:
                self._tally = self._plus(sent=1)
                client = self._free[node].pop() if self._free[node] else None
            client = client or lab.client(node, timeout=self._timeout)
            began = time.monotonic()
            refusal = self._all(client, self._requests(number))
            with self._lock:
                self._free[node].append(client)
                self._tally = self._plus(well=refusal is None, slowest=time.monotonic() - began, refusal=refusal)

    def _plus(self, sent: int = 0, well: int = 0, slowest: float = 0.0, refusal: str | None = None) -> Tally:
        now = self._tally
        return Tally(0.0, now.sent + sent, now.well + well, max(now.slowest, slowest), now.refusal or refusal)

    @staticmethod
    def _all(client: NodeClient, requests: Sequence[Ask]) -> str | None:
        """None when all were answered well."""
        for method, path, body in requests:
            try:
                status, answer = client.request(method, path, body=body)
            except urllib3.exceptions.HTTPError as error:
                return f"{method} {path}: {type(error).__name__}"
            if status >= 300:
                return f"{method} {path}: {status} {str(answer)[:120]}"
        return None

    def _look(self, lab: Lab) -> None:
        assert self._watch is not None
        while not self._over.wait(1.0):
            with suppress(urllib3.exceptions.HTTPError, OSError):
                seen = self._watch(lab)
                with self._lock:
                    for name, value in seen.items():
                        self._watched.setdefault(name, []).append(value)
