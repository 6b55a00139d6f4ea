"""A folder that all nodes share: a store without a network, for where there is no plugin for S3."""

from __future__ import annotations

from typing import Any

from chaos.targets.services import Place


class Folder:
    says = "a folder of this machine that all nodes share"
    plugins = ()

    def lacking(self) -> None:
        return None

    def repository(self, place: Place, under: str = "") -> dict[str, Any]:
        return {"type": "fs", "location": str(place.folder / under)}

    def node_settings(self, place: Place) -> dict[str, Any]:
        return {"path.repo": [str(place.folder)]}

    def secrets(self) -> dict[str, str]:
        return {}

    def command(self, place: Place) -> tuple[str, ...]:
        return ()


KIND = Folder()
