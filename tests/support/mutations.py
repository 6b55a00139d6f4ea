"""Stored histories to be changed: a record taken apart, the smallest changes that a broken cluster would have left in
it, and the record put together again, in memory or as a run's folder.

Times are seconds on the run's own axis (0: the start of the load), or in a phase (0: its start).
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from chaos.checks import Findings, evaluate
from chaos.history.format import Outcome
from chaos.history.reader import OUTCOMES, History
from chaos.opensearch.routing import shard_of

S = 1_000_000_000
Event = dict[str, Any]
Mutation = Callable[["Stored"], None]


@dataclass
class Stored:
    """Everything that a run left, free to be changed."""

    plan: dict[str, Any]
    events: list[Event]
    driver: list[Event]
    readback: dict[str, Any] | None
    clean: dict[str, Any] | None
    cas: list[Event]
    probes: list[Event]
    stale: list[Event]
    wrong: list[Event]
    arrivals: pd.DataFrame

    @classmethod
    def of(cls, history: History) -> Stored:
        parts = {each.name: getattr(history, each.name) for each in fields(cls)}
        frame = parts.pop("arrivals")
        return cls(**json.loads(json.dumps(parts, default=list)), arrivals=frame.copy())

    def copy(self) -> Stored:
        """A copy that shares nothing."""
        parts = {each.name: getattr(self, each.name) for each in fields(self)}
        frame = parts.pop("arrivals")
        return Stored(**pickle.loads(pickle.dumps(parts)), arrivals=frame.copy())

    def changed(self, *mutations: Mutation) -> Stored:
        """A copy to which each mutation was applied."""
        other = self.copy()
        for mutation in mutations:
            mutation(other)
        return other

    def history(self) -> History:
        history = History(Path("in-memory"))
        history.__dict__.update({each.name: getattr(self, each.name) for each in fields(self)})
        return history

    def judged(self, *expectations: dict[str, Any]) -> Findings:
        """The findings; by other expectations than the plan's, if some are given."""
        if expectations:
            self.plan["experiment"]["expect"] = list(expectations)
        return evaluate(self.history())

    # -- looking ---------------------------------------------------------------------------------

    def of_kind(self, kind: str, **wanted: Any) -> list[Event]:
        return [e for e in self.events if e["kind"] == kind and all(e.get(k) == v for k, v in wanted.items())]

    @property
    def origin(self) -> int:
        return int(self.of_kind("load.start")[0]["t"])

    def span(self, phase: str) -> tuple[int, int]:
        """Start and end of a phase (ns)."""
        return int(self.of_kind("phase.start", phase=phase)[0]["t"]), int(
            self.of_kind("phase.end", phase=phase)[0]["t"]
        )

    def moment(self, phase: str, seconds: float) -> int:
        return self.span(phase)[0] + round(seconds * S)

    # -- changing --------------------------------------------------------------------------------

    def add(self, phase: str, at: float, kind: str, **more: Any) -> None:
        """An event ``at`` seconds after the phase's start."""
        self.events.append({"t": self.moment(phase, at), "wall": 0.0, "kind": kind, **more})

    def drop(self, *kinds: str, since: int = 0, **wanted: Any) -> None:
        """Leave these events out from ``since`` (ns) on."""
        gone = {id(e) for kind in kinds for e in self.of_kind(kind, **wanted) if e["t"] >= since}
        self.events = [event for event in self.events if id(event) not in gone]

    def rows(
        self,
        op: str,
        phase: str,
        begin: float = 0.0,
        end: float = 1e6,
        share: float = 1.0,
        client: str | None = None,
        shard: int | None = None,
    ) -> npt.NDArray[np.intp]:
        """Positions of a share of the arrivals of an operation, evenly spread over [begin, end) of a phase."""
        start, stop = self.span(phase)
        t = self.arrivals["intended"].to_numpy()
        mask = (self.arrivals["op"] == op).to_numpy() & (t >= start + begin * S)
        mask = mask & (t < min(stop, start + end * S))
        if client is not None:
            mask = mask & (self.arrivals["client"] == client).to_numpy()
        found = np.flatnonzero(mask)
        if shard is not None:
            routing = self.of_kind("index.routing")[0]
            numbers = self.arrivals["k"].to_numpy()[found]
            home = [shard_of(f"w-{k}", routing["shards"], routing["routing_shards"]) for k in numbers.tolist()]
            found = found[np.array(home) == shard]
        steps = np.floor(np.arange(1, len(found) + 1) * share).astype(int)
        return found[np.diff(steps, prepend=0) > 0]

    def answer(self, rows: Sequence[int], outcome: Outcome = Outcome.OK, seconds: float | None = None) -> None:
        """What became of some arrivals: their outcome, and after how many seconds (None: as it was)."""
        where = np.asarray(rows)
        codes = self.arrivals["outcome"].cat.codes.to_numpy().copy()
        codes[where] = int(outcome)
        self.arrivals["outcome"] = pd.Categorical.from_codes(codes, categories=list(OUTCOMES))
        end = self.arrivals["end"].to_numpy().copy()
        if outcome in (Outcome.UNKNOWN, Outcome.DROPPED):
            end[where] = 0
        elif seconds is not None:
            end[where] = self.arrivals["intended"].to_numpy()[where] + round(seconds * S)
        self.arrivals["end"] = end

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
        """A share of the arrivals of [begin, end) of a phase came to another end."""
        self.answer(self.rows(op, phase, begin, end, share, client, shard), outcome, seconds)


def verdicts(findings: Findings) -> dict[str, str]:
    """Each finding's verdict by its id."""
    return {finding.id: finding.verdict.value for finding in findings.findings}


def counts(findings: Findings) -> dict[str, str]:
    """What each finding counts as, by its id."""
    return {finding.id: finding.counts_as.value for finding in findings.findings}
