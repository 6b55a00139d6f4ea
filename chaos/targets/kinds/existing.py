"""Clusters that somebody else set up. They are named by their files, and none is ever made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from chaos.base.errors import InvalidInput
from chaos.definitions import Topology
from chaos.targets.existing import offered
from chaos.targets.kind import TargetKind
from chaos.targets.parts import Parts

if TYPE_CHECKING:
    from chaos.targets.labs.base import BaseLab


class Existing(TargetKind):
    """Reached by REST; nothing of it is on this machine."""

    name = "existing"
    says = "clusters that exist, by their files"
    shares_processors = False
    keeps_data = False
    order = offered.ORDER
    accepts = ("effect",)  # of hooks nobody but the neighbours can tell
    made = False
    refused = offered.NOT_YET
    never = offered.NEVER

    def lab(self) -> type[BaseLab]:
        from chaos.targets.existing.target import ExistingTarget

        return ExistingTarget

    def require(self) -> None:
        self._none()

    def refuse_home(self, home: Path | None) -> None:
        self._none()

    def parts(self, topology: Topology, says: Callable[[str], None], *, opensearch_home: Path | None) -> Parts:
        self._none()

    def _none(self) -> NoReturn:
        raise InvalidInput(
            "a cluster that exists is not made", remedy="name its file: --on topologies/existing/NAME.yaml"
        )


TARGET = Existing()
