"""What a plan asks AWS FIS: what of ours is there already, and with ``--fis`` each fault with every action skipped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from chaos.base.errors import ChaosError, InvalidInput

if TYPE_CHECKING:
    from chaos.commands.planned import Planned
    from chaos.definitions.fis import FisFile

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


def looked(every: Sequence[Planned]) -> list[Planned]:
    """The plans, of one target, with what of ours is in FIS already: it would keep each run with a fault by FIS from
    beginning, so it refuses the plan.

    Asked by reading alone, each question once. Where AWS does not answer, a note says so; another one says how long a
    fault may last while it does not.
    """
    from chaos.registry import PROVIDERS
    from chaos.run import on_target, reaching
    from chaos.targets.existing.compare import Row, Sign
    from chaos.targets.existing.fis import Fis

    target = every[0].target
    if target.written.fis is None:
        return list(every)
    offers = reaching.offers_on(PROVIDERS, target.written)
    mine = [bool(on_target.faults_by(on_target.FIS, each.experiment, offers)) for each in every]
    if not any(mine):
        return list(every)
    rows: list[tuple[str, Row]] = []
    notes: tuple[str, ...] = (hung(target.written.fis),)
    try:
        of_runs, by_hand = Fis(target.written.fis, target.written.name, attempts=1).remaining()
    except ChaosError as error:
        notes += (f"AWS does not say what of ours is left there, which keeps runs from beginning: {error.message}",)
    else:
        remedy = f"opensearch-chaos recover --on {target.file}"
        rows = [(AWS, Row("left of earlier runs", Sign.BLOCKS, says, remedy)) for says in of_runs]
        rows += [(AWS, Row("made by hand", Sign.BLOCKS, says, "run the command above")) for says in by_hand]
    return [
        replace(each, refused=[*each.refused, *rows], notes=(*each.notes, *notes)) if its else each
        for each, its in zip(every, mine, strict=True)
    ]


def hung(file: FisFile) -> str:
    """How long a fault may last past its phase while AWS answers nothing, from the times that are waited."""
    from chaos.aws.clients import ATTEMPTS, CONNECT_TIMEOUT, PAUSES, READ_TIMEOUT
    from chaos.targets.existing.fis import HUNG_SECONDS, QUESTIONS_BEFORE_STOP

    return (
        f"while AWS answers nothing, a fault by FIS (an instance that is stopped, for example) may last "
        f"{HUNG_SECONDS:.0f} s past its phase: {QUESTIONS_BEFORE_STOP} questions of {ATTEMPTS} attempts of "
        f"{CONNECT_TIMEOUT + READ_TIMEOUT} s, with pauses of {PAUSES:.0f} s; FIS itself ends it {file.lasting:.0f} s "
        f"after its start"
    )


def rehearsed(made: Planned) -> Planned:
    """The plan with what FIS says. What it refuses, or chooses otherwise, refuses the plan.

    A plan that the cluster or its file refuses already is not tried: whom its faults would hit may not be known.
    """
    from chaos.commands.fis import requests
    from chaos.run import recovering_on
    from chaos.targets.existing import rehearsing
    from chaos.targets.existing.compare import Row, Sign

    if made.refused:
        return made
    there = recovering_on.cluster_of(made.target)
    assert there.fis is not None
    run = rehearsing.named(rehearsing.PLAN)
    found = [
        rehearsing.rehearsed(there.fis, run, fault, request)
        for fault, request in requests(made.experiment, there, momentary=False)
    ]
    remedy = "correct the target's fis:, or allow what `opensearch-chaos fis policy` prints"
    refused = [(AWS, Row(each.fault, Sign.BLOCKS, each.says, remedy)) for each in found if not each.well]
    return replace(made, rehearsed=tuple(found), refused=[*made.refused, *refused])
