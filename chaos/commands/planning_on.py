"""``plan --on FILE``: an experiment held against a cluster that exists. It reads only; nothing there is changed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaos.base.errors import Exit
from chaos.commands.common import out, print_step
from chaos.commands.planned import FAULTS, NEEDS, THE_CLUSTER, THE_FILE, Planned, at_rung
from chaos.commands.targets import SIGNS

if TYPE_CHECKING:
    from chaos.definitions import Experiment
    from chaos.definitions.existing import Existing
    from chaos.faults.offers import Offers
    from chaos.run.reaching import Reached


def plans_on(
    file: Path,
    experiments: Sequence[Experiment],
    seed: int | None,
    *,
    as_json: bool,
    for_change: bool = False,
    controlled: bool = True,
    topology: str | None = None,
    fis: bool = False,
) -> Exit:
    """Print the plan of each on the target of ``file``. USAGE where one of them could not begin today.

    ``for_change``: as pages for a change board. ``topology``: what they were loaded with instead of their own.
    ``fis``: faults by AWS FIS are tried there with their actions skipped.
    Raises InvalidInput where the file cannot be read or its cluster cannot be reached.
    """
    from chaos.commands import rehearsing
    from chaos.definitions.existing import load_existing, today
    from chaos.registry import PROVIDERS
    from chaos.run import reaching
    from chaos.targets.existing.seen import seen_of

    target = load_existing(file)
    day = today()
    seen = seen_of(target, shards=True)
    offers = reaching.offers_on(PROVIDERS, target.written)
    made = [planned(each, target, seen, each.seed if seed is None else seed, offers, day) for each in experiments]
    made = rehearsing.looked(made)
    if fis:
        made = [rehearsing.rehearsed(each) for each in made]
    if as_json:
        for each in made:
            print(json.dumps(each.to_json(), indent=1, ensure_ascii=False))
    elif for_change:
        from chaos.commands.for_change import page

        commands = [carries_out(each, controlled=controlled, topology=topology) for each in made]
        print("\n---\n\n".join(map(page, made, commands)), end="")
    else:
        for each in made:
            show(each)
    return Exit.USAGE if any(each.refused for each in made) else Exit.PASS


def planned(experiment: Experiment, target: Existing, seen: Any, seed: int, offers: Offers, today: date) -> Planned:
    """What it would be there, and what forbids it. Pure."""
    from chaos.definitions.detection import Detection
    from chaos.run import lasting, notes, on_target, plan, reaching
    from chaos.targets.existing import compare, mapping

    mapped = mapping.mapped(experiment.topology, target.written, seen)
    there = experiment.model_copy(update={"topology": mapped.topology})
    checks = compare.rows(target, seen, today)
    refused = [(THE_CLUSTER, row) for row in checks if row.forbids and row.what != "rung"]
    refused += [(NEEDS, row) for row in mapped.unmet]
    steps: list[Any] = []
    reached: list[Reached] = []
    needs = reaching.NODE
    said: tuple[str, ...] = ()
    if mapped.known:
        detection = Detection.of(seen.settings or {})
        reached = reaching.reached(there, target, seen, seed, offers, today)
        wiring = reaching.wiring_of(there, target.written)
        absent = {each.id for each in plan.faults(there) if not reaching.carried_out(each, there, seed, wiring, offers)}
        steps = [
            _without_means(step) if step.get("fault") in absent else step
            for step in plan.steps(there, seed, offers, wiring, detection)
        ]
        said = tuple(notes.of(there, seed, offers, wiring, detection))
        needs = reaching.needed_rung(reached, there)
        refused += [(f"phase {each.phase}", row) for each in reached for row in each.forbids]
    lacking = plan.lacking(experiment, offers)
    refused += [(FAULTS, compare.Row("no provider", compare.Sign.BLOCKS, why, "run it on a lab")) for why in lacking]
    rung = reaching.rung_row(target, needs, today)
    if rung.forbids:
        refused.append((THE_FILE, rung))
    refused += [(THE_FILE, row) for row in lasting.refused_ttls(there, target, offers)]
    refused += [(THE_FILE, row) for row in on_target.refused_ways(there, target)]
    refused += [(THE_CLUSTER, row) for row in on_target.refused_copies(target, seen)]
    refused += [(THE_FILE, row) for row in on_target.refused_caps(there, target)]
    rungs = reaching.at_rungs(reached if mapped.known else None, there, target)
    return Planned(
        there, target, mapped, steps, reached, [*checks, rung], needs, refused, rungs, seed, today, notes=said
    )


def carries_out(made: Planned, *, controlled: bool = True, topology: str | None = None) -> str:
    """The command that carries it out."""
    from chaos.run.spec import On, RunSpec

    on = On(file=made.target.file)
    return RunSpec(made.experiment, made.seed, on, topology=topology, controlled=controlled).command


def _without_means(step: Any) -> dict[str, Any]:
    """A step that nobody can carry out there: by which moves it would be made elsewhere is of no use."""
    return {key: step[key] for key in ("phase", "step", "fault", "targets", "links") if key in step} | {
        "provider": None
    }


def show(made: Planned) -> None:
    from chaos.commands import guarded

    file = made.target.written
    out.print(f"{made.experiment.name} on {file.name} ({made.target.file}), seed {made.seed}", markup=False)
    named = [f"{theirs} = {ours}" for theirs, ours in made.mapped.nodes.items() if theirs != ours]
    out.print(f"  nodes: {', '.join(named) if named else 'as the experiment calls them'}", markup=False)
    out.print("what the experiment needs of it", markup=False)
    for row in made.mapped.rows:
        out.print(f"  {SIGNS[row.sign.value]}  {row.what}: {row.says}", markup=False)
    for note in made.mapped.notes:
        out.print(f"  note: {note}", markup=False)
    reached = {each.phase: each for each in made.reached}
    phase = None
    for step in made.steps:
        if step["phase"] != phase:
            phase = step["phase"]
            out.print(f"phase {phase}", markup=False)
            _print_reach(reached[phase])
        print_step(step)
    for line in guarded.lines(made.experiment):
        out.print(f"  {line}", markup=False)
    for note in made.notes:
        out.print(f"  note: {note}", markup=False)
    for row in made.checks:
        if row.what == "foreign":
            remedy = f": {row.remedy}" if row.remedy else ""
            warning = "WARNING  " if row.sign.value == "warning" else ""
            out.print(f"{warning}foreign: {row.says}{remedy}", markup=False)
    if made.mapped.known and file.fis is not None:
        from chaos.commands.fis import priced

        if price := priced(made.experiment, made.target):
            out.print(f"AWS FIS: {price}", markup=False)
            out.print(f"  {file.fis.says}", markup=False)
    if file.domain is not None:
        out.print(f"domain {file.domain.name}: {file.domain.says}", markup=False)
    for tried in made.rehearsed:
        out.print(f"  tried with its actions skipped: {tried.fault}: {tried.says}", markup=False)
    out.print(f"rung: {made.needs} is needed", markup=False)
    for each in made.rungs:
        out.print(f"  {at_rung(each, made)}", markup=False)
    for where, row in made.refused:
        out.print(f"  REFUSED  {where}, {row.what}: {row.says}", markup=False)
        if row.remedy:
            out.print(f"           remedy: {row.remedy}", markup=False)
    count = len(made.refused)
    verdict = f"REFUSED  {count} reason{'s'[: count > 1]}" if count else "OK  nothing forbids it today"
    out.print(f"plan: {verdict}", markup=False)


def _print_reach(reached: Reached) -> None:
    """Who is hit in the worst case, and what stays."""
    if not (reached.steps or reached.hit or reached.voteless):
        return
    hit = ", ".join(reached.hit) or "no node"
    rungs = ", ".join(dict.fromkeys(step.rung for step in reached.steps))
    votes = f", {', '.join(reached.voteless)} without a vote" if reached.voteless else ""
    out.print(f"  hits at worst: {hit}{votes}{f' (rung {rungs})' if rungs else ''}", markup=False)
    told = reached.rows if reached.hit or reached.voteless else ()
    for row in (*(r for step in reached.steps for r in step.rows), *told):
        out.print(f"    {SIGNS[row.sign.value]}  {row.what}: {row.says}", markup=False)
