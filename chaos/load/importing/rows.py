"""What became of each thing that was brought: the table that an import prints, and writes into the file it makes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple

from chaos.base.text import clean

Outcome = Literal["taken", "changed", "left out", "refused"]
OUTCOMES: tuple[Outcome, ...] = ("taken", "changed", "left out", "refused")


class Row(NamedTuple):
    """One thing that was brought. ``what``: field, search, task …; ``why``: empty only for what was taken as it is."""

    what: str
    name: str
    outcome: Outcome
    why: str = ""

    def said(self) -> str:
        """In one line."""
        return in_one_line(f"{self.outcome}: {self.what} {self.name}" + (f": {self.why}" if self.why else ""))


def in_one_line(text: str) -> str:
    """A text of somebody else's, fit for a comment: a line break in it would begin a line of the file."""
    return " ".join(clean(text).split())


class Paged(NamedTuple):
    """Reads that go through pages. ``operation``: of a load; ``number`` of pages, of ``size`` documents each."""

    operation: str
    number: int
    size: int


@dataclass
class Search:
    """A search that was brought. ``bodies``: all that have its shape; ``at``: when each was sent, where that is known.

    ``weight``: how often it is sent, against the others; ``notes``: what of it was left out; ``paged``: the pages that
    it goes through; None: it asks for one.
    """

    name: str
    bodies: list[dict[str, Any]]
    weight: float
    at: list[datetime | None] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    paged: Paged | None = None


@dataclass
class Stream:
    """How often the source sends. ``rate``: requests per second of an open loop; ``clients``: of a closed one.

    ``says``: where the figure is from. ``paged``: its searches are those that go through these pages.
    """

    rate: float | None = None
    clients: int | None = None
    items: int = 1
    says: str = ""
    paged: Paged | None = None


@dataclass
class Brought:
    """All that was read, before anything is made of it. ``settings`` by their short names.

    ``documents``: a sample; ``more_documents``: there are others that were not read.
    """

    name: str
    sources: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    mapping: dict[str, Any] | None = None
    documents: list[dict[str, Any]] = field(default_factory=list)
    more_documents: bool = False
    searches: list[Search] = field(default_factory=list)
    reads: list[Stream] = field(default_factory=list)
    write: Stream | None = None
    rows: list[Row] = field(default_factory=list)

    def reading(self, stream: Stream) -> None:
        """Take a stream of reads, instead of one that was brought before for the same pages."""
        self.reads = [*(each for each in self.reads if each.paged != stream.paged), stream]

    def add(self, what: str, name: str, outcome: Outcome, why: str = "") -> None:
        self.rows.append(Row(what, name, outcome, why))


def counted(rows: Iterable[Row]) -> Iterator[tuple[Outcome, int]]:
    """How many there are of each outcome."""
    rows = list(rows)
    for outcome in OUTCOMES:
        yield outcome, sum(row.outcome == outcome for row in rows)
