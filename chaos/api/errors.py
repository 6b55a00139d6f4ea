"""Errors, each with a message in one sentence and a remedy. What else is raised counts as a mistake in the package."""

from __future__ import annotations

from chaos.base.errors import ChaosError, FaultError, InvalidInput, LabError, MissingPrerequisite, Unanswered

__all__ = ["ChaosError", "FaultError", "InvalidInput", "LabError", "MissingPrerequisite", "Unanswered"]
