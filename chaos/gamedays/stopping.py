"""Ways to stop a game day, as guards of its runs: load first, then undo, then proof.

The stop file and a signal do not depend on the cluster under test; a wish on the cluster can be left by any machine.
The end of the window and the day's own bound are ways to stop too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from chaos.base.errors import ChaosError
from chaos.base.text import printable
from chaos.gamedays.board import STOP, Board, Doc

WISH_SECONDS = 2.0
"""How often the cluster is asked whether somebody wants the day to stop."""


class Watch:
    """Looks every few seconds, in a thread of its own, between :meth:`start` and :meth:`stop`."""

    name: str

    def __init__(self) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    @property
    def pause(self) -> float:
        """Seconds between two looks."""
        raise NotImplementedError

    def look(self) -> object:
        """It raises nothing that a server may cause."""
        raise NotImplementedError

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join(30.0)

    def _run(self) -> None:
        while not self._over.wait(self.pause):
            self.look()


class Wish(Watch):
    """``gameday stop`` from any machine. A cluster that does not answer stops nothing: the lock does, when it lasts."""

    name = "stop"

    def __init__(self, board: Board) -> None:
        super().__init__()
        self._board = board
        self._doc: Doc | None = None

    @property
    def pause(self) -> float:
        return WISH_SECONDS

    def look(self) -> None:
        with suppress(ChaosError):
            self._doc = self._board.get(STOP) or self._doc

    @property
    def says(self) -> str | None:
        if self._doc is None:
            return None
        by, why = (printable(str(self._doc.source.get(key, "?"))) for key in ("by", "why"))
        return f"{by} asked to stop: {why}"

    def tripped(self, now: float) -> str | None:
        return self.says


class Signalled:
    """A signal that came while no run was under way to hear it itself."""

    name = "signal"

    def __init__(self, came: threading.Event) -> None:
        self._came = came

    def tripped(self, now: float) -> str | None:
        return "a signal asked to stop" if self._came.is_set() else None


class WindowEnd:
    """The window closes, and what is under way must be undone by then. ``clock``: the wall's."""

    name = "window"

    def __init__(self, closes: datetime, abort: float, clock: Callable[[], datetime]) -> None:
        self._closes, self._abort, self._clock = closes, abort, clock

    def tripped(self, now: float) -> str | None:
        left = (self._closes - self._clock()).total_seconds()
        return None if left > self._abort else f"the window closes at {self._closes:%H:%M}"


class Bound:
    """``bounds.day``: nothing goes on for longer."""

    name = "bounds.day"

    def __init__(self, seconds: float, text: str, began: float) -> None:
        self._end, self._text = began + seconds, text

    def tripped(self, now: float) -> str | None:
        return None if now < self._end else f"the day took longer than {self._text}"
