"""``hunt``: settings that a cluster accepts and cannot take back, or faults that it does not get over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chaos.base.errors import SEVERITY, Exit, InvalidInput
from chaos.commands.common import Home, out, refuse_given

if TYPE_CHECKING:
    from chaos.base.console import Reporter
    from chaos.definitions import Topology
    from chaos.run.pool import LabPool
    from chaos.run.stopping import Stop

OVER = ("settings", "faults")
OF_FAULTS = ("each", "rate", "weights", "reports")
Hunting = Callable[["LabPool", "Stop", "Reporter", float], tuple[list[dict[str, Any]], list[Exit]]]
"""What was found, and the exit codes that this adds to."""


def hunt(
    context: typer.Context,
    topology: Annotated[str, typer.Argument(help="A topology's name or file.")] = "one-node",
    over: Annotated[str, typer.Option(help="settings, or faults as nemesis draws them.")] = OVER[0],
    seed: Annotated[int, typer.Option(help="The same seed draws in the same order.", min=0)] = 1,
    duration: Annotated[str, typer.Option("--for", help="How long. The next call goes on from there.")] = "30m",
    journal: Annotated[
        Path | None,
        typer.Option(
            help="What was drawn, and what became of it; reports/hunt/settings.jsonl or faults.jsonl.",
            show_default=False,
        ),
    ] = None,
    each: Annotated[str, typer.Option(help="Over faults: how long they begin in each run.")] = "2m",
    rate: Annotated[str, typer.Option(help="Over faults: how many begin.")] = "4/min",
    weights: Annotated[
        str | None, typer.Option(help="Over faults: kind=w,... instead of all alike.", show_default=False)
    ] = None,
    reports: Annotated[Path, typer.Option(help="Over faults: where run folders go.")] = Path("reports/hunt"),
    opensearch_home: Home = None,
) -> None:
    """Draw at random, in labs of its own, for a while: is there anything that the cluster does not get over?

    Over settings: changes that are accepted and cannot be taken back. Over faults: plans of the random mode after
    which something acknowledged is lost, or the cluster does not recover. A hunt goes on where its journal ends;
    one of another topology, or with other options of drawing, needs a journal of its own.
    Exit code 1 where something was found, 5 after a run that ended in an error, 6 where something could not be undone.
    """
    from chaos.base.console import Reporter
    from chaos.base.units import Duration
    from chaos.campaign.settings_hunt import Journal
    from chaos.definitions import load_topology
    from chaos.run import space
    from chaos.run.pool import LabPool
    from chaos.run.stopping import Stop, signals
    from chaos.targets.labs import kinds

    if over not in OVER:
        raise InvalidInput(f"--over {over}: expected settings or faults")
    seconds, spec = Duration.parse(duration), load_topology(topology)
    journal = journal or Path("reports/hunt") / f"{over}.jsonl"
    if over == "faults":
        hunting = _over_faults(spec, topology, seed, each, rate, weights, reports, journal)
    else:
        refuse_given(context, OF_FAULTS, "it is of --over faults")
        hunting = _over_settings(spec, seed, journal)
    space.refuse_scarce([space.in_state("the hunt", space.of_topology(spec, kinds.DEFAULT))])
    reporter, stop = Reporter(), Stop()
    pool = LabPool(reporter.line, opensearch_home=opensearch_home)
    try:
        with signals(stop, reporter):
            try:
                found, codes = hunting(pool, stop, reporter, seconds)
            finally:
                pool.close()
    finally:
        reporter.close()
    kept = Journal(journal)
    counted = ", ".join(f"{number} {outcome}" for outcome, number in Counter(x["outcome"] for x in kept.lines).items())
    out.print(f"{len(kept.lines)} draws: {counted or 'none'}   {journal}", markup=False)
    for one in found:
        out.print(f"  {one['outcome']}: {_says(one, reports)}", markup=False)
    codes += [Exit.WEAKNESS for one in found if one["outcome"] in ("deaf", "weakness")]
    if codes:
        raise typer.Exit(int(min(codes, key=SEVERITY.index)))


def _says(found: dict[str, Any], reports: Path) -> str:
    if "changes" in found:
        return ", then ".join(f"{key}: {value}" for key, value in found["changes"])
    return f"seed {found['seed']}, {found['says']}\n    opensearch-chaos nemesis --shrink {reports / found['run']}"


def _over_settings(spec: Topology, seed: int, journal: Path) -> Hunting:
    from chaos.campaign.journal import plan_of
    from chaos.campaign.settings_hunt import Hunt, Journal

    drawn = Journal(journal, plan_of("settings", spec))

    def run(pool: LabPool, stop: Stop, reporter: Reporter, seconds: float) -> tuple[list[dict[str, Any]], list[Exit]]:
        return Hunt(pool, spec, drawn, seed, stop, reporter.line).run(seconds), []

    return run


def _over_faults(
    spec: Topology, named: str, seed: int, each: str, rate: str, weights: str | None, reports: Path, journal: Path
) -> Hunting:
    from chaos.base.console import Reporter as Console
    from chaos.campaign import nemesis
    from chaos.campaign.faults_hunt import FaultsHunt, plan
    from chaos.campaign.journal import Journal
    from chaos.commands.drawing import positive, write_definition
    from chaos.definitions import Duration, Rate
    from chaos.registry import FAULTS, PROVIDERS
    from chaos.run.options import RunResult
    from chaos.run.spec import RunSpec, carry_out
    from chaos.targets.labs import kinds

    options = nemesis.Options(
        topology=spec,
        named=named,
        seed=seed,
        duration=positive("--each", Duration, each),
        rate=positive("--rate", Rate, rate),
        weights=None if weights is None else nemesis.parse_weights(weights, FAULTS),
    )
    offers = PROVIDERS.on(kinds.lacks(kinds.DEFAULT, spec), kinds.named(kinds.DEFAULT).order)
    drawn = Journal(journal, plan(options, offers))

    def one(experiment: Any, lab: Any) -> RunResult:
        reporter = Console(quiet=True)
        return carry_out(RunSpec.of(experiment), out=reports, providers=PROVIDERS, reporter=reporter, lab=lab)

    def run(pool: LabPool, stop: Stop, reporter: Reporter, seconds: float) -> tuple[list[dict[str, Any]], list[Exit]]:
        hunting = FaultsHunt(pool, options, offers, drawn, reports, write_definition, one, stop, reporter.line)
        return hunting.run(seconds), hunting.codes

    return run
