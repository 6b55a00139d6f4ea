"""Two of the project's own series as campaigns: a campaign's file of what is to be recorded, and the rows of
``reports/results`` that its committed cells are.

    python benchmarks/series.py campaign each                # writes build/each.yaml: what `record each` would run
    python benchmarks/series.py campaign no-fault --times 20 [--of FILE]
    opensearch-chaos campaign run build/each.yaml            # goes on where it stopped
    python benchmarks/series.py rows each build/each.yaml    # writes rows, as `record each` does; again for more
    python benchmarks/results.py page

The rows are those of ``results.py``: the same files, keys and hashes. A row's ``code`` is of the commit that was
checked out where its run was made, which the attempt names. Nothing is a row that was made with uncommitted code, of
another topology, version or definition than the experiment's file has now, or by a commit that this clone lacks.

What is otherwise than with ``record``: a run that was refused, and surplus, is no row. Of a run that ended with an
error of the suite the row says no more than why, because only what is committed is in the store. Each run of
``no-fault`` has a seed of its own, because a cell is run once. An experiment with a seed of its own is left to
``record``.

The store is one of that code, and the file names it: a cell's key does not hold the code, so in a store that is kept
over a change the runs of before it would count for after it.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import results

from chaos.base import text
from chaos.base.errors import ChaosError, Exit
from chaos.campaign.matrix import Cell
from chaos.campaign.records import Attempt, Commit, Ended, Records
from chaos.commands.campaign_runs import folder_of, loaded, records_of
from chaos.registry import load_experiment
from chaos.run import plan

SERIES = ("each", "no-fault")
ARTIFACTS = "4GiB"
"""What a cell may keep: ``record`` keeps all that a run leaves."""
TEXT = """\
apiVersion: opensearch-chaos/v1
kind: campaign
name: {name}
description: the project's own series {series}, made by benchmarks/series.py for code {code}
store: {store}
matrix:
  experiments:
{experiments}
repeats: {repeats}
budget: {{artifacts: {artifacts}}}
retry: {{error: 0}} # an error is a row, too
"""


class NoRow(Exception):
    """A cell is no row, and why."""


def campaign(series: str, times: int, of: str = "", out: Path | None = None) -> Path:
    """Write the campaign of what is still to be recorded. Raises SystemExit where that is nothing, or where something
    that decides what a run does is not committed; InvalidInput for experiments that a campaign cannot run."""
    results.refuse_uncommitted(series, of)
    state = functools.cache(lambda what: results.code(series, what))
    left = list(results.wanted(series, times, results.lines(series), state, of))
    names = [what for what in dict.fromkeys(left) if series != "each" or _own_seed(what)]
    if not names:
        raise SystemExit(f"nothing of {series} is left to record for this code")
    name = series if not of else Path(of).stem
    file = out or results.ROOT / "build" / f"{name}.yaml"
    code = results.code(series, names[0] if series == "no-fault" else "")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        TEXT.format(
            name=file.stem,
            series=series,
            code=code,
            store=f"reports/campaigns/{name}-{code}",
            experiments="\n".join(f"    - {os.path.relpath(results.ROOT / what, file.parent)}" for what in names),
            repeats=times if series == "no-fault" else 1,
            artifacts=ARTIFACTS,
        )
    )
    said = text.plural(len(loaded(file).cells), "cell")
    print(f"{file}: {said}; next: opensearch-chaos campaign run {os.path.relpath(file)}")
    for what in sorted({*left} - {*names}):
        print(
            f"left out: {what}: it has a seed of its own, so: python benchmarks/results.py record each --again {what}"
        )
    return file


def _own_seed(what: str) -> bool:
    """Whether an experiment is the same with a campaign's first seed."""
    return int(results.written(what).get("seed", 1)) == 1


def rows(series: str, file: Path, store: str | None = None) -> tuple[int, list[str]]:
    """Write the rows of all cells of a campaign that are committed, or failed; how many are new, and what is none, with
    why. A row that is there already stays as it is, but that of a run that was taken for cut off and has ended since.

    Raises SystemExit where another run's row has the file of one of these; ChaosError for a campaign or a store that
    cannot be read, or a run that is not what was committed.
    """
    matrix = loaded(file)
    records = records_of(matrix, store)
    new, left_out = 0, []
    for cell in matrix.cells:
        commit = records.of_cell(cell.key)
        for attempt in records.attempts(cell.key):
            try:
                row = _row(series, cell, attempt, commit, records)
            except NoRow as why:
                left_out.append(f"{cell.name}, attempt {attempt.id}: {why}")
                continue
            if row is not None:
                new += _kept(row)
    return new, left_out


def _kept(row: dict[str, Any]) -> bool:
    """Write a row; False where it is there. Raises SystemExit where its file is another run's."""
    file = results.file_of(row)
    there = [line for line in results.lines(row["series"]) if results.file_of(line) == file] if file.is_file() else []
    if there and _goes_on(there[0], row):
        there = []
    if there and there[0].get("run") != row.get("run"):
        raise SystemExit(f"{file}: another run is recorded that began in the same second: {there[0].get('run')}")
    if not there:
        results.keep(row)
        print(f"{row['series']}: {row['what']}: {row.get('outcome', 'cut off')}: {file}")
    return not there


def _goes_on(there: dict[str, Any], row: dict[str, Any]) -> bool:
    """Whether a row says how the attempt of another one ended, whose worker was lost or frozen then."""
    return "ended" not in there and "ended" in row and all(row.get(key) == value for key, value in there.items())


def _row(series: str, cell: Cell, attempt: Attempt, commit: Commit | None, records: Records) -> dict[str, Any] | None:
    """The row of an attempt; None of one that has not ended, that nothing was started of, or that came second.

    Raises NoRow.
    """
    is_committed = commit is not None and commit.attempt == attempt.id
    if not is_committed and attempt.ended in (Ended.REFUSED, Ended.SURPLUS):
        return None
    if not is_committed and attempt.ended is None and not attempt.is_lost():
        return None
    begun = _begun(series, cell, attempt)
    if is_committed:
        assert commit is not None
        return begun | _committed(cell, commit, records)
    if attempt.ended not in (Ended.ERROR, Ended.TOO_LARGE):
        return begun  # as a run that was cut off: it has no end
    assert attempt.ended_at is not None
    return begun | {
        "ended": attempt.ended_at.isoformat(timespec="seconds"),
        "exit_code": int(Exit.ERROR),
        "seconds": round((attempt.ended_at - attempt.began).total_seconds()),
        "outcome": "error",
        "said": results.said(attempt.why),
    }


def _begun(series: str, cell: Cell, attempt: Attempt) -> dict[str, Any]:
    """What a row says from its begin on. Raises NoRow."""
    what, made_by = _what(series, cell), attempt.checkout
    if made_by is None:
        raise NoRow(
            "it does not say by which commit it was made: it was made outside of a checkout, or by an older one"
        )
    changed = [path for path in made_by["changed"] if results.is_code(path, results.experiments_of(series, what))]
    if changed:
        raise NoRow(f"uncommitted code: {', '.join(changed[:5])}")
    commit = str(made_by["commit"])
    try:
        short = results.git("rev-parse", "--short", f"{commit}^{{commit}}").strip()
        code = results.code(series, what, commit)
    except subprocess.CalledProcessError:
        raise NoRow(f"it was made by commit {commit}, which this clone does not have") from None
    at = attempt.machine
    return {
        "series": series,
        "code": code,
        "commit": short,
        "what": what,
        "machine": {
            "processors": at["processors"],
            "memory_gib": round(at["memory_bytes"] / 2**30),
            "kernel": at["kernel"],
            "busy": at["busy"],
        },
        "began": attempt.began.astimezone(UTC).isoformat(timespec="seconds"),
        **({} if cell.seed == cell.experiment.seed else {"seed": cell.seed}),
    }


def _what(series: str, cell: Cell) -> str:
    """The experiment's file, from this folder on. Raises NoRow where `opensearch-chaos run` of it is another run."""
    path = Path(cell.experiment.file).resolve()
    if not path.is_relative_to(results.ROOT):
        raise NoRow(f"{cell.experiment.file} is no experiment of this repository")
    if cell.to_json()["hash"] != plan.digest(load_experiment(path)):
        raise NoRow("it is on another topology or version than the experiment's file says")
    if series == "each" and cell.seed != cell.experiment.seed:
        raise NoRow(f"its seed is {cell.seed}, and the experiment's is {cell.experiment.seed}")
    return str(path.relative_to(results.ROOT))


def _committed(cell: Cell, commit: Commit, records: Records) -> dict[str, Any]:
    """What a row says of a run that was committed."""
    folder = folder_of(cell, commit, records)
    found = results.verdict_of(folder)
    return found | {
        "run": commit.run,  # its folder in the store is called otherwise
        "ended": datetime.fromisoformat(commit.committed).astimezone(UTC).isoformat(timespec="seconds"),
        "exit_code": int(json.loads((folder / "findings.json").read_text())["exit_code"]),
        "seconds": round(commit.seconds),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("campaign", help="write the campaign of what is still to be recorded")
    making.add_argument("series", choices=SERIES)
    making.add_argument("--times", type=int, default=20, help="of no-fault: so many runs")
    making.add_argument("--of", default="", metavar="FILE", help="the experiment of a series without a fault")
    making.add_argument("--out", type=Path, metavar="FILE", help="the campaign's file; default: build/SERIES.yaml")
    taking = commands.add_parser("rows", help="write the rows of committed cells")
    taking.add_argument("series", choices=SERIES)
    taking.add_argument("file", type=Path, metavar="CAMPAIGN")
    taking.add_argument("--store", help="instead of the file's: a folder, or s3://BUCKET/PREFIX")
    given = parser.parse_args()
    try:
        if given.command == "campaign":
            if given.of and given.series != "no-fault":
                parser.error("--of is for the series no-fault")
            if given.of and not (results.ROOT / given.of).is_file():
                parser.error(f"no such file: {given.of}")
            campaign(given.series, given.times, given.of, given.out)
            return 0
        new, left_out = rows(given.series, given.file, given.store)
    except ChaosError as error:
        print(f"series.py: {error}", file=sys.stderr)
        return int(error.exit_code)
    for line in left_out:
        print(f"no row: {line}", file=sys.stderr)
    print(f"{text.plural(new, 'new row')}, {len(left_out)} left out")
    return int(Exit.INCONCLUSIVE if left_out else Exit.PASS)


if __name__ == "__main__":
    sys.exit(main())
