"""A campaign's file as its cells, its store as records, and its committed runs: what commands on campaigns share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaos.base import paths
from chaos.base.errors import InvalidInput
from chaos.definitions.source import Problem, Source

if TYPE_CHECKING:
    from chaos.campaign.matrix import Cell, Matrix
    from chaos.campaign.records import Commit, Records
    from chaos.statistics.facts import Facts


def loaded(file: Path) -> Matrix:
    """A campaign with all its cells. Raises InvalidInput."""
    from chaos.campaign import matrix
    from chaos.definitions.campaign import load_campaign
    from chaos.registry import load_experiment

    return matrix.resolve(load_campaign(file), load_experiment)


def records_of(matrix: Matrix, store: str | None) -> Records:
    """The campaign's records, in the file's store or another. Raises InvalidInput, with the place of the file's."""
    from chaos.campaign.opening import open_store
    from chaos.campaign.records import Records

    if store == "":  # as of a variable of CI that is not set: the file's own store is not what was meant
        raise InvalidInput("--store is empty", remedy="name a folder or s3://BUCKET/PREFIX, or leave it out")
    try:
        return Records(open_store(store or matrix.file.store))
    except InvalidInput as error:
        if store is not None:
            raise
        source = Source.read(Path(matrix.campaign.file))
        source.add([Problem(("store",), str(error))])
        raise InvalidInput("\n".join(source.errors())) from error


def facts_of(matrix: Matrix, records: Records) -> list[tuple[Cell, Facts]]:
    """Every committed run of a campaign, judged from its history. Raises StoreError and InvalidInput."""
    found = ((cell, records.of_cell(cell.key)) for cell in matrix.cells)
    return [(cell, run_of(cell, commit, records)) for cell, commit in found if commit is not None]


def run_of(cell: Cell, commit: Commit, records: Records) -> Facts:
    """A committed run, judged from its history. Raises StoreError where it is not what was committed, or was committed
    for another cell."""
    from chaos.statistics import facts

    run = facts.of_folder(records.folder(commit, paths.cache() / "campaigns"))
    _refuse_other(cell, run.plan, records)
    return replace(run, name=commit.run)  # in a store every run's folder is called `run`


def folder_of(cell: Cell, commit: Commit, records: Records) -> Path:
    """The folder of a committed run, on this machine. Raises StoreError as :func:`run_of` does."""
    from chaos.campaign.stores import StoreError

    folder = records.folder(commit, paths.cache() / "campaigns")
    try:
        plan = dict(json.loads((folder / "plan.json").read_bytes()))
    except (OSError, ValueError, TypeError) as error:
        says = f"the plan of the run of {cell.name} cannot be read: {error}"
        raise StoreError(f"store {records.store.address}: {says}") from error
    _refuse_other(cell, plan, records)
    return folder


def _refuse_other(cell: Cell, plan: Mapping[str, Any], records: Records) -> None:
    """Raises StoreError where a run's plan is not that of a cell."""
    from chaos.campaign.stores import StoreError

    wanted = {"hash": cell.to_json()["hash"], "seed": cell.seed}
    wrong = [f"its {name} is {plan.get(name)}" for name, value in wanted.items() if plan.get(name) != value]
    made_with = (plan.get("versions") or {}).get("opensearch")
    if made_with != cell.version and cell.experiment.topology.versions == (cell.version,):
        wrong.append(f"its OpenSearch is {made_with}")
    if wrong:
        raise StoreError(f"store {records.store.address}: the run of {cell.name} is another's: {'; '.join(wrong)}")
