"""``scorecard --by target``: what was proven on clusters that exist, from the records of runs and of game days."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaos.base.errors import Exit, InvalidInput
from chaos.commands.common import say

if TYPE_CHECKING:
    from chaos.statistics.by_target import OnRecord, Targets


def by_target(paths: Sequence[Path], page: Path, valid_days: int) -> Exit:
    """Write the page and the same as JSON, and print it. Raises InvalidInput where there is nothing to read."""
    from chaos.base.paths import write_json
    from chaos.report.targets import targets_page
    from chaos.statistics import by_target as proving

    left_out: list[tuple[str, str]] = []
    runs = list(_runs(paths, left_out))
    found = proving.evaluate(runs, datetime.now(UTC), timedelta(days=valid_days), left_out)
    given = ["--by", "target", "--valid-days", str(valid_days), *map(str, paths)]
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        targets_page(found, page, shlex.join(["opensearch-chaos", "scorecard", *given]))
        write_json(page.with_suffix(".json"), found.to_json())
    except OSError as error:
        raise InvalidInput(f"cannot write {page}: {error.strerror}") from error
    _print(found, page)
    return Exit[found.outcome.name]


def _runs(paths: Sequence[Path], left_out: list[tuple[str, str]]) -> Iterator[OnRecord]:
    """Every run in these folders, with the game day whose folder it lies in. ``left_out`` gets what cannot be read."""
    from chaos.statistics import facts, store
    from chaos.statistics.by_target import OnRecord

    files = [file for path in paths for file in sorted(path.rglob("record.jsonl"))]
    days = {file.parent.resolve(): _day(file, left_out) for file in files}
    for folder in store.found(paths):
        day = next((days[each] for each in folder.resolve().parents if each in days), _Day())
        if folder.name in day.drills:
            left_out.append((folder.name, "it was the drill of a game day, which is stopped on purpose"))
            continue
        try:
            run = facts.of_folder(folder)
        except InvalidInput as error:
            left_out.append((str(folder), error.message))
            continue
        yield OnRecord(run, day.name, day.owner)


@dataclass(frozen=True)
class _Day:
    """A game day. ``drills``: names of the folders of runs that were stopped to see that they can be."""

    name: str | None = None
    owner: str | None = None
    drills: frozenset[str] = frozenset()


def _day(file: Path, left_out: list[tuple[str, str]]) -> _Day:
    """By its record; one that is not as it was written names no owner."""
    from chaos.gamedays import record

    if wrong := record.verify(file):
        left_out.append((str(file), f"{wrong[0]}: its owner is not taken from it"))
        return _Day()
    lines = record.read(file)
    asked = next((line for line in lines if line.get("kind") == "day.asked"), {})
    drills = frozenset(Path(str(line.get("folder"))).name for line in lines if line.get("kind") == "drill")
    return _Day(_text(asked.get("gameday")), _text(asked.get("owner")), drills)


def _text(value: Any) -> str | None:
    return str(value) if value else None


def _print(found: Targets, page: Path) -> None:
    from chaos.report.targets import NOT_RECORDED, day
    from chaos.statistics.by_target import Standing

    say(f"scorecard by target: {found.outcome.upper()}  {found.sentence}")
    for row in found.rows:
        if row.standing is not Standing.PROVEN:
            proven = f"last proven {day(row.last_proven)}, expired after {day(row.expires)}"
            owner = f"owner {row.owner or NOT_RECORDED}"
            say(f"  {row.standing}: {row.cluster}: {row.experiment}: {row.promise}: {proven}; {owner}")
    say(f"  {len(found.left_out)} left out; page: {page}, and {page.with_suffix('.json')}")
