"""Answers that were whole by their own word and not what was asked for: how many, and examples that say what came.

They are not good (outcome ``wrong`` of the load's arrivals), so users' expectations count them; here they are named.
The driver says how many there were when it stops, and writes down the first of each kind of request
(:mod:`chaos.load.examples`). What came is said and not who sent it: at this end a proxy that forges answers looks like
a node that does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from chaos.base import text
from chaos.checks.record import OUTCOMES, Record, Span

SHOWN = 20


def counts(record: Record) -> Counter[str]:
    """Wrong answers by kind of request: the load's operations by their arrivals, compare-and-set and probes by what
    the driver counted or, where it did not stop in order, by the examples that there are."""
    found: Counter[str] = Counter()
    for event in record.wrong:
        found[str(event["op"])] += 1
    for event in record.driver:
        if event.get("kind") == "driver.stop":
            found |= Counter({str(op): int(number) for op, number in (event.get("wrong") or {}).items()})
    for op, arrivals in record.arrivals.items():
        found[op] = int(arrivals.counts[OUTCOMES["wrong"]].sum())
    return +found


def looked(record: Record) -> bool:
    """Whether the driver held answers against what was asked: drivers of before did not, and one that died cannot say.

    Wrong answers that are on record stand all the same.
    """
    return any(event.get("kind") == "driver.stop" and "wrong" in event for event in record.driver) or bool(record.wrong)


def says(record: Record, op: str, span: Span, number: int) -> str:
    """So many wrong answers of an operation in one phase, with the first example that is on record from it."""
    return _named(number, (event for event in record.wrong if event["op"] == op and span.holds(int(event["t"]))))


def table(record: Record) -> dict[str, Any] | None:
    """A row of ``tables.data``; None where no answer was wrong."""
    found = counts(record)
    if not found:
        return None
    number = sum(found.values())
    return {
        "value": float(number),
        "text": text.plural(number, "wrong answer"),
        "bound": "exact",
        "says": _named(number, record.wrong),
        "operations": dict(found),
        "nodes": dict(Counter(str(event.get("node")) for event in record.wrong)),
        "shown": [
            {"at": record.since_start(int(event["t"])), **{key: event.get(key) for key in ("op", "node", "says")}}
            for event in record.wrong[:SHOWN]
        ],
    }


def _named(number: int, examples: Iterable[dict[str, Any]]) -> str:
    words = f"wrong answers: {text.count(number)}"
    example = next(iter(examples), None)
    if example is None:
        return words
    node = f" ({example['node']})" if example.get("node") else ""
    return f"{words}, e.g. {example['says']}{node}"
