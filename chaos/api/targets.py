"""A target: a kind of labs, how they are made, and what a dead owner may have left of one.

``TargetKind`` is the base class of kinds, ``BaseLab`` of labs. ``Local`` is the kind of labs of this machine. Loading
this module must stay cheap, because every command does: a class of labs is imported where ``lab`` returns it, from
:mod:`chaos.api.labs`.
"""

from __future__ import annotations

from chaos.targets.kind import TargetKind
from chaos.targets.kinds.local import Local
from chaos.targets.labs.base import BaseLab

__all__ = ["BaseLab", "Local", "TargetKind"]
