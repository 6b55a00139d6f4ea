"""From a definition's fault to a ready one: selectors resolved at this moment, with the seed's draw."""

from __future__ import annotations

from chaos.definitions.steps import FaultParams, Scene
from chaos.faults.fault import Fault
from chaos.lab.protocol import Lab


def ready(id: str, params: FaultParams, lab: Lab, *, seed: int, elected: str | None) -> Fault:
    """Resolve targets or links now. The draw depends on the seed and the fault's id only.

    Raises InvalidInput when nothing matches, FaultError when the elected manager is asked for and there is none.
    """
    return params.on(params.build(id, Scene.of(lab.topology, seed, id, elected), lab.wiring), lab)
