"""Made-up runs with a known truth: run folders to test checks and report with, and to look at.

A :class:`Story` is told phase by phase; ``write(folder)`` leaves a run's folder on disk as the runner and the
driver would, ``history()`` gives the same in memory. ``python tests/support/synthetic.py FOLDER`` writes every story.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from chaos.base.rates import Piece, Profile, Trace
from chaos.history import seal
from chaos.history.format import ARRIVAL, NO_INDEX, SCHEDULED, Outcome
from chaos.history.reader import OUTCOMES, History
from chaos.load.rates import VaryingRate

S = 1_000_000_000
T0 = 1_000_000 * S
WALL = 1_790_000_000.0
OPS = ("read", "write")
COUNTED = ("lost", "violations", "reads")
"""Metrics without a unit, by the second half of their names."""
CLIENTS = ("client-a", "client-b")
NODES = ("a-data", "b-data", "c-data")
ALL_NODES = (*NODES, "a-cm", "b-cm", "c-cm")
PULSED = {node: None for node in ALL_NODES} | {client: client for client in CLIENTS}

Behaviour = Callable[[np.ndarray, np.random.Generator], tuple[np.ndarray, np.ndarray]]
"""(seconds since the phase's start, rng) -> (outcome codes, latencies in seconds)."""


def healthy(milliseconds: float = 9.0, late: float = 0.0) -> Behaviour:
    """All ok, log-normal around ``milliseconds``; a share ``late`` takes 180 ms."""

    def behave(t: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        latency = np.minimum(milliseconds / 1000 * rng.lognormal(0, 0.35, len(t)), 0.08)
        latency[rng.random(len(t)) < late] = 0.18
        return np.full(len(t), int(Outcome.OK)), latency

    return behave


def constant(outcome: Outcome = Outcome.OK, latency: float = 0.01) -> Behaviour:
    """Every arrival the same."""
    return lambda t, rng: (np.full(len(t), int(outcome)), np.full(len(t), latency))


def mixed(*parts: tuple[float, float, float, Outcome, float], base: Behaviour | None = None) -> Behaviour:
    """``base``, and in [from, to) seconds a share of the arrivals with another outcome and latency."""
    start = base or healthy()

    def behave(t: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        outcome, latency = start(t, rng)
        for begin, end, share, other, seconds in parts:
            hit = (t >= begin) & (t < end) & (rng.random(len(t)) < share)
            outcome[hit] = int(other)
            latency[hit] = seconds
        return outcome, latency

    return behave


@dataclass
class Chapter:
    """One phase: how each operation behaves in it, and what happens (event times relative to its start)."""

    name: str
    seconds: float
    read: Behaviour = field(default_factory=healthy)
    write: Behaviour = field(default_factory=lambda: healthy(13))
    events: list[tuple[float, str, dict[str, Any]]] = field(default_factory=list)
    scripted_wait: bool = False
    until: dict[str, Any] | None = None
    during: dict[str, Any] | None = None
    undo: list[str] = field(default_factory=list)
    inject: list[dict[str, Any]] = field(default_factory=list)
    do: list[dict[str, Any]] = field(default_factory=list)
    reason: str | None = None
    end: dict[str, Any] = field(default_factory=dict)
    """More of ``phase.end``."""

    def fault(
        self,
        fault: str = "f1",
        kind: str = "network.latency",
        says: str = "+300ms on links to zone c",
        at: float = 0.05,
        effect: float = 1.2,
        proven: bool = True,
        colour: str = "#b45309",
        targets: tuple[str, ...] = ("c-cm", "c-data"),
        measured: str = "302 ms",
        expected: str = "300 ms ± 45 ms",
    ) -> Chapter:
        links = [[f"{zone}-data", target] for zone in "ab" for target in targets]
        probe = {"what": f"transport handshake a-data → {targets[0]}", "expected": expected}
        self.inject.append({"kind": kind, "name": None})
        self.events += [
            (
                max(0.001, at - 0.04),
                "fault.evidence",
                dict(
                    fault=fault,
                    stage="before",
                    proven=True,
                    says="links answer in 1 ms",
                    probes=[{**probe, "expected": "below 10 ms", "measured": "0.9 ms", "ok": True}],
                ),
            ),
            (
                at,
                "fault.command",
                dict(fault=fault, fault_kind=kind, says=says, colour=colour, targets=list(targets), links=links)
                | {"held": True},
            ),
            (at + effect, "fault.in_effect", dict(fault=fault)),
            (
                at + effect + 0.01,
                "fault.evidence",
                dict(
                    fault=fault,
                    stage="effect",
                    proven=proven,
                    says=f"a round trip grew by {measured}" if proven else "the round trip did not grow",
                    probes=[
                        {**probe, "measured": measured if proven else "1 ms", "ok": proven},
                        {
                            "what": "untouched link a-data → b-data",
                            "expected": "below 10 ms",
                            "measured": "1 ms",
                            "ok": True,
                        },
                    ],
                ),
            ),
        ]
        return self

    def lift(self, fault: str = "f1", at: float = 0.02, after: float = 0.8, proven: bool = True) -> Chapter:
        self.undo.append("all")
        self.events += [
            (
                max(at / 2, at - 0.3),
                "fault.evidence",
                dict(fault=fault, stage="held", proven=True, says="all of it shows as before", probes=[]),
            ),
            (at, "fault.undo", dict(fault=fault)),
            (at + after, "fault.gone", dict(fault=fault)),
            (
                at + after + 0.01,
                "fault.evidence",
                dict(
                    fault=fault,
                    stage="gone",
                    proven=proven,
                    says="links answer in 1 ms again" if proven else "links still slow",
                    probes=[
                        {
                            "what": "transport handshake a-data → c-data",
                            "expected": "below 10 ms",
                            "measured": "1.1 ms" if proven else "290 ms",
                            "ok": proven,
                        }
                    ],
                ),
            ),
        ]
        return self

    def action(self, action: str, kind: str, says: str, at: float, took: float, ok: bool = True) -> Chapter:
        self.do.append({"kind": kind})
        self.events += [
            (at, "action.command", dict(action=action, action_kind=kind, says=says)),
            (at + took, "action.done", dict(action=action, ok=ok, says="acknowledged" if ok else "HTTP 500")),
        ]
        return self

    def waits(self, restarts: str | None = "role data", nodes: tuple[str, ...] = (), **given: Any) -> Chapter:
        """For a command, from second 1 to 20; its nodes leave and join one after the other. ``given``: its end."""
        self.during = {"command": ["./roll"], "within": 60.0, **({"restarts": restarts} if restarts else {})}
        grade = "path" if nodes else "reported"
        begun = dict(phase=self.name, says="command: ./roll", how="command", nodes=list(nodes), settings=[])
        self.event(1.0, "during.begun", **begun, grade=grade)
        for number, node in enumerate(nodes):
            self.event(3.0 + 4 * number, "cluster.node_left", node=node, zone=node[0])
            self.event(5.0 + 4 * number, "cluster.node_joined", node=node, zone=node[0])
        over = dict(phase=self.name, ok=True, says="ended with exit code 0", exit_code=0, seconds=19.0, last=["bye"])
        self.event(20.0, "during.over", **{**over, "log": f"during-{self.name}.log", **given})
        if nodes:
            look = {"process": "p", "version": "3.8.0", "started": 1}
            looks = {node: {"before": look, "after": {**look, "process": "q", "started": 2}} for node in nodes}
            says = f"{' and '.join(nodes)}: seen to be others"
            self.event(21.0, "during.proof", phase=self.name, proven=True, says=says, nodes=looks)
        return self

    def event(self, at: float, kind: str, **fields: Any) -> Chapter:
        self.events.append((at, kind, fields))
        return self


def expect(
    metric: str, comparison: str, value: float, phases: tuple[str, ...] = (), known: str | None = None
) -> dict[str, Any]:
    """One expectation in the plan's normal form."""
    op, _, quantity = metric.partition(".")
    is_op = op in OPS
    if (is_op and quantity == "good") or metric == "documents.acknowledged":
        unit, shown = "percent", f"{value * 100:g}%"
    elif metric in ("shards.moved", "documents.unexpected") or metric.partition(".")[2] in COUNTED:
        unit, shown = "count", f"{value:g}"
    else:
        unit, shown = "duration", f"{value:g}s"
    return {
        "metric": metric,
        "op": op if is_op else None,
        "quantity": quantity if is_op else metric,
        "unit": unit,
        "phases": list(phases),
        "comparison": comparison,
        "value": value,
        "text": f"{metric} {'=' if comparison == '==' else comparison} {shown}",
        "known_weakness": known,
    }


READBACK: dict[str, Any] = {
    "format": 1,
    "complete": True,
    "reason": None,
    "index": "chaos",
    "acknowledged": 21_480,
    "seconds": 4.2,
    "copies": [
        {
            "shard": shard,
            "node": node,
            "primary": node.startswith("abc"[shard]),
            "state": "STARTED",
            "docs": 7160,
            "read": True,
            "error": None,
            "wanted": 7160,
            "compared": 7160,
            "indexed": 7160,
            "phrases": 100,
            "content_error": None,
        }
        for shard in range(3)
        for node in NODES
    ],
    "content": {
        "documents": 21_492,
        "indexed": 21_492,
        "of": 21_492,
        "copies": 9,
        "phrases": 900,
        "sources": 1_000_000,
        "most": 20_000,
        "text": True,
        "seed": 7,
        "reason": None,
    },
    "lost": [],
    "lost_count": 0,
    "diverged": [],
    "diverged_count": 0,
    "wrong_content": [],
    "wrong_content_count": 0,
    **{f"wrong_{way}": [] for way in ("source", "index", "doc_values")},
    **{f"wrong_{way}_count": 0 for way in ("source", "index", "doc_values")},
    "unavailable_count": 0,
    "unavailable_shards": [],
    "unacknowledged_present": 12,
    "documents": 21_492,
    **{
        f"{name}_count": number
        for name, number in dict(recovered=12, resurrected=0, unexpected=0, duplicated=0).items()
    },
    "recovered": [f"w-{n}" for n in range(90_000, 90_012)],
    "resurrected": [],
    "unexpected": [],
    "duplicated": [],
    "cas": {},
    "watched": {"count": 0, "absent": [], "unknown": []},
}


@dataclass
class Compared:
    """Compare-and-set of a register that keeps its promise: pairs of attempts, one wins and one meets a conflict.

    ``change``: a last change of the lines.
    """

    rate: float = 10.0
    keys: int = 2
    change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]] | None = None

    def lines(self, seconds: float) -> list[dict[str, Any]]:
        state = {n: (0, n) for n in range(self.keys)}  # value and seq_no
        lines: list[dict[str, Any]] = []
        for pair in range(int(seconds * self.rate / 2)):
            begin, key = T0 + int(pair * 2 / self.rate * S) + S // 20, pair % self.keys
            value, seq_no = state[key]
            for turn in range(2):
                n = 2 * pair + turn
                lines += self._read(begin + turn * 1000, n, key, value, seq_no)
                lines += self._cas(begin + 5_000_000 + turn * 1000, n, key, value, seq_no, wins=turn == 0)
            state[key] = (2 * pair + 1, 100 + pair)
        lines.sort(key=lambda line: line["t"])
        return self.change(lines) if self.change else lines

    def _read(self, t: int, n: int, key: int, value: int, seq_no: int) -> list[dict[str, Any]]:
        op = {"op": 2 * n}
        return [
            {"t": t, "kind": "invoke", **op, "process": n, "f": "read", "key": f"c-{key}", "zone": "ab"[n % 2]},
            {"t": t + 3_000_000, "kind": "ok", **op, "outcome": "ok", "status": 200, "node": NODES[n % 3]}
            | {"value": value, "seq_no": seq_no, "primary_term": 1},
        ]

    def _cas(self, t: int, n: int, key: int, value: int, seq_no: int, *, wins: bool) -> list[dict[str, Any]]:
        op = {"op": 2 * n + 1}
        said = {"value": [value, n + 1], "if_seq_no": seq_no, "if_primary_term": 1}
        asked = {
            "t": t,
            "kind": "invoke",
            **op,
            "process": n,
            "f": "cas",
            "key": f"c-{key}",
            "zone": "ab"[n % 2],
            **said,
        }
        node = {"node": NODES[n % 2]}
        if not wins:
            return [asked, {"t": t + 9_000_000, "kind": "info", **op, "outcome": "unknown", "status": 409, **node}]
        done = {"t": t + 8_000_000, "kind": "ok", **op, "outcome": "ok", "status": 200, **node}
        return [asked, done | {"seq_no": 100 + n // 2, "primary_term": 1}]

    def held(self, seconds: float) -> dict[str, Any]:
        """What every copy holds in the end, of a register that lost nothing."""
        change, self.change = self.change, None
        held: dict[str, Any] = {}
        for line in self.lines(seconds):
            if line["kind"] == "invoke" and line["f"] == "cas" and line["process"] % 2 == 0:
                version = {"value": line["value"][1], "seq_no": 100 + line["process"] // 2, "primary_term": 1}
                held[line["key"]] = [{"node": node, "primary": node == NODES[0], **version} for node in NODES]
        self.change = change
        return held


@dataclass
class Probed:
    """Probes of visibility: each document is found by a search on every node after ``after(seconds, node)``.

    None: it is never found, and looked for until 30 s are over.
    """

    rate: float = 2.0
    after: Callable[[float, str], float | None] = lambda seconds, node: 0.4 + (seconds * 7919 % 1)
    change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]] | None = None

    def lines(self, seconds: float) -> list[dict[str, Any]]:
        lines: list[dict[str, Any]] = []
        for n in range(int(seconds * self.rate)):
            t = T0 + int(n / self.rate * S) + S // 30
            done = t + 12_000_000
            lines.append({"t": t, "kind": "write", "n": n, "id": f"v-{n}", "zone": "ab"[n % 2]})
            fate = {"acknowledged": True, "sent": True, "outcome": "ok", "status": 201, "node": NODES[n % 2]}
            lines.append({"t": done, "kind": "written", "n": n, **fate})
            for node in NODES:
                where = {"n": n, "node": node, "zone": node[0]}
                lines.append({"t": done + 3_000_000, "kind": "get", **where, "began": done + 1, "found": True})
                after = self.after(n / self.rate, node)
                if after is None:
                    end = {"kind": "unseen", **where, "missed": done + 30 * S, "searches": 250}
                    lines.append({"t": done + 30 * S + 9_000_000, **end})
                else:
                    at = done + int(after * S)
                    lines.append({"t": at, "kind": "seen", **where, "began": at - 9_000_000, "hits": 1, "searches": 4})
        lines.sort(key=lambda line: line["t"])
        return self.change(lines) if self.change else lines


@dataclass
class Story:
    """A whole run. Change any part before ``write`` or ``history``."""

    name: str = "zone-network-slowdown"
    chapters: list[Chapter] = field(default_factory=list)
    expect: list[dict[str, Any]] = field(default_factory=list)
    rate: float = 100.0
    good_within: float = 0.1
    stale: list[dict[str, Any]] = field(default_factory=list)
    also_read: dict[str, Any] = field(default_factory=dict)
    """Laid over the read-back last."""
    timeout: float = 5.0
    seed: int = 7
    rules: int = 1
    """By which rules the run is judged: 1 is not written down, as in runs of before; one of rules 2 is sealed."""
    cas: Compared | None = None
    visibility: Probed | None = None
    controllers: tuple[str, ...] = ()
    """The zones in which failover controllers run, from before the load to after it."""
    ops: tuple[str, ...] = OPS
    readback: dict[str, Any] | None = field(default_factory=lambda: json.loads(json.dumps(READBACK)))
    clean: dict[str, Any] | None = field(default_factory=lambda: {"clean": True, "detail": []})
    cpu: float = 0.22
    starved: tuple[tuple[float, float], ...] = ()
    """When (seconds after the load's start) no processor of the machine was free."""
    still: tuple[tuple[str, float, float], ...] = ()
    """Who stood still from when to when (seconds after the load's start): ``driver``, or a host with a Toxiproxy."""
    pulsed: bool = True
    """Whether the driver took the instruments' pulse."""
    measured: bool = True
    """Whether the driver measured the machine's processors."""
    lag: float = 0.0011
    failures: dict[Outcome, int] = field(default_factory=dict)
    """Why arrivals failed (:class:`chaos.history.failures.Failure`), by their outcome; empty: as in earlier records."""
    dies_at: float | None = None
    """Seconds after the load's start at which runner and driver are gone."""
    end: str = "finished"
    samples: bool = True
    answers: dict[str, float | None] = field(default_factory=lambda: dict.fromkeys(ALL_NODES, 3.0))
    """Milliseconds after which each node answers the sampler."""
    late_ms: float = 2.0
    """How late the sampler wakes."""
    work: dict[str, float] = field(default_factory=dict)
    """How many of its two processors each data node uses while it is in the cluster; empty: not recorded."""
    self_samples: bool = True
    mutate: Callable[[list[dict[str, Any]]], list[dict[str, Any]]] | None = None
    """A last change of the events."""
    changes: dict[str, tuple[Piece, ...]] = field(default_factory=dict)
    """Operations whose rate changes, and how."""
    times: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """Operations whose arrivals are listed, and when they come; at 1/s before."""
    description: str = "The network to one zone becomes slow; the zone is then taken out and brought back."

    @property
    def seconds(self) -> float:
        return sum(chapter.seconds for chapter in self.chapters)

    def plan(self) -> dict[str, Any]:
        operation = {"search": "read", "index": "write"}
        load: dict[str, Any] = {
            op: {"name": op, "rate": self.rate, "good_within": self.good_within, "operation": kind} | self._changes(op)
            if op in self.ops
            else None
            for kind, op in operation.items()
        }
        load |= {
            "arrivals": "uniform",
            "documents": 2000,
            "client": {"kind": "load-balancer", "timeout": self.timeout, "zones": ["a", "b"], "node": None},
        }
        if self.cas is not None:
            load["cas"] = {"rate": self.cas.rate, "keys": self.cas.keys}
        if self.visibility is not None:
            load["visibility"] = {"rate": self.visibility.rate, "within": 30.0}
        controller = {"controller": {"act": True, "zones": list(self.controllers)}} if self.controllers else {}
        nodes = [
            {"name": f"{zone}-{group}", "zone": zone, "roles": roles}
            for group, roles in (("cm", ["cluster_manager"]), ("data", ["data", "ingest"]))
            for zone in "abc"
        ]
        return {
            "format": 1,
            **({"rules": self.rules} if self.rules > 1 else {}),
            "run": f"20261121T021500Z-{self.name}-k3v9",
            "command": f"opensearch-chaos run experiments/{self.name}.yaml --seed {self.seed}",
            "seed": self.seed,
            "hash": "sha256:5f1d8a4f0c3b7d92e6a0c4715f8b2e9d1c6a3f7e8b5d4c2a1f0e9d8c7b6a5f4e",
            "started": "2026-11-21T02:15:00Z",
            "experiment": {
                "apiVersion": "opensearch-chaos/v1",
                "name": self.name,
                "description": self.description,
                "tags": ["zone"],
                "seed": self.seed,
                "load": load,
                "phases": [
                    {
                        "name": chapter.name,
                        "duration": None if chapter.until or chapter.during else chapter.seconds,
                        "until": chapter.until,
                        **({"during": chapter.during} if chapter.during else {}),
                        "undo": chapter.undo,
                        "inject": chapter.inject,
                        "do": chapter.do,
                        "scripted_wait": chapter.scripted_wait,
                    }
                    for chapter in self.chapters
                ],
                "expect": self.expect,
                "guards": {"cluster_red": 10.0, "max": 480.0},
                **controller,
            },
            "topology": {
                "name": "3az-standby",
                "description": "three zones, one of them a standby without traffic",
                "version": "3.8.0",
                "profile": "fast",
                "zones": ["a", "b", "c"],
                "standby": "c",
                "weights": {"a": 1, "b": 1, "c": 0},
                "nodes": nodes,
                "settings": {"index": {"number_of_shards": 3, "number_of_replicas": 2}},
            },
            "lab": {
                "kind": "local",
                "id": "k3v9",
                "nodes": nodes,
                "client_hosts": list(CLIENTS),
                "pulsed": dict(PULSED),
            },
            "versions": {
                "opensearch-chaos": "0.1.0",
                "opensearch": "3.8.0",
                "java": "25.0.1",
                "toxiproxy": "2.12.0",
                "locust": "2.47.0",
                "opensearch-py": "3.2.0",
                "python": "3.11.2",
                "kernel": "6.1.0",
            },
            "differences": [
                "C1 compiler only (profile fast): peak throughput is lower, start-up faster",
                "heap of 384 MiB per data node",
                "no security plugin, so no TLS between nodes",
                "three shards of a few megabytes; recoveries are faster than with real ones",
            ],
            "client": {
                "client": {"kind": "load-balancer", "timeout_s": self.timeout, "node": None},
                "clients": [{"zone": client.removeprefix("client-")} for client in CLIENTS],
                "targets": [{"node": node, "zone": node[0]} for node in NODES],
            },
            "watched": True,
            **({"rules": self.rules} if self.rules > 1 else {}),
            "steps": [
                {
                    "phase": chapter.name,
                    "step": str(fields.get("says")),
                    "inverse": "remove it" if kind == "fault.command" else "none",
                    "links": [" -> ".join(link) for link in fields.get("links", [])],
                }
                for chapter in self.chapters
                for _, kind, fields in chapter.events
                if kind in ("fault.command", "action.command")
            ],
        }

    def _changes(self, op: str) -> dict[str, Any]:
        if times := self.times.get(op):
            return {"rate": Trace(times, 1).mean, "times": list(times), "before": 1}
        pieces = self.changes.get(op)
        return {"rate": Profile(pieces).lowest, "changes": [list(each) for each in pieces]} if pieces else {}

    def events(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []

        def add(at: float, kind: str, **fields: Any) -> None:
            found.append({"t": T0 + round(at * S), "wall": WALL + at, "kind": kind, **fields})

        add(-3.0, "run.start", run=self.name)
        add(-2.9, "clock")
        add(-1.0, "cluster.leader", leader="c-cm")
        add(-1.0, "cluster.status", status="green")
        add(-1.0, "index.routing", index="chaos", shards=3, routing_shards=768)
        for shard, node in enumerate(NODES):
            add(-1.0, "cluster.primary", index="chaos", shard=shard, node=node)
        for zone in self.controllers:
            add(-0.5, "failover.start", controller=f"controller-{zone}")
            add(-0.4, "failover.ready", controller=f"controller-{zone}")
        add(-0.3, "processes.watched", processes=[f"node {node}" for node in ALL_NODES])
        add(0.0, "load.start")
        if self.changes or self.times:
            add(0.0, "rates.begin")
        at = 0.0
        for index, chapter in enumerate(self.chapters):
            add(at, "phase.start", phase=chapter.name, index=index, scripted_wait=chapter.scripted_wait)
            for offset, kind, fields in chapter.events:
                add(at + offset, kind, **fields)
            at += chapter.seconds
            usual = "condition met" if chapter.until else "done" if chapter.during else "elapsed"
            reason = chapter.reason or usual
            add(at - 0.0001, "phase.end", phase=chapter.name, reason=reason, **chapter.end)
        if self.samples:
            for second in range(int(at)):
                ticks = {"since": T0 + round((second - 0.5) * S), "until": T0 + round((second + 0.5) * S)}
                pulse = {"pulse": ticks} if self.pulsed else {}
                add(second + 0.5, "sample", ok=6, answers=dict(self.answers), late_ms=self.late_ms, **pulse)
        if self.work:
            self._work(add, found, at)
        for zone in self.controllers:
            add(at, "failover.stop", controller=f"controller-{zone}")
        add(at, "load.stop")
        add(at + 5, "processes.unwatched", because=None)
        add(at + 6, "run.end", reason=self.end)
        found.sort(key=lambda event: event["t"])
        if self.dies_at is not None:
            found = [event for event in found if event["t"] <= T0 + self.dies_at * S]
        return self.mutate(found) if self.mutate else found

    def _work(self, add: Callable[..., None], found: list[dict[str, Any]], seconds: float) -> None:
        add(-1.0, "nodes.processors", nodes=dict.fromkeys(ALL_NODES, 2))
        moves = [event for event in found if event["kind"] in ("cluster.node_left", "cluster.node_joined")]
        for second in range(0, int(seconds), 2):
            at = second + 0.6
            last = {event["node"]: event["kind"] for event in moves if event["t"] <= T0 + at * S}
            there = {node: rate for node, rate in self.work.items() if last.get(node) != "cluster.node_left"}
            spent = {node: {"ms": round(1000 * at * rate), "at": round(1000 * at)} for node, rate in there.items()}
            add(at, "nodes.cpu", nodes=spent)

    def driver(self) -> list[dict[str, Any]]:
        if not self.self_samples:
            return []
        last = self.dies_at or self.seconds
        told = self._health() + [
            {"t": T0 - S, "wall": WALL - 1, "kind": "steered", "client_zone": zone, "nodes": ["a-data", "b-data"]}
            for zone in self.controllers
        ]
        return (
            told
            + [
                {
                    "t": T0 + second * S,
                    "wall": WALL + second,
                    "kind": "self",
                    "cpu": self.cpu + 0.02 * (second % 3),
                    "processors": [self._slice(second + tenth / 10) for tenth in range(10)] if self.measured else [],
                    **({"pulse": self._pulse(second)} if self.pulsed else {}),
                    "lag_p99_ms": 1.2,
                    "in_flight": 2,
                    "dropped": 0,
                }
                for second in range(int(last))
            ]
            + ([] if self.dies_at is not None else [self._stopped()])
        )

    def _stopped(self) -> dict[str, Any]:
        """The driver's last word: no answer was other than what was asked for."""
        return {"t": T0 + int(self.seconds * S), "wall": WALL + self.seconds, "kind": "driver.stop", "wrong": {}}

    def _health(self) -> list[dict[str, Any]]:
        """What the load balancers' first probes said: c is the standby, whose node takes no clients."""
        return [
            {"t": T0 - 2 * S, "wall": WALL - 2, "kind": "balancer", "client_zone": client.removeprefix("client-")}
            | {"node": node, "healthy": node[0] != "c", "says": "HTTP 421" if node[0] == "c" else "HTTP 200"}
            for client in CLIENTS
            for node in NODES
        ]

    def _pulse(self, second: int) -> dict[str, Any]:
        """The beats of one second: a Toxiproxy is asked every tenth of one, and each stop is noted where it ends."""
        ended = [each for each in self.still if second <= each[2] < second + 1]
        ns = {each: (T0 + round(each[1] * S), T0 + round(each[2] * S)) for each in ended}
        return {
            "since": T0 + second * S,
            "until": T0 + (second + 1) * S,
            "of": len(PULSED),
            "own": [ns[each] for each in ended if each[0] == "driver"],
            "late": [[each[0], ns[each][0], ns[each][0], ns[each][1]] for each in ended if each[0] != "driver"],
        }

    def _slice(self, at: float) -> tuple[int, int, float]:
        busy = any(start <= at < end for start, end in self.starved)
        return T0 + round(at * S), T0 + round((at + 0.1) * S), 1.0 if busy else 0.4

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """(scheduled, finished) rows as the driver writes them."""
        rng = np.random.default_rng(self.seed)
        parts = []
        begin = 0.0
        for chapter in self.chapters:
            for number, op in enumerate(OPS):
                if op not in self.ops:
                    continue
                t = np.arange(number * 0.5 / self.rate, chapter.seconds, 1 / self.rate)
                if op in self.changes:
                    rate = VaryingRate(self.changes[op])
                    rate.begin(0.0)
                    t = rate.when(np.arange(rate.number(begin + chapter.seconds)) + 0.5) - begin
                    t = t[(t >= 0) & (t < chapter.seconds)]
                if op in self.times:
                    t = np.array(self.times[op]) - begin
                    t = t[(t >= 0) & (t < chapter.seconds)]
                outcome, latency = getattr(chapter, op)(t, rng)
                rows = np.zeros(len(t), ARRIVAL)
                rows["op"] = self.ops.index(op)
                rows["outcome"] = outcome
                rows["intended"] = T0 + np.round((begin + t) * S).astype(np.int64)
                rows["start"] = rows["intended"] + int(self.lag * S)
                rows["end"] = rows["intended"] + np.round(latency * S).astype(np.int64)
                rows["status"] = np.where(outcome == Outcome.OK, 200, 0)
                rows["client"] = np.arange(len(t)) % len(CLIENTS)
                rows["node"] = np.arange(len(t)) % 2
                rows["attempts"] = 1
                for kind, failure in self.failures.items():
                    rows["failure"][outcome == kind] = failure
                parts.append(rows)
            begin += chapter.seconds
        rows = np.concatenate(parts)
        rows = rows[np.argsort(rows["intended"], kind="stable")]
        rows["k"] = np.arange(len(rows))
        dropped = rows["outcome"] == Outcome.DROPPED
        rows["start"][dropped], rows["end"][dropped], rows["node"][dropped] = 0, 0, NO_INDEX
        scheduled = np.zeros(len(rows), SCHEDULED)
        for name in ("k", "op", "intended"):
            scheduled[name] = rows[name]
        finished = rows[rows["outcome"] != Outcome.UNKNOWN]
        if self.dies_at is not None:
            limit = T0 + int(self.dies_at * S)
            scheduled = scheduled[scheduled["intended"] <= limit + S]  # written ahead
            finished = finished[finished["end"] <= limit]
        return scheduled, finished

    def lines(self) -> dict[str, list[dict[str, Any]]]:
        """What the checks on data recorded, by the name of its file."""
        return {
            "cas": [] if self.cas is None else self.cas.lines(self.seconds),
            "probes": [] if self.visibility is None else self.visibility.lines(self.seconds),
            "stale": self.stale,
        }

    def read(self) -> dict[str, Any] | None:
        """The read-back, with what the keys of compare-and-set held in the end."""
        if self.readback is None or self.cas is None:
            return self.readback
        return {**self.readback, "cas": self.cas.held(self.seconds)} | self.also_read

    def history(self) -> History:
        """The same as reading it from disk, without a disk."""
        scheduled, finished = self.rows()
        frame = pd.DataFrame({"k": scheduled["k"], "op": scheduled["op"], "intended": scheduled["intended"]})
        rest = pd.DataFrame(
            {
                name: finished[name].astype(np.int64)
                for name in ("k", "outcome", "status", "client", "node", "attempts", "failure", "start", "end")
            }
        )
        frame = frame.merge(rest, on="k", how="left")
        frame["outcome"] = frame["outcome"].fillna(int(Outcome.UNKNOWN)).astype(int)
        frame[["start", "end"]] = frame[["start", "end"]].fillna(0).astype(np.int64)
        frame["failure"] = frame["failure"].fillna(0).astype(np.uint8)
        frame["op"] = pd.Categorical.from_codes(frame["op"].to_numpy(), categories=list(self.ops))
        frame["outcome"] = pd.Categorical.from_codes(frame["outcome"].to_numpy(), categories=list(OUTCOMES))
        for name, table in (("client", CLIENTS), ("node", NODES)):
            codes = frame[name].fillna(NO_INDEX).astype(int).to_numpy()
            frame[name] = pd.Categorical.from_codes(np.where(codes < len(table), codes, -1), categories=list(table))
        history = History(Path("in-memory"))
        history.__dict__.update(
            plan=json.loads(json.dumps(self.plan())),
            events=self.events(),
            driver=self.driver(),
            readback=None if self.dies_at else self.read(),
            **self.lines(),
            clean=None if self.dies_at else self.clean,
            arrivals=frame,
        )
        return history

    def write(self, folder: Path) -> Path:
        """Leave a run's folder and return it."""
        history = folder / "history"
        history.mkdir(parents=True, exist_ok=True)
        (folder / "plan.json").write_text(json.dumps(self.plan(), indent=1))
        scheduled, finished = self.rows()
        (history / "scheduled.bin").write_bytes(scheduled.tobytes())
        torn = b"\0" * 11 if self.dies_at is not None else b""
        (history / "arrivals.bin").write_bytes(finished.tobytes() + torn)
        tables = {"format": 1, "operations": list(self.ops), "clients": list(CLIENTS), "nodes": list(NODES)}
        (history / "arrivals.json").write_text(json.dumps(tables))
        for name, events in (("events", self.events()), ("driver", self.driver())):
            lines = "".join(json.dumps(event) + "\n" for event in events)
            (history / f"{name}.jsonl").write_text(lines + ('{"t":12' if torn else ""))
        for name, events in self.lines().items():
            if events:
                (history / f"{name}.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
        if self.dies_at is None:
            if (read := self.read()) is not None:
                (history / "readback.json").write_text(json.dumps(read))
            if self.clean is not None:
                (folder / "clean.json").write_text(json.dumps(self.clean))
            if self.rules > 1:
                seal.write(folder, "run", f"the run ended: {self.end}")
        return folder


EXPECT_SLOW_ZONE = [
    expect("read.good", ">=", 0.999, ("healthy", "slow", "failover", "returned")),
    expect("write.good", "<", 0.10, ("slow",)),
    expect("write.regained", "<=", 10, ("failover",)),
    expect("shards.moved", "==", 0, ("slow", "failover")),
    expect("cluster.recovered", "<=", 60, ("returned",)),
    expect("acknowledged.lost", "==", 0),
]


def observed(file: str, lines: Callable[[int, int], list[dict[str, Any]]]) -> History:
    """The history of :func:`slow_zone` with an instrument's lines, made from where its phases begin and end (ns)."""
    history = slow_zone().history()
    history.give(file, lines(history.phases[0].start_ns, history.phases[-1].end_ns))
    return history


def slow_zone() -> Story:
    """The design's example, and it passes: writes suffer while zone c is slow, reads never."""
    late = mixed((0.06, 1e9, 0.985, Outcome.OK, 0.62), base=healthy(13))
    back = mixed((0, 1.6, 0.9, Outcome.OK, 0.7), (1.6, 3, 0.4, Outcome.TIMEOUT, 5.0), base=healthy(13))
    blip = mixed((14, 14.3, 0.5, Outcome.OK, 0.22), base=healthy(13))
    story = Story(
        chapters=[
            Chapter("healthy", 30),
            Chapter("slow", 40, write=late, scripted_wait=True).fault(),
            Chapter("failover", 40, write=back)
            .action("a1", "decommission", "decommission zone c without delay", 0.02, 2.1)
            .event(1.1, "cluster.leader", leader=None)
            .event(1.4, "cluster.leader", leader="a-cm")
            .event(1.6, "cluster.node_left", node="c-data", zone="c")
            .event(1.6, "cluster.node_left", node="c-cm", zone="c")
            .event(1.6, "cluster.primary", index="chaos", shard=2, node="a-data")
            .event(1.7, "cluster.status", status="yellow"),
            Chapter("returned", 42, write=blip, until={"green": True, "stable": 20.0, "within": 180.0})
            .lift()
            .action("a2", "recommission", "recommission zone c", 0.9, 0.4)
            .event(6.2, "cluster.node_joined", node="c-cm", zone="c")
            .event(7.9, "cluster.node_joined", node="c-data", zone="c")
            .event(19.5, "cluster.status", status="green")
            .event(20.0, "cluster.settled", green=True, seconds=19.1),
        ],
        expect=list(EXPECT_SLOW_ZONE),
    )
    return story


def black_hole() -> Story:
    """Packets to zone b vanish: writes stop for 62 s, the objective is missed, a shard moves."""
    gone = mixed((0.3, 62.1, 1.0, Outcome.TIMEOUT, 5.0), base=healthy(13))
    half = mixed((0.3, 8, 0.5, Outcome.TIMEOUT, 5.0), (8, 30, 0.04, Outcome.PARTIAL, 0.05), base=healthy())
    refused = mixed((0.3, 2.2, 0.3, Outcome.REFUSED, 0.003), base=healthy())
    says = "packets vanish on links around zone b"
    return Story(
        name="zone-black-hole",
        description="A zone goes dark without a word: packets vanish, connections stay open.",
        chapters=[
            Chapter("healthy", 30),
            Chapter("dark", 90, read=half, write=gone)
            .fault(
                kind="network.drop",
                says=says,
                measured="no answer in 3 s",
                expected="no answer",
                colour="#7c3aed",
                targets=("b-cm", "b-data"),
            )
            .event(31.0, "cluster.leader", leader=None)
            .event(33.5, "cluster.leader", leader="a-cm")
            .event(34.0, "cluster.node_left", node="b-data", zone="b")
            .event(34.0, "cluster.node_left", node="b-cm", zone="b")
            .event(34.0, "cluster.primary", index="chaos", shard=1, node="a-data")
            .event(34.2, "cluster.status", status="red")
            .event(61.8, "cluster.status", status="yellow")
            .event(66.0, "cluster.shard_moved", index="chaos", shard=1, node="a-data"),
            Chapter("returned", 45, read=refused, until={"green": True, "stable": 20.0, "within": 180.0})
            .lift()
            .event(4.0, "cluster.node_joined", node="b-cm", zone="b")
            .event(5.0, "cluster.node_joined", node="b-data", zone="b")
            .event(22.0, "cluster.status", status="green"),
        ],
        expect=[
            expect("read.good", ">=", 0.999, ("healthy", "dark", "returned")),
            expect("write.regained", "<=", 30, ("dark",)),
            expect("write.outage", "<=", 30, ("dark",)),
            expect("read.p99", "<=", 0.5, ("dark",), known="partial answers are slow until issue 4711 is fixed"),
            expect("shards.moved", "==", 0, ("dark",)),
            expect("acknowledged.lost", "==", 0),
        ],
    )


def lost_writes() -> Story:
    """A node is killed and comes back empty: acknowledged writes are gone, and clean-up failed."""
    story = black_hole()
    story.name = "primary-loss"
    story.description = "The node that holds a primary loses its disk."
    assert story.readback is not None
    story.readback |= {
        "lost": [f"w-{7 * n}" for n in range(131)],
        "lost_count": 131,
        "diverged": [{"id": "w-9", "missing_on": ["c-data"]}, {"id": "w-12", "missing_on": ["c-data"]}],
        "diverged_count": 2,
    }
    story.readback["copies"][4] |= {
        "read": False,
        "state": "UNASSIGNED",
        "error": "no such node",
        "docs": None,
    }
    story.clean = {"clean": False, "detail": ["namespace oschaos-k3v9-b-data could not be removed"]}
    return story


def killed() -> Story:
    """The runner dies in the second phase."""
    story = slow_zone()
    story.dies_at = 47.3
    return story


def unproven() -> Story:
    """The fault never bites and cannot be proven."""
    story = slow_zone()
    story.chapters[1] = Chapter("slow", 40, scripted_wait=True).fault(proven=False)
    return story


def vanished() -> Story:
    """Somebody takes the fault back twelve seconds into its phase, and writes are good from then on."""
    story = slow_zone()
    slow = story.chapters[1]
    slow.write = mixed((0.06, 12.0, 0.985, Outcome.OK, 0.62), base=healthy(13))
    slow.seconds, slow.reason = 20, "aborted"
    start = T0 + 30 * S
    slow.event(
        18.4,
        "fault.evidence",
        fault="f1",
        stage="held",
        proven=False,
        says="18 of 24 connections show it: new connection a-data → c-data: answered, 1.2 ms",
        probes=[
            {
                "what": "new connection a-data → c-data",
                "expected": "255.0 ms to 345.0 ms",
                "measured": "answered, 1.2 ms",
                "ok": False,
            }
        ],
        since=start + 11 * S,
        first=start + 13 * S,
        spread=False,
    )
    story.chapters = story.chapters[:2]
    slow.lift(at=20.5)  # after the phase, which ended for it
    slow.undo = []
    slow.events = [event for event in slow.events if event[2].get("stage") != "held" or event[2].get("proven") is False]
    return story


def aborted() -> Story:
    """A guard stops the run in the second phase."""
    story = black_hole()
    dark = story.chapters[1]
    dark.seconds, dark.reason = 45, "aborted"
    dark.events = [event for event in dark.events if event[0] < 45]
    dark.event(44.5, "guard.tripped", guard="cluster.red", says="the cluster was red for 10 s")
    dark.event(44.85, "abort.undone", asked=0, faults=["f1"], seconds=0.31, proven=True, proven_seconds=0.4)
    dark.event(44.8, "fault.undo", fault="f1").event(44.9, "fault.gone", fault="f1")
    story.chapters = story.chapters[:2]
    story.end = "aborted"
    return story


def hostile() -> Story:
    """Names that want to be markup."""
    story = slow_zone()
    evil = '<script>document.title="owned"</script>"><img src=x onerror=alert(1)> \'"&amp; {{7*7}} ]]>'
    story.name = evil
    story.description = evil + "x" * 10_000
    renames = {"slow": evil, "failover": "y" * 10_000}
    for chapter in story.chapters:
        chapter.name = renames.get(chapter.name, chapter.name)
        for _, _, fields in chapter.events:
            for key in ("says", "node", "leader", "colour"):
                if isinstance(fields.get(key), str):
                    fields[key] = evil + fields[key]
    story.expect = [
        item
        | {
            "phases": [renames.get(phase, phase) for phase in item["phases"]],
            "text": evil,
            "known_weakness": None,
        }
        for item in story.expect
    ]
    assert story.readback is not None
    story.readback |= {"lost": [evil] * 3, "lost_count": 3, "reason": evil}
    return story


STORIES: dict[str, Callable[[], Story]] = {
    story.__name__: story
    for story in (slow_zone, black_hole, lost_writes, killed, unproven, vanished, aborted, hostile)
}


if __name__ == "__main__":
    for name, make in STORIES.items():
        print(make().write(Path(sys.argv[1]) / name))
