"""The labs of the target ``quiet``."""

from __future__ import annotations

from chaos.api.labs import LocalLab


class QuietLab(LocalLab):
    """A local lab whose kind is another."""

    kind = "quiet"
