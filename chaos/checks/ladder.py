"""One phase's recovery on one timeline: what happened when after its first command, as steps that can be asserted.

in effect → first user impact → node left → leader elected → primaries promoted → first good write of every shard →
objective regained → green → latency back to baseline (what is elsewhere called time to impact, to detect, to fail over,
to recover). Every step counts from the phase's first command (a fault, an action or an undo) and is watched to the
phase's end, and beyond it for as long as nothing is commanded.

A run with failover controllers has three steps more: a controller noticed, decided, and its last step was in effect.

* A step that was not reached is censored, "> T", and never averaged; one that cannot be known (nobody could be asked,
  too few arrivals) has no value.
* What was never lost is back after 0 s: a leader that did not change, primaries that stayed, a cluster that stayed
  green. But a leader or a primary that sits on a node which the fault hits and stays there has not moved: "> T".
* Events of the cluster are dated by the sample that saw them, so they are late by up to the time since the sample
  before (``resolution`` in the evidence, about 1 s): a "<=" is never met by that, only missed. Where nobody had
  answered for more than 10 s before the event, it has no value.
* The first good write of a shard ends its last gap without a good write (the failover gap). A gap counts when it is
  longer than chance explains: 1 s, or where shards are many or writes few, so long that a shard without a fault has
  one that long with probability 1e-6 only. The last and not the longest, as with bad windows: a lull is no recovery.
  Of listed arrivals only the time in which writes were due counts.
* Latency is back when the last window is over in which significantly more than 1 % of the arrivals took longer than
  1.25 times the healthy phases' p99; unanswered ones took longer than any.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from chaos.base import ids, text
from chaos.checks import during, evidence, failovers, latency, recovered, regained
from chaos.checks.arrivals import Arrivals, ranked
from chaos.checks.check import Check
from chaos.checks.good import FEWEST
from chaos.checks.measure import Bound, Measure
from chaos.checks.movement import BLIND
from chaos.checks.prospect import Prospect
from chaos.checks.record import SECOND, Bools, Expected, Ints, Record, Span, per_window, windows
from chaos.checks.semantics import number_of_shards
from chaos.checks.timeline import Ladder
from chaos.checks.trial import (
    Altered,
    Mutation,
    Trial,
    five_seconds_without_an_answer,
    green_much_later,
    lost_once_more_later,
    never_green_again,
    red_once_more,
)
from chaos.checks.words import Words
from chaos.history.events import (
    ActionCommand,
    ActionDone,
    ClusterLeader,
    DuringBegun,
    FaultCommand,
    FaultGone,
    FaultUndo,
    NodeLeft,
)
from chaos.history.format import Outcome
from chaos.opensearch.routing import default_routing_shards, shard_of

TITLES = {
    "in_effect": "in effect",
    "impact": "first user impact",
    "noticed": "controller noticed",
    "decided": "controller decided",
    "acted": "controller's step in effect",
    "node_left": "node left",
    "leader_elected": "leader elected",
    "primaries_promoted": "primaries promoted",
    "first_writes": "first good write of every shard",
    "regained": "objective regained",
    "green": "green",
    "latency": "latency back to baseline",
}
OF_HARM = ("impact", "node_left")
"""Steps that come of harm only."""
DELTA = 0.25
"""Latency is back to the baseline within this share."""
GAP = 1.0
"""Seconds without a good write of a shard that count at least."""
GAP_CHANCE = 1e-6


# -- the steps -----------------------------------------------------------------------------------


def in_effect(ladder: Ladder) -> Measure:
    """When all faults of the phase were in effect; without one, when what was undone was gone, an action done, or what
    others did was over."""
    record, span = ladder.record, ladder.span
    own = [fault for fault in evidence.faults(record) if fault.phase == span.name]
    if own:
        if any(each.in_effect is None or (each.stages.get("effect") or {}).get("proven") is not True for each in own):
            return Measure.missing("seconds", "not every fault of the phase was proven to be in effect")
        return ladder.reached(max(int(fault.in_effect or 0) for fault in own), "all faults of the phase are proven")
    undone = {event.fault for event in record.seen(FaultUndo, span=span)}
    gone = [event.t for event in record.seen(FaultGone) if event.fault in undone]
    if undone:
        if len(gone) < len(undone):
            return Measure.missing("seconds", "not every fault that was undone is known to be gone")
        return ladder.reached(max(gone), "what was undone is gone")
    asked = {event.action for event in record.seen(ActionCommand, span=span)}
    if not asked and (waited := during.of_phase(record, span)) is not None:
        if waited.over is None or waited.over.ok is not True:
            return Measure.missing("seconds", "what was waited for did not come to its end")
        return ladder.reached(waited.over.t, "what was waited for is over")
    done = [event.t for event in record.seen(ActionDone) if event.action in asked and event.ok is True]
    if len(done) < len(asked):
        return Measure.missing("seconds", "not every action of the phase came through")
    return ladder.reached(max(done), "the action is done")


def impact(ladder: Ladder) -> Measure:
    """The first arrival that was not good in the first bad window of any operation (checks/regained.py)."""
    record, found = ladder.record, []
    for op in record.operations:
        if len(record.in_phase(op.name, ladder.span)) < FEWEST:
            return Measure.missing("seconds", f"fewer than {FEWEST} {op.name}s in the phase")
        inside, beyond = ladder.watch.frames(record.window(op.name))
        frames = [*inside, *beyond]
        alpha = regained.alpha_of(len(frames))
        counts = regained.failures(record, op.name, frames)
        bad = np.flatnonzero(regained.lost(record, op.name, frames, counts, alpha))
        if len(bad):
            start, end = frames[int(bad[0])]
            part = record.arrivals[op.name]
            hit = part.intended[(part.intended >= start) & (part.intended < end) & ~part.good]
            found.append((int(hit[0]) if len(hit) else start, op.name))
    if not found:
        return ladder.not_reached("no bad window: users did not notice")
    at, name = min(found)
    return ladder.reached(at, f"the first {name} that was not good")


def node_left(ladder: Ladder) -> Measure:
    """When the first node was out of the cluster: that is when the cluster noticed."""
    # those that left at one moment have no order but their names'
    left = sorted(ladder.seen_during(NodeLeft), key=lambda event: (event.t, str(event.node)))
    if not left:
        return ladder.not_seen("no node left the cluster")
    names = list(dict.fromkeys(str(event.node) for event in left))
    last = (left[-1].t - ladder.watch.trigger) / SECOND
    says = text.listed(names) + (f"; the last after {text.seconds(last)}" if len(names) > 1 else "")
    return ladder.dated(left[0].t, says, nodes=names, last=last)


def leader_elected(ladder: Ladder) -> Measure:
    """Since when there was a leader without a break."""
    known = ladder.seen_before(ClusterLeader)
    if not known:
        return Measure.missing("seconds", "who led before is not in the history")
    leader = known[-1].leader
    now, since, elected = leader, ladder.watch.trigger, None
    for event in ladder.seen_during(ClusterLeader):
        t, name = event.t, event.leader
        if name is None:
            since = t
        elif name != leader or ladder.answered(since, t):  # the same one, and nobody had been asked: no election
            elected = t
        leader, now = name or leader, name
    if now is None:
        return ladder.not_seen("without a leader at the end of the watch")
    if elected is not None:
        return ladder.dated(elected, f"{now} leads", leader=now)
    if ladder.blind() > BLIND:
        return ladder.unseen(ladder.blind())
    if now in ladder.concerned:
        return ladder.not_reached(f"{now}, which the fault hits, stayed the leader")
    return ladder.not_needed(f"{now} stayed the leader")


def primaries_promoted(ladder: Ladder) -> Measure:
    """When the last shard that lost its primary had one again."""
    known = ladder.before("cluster.primary")  # as lines: one without its shard must fail, and not count as no shard
    if not known:
        return Measure.missing("seconds", "where the primaries were is not in the history")
    home = {(event["index"], event["shard"]): event.get("node") for event in known}
    now, moved = dict(home), {}
    for event in ladder.during("cluster.primary"):
        key = (event["index"], event["shard"])
        first = now.get(key) is None and key not in home and key not in moved  # of an index that was made meanwhile
        now[key] = event.get("node")
        if not first:
            moved[key] = int(event["t"])
    without = sorted(str(shard) for (_, shard), node in now.items() if node is None)
    stuck = sorted(
        str(key[1]) for key, node in now.items() if key in home and key not in moved and node in ladder.concerned
    )
    if without or stuck:
        words = [f"shard {text.listed(without)} without a primary at the end of the watch"] if without else []
        words += [f"the primary of shard {text.listed(stuck)} stayed on a node that the fault hits"] if stuck else []
        return ladder.not_seen("; ".join(words), shards=[*without, *stuck])
    if moved:
        at = max(moved.values())
        return ladder.dated(at, f"{text.plural(len(moved), 'shard')} got another primary", shards=len(moved))
    if ladder.blind() > BLIND:
        return ladder.unseen(ladder.blind())
    return ladder.not_needed("no primary was lost")


def writes_that_count(shards: int) -> float:
    """Writes in a row to other shards that are no chance: they go to one of ``shards`` each, evenly."""
    return 0.0 if shards < 2 else math.log(GAP_CHANCE) / math.log1p(-1 / shards)


def gap_that_counts(shards: int, rate: float, objective: float) -> float:
    """Seconds without a good write that are no chance."""
    return max(GAP, writes_that_count(shards) / rate) + objective


def waited(due: Ints, start: int, end: int, shards: int) -> float:
    """Seconds of a gap (ns) in which a shard lacked writes, after each that was ``due`` (ns, of all) GAP at most.

    0 where so few were due that chance explains the gap.
    """
    inside = due[(due >= start) & (due < end)]
    if len(inside) <= writes_that_count(shards):
        return 0.0
    return float(np.minimum(np.diff(np.array([start, *inside, end])) / SECOND, GAP).sum())


def first_writes(ladder: Ladder) -> Measure:
    """When the last shard had a good write again after its longest gap (the failover gap)."""
    record, watch = ladder.record, ladder.watch
    at_a_rate = [op for op in record.writers if op.rate > 0 and op.index is None]
    if not at_a_rate:
        return Measure.missing("seconds", "the load has no writes at a rate")
    write = max(at_a_rate, key=lambda op: (op.items == 1, op.rate))  # of several the one that says most of each shard
    if write.items > 1:
        return Measure.missing("seconds", "a bulk goes to all shards at once, so none says which shard took no writes")
    if len(record.in_phase(write.name, ladder.span)) < FEWEST:
        return Measure.missing("seconds", f"fewer than {FEWEST} writes in the phase")
    shards, routing = _routing(record)
    longest = gap_that_counts(shards, write.rate, write.good_within)
    frames = windows(watch.trigger, watch.horizon, record.window(write.name))
    scheduled, failed = regained.failures(record, write.name, frames)
    # a shard that is out takes its share of the writes along: elsewhere no id needs to be hashed
    hit = (scheduled == 0) | (failed > np.maximum(0, 0.5 * scheduled / shards))
    hit = np.flatnonzero(hit & ~record.quiet(write.name, frames))
    if not len(hit):
        return ladder.not_needed("no shard's writes were interrupted")
    slack = int((2 * longest + 2 * record.window(write.name)) * SECOND)
    begin = max(watch.trigger, frames[int(hit[0])][0] - slack)
    stop = min(watch.horizon, frames[int(hit[-1])][1] + slack)
    rows = []
    good = _good_writes(record.arrivals[write.name], begin, stop, shards, routing, record.stride)
    due = np.sort(record.arrivals[write.name].between(begin, stop).intended) if write.times else None
    for shard, ends in enumerate(good):
        edges = np.concatenate([[begin], ends[(ends > begin) & (ends < stop)], [stop]])
        gaps = np.diff(edges) / SECOND
        if due is not None:  # listed arrivals pause, and come more often and less
            pairs = zip(edges[:-1].tolist(), edges[1:].tolist(), gaps.tolist(), strict=True)
            gaps = np.array([gap if gap <= longest else waited(due, a, b, shards) for a, b, gap in pairs])
        if len(counting := np.flatnonzero(gaps > longest)):
            rows.append((int(edges[int(counting[-1]) + 1]), shard, float(gaps[counting].max())))
    shown = [{"shard": shard, "at": record.since_start(at), "gap": gap} for at, shard, gap in rows]
    more = {"shards": shown, "gap_that_counts": longest, "number_of_shards": shards}
    open_still = sorted(shard for at, shard, _ in rows if at >= stop)
    if open_still:
        listed = text.listed([str(shard) for shard in open_still])
        return ladder.not_reached(f"no good write of shard {listed} until the watch ended", **more)
    if not rows:
        return ladder.not_needed("no shard was without a good write for longer than chance")
    at, shard, gap = max(rows)
    says = f"{len(rows)} of {shards} shards were interrupted; the last is shard {shard}, for up to {text.seconds(gap)}"
    found = ladder.reached(at, says, **more)
    if (watch.horizon - at) / SECOND <= longest:
        return replace(found, bound=Bound.AT_LEAST, says=f"{says}; the watch ended too soon after it")
    return found


def _routing(record: Record) -> tuple[int, int]:
    event = record.first("index.routing")
    if event is not None:
        return int(event["shards"]), int(event["routing_shards"])
    shards = number_of_shards(record)
    return shards, default_routing_shards(shards)


def _good_writes(writes: Arrivals, begin: int, stop: int, shards: int, routing: int, stride: int) -> list[Ints]:
    """For each shard, when its good writes were answered, in order. ``stride``: see :mod:`chaos.base.ids`."""
    kept: list[tuple[Ints, Ints]] = []
    for piece in writes.pieces():
        answered = piece.end
        mine = piece.good & (answered > begin) & (answered < stop)
        if mine.any():
            kept.append((answered[mine], piece.k[mine].astype(np.int64) * stride))
    if not kept:
        return [np.empty(0, np.int64)] * shards
    ends, numbers = (np.concatenate(each) for each in zip(*kept, strict=True))
    where = np.fromiter((shard_of(ids.write_id(k), shards, routing) for k in numbers.tolist()), np.int64, len(numbers))
    return [np.sort(ends[where == shard]) for shard in range(shards)]


def regained_all(ladder: Ladder) -> Measure:
    """The objective of the operation that came back last."""
    return _slowest(ladder, lambda op: regained.measure(ladder.record, op, ladder.span))


def green(ladder: Ladder) -> Measure:
    """The end of the last stretch in which the cluster was not green."""
    watch = ladder.watch
    blind = ladder.blind()
    if blind > BLIND:
        return ladder.unseen(blind)
    found = recovered.since(ladder.record, watch.trigger, watch.horizon, watch.what)
    if found.value is None:
        return found
    if found.bound is not Bound.EXACT:
        return ladder.not_reached("not green at the end of the watch")
    if found.value == 0:
        return ladder.not_needed("green all the time")
    return ladder.dated(watch.trigger + round(found.value * SECOND), "green")


def latency_back(ladder: Ladder) -> Measure:
    """The end of the last window in which too many arrivals took longer than the baseline."""
    record = ladder.record

    def of(op: str) -> Measure:
        part = record.arrivals[op]
        healthy = [record.in_phase(op, span) for span in record.healthy]
        number = sum(len(each) for each in healthy)
        if number < latency.needed(0.99):
            return Measure.missing("seconds", f"no healthy phase with enough {op}s to take a baseline from")
        latencies = lambda: (piece.latency for each in healthy for piece in each.pieces())  # noqa: E731
        (baseline,) = ranked(latencies, [latency.rank(number, 0.99)])
        if not math.isfinite(baseline):
            return Measure.missing("seconds", f"more than 1 % of the healthy phases' {op}s had no answer")
        limit = (1 + DELTA) * baseline

        def bad(frames: list[tuple[int, int]], alpha: float) -> Bools:
            if not frames:
                return np.empty(0, np.bool_)
            near = part.between(frames[0][0], frames[-1][1])
            slow = near.with_good((near.latency <= limit) | regained.of_later_phase(record, near))
            return regained.are_bad(*per_window(slow, frames), 0.01, alpha) & ~record.quiet(op, frames)

        words = ("never above the baseline", "still above the baseline")
        return regained.until_good(record, op, ladder.span, bad, *words)

    return _slowest(ladder, of)


def _slowest(ladder: Ladder, of: Callable[[str], Measure]) -> Measure:
    """The latest of all operations, as far as it is known: censored when that one, or any other, is."""
    found = {op.name: of(op.name) for op in ladder.record.operations}
    missing = next((each for each in found.values() if each.value is None), None)
    if missing is not None or not found:
        return missing or Measure.missing("seconds", "the load has no operations")
    name = max(found, key=lambda each: (found[each].value or 0.0, found[each].bound is not Bound.EXACT))
    slowest = found[name]
    value = slowest.value or 0.0
    bound = slowest.bound
    if bound is Bound.EXACT and any(each.bound is not Bound.EXACT for each in found.values()):
        bound = Bound.AT_LEAST
    at = None if bound is Bound.MORE_THAN else ladder.watch.trigger + round(value * SECOND)
    own = {op: {"value": each.value, "bound": each.bound.value} for op, each in found.items()}
    more = {"at": ladder.record.since_start(at), **ladder._from(), "operations": own}
    return Measure(value, "seconds", f"{name}s: {slowest.says}", bound, more)


_STEPS: dict[str, Callable[[Ladder], Measure]] = {
    "in_effect": in_effect,
    "impact": impact,
    "noticed": failovers.noticed,
    "decided": failovers.decided,
    "acted": failovers.acted,
    "node_left": node_left,
    "leader_elected": leader_elected,
    "primaries_promoted": primaries_promoted,
    "first_writes": first_writes,
    "regained": regained_all,
    "green": green,
    "latency": latency_back,
}
NAMES = tuple(_STEPS)


def measure(record: Record, span: Span, name: str) -> Measure:
    """One step of one phase, as an expectation sees it; without a value where nothing was commanded."""
    if not record.triggers(span):
        return Measure.missing("seconds", "nothing was commanded in this phase, so there is no start to count from")
    return _STEPS[name](Ladder.of(record, span))


def harms(record: Record, span: Span) -> bool:
    """Whether anything of the phase takes something away from the cluster, or all that it does is give it back."""
    actions = {event.action_kind for event in record.seen(ActionCommand, span=span)}
    return bool(record.seen(FaultCommand, DuringBegun, span=span) or "decommission" in actions)


def table(record: Record) -> dict[str, Any]:
    """phase → trigger and steps, for the phases in which something was commanded.

    Harm that did not come of a phase that only gives back is no step that was not reached: it has no value. A step is
    ``needed`` or not: a leader that stayed need not be elected, and where users had no harm, or theirs was over without
    it, no node needs to leave and no controller to act; nor need it be green while the fault holds.
    """
    found = {}
    for span in record.spans:
        if not record.triggers(span):
            continue
        ladder = Ladder.of(record, span)
        harmless = not harms(record, span)
        steps = []
        measured = {
            name: step(ladder)
            for name, step in _STEPS.items()
            if name not in failovers.STEPS or failovers.planned(record)
        }
        back = measured["regained"].value is not None and measured["regained"].bound is Bound.EXACT
        for name, each in measured.items():
            needed = each.evidence.get("needed", True)
            spared = name in (*OF_HARM, *failovers.STEPS) and (back or harmless)
            held = name == "green" and back and not harmless  # the copies of who is away are away as long
            if each.bound is Bound.MORE_THAN and (name == "impact" or spared or held):
                needed = False
            if harmless and name in OF_HARM and each.bound is Bound.MORE_THAN:  # nobody waits for it
                each = Measure.missing("seconds", each.says)
            steps.append(
                {
                    "name": name,
                    "title": TITLES[name],
                    "at": each.evidence.get("at") if each.value is not None else None,
                    "after": each.value,
                    "bound": each.bound.value,
                    "reached": each.value is not None and each.bound is Bound.EXACT,
                    "needed": needed,
                    "says": each.says,
                }
            )
        found[span.name] = {
            "trigger": ladder.watch.what,
            "trigger_at": record.since_start(ladder.watch.trigger),
            "steps": steps,
        }
    return found


def _measure(record: Record, wanted: Expected, span: Span) -> Measure:
    return measure(record, span, wanted.metric.removeprefix("recovery."))


OF_ALL_OPERATIONS = ("impact", "regained", "latency")
"""Steps that need enough arrivals of every operation."""


def foresee(prospect: Prospect) -> Iterator[str]:
    """Too few arrivals, no baseline, or a watch that ends before the bound could be shown."""
    step, rates = prospect.quantity.removeprefix("recovery."), prospect.rates or {}
    for op, rate in rates.items() if step in OF_ALL_OPERATIONS else ():
        yield from prospect.needs(FEWEST, rate, f"{op}s")
    needed = latency.needed(0.99)
    for op, rate in rates.items() if step == "latency" else ():
        if (before := (prospect.before or {}).get(op, rate * prospect.healthy)) < needed:
            lasts = f"{text.count(before)} {op}s come before the first command"
            yield f"{prospect.what} will be inconclusive: {lasts}, and {needed} are needed for a baseline"
    watch = prospect.watch.most
    yield from prospect.decides(watch, f"it is watched for {text.seconds(watch)}, until the next command")


def the_fault_took_seven_seconds(run: Altered) -> None:
    run.of_kind("fault.in_effect")[0]["t"] = run.moment("dead", 7)
    run.of_kind("fault.evidence", stage="effect")[0]["t"] = run.moment("dead", 7)


def users_noticed_nothing(run: Altered) -> None:
    for op in ("read", "write"):
        run.hit(op, "dead", outcome=Outcome.OK, seconds=0.01)


def the_controllers_never_noticed(run: Altered) -> None:
    run.drop("failover.evidence")


def the_controllers_decided_late(run: Altered) -> None:
    for event in run.of_kind("failover.step"):
        event["t"] = run.moment("dead", 9.9)


def the_step_never_took_effect(run: Altered) -> None:
    run.drop("failover.done")


def the_cluster_never_noticed(run: Altered) -> None:
    run.drop("cluster.node_left")


def the_cluster_noticed_late(run: Altered) -> None:
    for event in run.of_kind("cluster.node_left"):
        event["t"] = run.moment("dead", 9.9)


def nobody_was_elected(run: Altered) -> None:
    run.drop("cluster.leader", leader="a-cm")


def a_dead_leader_stayed(run: Altered) -> None:
    run.drop("cluster.leader", since=run.span("dead")[0])


def a_second_election(run: Altered) -> None:
    run.add("dead", 8.9, "cluster.leader", leader=None)
    run.add("dead", 11.9, "cluster.leader", leader="b-cm")


def a_shard_has_no_primary(run: Altered) -> None:
    run.of_kind("cluster.primary", node="a-data")[-1]["node"] = None


def the_primary_stayed_on_the_dead_node(run: Altered) -> None:
    run.drop("cluster.primary", since=run.span("dead")[0])


def promoted_late(run: Altered) -> None:
    run.of_kind("cluster.primary")[-1]["t"] = run.moment("dead", 9.9)


def one_shard_takes_no_writes_for_nine_seconds(run: Altered) -> None:
    run.hit("write", "dead", 1, 10, shard=2)


def latency_stayed_high(run: Altered) -> None:
    run.hit("write", "dead", 1.4, 20, share=0.2, outcome=Outcome.OK, seconds=0.09)


BROKEN_BY: dict[str, tuple[Mutation, ...]] = {
    "in_effect": (the_fault_took_seven_seconds,),
    "impact": (users_noticed_nothing,),
    "noticed": (the_controllers_never_noticed,),
    "decided": (the_controllers_decided_late,),
    "acted": (the_step_never_took_effect,),
    "node_left": (the_cluster_never_noticed, the_cluster_noticed_late),
    "leader_elected": (nobody_was_elected, a_dead_leader_stayed, a_second_election),
    "primaries_promoted": (a_shard_has_no_primary, the_primary_stayed_on_the_dead_node, promoted_late),
    "first_writes": (one_shard_takes_no_writes_for_nine_seconds,),
    "regained": (lost_once_more_later, five_seconds_without_an_answer),
    "green": (green_much_later, never_green_again, red_once_more),
    "latency": (latency_stayed_high,),
}


WANTED = {"green": ("<= 20s", "returned")}
"""Of a sound record, where it is another than of most steps."""
MEANS: dict[str, tuple[str, tuple[str, ...]]] = {
    "in_effect": (
        ("From the first command until the fault was proven to be in effect. This is our own time, not the cluster's."),
        ("failure-detection",),
    ),
    "impact": (
        "Until users noticed first. Late is good; never is best.",
        ("failure-detection", "client-retries", "headroom"),
    ),
    "noticed": (
        "Until a failover controller had evidence against a zone, by one kind at least.",
        ("zone-failover",),
    ),
    "decided": (
        ("Until a failover controller took a step, or would have. It waits until two kinds of evidence have lasted."),
        ("zone-failover",),
    ),
    "acted": (
        (
            "Until the cluster showed that the last step of a failover controller was in effect. A step is a change "
            "of the cluster's state, so it waits for a cluster manager, and for publications to nodes that do not "
            "answer."
        ),
        ("failure-detection", "three-managers"),
    ),
    "node_left": (
        "Until the cluster removed the first lost node. Until then requests that need it hang.",
        ("failure-detection", "file-health", "tcp-retries"),
    ),
    "leader_elected": (
        "Until there was a cluster manager again. Without one nothing is removed and nothing promoted.",
        ("failure-detection", "three-managers"),
    ),
    "primaries_promoted": (
        "Until every shard had an active primary again. Until then its writes wait.",
        ("failure-detection", "zone-failover", "replicas", "three-managers"),
    ),
    "first_writes": (
        "Until a write to every shard was good again.",
        ("failure-detection", "zone-failover", "client-retries"),
    ),
    "regained": (
        "Until the last bad second was over, for all operations.",
        ("failure-detection", "zone-failover", "balancer-probe", "client-retries"),
    ),
    "green": (
        "Until every copy of every shard was active again.",
        ("rejoin-sooner", "search-contexts", "retention-leases", "delayed-allocation", "recovery-speed"),
    ),
    "latency": (
        "Until latencies were what they had been. Caches are cold and copies catch up until then.",
        ("headroom", "recovery-speed", "zone-failover"),
    ),
}
"""Each with what it means, and what helps."""


CHECKS = tuple(
    Check(
        f"recovery.{step}",
        "duration",
        _measure,
        Words.of(
            missed=f"“{TITLES[step]}” took {{measured}}{{inside}}; wanted was {{want}}",
            question=f"“{TITLES[step]}” came in time{{inside}}",
            promise=f"“{TITLES[step]}”{{inside}}: {{want}}",
            short=f"recovery.{step}",
        ),
        group="recovery",
        late=True,
        known_by=regained.known_by,
        of_controllers=step in failovers.STEPS,
        of_acting=step == "acted",
        foresee=foresee,
        meaning=MEANS[step][0],
        helps=MEANS[step][1],
        tables={"ladder": table} if step == NAMES[0] else {},
        order=150,
        trial=Trial(*WANTED.get(step, ("<= 5s", "dead")), BROKEN_BY[step]),
    )
    for step in NAMES
)
