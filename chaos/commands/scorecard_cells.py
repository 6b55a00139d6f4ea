"""A scorecard of the committed cells of campaigns: made, drawn and told, for ``scorecard`` and ``campaign report``."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaos.base.errors import InvalidInput
from chaos.commands.campaign_runs import run_of
from chaos.commands.common import say
from chaos.definitions.campaign import DEFAULT

if TYPE_CHECKING:
    from chaos.campaign.matrix import Cell, Matrix
    from chaos.campaign.progress import CellProgress
    from chaos.campaign.records import Commit, Records
    from chaos.report.scorecard import Bug
    from chaos.statistics.facts import Facts
    from chaos.statistics.scorecard import Group, LeftOut, Scorecard

CASES, RESULTS = Path("experiments") / "upstream", Path("reports") / "results"


@dataclass(frozen=True)
class Asked:
    """What a scorecard was asked for with. ``store``: in place of the one that each campaign's file names; ``cases``
    and ``results``: of bugs of OpenSearch and of attempts at them."""

    campaigns: tuple[Path, ...]
    store: str | None = None
    cases: Path = CASES
    results: Path = RESULTS

    @property
    def command(self) -> str:
        """What makes it again."""
        given = [*(["--store", self.store] if self.store else [])]
        given += [] if self.cases == CASES else ["--cases", str(self.cases)]
        given += [] if self.results == RESULTS else ["--results", str(self.results)]
        return shlex.join(["opensearch-chaos", "scorecard", *map(str, self.campaigns), *given])


def alone(matrix: Matrix) -> str | None:
    """Why a scorecard of this campaign would set nothing beside anything else; None where it does."""
    places: dict[str, set[tuple[str, ...]]] = {}
    for cell in matrix.cells:
        places.setdefault(cell.of, set()).add(cell.place)
    if any(len(each) > 1 for each in places.values()):
        return None
    return "each experiment of this campaign has one version, one topology and one profile, so nothing is compared"


@dataclass(frozen=True)
class Made:
    """A scorecard, with the bugs of OpenSearch that were tried in its versions."""

    card: Scorecard
    bugs: tuple[Bug, ...]
    asked: Asked

    def draw(self, page: Path) -> None:
        """The page, and the same as JSON beside it. Raises InvalidInput where they cannot be written."""
        from chaos.base.paths import write_json
        from chaos.report.scorecard import scorecard_page

        try:
            page.parent.mkdir(parents=True, exist_ok=True)
            scorecard_page(self.card, page, self.asked.command, self.bugs)
            write_json(page.with_suffix(".json"), self.card.to_json())
        except OSError as error:
            raise InvalidInput(f"cannot write {page}: {error.strerror}") from error


def scored(
    asked: Asked, every: Sequence[tuple[Matrix, Records]], judged: Mapping[str, Facts] | None = None
) -> Made | None:
    """The scorecard of the committed runs of campaigns; None where no cell is committed.

    ``judged``: cell's key → its run, where it was judged already. Raises InvalidInput for two experiments of one name
    and for files about bugs that cannot be read, StoreError for a run that is not what was committed.
    """
    from chaos.statistics import scorecard as scoring

    left_out: list[LeftOut] = []
    groups = _groups(every, left_out, judged or {})
    if not any(group.runs for group in groups):
        return None
    card = scoring.evaluate(groups, left_out)
    return Made(card, tuple(_bugs(asked.cases, asked.results, card.versions)), asked)


def _groups(
    every: Sequence[tuple[Matrix, Records]], left_out: list[LeftOut], judged: Mapping[str, Facts]
) -> list[Group]:
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
    _refuse_two([cell for members in cells.values() for cell in members.values()])
    found = []
    for at, members in cells.items():
        runs, origins = [], []
        for key, cell in members.items():
            if key not in made:
                continue
            commit, records = made[key]
            run = judged.get(key) or run_of(cell, commit, records)
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
    """Raises InvalidInput where what is shown in one place is of two experiments, also with each in versions of its
    own: they can neither be judged together nor compared."""
    seen: dict[tuple[str, ...], str] = {}
    for cell in cells:
        if seen.setdefault(cell.place[:-1], cell.compared) != cell.compared:
            raise InvalidInput(
                f"{cell.experiment.name} on {cell.experiment.topology.name} is another experiment in each of these "
                "campaigns, and their runs cannot be judged together",
                remedy="make a scorecard of each campaign, or give one of the experiments another name or profile",
            )


def _missing(matrix: Matrix, records: Records, waiting: dict[str, Cell]) -> Iterator[LeftOut]:
    """Cells without a run, each once, and combinations that the file leaves out."""
    from chaos.campaign import progress
    from chaos.statistics.scorecard import LeftOut

    mine = [cell for cell in matrix.cells if waiting.pop(cell.key, None) is not None]
    for each in progress.of_cells(mine, records, matrix.file.retry, int(matrix.file.budget.artifacts)).cells:
        yield LeftOut(each.cell.name, _why(each))
    for excluded in matrix.excluded:
        yield LeftOut(excluded.what, f"the campaign leaves it out: {excluded.because}")


def _why(each: CellProgress) -> str:
    tried = f" (workers lost {each.lost}, errors {each.errors})" if each.lost or each.errors else ""
    lacks = "no run is kept" if each.too_large else "not run"
    return f"{lacks}: {each.state}{tried}{f': {each.why}' if each.why else ''}"


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


def tell(card: Scorecard, page: Path) -> None:
    """Print the verdict, what changed, and where the page is."""
    from chaos.statistics import scorecard as scoring

    say(f"scorecard: {card.outcome.upper()}  {card.sentence}")
    for change in scoring.Change:
        for what, how, shift in card.told(change):
            machines = "; on other or several machines" if shift.other_machines else ""
            profile = "" if shift.promise.profile == DEFAULT else f" ({shift.promise.profile})"
            say(f"  {change}: {what}{profile}: {how}{machines}")
    for tally in card.tallies:
        say(
            f"  {tally.version} {tally.profile}: {tally.kept} kept, {tally.broken} broken ({tally.known} known), "
            f"{tally.open} not proven; {tally.whole} of {tally.runs} runs missed nothing, {tally.left_out} left out, "
            f"{tally.missing} cells not run"
        )
    if len(card.codes) > 1:
        say(f"  runs of {len(card.codes)} states of this suite's code: {', '.join(card.codes)}")
    for each in (*card.controls, *card.faultless):
        if each.otherwise or each.missing:
            lacking = [f"{each.missing} of {each.runs + each.missing} runs not made"] if each.missing else []
            say(f"  not as it must: {each.experiment} {each.version}: {'; '.join([*each.otherwise, *lacking])}")
    say(f"  page: {page}, and {page.with_suffix('.json')}")
