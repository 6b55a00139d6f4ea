"""The labs of the target ``quiet``."""

from __future__ import annotations

from chaos.target.labs.local import LocalLab


class QuietLab(LocalLab):
    """A local lab whose kind is another."""

    kind = "quiet"
