"""Searches that differ in literals alone are one search, and the more often they were sent the more it weighs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from chaos.load.importing import bodies
from chaos.load.importing.rows import Brought, Search

MOST_SHAPES = 30
KEPT = 1000
"""Bodies of a shape that are kept: of more, literals are no better known."""


class Shapes:
    """Searches by their shape."""

    def __init__(self) -> None:
        self._groups: dict[str, Search] = {}

    def __bool__(self) -> bool:
        return bool(self._groups)

    def add(self, body: dict[str, Any], at: datetime | None = None, weight: float = 1.0) -> None:
        """One search; ``weight``: as so many."""
        group = self._groups.setdefault(bodies.shape(body), Search(bodies.name_of(body), [], 0.0))
        group.weight += weight
        if len(group.bodies) < KEPT:
            group.bodies.append(body)
            group.at.append(at)

    def into(self, brought: Brought) -> None:
        """Adds the most frequent ones to what was brought."""
        ordered = sorted(self._groups.values(), key=lambda each: -each.weight)
        for each in ordered[MOST_SHAPES:]:
            brought.add("search", each.name, "left out", f"only the {MOST_SHAPES} most frequent shapes are taken")
        brought.searches += ordered[:MOST_SHAPES]
