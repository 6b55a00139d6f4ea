"""One request of a check on data and its answer, decoded; and the pace at which such checks go.

These operations stand beside the open loop: they have greenlets, files and mostly connections of their own, and
an experiment without them pays nothing for them. They are few, so each is written down whole, before it is sent
and when it has been answered: a request that a killed driver left behind is known and never just absent.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gevent
from gevent import Timeout
from gevent.pool import Pool
from opensearchpy.exceptions import TransportError

from chaos.history.format import Outcome
from chaos.history.writer import Broken, EventWriter
from chaos.load.client import Send
from chaos.load.connections import Trace
from chaos.load.outcomes import answered, of_error
from chaos.load.schedule import SECOND
from chaos.opensearch.rest import UNREADABLE


@dataclass(frozen=True)
class Answer:
    """What came of a request. ``data``: the decoded body, also of an error; None when there is none to read.

    ``outcome`` is ok for every status 2xx with a body of the right shape that is not wrong, whatever else it says.
    """

    outcome: Outcome
    status: int
    node: int | None
    attempts: int
    data: Any
    wrong: str = ""
    """What is wrong with it, in words; then there is no ``data``."""

    @property
    def never_sent(self) -> bool:
        """No connection was made, so no node can have seen it. With several attempts only the last is known."""
        return self.attempts <= 1 and self.outcome in (Outcome.REFUSED, Outcome.DROPPED)


def ask(
    send: Send,
    kind: str,
    method: str,
    path: str,
    body: str | None,
    timeout_s: float,
    wrong: Callable[[int, Any], str] = lambda status, data: "",
) -> Answer:
    """Send one request; never raises for what the cluster does. ``timeout_s``: from sending to the last byte.

    ``kind``: as :func:`answered` has it; a body that is no answer to that is garbled, and not handed on. ``wrong``:
    says of a status 2xx and its body what is wrong with it (:mod:`chaos.load.right`), or nothing.
    """
    trace = Trace()
    outcome, status, data, says = Outcome.UNKNOWN, 0, None, ""
    timer = Timeout.start_new(timeout_s)
    try:
        status, text = send(method, path, body=body, headers=trace)
        outcome, data = answered(kind, status, text)
        if outcome is Outcome.PARTIAL:
            outcome = Outcome.OK
        if outcome is Outcome.OK:
            outcome, data, says = _right(status, data, wrong)
    except Timeout as fired:
        if fired is not timer:
            raise
        outcome, status = Outcome.TIMEOUT, 0
    except Exception as error:
        outcome, status = of_error(error)
        if isinstance(error, TransportError) and isinstance(error.info, dict):
            data = error.info
    finally:
        timer.close()
    return Answer(outcome, status, trace.node, trace.attempts, data, says)


def _right(status: int, data: Any, wrong: Callable[[int, Any], str]) -> tuple[Outcome, Any, str]:
    try:
        says = wrong(status, data)
    except UNREADABLE:
        return Outcome.GARBLED, None, ""
    return (Outcome.WRONG, None, says) if says else (Outcome.OK, data, "")


class Allowance:
    """Lets ``rate`` requests a second begin, at even distances, so that a cap holds; None: any number of them."""

    def __init__(self, rate: float | None) -> None:
        self._between = 0.0 if rate is None else 1 / rate
        self._next = 0.0

    def take(self) -> None:
        """Return when one more may begin."""
        now = time.monotonic()
        at = max(now, self._next)
        self._next = at + self._between
        if at > now:
            gevent.sleep(at - now)


class Paced:
    """Something done ``rate`` times a second, each time in a greenlet of its own, until stopped; noted in ``file``.

    ``at_once`` at most: when so many are under way the next waits, and turns that have gone by are left out, so
    that nothing is made up for in a burst. ``broken``: told when ``file`` cannot be written; each turn has a greenlet
    of its own, in which an exception would be lost.
    """

    def __init__(self, rate: float, at_once: int, file: Path, broken: Broken) -> None:
        self._rate = rate
        self._events: EventWriter | None = EventWriter(file, broken)
        self._pool = Pool(at_once)
        self._stopped = False
        self.given_up = False
        """What is under way is to send nothing more either."""

    def due(self, number: int) -> float:
        """When turn ``number`` is due, in seconds from the load's start."""
        return number / self._rate

    def turn(self, number: int) -> None:
        """Do it once."""
        raise NotImplementedError

    def walk(self, begin_ns: int) -> None:
        """Take turns from ``begin_ns`` (CLOCK_MONOTONIC) until :meth:`stop`."""
        number = 0
        while not self._stopped:
            wait = begin_ns / SECOND + self.due(number) - time.monotonic()
            if wait > 0:
                gevent.sleep(min(wait, 0.25))  # so that a stop is heard
                continue
            if wait < -1:
                number = max(number, int((time.monotonic() - begin_ns / SECOND) * self._rate))
            self._pool.spawn(self.turn, number)
            number += 1

    def stop(self) -> None:
        """Begin nothing more."""
        self._stopped = True

    def give_up(self) -> None:
        """Begin nothing more, and send nothing more of what is under way."""
        self._stopped = self.given_up = True

    def join(self, timeout: float) -> None:
        """Wait for what is under way, in seconds at most."""
        self._pool.join(timeout=timeout)

    def note(self, kind: str, **fields: Any) -> None:
        """Write down one event; after :meth:`close` nothing more."""
        if self._events is not None:
            self._events.write(kind, **fields)

    @property
    def closed(self) -> bool:
        return self._events is None

    def close(self) -> None:
        """Write what there is."""
        events, self._events = self._events, None
        if events is not None:
            events.close()
