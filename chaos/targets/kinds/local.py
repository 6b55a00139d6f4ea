"""Labs of processes in network namespaces of this machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from chaos.base.errors import InvalidInput
from chaos.definitions import Topology
from chaos.targets.kind import TargetKind
from chaos.targets.parts import Parts
from chaos.targets.protocol import NO_OWNERS

if TYPE_CHECKING:
    from chaos.targets.labs.base import BaseLab


class Local(TargetKind):
    """Processes of this machine; needs root."""

    name = "local"
    says = "processes in network namespaces of this machine (needs root)"
    never = frozenset(NO_OWNERS)
    services = True

    def lab(self) -> type[BaseLab]:
        from chaos.targets.labs.local import LocalLab

        return LocalLab

    def require(self) -> None:
        from chaos.targets.labs import network

        network.require_root()

    def refuse_home(self, home: Path | None) -> None:
        from chaos.provision import java, opensearch
        from chaos.provision.given import refuse_unusable

        if home is not None:
            refuse_unusable(home, "--opensearch-home")
        elif value := os.environ.get(opensearch.VARIABLE):
            refuse_unusable(Path(value), opensearch.VARIABLE)
        if (value := os.environ.get(java.VARIABLE)) and not (Path(value) / "bin" / "java").is_file():
            raise InvalidInput(
                f"{java.VARIABLE}={value} is no usable Java: it has no bin/java",
                remedy="name a JDK's home, or unset it",
            )

    def parts(self, topology: Topology, says: Callable[[str], None], *, opensearch_home: Path | None) -> Parts:
        from chaos.targets.labs import provisioning

        return provisioning.parts(topology, says, opensearch_home=opensearch_home)


TARGET = Local()
