"""What others do to the cluster's pods while a run is under way: evictions, rollouts, autoscalers, probes. Watched and
named.

A pod that is replaced by somebody else looks to OpenSearch like a fault of ours. So it ends the run, and the verdict is
none about OpenSearch. So does a container that has ended in a pod which no fault hits: more is away by then than the
run was allowed to take away.

What is ours is told by what stands in the run's ledger. Once a fault is undone and its pod is well again, the pod is
watched as it is then.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from chaos.base.errors import ChaosError
from chaos.base.logs import LOG
from chaos.definitions import Experiment
from chaos.definitions.selectors import candidates
from chaos.faults.kinds.disk import DiskFull
from chaos.faults.kinds.node import NodeIsolation
from chaos.faults.ledger import Entry
from chaos.faults.moves import Move
from chaos.kubernetes.seen import Pod, Seen
from chaos.run.helping import END, MAKE
from chaos.targets.existing.pods import Pods

WATCH_SECONDS = 3.0
SETTLED_SECONDS = 30.0
"""So long a pod must have been well after a fault before the end of its container is somebody else's doing: a kubelet
whose probes failed meanwhile may end it a little later."""
VOTES = "votes.exclude"
LEAVES = "host."
"""Moves whose names begin so leave the pod where it is: what they do may end its container, and no more. But a kubelet
evicts pods when a disk of its machine is full, which the pod's volume may be part of."""


class OthersOnPods:
    """``intents``: the entries of the run until now, and whether each stands (``Ledger.intended``)."""

    def __init__(self, pods: Pods, experiment: Experiment, intents: Callable[[], Sequence[tuple[Entry, bool]]]) -> None:
        self._pods, self._intents = pods, intents
        waits = [each.during.restarts for each in experiment.phases if each.during is not None and each.during.restarts]
        nodes = experiment.topology.nodes
        self._agreed = {name for each in waits for name in candidates(each, nodes)}
        """Nodes that others may restart meanwhile, as the experiment says."""
        self._before: Seen | None = None
        """Each pod as it was at first, or since it was well again after a fault of ours."""
        self._over: set[int] = set()
        """Entries (by number) that were undone before the last look at the pods."""
        self._ours: set[str] = set()
        """Pods of which all that happens is ours."""
        self._ends: dict[str, float | None] = {}
        """Pod of which the end of its container is ours → since when it is well again (monotonic, s); None: not yet."""

    def until(self, over: threading.Event, stop: Callable[[str], None]) -> None:
        """Look every few seconds until it is over; ``stop`` is told in words what somebody else does."""
        while not over.is_set():
            if (says := self.look()) is not None:
                stop(says)
                return
            over.wait(WATCH_SECONDS)

    def look(self) -> str | None:
        """What somebody else does to the pods, in words; None: nothing, or the API server does not answer."""
        over = {entry.number for entry, stands in self._intents() if not stands}
        try:
            now = self._pods.look()
        except ChaosError as error:  # the next phase asks again, and ends the run without an answer
            LOG.info("pods: %s", error)
            return None
        if self._before is None:
            self._before, self._over = now, over
            return None
        # whatever is seen was written down before, so the ledger is read once more
        intents = [entry for entry, _ in self._intents() if entry.number not in self._over]
        ours, ends = self._hit([entry.move for entry in intents])
        self._ours |= ours
        self._ends |= dict.fromkeys(ends)
        self._over |= over
        self._before = self._watched_anew(
            self._before, now, *self._hit([entry.move for entry in intents if entry.number not in over])
        )
        spared = self._ours | self._of(self._agreed)
        return by_others(self._before, now, spared, self._ends, rollouts=not self._agreed)

    def _hit(self, moves: Sequence[Move]) -> tuple[set[str], set[str]]:
        """The pods of which all that happens is due to these moves, and those of which the end of a container is."""
        assert self._before is not None
        cuts = [move for move in moves if move.arguments.get("intent") == NodeIsolation.kind]
        cut = self._of({node for move in cuts for node in named(move)})  # one pod of each machine
        machines = {pod.machine for name, pod in self._before.pods.items() if name in cut} - {None}
        ours = self._of({node for move in moves if not _leaves(move) for node in named(move)})
        ours |= cut | {name for name, pod in self._before.pods.items() if pod.machine in machines}
        return ours, self._of({node for move in moves for node in named(move)}) | ours

    def _watched_anew(self, before: Seen, now: Seen, ours: Collection[str], ends: Collection[str]) -> Seen:
        """``before``, with the pods as they are now that are well again. ``ours`` and ``ends``: hit still, or not known
        to have been undone before ``now`` was seen."""
        pods = dict(before.pods)
        well = {name: pod for name, pod in now.pods.items() if pod.runs and pod.ready and not pod.ending}
        for name in self._ours - set(ours):
            if name in well:
                pods[name] = well[name]
                self._ours.discard(name)
        for name, since in list(self._ends.items()):
            if name in ends or name in self._ours or name not in well:
                self._ends[name] = None
            elif since is None:
                self._ends[name] = time.monotonic()
            elif time.monotonic() - since >= SETTLED_SECONDS:
                if name in pods:
                    pods[name] = replace(pods[name], ended=well[name].ended)
                del self._ends[name]
        return replace(before, pods=pods)

    def _of(self, nodes: Collection[str]) -> set[str]:
        """Their pods, by name."""
        return {self._pods.of_nodes[node] for node in nodes if node in self._pods.of_nodes}


def named(move: Move) -> list[str]:
    """The nodes that a move hits. ``nodes`` of other moves is a number; a helper does nothing to the pod beside it, nor
    does a vote that is taken away."""
    if move.operation in (MAKE, END, VOTES):
        return []
    node, nodes = move.arguments.get("node"), move.arguments.get("nodes")
    return [*([str(node)] if node is not None else []), *(nodes if isinstance(nodes, list | tuple) else ())]


def _leaves(move: Move) -> bool:
    return move.operation.startswith(LEAVES) and move.arguments.get("intent") != DiskFull.kind


def by_others(
    before: Seen, now: Seen, ours: Collection[str], ends: Collection[str] = (), *, rollouts: bool
) -> str | None:
    """What was done to pods that are not ``ours``, in words; None: nothing.

    ``ends``: pods of which the end of a container is ours. ``rollouts``: those of any pods count too.
    """
    for name, each in before.sets.items():
        after = now.sets.get(name)
        if after is None:
            return f"StatefulSet {name} is there no more, and that is none of our doing"
        if rollouts and (after.revision != each.revision or (after.rolling and not each.rolling)):
            return f"StatefulSet {name} is being rolled out, and that is none of our doing"
        if after.wanted != each.wanted:
            return f"StatefulSet {name} wants {after.wanted} pods and not {each.wanted}: that is none of our doing"
    for name, pod in before.pods.items():
        if name in ours:
            continue
        if (why := _replaced(pod, there := now.pods.get(name))) is not None:
            return f"pod {name} {why}, and that is none of our doing"
        if name not in ends and there is not None and there.ended is not None and there.ended != pod.ended:
            why, at = there.ended
            return f"the container of pod {name} ended ({why or 'no reason'}, {at}), and no fault hits that pod"
    return None


def _replaced(pod: Pod, now: Pod | None) -> str | None:
    if now is None:
        return "is there no more"
    if now.uid != pod.uid:
        return f"was replaced by another one ({now.uid})"
    if now.disrupted and not pod.disrupted:
        return f"is being disrupted ({now.disrupted})"
    if now.ending and not pod.ending:
        return "is being deleted"
    return None
