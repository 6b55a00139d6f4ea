"""An instrument: how many HTTP connections each node has open, asked of the node itself every two seconds.

A line of ``history/connections.jsonl``: ``t`` (CLOCK_MONOTONIC ns), kind ``open``, ``node`` and ``open``.
"""

from __future__ import annotations

import threading
from typing import Any

import urllib3

from chaos.api.checks import Check, Expected, Measure, Record, Span, Words, text
from chaos.api.instruments import UNREADABLE, Context, EventWriter, Instrument, Observer, Row, Section, Trial

FILE = "connections.jsonl"
PATH = "/_nodes/_local/stats/http?filter_path=nodes.*.http.current_open"
PERIOD_SECONDS, TIMEOUT_SECONDS = 2.0, 1.5


class Connections(Observer):
    """Asks every node in turn, in a thread of its own."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="connections", daemon=True)

    def start(self) -> None:
        self._events = EventWriter(self._context.folder / "history" / FILE, self._context.broken)
        self._thread.start()

    def stop(self, *, patient: bool = True) -> None:
        if self._over.is_set() or self._thread.ident is None:
            return
        self._over.set()
        self._thread.join()
        self._events.close()

    def _run(self) -> None:
        lab = self._context.lab
        while not self._over.wait(PERIOD_SECONDS):
            for node in lab.topology.nodes:
                client = lab.client(node.name, timeout=TIMEOUT_SECONDS)
                try:
                    _, body = client.request("GET", PATH)
                    (own,) = body["nodes"].values()
                    self._events.write("open", node=node.name, open=int(own["http"]["current_open"]))
                except (urllib3.exceptions.HTTPError, OSError, *UNREADABLE):
                    continue  # it is counted again in two seconds
                finally:
                    client.close()


def most(record: Record, span: Span) -> dict[str, int]:
    """Node → the most connections that it had open in a phase."""
    found: dict[str, int] = {}
    for line in record.lines(FILE):
        if span.start <= int(line["t"]) < span.end:
            found[line["node"]] = max(found.get(line["node"], 0), int(line["open"]))
    return found


def measure(record: Record, wanted: Expected, span: Span) -> Measure:
    """The most that any node had open. One that was never counted may have had more."""
    found = most(record, span)
    if unknown := sorted(set(record.zone_of) - set(found)):
        return Measure.missing("count", f"{text.listed(unknown)} said nothing in this phase")
    node = max(found, key=lambda each: found[each])
    return Measure(float(found[node]), "count", f"{node} had most", evidence=dict(found))


def table(record: Record) -> dict[str, Any]:
    return {span.name: found for span in record.spans if (found := most(record, span))}


def section(record: Record, tables: Any) -> Section | None:
    phases = tables.get("example.connections")
    if not phases:
        return None
    nodes = sorted({node for found in phases.values() for node in found})
    return Section(
        id="connections",
        title="Open HTTP connections",
        short="Connections",
        says="The most that each node had open in each phase.",
        head=("Node", *(f"{phase}#" for phase in phases)),
        rows=tuple(Row(node, tuple(str(found.get(node, "-")) for found in phases.values())) for node in nodes),
    )


def lines(number: int) -> Any:
    def made(start: int, end: int) -> list[dict[str, Any]]:
        nodes = ("a-cm", "a-data", "b-cm", "b-data", "c-cm", "c-data")
        return [{"t": start + 1, "kind": "open", "node": node, "open": number} for node in nodes]

    return made


INSTRUMENT = Instrument(
    name="example connections",
    says="how many HTTP connections each node has open",
    observe=lambda context: None if context.existing is not None else Connections(context),
    order=900,
    file=FILE,
    room=lambda experiment: 90 * len(experiment.topology.nodes) / PERIOD_SECONDS,
    checks=(
        Check(
            "example.connections",
            "count",
            measure,
            Words.of(
                missed="A node had {measured} connections open{inside}; wanted was {want}",
                question="no node had too many connections open{inside}",
                promise="No node has more connections open{inside}: {want}",
                short="open connections, of the node with most",
            ),
            group="recovery",
            meaning="The most HTTP connections that any node had open in a phase.",
        ),
    ),
    trials=(Trial("example.connections", "<= 100", lines(12), lines(400)),),
    tables={"example.connections": table},
    section=section,
)
