"""What a game day needs done: plans and runs on its target, by everything that is known here."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaos.base.errors import ChaosError, Exit, InvalidInput
from chaos.checks import shown
from chaos.commands.running_on import Runs, busy
from chaos.definitions.existing import Existing, load_existing
from chaos.definitions.gameday import GameDay, refuse_alerts_of_nothing
from chaos.gamedays.alerts import Moment
from chaos.gamedays.day import Ran
from chaos.gamedays.gates import LabRun
from chaos.history import reader
from chaos.statistics.judged import judged
from chaos.targets.existing.target import ExistingTarget

if TYPE_CHECKING:
    from chaos.definitions import Experiment
    from chaos.run.guards import Guard
    from chaos.run.options import Permits, RunResult

DRILL = """\
# Made for the drill of a game day's kill switch: an index of its own, and one harmless setting of it.
apiVersion: opensearch-chaos/v1
name: gameday-drill
description: "A stop while a harmless fault is in effect."
topology: {topology}
load:
  read:  {{rate: 1/s, good: ok within 5s}}
  write: {{rate: 1/s, good: ok within 5s}}
  documents: 20
phases:
  drill: {{for: 10m, inject: {{settings.change: {{scope: index, settings: {{refresh_interval: 7s}}}}}}}}
expect:
  - {{acknowledged.lost: 0}}
guards: {{max: 15m}}
"""
SETTLES_SECONDS = 300.0
"""What a run may take beside its phases: getting ready, settling, reading back."""
NODE_IDS = "/_nodes?filter_path=nodes.*.name,nodes.*.attributes"


@dataclass
class TargetHands:
    """Of one game day. ``out``: where its runs go."""

    day: GameDay
    out: Path
    quiet: bool = False
    _experiments: list[Experiment] = field(default_factory=list, init=False)

    def target(self) -> Existing:
        return load_existing(self.day.target)

    def cluster(self) -> ExistingTarget:
        from chaos.run.recovering_on import cluster_of

        return cluster_of(self.target())

    def experiments(self) -> list[Experiment]:
        """As their files are now. Raises InvalidInput, also where the day expects alerts of others."""
        from chaos.commands.common import for_each
        from chaos.registry import load_experiment

        steps = list(self.day.written.experiments)
        self._experiments = for_each(
            lambda step: load_experiment(self.day.beside(step.experiment), topology=step.topology), steps
        )
        begins = {each.name: [phase.name for phase in each.phases if phase.inject] for each in self._experiments}
        refuse_alerts_of_nothing(self.day, begins)
        return self._experiments

    def plans(self) -> list[dict[str, Any]]:
        from chaos.gamedays import decided
        from chaos.run import plan

        experiments = self.experiments()
        every = Runs(self.day.target, self.out, None).plans(experiments)
        beside = [] if any(made.refused for made in every) else busy(every)
        found = []
        for experiment, made in zip(experiments, every, strict=True):
            said = made.to_json()
            said["refused"] += [{"where": where, **row.to_json()} for where, row in beside]
            said["digest"] = plan.digest(experiment)
            said["files"] = decided.of_experiment(experiment)
            said["longest"] = float(experiment.guards.max) + SETTLES_SECONDS
            found.append(said)
        return found

    def node_ids(self) -> dict[str, dict[str, str]]:
        from chaos.opensearch.administration import reading
        from chaos.opensearch.views import administer

        cluster = self.cluster()
        attribute = cluster.target.written.zones.attribute
        status, answer = administer(cluster, "GET", NODE_IDS, timeout=20.0)
        with reading("the list of nodes"):
            if status != 200:
                raise ChaosError(f"asking for the nodes answered {status}")
            return {
                str(id): {"name": str(node["name"]), "zone": str(node.get("attributes", {}).get(attribute, ""))}
                for id, node in answer["nodes"].items()
            }

    def lab_runs(self, folder: Path) -> list[LabRun] | str:
        if not folder.is_dir():
            return f"there is no folder {folder} with runs in labs"
        return list(lab_runs(folder))

    def run(self, number: int, guards: Sequence[Guard], permits: Permits) -> Ran:
        return self._run(self._experiments[number], self.day.written.experiments[number].topology, guards, permits)

    def drill(self, guards: Sequence[Guard], permits: Permits) -> Ran:
        from chaos.registry import load_experiment

        first = self._experiments[0]
        file = self.out.parent / "gameday-drill.yaml"
        file.write_text(DRILL.format(topology=json.dumps(first.topology.name)), encoding="utf-8")
        return self._run(load_experiment(file, topology=first.topology), None, guards, permits)

    def _run(
        self,
        experiment: Experiment,
        topology: str | None,
        guards: Sequence[Guard],
        permits: Permits,
    ) -> Ran:
        runs = Runs(self.day.target, self.out, None, topology=topology)
        runs.guards, runs.permits = guards, permits
        try:
            return ran(experiment.name, runs.run(experiment, quiet=self.quiet))
        except InvalidInput as error:  # refused before anything was changed there
            return Ran(Exit.ABORTED, True, "", error.message, guard="plan", says=error.message)


def ran(name: str, result: RunResult) -> Ran:
    """What a day goes by of a run that is over."""
    findings = result.findings
    abort: dict[str, Any] = findings.get("abort") or {}
    events = _events(result.folder)
    tripped = next((each for each in events if each["kind"] == "guard.tripped"), {})
    proven = [str(each["fault"]) for each in findings.get("faults") or [] if each.get("proven") is True]
    says = str(tripped.get("says") or findings["headline"])
    return Ran(
        result.exit_code,
        result.clean,
        str(result.folder),
        str(findings["headline"]),
        guard=str(tripped["guard"]) if "guard" in tripped else None,
        says=says,
        undone=max(float(abort["seconds"]), float(abort.get("load_seconds", 0.0))) if "seconds" in abort else None,
        undone_all=abort.get("complete") is True,
        proven_gone=abort.get("proven") is True,
        by_signal=result.stopped,
        improved="outcome" in findings and shown.of(findings) is shown.Shown.IMPROVED,
        moments=tuple(moments(name, events, proven)),
    )


def _events(folder: Path) -> list[dict[str, Any]]:
    try:
        return list(reader.History(folder).events)
    except ChaosError:
        return []


def moments(name: str, events: Sequence[Mapping[str, Any]], proven: Collection[str]) -> Iterator[Moment]:
    """When faults of an experiment were in effect, on the runner's clock. ``proven``: those that were."""
    phase = ""
    begun: dict[str, tuple[str, float]] = {}
    effect: dict[str, float] = {}
    undone: dict[str, float] = {}
    for event in events:
        at, fault = float(event["t"]) / 1e9, str(event.get("fault"))
        if event["kind"] == "phase.start":
            phase = str(event["phase"])
        elif event["kind"] == "fault.command":
            begun.setdefault(fault, (phase, at))
        elif event["kind"] == "fault.in_effect":
            effect[fault] = at
        elif event["kind"] == "fault.undo":
            undone.setdefault(fault, at)
    for fault, (where, since) in begun.items():
        seen = effect.get(fault) if fault in proven else None
        yield Moment(name, where, seen, undone.get(fault), since)


def lab_runs(folder: Path) -> Iterator[LabRun]:
    """Runs in labs below a folder. What cannot be read is none: it permits nothing."""
    for file in sorted(folder.glob("**/plan.json")):
        try:
            plan = json.loads(file.read_text())
            if plan["lab"]["kind"] == "existing":
                continue
            findings = judged(file.parent)
            started = datetime.fromisoformat(str(plan["started"]))
            yield LabRun(
                str(plan["hash"]), str(findings["outcome"]), findings["clean"] is True, started, file.parent.name
            )
        except (ChaosError, OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
