"""``plan --on FILE --fis``: each fault by AWS FIS made with every action skipped, and what FIS says of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from chaos.base.errors import ChaosError, InvalidInput

if TYPE_CHECKING:
    from chaos.commands.planned import Planned

AWS = "AWS FIS"


def refuse_without(on: Path | None) -> None:
    """Raises InvalidInput where there is no AWS FIS to ask."""
    if on is None:
        raise InvalidInput(
            "--fis asks AWS FIS of a cluster that exists: a lab has none",
            remedy="name its file: --on topologies/existing/NAME.yaml",
        )
    from chaos.commands.fis import read

    read(on)


def rehearsed(made: Planned) -> Planned:
    """The plan with what FIS says. What it refuses, or chooses otherwise, refuses the plan, and so do templates and
    experiments with our tags that are there already: no run begins while they are.

    A plan that the cluster or its file refuses already is not tried: whom its faults would hit may not be known.
    """
    from chaos.commands.fis import requests
    from chaos.run import recovering_on
    from chaos.target.existing import rehearsing
    from chaos.target.existing.compare import Row, Sign

    if made.refused:
        return made
    there = recovering_on.cluster_of(made.target)
    assert there.fis is not None
    try:
        standing = there.fis.left()
    except ChaosError as error:
        standing = [error.message]
    if standing:
        remedy = f"end what is named, or: opensearch-chaos recover --on {made.target.file}"
        rows = [(AWS, Row("left of earlier runs", Sign.BLOCKS, says, remedy)) for says in standing]
        return replace(made, refused=[*made.refused, *rows])
    run = rehearsing.named(rehearsing.PLAN)
    found = [
        rehearsing.rehearsed(there.fis, run, fault, request)
        for fault, request in requests(made.experiment, there, momentary=False)
    ]
    remedy = "correct the target's fis:, or allow what `opensearch-chaos fis policy` prints"
    refused = [(AWS, Row(each.fault, Sign.BLOCKS, each.says, remedy)) for each in found if not each.well]
    return replace(made, rehearsed=tuple(found), refused=[*made.refused, *refused])
