"""What keeps every run of a campaign from beginning on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from chaos.definitions import Experiment
from chaos.run import space
from chaos.run.leftovers import refuse_leftovers
from chaos.targets.labs import kinds


def refuse_unfit(experiments: Sequence[Experiment], out_folder: Path) -> None:
    """Said once, before the first run of these. Raises InvalidInput."""
    kinds.require(kinds.DEFAULT)
    refuse_leftovers()
    one_of_each = {each.name: each for each in experiments}
    if one_of_each:
        largest = max(one_of_each.values(), key=lambda each: space.of_record(each).bytes)
        space.refuse_scarce(space.wanted([largest], out_folder, kind=kinds.DEFAULT, own_lab=True, times=1))
