"""A workload: what the load's documents are, how they are asked for, and what the read-back may expect of them.

Ids are the load's own: ``write_id`` and ``preload_id`` make them, ``number_of`` and ``is_key`` read them.
"""

from __future__ import annotations

from chaos.base.ids import is_key, number_of, preload_id, write_id
from chaos.base.operations import OperationKind
from chaos.load.workload import Request, Requests, Workload

__all__ = [
    "OperationKind",
    "Request",
    "Requests",
    "Workload",
    "is_key",
    "number_of",
    "preload_id",
    "write_id",
]
