"""Actions: an operator's or controller's moves that are no faults, with their inverse in the ledger all the same.

A run that dies between decommission and recommission must not leave a zone out of a cluster that is to live on.
"""

from __future__ import annotations

from chaos.base.errors import ChaosError
from chaos.definitions.actions import ActionParams, Decommission, Recommission, Weights
from chaos.faults.ledger import Ledger, standing
from chaos.faults.moves import Events, Move, Reversible
from chaos.opensearch import administration
from chaos.target.protocol import Lab


def reversible(action: ActionParams, lab: Lab) -> Reversible:
    """The action's move and what takes it back; asks the cluster for the weights that hold now."""
    if isinstance(action, Decommission):
        arguments: dict[str, object] = {"zone": action.zone, "no_delay": action.no_delay}
        if action.delay_timeout is not None:
            arguments["delay_seconds"] = float(action.delay_timeout)
        return Reversible(Move("zone.decommission", arguments), Move("zone.recommission", {"zone": action.zone}))
    if isinstance(action, Recommission):
        return Reversible(Move("zone.recommission", {"zone": action.zone}), None)
    assert isinstance(action, Weights)
    before, _ = administration.weights(lab)
    made = dict(action.weights)
    return Reversible(
        Move("zone.weights", {"zones": made}), Move("zone.weights.restore", {"made": made, "before": before})
    )


def perform(id: str, action: ActionParams, lab: Lab, ledger: Ledger, events: Events) -> bool:
    """Carry an action out and say how it went. True when it came through."""
    events.write("action.command", action=id, action_kind=action.kind, says=action.describe())
    try:
        both = reversible(action, lab)
        (entry,) = ledger.intend(id, [both])
        both.move.apply(lab)
    except ChaosError as error:
        events.write("action.done", action=id, ok=False, says=str(error))
        return False
    if isinstance(action, Recommission):
        for earlier in standing(ledger.path):
            if earlier.move.operation in ("zone.decommission", "zone.recommission"):
                ledger.note(earlier, "undone")
    elif both.inverse is None:
        ledger.note(entry, "undone")
    events.write("action.done", action=id, ok=True, says=f"{action.describe()}: done")
    return True
