"""On a cluster that others use too: which indices say how the cluster is, while a run lasts.

Those that were there when the load began, as they were. One that others make meanwhile (a rollover) is yellow for a
moment and no harm of ours; one whose number of copies others change, or that they delete, says nothing more either.
Each is told once (``others.index``) with its colour until then: what was not green had not recovered, and the checks
say what that spoils.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from chaos.history import others
from chaos.history.events import OthersIndex
from chaos.history.writer import Events
from chaos.opensearch.views import View

Shape = Counter[int]
"""Shard → its copies."""


def shapes(seen: View) -> Mapping[str, Shape]:
    found: dict[str, Shape] = {}
    for copy in seen.copies:
        found.setdefault(copy.index, Counter())[copy.shard] += 1
    return found


class Counted:
    """Call it with a view: the same without what others made or changed since ``first``. Thread-safe.

    ``own``: the load's index, which always counts.
    """

    def __init__(self, own: str, first: View, events: Events) -> None:
        self._own, self._events = own, events
        self._shapes = dict(shapes(first))
        self._version = first.version
        self._status = {index: _status(first, index) for index in self._shapes}
        self._lock = threading.Lock()

    def __call__(self, seen: View) -> View:
        with self._lock:
            if seen.leader is not None and seen.version >= self._version:
                self._version = seen.version
                self._compare(seen)
            counting = {self._own, *self._shapes}
        return replace(seen, copies=tuple(copy for copy in seen.copies if copy.index in counting))

    def _compare(self, seen: View) -> None:
        now = shapes(seen)
        for index, was in list(self._shapes.items()):
            if index == self._own:
                continue
            if now.get(index) == was:
                self._status[index] = _status(seen, index)
                continue
            del self._shapes[index]
            how = others.GONE if index not in now else others.COPIES
            with suppress(OSError):
                OthersIndex(index=index, how=how, status=self._status.pop(index)).write(self._events)


def _status(seen: View, index: str) -> str:
    return replace(seen, copies=tuple(copy for copy in seen.copies if copy.index == index)).status
