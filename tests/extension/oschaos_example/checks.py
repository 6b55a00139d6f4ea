"""A check: how many nodes left the cluster in a phase."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaos.api.checks import BLIND, Check, Expected, Measure, Record, Row, Section, Span, Words, longest_blind, text


def nodes(record: Record, span: Span) -> list[str]:
    """Those that the cluster saw leave within a phase, by name."""
    return sorted({str(event["node"]) for event in record.within(span, "cluster.node_left")})


def nodes_left(record: Record, wanted: Expected, span: Span) -> Measure:
    """Nodes that the cluster saw leave within the phase; a node that left twice is one."""
    blind = longest_blind(record, span)
    if blind is None or blind > BLIND:
        how = "in this phase" if blind is None else f"for {text.seconds(blind)} of the phase"
        return Measure.missing("count", f"nobody saw the cluster {how}")
    left = nodes(record, span)
    says = f"{text.listed(left)} left" if left else "no node left"
    return Measure(float(len(left)), "count", says, evidence={"nodes": left})


def section(record: Record, tables: Mapping[str, Any]) -> Section | None:
    """Who left in each phase; None where no node did."""
    rows = tuple(Row(span.name, (text.listed(left),)) for span in record.spans if (left := nodes(record, span)))
    if not rows:
        return None
    says = "As the cluster's own state said."
    return Section("nodes-left", "Nodes that left", "Nodes that left", says, head=("Phase", "Nodes"), rows=rows)


NODES_LEFT = Check(
    "example.nodes_left",
    "count",
    nodes_left,
    Words.of(
        missed="{measured} nodes left the cluster{inside}; wanted was {want}",
        question="nodes stayed in the cluster{inside}",
        promise="Nodes that leave the cluster{inside}: {want}",
        short="nodes that left",
    ),
    group="recovery",
    meaning="How many nodes the cluster removed in the phase, as its own state said.",
    section=section,
)
