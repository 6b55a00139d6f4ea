"""What a run is about to change on a cluster that is not ours, written down on that cluster before it is changed.

One hidden index, which the target's file names, with a copy in each zone. A document for each intent of the ledger, so
that :mod:`.recovering_on` can undo it from any machine; and one that says which run is under way, which its runner
renews. Facts of the API: OpenSearch 3.8.0.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from chaos.base.errors import ChaosError, FaultError, InvalidInput, LabError
from chaos.base.logs import LOG
from chaos.faults.ledger import Entry, Ledger
from chaos.faults.moves import Move, Reversible, never, operation
from chaos.opensearch.administration import certain, reading
from chaos.opensearch.cluster import Cluster
from chaos.opensearch.views import administer
from chaos.run.commanding import HERE
from chaos.targets.protocol import Lab

LOCK = "run"
"""The document that says which run is under way."""
HOLDERS = "holders"
"""The document that counts the runs that have held the cluster; the index stays, so the number only grows."""
GAMEDAY = "gameday-"
"""How the ids of documents begin that are of game days, and of no run."""
MOST = 10_000
TRIES = 20
SURE_SECONDS = 15.0
"""So long after it last said so on the cluster a run is sure to hold it: others watch its lock for longer than that."""
ASKED_SECONDS = 3.0
"""How long an undo waits for who holds the cluster. Without an answer it undoes: a fault that stays does more harm."""
SECONDS = 20.0
OPEN, FORGET = "notes.open", "notes.forget"


@dataclass(frozen=True)
class Lock:
    """Which run is under way, whose runner is where, and when it last said so, as the cluster counts changes.

    ``made``: whether it made the index. ``holder``: a number that grows with each run that holds the cluster; 0 in
    locks of versions that did not count.
    """

    run: str
    host: str
    made: bool
    renewed: tuple[int, int]
    """Sequence number and primary term of its document: they move with each renewal."""
    holder: int = 0

    @property
    def says(self) -> str:
        return f"run {self.run} of {self.host}" + (f" (holder {self.holder})" if self.holder else "")


def _ask(cluster: Cluster, method: str, path: str, body: Any = None, *, seconds: float = SECONDS) -> tuple[int, Any]:
    return administer(cluster, method, path, body, timeout=seconds)


def _must(cluster: Cluster, doing: str, method: str, path: str, body: Any = None, *, fine: Sequence[int] = ()) -> Any:
    status, answer = _ask(cluster, method, path, body)
    if status not in (200, 201, *fine):
        raise LabError(f"{doing} answered {status}: {str(answer)[:300]}")
    return answer


class NotesGone(LabError):
    """The index of notes was deleted."""


class Notes:
    """The index of one target."""

    def __init__(self, cluster: Cluster, index: str) -> None:
        self._cluster, self.index = cluster, index

    def exists(self) -> bool:
        """Raises LabError when no node answers, or none can be believed: a manager that was elected a moment ago
        hides every index until it has read its state."""
        if self._is_there():
            return True
        try:
            return certain(self._cluster, self._is_there, timeout=SECONDS)
        except LabError as error:
            says = f"whether there is an index {self.index} cannot be known now: {error.message}"
            raise LabError(says, remedy=error.remedy) from error

    def _is_there(self) -> bool:
        """By the word of one node, the elected manager where there is one."""
        status, answer = _ask(self._cluster, "GET", f"/{self.index}/_settings?expand_wildcards=all")
        if status not in (200, 404):
            raise LabError(f"asking for the index {self.index} answered {status}: {str(answer)[:300]}")
        return status == 200

    def refuse_hidden(self, answer: Any) -> None:
        """Raises LabError where a 404 says that there is no index, and there is one or that cannot be known now."""
        if isinstance(answer, dict) and answer.get("found") is False:
            return  # of the document alone
        if self.exists():
            raise LabError(f"the index {self.index} is there, and a moment ago it was said not to be: ask once more")

    @property
    def _replicas(self) -> int:
        """One copy in each zone."""
        return len({node.zone for node in self._cluster.topology.data_nodes}) - 1

    def unfit(self) -> str | None:
        """How the index is not as :meth:`make` makes it, in words with what mends it; None where it is. A document that
        is put by hand makes one that is neither hidden nor in each zone. Raises LabError."""
        status, answer = _ask(self._cluster, "GET", f"/{self.index}/_settings?expand_wildcards=all&flat_settings=true")
        if status != 200:
            raise LabError(f"asking for the settings of {self.index} answered {status}: {str(answer)[:300]}")
        with reading(f"the settings of {self.index}"):
            ((_, said),) = answer.items()
            given = said["settings"]
            wrong = [] if str(given.get("index.hidden")).lower() == "true" else ["it is not hidden"]
            grows = str(given.get("index.auto_expand_replicas", "false")).lower() != "false"
            if not grows and (replicas := int(given["index.number_of_replicas"])) < self._replicas:
                wrong.append(f"it has {replicas} replicas, and {self._replicas} are one copy in each zone")
        if not wrong:
            return None
        body = json.dumps({"index": {"hidden": True, "number_of_replicas": self._replicas}})
        return f"{self.index} was made by hand: {' and '.join(wrong)} (mend it: PUT /{self.index}/_settings {body})"

    def make(self) -> None:
        """Fine when it is there. Raises LabError."""
        settings = {"hidden": True, "number_of_shards": 1, "number_of_replicas": self._replicas}
        status, answer = _ask(
            self._cluster,
            "PUT",
            f"/{self.index}",
            {"settings": {"index": settings}, "mappings": {"dynamic": False}},
        )
        if status != 200 and "resource_already_exists" not in str(answer):
            raise LabError(f"creating the index {self.index} answered {status}: {str(answer)[:300]}")

    # ---- who runs -----------------------------------------------------------------------------

    def lock(self, *, seconds: float = SECONDS) -> Lock | None:
        """Which run is under way; None: none. Raises LabError when that cannot be read."""
        status, answer = _ask(self._cluster, "GET", f"/{self.index}/_doc/{LOCK}", seconds=seconds)
        if status == 404:
            self.refuse_hidden(answer)
            return None
        with reading(f"the lock in {self.index}"):
            if status != 200:
                raise LabError(f"reading the lock in {self.index} answered {status}: {str(answer)[:300]}")
            said = answer["_source"]
            moved = int(answer["_seq_no"]), int(answer["_primary_term"])
            return Lock(str(said["run"]), str(said["host"]), bool(said["made"]), moved, int(said.get("holder", 0)))

    def _next_holder(self) -> int:
        """Count one more. Raises LabError."""
        for _ in range(TRIES):
            status, answer = _ask(self._cluster, "GET", f"/{self.index}/_doc/{HOLDERS}")
            with reading(f"{HOLDERS} in {self.index}"):
                if status == 404:
                    number, where = 1, f"_create/{HOLDERS}"
                elif status == 200:
                    number = int(answer["_source"]["number"]) + 1
                    like = f"if_seq_no={answer['_seq_no']}&if_primary_term={answer['_primary_term']}"
                    where = f"_doc/{HOLDERS}?{like}"
                else:
                    raise LabError(f"reading {HOLDERS} in {self.index} answered {status}: {str(answer)[:300]}")
            status, answer = _ask(self._cluster, "PUT", f"/{self.index}/{where}", {"number": number})
            if status in (200, 201):
                return number
            if status != 409:  # 409: another run counts at the same time
                raise LabError(f"writing {HOLDERS} in {self.index} answered {status}: {str(answer)[:300]}")
        raise LabError(f"{HOLDERS} in {self.index} is changed by others again and again")

    def take(self, run: str, *, made: bool) -> None:
        """Raises InvalidInput when another run has it."""
        number = self._next_holder()
        body = {"run": run, "host": socket.gethostname(), "made": made, "at": _now(), "holder": number}
        status, answer = _ask(self._cluster, "PUT", f"/{self.index}/_create/{LOCK}", body)
        if status == 409:
            held = self.lock()
            whose = held.says if held is not None else "another run"
            raise InvalidInput(
                f"{whose} is under way on this cluster",
                remedy="wait for its end; where its machine is dead, undo what it left with recover --on",
            )
        if status not in (200, 201):
            raise LabError(f"taking the lock in {self.index} answered {status}: {str(answer)[:300]}")

    def renew(self, run: str) -> None:
        """Raises LabError when it is not this run's any more, or nobody answers."""
        held = self.lock()
        if held is None or held.run != run:
            raise LabError(f"the lock in {self.index} is not this run's any more")
        where = f"/{self.index}/_doc/{LOCK}?if_seq_no={held.renewed[0]}&if_primary_term={held.renewed[1]}"
        body = {"run": run, "host": held.host, "made": held.made, "at": _now(), "holder": held.holder}
        _must(self._cluster, f"renewing the lock in {self.index}", "PUT", where, body)

    # ---- what it is about to change -----------------------------------------------------------

    def intend(self, run: str, entries: Sequence[Entry]) -> None:
        """Raises LabError when the cluster does not take all of them."""
        rows: list[dict[str, Any]] = []
        for each in entries:
            body = {
                "run": run,
                "entry": each.number,
                "fault": each.fault,
                "move": json.dumps(each.move.to_json()),
                "inverse": json.dumps(each.inverse.to_json()) if each.inverse else None,
                "at": _now(),
                "answered": False,
                "since": each.at,
            }
            rows += [{"create": {"_id": f"{run}-{each.number}"}}, body]
        self._bulk(f"writing down what is about to be changed in {self.index}", rows)

    def answered(self, run: str, numbers: Sequence[int]) -> None:
        """It is known what became of these moves. Raises LabError."""
        rows: list[dict[str, Any]] = []
        for number in numbers:
            rows += [{"update": {"_id": f"{run}-{number}"}}, {"doc": {"answered": True}}]
        self._bulk("writing down what was answered", rows, fine=404)

    def undone(self, run: str, numbers: Sequence[int]) -> None:
        """Raises LabError."""
        rows = [{"delete": {"_id": f"{run}-{number}"}} for number in numbers]
        self._bulk("forgetting what is undone", rows, fine=404)

    def _bulk(self, doing: str, rows: Sequence[dict[str, Any]], fine: int = 201) -> None:
        """All in one request: one after the other they would make a fault on many links begin late."""
        if not rows:
            return
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        answer = _must(self._cluster, doing, "POST", f"/{self.index}/_bulk", text)
        with reading(f"the answer of {self.index}"):
            said = [next(iter(item.values())) for item in answer["items"]]
            for each in said:
                if each["status"] not in (200, 201, fine):
                    raise LabError(f"{doing} answered {each['status']}: {str(each.get('error'))[:300]}")

    def standing(self) -> dict[str, list[Entry]]:
        """By run what is written down and not undone, last first. Raises NotesGone or LabError."""
        status, answer = _ask(self._cluster, "POST", f"/{self.index}/_refresh")
        if status == 404:
            self.refuse_hidden(answer)
            raise NotesGone(f"the index {self.index} is gone, and with it what says what is to be undone")
        if status != 200:
            raise LabError(f"refreshing the notes answered {status}: {str(answer)[:300]}")
        found = _must(self._cluster, "reading the notes", "GET", f"/{self.index}/_search?size={MOST}")
        entries: dict[str, list[Entry]] = {}
        with reading(f"the notes in {self.index}"):
            for hit in found["hits"]["hits"]:
                if hit["_id"] in (LOCK, HOLDERS) or str(hit["_id"]).startswith(GAMEDAY):
                    continue
                said = hit["_source"]
                inverse = Move.from_json(json.loads(said["inverse"])) if said["inverse"] else None
                move = Move.from_json(json.loads(said["move"]))
                entries.setdefault(str(said["run"]), []).append(
                    Entry(
                        int(said["entry"]),
                        str(said["fault"]),
                        move,
                        inverse,
                        answered=said.get("answered", True) is True,
                        at=float(said.get("since", 0.0)),
                    )
                )
        return {run: sorted(each, key=lambda one: -one.number) for run, each in entries.items()}

    def undone_by_others(self, run: str, entries: Sequence[Entry], *, seconds: float) -> dict[int, str]:
        """Entries of this run (by number) whose notes are gone while it does not hold the cluster any more: another
        process has undone them. Words say who holds it. Raises LabError when that cannot be read in so many seconds."""
        held = self.lock(seconds=seconds)
        if held is not None and held.run == run:
            return {}
        ids = {f"{run}-{each.number}": each.number for each in entries}
        for method, path in (("POST", "_refresh"), ("GET", f"_search?size={MOST}&_source=false")):
            status, answer = _ask(self._cluster, method, f"/{self.index}/{path}", seconds=seconds)
            if status == 404:  # the index itself was deleted, which undoes nothing
                return {}
            if status != 200:
                raise LabError(f"reading the notes in {self.index} answered {status}: {str(answer)[:300]}")
        with reading(f"the notes in {self.index}"):
            there = {str(hit["_id"]) for hit in answer["hits"]["hits"]}
        gone = [number for id, number in ids.items() if id not in there]
        now = f"{held.says} holds the cluster now" if held is not None else "no run holds the cluster now"
        says = f"left alone, because its note is gone: another process has undone it since, and {now}"
        return dict.fromkeys(gone, says)

    def forget(self, run: str) -> None:
        """Delete the documents of a run, by their ids. Raises LabError.

        The index stays, also where the run made it: OpenSearch deletes no index on a condition, so a stop, a consent
        or a lock that somebody writes meanwhile would go with it.
        """
        if not self.exists():
            return  # somebody else deleted it, with the lock
        self.undone(run, [each.number for each in self.standing().get(run, [])])
        while (held := self.lock()) is not None and held.run == run:
            where = f"/{self.index}/_doc/{LOCK}?if_seq_no={held.renewed[0]}&if_primary_term={held.renewed[1]}"
            status, answer = _ask(self._cluster, "DELETE", where)
            if status in (200, 404):
                return
            if status != 409:  # 409: renewed since, or another's by now
                raise LabError(f"giving the lock in {self.index} back answered {status}: {str(answer)[:300]}")


def now() -> float:
    """Seconds that only go on, also while this machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


@operation(OPEN, late=never)
def _open(cluster: Cluster, index: str, run: str, made: bool) -> None:
    notes = Notes(cluster, index)
    notes.make()
    notes.take(run, made=made)


@operation(FORGET, last=True)
def _forget(cluster: Cluster, index: str, run: str, made: bool) -> None:
    Notes(cluster, index).forget(run)


def opening(notes: Notes, run: str) -> Reversible:
    """What opens the notes for a run. Raises LabError when it cannot be known whether they are there already."""
    how = {"index": notes.index, "run": run, "made": not notes.exists()}
    return Reversible(Move(OPEN, how), Move(FORGET, how))


def undone_by_others(cluster: Cluster, ledger: Ledger, entries: Sequence[Entry]) -> dict[int, str]:
    """As :meth:`Ledger.undone_by_others`, for the ledger of a run on a cluster that exists; for others, and where the
    cluster does not say who holds it, nothing."""
    opened = next((move for move in ledger.moves() if move.operation == OPEN), None)
    # what was done before the notes were open, and to this machine, has no note
    noted = [each for each in entries if each.move.where != HERE and each.move.operation != OPEN]
    if opened is None or not noted:
        return {}
    notes, run = Notes(cluster, str(opened.arguments["index"])), str(opened.arguments["run"])
    answers: SimpleQueue[dict[int, str]] = SimpleQueue()

    def ask() -> None:
        try:
            answers.put(notes.undone_by_others(run, noted, seconds=ASKED_SECONDS))
        except Exception as error:
            LOG.warning("undoing without knowing who holds the cluster: %s", error)
            answers.put({})

    threading.Thread(target=ask, name="holder", daemon=True).start()
    try:
        return answers.get(timeout=ASKED_SECONDS)  # one node after the other may let it wait
    except Empty:
        return {}


class FencedLedger(Ledger):
    """The ledger of a dead run, for processes that undo it: it asks first whether somebody else has done so."""

    def undone_by_others(self, lab: Lab, entries: Sequence[Entry]) -> Mapping[int, str]:
        return undone_by_others(lab, self, entries)


def settle_open(cluster: Cluster, ledger: Ledger) -> None:
    """Moves of a dead run that are open in its ledger, and whose note is gone: somebody has undone them from another
    machine, or knows that they never come. Raises LabError where the notes cannot be read."""
    entries = ledger.standing()
    opening_move = next((each.move for each in entries if each.move.operation == OPEN), None)
    waiting = [each for each in entries if ledger.is_open(each) and each.move.where != HERE]
    if opening_move is None or not waiting:
        return
    notes = Notes(cluster, str(opening_move.arguments["index"]))
    noted = notes.standing().get(str(opening_move.arguments["run"]), []) if notes.exists() else []
    known = {each.number for each in noted}
    ledger.answered([each for each in waiting if each.number not in known])


class NotedLedger(Ledger):
    """A ledger whose intents are on the cluster too, once :attr:`notes` are open: what is not there is not injected."""

    def __init__(self, path: Path, broken: Callable[[str], None], run: str) -> None:
        super().__init__(path, broken)
        self.run = run
        self.notes: Notes | None = None
        self.renewed: float | None = None
        """When the run last said on the cluster that it holds it (:func:`now`); None: never."""
        self._undone: SimpleQueue[tuple[int, str] | None] = SimpleQueue()
        self._forgetter: threading.Thread | None = None

    def is_sure(self) -> bool:
        """Whether the run is sure to hold the cluster: it said so on it a moment ago."""
        return self.renewed is not None and now() - self.renewed <= SURE_SECONDS

    def undone_by_others(self, lab: Lab, entries: Sequence[Entry]) -> Mapping[int, str]:
        """Nothing is asked, so no undo waits, while the run is sure to hold the cluster."""
        return {} if self.renewed is None or self.is_sure() else undone_by_others(lab, self, entries)

    def intend(self, fault: str, moves: Sequence[Reversible]) -> list[Entry]:
        """Raises FaultError too when the run does not hold the cluster any more, or that cannot be read."""
        self.refuse_lost()
        entries = super().intend(fault, moves)
        if self.notes is not None:
            try:
                # what was done to this machine nobody can undo from another
                self.notes.intend(self.run, [each for each in entries if each.move.where != HERE])
            except ChaosError as error:
                for each in entries:
                    super().note(each, "undone", "nothing was made of it")
                raise FaultError(f"{error}: nothing is injected") from error
        return entries

    def refuse_lost(self) -> None:
        """Raises FaultError where the run does not hold the cluster any more, or that cannot be read."""
        if self.notes is None or self.renewed is None or self.is_sure():
            return
        try:
            held = self.notes.lock()
        except ChaosError as error:
            raise FaultError(f"{error}: nothing is injected") from error
        if held is None or held.run != self.run:
            whose = held.says if held is not None else "no run"
            raise FaultError(f"{whose} holds the cluster now, and not this run any more: nothing is injected")

    def note(self, entry: Entry, state: str, says: str | None = None) -> None:
        """What is undone is forgotten there soon afterwards: undoing waits for no note."""
        super().note(entry, state, says)
        if state == "undone":
            self._say([entry], state)

    def answered(self, entries: Sequence[Entry]) -> None:
        """Said there soon afterwards too: what is not said in time is looked for once more than needed."""
        super().answered(entries)
        self._say([each for each in entries if each.move.where != HERE], "answered")

    def _say(self, entries: Sequence[Entry], state: str) -> None:
        if self.notes is None:
            return
        for entry in entries:
            self._undone.put((entry.number, state))
        with self._lock:
            if self._forgetter is None:
                self._forgetter = threading.Thread(target=self._forget, args=(self.notes,), daemon=True)
                self._forgetter.start()

    def _forget(self, notes: Notes) -> None:
        over = False
        while not over:
            said = [self._undone.get()]
            while not self._undone.empty():
                said.append(self._undone.get())
            over = None in said
            undone = [each[0] for each in said if each is not None and each[1] == "undone"]
            known = [each[0] for each in said if each is not None and each[1] == "answered"]
            with suppress(ChaosError):
                notes.answered(self.run, [number for number in known if number not in undone])
            with suppress(ChaosError):  # an inverse does no harm where nothing is left to undo
                notes.undone(self.run, undone)

    def settle(self) -> None:
        """Until all that is undone is forgotten there, or could not be; from here on no notes are taken. Idempotent."""
        self.notes = None
        with self._lock:
            forgetter, self._forgetter = self._forgetter, None
        if forgetter is not None:
            self._undone.put(None)
            forgetter.join()
