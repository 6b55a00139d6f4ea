"""``run --repeat N``: a series of every experiment, judged over its runs.

The exit code is the worst of clean or dirty, of a run that ended in an error or was aborted, and of the verdict on
the series. A single run's weakness does not decide by itself, the bounds over runs do, with two exceptions
(:mod:`chaos.statistics.series`): a count, such as lost writes, that is missed in any run, and whatever was missed in
every run that counts.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chaos.base.errors import SEVERITY, Exit
from chaos.base.paths import write_json
from chaos.checks.shown import Shown
from chaos.commands.common import DEFAULT_LAB, SIGN, out, print_verdict
from chaos.statistics.series import Series


def repeated(
    experiments: Sequence[Any],
    repeat: int,
    folder: Path,
    seed: int | None,
    topology: str | None,
    lab: Any,
    opensearch_home: Path | None,
    quiet: bool,
    kind: str = DEFAULT_LAB,
    controlled: bool = True,
    fail_on_known: bool = False,
) -> Exit:
    """Make and judge a series of each experiment; the worst exit code."""
    from chaos.base.console import Reporter
    from chaos.campaign import repeat as making
    from chaos.registry import PROVIDERS
    from chaos.run import space
    from chaos.run.leftovers import refuse_leftovers
    from chaos.run.pool import LabPool
    from chaos.run.ready import refuse_unready
    from chaos.targets.labs.kinds import require

    if lab is None:
        require(kind)
    refuse_leftovers()
    for experiment in experiments:
        refuse_unready(experiment)
    space.refuse_scarce(space.wanted(experiments, folder, kind=kind, own_lab=lab is None, times=repeat))
    codes: list[Exit] = []
    for experiment in experiments:
        reporter = Reporter(quiet=quiet)
        labs = LabPool(reporter.line, opensearch_home=opensearch_home, given=lab, report=reporter.line, kind=kind)
        arm = making.arm(experiment, folder, repeat, seed, topology, controlled=controlled)

        def done(arm: Any, result: Any) -> None:
            print_verdict(f"{arm.experiment.name} ({len(arm.runs)} of {arm.planned})", result.folder, result.findings)

        try:
            made = making.make([arm], repeat, labs, PROVIDERS, lambda: Reporter(quiet=quiet), done)
        finally:
            reporter.close()
        codes += ended(made)
        if arm.runs:
            series = judged(arm.folder)
            codes.append(series.exit_code)
            if series.exit_code is Exit.PASS and fail_on_known and series.called is Shown.KNOWN:
                out.print("  --fail-on-known: a pass with known weaknesses, so this series fails", markup=False)
                codes.append(Exit.WEAKNESS)
        if made.stopped or made.dirt or made.error or Exit.DIRTY in codes:
            break
    return min(codes, key=SEVERITY.index)


def ended(made: Any) -> list[Exit]:
    """What the making of runs adds to the exit code; says it."""
    codes = []
    if made.error is not None:
        print(f"opensearch-chaos: {made.error}", file=sys.stderr)
        codes.append(made.error.exit_code)
    if made.dirt:
        print(f"opensearch-chaos: {made.dirt}; run: opensearch-chaos recover", file=sys.stderr)
        codes.append(Exit.DIRTY)
    if made.stopped:
        codes.append(Exit.ABORTED)
    return codes


def judged(folder: Path) -> Series:
    """Judge a series' folder, write verdict.json and series.html in it, print the verdict."""
    from chaos.report.compare import series_page
    from chaos.statistics import series as judging
    from chaos.statistics.store import read_series

    runs, planned = read_series(folder)
    series = judging.evaluate(runs, planned)
    write_json(folder / "verdict.json", series.to_json())
    page = series_page(series, folder / "series.html")
    print_series(series)
    out.print(f"  page: {page}", markup=False)
    return series


def judged_again(folder: Path) -> Exit:
    """Judge every run of a series again from its folder, then the series; also of one that was killed."""
    from chaos.report import render
    from chaos.statistics.store import is_run

    for run in sorted(each for each in folder.iterdir() if is_run(each)):
        render(run)
    return judged(folder).exit_code


def print_series(series: Series) -> None:
    name = series.runs[0].experiment.get("name") if series.runs else "series"
    out.print(f"{name}: {series.called.words.upper()}  {series.sentence}", markup=False)
    for finding in series.findings:
        over = ""
        if (found := finding.figures) is not None:
            from chaos.statistics.series import shown

            least, middle, most = (shown(each, found.unit) for each in (found.least, found.median, found.most))
            over = f"median {middle}, {least} to {most}; "
        out.print(f"  {SIGN[finding.counts_as]}  {finding.title}: {over}{finding.says}", markup=False)
    for run in series.runs:
        if run.excluded is not None:
            out.print(f"  left out: {run.name}: {run.excluded}", markup=False)
    clean = series.clean
    out.print(f"  clean-up: {'clean' if clean else 'DIRTY' if clean is False else 'unknown'}", markup=False)
