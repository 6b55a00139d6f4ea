"""``scorecard``: which promises releases of OpenSearch keep, from the committed runs of campaigns."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chaos.base.errors import Exit, InvalidInput
from chaos.commands.campaign import loaded, records_of, run_of
from chaos.commands.common import say
from chaos.commands.scorecard_targets import by_target

if TYPE_CHECKING:
    from chaos.campaign.matrix import Cell, Matrix
    from chaos.campaign.progress import CellProgress
    from chaos.campaign.records import Records
    from chaos.report.scorecard import Bug
    from chaos.statistics.scorecard import Group, LeftOut, Scorecard


class By(StrEnum):
    """What a row of a scorecard is of."""

    VERSION = "version"
    TARGET = "target"


CASES, RESULTS = Path("experiments") / "upstream", Path("reports") / "results"


def scorecard(
    campaigns: Annotated[
        list[Path],
        typer.Argument(
            help="Campaigns' files; with --by target folders of runs and of game days' records.", metavar="CAMPAIGN..."
        ),
    ],
    store: Annotated[
        str | None, typer.Option("--store", help="Instead of the one that each file names.", show_default=False)
    ] = None,
    page: Annotated[Path, typer.Option("-o", "--out", help="The page; the same as .json goes beside it.")] = Path(
        "scorecard.html"
    ),
    cases: Annotated[Path, typer.Option("--cases", help="Cases of bugs of OpenSearch, shown by version.")] = CASES,
    results: Annotated[Path, typer.Option("--results", help="Recorded attempts at them.")] = RESULTS,
    by: Annotated[
        By, typer.Option("--by", help="version: releases on labs; target: what is proven on clusters that exist.")
    ] = By.VERSION,
    valid_days: Annotated[
        int, typer.Option("--valid-days", help="With --by target: a promise is proven for so many days.", min=1)
    ] = 90,
) -> None:
    """Promises kept, broken and not proven, by version; what changed between releases comes first.

    1: the newest broke what the one before kept, or what is not known. 3: a promise is not proven, or a control did not
    end as it must. By target: 1 where a promise is broken that is not known to be, 3 where one is not proven now.
    """
    from chaos.base.paths import write_json
    from chaos.report.scorecard import scorecard_page
    from chaos.statistics import scorecard as scoring

    if page.suffix != ".html":
        raise InvalidInput(f"{page}: expected a name that ends in .html")
    if by is By.TARGET:
        raise typer.Exit(int(by_target(campaigns, page, valid_days)))
    groups: list[Group] = []
    left_out: list[LeftOut] = []
    for file in campaigns:
        matrix = loaded(file)
        records = records_of(matrix, store)
        groups += _groups(matrix, records)
        left_out += _missing(matrix, records)
    if not any(group.runs for group in groups):
        raise InvalidInput(
            f"no cell of {', '.join(map(str, campaigns))} is committed yet",
            remedy=f"make them with: opensearch-chaos campaign run {shlex.quote(str(campaigns[0]))}",
        )
    card = scoring.evaluate(groups, left_out)
    command = shlex.join(["opensearch-chaos", "scorecard", *map(str, campaigns)])
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        scorecard_page(card, page, command, _bugs(cases, results, card.versions))
        write_json(page.with_suffix(".json"), card.to_json())
    except OSError as error:
        raise InvalidInput(f"cannot write {page}: {error.strerror}") from error
    _print(card, page)
    raise typer.Exit(int(Exit[card.outcome.name]))


def _groups(matrix: Matrix, records: Records) -> list[Group]:
    """The committed runs of a campaign, by what is shown in one place."""
    from chaos.statistics.scorecard import Group

    cells: dict[tuple[str, str, str, str, str], list[Cell]] = {}
    for cell in matrix.cells:
        at = (cell.of, cell.experiment.name, cell.profile, cell.experiment.topology.name, cell.version)
        cells.setdefault(at, []).append(cell)
    found = []
    for at, members in cells.items():
        runs, origins = [], []
        for cell in members:
            if (commit := records.of_cell(cell.key)) is None:
                continue
            run = run_of(cell, commit, records)
            manifest = json.dumps(commit.manifest, sort_keys=True).encode()
            runs.append(run)
            origins.append(
                {
                    "run": run.name,
                    "seed": cell.seed,
                    "outcome": run.outcome,
                    "command": str(run.plan.get("command")),
                    "plan_hash": str(run.plan.get("hash")),
                    "record_hash": hashlib.sha256(manifest).hexdigest(),
                    "cell": cell.key,
                }
            )
        found.append(Group(*at, len(members), tuple(runs), tuple(origins)))
    return found


def _missing(matrix: Matrix, records: Records) -> Iterator[LeftOut]:
    """Cells without a run, and combinations that the file leaves out."""
    from chaos.campaign import progress
    from chaos.statistics.scorecard import LeftOut

    for each in progress.of_cells(matrix.cells, records, matrix.file.retry).cells:
        if each.commit is None:
            yield LeftOut(each.cell.name, _why(each))
    for excluded in matrix.excluded:
        yield LeftOut(excluded.what, f"the campaign leaves it out: {excluded.because}")


def _why(each: CellProgress) -> str:
    tried = f" (workers lost {each.lost}, errors {each.errors})" if each.lost or each.errors else ""
    return f"not run: {each.state}{tried}{f': {each.why}' if each.why else ''}"


def _bugs(cases: Path, results: Path, versions: Sequence[str]) -> list[Bug]:
    """Of cases that were tried in one of these versions. Raises InvalidInput."""
    from chaos.definitions.upstream import load_case
    from chaos.report import upstream
    from chaos.report.scorecard import Bug

    records = [json.loads(file.read_text()) for file in sorted(results.glob("*/*-upstream.json"))]
    found = []
    for case in [load_case(file) for file in sorted(cases.glob("*.yaml"))]:
        counts = {version: upstream.counted(case, records, version) for version in versions}
        if any(tried for _, tried in counts.values()):
            said = {version: upstream.how_often(*count) for version, count in counts.items()}
            found.append(Bug(case.written.name, case.written.title, case.written.thread, said))
    return found


def _print(card: Scorecard, page: Path) -> None:
    from chaos.statistics import scorecard as scoring

    say(f"scorecard: {card.outcome.upper()}  {card.sentence}")
    for change in scoring.Change:
        for what, how, shift in card.told(change):
            machines = "; on other machines" if shift.other_machines else ""
            say(f"  {change}: {what}: {how}{machines}")
    for tally in card.tallies:
        say(
            f"  {tally.version} {tally.profile}: {tally.kept} kept, {tally.broken} broken ({tally.known} known), "
            f"{tally.open} not proven; {tally.whole} of {tally.runs} runs missed nothing, {tally.left_out} left out, "
            f"{tally.missing} cells not run"
        )
    for each in (*card.controls, *card.faultless):
        if each.otherwise:
            say(f"  not as it must: {each.experiment} {each.version}: {'; '.join(each.otherwise)}")
    say(f"  page: {page}, and {page.with_suffix('.json')}")
