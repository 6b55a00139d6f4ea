"""Every kind of fault that a definition can name, from the catalogue."""

from __future__ import annotations

from chaos.definitions.steps import FaultParams
from chaos.faults.kinds import discover

FAULTS: dict[str, type[FaultParams]] = discover()
