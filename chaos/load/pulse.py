"""Whether the instruments stand still: the driver's own beat, and a sign of life from every Toxiproxy of the lab.

A process that is stopped, swapped out or hung makes every answer late that passes it, and nothing in an answer says
who was late. So one greenlet beats every :data:`BEAT_S`: a beat that comes late says that this process stood still, or
was too busy to read what had come, which is the same to an answer. On each fifth beat it asks each Toxiproxy over a
connection that is kept (``OPTIONS *``, which its HTTP server answers by itself: half the price of ``/version``). Bytes
that come back are made by the process, so they are a sign that it runs; a connection alone is made by the kernel, also
for a process that is stopped. Faults do not show here: toxics are on the proxies, never on the API.

What is written is what is out of the ordinary (``pulse`` in the ``self`` events of ``driver.jsonl``): ``since`` and
``until`` (ns), between which all of this was measured; ``of``, how many Toxiproxies were asked; ``own``, the [from, to]
between two beats that were too far apart; ``late``, the [name, last sign of life, when it was asked, when it answered]
of those that kept us waiting, also while they still do. It is judged in :mod:`chaos.checks.standing`.
"""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import gevent
from gevent import monkey

from chaos.base.netsock import Endpoint
from chaos.load.config import Instrument
from chaos.load.network import namespace

BEAT_S = 0.02
EACH = 5
"""Beats from one question to a Toxiproxy to the next."""
LATE_NS = 50_000_000
"""A beat or an answer may be late by as much as the driver may be with an arrival (``LAG_P99`` of the checks)."""
_QUESTION = b"OPTIONS * HTTP/1.1\r\nHost: pulse\r\n\r\n"
_socket: Any = monkey.get_original("socket", "socket")
_CONNECTING = (0, errno.EINPROGRESS)


class _Asked:
    """One Toxiproxy: its connection, its last sign of life, and since when (ns) a question is open (None: none is)."""

    def __init__(self, instrument: Instrument, now: int) -> None:
        self.name = instrument.name
        space = namespace(instrument.netns)
        self._server = Endpoint(instrument.host, instrument.port, space)
        self._socket: Any = None
        self._readable: Any = None
        self.sign = now
        self.open: int | None = None
        self.late: list[list[Any]] = []

    def ask(self, now: int) -> None:
        """Send a question unless one is open. One to a process that is gone stays open until another answers there."""
        if self.open is not None and self._socket is not None:
            return
        self.open = self.open or now
        try:
            if self._socket is None:
                self._connect()
            self._socket.send(_QUESTION)
        except OSError:
            self.close()

    def _connect(self) -> None:
        """Without waiting: on a loopback, and to an engine's port, the kernel answers at once."""
        with self._server.entered():
            self._socket = _socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if (number := self._socket.connect_ex(self._server.address)) not in _CONNECTING:
            raise OSError(number, "connect")
        self._readable = gevent.get_hub().loop.io(self._socket.fileno(), 1)
        self._readable.start(self._read)

    def _read(self) -> None:
        """Called by the event loop itself, so that a sign of life costs no switch of greenlets."""
        try:
            answer = self._socket.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            answer = b""
        if not answer:
            self.close()  # it ended, or closed an idle connection: the next turn asks anew
            return
        now = time.monotonic_ns()
        self._note(now)
        self.sign, self.open = now, None

    def _note(self, now: int) -> None:
        if self.open is not None and now - self.open > LATE_NS:
            self.late.append([self.name, self.sign, self.open, now])

    def taken(self, now: int) -> list[list[Any]]:
        """What was late since this was last asked for, and what still is."""
        self._note(now)
        late, self.late = self.late, []
        return late

    def close(self) -> None:
        if self._readable is not None:
            self._readable.stop()
            self._readable.close()
            self._readable = None
        if self._socket is not None:
            with suppress(OSError):
                self._socket.close()
            self._socket = None


class Pulse:
    """The driver's own beat, and who else has one. :meth:`beat` runs in a greenlet of its own."""

    def __init__(self, instruments: Sequence[Instrument]) -> None:
        """Raises LabError when a network namespace cannot be entered."""
        now = time.monotonic_ns()
        self._asked = [_Asked(each, now) for each in instruments]
        self._own: list[tuple[int, int]] = []
        self._since = self._last = now

    def beat(self, ended: Callable[[], bool]) -> None:
        """Until ``ended``."""
        turn = 0
        self._since = self._last = time.monotonic_ns()
        while not ended():
            gevent.sleep(BEAT_S)
            self._beat(time.monotonic_ns())
            turn += 1
            for asked in self._asked[turn % EACH :: EACH]:
                asked.ask(self._last)
        for asked in self._asked:
            asked.close()

    def _beat(self, now: int) -> None:
        if now - self._last - BEAT_S * 1e9 > LATE_NS:
            self._own.append((self._last, now))
        self._last = now

    def taken(self) -> dict[str, Any]:
        """What was found since this was last asked for; see above."""
        now = self._last
        found: dict[str, Any] = {"since": self._since, "until": now, "of": len(self._asked)}
        own, self._own, self._since = self._own, [], now
        late = [each for asked in self._asked for each in asked.taken(now)]
        return found | ({"own": own} if own else {}) | ({"late": late} if late else {})
