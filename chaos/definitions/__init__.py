"""Experiments and topologies: their models, their units, and loading them with located errors.

Everything depends on this package. What needs to know the kinds of fault is loaded when it is first asked for, because
the catalogue of faults is built on the rest of this package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from chaos.base.units import Duration, Frequency, Percent, Rate, Size, SizeRate
from chaos.definitions.actions import ACTIONS, ActionParams, Decommission, Recommission, Weights
from chaos.definitions.expectations import METRICS, Expectation
from chaos.definitions.selectors import (
    HostSelector,
    LinkSelector,
    NodeSelector,
    client_host,
    resolve_hosts,
    resolve_links,
    resolve_nodes,
)
from chaos.definitions.steps import FaultParams, NetworkFault, NodeFault, Scene
from chaos.definitions.topology import NodeSpec, Settings, Topology

if TYPE_CHECKING:
    from chaos.definitions.experiment import Client, Experiment, Guards, Load, Operation, Phase, Until
    from chaos.definitions.faults import FAULTS
    from chaos.definitions.loading import load_experiment, load_topology

_LATER = {
    **dict.fromkeys(("Client", "Experiment", "Guards", "Load", "Operation", "Phase", "Until"), "experiment"),
    "FAULTS": "faults",
    **dict.fromkeys(("load_experiment", "load_topology"), "loading"),
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)


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
    "Frequency",
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
    "Scene",
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
