"""What others do to the cluster's pods while a run is under way: evictions, rollouts, autoscalers, probes. Watched and
named.

A pod that is replaced by somebody else looks to OpenSearch like a fault of ours. So it ends the run, and the verdict is
none about OpenSearch. So does a container that has ended in a pod which no fault hits: more is away by then than the
run was allowed to take away.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable

from chaos.base.errors import ChaosError
from chaos.base.logs import LOG
from chaos.definitions import Experiment
from chaos.definitions.selectors import candidates
from chaos.faults.kinds.node import NodeIsolation
from chaos.faults.moves import Move
from chaos.kubernetes.seen import Pod, Seen
from chaos.run.helping import END, MAKE
from chaos.targets.existing.pods import Pods

WATCH_SECONDS = 3.0


class OthersOnPods:
    """``moves``: those of the run until now."""

    def __init__(self, pods: Pods, experiment: Experiment, moves: Callable[[], Iterable[Move]]) -> None:
        self._pods, self._moves = pods, moves
        waits = [each.during.restarts for each in experiment.phases if each.during is not None and each.during.restarts]
        nodes = experiment.topology.nodes
        self._agreed = {name for each in waits for name in candidates(each, nodes)}
        """Nodes that others may restart meanwhile, as the experiment says."""
        self._before: Seen | None = None

    def until(self, over: threading.Event, stop: Callable[[str], None]) -> None:
        """Look every few seconds until it is over; ``stop`` is told in words what somebody else does."""
        while not over.is_set():
            if (says := self.look()) is not None:
                stop(says)
                return
            over.wait(WATCH_SECONDS)

    def look(self) -> str | None:
        """What somebody else does to the pods, in words; None: nothing, or the API server does not answer."""
        try:
            now = self._pods.look()
        except ChaosError as error:  # the next phase asks again, and ends the run without an answer
            LOG.info("pods: %s", error)
            return None
        if self._before is None:
            self._before = now
            return None
        moves = list(self._moves())
        ours = self._of({node for move in moves for node in named(move)} | self._agreed)
        isolations = [move for move in moves if move.arguments.get("intent") == NodeIsolation.kind]
        cut = self._of({node for move in isolations for node in named(move)})  # one pod of each machine
        machines = {pod.machine for name, pod in self._before.pods.items() if name in cut} - {None}
        ours |= {name for name, pod in self._before.pods.items() if pod.machine in machines}
        return by_others(self._before, now, ours, rollouts=not self._agreed)

    def _of(self, nodes: Collection[str]) -> set[str]:
        """Their pods, by name."""
        return {self._pods.of_nodes[node] for node in nodes if node in self._pods.of_nodes}


def named(move: Move) -> list[str]:
    """The nodes that a move hits. ``nodes`` of other moves is a number; a helper does nothing to the pod beside it."""
    if move.operation in (MAKE, END):
        return []
    node, nodes = move.arguments.get("node"), move.arguments.get("nodes")
    return [*([str(node)] if node is not None else []), *(nodes if isinstance(nodes, list | tuple) else ())]


def by_others(before: Seen, now: Seen, ours: Collection[str], *, rollouts: bool) -> str | None:
    """What was done to pods that are not ``ours``, in words; None: nothing. ``rollouts``: of any pods count too."""
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
        if there is not None and there.ended is not None and there.ended != pod.ended:
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
