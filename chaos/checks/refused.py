"""Requests that were refused as wrong (a 4xx but 429): whose mistake is it? Under rules 2, by what came before.

* *From the start*: no request of the operation was accepted before. Then the request, or a setting that forbids it, is
  wrong, which is this suite's mistake or the user's: the run is an error that names status, error and setting.
* *After the same kind of request had been accepted*, it is right, and who refuses it is the cluster: the arrival is not
  good, as any other that failed, and no error.

Accepted is what was answered with status 2xx, or told that a document is not there, in the warm-up too. Fewer than
:data:`FEWEST` refusals before the first acceptance are no mistake of the request either: it was accepted as it was.
Since an external actor changed what steers the cluster this cannot be told, so such refusals are no mistake of ours.

Under rules 1 every such refusal was this suite's mistake.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from chaos.base import text
from chaos.checks import outside
from chaos.checks.arrivals import Arrivals
from chaos.checks.record import OUTCOMES, Record

FEWEST = 10
"""Refusals before the first acceptance, below which they are strays."""
REFUSED = OUTCOMES["client_error"]
ACCEPTED = (OUTCOMES["ok"], OUTCOMES["partial"], OUTCOMES["wrong"])
NAMED = 2
"""Errors of OpenSearch's that a sentence names."""
SETTING = re.compile(r"\[?\b((?:index|indices|cluster|search|action|http|script|ingest)\.[a-z][a-z_.]*[a-z])\b\]?")
"""A setting, in OpenSearch's own words."""


@dataclass(frozen=True)
class Refused:
    """What was refused of one operation. ``mistaken``: so many from the start, ``of`` so many arrivals."""

    op: str
    mistaken: int
    of: int
    ever_accepted: bool


def mistakes(record: Record) -> int:
    """How many requests of the load were this suite's mistake, or the user's."""
    if record.rules < 2:
        return _by_rules_1(record)
    return sum(each.mistaken for each in _refused(record))


def reasons(record: Record) -> list[str]:
    """Why the run is an error, in words: one sentence for each operation that was refused from the start."""
    if record.rules < 2:
        wrong = mistakes(record)
        return [f"{text.plural(wrong, 'request')} of the load were refused as wrong (4xx)"] if wrong else []
    return [_says(record, each) for each in _refused(record) if each.mistaken]


def _by_rules_1(record: Record) -> int:
    """All of them, until an external actor changed anything."""
    changed = outside.first_change(record)
    if changed is None:
        return sum(int(part.counts[REFUSED].sum()) for part in record.arrivals.values())
    return sum(int(((part.outcome == REFUSED) & (part.end < changed)).sum()) for part in record.arrivals.values())


def _refused(record: Record) -> Iterator[Refused]:
    changed = outside.first_change(record)
    for op, arrivals in record.arrivals.items():
        if not arrivals.counts[REFUSED].any():
            continue
        first = _first_accepted(arrivals)
        until = min((t for t in (first, changed) if t is not None), default=None)
        number = 0
        for piece in arrivals.pieces():
            mine = piece.outcome == REFUSED
            number += int((mine if until is None else mine & (piece.end < until)).sum())
        strays = first is not None and number < FEWEST
        yield Refused(op, 0 if strays else number, len(arrivals), first is not None)


def _first_accepted(arrivals: Arrivals) -> int | None:
    """When the first request of an operation was answered as one that is right (ns)."""
    ends = [
        int(piece.end[mask].min())
        for piece in arrivals.pieces()
        if (mask := np.isin(piece.outcome, ACCEPTED) & (piece.end > 0)).any()
    ]
    return min(ends, default=None)


def _says(record: Record, refused: Refused) -> str:
    some = "All" if refused.mistaken == refused.of else f"{text.count(refused.mistaken)} of"
    later = "before the first was accepted" if refused.ever_accepted else "from the start"
    says = f"{some} {text.count(refused.of)} {refused.op}s of the load were refused as wrong {later}"
    errors = _errors(record, refused.op)
    if not errors:
        return f"{says} (4xx)"
    told = "; ".join(
        f"HTTP {each['status']}, {each.get('type') or 'no error of OpenSearch'}: {text.clip(str(each['reason']), 200)}"
        for each in errors
    )
    settings = list(dict.fromkeys(name for each in errors for name in SETTING.findall(str(each["reason"]))))
    if settings:
        says += f", because of {text.listed(settings[:NAMED])}"
    return f"{says} ({told})"


def _errors(record: Record, op: str) -> list[dict[str, Any]]:
    """What the cluster said first of such requests, a status each: the error that caused the others comes first."""
    found: dict[int, dict[str, Any]] = {}
    for event in record.driver:
        status = event.get("status")
        if event.get("kind") == "answer.error" and event.get("op") == op and _is_refusal(status):
            found.setdefault(int(str(status)), event)
    return [{**each, "reason": str(each.get("reason") or "")} for each in list(found.values())[:NAMED]]


def _is_refusal(status: Any) -> bool:
    return isinstance(status, int) and 400 <= status < 500 and status not in (409, 429)
