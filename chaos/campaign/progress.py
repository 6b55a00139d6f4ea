"""How far a campaign is: what became of each cell, by what its store says."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from chaos.campaign import lasting
from chaos.campaign.matrix import Cell
from chaos.campaign.records import Attempt, Commit, Ended, Records
from chaos.definitions.campaign import RetryFile


class State(StrEnum):
    """Of a cell."""

    COMMITTED = "committed"
    OPEN = "under way"
    WAITING = "not made yet"
    GIVEN_UP = "given up"
    """It was tried as often as the file allows, and every time a worker was lost or the suite failed; or the record of
    its run is more than a cell may keep."""
    REFUSED = "refused"
    """The machines that tried it lack something; another may have it."""


@dataclass(frozen=True)
class CellProgress:
    """One cell. ``lost`` and ``errors``: attempts that count against its retries; ``too_large``: it was given up for
    the size of a record, and not for those."""

    cell: Cell
    state: State
    commit: Commit | None = None
    lost: int = 0
    errors: int = 0
    surplus: int = 0
    why: str = ""
    too_large: bool = False


@dataclass
class Progress:
    """All cells of a campaign, in its order."""

    cells: list[CellProgress] = field(default_factory=list)

    def of(self, state: State) -> list[CellProgress]:
        return [each for each in self.cells if each.state is state]

    @property
    def commits(self) -> list[tuple[Cell, Commit]]:
        return [(each.cell, each.commit) for each in self.cells if each.commit is not None]

    @property
    def tally(self) -> str:
        """``12 of 20 cells committed (9 pass, 3 weakness), 1 under way; 2 workers lost, 1 error, 1 surplus``."""
        done = self.of(State.COMMITTED)
        outcomes = Counter(each.commit.outcome for each in done if each.commit is not None)
        said = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
        others = ", ".join(
            f"{len(found)} {state}" for state in State if state is not State.COMMITTED and (found := self.of(state))
        )
        lost, errors = sum(each.lost for each in self.cells), sum(each.errors for each in self.cells)
        retried = f"workers lost {lost}, errors {errors}, surplus runs {sum(each.surplus for each in self.cells)}"
        return (
            f"{len(done)} of {len(self.cells)} cells committed{f' ({said})' if said else ''}"
            f"{f'; {others}' if others else ''}; {retried}"
        )


def of_cell(cell: Cell, records: Records, retry: RetryFile, keeps: int = 0) -> CellProgress:
    """What became of a cell. ``keeps``: how many bytes a cell may keep now. Where the record of a run was larger the
    cell is not tried again, because a run that says something is never drawn anew by itself."""
    commit = records.of_cell(cell.key)
    attempts = [each for each in records.attempts(cell.key) if commit is None or each.id != commit.attempt]
    lost = [each for each in attempts if each.is_lost()]
    errors = [each for each in attempts if each.ended is Ended.ERROR]
    refused = [each for each in attempts if each.ended is Ended.REFUSED]
    too_large = [each for each in attempts if each.ended is Ended.TOO_LARGE and each.bytes > keeps]
    under_way = [each for each in attempts if each.ended is None and not each.is_lost()]
    if commit is not None:
        state = State.COMMITTED
    elif too_large or len(lost) > retry.lost or len(errors) > retry.error:
        state = State.GIVEN_UP
    elif under_way:
        state = State.OPEN
    elif refused and refused[-1] is attempts[-1]:
        state = State.REFUSED
    else:
        state = State.WAITING
    surplus = sum(each.ended is Ended.SURPLUS for each in attempts)
    stopped_by_size = bool(too_large) and state is State.GIVEN_UP
    why = too_large[-1].why if stopped_by_size else _last_why(attempts)
    return CellProgress(cell, state, commit, len(lost), len(errors), surplus, why, stopped_by_size)


def _last_why(attempts: Sequence[Attempt]) -> str:
    return next((each.why for each in reversed(attempts) if each.why and each.ended is not Ended.SURPLUS), "")


def of_cells(cells: Iterable[Cell], records: Records, retry: RetryFile, keeps: int = 0) -> Progress:
    """What became of all of them. ``keeps``: as :func:`of_cell` has it."""
    return Progress([of_cell(cell, records, retry, keeps) for cell in cells])


@dataclass(frozen=True)
class Estimate:
    """How long cells take. ``seconds``: of one machine, one after the other; ``bounded``: experiments that were never
    run, of which the longest that their plan allows was taken."""

    seconds: float
    bounded: tuple[str, ...]

    @property
    def hours(self) -> float:
        return self.seconds / 3600


def estimated(cells: Iterable[Cell], commits: Sequence[tuple[Cell, Commit]]) -> Estimate:
    """From the median of earlier runs of the same experiment, whatever their version."""
    took: dict[str, list[float]] = {}
    for cell, commit in commits:
        took.setdefault(cell.experiment.name, []).append(commit.seconds)
    total, bounded = 0.0, set()
    for cell in cells:
        if earlier := took.get(cell.experiment.name):
            total += statistics.median(earlier)
        else:
            total += lasting.longest(cell.experiment)
            bounded.add(cell.experiment.name)
    return Estimate(total, tuple(sorted(bounded)))
