"""Experiments and topologies: their models, their units, and loading them with located errors.

Everything depends on this package; it depends on nothing of ours but the error taxonomy.
"""

from chaos.definitions.actions import ACTIONS, ActionParams, Decommission, Recommission, Weights
from chaos.definitions.expectations import METRICS, Expectation
from chaos.definitions.experiment import Client, Experiment, Guards, Load, Operation, Phase, Until
from chaos.definitions.faults import FAULTS, FaultParams, NetworkFault, NodeFault
from chaos.definitions.loading import load_experiment, load_topology
from chaos.definitions.selectors import (
    HostSelector,
    LinkSelector,
    NodeSelector,
    client_host,
    resolve_hosts,
    resolve_links,
    resolve_nodes,
)
from chaos.definitions.topology import NodeSpec, Settings, Topology
from chaos.definitions.units import Duration, Percent, Rate, Size, SizeRate

__all__ = [
    "ACTIONS",
    "FAULTS",
    "METRICS",
    "ActionParams",
    "Client",
    "Decommission",
    "Duration",
    "Expectation",
    "Experiment",
    "FaultParams",
    "Guards",
    "HostSelector",
    "LinkSelector",
    "Load",
    "NetworkFault",
    "NodeFault",
    "NodeSelector",
    "NodeSpec",
    "Operation",
    "Percent",
    "Phase",
    "Rate",
    "Recommission",
    "Settings",
    "Size",
    "SizeRate",
    "Topology",
    "Until",
    "Weights",
    "client_host",
    "load_experiment",
    "load_topology",
    "resolve_hosts",
    "resolve_links",
    "resolve_nodes",
]
