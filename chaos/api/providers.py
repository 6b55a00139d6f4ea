"""A provider: it carries kinds of fault out by one means.

``operation`` declares a primitive change, or what takes one back; ``Move`` is one of them with its arguments, as data;
``Reversible`` is a move with its inverse; ``Means`` are all of a fault's. ``Grade`` says how sure a proof is.
``administer`` sends a request to the cluster.
"""

from __future__ import annotations

from chaos.faults.fault import Grade
from chaos.faults.moves import Move, Reversible, operation
from chaos.faults.offers import Aim, Means, Provider
from chaos.opensearch.views import administer
from chaos.targets.protocol import CAPABILITIES, Lab

__all__ = ["CAPABILITIES", "Aim", "Grade", "Lab", "Means", "Move", "Provider", "Reversible", "administer", "operation"]
