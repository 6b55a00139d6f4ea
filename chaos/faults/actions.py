"""Actions: an operator's or controller's moves that are no faults, with their inverse in the ledger all the same.

A run that dies between decommission and recommission must not leave a zone out of a cluster that is to live on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from chaos.base import text
from chaos.base.errors import ChaosError, FaultError
from chaos.definitions.actions import (
    ActionParams,
    Decommission,
    ExcludeVotes,
    IncludeVotes,
    IndexClose,
    IndexCreate,
    IndexDelete,
    IndexOpen,
    OnIndex,
    Recommission,
    Reindex,
    RemoteRestore,
    Reroute,
    Restore,
    RetryFailed,
    Snapshot,
    Weights,
)
from chaos.definitions.selectors import resolve_nodes
from chaos.definitions.topology import short_names
from chaos.faults.ledger import Entry, Ledger
from chaos.faults.lifecycle import on_its_way
from chaos.faults.moves import Move, Reversible, is_open
from chaos.history.events import ActionCommand, ActionDone
from chaos.history.writer import Events
from chaos.opensearch import administration, reindexing, snapshots
from chaos.opensearch.views import elected
from chaos.targets import services
from chaos.targets.labs.base import BaseLab
from chaos.targets.protocol import Lab

ENDS: dict[type[ActionParams], tuple[str, ...]] = {
    Recommission: ("zone.decommission", "zone.recommission"),
    IncludeVotes: ("votes.exclude", "votes.include"),
    IndexOpen: ("index.close",),
    IndexDelete: ("index.create", "index.close"),
}
"""Actions that take an earlier one back, and the moves that are undone by them; of an index those of that index."""


def converted(index: str) -> str:
    """The name of the copy of a load's index."""
    return f"{index}-converted"


def restored(index: str, snapshot: str) -> str:
    """The name of a load's index taken back from a snapshot."""
    return f"{index}-restored-{snapshot}"


def repository(index: str, snapshot: str) -> str:
    """The name of the repository of a snapshot: one for each, so that it can be taken away with it."""
    return f"{index}-{snapshot}"


def reversible(action: ActionParams, lab: Lab, earlier: Sequence[Entry] = (), index: str = "") -> Reversible:
    """The action's move and what takes it back; asks the cluster for what holds now. ``earlier``: moves that stand.
    ``index``: the load's first.

    Raises ChaosError where it cannot be done now, or could not be taken back.
    """
    if isinstance(action, Decommission):
        arguments: dict[str, object] = {"zone": action.zone, "no_delay": action.no_delay}
        if action.delay_timeout is not None:
            arguments["delay_seconds"] = float(action.delay_timeout)
        return Reversible(Move("zone.decommission", arguments), Move("zone.recommission", {"zone": action.zone}))
    if isinstance(action, Recommission):
        return Reversible(Move("zone.recommission", {"zone": action.zone}), None)
    if isinstance(action, ExcludeVotes):
        leader = elected(lab) if action.target.elected else None
        taken = {"nodes": sorted(resolve_nodes(action.target, lab.topology.nodes, elected=leader))}
        administration.refuse_excluded(lab)
        return Reversible(Move("votes.exclude", taken), Move("votes.include", taken))
    if isinstance(action, IncludeVotes):
        ours = next((each.move for each in earlier if each.move.operation == "votes.exclude"), None)
        if ours is None:
            raise FaultError("no vote that this run has taken away is still away: there is none to give back")
        return Reversible(Move("votes.include", ours.arguments), None)
    if isinstance(action, Reindex):
        copy = {"index": converted(index), "owner": administration.new_owner()}
        made_of = {"source": index, "settings": short_names(action.settings), "within_seconds": float(action.within)}
        return Reversible(Move("index.convert", {**copy, **made_of}), Move("index.forget", copy))
    if isinstance(action, Reroute | RetryFailed):
        return Reversible(Move("cluster.reroute", {"retry_failed": isinstance(action, RetryFailed)}), None)
    if isinstance(action, OnIndex):
        return _on_index(action, earlier)
    if isinstance(action, RemoteRestore):
        return Reversible(Move("remote_store.restore", {"indices": [index]}), None)
    if isinstance(action, Snapshot):
        return _taken(action, lab, index)
    if isinstance(action, Restore):
        return _back(action, lab, index)
    assert isinstance(action, Weights)
    before, _ = administration.certain(lab, lambda: administration.weights(lab))
    made = dict(action.weights)
    return Reversible(
        Move("zone.weights", {"zones": made}), Move("zone.weights.restore", {"made": made, "before": before})
    )


def _on_index(action: OnIndex, earlier: Sequence[Entry]) -> Reversible:
    """Raises FaultError for an index that this run has not made, or that is gone by now."""
    name = {"index": action.index}
    if isinstance(action, IndexCreate):
        settings = short_names(action.settings)
        owned = {**name, "owner": administration.new_owner()}
        return Reversible(Move("index.create", {**owned, "settings": settings}), Move("index.delete", owned))
    ours = next((each.move.arguments for each in earlier if _made(each, action.index)), None)
    if ours is None:
        raise FaultError(f"this run has no index {action.index} that it made: it is left as it is")
    owned = {**name, "owner": ours["owner"]}
    if isinstance(action, IndexDelete):
        return Reversible(Move("index.delete", owned), None)
    if isinstance(action, IndexClose):
        return Reversible(Move("index.close", owned), Move("index.open", owned))
    return Reversible(Move("index.open", owned), None)


def _made(entry: Entry, index: str) -> bool:
    return entry.move.operation == "index.create" and entry.move.arguments.get("index") == index


def _ended_by(action: ActionParams, entry: Entry) -> bool:
    """Whether an action takes back what a move that stands has made."""
    if entry.move.operation not in ENDS.get(type(action), ()):
        return False
    return not isinstance(action, OnIndex) or entry.move.arguments.get("index") == action.index


def _taken(action: Snapshot, lab: Lab, index: str) -> Reversible:
    """Raises FaultError where there is no service of ours to keep it."""
    name = action.service or next(iter(lab.topology.services), None)
    if name is None or not isinstance(lab, BaseLab):
        raise FaultError("there is no service of a lab that could keep a snapshot")
    kept = {"repository": repository(index, action.name), "snapshot": action.name}
    kind = services.kind(lab.topology.services[name])
    made_of = services.repository(lab.service(name), kind, f"snapshots/{kept['repository']}")
    if action.shallow:
        made_of["settings"]["remote_store_index_shallow_copy"] = True
    more = {"made_of": made_of, "index": index, "within_seconds": float(action.within)}
    return Reversible(Move("snapshot.take", kept | more), Move("snapshot.forget", kept))


def _back(action: Restore, lab: Lab, index: str) -> Reversible:
    """Raises LabError where the load's index cannot be asked for its mark, which its copy will have too."""
    copy = restored(index, action.name)
    origin = administration.certain(lab, lambda: administration.known_by(lab, index))
    made = {"repository": repository(index, action.name), "snapshot": action.name, "index": index, "copy": copy}
    dropped = {"copy": copy, "owner": None if origin is None else origin.owner}
    within = {"within_seconds": float(action.within)}
    return Reversible(Move("snapshot.restore", {**made, **within}), Move("snapshot.drop", dropped))


def _more(action: ActionParams, lab: Lab, index: str) -> str:
    """What is told of an action that came through."""
    if isinstance(action, Reindex):
        return reindexing.counted(lab, index, converted(index))
    if isinstance(action, Snapshot):
        had = snapshots.documents(lab, repository(index, action.name), action.name)
        return f"{index} showed {text.plural(had, 'document')} when it began"
    if isinstance(action, Restore):
        has = snapshots.count(lab, restored(index, action.name))
        return f"{restored(index, action.name)} has {text.plural(has, 'document')}"
    return "done"


def perform(id: str, action: ActionParams, lab: Lab, ledger: Ledger, events: Events, index: str = "") -> bool:
    """Carry an action out and say how it went. True when it came through. ``index``: the load's first."""
    ActionCommand(action=id, action_kind=action.kind, says=action.describe()).write(events)
    try:
        both = reversible(action, lab, ledger.standing(), index)
        (entry,) = ledger.intend(id, [both])
        try:
            seen = both.move.apply(lab)
        except ChaosError as error:
            if not is_open(error):
                ledger.answered([entry])
            raise
        ledger.answered([entry])
        more = _more(action, lab, index)
    except ChaosError as error:
        lacking = {"incomplete": True} if isinstance(error, snapshots.Incomplete) else {}
        ActionDone(action=id, ok=False, says=str(error), **lacking).write(events)
        return False
    for earlier in ledger.standing():
        now = replace(earlier, answered=not ledger.is_open(earlier))
        if _ended_by(action, earlier) and on_its_way(lab, now, seen) is None:
            ledger.note(earlier, "undone")
    if both.inverse is None:
        ledger.note(entry, "undone")
    ActionDone(action=id, ok=True, says=f"{action.describe()}: {more}").write(events)
    return True
