"""What all machines know of a target's game days: documents in the notes of the target (``.opensearch-chaos``).

The lock of a day that is under way, which days were held, which approvals are used up, what is on hold after trouble,
what the cluster's operators consent to, and the wish of anybody that a day may stop. Everything is changed by
compare-and-set: ``op_type=create``, or ``if_seq_no`` with ``if_primary_term``. Wall clocks are never compared; who
wants a lock must see it stand still for a whole TTL on a clock of its own, as client-go's leader election does.
OpenSearch checks no token: between a look at the lock and the request after it lies a gap that no client can close.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from chaos.base.errors import ChaosError, InvalidInput, LabError
from chaos.base.text import printable
from chaos.opensearch.administration import reading
from chaos.opensearch.cluster import Cluster
from chaos.opensearch.views import administer
from chaos.run.noted import GAMEDAY, Notes

TTL_SECONDS = 180.0
"""A lock that stands still for so long is nobody's any more. It has a copy in each zone, and a cluster with default
settings needs a minute and more to give a zone up that has gone silent; until then nothing can be written."""
RENEW_SECONDS = 15.0
"""How often it is renewed."""
ABORT_SECONDS = TTL_SECONDS / 2
"""Who could not renew it for so long ends the day: nobody can have taken it by then."""
NO_SEQUENCE = 1 << 53
"""A sequence number that no document has."""
LOOK_SECONDS = 1.0
ASK_SECONDS = 10.0
LOCK, STOP, CONSENT = f"{GAMEDAY}lock", f"{GAMEDAY}stop", f"{GAMEDAY}consent"
DAYS = f"{GAMEDAY}day-"
"""How the ids of days begin that were held, or are."""


class Held(InvalidInput):
    """Another machine holds the day, or has held it. Nothing was changed."""


class Busy(InvalidInput):
    """Another game day holds the cluster. Nothing was changed."""


@dataclass(frozen=True)
class Doc:
    """One document, and its place in the order of changes."""

    source: Mapping[str, Any]
    seq_no: int
    term: int

    @property
    def moved(self) -> tuple[int, int]:
        return self.term, self.seq_no


class Board:
    """The documents of one target. Raises LabError where nobody answers, or what is there cannot be read."""

    def __init__(self, cluster: Cluster, index: str) -> None:
        self._cluster, self.index = cluster, index
        self._notes = Notes(cluster, index)

    def make(self) -> None:
        """Have the index; fine when it is there."""
        self._notes.make()

    def exists(self) -> bool:
        return self._notes.exists()

    def get(self, id: str) -> Doc | None:
        status, answer = self._ask("GET", f"/{self.index}/_doc/{id}")
        if status == 404:
            self._notes.refuse_hidden(answer)
            return None
        with reading(f"{id} in {self.index}"):
            if status != 200:
                raise LabError(f"reading {id} in {self.index} answered {status}: {str(answer)[:300]}")
            return Doc(dict(answer["_source"]), int(answer["_seq_no"]), int(answer["_primary_term"]))

    def patiently(self, id: str, seconds: float) -> Doc | None:
        """:meth:`get`, again and again for so long: while a zone is silent, each try may be led to its copy."""
        end = time.monotonic() + seconds
        while True:
            try:
                return self.get(id)
            except LabError:
                if time.monotonic() >= end:
                    raise
                time.sleep(min(LOOK_SECONDS, max(0.0, end - time.monotonic())))

    def create(self, id: str, source: Mapping[str, Any]) -> Doc | None:
        """None where it is there already."""
        return self._written(f"/{self.index}/_create/{id}", id, source)

    def swap(self, id: str, source: Mapping[str, Any], old: Doc) -> Doc | None:
        """None where it is another by now."""
        where = f"/{self.index}/_doc/{id}?if_seq_no={old.seq_no}&if_primary_term={old.term}"
        return self._written(where, id, source)

    def put(self, id: str, source: Mapping[str, Any]) -> Doc:
        made = self._written(f"/{self.index}/_doc/{id}", id, source)
        if made is None:
            raise LabError(f"writing {id} in {self.index} met another change")
        return made

    def remove(self, id: str, old: Doc | None = None) -> bool:
        """False where it is another by now (``old`` given). Fine where it is gone."""
        like = "" if old is None else f"?if_seq_no={old.seq_no}&if_primary_term={old.term}"
        status, answer = self._ask("DELETE", f"/{self.index}/_doc/{id}{like}")
        if status not in (200, 404, 409):
            raise LabError(f"removing {id} from {self.index} answered {status}: {str(answer)[:300]}")
        return status != 409

    def every(self, beginning: str) -> dict[str, Mapping[str, Any]]:
        """All documents whose ids begin so, as they were at the last refresh, which is asked for."""
        status, answer = self._ask("POST", f"/{self.index}/_refresh")
        if status == 404:
            self._notes.refuse_hidden(answer)
            return {}
        if status != 200:
            raise LabError(f"refreshing {self.index} answered {status}: {str(answer)[:300]}")
        status, answer = self._ask("GET", f"/{self.index}/_search?size=10000")
        with reading(f"what is in {self.index}"):
            if status != 200:
                raise LabError(f"reading {self.index} answered {status}: {str(answer)[:300]}")
            hits = answer["hits"]["hits"]
            return {str(hit["_id"]): hit["_source"] for hit in hits if str(hit["_id"]).startswith(beginning)}

    def unfit(self) -> str | None:
        """How the index is not as :meth:`make` makes it, in words; None where it is. Raises LabError."""
        return self._notes.unfit()

    def writable(self, id: str) -> str | None:
        """Why this user is not known to be kept by security from writing that document; None: it is.

        By a request that can change nothing: it is for a version that no document has. A block of the index answers 403
        too, and whoever may write an index may block it. Raises LabError where nobody answers.
        """
        status, answer = self._ask("PUT", f"/{self.index}/_doc/{id}?if_seq_no={NO_SEQUENCE}&if_primary_term=1", {})
        if status == 409:
            return f"the user that runs this may write {self.index}"
        error = answer.get("error") if isinstance(answer, dict) else None
        kind = error.get("type") if isinstance(error, dict) else None
        if status in (401, 403) and kind == "security_exception":
            return None
        return f"it is not seen that security keeps this user from writing {self.index} (it answers {status}, {kind})"

    def forget(self, now: datetime) -> tuple[int, int]:
        """Take documents of game days away by their ids, and leave the consent, and each approval that was used and has
        not expired by ``now``: else its signatures would hold for a second day. The index stays, it may be anybody's.

        How many were taken away, and how many used approvals were left.
        """
        if not self.exists():
            return 0, 0
        ours = {id: source for id, source in self.every(GAMEDAY).items() if id != CONSENT}
        kept = {id for id, source in ours.items() if id.startswith(used_id("")) and not _expired(source, now)}
        for id in ours.keys() - kept:
            self.remove(id)
        return len(ours) - len(kept), len(kept)

    def _written(self, path: str, id: str, source: Mapping[str, Any]) -> Doc | None:
        status, answer = self._ask("PUT", path, json.loads(json.dumps(dict(source))))
        if status == 409:
            return None
        with reading(f"the answer of {self.index}"):
            if status not in (200, 201):
                raise LabError(f"writing {id} in {self.index} answered {status}: {str(answer)[:300]}")
            return Doc(dict(source), int(answer["_seq_no"]), int(answer["_primary_term"]))

    def _ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        return administer(self._cluster, method, path, body, timeout=ASK_SECONDS)


@dataclass
class Lock:
    """One day's hold on a target: taken, renewed in a thread of its own, read again around each move, given back.

    A guard of the run too (:meth:`tripped`). ``clock``: seconds that only go on. Undo never needs it.
    """

    board: Board
    gameday: str
    lost: Callable[[str], None] = lambda says: None
    """Told once, when it is not ours any more."""
    clock: Callable[[], float] = time.monotonic
    name: str = field(default="lock", init=False)

    def __post_init__(self) -> None:
        self.who = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._doc: Doc | None = None
        self._renewed = float("-inf")
        self._why: str | None = None
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self.token = 0

    # ---- taking it ---------------------------------------------------------------------------

    def take(
        self, says: Callable[[str], None] = lambda words: None, wait: Callable[[float], object] | None = None
    ) -> None:
        """Raises Held where somebody alive has it for this game day, Busy where it is for another one, LabError where
        that cannot be known.

        ``wait`` sleeps; ``says`` hears why it is waited.
        """
        pause = wait or time.sleep
        self.board.make()
        began = self.clock()
        made = self.board.create(LOCK, self._source())
        if made is None:
            made, began = self._overtake(says, pause)
        self._doc, self._renewed = made, began
        self.token = made.term << 40 | made.seq_no

    def _overtake(self, says: Callable[[str], None], pause: Callable[[float], object]) -> tuple[Doc, float]:
        held = self.board.get(LOCK)
        if held is None:
            began = self.clock()
            if (made := self.board.create(LOCK, self._source())) is not None:
                return made, began
            raise self._just_taken()
        first = held
        says(f"{_whose(first)} holds this cluster: watching for {TTL_SECONDS:g} s whether it lives")
        end = self.clock() + TTL_SECONDS
        while self.clock() < end:
            pause(min(LOOK_SECONDS, max(0.0, end - self.clock())))
            held = self.board.get(LOCK)
            if held is None or held.moved != first.moved:
                raise self._error(held or first, f"{_whose(held or first)} is under way on this cluster")
        began = self.clock()
        made = self.board.swap(LOCK, self._source(), held)
        if made is None:
            raise self._just_taken()
        return made, began

    def _just_taken(self) -> InvalidInput:
        """By whom is read once more; where it is free again by now, it is not known to have been for this day."""
        held = self.board.get(LOCK)
        whose = "another machine" if held is None else _whose(held)
        return self._error(held, f"{whose} has just taken the lock of this cluster")

    def _error(self, held: Doc | None, says: str) -> InvalidInput:
        ours = held is not None and held.source.get("gameday") == self.gameday
        return Held(says) if ours else Busy(says)

    def _source(self) -> dict[str, Any]:
        return {"who": self.who, "gameday": self.gameday, "host": socket.gethostname(), "n": secrets.token_hex(4)}

    # ---- holding it --------------------------------------------------------------------------

    def keep(self) -> None:
        """Renew it from now on."""
        self._thread = threading.Thread(target=self._run, name="lock of the game day", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(RENEW_SECONDS):
            self.renew()
            if self._why is not None:
                return

    def renew(self) -> None:
        """Once. What is not ours any more is lost for good; who does not answer may do so next time."""
        assert self._doc is not None
        began, source = self.clock(), self._source()
        try:
            made = self.board.swap(LOCK, source, self._doc)
            if made is None:  # an answer that was lost may have been ours
                now = self.board.get(LOCK)
                if now is None or now.source.get("who") != self.who:
                    return self._lose("somebody else has taken the lock of this cluster")
                made = self.board.swap(LOCK, source, now)
                if made is None:
                    return self._lose("somebody else has taken the lock of this cluster")
        except ChaosError:
            return
        self._doc, self._renewed = made, began

    def _lose(self, says: str) -> None:
        if self._why is None:
            self._why = says
            self.lost(says)

    def tripped(self, now: float) -> str | None:
        """Why no day may go on that has this lock. A process that was frozen past its time sees so here."""
        if self._why is None and self.clock() - self._renewed > ABORT_SECONDS:
            self._lose(f"the lock of this cluster could not be renewed for {ABORT_SECONDS:g} s")
        return self._why

    def held(self, patience: float | None = 0.0) -> str | None:
        """Why it is not ours now, by asking the cluster; None: it is. Before each move.

        ``patience``: seconds in which it must be read. None: what cannot be read, as a cluster may not answer whose
        zone is out, is left to the last renewal; for looks after a move.
        """
        if (why := self.tripped(self.clock())) is not None:
            return why
        try:
            now = self.board.patiently(LOCK, patience or 0.0)
        except ChaosError as error:
            if patience is None:
                return None
            return f"whether the lock of this cluster is still ours cannot be read: {error.message}"
        if now is None or now.source.get("who") != self.who:
            self._lose("somebody else has taken the lock of this cluster")
        return self._why

    def release(self) -> None:
        """Give it back. Never takes one away that is not ours. Raises LabError."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        now = self.board.get(LOCK)
        if now is not None and now.source.get("who") == self.who:
            self.board.remove(LOCK, now)


def _whose(doc: Doc) -> str:
    gameday, host = (printable(str(doc.source.get(key, "?"))) for key in ("gameday", "host"))
    return f"game day {gameday} of {host}"


# ---- days, holds, approvals, wishes to stop ----------------------------------------------------------


def day_id(gameday: str, day: str) -> str:
    """Of the document that says that a day was held, or is being held. ``day``: the window's, such as 2026-11-26."""
    return f"{DAYS}{gameday}-{day}"


def days_of(board: Board, gameday: str) -> dict[str, Mapping[str, Any]]:
    """Documents of the days of this game day alone, by their ids: another one's name may begin with its name."""
    beginning = day_id(gameday, "")
    every = board.every(beginning).items()
    return {id: source for id, source in every if re.fullmatch(r"\d{4}-\d\d-\d\d", id.removeprefix(beginning))}


def hold_id(gameday: str) -> str:
    return f"{GAMEDAY}hold-{gameday}"


def used_id(nonce: str) -> str:
    """Of the document that says that an approval is used up."""
    return f"{GAMEDAY}used-{nonce}"


def _expired(used: Mapping[str, Any], now: datetime) -> bool:
    """Whether no signature over it can hold any more. One that says no end (older versions wrote none) never does."""
    try:
        return datetime.fromisoformat(str(used["until"])) <= now
    except (KeyError, ValueError, TypeError):
        return False
