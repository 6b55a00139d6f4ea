"""The kill switches of a game day: a file on the runner, and for one that runs in Kubernetes a ConfigMap too.

Write access to one is the right to stop the day. The file is on no cluster under test. The ConfigMap is there before
the day begins, empty; a reason under ``stop`` stops the day, and the runner reads it every two seconds. What a drill
writes is told apart (:mod:`chaos.gamedays.drill`), in either.
"""

from __future__ import annotations

import hashlib
import re
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from chaos.base.errors import ChaosError, FaultError
from chaos.base.text import printable
from chaos.definitions.existing import Existing
from chaos.definitions.gameday import GameDay
from chaos.gamedays import drill, gates
from chaos.gamedays.drill import Drill
from chaos.gamedays.gate import Gate
from chaos.gamedays.stopping import Watch
from chaos.kubernetes.client import CONFLICT, Client, Refused
from chaos.run.guards import Guard, StopFile

KEY = "stop"
"""Under which a ConfigMap says why the day is to stop."""
LOOK_SECONDS = 2.0
UNSEEN_SECONDS = 30.0
"""After which an API server that does not answer ends the day: it could not be stopped meanwhile."""
READ, PATCH = "read_namespaced_config_map", "patch_namespaced_config_map"


class Switch(Protocol):
    """One way to stop a day. ``name``: of its guard; ``says``: which it is, in words."""

    name: str
    says: str

    def gate(self, *, unlocked: bool = False) -> Gate:
        """Whether it could be seen, and stops nothing. ``unlocked``: the lock is not ours yet, so what a drill has
        left is looked at once more."""

    def guard(self) -> Guard: ...

    def made(self, ours: Drill) -> None:
        """Stop the day, as a drill. Raises FileExistsError where somebody has stopped it already; OSError, ChaosError
        where it cannot be done."""

    def taken_away(self, ours: Drill) -> bool:
        """Whether it was this drill's, and is no more. All else stays. Raises OSError, ChaosError."""

    def left(self) -> Drill | None:
        """Whose drill's it is now, as far as that can be seen; None: nobody's, or a person's."""

    def dead_taken_away(self, lock: str) -> Drill | None:
        """Whose drill's was taken away, under that lock. None: none was."""


class FileSwitch:
    """``stop.file``."""

    name = StopFile.name

    def __init__(self, day: GameDay) -> None:
        self._day, self._path = day, Path(day.written.stop.file)
        self.says = f"stop file {self._path}"

    def gate(self, *, unlocked: bool = False) -> Gate:
        return gates.stop_file(self._day, unlocked=unlocked)

    def guard(self) -> Guard:
        return StopFile(self._path)

    def made(self, ours: Drill) -> None:
        drill.made(self._path, ours)

    def taken_away(self, ours: Drill) -> bool:
        return drill.taken_away(self._path, ours)

    def left(self) -> Drill | None:
        return drill.left(self._path)

    def dead_taken_away(self, lock: str) -> Drill | None:
        return drill.dead_taken_away(self._path, lock)


@dataclass(frozen=True)
class _Seen:
    """The ConfigMap at one moment (``time.monotonic``). ``text``: why the day is to stop."""

    at: float
    there: bool = False
    text: str | None = None
    version: str = ""


class MapSwitch(Watch):
    """A ConfigMap in ``stop.kubernetes``. It is read when it is asked for, and between :meth:`start` and :meth:`stop`
    all the time: then nothing waits for an API server."""

    name = "stop map"

    def __init__(self, client: Client, namespace: str, day: str) -> None:
        super().__init__()
        self._client, self._namespace, self._map = client, namespace, object_name(day)
        self.says = f"ConfigMap {self._map} in namespace {namespace}"
        self._seen: _Seen | None = None
        self._why = "it was not asked yet"
        self._asking = threading.RLock()
        """So that no answer of before a change of ours is taken for one of after it."""

    @staticmethod
    def of(day: GameDay, target: Existing) -> MapSwitch | None:
        """Of a day that runs in Kubernetes, else None. From elsewhere it is reached as the target's pods are."""
        namespace, pods = day.written.stop.kubernetes, target.written.kubernetes
        if namespace is None:
            return None
        client = Client() if pods is None else Client(pods.context, target.kubeconfig)
        return MapSwitch(client, namespace, day.name)

    # ---- looking ----------------------------------------------------------------------------------------------

    @property
    def pause(self) -> float:
        return LOOK_SECONDS

    def stop(self) -> None:
        super().stop()
        self._client.close()

    def look(self) -> _Seen | None:
        """None where the API server did not say."""
        with self._asking:
            try:
                found = self._client.found(READ, self._map, self._namespace)
            except ChaosError as error:
                self._why = error.message
                return None
            seen = _Seen(time.monotonic())
            if found is not None:
                text = (found.get("data") or {}).get(KEY)
                seen = _Seen(seen.at, True, text, str(found["metadata"]["resourceVersion"]))
            self._seen = seen
            return seen

    def gate(self, *, unlocked: bool = False) -> Gate:
        if not self._thread.is_alive():
            self.look()
        seen = self._seen
        if seen is None or time.monotonic() - seen.at > UNSEEN_SECONDS:
            return Gate(self.name, False, f"{self.says} cannot be read: {self._why}", "see: kubectl auth can-i")
        if not seen.there:
            remedy = "kubectl apply -f what `opensearch-chaos gameday schedule FILE --for kubernetes` prints"
            return Gate(self.name, False, f"there is no {self.says}: nobody could stop it", remedy)
        if seen.text is None:
            return Gate(self.name, True, f"{self.says} says nothing of a stop")
        remedy = f"ask who, then: {lifted(self._namespace, self._map)}"
        if (made := drill.read(seen.text)) is not None:
            return Gate(self.name, unlocked, f"{self.says} was written by {made}", remedy)
        return Gate(self.name, False, self._stops(seen.text), remedy)

    def _stops(self, text: str) -> str:
        return f"{self.says} says stop: {printable(text)[:200]}"

    def guard(self) -> Guard:
        return self

    def tripped(self, now: float) -> str | None:
        seen = self._seen
        if seen is None or time.monotonic() - seen.at > UNSEEN_SECONDS:
            return f"it cannot be evaluated: {self.says} could not be read for {UNSEEN_SECONDS:g} s: {self._why}"
        if not seen.there:
            return f"it cannot be evaluated: {self.says} is gone"
        return None if seen.text is None else self._stops(seen.text)

    # ---- a drill ----------------------------------------------------------------------------------------------

    def made(self, ours: Drill) -> None:
        with self._asking:
            seen = self._known()
            if seen.text is not None:
                raise FileExistsError(self.says)
            self._write(drill.text(ours), seen.version)

    def taken_away(self, ours: Drill) -> bool:
        with self._asking:
            seen = self._known()
            if seen.text is None or drill.read(seen.text) != ours:
                return False
            try:
                self._write(None, seen.version)
            except Refused as error:
                if error.status != CONFLICT:
                    raise
                return False  # somebody has written into it meanwhile: it stays
            self.look()
            return True

    def left(self) -> Drill | None:
        seen = self.look()
        return None if seen is None or seen.text is None else drill.read(seen.text)

    def dead_taken_away(self, lock: str) -> Drill | None:
        with suppress(ChaosError):
            left = self.left()
            if left is not None and left.lock == lock and self.taken_away(left):
                return left
        return None

    def _known(self) -> _Seen:
        """Raises FaultError where the API server does not say, or it is not there."""
        seen = self.look()
        if seen is None or not seen.there:
            raise FaultError(f"{self.says} {f'cannot be read: {self._why}' if seen is None else 'is not there'}")
        return seen

    def _write(self, text: str | None, version: str) -> None:
        """If nobody has written since. Raises Refused with CONFLICT where somebody has, ChaosError."""
        body = {"metadata": {"resourceVersion": version}, "data": {KEY: text}}
        self._client.core(PATCH, self._map, self._namespace, body, changes=True)


def object_name(day: str) -> str:
    """Of a day's objects in Kubernetes: at most 52 characters, as a CronJob may have, small letters, digits, dashes."""
    name = f"gameday-{day}"
    made = re.sub(r"[^a-z0-9-]+", "-", name)
    if made == name and len(made) <= 52 and not made.endswith("-"):
        return made
    return f"{made[:43]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def thrown(namespace: str, name: str) -> str:
    """One line of shell that stops a day by its ConfigMap, from wherever somebody has kubectl and the right."""
    return _patched(namespace, name, '"stopped by hand"')


def lifted(namespace: str, name: str) -> str:
    """One line of shell that takes such a stop back."""
    return _patched(namespace, name, "null")


def _patched(namespace: str, name: str, value: str) -> str:
    patch = f'{{"data":{{"{KEY}":{value}}}}}'
    return f"kubectl --namespace {namespace} patch configmap {name} --type merge --patch '{patch}'"
