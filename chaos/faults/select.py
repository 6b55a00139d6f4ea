"""From a definition's fault to a ready one: selectors resolved at this moment, with the seed's draw."""

from __future__ import annotations

import random

from chaos.definitions import resolve_links, resolve_nodes
from chaos.definitions.faults import FaultParams, NetworkFault, NodeFault
from chaos.faults import network, node
from chaos.faults.fault import Fault
from chaos.lab.protocol import Lab


def ready(id: str, params: FaultParams, lab: Lab, *, seed: int, elected: str | None) -> Fault:
    """Resolve targets or links now. The draw depends on the seed and the fault's id only.

    Raises InvalidInput when nothing matches, FaultError when the elected manager is asked for and there is none.
    """
    rng = random.Random(f"{seed}:{id}")
    if isinstance(params, NetworkFault):
        links = resolve_links(params.links, lab.topology.nodes, lab.topology.zones, elected=elected, rng=rng)
        return network.build(id, params, links, lab.wiring)
    assert isinstance(params, NodeFault)
    return node.build(id, params, resolve_nodes(params.target, lab.topology.nodes, elected=elected, rng=rng))
