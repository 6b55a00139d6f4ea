"""What must not be there when a run begins: what dead runs left, and another run on the same lab."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from chaos.base import paths
from chaos.base.errors import InvalidInput, Leftovers
from chaos.base.paths import ProcessIdentity
from chaos.faults.ledger import registrations
from chaos.run import recovery
from chaos.targets.labs.base import BaseLab


def refuse_leftovers() -> None:
    """Raises Leftovers naming what dead runs left, and the command that takes it away."""
    found = recovery.leftovers()
    if found:
        named = "; ".join(leftover.what for leftover in found)
        remedies = list(dict.fromkeys(leftover.remedy for leftover in found))
        raise Leftovers(f"{len(found)} leftovers of a dead run are here: {named}", remedy="; ".join(remedies))


def refuse_second_run(lab: BaseLab) -> None:
    """Raises InvalidInput when another living process has a run on this lab: neither could trust what it measures."""
    me = ProcessIdentity.me()
    for other in registrations():
        if other.lab == lab.id and other.owner != me and other.owner.alive():
            raise InvalidInput(
                f"run {other.run} is under way on lab '{lab.id}'", remedy="wait for its end, or use another lab"
            )


@contextmanager
def sole_run(lab: BaseLab | None) -> Iterator[None]:
    """Hold a lab for the block, so that of two runs that begin at once one is refused with InvalidInput."""
    if lab is None or not lab.folder.is_dir():
        yield
        return
    with paths.locked(lab.folder / "run.lock", blocking=False) as mine:
        refuse_second_run(lab)
        if not mine:
            raise InvalidInput(
                f"another run is under way on lab '{lab.id}'", remedy="wait for its end, or use another lab"
            )
        yield
