"""Asks AWS for the health of a domain while a run lasts, and writes down what it says as it changes.

It is AWS's word, some time late, and no verdict hangs on it: it stands beside what the run itself saw.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from chaos.base.errors import ChaosError
from chaos.checks.instrument import Begins, Context, Ends, Instrument, Observer
from chaos.checks.record import Record
from chaos.checks.section import Row, Section
from chaos.history import events
from chaos.history.writer import Events


class DomainHealth(Observer):
    """Runs in a thread of its own from :meth:`start` to :meth:`stop`. ``ask``: one question, which may raise
    ChaosError. ``every``: seconds between two."""

    def __init__(self, ask: Callable[[], Mapping[str, Any]], log: Events, every: float) -> None:
        self._ask, self._events, self._every = ask, log, every
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="domain", daemon=True)
        self._last: events.DomainHealth | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self, *, patient: bool = True) -> None:
        """Idempotent. A question that is under way is not waited for long."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join(self._every)

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                found = events.DomainHealth(said=dict(self._ask()))
            except ChaosError as error:
                found = events.DomainHealth(said=None, why=str(error))
            if found != self._last and not self._over.is_set():
                self._last = found
                with suppress(OSError):  # the record says by itself that it broke
                    found.write(self._events)
            self._over.wait(self._every)


# -- judging ---------------------------------------------------------------------------------------


def table(record: Record) -> dict[str, Any] | None:
    """``zones``: their names. ``rows``: every answer that was another one than before, ``at`` seconds since the load
    began: ``cluster``, ``copies`` that are unassigned, and of each zone its words; or ``why`` nobody answered. None: it
    is no domain."""
    seen = record.seen(events.DomainHealth)
    zones = sorted({name for event in seen for name in _zones(event)})
    rows = [{"at": record.since_start(event.t), **_row(event, zones)} for event in seen]
    return {"zones": zones, "rows": rows} if rows else None


def _row(event: events.DomainHealth, zones: list[str]) -> dict[str, Any]:
    said = event.said
    if not isinstance(said, Mapping):
        return {"why": str(event.why)}
    states = (said.get("DomainState"), "" if said.get("MasterNode") == "Available" else "no master node")
    words = [str(said.get("ClusterHealth")), *(str(state) for state in states if state not in ("Active", ""))]
    told = _zones(event)
    return {
        "cluster": ", ".join(words),
        "copies": str(said.get("TotalUnAssignedShards")),
        "zones": [_zone(told[name]) if name in told else "-" for name in zones],
    }


def _zones(event: events.DomainHealth) -> Mapping[str, Any]:
    said = event.said
    found = said.get("zones") if isinstance(said, Mapping) else None
    items = found.items() if isinstance(found, Mapping) else ()
    return {str(name): each for name, each in items if isinstance(each, Mapping)}


def _zone(said: Mapping[str, Any]) -> str:
    return f"{said.get('ZoneStatus')}, {said.get('AvailableDataNodeCount')} of {said.get('ConfiguredDataNodeCount')}"


def section(record: Record, tables: Mapping[str, Any]) -> Section | None:
    found = tables.get("domain")
    if found is None:
        return None
    return Section(
        id="domain",
        title="What AWS said of the domain",
        short="The domain",
        says="Answers to DescribeDomainHealth, at first and as they changed. AWS may be late, and no expectation is "
        "judged by them. Of a zone: its state, and how many of its data nodes are available.",
        head=("Since the load began#", "Cluster", "Copies unassigned#", *found["zones"]),
        rows=tuple(_drawn(row) for row in found["rows"]),
    )


def _drawn(row: Mapping[str, Any]) -> Row:
    at = "-" if row["at"] is None else f"{row['at']:.1f} s"
    if "why" in row:
        return Row(at, says=f"Nobody answered: {row['why']}")
    return Row(at, (row["cluster"], row["copies"], *row["zones"]))


def _observe(context: Context) -> DomainHealth | None:
    """Only on a domain of Amazon OpenSearch Service, whose health AWS tells."""
    said = context.lab.domain if context.existing is not None else None
    return None if said is None else DomainHealth(said.health, context.events, said.health_every)


INSTRUMENT = Instrument(
    name="domain health",
    says="what AWS says of a domain's health",
    observe=_observe,
    begins=Begins.FIRST,
    ends=Ends.LAST,
    order=20,
    tables={"domain": table},
    section=section,
)
