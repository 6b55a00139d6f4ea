"""``campaign``: the cells of a matrix as runs, on one machine or on many, kept in a store that commits each once."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chaos.base import paths, text
from chaos.base.errors import SEVERITY, Exit, InvalidInput, MissingPrerequisite
from chaos.base.extras import DASK
from chaos.commands.campaign_runs import facts_of, loaded, records_of
from chaos.commands.common import or_shipped, out, print_verdict, say
from chaos.commands.scorecard_cells import Asked, alone, scored, tell

if TYPE_CHECKING:
    from chaos.campaign.matrix import Matrix
    from chaos.campaign.progress import Progress
    from chaos.campaign.records import Records
    from chaos.campaign.worker import Worked

File = Annotated[Path, typer.Argument(help="The campaign's file.", metavar="CAMPAIGN", callback=or_shipped)]
StoreOption = Annotated[
    str | None,
    typer.Option("--store", help="Instead of the file's: a folder, or s3://BUCKET/PREFIX.", show_default=False),
]
Out = Annotated[Path, typer.Option("--out", help="Where runs are made; they go from there once they are in the store.")]
Keep = Annotated[bool, typer.Option("--keep", help="Leave runs in --out after they were committed, too.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but what somebody must do.")]
SCRATCH = Path("reports") / "campaign"
NO_DASK = "none"


def plan(file: File, store: StoreOption = None) -> None:
    """Print the cells, how long they may take, and what is committed already. Starts and writes nothing."""
    from chaos.campaign import progress

    matrix = loaded(file)
    records = records_of(matrix, store)
    done = progress.of_cells(matrix.cells, records, matrix.file.retry, int(matrix.file.budget.artifacts))
    say(f"campaign {matrix.file.name}: {text.plural(len(matrix.cells), 'cell')}, store {store or matrix.file.store}")
    for cell in (each for each in matrix.cells if each.repeat == 0):
        profile = "" if cell.profile == "default" else f" ({cell.profile} of {cell.of})"
        say(f"  {cell.experiment.name}{profile} on {cell.experiment.topology.name}, OpenSearch {cell.version}")
    seeds = matrix.file.every_seed
    named = f"{'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, seeds))}"
    say(f"  each {text.plural(len(seeds), 'time')}: {named}")
    for each in matrix.excluded:
        say(f"  left out: {each.what}: {each.because}")
    say(f"  {done.tally}")
    _print_others(matrix, records)
    _print_estimate(matrix, done)


def _print_others(matrix: Matrix, records: Records) -> None:
    """Commits that are none of these cells': what was run is part of a key, so a change leaves them behind."""
    if others := len(records.committed() - {cell.key for cell in matrix.cells}):
        says = "of another version of the suite, of definitions as they were before, or of another campaign"
        say(f"  {text.plural(others, 'other commit')} in this store: {says}")


def _print_estimate(matrix: Matrix, done: Progress) -> None:
    from chaos.campaign import progress

    left = [each.cell for each in done.cells if each.commit is None]
    estimate, machines = progress.estimated(left, done.commits), matrix.file.budget.machines
    if not left:
        say("  nothing is left to do")
        return
    most = "at most " if estimate.bounded else ""
    say(
        f"  left: {text.plural(len(left), 'cell')}, {most}{estimate.hours:.1f} h on one machine",
    )
    if machines > 1:
        say(f"  on {machines} machines: {most}{estimate.hours / machines:.1f} h")
    if estimate.bounded:
        never = f"{', '.join(estimate.bounded)} {'was' if len(estimate.bounded) == 1 else 'were'} never run"
        say(f"  {never} here: the longest that its plan allows is counted")
    wall = matrix.file.budget.wall
    if wall is not None:
        say(f"  budget: {wall.text} for each worker; what is left then is made by the next")


def run(
    file: File,
    store: StoreOption = None,
    out_folder: Out = SCRATCH,
    keep: Keep = False,
    quiet: Quiet = False,
    scheduler: Annotated[
        str | None,
        typer.Option(
            "--scheduler",
            help="Make them on the workers of this Dask cluster: tls://HOST:PORT. none: without Dask. Default: on this "
            "machine, with Dask's dashboard where opensearch-chaos[dask] is installed.",
            metavar="ADDRESS",
            show_default=False,
        ),
    ] = None,
    tls_ca: Annotated[
        Path | None, typer.Option(help="PEM: the authority of the scheduler's and workers' certificates.")
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="PEM: the certificate that this client shows.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="PEM: its key.")] = None,
    no_tls: Annotated[
        bool,
        typer.Option("--no-tls", help="Allow tcp://HOST:PORT, where you trust everybody on that network with root."),
    ] = False,
) -> None:
    """Make all cells that are not committed yet: on this machine, one after the other, or on a Dask cluster."""
    has_dask = not DASK.missing()
    without = scheduler == NO_DASK or (scheduler is None and not has_dask)
    if without and not (tls_ca or tls_cert or tls_key or no_tls):
        raise typer.Exit(int(_worked(file, store, "1/1", out_folder, keep, quiet)))
    if not has_dask:
        raise MissingPrerequisite("--scheduler needs Dask, which is not installed", remedy=f"run: {DASK.install}")
    from chaos.campaign.dask_cluster import Tls
    from chaos.commands import campaign_dask

    matrix = loaded(file)
    address = None if scheduler == NO_DASK else scheduler
    on = campaign_dask.On(address, Tls(tls_ca, tls_cert, tls_key, no_tls))
    if address is None:
        _refuse_unfit(matrix, out_folder)
    done = campaign_dask.worked(matrix, records_of(matrix, store), on, out_folder, keep=keep, quiet=quiet)
    if not quiet:
        _print_done(matrix, "", done)
    raise typer.Exit(int(done.exit_code))


def work(
    file: File,
    shard: Annotated[
        str, typer.Option("--shard", help="The I-th of N parts, from 1: for CI matrices, Slurm arrays, indexed Jobs.")
    ],
    store: StoreOption = None,
    out_folder: Out = SCRATCH,
    keep: Keep = False,
    quiet: Quiet = False,
) -> None:
    """Make the cells of one shard that are not committed yet. Nothing schedules: each machine is given its number."""
    raise typer.Exit(int(_worked(file, store, shard, out_folder, keep, quiet)))


def _worked(file: Path, store: str | None, shard: str, out_folder: Path, keep: bool, quiet: bool) -> Exit:
    from chaos.base.console import Reporter
    from chaos.campaign.machine import Machine
    from chaos.campaign.matrix import Shard
    from chaos.campaign.worker import Worker
    from chaos.run.stopping import Stop, signals

    part, matrix = Shard.parse(shard), loaded(file)
    if part.of > matrix.file.budget.machines:
        raise InvalidInput(
            f"--shard {shard}: the budget of {file} is {text.plural(matrix.file.budget.machines, 'machine')}",
            remedy="raise budget.machines, or use fewer shards",
        )
    _refuse_unfit(matrix, out_folder)
    records, reporter, stop = records_of(matrix, store), Reporter(quiet=quiet), Stop()
    try:
        with signals(stop, reporter):
            done = Worker(matrix, records, Machine(), out_folder, reporter, stop, keep=keep).work(part)
    finally:
        reporter.close()
    if not quiet:
        _print_done(matrix, f", shard {shard}", done)
    return done.exit_code


def _print_done(matrix: Matrix, part: str, done: Worked) -> None:
    made = f"{len(done.made)} committed, {done.failed} attempts failed, {done.surplus} surplus, {done.left} left"
    say(f"campaign {matrix.file.name}{part}: {made}")


def _refuse_unfit(matrix: Matrix, out_folder: Path) -> None:
    from chaos.commands.fitness import refuse_unfit

    refuse_unfit([cell.experiment for cell in matrix.cells], out_folder)


def status(
    file: File,
    store: StoreOption = None,
    cells: Annotated[bool, typer.Option("--cells", help="List every cell with its key.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """How far a campaign is, from its store alone."""
    from chaos.campaign import progress

    matrix = loaded(file)
    records = records_of(matrix, store)
    done = progress.of_cells(matrix.cells, records, matrix.file.retry, int(matrix.file.budget.artifacts))
    if as_json:
        out.print(json.dumps(_status_json(done), indent=1), markup=False)
        return
    say(f"campaign {matrix.file.name}: {done.tally}")
    for each in done.cells:
        trouble = each.state in (progress.State.GIVEN_UP, progress.State.REFUSED) or each.lost or each.errors
        if cells or trouble:
            outcome = f": {each.commit.outcome}" if each.commit else ""
            retried = f"; lost {each.lost}, errors {each.errors}" if each.lost or each.errors else ""
            why = f"; {each.why}" if each.why else ""
            say(f"  {each.cell.key[:12]}  {each.cell.name}: {each.state}{outcome}{retried}{why}")
    _print_others(matrix, records)
    _print_estimate(matrix, done)


def _status_json(done: Progress) -> dict[str, Any]:
    return {
        "tally": done.tally,
        "cells": [
            {
                "key": each.cell.key,
                **each.cell.to_json(),
                "state": each.state,
                "outcome": each.commit.outcome if each.commit else None,
                "lost": each.lost,
                "errors": each.errors,
                "surplus": each.surplus,
                "why": each.why,
            }
            for each in done.cells
        ],
    }


def verify(file: File, store: StoreOption = None) -> None:
    """Hold every committed run against its manifest: each file's SHA-256, none missing, none beside."""
    matrix = loaded(file)
    records = records_of(matrix, store)
    wrong = checked = files = 0
    for cell in matrix.cells:
        if (commit := records.of_cell(cell.key)) is None:
            continue
        checked, files = checked + 1, files + len(commit.manifest)
        found = records.verify(commit, paths.cache() / "campaigns")
        wrong += bool(found)
        for says in found:
            say(f"  {cell.key[:12]}  {cell.name}: {says}")
    _print_others(matrix, records)
    if not checked:
        raise _nothing_committed(matrix, records)
    say(f"{text.plural(checked, 'committed run')} with {files} files: {wrong or 'none'} differ from what was committed")
    raise typer.Exit(int(Exit.ERROR if wrong else Exit.PASS))


def _nothing_committed(matrix: Matrix, records: Records) -> InvalidInput:
    return InvalidInput(
        f"no cell of {matrix.campaign.file} is committed yet in {records.store.address}",
        remedy=f"make them with: opensearch-chaos campaign run {shlex.quote(matrix.campaign.file)}, or name their "
        "store with --store",
    )


def report(
    file: File,
    store: StoreOption = None,
    page: Annotated[
        Path, typer.Option("-o", "--out", help="The page over all runs; trend and scorecard go beside it.")
    ] = Path("campaign.html"),
) -> None:
    """The pages `suite`, `trend` and `scorecard` over all committed runs; the worst run is the exit code.

    A scorecard is made where an experiment has several versions, topologies or profiles. Its verdict is printed; the
    exit code of `opensearch-chaos scorecard` says it, and that of this command does not.
    """
    from chaos.report.suite import suite_page
    from chaos.report.trend import trend_page

    if page.suffix != ".html":
        raise InvalidInput(f"{page}: expected a name that ends in .html")
    matrix = loaded(file)
    records = records_of(matrix, store)
    found = facts_of(matrix, records)
    runs = [run for _, run in found]
    if not runs:
        raise _nothing_committed(matrix, records)
    asked, why_not = Asked((file,), store), alone(matrix)
    judged = {cell.key: run for cell, run in found}
    made = scored(asked, [(matrix, records)], judged) if why_not is None else None
    trend, card = (page.with_name(f"{page.stem}-{what}.html") for what in ("trend", "scorecard"))
    pages: tuple[tuple[Path, Callable[..., Path]], ...] = ((page, suite_page), (trend, trend_page))
    for where, draw in pages:
        try:
            where.parent.mkdir(parents=True, exist_ok=True)
            draw(runs, where)
        except OSError as error:
            raise InvalidInput(f"cannot write {where}: {error.strerror}") from error
        say(f"{where}: {len(runs)} of {text.plural(len(matrix.cells), 'cell')}")
    if made is None:
        say(f"no scorecard: {why_not}; of this alone it is made by: {asked.command}")
    else:
        made.draw(card)
        tell(made.card, card)
    codes = [Exit(int(run.findings.get("exit_code", Exit.ERROR))) for run in runs]
    raise typer.Exit(int(min(codes, key=SEVERITY.index)))


def rerun(
    file: File,
    key: Annotated[str, typer.Argument(help="The cell's key, or how it begins (`campaign status --cells`).")],
    out_folder: Annotated[Path, typer.Option("--out", help="Where the run's folder goes.")] = Path("reports"),
) -> None:
    """Make the run of one cell again, for its own sake: the store is neither asked nor written."""
    from chaos.base.console import Reporter
    from chaos.campaign.machine import Machine
    from chaos.registry import PROVIDERS
    from chaos.run.spec import carry_out

    def busy() -> None:
        raise InvalidInput("a run of a campaign is under way on this machine", remedy="wait for its end")

    matrix = loaded(file)
    cell = matrix.cell(key)
    with Machine().held(busy):
        result = carry_out(cell.spec(matrix.campaign.file), out=out_folder, providers=PROVIDERS, reporter=Reporter())
    print_verdict(cell.name, result.folder, result.findings)
    raise typer.Exit(int(result.exit_code))


COMMANDS: dict[str, Callable[..., None]] = {
    "plan": plan,
    "run": run,
    "work": work,
    "status": status,
    "verify": verify,
    "report": report,
    "rerun": rerun,
}
