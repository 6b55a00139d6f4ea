"""Restores that lack something, though the cluster had called the snapshot a success.

By the cluster's own account: shards that were not restored, or fewer documents than the index showed when the snapshot
began. A snapshot that the cluster calls partial or failed is none of these: it says so itself.
"""

from __future__ import annotations

from chaos.base import text
from chaos.checks.check import Check, Rests, Scope
from chaos.checks.measure import Measure
from chaos.checks.record import Record
from chaos.checks.trial import Altered, Trial
from chaos.checks.words import Words
from chaos.history.events import ActionCommand, ActionDone

METRIC = "restores.incomplete"
KIND = "restore"
"""The action of a phase that takes an index back from a snapshot."""


def asked(record: Record) -> list[ActionCommand]:
    """The restores that were begun."""
    return [event for event in record.seen(ActionCommand) if event.action_kind == KIND]


def measure(record: Record) -> Measure:
    """How many restores came to an end and lack something."""
    begun = asked(record)
    if not begun:
        return Measure.missing("count", "nothing was restored from a snapshot")
    done = {each.action: each for each in record.seen(ActionDone)}
    lacking = [done[each.action] for each in begun if each.action in done and done[each.action].incomplete is True]
    open_ = [
        each for each in begun if each.action not in done or not (done[each.action].ok or done[each.action].incomplete)
    ]
    says = f"{text.count(len(lacking))} of {text.plural(len(begun), 'restore')} were not whole"
    if lacking:
        says += f"; the first: {lacking[0].says}"
    gaps = [f"how this ended is not known: {each.says}" for each in open_]
    evidence = {"restores": len(begun), "incomplete": [each.says for each in lacking]}
    return Measure.seen(len(lacking), says, gaps, evidence)


def two_snapshots_were_restored(run: Altered) -> None:
    """The same run, which took an index back twice."""
    for number, at in ((8, 2.0), (9, 6.0)):
        run.add(
            "healthy",
            at,
            "action.command",
            action=f"a{number}",
            action_kind=KIND,
            says=f"restore the snapshot {number}",
        )
        run.add("healthy", at + 1, "action.done", action=f"a{number}", ok=True, says="12 documents")


def a_shard_of_one_was_not_restored(run: Altered) -> None:
    for event in run.events:
        if event["kind"] == "action.done" and event["action"] == "a9":
            event |= {"ok": False, "says": "1 of 3 shards of whole were not restored", "incomplete": True}


CHECKS = (
    Check(
        METRIC,
        "count",
        lambda record, *_: measure(record),
        Words.of(
            missed="{measured} restores from snapshots were not whole; wanted was {want}",
            question="every restore from a snapshot was whole",
            promise="Restores from snapshots that are not whole: {want}",
            short="restores that were not whole",
        ),
        group="data",
        scope=Scope.RUN,
        rests=Rests.DATA,
        promise=True,
        actions=(KIND,),
        looked=lambda record: bool(asked(record)),
        meaning=(
            "Indices that were taken back from a snapshot and lack shards or documents, though the cluster had called "
            "the snapshot a success. Such a backup is found to be none on the day when it is needed."
        ),
        helps=("investigate", "explain-allocation"),
        order=208,
        trial=Trial("0", None, (a_shard_of_one_was_not_restored,), given=(two_snapshots_were_restored,)),
    ),
)
