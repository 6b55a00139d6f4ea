"""``compare`` and ``baseline``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from chaos.base.errors import SEVERITY, Exit, InvalidInput
from chaos.commands.common import DEFAULT_LAB, LabKind, Objectives, out, refuse_given

Sides = Annotated[
    str, typer.Argument(help="A run, a series, a baseline (.json) or an experiment (.yaml).", show_default=False)
]
DEFAULT_REPEAT = 5


def compare(
    context: typer.Context,
    a: Sides,
    b: Sides,
    tolerance: Annotated[
        list[str] | None,
        typer.Option("--tolerance", help="How much worse is still the same: read.good=0.1%, or a file of such lines."),
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option("--metric", help="Only these decide, for example write.regained@dark.")
    ] = None,
    repeat: Annotated[
        int | None, typer.Option(help="Of experiments: so many runs each, A B A B ...; default 5.", min=1)
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of experiments: the seed of the first runs.", min=0)] = None,
    out_folder: Annotated[Path, typer.Option("--out", help="Where run folders go.")] = Path("reports"),
    page: Annotated[
        Path | None, typer.Option("--page", "-o", help="Write the comparison as .html or .json.", show_default=False)
    ] = None,
    opensearch_home: Annotated[Path | None, typer.Option("--opensearch-home", help="Use this OpenSearch.")] = None,
    of_kind: LabKind = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the verdict only.")] = False,
    objective: Objectives = None,
) -> None:
    """Is B worse than A by more than is tolerated? Pass, fail or inconclusive, over runs."""
    from chaos.definitions import objectives
    from chaos.registry import GRAMMAR
    from chaos.run.space import Need, Wanted, refuse_scarce
    from chaos.statistics import compare as comparing

    good = objectives.parse(objective or (), GRAMMAR.operations, streams=True)
    tolerances = comparing.parse_tolerances(tolerance or [])
    refuse_suffix(page)
    experiments = [side.endswith((".yaml", ".yml")) for side in (a, b)]
    codes: list[Exit] = []
    if page is not None:
        refuse_scarce([Wanted("the page", page.parent, Need(), "choose another with --page")])
    if all(experiments):
        _refuse_unknown([*(metric or []), *tolerances], a, b)
        folders, codes, page_there = _made(
            a, b, repeat or DEFAULT_REPEAT, seed, out_folder, opensearch_home, of_kind or DEFAULT_LAB, quiet, good
        )
        page = page or page_there
        if any(folder is None for folder in folders):
            raise typer.Exit(int(min(codes, key=SEVERITY.index)))
        sides = [side(str(folder)) for folder in folders]
    elif any(experiments):
        raise InvalidInput(
            "an experiment is compared with an experiment, run in turn with it",
            remedy="make a series of it first: opensearch-chaos run EXPERIMENT --repeat 5",
        )
    else:
        if repeat is not None or seed is not None:
            raise InvalidInput("--repeat and --seed are for experiments: these runs are made already")
        if good:
            raise InvalidInput(
                "--objective is for experiments: these runs are made already",
                remedy="hold one against another objective: opensearch-chaos judge RUN --objective read=100ms",
            )
        refuse_given(
            context, ("out_folder", "opensearch_home", "of_kind"), "it is for experiments: these runs are made already"
        )
        sides = [side(each) for each in (a, b)]
    found = comparing.compare(sides[0], sides[1], tolerances, metric or [])
    _print(found)
    if page is not None:
        from chaos.report.compare import compare_page

        _write(page, found, compare_page)
    codes.append(found.exit_code)
    raise typer.Exit(int(min(codes, key=SEVERITY.index)))


def baseline(
    series: Annotated[Path, typer.Argument(help="A series' folder, or a run's.")],
    file: Annotated[Path, typer.Option("-o", "--out", help="The file to write, for example baselines/x.json.")],
) -> None:
    """Write what a series measured as a small JSON file for git, to be compared with later."""
    from chaos.statistics import store

    runs, planned = store.series_of(series)
    group = store.group_of(runs, series.resolve().name, planned)
    if not group.counted:
        raise InvalidInput(f"no run of {series} counts: {group.left_out[0][1]}", remedy="a baseline needs valid runs")
    store.write_baseline(group, file)
    out.print(f"{file}: {group.counted} of {len(group.runs)} runs, {len(group.values)} metrics", markup=False)
    for name, why in group.left_out:
        out.print(f"  left out: {name}: {why}", markup=False)


def side(given: str) -> Any:
    """One side of a comparison from a folder or a baseline. Raises InvalidInput."""
    from chaos.statistics import store

    path = Path(given)
    if path.is_file():
        return store.read_baseline(path)
    runs, planned = store.series_of(path)
    return store.group_of(runs, path.resolve().name, planned)


def refuse_suffix(page: Path | None) -> None:
    """Raises InvalidInput for a page that is neither .html nor .json, before anything is done."""
    if page is not None and page.suffix not in (".html", ".json"):
        raise InvalidInput(f"{page}: expected a name that ends in .html or .json")


def _write(page: Path, found: Any, draw: Any) -> None:
    from chaos.base.paths import write_json

    try:
        if page.suffix == ".json":
            write_json(page, found.to_json())
        else:
            draw(found, page)
    except OSError as error:
        raise InvalidInput(f"cannot write {page}: {error.strerror}") from error
    out.print(f"  page: {page}", markup=False)


def _made(
    a: str,
    b: str,
    repeat: int,
    seed: int | None,
    folder: Path,
    opensearch_home: Path | None,
    kind: str,
    quiet: bool,
    good: Mapping[str, Any],
) -> tuple[list[Path | None], list[Exit], Path]:
    """Make the runs of two experiments in turn. (series' folders, None where no run was made; exit codes; page)."""
    from chaos.base.console import Reporter
    from chaos.campaign import repeat as making
    from chaos.commands.common import print_verdict
    from chaos.commands.repeating import ended, judged
    from chaos.registry import PROVIDERS, load_experiment
    from chaos.run import space
    from chaos.run.execution import refuse_lacking
    from chaos.run.leftovers import refuse_leftovers
    from chaos.run.pool import LabPool
    from chaos.run.ready import refuse_unready
    from chaos.statistics.store import planned_group, refuse_incomparable
    from chaos.targets.labs import kinds as labs_of

    loaded = [load_experiment(Path(each), good=good) for each in (a, b)]
    # before an hour of runs that cannot be compared
    refuse_incomparable(*(planned_group(each, label) for each, label in zip(loaded, (a, b), strict=True)))
    for experiment in loaded:
        refuse_unready(experiment)
        refuse_lacking(experiment, PROVIDERS, kind=kind)
    labs_of.refuse_home(kind, opensearch_home)
    labs_of.require(kind)
    refuse_leftovers()
    space.refuse_scarce(space.wanted(loaded, folder, kind=kind, times=repeat))
    first = seed if seed is not None else loaded[0].seed
    arms = [making.arm(each, folder, repeat, first) for each in loaded]
    reporter = Reporter(quiet=quiet)

    def done(arm: Any, result: Any) -> None:
        which = "A" if arm is arms[0] else "B"
        name = f"{which}: {arm.experiment.name} ({len(arm.runs)} of {arm.planned})"
        print_verdict(name, result.folder, result.findings)

    try:
        labs = LabPool(reporter.line, opensearch_home=opensearch_home, kind=kind, report=reporter.line)
        made = making.make(arms, repeat, labs, PROVIDERS, lambda: Reporter(quiet=quiet), done)
    finally:
        reporter.close()
    codes = ended(made)
    for arm in arms:
        if arm.runs:
            # the verdicts on the series are told; what counts here is the comparison, dirt and our errors
            code = judged(arm.folder).exit_code
            codes += [code] if code in (Exit.DIRTY, Exit.ERROR, Exit.ABORTED) else []
    return [arm.folder if arm.runs else None for arm in arms], codes, arms[1].folder / "compare.html"


def _refuse_unknown(names: list[str], a: str, b: str) -> None:
    """Raises InvalidInput for a phase that neither experiment has: nothing could be measured in it.

    Which metrics there are is known when runs are made; what can be told before must not cost an hour.
    """
    from chaos.registry import load_experiment

    phases = {phase.name: None for each in (a, b) for phase in load_experiment(Path(each)).phases}
    for name in names:
        phase = name.partition("@")[2]
        if phase and phase not in phases:
            raise InvalidInput(
                f"{name}: neither experiment has the phase {phase}", remedy=f"choose among: {', '.join(phases)}"
            )


def _print(found: Any) -> None:
    from chaos.statistics.compare import signed, summary_of

    out.print(f"compare: {found.outcome.upper()}  {found.sentence}", markup=False)
    for row in found.rows:
        if not row.decides:
            continue
        moved = signed(row.shift.estimate, row.unit) if row.shift else "-"
        sure = f" [{signed(row.interval, row.unit)}]" if row.interval else ""
        out.print(
            f"  {row.verdict.value:12}  {row.metric}: {summary_of(row.a)} -> {summary_of(row.b)}, shift {moved}{sure}, "
            f"tolerance {row.tolerance_text}: {row.says}",
            markup=False,
        )
    shown_only = sum(not row.decides for row in found.rows)
    out.print(f"  {shown_only} more metrics are compared and decide nothing (choose with --metric)", markup=False)
    for name, group in (("A", found.a), ("B", found.b)):
        for run, why in group.left_out:
            out.print(f"  left out of {name}: {run}: {why}", markup=False)
    for line in found.differences:
        out.print(f"  differs: {line}", markup=False)
