"""Faults by programs that the cluster's owners wrote: ``hooks`` of a target's file (docs/hooks.md).

What such a program says of itself is recorded (grade ``reported``), and counts for nothing alone: a fault is proven by
what the neighbours, the clients or the cluster see of it (:mod:`chaos.faults.effects`), and then only while the program
does not deny it. Its words stand in the target's file and not in a ledger, so that whoever undoes on another machine
calls the program of that machine.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from chaos.base.errors import ChaosError, FaultError, Lacking
from chaos.faults.effects import NodeEffects
from chaos.faults.evidence import Evidence, Look, Probe
from chaos.faults.fault import Grade
from chaos.faults.kind import Kind
from chaos.faults.kinds.network import NetworkDrop, NetworkHang, NetworkRefuse, OnLinks, pairs_both, pairs_opened
from chaos.faults.kinds.node import NodeKill, NodePause, NodeStop
from chaos.faults.kinds.zone import ZonePowerLoss
from chaos.faults.ledger import registrations
from chaos.faults.moves import Move, Reversible, operation, said
from chaos.faults.offers import Aim, Means, Provider
from chaos.faults.probes import Pair
from chaos.run import calling
from chaos.run.calling import Called
from chaos.targets.protocol import HOOK, Hooks, Lab

PROVIDER = Provider(
    "hooks", "programs of the cluster's owners, which the target's file names", grade=Grade.EFFECT, of_others=True
)
INJECT, UNDO = "hook.inject", "hook.undo"
MECHANISM = "a program of the cluster's owners makes it"
UNDOING = "the owners' program takes it back; after its ttl it does so by itself"
LOG = "hooks.log"
"""In the run's ``logs``: what the programs printed."""
AGAIN_SECONDS = 2.0
"""An answer that is no older than this is not asked for again: looks are repeated many times a second."""
GLANCED_SECONDS = 5.0
"""The same of cheap looks."""


def _ttl(lab: Hooks, kind: str, **given: Any) -> float:
    """A call that another machine still has under way ends, and what it made is undone by its own program."""
    hook = lab.hook(kind)
    return float(hook.within) + float(hook.ttl)


@operation(INJECT, late=_ttl)
def _inject(lab: Hooks, **given: Any) -> None:
    note = _note(lab, given)
    try:
        _must(lab, "inject", given, begins=calling.noting(note))
    finally:
        note.unlink(missing_ok=True)


@operation(UNDO)
def _undo(lab: Hooks, **given: Any) -> bool | None:
    """On the machine of the run no call is under way any more: True. What is on another nobody here knows."""
    calling.end_noted(_note(lab, given))  # of a runner that died while its program was at it
    _must(lab, "undo", given)
    return True if any(each.run == given["run"] for each in registrations()) else None


def _must(lab: Hooks, call: str, given: Mapping[str, Any], **options: Any) -> None:
    done = asked(lab, call, given, **options)
    if not done.yes:
        raise FaultError(f"the hook for {given['kind']} did not {call}: {done.says}")


def asked(lab: Hooks, call: str, given: Mapping[str, Any], **options: Any) -> Called:
    """One call of the program for this kind. Raises LabError where the file names none."""
    hook = lab.hook(given["kind"])
    question = {
        "call": call,
        **given,
        "links": [[_called(lab, a), _called(lab, b)] for a, b in given["links"]],
        "ttl_seconds": float(hook.ttl),
    }
    log = _logs(lab, given["run"]) / LOG
    words = hook.words(call)
    return calling.call(words, question, within=float(hook.within), folder=lab.hooks_folder, log=log, **options)


def _called(lab: Hooks, host: str) -> str:
    """A host as the target's file calls it."""
    there = lab.wiring[host]
    return host if there.kind == "node" else f"clients of zone {there.zone}"


def _note(lab: Hooks, given: Mapping[str, Any]) -> Path:
    """Where it is written down which call is under way."""
    return lab.folder / "calls" / f"{given['run']}-{given['id']}.json"


def _logs(lab: Hooks, run: str) -> Path:
    """Those of the run, where it is one of this machine's; else those of the target."""
    found = [each.ledger.parent / "logs" for each in registrations() if each.run == run]
    return next((folder for folder in found if folder.is_dir()), lab.folder / "logs")


# ---- what is offered --------------------------------------------------------------------------------------

EFFECTS = {
    NodeKill: "it does not answer, and the others have it as a member no more; later it answers and is a member",
    NodeStop: "it does not answer, and the others have it as a member no more; later it answers and is a member",
    NodePause: "its port takes connections, and neither we nor its neighbours get an answer from the node",
    ZonePowerLoss: "none of them answers, and the others have none as a member; later they answer and are members",
    NetworkDrop: "nodes that are asked for each other get no answer; those that are not touched do",
    NetworkHang: "nodes that are asked for each other get no answer; those that are not touched do",
    NetworkRefuse: "nodes that are asked for each other get no answer; those that are not touched do",
}
"""What others see of each kind."""


def hooked(
    fault: Kind, aim: Aim, own: Callable[[Evidence], Evidence], *, needs: tuple[str, ...] = (), **parameters: Any
) -> Means:
    """One call for all of them."""
    given = {
        "id": aim.id,
        "kind": fault.kind,
        "nodes": list(aim.nodes),
        "links": [list(link) for link in sorted(aim.links)],
        "parameters": parameters,
    }

    def both(run: str) -> tuple[Reversible, ...]:
        whole = {"run": run, **given}
        return (Reversible(Move(INJECT, whole), Move(UNDO, whole)),)

    def read(lab: Hooks) -> tuple[Reversible, ...]:
        return both(lab.run)

    moves = both("the run's name")
    return Means(moves, needs, read=read, evidence=lambda kind: Believed(own(kind), given))  # type: ignore[arg-type]


def on_nodes(fault: Kind, aim: Aim) -> Means:
    """Whole nodes, dead or standing still."""
    return hooked(fault, aim, lambda _: NodeEffects(aim.nodes, paused=isinstance(fault, NodePause)))


def power_loss(fault: ZonePowerLoss, aim: Aim) -> Means:
    """``returning``: the nodes by turn of their return. What a disk loses nobody sees there."""
    topology = aim.scene.topology
    turns, gap = fault.returning(topology), float(fault.return_gap)
    needs = ("disks",) if topology.disks is not None else ()
    return hooked(fault, aim, lambda _: NodeEffects(aim.nodes), needs=needs, returning=turns, return_gap_seconds=gap)


def on_links(fault: OnLinks, aim: Aim) -> Means:
    """The kind's own evidence: nodes are asked for one another there. Raises Lacking where nothing would show it."""
    pairs = (pairs_opened if isinstance(fault, NetworkRefuse) else pairs_both)(aim.wiring, aim.links)
    _refuse_unseen(aim, pairs)
    return hooked(fault, aim, lambda own: own)


def _refuse_unseen(aim: Aim, pairs: Sequence[Pair]) -> None:
    for source, node in pairs:
        if not aim.wiring.answers(source, node):
            raise Lacking(
                f"nothing would show what clients of zone {aim.wiring[source].zone} get from {node}",
                remedy="choose links between nodes alone, for example by zone.partition",
            )


for _kind, _make in (
    (NodeKill, on_nodes),
    (NodeStop, on_nodes),
    (NodePause, on_nodes),
    (ZonePowerLoss, power_loss),
    (NetworkDrop, on_links),
    (NetworkHang, on_links),
    (NetworkRefuse, on_links),
):
    PROVIDER.carries_out(
        _kind,
        mechanism=MECHANISM,
        undoing=UNDOING,
        needs=(f"{HOOK}{_kind.kind}",),
        proof=EFFECTS[_kind],
        differs="what that program does is its owners' to say",
    )(_make)


# ---- what is believed -------------------------------------------------------------------------------------


class Believed:
    """The evidence ``own``, and beside it what the program says: proven is what both say.

    A word alone proves nothing, and against the program's own word nothing is proven either. After its ttl, by which
    the program has undone the fault, nothing is in effect, whatever is seen.
    """

    def __init__(self, own: Evidence, given: Mapping[str, Any]) -> None:
        self._own, self._given = own, given
        self.effect_deadline, self.gone_deadline = own.effect_deadline, own.gone_deadline
        self.held_deadline, self.holds = own.held_deadline, own.holds
        self._began: float | None = None
        self._last: dict[str, tuple[float, Called]] = {}
        self._asking = threading.Lock()
        self._closed = threading.Event()

    def beside(self, links: frozenset[Pair], nodes: frozenset[str]) -> None:
        self._own.beside(links, nodes)

    def before(self, lab: Lab) -> Look:
        look = self._with(lab, self._own.before(lab), "in_effect", wanted=False)
        self._last.clear()
        self._began = time.monotonic()
        return look

    def in_effect(self, lab: Lab) -> Look:
        return self._with(lab, self._own.in_effect(lab), "in_effect")

    def held(self, lab: Lab) -> Look:
        return self._with(lab, self._own.held(lab), "in_effect")

    def still(self, lab: Lab) -> Look | None:
        look = self._own.still(lab)
        return None if look is None else self._with(lab, look, "in_effect", fresh=GLANCED_SECONDS)

    def suspect(self, pairs: Sequence[Pair]) -> None:
        self._own.suspect(pairs)

    def gone(self, lab: Lab) -> Look:
        return self._with(lab, self._own.gone(lab), "gone")

    def close(self) -> None:
        """A call that nobody waits for any more is ended."""
        self._closed.set()
        self._own.close()

    def _with(self, lab: Any, look: Look, call: str, *, wanted: bool = True, fresh: float | None = None) -> Look:
        """The look, with the program's word on it, no older than ``fresh`` s. ``wanted``: whether it is to say yes."""
        probes = [self._word(lab, call, wanted, AGAIN_SECONDS if fresh is None else fresh)]
        if call == "in_effect" and wanted and (over := self._over(lab)) is not None:
            probes.append(over)
        well = all(probe.ok for probe in probes)
        says = look.says if well else f"{look.says}; {'; '.join(f'{p.what}: {p.measured}' for p in probes if not p.ok)}"
        return Look(look.proven and well, says, [*look.probes, *probes])

    def _word(self, lab: Hooks, call: str, wanted: bool, fresh: float) -> Probe:
        done = self._asked(lab, call, fresh)
        measured = "yes" if done.yes else "no" if done.no else f"it failed, {done.says}"
        ok = done.yes if wanted else done.no
        return Probe(f"reported by the hook: {call}", "yes" if wanted else "no", measured, ok)

    def _asked(self, lab: Hooks, call: str, fresh: float) -> Called:
        """Its answer, no older than ``fresh`` seconds; one call at a time."""
        with self._asking:
            at, last = self._last.get(call, (float("-inf"), None))
            if last is not None and time.monotonic() - at <= fresh:
                return last
            given = {"run": lab.run, **self._given}
            try:
                done = asked(lab, call, given, over=self._closed.is_set)
            except ChaosError as error:
                done = Called(None, said(error))
            self._last[call] = time.monotonic(), done
            return done

    def _over(self, lab: Hooks) -> Probe | None:
        """A sign against it where its time is over; None: it is not."""
        ttl = lab.hook(self._given["kind"]).ttl
        if self._began is None or (late := time.monotonic() - self._began - float(ttl)) <= 0:
            return None
        return Probe("the hook's ttl", f"not over: {ttl.text}", f"over for {late:.0f} s", False)
