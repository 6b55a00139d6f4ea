"""``nemesis``: experiments drawn from a seed, and shrunk to what a failure needs."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chaos.base.errors import InvalidInput
from chaos.commands.common import (
    DEFAULT_LAB,
    Home,
    LabKind,
    Objectives,
    out,
    refuse_given,
)
from chaos.commands.running import run

if TYPE_CHECKING:
    from chaos.checks.models import FindingsFile
    from chaos.definitions import Experiment


DRAWING = ("seed", "duration", "rate", "hold", "weights", "max_active", "quorum", "copies", "load", "name")
"""Parameters of ``nemesis`` that say what is drawn."""


def nemesis(
    context: typer.Context,
    topology: Annotated[str | None, typer.Argument(help="A topology's name or file.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed draws the same.", min=0)] = 1,
    duration: Annotated[str, typer.Option("--for", help="How long faults begin.")] = "5m",
    rate: Annotated[str, typer.Option(help="How many begin.")] = "4/min",
    hold: Annotated[str, typer.Option(help="How long each holds, at least and at most.")] = "10s..30s",
    weights: Annotated[
        str | None, typer.Option(help="kind=w,... instead of all that the lab can do alike.", show_default=False)
    ] = None,
    max_active: Annotated[int, typer.Option(help="At most so many at once.", min=1)] = 2,
    quorum: Annotated[bool, typer.Option("--allow-quorum-loss", help="Hit a majority of managers too.")] = False,
    copies: Annotated[bool, typer.Option("--allow-all-copies", help="Hit every copy of a shard too.")] = False,
    load: Annotated[str, typer.Option(help="Reads, and as many writes.")] = "50/s",
    name: Annotated[str | None, typer.Option(help="The experiment's name.", show_default=False)] = None,
    file: Annotated[Path | None, typer.Option("--out", help="Write the definition here.", show_default=False)] = None,
    run_it: Annotated[bool, typer.Option("--run", help="Write it and run it.")] = False,
    shrink: Annotated[
        Path | None,
        typer.Option("--shrink", help="Find the faults that a failing run, or definition, needs.", metavar="RUN"),
    ] = None,
    budget: Annotated[int, typer.Option(help="With --shrink: at most so many runs.", min=1)] = 20,
    reports: Annotated[Path, typer.Option("--reports", help="Where run folders go.")] = Path("reports"),
    opensearch_home: Home = None,
    of_kind: LabKind = None,
    objective: Objectives = None,
) -> None:
    """Draw an experiment at random and print, write or run it; or shrink one that failed."""
    from chaos.targets.labs import kinds

    kind = of_kind or DEFAULT_LAB
    if (topology is None) == (shrink is None):
        raise InvalidInput(
            "nemesis takes a topology, or --shrink with a run or a definition",
            remedy="see: opensearch-chaos nemesis -h",
        )
    if shrink is not None and objective:
        raise InvalidInput("--objective is for a plan that is drawn: what failed is shrunk with its own objectives")
    if shrink is not None:
        refuse_given(context, (*DRAWING, "run_it"), "--shrink takes faults out of a plan and draws none")
        kinds.refuse_home(kind, opensearch_home)
        _shrink(shrink, budget, reports, file, opensearch_home, kind)
        return
    refuse_given(context, ("budget",), "it is of --shrink")
    if run_it:
        kinds.refuse_home(kind, opensearch_home)
    else:
        refuse_given(context, ("reports", "opensearch_home"), "nothing is run without --run")
    from chaos.campaign import nemesis as drawing
    from chaos.definitions import Duration, Rate, load_topology, objectives
    from chaos.definitions.selectors import NAME
    from chaos.registry import FAULTS, GRAMMAR, PROVIDERS

    assert topology is not None
    spec = load_topology(topology)
    if name is not None and not re.fullmatch(NAME, name):
        raise InvalidInput(f"--name {name}: expected small letters, digits, dashes, dots and underscores")
    options = drawing.Options(
        topology=spec,
        named=topology,
        seed=seed,
        duration=positive("--for", Duration, duration),
        rate=positive("--rate", Rate, rate),
        hold=drawing.parse_hold(hold),
        weights=None if weights is None else drawing.parse_weights(weights, FAULTS),
        limits=drawing.Limits(max_active, quorum_loss=quorum, all_copies=copies),
        load=positive("--load", Rate, load),
        name=name,
        good=objectives.parse(objective or (), GRAMMAR.operations),
    )
    text = drawing.text(options, PROVIDERS.on(kinds.lacks(kind, spec), kinds.named(kind).order))
    if file is None and not run_it:
        print(text, end="")
        return
    file = file or reports / f"{name or f'nemesis-{spec.name}-{seed}'}.yaml"
    write_definition(file, text)
    if run_it:
        run([file], out_folder=reports, opensearch_home=opensearch_home, of_kind=of_kind)


def positive(option: str, quantity: Any, text: str) -> Any:
    """A quantity of an option that must be above 0. Raises InvalidInput."""
    value = quantity.parse(text)
    if value <= 0:
        raise InvalidInput(f"{option} {text}: expected more than 0")
    return value


def write_definition(file: Path, text: str) -> Experiment:
    """Write it, and give what it means: what we write, we can read. Raises InvalidInput."""
    from chaos.registry import load_experiment

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    except OSError as error:
        raise InvalidInput(f"cannot write {file}: {error.strerror}", remedy="choose another with --out") from error
    experiment = load_experiment(file)
    print(f"{file}: written", file=sys.stderr)
    return experiment


def _shrink(
    given: Path, budget: int, reports: Path, file: Path | None, opensearch_home: Path | None, kind: str
) -> None:
    from chaos.base.console import Reporter
    from chaos.base.errors import Aborted, Dirty
    from chaos.campaign import shrink as shrinking
    from chaos.definitions import writing
    from chaos.registry import GRAMMAR, PROVIDERS
    from chaos.run.spec import On, RunSpec, carry_out

    whole, failed = shrinking.opened(given, GRAMMAR)

    def one(experiment: Any) -> FindingsFile:
        command = f"opensearch-chaos nemesis --shrink {given}"
        result = carry_out(
            RunSpec.of(experiment, on=On(kind), command_given=command),
            out=reports,
            providers=PROVIDERS,
            reporter=Reporter(quiet=True),
            opensearch_home=opensearch_home,
        )
        out.print(f"  {result.folder / 'report.html'}", markup=False)
        if not result.clean:
            raise Dirty("shrinking ends here: the lab is not clean", remedy="run: opensearch-chaos recover")
        if result.stopped:
            raise Aborted("shrinking ends here: stopped by a signal")
        return result.findings

    smallest, found, failed = shrinking.smallest(whole, failed, one, budget, lambda text: out.print(text, markup=False))
    how = (
        "no single fault of it can be left out"
        if found.minimal
        else f"the budget of {budget} runs ended before it was known whether less would do"
    )
    out.print(f"{len(found.kept)} faults are needed after {found.asked} smaller plans: {how}", markup=False)
    comments = [f"shrunk from {given.name}: {how}", f"the failure: {', '.join(sorted(failed))}"]
    file = file or reports / f"{smallest.name}.yaml"
    write_definition(file, writing.experiment(smallest, _named(smallest.topology), comments))


def _named(topology: Any) -> str:
    """How a definition names this topology: by its name where that finds the same one, else by its file."""
    from chaos.definitions import load_topology

    try:
        found = load_topology(topology.name)
    except InvalidInput:
        found = None
    same = found is not None and found.to_json() | {"file": None} == topology.to_json() | {"file": None}
    return str(topology.name if same or topology.file is None else Path(topology.file).absolute())
