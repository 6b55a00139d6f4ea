"""How a check is tried: what is wanted of a sound record, and changes of that record after which it must be missed.

Each check says it in its own file (``trial`` of :class:`chaos.checks.check.Check`), and one test tries them all
(``tests/negative/test_mutated.py``). A mutation is the smallest change that a broken cluster would have left in the
record. It must turn exactly this check's finding into a weakness.

The sound record has three phases. In ``healthy`` (20 s) nothing happens. In ``dead`` (30 s) the leader's node and a
data node of zone c are killed; for 1.4 s a third of the requests time out. In ``returned`` (30 s) they are back, and
the cluster is green after 13 s. Reads and writes come at 100/s, with probes of visibility, compare-and-set and failover
controllers in zones a and b.

The names of mutations are read by people: docs/controls.md has them, made by ``python tests/support/controls.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from chaos.checks.arrivals import SECOND
from chaos.history.format import Outcome

Event = dict[str, Any]


class Altered(Protocol):
    """A record that may be changed. Times are seconds since the beginning of a phase."""

    plan: dict[str, Any]
    events: list[Event]
    readback: dict[str, Any] | None
    cas: list[Event]
    probes: list[Event]
    stale: list[Event]
    wrong: list[Event]

    def of_kind(self, kind: str, **wanted: Any) -> list[Event]:
        """The events of a kind whose fields are these; to be changed in place."""

    def span(self, phase: str) -> tuple[int, int]:
        """Start and end of a phase (ns)."""

    def moment(self, phase: str, seconds: float) -> int:
        """Seconds of a phase as ns of the record."""

    def add(self, phase: str, at: float, kind: str, **more: Any) -> None:
        """An event more."""

    def drop(self, *kinds: str, since: int = 0, **wanted: Any) -> None:
        """Leave events out from ``since`` (ns) on."""

    def rows(self, op: str, phase: str, begin: float = 0.0, end: float = 1e6, share: float = 1.0) -> Any:
        """The positions of a share of an operation's arrivals."""

    def answer(self, rows: Any, outcome: Outcome = Outcome.OK, seconds: float | None = None) -> None:
        """What became of some arrivals, and after how many seconds (None: as it was)."""

    def hit(
        self,
        op: str,
        phase: str,
        begin: float = 0.0,
        end: float = 1e6,
        *,
        share: float = 1.0,
        outcome: Outcome = Outcome.TIMEOUT,
        seconds: float = 5.0,
        client: str | None = None,
        shard: int | None = None,
    ) -> None:
        """A share of an operation's arrivals in [begin, end) of a phase came to another end."""


Mutation = Callable[..., None]
"""Of an :class:`Altered`; that of a check of operations is given the operation too (``op``)."""


@dataclass(frozen=True)
class Trial:
    """``wanted``: what the sound record keeps, as a file writes it, in ``phase`` (None: of the whole run).

    ``broken_by``: after each of these it is missed. ``blinded_by``: after each of these it is open; what takes the
    worth from every check, or from all that rest on time, needs not be named. ``given``: what makes the sound record
    one of which the check can be asked.
    """

    wanted: str
    phase: str | None
    broken_by: tuple[Mutation, ...]
    blinded_by: tuple[Mutation, ...] = ()
    given: tuple[Mutation, ...] = ()


# -- what several checks must notice -------------------------------------------------------------


def first(lines: list[Event], after: int = 0, **fields: Any) -> Event:
    """The first line from ``after`` (ns) on whose fields are these."""
    return next(line for line in lines if line["t"] >= after and all(line.get(k) == v for k, v in fields.items()))


def read_back(run: Altered, **values: Any) -> None:
    """The read-back found this instead."""
    assert run.readback is not None
    run.readback |= values


def late_answers(run: Altered, op: str = "write") -> None:
    run.hit(op, "dead", 5, 25, share=0.05, outcome=Outcome.OK, seconds=0.18)


def shards_failed_under_status_200(run: Altered, op: str = "write") -> None:
    run.hit(op, "dead", 5, 25, share=0.05, outcome=Outcome.PARTIAL, seconds=0.01)


def answers_were_garbled(run: Altered, op: str = "write") -> None:
    run.hit(op, "dead", 5, 25, share=0.05, outcome=Outcome.GARBLED, seconds=0.01)


def clients_of_one_zone_were_refused(run: Altered, op: str = "write") -> None:
    run.hit(op, "dead", 5, 10, share=0.2, outcome=Outcome.REFUSED, seconds=0.002, client="client-a")


def lost_once_more_later(run: Altered, op: str = "write") -> None:
    run.hit(op, "dead", 14, 15, share=0.3)


def five_seconds_without_an_answer(run: Altered, op: str = "write") -> None:
    run.hit(op, "dead", 10, 15)


def rejected_for_ten_seconds(run: Altered, op: str = "write") -> None:
    run.hit(op, "dead", 3, 13, share=0.4, outcome=Outcome.REJECTED, seconds=0.003)


def green_much_later(run: Altered) -> None:
    run.of_kind("cluster.status", status="green")[-1]["t"] = run.moment("returned", 26)


def never_green_again(run: Altered) -> None:
    run.drop("cluster.status", status="green", since=run.span("dead")[0])


def red_once_more(run: Altered) -> None:
    run.add("returned", 20.9, "cluster.status", status="red")
    run.add("returned", 24.9, "cluster.status", status="green")


def nobody_answered_the_sampler_for_15_s(run: Altered) -> None:
    """The events that the sampler would have seen in that time are missing with it."""
    begin = run.span("dead")[0]
    kinds = ("cluster.node_left", "cluster.leader", "cluster.primary")
    run.drop(*kinds, since=begin)
    for event in run.of_kind("sample"):
        if begin <= event["t"] < begin + 15 * SECOND:
            event["ok"] = 0
