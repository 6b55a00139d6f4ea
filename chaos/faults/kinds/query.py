"""Faults by queries: searches that take a node's processors and search threads away from all others."""

from __future__ import annotations

from pydantic import Field, StrictInt

from chaos.base.units import PositiveDuration
from chaos.definitions.selectors import NodeSelector
from chaos.definitions.steps import Reach, Scene
from chaos.faults.evidence import Evidence, Look, Probe, Simple
from chaos.faults.kind import Kind
from chaos.faults.offers import Aim, Means
from chaos.faults.runaway import Runaway, running
from chaos.opensearch.administration import indices_named
from chaos.opensearch.views import await_elected
from chaos.targets.protocol import Lab
from chaos.targets.wiring import Wiring

AMBER = "#b7791f"
RUNAWAY = "oschaos-runaway-"
"""How the names of its indices begin."""


class QueryRunaway(Kind):
    """Searches with a loop for each document, some at a time for as long as the fault holds, on an index of its own.

    Four of them fill the search threads of a node with two processors. Each ends by itself. All are sent at once, and
    each again when it was answered; with ``every``, one at a time is sent, whether the others were answered or not.
    """

    kind = "query.runaway"
    family = "query"
    noticing = "hardly"
    examples = ({"queries": 4}, {"queries": 2, "rounds": 20000, "every": "1s", "target": "node a-data"})
    proof = "the tasks of these searches, which the nodes that were asked show; later none, and no such index"
    holding = (
        "every look that those tasks are there: half as many as asked at least, since each is sent anew (every: one)"
    )
    colour = AMBER
    queries: StrictInt = Field(default=4, ge=1, le=16, description="searches at a time, in all")
    every: PositiveDuration | None = Field(
        default=None,
        description="from the start of one search to that of the next, while fewer than so many run; without it, all "
        "start at once and each is sent again when it was answered",
    )
    rounds: StrictInt = Field(
        default=100_000,
        ge=1_000,
        le=900_000,
        description="of the loop, for each of 20,000 documents; OpenSearch ends a script after 1,000,000",
    )
    target: NodeSelector = Field(
        default=NodeSelector(role="data"), description="which nodes are asked; default role data"
    )

    @property
    def reach(self) -> Reach:
        return "cluster"

    def describe(self) -> str:
        if self.every is not None:
            return f"a runaway query every {self.every.text}, {self.queries} at a time at most, to {self.target.text}"
        return f"{self.queries} runaway queries at a time to {self.target.text}"

    def claims(self, scene: Scene) -> frozenset[str]:
        return frozenset({"runaway queries"})

    def aim(self, id: str, scene: Scene, wiring: Wiring) -> Aim:
        return Aim(id, scene, wiring)

    def evidence(self, aim: Aim, means: Means) -> Evidence:
        assert isinstance(means.worker, Runaway)
        return RunawayEvidence(means.worker)


class RunawayEvidence(Simple):
    """The tasks of the searches, as the nodes tell that were asked."""

    effect_deadline = 20.0
    gone_deadline = 60.0

    def __init__(self, worker: Runaway) -> None:
        self._worker = worker

    def before(self, lab: Lab) -> Look:
        probe = self._seen(lab, 0)
        return Look(probe.ok, f"searches of the fault before it: {probe.measured}", [probe])

    def in_effect(self, lab: Lab) -> Look:
        probe = self._seen(lab, max(1, self._worker.queries // 2) if self._worker.every is None else 1)
        return Look(probe.ok, f"runaway queries that run: {probe.measured}", [probe])

    def gone(self, lab: Lab) -> Look:
        probe = self._seen(lab, 0)
        left = indices_named(lab, self._worker.index, await_elected(lab))
        probes = [probe, Probe(f"index {self._worker.index}", "none", ", ".join(left) or "none", not left)]
        return Look(all(each.ok for each in probes), f"runaway queries that run: {probe.measured}", probes)

    def _seen(self, lab: Lab, least: int) -> Probe:
        """Their tasks: ``least`` or more; none at all where it is 0, by the word of every node that was asked."""
        seen = [running(lab, node, self._worker.index) for node in self._worker.nodes]
        number = sum(len(each) for each in seen if each is not None)
        silent = sum(each is None for each in seen)
        ok = number >= least if least else not number and not silent
        measured = f"{number}" + (f", and {silent} of {len(seen)} nodes do not tell" if silent else "")
        return Probe("tasks of its searches", f"at least {least}" if least else "none", measured, ok)
