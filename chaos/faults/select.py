"""From a definition's fault to a ready one: selectors resolved at this moment, with the seed's draw."""

from __future__ import annotations

from chaos.definitions.steps import LOAD_INDEX, FaultParams, Scene
from chaos.faults.fault import Fault
from chaos.faults.kind import built
from chaos.faults.offers import Offers
from chaos.targets.protocol import Lab


def ready(
    id: str,
    params: FaultParams,
    lab: Lab,
    offers: Offers,
    *,
    seed: int,
    elected: str | None,
    index: str = LOAD_INDEX,
) -> Fault:
    """Resolve targets or links now. The draw depends on the seed and the fault's id only. ``index``: the load's.

    Raises InvalidInput when nothing matches, Lacking when nobody can carry it out here, FaultError when the elected
    manager is asked for and there is none.
    """
    return built(params, id, Scene.of(lab.topology, seed, id, elected, index), lab.wiring, offers.chosen(params.kind))
