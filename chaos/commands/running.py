"""``run``: experiments, one after the other, or series of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from chaos.base.errors import SEVERITY, ChaosError, Exit, InvalidInput
from chaos.commands.common import (
    DEFAULT_LAB,
    Definitions,
    FailOnKnown,
    Home,
    LabKind,
    Objectives,
    Overrides,
    TopologyOption,
    Uncontrolled,
    ask_ready,
    for_each,
    on_known,
    out,
    print_verdict,
    refuse_address,
    say,
    say_error,
    values_beside,
)
from chaos.commands.planning import print_plans


def run(
    experiments: Definitions,
    out_folder: Annotated[Path, typer.Option("--out", help="Where run folders go.")] = Path("reports"),
    seed: Annotated[int | None, typer.Option(help="Instead of the experiment's own seed.", min=0)] = None,
    topology: TopologyOption = None,
    no_controller: Uncontrolled = False,
    on: Annotated[
        str | None,
        typer.Option("--on", help="Run on this lab (from `lab up`), or on the cluster of this file.", metavar="LAB"),
    ] = None,
    opensearch_home: Home = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop there.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the verdict only.")] = False,
    repeat: Annotated[
        int | None, typer.Option("--repeat", help="So many runs of each, judged together.", min=1, show_default=False)
    ] = None,
    of_kind: LabKind = None,
    objective: Objectives = None,
    given_values: Overrides = None,
    retry: Annotated[
        str | None,
        typer.Option(
            "--retry-inconclusive",
            help="Run an experiment that ends inconclusive once more; such runs may take so long together.",
            metavar="DURATION",
            show_default=False,
        ),
    ] = None,
    fail_on_known: FailOnKnown = False,
    side: Annotated[
        str | None,
        typer.Option("--side", help="Of an experiment with sides: one run of this one alone.", show_default=False),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            "--resume",
            help="Of an experiment with sides: go on with the runs of this folder.",
            metavar="FOLDER",
            show_default=False,
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="On a cluster whose file allows more than one node: do not ask first.")
    ] = False,
) -> None:
    """Run experiments; the worst outcome is the exit code. With --repeat: that of the series. An experiment with sides
    (vary): that of the comparison."""
    from chaos.base.console import Reporter
    from chaos.commands import sides
    from chaos.definitions import objectives, overriding
    from chaos.definitions.existing import is_existing
    from chaos.definitions.varied import Varied
    from chaos.observe.proof import problems
    from chaos.registry import GRAMMAR, PROVIDERS, load_experiment
    from chaos.run import retrying, space
    from chaos.run.execution import refuse_lacking
    from chaos.run.leftovers import refuse_leftovers, refuse_second_run
    from chaos.run.spec import On, RunSpec, carry_out
    from chaos.targets.labs import kinds

    refuse_address(on)
    kind = of_kind or DEFAULT_LAB
    if on is not None and of_kind is not None:
        raise InvalidInput("--lab is for a lab of its own, and --on names one that is there", remedy="leave one out")
    if on is not None and opensearch_home is not None:
        raise InvalidInput(f"lab '{on}' has its OpenSearch already: --opensearch-home is for a lab of its own")
    if dry_run and quiet:
        raise InvalidInput("--dry-run prints a plan and --quiet a verdict", remedy="leave one out")
    controlled = not no_controller
    good = objectives.parse(objective or (), GRAMMAR.operations, streams=True)
    overrides = values_beside(given_values, seed=seed, topology=topology, no_controller=no_controller)
    if on is not None and is_existing(on):
        overriding.refuse_topology(overrides)
    loaded = for_each(
        lambda file: load_experiment(
            file,
            topology=topology,
            controlled=controlled,
            good=good,
            sides=on is None or not is_existing(on),
            overrides=overrides,
        ),
        experiments,
    )
    of_side = _of_side(loaded, side, resume)
    if side is not None and repeat is not None:
        raise InvalidInput("--side makes one run, and --repeat a series", remedy="run all sides: leave both out")
    if retry is not None and repeat is not None:
        raise InvalidInput(
            "--retry-inconclusive and --repeat: how many runs a series has is fixed before the first",
            remedy="leave one of them out",
        )
    retries = None if retry is None else retrying.Retries.parse(retry)
    given = (("--repeat", repeat), ("--retry-inconclusive", retry), ("--fail-on-known", fail_on_known or None))
    sides.refuse_options(loaded, [name for name, value in given if value is not None])
    for experiment in loaded:
        if isinstance(experiment, Varied):
            sides.refuse_wrong(experiment)
    plans = [each for experiment in loaded for each in _plans(experiment)]
    if on is not None and is_existing(on):
        from chaos.commands.running_on import runs_on

        if repeat is not None or retries is not None:
            raise InvalidInput(
                "on a cluster that exists each experiment runs once",
                remedy="leave --repeat and --retry-inconclusive out",
            )
        there = Path(on), loaded, seed, out_folder
        done = runs_on(
            *there,
            dry_run=dry_run,
            quiet=quiet,
            controlled=controlled,
            topology=topology,
            fail_on_known=fail_on_known,
            yes=yes,
        )
        raise typer.Exit(int(done))
    lab = None
    if on is None:
        kinds.refuse_home(kind, opensearch_home)
    else:
        lab = kinds.attach(on)
        for experiment in plans:
            needed = experiment.topology
            if not _serves(lab, experiment, alone=len(plans) == len(loaded)):
                values = overriding.sentences(overriding.of_topology(experiment.overrides))
                raise InvalidInput(
                    f"lab '{on}' runs topology {lab.topology.name}, but {experiment.name} needs {needed.name}"
                    + "".join(f"; {each}" for each in values),
                    remedy="leave --on out, for a lab of its own"
                    if values
                    else f"start one with: opensearch-chaos lab up {needed.name}",
                )
        refuse_leftovers()
        refuse_second_run(lab)
        if found := problems(lab):
            raise InvalidInput(
                f"lab '{on}' is not as its topology says: {'; '.join(found[:3])}",
                remedy="run: opensearch-chaos recover, or take it down and start it again",
            )
    if dry_run:
        print_plans(loaded, seed, lab=lab, kind=kind, repeat=repeat)
    for_each(lambda experiment: refuse_lacking(experiment, PROVIDERS, lab, kind), plans)
    all_runs = [each for experiment in loaded for each in _plans(experiment) * getattr(experiment, "times", 1)]
    space.refuse_scarce(space.wanted(all_runs, out_folder, kind=kind, own_lab=lab is None, times=repeat or 1))
    if dry_run:
        if retries is not None:
            out.print(f"a run that ends inconclusive is repeated once: {retries.words}", markup=False)
        ask_ready(plans)
        return
    codes: list[Exit] = []
    if repeat is not None:
        from chaos.commands.repeating import repeated

        how = (repeat, out_folder, seed, topology, lab, opensearch_home, quiet, kind, controlled)
        raise typer.Exit(int(repeated(loaded, *how, fail_on_known=fail_on_known)))
    for experiment in loaded:
        if isinstance(experiment, Varied):
            try:
                asked = sides.Asked(out_folder, seed, topology, lab, opensearch_home, quiet, kind, resume)
                codes.append(sides.run_sides(experiment, asked))
            except ChaosError as error:
                say_error(error)
                codes.append(error.exit_code)
                break
            if codes[-1] in (Exit.ABORTED, Exit.DIRTY):
                break
            continue

        def one(second_of: dict[str, Any] | None, experiment: Any = experiment) -> Any:
            reporter = Reporter(quiet=quiet)
            reporter.line(f"experiment {experiment.name} on {experiment.topology.name}")
            return carry_out(
                RunSpec.of(
                    experiment,
                    seed,
                    on=On(kind if lab is None else lab.kind),
                    topology=topology,
                    controlled=controlled,
                    side=of_side,
                ),
                out=out_folder,
                providers=PROVIDERS,
                reporter=reporter,
                lab=lab,
                opensearch_home=opensearch_home,
                second_of=second_of,
            )

        def unsound() -> str | None:
            found = problems(lab) if lab is not None else []
            return f"lab '{on}' is not as its topology says: {'; '.join(found[:3])}" if found else None

        result = None
        try:
            for result in retrying.runs(experiment.name, one, retries, say, unsound):
                print_verdict(experiment.name, result.folder, result.findings)
        except ChaosError as error:
            say_error(error)  # the verdicts before it still count for the exit code
            codes += [error.exit_code] + ([result.exit_code] if result is not None else [])
            break
        assert result is not None
        codes.append(on_known(result.exit_code, result.findings, fail_on_known))  # of two runs the second counts
        if result.stopped:
            codes.append(Exit.ABORTED)
        if result.stopped or result.exit_code in (Exit.ABORTED, Exit.DIRTY):
            break
    if retries is not None and retries.runs > 1:
        say(retries.tally)
    raise typer.Exit(int(min(codes, key=SEVERITY.index)))


def _plans(experiment: Any) -> list[Any]:
    """The experiments that are one plan each: those of its sides, or itself."""
    return [side.experiment for side in getattr(experiment, "sides", ())] or [experiment]


def _of_side(loaded: list[Any], side: str | None, resume: Path | None) -> Any:
    """Which side is run alone, put into the place of the experiment with sides; None: no side is named.

    Raises InvalidInput for options of sides where there are none.
    """
    from chaos.campaign.sides import of_side
    from chaos.definitions.varied import Varied

    given = [name for name, value in (("--side", side), ("--resume", resume)) if value is not None]
    if not given:
        return None
    if len(loaded) != 1 or not isinstance(loaded[0], Varied):
        raise InvalidInput(
            f"{given[0]} is for one experiment with sides", remedy="name one file that has `vary`, or leave it out"
        )
    if len(given) > 1:
        raise InvalidInput("--side makes one run, and --resume goes on with all", remedy="leave one of them out")
    if side is None:
        return None
    experiment = loaded[0]
    one = experiment.side(side)
    loaded[0] = one.experiment
    return of_side(experiment, one)


def _serves(lab: Any, experiment: Any, *, alone: bool) -> bool:
    """Whether a lab that is up is what an experiment needs. ``alone``: it has no sides, whose index settings differ.

    What its workload says of the index is the run's own.
    """
    from chaos.definitions.topology import with_defaults
    from chaos.load import workloads
    from chaos.run.pool import made_of

    needed = experiment.topology
    if alone:
        workload = workloads.of(experiment.load.workload, experiment.load.dataset)
        there = with_defaults(lab.topology, workload.settings)
        return bool(needed.to_json() | {"file": None} == there.to_json() | {"file": None})
    return made_of(needed) == made_of(lab.topology)
