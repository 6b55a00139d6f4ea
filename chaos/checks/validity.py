"""Were the instruments good enough? What the load driver must have kept for its numbers to count.

Limits from design.md, "Driver validity": p99 of schedule lag (sent - intended) at most 50 ms, drops at most
0.1 % of the scheduled arrivals, the process below 85 % of one core (p95 of its own samples), an outcome for
more than 99.9 % of the arrivals. Fewer than 100 arrivals/s only widen the windows. A steady state before
the first fault belongs to the instruments too: without one there is nothing to compare with. Anything that
was not measured is not valid.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from chaos.checks import latency, starved, text
from chaos.checks.arrivals import Arrivals, Floats, ranked
from chaos.checks.record import OUTCOMES, SECOND, Record, per_window, windows

LAG_P99 = 0.050
DROPPED = 0.001
UNKNOWN = 0.001
CPU_P95 = 0.85
MEASURED = 0.9
"""Share of the phases' time for which the processors of a local lab's machine must have been measured."""
STEADY = 0.99
"""Good share without which a healthy phase is not healthy: below it p0 would hide an outage (regained.py)."""


@dataclass(frozen=True)
class Condition:
    """One condition on the instruments. ``ok`` False makes the whole run inconclusive."""

    id: str
    what: str
    measured: str
    limit: str
    ok: bool

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def conditions(record: Record) -> tuple[Condition, ...]:
    """All conditions, in the order in which they are shown."""
    parts = list(record.arrivals.values())
    outcomes = sum((part.counts.sum(axis=1) for part in parts), np.zeros(len(OUTCOMES), np.int64))
    scheduled = int(outcomes.sum())
    samples = [event for event in record.driver if event.get("kind") == "self"]
    cpu = np.array([float(event["cpu"]) for event in samples if event.get("cpu") is not None])
    lag = _lag(parts)
    busy = latency.quantile(cpu, 0.95) if len(cpu) else None

    def share(*names: str) -> float | None:
        codes = [OUTCOMES[name] for name in names]
        return float(outcomes[codes].sum() / scheduled) if scheduled else None

    dropped, unknown = share("dropped"), share("unknown")
    found = [
        Condition(
            "lag",
            "99th percentile of the schedule lag in the phases",
            _shown(lag, text.seconds),
            f"at most {text.seconds(LAG_P99)}",
            lag is not None and lag <= LAG_P99,
        ),
        Condition(
            "cpu",
            "driver's use of one core (95th percentile)",
            _shown(busy, lambda value: f"{value:.0%}".replace("%", " %")),
            f"below {CPU_P95:.0%}".replace("%", " %"),
            busy is not None and busy < CPU_P95,
        ),
        *_machine(record),
        Condition(
            "dropped",
            "arrivals that the driver could not send",
            _shown(dropped, text.percent),
            f"at most {text.percent(DROPPED)}",
            dropped is not None and dropped <= DROPPED,
        ),
        Condition(
            "unknown",
            "arrivals without a recorded outcome",
            _shown(unknown, text.percent),
            f"below {text.percent(UNKNOWN)}",
            unknown is not None and unknown < UNKNOWN,
        ),
    ]
    for op in record.operations:
        found.append(_schedule(record, op.name, op.rate))
        if record.healthy:
            found.append(_steady(record, op.name))
    return tuple(found)


def client_errors(record: Record) -> int:
    """Requests refused as wrong (4xx but 429): the suite's own mistake, never the cluster's."""
    return sum(int(part.counts[OUTCOMES["client_error"]].sum()) for part in record.arrivals.values())


def _lag(parts: list[Arrivals]) -> float | None:
    """The 99th percentile of the schedule lag (s) of what was sent in the phases: the warm-up is not judged."""

    def lags() -> Iterator[Floats]:
        for piece in (piece for part in parts for piece in part.pieces()):
            start = piece.start
            yield ((start - piece.intended) / SECOND)[(start > 0) & (piece.phase >= 0)]

    sent = sum(map(len, lags()))
    return ranked(lags, [latency.rank(sent, 0.99)])[0] if sent else None


def widths(record: Record) -> dict[str, float]:
    """The window (s) that each operation's rate allows."""
    return {op.name: record.window(op.name) for op in record.operations}


def _schedule(record: Record, op: str, rate: float) -> Condition:
    """The load was there all the time: no window of any phase without a scheduled arrival."""
    width = record.window(op)
    empty = 0
    for span in record.spans:
        frames = windows(span.start, span.end, width)
        if frames:
            empty += int((per_window(record.in_phase(op, span), frames, clip=True)[0] == 0).sum())
        elif span.end > span.start:
            empty += 1
    number = len(record.arrivals[op])
    return Condition(
        f"schedule.{op}",
        f"{op}s scheduled at {rate:g}/s, in windows of {text.seconds(width)}",
        f"{text.count(number)}, {text.plural(empty, 'window')} without any",
        "no window without any",
        empty == 0 and number > 0,
    )


def _steady(record: Record, op: str) -> Condition:
    bad, scheduled = record.baseline(op)
    good = 1 - bad / scheduled if scheduled else None
    return Condition(
        f"steady.{op}",
        f"good {op}s before the first fault",
        _shown(good, text.percent),
        f"at least {text.percent(STEADY)}",
        good is not None and good >= STEADY,
    )


def _machine(record: Record) -> list[Condition]:
    """A lab on this machine only: is it known when no processor was free? What it made late: :mod:`.starved`."""
    if not starved.applies(record):
        return []
    share, measured = starved.share(record)
    return [
        Condition(
            "machine",
            "time in which none of this machine's processors was free",
            _shown(share, text.percent),
            f"measured for at least {text.percent(MEASURED)} of the phases; a verdict that hangs on it does not count",
            measured >= MEASURED,
        )
    ]


def _shown(value: float | None, form: Any) -> str:
    return "not measured" if value is None else str(form(value))
