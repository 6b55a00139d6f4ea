"""A target: labs of this machine like the local ones, under a name of the team's own."""

from __future__ import annotations

from chaos.api.targets import BaseLab, Local


class Quiet(Local):
    """Local labs that say who made them."""

    name = "quiet"
    says = "local labs of the example's team"

    def lab(self) -> type[BaseLab]:
        from oschaos_example.lab import QuietLab

        return QuietLab


TARGET = Quiet()
