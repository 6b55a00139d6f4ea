"""Experiments and topologies: their models, their units, and loading them with located errors.

Which kinds of fault a file may name, a :class:`.grammar.Grammar` says; :mod:`chaos.registry` has the one of ours.
"""

from chaos.base.units import Duration, Frequency, Percent, Rate, Size, SizeRate
from chaos.definitions.actions import (
    ACTIONS,
    ActionParams,
    Decommission,
    ExcludeVotes,
    IncludeVotes,
    Recommission,
    Reindex,
    RemoteRestore,
    Restore,
    Snapshot,
    Weights,
)
from chaos.definitions.expectations import Expectation, Metric
from chaos.definitions.experiment import Client, Experiment, Guards, Load, Operation, Phase, Until
from chaos.definitions.loading import load_topology
from chaos.definitions.selectors import (
    HostSelector,
    LinkSelector,
    NodeSelector,
    client_host,
    resolve_hosts,
    resolve_links,
    resolve_nodes,
)
from chaos.definitions.steps import FaultParams, Scene
from chaos.definitions.topology import NodeSpec, Settings, Topology

__all__ = [
    "ACTIONS",
    "ActionParams",
    "Client",
    "Decommission",
    "Duration",
    "ExcludeVotes",
    "Expectation",
    "Experiment",
    "FaultParams",
    "Frequency",
    "Guards",
    "HostSelector",
    "IncludeVotes",
    "LinkSelector",
    "Load",
    "Metric",
    "NodeSelector",
    "NodeSpec",
    "Operation",
    "Percent",
    "Phase",
    "Rate",
    "Recommission",
    "Reindex",
    "RemoteRestore",
    "Restore",
    "Scene",
    "Settings",
    "Size",
    "SizeRate",
    "Snapshot",
    "Topology",
    "Until",
    "Weights",
    "client_host",
    "load_topology",
    "resolve_hosts",
    "resolve_links",
    "resolve_nodes",
]
