"""``recover --on FILE``: undo what a dead run left on a cluster, by the notes that it took there; from any machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from chaos.base.errors import ChaosError, InvalidInput, NotOurs
from chaos.base.units import Size
from chaos.definitions import Experiment, NodeSpec, Topology
from chaos.definitions.existing import Existing, ExistingFile, load_existing
from chaos.faults.ledger import Entry
from chaos.faults.lifecycle import on_its_way
from chaos.faults.moves import said
from chaos.history.controllers import LEDGER, NOTHING, SILENT_SECONDS
from chaos.opensearch.administration import reading
from chaos.opensearch.cluster import Cluster
from chaos.opensearch.views import administer
from chaos.run.helping import end_helpers
from chaos.run.noted import Lock, Notes, NotesGone
from chaos.run.on_target import LEASE_SECONDS, RENEW_SECONDS
from chaos.targets.existing import pods, rehearsing
from chaos.targets.existing.seen import refuse_another
from chaos.targets.existing.target import ExistingTarget

COPIES = "/_cat/shards?format=json&h=index,shard,state,unassigned.reason"
LOOKED_SECONDS, LOOK_SECONDS = 15.0, 1.0
"""For how long, and how often, it is looked whether a request whose answer was never seen still comes."""
WATCHED_SECONDS = 4 * RENEW_SECONDS
"""How long a lock must stand still until its run counts as dead."""
CONTROLLED_SECONDS = LEASE_SECONDS + SILENT_SECONDS + 10.0
"""The same where it may have failover controllers: these end before that, whatever has become of their runner."""


def recover_on(file: Path, says: Callable[[str], None]) -> tuple[int, list[str]]:
    """How many moves were undone, and what could not be. Raises InvalidInput where nothing may be touched: the file is
    not true, it names no notes, or a run is alive."""
    target = load_existing(file)
    if target.written.notes is None:
        raise InvalidInput(f"{target.file} names no index for notes", remedy="name the one that the run used: notes")
    refuse_another(target)
    cluster = cluster_of(target)
    notes = Notes(cluster, target.written.notes)
    try:
        return _undo_noted(cluster, notes, says)
    except NotesGone as error:
        return 0, [f"{error}; run recover on the machine of the run, whose own ledger has the same"]


def remaining_in_fis(file: Path, says: Callable[[str], None]) -> tuple[list[str], list[str]]:
    """What is in AWS FIS once the notes were undone, in words: what dead runs left, and what a person made from an
    export, which is not ours to delete. Either keeps every run from beginning. What rehearsals left is deleted.

    It comes after the notes: an answer of AWS's that hangs must not keep what the cluster alone can undo.
    """
    target = load_existing(file)
    cluster = cluster_of(target)
    if cluster.fis is None:
        return [], []
    try:
        for run in rehearsing.swept(cluster.fis):
            says(f"templates and experiments of AWS FIS that {run} left are ended and deleted: they hit nobody")
        return cluster.fis.remaining(but=_holder(cluster, target.written.notes))
    except ChaosError as error:
        return [f"AWS does not say whether anything of ours is left there: {error.message}"], []


def _holder(cluster: ExistingTarget, index: str | None) -> str | None:
    """The run that holds the cluster now. Raises ChaosError."""
    notes = Notes(cluster, index or "")
    held = notes.lock() if index is not None and notes.exists() else None
    return None if held is None else held.run


def _undo_noted(cluster: ExistingTarget, notes: Notes, says: Callable[[str], None]) -> tuple[int, list[str]]:
    while True:
        if not notes.exists():
            say_given_up(cluster, says)
            return 0, []
        held = notes.lock()
        if held is None:
            break
        seconds = watched(notes.standing().get(held.run, ()))
        says(f"run {held.run} of {held.host} holds this cluster: watching for {seconds:g} s whether it lives")
        if is_dead(notes, held, seconds):
            break
        says(f"run {held.run} has given it back: it ended, or its keeper did that for it")
    count, problems, strange = 0, list[str](), list[str]()
    until = time.monotonic() + LOOKED_SECONDS
    rounds = 0
    while True:  # what a controller has changed is put back by another entry than what it changed
        rounds += 1
        now = notes.lock()
        begun = now.run if now is not None and now.run != (held.run if held is not None else None) else None
        # the faults of a run that has begun since are its own to undo
        left = [(run, entry) for run, entries in notes.standing().items() if run != begun for entry in entries]
        problems, coming, unfinished = [], list[str](), set[str]()
        for run, entry in left:
            if run in unfinished and entry.inverse is not None and entry.inverse.last:
                continue  # by it the rest is undone when this is run again
            try:
                entry.move.fence(cluster)
                seen = None if entry.inverse is None else entry.inverse.apply(cluster)
                if (why := on_its_way(cluster, entry, seen)) is not None:
                    coming.append(f"{why} (note {run}-{entry.number} in {notes.index})")
                    unfinished.add(run)
                    continue
                notes.undone(run, [entry.number])
            except NotOurs as error:  # nothing of ours is there under its name
                if (why := on_its_way(cluster, entry, None)) is not None:  # ours may still come once theirs is gone
                    coming.append(f"{said(error)}; {why} (note {run}-{entry.number} in {notes.index})")
                    unfinished.add(run)
                    continue
                strange.append(f"{entry.inverse}: {said(error)}")
                notes.undone(run, [entry.number])
            except ChaosError as error:
                problems.append(f"{entry.inverse}: {said(error)}")
                unfinished.add(run)
            else:
                if entry.inverse is not None:
                    count += 1
                    says(f"undone of run {run}: {entry.inverse if entry.move.operation == NOTHING else entry.move}")
        if problems and rounds < 2:
            continue
        if not coming or time.monotonic() >= until:
            break
        if rounds == 1:
            says(f"a request may still be on its way: looking for {LOOKED_SECONDS:g} s whether it comes")
        time.sleep(LOOK_SECONDS)
    problems += coming + end_helpers(cluster, [entry.move for run, entry in left if run in unfinished])
    if held is not None and not problems:
        notes.forget(held.run)
    say_given_up(cluster, says)
    if coming:
        says(f"run this again later; once you know that nothing holds it: DELETE /{notes.index}/_doc/NOTE")
    return count, problems + strange


def say_given_up(cluster: Cluster, says: Callable[[str], None]) -> None:
    """Copies that OpenSearch tried to place five times, and no more: after a fault a search of before may have held
    them. Nothing of ours asks for them again, for that is a right that a run has not."""
    with suppress(ChaosError):
        status, answer = administer(cluster, "GET", COPIES, timeout=20.0)
        with reading("the list of copies"):
            lost = [
                f"{each['index']} {each['shard']}"
                for each in (answer if status == 200 else [])
                if each["state"] == "UNASSIGNED" and each["unassigned.reason"] == "ALLOCATION_FAILED"
            ]
        if lost:
            more = f" and {len(lost) - 5} more" if len(lost) > 5 else ""
            says(f"not undone, for it is OpenSearch's own: it gave up copies of {', '.join(lost[:5])}{more}")
            says("  have them tried again: POST /_cluster/reroute?retry_failed=true")


def watched_of(experiment: Experiment) -> float:
    """The same as :func:`watched`, of a run of this experiment."""
    return CONTROLLED_SECONDS if experiment.controller is not None else WATCHED_SECONDS


def watched(entries: Sequence[Entry]) -> float:
    """How many seconds the lock of a run with these notes must stand still until it counts as dead."""
    controlled = any(entry.fault == LEDGER for entry in entries)
    return CONTROLLED_SECONDS if controlled else WATCHED_SECONDS


def is_dead(notes: Notes, held: Lock, seconds: float) -> bool:
    """Whether the lock stands still for so many seconds; False when it is given back or another's. Raises InvalidInput
    when it is renewed: its run is alive. Wall clocks are not compared."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(1.0)
        now = notes.lock()
        if now is None or now.run != held.run:
            return False
        if now.renewed != held.renewed:
            raise InvalidInput(
                f"run {held.run} of {held.host} is alive", remedy="stop it there (Ctrl-C), and it undoes everything"
            )
    return True


def cluster_of(target: Existing) -> ExistingTarget:
    """The cluster of a target's file, for what asks no experiment. Raises LabError where its nodes are pods, and the
    ways into them cannot be opened."""
    pods.open_ways(target)
    return ExistingTarget(target, topology_of(target.written))


def topology_of(file: ExistingFile) -> Topology:
    """The cluster as the file has it, for what asks no experiment."""
    nodes = tuple(
        NodeSpec(name=name, zone=node.zone, group="", roles=node.roles, heap=Size(0))
        for name, node in sorted(file.nodes.items())
    )
    return Topology(name=file.name, version=file.opensearch, zones=tuple(file.zones.names), nodes=nodes)
