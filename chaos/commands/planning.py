"""``validate`` and ``plan``: what a file says, before anything starts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from chaos.base import text
from chaos.base.errors import InvalidInput
from chaos.commands.common import (
    DEFAULT_LAB,
    Definitions,
    Objectives,
    Overrides,
    TopologyOption,
    Uncontrolled,
    all_or_shipped,
    for_each,
    out,
    print_step,
    refuse_address,
    values_beside,
)
from chaos.commands.rehearsing import refuse_without


def validate(
    files: Annotated[
        list[Path],
        typer.Argument(help="Experiment or topology files, or folders of them.", callback=all_or_shipped),
    ],
    given_values: Overrides = None,
) -> None:
    """Check definitions; needs no cluster. Errors name file, line and column."""
    from chaos.commands import sides
    from chaos.commands.campaign_runs import loaded
    from chaos.definitions import load_topology, overriding
    from chaos.definitions.existing import load_existing
    from chaos.definitions.gameday import load_gameday
    from chaos.definitions.loading import load_rules, load_workload
    from chaos.definitions.upstream import load_case
    from chaos.definitions.varied import Varied
    from chaos.registry import PROVIDERS, load_experiment
    from chaos.run import notes
    from chaos.run.execution import offers_for

    found = [each for given in files for each in (_definitions_in(given) if given.is_dir() else [given])]
    overrides = overriding.parse(given_values or ())
    if not found:
        raise InvalidInput(f"no definitions in {', '.join(map(str, files))}", remedy="name a .yaml file or a folder")

    def check(file: Path) -> str:
        kind = _kind(file)
        if overrides and kind != "experiment":
            raise InvalidInput(f"{file}: a {kind}, and {overriding.OPTION} is of experiments", remedy="leave it out")
        if kind == "topology":
            return f"topology {load_topology(file).name}"
        if kind == "existing":
            return f"target {load_existing(file).written.name}"
        if kind == "upstream":
            return f"case {load_case(file).written.name}"
        if kind == "workload":
            return f"workload {load_workload(file).name}"
        if kind == "gameday":
            return (
                f"game day {load_gameday(file).name}, as far as its file tells; use: opensearch-chaos gameday validate"
            )
        if kind == "rules":
            return text.plural(len(load_rules(file)), "alert rule")
        if kind == "campaign":
            matrix = loaded(file)
            return f"campaign {matrix.file.name} of {text.plural(len(matrix.cells), 'cell')}"
        experiment = load_experiment(file, sides=True, overrides=overrides)
        said[file] = notes.of(experiment, experiment.seed, offers_for(experiment, PROVIDERS))
        if isinstance(experiment, Varied):
            sides.refuse_wrong(experiment)
            for side in experiment.sides:
                of_it = notes.of(side.experiment, side.experiment.seed, offers_for(side.experiment, PROVIDERS))
                said[file] += [f"side {side.name}: {note}" for note in of_it if note not in said[file]]
        unbounded = [each.text for each in experiment.expect if each.known_weakness and each.known_bound is None]
        known = f"; known weaknesses, unbounded: {', '.join(dict.fromkeys(unbounded))}" if unbounded else ""
        of_sides = f" with sides {', '.join(experiment.names)}" if isinstance(experiment, Varied) else ""
        return f"experiment {experiment.name}{of_sides}{known}"

    said: dict[Path, list[str]] = {}
    for file, what in zip(found, for_each(check, found), strict=True):
        out.print(f"{file}: valid {what}", markup=False)
        for note in said.get(file, ()):
            out.print(f"  note: {note}", markup=False)


def plan(
    experiments: Definitions,
    seed: Annotated[int | None, typer.Option(help="Instead of the experiment's own seed.", min=0)] = None,
    topology: TopologyOption = None,
    no_controller: Uncontrolled = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    objective: Objectives = None,
    given_values: Overrides = None,
    on: Annotated[
        Path | None,
        typer.Option(
            "--on",
            help="On a cluster that exists, by its file: who is meant, what is lacking, and what forbids it.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
    for_change: Annotated[
        bool,
        typer.Option(
            "--for-change",
            help="With --on: one page for those who decide whether it may be done there, in Markdown.",
        ),
    ] = False,
    fis: Annotated[
        bool,
        typer.Option(
            "--fis",
            help="With --on: AWS FIS makes each of its faults with every action skipped, and says whom it would hit.",
        ),
    ] = False,
) -> None:
    """Print every step with its inverse; needs no cluster and changes nothing.

    With --on it reads the cluster, and in AWS FIS what of ours is there already. With --fis it makes experiments of AWS
    FIS that do nothing, and deletes their templates.
    """
    from chaos.definitions import objectives, overriding
    from chaos.registry import GRAMMAR, PROVIDERS, load_experiment
    from chaos.run.execution import refuse_lacking

    refuse_address(on)
    if for_change:
        _refuse_for_change(on, as_json=as_json)
    if fis:
        refuse_without(on)
    controlled = not no_controller
    good = objectives.parse(objective or (), GRAMMAR.operations, streams=True)
    overrides = values_beside(given_values, seed=seed, topology=topology, no_controller=no_controller)
    if on is not None:
        overriding.refuse_topology(overrides)
    loaded = for_each(
        lambda file: load_experiment(
            file, topology=topology, controlled=controlled, good=good, sides=on is None, overrides=overrides
        ),
        experiments,
    )
    if on is not None:
        from chaos.commands.planning_on import plans_on

        done = plans_on(
            on,
            loaded,
            seed,
            as_json=as_json,
            for_change=for_change,
            controlled=controlled,
            topology=topology,
            fis=fis,
        )
        raise typer.Exit(int(done))
    print_plans(loaded, seed, as_json=as_json)
    plans = [each for experiment in loaded for each in (experiment, *_sides_of(experiment))]
    for_each(lambda experiment: refuse_lacking(experiment, PROVIDERS), plans)


def _sides_of(experiment: Any) -> list[Any]:
    return [side.experiment for side in getattr(experiment, "sides", ())]


def _refuse_for_change(on: Path | None, *, as_json: bool) -> None:
    if on is None:
        raise InvalidInput(
            "--for-change is of a cluster that exists: of a lab nobody has to decide",
            remedy="name its file: --on topologies/existing/NAME.yaml",
        )
    if as_json:
        raise InvalidInput("--for-change is a page, and --json is for programs", remedy="leave one of them out")


def _definitions_in(folder: Path) -> list[Path]:
    from chaos.definitions.loading import SUFFIXES

    return sorted(each for each in folder.rglob("*") if each.suffix in SUFFIXES and each.is_file())


def _kind(file: Path) -> str:
    """What a file says that it is; ``rules``: of alerts, as Prometheus reads them. Raises InvalidInput for one that
    cannot be read."""
    from chaos.definitions.source import Source

    data = Source.read(file, nulls=True).data
    if data.get("kind") == "PrometheusRule" or ("groups" in data and "apiVersion" not in data):
        return "rules"
    return str(data.get("kind", "experiment"))


def print_plans(
    experiments: list[Any],
    seed: int | None,
    *,
    as_json: bool = False,
    lab: Any = None,
    kind: str = DEFAULT_LAB,
    repeat: int | None = None,
) -> None:
    """Print them all. What cannot be had is refused after that, as a run would."""
    from chaos.commands import sides
    from chaos.definitions.varied import Varied
    from chaos.registry import PROVIDERS
    from chaos.run import space
    from chaos.run.execution import offers_for

    for experiment in experiments:
        first = seed if seed is not None else experiment.seed
        runs = experiment.times * len(experiment.sides) if isinstance(experiment, Varied) else repeat or 1
        records = space.of_record(experiment) * runs
        room = {"record": records.bytes} | ({} if lab else {"lab": space.of_lab(experiment, kind).bytes})
        _print_plan(experiment, first, room, offers_for(experiment, PROVIDERS, lab, kind), as_json=as_json)
        if isinstance(experiment, Varied) and not as_json:
            sides.refuse_wrong(experiment)
            for line in sides.lines(experiment, seed):
                out.print(f"  {line}", markup=False)
        if repeat is not None:
            out.print(f"  a series of {repeat} runs, seeds {first} to {first + repeat - 1}", markup=False)


def _requests(operation: Any) -> str:
    """What an operation's requests are, in words."""
    where = "" if operation.index is None else f" in {operation.index}"
    if operation.items == 1:
        return f"{operation.operation}{where}"
    by = f" by {operation.client.kind}" if operation.client is not None else ""
    return f"{operation.operation} of {operation.items} documents{by}{where}"


def _rolled(place: str | None, index: Any) -> str:
    """What an index with several indices under its name is, in words."""
    what = "a data stream" if index.rolled == "data_stream" else "an alias"
    when = "never rolled over"
    if (given := index.rollover) is not None:
        by = f"every {given.every.text}" if given.every is not None else f"at {given.documents} documents"
        when = f"rolled over {by}"
    return f"{place or 'its index'} is {what}, {when}"


def _sides_json(experiment: Any, seed: int) -> dict[str, Any]:
    """The sides of a plan as data: each with its own experiment in normal form; empty without sides."""
    from chaos.campaign.sides import order
    from chaos.commands import sides
    from chaos.definitions.varied import Varied, difference

    if not isinstance(experiment, Varied):
        return {}
    sides.refuse_wrong(experiment)
    return {
        "sides": [
            {
                "name": side.name,
                "changes": side.changes,
                "differences": difference(experiment.sides[0], side),
                "experiment": side.experiment.to_json(),
            }
            for side in experiment.sides
        ],
        "times": experiment.times,
        "order": [{"round": number, "side": name} for number, name in order(experiment.names, experiment.times, seed)],
        "about_seconds": sides.seconds(experiment),
    }


def _print_plan(experiment: Any, seed: int, room: dict[str, int], offers: Any, *, as_json: bool = False) -> None:
    """``room``: bytes that may be needed of the record's disk and of the state folder's, by what for."""
    from chaos.checks import defaults
    from chaos.commands import guarded
    from chaos.run import notes
    from chaos.run import plan as planning
    from chaos.run.space import size
    from chaos.targets import services

    steps, said = list(planning.steps(experiment, seed, offers)), notes.of(experiment, seed, offers)
    if as_json:
        plan = {"experiment": experiment.to_json(), "seed": seed, "steps": steps, "notes": said}
        plan |= _sides_json(experiment, seed)
        print(json.dumps(plan | {"room_bytes": room}, indent=1))
        return
    out.print(f"{experiment.name} on {experiment.topology.name}, seed {seed}", markup=False)
    for name, service in experiment.topology.services.items():
        out.print(f"  service: {name} is {services.kind(service).says}", markup=False)
    for operation in experiment.load.operations:
        stated = experiment.good_in_file.get(operation.name)
        whose = f" (given on the command line; the file says {stated.text})" if stated is not None else ""
        out.print(
            f"  load: {operation.name} {_requests(operation)} {operation.rate_text}, good within "
            f"{operation.good_within.text}{whose}, from zones {', '.join(experiment.client_zones)}",
            markup=False,
        )
    for place, index in experiment.load.places.items():
        if index.rolled is not None:
            out.print(f"  load: {_rolled(place, index)}", markup=False)
    for loop in experiment.load.closed:
        out.print(
            f"  load: {loop.name} {_requests(loop)}, {text.plural(loop.clients, 'client')} in a closed loop, from "
            f"zones {', '.join(experiment.client_zones)}",
            markup=False,
        )
    phase = None
    for step in steps:
        if step["phase"] != phase:
            phase = step["phase"]
            out.print(f"phase {phase}", markup=False)
        print_step(step)
    for expectation in experiment.expect:
        known = f" ({expectation.note})" if expectation.note else ""
        known += f" (allowed, because {expectation.because})" if expectation.because else ""
        out.print(f"  expect: {expectation.text} in {', '.join(expectation.phases) or 'the run'}{known}", markup=False)
    for line in guarded.lines(experiment):
        out.print(f"  {line}", markup=False)
    held = [f"{metric} = 0" for metric in defaults.foreseen(experiment.to_json(), segments=experiment.copies_segments)]
    out.print(f"  checked on every run: {', '.join([*held, 'no process ends unasked'])}", markup=False)
    for note in said:
        out.print(f"  note: {note}", markup=False)
    needed = ", ".join(f"{size(count)} for the {what}" for what, count in room.items())
    out.print(f"  room on disk, at most: {needed}", markup=False)
