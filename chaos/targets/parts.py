"""The provisioned parts that a lab runs on, as written down in its manifest, and a node's command line."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from chaos.base.errors import LabError
from chaos.definitions import NodeSpec


@dataclass(frozen=True)
class Parts:
    """Paths and versions; enough to start a node again from another process (recovery restarts nodes)."""

    home: str
    opensearch_version: str
    opensearch_source: str
    classpath: str
    java: str
    java_version: str
    java_flags: tuple[str, ...]
    agent: str | None
    toxiproxy: str
    toxiproxy_version: str
    notes: tuple[str, ...] = ()
    """How distribution and runtime differ from the official ones."""
    mitmproxy: str | None = None
    """The folder with it; None where no request passes one."""
    security: bool = False
    """Whether the security plugin is known to be in it, so that the settings have to switch it off where it is not
    asked for; official images do that themselves."""
    others: tuple[Parts, ...] = ()
    """The same for every other version that nodes of this lab may run."""

    def of(self, version: str) -> Parts:
        """What a node of that version is made of. Raises LabError when the lab was made without it."""
        for each in (self, *self.others):
            if each.opensearch_version == version:
                return each
        raise LabError(f"this lab was made without OpenSearch {version}")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Parts:
        others = tuple(cls.from_json(each) for each in data.get("others", ()))
        given = {"java_flags": tuple(data["java_flags"]), "notes": tuple(data["notes"]), "others": others}
        return cls(**{**data, **given})

    def command(self, node: NodeSpec, config: Path, scratch: Path) -> list[str]:
        """The node's command line. ``scratch`` is its temporary folder."""
        heap = node.heap // 1024
        agent = [f"-javaagent:{self.agent}"] if self.agent else []
        return [
            self.java,
            f"-Xms{heap}k",
            f"-Xmx{heap}k",
            *self.java_flags,
            *agent,
            f"-Dopensearch.path.home={self.home}",
            f"-Dopensearch.path.conf={config}",
            "-Dopensearch.distribution.type=tar",
            f"-Djava.io.tmpdir={scratch}",
            f"-XX:ErrorFile={scratch}/hs_err.log",
            "-cp",
            self.classpath,
            "org.opensearch.bootstrap.OpenSearch",
        ]
