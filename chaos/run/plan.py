"""The plan of a run: everything resolved that can be, as data, before anything starts.

A plan needs no cluster. What only the moment decides (who is elected) is named as such; what the seed decides is
drawn here already, and the run draws the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

import chaos
from chaos.base.errors import ChaosError, Lacking
from chaos.definitions import Duration, Experiment, Scene, Topology, objectives, overriding
from chaos.definitions.actions import (
    ActionParams,
    Decommission,
    ExcludeVotes,
    IncludeVotes,
    IndexClose,
    IndexCreate,
    IndexDelete,
    IndexOpen,
    Recommission,
    Reindex,
    RemoteRestore,
    Reroute,
    Restore,
    RetryFailed,
    Snapshot,
    Weights,
)
from chaos.definitions.detection import Detection
from chaos.definitions.existing import Existing
from chaos.definitions.experiment import Controller
from chaos.definitions.selectors import NodeSelector, candidates
from chaos.definitions.steps import FaultParams
from chaos.faults.fault import Fault
from chaos.faults.kind import built
from chaos.faults.offers import Offers
from chaos.history.models import PlannedStep
from chaos.run import noticing
from chaos.run.noticing import Foreseen
from chaos.targets import services
from chaos.targets.labs import usable, watermarks
from chaos.targets.wiring import Wiring

PROBE_PATH = "/_cluster/health?local=true"
WEIGHED_PROBE_PATH = f"{PROBE_PATH}&ensure_node_weighed_in=true"


@dataclass(frozen=True)
class Planned:
    """One fault of the definition with the id that it has in plan, ledger, events and report."""

    id: str
    phase: str
    params: FaultParams


def faults(experiment: Experiment) -> list[Planned]:
    """Every fault of the experiment in order, with its id."""
    planned: list[Planned] = []
    for phase in experiment.phases:
        for params in phase.inject:
            planned.append(Planned(f"f{len(planned) + 1}", phase.name, params))
    return planned


def by_phase(experiment: Experiment) -> dict[str, tuple[Planned, ...]]:
    """The faults that each phase injects, in its order."""
    every = faults(experiment)
    return {phase.name: tuple(each for each in every if each.phase == phase.name) for phase in experiment.phases}


def lacking(experiment: Experiment, offers: Offers) -> list[str]:
    """Why this experiment cannot be where there are these offers; empty: it can."""
    found = [
        f"{each.params.kind} in phase {each.phase}: {reason}"
        for each in faults(experiment)
        for reason in offers.reasons(each.params.kind)
    ]
    return list(dict.fromkeys(found))


def refuse_lacking(experiment: Experiment, offers: Offers) -> None:
    """Raises Lacking, with every reason, when nobody can do there what the experiment's faults ask for."""
    if reasons := lacking(experiment, offers):
        raise Lacking(f"{experiment.name} cannot run here: {'; '.join(reasons)}", remedy="see: opensearch-chaos faults")


def preview(
    planned: Planned, experiment: Experiment, seed: int, wiring: Wiring, offers: Offers, elected: str | None = None
) -> Fault | None:
    """The fault as it will be, or None when only the moment can tell (it names the elected manager). ``elected``: which
    node that would be."""
    if planned.params.momentary and elected is None:
        return None
    return built(
        planned.params,
        planned.id,
        Scene.of(experiment.topology, seed, planned.id, elected),
        wiring,
        offers.meant(planned.params.kind),
    )


def _back_of(controller: Controller) -> str:
    """What takes back what failover controllers do."""
    votes = " votes given back," if controller.lead_from_standby else ""
    zones = f"{votes} recommission, weights as they were," if controller.act else ""
    return f"they end;{zones} their canary indices deleted"


def foreseen(
    experiment: Experiment,
    seed: int,
    offers: Offers,
    wiring: Wiring | None = None,
    found: Detection | None = None,
) -> dict[str, Foreseen]:
    """When green counts in each phase that waits for it. ``found``: fault detection as the cluster has it; by default
    as the topology sets it."""
    topology = experiment.topology
    plain = wiring or Wiring.of_topology("plan", topology)
    every = faults(experiment)

    def previewed(number: int) -> Fault | None:
        try:
            return preview(every[number], experiment, seed, plain, offers)
        except ChaosError:  # what cannot be had, or matches nothing, is told elsewhere
            return None

    detection = found or Detection.planned(experiment.topology)
    return {each.phase: each for each in noticing.foreseen(experiment, detection, previewed)}


def steps(
    experiment: Experiment,
    seed: int,
    offers: Offers,
    wiring: Wiring | None = None,
    found: Detection | None = None,
) -> Iterator[PlannedStep]:
    """Every step with its inverse, in order, as plan.json and ``opensearch-chaos plan`` show it. ``wiring``: that of a
    lab when it is not given; ``found``: as for :func:`foreseen`."""
    greens = foreseen(experiment, seed, offers, wiring, found)
    topology = experiment.topology
    plain = Wiring.of_topology("plan", topology)
    planned = by_phase(experiment)
    if experiment.controller is not None and experiment.phases:
        zones = ", ".join(experiment.controller_zones)
        does = "act" if experiment.controller.act else "recommend only"
        yield {
            "phase": experiment.phases[0].name,
            "step": f"failover controllers in zones {zones} {does}, from before the load on",
            "inverse": _back_of(experiment.controller),
        }
    for program in experiment.programs.values() if experiment.phases else ():
        yield {
            "phase": experiment.phases[0].name,
            "step": f"begin beside the load, {program.describe()}",
            "inverse": "it is told to end when the last phase is over, and ended with all of its session "
            f"{program.within.text} later",
        }
    for phase in experiment.phases:
        for name in phase.undo:
            yield {"phase": phase.name, "step": f"undo {name}", "inverse": None}
        for each in planned[phase.name]:
            params = each.params
            offer = offers.meant(params.kind)
            try:
                fault = preview(each, experiment, seed, wiring or plain, offers)
            except Lacking:  # to be shown in a plan that is then refused
                fault = preview(each, experiment, seed, plain, offers)
            if fault is None:
                nodes = experiment.topology.nodes
                chosen = [s for s in params.selectors.values() if isinstance(s, NodeSelector)]
                possible = candidates(chosen[0], nodes) if len(chosen) == 1 else ()
                yield {
                    "phase": phase.name,
                    "step": f"inject {params.kind}: {params.spoken(params.describe())}",
                    "fault": each.id,
                    "provider": offer.provider,
                    "grade": offer.grade.value,
                    "mechanism": offer.mechanism,
                    "resolved": "at inject time" + (f", one of {', '.join(possible)}" if possible else ""),
                    "inverse": "the inverse of each move, from the ledger",
                }
                continue
            yield {
                "phase": phase.name,
                "step": f"inject {params.kind}: {params.spoken(params.describe())}",
                "fault": each.id,
                "provider": fault.provider,
                "grade": fault.grade.value,
                "mechanism": fault.mechanism,
                "targets": list(fault.targets),
                "links": [f"{a} -> {b}" for a, b in fault.links],
                "moves": [str(m.move) for m in fault.moves],
                "inverse": [
                    str(m.inverse) if m.inverse else "none: cannot be taken back" for m in reversed(fault.moves)
                ]
                or ["none: these are requests of the runner's own, and they end with it"],
            }
        for action in phase.do:
            yield {
                "phase": phase.name,
                "step": f"do {action.kind}: {action.describe()}",
                "inverse": _inverse(action),
            }
        if (during := phase.during) is not None:
            named = () if during.restarts is None else candidates(during.restarts, experiment.topology.nodes)
            by_hand = during.command is None
            yield {
                "phase": phase.name,
                "step": f"wait for others, at most {during.within.text}: {during.describe()}",
                "grade": during.grade,
                "targets": list(named),
                "proof": during.claims(),
                "inverse": "none: what a person does is not ours to undo"
                if by_hand
                else "the command is ended, with all of its session; what it did is not ours to undo",
            }
            continue
        until = phase.until
        wait = (
            f"hold for {phase.duration.text}"
            if phase.duration is not None
            else f"until green, stable for {until.stable.text}, at most {until.within.text}"
            if until
            else ""
        )
        if until and (says := greens[phase.name].says):
            wait += f"; {says}"
        yield {"phase": phase.name, "step": wait, "inverse": None}


def _inverse(action: ActionParams) -> str | None:
    if isinstance(action, Decommission):
        return f"recommission zone {action.zone}"
    if isinstance(action, Weights):
        return "the weights that were there before"
    if isinstance(action, ExcludeVotes):
        return "votes are given back, if nobody else has taken any away since"
    if isinstance(action, Reindex):
        return "what still copies is ended, and the copy deleted"
    if isinstance(action, IndexCreate):
        return f"the index {action.index} is deleted"
    if isinstance(action, IndexClose):
        return f"the index {action.index} is opened"
    if isinstance(action, Snapshot):
        return "the snapshot is deleted, and the repository that was made for it"
    if isinstance(action, Restore):
        return "the index that was taken back is deleted"
    of_no_inverse = Recommission | IncludeVotes | Reroute | RetryFailed | IndexOpen | IndexDelete | RemoteRestore
    assert isinstance(action, of_no_inverse)
    return None


def lab_topology(experiment: Experiment) -> Topology:
    """What a lab of the experiment's own is made from: its topology, with watermarks that its faults can change."""
    changed = [name for each in experiment.phases for params in each.inject for name in params.cluster_settings]
    return watermarks.stock(experiment.topology, changed)


BITES = 3.0
"""A delay shows for sure in shares that are good at this many times the objective: answers that were a little quicker
than usual, retries and what the machine adds cannot hide it then."""


def blunt(experiment: Experiment) -> list[str]:
    """Delays that an expectation wants to bite, and that may not: shorter than :data:`BITES` times the objective.

    In words, each fault and operation once. A fault stays until a later phase undoes it.
    """
    found: list[str] = []
    active: dict[str, list[FaultParams]] = {}
    within: dict[str, Duration] = {each.name: each.good_within for each in experiment.load.operations}
    for phase in experiment.phases:
        for name in phase.undo:
            for label in list(active) if name == "all" else [name]:
                active.pop(label, None)
        for params in phase.inject:
            active.setdefault(params.label, []).append(params)
        for expectation in experiment.expect:
            wanted = expectation.quantity == "good" and expectation.comparison in ("<", "<=")
            objective = within.get(str(expectation.op))
            if not wanted or phase.name not in expectation.phases or objective is None:
                continue
            found += [
                f"{params.describe()} is less than three times the objective of {objective.text} "
                f"for {expectation.op}s: whether it bites ({expectation.text} in {phase.name}) is up to chance"
                for several in active.values()
                for params in several
                if params.lateness is not None and params.lateness < BITES * objective - 1e-9
            ]
    return list(dict.fromkeys(found))


def digest(experiment: Experiment) -> str:
    """SHA-256 of definition and topology in normal form; where the file lies does not matter."""
    data = experiment.to_json()
    data.pop("file", None)
    for key in ("good_in_file", "overrides"):  # who gave a value does not matter either: what is in force is here
        data.pop(key, None)
    data["topology"].pop("file", None)
    for each in (data["load"], *data["load"].get("indices", ())):
        (each.get("dataset") or {}).pop("file", None)
    # as in the digests of runs from before these could be stated
    if not data["rates"]:
        del data["rates"]
    for key in ("security", "expired"):
        if not data["topology"][key]:
            del data["topology"][key]
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def versions() -> dict[str, str]:
    """What the plan is carried out with; the lab adds its own."""
    return {
        "opensearch-chaos": chaos.__version__,
        "python": sys.version.split()[0],
        "locust": version("locust"),
        "opensearch-py": version("opensearch-py"),
        "kernel": platform.release(),
    }


def machine() -> dict[str, Any]:
    """What the run has to itself, so that runs of different machines are not taken for alike; no names."""
    return {
        "architecture": platform.machine(),
        "processors": psutil.cpu_count(),
        "usable": _usable(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9),
    }


def again(
    file: Path,
    seed: int,
    topology: str | None = None,
    *,
    controlled: bool = True,
    good: Sequence[str] = (),
    given: Sequence[str] = (),
) -> str:
    """The command that repeats a run, for plan and report: never with a path of one machine only.

    ``good``: objectives that were given on the command line (:func:`chaos.definitions.objectives.options`); ``given``:
    other values of the file (:func:`chaos.definitions.overriding.options`).
    """
    options = ["--seed", str(seed)] + (["--topology", topology] if topology else [])
    options += [] if controlled else ["--no-controller"]
    options += [word for each in good for word in (objectives.OPTION, each)]
    options += [word for each in given for word in (overriding.OPTION, each)]
    shown = os.path.relpath(file)
    return shlex.join(["opensearch-chaos", "run", file.name if shown.startswith("..") else shown, *options])


def _usable() -> dict[str, Any]:
    """What this process may use of the machine's processors, and so what it starts."""
    try:
        mine = usable.of(os.getpid())
    except OSError:
        return {"processors": None, "of": len(usable.online()), "quota": None}
    return {"processors": sorted(sorted(mine.sets, key=len)[0]), "of": len(usable.online()), "quota": mine.quota}


def cluster_digest(target: Existing) -> str:
    """Which cluster it is, for comparisons: a digest of its UUID, 16 hexadecimal digits."""
    return hashlib.sha256(target.written.identity.cluster_uuid.encode()).hexdigest()[:16]


def there(target: Existing) -> list[str]:
    """What a reader must know of a run on a cluster that exists."""
    file, access = target.written, target.written.access
    ways = "to the nodes themselves, past its load balancers"
    if file.ways_in:
        what = "load balancers" if file.load_balancers else "first endpoint"
        ways = f"through its {what}, so that which node answered is not known"
    alone = "no node is reached by itself: what each one knows and holds is what the others, or the manager, say of it"
    return [
        f"a cluster that exists ({file.name}): of others only searches and indexing are counted",
        f"requests go {ways}, from one machine in none of its zones",
        *([alone] if file.by_doors else []),
        *(["no certificate is checked (verify: false)"] if not access.verify else []),
        *(
            [f"each certificate must be that of {access.tls_name}, whatever address is asked"]
            if access.tls_name
            else []
        ),
        *([file.fis.says] if file.fis is not None else []),
        *([file.domain.says] if file.domain is not None else []),
    ]


ONE_MACHINE = "all nodes share this machine's processors, memory and disk"
ONE_KERNEL = "zones are network namespaces on one kernel: no real distance, one clock"


def differences(experiment: Experiment, notes: Sequence[str] = (), *, shared: bool = True) -> list[str]:
    """Every way in which this lab is not production that may matter for a verdict.

    ``shared``: its nodes share this machine.
    """
    topology = experiment.topology
    heaps = ", ".join(sorted({n.heap.text for n in topology.nodes}))
    found = [
        *([ONE_MACHINE, ONE_KERNEL] if shared else []),
        f"small heaps ({heaps}) and a small index: recovery times do not scale from here",
        "security plugin with certificates and one user made for this lab"
        if topology.security
        else "no security plugin: no TLS and no authentication",
        "OpenSearch's bootstrap checks are off (nodes bind loopback addresses)",
        *([said] if shared and (said := watermarks.says(lab_topology(experiment))) else []),
        *(f"{name}: {services.kind(each).says}" for name, each in topology.services.items()),
        *(f"planted: the certificate that {name} shows to clients has expired" for name in topology.expired),
        *(
            ["health checks of the clients' load balancer take any certificate"]
            if not experiment.load.client.verify_health_checks
            else []
        ),
    ]
    found += notes
    return found
