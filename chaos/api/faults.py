"""A kind of fault: what shall happen, to whom, and what must then be seen. It knows no mechanism.

``Kind`` is the base class; ``NodeFault`` and ``NetworkFault`` are those of kinds that hit nodes or links. ``Scene`` is
the experiment around it, ``Wiring`` who is connected to whom, ``Aim`` whom it hits, ``Evidence`` (``Simple``) how it is
proven, by looks that are made of probes. ``Lab`` is the cluster. ``UNREADABLE`` are the exceptions that an answer of
another shape than expected ends in.
"""

from __future__ import annotations

from chaos.definitions.steps import Scene
from chaos.faults.evidence import Evidence, Look, Probe, Simple
from chaos.faults.kind import Kind, NetworkFault, NodeFault
from chaos.faults.offers import Aim, Means
from chaos.opensearch.rest import UNREADABLE
from chaos.targets.protocol import Lab
from chaos.targets.wiring import Wiring

__all__ = [
    "UNREADABLE",
    "Aim",
    "Evidence",
    "Kind",
    "Lab",
    "Look",
    "Means",
    "NetworkFault",
    "NodeFault",
    "Probe",
    "Scene",
    "Simple",
    "Wiring",
]
