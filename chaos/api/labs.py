"""The classes of labs: import this in :meth:`chaos.api.targets.TargetKind.lab`, and not before."""

from __future__ import annotations

from chaos.targets.labs.local import LocalLab

__all__ = ["LocalLab"]
