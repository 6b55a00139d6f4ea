"""Answers that were not what was asked for, as examples: all are counted, the first of each kind are written down.

Lines of ``history/wrong.jsonl``, ``t`` in CLOCK_MONOTONIC ns: ``op`` (the load's operation, or ``cas.read``,
``cas.write``, ``probe.write``, ``probe.get``, ``probe.search``), ``node`` that was asked, ``says`` (what came, in
words), and the ``k`` of an arrival. How many there were of each ``op`` is said when the driver stops (``wrong``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from chaos.history.writer import WRONG, Broken, EventWriter

MOST = 100
"""Examples of each operation that are written down."""
LONGEST = 300
"""Characters of what an example says: it quotes what came."""

Told = Callable[[str, str, str | None], None]
"""Told of a wrong answer: the kind of request, what is wrong, the node that was asked."""


class Examples:
    """Of one load; the file is made with the first."""

    def __init__(self, out: Path, broken: Broken) -> None:
        self._path, self._broken = out / WRONG, broken
        self._file: EventWriter | None = None
        self._closed = False
        self.counts: Counter[str] = Counter()

    def note(self, op: str, says: str, node: str | None, k: int | None = None) -> None:
        """Count one, and write it down unless there are enough of its kind."""
        if self._closed:
            return
        self.counts[op] += 1
        if self.counts[op] > MOST:
            return
        if self._file is None:
            self._file = EventWriter(self._path, self._broken)
        more = {} if k is None else {"k": k}
        self._file.write("wrong", op=op, node=node, says=says[:LONGEST], **more)

    def close(self) -> None:
        """Take no more."""
        self._closed = True
        if self._file is not None:
            self._file.close()
