"""``opensearch-chaos recover``: undo what dead runners left, from the registry, the ledgers and the names alone.

First the ledgers of dead runs are undone on labs that are to live on (a ``lab up``), and Toxiproxies of such labs that
died are started anew; then every lab without a living owner or lease is taken away. Safe to run twice, or in two
processes at once.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from chaos.base import paths
from chaos.base.errors import ChaosError
from chaos.faults.ledger import Registration, registrations, standing
from chaos.faults.lifecycle import undo_entries
from chaos.history import seal
from chaos.run import commanding, noted, space
from chaos.run.helping import end_helpers
from chaos.targets.existing.target import is_target, names_target
from chaos.targets.labs import kinds, sweep
from chaos.targets.labs.base import BaseLab


@dataclass
class Recovered:
    """What was done, and what could not be."""

    undone: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not self.problems


NOTES = noted.FORGET
"""With it the moves that a run makes beside are known to whoever undoes them."""


BY_NOTES = "undo by its notes: opensearch-chaos recover --on FILE"


def _gone(registration: Registration, orphaned: set[str]) -> str | None:
    """What is to be said of a dead run whose ledger somebody removed, while what it was done to lives on."""
    if registration.ledger.is_file() or registration.lab in orphaned:
        return None  # a lab that goes away takes with it all that was done to it
    if (paths.labs() / registration.lab).is_dir() and not is_target(registration.lab):
        remedy = f"take the lab away: opensearch-chaos lab down {registration.lab}"
    elif names_target(registration.lab):
        remedy = BY_NOTES
    else:
        return None
    missing = f"run {registration.run}: its ledger {registration.ledger} is missing, so nothing says what to undo"
    return f"{missing}; {remedy}, then delete {registration.file}"


def leftovers() -> list[sweep.Leftover]:
    """What a new run must not start over: dead runs' faults, and dead owners' namespaces, processes, folders."""
    found = sweep.leftovers()
    for registration in registrations():
        if registration.owner.alive():
            continue
        for entry in standing(registration.ledger):
            found.append(sweep.Leftover(f"fault of run {registration.run}: {entry.move}", registration.lab))
        if not standing(registration.ledger):
            found.append(sweep.Leftover(f"registry entry of run {registration.run}", registration.lab))
    return found


def mend(lab: BaseLab) -> tuple[list[str], list[str]]:
    """What had to be started anew before anything can be undone, and what that ended in."""
    try:
        return lab.mend(), []
    except (ChaosError, OSError) as error:
        return [], [f"lab {lab.id}: {error}"]


def _mend_living(result: Recovered, says: Callable[[str], None]) -> None:
    """Toxiproxies of labs that live on and that no run uses now: one that died keeps every further run away."""
    busy = {registration.lab for registration in registrations() if registration.owner.alive()}
    for record in sweep.known():
        if not record.lease or record.id in busy:
            continue
        try:
            lab = kinds.attach(record.id)
        except (ChaosError, OSError) as error:
            says(f"lab {record.id} was left as it is: {error}")
            continue
        mended, failed = mend(lab)
        for what in mended:
            says(f"{what} of lab {record.id} did not answer and was started anew")
        result.problems += failed


def _name_others(says: Callable[[str], None]) -> None:
    """Labs of other machines are left alone: whether their owners live is not known here."""
    for kind in kinds.every().values():
        with suppress(Exception):  # another package's kind; what is left alone is no problem
            for id in sorted(kind.of_other_machines()):
                says(f"lab {id} of kind '{kind.name}' was left as it is: it is another machine's, so run recover there")


def recover(says: Callable[[str], None] = lambda _: None) -> Recovered:
    """Undo and remove everything whose owner is dead."""
    result = Recovered()
    with paths.locked(paths.state() / "recover.lock"):
        orphaned = {record.id for record in sweep.known() if record.orphaned}
        for registration in registrations():
            if registration.owner.alive():
                continue
            space.release(registration.ledger.parent)
            left_running = commanding.end_commands(registration.ledger, says)
            result.problems += left_running
            if (gone := _gone(registration, orphaned)) is not None:
                result.problems.append(gone)
                continue
            entries = standing(registration.ledger)
            if entries and registration.lab not in orphaned:
                try:
                    lab = kinds.attach(registration.lab)
                    ledger = noted.FencedLedger(registration.ledger)
                except (ChaosError, OSError) as error:
                    if (paths.labs() / registration.lab).is_dir() or is_target(registration.lab):
                        result.problems.append(f"run {registration.run} on lab {registration.lab}: {error}")
                        continue
                    if names_target(registration.lab):  # the cluster lives on, whatever became of our folder
                        lost = f"run {registration.run}: nothing here says where its cluster {registration.lab} is"
                        result.problems.append(f"{lost}; {BY_NOTES}, then delete {registration.file}")
                        continue
                    entries = []  # the lab is gone, and with it all that was done to it
                else:
                    mended, failed = mend(lab)
                    for what in mended:
                        says(f"{what} did not answer and was started anew")
                    with seal.going_on(registration.ledger.parent, seal.LEDGER, "recover", "it undid what was left"):
                        with suppress(ChaosError):  # then they are looked for as before
                            noted.settle_open(lab, ledger)
                        failed += undo_entries(lab, ledger, entries, by_others=says, fencing=True)
                        failed += end_helpers(lab, ledger.moves())
                        ledger.close()
                    left = {entry.number for entry in standing(registration.ledger)}
                    result.problems += failed
                    done = len(entries) - sum(entry.number in left for entry in entries)
                    result.undone.append(f"{done} of {len(entries)} moves of run {registration.run}")
                    says(result.undone[-1] + " undone")
                    if failed:
                        if is_target(registration.lab):
                            result.problems.append(f"if that cluster is gone for good, delete {registration.file}")
                        continue
            if not left_running:
                registration.remove()
        _mend_living(result, says)
        for id in sorted(orphaned):
            says(f"taking lab {id} away")
            try:
                problems = sweep.destroy(id)
            except (ChaosError, OSError) as error:  # one lab that will not go must not keep the next
                problems = [f"lab {id}: {error}"]
            result.problems += problems
            if not problems:
                result.removed.append(id)
    _name_others(says)
    return result
