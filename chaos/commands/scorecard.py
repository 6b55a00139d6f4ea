"""``scorecard``: which promises releases of OpenSearch keep, from the committed runs of campaigns."""

from __future__ import annotations

import shlex
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from chaos.base.errors import Exit, InvalidInput
from chaos.commands.campaign_runs import loaded, records_of
from chaos.commands.common import or_shipped
from chaos.commands.scorecard_cells import CASES, RESULTS, Asked, scored, tell
from chaos.commands.scorecard_targets import by_target


class By(StrEnum):
    """What a row of a scorecard is of."""

    VERSION = "version"
    TARGET = "target"


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
        matrix = loaded(or_shipped(file))
        every.append((matrix, records_of(matrix, store)))
    made = scored(Asked(tuple(campaigns), store, cases, results), every)
    if made is None:
        raise InvalidInput(
            f"no cell of {', '.join(map(str, campaigns))} is committed yet",
            remedy=f"make them with: opensearch-chaos campaign run {shlex.quote(str(campaigns[0]))}",
        )
    made.draw(page)
    tell(made.card, page)
    raise typer.Exit(int(Exit[made.card.outcome.name]))
