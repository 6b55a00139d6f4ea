"""Proof that a lab is as its topology says: what a lab must show before another run may use it."""

from __future__ import annotations

from chaos.errors import ChaosError
from chaos.lab import network
from chaos.lab.local import LocalLab
from chaos.lab.toxiproxy import ToxiproxyServer
from chaos.observe import administration
from chaos.observe.cluster import await_green

GREEN_SECONDS = 20.0


def problems(lab: LocalLab) -> list[str]:
    """Everything that is not as it was when the lab had just come up; empty: clean and green."""
    found = []
    for node in lab.topology.nodes:
        state = lab.process_state(node.name)
        if state is None or state in ("T", "t"):
            found.append(f"node {node.name} {'is gone' if state is None else 'is stopped'}")
        if limits := lab.limited(node.name):
            found.append(f"node {node.name} is limited: {', '.join(f'{k} {v}' for k, v in limits.items())}")
    for host in lab.wiring.hosts:
        try:
            for name, proxy in ToxiproxyServer(host).proxies().items():
                if not proxy["enabled"] or proxy["toxics"]:
                    found.append(f"proxy {name} of {host.name} is {'toxic' if proxy['toxics'] else 'off'}")
            for peer in lab.wiring.hosts:
                if peer != host and network.neighbour(host, peer) != peer.mac:
                    found.append(f"packets {host.name} → {peer.name} go nowhere")
        except ChaosError as error:
            found.append(str(error))
    if found:
        return found
    try:
        green, _ = await_green(lab, GREEN_SECONDS)
        if not green:
            return ["the cluster is not green"]
        weights, _ = administration.weights(lab)
        if weights != lab.topology.weights:
            found.append(f"the zones' weights are {weights}, not {lab.topology.weights}")
        if lab.topology.awareness() and (gone := administration.decommission_status(lab)):
            found.append(f"decommissioned: {gone}")
    except ChaosError as error:
        found.append(str(error))
    return found
