"""A folder that all nodes share: a store without a network, for where there is no plugin for S3.

``reloadable-fs`` is the same folder as a repository of the type of that name, of which 3.8.0 takes changed settings
while nodes run (``repositories.slowdown``, ``repositories.fail.rate``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from chaos.targets.services import Place


@dataclass(frozen=True)
class Folder:
    type: str
    """Of the repository, as OpenSearch names it."""
    says: str = "a folder of this machine that all nodes share"
    plugins: tuple[str, ...] = ()

    def lacking(self) -> None:
        return None

    def repository(self, place: Place, under: str = "") -> dict[str, Any]:
        return {"type": self.type, "location": str(place.folder / under)}

    def node_settings(self, place: Place) -> dict[str, Any]:
        return {"path.repo": [str(place.folder)]}

    def secrets(self) -> dict[str, str]:
        return {}

    def command(self, place: Place) -> tuple[str, ...]:
        return ()


KIND = Folder("fs")
