"""``scorecard``: which promises releases of OpenSearch keep, from the committed runs of campaigns."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chaos.base.errors import Exit, InvalidInput
from chaos.commands.campaign import loaded, records_of, run_of
from chaos.commands.common import say
from chaos.commands.scorecard_targets import by_target

if TYPE_CHECKING:
    from chaos.campaign.matrix import Cell, Matrix
    from chaos.campaign.progress import CellProgress
    from chaos.campaign.records import Commit, Records
    from chaos.report.scorecard import Bug
    from chaos.statistics.scorecard import Group, LeftOut, Scorecard


class By(StrEnum):
    """What a row of a scorecard is of."""

    VERSION = "version"
    TARGET = "target"


CASES, RESULTS = Path("experiments") / "upstream", Path("reports") / "results"
VALID_DAYS = 90


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
        int | None,
        typer.Option("--valid-days", help="With --by target: a promise is proven for so many days; 90.", min=1),
    ] = None,
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
    elsewhere = {
        By.VERSION: {"--valid-days": valid_days is not None},
        By.TARGET: {"--store": store is not None, "--cases": cases != CASES, "--results": results != RESULTS},
    }[by]
    if wrong := [name for name, given in elsewhere.items() if given]:
        raise InvalidInput(f"{' and '.join(wrong)} beside --by {by}", remedy="leave one of them out")
    if by is By.TARGET:
        raise typer.Exit(int(by_target(campaigns, page, VALID_DAYS if valid_days is None else valid_days)))
    for name, folder, usual in (("--cases", cases, CASES), ("--results", results, RESULTS)):
        if folder != usual and not folder.is_dir():
            raise InvalidInput(f"{name} {folder}: there is no such folder")
    every = []
    for file in dict.fromkeys(campaigns):
        matrix = loaded(file)
        every.append((matrix, records_of(matrix, store)))
    left_out: list[LeftOut] = []
    groups = _groups(every, left_out)
    if not any(group.runs for group in groups):
        raise InvalidInput(
            f"no cell of {', '.join(map(str, campaigns))} is committed yet",
            remedy=f"make them with: opensearch-chaos campaign run {shlex.quote(str(campaigns[0]))}",
        )
    card = scoring.evaluate(groups, left_out)
    given = [*(["--store", store] if store else []), *([] if cases == CASES else ["--cases", str(cases)])]
    given += [] if results == RESULTS else ["--results", str(results)]
    command = shlex.join(["opensearch-chaos", "scorecard", *map(str, campaigns), *given])
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        scorecard_page(card, page, command, _bugs(cases, results, card.versions))
        write_json(page.with_suffix(".json"), card.to_json())
    except OSError as error:
        raise InvalidInput(f"cannot write {page}: {error.strerror}") from error
    _print(card, page)
    raise typer.Exit(int(Exit[card.outcome.name]))


def _groups(every: Sequence[tuple[Matrix, Records]], left_out: list[LeftOut]) -> list[Group]:
    """The committed runs of campaigns, by what is shown in one place; ``left_out`` gets what gives none.

    A cell that several campaigns have is one cell, and its first commit counts. Raises InvalidInput for two experiments
    of one name.
    """
    from chaos.statistics.scorecard import Group, LeftOut

    cells: dict[tuple[str, str, str, str, str], dict[str, Cell]] = {}
    made: dict[str, tuple[Commit, Records]] = {}
    for matrix, records in every:
        for cell in matrix.cells:
            cells.setdefault(cell.place, {})[cell.key] = cell
            if (commit := records.of_cell(cell.key)) is None:
                continue
            first, _ = made.setdefault(cell.key, (commit, records))
            if first.attempt != commit.attempt:
                why = f"the same cell is committed in another campaign's store, by {first.run}, which counts"
                left_out.append(LeftOut(f"{cell.name}, run {commit.run} in {records.store.address}", why))
    found = []
    for at, members in cells.items():
        _refuse_two(list(members.values()))
        runs, origins = [], []
        for key, cell in members.items():
            if key not in made:
                continue
            commit, records = made[key]
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
                    "code": commit.code,
                }
            )
        tags = next(iter(members.values())).experiment.tags
        found.append(Group(*at, len(members), tuple(runs), tuple(origins), tags))
    waiting = {key: cell for members in cells.values() for key, cell in members.items() if key not in made}
    for matrix, records in every:
        left_out += _missing(matrix, records, waiting)
    return found


def _refuse_two(cells: Sequence[Cell]) -> None:
    """Raises InvalidInput where what is shown in one place is of two experiments: they cannot be judged together."""
    if len({cell.to_json()["hash"] for cell in cells}) > 1:
        raise InvalidInput(
            f"{cells[0].experiment.name} on {cells[0].experiment.topology.name} is another experiment in each of these "
            "campaigns, and their runs cannot be judged together",
            remedy="make a scorecard of each campaign, or give one of the experiments another name or profile",
        )


def _missing(matrix: Matrix, records: Records, waiting: dict[str, Cell]) -> Iterator[LeftOut]:
    """Cells without a run, each once, and combinations that the file leaves out."""
    from chaos.campaign import progress
    from chaos.statistics.scorecard import LeftOut

    mine = [cell for cell in matrix.cells if waiting.pop(cell.key, None) is not None]
    for each in progress.of_cells(mine, records, matrix.file.retry).cells:
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

    records = [_record(file) for file in sorted(results.glob("*/*-upstream.json"))]
    found = []
    for case in [load_case(file) for file in sorted(cases.glob("*.yaml"))]:
        counts = {version: upstream.counted(case, records, version) for version in versions}
        if any(tried for _, tried in counts.values()):
            said = {version: upstream.how_often(*count) for version, count in counts.items()}
            found.append(Bug(case.written.name, case.written.title, case.written.thread, said))
    return found


def _record(file: Path) -> Any:
    """A recorded attempt. Raises InvalidInput where it cannot be read."""
    try:
        found = json.loads(file.read_text())
        if missing := [key for key in ("steps_hash", "version", "control") if key not in found]:
            raise ValueError(f"it lacks {', '.join(missing)}")
    except (OSError, ValueError, TypeError) as error:
        raise InvalidInput(f"{file} is no recorded attempt that can be read: {error}") from error
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
    if len(card.codes) > 1:
        say(f"  runs of {len(card.codes)} states of this suite's code: {', '.join(card.codes)}")
    for each in (*card.controls, *card.faultless):
        if each.otherwise or not each.runs:
            said = "; ".join(each.otherwise) or "it has no run"
            say(f"  not as it must: {each.experiment} {each.version}: {said}")
    say(f"  page: {page}, and {page.with_suffix('.json')}")
