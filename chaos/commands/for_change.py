"""``plan --on FILE --for-change``: one page for those who decide whether an experiment may be done to their cluster.

They know the cluster and not this suite. Whatever the page promises in figures is taken from what keeps the promise.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from chaos.base.text import listed, plural, printable
from chaos.checks.words import upper
from chaos.commands.guarded import guarded, words
from chaos.commands.planned import Planned, at_rung
from chaos.definitions.experiment import Controller
from chaos.definitions.hooks import Hook
from chaos.targets.existing.compare import Row

if TYPE_CHECKING:
    from chaos.definitions import Experiment, Phase

RUNG_SAYS = {
    "observe": "to look at it",
    "plan": "to look at it and to plan",
    "node": "to change one node that is not all of its zone",
    "zone": "to change a whole zone",
}


def page(made: Planned, command: str) -> str:
    """The page in Markdown. ``command``: what carries the experiment out."""
    parts = (_head, _expected, _done, _undone, _stopped, _limits, _forbidden)
    lines = [line for part in parts for line in part(made)] + list(_exactly(made, command))
    return "\n".join(printable(line.replace("\u00a0", " ")) for line in lines) + "\n"


# ---- what, where, when ---------------------------------------------------------------------------------------


def _head(made: Planned) -> Iterator[str]:
    experiment, file = made.experiment, made.target.written
    yield f"# Change: {experiment.name} on {file.name}"
    yield ""
    yield " ".join(experiment.description.split()) or "No description was written."
    yield ""
    yield (
        "This tests the cluster's availability: something is taken away on purpose, for a while, under a load of the "
        "test's own, and given back. It shows what users would notice."
    )
    yield ""
    yield "| | |"
    yield "|---|---|"
    where = ", ".join(map(str, file.addresses))
    yield f"| cluster | {file.identity.cluster_name} ({file.identity.cluster_uuid}), reached at {where} |"
    for zone, theirs in file.zones.names.items():
        names = [name for name, node in file.nodes.items() if node.zone == zone]
        yield f"| zone {zone}{f' ({theirs})' if theirs != zone else ''} | {', '.join(names) or 'no node'} |"
    yield f"| how long | {_how_long(experiment)} |"
    yield f"| permission | {_permission(made)} |"
    count = len(made.refused)
    verdict = f"forbidden, for {plural(count, 'reason')} (below)" if count else "nothing forbids it"
    yield f"| on {made.day} | **{verdict}** |"
    yield ""


def _how_long(experiment: Experiment) -> str:
    from chaos.load.driver import AHEAD_S
    from chaos.run import closing, loading

    most = float(experiment.guards.max)
    phases = min(sum(float(phase.longest) for phase in experiment.phases), most)
    before = loading.GREEN_SECONDS + loading.WARM_UP_LIMIT_SECONDS
    before += AHEAD_S if any(each.changes for each in experiment.load.operations) else 0
    return (
        f"{words(phases)} at most, and what it takes to prove each change; the test ends itself after {words(most)}. "
        f"Before that up to {words(before)} to get ready, after it up to {words(closing.SETTLE_SECONDS)} until the "
        "cluster is green"
    )


def _permission(made: Planned) -> str:
    allowed, file = made.target.rung_on(made.day), made.target.written
    until = f", until {file.until}" if file.until is not None and allowed == file.rung else ""
    return (
        f"needed is rung {made.needs} ({RUNG_SAYS[made.needs]}); {made.target.file} allows {allowed} "
        f"({RUNG_SAYS[allowed]}){until}"
    )


def _expected(made: Planned) -> Iterator[str]:
    """Why it is done."""
    from chaos.checks import plainly

    yield "What is expected of the cluster:"
    yield ""
    for each in made.experiment.expect:
        item: dict[str, Any] = {
            "metric": each.metric,
            "op": each.op,
            "target": each.text.removeprefix(each.metric).strip(),
            "title": each.text,
            "phase": None,
            "measured": None,
            "measured_text": "",
        }
        inside = f" (in {listed(list(each.phases))})" if each.phases else ""
        known = f". Known to fail today: {' '.join(each.known_weakness.split())}" if each.known_weakness else ""
        known += f" (no worse than {each.known_bound.text})" if each.known_bound is not None else ""
        known += f". More is allowed, because {each.because}" if each.because else ""
        yield f"* {plainly.promise(item)}{inside}{known}"
    yield ""


# ---- what is done --------------------------------------------------------------------------------------------


def _done(made: Planned) -> Iterator[str]:
    yield "## What is done, in this order"
    yield ""
    reached = {each.phase: each for each in made.reached}
    first = list(_of_its_own(made))
    yield from (f"{number}. {says}" for number, says in enumerate(first, 1))
    for number, phase in enumerate(made.experiment.phases, len(first) + 1):
        yield f"{number}. **{phase.name}**, {_lasts(phase)}."
        for says in _changes(made, phase):
            yield f"   * {says}"
        if (each := reached.get(phase.name)) is not None and (each.steps or each.hit or each.voteless):
            told = each.rows if each.hit or each.voteless else ()
            stays = "".join(f"; {_signed(row)}" for row in (*(row for step in each.steps for row in step.rows), *told))
            votes = f", {', '.join(each.voteless)} without a vote" if each.voteless else ""
            yield f"   * Worst case: {', '.join(each.hit) or 'no node'} hit{votes}{stays}."
    yield ""
    accepted = [each for each in made.target.written.accept_unavailable if made.day <= each.until]
    for one in accepted:
        yield f"Accepted as unavailable meanwhile: `{one.index}`, by {one.owner}, until {one.until}."
        yield ""


def _of_its_own(made: Planned) -> Iterator[str]:
    """What every run adds to a cluster: notes, an index, load."""

    file, topology, load = made.target.written, made.experiment.topology, made.experiment.load
    if file.notes is not None:
        yield (
            f"A hidden index, `{file.notes}`: each change is written down there before it is made. Taken back by: it "
            "is deleted, if the test made it."
        )
    copies = topology.shards * (topology.replicas + 1)
    yield (
        f"An index of the test's own, `{made.target.written.prefix}RUN-load`: "
        f"{plural(copies, 'copy', 'copies')} of shards, {plural(load.documents, 'document')}. "
        "Taken back by: it is deleted, by exactly this name."
    )
    rates = [f"{each.name} {each.rate_text}, good within {words(float(each.good_within))}" for each in load.operations]
    rates += [f"compare-and-set {load.cas.rate.text}"] if load.cas else []
    rates += [f"documents that are searched for {load.visibility.rate.text}"] if load.visibility else []
    caps = file.caps
    most = (
        "no load"
        if caps is None
        else f"at most {caps.requests.text}, {plural(caps.documents, 'document')} before it and "
        f"{plural(caps.copies, 'copy', 'copies')} of shards"
    )
    yield f"Load on that index alone, until the end: {'; '.join(rates)}. {made.target.file} allows {most}."
    if made.experiment.controller is not None:
        yield _controllers(made.experiment, made.experiment.controller)


def _controllers(experiment: Experiment, controller: Controller) -> str:
    """What they may do by themselves, at any time, and what takes it back."""
    from chaos.opensearch import canaries

    names, every = canaries.canaries(experiment.topology), controller.rotate_every
    may = [
        f"set weights so that another zone stands by{f' (every {words(float(every))})' if every else ''}",
        "decommission a zone that is not well, one at most, and take it in again",
        *(["have a cluster manager of the standby zone elected"] if controller.lead_from_standby else []),
    ]
    does = f"By themselves, at any time until the end, they may {listed(may)}"
    does = does if controller.act else "They change nothing else"
    back = f"they end, {'weights, zones and votes are put back, ' if controller.act else ''}these indices are deleted"
    return (
        f"Failover controllers of the test's own, in zones {listed(list(experiment.controller_zones))}: each asks "
        "every node some small questions a second, and writes to "
        f"{plural(len(names), 'hidden index', 'hidden indices')} of their own "
        f"({', '.join(f'`{name}`' for name in names)}; "
        f"{plural(canaries.COPIES * len(names), 'copy', 'copies')} of shards). {does}. Taken back by: {back}."
    )


def _lasts(phase: Phase) -> str:
    if phase.duration is not None:
        return words(float(phase.duration))
    if phase.during is not None:
        return f"until somebody else is done with it, at most {words(float(phase.during.within))}"
    if phase.until is None:
        return f"at most {words(float(phase.longest))}"
    stable = f" for {words(float(phase.until.stable))}" if phase.until.stable else ""
    return f"until the cluster is green{stable}, at most {words(float(phase.until.within))}"


def _changes(made: Planned, phase: Phase) -> Iterator[str]:
    """Each change of a phase with what takes it back."""
    if not made.mapped.known:
        yield "Not known: the cluster lacks who is meant (below)."
        return
    found = False
    for step in (each for each in made.steps if each["phase"] == phase.name):
        what, _, says = step["step"].partition(" ")
        if what == "undo":
            yield f"Taken back: {'everything that is in effect' if says == 'all' else says}."
        elif what in ("inject", "do"):
            yield f"{upper(says.partition(': ')[2])}{_means(step)}"
        elif step.get("inverse"):
            yield f"{upper(step['step'])}{_means(step)}"
        found = found or what in ("undo", "inject", "do") or bool(step.get("inverse"))
    if not found:
        yield "Nothing is changed."


def _means(step: Any) -> str:
    """Who is hit where only the moment tells, and what takes a change back."""
    if "provider" in step and step["provider"] is None:
        return ". Nothing can do this there (below)."
    inverse = step.get("inverse")
    back = [f"`{each}`" for each in inverse] if isinstance(inverse, list) else [inverse] if inverse else []
    who = f" Whom it hits is decided {step['resolved']}." if step.get("resolved") else ""
    return f".{who} Taken back by: {'; '.join(back) or 'nothing, it takes something back itself'}."


def _signed(row: Row) -> str:
    said = f"{row.what}: {row.says}"
    return f"**forbidden**, {said}" if row.forbids else said


# ---- how it ends ---------------------------------------------------------------------------------------------


def _undone(made: Planned) -> Iterator[str]:
    from chaos.history import controllers
    from chaos.run import keeper, recovering_on

    yield "## How it is undone, and how soon"
    yield ""
    yield "* At the end, and when it is stopped: whatever is still in effect is taken back at once, last first."
    yield (
        "* The test's process dies or falls silent: the keeper, a second process beside it, takes everything back "
        f"{words(keeper.SILENCE_SECONDS)} after it last heard of it, and tries for {words(keeper.PATIENCE_SECONDS)}."
    )
    yield (
        f"* Both are gone, with their machine: `opensearch-chaos recover --on {made.target.file}`, from any other, "
        f"takes everything back, after {words(recovering_on.watched_of(made.experiment))} of watching that the test "
        "is dead."
    )
    if made.experiment.controller is not None:
        yield (
            "* Failover controllers end before anything is taken back: with the test's process, or "
            f"{words(controllers.SILENT_SECONDS)} after it fell silent, or as soon as the keeper takes over."
        )
    for kind, hook in _by_hooks(made).items():
        yield (
            f"* {kind} is made and undone by a program of yours, `{' '.join(hook.words('undo'))}`: each call takes at "
            f"most {words(float(hook.within))}. It undoes by itself {words(float(hook.ttl))} after it made it."
        )
    yield (
        "* A value is put back only if it is still the test's. What somebody else has changed meanwhile is left, and "
        "named at the end."
    )
    yield ""


def _by_hooks(made: Planned) -> dict[str, Hook]:
    """The owners' programs that carry out faults of the experiment, by kind, as the file has them."""
    from chaos.run import plan

    steps = {step.get("fault"): step.get("provider") for step in made.steps}
    kinds = [
        each.params.made_of or each.params.kind
        for each in plan.faults(made.experiment)
        if steps.get(each.id) == "hooks"
    ]
    return {kind: hook for kind, hook in made.target.written.hooks.items() if kind in kinds}


def _stopped(made: Planned) -> Iterator[str]:
    from chaos.run import stopping

    guards = made.experiment.guards
    signals = listed([each.name for each in stopping.SIGNALS])
    yield "## Who can stop it, and how"
    yield ""
    yield f"* Whoever started it: Ctrl-C, or a signal to its process ({signals}). It takes everything back, and ends."
    yield "* Whoever may kill that process, in whatever way: the keeper takes everything back."
    if guards.stop_file is not None:
        yield f"* Whoever may make the file `{guards.stop_file}` on that machine: it ends as soon as that is there."
    yield (
        f"* Whoever may write `{made.target.file}` on that machine: with `rung: observe` the next change is not made, "
        "and it ends."
    )
    yield "* The cluster's owners, at any time: what they take back by hand stays as they left it."
    yield ""


def _limits(made: Planned) -> Iterator[str]:
    from chaos.run import plan

    yield "## When it stops by itself, and what it does not see"
    yield ""
    yield from (f"* It stops when {each}." for each in guarded(made.experiment))
    yield (
        "* It stops when the next change is not allowed any more. Before each, file and cluster are looked at again: "
        "it is this cluster, the file allows it, nobody left but those that are hit, one zone at most is hit, a "
        "majority of the voting nodes and a copy of every shard stay."
    )
    yield "* It stops when somebody else changes settings, weights or decommissions, or keeper or notes are lost."
    yield ""
    yield "It does not see, or not as users do:"
    yield ""
    yield from (f"* {each}" for each in plan.there(made.target))
    yield ""


# ---- what is decided -----------------------------------------------------------------------------------------


def _forbidden(made: Planned) -> Iterator[str]:
    yield "## What forbids it today"
    yield ""
    if not made.refused:
        yield "Nothing forbids it today."
    for where, row in made.refused:
        remedy = f". Remedy: {row.remedy}" if row.remedy else ""
        yield f"* {where}, {row.what}: {row.says}{remedy}"
    yield ""
    yield (
        "All of it is asked again when it begins; then also whether another test is under way, and whether a template "
        "of yours would catch the test's index. What the file would refuse at each rung:"
    )
    yield ""
    yield from (f"* {at_rung(each, made)}" for each in made.rungs)
    yield ""


def _exactly(made: Planned, command: str) -> Iterator[str]:
    from chaos.run import plan

    yield "## What exactly is decided on"
    yield ""
    yield (
        f"Digest of the experiment and of the nodes that it means: `{plan.digest(made.experiment)}`. A record of this "
        "very test has it as `hash` in its `plan.json`."
    )
    yield ""
    yield f"    {command}"
